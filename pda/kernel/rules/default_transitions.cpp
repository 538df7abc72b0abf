// Delta states: a state kept as its differences from another one, its default state (D2FA, Kumar et al. 2006).
//
// A text that must differ from some words ("any key but these") has a state for each beginning of a word. That state reads what the state
// after all words reads, except for the bytes that continue a word:
//
//   not "id", "ids":    start --i--> [i] --d--> [id] --s--> [ids]      each has one own range and the default state [*],
//                         \___________\__________\___________\__ [*]   which reads all other characters, and stays
//
// A state may have several such items, as where any of some objects is open: the default state then has the [*] of each.
//
// A byte is looked up in the few own ranges first and in the default state then: two lookups. The edges of such a state are built only
// when more of them are needed. Two states with the same default state differ at most by their own bytes, so they are compared as cheaply.
//
// Tested by tests/pda/kernel/test_class_loops.py ("anything but words").
#include <algorithm>
#include <bit>

#include "rules/rule_dfa.h"

namespace stackmask {

// The bytes that an EDGE_DEFAULT to `target` reads.
void RuleDfa::add_default(const Item& item, NfaStateId target) {
  bool own[256] = {};
  for (u32 e = nfa_.states[item.state].first; e != NONE; e = nfa_.edges[e].next)
    if (const Edge& edge = nfa_.edges[e]; edge.kind == EDGE_BYTE) std::fill(own + edge.lo, own + edge.hi + 1, true);
  for (u32 e = nfa_.states[target].first; e != NONE; e = nfa_.edges[e].next) {
    const Edge& edge = nfa_.edges[e];
    if (edge.kind != EDGE_BYTE) continue;
    for (u32 lo = edge.lo; lo <= edge.hi; lo++) {
      if (own[lo]) continue;
      u32 hi = lo;
      while (hi < edge.hi && !own[hi + 1]) hi++;
      live_.push_back({static_cast<u8>(lo), static_cast<u8>(hi), {edge.target, item.reg}});
      lo = hi;
    }
  }
}

// Delta states have items on the way into a word, or behind all words, and others that read few bytes, none of them above U+007F. Their
// default state has the items behind all words; own ranges are for bytes that any other item reads by an edge of its own.
// PERF: objects of a union each exclude their own keys. With one such item only, a state for each beginning of a key had all ranges of all
// objects, and a mask where a key begins took 30 ms.
void RuleDfa::make_delta(StateId state) {
  states_[state].default_state = DEAD;
  constexpr u32 MOST_OWN = 64;  // bytes; with more the state is as well built
  PooledVector<Item> behind;
  AsciiSet own;
  auto each_target = [&](const Item& item, auto take) {  // of a default transition
    for (u32 e = nfa_.states[item.state].first; e != NONE; e = nfa_.edges[e].next)
      if (nfa_.edges[e].kind == EDGE_DEFAULT) take(nfa_.edges[e].target);
  };
  bool is_default = true;  // itself, of others
  for (const Item item : items(state)) {
    if (nfa_.states[item.state].is_default) {
      behind.push_back(item);
      continue;
    }
    is_default = false;
    each_target(item, [&](NfaStateId target) { behind.push_back({target, item.reg}); });
    for (u32 e = nfa_.states[item.state].first; e != NONE; e = nfa_.edges[e].next) {
      const Edge& edge = nfa_.edges[e];
      if (edge.kind != EDGE_BYTE) continue;
      if (edge.hi > 127) return;
      own.add(edge.lo, edge.hi);
    }
  }
  if (is_default || static_cast<u32>(std::popcount(own.words[0]) + std::popcount(own.words[1])) > MOST_OWN) return;
  sort_items(behind);
  behind.erase(std::unique(behind.begin(), behind.end()), behind.end());
  live_.clear();
  // Where the state's own bytes lead: a range for each, so that those of all items are equal or disjoint.
  auto add_own = [&](NfaStateId from, RegisterId reg, const AsciiSet& except) {
    for (u32 e = nfa_.states[from].first; e != NONE; e = nfa_.edges[e].next) {
      const Edge& edge = nfa_.edges[e];
      if (edge.kind != EDGE_BYTE || edge.lo > 127) continue;
      AsciiSet read;
      read.add(edge.lo, std::min<u32>(edge.hi, 127));
      for (u32 w = 0; w < 2; w++)
        for (u64 left = read.words[w] & own.words[w] & ~except.words[w]; left; left &= left - 1) {
          const u8 b = static_cast<u8>(64 * w + static_cast<u32>(std::countr_zero(left)));
          live_.push_back({b, b, {edge.target, reg}});
        }
    }
  };
  for (const Item item : items(state)) {
    add_own(item.state, item.reg, {});
    AsciiSet word;
    each_target(item, [&](NfaStateId) {
      for (u32 e = nfa_.states[item.state].first; e != NONE; e = nfa_.edges[e].next)
        if (const Edge& edge = nfa_.edges[e]; edge.kind == EDGE_BYTE) word.add(edge.lo, edge.hi);
    });
    each_target(item, [&](NfaStateId target) { add_own(target, item.reg, word); });
  }
  const StateId to = intern_items(behind);
  DfaState& f = states_[state];
  f.deltas = static_cast<u32>(ranges_.size());
  add_ranges();
  f.delta_count = static_cast<u32>(ranges_.size()) - f.deltas;
  f.default_state = to;
  delta_states_++;
}

StateId RuleDfa::next_of_delta(StateId state, u8 byte) {
  const DfaState& f = states_[state];
  for (u32 i = f.deltas; i < f.deltas + f.delta_count && ranges_[i].lo <= byte; i++) {
    if (byte > ranges_[i].hi) continue;
    if (ranges_[i].target == UNRESOLVED) {
      const StateId target = target_of(ranges_[i]);
      ranges_[i].target = target;
    }
    return ranges_[i].target;
  }
  return next(f.default_state, byte);
}

// Ranges with the same items have the same target, so most targets are never resolved.
void RuleDfa::differences(StateId a, StateId b, std::vector<Difference>& found) {
  found.clear();
  if (is_delta(a) && is_delta(b) && states_[a].default_state == states_[b].default_state) {
    AsciiSet deltas;
    for (const StateId state : {a, b})
      for (u32 i = states_[state].deltas; i < states_[state].deltas + states_[state].delta_count; i++)
        deltas.add(ranges_[i].lo, ranges_[i].hi);
    for (u32 w = 0; w < 2; w++)
      for (u64 rest = deltas.words[w]; rest; rest &= rest - 1) {
        const u8 byte = static_cast<u8>(w * 64 + static_cast<u32>(std::countr_zero(rest)));
        const StateId here = next_of_delta(a, byte), there = next_of_delta(b, byte);
        if (here != there) found.push_back({byte, byte, here, there});
      }
    return;
  }
  build(a);
  build(b);
  const u32 n = states_[a].range_count, m = states_[b].range_count, first_a = states_[a].ranges, first_b = states_[b].ranges;
  for (u32 i = 0, j = 0, at = 0; at < 256;) {
    while (i < n && ranges_[first_a + i].hi < at) i++;
    while (j < m && ranges_[first_b + j].hi < at) j++;
    const bool in_a = i < n && ranges_[first_a + i].lo <= at, in_b = j < m && ranges_[first_b + j].lo <= at;
    u32 end = 255;
    if (i < n) end = std::min<u32>(end, in_a ? ranges_[first_a + i].hi : ranges_[first_a + i].lo - 1u);
    if (j < m) end = std::min<u32>(end, in_b ? ranges_[first_b + j].hi : ranges_[first_b + j].lo - 1u);
    const u32 lo = at;
    at = end + 1;
    if (!in_a && !in_b) continue;
    if (in_a && in_b) {
      const Range x = ranges_[first_a + i], y = ranges_[first_b + j];
      const auto items = range_items_.begin();
      if (std::equal(items + x.begin, items + x.end, items + y.begin, items + y.end)) continue;
    }
    const StateId here = in_a ? range_target(a, i) : DEAD, there = in_b ? range_target(b, j) : DEAD;
    if (here != there) found.push_back({static_cast<u8>(lo), static_cast<u8>(end), here, there});
  }
}

}  // namespace stackmask
