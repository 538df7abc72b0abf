// Whether a value that must be new still can be new: a stack whose guards have seen all values that may follow leads nowhere.
//
//   {true, true, ...} of booleans       [true, false,      no value is left: the stack that begins a third is dropped
//
// Every stack that a step makes is asked, so the cheap answers come first: no guard, nothing seen, strings of any length ahead, more texts
// than values; then counts of texts; then a search, depth first. It looks one value ahead. Where several values take from each other,
// schemas count them.
//
// Tested by tests/pda/test_engine_distinct.py and test_engine_new_values.py.
#pragma once

#include "stacks/seen_spellings.h"

namespace stackmask {

class NewValues {
 public:
  NewValues(RuleDfa& dfa, TextCounts& counts, StackSet& stacks, SeenSpellings& spellings, Statistics& statistics)
      : dfa_(dfa), counts_(counts), stacks_(stacks), spellings_(spellings), statistics_(statistics) {}

  bool has_new_value(const StackEdge& edge);  // a value can still be read that the guards below have not seen
  // More texts can follow in a rule below, up to the nearest guard, than there are values: whatever ends above, new values are left.
  bool callers_have_more(StackId node, u32 values);
  // A guard is on top, alone, and those below it let every value pass: they have seen none, or more texts follow than they have seen.
  bool others_pass(StackId node);
  bool scope_can_finish(StateId state);       // its rule can end without a value that its scope has seen
  // The number of values that the guards on these stacks have seen, and with `scopes` also the scopes; at most `limit`.
  u32 guard_values(StackId node, u32 limit, bool scopes = false);
  void clear() {
    has_new_value_.clear(), scope_can_finish_.clear(), needs_blanks_.clear(), chains_.clear();
    completions_.clear(), completion_bytes_ = 0;
  }
  std::size_t bytes() const {
    return has_new_value_.bytes() + scope_can_finish_.bytes() + needs_blanks_.bytes() + chains_.bytes() +
           completions_.capacity() * sizeof(std::string) + completion_bytes_;
  }

 private:
  RuleDfa& dfa_;
  TextCounts& counts_;
  StackSet& stacks_;
  SeenSpellings& spellings_;
  Statistics& statistics_;
  FlatMap has_new_value_;      // by edge
  FlatMap scope_can_finish_;   // by state
  FlatMap needs_blanks_;       // by state
  // Bytes that completed a value above some states, up to a guard: what completes the value is seldom another for the next text above
  // the same states, so it is tried before a search.
  Interner chains_;                       // of states
  std::vector<std::string> completions_;  // by chain
  std::size_t completion_bytes_ = 0;
  u32 nearest_text(StackId node);  // that the nearest guard waits for
  bool is_zero(u32 text) const;
  bool needs_blanks(StateId state);
  u32 chain(const StackEdge& edge, StackId& guard);
  bool is_completed_anew(u32 chain, StackId node);
  bool repeats_value(StateId state, u32 text, u8 byte);
  bool finds_new_value(const StackEdge& edge, u32 values, bool blanks, bool& skipped, std::string& completion);
};

}  // namespace stackmask
