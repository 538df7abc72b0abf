// Applying a bitmask to logits of any type, as bits: kept & logit | ~kept & forbidden, eight lanes a byte of the mask.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

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

}  // namespace stackmask
