// Writes a mask as a bitmask: copies and adds the bitmasks of its state masks, then single tokens, denied tokens and tokens read by id.
#include "masks/token_masks.h"

namespace stackmask {

void TokenMasks::add(const StateMask& mask, bool first, u32* row) const {
  const u32 words = trie_.words();
  const std::span<const TokenId> excluded = state_masks_.tokens(mask.excluded);
  if (mask.dense && first) {
    std::memcpy(row, mask.dense, words * sizeof(u32));
    for (const TokenId token : excluded) clear_bit(row, token);
  } else if (mask.dense && excluded.empty()) {
    for (u32 w = 0; w < words; w++) row[w] |= mask.dense[w];
  } else if (mask.dense) {
    PooledVector<u32> before;  // bits of excluded tokens keep their values
    for (const TokenId token : excluded) before.push_back(has_bit(row, token));
    for (u32 w = 0; w < words; w++) row[w] |= mask.dense[w];
    for (std::size_t i = 0; i < excluded.size(); i++)
      if (!before[i]) clear_bit(row, excluded[i]);
  } else if (first) {
    std::memset(row, 0, words * sizeof(u32));
  }
  for (const TokenId token : state_masks_.tokens(mask.tokens)) set_bit(row, token);
}

void TokenMasks::fill(StackId configuration, u32* row) {
  const MaskId id = mask(configuration);
  const u32* part = masks_.at(id);
  const u32* const end = part + masks_.length(id);
  const u32 words = trie_.words();
  if (*part == NONE) std::memset(row, 0, words * sizeof(u32));
  for (bool first = true; *part != NONE; part++, first = false) {
    const StateMask& mask = state_masks_[StateMaskId(*part)];
    dfa_.work().spend(2 + words / 32 + (mask.tokens.end - mask.tokens.begin) / 8);
    add(mask, first, row);
  }
  const u32* sets = ++part;
  while (*part != NONE) part++;
  for (const u32* token = part + 1; token < end; token++) clear_bit(row, TokenId(*token));
  for (; *sets != NONE; sets++) {
    const TokenSet& tokens = dfa_.nfa().token_sets[*sets];
    if (tokens.negated) {
      for (u32 w = 0; w < words; w++) row[w] |= tokens.bits[w];
    } else {
      for (const TokenId token : tokens.ids) set_bit(row, token);
    }
  }
}

}  // namespace stackmask
