// Regions on the stacks: the temperature of the innermost ones, and stacks that are dropped where a limit is spanned.
//
// A rule with a limit or a temperature puts a region below its states, which knows where its text began. Nothing is counted while the
// text continues: a node knows when the first limit on its stacks is spanned, and a step that ends later drops expired stacks.
//
//   limit of 2 tokens     [string] -> [region from token 5] -> [object]      after token 7, if the region may end, this stack is dropped
//
// If a rule may have begun at any of p places, p regions are open at once, and p more below each of them if limits are nested. So the
// regions of a rule stand in bundles, by where they began: nodes that differ in one region share all bundles but its own, and a union, a
// new region or an ended one costs a path and not a copy of p edges.
//
//   {region 5, region 6, ... region 20}        {bundle 0-7 -> {region 5, 6, 7}, bundle 8-15 -> {region 8 ... 15}, bundle 16-23 -> ...}
//
// All functions visit the nodes below a configuration once, with an explicit list of work.
//
// Tested by tests/pda/test_options.py.
#pragma once

#include "stacks/stack_set.h"

namespace stackmask {

class Regions {
 public:
  Regions(RuleDfa& dfa, StackSet& stacks) : dfa_(dfa), stacks_(stacks) {}

  double temperature(StackId configuration);  // the highest of the innermost rules on all stacks; negative for none
  // The stacks below the regions of a node, and below the regions that end with them, without regions. NO_STACK for none.
  StackId behind(StackId node);
  // Adds the regions that end with the node and have spanned their limit after `tokens` tokens.
  void add_crossed(StackId node, u32 tokens, std::vector<StateId>& crossed);
  // The configuration without the stacks inside these regions, which have spanned their limit after `tokens` tokens and may end here. Sorts
  // the regions.
  StackId drop_expired(StackId configuration, u32 tokens, std::vector<StateId>& crossed);
  void clear() { temperatures_.clear(), behind_.clear(); }
  std::size_t bytes() const { return temperatures_.bytes() + behind_.bytes(); }

 private:
  RuleDfa& dfa_;
  StackSet& stacks_;
  FlatMap temperatures_, behind_;  // by node
  StackId without_regions(StackId node);
};

}  // namespace stackmask
