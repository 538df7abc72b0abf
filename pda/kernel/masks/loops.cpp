#include "masks/loops.h"

#include <bit>

namespace stackmask {

namespace {

constexpr std::size_t FEW_ITEMS = 4;
constexpr u32 FEW_STATES = 64;  // closed under classes; so many are tried before an item that letters leave

// All characters except a few that are rare in tokens stay in the loop, as in a JSON string.
bool few_exits(const StateMaskBuilder& mask, const ClassLoop& loop) {
  const std::size_t few = mask.trie.thresholds().loop_exits;
  const u64 exits = loop.live & ~loop.inside;
  if (exits == 0) return true;
  if (exits >= 1ull << CLASSES.count) return false;
  std::size_t nodes = 0;
  for (u32 c = 0; c < CLASSES.count && nodes < few; c++) {
    if (!(exits >> c & 1)) continue;
    const AsciiSet& bytes = CLASSES.bytes[c];
    if (bytes.size() != 1) return false;
    const u32 exit = static_cast<u32>(bytes.words[0] ? std::countr_zero(bytes.words[0]) : 64 + std::countr_zero(bytes.words[1]));
    nodes += mask.index->loop_exits(loop.inside, exit, 0, NONE)->nodes.size();
  }
  return nodes < few;
}

// The states ahead share no more classes than the loop has.
bool closes(StateMaskBuilder& mask, StateId state, const ClassLoop& loop) {
  const StateId released = mask.counters.without_bounds(state).state;
  if (released == DEAD || mask.loops.class_loop(released).target != released) return false;
  return (mask.loops.closed_classes(released).inside & ~loop.inside) == 0;
}

// A chain is cheapest if it has few exits, or if closed classes would take no more. Letters and digits are too many exits, however
// a repetition counts.
bool chain_is_cheapest(StateMaskBuilder& mask, StateId state, const ClassLoop& loop) {
  const u64 exits = loop.live & ~loop.inside;
  if (exits == 0 || (mask.counters.in_repetition(state) && !(exits & SIG_WORDS))) return true;
  return (loop.target == state && few_exits(mask, loop)) || closes(mask, state, loop);
}

// A chain, or a look at the absorbing state behind, costs less than to follow the paths to exits.
bool is_simple(const StateMaskBuilder& mask, StateId state, const ClassLoop& loop) {
  if (loop.target == state) return few_exits(mask, loop);
  return mask.dfa.items(state).size() <= FEW_ITEMS && !(loop.live & ~loop.inside & SIG_WORDS);
}

}  // namespace

bool take_class_loop(StateMaskBuilder& mask, StateId state) {
  mask.dfa.build(state);
  auto attempt = [&](bool made) {
    if (!made) mask.clear();
    return made;
  };
  if (attempt(take_byte_run(mask, state))) return true;
  if (!mask.dfa.dense(state)) return false;
  const ClassLoop loop = mask.loops.class_loop(state);
  if (loop.target == DEAD || loop.live == 0) return false;
  const bool simple = is_simple(mask, state, loop);
  auto take_lasting = [&](u64 staying) { return attempt(take_lasting_item(mask, state, loop, staying)); };
  // PERF: behind a letter that leaves the item, all words that go on with it are walked, so a few closed states are better. A key that contains
  // a letter took 4 ms. Many closed states are worse: twenty counted classes, each a part of the one before, would take 15 ms.
  bool made = !simple && take_lasting(SIG_WORDS);
  if (!made) {
    const bool chain_first = chain_is_cheapest(mask, state, loop);
    auto take_chain = [&] { return loop.inside && attempt(take_counter_chain(mask, state, loop)); };
    made = (chain_first && take_chain()) || attempt(take_absorbing_state(mask, state, loop)) ||
           (!simple && (attempt(take_closed_classes(mask, state, FEW_STATES)) || take_lasting(0))) ||
           attempt(take_closed_classes(mask, state)) || (!chain_first && take_chain()) || (simple && take_lasting(0));
  }
  (made ? mask.statistics.loops : mask.statistics.loop_fallbacks)++;
  mask.statistics.large_loops += made && mask.index->node() != TokenTrie::ROOT;
  return made;
}

}  // namespace stackmask
