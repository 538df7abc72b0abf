#include "stacks/covered_stacks.h"

#include <algorithm>
#include <tuple>

#include "stacks/stack_set.h"

namespace stackmask {

// Whether the state counts, and its counts may be compared with those of others: not in a scope, which counts its values, too, and not
// in a rule that calls itself, where nodes without covered stacks would share less of the nodes below them.
bool CoveredStacks::counts(StateId state) const {
  return dfa_[state].counts && !dfa_.in_scope(state) && !dfa_.nfa().rules[dfa_.rule(state)].recursive;
}

// Whether a state allows all that another one allows, as far as their counts tell.
bool CoveredStacks::covers(StateId state, StateId other) {
  if (state == other) return true;
  return counts(state) && counts(other) && dfa_.rule(state) == dfa_.rule(other) && dfa_.united(state, other) == state;
}

// Whether each stack of `other` has one of `node` that covers it, as far as the upper levels of both tell. It recurses on these alone.
bool CoveredStacks::covers(StackId node, StackId other, const StackSet& stacks, u32 levels) {
  constexpr u32 FEW = 8;  // edges of a node that is compared
  if (node == other) return true;
  const u32 n = stacks.edge_count(node), m = stacks.edge_count(other);
  if (levels == 0 || n > FEW || m > FEW) return false;
  const u64 key = static_cast<u64>(node) << 32 | other;
  if (const u32* found = covers_.find(key)) return *found;
  dfa_.work().spend(2ull + n * m);
  const std::span<const StackEdge> by(stacks.edges(node), n), all(stacks.edges(other), m);
  const bool found = std::ranges::all_of(all, [&](const StackEdge& b) {
    return std::ranges::any_of(
        by, [&](const StackEdge& a) { return covers(a.state, b.state) && covers(a.below, b.below, stacks, levels - 1); });
  });
  covers_.insert(key, found);
  return found;
}

// Drops stacks that allow nothing which another one of the list does not allow, and unites those that differ by the counts of their first
// states alone. Edges of more than NEAR of one rule are compared with those near them.
void CoveredStacks::drop(std::vector<StackEdge>& list, const StackSet& stacks) {
  constexpr std::size_t NEAR = 64;
  constexpr u32 LEVELS = 4;
  PooledVector<StackEdge> counted;
  for (const StackEdge& edge : list)
    if (counts(edge.state)) counted.push_back(edge);
  if (counted.size() < 2) return;
  std::sort(counted.begin(), counted.end(), [this](const StackEdge& a, const StackEdge& b) {
    return std::tuple(dfa_.rule(a.state), a.below, a.state) < std::tuple(dfa_.rule(b.state), b.below, b.state);
  });
  std::size_t kept = 0;
  auto stands_elsewhere = [&](StateId state, StackId below) {  // a state has one edge
    dfa_.work().spend(2 + kept / 8);
    auto is_other = [&](const StackEdge& edge) { return edge.state == state && edge.below != below; };
    const auto found = std::ranges::lower_bound(list, state, {}, &StackEdge::state);
    return (found != list.end() && is_other(*found)) ||
           std::any_of(counted.begin(), counted.begin() + static_cast<std::ptrdiff_t>(kept), is_other);
  };
  // Stacks that differ by their first states.
  for (const StackEdge& edge : counted) {
    bool united = false;
    for (std::size_t k = kept; k-- > 0 && kept - k <= NEAR && counted[k].below == edge.below && !united;) {
      if (dfa_.rule(counted[k].state) != dfa_.rule(edge.state)) break;
      const StateId both = dfa_.united(counted[k].state, edge.state);
      if (both == DEAD || stands_elsewhere(both, edge.below)) continue;
      counted[k].state = both;
      united = true;
    }
    if (!united) counted[kept++] = edge;
  }
  const std::size_t before = counted.size();
  counted.resize(kept);
  // Stacks that differ further below.
  PooledVector<u8> dropped;
  dropped.resize(kept);
  for (std::size_t i = 0; i < kept; i++)
    for (std::size_t k = i > NEAR ? i - NEAR : 0; k < std::min(kept, i + NEAR) && !dropped[i]; k++) {
      dfa_.work().spend(1);
      dropped[i] =
          i != k && !dropped[k] && covers(counted[k].state, counted[i].state) && covers(counted[k].below, counted[i].below, stacks, LEVELS);
    }
  if (kept == before && std::ranges::find(dropped, u8{1}) == dropped.end()) return;
  std::erase_if(list, [this](const StackEdge& edge) { return counts(edge.state); });
  for (std::size_t i = 0; i < kept; i++)
    if (!dropped[i]) list.push_back(counted[i]);
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

}  // namespace stackmask
