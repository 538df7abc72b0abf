// The texts of values that are being read and must be new: a tree of bytes, in which texts that begin alike share their beginnings.
//
//   "a    "ab    "ac           "  <- a <- b          a text is a node; its bytes are read on the way to the root
//                                       \ c
//
// A text is replaced by one that spells the same value and continues alike, so most texts of one value are one text. Blanks between the
// parts of a JSON text are left out; those after a number or a word are one blank until a comma, colon or closing bracket follows. The
// members of an object are sorted by their keys when a member ends, in objects of up to 1 KB. Escapes become their characters, except for
// the quote, the backslash, characters below U+0020 and lone surrogates. One more byte takes one lookup, once it is known.
//
// Tested by tests/pda/test_engine_distinct.py.
#pragma once

#include "base.h"

namespace stackmask {

inline bool is_blank(u8 byte) { return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r'; }

class PendingTexts {
 public:
  static constexpr u32 EMPTY = 0;
  u32 extend(u32 text, u8 byte);
  bool inside_string(u32 text) const { return modes_[text] != OUTSIDE; }
  std::string text(u32 text) const;
  std::string number(u32 text) const;  // at the end of the text, outside of strings; empty for none
  // Takes a text of another table and all its beginnings. `known` has the numbers here of texts that were taken before, EMPTY for others.
  u32 adopt(const PendingTexts& other, u32 text, std::vector<u32>& known);
  std::size_t size() const { return parents_.size(); }
  std::size_t bytes() const { return children_.bytes() + parents_.capacity() * sizeof(parents_[0]) + modes_.capacity(); }

 private:
  enum Mode : u8 { OUTSIDE, INSIDE, BEHIND_BACKSLASH };  // of a JSON string
  FlatMap children_;  // by text << 8 | byte
  std::vector<std::pair<u32, u8>> parents_{{0, 0}};  // by text: the text before its last byte, and that byte
  std::vector<u8> modes_{OUTSIDE};

  u32 child(u32 text, u8 byte);
  u32 sorted(u32 text);
  u32 unescaped(u32 text, u8 byte);
};

}  // namespace stackmask
