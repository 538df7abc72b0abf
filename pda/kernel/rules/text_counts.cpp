#include "rules/text_counts.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace stackmask {

// A lower bound, by some states ahead. If two bytes or more lead back to a state, it has infinitely many texts. So it has if a way back
// reads a comma and no colon: this is a list, and a longer list is another value, but a longer object may repeat its keys. Elsewhere every
// text is one byte and a text after it, or a text of a called rule or behind it. Blanks and zeros do not count, because any number of them
// may spell the same value (1.0, 1.00, 0.1e01). Of values that must differ count those that are left (spare_texts): others may have been
// seen.
u32 TextCounts::min_text_count(StateId state, std::size_t look) {
  if (const u32 known = at(min_counts_, state); known != NONE) return known;
  if (dfa_[state].flags & STATE_GUARD) return at(min_counts_, state) = 0;
  at(min_counts_, state) = 1;  // what is inside of itself counts no more
  std::vector<StateId> seen{state};
  std::unordered_map<u32, std::size_t> places{{state, 0}};
  constexpr u32 CALL = 0, DISTINCT_CALL = NONE;  // instead of bytes
  struct Step {
    u32 from, to, bytes;  // from and to: indices into seen
    bool comma, colon;  // reads only the one, can read the other
  };
  std::vector<Step> edges;  // what was looked at
  std::vector<u32> bound{0};
  auto add = [&](std::size_t from, u32 bytes, StateId target, bool comma = false, bool colon = false) {
    const auto [place, added] = places.try_emplace(target, seen.size());
    if (added) seen.push_back(target), bound.push_back(0);
    edges.push_back({static_cast<u32>(from), static_cast<u32>(place->second), bytes, comma, colon});
  };
  for (std::size_t i = 0; i < seen.size(); i++) {
    const StateId here = seen[i];
    if (const u32 known = at(min_counts_, here); i > 0 && known != NONE) {
      bound[i] = known;
      continue;
    }
    if (i >= look) {
      bound[i] = 1;  // there is a text, or it would have been trimmed
      continue;
    }
    dfa_.build(here);
    dfa_.work().spend(10ull + dfa_[here].range_count * 4ull);
    if (dfa_[here].flags & STATE_FINAL) bound[i] = 1;
    u32 back = 0;
    for (u32 r = 0; r < dfa_[here].range_count; r++) {
      const Range range = dfa_.range(here, r);
      u32 bytes = 0;
      for (u32 b = range.lo; b <= range.hi; b++) bytes += b != '0' && !is_blank(static_cast<u8>(b));
      if (bytes == 0) continue;
      const StateId target = dfa_.range_target(here, r);
      if (target == here) {
        back += bytes;
      } else if (target != DEAD) {
        add(i, bytes, target, range.lo == ',' && range.hi == ',', range.lo <= ':' && ':' <= range.hi);
      }
    }
    if (back >= 2) {
      bound[i] = UNBOUNDED;
      continue;
    }
    for (u32 c = 0; c < dfa_[here].call_count; c++) {
      bound[i] = std::max(bound[i], 1u);
      const Call call = dfa_.call(here, c);
      if (nfa_.rules[call.rule].limit != NONE) continue;  // its texts end after some tokens
      const StateId start = dfa_.start(call.rule);
      if (start == DEAD) continue;
      add(i, call.distinct ? DISTINCT_CALL : CALL, start);
      if (call.distinct && dfa_.in_scope(here)) bound[i] = std::max(bound[i], spare_texts(here, start));
      if (call.distinct || call.back == DEAD) continue;
      const Beginning begun = beginning(start);
      add(i, CALL, call.back, begun == COMMA, begun == OTHER);
    }
  }
  auto grown = [](u64 count) { return static_cast<u32>(std::min<u64>(UNBOUNDED - 1, count)); };
  // From the ends. An edge that leads back to a state on the way to it adds nothing, unless the way is that of a list.
  std::vector<u32> first(seen.size() + 1), next(seen.size());
  for (u32 i = 0, e = 0; i < seen.size(); first[++i] = e)
    while (e < edges.size() && edges[e].from == i) e++;
  std::copy(first.begin(), first.end() - 1, next.begin());
  enum : u8 { NEW, ENTERED, DONE };
  std::vector<u8> known(seen.size(), NEW);
  std::vector<u32> path{0};
  known[0] = ENTERED;
  while (!path.empty()) {
    const u32 from = path.back();
    if (next[from] == first[from + 1]) {
      known[from] = DONE;
      path.pop_back();
      continue;
    }
    const Step& edge = edges[next[from]];
    const u32 to = edge.to;
    if (known[to] == NEW) {
      known[to] = ENTERED;
      path.push_back(to);
      continue;
    }
    next[from]++;
    if (bound[from] == UNBOUNDED) continue;
    if (known[to] == ENTERED) {
      bool commas = edge.comma, keys = edge.colon || edge.bytes == DISTINCT_CALL;
      for (std::size_t p = path.size();
           path[--p] != to && !keys;) {  // each state of the path was entered by the edge that is next before it
        const Step& taken = edges[next[path[p - 1]]];
        commas = commas || taken.comma, keys = taken.colon || taken.bytes == DISTINCT_CALL;
      }
      if (commas && !keys) bound[to] = UNBOUNDED;
      continue;
    }
    if (bound[to] == UNBOUNDED) bound[from] = UNBOUNDED;
    else if (edge.bytes == CALL) bound[from] = std::max(bound[from], bound[to]);
    else if (edge.bytes != DISTINCT_CALL) bound[from] = grown(bound[from] + static_cast<u64>(edge.bytes) * bound[to]);
  }
  return at(min_counts_, state) = std::max(bound[0], 1u);
}

// How the texts from a state on begin, behind blanks: as items of a list do; with a comma and such an item; or in another way, as keys do,
// which a colon follows inside the rule or behind it.
TextCounts::Beginning TextCounts::beginning(StateId start) {
  constexpr std::size_t MOST_STATES = 64;
  std::vector<std::pair<StateId, bool>> reached{{start, false}};  // states, and whether a comma was read
  auto add = [&](StateId state, bool comma) {
    if (state == DEAD || std::ranges::find(reached, std::pair{state, comma}) != reached.end()) return;
    reached.emplace_back(state, comma);
  };
  bool items = false, commas = false;
  for (std::size_t i = 0; i < reached.size(); i++) {
    const auto [state, comma] = reached[i];
    dfa_.build(state);
    dfa_.work().spend(4ull + reached.size() + dfa_[state].range_count);
    if (i >= MOST_STATES || (dfa_[state].flags & STATE_FINAL)) return OTHER;
    for (u32 c = 0; c < dfa_[state].call_count; c++) add(dfa_.start(dfa_.call(state, c).rule), comma);
    for (u32 r = 0; r < dfa_[state].range_count; r++) {
      const Range range = dfa_.range(state, r);
      const StateId target = dfa_.range_target(state, r);
      for (u32 b = range.lo; b <= range.hi && target != DEAD; b++) {
        const char byte = static_cast<char>(b);
        if (is_blank(static_cast<u8>(b))) {
          add(target, comma);
        } else if (byte == ',' && !comma) {
          commas = true;
          add(target, true);
        } else if (std::string_view("0123456789-[{tfn").find(byte) == std::string_view::npos) {
          return OTHER;
        } else {
          items = items || !comma;
        }
      }
    }
  }
  return items && commas ? OTHER : commas ? COMMA : ITEM;
}

// Counts from the ends. A state that leads back to itself has infinitely many texts.
u32 TextCounts::text_count(StateId state) {
  constexpr std::size_t MOST_TEXTS = 1'000'000, MOST_STATES = 4096;
  struct Visit {
    StateId state;
    u32 range;
    u64 count;
  };
  std::vector<Visit> path;
  std::size_t looked = 0;
  auto enter = [&](StateId here) {
    dfa_.build(here);
    const DfaState& f = dfa_[here];
    const bool countable = !(f.flags & (STATE_GUARD | STATE_REGION | STATE_CALLS | STATE_TOKENS)) && ++looked <= MOST_STATES;
    at(counts_, here) = UNKNOWN_COUNT;  // until all states after it are known
    if (countable) path.push_back({here, 0, f.flags & STATE_FINAL ? 1u : 0u});
    return countable;
  };
  if (at(counts_, state) != NONE || !enter(state)) return at(counts_, state);
  while (!path.empty()) {
    Visit& visit = path.back();
    if (visit.range == dfa_[visit.state].range_count) {
      at(counts_, visit.state) = static_cast<u32>(visit.count);
      path.pop_back();
      continue;
    }
    const Range range = dfa_.range(visit.state, visit.range);
    dfa_.work().spend(2);
    const StateId target = dfa_.range_target(visit.state, visit.range);
    if (target != DEAD) {
      if (at(counts_, target) == NONE && enter(target)) continue;
      visit.count += static_cast<u64>(range.hi - range.lo + 1) * at(counts_, target);
      if (at(counts_, target) == UNKNOWN_COUNT || visit.count > MOST_TEXTS) return UNKNOWN_COUNT;
    }
    visit.range++;
  }
  return at(counts_, state);
}

// Whether characters of a string repeat: two letters or more lead from the state back to it.
bool TextCounts::repeats_letters(NfaStateId state) const {
  u32 letters = 0;
  PooledVector<NfaStateId> reached;
  for (u32 e = nfa_.states[state].first; e != NONE; e = nfa_.edges[e].next) {
    const Edge& edge = nfa_.edges[e];
    if (edge.kind != EDGE_BYTE || edge.hi < 'a' || edge.lo > 'z') continue;
    reached.assign(1, edge.target);
    for (std::size_t i = 0; i < reached.size() && i < 16; i++)
      for (u32 f = nfa_.states[reached[i]].first; f != NONE; f = nfa_.edges[f].next)
        if (nfa_.edges[f].kind == EDGE_EPSILON) reached.push_back(nfa_.edges[f].target);
    if (std::find(reached.begin(), reached.end(), state) != reached.end())
      letters += static_cast<u32>(std::min<u8>(edge.hi, 'z') - std::max<u8>(edge.lo, 'a') + 1);
  }
  return letters >= 2;
}

// The states that a state leads to inside its rule, except by values that must differ: there may be no such value any more.
template <class F>
void TextCounts::each_next(NfaStateId state, F take) const {
  if (nfa_.counting(state).head != NONE) {  // a counted body ends; behind a member any other may follow that is never used up
    const Head& head = nfa_.heads[nfa_.counting(state).head];
    take(head.exit);
    if (head.permutation && head.maximum == NONE)
      for (u32 i = 0; i < head.members.size(); i++)
        if ((head.flags[i] & (REPEATABLE | NEVER_MEMBER)) == REPEATABLE) take(head.members[i]);
  }
  for (u32 e = nfa_.states[state].first; e != NONE; e = nfa_.edges[e].next) {
    const Edge& edge = nfa_.edges[e];
    const bool distinct = edge.kind == EDGE_CALL && (edge.flags & EDGE_DISTINCT);
    if (edge.kind != EDGE_NON_ASCII && edge.kind != EDGE_TOKEN && !distinct) take(edge.target);
    if (edge.kind != EDGE_ENTER) continue;
    // An entered head may begin with its body, or with any member that leaves room for required ones.
    const Head& head = nfa_.heads[nfa_.counting(edge.target).head];
    if (head.automaton || head.maximum == 0) continue;
    if (!head.permutation) take(head.body);
    const auto required = static_cast<u32>(std::count_if(head.flags.begin(), head.flags.end(), [](u8 flags) { return flags & REQUIRED; }));
    for (u32 i = 0; i < head.members.size(); i++)
      if (!(head.flags[i] & NEVER_MEMBER) && (head.maximum == NONE || 1 + required - (head.flags[i] & REQUIRED) <= head.maximum))
        take(head.members[i]);
  }
}

// Looks at all states of a rule, from the ends. The expressions know the answer for called rules; once they are gone, it looks at the
// states of these rules too. Unless `any_size`, a rule of more than `searched_states` states is only noted as LARGE.
void TextCounts::find_unbounded_strings(RuleId rule, bool any_size) {
  std::vector<RuleId> rules{rule};
  std::vector<NfaStateId> list;
  unbounded_known_.resize(nfa_.rules.size(), UNSEEN);
  struct Looking {  // after an exception none of them is known
    std::vector<u8>& known;
    const std::vector<RuleId>& rules;
    Known as = UNSEEN;
    ~Looking() {
      for (const RuleId at : rules) known[at] = as;
    }
  } looking{unbounded_known_, rules};
  for (std::size_t r = 0; r < rules.size(); r++) {
    const std::vector<NfaStateId> states = nfa_.complete_rule(rules[r], any_size ? NONE : searched_states_);
    if (!any_size && states.size() > searched_states_) {
      looking.as = LARGE;
      return;
    }
    unbounded_known_.resize(nfa_.rules.size(), UNSEEN);
    unbounded_known_[rules[r]] = KNOWN;
    for (const NfaStateId s : states)
      for (u32 e = nfa_.states[s].first; e != NONE; e = nfa_.edges[e].next)
        if (const RuleId callee = nfa_.edges[e].callee();
            !nfa_.unlowered && nfa_.edges[e].kind == EDGE_CALL && unbounded_known_[callee] != KNOWN) {
          unbounded_known_[callee] = KNOWN;
          rules.push_back(callee);
        }
    list.insert(list.end(), states.begin(), states.end());
  }
  unbounded_.resize(nfa_.states.size(), 0);
  places_.resize(nfa_.states.size(), 0);
  for (u32 place = 0; place < list.size(); place++) {
    dfa_.work().spend(6);
    unbounded_[list[place]] = 0;  // an answer for this state alone is found again, for the states before it
    places_[list[place]] = place;
  }
  std::vector<u32> work;  // places of marked states that are still to be followed
  auto mark = [&](u32 place) {
    if (!std::exchange(unbounded_[list[place]], u8{1})) work.push_back(place);
  };
  // The places that lead to each place; a call leads to the start of its rule. PERF: to sort them took a fifth of the slowest step of a real schema.
  std::vector<std::pair<u32, u32>> edges;  // (from, to)
  std::vector<u32> first(list.size() + 1, 0);  // of `before`, by place
  for (u32 from = 0; from < list.size(); from++) {
    auto lead_to = [&](NfaStateId to) {
      const u32 place = places_[to];
      if (place < list.size() && list[place] == to) edges.push_back({from, place}), first[place]++;
      else if (unbounded_[to] == 1) mark(from);  // in a rule that was searched earlier
    };
    const NfaStateId state = list[from];
    if (repeats_letters(state) || calls_endless(state)) mark(from);
    each_next(state, lead_to);
    if (nfa_.unlowered) continue;
    for (u32 e = nfa_.states[state].first; e != NONE; e = nfa_.edges[e].next)  // of infinitely many values one is always new
      if (nfa_.edges[e].kind == EDGE_CALL) lead_to(nfa_.rules[nfa_.edges[e].callee()].start);
  }
  std::partial_sum(first.begin(), first.end(), first.begin());
  std::vector<u32> before(edges.size());
  for (const auto& [from, to] : edges) before[--first[to]] = from;
  while (!work.empty()) {
    const u32 place = work.back();
    work.pop_back();
    for (u32 i = first[place]; i < first[place + 1]; i++) mark(before[i]);
  }
  looking.as = KNOWN;
}

bool TextCounts::calls_endless(NfaStateId state) const {
  if (!nfa_.unlowered) return false;
  for (u32 e = nfa_.states[state].first; e != NONE; e = nfa_.edges[e].next)
    if (nfa_.edges[e].kind == EDGE_CALL && nfa_.unlowered->is_endless(nfa_.edges[e].callee())) return true;
  return false;
}

// Looks at some states ahead of one in a large rule, and at no others, so that no others are made. Returns nothing if they do not suffice.
// What is known of states ahead is not found again; and if there is no string ahead of one, there is none ahead of any that it leads to.
std::optional<bool> TextCounts::look_for_unbounded_string(NfaStateId from) {
  auto known = [&](NfaStateId state) -> u8& {
    if (unbounded_.size() <= state) unbounded_.resize(nfa_.states.size(), 0);
    return unbounded_[state];
  };
  if (known(from)) return known(from) == 1;
  std::unordered_set<u32> seen{from};
  std::vector<NfaStateId> work{from};
  for (std::size_t i = 0; i < work.size(); i++) {
    const NfaStateId state = work[i];
    dfa_.work().spend(10);
    nfa_.expand(state);
    if (known(state) == 1 || repeats_letters(state) || calls_endless(state)) {
      known(from) = 1;
      return true;
    }
    bool fits = true;
    each_next(state, [&](NfaStateId next) {
      if (fits && known(next) != 2 && seen.insert(next).second) work.push_back(next);
      fits = work.size() < searched_states_;
    });
    if (!fits) return std::nullopt;
  }
  for (const NfaStateId state : work) known(state) = 2;
  return false;
}

bool TextCounts::has_unbounded_strings(StateId state) {
  if (state == BOTTOM || (dfa_[state].flags & STATE_GUARD)) return false;
  const RuleId rule = dfa_.rule(state);
  auto known = [&] { return rule < unbounded_known_.size() ? unbounded_known_[rule] : u8{UNSEEN}; };
  if (known() == UNSEEN) find_unbounded_strings(rule, !nfa_.unlowered);
  if (known() == LARGE) {
    bool all = true;
    for (std::size_t i = 0; i < dfa_.items(state).size(); i++) {
      const std::optional<bool> found = look_for_unbounded_string(dfa_.items(state)[i].state);
      if (found && *found) return true;
      all = all && found;
    }
    if (all) return false;
    find_unbounded_strings(rule, true);
  }
  for (const Item item : dfa_.items(state))
    if (unbounded_[item.state] == 1) return true;
  return false;
}

// Whether parts that are read from the state to the end of its rule may stand in any order.
bool TextCounts::permutes(StateId state) const {
  if (!nfa_.permutes) return false;
  if (!nfa_.unlowered || state == DEAD || state == BOTTOM || (dfa_[state].flags & (STATE_GUARD | STATE_REGION))) return true;
  return nfa_.unlowered->permutes(dfa_.rule(state));
}

// A number has a few spellings, apart from zeros, which are not counted. Escapes and other orders give a value any number of spellings.
bool TextCounts::surely_more(u32 texts, u32 values, StateId state) const {
  return texts == UNBOUNDED || (texts > SPELLINGS * (values + 1ull) && !nfa_.any_escapes && !permutes(state));
}

// A lower bound on the texts of a value that must differ.
u32 TextCounts::value_texts(StateId start) { return has_unbounded_strings(start) ? UNBOUNDED : min_text_count(start, SCOPE_LOOK_AHEAD); }

bool TextCounts::scope_may_run_out(RuleId rule, StateId state) {
  if (scope_text_counts_.size() <= rule) scope_text_counts_.resize(rule + 1, NONE);
  if (scope_text_counts_[rule] == NONE) {
    u32 texts = UNBOUNDED;
    for (const RuleId callee : nfa_.distinct_rules(rule)) {
      const StateId start = dfa_.start(callee);
      if (start == DEAD) texts = 0;
      else texts = std::min(texts, value_texts(start));
    }
    scope_text_counts_[rule] = texts;
  }
  const u32 texts = scope_text_counts_[rule];
  return texts != UNBOUNDED && !surely_more(texts, dfa_.seen_count(state) + longest_token_);
}

// How many texts of a value that its scope has not seen can surely follow a state, should a token spell as many of them as it has bytes.
u32 TextCounts::spare_texts(StateId state, StateId start) {
  constexpr u32 DEEPEST = 16;  // values in values
  const struct Deeper {
    u32& deep;
    explicit Deeper(u32& at) : deep(at) { deep++; }
    ~Deeper() { deep--; }
  } deeper(deep_);
  if (deep_ > DEEPEST) return 0;
  const u32 texts = value_texts(start);
  if (texts == UNBOUNDED) return UNBOUNDED;
  if (nfa_.any_escapes || permutes(state)) return 0;
  const u64 used = SPELLINGS * (dfa_.seen_count(state) + longest_token_ + 1ull);
  return texts > used ? static_cast<u32>(texts - used) : 0;
}

}  // namespace stackmask
