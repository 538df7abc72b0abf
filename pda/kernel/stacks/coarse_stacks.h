// A configuration as masks see it: stacks that no token can tell apart are united.
//
//   x{0,30} of rules       after many texts:  [x, 3 counted] -> 7   [x, 4 counted] -> 8      no token reaches 30 from there:
//                          as masks see it:   [x, some counted] -> 7 and 8                   one state above the nodes below both
//   limits                 [limit begun at token 3] -> 5   [at token 4] -> 6                 become the nodes below them: 5 and 6
//
// Counts are replaced as counters.h describes, on the whole stack and not at its top alone, and regions, which masks do not see, are left
// out. Ambiguous texts have very many stacks that differ only in counts and regions; a mask is composed for the coarse stacks, and
// configurations with the same coarse stacks share it. Each node is visited once, so a step visits only the nodes that it made.
//
// Tested by tests/pda/test_coarse_stacks.py.
#pragma once

#include "rules/counters.h"
#include "stacks/stack_set.h"

namespace stackmask {

class CoarseStacks {
 public:
  CoarseStacks(RuleDfa& dfa, Counters& counters, StackSet& stacks) : dfa_(dfa), counters_(counters), stacks_(stacks) {}

  StackId of(StackId configuration);  // without guards
  void clear() { coarse_.clear(); }
  std::size_t bytes() const { return coarse_.bytes(); }

 private:
  RuleDfa& dfa_;
  Counters& counters_;
  StackSet& stacks_;
  GrowingArray<StackId> coarse_;  // by node, NONE until computed
  // Whether some state so far has a count, or some rule is a region. Other stacks stay as they are. Rules are lowered as they are reached.
  bool may_differ() const {
    const Nfa& nfa = dfa_.nfa();
    return !nfa.heads.empty() || nfa.temperatures.size() > 1 || nfa.limited;
  }
  StackId& at(StackId node) {
    if (coarse_.size() <= node) coarse_.resize(stacks_.size(), StackId(NONE));
    return coarse_[node];
  }
  bool settle(StackId node);
  StackId unite_coarse(StackId node);
};

}  // namespace stackmask
