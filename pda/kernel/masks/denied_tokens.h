// Tokens that a mask loses again after it was composed as if guards let everything pass: those that complete a value which was seen, or
// leave only such values.
//
//   refuted      nodes of the trie below which no token is allowed: all values left there were seen
//   unverified   nodes below which some tokens may be refused: these are tried one by one
//   denied       the tokens that result
//
//   ["ab", "        seen "ab"; node b behind a is refuted if the string may only end there; it is unverified where a caller might read
//                   the same text otherwise, or a value may go on
//
// Few tokens are tried: none where a string without an end of values can still follow.
//
// Tested by tests/pda/test_engine_distinct.py.
#pragma once

#include "masks/node_lists.h"
#include "stacks/step.h"

namespace stackmask {

class DeniedTokens {
 public:
  DeniedTokens(const TokenTrie& trie, RuleDfa& dfa, StackSet& stacks, Steps& steps)
      : trie_(trie), dfa_(dfa), stacks_(stacks), steps_(steps) {}

  // Which of the nodes complete a value that the guard has seen.
  void find_seen(std::span<const u32> nodes, StateId guard, std::vector<u32>& kept, std::vector<u32>& seen);
  // Of a sole stack: keeps those nodes refuted at which the state may only end with values that were seen. Others become unverified: where
  // the state continues behind a value, or was left on the way, for a caller or a callee may read the same text.
  void split_refuted(StateId state, std::vector<u32>& left, std::vector<u32>& refuted, std::vector<u32>& unverified);
  // Tokens with an exponent behind zeros alone: they seem to leave any number of values, and all that follows spells zero. `own`: the mask
  // has values that a token begins.
  void find_zeros(StackId configuration, bool own, std::vector<i32>& denied);
  // `allowed`: the bits of the mask so far, or null where it is not worth making them.
  void find_denied(StackId configuration, const u32* allowed, std::vector<u32>& unverified, std::vector<u32>& refuted,
                   std::vector<i32>& denied);

 private:
  const TokenTrie& trie_;
  RuleDfa& dfa_;
  StackSet& stacks_;
  Steps& steps_;
  // How far values have come that must differ from others, which were seen: in a string, elsewhere, in a number that is zero so far.
  struct Waiting {
    bool string = false, other = false, zero = false;
  };
  Waiting waiting(StackId configuration);
  void add(i32 token, std::vector<i32>& denied) const {  // and all with the same bytes
    for (; token >= 0; token = trie_.same(token)) denied.push_back(token);
  }
};

}  // namespace stackmask
