#include "masks/builder.h"

#include <algorithm>

#include "masks/loops.h"
#include "masks/state_mask.h"

namespace stackmask {

void StateMaskBuilder::clear() {
  dense = nullptr;
  l_.clear();
}

void StateMaskBuilder::build(ListId list, StateId state, bool under_guards) {
  guarded = under_guards;
  const NodeId first = lists[list][0];
  index = lists[list].size() == 1 && (first == TokenTrie::ROOT || trie.large(first)) ? trie.classes(first) : nullptr;
  if (!index || !take_class_loop(*this, state)) walk_nodes(list, state);
  while (!large_.empty()) {
    const auto [node, target] = large_.back();
    large_.pop_back();
    statistics.large_walks++;
    nested.push_back(masks.get(lists.intern({&node, 1}), target, guarded));
  }
  finish();
}

void StateMaskBuilder::walk_nodes(ListId list, StateId state) {
  dfa.build(state);
  const std::size_t count = lists[list].size();
  const bool at_root = lists[list][0] == TokenTrie::ROOT;
  const bool many = count >= trie.thresholds().many_nodes || at_root;
  const bool together = !guarded && many && (dfa[state].flags & STATE_BYTES) && !dfa.dense(state);
  const NodeSet* set = together ? lists.set(list) : nullptr;
  if (set && (at_root || !set->large) && walk_set(set, state)) {
    walk_seeds();
    return;
  }
  for (std::size_t i = 0; i < count; i++) {
    const NodeId node = lists[list][i];
    if (!index && trie.large(node) && (dfa[state].flags & STATE_BYTES)) large_.push_back({node, state});
    else walk(node, state);
  }
}

void StateMaskBuilder::add_tokens(NodeId node) {
  for (const TokenId token : trie.tokens_at(node)) tokens.push_back(token);
}

void StateMaskBuilder::take_bitmask(const std::shared_ptr<const LoopMask>& mask) { dense = masks.hold(mask); }

template <class F>
void StateMaskBuilder::each_move(StateId state, F take) {
  if (dfa[state].flags & STATE_FINAL) take(Call{NONE, DEAD, false});
  dfa.build(state);
  for (u32 c = 0; c < dfa[state].call_count; c++) take(dfa.call(state, c));
}

void StateMaskBuilder::go_on_at(const std::vector<NodeId>& nodes, StateId state, const NodeList* shared) {
  const bool leaves = !guarded && (dfa[state].flags & STATE_LEAVES), reads = dfa[state].flags & STATE_BYTES;
  if (nodes.empty() || (!leaves && !reads)) return;
  dfa.work().spend(4 + nodes.size() / 4);
  const ListId list = shared ? lists.id(shared) : lists.intern(nodes);
  if (leaves) each_move(state, [&](const Call& target) { moves.push_back({target.rule, target.back, list, target.distinct}); });
  if (reads) nested.push_back(masks.get(list, state, guarded));
}

void StateMaskBuilder::leave_at(StateId state, const NodeList& nodes) {
  if (nodes.nodes.empty()) return;
  dfa.work().spend(4 + nodes.nodes.size() / 4);
  const ListId list = lists.id(&nodes);
  each_move(state, [&](const Call& target) { moves.push_back({target.rule, target.back, list, target.distinct}); });
}

void StateMaskBuilder::record_guarded(NodeId node, StateId state) {
  const u8 flags = dfa[state].flags;
  if (flags & STATE_LEAVES) hits.push_back({state, node});
  if (counts.scope_may_run_out(state)) {
    scarce.push_back({node, DEAD, 0});
  } else if (!(flags & STATE_FINAL) && trie.nodes()[node].token != NONE && !counts.has_unbounded_strings(state)) {
    if (const u32 texts = counts.min_text_count(state); texts != UNBOUNDED) scarce.push_back({node, state, texts});
  }
}

constexpr std::size_t FEW_STATES = 16;  // found without a table

// Where states were left, by the moves that they make there: hits by their states, each state's moves, the states that make each move.
void StateMaskBuilder::gather_moves() {
  if (hits.empty()) return;
  dfa.work().spend(hits.size());
  const StateId first = hits[0].first;
  if (std::ranges::all_of(hits, [first](const auto& hit) { return hit.first == first; })) {  // PERF: as in most masks
    PooledVector<NodeId> nodes;
    for (const auto& hit : hits) nodes.push_back(hit.second);
    const ListId list = lists.intern_unsorted(nodes, dfa.work());
    each_move(first, [&](const Call& target) { moves.push_back({target.rule, target.back, list, target.distinct}); });
    hits.clear();
    return;
  }
  PooledVector<std::pair<StateId, u32>> states;  // (state, where its nodes end)
  PooledVector<NodeId> by_state;                 // nodes, those of one state together
  group_hits(states, by_state);
  PooledVector<Call> targets;
  PooledVector<std::pair<u32, u32>> made;  // (place in targets, place in states)
  for (u32 place = 0; place < states.size(); place++) {
    each_move(states[place].first, [&](const Call& target) {
      const auto found = std::find(targets.begin(), targets.end(), target);
      made.push_back({static_cast<u32>(found - targets.begin()), place});
      if (found == targets.end()) targets.push_back(target);
    });
  }
  std::sort(made.begin(), made.end());
  PooledVector<NodeId> nodes;
  for (std::size_t i = 0; i < made.size();) {
    const u32 which = made[i].first;
    nodes.clear();
    for (; i < made.size() && made[i].first == which; i++) {
      const u32 place = made[i].second, begin = place ? states[place - 1].second : 0, end = states[place].second;
      dfa.work().spend((end - begin) / 4);
      nodes.insert(nodes.end(), by_state.begin() + begin, by_state.begin() + end);
    }
    moves.push_back({targets[which].rule, targets[which].back, lists.intern_unsorted(nodes, dfa.work()), targets[which].distinct});
  }
  hits.clear();
}

void StateMaskBuilder::group_hits(std::vector<std::pair<StateId, u32>>& states, std::vector<NodeId>& by_state) {
  PooledVector<u32> groups, order;  // each hit's state as a place in `states`; these places in the order of the states
  FlatMap places;                // of many states; takes memory only then
  u32 here = 0;                // hits of one state mostly come one after the other
  auto place = [&](StateId state) {
    if (here < states.size() && states[here].first == state) return here;
    const u32 count = static_cast<u32>(states.size());
    if (count < FEW_STATES) {
      for (here = 0; here < count && states[here].first != state;) here++;
    } else if (const u32* found = places.find(state)) {
      here = *found;
    } else {
      here = count;
    }
    if (here == count) {
      states.push_back({state, 0});
      if (states.size() == FEW_STATES)
        for (u32 i = 0; i < count; i++) places.insert(states[i].first, i);
      if (states.size() >= FEW_STATES) places.insert(state, count);
    }
    return here;
  };
  groups.reserve(hits.size());
  for (const auto& [state, node] : hits) {
    groups.push_back(place(state));
    states[here].second++;
  }
  for (u32 i = 0; i < states.size(); i++) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](u32 a, u32 b) { return states[a].first < states[b].first; });
  u32 begin = 0;
  for (const u32 i : order)
    begin += std::exchange(states[i].second, begin);  // where its nodes begin, and behind the next loop where they end
  by_state.resize(hits.size());
  for (std::size_t i = 0; i < hits.size(); i++) by_state[states[groups[i]].second++] = hits[i].second;
  std::sort(states.begin(), states.end());
}

// Tokens into a bitmask if they are many.
void StateMaskBuilder::finish() {
  gather_moves();
  if (tokens.size() > trie.thresholds().listed_tokens && excluded.empty()) {
    if (dense) own.assign(dense, dense + trie.words());
    else own.assign(trie.words(), 0);
    for (const TokenId token : tokens) set_bit(own.data(), token);
    tokens.clear();
    dense = own.data();
    statistics.own_masks++;
  }
}

}  // namespace stackmask
