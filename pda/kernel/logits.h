// Applying a bitmask to logits of any type, as bits: kept & logit | ~kept & forbidden, eight lanes a byte of the mask.
// And the largest logit that a bitmask allows, found without writing: blocks that hold nothing larger are skipped.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "portable.h"

namespace stackmask {

// For every byte of a mask, eight lanes of all ones where the bit is set.
template <class T>
struct Lanes {
  std::array<std::array<T, 8>, 256> kept{};
  constexpr Lanes() {
    for (unsigned byte = 0; byte < 256; ++byte)
      for (unsigned lane = 0; lane < 8; ++lane) kept[byte][lane] = (byte >> lane) & 1 ? static_cast<T>(~T{0}) : T{0};
  }
};
template <class T>
inline constexpr Lanes<T> lanes{};

// Bit i of `mask` says whether logit i is kept; logits past 32 * words are replaced.
template <class T>
void mask_row(T* row, std::size_t columns, const std::uint32_t* mask, std::size_t words, T forbidden) {
  const std::size_t whole = std::min(words, columns / 32);
  for (std::size_t w = 0; w < whole; ++w) {
    const std::uint32_t word = mask[w];
    T* const block = row + 32 * w;
    if (word == 0xFFFFFFFFu) continue;
    if (word == 0) {
      std::fill_n(block, 32, forbidden);
      continue;
    }
    for (unsigned part = 0; part < 4; ++part) {
      const std::array<T, 8>& kept = lanes<T>.kept[(word >> (8 * part)) & 0xFF];
      T* const eight = block + 8 * part;
      for (unsigned lane = 0; lane < 8; ++lane) eight[lane] = static_cast<T>((eight[lane] & kept[lane]) | (forbidden & ~kept[lane]));
    }
  }
  std::size_t column = 32 * whole;
  if (whole < words)
    for (unsigned bit = 0; column < columns && bit < 32; ++bit, ++column)
      if (!((mask[whole] >> bit) & 1)) row[column] = forbidden;
  std::fill(row + column, row + columns, forbidden);
}

// Whether a few words out of a mask are zero for the most part.
inline bool is_sparse(const std::uint32_t* mask, std::size_t words) {
  constexpr std::size_t SAMPLES = 8;
  std::size_t zeros = 0;
  for (std::size_t i = 0; i < SAMPLES; ++i) zeros += mask[i * words / SAMPLES] == 0;
  return 2 * zeros > SAMPLES;
}

constexpr std::size_t BLOCK = 32;  // logits of a word of a mask

// The best so far, while the blocks of a row are read.
struct Best {
  float value = -std::numeric_limits<float>::infinity();
  std::int64_t column = -1;

  // The first of the largest logits of a block, those whose bits are set in `allowed`.
  void add(const float* row, std::size_t begin, std::uint32_t allowed) {
    for (; allowed; allowed &= allowed - 1) {
      const std::size_t at = begin + static_cast<std::size_t>(std::countr_zero(allowed));
      if (row[at] > value) value = row[at], column = static_cast<std::int64_t>(at);
    }
  }
};

inline bool has_larger(const float* block, float value) {
  constexpr std::size_t LANES = 8;
  float largest[LANES];
  std::fill_n(largest, LANES, value);
  for (std::size_t at = 0; at < BLOCK; at += LANES)
    for (std::size_t lane = 0; lane < LANES; ++lane) largest[lane] = block[at + lane] > largest[lane] ? block[at + lane] : largest[lane];
  bool is_larger = false;
  for (const float each : largest) is_larger |= each > value;
  return is_larger;
}

// The first of the largest logits whose bits are set in `mask`, -1 where none is; all count where `mask` is null. A NaN is smaller than
// every number.
// PERF: where few tokens are allowed, only their logits are read; where most are, only the words of blocks with a larger logit. Either lie
// apart, so they are asked for when their block comes and looked at a stretch later: waiting for each took 10 to 20 us for a row of 128,256
// logits with some hundred allowed, and 1 us for one with most allowed, where a row takes 25 us without a mask (AMD EPYC, two cores).
inline std::int64_t best_of_row(const float* row, std::size_t columns, const std::uint32_t* mask, std::size_t words) {
  constexpr std::size_t STRETCH = 32;
  if (mask) columns = std::min(columns, BLOCK * words);
  const std::size_t blocks = columns / BLOCK;
  const bool sparse = mask && words && is_sparse(mask, words);
  const auto word = [mask](std::size_t block) { return mask ? mask[block] : 0xFFFFFFFFu; };
  Best best;
  std::size_t blocks_asked[2][STRETCH];
  std::size_t *asked = blocks_asked[0], *late = blocks_asked[1];  // of this stretch, and of the one before
  std::size_t asked_count = 0, late_count = 0;
  for (std::size_t begin = 0; begin < blocks + STRETCH; begin += STRETCH) {
    const std::size_t end = std::min(begin + STRETCH, blocks);
    for (std::size_t block = begin; block < end; ++block) {
      const float* const logits = row + BLOCK * block;
      if (sparse ? mask[block] == 0 : !has_larger(logits, best.value)) continue;
      if (!mask || (begin == 0 && !sparse)) {
        best.add(row, BLOCK * block, word(block));
        continue;
      }
      if (sparse) prefetch(logits), prefetch(logits + BLOCK / 2);
      else prefetch(mask + block);
      asked[asked_count++] = block;
    }
    for (std::size_t i = 0; i < late_count; ++i) best.add(row, BLOCK * late[i], mask[late[i]]);
    std::swap(asked, late);
    late_count = std::exchange(asked_count, 0);
  }
  if (BLOCK * blocks < columns) best.add(row, BLOCK * blocks, word(blocks) & ((1u << (columns % BLOCK)) - 1));
  for (std::size_t column = 0; best.column < 0 && column < columns; ++column)  // they are all NaN or minus infinity
    if (word(column / BLOCK) >> (column % BLOCK) & 1) best.column = static_cast<std::int64_t>(column);
  return best.column;
}

}  // namespace stackmask
