// Regions on the stacks: the temperature of the innermost ones, and stacks that are dropped where a limit is spanned.
//
// A rule with a limit or a temperature leaves a region below its states, which knows where its text began. Nothing is counted while the
// text continues: a node knows when the first limit on its stacks is spanned, and a step that ends later drops expired stacks.
//
//   limit of 2 tokens     [string] -> [region from token 5] -> [object]      after token 7, if the region may end, this stack is dropped
//
// Both walk the nodes below a configuration once, with an explicit list of work.
//
// Tested by tests/pda/test_options.py.
#pragma once

#include "stacks/stack_set.h"

namespace stackmask {

class Regions {
 public:
  Regions(RuleDfa& dfa, StackSet& stacks) : dfa_(dfa), stacks_(stacks) {}

  double temperature(StackId configuration);  // the highest that a stack asks for, by its innermost rule; negative for none
  // Without the stacks inside of the regions that have spanned their limit after `tokens` tokens and are among `crossed`: those may end
  // here. Sorts `crossed` and removes the others from it.
  StackId drop_expired(StackId configuration, u32 tokens, std::vector<StateId>& crossed);
  void clear() { temperatures_.clear(); }
  std::size_t bytes() const { return temperatures_.bytes(); }

 private:
  RuleDfa& dfa_;
  StackSet& stacks_;
  Map64 temperatures_;  // by node
};

}  // namespace stackmask
