#include "masks/builder.h"

#include <algorithm>

#include "masks/loops.h"
#include "masks/state_mask.h"

namespace stackmask {

void StateMaskBuilder::clear() {
  dense = nullptr;
  own.clear(), tokens.clear(), excluded.clear(), moves.clear(), nested.clear(), scarce.clear();
  hits.clear(), seeds_.clear(), large_.clear();
}

void StateMaskBuilder::build(u32 list, StateId state, bool under_guards) {
  clear();
  guarded = under_guards;
  const u32 first = lists[list][0];
  index = lists[list].size() == 1 && (first == 0 || trie.heavy(first)) ? trie.classes(first) : nullptr;
  if (!index || !take_class_loop(*this, state)) {
    clear();
    walk_nodes(list, state);
  }
  while (!large_.empty()) {
    const auto [node, target] = large_.back();
    large_.pop_back();
    statistics.heavy_walks++;
    nested.push_back(masks.get(lists.intern({&node, 1}), target, guarded));
  }
  finish();
}

void StateMaskBuilder::walk_nodes(u32 list, StateId state) {
  dfa.build(state);
  const std::size_t count = lists[list].size();
  const bool at_root = lists[list][0] == 0;
  const bool many = count >= trie.thresholds().many_nodes || at_root;
  const bool together = !guarded && many && (dfa[state].flags & STATE_BYTES) && !dfa.dense(state);
  const NodeSet* set = together ? lists.set(list) : nullptr;
  if (set && (at_root || !set->heavy) && walk_set(set, state)) {
    walk_seeds();
    return;
  }
  for (std::size_t i = 0; i < count; i++) {
    const u32 node = lists[list][i];
    if (!index && trie.heavy(node) && (dfa[state].flags & STATE_BYTES)) large_.push_back({node, state});
    else walk(node, state);
  }
}

void StateMaskBuilder::add_tokens(u32 node) {
  for (i32 token = trie.nodes()[node].token; token >= 0; token = trie.same(token)) tokens.push_back(token);
}

void StateMaskBuilder::take_bitmask(const std::shared_ptr<const LoopMask>& mask) { dense = masks.hold(mask); }

template <class F>
void StateMaskBuilder::each_move(StateId state, F take) {
  if (dfa[state].flags & STATE_FINAL) take(Call{NONE, DEAD, false});
  dfa.build(state);
  for (u32 c = 0; c < dfa[state].call_count; c++) take(dfa.call(state, c));
}

void StateMaskBuilder::go_on_at(const std::vector<u32>& nodes, StateId state, const NodeList* shared) {
  const bool leaves = !guarded && (dfa[state].flags & STATE_LEAVES), reads = dfa[state].flags & STATE_BYTES;
  if (nodes.empty() || (!leaves && !reads)) return;
  dfa.work().spend(4 + nodes.size() / 4);
  const u32 list = shared ? lists.id(shared) : lists.intern(nodes);
  if (leaves) each_move(state, [&](const Call& target) { moves.push_back({target.rule, target.back, list, target.distinct}); });
  if (reads) nested.push_back(masks.get(list, state, guarded));
}

void StateMaskBuilder::leave_at(StateId state, const NodeList& nodes) {
  if (nodes.nodes.empty()) return;
  dfa.work().spend(4 + nodes.nodes.size() / 4);
  const u32 list = lists.id(&nodes);
  each_move(state, [&](const Call& target) { moves.push_back({target.rule, target.back, list, target.distinct}); });
}

void StateMaskBuilder::record_guarded(u32 node, StateId state) {
  const u8 flags = dfa[state].flags;
  if (flags & STATE_LEAVES) hits.push_back({state, node});
  if (counts.scope_may_run_out(state)) {
    scarce.push_back({node, DEAD, 0});
  } else if (!(flags & STATE_FINAL) && trie.nodes()[node].token >= 0 && !counts.has_unbounded_strings(state)) {
    if (const u32 texts = counts.min_text_count(state); texts != UNBOUNDED) scarce.push_back({node, state, texts});
  }
}

// Where states were left, by the moves that they make there.
void StateMaskBuilder::gather_moves() {
  if (hits.empty()) return;
  dfa.work().spend(hits.size());
  if (!std::is_sorted(hits.begin(), hits.end())) std::sort(hits.begin(), hits.end());
  Scratch<Call> targets;
  Scratch<std::pair<u32, u32>> reached;  // (place in targets, node)
  for (std::size_t begin = 0, end = 0; begin < hits.size(); begin = end) {
    const StateId state = hits[begin].first;
    while (end < hits.size() && hits[end].first == state) end++;
    each_move(state, [&](const Call& target) {
      const auto found = std::find(targets.begin(), targets.end(), target);
      const u32 which = static_cast<u32>(found - targets.begin());
      if (found == targets.end()) targets.push_back(target);
      for (std::size_t i = begin; i < end; i++) reached.push_back({which, hits[i].second});
    });
  }
  if (!std::is_sorted(reached.begin(), reached.end())) std::sort(reached.begin(), reached.end());
  Scratch<u32> nodes;
  for (std::size_t i = 0; i < reached.size();) {
    const u32 which = reached[i].first;
    nodes.clear();
    for (; i < reached.size() && reached[i].first == which; i++)
      if (nodes.empty() || nodes.back() != reached[i].second) nodes.push_back(reached[i].second);
    moves.push_back({targets[which].rule, targets[which].back, lists.intern(nodes), targets[which].distinct});
  }
  hits.clear();
}

// Tokens into a bitmask if they are many.
void StateMaskBuilder::finish() {
  gather_moves();
  if (tokens.size() > trie.thresholds().listed_tokens && excluded.empty()) {
    if (dense) own.assign(dense, dense + trie.words());
    else own.assign(trie.words(), 0);
    for (const i32 token : tokens) own[static_cast<u32>(token) >> 5] |= 1u << (token & 31);
    tokens.clear();
    dense = own.data();
    statistics.own_masks++;
  }
}

}  // namespace stackmask
