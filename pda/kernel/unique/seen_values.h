// The values that scopes have seen: JSON values by number, and sets of them, both interned.
//
// A register names the set that its scope has seen, so scopes that have seen the same are the same DFA state.
//
//   [1, "a", 1.0          values   0: "1e0"   1: "\"a\""          1.0 is value 0 again
//                         sets     {}   {0}   {0, 1}
//
// A set is a trie over the digits of its values' numbers to the base 32, whose nodes are interned (a hash-consed trie; Goubault 1994):
// equal sets are equal nodes, and a set with one more value shares all nodes but the five on the way to that value.
// So 10,000 different values take time and memory for 50,000 nodes, not for 10,000 lists of up to 10,000.
//
//   {0, 1, 40}   root -- 0 -- 0 -- 0 --+-- 0 --> bits 0 and 1
//                                      `-- 1 --> bit 8
//
// Tested by tests/pda/test_engine_distinct.py.
#pragma once

#include <array>
#include <bit>
#include <span>
#include <string_view>

#include "base.h"

namespace stackmask {

class SeenValues {
 public:
  static constexpr u32 NO_VALUES = 0;  // the empty set
  SeenValues() { node({}); }
  u32 value_id(const std::string& text);     // the number of a JSON text
  u32 find(const std::string& text) const;   // the same, NONE if the table has no such value
  std::string_view value(u32 id) const {     // in its canonical spelling; valid until the next is seen
    return {reinterpret_cast<const char*>(values_.at(id) + 1), values_.at(id)[0]};
  }
  u32 count(u32 set) const { return counts_[set]; }
  bool contains(u32 set, u32 value) const;
  template <class F>
  void each(u32 set, F take) const {  // the values of a set, rising
    if (set != NO_VALUES) each(set, LEVELS, 0, take);
  }
  u32 with(u32 set, u32 value);                    // NONE if it is a member already
  u32 spellings(u32 set);                          // the number of texts that spell its values without needless escapes, NONE if unknown
  static u32 spellings_of(std::string_view value, std::size_t from = 0);  // the same for the rest of one value from a place on
  struct Adopted {
    u32 theirs = NO_VALUES, own = NO_VALUES;
  };
  using LastAdopted = std::array<Adopted, 4>;  // the latest one first
  // Takes a set of another table. PERF: most sets of a history have one value more than a set before them; without `last` 1,000 sets of
  // 1,000 values took 20 ms.
  u32 adopt(const SeenValues& other, u32 set, LastAdopted& last);
  std::size_t set_count() const { return nodes_.size(); }
  std::size_t bytes() const { return nodes_.bytes() + counts_.capacity() * sizeof(u32) + spellings_.bytes() + values_.bytes(); }

 private:
  static constexpr u32 DIGIT = 5, LEVELS = 4;  // a root of level 4, bits at level 0
  static constexpr u32 MOST_VALUES = 1u << (DIGIT * (LEVELS + 1));
  Interner nodes_;            // level 0: a bitmap of values; above: a bitmap of digits, and a node for each
  std::vector<u32> counts_;   // values below, by node
  Interner values_;           // the length of each in bytes, and these
  FlatMap spellings_;           // by set

  static u32 digit(u32 value, u32 level) { return value >> (level * DIGIT) & 31; }
  u32 child(u32 at, u32 place) const {
    if (at == NO_VALUES) return NO_VALUES;
    const u32* words = nodes_.at(at);
    return words[0] >> place & 1 ? words[1 + std::popcount(words[0] & ((1u << place) - 1))] : NO_VALUES;
  }
  template <class F>
  void each(u32 at, u32 level, u32 prefix, F& take) const {
    const u32 bits = nodes_.at(at)[0];
    u32 index = 1;
    for (u32 left = bits; left; left &= left - 1) {
      const u32 number = prefix << DIGIT | static_cast<u32>(std::countr_zero(left));
      if (level == 0) take(number);
      else each(nodes_.at(at)[index++], level - 1, number, take);
    }
  }
  u32 node(std::span<const u32> words, u32 count = 0);
  u32 build(std::span<const u32> values, u32 level);  // rising
  // Appends the values that the set `to` has and `from` lacks; false if `to` lacks some values of `from`.
  bool grown(u32 from, u32 to, u32 level, u32 prefix, std::vector<u32>& added) const;
  u32 canonical_id(std::string_view canonical);
};

}  // namespace stackmask
