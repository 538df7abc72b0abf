// A state that all characters except those of some words lead into an absorbing state ("any key but these"). Its mask is that of the
// absorbing state, with differences. They are found by following both states through the trie together, as long as they differ.
//
//   not "id":   [start] --others--> [*]      at i the states differ ([i] and [*]), at id they differ, at id" only one has an end:
//                  \--i--> [i] --d--> [id]    the token id" is excluded from the mask of [*]
//
// Assumes that they differ at few nodes of the trie; refuses past `absorbing_differences`.
//
// Tested by tests/pda/kernel/test_class_loops.py ("anything but words").
#include <algorithm>

#include "masks/loops.h"

namespace stackmask {

namespace {
constexpr u32 MOST_HOPS = 4;  // from a state to the state in which its loop ends
}

bool take_absorbing_state(StateMaskBuilder& mask, StateId state, const ClassLoop& loop) {
  StateId absorbing = loop.target;
  for (u32 hops = 0; hops < MOST_HOPS; hops++) {
    mask.dfa.build(absorbing);
    if (!mask.dfa.dense(absorbing)) return false;
    const StateId next = mask.loops.class_loop(absorbing).target;
    if (next == DEAD || next == absorbing) break;
    absorbing = next;
  }
  if (absorbing == state) return false;
  const ClassLoop at_absorbing = mask.loops.class_loop(absorbing);
  if (at_absorbing.target != absorbing || (mask.dfa[absorbing].flags & STATE_LEAVES)) return false;
  if (at_absorbing.live & ~at_absorbing.inside & SIG_WORDS) return false;
  if (mask.guarded && mask.counts.min_text_count(absorbing) < mask.trie.thresholds().guarded_texts) return false;
  const u64 inside = at_absorbing.inside & loop.live;
  // With a space outside the loop, the paths below would compare, byte by byte, a character that leaves the loop as a whole.
  if (inside == 0 || ((inside & SIG_NON_ASCII) && !(inside & SIG_SPACE))) return false;
  const TrieNode* nodes = mask.trie.nodes();
  struct Pair {
    NodeId node;
    StateId here, there;  // states from `state` and from the absorbing one
    bool inside;          // the path lies in the loop
  };
  PooledVector<Pair> todo{{mask.index->node(), state, absorbing, true}};
  PooledVector<RuleDfa::Difference> differences;
  struct Differing {
    NodeId node;
    StateId here, there;
  };
  PooledVector<Differing> differing;
  PooledVector<std::pair<NodeId, StateId>> extra;  // (node, state) of further walks
  PooledVector<NodeId> removed;              // exit nodes of the absorbing state that this state lacks or treats differently
  u32 visited = 0;
  while (!todo.empty()) {
    const Pair pair = todo.back();
    todo.pop_back();
    // At a node with many children few bytes lead apart; at other nodes there are few bytes to look up.
    differing.clear();
    mask.dfa.work().spend(10);
    if (mask.trie.wide(pair.node)) {
      mask.dfa.differences(pair.here, pair.there, differences);
      for (const auto& [lo, hi, here, there] : differences)
        for (u32 b = lo; b <= hi; b++)
          if (const NodeId child = mask.trie.child(pair.node, static_cast<u8>(b)); child != NONE) differing.push_back({child, here, there});
    } else {
      for (const NodeId at : mask.trie.children(pair.node)) {
        mask.dfa.work().spend(2);
        const StateId here = mask.dfa.next(pair.here, nodes[at].byte()), there = mask.dfa.next(pair.there, nodes[at].byte());
        if (here != there) differing.push_back({at, here, there});
      }
    }
    visited += static_cast<u32>(differing.size());
    if (visited > mask.trie.thresholds().absorbing_differences) return false;
    for (const auto& [at, here, there] : differing) {
      const bool still = pair.inside && (signature_of_exit(nodes[at].byte()) & inside) != 0;
      if (still && there != DEAD) {
        if (here == DEAD || (mask.dfa[here].flags & STATE_LEAVES)) return false;
        if (mask.guarded) mask.record_guarded(at, here);
        if (nodes[at].skip() > 1) todo.push_back({at, here, there, true});
        continue;
      }
      if (there != DEAD) removed.push_back(at);
      if (here != DEAD) extra.push_back({at, here});
    }
  }
  std::sort(removed.begin(), removed.end());
  LoopExits exits;
  PooledVector<NodeId> kept;
  PooledVector<u32> live;
  mask.loops.live_exits(absorbing, inside, live);
  for (const u32 exit : live) {
    const StateId target = mask.loops.after_exit(absorbing, exit);
    const auto list = mask.index->loop_exits(inside, exit, 0, NONE);
    mask.dfa.work().spend(10 + list->nodes.size());
    exits.push_back(list);
    kept.clear();
    for (const NodeId node : list->nodes)
      if (!std::binary_search(removed.begin(), removed.end(), node)) kept.push_back(node);
    if (mask.guarded) {
      for (const NodeId node : kept) mask.record_guarded(node, target);
      for (const NodeId node : list->leaves)
        if (!std::binary_search(removed.begin(), removed.end(), node)) mask.record_guarded(node, target);
    }
    mask.go_on_at(kept, target, kept.size() == list->nodes.size() ? list.get() : nullptr);
  }
  mask.take_bitmask(mask.index->loop_mask_with_exits(inside, NONE, exits));
  for (const NodeId node : removed)
    for (const TokenId token : mask.trie.tokens_at(node)) mask.excluded.push_back(token);
  std::sort(mask.excluded.begin(), mask.excluded.end());
  mask.statistics.absorbing++, mask.statistics.guarded_absorbing += mask.guarded, mask.statistics.excluded += !mask.excluded.empty();
  for (const auto& [node, target] : extra) mask.walk_child(node, target);
  return true;
}

}  // namespace stackmask
