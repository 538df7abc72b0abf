// The shortest completion of a configuration: directly by least lengths (measure.cpp), or by A* if values must differ.
#include "completion/completion.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "completion/lengths.h"

namespace stackmask {

static constexpr const char* NO_COMPLETION = "no text completes the structure from here without reading a token by its id";

// The distance; or an error if there is no completion, or only one that is too long to be written.
u64 Completion::least(StackId configuration) {
  const u64 left = distance(configuration);
  if (left == NONE) throw BadGrammar(NO_COMPLETION);
  if (left > 4 * limits_.stack_depth)
    throw CompletionLimit("stack_depth", static_cast<double>(limits_.stack_depth),
                          "the shortest completion has " + std::to_string(left) + " bytes or more");
  return left;
}

u64 Completion::distance(StackId configuration) {
  if (!measured_) {  // least lengths are rarely needed, and cost as much as the rest of a compilation
    Deadline deadline(limits_.seconds);
    measure(dfa_.nfa(), deadline);
    measured_ = true;
    try {
      if (values_take_more()) {
        measure(dfa_.nfa(), deadline);
        distances_.clear();
        scope_lengths_.clear();
      }
    } catch (...) {
      measured_ = false;
      throw;
    }
  }
  PooledVector<StackId> todo{configuration};
  while (!todo.empty()) {
    const StackId node = todo.back();
    dfa_.work().spend(2);
    if (distances_.find(node)) {
      todo.pop_back();
      continue;
    }
    const std::size_t waiting = todo.size();
    u64 best = NONE;
    for (u32 i = 0; i < stacks_.edge_count(node); i++) {
      const StackEdge edge = stacks_.edges(node)[i];
      if (edge.state == BOTTOM) {
        best = 0;
        continue;
      }
      if (const u32* found = distances_.find(edge.below)) {
        const u32 below = *found;  // a copy: a search for values inserts others
        best = std::min(best, plus(state_length(edge.state), below));
      } else {
        todo.push_back(edge.below);
      }
    }
    if (todo.size() > waiting) continue;
    distances_.insert(node, static_cast<u32>(best));
    todo.pop_back();
  }
  return *distances_.find(configuration);
}

// n values that must differ take at least as many bytes as the n cheapest unseen values. Of the ways to the end of a scope, one with the
// fewest values is measured: a longer one has at least as many to pay for.
u64 Completion::state_length(StateId state) {
  if (!dfa_.nfa().distinct || state == BOTTOM || (dfa_[state].flags & STATE_REGION)) return dfa_.distance(state);
  bool begins = false;  // the value that a guard waits for has not begun
  StateId scope = state;
  if (dfa_[state].flags & STATE_GUARD) {
    scope = dfa_.guard_back(state);
    begins = dfa_.guard_text(state) == 0;
  }
  if (!dfa_.in_scope(scope)) return dfa_.distance(scope);
  const u64 key = static_cast<u64>(scope) << 1 | begins;
  if (const u32* known = scope_lengths_.find(key)) return *known;
  const Nfa& nfa = dfa_.nfa();
  const auto& kinds = nfa.scopes[dfa_.rule(scope)];
  u64 best = NONE;
  const std::vector<Item> items(dfa_.items(scope).begin(), dfa_.items(scope).end());  // a copy: the search for values makes more states
  for (const Item& item : items) {
    dfa_.work().spend(10);
    u64 length = nfa.distance(item);
    std::vector<u32> seen;
    if (const u32 set = nfa.registers.get(item.reg).seen; set != NONE) dfa_.values().each(set, [&](u32 value) { seen.push_back(value); });
    for (u32 kind = 0; kind < std::min(kinds.size(), nfa.least_values.size()) && length < best; kind++) {
      const u64 count = nfa.distance(item, nfa.least_values[kind]) + (begins && kinds.size() == 1);
      if (count == 0 || count >= NONE) continue;
      const u64 together = values_length(kinds[kind], static_cast<u32>(count), seen);
      const u64 plain = count * nfa.rules[kinds[kind]].shortest;
      length = together >= NONE ? u64{NONE} : plus(length, together - std::min(together, plain));
    }
    best = std::min(best, length);
  }
  if (extending_ == 0) scope_lengths_.insert(key, static_cast<u32>(best));
  return best;
}

// The bytes of the `count` cheapest unseen values of a rule; a lower bound if there are too many to search.
u64 Completion::values_length(RuleId rule, u32 count, std::span<const u32> seen) {
  CheapValues& cheap = cheap_values_[rule];
  u64 total = 0;
  u32 taken = 0;
  for (std::size_t i = 0; taken < count && (i < cheap.values.size() || find_value(rule, cheap)); i++) {
    dfa_.work().spend(2);
    if (std::binary_search(seen.begin(), seen.end(), cheap.values[i].id)) continue;
    total += cheap.values[i].length;
    taken++;
  }
  if (taken < count && cheap.ended) return NONE;
  return std::min(total + static_cast<u64>(count - taken) * std::max(cheap.least, dfa_.nfa().rules[rule].shortest), LONG);
}

// Finds the cheapest value of a rule that is not known yet: A* yields its texts in the order of their lengths.
bool Completion::find_value(RuleId rule, CheapValues& cheap) {
  constexpr std::size_t MOST_VALUES = 4096, MOST_NODES = 100'000, MOST_SPELLINGS = 1000;
  constexpr u32 MOST_AT_ONCE = 16;  // of one kind inside of another
  if (cheap.ended || cheap.left || cheap.busy || extending_ >= MOST_AT_ONCE || cheap.values.size() >= MOST_VALUES) return false;
  const struct Busy {
    CheapValues& cheap;
    u32& extending;
    Busy(CheapValues& c, u32& e) : cheap(c), extending(e) { cheap.busy = true, extending++; }
    ~Busy() { cheap.busy = false, extending--; }
  } busy(cheap, extending_);
  cheap.left = true;  // unless this search comes to its end
  if (cheap.nodes.empty()) {
    std::vector<StackEdge> start;
    if (const StateId state = dfa_.start(rule); state != DEAD) start.push_back({state, EMPTY_STACK});
    const StackId first = steps_.close(start);
    cheap.nodes.push_back({first, NONE, 0, 0});
    if (const u64 length = distance(first); length < LONG) cheap.queue.push({length, static_cast<u32>(length), ~0u});
  }
  for (std::size_t spellings = 0; !cheap.queue.empty(); spellings++) {
    dfa_.work().spend(20);
    if (cheap.nodes.size() > MOST_NODES || spellings > MOST_SPELLINGS * (cheap.values.size() + 1)) return false;
    const auto [whole, to_go, complement] = cheap.queue.top();
    cheap.queue.pop();
    cheap.least = std::max(cheap.least, static_cast<u32>(whole));
    const u32 at = ~complement, length = cheap.nodes[at].length + 1;
    const StackId here = cheap.nodes[at].configuration;
    each_step(here, true, [&](u8 byte, StackId next) {
      const u64 ahead = distance(next);
      if (ahead >= LONG) return;
      cheap.nodes.push_back({next, at, length, byte});
      cheap.queue.push({std::max<u64>(whole, length + ahead), static_cast<u32>(ahead), ~static_cast<u32>(cheap.nodes.size() - 1)});
    });
    if (!stacks_.complete(here)) continue;
    const u32 value = dfa_.values().value_id(cheap.text(at));
    if (!cheap.known.insert(value).second) continue;
    cheap.values.push_back({length - 1, value, at});
    cheap.left = false;
    return true;
  }
  cheap.left = false;
  cheap.ended = true;
  return false;
}

std::string Completion::CheapValues::text(u32 node) const {
  std::string result;
  for (; node != 0; node = nodes[node].parent) result.push_back(static_cast<char>(nodes[node].byte));
  std::reverse(result.begin(), result.end());
  return result;
}

// Whether the values of some scope take more than its rule was measured at, because they must differ.
bool Completion::values_take_more() {
  Nfa& nfa = dfa_.nfa();
  bool more = false;
  nfa.scope_values.assign(nfa.rules.size(), {});
  for (const RuleId rule : nfa.each_rule())
    for (u32 kind = 0; kind < std::min(nfa.scopes[rule].size(), nfa.least_values.size()); kind++) {
      const u32 count = nfa.least_values[kind][nfa.rules[rule].start];
      const RuleId value = nfa.scopes[rule][kind];
      if (count < 2 || count == NONE) continue;
      const u64 together = values_length(value, count, {});  // NONE if there are too few
      nfa.scope_values[rule].push_back({value, count, together});
      more = more || together > static_cast<u64>(count) * nfa.rules[value].shortest;
    }
  return more;
}

// Each live byte and its target. Without guards, one byte stands for all that lead to the same target, unless `every` one is wanted.
template <class F>
void Completion::each_step(StackId here, bool every, F take) {
  for (u32 i = 0; i < stacks_.edge_count(here); i++) {
    const StateId state = stacks_.edges(here)[i].state;
    if (state == BOTTOM) continue;
    dfa_.build(state);
    for (u32 r = 0; r < dfa_[state].range_count; r++) {
      const Range range = dfa_.range(state, r);
      for (u32 b = range.lo; b <= range.hi; b++) {
        dfa_.work().spend(4);
        const StackId next = steps_.step(here, static_cast<u8>(b));
        if (next != NO_STACK) take(static_cast<u8>(b), next);
        if (!every && !stacks_.guarded(here)) break;
      }
    }
  }
}

u64 Completion::shortest_length(StackId configuration) {
  if (stacks_.complete(configuration)) return 0;
  const u64 left = least(configuration);
  if (!dfa_.nfa().distinct) return left;
  if (const u32* known = lengths_.find(configuration)) return *known;
  PooledVector<Straight> way;
  const StackId end = straight_down(configuration, left, way, true);
  if (!stacks_.complete(end)) {
    const u32* known = end == configuration ? nullptr : lengths_.find(end);
    if (!known || *known + way.size() != left) return search(configuration).size();
  }
  for (std::size_t i = 0; i < way.size(); i++) lengths_.insert(way[i].configuration, static_cast<u32>(left - i));
  return left;
}

std::string Completion::shortest(StackId configuration) {
  if (stacks_.complete(configuration)) return {};
  PooledVector<Straight> way;
  if (!stacks_.complete(straight_down(configuration, least(configuration), way, false))) return search(configuration);
  std::string text;
  for (const Straight& step : way) text.push_back(static_cast<char>(step.byte));
  return text;
}

// Goes byte by byte to an end that is `left` bytes away, as long as some byte brings it nearer by one. If no values must differ there
// always is such a byte, and the first one will do. If values must differ, the way may stop earlier. Then a byte after which the distance
// is exactly one less is better than one after which it is lower still, because that is a bound which cannot be kept. And a byte that ends
// a value is better than one that turns it into another, because the value is new as it is. Better yet is a byte after which the value has
// surely ended: until then, as at a blank, the distance does not count it among the seen values.
StackId Completion::straight_down(StackId configuration, u64 left, std::vector<Straight>& way, bool to_known) {
  StackId here = configuration;
  PooledVector<StackEdge> order;
  auto pending = [this](StackId found) {  // a value that must differ has begun and may continue
    for (u32 i = 0; i < stacks_.edge_count(found); i++)
      if (const StackEdge edge = stacks_.edges(found)[i]; edge.state != BOTTOM)
        for (u32 k = 0; k < stacks_.edge_count(edge.below); k++)
          if (const StateId guard = stacks_.edges(edge.below)[k].state;
              guard != BOTTOM && (dfa_[guard].flags & STATE_GUARD) && dfa_.guard_text(guard) != 0)
            return true;
    return false;
  };
  while (!stacks_.complete(here) && !(to_known && here != configuration && lengths_.find(here))) {
    StackId next = NO_STACK;
    if (stacks_.guarded(here) & GUARD_BELOW) next = new_value(here, left, way);
    if (next != NO_STACK) {
      here = next;
      continue;
    }
    u8 by = 0;
    bool exact = false, best = false;
    order.clear();
    for (u32 i = 0; i < stacks_.edge_count(here); i++)
      if (stacks_.edges(here)[i].state != BOTTOM) order.push_back(stacks_.edges(here)[i]);
    if (stacks_.guarded(here) & GUARD_BELOW)
      std::stable_sort(order.begin(), order.end(),
                       [this](const StackEdge& a, const StackEdge& b) { return stacks_.depth(a.below) < stacks_.depth(b.below); });
    for (std::size_t i = 0; i < order.size() && !best; i++) {
      const StateId state = order[i].state;
      dfa_.build(state);
      for (u32 r = 0; r < dfa_[state].range_count && !best; r++) {
        const u8 byte = dfa_.range(state, r).lo;
        dfa_.work().spend(4);
        const StackId found = steps_.step(here, byte);
        if (found == NO_STACK) continue;
        const u64 ahead = distance(found);
        if (ahead >= left || (next != NO_STACK && ahead + 1 < left)) continue;
        const bool ended = !(stacks_.guarded(here) & GUARD_BELOW) || !pending(found);
        if (exact && !ended) continue;
        next = found, by = byte, exact = ahead + 1 == left, best = exact && ended;
      }
    }
    if (next == NO_STACK) break;
    way.push_back({here, by});
    here = next;
    left--;
  }
  return here;
}

// At the beginning of a value that must differ from others: the cheapest one that does, if it keeps the distance.
StackId Completion::new_value(StackId configuration, u64& left, std::vector<Straight>& way) {
  const std::size_t before = way.size();
  for (u32 i = 0; i < stacks_.edge_count(configuration); i++) {
    const StackEdge edge = stacks_.edges(configuration)[i];
    for (u32 k = 0; edge.state != BOTTOM && k < stacks_.edge_count(edge.below); k++) {
      const StateId guard = stacks_.edges(edge.below)[k].state;
      if (guard == BOTTOM || !(dfa_[guard].flags & STATE_GUARD) || dfa_.guard_text(guard) != 0) continue;
      const StateId back = dfa_.guard_back(guard);
      const auto& kinds = dfa_.nfa().scopes[dfa_.rule(back)];
      const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](RuleId rule) { return dfa_.start(rule) == edge.state; });
      if (kind == kinds.end()) continue;
      CheapValues& cheap = cheap_values_[*kind];
      const std::vector<u32> seen = dfa_.seen_ids(back);
      std::size_t v = 0;
      while ((v < cheap.values.size() || find_value(*kind, cheap)) && std::binary_search(seen.begin(), seen.end(), cheap.values[v].id)) v++;
      if (v == cheap.values.size()) continue;
      StackId here = configuration;
      for (const char byte : cheap.text(cheap.values[v].node)) {
        way.push_back({here, static_cast<u8>(byte)});
        here = steps_.step(here, static_cast<u8>(byte));
        if (here == NO_STACK) break;
      }
      if (here != NO_STACK && distance(here) + cheap.values[v].length <= left) {
        left -= cheap.values[v].length;
        return here;
      }
      way.resize(before);
    }
  }
  return NO_STACK;
}

// A* (Hart, Nilsson & Raphael 1968) with the distance as its bound: a guard may refuse the shortest way, and then others are tried. The
// bound of a node also holds for its successors (pathmax, Mero 1984). Very many nodes may be equally good: after PATIENCE nodes
// the distance weighs more than the length so far, and the text found is short but perhaps not shortest (Pohl 1970).
std::string Completion::search(StackId configuration) {
  constexpr std::size_t PATIENCE = 20'000, MOST_ATTEMPTS = 500;
  constexpr u64 MOST_NODES = 50'000, WEIGHT = 16;
  std::vector<SearchNode> nodes{{configuration, NONE, 0, 0}};
  bool greedy = false;
  std::size_t attempts = 0;
  PooledVector<Straight> way;
  SearchQueue queue;
  std::unordered_map<u32, u32> reached{{configuration, 0}};
  const u64 first = least(configuration);
  queue.push({first, static_cast<u32>(first), ~0u});
  while (!queue.empty()) {
    const u64 whole = std::get<0>(queue.top());
    const u32 at = ~std::get<2>(queue.top());
    queue.pop();
    dfa_.work().spend(20);
    const StackId here = nodes[at].configuration;
    const bool straight = !greedy && at != 0 && attempts < MOST_ATTEMPTS;
    attempts += straight;
    way.clear();
    if (stacks_.complete(here) || (straight && stacks_.complete(straight_down(here, whole - nodes[at].length, way, false)))) {
      std::string text;
      for (u32 node = at; node != 0; node = nodes[node].parent) text.push_back(static_cast<char>(nodes[node].byte));
      std::reverse(text.begin(), text.end());
      for (const Straight& step : way) text.push_back(static_cast<char>(step.byte));
      if (!greedy) {
        for (u32 node = at; node != 0; node = nodes[node].parent)
          lengths_.insert(nodes[node].configuration, static_cast<u32>(text.size() - nodes[node].length));
        for (std::size_t i = 0; i < way.size(); i++) lengths_.insert(way[i].configuration, static_cast<u32>(way.size() - i));
      }
      lengths_.insert(configuration, static_cast<u32>(text.size()));
      return text;
    }
    if (nodes[at].length > reached[here]) continue;
    if (!greedy && nodes.size() > PATIENCE + 4 * first) {
      greedy = true;
      // Orders the waiting nodes anew. None may be dropped: the newest may all lead to a state where the same value must come again.
      PooledVector<u32> waiting;
      for (; !queue.empty(); queue.pop()) waiting.push_back(~std::get<2>(queue.top()));
      for (const u32 node : waiting) {
        const u64 ahead = distance(nodes[node].configuration);
        queue.push({nodes[node].length + WEIGHT * ahead, static_cast<u32>(ahead), ~node});
      }
    }
    if (nodes.size() > MOST_NODES + 8 * first)
      throw CompletionLimit("states", static_cast<double>(MOST_NODES),
                            "the search for a completion met more than " + std::to_string(MOST_NODES + 8 * first) + " states");
    // At the beginning of a value that must differ, the cheapest new one is taken whole: there are as many beginnings as seen values.
    u64 any = LONG;
    way.clear();
    if (const StackId next = greedy && (stacks_.guarded(here) & GUARD_BELOW) ? new_value(here, any, way) : NO_STACK; next != NO_STACK) {
      u32 last = at;
      for (std::size_t i = 0; i < way.size(); i++) {
        nodes.push_back({i + 1 < way.size() ? way[i + 1].configuration : next, last, nodes[last].length + 1, way[i].byte});
        last = static_cast<u32>(nodes.size() - 1);
      }
      const u64 ahead = distance(next);
      const auto [found, added] = reached.try_emplace(next, nodes[last].length);
      if (ahead != NONE && (added || nodes[last].length < found->second)) {
        found->second = nodes[last].length;
        queue.push({nodes[last].length + WEIGHT * ahead, static_cast<u32>(ahead), ~last});
      }
    }
    const u32 length = nodes[at].length + 1;
    each_step(here, false, [&](u8 byte, StackId next) {
      const u64 ahead = distance(next);
      const auto [found, added] = reached.try_emplace(next, length);
      if (ahead == NONE || (!added && length >= found->second)) return;
      found->second = length;
      nodes.push_back({next, at, length, byte});
      const u64 bound = greedy ? length + WEIGHT * ahead : std::max(whole, length + ahead);
      queue.push({bound, static_cast<u32>(ahead), ~static_cast<u32>(nodes.size() - 1)});
    });
  }
  throw BadGrammar(NO_COMPLETION);
}

std::size_t Completion::bytes() const {
  std::size_t total = distances_.bytes() + lengths_.bytes() + scope_lengths_.bytes();
  for (const auto& lengths : dfa_.nfa().counted) total += lengths ? lengths->bytes() : 0;
  for (const auto& [rule, cheap] : cheap_values_)
    total += cheap.nodes.capacity() * sizeof(SearchNode) + cheap.queue.size() * sizeof(SearchKey);
  return total;
}

}  // namespace stackmask
