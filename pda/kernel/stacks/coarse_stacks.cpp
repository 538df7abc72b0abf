#include "stacks/coarse_stacks.h"

#include <algorithm>

namespace stackmask {

StackId CoarseStacks::of(StackId configuration) {
  if (!may_differ()) return configuration;
  if (const StackId found = at(configuration); found != NONE) return found;
  if (settle(configuration)) return at(configuration);
  PooledVector<StackId> todo{configuration};
  while (!todo.empty()) {
    const StackId node = todo.back();
    if (at(node) != NONE || settle(node)) {
      todo.pop_back();
      continue;
    }
    for (u32 i = 0; i < stacks_.edge_count(node); i++)  // the nodes below it come first
      if (const StackEdge edge = stacks_.edges(node)[i]; edge.state != BOTTOM && at(edge.below) == NONE) todo.push_back(edge.below);
  }
  return at(configuration);
}

// Computes a node whose nodes below are computed; false if some are not.
bool CoarseStacks::settle(StackId node) {
  bool changes = false;
  dfa_.work().spend(2ull + stacks_.edge_count(node));
  for (u32 i = 0; i < stacks_.edge_count(node); i++) {
    const StackEdge edge = stacks_.edges(node)[i];
    if (edge.state == BOTTOM) continue;
    const StackId below = at(edge.below);
    if (below == NONE) return false;
    changes = changes || below != edge.below || (dfa_[edge.state].flags & STATE_REGION) || counters_.saturated(edge.state) != edge.state;
  }
  const StackId coarse = changes ? unite_coarse(node) : node;
  at(node) = coarse;
  return true;
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
