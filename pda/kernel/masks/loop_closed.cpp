// Classes under which the states ahead are closed: takes all tokens of these classes, and follows the path to each exit.
//
//   .*foo.*     states  [.]  [f]  [fo]  [foo]   each reads every character and leads to one of them: all tokens are in the bitmask, and
//               only exits, such as the quote that ends a string, are looked up in the states
//
// Assumes that no state of the set ends or calls. If a counted automaton has bounds, it also assumes that no item outside it, or in it but
// entered again, reads the classes.
//
// Tested by tests/pda/kernel/test_class_loops.py ("foo in it").
#include <algorithm>

#include "masks/loops.h"

namespace stackmask {

bool take_closed_classes(StateMaskBuilder& mask, StateId state) {
  if (mask.guarded) return false;
  const Counters::Released released = mask.counters.without_bounds(state);
  if (released.state == DEAD) return false;
  const u32 left = released.left;
  const ClosedClasses closed = mask.loops.closed_classes(released.state);
  const u64 inside = closed.inside;
  if ((inside & ~(SIG_INCOMPLETE | SIG_SPACE)) == 0) return false;
  if ((left != NONE || released.below_minimum) && closed.outside) return false;
  // How many characters surely fit the bounds, and how many may, depending on their targets. Below the minimum an accepting
  // state needs one more.
  const u32 surely = left == NONE ? NONE : left - std::min(left, closed.high + released.below_minimum);
  const u32 maybe = left == NONE ? NONE : left - std::min(left, closed.low);
  Scratch<std::pair<StateId, u32>> landed;  // (state, node)
  const auto paths = mask.index->exit_paths(inside);
  mask.path[0] = state;
  for (std::size_t i = 0; i + 1 < paths->ways.size(); i++) {
    const Paths::Way way = paths->ways[i];
    u32 depth = way.common;
    mask.dfa.work().spend(1 + (paths->ways[i + 1].begin - way.begin));
    for (u32 b = way.begin; b < paths->ways[i + 1].begin; b++, depth++)
      mask.path[depth + 1] = mask.path[depth] == DEAD ? DEAD : mask.dfa.next(mask.path[depth], paths->bytes[b]);
    if (mask.path[depth] != DEAD) landed.push_back({mask.path[depth], way.node});
  }
  mask.dfa.work().spend(mask.trie.words() / 4);
  mask.take_bitmask(mask.index->loop_mask(inside, surely));
  auto try_token = [&](i32 token) {
    StateId at = state;
    mask.dfa.work().spend(4);
    for (const char byte : mask.trie.text(static_cast<u32>(token)).substr(mask.index->depth()))
      if (at != DEAD) at = mask.dfa.next(at, static_cast<u8>(byte));
    if (at != DEAD) mask.tokens.push_back(token);
  };
  if (surely != maybe)
    for (const auto tokens = mask.index->loop_tokens(inside, surely + 1, maybe); const i32 token : *tokens) try_token(token);
  // After the last characters of the classes another may begin, and a token may end inside it.
  if (maybe < left && (inside & SIG_INCOMPLETE))
    for (const auto tokens = mask.index->loop_tokens(inside, maybe + 1, left); const i32 token : *tokens)
      if (static_cast<u8>(mask.trie.text(static_cast<u32>(token)).back()) >= 0x80) try_token(token);
  mask.statistics.closed++, mask.statistics.bounded_closed += left != NONE;
  std::sort(landed.begin(), landed.end());
  Scratch<u32> below;
  for (std::size_t i = 0; i < landed.size();) {
    const StateId target = landed[i].first;
    below.clear();
    for (; i < landed.size() && landed[i].first == target; i++) {
      const u32 node = landed[i].second;
      mask.add_tokens(node);
      if (mask.trie.nodes()[node].skip() > 1) below.push_back(node);
    }
    mask.go_on_at(below, target);
  }
  return true;
}

}  // namespace stackmask
