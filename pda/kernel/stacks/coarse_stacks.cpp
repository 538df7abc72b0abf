#include "stacks/coarse_stacks.h"

#include <algorithm>

namespace stackmask {

StackId CoarseStacks::of(StackId configuration) {
  if (!may_differ()) return configuration;
  if (const StackId found = at(configuration); found != NONE) return found;
  PooledVector<StackId> todo{configuration};
  while (!todo.empty()) {
    const StackId node = todo.back();
    if (at(node) != NONE) {
      todo.pop_back();
      continue;
    }
    const std::size_t waiting = todo.size();
    bool changes = false;
    dfa_.work().spend(2ull + stacks_.edge_count(node));
    for (u32 i = 0; i < stacks_.edge_count(node); i++) {
      const StackEdge edge = stacks_.edges(node)[i];
      if (edge.state == BOTTOM) continue;
      if (const StackId below = at(edge.below); below != NONE) {
        changes =
            changes || below != edge.below || (dfa_[edge.state].flags & STATE_REGION) || counters_.saturated(edge.state) != edge.state;
      } else {
        todo.push_back(edge.below);
      }
    }
    if (todo.size() > waiting) continue;  // the nodes below come first
    const StackId coarse = changes ? unite_coarse(node) : node;
    at(node) = coarse;
    todo.pop_back();
  }
  return at(configuration);
}

// The node with coarse edges; the nodes below it are coarse already.
StackId CoarseStacks::unite_coarse(StackId node) {
  PooledVector<StackEdge> edges;
  StackId through_regions = NO_STACK;
  for (u32 i = 0; i < stacks_.edge_count(node); i++) {
    const StackEdge edge = stacks_.edges(node)[i];
    if (edge.state == BOTTOM) {
      edges.push_back(edge);
      continue;
    }
    const StackId below = at(edge.below);
    if (dfa_[edge.state].flags & STATE_REGION) through_regions = stacks_.unite(through_regions, below);
    else edges.push_back({counters_.saturated(edge.state), below});
  }
  stacks_.unite_equal(edges);
  return stacks_.unite(edges.empty() ? NO_STACK : stacks_.intern(edges), through_regions);
}

}  // namespace stackmask
