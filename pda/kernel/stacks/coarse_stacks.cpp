#include "stacks/coarse_stacks.h"

#include <algorithm>

namespace stackmask {

StackId CoarseStacks::of(StackId configuration) {
  if (const u32* found = coarse_.find(configuration)) return StackId(*found);
  Scratch<StackId> todo{configuration};
  while (!todo.empty()) {
    const StackId node = todo.back();
    if (coarse_.find(node)) {
      todo.pop_back();
      continue;
    }
    const std::size_t waiting = todo.size();
    bool changes = false;
    dfa_.work().spend(2ull + stacks_.edge_count(node));
    for (u32 i = 0; i < stacks_.edge_count(node); i++) {
      const StackEdge edge = stacks_.edges(node)[i];
      if (edge.state == BOTTOM) continue;
      if (const u32* below = coarse_.find(edge.below)) {
        changes =
            changes || *below != edge.below || (dfa_[edge.state].flags & STATE_REGION) || counters_.saturated(edge.state) != edge.state;
      } else {
        todo.push_back(edge.below);
      }
    }
    if (todo.size() > waiting) continue;  // below first
    const StackId coarse = changes ? unite_coarse(node) : node;
    coarse_.insert(node, coarse);
    todo.pop_back();
  }
  return StackId(*coarse_.find(configuration));
}

// The nodes below the node's edges are coarse already.
StackId CoarseStacks::unite_coarse(StackId node) {
  Scratch<StackEdge> edges;
  StackId through_regions = NO_STACK;
  for (u32 i = 0; i < stacks_.edge_count(node); i++) {
    const StackEdge edge = stacks_.edges(node)[i];
    if (edge.state == BOTTOM) {
      edges.push_back(edge);
      continue;
    }
    const StackId below(*coarse_.find(edge.below));
    if (dfa_[edge.state].flags & STATE_REGION) through_regions = stacks_.unite(through_regions, below);
    else edges.push_back({counters_.saturated(edge.state), below});
  }
  stacks_.unite_equal(edges);
  return stacks_.unite(edges.empty() ? NO_STACK : stacks_.intern(edges), through_regions);
}

}  // namespace stackmask
