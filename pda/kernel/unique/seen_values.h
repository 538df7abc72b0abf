// The values that scopes have seen: JSON values by number, and sets of them, both interned.
//
// A register names the set that its scope has seen, so scopes that have seen the same are the same DFA state.
//
//   [1, "a", 1.0          values   0: "1e0"   1: "\"a\""          1.0 is value 0 again
//                         sets     0: {}   1: {0}   2: {0, 1}
//
// Tested by tests/pda/test_engine_distinct.py.
#pragma once

#include <span>
#include <unordered_map>

#include "base.h"

namespace stackmask {

class SeenValues {
 public:
  static constexpr u32 NO_VALUES = 0;  // the empty set
  SeenValues() { sets_.intern(nullptr, 0); }
  u32 value_id(const std::string& text);                          // of a JSON text
  const std::string& value(u32 id) const { return values_[id]; }  // in its canonical spelling; until the next is seen
  u32 spellings(u32 id) const { return spellings_[id]; }          // how many texts spell it without needless escapes, NONE if unknown
  std::span<const u32> set(u32 id) const { return {sets_.at(id), sets_.length(id)}; }  // rising; until the next set is made
  u32 with(u32 set, u32 value);                                   // NONE if it is a member already
  u32 adopt(const SeenValues& other, u32 set);                    // a set of another table
  std::size_t set_count() const { return sets_.size(); }
  std::size_t bytes() const { return sets_.bytes(); }

 private:
  Interner sets_;
  std::unordered_map<std::string, u32> ids_;
  std::vector<std::string> values_;
  std::vector<u32> spellings_;
  u32 canonical_id(const std::string& canonical);
};

}  // namespace stackmask
