#include "stacks/regions.h"

#include <algorithm>

namespace stackmask {

double Regions::temperature(StackId configuration) {
  if (dfa_.nfa().temperatures.size() == 1) return -1;
  PooledVector<StackId> todo{configuration};
  while (!todo.empty()) {
    const StackId node = todo.back();
    if (temperatures_.find(node)) {
      todo.pop_back();
      continue;
    }
    const std::size_t waiting = todo.size();
    dfa_.work().spend(2ull + stacks_.edge_count(node));
    u32 highest = 0;
    for (u32 i = 0; i < stacks_.edge_count(node); i++) {
      const StackEdge edge = stacks_.edges(node)[i];
      if ((dfa_[edge.state].flags & STATE_REGION) && dfa_.region_rule(edge.state).temperature) {
        highest = std::max(highest, dfa_.region_rule(edge.state).temperature);
      } else if (edge.state != BOTTOM) {
        const u32* below = temperatures_.find(edge.below);
        if (!below) todo.push_back(edge.below);
        else highest = std::max(highest, *below);
      }
    }
    if (todo.size() > waiting) continue;
    temperatures_.insert(node, highest);
    todo.pop_back();
  }
  const u32 highest = *temperatures_.find(configuration);
  return highest ? dfa_.nfa().temperatures[highest] : -1;
}

// The node without its own regions.
StackId Regions::without_regions(StackId node) {
  auto is_region = [this](const StackEdge& edge) { return dfa_[edge.state].flags & STATE_REGION; };
  const std::span<const StackEdge> all(stacks_.edges(node), stacks_.edge_count(node));
  dfa_.work().spend(all.size());
  if (std::none_of(all.begin(), all.end(), is_region)) return node;
  PooledVector<StackEdge> others;
  for (const StackEdge& edge : all)
    if (!is_region(edge)) others.push_back(edge);
  return others.empty() ? NO_STACK : stacks_.intern(others);
}

StackId Regions::behind(StackId top) {
  if (const u32* found = behind_.find(top)) return StackId(*found);
  PooledVector<StackId> todo{top};
  while (!todo.empty()) {
    const StackId node = todo.back();
    if (behind_.find(node)) {
      todo.pop_back();
      continue;
    }
    const std::size_t waiting = todo.size();
    dfa_.work().spend(4ull + 2 * stacks_.edge_count(node));
    StackId united = NO_STACK;
    for (u32 i = 0; i < stacks_.edge_count(node); i++) {
      const StackEdge edge = stacks_.edges(node)[i];
      if (!(dfa_[edge.state].flags & STATE_REGION)) continue;
      const u32* below = behind_.find(edge.below);
      if (!below) {
        todo.push_back(edge.below);
      } else if (todo.size() == waiting) {
        const StackId further(*below);
        united = stacks_.unite(stacks_.unite(united, without_regions(edge.below)), further);
      }
    }
    if (todo.size() > waiting) continue;
    behind_.insert(node, united);
    todo.pop_back();
  }
  return StackId(*behind_.find(top));
}

void Regions::add_crossed(StackId top, u32 tokens, std::vector<StateId>& crossed) {
  stacks_.each_edge(top, [&](const StackEdge& edge) {
    if (!(dfa_[edge.state].flags & STATE_REGION)) return false;
    if (dfa_.region_end(edge.state) <= tokens) crossed.push_back(edge.state);
    return stacks_.expires_at(edge.below) <= tokens;
  });
}

// The states that follow an ended region are in the configuration already. INVARIANT: there are some, since no region lies in a SCOPE.
StackId Regions::drop_expired(StackId configuration, u32 tokens, std::vector<StateId>& crossed) {
  if (crossed.empty()) return configuration;
  std::sort(crossed.begin(), crossed.end());
  crossed.erase(std::unique(crossed.begin(), crossed.end()), crossed.end());
  FlatMap done;
  PooledVector<StackId> todo{configuration};
  PooledVector<StackEdge> kept;
  while (!todo.empty()) {
    const StackId node = todo.back();
    if (done.find(node)) {  // several nodes waited for it
      todo.pop_back();
      continue;
    }
    const std::size_t waiting = todo.size();
    dfa_.work().spend(4ull + stacks_.edge_count(node));
    kept.clear();
    for (u32 i = 0; i < stacks_.edge_count(node); i++) {
      StackEdge edge = stacks_.edges(node)[i];
      if (std::binary_search(crossed.begin(), crossed.end(), edge.state)) continue;
      if (stacks_.expires_at(edge.below) <= tokens) {
        const u32* found = done.find(edge.below);
        if (!found) {
          todo.push_back(edge.below);
          continue;
        }
        edge.below = StackId(*found);
        if (edge.below == NO_STACK) continue;
      }
      kept.push_back(edge);
    }
    if (todo.size() > waiting) continue;
    done.insert(node, stacks_.intern(kept));
    todo.pop_back();
  }
  return StackId(*done.find(configuration));
}

}  // namespace stackmask
