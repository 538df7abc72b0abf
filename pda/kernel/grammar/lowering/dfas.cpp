#include "grammar/lowering/dfas.h"

#include <algorithm>

namespace stackmask {

void DfaWriter::dfa(const Task& task) {
  const u32 count = operand(task.node, 1);
  PooledVector<u32> least;
  automaton_lengths(ex_, task.node, least, nullptr);
  const bool all = std::find(least.begin(), least.end(), NONE) == least.end();
  const NfaStateId base(static_cast<u32>(nfa().states.size()));
  for (u32 i = 0; i < count; i++) out_.state();
  out_.epsilon(task.from, base);
  std::size_t at = 4;
  for (u32 i = 0; i < count; i++) {
    const NfaStateId source(base + i);
    if (ex_.arg(task.node, at)) out_.epsilon(source, task.to);
    if (all && count > few_states_) {
      out_.defer_piece(task, source, task.to, {static_cast<u32>(at), 0, 0, base});
      at += 2 + 3 * static_cast<std::size_t>(ex_.arg(task.node, at + 1));
      continue;
    }
    at = by_target(ex_, task.node, at, characters_.characters);
    std::erase_if(characters_.characters.groups, [&](const auto& group) { return least[group.target] == NONE; });
    characters_.write(task, source, ex_.arg(task.node, 0), {base, 1});
  }
}

void DfaWriter::piece(const Task& task) {
  const Piece at = out_.piece(task.piece);
  const bool counted = at.depth == IN_COUNTED;
  const CharacterWriter::Targets targets{at.state, counted ? 2u : 1u};  // counted_dfa() makes `stands` and `reached` by turns
  by_target(ex_, task.node, at.first, characters_.characters);
  if (counted)
    std::erase_if(characters_.characters.groups, [&](const auto& group) { return nfa().counting(targets[group.target]).least == NONE; });
  out_.place.body = task.body, out_.place.inside_character = counted;
  characters_.write(task, task.from, ex_.arg(task.node, 0), targets);
  out_.place.inside_character = false;
}

void DfaWriter::counted_dfa(const Task& task) {
  if (out_.outlined_counter(task)) return;
  const i32 encoding = ex_.arg(task.node, 0);
  const u32 count = operand(task.node, 1);
  const i32 minimum = std::max(ex_.arg(task.node, 2), 0), maximum = ex_.arg(task.node, 3);
  Facts::Lengths made;
  const auto known = facts_.lengths.find(task.node);
  if (known == facts_.lengths.end()) automaton_lengths(ex_, task.node, made.least, &made.most);
  const auto& [least, most] = known == facts_.lengths.end() ? made : known->second;
  out_.current_rule().counts = true;
  const u32 id = static_cast<u32>(nfa().heads.size());
  const NfaStateId head = out_.state(), exit = out_.state();
  Head h;
  h.automaton = true;
  h.minimum = static_cast<u32>(minimum);
  h.maximum = maximum < 0 ? NONE : static_cast<u32>(maximum);
  h.exit = exit;
  Place& place = out_.place;
  place.body = id;  // of all states from here on
  PooledVector<NfaStateId> stands, reached;
  for (u32 i = 0; i < count; i++) {
    place.least = least[i], place.most = most[i];
    stands.push_back(out_.state());
    place.least = least[i] == NONE ? NONE : least[i] + 1;
    place.most = most[i] == NONE ? NONE : most[i] + 1;
    reached.push_back(out_.state());
    nfa().add_edge(reached[i], EDGE_COUNT, stands[i]);
    if (least[i] != NONE) h.furthest = std::max(h.furthest, least[i] + 1);
    h.bounded = h.bounded || (least[i] != NONE && most[i] != NONE);
  }
  Task inside = task;
  inside.body = id;
  std::size_t at = 4;
  for (u32 i = 0; i < count; i++) {
    if (ex_.arg(task.node, at)) nfa().add_edge(stands[i], EDGE_LEAVE, exit);
    const std::size_t begin = at, end = at + 2 + 3 * static_cast<std::size_t>(ex_.arg(task.node, at + 1));
    place.least = NONE, place.most = 0;
    for (at += 2; at < end; at += 3) {
      const u32 target = operand(task.node, at + 2);
      if (least[target] == NONE || (encoding != RAW && only_surrogates(ex_.arg(task.node, at), ex_.arg(task.node, at + 1)))) continue;
      place.least = std::min(place.least, least[target] + 1);
      place.most = std::max(place.most, most[target] == NONE ? NONE : most[target] + 1);
    }
    if (place.least == NONE) continue;
    const NfaStateId reads = out_.state();
    nfa().change_counting(reads, [&](Counting& counting) { counting.settled = least[i]; });
    out_.epsilon(stands[i], reads);
    inside.from = reads;
    inside.piece = out_.add_piece({static_cast<u32>(begin), 0, IN_COUNTED, reached[0]});
    if (count > few_states_) out_.defer(inside);
    else piece(inside);
  }
  h.body = stands[0];
  nfa().set_head(head, id);
  nfa().heads.push_back(std::move(h));
  nfa().add_edge(task.from, EDGE_ENTER, head);
  out_.epsilon(exit, task.to);
}

}  // namespace stackmask
