#include "stacks/regions.h"

#include <algorithm>
#include <unordered_map>

namespace stackmask {

double Regions::temperature(StackId configuration) {
  if (dfa_.nfa().temperatures.size() == 1) return -1;
  Scratch<StackId> todo{configuration};
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

// The states that follow an ended region are there already. INVARIANT: there are some, for no region lies in a SCOPE.
StackId Regions::drop_expired(StackId configuration, u32 tokens, std::vector<StateId>& crossed) {
  std::sort(crossed.begin(), crossed.end());
  std::erase_if(crossed, [&](StateId region) {
    const u32 limit = dfa_.region_rule(region).limit;
    return limit == NONE || tokens - dfa_.region_start(region) < limit;
  });
  if (crossed.empty()) return configuration;
  std::unordered_map<u32, StackId> done;
  Scratch<StackId> todo{configuration};
  Scratch<StackEdge> kept;
  while (!todo.empty()) {
    const StackId node = todo.back();
    if (done.contains(node)) {  // several nodes waited for it
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
        const auto found = done.find(edge.below);
        if (found == done.end()) {
          todo.push_back(edge.below);
          continue;
        }
        edge.below = found->second;
        if (edge.below == NO_STACK) continue;
      }
      kept.push_back(edge);
    }
    if (todo.size() > waiting) continue;
    done[node] = stacks_.intern(kept);
    todo.pop_back();
  }
  return done[configuration];
}

}  // namespace stackmask
