#include "grammar/automata.h"

#include <algorithm>

namespace stackmask {

std::size_t by_target(const Expressions& ex, u32 node, std::size_t at, ByTarget& result) {
  const std::size_t begin = at + 2, end = begin + 3 * static_cast<std::size_t>(ex.arg(node, at + 1));
  auto each = [&](auto take) {
    for (std::size_t t = begin; t < end; t += 3)
      if (ex.arg(node, 0) == RAW || !only_surrogates(ex.arg(node, t), ex.arg(node, t + 1))) take(t, static_cast<u32>(ex.arg(node, t + 2)));
  };
  PooledVector<u32> group_of;  // by transition
  result.groups.clear();
  each([&](std::size_t, u32 target) {
    auto found = std::find_if(result.groups.begin(), result.groups.end(), [&](const auto& group) { return group.target == target; });
    if (found == result.groups.end()) found = result.groups.insert(result.groups.end(), {target, 0, 0});
    found->end += 2;
    group_of.push_back(static_cast<u32>(found - result.groups.begin()));
  });
  u32 places = 0;
  for (auto& group : result.groups) {
    const u32 count = group.end;
    group.begin = group.end = places;
    places += count;
  }
  result.ranges.resize(places);
  std::size_t next = 0;
  each([&](std::size_t t, u32) {
    u32& place = result.groups[group_of[next++]].end;
    result.ranges[place++] = ex.arg(node, t);
    result.ranges[place++] = ex.arg(node, t + 1);
  });
  return end;
}

void automaton_lengths(const Expressions& ex, u32 node, std::vector<u32>& least, std::vector<u32>* greatest) {
  const u32 count = static_cast<u32>(ex.arg(node, 1));
  PooledVector<std::pair<u32, u32>> edges;  // (target, source), each once
  PooledVector<u32> work, last, begin, sources, cursor, waiting, longest;
  last.assign(count, NONE);
  begin.assign(count + 1, 0);
  least.assign(count, NONE);
  std::size_t at = 4;
  for (u32 i = 0; i < count; i++) {
    if (ex.arg(node, at)) least[i] = 0, work.push_back(i);
    const std::size_t end = at + 2 + 3 * static_cast<std::size_t>(ex.arg(node, at + 1));
    for (at += 2; at < end; at += 3) {
      const u32 target = static_cast<u32>(ex.arg(node, at + 2));
      if (last[target] == i || (ex.arg(node, 0) != RAW && only_surrogates(ex.arg(node, at), ex.arg(node, at + 1)))) continue;
      last[target] = i;
      edges.push_back({target, i});
      begin[target + 1]++;
    }
  }
  for (u32 i = 1; i <= count; i++) begin[i] += begin[i - 1];
  sources.resize(edges.size());
  cursor.assign(begin.begin(), begin.end() - 1);
  for (const auto& [target, source] : edges) sources[cursor[target]++] = source;
  for (std::size_t next = 0; next < work.size(); next++)
    for (u32 i = begin[work[next]]; i < begin[work[next] + 1]; i++)
      if (least[sources[i]] == NONE) least[sources[i]] = least[work[next]] + 1, work.push_back(sources[i]);
  if (!greatest) return;
  // Kahn's order from the ends: a state on a cycle, or before one, never comes up.
  std::vector<u32>& most = *greatest;
  waiting.assign(count, 0);
  most.assign(count, NONE);
  work.clear();
  for (const auto& [target, source] : edges) waiting[source] += least[target] != NONE;
  longest.assign(count, 0);
  for (u32 i = 0; i < count; i++)
    if (least[i] != NONE && waiting[i] == 0) most[i] = 0, work.push_back(i);
  for (std::size_t next = 0; next < work.size(); next++)
    for (u32 i = begin[work[next]]; i < begin[work[next] + 1]; i++) {
      const u32 source = sources[i];
      longest[source] = std::max(longest[source], most[work[next]] + 1);
      if (least[source] == NONE || --waiting[source]) continue;
      most[source] = longest[source];
      work.push_back(source);
    }
}

}  // namespace stackmask
