// The tasks of lowering: an expression, or a piece of one, whose edges lead from one state to another.
//
// A task that begins at the state which a closure has come to is done at once; others wait at the states where they begin.
#pragma once

#include "rules/nfa.h"

namespace stackmask {

struct Task {
  u32 node;
  NfaStateId from, to;
  u32 body, member;    // the counted body it lies in
  u32 origin;
  bool whole = false;  // the whole of a rule, which is not made a rule again
  u32 piece = NONE;    // a part of the node alone: an index into the pieces
  bool in_body() const { return body != NONE; }
};

// A part of a node that is lowered by itself, when a text comes to where it begins. The fields mean:
//
//                        first, last                        depth            state
//   AUTOMATON            its arguments begin at `first`     0                the first state of the DFA
//   ... that counts      the same                           IN_COUNTED       the first of those where characters end, two apart
//   CHARS, AUTOMATON     a reading and a node of minterms   IN_CHARACTER     -
//   SEQ                  its parts [first, last)            rows around it   -
//   ALT                  the words [first, last)            the bytes they   -
//   EXCEPT               its words [first, last)            share            of every text that has left the words
struct Piece {
  u32 first, last, depth;
  NfaStateId state;
};
constexpr u32 IN_CHARACTER = NONE, IN_COUNTED = NONE - 1;

// Where a new state belongs besides its rule: the counted body it lies in and the member of it, where it was written, and how many
// characters may still be counted from it.
struct Place {
  u32 body = NONE, member = NONE, origin = 0;
  u32 least = 0, most = NONE;
  bool inside_character = false;
};

}  // namespace stackmask
