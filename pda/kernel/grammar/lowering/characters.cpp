#include "grammar/lowering/characters.h"

#include <algorithm>
#include <tuple>

namespace stackmask {

void CharacterWriter::write_class(const Task& task) {
  const auto& node = ex_.nodes[task.node];
  characters.groups.assign(1, {0, 0, static_cast<u32>(ex_.count(task.node) - 1)});
  characters.ranges.assign(ex_.ints.begin() + node.begin + 1, ex_.ints.begin() + node.end);
  write(task, task.from, ex_.arg(task.node, 0), {task.to, 0});
}

void CharacterWriter::write(const Task& task, NfaStateId source, i32 encoding, Targets targets) {
  std::size_t ranges = 0;
  for (const auto& group : characters.groups) ranges += (group.end - group.begin) / 2;
  if (encoding != RAW && ranges >= spelled_ranges_) return read(task, source, encoding, targets);
  for (const auto& group : characters.groups) {
    const i32* const first = characters.ranges.data() + group.begin;
    const u32 count = group.end - group.begin;
    const NfaStateId target = targets[group.target];
    if (out_.place.inside_character) std::tie(out_.place.least, out_.place.most) = may_count(target);
    if (encoding == RAW)
      for (u32 r = 0; r < count; r += 2) out_.byte(source, target, first[r], first[r + 1]);
    else out_.chars(source, target, first, count, encoding);
  }
}

// In a counted automaton a state says which numbers of characters may still be counted, as one range: where those of several targets leave
// a gap, only equal targets share states.
void CharacterWriter::read(const Task& task, NfaStateId source, i32 encoding, Targets targets) {
  const u32 all_classes = root(encoding);
  if (!out_.place.inside_character || !leaves_gap(all_classes, targets)) return begin_reading(task, source, all_classes, targets);
  auto counts = [&](const ByTarget::Group& group) { return may_count(targets[group.target]); };
  std::stable_sort(characters.groups.begin(), characters.groups.end(), [&](const auto& a, const auto& b) { return counts(a) < counts(b); });
  const std::vector<ByTarget::Group> all = characters.groups;
  for (std::size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    while (end < all.size() && counts(all[end]) == counts(all[begin])) end++;
    characters.groups.assign(all.begin() + static_cast<std::ptrdiff_t>(begin), all.begin() + static_cast<std::ptrdiff_t>(end));
    begin_reading(task, source, root(encoding), targets);
  }
}

void CharacterWriter::begin_reading(const Task& task, NfaStateId source, u32 root, Targets targets) {
  const u32 reading = static_cast<u32>(readings_.size());
  readings_.push_back({out_.place, static_cast<u32>(targets_.size())});
  for (const auto& group : characters.groups) targets_.push_back(targets[group.target]);
  write_node(task, source, reading, root);
}

bool CharacterWriter::leaves_gap(u32 root, Targets targets) const {
  PooledVector<std::pair<u32, u32>> ranges;
  for (u32 node = root; node < minterms_.end(root); node++) {
    if (minterms_.classes(node).size() == 1) continue;
    ranges.clear();
    for (const u32 which : minterms_.classes(node)) ranges.push_back(may_count(targets[characters.groups[which].target]));
    out_.spend(ranges.size());
    std::sort(ranges.begin(), ranges.end());
    u64 most = ranges[0].second;
    for (const auto& range : ranges) {
      if (range.first > most + 1) return true;
      most = std::max<u64>(most, range.second);
    }
  }
  return false;
}

void CharacterWriter::write_node(const Task& task, NfaStateId source, u32 reading, u32 node) {
  const Reading at = readings_[reading];
  const Place before = out_.place;
  out_.spend(2 * minterms_.edges(node).size());
  for (const Minterms::Edge& edge : minterms_.edges(node)) {
    const NfaStateId target =
        edge.to & Minterms::END ? targets_[at.targets + (edge.to & ~Minterms::END)] : inside_character(task, reading, edge.to);
    nfa().add_edge(source, EDGE_BYTE, target, 0, edge.lo, edge.hi);
  }
  for (const auto& [which, data] : minterms_.non_ascii(node)) nfa().add_edge(source, EDGE_NON_ASCII, targets_[at.targets + which], data);
  if (minterms_.partial_non_ascii(node)) nfa().states[source].partial_non_ascii = true;
  out_.place = before;
}

// The state for a node. Where only one target may follow, all readings that lead there share it.
NfaStateId CharacterWriter::inside_character(const Task& task, u32 reading, u32 node) {
  const Reading& at = readings_[reading];
  const std::span<const u32> classes = minterms_.classes(node);
  Place& place = out_.place;
  place = at.place;
  if (place.inside_character) {
    place.least = NONE, place.most = 0;
    for (const u32 which : classes) {
      const auto [least, most] = may_count(targets_[at.targets + which]);
      place.least = std::min(place.least, least), place.most = std::max(place.most, most);
    }
  }
  u64 key = u64{reading | ID_FLAG} << 32 | node;  // other keys begin with a state
  if (classes.size() == 1) {
    const NfaStateId target = targets_[at.targets + classes[0]];
    if (const auto [kind, lo, hi] = tail_of(node); kind) return out_.tail(target, kind, lo, hi);
    key = u64{target} << 32 | node;
  }
  if (const u32* found = inside_.find(key)) return NfaStateId(*found);
  const NfaStateId made = out_.state();
  inside_.insert(key, made);
  out_.defer_piece(task, made, task.to, {reading, node, IN_CHARACTER, NONE});
  return made;
}

CharacterWriter::Tail CharacterWriter::tail_of(u32 node) const {
  Tail found{0, 0, 0};
  for (i32 kind = 1;; kind++) {
    const auto edges = minterms_.edges(node);
    const auto [lo, hi, to] = edges[0];
    if (edges.size() != 1 || lo < 0x80 || (kind > 1 && (lo != 0x80 || hi != 0xBF))) return {0, 0, 0};
    if (kind == 1) found = {0, lo, hi};
    if (to & Minterms::END) return {kind, found.lo, found.hi};
    node = to;
  }
}

}  // namespace stackmask
