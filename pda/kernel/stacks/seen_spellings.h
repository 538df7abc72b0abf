// Counts the texts of values that a guard has seen, per node of the trie: where all texts that are left are seen, no token leads further.
//
//   seen "ab", "ac"; the state reads "a[bc]"; the guard's text is  "a     2 texts are left, and 2 spellings of seen values begin like that:
//   nodes b and c are on the way to 1 of them each, and so is nothing new
//
// Only strings without needless escapes are counted, of one guard alone: a slash doubles the spellings, and other escapes have no bound.
// A count costs the bytes of the values, and of those alone that were added since the last count from the same place.
//
// Tested by tests/pda/test_engine_distinct.py.
#pragma once

#include <optional>

#include "stacks/stack_set.h"
#include "statistics.h"
#include "vocabulary/trie.h"

namespace stackmask {

class SeenSpellings {
 public:
  SeenSpellings(const TokenTrie& trie, RuleDfa& dfa, StackSet& stacks, Statistics& statistics)
      : trie_(trie), dfa_(dfa), stacks_(stacks), statistics_(statistics) {}

  // One guard alone watches, and the values that it has seen are spelled without needless escapes.
  bool spells_values(StackId below) const;
  // Where one guard alone watches and its value is a string: how many spellings of strings that it has seen can follow, only those that
  // the state reads if one is given, and how many of them each node is on the way to. Nothing where that cannot be counted.
  std::optional<u32> seen_texts(StackId below, StateId state, std::vector<std::pair<u32, u32>>* counts = nullptr);
  void clear() { counted_.clear(); }

 private:
  // The last counts of seen_texts(), by state and beginning.
  struct Counted {
    StateId state = DEAD;
    std::string before;
    std::vector<u32> ids;  // of the values, rising
    std::vector<std::pair<u32, u32>> counts;  // (node, spellings)
    u32 total = 0;
  };
  static constexpr std::size_t MOST_COUNTED = 8;
  const TokenTrie& trie_;
  RuleDfa& dfa_;
  StackSet& stacks_;
  Statistics& statistics_;
  std::vector<Counted> counted_;
  u32 next_counted_ = 0;
  u32 count_spellings(const std::string& value, const std::string& before, StateId state, std::vector<std::pair<u32, u32>>* counts);
};

}  // namespace stackmask
