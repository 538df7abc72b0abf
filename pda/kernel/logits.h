// Applying a bitmask to logits of any type, as bits: kept & logit | ~kept & forbidden, eight lanes a byte of the mask.
// And the largest logit that a bitmask allows, for which nothing need be written: blocks that hold nothing larger are passed over.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

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

// The first of the largest logits whose bits are set in `mask`, -1 where none is; all count where `mask` is null. What is no number is
// smaller than all that is.
// PERF: a mask lies in the caches of the core that filled it: reading 32 of 16 KB takes 130 us where the logits take 830 (AMD EPYC, two
// cores). Where most tokens are allowed, only the words of blocks with a larger logit are read.
inline std::int64_t best_of_row(const float* row, std::size_t columns, const std::uint32_t* mask, std::size_t words) {
  constexpr std::size_t BLOCK = 32, LANES = 8;
  if (mask) columns = std::min(columns, BLOCK * words);
  const bool sparse = mask && words && is_sparse(mask, words);
  float best = -std::numeric_limits<float>::infinity();
  std::int64_t found = -1, first = -1;
  for (std::size_t begin = 0; begin < columns; begin += BLOCK) {
    if (sparse && mask[begin / BLOCK] == 0) continue;
    const std::size_t count = std::min(BLOCK, columns - begin);
    if (count == BLOCK && first >= 0) {
      float largest[LANES];
      std::fill_n(largest, LANES, best);
      for (std::size_t at = 0; at < BLOCK; at += LANES)
        for (std::size_t lane = 0; lane < LANES; ++lane) largest[lane] = row[begin + at + lane] > largest[lane] ? row[begin + at + lane] : largest[lane];
      bool is_larger = false;
      for (const float value : largest) is_larger |= value > best;
      if (!is_larger) continue;
    }
    const std::uint32_t allowed = mask ? mask[begin / BLOCK] : 0xFFFFFFFFu;
    for (std::size_t bit = 0; bit < count && allowed; ++bit) {
      if (!(allowed >> bit & 1)) continue;
      const auto column = static_cast<std::int64_t>(begin + bit);
      if (first < 0) first = column;
      if (row[column] > best) best = row[column], found = column;
    }
  }
  return found >= 0 ? found : first;
}

}  // namespace stackmask
