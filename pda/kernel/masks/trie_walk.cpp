// The walks of a StateMaskBuilder: from a node, along a byte run, and from many nodes at once.
#include <algorithm>

#include "masks/builder.h"

namespace stackmask {

void StateMaskBuilder::walk(NodeId node, StateId state) {
  statistics.walks++;
  if (!(dfa[state].flags & STATE_BYTES)) return;
  dfa.build(state);
  if (!guarded && node != TokenTrie::ROOT && loops.byte_run(state).inside) {
    walk_byte_run(node, state);
    walk_seeds();
    return;
  }
  const TrieNode* nodes = trie.nodes();
  if (trie.wide(node) && !dfa.dense(state)) {
    statistics.wide_walks++;
    for (u32 r = 0; r < dfa[state].range_count; r++) {
      const Range range = dfa.range(state, r);
      for (u32 b = range.lo; b <= range.hi; b++)
        if (const NodeId child = trie.child(node, static_cast<u8>(b)); child != NONE)
          if (const StateId target = dfa.range_target(state, r); target != DEAD) walk_child(child, target);
    }
    return;
  }
  for (const NodeId at : trie.children(node)) {
    const StateId target = dfa.next(state, nodes[at].byte());
    if (target != DEAD) walk_child(at, target);
  }
}

// Walks the subtree of one child, reached in `state`: a flat loop over the depth-first layout, with the state of each depth.
// If few bytes are live and a node has many children, it looks up the bytes instead of visiting the children.
void StateMaskBuilder::walk_child(NodeId child, StateId state) {
  seeds_.push_back({child, state});
  walk_seeds();
}

void StateMaskBuilder::walk_seeds() {
  const TrieNode* nodes = trie.nodes();
  while (!seeds_.empty()) {
    const auto [first, start] = seeds_.back();
    seeds_.pop_back();
    const NodeId end = trie.after(first);
    NodeId at = first;
    StateId current = start;  // the state at `at`
    dfa.work().spend(1);
    for (;;) {
      statistics.walked_nodes++;
      dfa.work().spend(1);
      if (nodes[at].token != NONE) add_tokens(at);
      const u32 skip = nodes[at].skip();
      NodeId next(at + skip);
      if (guarded) record_guarded(at, current);
      if (skip > 1) {
        const u8 flags = dfa[current].flags;  // byte_run() may make states
        if (!guarded && (flags & STATE_LEAVES)) hits.push_back({current, at});
        if ((flags & STATE_BYTES) && !guarded && loops.byte_run(current).inside) {
          walk_byte_run(at, current);
        } else if ((flags & STATE_BYTES) && trie.large(at)) {
          large_.push_back({at, current});  // classes may take its tokens
        } else if (flags & STATE_BYTES) {
          dfa.build(current);
          if (!dfa.dense(current) && trie.wide(at)) {
            statistics.wide_walks++;
            for (u32 r = 0; r < dfa[current].range_count; r++) {
              const Range range = dfa.range(current, r);
              for (u32 b = range.lo; b <= range.hi; b++)
                if (const NodeId below = trie.child(at, static_cast<u8>(b)); below != NONE)
                  if (const StateId target = dfa.range_target(current, r); target != DEAD) seeds_.push_back({below, target});
            }
          } else {
            path[nodes[at].depth] = current;
            next = NodeId(at + 1);
          }
        }
      }
      // On to the next node whose byte is live.
      for (at = next; at < end; at = NodeId(at + nodes[at].skip())) {
        current = dfa.next(path[nodes[at].depth - 1u], nodes[at].byte());
        if (current != DEAD) break;
      }
      if (at >= end) break;
    }
  }
}

// From one node in a run: by sets, or node by node if no more sets can be made.
void StateMaskBuilder::walk_byte_run(NodeId node, StateId state) {
  if (const NodeSet* one = trie.sets().of(&node, 1); one && walk_set(one, state)) return;
  statistics.node_runs++;
  const ByteRun run = loops.byte_run(state);
  const bool leaves = dfa[state].flags & STATE_LEAVES;
  const TrieNode* nodes = trie.nodes();
  dfa.build(state);
  std::vector<NodeId> inside = run_nodes(trie, {node}, run.bytes, run.left);
  for (const NodeId at : inside) {
    add_tokens(at);
    if (leaves && nodes[at].skip() > 1) hits.push_back({state, at});
  }
  inside.push_back(node);
  for (const NodeId at : inside) {
    statistics.walked_nodes++;
    dfa.work().spend(4);
    for (const NodeId child : trie.children(at)) {
      if (run.bytes.has(nodes[child].byte())) continue;
      if (const StateId target = dfa.next(state, nodes[child].byte()); target != DEAD) seeds_.push_back({child, target});
    }
  }
}

// From many nodes at once, by the sets that follow them; single nodes become seeds. False, with nothing changed, if no more sets can be
// made. In a bounded run of single bytes the run's other bytes are counted here, not by a state for each count.
bool StateMaskBuilder::walk_set(const NodeSet* set, StateId state) {
  const std::size_t few = trie.thresholds().few_nodes;
  PooledVector<std::pair<const NodeSet*, StateId>> todo{{set, state}};
  const std::size_t token_count = tokens.size(), hit_count = hits.size(), seed_count = seeds_.size();
  const u32* const dense_before = dense;
  bool spent = false;
  auto take = [&](const NodeSet& taken) {
    if (!dense && !taken.mask.empty()) dense = taken.mask.data(), statistics.set_masks++;
    else tokens.insert(tokens.end(), taken.tokens.begin(), taken.tokens.end());
  };
  // Reads the bytes of one range from the nodes of a set. If no token continues with them, their target is not resolved.
  auto read = [&](const NodeSet& at, StateId from, u32 r) {
    const u8 lo = dfa.range(from, r).lo, hi = dfa.range(from, r).hi;
    if (at.nodes.size() == 1 && lo == hi) {
      if (const NodeId child = trie.child(at.nodes[0], lo); child != NONE)
        if (const StateId target = dfa.range_target(from, r); target != DEAD) seeds_.push_back({child, target});
      return;
    }
    if (!at.reads(lo, hi)) return;
    const StateId target = dfa.range_target(from, r);
    if (target == DEAD) return;
    const NodeSet* next = trie.sets().below(&at, lo, hi);
    dfa.work().spend(4 + (next ? (next->nodes.size() + next->leaves.size()) / 4 : 0));
    if (!next) {
      spent = true;
    } else if (next->nodes.size() <= few || next->large || dfa.dense(target)) {
      for (const NodeId node : next->nodes) seeds_.push_back({node, target});
      if (next->leaves.size() > few) take(*next);
      else
        for (const NodeId leaf : next->leaves) add_tokens(leaf);
    } else {
      take(*next);
      const u8 flags = dfa[target].flags;
      if (flags & STATE_LEAVES)
        for (const NodeId node : next->nodes) hits.push_back({target, node});
      if (flags & STATE_BYTES) todo.push_back({next, target});
    }
  };
  while (!todo.empty() && !spent) {
    const auto [at, here] = todo.back();
    todo.pop_back();
    dfa.build(here);
    dfa.work().spend(2ull + dfa[here].range_count);
    const ByteRun run = loops.byte_run(here);
    const NodeSet* inside = nullptr;
    if (run.inside) {
      inside = trie.sets().run(at, run.bytes, run.left);
      if (!inside) spent = true;
      else take(*inside), statistics.set_runs++;
      if (inside && (dfa[here].flags & STATE_LEAVES))
        for (const NodeId node : inside->nodes) hits.push_back({here, node});
    }
    for (u32 r = 0; r < dfa[here].range_count && !spent; r++) {
      if (run.inside && run.bytes.has(dfa.range(here, r).lo)) continue;
      read(*at, here, r);
      if (inside && !spent) read(*inside, here, r);
    }
  }
  (spent ? statistics.spent_sets : statistics.set_walks)++;
  if (spent) tokens.resize(token_count), dense = dense_before, hits.resize(hit_count), seeds_.resize(seed_count);
  return !spent;
}

}  // namespace stackmask
