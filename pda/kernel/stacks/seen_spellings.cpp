#include "stacks/seen_spellings.h"

#include <algorithm>

#include "unique/json_value.h"

namespace stackmask {

namespace {

// The beginning of a string as values have it, none if it is no string, or ends inside an escape or with one of a surrogate.
std::optional<std::string> canonical_beginning(const std::string& text) {
  if (text.empty()) return text;
  if (text[0] != '"') return std::nullopt;
  if (text.find('\\') == std::string::npos) return text;
  for (std::size_t i = 0; i < text.size(); i++) {
    if (text[i] != '\\') continue;
    if (++i == text.size()) return std::nullopt;
    if (text[i] != 'u') continue;
    if ((i += 4) >= text.size() || (text[i - 3] | 0x20) == 'd') return std::nullopt;
  }
  std::string canonical = canonical_json(text + '"');
  if (canonical[0] != '"') return std::nullopt;
  canonical.pop_back();
  return canonical;
}

}  // namespace

StateId SeenSpellings::lone_guard(StackId node) const {
  const StateId state = stacks_.edge_count(node) == 1 ? stacks_.edges(node)[0].state : BOTTOM;
  return state != BOTTOM && (dfa_[state].flags & STATE_GUARD) ? state : DEAD;
}

bool SeenSpellings::spells_values(StackId below) const {
  const StateId guard = lone_guard(below);
  return guard != DEAD && !dfa_.nfa().any_escapes && dfa_.guard_text(guard) != IN_TOKEN;
}

std::optional<u32> SeenSpellings::seen_texts(StackId below, StateId state, std::vector<std::pair<NodeId, u32>>* counts) {
  u32 total = 0;
  if (counts) counts->clear();
  if (!spells_values(below)) return std::nullopt;
  const StackEdge edge = stacks_.edges(below)[0];
  const StateId back = dfa_.guard_back(edge.state);
  const std::optional<std::string> beginning = canonical_beginning(dfa_.pending_text(edge.state));
  if (!beginning) return std::nullopt;
  const std::string& before = *beginning;
  const std::vector<u32> ids = dfa_.seen_ids(back);
  dfa_.work().spend(ids.size());
  statistics_.counted_texts++;
  auto countable = [&](std::string_view value) { return !begins(value, before) || SeenValues::spellings_of(value, before.size()) != NONE; };
  if (!counts) {
    for (const u32 id : ids) {
      const std::string_view value = dfa_.values().value(id);
      if (!countable(value)) return std::nullopt;
      total += count_spellings(value, before, state, nullptr);
    }
    return total;
  }
  // Values that were counted before are not counted again when one more is seen.
  auto known = std::find_if(counted_.begin(), counted_.end(), [&](const Counted& each) {
    return each.state == state && each.before == before && std::includes(ids.begin(), ids.end(), each.ids.begin(), each.ids.end());
  });
  if (known == counted_.end()) {
    if (counted_.size() < MOST_COUNTED) counted_.emplace_back();
    known = counted_.begin() + static_cast<std::ptrdiff_t>(next_counted_++ % counted_.size());
    *known = {state, before, {}, {}, 0, true};
  }
  PooledVector<u32> added;
  std::set_difference(ids.begin(), ids.end(), known->ids.begin(), known->ids.end(), std::back_inserter(added));
  PooledVector<std::pair<NodeId, u32>> spelled;
  for (const u32 id : added) {
    const std::string_view value = dfa_.values().value(id);
    known->countable = known->countable && countable(value);
    if (known->countable) known->total += count_spellings(value, before, state, &spelled);
  }
  known->ids = ids;
  if (!known->countable) return std::nullopt;
  auto& list = known->counts;
  dfa_.work().spend(list.size() / 4);
  const std::ptrdiff_t sorted = static_cast<std::ptrdiff_t>(list.size());
  list.insert(list.end(), spelled.begin(), spelled.end());
  std::sort(list.begin() + sorted, list.end());
  std::inplace_merge(list.begin(), list.begin() + sorted, list.end());
  std::size_t out = 0;
  for (const auto& [node, spellings] : list) {
    if (out && list[out - 1].first == node) list[out - 1].second += spellings;
    else list[out++] = {node, spellings};
  }
  list.resize(out);
  counts->assign(list.begin(), list.end());
  return known->total;
}

// The number of texts that spell the rest of a value after its beginning, and for each node the number of those that it is on the way to.
// If a state is given, only the texts that it reads.
u32 SeenSpellings::count_spellings(std::string_view value, const std::string& before, StateId state,
                                   std::vector<std::pair<NodeId, u32>>* counts) {
  if (!begins(value, before)) return 0;
  struct Place {
    std::size_t index, depth;  // into the value, and into path
    NodeId slash, node;        // slash: the node of the backslash before a slash; NONE where the trie has no such node
    StateId state;
  };
  PooledVector<Place> places{{before.size(), 0, NONE, TokenTrie::ROOT, state}};
  PooledVector<NodeId> path;  // nodes of the spelling so far
  u32 total = 0;
  while (!places.empty()) {
    const Place at = places.back();
    places.pop_back();
    dfa_.work().spend(2);
    path.resize(at.depth);
    if (at.slash != NONE) path.push_back(at.slash);
    if (at.node != NONE && at.index > before.size()) path.push_back(at.node);
    if (at.index == value.size()) {
      if (state != DEAD && !(dfa_[at.state].flags & STATE_FINAL)) continue;
      total++;
      for (const NodeId node : path) counts->push_back({node, 1});
      continue;
    }
    auto child = [&](NodeId node, char byte) { return node == NONE || !counts ? NONE : trie_.child(node, static_cast<u8>(byte)); };
    auto next = [&](StateId f, char byte) { return f == DEAD ? DEAD : dfa_.next(f, static_cast<u8>(byte)); };
    const char byte = value[at.index];
    if (const StateId to = next(at.state, byte); to != DEAD || state == DEAD)
      places.push_back({at.index + 1, path.size(), NONE, child(at.node, byte), to});
    if (byte != '/') continue;
    const StateId to = next(next(at.state, '\\'), '/');
    const NodeId backslash = child(at.node, '\\');
    if (to != DEAD || state == DEAD) places.push_back({at.index + 1, path.size(), backslash, child(backslash, '/'), to});
  }
  return total;
}

}  // namespace stackmask
