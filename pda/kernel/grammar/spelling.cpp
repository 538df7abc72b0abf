#include "grammar/spelling.h"

#include <algorithm>
#include <utility>

#include "vocabulary/classes.h"

namespace stackmask {

namespace {

// lo..hi lies in the ranges, surrogates apart.
bool contains(const i32* ranges, std::size_t count, i32 lo, i32 hi) {
  for (std::size_t i = 0; i < count && lo <= hi; i += 2) {
    if (ranges[i] > lo) return false;
    if (ranges[i + 1] >= lo) lo = ranges[i + 1] + 1;
    if (lo >= 0xD800 && lo < 0xE000) lo = 0xE000;
  }
  return lo > hi;
}

u8 utf8_byte(i32 code, i32 length, i32 index) {
  const i32 bits = code >> (6 * (length - 1 - index));
  static constexpr i32 LEAD[] = {0, 0, 0xC0, 0xE0, 0xF0};
  return static_cast<u8>(index == 0 ? LEAD[length] | bits : 0x80 | (bits & 0x3F));
}

}  // namespace

void Spelling::byte(NfaStateId from, NfaStateId to, i32 lo, i32 hi) {
  nfa_->add_edge(from, EDGE_BYTE, to, 0, static_cast<u8>(lo), static_cast<u8>(hi));
  if (hi > 0x7F) nfa_->states[from].partial_non_ascii = true;
}

void Spelling::text(std::string_view text, NfaStateId from, NfaStateId to) {
  for (std::size_t i = 0; i < text.size(); i++) {
    const NfaStateId next = i + 1 == text.size() ? to : state();
    const u8 byte = static_cast<u8>(text[i]);
    nfa_->add_edge(from, EDGE_BYTE, next, 0, byte, byte);
    if (byte > 0x7F) nfa_->states[from].partial_non_ascii = true;
    from = next;
  }
}

// One code point out of the ranges, as bytes.
void Spelling::chars(NfaStateId from, NfaStateId to, const i32* ranges, std::size_t count, i32 encoding) {
  describe_non_ascii(from, to, ranges, count);
  NfaStateId escape = NONE;
  // The escapes of all characters that have one are the same for every state that leads to `to` by all of them.
  const bool all_escapes = encoding != UTF8 && contains(ranges, count, 0, 0x1F) && contains(ranges, count, '"', '"') &&
                           contains(ranges, count, '/', '/') && contains(ranges, count, '\\', '\\') &&
                           (encoding == JSON || contains(ranges, count, 0, 0x10FFFF));
  const u64 key = static_cast<u64>(to) << 2 | static_cast<u64>(encoding);
  if (all_escapes) {
    if (const u32* found = escapes_.find(key)) {
      escape = NfaStateId(*found);
      nfa_->add_edge(from, EDGE_BYTE, escape, 0, '\\', '\\');
    }
  }
  const bool escapes_known = escape != NONE;
  auto backslash = [&] {
    if (escape == NONE) {
      escape = state();
      nfa_->add_edge(from, EDGE_BYTE, escape, 0, '\\', '\\');
    }
    return escape;
  };
  for (std::size_t i = 0; i < count; i += 2) {
    const i32 lo = ranges[i];
    i32 hi = ranges[i + 1];
    // Ranges that only the surrogates part are one: surrogates have no UTF-8.
    while (i + 2 < count && (ranges[i + 2] <= hi + 1 || (hi >= 0xD7FF && ranges[i + 2] <= 0xE000))) i += 2, hi = ranges[i + 1];
    if (encoding == UTF8) {
      utf8(from, to, lo, hi);
      continue;
    }
    raw_json(from, to, lo, hi);
    if (escapes_known) continue;
    static constexpr std::pair<i32, char> SHORT[] = {{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {8, 'b'},
                                                     {12, 'f'},  {10, 'n'},    {13, 'r'},  {9, 't'}};
    for (const auto& [code, letter] : SHORT)
      if (lo <= code && code <= hi) nfa_->add_edge(backslash(), EDGE_BYTE, to, 0, static_cast<u8>(letter), static_cast<u8>(letter));
    if (encoding == JSON_ANY) {
      unicode_escape(backslash(), to, lo, hi);
    } else {
      static constexpr i32 LONG[][2] = {{0, 7}, {11, 11}, {14, 31}};  // control characters without a short escape
      for (const auto& control : LONG)
        if (const i32 low = std::max(lo, control[0]), high = std::min(hi, control[1]); low <= high)
          unicode_escape(backslash(), to, low, high);
    }
  }
  if (all_escapes && !escapes_known) escapes_.insert(key, escape);
}

// Which characters above U+007F lead to `to`: class loops know all, all but spaces, and spaces only.
void Spelling::describe_non_ascii(NfaStateId from, NfaStateId to, const i32* ranges, std::size_t count) {
  if (ranges[count - 1] < 0x80) return;
  bool every_other = true, every_space = true;
  i32 last = 0x7F;  // the characters up to here have been seen
  for (const u32 space : NON_ASCII_SPACES) {
    const i32 code = static_cast<i32>(space);
    every_other = every_other && contains(ranges, count, last + 1, code - 1);
    every_space = every_space && contains(ranges, count, code, code);
    last = code;
  }
  every_other = every_other && contains(ranges, count, last + 1, 0x10FFFF);
  bool only_spaces = !every_other;
  for (std::size_t i = 0; i < count && only_spaces; i += 2)
    for (i32 code = std::max(ranges[i], 0x80); code <= ranges[i + 1] && only_spaces; code++)
      only_spaces =
          std::find(std::begin(NON_ASCII_SPACES), std::end(NON_ASCII_SPACES), static_cast<u32>(code)) != std::end(NON_ASCII_SPACES);
  if (every_other) nfa_->add_edge(from, EDGE_NON_ASCII, to, every_space ? 0 : 1);
  else if (only_spaces) nfa_->add_edge(from, EDGE_NON_ASCII, to, 2);
  else nfa_->states[from].partial_non_ascii = true;
}

void Spelling::raw_json(NfaStateId from, NfaStateId to, i32 lo, i32 hi) {
  static constexpr i32 PLAIN[][2] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x10FFFF}};
  for (const auto& plain : PLAIN) {
    const i32 low = std::max(lo, plain[0]), high = std::min(hi, plain[1]);
    if (low <= high) utf8(from, to, low, high);
  }
}

NfaStateId Spelling::tail(NfaStateId to, i32 kind, i32 lo, i32 hi) {
  const u64 key = static_cast<u64>(to) << 24 | static_cast<u64>(kind) << 16 | static_cast<u64>(lo) << 8 | static_cast<u64>(hi);
  if (const u32* found = tails_.find(key)) return NfaStateId(*found);
  const NfaStateId at = state();
  tails_.insert(key, at);
  nfa_->states[at].partial_non_ascii = true;
  nfa_->add_edge(at, EDGE_BYTE, kind == 1 ? to : tail(to, kind - 1, 0x80, 0xBF), 0, static_cast<u8>(lo), static_cast<u8>(hi));
  return at;
}

// UTF-8 byte ranges (RFC 3629), after Thompson's utf8 construction: split where the encoded length or a prefix changes.
void Spelling::utf8(NfaStateId from, NfaStateId to, i32 lo, i32 hi) {
  if (lo <= 0x7F) {
    nfa_->add_edge(from, EDGE_BYTE, to, 0, static_cast<u8>(lo), static_cast<u8>(std::min(hi, 0x7F)));
    lo = 0x80;
  }
  if (lo > hi) return;
  if (lo == 0x80 && hi == 0x10FFFF) {
    struct Group {
      u8 lo, hi;
      i32 kind, low, high;
    };
    static constexpr Group GROUPS[] = {{0xC2, 0xDF, 1, 0x80, 0xBF}, {0xE0, 0xE0, 2, 0xA0, 0xBF}, {0xE1, 0xEC, 2, 0x80, 0xBF},
                                       {0xED, 0xED, 2, 0x80, 0x9F}, {0xEE, 0xEF, 2, 0x80, 0xBF}, {0xF0, 0xF0, 3, 0x90, 0xBF},
                                       {0xF1, 0xF3, 3, 0x80, 0xBF}, {0xF4, 0xF4, 3, 0x80, 0x8F}};
    for (const Group& g : GROUPS) nfa_->add_edge(from, EDGE_BYTE, tail(to, g.kind, g.low, g.high), 0, g.lo, g.hi);
    return;
  }
  static constexpr i32 BLOCKS[][3] = {{0x80, 0x7FF, 2}, {0x800, 0xD7FF, 3}, {0xE000, 0xFFFF, 3}, {0x10000, 0x10FFFF, 4}};
  for (const auto& block : BLOCKS) {
    const i32 low = std::max(lo, block[0]), high = std::min(hi, block[1]);
    if (low <= high) utf8_block(from, to, low, high, block[2]);
  }
}

void Spelling::utf8_block(NfaStateId from, NfaStateId to, i32 lo, i32 hi, i32 length) {
  // Peel the ends until all bytes after the first differing one span their whole range. At most 2 * length - 1 pieces.
  for (i32 i = 1; i < length; i++) {
    const i32 low_bits = (1 << (6 * i)) - 1;
    if ((lo & ~low_bits) == (hi & ~low_bits)) continue;
    if (lo & low_bits) {
      utf8_block(from, to, lo, lo | low_bits, length);
      return utf8_block(from, to, (lo | low_bits) + 1, hi, length);
    }
    if ((hi & low_bits) != low_bits) {
      utf8_block(from, to, lo, (hi & ~low_bits) - 1, length);
      return utf8_block(from, to, hi & ~low_bits, hi, length);
    }
  }
  NfaStateId at = from;
  for (i32 i = 0; i < length; i++) {
    const u8 low = utf8_byte(lo, length, i), high = utf8_byte(hi, length, i);
    const i32 left = length - 1 - i;
    bool full = true;  // the rest spans everything: share its states
    for (i32 j = i + 1; j < length; j++) full = full && utf8_byte(lo, length, j) == 0x80 && utf8_byte(hi, length, j) == 0xBF;
    if (i > 0) nfa_->states[at].partial_non_ascii = true;
    if (left == 0) {
      nfa_->add_edge(at, EDGE_BYTE, to, 0, low, high);
    } else if (full) {
      nfa_->add_edge(at, EDGE_BYTE, tail(to, left, 0x80, 0xBF), 0, low, high);
      return;
    } else {
      const NfaStateId next = state();
      nfa_->add_edge(at, EDGE_BYTE, next, 0, low, high);
      at = next;
    }
  }
}

// \uXXXX for lo..hi after the backslash; a surrogate pair above U+FFFF; lone surrogates never.
void Spelling::unicode_escape(NfaStateId from, NfaStateId to, i32 lo, i32 hi) {
  const NfaStateId digits = state();
  nfa_->add_edge(from, EDGE_BYTE, digits, 0, 'u', 'u');
  static constexpr i32 BLOCKS[][2] = {{0, 0xD7FF}, {0xE000, 0xFFFF}};
  for (const auto& block : BLOCKS) {
    const i32 low = std::max(lo, block[0]), high = std::min(hi, block[1]);
    if (low <= high) hexadecimal(digits, to, low, high, 4);
  }
  lo = std::max(lo, 0x10000) - 0x10000;
  hi -= 0x10000;
  while (lo <= hi) {  // high surrogates with the same range of low ones go together
    const i32 high_first = lo >> 10, low_first = lo & 0x3FF;
    i32 high_last = hi >> 10, low_last = hi & 0x3FF;
    if (high_first != high_last) {
      if (low_first != 0) high_last = high_first, low_last = 0x3FF;
      else if (low_last != 0x3FF) high_last--, low_last = 0x3FF;
    }
    const NfaStateId middle = state(), slash = state(), second = state();
    hexadecimal(digits, middle, 0xD800 + high_first, 0xD800 + high_last, 4);
    nfa_->add_edge(middle, EDGE_BYTE, slash, 0, '\\', '\\');
    nfa_->add_edge(slash, EDGE_BYTE, second, 0, 'u', 'u');
    hexadecimal(second, to, 0xDC00 + low_first, 0xDC00 + low_last, 4);
    lo = ((high_last << 10) | low_last) + 1;
  }
}

void Spelling::hex_digits(NfaStateId from, NfaStateId to, i32 lo, i32 hi) {
  if (lo <= 9) nfa_->add_edge(from, EDGE_BYTE, to, 0, static_cast<u8>('0' + lo), static_cast<u8>('0' + std::min(hi, 9)));
  if (hi >= 10) {
    const i32 low = std::max(lo, 10) - 10, high = hi - 10;
    nfa_->add_edge(from, EDGE_BYTE, to, 0, static_cast<u8>('a' + low), static_cast<u8>('a' + high));
    nfa_->add_edge(from, EDGE_BYTE, to, 0, static_cast<u8>('A' + low), static_cast<u8>('A' + high));
  }
}

// The numbers lo..hi as `digits` hexadecimal digits.
void Spelling::hexadecimal(NfaStateId from, NfaStateId to, i32 lo, i32 hi, i32 digits) {
  if (digits == 1) return hex_digits(from, to, lo, hi);
  const i32 span = 1 << (4 * (digits - 1));
  i32 first = lo / span, last = hi / span;
  if (first == last) {
    const NfaStateId next = state();
    hex_digits(from, next, first, first);
    return hexadecimal(next, to, lo % span, hi % span, digits - 1);
  }
  if (lo % span != 0) {
    hexadecimal(from, to, lo, first * span + span - 1, digits);
    first++;
  }
  if (hi % span != span - 1) {
    hexadecimal(from, to, last * span, hi, digits);
    last--;
  }
  if (first > last) return;
  const NfaStateId next = state();
  hex_digits(from, next, first, last);
  hexadecimal(next, to, 0, span - 1, digits - 1);
}

}  // namespace stackmask
