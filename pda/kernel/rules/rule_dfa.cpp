#include "rules/rule_dfa.h"

#include <algorithm>
#include <bit>
#include <iterator>

namespace stackmask {

namespace {
constexpr u32 MOST_SKIPPED = 64;  // states, one after the other, that lead to another one and do nothing else
constexpr std::size_t LARGE_CLOSURE = 8;  // smaller ones are made again
constexpr std::size_t FEW_LIVE = 64;  // edges, which are sorted by comparison
}  // namespace

RuleDfa::RuleDfa(Nfa nfa, const Thresholds& thresholds, const Limits& limits)
    : nfa_(std::move(nfa)), limits_(limits), closure_(nfa_), dense_bytes_(thresholds.dense_bytes), lookups_(thresholds.lookups),
      partly_closed_items_(thresholds.partly_closed_items), bundled_tokens_(thresholds.bundled_tokens) {
  limits_.states = std::min<u64>(limits_.states, ID_FLAG);
  // The size for an everyday grammar: growing step by step would copy it several times.
  items_.reserve(64, 512);
  states_.reserve(64);
  ranges_.reserve(256);
  range_items_.reserve(256);
  calls_.reserve(32);
  add_bottom();
  base_registers_ = nfa_.registers.size();
}

void RuleDfa::add_bottom() {
  items_.intern(nullptr, 0);
  states_.push_back({});
  states_[BOTTOM].flags = STATE_BUILT;
}

// INVARIANT: items_ and states_ have the same size, so the limit is checked before either grows.
void RuleDfa::check_limit() const {
  if (states_.size() >= limits_.states)
    throw LimitExceeded("states", static_cast<double>(limits_.states),
                        "the automaton needs more than " + std::to_string(limits_.states) + " states");
}

StateId RuleDfa::intern_items(std::span<const Item> items) {
  if (items.empty()) return DEAD;
  check_limit();
  nfa_.work.spend(items.size());
  const StateId id(items_.intern(reinterpret_cast<const u32*>(items.data()), items.size() * 2));
  if (id == states_.size()) add_state(items);
  return id;
}

void RuleDfa::add_state(std::span<const Item> items) {
  DfaState state;
  u32 defaults = 0;
  for (const Item& item : items) {
    const NfaState& nfa_state = nfa_.states[item.state];
    defaults += nfa_state.is_default;
    state.counts |= nfa_state.counting != 0;  // in a body: heads read nothing
    if (item.state == nfa_.rules[nfa_state.rule].final) {
      state.flags |= STATE_FINAL;
      if (nfa_state.rule != nfa_.root || nfa_.root_called) state.flags |= STATE_LEAVES;
    }
    for (u32 e = nfa_state.first; e != NONE; e = nfa_.edges[e].next) {
      switch (nfa_.edges[e].kind) {
        case EDGE_DEFAULT: defaults++; [[fallthrough]];
        case EDGE_BYTE: state.flags |= STATE_BYTES; break;
        case EDGE_CALL: state.flags |= STATE_CALLS | STATE_LEAVES; break;
        case EDGE_TOKEN: state.flags |= STATE_TOKENS; break;
        default: break;
      }
    }
  }
  if (defaults > 0 && items.size() > 1) state.default_state = BOTTOM;
  // A state inside of a word: one byte leads on.
  if (const NfaState& nfa_state = nfa_.states[items[0].state]; items.size() == 1 && nfa_state.first != NONE) {
    const Edge& edge = nfa_.edges[nfa_state.first];
    if (edge.kind == EDGE_BYTE && edge.next == NONE && edge.hi - edge.lo + 1u < dense_bytes_) {
      state.flags |= STATE_BUILT;
      state.ranges = static_cast<u32>(ranges_.size());
      state.range_count = 1;
      const u32 begin = static_cast<u32>(range_items_.size());
      range_items_.push_back({edge.target, items[0].reg});
      ranges_.push_back({UNRESOLVED, begin, begin + 1, edge.lo, edge.hi});
    }
  }
  states_.push_back(state);
}

// A state that was known before, with renumbered registers: its items read what they read then.
void RuleDfa::add_unbuilt(const DfaState& before) {
  DfaState state;
  state.flags = before.flags & ~STATE_BUILT;
  state.counts = before.counts;
  if (before.default_state != DEAD) state.default_state = BOTTOM;
  states_.push_back(state);
}

StateId RuleDfa::intern_closure() { return intern_items(closure_.result); }

void RuleDfa::close(std::span<const Item> items) {
  closure_.begin();
  for (const Item& item : items) closure_.add(item.state, item.reg);
  closure_.run();
}

StateId RuleDfa::closure_of(std::span<const Item> items) {
  if (items.size() == 1) return closure_of(items[0]);
  close(items);
  return intern_closure();
}

// The ends of many words lead to one NFA state, such as those of the terminals in a loop: its closure is made once.
StateId RuleDfa::closure_of(Item item) {
  for (u32 steps = 0; steps < MOST_SKIPPED; steps++) {
    const NfaState& state = nfa_.states[item.state];
    if (state.pending != NONE || state.counting || state.first == NONE) break;
    const Edge& edge = nfa_.edges[state.first];
    if (edge.kind != EDGE_EPSILON || edge.next != NONE || item.state == nfa_.rules[state.rule].final) break;
    item.state = edge.target;
  }
  const u64 key = static_cast<u64>(item.state) << 32 | item.reg;
  if (const u32* found = closures_.find(key)) return StateId(*found);
  closure_.begin();
  closure_.add(item.state, item.reg);
  closure_.run();
  const bool large = closure_.result.size() >= LARGE_CLOSURE;
  const StateId id = intern_closure();
  if (large) closures_.insert(key, id);
  return id;
}

StateId RuleDfa::united(StateId a, StateId b) {
  if (a == b) return a;
  if (b < a) std::swap(a, b);
  const u64 key = static_cast<u64>(a) << 32 | b;
  if (const u32* found = united_.find(key)) return StateId(*found);
  const std::span<const Item> left = items(a), right = items(b);
  const std::size_t larger = std::max(left.size(), right.size());
  nfa_.work.spend(left.size() + right.size());
  closure_.begin();
  std::ranges::set_union(left, right, std::back_inserter(closure_.result));
  closure_.unite_counts();
  const StateId result = closure_.result.size() > larger ? DEAD : intern_closure();
  united_.insert(key, result);
  return result;
}

StateId RuleDfa::start(RuleId rule) {
  if (starts_.size() <= rule) starts_.resize(nfa_.rules.size(), NONE);
  if (starts_[rule] != NONE) return starts_[rule];
  RegisterId reg = ZERO_REGISTER;
  if (nfa_.rules[rule].scope) {
    Register scope;
    scope.seen = 0;
    reg = nfa_.registers.id(scope);
  }
  closure_.begin();
  closure_.add(nfa_.rules[rule].start, reg);
  closure_.run();
  PooledVector<Item> items;
  for (const Item& item : closure_.result)
    if (item.state != nfa_.rules[rule].final) items.push_back(item);
  return starts_[rule] = intern_items(items);
}

// Sorts edges by their first and their last byte. The counting sort keeps edges that begin alike in the order of their items, so most
// targets come sorted.
void RuleDfa::sort_live() {
  auto before = [](const Live& a, const Live& b) { return (a.lo << 8 | a.hi) < (b.lo << 8 | b.hi); };
  if (live_.size() < FEW_LIVE) {
    std::sort(live_.begin(), live_.end(), before);
    return;
  }
  std::array<u32, 257> begin{};
  for (const Live& edge : live_) begin[edge.lo + 1u]++;
  for (std::size_t byte = 0; byte < 256; byte++) begin[byte + 1] += begin[byte];
  std::array<u32, 257> end = begin;
  PooledVector<Live> sorted;
  sorted.resize(live_.size());
  for (const Live& edge : live_) sorted[end[edge.lo]++] = edge;
  for (std::size_t byte = 0; byte < 256; byte++) {
    auto* const from = sorted.data() + begin[byte];
    auto* const to = sorted.data() + begin[byte + 1];
    if (!std::is_sorted(from, to, before)) std::stable_sort(from, to, before);
  }
  live_.assign(sorted.begin(), sorted.end());
}

// Makes the ranges of live_, each with the items that it leads to.
void RuleDfa::add_ranges() {
  auto& live = live_;
  auto& targets = targets_;
  const u32 first = static_cast<u32>(ranges_.size());
  nfa_.work.spend(live.size() * 4);
  u32 recent[64];  // by the first item's state: the last range that led there
  std::fill(std::begin(recent), std::end(recent), NONE);
  if (live.size() > 1) sort_live();
  bool simple = true;  // ranges are equal or disjoint
  for (std::size_t i = 1; i < live.size() && simple; i++)
    simple = live[i].lo > live[i - 1].hi || (live[i].lo == live[i - 1].lo && live[i].hi == live[i - 1].hi);
  auto add = [&](u8 lo, u8 hi) {
    if (targets.size() > 1) {
      sort_items(targets);
      targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
    }
    if (ranges_.size() > first) {  // the same as before, further on
      Range& last = ranges_.back();
      const auto items = range_items_.begin();
      const bool same = std::equal(targets.begin(), targets.end(), items + last.begin, items + last.end);
      if (last.hi + 1 == lo && same) {
        last.hi = hi;
        return;
      }
    }
    u32& before = recent[targets[0].state % std::size(recent)];
    if (before != NONE) {
      const Range same = ranges_[before];
      if (same.end - same.begin == targets.size() && std::equal(targets.begin(), targets.end(), range_items_.begin() + same.begin)) {
        ranges_.push_back({UNRESOLVED, same.begin, same.end, lo, hi});
        return;
      }
    }
    before = static_cast<u32>(ranges_.size());
    const u32 begin = static_cast<u32>(range_items_.size());
    range_items_.append(targets.data(), targets.size());
    ranges_.push_back({UNRESOLVED, begin, static_cast<u32>(range_items_.size()), lo, hi});
  };
  if (simple) {
    for (std::size_t i = 0; i < live.size();) {
      std::size_t j = i;
      targets.clear();
      for (; j < live.size() && live[j].lo == live[i].lo; j++) targets.push_back(live[j].target);
      add(live[i].lo, live[i].hi);
      i = j;
    }
  } else {
    bool cut[257] = {};  // where a range begins or the byte after one ends
    for (const Live& edge : live) cut[edge.lo] = cut[edge.hi + 1] = true;
    PooledVector<u32> cuts;
    for (u32 b = 0; b <= 256; b++)
      if (cut[b]) cuts.push_back(b);
    // The items that the bytes from one cut to the next lead to.
    auto each = [&](auto take) {
      std::size_t from = 0;
      for (const Live& edge : live) {
        while (cuts[from] < edge.lo) from++;
        for (std::size_t c = from; cuts[c] <= edge.hi; c++) take(c, edge.target);
      }
    };
    PooledVector<u32> ends;
    ends.assign(cuts.size() + 1, 0);
    each([&](std::size_t c, const Item&) { ends[c + 1]++; });
    for (std::size_t c = 0; c < cuts.size(); c++) ends[c + 1] += ends[c];
    PooledVector<Item> items;
    nfa_.work.spend(ends.back() * 2ull);
    items.resize(ends.back());
    each([&](std::size_t c, const Item& item) { items[ends[c]++] = item; });
    for (std::size_t c = 0, begin = 0; c + 1 < cuts.size(); begin = ends[c++]) {
      if (begin == ends[c]) continue;
      targets.assign(items.begin() + begin, items.begin() + ends[c]);
      add(static_cast<u8>(cuts[c]), static_cast<u8>(cuts[c + 1] - 1));
    }
  }
}

// The calls of a state, those of one rule as one.
void RuleDfa::unite_calls() {
  auto& calls = calls_to_;
  std::sort(calls.begin(), calls.end(),
            [](const CallTo& a, const CallTo& b) { return a.rule != b.rule ? a.rule < b.rule : a.distinct < b.distinct; });
  PooledVector<Item> backs;
  for (std::size_t i = 0; i < calls.size();) {
    const CallTo& first = calls[i];
    backs.clear();
    for (; i < calls.size() && calls[i].rule == first.rule && calls[i].distinct == first.distinct; i++) backs.push_back(calls[i].back);
    made_calls_.push_back({first.rule, closure_of(backs), first.distinct});
  }
}

void RuleDfa::build_edges(StateId state) {
  auto& live = live_;
  auto& calls = calls_to_;
  auto& tokens = tokens_to_;
  auto& made = made_calls_;
  live.clear();
  calls.clear();
  tokens.clear();
  made.clear();
  for (const Item item : items(state)) {
    for (u32 e = nfa_.states[item.state].first; e != NONE; e = nfa_.edges[e].next) {
      const Edge& edge = nfa_.edges[e];
      if (edge.kind == EDGE_BYTE) live.push_back({edge.lo, edge.hi, {edge.target, item.reg}});
      else if (edge.kind == EDGE_CALL) calls.push_back({edge.callee(), (edge.flags & EDGE_DISTINCT) != 0, {edge.target, item.reg}});
      else if (edge.kind == EDGE_TOKEN) tokens.push_back({edge.data, {edge.target, item.reg}});
      else if (edge.kind == EDGE_DEFAULT) add_default(item, edge.target);
    }
  }
  const u32 first = static_cast<u32>(ranges_.size());
  add_ranges();
  u32 bytes = 0;
  for (std::size_t i = first; i < ranges_.size(); i++) bytes += static_cast<u32>(ranges_[i].hi - ranges_[i].lo + 1);
  {
    DfaState& f = states_[state];
    f.ranges = first;
    f.range_count = static_cast<u32>(ranges_.size()) - first;
    f.dense = bytes >= dense_bytes_;
  }
  const u32 first_call = static_cast<u32>(calls_.size());
  if (calls.size() == 1) made.push_back({calls[0].rule, closure_of(calls[0].back), calls[0].distinct});
  else if (!calls.empty()) unite_calls();
  calls_.append(made.data(), made.size());
  const u32 first_token = static_cast<u32>(token_edges_.size());
  for (const auto& [set, target] : tokens) {
    const StateId to = closure_of(target);
    token_edges_.push_back({set, to});
  }
  DfaState& f = states_[state];
  f.calls = first_call;
  f.call_count = static_cast<u32>(made.size());
  f.tokens = first_token;
  f.token_count = static_cast<u32>(tokens.size());
  f.flags |= STATE_BUILT;
}

// Items that only read are their own closure, and sorted: of many items only the others are closed, and what they lead to is merged in.
// PERF: behind a quote, 30,000 keys may read a letter, and one key may be any other.
StateId RuleDfa::target_of(const Range& range) {
  const std::span<const Item> items{range_items_.data() + range.begin, range.end - range.begin};
  if (items.size() == 1) return reads_only(items[0].state) ? intern_items(items) : closure_of(items[0]);
  auto is_closed = [&](const Item& item) { return reads_only(item.state) && !counts(item.state); };
  const auto first = std::find_if_not(items.begin(), items.end(), is_closed);
  if (first == items.end()) return intern_items(items);
  if (items.size() < partly_closed_items_) return closure_of(items);
  PooledVector<Item> closed, open, merged;
  closed.assign(items.begin(), first);
  std::partition_copy(first, items.end(), std::back_inserter(closed), std::back_inserter(open), is_closed);
  nfa_.work.spend(closed.size());
  close(open);
  std::set_union(closed.begin(), closed.end(), closure_.result.begin(), closure_.result.end(), std::back_inserter(merged));
  return intern_items(merged);
}

// Whether the state is inside a counted repetition, so that its items may be united.
bool RuleDfa::counts(NfaStateId nfa_state) const {
  const u32 body = nfa_.counting(nfa_state).body;
  return body != NONE && !nfa_.heads[body].permutation;
}

// Whether the state reads and does nothing else, so that it is its own closure.
bool RuleDfa::reads_only(NfaStateId nfa_state) const {
  const NfaState& s = nfa_.states[nfa_state];
  const Counting& counting = nfa_.countings[s.counting];
  if (s.pending != NONE || counting.head != NONE || (counting.body != NONE && nfa_.heads[counting.body].automaton)) return false;
  bool reads = false;
  for (u32 e = s.first; e != NONE; e = nfa_.edges[e].next) {
    const u8 kind = nfa_.edges[e].kind;
    if (kind == EDGE_BYTE || kind == EDGE_DEFAULT) reads = true;
    else if (kind != EDGE_NON_ASCII) return false;
  }
  return reads;
}

// Finds the target of a range, and of all ranges with the same items.
StateId RuleDfa::resolve(StateId state, u32 index) {
  const DfaState f = states_[state];
  const u32 begin = ranges_[f.ranges + index].begin;
  const StateId target = target_of(ranges_[f.ranges + index]);
  for (u32 i = f.ranges; i < f.ranges + f.range_count; i++) {
    if (ranges_[i].begin != begin) continue;
    ranges_[i].target = target;
    if (f.table == NONE) continue;
    for (u32 b = ranges_[i].lo; b <= ranges_[i].hi; b++) tables_[f.table][b] = target;
  }
  return target;
}

void RuleDfa::make_table(StateId state) {
  DfaState& f = states_[state];
  tables_.emplace_back().fill(DEAD);
  f.table = static_cast<u32>(tables_.size() - 1);  // not before there is one: there may be no memory for it
  for (u32 i = f.ranges; i < f.ranges + f.range_count; i++)
    for (u32 b = ranges_[i].lo; b <= ranges_[i].hi; b++) tables_.back()[b] = ranges_[i].target;
}

bool RuleDfa::reads(const NfaState& nfa_state, u64 inside) const {
  for (u32 e = nfa_state.first; e != NONE; e = nfa_.edges[e].next) {
    const Edge& edge = nfa_.edges[e];
    if (edge.kind == EDGE_DEFAULT && reads(nfa_.states[edge.target], inside)) return true;
    if (edge.kind != EDGE_BYTE) continue;
    if (edge.hi > 0x7F && (inside & (SIG_NON_ASCII | SIG_SPACE))) return true;
    for (u32 b = edge.lo; b <= edge.hi && b < 128; b++)
      if (signature_of_ascii(static_cast<u8>(b)) & inside) return true;
  }
  return false;
}

u64 RuleDfa::distance(StateId state) {
  if (state == BOTTOM || (states_[state].flags & STATE_REGION)) return 0;
  if (states_[state].flags & STATE_GUARD) return distance(guard_back(state));
  u64 best = NONE;
  for (const Item item : items(state)) best = std::min(best, nfa_.distance(item));
  return best;
}

u32 RuleDfa::origin(StateId state) const {
  if (state == BOTTOM || (states_[state].flags & STATE_REGION)) return NONE;
  if (states_[state].flags & STATE_GUARD) return origin(guard_back(state));
  return nfa_.states[items_.at(state)[0]].origin;
}

// Forgets all states except the used ones, and returns their new numbers. Registers and the values that they have seen are made anew as
// well, except for the registers that the NFA names. They keep their order, so items stay sorted. Guards come last, since they name other
// states.
std::vector<StateId> RuleDfa::keep(std::vector<u8>& used) {
  for (u32 s = static_cast<u32>(states_.size()); s-- > 0;)
    if (used[s] && (states_[s].flags & STATE_GUARD)) used[guard_back(StateId(s))] = 1;
  std::vector<StateId> map(states_.size(), DEAD);
  struct Guard {
    u32 state;
    StateId back;
    u32 text;
  };
  std::vector<Guard> guards;
  for (u32 s = 0; s < states_.size(); s++)
    if (used[s] && (states_[s].flags & STATE_GUARD)) guards.push_back({s, guard_back(StateId(s)), guard_text(StateId(s))});
  const Interner old = std::move(items_);
  const GrowingArray<DfaState> old_states = std::move(states_);
  const Registers old_registers = std::move(nfa_.registers);
  const SeenValues old_seen = std::move(seen_);
  const PendingTexts old_texts = std::move(texts_);
  items_ = Interner();
  states_.clear();
  ranges_ = {}, calls_ = {}, token_edges_ = {}, range_items_ = {}, tables_ = {};
  nfa_.registers = Registers();
  seen_ = SeenValues();
  texts_ = PendingTexts();
  popped_.clear(), values_after_.clear();
  starts_.assign(starts_.size(), NONE);
  closures_.clear(), united_.clear();
  add_bottom();
  map[BOTTOM] = BOTTOM;
  auto is_set = [&](u32 s) { return used[s] && !(old_states[s].flags & (STATE_GUARD | STATE_REGION)); };
  std::vector<u8> named(old_registers.size(), 0);
  std::fill_n(named.begin(), base_registers_, 1);
  for (u32 s = 1; s < old_states.size(); s++)
    for (std::size_t i = 1; is_set(s) && i < old.length(s); i += 2) named[old.at(s)[i]] = 1;
  std::vector<u32> seen_map(old_seen.set_count(), NONE);
  SeenValues::LastAdopted adopted;
  const std::vector<RegisterId> register_map = nfa_.registers.adopt(old_registers, named, base_registers_, [&](u32 seen) {
    if (seen_map[seen] == NONE) seen_map[seen] = seen_.adopt(old_seen, seen, adopted);
    return seen_map[seen];
  });
  std::size_t sets = 0, words = 0;
  for (u32 s = 1; s < old_states.size(); s++)
    if (is_set(s)) sets++, words += old.length(s);
  items_.expect(sets, words);
  std::vector<Item> items;
  for (u32 s = 1; s < old_states.size(); s++) {
    if (used[s] && (old_states[s].flags & STATE_REGION)) map[s] = region(RuleId(old.at(s)[2]), old.at(s)[3], old.at(s)[4], old.at(s)[5]);
    if (!is_set(s)) continue;
    check_limit();
    items.clear();
    for (std::size_t i = 0; i < old.length(s); i += 2) items.push_back({NfaStateId(old.at(s)[i]), register_map[old.at(s)[i + 1]]});
    map[s] = StateId(items_.add(reinterpret_cast<const u32*>(items.data()), items.size() * 2));
    if (items.size() == 1) add_state(items);
    else add_unbuilt(old_states[s]);
  }
  std::vector<u32> text_map(old_texts.size(), PendingTexts::EMPTY);
  for (const Guard& each : guards) map[each.state] = guard(map[each.back], texts_.adopt(old_texts, each.text, text_map));
  return map;
}

std::size_t RuleDfa::bytes() const {
  const std::size_t nfa_bytes = (nfa_.unlowered ? nfa_.unlowered->bytes() : 0) + nfa_.states.bytes() + nfa_.edges.bytes() +
                                nfa_.countings.capacity() * sizeof(Counting) + nfa_.heads.capacity() * sizeof(Head) +
                                nfa_.rules.capacity() * sizeof(Rule) + nfa_.origins.capacity() * sizeof(Origin) + nfa_.registers.bytes();
  return nfa_bytes + items_.bytes() + states_.bytes() + ranges_.bytes() + calls_.bytes() + range_items_.bytes() +
         tables_.capacity() * sizeof(tables_[0]) + texts_.bytes() + seen_.bytes() + popped_.bytes() + values_after_.bytes() +
         closures_.bytes() + united_.bytes();
}

}  // namespace stackmask
