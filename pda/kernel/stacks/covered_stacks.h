// Stacks that allow nothing which another stack of the same set does not allow, since they differ from it by counts alone.
//
//   (?:[ab]{1,9}c?){1,50}   after "aaaa"   [4 letters] -> [1 group]   [1 letter] -> [2 groups]   stay
//                                          [2 letters] -> [2 groups]  less than 1 letter above the same
//                                          [1 letter] -> [3 groups]   less than the same above 2 groups
//
// A text that is cut in many ways has a stack for each pair of counts; two or three of them cover the others. This is the order of the
// antichains that check inclusion of NFAs (De Wulf, Doyen, Henzinger & Raskin, CAV 2006). States are compared by RuleDfa::united(), and
// nodes by the states of their upper levels.
//
// For n edges whose states count it takes O(n log n) and at most 128 comparisons for each; those of two nodes are remembered.
//
// Tested by tests/pda/test_repetitions.py.
#pragma once

#include "rules/rule_dfa.h"

namespace stackmask {

struct StackEdge;
class StackSet;

class CoveredStacks {
 public:
  explicit CoveredStacks(RuleDfa& dfa) : dfa_(dfa) {}

  // Drops edges that others cover, and unites those that differ by the counts of their states alone. The list is sorted, and stays so.
  void drop(std::vector<StackEdge>& edges, const StackSet& stacks);
  void clear() { covers_.clear(); }
  std::size_t bytes() const { return covers_.bytes(); }

 private:
  RuleDfa& dfa_;
  FlatMap covers_;  // by pair of nodes
  bool counts(StateId state) const;
  bool covers(StateId state, StateId other);
  bool covers(StackId node, StackId other, const StackSet& stacks, u32 levels);
};

}  // namespace stackmask
