// The tokens that a mask under construction already allows, in the order of the trie, so that the tokens below a node are a run of bits.
//
//   trie order   a  ab  abc  b  ...          covered   1 1 1 0 ...
//   node ab      the tokens below it: abc    covered: no other way to this node can add a token
//
// Tokens with a character that is in no text of the grammar are covered from the start. In an ambiguous grammar thousands of ways lead to
// places where everything is already allowed. A place is visited only at nodes with an uncovered token below them, because other nodes
// would add no token.
//
// Tested by tests/pda/test_coarse_stacks.py and tests/fuzz.
#pragma once

#include <bit>

#include "masks/state_mask.h"

namespace stackmask {

class CoveredTokens {
 public:
  // `alphabet`: the classes of characters that texts can have, as a signature.
  CoveredTokens(const TokenTrie& trie, u64 alphabet)
      : trie_(trie), order_(trie.order()), words_(trie.classes(TokenTrie::ROOT)->loop_mask(alphabet, NONE)->words),
        bits_(order_.tokens / 64 + 1, ~0ull) {
    for (u32 w = 0; w < words_.size(); w++) {
      for (u32 rest = words_[w]; rest; rest &= rest - 1) {
        const u32 place = order_.place[w * 32 + static_cast<u32>(std::countr_zero(rest))];
        bits_[place >> 6] &= ~(1ull << (place & 63));
      }
    }
  }

  void add(const StateMasks& masks, const StateMask& mask) {
    if (mask.dense) {
      excluded_.clear();
      for (const TokenId token : masks.tokens(mask.excluded))
        if (has_bit(words_.data(), token)) clear_bit(words_.data(), token), excluded_.push_back(token);
      for (u32 w = 0; w < words_.size(); w++)
        for (u32 rest = mask.dense[w] & words_[w]; rest; rest &= rest - 1)
          cover(TokenId(w * 32 + static_cast<u32>(std::countr_zero(rest))));
      for (const TokenId token : excluded_) set_bit(words_.data(), token);
    }
    for (const TokenId token : masks.tokens(mask.tokens)) cover(token);
  }

  // All tokens below the node are covered.
  bool covers(NodeId node) const {
    const u32 begin = order_.before[node + 1], end = order_.before[trie_.after(node)];
    if (begin == end) return true;
    const u64 from = ~0ull << (begin & 63), to = ~0ull >> (63 - ((end - 1) & 63));
    const u32 first = begin >> 6, last = (end - 1) >> 6;
    if (first == last) return (~bits_[first] & from & to) == 0;
    if ((~bits_[first] & from) || (~bits_[last] & to)) return false;
    for (u32 w = first + 1; w < last; w++)
      if (~bits_[w]) return false;
    return true;
  }

  std::size_t bytes() const { return words_.capacity() * sizeof(u32) + bits_.capacity() * sizeof(u64); }

 private:
  const TokenTrie& trie_;
  const TokenTrie::Order& order_;
  std::vector<u32> words_;  // by token: not covered yet
  std::vector<u64> bits_;  // by place: covered
  std::vector<TokenId> excluded_;  // used by add(); kept to reuse its memory
  void cover(TokenId token) {
    const u32 place = order_.place[token];
    bits_[place >> 6] |= 1ull << (place & 63);
    clear_bit(words_.data(), token);
  }
};

}  // namespace stackmask
