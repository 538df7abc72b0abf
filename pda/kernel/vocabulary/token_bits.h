// Bitmasks over tokens: bit i of word w is token 32 w + i, as in the rows that engines apply.
#pragma once

#include "ids.h"

namespace stackmask {

inline bool has_bit(const u32* words, TokenId token) { return words[token >> 5] >> (token & 31) & 1; }
inline void set_bit(u32* words, TokenId token) { words[token >> 5] |= 1u << (token & 31); }
inline void clear_bit(u32* words, TokenId token) { words[token >> 5] &= ~(1u << (token & 31)); }

}  // namespace stackmask
