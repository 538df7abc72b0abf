// The DFAs that AUTOMATON expressions hold as their arguments.
#pragma once

#include "rules/nfa.h"

namespace stackmask {

// The transitions of a DFA's state whose arguments begin `at`, by target: parallel ranges are lowered together. Where the next begin.
struct ByTarget {
  struct Group {
    u32 target, begin, end;  // its ranges lie there
  };
  std::vector<Group> groups;
  std::vector<i32> ranges;  // lowest and highest code point, by turns
};
std::size_t by_target(const Expressions& expressions, u32 node, std::size_t at, ByTarget& result);

// Whether an AUTOMATON bounds the lengths of its texts, so that their characters are counted.
inline bool counts_characters(const Expressions& expressions, u32 node) {
  return expressions.arg(node, 2) > 0 || expressions.arg(node, 3) >= 0;
}

inline bool only_surrogates(i32 lo, i32 hi) { return lo >= 0xD800 && hi <= 0xDFFF; }  // which have no UTF-8

// From each state of a DFA the least number of characters to an accepting one (NONE where there is none), and if asked for the largest
// (NONE where there is no largest).
void automaton_lengths(const Expressions& expressions, u32 node, std::vector<u32>& least, std::vector<u32>* most);

}  // namespace stackmask
