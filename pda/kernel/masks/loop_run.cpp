// A bounded run of single bytes, such as blanks. The states after it do not depend on the number of bytes, so no state is made for each
// count. A token can leave the run after every byte, up to the longest path of such bytes in the trie, which can be longer than the longest
// token of blanks only.
//
//   [ ]{0,3},      tokens   .  ..  ...  .,  ..,        (. a blank)      all but .... in one bitmask; exit "," at the nodes  .,  ..,
//
// Tested by tests/pda/test_mask_exits.py ("a rule behind blanks").
#include <algorithm>

#include "masks/loops.h"

namespace stackmask {

bool take_byte_run(StateMaskBuilder& mask, StateId state) {
  if (mask.guarded) return false;
  const ByteRun run = mask.loops.byte_run(state);
  const auto& [inside, left, bytes] = run;
  if (inside == 0) return false;
  const bool leaves = mask.dfa[state].flags & STATE_LEAVES;
  if (leaves) {
    const auto list = mask.index->loop_nodes(inside, 1, left);
    if (list->nodes.size() > mask.trie.thresholds().run_nodes) return false;
    for (const NodeId node : list->nodes) mask.hits.push_back({state, node});
  }
  mask.statistics.loops++, mask.statistics.byte_runs++;
  LoopExits exits;
  PooledVector<std::pair<StateId, NodeId>> reached;  // (state, node): all digits lead to one
  for (u32 r = 0; r < mask.dfa[state].range_count; r++) {
    const Range range = mask.dfa.range(state, r);
    for (u32 b = range.lo; b <= range.hi; b++) {
      if (bytes.has(b)) continue;
      const StateId target = mask.dfa.next(state, static_cast<u8>(b));
      if (target == DEAD) continue;
      const auto list = mask.index->loop_exits_up_to(inside, b, left);
      mask.dfa.work().spend(10 + list->nodes.size());
      if (!list->tokens.empty()) exits.push_back(list);
      for (const NodeId node : list->nodes) reached.push_back({target, node});
    }
  }
  std::sort(reached.begin(), reached.end());
  PooledVector<NodeId> nodes;
  for (std::size_t i = 0; i < reached.size();) {
    const StateId target = reached[i].first;
    nodes.clear();
    for (; i < reached.size() && reached[i].first == target; i++) nodes.push_back(reached[i].second);
    mask.go_on_at(nodes, target);
  }
  mask.take_bitmask(mask.index->loop_mask_with_exits(inside, left, exits));
  return true;
}

}  // namespace stackmask
