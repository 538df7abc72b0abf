// Characters of a state, by where they lead: the edges of CHARS, and of each state of an AUTOMATON.
//
// Few ranges are spelled as bytes at once. A large class of characters is thousands of states, and a text comes to few of them: such
// classes are determinized together (minterms.h), and a node of that DFA becomes a state of the NFA when a text comes there. A reading is
// one use of such a DFA: the states for its classes.
//
// A state takes time linear in its ranges, and a node in its edges; Minterms says what the first of equal classes takes.
#pragma once

#include "grammar/minterms.h"
#include "grammar/lowering/nfa_writer.h"

namespace stackmask {

class CharacterWriter final : private ExpressionWriter {
 public:
  CharacterWriter(NfaWriter& out, const Thresholds& thresholds) : ExpressionWriter(out), spelled_ranges_(thresholds.spelled_ranges) {}

  // The states of the NFA for the targets of characters.
  struct Targets {
    NfaStateId first;
    u32 step;
    NfaStateId operator[](u32 target) const { return NfaStateId(first + step * target); }
  };
  ByTarget characters;  // that write() takes; the caller fills it
  void write(const Task& task, NfaStateId source, i32 encoding, Targets targets);
  // A CHARS.
  void write_class(const Task& task);
  // A piece: a node of minterms.
  void write_node(const Task& task, const Piece& piece) { write_node(task, task.from, piece.first, piece.last); }

  struct Sizes {
    std::size_t readings, targets;
  };
  Sizes sizes() const { return {readings_.size(), targets_.size()}; }
  void restore(const Sizes& before) {
    readings_.resize(before.readings);
    targets_.resize(before.targets);
    inside_.clear();
  }
  std::size_t bytes() const {
    return minterms_.bytes() + readings_.capacity() * sizeof(Reading) + targets_.capacity() * sizeof(NfaStateId) + inside_.bytes();
  }

 private:
  struct Reading {
    Place place;  // of the states inside of characters
    u32 targets;  // each of the classes leads to targets_[targets + class]
  };
  // The last bytes of characters that a node reads, as Spelling::tail() takes them; of kind 0 if it reads others.
  struct Tail {
    i32 kind, lo, hi;
  };
  u32 spelled_ranges_;
  Minterms minterms_;
  std::vector<Reading> readings_;
  std::vector<NfaStateId> targets_;
  FlatMap inside_;  // the state for a node: by the reading and the node, or by the target where only one may follow

  std::pair<u32, u32> may_count(NfaStateId state) const { return {nfa().counting(state).least, nfa().counting(state).most}; }
  u32 root(i32 encoding) { return minterms_.root(characters, encoding, nfa().work, out_.deadline()); }
  void read(const Task& task, NfaStateId source, i32 encoding, Targets targets);
  void begin_reading(const Task& task, NfaStateId source, u32 root, Targets targets);
  bool leaves_gap(u32 root, Targets targets) const;
  void write_node(const Task& task, NfaStateId source, u32 reading, u32 node);
  NfaStateId inside_character(const Task& task, u32 reading, u32 node);
  Tail tail_of(u32 node) const;
};

}  // namespace stackmask
