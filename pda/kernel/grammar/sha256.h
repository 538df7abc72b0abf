// SHA-256 (FIPS 180-4), to find damage in the bytes of a grammar.
#pragma once

#include <array>
#include <bit>

#include "base.h"

namespace stackmask {

inline std::array<u8, 32> sha256(const char* data, std::size_t size) {
  static constexpr u32 ROUNDS[64] = {
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
      0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
      0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
      0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
      0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
      0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
  u32 hash[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const u64 blocks = (size + 8) / 64 + 1;
  for (u64 block = 0; block < blocks; block++) {
    u32 words[64] = {};
    for (u64 i = 0; i < 64; i++) {
      const u64 at = block * 64 + i;
      u8 byte = at < size ? static_cast<u8>(data[at]) : at == size ? 0x80 : 0;
      if (block + 1 == blocks && i >= 56) byte = static_cast<u8>(static_cast<u64>(size) * 8 >> (63 - i) * 8);
      words[i / 4] |= static_cast<u32>(byte) << (3 - i % 4) * 8;
    }
    for (u32 i = 16; i < 64; i++) {
      const u32 a = words[i - 15], b = words[i - 2];
      const u32 low = std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3, high = std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10;
      words[i] = words[i - 16] + low + words[i - 7] + high;
    }
    auto [a, b, c, d, e, f, g, h] = hash;
    for (u32 i = 0; i < 64; i++) {
      const u32 first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + ROUNDS[i] + words[i];
      const u32 second = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
    }
    const u32 added[8] = {a, b, c, d, e, f, g, h};
    for (u32 i = 0; i < 8; i++) hash[i] += added[i];
  }
  std::array<u8, 32> result;
  for (u32 i = 0; i < 32; i++) result[i] = static_cast<u8>(hash[i / 4] >> (3 - i % 4) * 8);
  return result;
}

}  // namespace stackmask
