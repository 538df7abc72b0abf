// The mask of a configuration: the state masks met on the way down its stacks, composed.
//
//   configuration  [string] -> [array] -> bottom        text ["a
//
//   visit   [string] at {root}       its state mask takes a; pop at the nodes  "  a"
//   leave   to [array] at {" a"}     visit: its state mask takes the tokens that continue after a quote, push string after a comma
//   go on   in [string] at {",}      visit: its state mask takes a string's tokens below  ",
//
//   mask    a  "  a"  a",  ","       a list of state masks, interned: each level of a deep structure has the same
//
// Configurations are made coarse first (coarse_stacks.h), and each node is visited once above a stack. Under guards, the tokens that may
// complete a seen value, or after which no new one remains, are checked again (denied_tokens.h); masks without guards never try a token. A
// mask that exists is a lookup and a few copies of bitmasks.
//
//   compose.cpp   finds the state masks, the sets of tokens read by id, and the denied tokens of a configuration's mask
//   fill.cpp      writes these as a bitmask
//
// Tested by tests/pda/test_engine_masks.py, test_engine_exhaustive.py and tests/fuzz against trying every token.
#pragma once

#include <optional>

#include "masks/covered_tokens.h"
#include "masks/denied_tokens.h"
#include "masks/state_mask.h"
#include "masks/upper_levels.h"
#include "stacks/coarse_stacks.h"

namespace stackmask {

class TokenMasks {
 public:
  TokenMasks(const TokenTrie& trie, RuleDfa& dfa, TextCounts& counts, StackSet& stacks, CoarseStacks& coarse, SeenSpellings& spellings,
             NewValues& new_values, DeniedTokens& denied, StateMasks& state_masks, Statistics& statistics);

  void fill(StackId configuration, u32* row);  // all but stop tokens
  void clear() { ids_.clear(), masks_.clear(), upper_levels_.clear(), uncovered_tokens_.reset(); }
  std::size_t bytes() const {
    return ids_.bytes() + masks_.bytes() + upper_levels_.bytes() + (uncovered_tokens_ ? uncovered_tokens_->bytes() : 0);
  }

 private:
  friend class MaskComposer;
  const TokenTrie& trie_;
  RuleDfa& dfa_;
  TextCounts& counts_;
  StackSet& stacks_;
  CoarseStacks& coarse_;
  SeenSpellings& spellings_;
  NewValues& new_values_;
  DeniedTokens& denied_;
  StateMasks& state_masks_;
  Statistics& statistics_;
  FlatMap ids_;  // by configuration; and by the coarse one if no values must differ
  Interner masks_;  // by MaskId: state masks, NONE, sets of tokens, NONE, denied tokens
  UpperLevels upper_levels_;
  std::optional<CoveredTokens> uncovered_tokens_;
  const CoveredTokens& uncovered_tokens();  // tokens outside the alphabet are covered
  MaskId mask(StackId configuration);
  MaskId compose(StackId configuration);
  void add(const StateMask& mask, bool first, u32* row) const;
};

}  // namespace stackmask
