// DFA states with other counts: how far a mask may ignore a counter, and the states that further counting leads to.
//
// Registers make a state for each count: [0-9]{2,1000} has a thousand. Most of them do the same with every token, because no token is long
// enough to reach a bound. In masks they are one state, whose counts are replaced:
//
//   count        0 ... 1   2 ............ 989   990 ... 1000          {2,1000}, tokens of at most 8 bytes
//   stands for   itself    COUNT_FREE           itself
//
// COUNT_DEEP stands for counts far below the minimum. A replacement takes time linear in the items of the state.
//
// Tested by tests/pda/kernel/test_class_loops.py, near the bounds.
#pragma once

#include "rules/rule_dfa.h"

namespace stackmask {

class Counters {
 public:
  Counters(RuleDfa& dfa, u32 longest_token) : dfa_(dfa), nfa_(dfa.nfa()), longest_token_(longest_token) {}

  // Counts that no token, or no text of that many bytes, can exhaust are replaced by COUNT_DEEP and COUNT_FREE.
  StateId saturated(StateId state) { return dfa_[state].counts ? remembered(state) : state; }
  StateId saturated(StateId state, u32 bytes);
  StateId advanced(StateId state, u32 count);                     // the state with `count` more counted
  // The state far from its bounds, and how many characters an automaton in it may still need.
  std::pair<StateId, u32> with_free_counts(StateId state);
  // The state without the bounds of its counted automaton: the state itself if it is in none, DEAD if the bounds cannot be dropped.
  struct Released {
    StateId state = DEAD;
    u32 left = NONE;           // characters up to the maximum, NONE for no bound
    bool below_minimum = false;  // the automaton cannot be left yet, but the released state can leave it
  };
  Released without_bounds(StateId state);
  std::pair<u32, u32> settled(StateId state) const;  // the range of NfaState::settled in it: characters that an automaton still needs
  // Whether `next`, the successor of a state under some classes, differs from it only by a count that is one higher. The same holds for
  // the successors of `next`: `more` is set to the number of such steps from `state`.
  bool differs_by_count(StateId state, StateId next, u64 inside, u32* more) const;
  bool in_repetition(StateId state) const;  // of something other than an automaton's characters
  void clear() { saturated_ = {}; }
  std::size_t bytes() const { return saturated_.capacity() * sizeof(u32); }

 private:
  RuleDfa& dfa_;
  Nfa& nfa_;
  u32 longest_token_;
  std::vector<StateId> saturated_;  // by state, NONE until computed
  StateId remembered(StateId state);
  // The state after change(item, nfa_state, head, register) for each item in a body; items for which it returns false are removed.
  template <class F>
  StateId recounted(StateId state, F change);
};

}  // namespace stackmask
