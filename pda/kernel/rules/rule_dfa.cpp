#include "rules/rule_dfa.h"

#include <algorithm>
#include <bit>

namespace stackmask {

RuleDfa::RuleDfa(Nfa nfa, const TokenTrie& trie, const Limits& limits)
    : nfa_(std::move(nfa)), limits_(limits), closure_(nfa_), longest_token_(trie.max_token_bytes()), dense_bytes_(trie.thresholds().dense_bytes),
      lookups_(trie.thresholds().lookups) {
  // What an everyday grammar comes to: growing step by step would copy it several times.
  items_.reserve(64, 512);
  states_.reserve(64);
  ranges_.reserve(256);
  pending_.reserve(256);
  calls_.reserve(32);
  class_loops_.reserve(16);
  items_.intern(nullptr, 0);
  states_.emplace_back();
  states_[BOTTOM].flags = STATE_BUILT;
  seen_sets_.intern(nullptr, 0);
  text_parents_.push_back({0, 0});
  text_states_.push_back(0);
  base_registers_ = nfa_.registers.size();
}

// INVARIANT: items_ and states_ have the same size, so the limit is checked before either grows.
void RuleDfa::check_limit() const {
  if (states_.size() >= limits_.states)
    throw LimitExceeded("states", static_cast<double>(limits_.states), "the automaton needs more than " + std::to_string(limits_.states) + " states");
}

u32 RuleDfa::intern_items(std::span<const Item> items) {
  if (items.empty()) return DEAD;
  check_limit();
  const u32 id = items_.intern(reinterpret_cast<const u32*>(items.data()), items.size() * 2);
  if (id < states_.size()) return id;
  DfaState state;
  u32 defaults = 0;
  for (const Item& item : items) {
    const NfaState& nfa_state = nfa_.states[item.state];
    defaults += nfa_state.is_default;
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
  if (defaults == 1 && items.size() > 1) state.default_state = BOTTOM;
  // A state inside of a word: one byte leads on.
  if (const NfaState& nfa_state = nfa_.states[items[0].state]; items.size() == 1 && nfa_state.first != NONE) {
    if (const Edge& edge = nfa_.edges[nfa_state.first]; edge.kind == EDGE_BYTE && edge.next == NONE && edge.hi - edge.lo + 1u < dense_bytes_) {
      state.flags |= STATE_BUILT;
      state.ranges = static_cast<u32>(ranges_.size());
      state.range_count = 1;
      const u32 begin = static_cast<u32>(pending_.size());
      pending_.push_back({edge.target, items[0].reg});
      ranges_.push_back({PENDING, begin, begin + 1, edge.lo, edge.hi});
    }
  }
  states_.push_back(state);
  return id;
}

u32 RuleDfa::intern_closure() { return intern_items(closure_.result); }

u32 RuleDfa::start(u32 rule) {
  if (starts_.size() <= rule) starts_.resize(nfa_.rules.size(), NONE);
  if (starts_[rule] != NONE) return starts_[rule];
  u32 reg = 0;
  if (nfa_.rules[rule].scope) {
    Register scope;
    scope.seen = 0;
    reg = nfa_.registers.id(scope);
  }
  closure_.begin();
  closure_.add(nfa_.rules[rule].start, reg);
  closure_.run();
  Scratch<Item> items;
  for (const Item& item : closure_.result)
    if (item.state != nfa_.rules[rule].final) items.push_back(item);
  return starts_[rule] = intern_items(items);
}

// The ranges that live_ makes, each with the items that it leads to.
void RuleDfa::add_ranges() {
  auto& live = live_;
  auto& targets = targets_;
  const u32 first = static_cast<u32>(ranges_.size());
  u32 recent[64];  // by the first item's state: the last range that led there
  std::fill(std::begin(recent), std::end(recent), NONE);
  std::sort(live.begin(), live.end(), [](const Live& a, const Live& b) { return a.lo != b.lo ? a.lo < b.lo : a.hi < b.hi; });
  bool simple = true;  // ranges are equal or disjoint
  for (std::size_t i = 1; i < live.size() && simple; i++)
    simple = live[i].lo > live[i - 1].hi || (live[i].lo == live[i - 1].lo && live[i].hi == live[i - 1].hi);
  auto add = [&](u8 lo, u8 hi) {
    if (targets.size() > 1) {
      std::sort(targets.begin(), targets.end());
      targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
    }
    if (ranges_.size() > first) {  // the same as before, further on
      Range& last = ranges_.back();
      if (last.hi + 1 == lo && last.end - last.begin == targets.size() && std::equal(targets.begin(), targets.end(), pending_.begin() + last.begin)) {
        last.hi = hi;
        return;
      }
    }
    u32& before = recent[targets[0].state % std::size(recent)];
    if (before != NONE) {
      const Range same = ranges_[before];
      if (same.end - same.begin == targets.size() && std::equal(targets.begin(), targets.end(), pending_.begin() + same.begin)) {
        ranges_.push_back({PENDING, same.begin, same.end, lo, hi});
        return;
      }
    }
    before = static_cast<u32>(ranges_.size());
    const u32 begin = static_cast<u32>(pending_.size());
    pending_.insert(pending_.end(), targets.begin(), targets.end());
    ranges_.push_back({PENDING, begin, static_cast<u32>(pending_.size()), lo, hi});
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
    Scratch<u32> cuts;
    for (u32 b = 0; b <= 256; b++)
      if (cut[b]) cuts.push_back(b);
    // The items behind each piece from one cut to the next.
    auto each = [&](auto take) {
      std::size_t from = 0;
      for (const Live& edge : live) {
        while (cuts[from] < edge.lo) from++;
        for (std::size_t c = from; cuts[c] <= edge.hi; c++) take(c, edge.target);
      }
    };
    Scratch<u32> ends;
    ends.assign(cuts.size() + 1, 0);
    each([&](std::size_t c, const Item&) { ends[c + 1]++; });
    for (std::size_t c = 0; c < cuts.size(); c++) ends[c + 1] += ends[c];
    Scratch<Item> items;
    items.resize(ends.back());
    each([&](std::size_t c, const Item& item) { items[ends[c]++] = item; });
    for (std::size_t c = 0, begin = 0; c + 1 < cuts.size(); begin = ends[c++]) {
      if (begin == ends[c]) continue;
      targets.assign(items.begin() + begin, items.begin() + ends[c]);
      add(static_cast<u8>(cuts[c]), static_cast<u8>(cuts[c + 1] - 1));
    }
  }
}

// The bytes that an EDGE_DEFAULT to `target` reads.
void RuleDfa::add_default(const Item& item, u32 target) {
  bool own[256] = {};
  for (u32 e = nfa_.states[item.state].first; e != NONE; e = nfa_.edges[e].next)
    if (const Edge& edge = nfa_.edges[e]; edge.kind == EDGE_BYTE) std::fill(own + edge.lo, own + edge.hi + 1, true);
  for (u32 e = nfa_.states[target].first; e != NONE; e = nfa_.edges[e].next) {
    const Edge& edge = nfa_.edges[e];
    if (edge.kind != EDGE_BYTE) continue;
    for (u32 lo = edge.lo; lo <= edge.hi; lo++) {
      if (own[lo]) continue;
      u32 hi = lo;
      while (hi < edge.hi && !own[hi + 1]) hi++;
      live_.push_back({static_cast<u8>(lo), static_cast<u8>(hi), {edge.target, item.reg}});
      lo = hi;
    }
  }
}

// Delta states are states with one item on the way into a word, or behind all words, whose other items read nothing that the state behind all
// words reads, but for bytes that go on in the word.
void RuleDfa::make_delta(u32 state) {
  states_[state].default_state = DEAD;
  u32 behind = NONE, on_the_way = NONE;
  AsciiSet word;
  Scratch<Item> default_items;
  default_items.resize(1);
  const std::size_t count = items_.length(state);
  for (std::size_t i = 0; i < count; i += 2) {
    const Item item{items_.at(state)[i], items_.at(state)[i + 1]};
    if (nfa_.states[item.state].is_default) behind = item.state, default_items[0] = item;
    for (u32 e = nfa_.states[item.state].first; e != NONE; e = nfa_.edges[e].next)
      if (nfa_.edges[e].kind == EDGE_DEFAULT) behind = nfa_.edges[e].target, on_the_way = item.state, default_items[0] = {behind, item.reg};
  }
  live_.clear();
  for (std::size_t i = 0; i < count; i += 2) {
    const Item item{items_.at(state)[i], items_.at(state)[i + 1]};
    if (item == default_items[0]) continue;
    for (u32 e = nfa_.states[item.state].first; e != NONE; e = nfa_.edges[e].next) {
      const Edge& edge = nfa_.edges[e];
      if (edge.kind != EDGE_BYTE) continue;
      if (edge.hi > 127) return;
      live_.push_back({edge.lo, edge.hi, {edge.target, item.reg}});
      if (item.state == on_the_way) word.add(edge.lo, edge.hi);
    }
  }
  AsciiSet read;  // by the default state
  for (u32 e = nfa_.states[behind].first; e != NONE; e = nfa_.edges[e].next)
    if (const Edge& edge = nfa_.edges[e]; edge.kind == EDGE_BYTE && edge.lo < 128) read.add(edge.lo, std::min<u8>(edge.hi, 127));
  for (const Live& live : live_)
    for (u32 b = live.lo; b <= live.hi; b++)
      if (read.has(b) && !word.has(b)) return;
  const u32 to = intern_items(default_items);
  DfaState& f = states_[state];
  f.deltas = static_cast<u32>(ranges_.size());
  add_ranges();
  f.delta_count = static_cast<u32>(ranges_.size()) - f.deltas;
  f.default_state = to;
  delta_states_++;
}

u32 RuleDfa::next_of_delta(u32 state, u8 byte) {
  const DfaState& f = states_[state];
  for (u32 i = f.deltas; i < f.deltas + f.delta_count && ranges_[i].lo <= byte; i++) {
    if (byte > ranges_[i].hi) continue;
    if (ranges_[i].target == PENDING) {
      const u32 target = target_of(ranges_[i]);
      ranges_[i].target = target;
    }
    return ranges_[i].target;
  }
  return next(f.default_state, byte);
}

void RuleDfa::build_edges(u32 state) {
  auto& live = live_;
  auto& calls = calls_to_;
  auto& tokens = tokens_to_;
  auto& made = made_calls_;
  live.clear();
  calls.clear();
  tokens.clear();
  made.clear();
  const std::size_t count = items_.length(state);
  for (std::size_t i = 0; i < count; i += 2) {
    const Item item{items_.at(state)[i], items_.at(state)[i + 1]};
    for (u32 e = nfa_.states[item.state].first; e != NONE; e = nfa_.edges[e].next) {
      const Edge& edge = nfa_.edges[e];
      if (edge.kind == EDGE_BYTE) live.push_back({edge.lo, edge.hi, {edge.target, item.reg}});
      else if (edge.kind == EDGE_CALL) calls.push_back({edge.data, (edge.flags & EDGE_DISTINCT) != 0, {edge.target, item.reg}});
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
  std::sort(calls.begin(), calls.end(), [](const CallTo& a, const CallTo& b) { return a.rule != b.rule ? a.rule < b.rule : a.distinct < b.distinct; });
  const u32 first_call = static_cast<u32>(calls_.size());
  for (std::size_t i = 0; i < calls.size();) {
    std::size_t j = i;
    closure_.begin();
    for (; j < calls.size() && calls[j].rule == calls[i].rule && calls[j].distinct == calls[i].distinct; j++) closure_.add(calls[j].back.state, calls[j].back.reg);
    closure_.run();
    made.push_back({calls[i].rule, intern_closure(), calls[i].distinct});
    i = j;
  }
  calls_.insert(calls_.end(), made.begin(), made.end());
  const u32 first_token = static_cast<u32>(token_edges_.size());
  for (const auto& [set, target] : tokens) {
    closure_.begin();
    closure_.add(target.state, target.reg);
    closure_.run();
    const u32 to = intern_closure();
    token_edges_.push_back({set, to});
  }
  DfaState& f = states_[state];
  f.calls = first_call;
  f.call_count = static_cast<u32>(made.size());
  f.tokens = first_token;
  f.token_count = static_cast<u32>(tokens.size());
  f.flags |= STATE_BUILT;
}

u32 RuleDfa::target_of(const Range& range) {
  if (range.end - range.begin == 1 && reads_only(pending_[range.begin].state)) {
    const Item item = pending_[range.begin];
    return intern_items({&item, 1});
  }
  closure_.begin();
  for (u32 i = range.begin; i < range.end; i++) closure_.add(pending_[i].state, pending_[i].reg);
  closure_.run();
  return intern_closure();
}

// The state reads bytes and does nothing else, so that it is its own closure.
bool RuleDfa::reads_only(u32 nfa_state) const {
  const NfaState& s = nfa_.states[nfa_state];
  if (s.pending != NONE || s.head != NONE || s.first == NONE || (s.body != NONE && nfa_.heads[s.body].automaton)) return false;
  for (u32 e = s.first; e != NONE; e = nfa_.edges[e].next)
    if (nfa_.edges[e].kind != EDGE_BYTE) return false;
  return true;
}

// The target of a range, and of all that read the same.
u32 RuleDfa::resolve(u32 state, u32 index) {
  const DfaState f = states_[state];
  const u32 begin = ranges_[f.ranges + index].begin;
  const u32 target = target_of(ranges_[f.ranges + index]);
  for (u32 i = f.ranges; i < f.ranges + f.range_count; i++) {
    if (ranges_[i].begin != begin) continue;
    ranges_[i].target = target;
    if (f.table == NONE) continue;
    for (u32 b = ranges_[i].lo; b <= ranges_[i].hi; b++) tables_[f.table][b] = target;
  }
  return target;
}

void RuleDfa::make_table(u32 state) {
  DfaState& f = states_[state];
  f.table = static_cast<u32>(tables_.size());
  tables_.emplace_back();
  tables_.back().fill(DEAD);
  for (u32 i = f.ranges; i < f.ranges + f.range_count; i++)
    for (u32 b = ranges_[i].lo; b <= ranges_[i].hi; b++) tables_.back()[b] = ranges_[i].target;
}

// Ranges that read the same lead to the same place, so most are never resolved.
void RuleDfa::differences(u32 a, u32 b, std::vector<Difference>& found) {
  found.clear();
  if (is_delta(a) && is_delta(b) && states_[a].default_state == states_[b].default_state) {
    AsciiSet deltas;
    for (const u32 state : {a, b})
      for (u32 i = states_[state].deltas; i < states_[state].deltas + states_[state].delta_count; i++) deltas.add(ranges_[i].lo, ranges_[i].hi);
    for (u32 w = 0; w < 2; w++)
      for (u64 rest = deltas.words[w]; rest; rest &= rest - 1) {
        const u8 byte = static_cast<u8>(w * 64 + static_cast<u32>(std::countr_zero(rest)));
        const u32 here = next_of_delta(a, byte), there = next_of_delta(b, byte);
        if (here != there) found.push_back({byte, byte, here, there});
      }
    return;
  }
  build(a);
  build(b);
  const u32 n = states_[a].range_count, m = states_[b].range_count, first_a = states_[a].ranges, first_b = states_[b].ranges;
  for (u32 i = 0, j = 0, at = 0; at < 256;) {
    while (i < n && ranges_[first_a + i].hi < at) i++;
    while (j < m && ranges_[first_b + j].hi < at) j++;
    const bool in_a = i < n && ranges_[first_a + i].lo <= at, in_b = j < m && ranges_[first_b + j].lo <= at;
    u32 end = 255;
    if (i < n) end = std::min<u32>(end, in_a ? ranges_[first_a + i].hi : ranges_[first_a + i].lo - 1u);
    if (j < m) end = std::min<u32>(end, in_b ? ranges_[first_b + j].hi : ranges_[first_b + j].lo - 1u);
    const u32 lo = at;
    at = end + 1;
    if (!in_a && !in_b) continue;
    if (in_a && in_b) {
      const Range x = ranges_[first_a + i], y = ranges_[first_b + j];
      if (x.end - x.begin == y.end - y.begin && std::equal(pending_.begin() + x.begin, pending_.begin() + x.end, pending_.begin() + y.begin)) continue;
    }
    const u32 here = in_a ? range_target(a, i) : DEAD, there = in_b ? range_target(b, j) : DEAD;
    if (here != there) found.push_back({static_cast<u8>(lo), static_cast<u8>(end), here, there});
  }
}

u32 RuleDfa::saturated(u32 state) {
  if (states_[state].saturated == NONE) {
    const u32 result = saturated(state, longest_token_);
    states_[state].saturated = result;
  }
  return states_[state].saturated;
}

template <class F>
u32 RuleDfa::recounted(u32 state, F change) {
  Scratch<Item> items;
  const std::size_t count = items_.length(state);
  bool changed = false;
  for (std::size_t i = 0; i < count; i += 2) {
    Item item{items_.at(state)[i], items_.at(state)[i + 1]};
    const NfaState& nfa_state = nfa_.states[item.state];
    if (nfa_state.body != NONE) {
      Register reg = nfa_.registers.get(item.reg);
      const u32 before = reg.count;
      const bool stays = change(item, nfa_state, nfa_.heads[nfa_state.body], reg);
      changed = changed || !stays || reg.count != before;
      if (!stays) continue;
      if (reg.count != before) item.reg = nfa_.registers.id(reg);
    }
    items.push_back(item);
  }
  if (!changed) return state;
  std::sort(items.begin(), items.end());
  items.erase(std::unique(items.begin(), items.end()), items.end());
  return intern_items(items);
}

u32 RuleDfa::saturated(u32 state, u32 bytes) {
  if (states_[state].flags & STATE_GUARD) return state;
  return recounted(state, [bytes](const Item&, const NfaState&, const Head& head, Register& reg) {
    if (head.permutation || reg.count >= COUNT_DEEP) return true;
    const u64 margin = bytes / head.least + 2 + head.furthest;  // a token completes at most this many bodies
    const bool far = head.maximum == NONE || reg.count + margin < head.maximum;
    if (reg.count + margin < head.minimum && (!head.automaton || (far && !head.bounded))) reg.count = COUNT_DEEP;
    else if (reg.count >= head.minimum && far) reg.count = COUNT_FREE;
    return true;
  });
}

std::pair<u32, u32> RuleDfa::with_free_counts(u32 state) {
  u32 needed = 0;
  const u32 result = recounted(state, [&needed](const Item&, const NfaState&, const Head& head, Register& reg) {
    reg.count = COUNT_FREE;
    needed = std::max(needed, head.furthest);
    return true;
  });
  return {result, needed};
}

u32 RuleDfa::advanced(u32 state, u32 more) {
  return recounted(state, [more](const Item&, const NfaState& nfa_state, const Head& head, Register& reg) {
    reg.count += more;
    return head.automaton ? static_cast<u64>(reg.count) + nfa_state.least <= head.maximum : reg.count < head.maximum;  // else no more can be read
  });
}

// The state after any character above U+007F that is no space, or after any that is one; DEAD if they do not all lead to the same one.
u32 RuleDfa::non_ascii_target(u32 state, bool spaces) {
  closure_.begin();
  bool any = false;
  const std::size_t count = items_.length(state);
  for (std::size_t i = 0; i < count; i += 2) {
    const Item item{items_.at(state)[i], items_.at(state)[i + 1]};
    if (nfa_.states[item.state].partial_non_ascii) return DEAD;
    for (u32 e = nfa_.states[item.state].first; e != NONE; e = nfa_.edges[e].next) {
      const Edge& edge = nfa_.edges[e];
      if (edge.kind != EDGE_NON_ASCII) continue;
      if (spaces && edge.data != 0) return DEAD;  // some spaces, perhaps not all
      if (edge.data != 2) closure_.add(edge.target, item.reg), any = true;
    }
  }
  closure_.run();
  return any ? intern_closure() : DEAD;
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

bool RuleDfa::reads_outside(u32 state, u64 inside) const {
  const std::size_t count = items_.length(state);
  for (std::size_t i = 0; i < count; i += 2) {
    const NfaState& nfa_state = nfa_.states[items_.at(state)[i]];
    if ((nfa_state.body == NONE || !nfa_.heads[nfa_state.body].automaton) && reads(nfa_state, inside)) return true;
  }
  return false;
}

bool RuleDfa::differs_by_count(u32 state, u32 next, u64 inside, u32* more) const {
  const std::size_t count = items_.length(state);
  if (items_.length(next) != count || ((states_[state].flags | states_[next].flags) & STATE_GUARD)) return false;
  u32 head = NONE, done = 0;
  for (std::size_t i = 0; i < count; i += 2) {
    const Item here{items_.at(state)[i], items_.at(state)[i + 1]}, there{items_.at(next)[i], items_.at(next)[i + 1]};
    if (here.state != there.state) return false;
    const NfaState& nfa_state = nfa_.states[here.state];
    if (nfa_state.body == NONE) {
      if (here.reg != there.reg || reads(nfa_state, inside)) return false;
      continue;
    }
    const Head& counting = nfa_.heads[nfa_state.body];
    const Register before = nfa_.registers.get(here.reg), after = nfa_.registers.get(there.reg);
    if (counting.permutation || counting.maximum == NONE || before.count >= COUNT_DEEP || before.count < counting.minimum || after.count != before.count + 1 ||
        before.used != after.used || before.seen != after.seen || (head != NONE && (head != nfa_state.body || done != before.count)))
      return false;
    const u32 left = counting.maximum - before.count;
    *more = std::min(head == NONE ? NONE : *more, left < nfa_state.settled ? 0 : left - nfa_state.settled);
    head = nfa_state.body, done = before.count;
  }
  return head != NONE;
}

bool RuleDfa::reads_any(u32 state, const AsciiSet& bytes) {
  build(state);
  for (u32 r = 0; r < states_[state].range_count; r++) {
    const Range range = this->range(state, r);
    if (range.lo > 127) break;
    AsciiSet read;
    read.add(range.lo, std::min<u8>(range.hi, 127));
    if (read.meets(bytes) && range_target(state, r) != DEAD) return true;
  }
  return false;
}

bool RuleDfa::in_repetition(u32 state) const {
  const std::size_t count = items_.length(state);
  for (std::size_t i = 0; i < count; i += 2)
    if (const u32 body = nfa_.states[items_.at(state)[i]].body; body != NONE && !nfa_.heads[body].automaton && !nfa_.heads[body].permutation) return true;
  return false;
}

u32 RuleDfa::without_bounds(u32 state, u32* left) {
  *left = NONE;
  if (states_[state].flags & STATE_GUARD) return state;
  u32 body = NONE, reg_of = NONE;
  bool decided = true;
  const u32 result = recounted(state, [&](const Item& item, const NfaState& nfa_state, const Head& head, Register& reg) {
    if (!head.automaton) return true;
    if (body != NONE && (body != nfa_state.body || reg_of != item.reg)) decided = false;
    body = nfa_state.body, reg_of = item.reg;
    if (reg.count < COUNT_DEEP) {
      if (reg.count < head.minimum && head.bounded) decided = false;
      if (head.maximum != NONE) *left = head.maximum - reg.count;
    }
    reg.count = COUNT_FREE;
    return true;
  });
  return decided ? result : DEAD;
}

std::pair<u32, u32> RuleDfa::settled(u32 state) const {
  std::pair<u32, u32> range{NONE, 0};
  const std::size_t count = items_.length(state);
  for (std::size_t i = 0; i < count; i += 2) {
    const NfaState& nfa_state = nfa_.states[items_.at(state)[i]];
    if (nfa_state.body == NONE || !nfa_.heads[nfa_state.body].automaton) continue;
    range.first = std::min(range.first, nfa_state.settled), range.second = std::max(range.second, nfa_state.settled);
  }
  return range;
}

// Several repetitions may count in step: the blanks before a comma and those before a brace.
const ByteRun& RuleDfa::byte_run(u32 state) {
  if (states_[state].byte_run != NONE) return byte_runs_[states_[state].byte_run];
  states_[state].byte_run = 0;
  bool counts = false;
  const std::size_t count = (states_[state].flags & STATE_GUARD) ? 0 : items_.length(state);
  for (std::size_t i = 0; i < count && !counts; i += 2) counts = nfa_.states[items_.at(state)[i]].body != NONE;
  if (!counts) return byte_runs_[0];
  ByteRun run;
  Scratch<std::pair<u32, AsciiSet>> bodies;  // (head, its bytes)
  AsciiSet other;
  u32 reg_of = NONE;
  for (std::size_t i = 0; i < count; i += 2) {
    const NfaState& nfa_state = nfa_.states[items_.at(state)[i]];
    if (nfa_state.body == NONE) {
      for (u32 e = nfa_state.first; e != NONE; e = nfa_.edges[e].next)
        if (const Edge& edge = nfa_.edges[e]; edge.kind == EDGE_BYTE && edge.lo < 128) other.add(edge.lo, std::min<u8>(edge.hi, 127));
        else if (edge.kind == EDGE_DEFAULT) other.add(0, 127);
      continue;
    }
    const Head& head = nfa_.heads[nfa_state.body];
    const u32 reg = items_.at(state)[i + 1], done = nfa_.registers.get(reg).count;
    if (!head.byte || head.permutation || head.maximum == NONE || done >= COUNT_DEEP || done < head.minimum || done >= head.maximum ||
        (reg_of != NONE && (reg != reg_of || run.left != head.maximum - done)))
      return byte_runs_[0];
    reg_of = reg, run.left = head.maximum - done;
    auto body = std::find_if(bodies.begin(), bodies.end(), [&](const auto& each) { return each.first == nfa_state.body; });
    if (body == bodies.end()) bodies.push_back({nfa_state.body, {}}), body = bodies.end() - 1;
    for (u32 e = nfa_state.first; e != NONE; e = nfa_.edges[e].next) {
      if (nfa_.edges[e].kind != EDGE_BYTE) continue;
      if (nfa_.edges[e].hi > 127) return byte_runs_[0];
      body->second.add(nfa_.edges[e].lo, nfa_.edges[e].hi);
    }
  }
  run.bytes = bodies[0].second;
  run.inside = signature_inside(run.bytes);
  if (run.bytes.meets(other) || ascii_inside(run.inside) != run.bytes) return byte_runs_[0];
  for (const auto& body : bodies)
    if (body.second != run.bytes) return byte_runs_[0];
  // What follows differs by the count alone; the first state of a rule is never final, and its successor may be.
  u32 after = DEAD;
  for (u32 b = 0; b < 128 && after == DEAD; b++)
    if (run.bytes.has(b)) after = next(state, static_cast<u8>(b));
  if (run.inside == 0 || after == DEAD || items_.length(after) != count) return byte_runs_[0];
  for (std::size_t i = 0; i < count; i += 2)
    if (items_.at(state)[i] != items_.at(after)[i]) return byte_runs_[0];
  byte_runs_.push_back(run);
  states_[state].byte_run = static_cast<u32>(byte_runs_.size() - 1);
  return byte_runs_.back();
}

const ClassLoop& RuleDfa::class_loop(u32 state) {
  if (states_[state].class_loop != NONE) return class_loops_[states_[state].class_loop];
  build(state);
  ClassLoop loop;
  if (states_[state].dense) {
    struct Group {
      u32 target, count;
      AsciiSet bytes;
    };
    Scratch<Group> groups;
    AsciiSet live;
    for (u32 r = 0; r < states_[state].range_count; r++) {
      const Range range = this->range(state, r);
      if (range.lo > 127) break;
      const u32 target = range_target(state, r);
      if (target == DEAD) continue;
      auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& each) { return each.target == target; });
      if (group == groups.end()) group = groups.insert(groups.end(), {target, 0, {}});
      const u8 hi = std::min<u8>(range.hi, 127);
      group->count += hi - range.lo + 1u;
      group->bytes.add(range.lo, hi);
      live.add(range.lo, hi);
    }
    const auto best = std::max_element(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.count < b.count; });
    if (best != groups.end()) {
      loop.target = best->target;
      loop.inside = signature_inside(best->bytes);
      loop.live = signature_inside(live);
      const u32 above = non_ascii_target(state, false), spaces = non_ascii_target(state, true);
      if (above != DEAD) loop.live |= SIG_NON_ASCII | SIG_INCOMPLETE;
      if (spaces != DEAD) loop.live |= SIG_SPACE;
      if (above == loop.target) loop.inside |= SIG_NON_ASCII | SIG_INCOMPLETE;
      if (above == loop.target && spaces == loop.target) loop.inside |= SIG_SPACE;
    }
  }
  states_[state].class_loop = static_cast<u32>(class_loops_.size());
  class_loops_.push_back(loop);
  return class_loops_.back();
}

u64 RuleDfa::distance(u32 state) {
  if (state == BOTTOM || (states_[state].flags & STATE_REGION)) return 0;
  if (states_[state].flags & STATE_GUARD) return distance(guard_back(state));
  u64 best = NONE;
  const std::size_t count = items_.length(state);
  for (std::size_t i = 0; i < count; i += 2) best = std::min(best, nfa_.distance({items_.at(state)[i], items_.at(state)[i + 1]}));
  return best;
}

u32 RuleDfa::origin(u32 state) const {
  if (state == BOTTOM || (states_[state].flags & STATE_REGION)) return NONE;
  if (states_[state].flags & STATE_GUARD) return origin(guard_back(state));
  return nfa_.states[items_.at(state)[0]].origin;
}

// ---- guards

// A bound by looking at some states ahead: where two bytes or more lead back to a state there is no end of texts; elsewhere every text
// is one of a byte and what follows it. Blanks do not count: many make no other value.
u32 RuleDfa::min_text_count(u32 state, std::size_t look) {
  if (states_[state].min_text_count != NONE) return states_[state].min_text_count;
  if (states_[state].flags & STATE_GUARD) return states_[state].min_text_count = 0;
  std::vector<u32> seen{state};
  std::unordered_map<u32, std::size_t> places{{state, 0}};
  std::vector<std::pair<u32, u32>> edges;  // (index into seen, bytes << 16 | index): what was looked at
  std::vector<u32> bound{0};
  for (std::size_t i = 0; i < seen.size(); i++) {
    const u32 at = seen[i];
    if (i > 0 && states_[at].min_text_count != NONE) {
      bound[i] = states_[at].min_text_count;
      continue;
    }
    if (i >= look) {
      bound[i] = 1;  // there is a text, or it would have been trimmed
      continue;
    }
    build(at);
    if (states_[at].flags & STATE_FINAL) bound[i] = 1;
    u32 back = 0;
    for (u32 r = 0; r < states_[at].range_count; r++) {
      const Range range = this->range(at, r);
      u32 bytes = 0;
      for (u32 b = range.lo; b <= range.hi; b++) bytes += !is_blank(static_cast<u8>(b));
      if (bytes == 0) continue;
      const u32 target = range_target(at, r);
      if (target == at) {
        back += bytes;
      } else if (target != DEAD) {
        const auto [place, added] = places.try_emplace(target, seen.size());
        const std::size_t j = place->second;
        if (added) seen.push_back(target), bound.push_back(0);
        edges.push_back({static_cast<u32>(i), bytes << 16 | static_cast<u32>(j)});
      }
    }
    if (back >= 2) bound[i] = UNBOUNDED;
    else if (states_[at].call_count) bound[i] = std::max(bound[i], 1u);
  }
  auto grown = [](u64 count) { return static_cast<u32>(std::min<u64>(UNBOUNDED - 1, count)); };
  // Later states first: an edge back to an earlier one adds nothing.
  for (std::size_t e = edges.size(); e-- > 0;) {
    const auto [from, packed] = edges[e];
    const u32 to = packed & 0xFFFF, bytes = packed >> 16;
    if (to > from && bound[from] != UNBOUNDED) bound[from] = bound[to] == UNBOUNDED ? UNBOUNDED : grown(bound[from] + static_cast<u64>(bytes) * bound[to]);
  }
  return states_[state].min_text_count = std::max(bound[0], 1u);
}

// Counted from the ends. A state that leads back to itself has no end of texts.
u32 RuleDfa::text_count(u32 state) {
  constexpr std::size_t MANY = 1'000'000, LOOK = 4096;
  struct Visit {
    u32 state, range;
    u64 count;
  };
  std::vector<Visit> path;
  std::size_t looked = 0;
  auto enter = [&](u32 at) {
    build(at);
    const DfaState& f = states_[at];
    const bool decided = !(f.flags & (STATE_GUARD | STATE_REGION | STATE_CALLS | STATE_TOKENS)) && ++looked <= LOOK;
    states_[at].text_count = UNKNOWN_COUNT;  // until all that follows is known
    if (decided) path.push_back({at, 0, f.flags & STATE_FINAL ? 1u : 0u});
    return decided;
  };
  if (states_[state].text_count != NONE || !enter(state)) return states_[state].text_count;
  while (!path.empty()) {
    Visit& at = path.back();
    if (at.range == states_[at.state].range_count) {
      states_[at.state].text_count = static_cast<u32>(at.count);
      path.pop_back();
      continue;
    }
    const Range range = this->range(at.state, at.range);
    const u32 target = range_target(at.state, at.range);
    if (target != DEAD) {
      if (states_[target].text_count == NONE && enter(target)) continue;
      at.count += static_cast<u64>(range.hi - range.lo + 1) * states_[target].text_count;
      if (states_[target].text_count == UNKNOWN_COUNT || at.count > MANY) return UNKNOWN_COUNT;
    }
    at.range++;
  }
  return states_[state].text_count;
}

// Characters of a string repeat: a state reads two letters or more and is back. Looks at a rule and at all that it calls.
void RuleDfa::find_unbounded_strings(u32 rule) {
  std::vector<u32> rules{rule}, list, work, reached;
  std::vector<std::pair<u32, u32>> before;  // (state, a state that leads to it): a call begins where the rule that it calls does
  unbounded_known_.resize(nfa_.rules.size(), 0);
  unbounded_known_[rule] = 1;
  for (std::size_t r = 0; r < rules.size(); r++) {
    const std::vector<u32> states = nfa_.complete_rule(rules[r]);
    unbounded_known_.resize(nfa_.rules.size(), 0);
    for (const u32 s : states)
      for (u32 e = nfa_.states[s].first; e != NONE; e = nfa_.edges[e].next)
        if (const u32 callee = nfa_.edges[e].data; nfa_.edges[e].kind == EDGE_CALL && !unbounded_known_[callee]) unbounded_known_[callee] = 1, rules.push_back(callee);
    list.insert(list.end(), states.begin(), states.end());
  }
  unbounded_.resize(nfa_.states.size(), 0);
  auto mark = [&](u32 s) {
    if (!unbounded_[s]) unbounded_[s] = 1, work.push_back(s);
  };
  for (const u32 s : list) {
    u32 letters = 0;
    if (nfa_.states[s].head != NONE) before.push_back({nfa_.heads[nfa_.states[s].head].exit, s});  // what counts comes to its end
    for (u32 e = nfa_.states[s].first; e != NONE; e = nfa_.edges[e].next) {
      const Edge& edge = nfa_.edges[e];
      if (edge.kind != EDGE_NON_ASCII && edge.kind != EDGE_TOKEN && (edge.kind != EDGE_CALL || !(edge.flags & EDGE_DISTINCT))) before.push_back({edge.target, s});
      if (edge.kind == EDGE_CALL) {  // of values without end one is always new; behind others nothing may come
        before.push_back({nfa_.rules[edge.data].start, s});
        if (unbounded_[nfa_.rules[edge.data].start]) mark(s);
      }
      if (edge.kind != EDGE_BYTE || edge.hi < 'a' || edge.lo > 'z') continue;
      reached.assign(1, edge.target);
      for (std::size_t i = 0; i < reached.size() && i < 16; i++)
        for (u32 f = nfa_.states[reached[i]].first; f != NONE; f = nfa_.edges[f].next)
          if (nfa_.edges[f].kind == EDGE_EPSILON) reached.push_back(nfa_.edges[f].target);
      if (std::find(reached.begin(), reached.end(), s) != reached.end())
        letters += static_cast<u32>(std::min<u8>(edge.hi, 'z') - std::max<u8>(edge.lo, 'a') + 1);
    }
    if (letters >= 2) mark(s);
  }
  std::sort(before.begin(), before.end());
  while (!work.empty()) {
    const u32 s = work.back();
    work.pop_back();
    for (auto at = std::lower_bound(before.begin(), before.end(), std::pair<u32, u32>{s, 0}); at != before.end() && at->first == s; ++at) mark(at->second);
  }
}

bool RuleDfa::has_unbounded_strings(u32 state) {
  if (state == BOTTOM || (states_[state].flags & STATE_GUARD)) return false;
  if (const u32 at = rule(state); at >= unbounded_known_.size() || !unbounded_known_[at]) find_unbounded_strings(at);
  const std::size_t count = items_.length(state);
  for (std::size_t i = 0; i < count; i += 2)
    if (unbounded_[items_.at(state)[i]]) return true;
  return false;
}

// Blanks between the parts of a JSON text are left out, so that texts of one value do not differ by them. Those behind a number or a
// word are one blank until a mark follows.
u32 RuleDfa::extend_text(u32 text, u8 byte) {
  const u8 mode = text_states_[text];
  if (mode == 0) {
    const char last = static_cast<char>(text_parents_[text].second);
    if (is_blank(byte)) {
      if (text == 0 || std::strchr("{[:, ", last)) return text;
      byte = ' ';
    } else if (last == ' ' && std::strchr(",:]}", static_cast<char>(byte))) {
      text = text_parents_[text].first;
    }
  }
  const u64 key = static_cast<u64>(text) << 8 | byte;
  if (const u32* found = texts_.find(key)) return *found;
  text_parents_.push_back({text, byte});
  text_states_.push_back(mode == 0 ? byte == '"' : mode == 2 ? 1 : byte == '"' ? 0 : byte == '\\' ? 2 : 1);
  const u32 id = static_cast<u32>(text_parents_.size() - 1);
  texts_.insert(key, id);
  return id;
}

std::string RuleDfa::text(u32 text) const {
  std::string result;
  for (; text != 0; text = text_parents_[text].first) result.push_back(static_cast<char>(text_parents_[text].second));
  std::reverse(result.begin(), result.end());
  return result;
}

u32 RuleDfa::guard(u32 back, u32 text) {
  const u32 words[3] = {NONE, back, text};
  check_limit();
  const u32 id = items_.intern(words, 3);
  if (id == states_.size()) {
    DfaState state;
    state.flags = STATE_GUARD | STATE_BUILT;
    states_.push_back(state);
  }
  return id;
}

u32 RuleDfa::region(u32 rule, u32 tokens, u32 bytes) {
  const u32 words[5] = {NONE, NONE, rule, tokens, bytes};
  check_limit();
  const u32 id = items_.intern(words, 5);
  if (id == states_.size()) {
    DfaState state;
    state.flags = STATE_REGION | STATE_FINAL | STATE_BUILT;
    states_.push_back(state);
  }
  return id;
}

// Of the characters that a string may hold without an escape only the slash has two spellings, as itself and behind a backslash.
static u32 spellings_of(const std::string& value) {
  constexpr std::ptrdiff_t SLASHES = 8;
  const std::ptrdiff_t slashes = std::count(value.begin(), value.end(), '/');
  if (value[0] != '"' || slashes > SLASHES || std::any_of(value.begin(), value.end(), [](char byte) { return static_cast<u8>(byte) < 0x20 || byte == '\\'; })) return NONE;
  return 1u << slashes;
}

template <class F>
void RuleDfa::each_seen(u32 state, F take) const {
  u32 last = NONE;
  const std::size_t count = items_.length(state);
  for (std::size_t i = 0; i < count; i += 2) {
    const u32 seen = nfa_.registers.get(items_.at(state)[i + 1]).seen;
    if (seen == NONE || seen == last) continue;
    last = seen;
    take(std::span(seen_sets_.at(seen), seen_sets_.length(seen)));
  }
}

u32 RuleDfa::seen_spellings(u32 state) const {
  u64 total = 0;
  bool known = true;
  each_seen(state, [&](std::span<const u32> ids) {
    for (const u32 id : ids) total += spellings_[id], known = known && spellings_[id] != NONE;
  });
  return known ? static_cast<u32>(std::min<u64>(total, NONE)) : NONE;
}

u32 RuleDfa::value_id(const std::string& text) {
  const auto [found, added] = value_ids_.try_emplace(canonical_json(text), static_cast<u32>(values_.size()));
  if (added) values_.push_back(found->first), spellings_.push_back(spellings_of(found->first));
  return found->second;
}

u32 RuleDfa::after_value(u32 back, const std::string& text) {
  const u32 value = value_id(text);
  const u64 key = static_cast<u64>(back) << 32 | value;
  if (const u32* known = values_after_.find(key)) return *known;
  std::vector<Item> items;
  const std::size_t count = items_.length(back);
  for (std::size_t i = 0; i < count; i += 2) {
    Item item{items_.at(back)[i], items_.at(back)[i + 1]};
    Register reg = nfa_.registers.get(item.reg);
    if (reg.seen != NONE) {
      std::vector<u32> seen(seen_sets_.at(reg.seen), seen_sets_.at(reg.seen) + seen_sets_.length(reg.seen));
      const auto at = std::lower_bound(seen.begin(), seen.end(), value);
      if (at != seen.end() && *at == value) continue;
      seen.insert(at, value);
      reg.seen = seen_sets_.intern(seen.data(), seen.size());
      item.reg = nfa_.registers.id(reg);
    }
    items.push_back(item);
  }
  std::sort(items.begin(), items.end());
  const u32 result = intern_items(items);
  values_after_.insert(key, result);
  return result;
}

u32 RuleDfa::pop_guard(u32 guard) {
  if (const u32* found = popped_.find(guard)) return *found;
  const u32 result = after_value(guard_back(guard), text(guard_text(guard)));
  popped_.insert(guard, result);
  return result;
}

u32 RuleDfa::seen_count(u32 state) const {
  std::size_t most = 0;
  each_seen(state, [&](std::span<const u32> ids) { most = std::max(most, ids.size()); });
  return static_cast<u32>(most);
}

std::vector<u32> RuleDfa::seen_ids(u32 state) const {
  std::vector<u32> ids;
  each_seen(state, [&](std::span<const u32> seen) { ids.insert(ids.end(), seen.begin(), seen.end()); });
  if (!std::is_sorted(ids.begin(), ids.end())) std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

std::vector<u32> RuleDfa::keep(std::vector<u8>& used) {
  for (u32 f = static_cast<u32>(states_.size()); f-- > 0;)
    if (used[f] && (states_[f].flags & STATE_GUARD)) used[guard_back(f)] = 1;
  std::vector<u32> map(states_.size(), DEAD);
  std::vector<std::pair<u32, std::string>> guards(states_.size());
  for (u32 f = 0; f < states_.size(); f++)
    if (used[f] && (states_[f].flags & STATE_GUARD)) guards[f] = {guard_back(f), text(guard_text(f))};
  Interner old = std::move(items_);
  std::vector<DfaState> old_states = std::move(states_);
  items_ = Interner();
  states_.clear();
  ranges_ = {}, calls_ = {}, token_edges_ = {}, pending_ = {}, tables_ = {}, class_loops_ = {}, byte_runs_ = {ByteRun()}, text_parents_ = {{0, 0}}, text_states_ = {0};
  texts_.clear(), popped_.clear(), values_after_.clear();
  starts_.assign(starts_.size(), NONE);
  items_.intern(nullptr, 0);
  states_.emplace_back();
  states_[BOTTOM].flags = STATE_BUILT;
  map[BOTTOM] = BOTTOM;
  // Registers and the values that they have seen are made anew as well, but for those that the NFA names.
  const Registers old_registers = std::move(nfa_.registers);
  const Interner old_seen = std::move(seen_sets_);
  const std::vector<std::string> old_values = std::move(values_);
  nfa_.registers = Registers();
  seen_sets_ = Interner();
  values_.clear();
  spellings_.clear();
  value_ids_.clear();
  seen_sets_.intern(nullptr, 0);
  std::vector<u32> register_map(old_registers.size(), NONE), seen_map(old_seen.size(), NONE), set;
  auto moved = [&](u32 id) {
    if (register_map[id] != NONE) return register_map[id];
    Register reg = old_registers.get(id);
    if (reg.seen != NONE) {
      if (seen_map[reg.seen] == NONE) {
        set.clear();
        for (std::size_t i = 0; i < old_seen.length(reg.seen); i++) {
          const auto [found, added] = value_ids_.try_emplace(old_values[old_seen.at(reg.seen)[i]], static_cast<u32>(values_.size()));
          if (added) values_.push_back(found->first), spellings_.push_back(spellings_of(found->first));
          set.push_back(found->second);
        }
        std::sort(set.begin(), set.end());
        seen_map[reg.seen] = seen_sets_.intern(set.data(), set.size());
      }
      reg.seen = seen_map[reg.seen];
    }
    return register_map[id] = nfa_.registers.adopt(old_registers, reg);
  };
  for (u32 id = 0; id < base_registers_; id++) moved(id);
  std::vector<Item> items;
  for (u32 f = 1; f < old_states.size(); f++) {
    if (!used[f] || (old_states[f].flags & STATE_GUARD)) continue;
    if (old_states[f].flags & STATE_REGION) {
      map[f] = region(old.at(f)[2], old.at(f)[3], old.at(f)[4]);
      continue;
    }
    items.clear();
    for (std::size_t i = 0; i < old.length(f); i += 2) items.push_back({old.at(f)[i], moved(old.at(f)[i + 1])});
    std::sort(items.begin(), items.end());
    map[f] = intern_items(items);
  }
  for (u32 f = 1; f < old_states.size(); f++) {
    if (!used[f] || !(old_states[f].flags & STATE_GUARD)) continue;
    u32 value = 0;
    for (const char byte : guards[f].second) value = extend_text(value, static_cast<u8>(byte));
    map[f] = guard(map[guards[f].first], value);
  }
  return map;
}

std::size_t RuleDfa::bytes() const {
  return (nfa_.unlowered ? nfa_.unlowered->bytes() : 0) + nfa_.states.capacity() * sizeof(NfaState) + nfa_.edges.capacity() * sizeof(Edge) + nfa_.heads.capacity() * sizeof(Head) +
         nfa_.rules.capacity() * sizeof(Rule) + nfa_.origins.capacity() * sizeof(Origin) + items_.bytes() + states_.capacity() * sizeof(DfaState) + ranges_.capacity() * sizeof(Range) + calls_.capacity() * sizeof(Call) +
         pending_.capacity() * sizeof(Item) + tables_.capacity() * 1024 + class_loops_.capacity() * sizeof(ClassLoop) + byte_runs_.capacity() * sizeof(ByteRun) + nfa_.registers.bytes() +
         texts_.bytes() + popped_.bytes() + values_after_.bytes() + text_parents_.capacity() * 9 + seen_sets_.bytes();
}

}  // namespace stackmask
