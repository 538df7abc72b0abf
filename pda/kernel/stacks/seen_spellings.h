// Counts the texts of values that a guard has seen, for each node of the trie: if all texts that are left are seen, no token leads further.
//
//   seen "ab", "ac"; the state reads "a[bc]"; the guard's text is  "a     2 texts are left, and 2 spellings of seen values begin so:
//   the nodes b and c are each on the way to 1 of them, so nothing new is left
//
// Only strings whose rest has no escapes are counted, and only where no other guard can refuse (NewValues::others_pass): a slash doubles
// the spellings, and other escapes have no bound. Values that do not begin like the guard's text cannot follow, whatever they hold. A count
// takes time linear in the bytes of the values that were added since the last count from the same place.
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

  // The guard on top of a stack, if nothing else is; DEAD otherwise.
  StateId lone_guard(StackId node) const;
  // Whether a guard is on top, alone, and strings have no needless escapes.
  bool spells_values(StackId below) const;
  // If the value of the guard on top is a string: the number of spellings of seen strings that can follow, and for each node the
  // number of those that it is on the way to. If a state is given, only the spellings that it reads. Nothing if they cannot be counted.
  std::optional<u32> seen_texts(StackId below, StateId state, std::vector<std::pair<NodeId, u32>>* counts = nullptr);
  void clear() { counted_.clear(); }

 private:
  // The last counts of seen_texts(), by state and beginning.
  struct Counted {
    StateId state = DEAD;
    std::string before;
    std::vector<u32> ids;  // of the values, rising
    std::vector<std::pair<NodeId, u32>> counts;  // (node, spellings)
    u32 total = 0;
    bool countable = true;  // no value that begins so has an escape in its rest
  };
  static constexpr std::size_t MOST_COUNTED = 8;
  const TokenTrie& trie_;
  RuleDfa& dfa_;
  StackSet& stacks_;
  Statistics& statistics_;
  std::vector<Counted> counted_;
  u32 next_counted_ = 0;
  static bool begins(std::string_view value, const std::string& before) { return value.starts_with(before); }
  u32 count_spellings(std::string_view value, const std::string& before, StateId state, std::vector<std::pair<NodeId, u32>>* counts);
};

}  // namespace stackmask
