#include "stacks/new_values.h"

#include <algorithm>
#include <string_view>

namespace stackmask {

namespace {
constexpr std::size_t MOST_STATES = 4096;       // after blanks
constexpr std::size_t MOST_DEEP_STATES = 4096;  // of a scope: as many are searched depth first only
constexpr std::size_t MOST_DEEP = 64;           // stacks that are searched depth first only: 4,096 took half a second in lists of lists
constexpr u32 MOST_VALUES = 1'000'000;
constexpr u32 OUTSIDE = NONE;  // one below 0
constexpr u32 MOST_CALLERS = 16;  // that are asked before the search

// Larger for bytes that end a JSON value sooner: a comma continues, a quote ends a string, and brackets end the value around it.
u32 end_order(u8 byte) { return byte == ',' ? 0 : byte == '"' ? 2 : byte == ']' || byte == '}' ? 3 : 1; }

// Whether the last key of a text, whose colon was read, belongs to an object and is there for the first time.
bool is_new_key(const std::string& text) {
  struct Open {
    bool object;
    std::vector<std::string> keys;
  };
  std::vector<Open> open;
  std::string last;
  for (std::size_t i = 0; i < text.size(); i++) {
    const char byte = text[i];
    if (byte == '"') {
      const std::size_t begin = i++;
      while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
      last = text.substr(begin, i - begin);
    } else if (byte == '{' || byte == '[') {
      open.push_back({byte == '{', {}});
    } else if (!open.empty() && (byte == '}' || byte == ']')) {
      open.pop_back();
    } else if (!open.empty() && byte == ':') {
      open.back().keys.push_back(last);
    }
  }
  if (open.empty() || !open.back().object) return false;
  const std::vector<std::string>& keys = open.back().keys;
  return !keys.empty() && std::find(keys.begin(), keys.end(), keys.back()) == keys.end() - 1;
}

// Whether a quote here begins a member of an object whose order does not matter.
bool begins_member(const RuleDfa& dfa, StateId state) {
  const Nfa& nfa = dfa.nfa();
  bool begins = false;
  for (const Item item : dfa.items(state)) {
    const NfaState& at = nfa.states[item.state];
    bool quote = false;
    for (u32 e = at.first; e != NONE; e = nfa.edges[e].next)
      quote = quote || (nfa.edges[e].kind == EDGE_BYTE && nfa.edges[e].lo <= '"' && nfa.edges[e].hi >= '"');
    if (!quote) continue;
    const Counting& counting = nfa.counting(item.state);
    if (counting.body == NONE || counting.member == NONE || !nfa.heads[counting.body].permutation) return false;
    if (nfa.heads[counting.body].members[counting.member] != item.state) return false;
    begins = true;
  }
  return begins;
}
}  // namespace

u32 NewValues::guard_values(StackId node, u32 limit, bool scopes) {
  u32 count = 0;
  PooledVector<StackId> todo{node}, seen;
  while (!todo.empty() && count < limit) {
    const StackId at = todo.back();
    todo.pop_back();
    dfa_.work().spend(1 + seen.size() / 8);
    if (!(stacks_.guarded(at) & (scopes ? GUARD_BELOW | SCOPE_BELOW : GUARD_BELOW))) continue;
    if (std::find(seen.begin(), seen.end(), at) != seen.end()) continue;
    if (seen.size() < 64) seen.push_back(at);
    for (u32 i = 0; i < stacks_.edge_count(at); i++) {
      const StackEdge edge = stacks_.edges(at)[i];
      if (dfa_[edge.state].flags & STATE_GUARD) {
        const StateId back = dfa_.guard_back(edge.state);
        count += dfa_.seen_count(back);
      } else if (scopes && dfa_.in_scope(edge.state)) {
        count += dfa_.seen_count(edge.state);
      }
      todo.push_back(edge.below);
    }
  }
  return std::min(count, limit);
}

// A search over the states ahead, depth first. If it finds no end soon, every second state is the oldest one, so that a long text hides no
// end. Called rules are taken to end, except for values that the scope has run out of. The search does not see that one value takes from
// the next: the schema that writes a scope counts values if too few could be left.
// PERF: its answers for the states on the way are kept. Otherwise a long text before the end is searched again after each of its bytes.
bool NewValues::scope_can_finish(StateId state) {
  if (!counts_.scope_may_run_out(state) || !dfa_.seen_any(state)) return true;
  if (const u32* found = scope_can_finish_.find(state)) return *found != 0;
  PooledVector<StateId> todo{state}, reached{state};
  FlatMap before;  // by state: the one that it was reached from
  before.insert(state, state);
  std::size_t count = 0, oldest = 0;
  StateId end = DEAD;  // a state from which the scope can finish
  auto add = [&](StateId at, StateId next) {
    if (next == DEAD || before.find(next)) return;
    const u32* known = scope_can_finish_.find(next);
    if (known && *known == 0) return;
    before.insert(next, at);
    reached.push_back(next);
    if (known) end = next;
    else todo.push_back(next);
  };
  for (; oldest < todo.size() && end == DEAD; count++) {
    const bool deep = count < MOST_DEEP_STATES || count % 2 == 0;
    const StateId at = deep ? todo.back() : todo[oldest++];
    if (deep) todo.pop_back();
    dfa_.build(at);
    dfa_.work().spend(4ull + dfa_[at].range_count);
    if (dfa_[at].flags & (STATE_FINAL | STATE_TOKENS)) end = at;
    // Those that are added last are searched first: calls, then punctuation, and blanks at the end.
    for (u32 r = 0; r < dfa_[at].range_count && end == DEAD; r++) add(at, dfa_.range_target(at, r));
    for (u32 c = 0; c < dfa_[at].call_count && end == DEAD; c++) {
      const Call call = dfa_.call(at, c);
      const StateId start = dfa_.start(call.rule);
      if (start != DEAD && (!call.distinct || has_new_value({start, stacks_.push(dfa_.guard(call.back, 0), EMPTY_STACK)})))
        add(at, call.back);
    }
  }
  if (end == DEAD) {
    for (const StateId at : reached) scope_can_finish_.insert(at, 0);
    return false;
  }
  for (; end != state; end = StateId(*before.find(end))) scope_can_finish_.insert(end, 1);
  scope_can_finish_.insert(state, 1);
  return true;
}

u32 NewValues::nearest_text(StackId node) {
  for (;;) {
    for (u32 k = 0; k < stacks_.edge_count(node); k++)
      if (const StateId state = stacks_.edges(node)[k].state; state != BOTTOM && (dfa_[state].flags & STATE_GUARD))
        return dfa_.guard_text(state);
    StackId below = NO_STACK;
    for (u32 k = 0; k < stacks_.edge_count(node) && below == NO_STACK; k++)
      if (stacks_.guarded(stacks_.edges(node)[k].below) & GUARD_BELOW) below = stacks_.edges(node)[k].below;
    node = below;
  }
}

// Whether the text ends in a number that is zero so far: infinitely many texts may be left, with all its exponents, and yet no other value.
bool NewValues::is_zero(u32 text) const {
  if (text == IN_TOKEN) return false;
  const std::string number = dfa_.texts().number(text);
  const std::string_view digits = std::string_view(number).substr(0, number.find_first_of("eE"));
  return digits.find('0') != std::string_view::npos && digits.find_first_not_of("-0.") == std::string_view::npos;
}

bool NewValues::callers_have_more(StackId node, u32 values) {
  for (u32 level = 0; level < MOST_CALLERS && (stacks_.guarded(node) & GUARD_BELOW); level++) {
    StackId below = NO_STACK;
    dfa_.work().spend(2 + 2ull * stacks_.edge_count(node));
    for (u32 k = 0; k < stacks_.edge_count(node); k++) {
      const StackEdge edge = stacks_.edges(node)[k];
      if (edge.state == BOTTOM || (dfa_[edge.state].flags & (STATE_GUARD | STATE_REGION))) continue;
      if (counts_.has_more(edge.state, values)) return true;
      if (below == NO_STACK) below = edge.below;
    }
    if (below == NO_STACK) return false;
    node = below;
  }
  return false;
}

bool NewValues::others_pass(StackId node) {
  if (spellings_.lone_guard(node) == DEAD) return false;
  const StackEdge edge = stacks_.edges(node)[0];
  const u32 values = guard_values(edge.below, MOST_VALUES);
  return values == 0 || counts_.has_more(dfa_.guard_back(edge.state), values) || callers_have_more(edge.below, values);
}

// Whether the value that the nearest guard waits for has a completion that the guard has not seen.
bool NewValues::has_new_value(const StackEdge& edge) {
  if (!(stacks_.guarded(edge.below) & GUARD_BELOW)) return true;
  const u32 values = guard_values(edge.below, MOST_VALUES);
  if (values == 0 || counts_.has_unbounded_strings(edge.state)) return true;
  const bool zero = is_zero(nearest_text(edge.below));
  if (!zero && counts_.surely_more(counts_.min_text_count(edge.state), values, edge.state)) return true;
  const u64 key = static_cast<u64>(edge.state) << 32 | edge.below;
  if (const u32* found = has_new_value_.find(key)) return *found != 0;
  if (callers_have_more(edge.below, values)) {
    has_new_value_.insert(key, 1);
    return true;
  }
  bool skipped = false;
  const u32 texts = zero ? UNKNOWN_COUNT : counts_.text_count(edge.state);
  const bool alone = texts != UNKNOWN_COUNT && others_pass(edge.below);
  if (alone && spellings_.spells_values(edge.below)) {
    const StateId guard = stacks_.edges(edge.below)[0].state;
    if (texts > dfa_.seen_spellings(dfa_.guard_back(guard))) return true;
  }
  const std::optional<u32> seen = alone ? spellings_.seen_texts(edge.below, edge.state) : std::nullopt;
  const auto search = [&] {
    StackId guard = NO_STACK;
    const u32 id = chain(edge, guard);
    if (id != NONE && is_completed_anew(id, guard)) return true;
    std::string completion;
    const bool found =
        finds_new_value(edge, values, false, skipped, completion) || (skipped && finds_new_value(edge, values, true, skipped, completion));
    if (id != NONE && !completion.empty()) {
      completion_bytes_ += completion.size() - completions_[id].size();
      completions_[id] = std::move(completion);
    }
    return found;
  };
  const bool result = seen ? texts > *seen : search();
  has_new_value_.insert(key, result);
  return result;
}

// The number of the states above the nearest guard, if each has only one below it, and the node of the guard; NONE otherwise.
u32 NewValues::chain(const StackEdge& edge, StackId& guard) {
  PooledVector<u32> states{edge.state};
  for (StackId node = edge.below; states.size() <= MOST_CALLERS && stacks_.edge_count(node) == 1;) {
    const StackEdge below = stacks_.edges(node)[0];
    if (below.state == BOTTOM || (dfa_[below.state].flags & STATE_REGION)) return NONE;
    if (dfa_[below.state].flags & STATE_GUARD) {
      guard = node;
      if (dfa_.guard_text(below.state) == IN_TOKEN) return NONE;
      const u32 id = chains_.intern(states.data(), states.size());
      if (completions_.size() <= id) completions_.resize(id + 1ull);
      return id;
    }
    states.push_back(below.state);
    node = below.below;
  }
  return NONE;
}

// Whether what completed another text above the same states completes this one to a value that no guard has seen.
bool NewValues::is_completed_anew(u32 chain, StackId node) {
  const std::string& completion = completions_[chain];
  if (completion.empty()) return false;
  const StateId guard = stacks_.edges(node)[0].state;
  const std::string text = dfa_.pending_text(guard) + completion;
  dfa_.work().spend(20 + text.size() / 4);
  return !dfa_.was_seen(dfa_.guard_back(guard), text) && others_pass(node);
}

// Whether something can follow blanks that cannot follow at once. In JSON nothing can: a state before blanks reads all that follows them.
bool NewValues::needs_blanks(StateId state) {
  if (const u32* found = needs_blanks_.find(state)) return *found != 0;
  PooledVector<StateId> todo;
  FlatMap visited;
  bool needed = false;
  auto look_at = [&](StateId at, bool behind) {
    dfa_.build(at);
    for (u32 r = 0; r < dfa_[at].range_count && !needed; r++) {
      const StateId target = dfa_.range_target(at, r);
      if (target == DEAD) continue;
      const Range range = dfa_.range(at, r);
      dfa_.work().spend(2ull + (range.hi - range.lo));
      for (u32 b = range.lo; b <= range.hi; b++) {
        if (!is_blank(static_cast<u8>(b))) {
          needed = needed || (behind && dfa_.next(state, static_cast<u8>(b)) != target);
        } else if (!visited.find(target)) {
          visited.insert(target, 1);
          todo.push_back(target);
        }
      }
    }
  };
  auto has_call = [&](const Call& call) {
    for (u32 c = 0; c < dfa_[state].call_count; c++)
      if (dfa_.call(state, c) == call) return true;
    return false;
  };
  look_at(state, false);
  for (std::size_t i = 0; i < todo.size() && !needed; i++) {
    const StateId at = todo[i];
    look_at(at, true);
    needed = needed || i >= MOST_STATES || (dfa_[at].flags & STATE_TOKENS) || (dfa_[at].flags & ~dfa_[state].flags & STATE_FINAL);
    for (u32 c = 0; c < dfa_[at].call_count && !needed; c++) needed = !has_call(dfa_.call(at, c));
  }
  needs_blanks_.insert(state, needed);
  return needed;
}

// Whether a digit is read in a loop that does not change the value of a number: a zero after a fraction of which only zeros are left, a
// zero before the digits of an exponent, or any digit of the exponent of zero.
bool NewValues::repeats_value(StateId state, u32 text, u8 byte) {
  if (byte < '0' || byte > '9' || dfa_.next(state, byte) != state) return false;
  const std::string number = dfa_.texts().number(text);
  const std::size_t exponent = number.find_first_of("eE");
  if (exponent != std::string::npos) {
    if (number.find_first_not_of("-0.") == exponent) return true;
    return byte == '0' && number.back() == '0' && number.find_first_not_of("+-0", exponent + 1) == std::string::npos;
  }
  bool digits = false;
  for (u8 digit = '1'; digit <= '9'; digit++) digits = digits || dfa_.next(state, digit) != DEAD;
  return byte == '0' && !digits && number.find('.') != std::string::npos;
}

// A search over stacks of this one edge, by bytes, depth first until values have passed all guards: most texts differ from the seen values
// in the part that is already read, so the first completion is new. If it finds none soon, every second stack is the oldest one, so that an
// endless recursion hides no end. Blanks between the parts of a value are left out at first: they make no other value, though a grammar may
// ask for some. Most texts of one value are one text (PendingTexts), so stacks that can only lead to the same values are one. The work of a
// step bounds the rest of the search. `completion`: the bytes that completed the value of the nearest guard.
// INVARIANT: nothing is interned as a configuration.
bool NewValues::finds_new_value(const StackEdge& edge, u32 values, bool blanks, bool& skipped, std::string& completion) {
  statistics_.searches++;
  struct Place {
    StackEdge at;
    u32 text;   // of the nearest guard, before the byte
    u32 byte;   // that the guards have not read yet, NONE for none
    u32 way;    // index into `read` of the last byte that was read, NONE for none
    u32 ended;   // `way` when the value that is searched for ended
    u32 open;    // how many values that must differ are open inside of the one that is searched for; OUTSIDE: behind it
    bool key;   // the key of a member that may stand anywhere in its object is being read
  };
  std::vector<std::pair<u32, u8>> read;  // bytes, each with the index of the one before it
  // PERF: what the oldest stacks lead to is a list of its own. On top of the newest it would begin the depth-first search anew each time:
  // ten different digits of which one has to be 1, in an array among unique objects, took more than the work of a step.
  PooledVector<Place> pending, later;
  PooledVector<StateId> before_blanks;
  FlatMap visited;
  std::size_t count = 0, oldest = 0, oldest_later = 0;
  // If members may stand in any order, the search reads the rest of an object in one order, by rising numbers: every value has such a text.
  // So it reads no member before a required one, none after a later one that it has read itself, and none if too few would be left after
  // it. A key that comes twice may stand anywhere: then the order decides which member counts.
  std::vector<std::pair<u32, u32>> first_used;  // members that were read before the search: head, number
  auto add_used = [&](StateId state) {
    if (state == BOTTOM || (dfa_[state].flags & STATE_REGION)) return;
    if (dfa_[state].flags & STATE_GUARD) state = dfa_.guard_back(state);
    for (const Item item : dfa_.items(state)) {
      const u32 body = dfa_.nfa().counting(item.state).body;
      if (body == NONE || !dfa_.nfa().heads[body].permutation) continue;
      const Register reg = dfa_.nfa().registers.get(item.reg);
      dfa_.work().spend(dfa_.nfa().heads[body].members.size());
      for (u32 m = 0; m < dfa_.nfa().heads[body].members.size(); m++)
        if (dfa_.nfa().registers.used(reg.used, m) || m == dfa_.nfa().counting(item.state).member) first_used.push_back({body, m});
    }
  };
  if (dfa_.nfa().permutes) {
    add_used(edge.state);
    stacks_.each_edge(edge.below, [&](const StackEdge& at) {
      add_used(at.state);
      return true;
    });
    std::sort(first_used.begin(), first_used.end());
  }
  auto out_of_order = [&](StateId state, u32 text) {  // a member whose key was read
    const Nfa& nfa = dfa_.nfa();
    const Counting at = nfa.counting(dfa_.items(state)[0].state);
    if (at.body == NONE || at.member == NONE) return false;
    const Head& head = nfa.heads[at.body];
    dfa_.work().spend(head.members.size());
    bool every = true;
    for (const Item item : dfa_.items(state)) {
      if (nfa.counting(item.state).body != at.body || nfa.counting(item.state).member != at.member) return false;
      const Register reg = nfa.registers.get(item.reg);
      bool wrong = false;
      u64 most = reg.count + 1ull;  // members that the object can have if only later ones follow
      for (u32 m = 0; m < head.members.size(); m++) {
        const bool used = nfa.registers.used(reg.used, m), again = head.flags[m] & REPEATABLE;
        if (m >= at.member && !(head.flags[m] & NEVER_MEMBER)) most += again ? u64{NONE} : m > at.member && !used;
        if (m < at.member) wrong = wrong || (!used && (head.flags[m] & REQUIRED));
        else if (m > at.member) wrong = wrong || (used && !std::binary_search(first_used.begin(), first_used.end(), std::pair{at.body, m}));
      }
      wrong = wrong || most < head.minimum;
      every = every && wrong;
    }
    return every && is_new_key(dfa_.texts().text(text) + ':');
  };
  auto found_one = [&](u32 last) {
    for (; last != NONE; last = read[last].first) completion.push_back(static_cast<char>(read[last].second));
    std::reverse(completion.begin(), completion.end());
    return true;
  };
  pending.push_back({edge, nearest_text(edge.below), NONE, NONE, NONE, 0, false});
  while (oldest < pending.size() || oldest_later < later.size()) {
    const bool none = oldest == pending.size();
    const bool deep = !none && (count < MOST_DEEP || count % 2 == 0);
    const bool is_later = !deep && (none || (count % 4 == 1 && oldest_later < later.size()));
    auto [at, text, byte, way, ended, open, member] = deep ? pending.back() : is_later ? later[oldest_later++] : pending[oldest++];
    if (deep) pending.pop_back();
    PooledVector<Place>& found = deep ? pending : later;
    if (byte != NONE) {
      at.below = stacks_.advance(at.below, static_cast<u8>(byte));
      if (text != IN_TOKEN) text = dfa_.texts().extend(text, static_cast<u8>(byte));
      if (member && byte == '"' && text != IN_TOKEN && !dfa_.texts().inside_string(text)) {
        if (out_of_order(at.state, text)) continue;
        member = false;
      }
    }
    const u64 key = static_cast<u64>(at.state) << 32 | at.below;
    if (visited.find(key)) continue;
    visited.insert(key, 1);
    dfa_.work().spend(20);
    if (byte != NONE) {
      read.emplace_back(way, static_cast<u8>(byte));
      way = static_cast<u32>(read.size() - 1);
    }
    if (++count > 1 && !is_zero(text) && counts_.surely_more(counts_.min_text_count(at.state), values, at.state)) return found_one(ended);
    dfa_.build(at.state);
    const bool inside = text != IN_TOKEN && dfa_.texts().inside_string(text);
    const bool begins = text != IN_TOKEN && !inside && dfa_.nfa().permutes && begins_member(dfa_, at.state);
    // PERF: the bytes that end something are pushed last and so read first; otherwise the search follows an endless list. One mask of
    // unique objects that hold a list of words took a second, and takes 10 ms.
    for (u32 r = 0; r < dfa_[at.state].range_count; r++) dfa_.work().spend(4 + (dfa_.range(at.state, r).hi - dfa_.range(at.state, r).lo));
    for (const u32 order : {0u, 1u, 2u, 3u})
      for (u32 r = dfa_[at.state].range_count; r-- > 0;) {
        const StateId target = dfa_.range_target(at.state, r);
        if (target == DEAD) continue;
        const Range range = dfa_.range(at.state, r);
        for (u32 b = range.lo; b <= range.hi; b++) {
          if (end_order(static_cast<u8>(b)) != order) continue;
          if (!inside && !blanks && is_blank(static_cast<u8>(b))) before_blanks.push_back(at.state);
          else if (inside || text == IN_TOKEN || !repeats_value(at.state, text, static_cast<u8>(b)))
            found.push_back({{target, at.below}, text, b, way, ended, open, member || (begins && b == '"')});
        }
      }
    for (u32 c = 0; c < dfa_[at.state].call_count; c++) {
      const Call call = dfa_.call(at.state, c);
      if (dfa_.start(call.rule) == DEAD) continue;
      const StackEdge called{dfa_.start(call.rule), stacks_.return_node(call, at.below)};
      found.push_back({called, call.distinct ? PendingTexts::EMPTY : text, NONE, way, ended, open == OUTSIDE ? open : open + call.distinct,
                       member && !call.distinct});
    }
    if (!(dfa_[at.state].flags & STATE_FINAL)) continue;
    for (u32 k = 0; k < stacks_.edge_count(at.below); k++) {
      const StackEdge popped = stacks_.edges(at.below)[k];
      if (popped.state == BOTTOM) continue;
      StackEdge next = popped;
      const bool guard = dfa_[popped.state].flags & STATE_GUARD;
      if (guard) next.state = dfa_.pop_guard(popped.state);
      if (next.state == DEAD) continue;
      const bool ends = guard && open == 0;
      if (ends) ended = way;
      if (!(stacks_.guarded(popped.below) & GUARD_BELOW) || (ends && guard_values(popped.below, 1) == 0)) return found_one(ended);
      // The value around this one may have been seen as well.
      const u32 left = guard && open != OUTSIDE ? open - 1 : open;
      found.push_back({next, guard ? nearest_text(popped.below) : text, NONE, way, ended, left, member});
    }
  }
  // PERF: asked only here, because every value seen makes the states behind it new ones.
  skipped = std::ranges::any_of(before_blanks, [&](StateId state) { return needs_blanks(state); });
  return false;
}

}  // namespace stackmask
