// How many texts lead from a DFA state to where its rule ends: lower bounds, exact counts, and whether there is any bound.
//
// A value that must be new can be ruled out only if few texts are left for it. There are three answers, the cheap ones first:
//
//   has_unbounded_strings   the characters of a string repeat somewhere ahead, by the NFA   a search a rule, or some states ahead
//   min_text_count          a lower bound, by looking at some states ahead                   at most 48 states
//   text_count              the exact number, counted from the ends                          at most 4,096 states; UNKNOWN_COUNT beyond
//
//   "(a|b|c)   from the quote on:  min_text_count 3, text_count 3;   "[a-z]*"  has_unbounded_strings
//
// Tested by tests/pda/test_engine_distinct.py.
#pragma once

#include <optional>

#include "rules/rule_dfa.h"
#include "vocabulary/trie.h"

namespace stackmask {

constexpr u32 UNKNOWN_COUNT = NONE - 1;  // of text_count()
constexpr u32 UNBOUNDED = 1'000'000;  // of min_text_count()

class TextCounts {
 public:
  static constexpr std::size_t LOOK_AHEAD = 48;  // states
  static constexpr std::size_t SCOPE_LOOK_AHEAD = 512;  // asked once a rule
  TextCounts(RuleDfa& dfa, const TokenTrie& trie)
      : dfa_(dfa), nfa_(dfa.nfa()), longest_token_(trie.max_token_bytes()), searched_states_(trie.thresholds().searched_states) {}

  u32 min_text_count(StateId state, std::size_t look = LOOK_AHEAD);
  u32 text_count(StateId state);  // UNKNOWN_COUNT if they are very many, or if rules are called
  bool has_unbounded_strings(StateId state);
  // Whether this number of texts from a state on (DEAD if the state is unknown) surely spells more than this number of values.
  bool surely_more(u32 texts, u32 values, StateId state = DEAD) const;
  // Whether more texts surely lead from a state to the end of its rule than spell this number of values.
  bool has_more(StateId state, u32 values) { return has_unbounded_strings(state) || surely_more(min_text_count(state), values, state); }
  // Whether a token may leave a state of a scope without a new value.
  bool scope_may_run_out(StateId state) {
    if (!nfa_.any_distinct || !dfa_.in_scope(state)) return false;  // PERF: asked of every edge of a step
    return scope_may_run_out(dfa_.rule(state), state);
  }
  void clear() { min_counts_ = {}, counts_ = {}; }
  std::size_t bytes() const {
    return (min_counts_.capacity() + counts_.capacity() + places_.capacity()) * sizeof(u32) + unbounded_.capacity() +
           unbounded_known_.capacity();
  }

 private:
  RuleDfa& dfa_;
  Nfa& nfa_;
  u32 longest_token_;
  u32 deep_ = 0;  // of values in values that are counted
  u32 searched_states_;  // a threshold
  std::vector<u32> min_counts_, counts_;  // by state, NONE until computed
  static constexpr u64 SPELLINGS = 64;  // of a value, at most, where escapes and orders make none
  enum Known : u8 { UNSEEN, LARGE, KNOWN };
  std::vector<u8> unbounded_;  // by NFA state: 1 if a string repeats ahead; 2 if none does, in large rules
  std::vector<u32> places_;  // by NFA state: its place in the last list that it was in
  std::vector<u8> unbounded_known_;  // by rule: unbounded_ holds its states
  std::vector<u32> scope_text_counts_;  // by rule: a lower bound on the values that may stand in its scope, or UNBOUNDED
  void find_unbounded_strings(RuleId rule, bool any_size);
  std::optional<bool> look_for_unbounded_string(NfaStateId from);
  enum Beginning : u8 { ITEM, COMMA, OTHER };
  Beginning beginning(StateId start);
  bool repeats_letters(NfaStateId state) const;
  bool permutes(StateId state) const;
  bool scope_may_run_out(RuleId rule, StateId state);
  u32 value_texts(StateId start);
  u32 spare_texts(StateId state, StateId start);
  bool calls_endless(NfaStateId state) const;  // the expressions say that a called rule has infinitely many values
  template <class F>
  void each_next(NfaStateId state, F take) const;
  u32& at(std::vector<u32>& counts, StateId state) {
    if (counts.size() <= state) counts.resize(dfa_.size(), NONE);
    return counts[state];
  }
};

}  // namespace stackmask
