// Tokens that are removed from a mask. A mask is composed as if guards let everything pass; then the tokens are denied that complete a
// value which was seen, or after which only seen values remain.
//
//   refuted      nodes of the trie below which no token is allowed: all remaining values were seen
//   unverified   nodes below which some tokens may be refused: these are tried one by one
//   denied       the resulting tokens
//
//   ["ab", "        seen "ab"; node b after a is refuted if the string can only end there; it is unverified if a caller might read
//                   the same text in another way, or the value may continue
//
// Few tokens are tried, and none if a string with infinitely many values can still follow.
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

  // The nodes that complete a value which the guard has seen.
  void find_seen(std::span<const NodeId> nodes, StateId guard, std::vector<NodeId>& kept, std::vector<NodeId>& seen);
  // Of a sole stack: keeps the nodes refuted at which the state can only end with seen values. The others become unverified: if the state
  // continues after a value, or was left on the way, a caller or a callee may read the same text.
  void split_refuted(StateId state, std::vector<NodeId>& left, std::vector<NodeId>& refuted, std::vector<NodeId>& unverified);
  // Tokens with an exponent after zeros only: any number of texts seems to remain after them, but all of these spell zero. `own`: the mask
  // has values that a token begins.
  void find_zeros(StackId configuration, bool own, std::vector<TokenId>& denied);
  // `allowed`: the bits of the mask so far, or null if it does not pay to make them.
  void find_denied(StackId configuration, const u32* allowed, std::vector<NodeId>& unverified, std::vector<NodeId>& refuted,
                   std::vector<TokenId>& denied);

 private:
  const TokenTrie& trie_;
  RuleDfa& dfa_;
  StackSet& stacks_;
  Steps& steps_;
  // Where a value that must differ from seen ones is: in a string, in a number that is zero so far, or elsewhere.
  struct Waiting {
    bool string = false, other = false, zero = false;
  };
  Waiting waiting(StackId configuration);
  void add(TokenId first, std::vector<TokenId>& denied) const {  // and all tokens with the same bytes
    for (const TokenId token : TokenTrie::Tokens{&trie_, first}) denied.push_back(token);
  }
};

}  // namespace stackmask
