// Classes under which the states ahead are closed: takes all tokens of these classes, and follows the path to each exit.
//
//   .*foo.*     states  [.]  [f]  [fo]  [foo]   each reads every character and leads to one of them: all tokens are in the bitmask, and
//               only exits, such as the quote that ends a string, are looked up in the states
//
// Such a set can be large. Where one item of a state leads to itself by every character of the classes, as that of .* does, each state of the
// set has this item, and no other state of it is looked at (lasting item).
//
//   .*x.{9}y    after x, ax, xx ...: up to 2^9 states, all with the item that waits for an x
//
// Where the item counts, this holds for as many characters as it has left, and longer tokens are tried.
//
//   (a[a-z]{1,40}|b[a-z]{1,30}|...)+    after abcb: the item of a can read 38 letters, whatever the others do
//
// Assumes that no state of the set ends or calls. If a counted automaton has bounds, it also assumes that no item outside it, or in it but
// entered again, reads the classes.
//
// Tested by tests/pda/kernel/test_class_loops.py ("foo in it").
#include <algorithm>
#include <bitset>

#include "masks/loops.h"

namespace stackmask {

namespace {

// The exits of the classes that a text from the state on can read, with the states that they lead to. `read`: bytes, of which the others
// lead nowhere.
void follow_exits(StateMaskBuilder& mask, StateId state, u64 inside, const std::bitset<256>* read,
                  std::vector<std::pair<StateId, NodeId>>& landed) {
  const auto paths = mask.index->exit_paths(inside);
  PooledVector<u8> text;
  text.resize(mask.path.size());
  mask.path[0] = state;
  u32 known = 0;  // the depth up to which the states of the path are known
  for (std::size_t i = 0; i + 1 < paths->ways.size(); i++) {
    const Paths::Way way = paths->ways[i];
    const u32 begin = way.begin, end = paths->ways[i + 1].begin, depth = way.common + (end - begin);
    known = std::min<u32>(known, way.common);
    mask.dfa.work().spend(1 + (end - begin) / (read ? 8 : 1));
    for (u32 b = begin; b < end; b++) text[way.common + (b - begin)] = static_cast<u8>(paths->bytes[b]);
    if (read && !read->test(text[depth - 1])) continue;
    mask.dfa.work().spend(depth - known);
    for (; known < depth; known++) mask.path[known + 1] = mask.path[known] == DEAD ? DEAD : mask.dfa.next(mask.path[known], text[known]);
    if (mask.path[depth] != DEAD) landed.push_back({mask.path[depth], way.node});
  }
}

// Characters of the classes `exits` are rare behind those inside.
bool leaves_seldom(const StateMaskBuilder& mask, u64 inside, u64 exits) {
  if (exits & SIG_NON_ASCII) return false;
  const std::size_t few = mask.trie.thresholds().loop_exits;
  std::size_t nodes = 0;
  for (u32 exit = 0; exit < EXITS && nodes <= few; exit++)
    if (signature_of_exit(exit) & exits) nodes += mask.index->loop_exits(inside, exit, 0, NONE)->nodes.size();
  return nodes <= few;
}

// Adds those of some tokens that a state can read.
// PERF: they come in the order of their texts, so the states of what one begins with like the last are known.
void try_tokens(StateMaskBuilder& mask, StateId state, const std::vector<TokenId>& tokens) {
  mask.path[0] = state;
  std::size_t known = 0;  // the bytes of the last text whose states the path has
  std::string_view last;
  for (const TokenId token : tokens) {
    const std::string_view text = std::string_view(mask.trie.text(token)).substr(mask.index->depth());
    std::size_t depth = 0;
    while (depth < known && depth < text.size() && text[depth] == last[depth]) depth++;
    mask.dfa.work().spend(4 + (text.size() - depth) / 2);
    for (; depth < text.size() && mask.path[depth] != DEAD; depth++)
      mask.path[depth + 1] = mask.dfa.next(mask.path[depth], static_cast<u8>(text[depth]));
    known = depth, last = text;
    if (depth == text.size() && mask.path[depth] != DEAD) mask.tokens.push_back(token);
  }
}

void go_on_where(StateMaskBuilder& mask, std::vector<std::pair<StateId, NodeId>>& landed) {
  std::sort(landed.begin(), landed.end());
  PooledVector<NodeId> below;
  for (std::size_t i = 0; i < landed.size();) {
    const StateId target = landed[i].first;
    below.clear();
    for (; i < landed.size() && landed[i].first == target; i++) {
      const NodeId node = landed[i].second;
      mask.add_tokens(node);
      if (mask.trie.nodes()[node].skip() > 1) below.push_back(node);
    }
    mask.go_on_at(below, target);
  }
}

}  // namespace

bool take_closed_classes(StateMaskBuilder& mask, StateId state, u32 most) {
  if (mask.guarded) return false;
  const Counters::Released released = mask.counters.without_bounds(state);
  if (released.state == DEAD) return false;
  const u32 left = released.left;
  const ClosedClasses closed = mask.loops.closed_classes(released.state, most);
  const u64 inside = closed.inside;
  if ((inside & ~(SIG_INCOMPLETE | SIG_SPACE)) == 0) return false;
  if ((left != NONE || released.below_minimum) && closed.outside) return false;
  // How many characters surely fit the bounds, and how many may, depending on their targets. Below the minimum an accepting
  // state needs one more.
  const u32 surely = left == NONE ? NONE : left - std::min(left, closed.high + released.below_minimum);
  const u32 maybe = left == NONE ? NONE : left - std::min(left, closed.low);
  PooledVector<std::pair<StateId, NodeId>> landed;  // (state, node)
  follow_exits(mask, state, inside, nullptr, landed);
  mask.dfa.work().spend(mask.trie.words() / 4);
  mask.take_bitmask(mask.index->loop_mask(inside, surely));
  if (surely != maybe) try_tokens(mask, state, *mask.index->loop_tokens(inside, surely + 1, maybe));
  // After the last characters of the classes another may begin, and a token may end inside it.
  PooledVector<TokenId> ending_inside;
  if (maybe < left && (inside & SIG_INCOMPLETE))
    for (const auto tokens = mask.index->loop_tokens(inside, maybe + 1, left); const TokenId token : *tokens)
      if (static_cast<u8>(mask.trie.text(token).back()) >= 0x80) ending_inside.push_back(token);
  try_tokens(mask, state, ending_inside);
  mask.statistics.closed++, mask.statistics.bounded_closed += left != NONE;
  go_on_where(mask, landed);
  return true;
}

bool take_lasting_item(StateMaskBuilder& mask, StateId state, const ClassLoop& loop, u64 staying) {
  if (mask.guarded) return false;
  const LastingItem lasting = mask.loops.lasting_item(state, loop.live, loop.live & staying);
  if (!lasting.inside || !leaves_seldom(mask, lasting.inside, loop.live & ~lasting.inside)) return false;
  PooledVector<std::pair<StateId, NodeId>> landed;
  follow_exits(mask, state, lasting.inside, &lasting.read, landed);
  mask.dfa.work().spend(mask.trie.words() / 4);
  mask.take_bitmask(mask.index->loop_mask(lasting.inside, lasting.left));
  if (lasting.left != NONE) try_tokens(mask, state, *mask.index->loop_tokens(lasting.inside, lasting.left + 1, NONE));
  mask.statistics.lasting++, mask.statistics.bounded_lasting += lasting.left != NONE;
  go_on_where(mask, landed);
  return true;
}

}  // namespace stackmask
