// Least lengths: of what every state still has to read, and of every rule's texts, tokens by their ids left out. Knuth's generalisation
// of Dijkstra's algorithm (1977): values are settled in increasing order, a call's weight is known once its rule is settled.
//
// A state in the body of a repetition or a permutation measures to the end of that body: what follows depends on the register, and is
// added where one is at hand (Nfa::distance). Left recursion that was rewritten leads into bodies from outside of them, with registers
// that are known, and a rule may begin in one: such a way in is an Entrance. In a counted automaton lengths depend on the register
// altogether, and CountedLengths has a row for each count.
//
// INVARIANT: where no values must differ the length of a configuration's shortest completion is what its states measure. Values that
// must differ make it a bound, see Completion::shortest().
#include <algorithm>
#include <queue>
#include <tuple>

#include "completion/completion.h"

namespace stackmask {

namespace {

constexpr u64 LONG = 0xF0000000u;  // stands for all lengths that no text will have

u64 plus(u64 a, u64 b) { return a >= NONE || b >= NONE ? NONE : std::min(a + b, LONG); }

}  // namespace

// Backwards from the largest count: with so many characters counted, the least way from a state is one more character and the least way
// from there on. The rows from the minimum on cease to change once every shortest text is short enough. Below the minimum each row is
// mostly the next one and the length of some characters.
CountedLengths::CountedLengths(const Nfa& nfa, u32 id, std::vector<u32>& place, Deadline& deadline) : place_(&place) {
  const Head& head = nfa.heads[id];
  minimum_ = head.minimum, maximum_ = head.maximum;
  std::vector<u32> states{head.body}, stands, reached;
  place[head.body] = 0;
  std::vector<std::pair<u32, u32>> back;  // (target, source) of what reads a byte
  for (std::size_t i = 0; i < states.size(); i++) {
    for (u32 e = nfa.states[states[i]].first; e != NONE; e = nfa.edges[e].next) {
      const Edge& edge = nfa.edges[e];
      if (edge.kind != EDGE_BYTE && edge.kind != EDGE_EPSILON && edge.kind != EDGE_COUNT) continue;
      if (place[edge.target] == NONE) place[edge.target] = static_cast<u32>(states.size()), states.push_back(edge.target);
      if (edge.kind == EDGE_BYTE) back.push_back({place[edge.target], static_cast<u32>(i)});
      if (edge.kind == EDGE_COUNT) stands.push_back(place[edge.target]), reached.push_back(static_cast<u32>(i));
    }
  }
  if (std::find(stands.begin(), stands.end(), 0u) == stands.end()) stands.push_back(0), reached.push_back(NONE);
  // Where the next character may end, and after how many bytes: to all of `stands` backwards from where each is reached.
  std::sort(back.begin(), back.end());
  ways_.resize(states.size());
  std::vector<u32> depth(states.size(), NONE), queue;
  for (u32 to = 0; to < reached.size(); to++) {
    if (reached[to] == NONE) continue;
    queue.assign(1, reached[to]);
    depth[reached[to]] = 0;
    for (std::size_t i = 0; i < queue.size(); i++) {
      deadline.check();
      ways_[queue[i]].push_back({to, depth[queue[i]]});
      for (auto at = std::lower_bound(back.begin(), back.end(), std::pair<u32, u32>{queue[i], 0});
           at != back.end() && at->first == queue[i]; ++at)
        if (depth[at->second] == NONE) depth[at->second] = depth[queue[i]] + 1, queue.push_back(at->second);
    }
    for (const u32 state : queue) depth[state] = NONE;
  }
  width_ = static_cast<u32>(stands.size());
  std::vector<u8> accepting(width_, 0);
  for (u32 i = 0; i < width_; i++)
    for (u32 e = nfa.states[states[stands[i]]].first; e != NONE; e = nfa.edges[e].next) {
      const Edge& edge = nfa.edges[e];
      if (edge.kind == EDGE_LEAVE) accepting[i] = 1;
      if (edge.kind == EDGE_EPSILON) {
        auto& ways = ways_[stands[i]];
        const auto& more = ways_[place[edge.target]];
        ways.insert(ways.end(), more.begin(), more.end());
      }
    }
  for (u32 state = 0; state < states.size(); state++) place[states[state]] = state;
  stand_of_.assign(states.size(), NONE);
  for (u32 i = 0; i < width_; i++) stand_of_[stands[i]] = i;
  auto row_before = [&](const u32* next, bool may_end, std::vector<u32>& row) {
    row.assign(width_, NONE);
    for (u32 i = 0; i < width_; i++) {
      if (may_end && accepting[i]) row[i] = 0;
      else if (next) row[i] = after(stands[i], next);
    }
    deadline.check();
  };
  std::vector<u32> row, last;
  row_before(nullptr, true, last);
  rows_ = last;
  for (u64 count = 1; maximum_ == NONE || count <= maximum_ - minimum_; count++) {
    row_before(last.data(), true, row);
    if (row == last) break;
    rows_.insert(rows_.end(), row.begin(), row.end());
    last.swap(row);
  }
  free_ = static_cast<u32>(rows_.size() / width_);
  const u32 first = maximum_ == NONE ? free_ - 1 : std::min(maximum_ - minimum_, free_ - 1);  // the row of the minimum
  last.assign(rows_.begin() + first * width_, rows_.begin() + (first + 1) * width_);
  constexpr u32 LONGEST_PERIOD = 16;
  constexpr u64 MOST_LENGTHS = 16'000'000;
  for (u32 below = 1; below <= minimum_; below++) {
    row_before(last.data(), false, row);
    rows_.insert(rows_.end(), row.begin(), row.end());
    last.swap(row);
    for (u32 period = 1; period <= std::min(LONGEST_PERIOD, below - 1) && !period_; period++)
      if (repeats(period)) period_ = period;
    if (period_) break;
    if (rows_.size() > MOST_LENGTHS)
      throw LimitExceeded("states", static_cast<double>(MOST_LENGTHS),
                          "the least lengths of a pattern of at least " + std::to_string(minimum_) + " characters are more than " +
                              std::to_string(MOST_LENGTHS) + " numbers");
  }
}

// The last row is the one `period` rows before it and as much more in each place.
bool CountedLengths::repeats(u32 period) {
  const u32* now = rows_.data() + rows_.size() - width_;
  const u32* before = now - static_cast<std::size_t>(period) * width_;
  u32 more = NONE;
  for (u32 i = 0; i < width_; i++) {
    if ((now[i] == NONE) != (before[i] == NONE)) return false;
    if (now[i] == NONE) continue;
    if (more == NONE) more = now[i] - before[i];
    else if (now[i] - before[i] != more) return false;
  }
  more_ = more == NONE ? 0 : more;
  return true;
}

u32 CountedLengths::after(u32 place, const u32* row) const {
  u64 best = NONE;
  for (const auto& [to, bytes] : ways_[place]) best = std::min(best, plus(bytes, row[to]));
  return static_cast<u32>(best);
}

// What stands, and what a character still leads to, after so many were counted.
u64 CountedLengths::of(u32 state, u32 count) const {
  const u32 place = (*place_)[state], stand = stand_of_[place];
  const bool deep = count == COUNT_DEEP;
  u64 at = deep ? 0 : maximum_ == NONE ? std::min(count, minimum_) : std::min(count, maximum_);
  if (stand == NONE && at == maximum_) return NONE;
  at += stand == NONE;  // of the row that the character leads to
  u64 more = 0;
  u64 row;
  if (at >= minimum_) {
    row = maximum_ == NONE ? free_ - 1 : std::min<u64>(maximum_ - at, free_ - 1);
  } else {
    const u64 kept = rows_.size() / width_ - free_;
    u64 below = minimum_ - at;
    if (below > kept) {
      const u64 rounds = (below - kept + period_ - 1) / period_;
      more = rounds * more_;
      below -= rounds * period_;
    }
    row = free_ + below - 1;
  }
  const u32* lengths = rows_.data() + row * width_;
  return plus(stand == NONE ? after(place, lengths) : lengths[stand], more);
}

namespace {

class Measure {
 public:
  Measure(Nfa& nfa, Deadline& deadline) : nfa_(nfa), deadline_(deadline) {}

  void run() {
    nfa_.complete(deadline_);
    for (Rule& rule : nfa_.rules) rule.shortest = NONE;
    find_scopes();
    count_automata();
    index();
    solve(nfa_.least_bytes, 0);
    std::size_t kinds = 0;
    for (const auto& scope : nfa_.scopes) kinds = std::max(kinds, scope.size());
    nfa_.least_values.resize(std::min(kinds, MOST_KINDS));
    for (u32 kind = 0; kind < nfa_.least_values.size(); kind++) solve(nfa_.least_values[kind], kind + 1);
  }

 private:
  static constexpr std::size_t MOST_KINDS = 4;  // of values in one scope that are counted
  // Nodes: the states, then one for each rule: its shortest text that is not empty.
  struct Back {
    u32 source, call;
    u8 weight, kind;  // kind: of the values of a scope that the call reads, from 1 on; 0 for other calls
  };
  // A way from outside of a body into it, or from where a rule begins: what is read on it, and the register then.
  struct Entrance {
    u32 source, call;
    u8 weight, kind;
    Item to;
  };
  Nfa& nfa_;
  Deadline& deadline_;
  u32 states_ = 0;
  u32 counted_kind_ = 0;           // 0 where bytes are counted, else the values of this kind
  std::vector<u32>* least_ = nullptr;  // what is being worked out, by state
  std::vector<u32> begin_, best_;
  std::vector<Back> back_;
  std::vector<std::pair<u32, u32>> heads_;
  std::vector<Entrance> entrances_;
  std::vector<u32> watching_begin_, watching_;  // by node: the entrances that its length matters to
  std::vector<u8> settled_;
  std::vector<std::vector<std::pair<u32, u32>>> waiting_;  // by rule: (source, distance of the call's target)
  using Entry = std::pair<u32, u32>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;

  void solve(std::vector<u32>& least, u32 kind) {
    least.assign(states_, NONE);
    least_ = &least;
    counted_kind_ = kind;
    best_.assign(states_ + nfa_.rules.size(), NONE);
    settled_.assign(best_.size(), 0);
    waiting_.assign(nfa_.rules.size(), {});
    for (const Entrance& entrance : entrances_) enter(entrance);
    for (const Rule& rule : nfa_.rules)
      if (!rule.merged && (!kind || rule.scope)) propose(rule.final, 0);
    for (u32 s = 0; s < states_; s++) {
      if (!counts_bodies(s) || (kind && !nfa_.rules[nfa_.states[s].rule].scope)) continue;
      if (nfa_.states[s].head != NONE) propose(s, 0);  // the head after a separator: a separator ends there
      for (u32 e = nfa_.states[s].first; e != NONE; e = nfa_.edges[e].next)
        if (nfa_.edges[e].kind == EDGE_COUNT || nfa_.edges[e].kind == EDGE_MEMBER) propose(s, 0);
    }
    while (!queue_.empty()) {
      const auto [distance, node] = queue_.top();
      queue_.pop();
      deadline_.check();
      if (settled_[node]) continue;
      settled_[node] = 1;
      if (node >= states_) settle_rule(node - states_, distance);
      else settle_state(node, distance);
      for (u32 i = watching_begin_[node]; i < watching_begin_[node + 1]; i++) enter(entrances_[watching_[i]]);
    }
  }

  // By scope: the rules that its values are read by, which make their kinds.
  void find_scopes() {
    nfa_.scopes.assign(nfa_.rules.size(), {});
    nfa_.distinct = false;
    for (const NfaState& state : nfa_.states)
      for (u32 e = state.first; e != NONE; e = nfa_.edges[e].next) {
        const Edge& edge = nfa_.edges[e];
        if (edge.kind != EDGE_CALL || !(edge.flags & EDGE_DISTINCT)) continue;
        nfa_.distinct = true;
        auto& kinds = nfa_.scopes[state.rule];
        if (std::find(kinds.begin(), kinds.end(), edge.data) == kinds.end()) kinds.push_back(edge.data);
      }
  }
  u8 kind_of(u32 state, const Edge& edge) const {
    if (edge.kind != EDGE_CALL || !(edge.flags & EDGE_DISTINCT)) return 0;
    const auto& kinds = nfa_.scopes[nfa_.states[state].rule];
    return static_cast<u8>(
        std::min<std::size_t>(static_cast<std::size_t>(std::find(kinds.begin(), kinds.end(), edge.data) - kinds.begin()) + 1, 255));
  }

  // It lies in the body of a repetition or permutation, and measures to the body's end.
  bool counts_bodies(u32 s) const { return nfa_.states[s].body != NONE && !nfa_.heads[nfa_.states[s].body].automaton; }
  bool in_automaton(u32 s) const { return nfa_.states[s].body != NONE && nfa_.heads[nfa_.states[s].body].automaton; }

  void propose(u32 node, u64 distance) {
    if (distance >= NONE) return;
    const u32 value = static_cast<u32>(std::min(distance, LONG));
    if (value < best_[node]) {
      best_[node] = value;
      queue_.push({value, node});
    }
  }

  void count_automata() {
    nfa_.counted_places.assign(nfa_.states.size(), NONE);
    nfa_.counted.clear();
    nfa_.counted.resize(nfa_.heads.size());
    for (const NfaState& state : nfa_.states)
      if (state.head != NONE && nfa_.heads[state.head].automaton && !nfa_.counted[state.head])
        nfa_.counted[state.head].emplace(nfa_, state.head, nfa_.counted_places, deadline_);
  }

  void index() {
    states_ = static_cast<u32>(nfa_.states.size());
    const u32 rules = static_cast<u32>(nfa_.rules.size());
    // A seed of left recursion is a state of its own, which only an EDGE_SET leads to.
    std::vector<u32> register_of(states_, 0);
    for (u32 s = 0; s < states_; s++)
      for (u32 e = nfa_.states[s].first; e != NONE; e = nfa_.edges[e].next)
        if (nfa_.edges[e].kind == EDGE_SET) register_of[nfa_.edges[e].target] = nfa_.edges[e].data;
    std::vector<std::pair<u32, Back>> edges;
    auto lead = [&](u32 source, u32 body, u32 reg, u32 target, u32 call, u8 weight, u8 kind) {
      if (nfa_.states[target].body == body) edges.push_back({target, {source, call, weight, kind}});
      else entrances_.push_back({source, call, weight, kind, {target, reg}});
    };
    auto read = [&](u32 source, u32 from, u32 body, u32 reg, const Edge& edge) {
      if (edge.kind == EDGE_BYTE) lead(source, body, reg, edge.target, NONE, 1, 0);
      else if (edge.kind == EDGE_CALL) lead(source, body, reg, edge.target, edge.data, 0, kind_of(from, edge));
      else if (edge.kind == EDGE_DEFAULT) each_default(from, edge.target, [&](u32 target) { lead(source, body, reg, target, NONE, 1, 0); });
    };
    std::vector<u8> wanted(rules, 0);  // what may read nothing must read something in some call
    for (u32 s = 0; s < states_; s++) {
      if (in_automaton(s)) continue;
      const u32 body = nfa_.states[s].body;
      for (u32 e = nfa_.states[s].first; e != NONE; e = nfa_.edges[e].next) {
        const Edge& edge = nfa_.edges[e];
        read(s, s, body, register_of[s], edge);
        if (edge.kind == EDGE_EPSILON || edge.kind == EDGE_ENTER || edge.kind == EDGE_SET)
          lead(s, body, edge.kind == EDGE_SET ? edge.data : register_of[s], edge.target, NONE, 0, 0);
        if (edge.kind != EDGE_CALL) continue;
        if (nfa_.rules[edge.data].nullable && !(edge.flags & EDGE_NONEMPTY)) lead(s, body, register_of[s], edge.target, NONE, 0, 0);
        else wanted[edge.data] = 1;
      }
    }
    Closure closure(nfa_);
    for (u32 r = 0; r < rules; r++) {
      if (nfa_.rules[r].merged) continue;
      if (!nfa_.rules[r].nullable) {
        edges.push_back({nfa_.rules[r].start, {states_ + r, NONE, 0, 0}});
        continue;
      }
      if (!wanted[r]) continue;
      closure.begin();
      closure.add(nfa_.rules[r].start, 0);
      closure.run();
      for (const Item& item : closure.result)
        for (u32 e = nfa_.states[item.state].first; e != NONE; e = nfa_.edges[e].next)
          read(states_ + r, item.state, NONE, item.reg, nfa_.edges[e]);
    }
    begin_.assign(states_ + 1, 0);
    for (const auto& edge : edges) begin_[edge.first + 1]++;
    for (u32 i = 1; i <= states_; i++) begin_[i] += begin_[i - 1];
    back_.resize(edges.size());
    std::vector<u32> cursor(begin_.begin(), begin_.end() - 1);
    for (const auto& [target, back] : edges) back_[cursor[target]++] = back;
    for (u32 s = 0; s < states_; s++) {
      if (nfa_.states[s].head == NONE || nfa_.states[s].body != NONE) continue;
      each_part(nfa_.heads[nfa_.states[s].head], [&](u32 part) { heads_.push_back({part, s}); });
    }
    std::sort(heads_.begin(), heads_.end());
    watch();
  }

  template <class F>
  void each_default(u32 from, u32 target, F f) const {
    bool own[256] = {};
    for (u32 e = nfa_.states[from].first; e != NONE; e = nfa_.edges[e].next)
      if (const Edge& edge = nfa_.edges[e]; edge.kind == EDGE_BYTE) std::fill(own + edge.lo, own + edge.hi + 1, true);
    for (u32 e = nfa_.states[target].first; e != NONE; e = nfa_.edges[e].next)
      if (const Edge& edge = nfa_.edges[e];
          edge.kind == EDGE_BYTE && !std::all_of(own + edge.lo, own + edge.hi + 1, [](bool byte) { return byte; }))
        f(edge.target);
  }

  // The states whose lengths make up that of a head.
  template <class F>
  void each_part(const Head& head, F f) const {
    f(head.exit);
    if (head.automaton) return;
    f(head.body);
    for (const u32 member : head.members) f(member);
  }

  void watch() {
    std::vector<std::pair<u32, u32>> pairs;
    for (u32 i = 0; i < entrances_.size(); i++) {
      const Entrance& entrance = entrances_[i];
      const u32 target = entrance.to.state, body = nfa_.states[target].body;
      pairs.push_back({target, i});
      if (entrance.call != NONE) pairs.push_back({states_ + entrance.call, i});
      if (body != NONE) each_part(nfa_.heads[body], [&](u32 part) { pairs.push_back({part, i}); });
    }
    std::sort(pairs.begin(), pairs.end());
    watching_begin_.assign(states_ + nfa_.rules.size() + 1, 0);
    for (const auto& pair : pairs) {
      watching_begin_[pair.first + 1]++;
      watching_.push_back(pair.second);
    }
    for (std::size_t i = 1; i < watching_begin_.size(); i++) watching_begin_[i] += watching_begin_[i - 1];
  }

  // By what is settled: the length from an entrance on falls as more is, and is never less than what is settled last.
  void enter(const Entrance& entrance) {
    const u64 read = entrance.call == NONE ? weight(entrance.weight) : called(entrance.call, entrance.kind);
    propose(entrance.source, plus(read, nfa_.distance(entrance.to, *least_)));
  }
  u64 weight(u8 bytes) const { return counted_kind_ ? 0 : bytes; }
  // Of a call; of values each counts as one, whatever it is.
  u64 called(u32 rule, u8 kind) const {
    if (!counted_kind_) return nfa_.rules[rule].shortest;
    return nfa_.rules[rule].shortest == NONE ? NONE : kind == counted_kind_;
  }

  void settle_state(u32 t, u32 distance) {
    (*least_)[t] = distance;
    for (u32 i = begin_[t]; i < begin_[t + 1]; i++) {
      const Back& back = back_[i];
      if (back.call == NONE) {
        propose(back.source, plus(distance, weight(back.weight) + (back.source < states_ ? 0 : surcharge(back.source - states_))));
      } else if (counted_kind_ || settled_[states_ + back.call]) {
        propose(back.source, plus(distance, called(back.call, back.kind)));
      } else {
        waiting_[back.call].push_back({back.source, distance});
      }
    }
    for (auto at = std::lower_bound(heads_.begin(), heads_.end(), std::pair<u32, u32>{t, 0}); at != heads_.end() && at->first == t; ++at)
      propose(at->second, nfa_.distance_of_head(nfa_.heads[nfa_.states[at->second].head], {}, *least_));
  }

  // What the values of a scope take more for having to differ.
  u64 surcharge(u32 rule) const {
    u64 more = 0;
    if (!counted_kind_ && rule < nfa_.scope_values.size())
      for (const Nfa::Values& values : nfa_.scope_values[rule])
        more += values.together - std::min<u64>(values.together, static_cast<u64>(values.count) * nfa_.rules[values.rule].shortest);
    return more;
  }

  void settle_rule(u32 rule, u32 distance) {
    if (counted_kind_) return;
    nfa_.rules[rule].shortest = distance;
    for (const auto& [source, rest] : waiting_[rule]) propose(source, plus(rest, distance));
    waiting_[rule].clear();
  }
};

}  // namespace

// In a counted automaton, which reads no values.
u64 Nfa::counted_rest(u32 state, u32 count, const std::vector<u32>& least) const {
  const u64 bytes = counted[states[state].body]->of(state, count);
  return &least == &least_bytes || bytes == NONE ? bytes : 0;
}

u64 Nfa::distance_of_head(const Head& head, const Register& reg, const std::vector<u32>& least) const {
  const u64 exit = least[head.exit];
  if (exit == NONE) return NONE;
  if (head.automaton) return plus(exit, counted_rest(head.body, reg.count, least));
  if (!head.permutation) {
    const u64 missing = reg.count < COUNT_DEEP && reg.count < head.minimum ? head.minimum - reg.count : 0;
    if (missing == 0) return exit;
    const u64 body = least[head.body];
    return body == NONE ? NONE : plus(exit, missing * body);
  }
  u64 total = exit, chosen = 0;
  std::vector<u64> others;
  u64 repeatable = NONE;
  for (u32 i = 0; i < head.members.size(); i++) {
    if (head.flags[i] & NEVER_MEMBER) continue;
    const u64 length = least[head.members[i]];
    const bool used = registers.used(reg.used, i);
    if ((head.flags[i] & REQUIRED) && !used) {
      if (length == NONE) return NONE;
      total += length;
      chosen++;
    } else if (length != NONE && !used && !(head.flags[i] & REPEATABLE)) {
      others.push_back(length);
    }
    if (length != NONE && (head.flags[i] & REPEATABLE)) repeatable = std::min(repeatable, length);
  }
  std::sort(others.begin(), others.end());
  for (std::size_t next = 0; reg.count + chosen < head.minimum; chosen++) {
    const u64 other = next < others.size() ? others[next] : NONE;
    if (other > repeatable) {  // so is each that comes after it
      const u64 rest = head.minimum - reg.count - chosen;
      total = plus(std::min(total, LONG), rest * repeatable);
      chosen += rest;
      break;
    }
    if (other >= NONE) return NONE;
    next++;
    total += other;
  }
  if (head.maximum != NONE && reg.count + chosen > head.maximum) return NONE;
  const u64 separators = chosen == 0 ? 0 : chosen - (reg.count == 0 && !head.after_separator ? 1 : 0) - (head.after_separator ? 1 : 0);
  if (separators) {
    const u64 separator = least[head.body];
    if (separator == NONE) return NONE;
    total += separators * separator;
  }
  return std::min(total, LONG);
}

u64 Nfa::distance(Item item, const std::vector<u32>& least) const {
  const NfaState& state = states[item.state];
  const u64 here = least[item.state];
  if (state.body == NONE) return here;
  const Head& head = heads[state.body];
  Register reg = registers.get(item.reg);
  if (head.automaton) return plus(least[head.exit], counted_rest(item.state, reg.count, least));
  if (here == NONE) return NONE;
  if (!head.permutation) {
    if (reg.count < COUNT_DEEP) reg.count++;
    return plus(here, distance_of_head(head, reg, least));
  }
  if (state.member == NONE) {  // in the separator: a member must follow
    u64 best = NONE;
    for (u32 i = 0; i < head.members.size(); i++)
      if (member_available(registers, head, reg, i)) best = std::min(best, distance({head.members[i], item.reg}, least));
    return plus(here, best);
  }
  // The member's use is not in the register yet.
  Registers& mutable_registers = const_cast<Registers&>(registers);
  if (!(head.flags[state.member] & REPEATABLE) || (head.flags[state.member] & REQUIRED))
    reg.used = mutable_registers.use(reg.used, state.member);
  reg.count++;
  return plus(here, distance_of_head(head, reg, least));
}

void measure(Nfa& nfa, Deadline& deadline) { Measure(nfa, deadline).run(); }

static constexpr const char* NO_COMPLETION = "no text completes the structure from here without reading a token by its id";

// The distance, or an error where there is no completion, or none that can be written.
u64 Completion::least(u32 configuration) {
  const u64 left = distance(configuration);
  if (left == NONE) throw BadGrammar(NO_COMPLETION);
  if (left > 4 * limits_.stack_depth)
    throw CompletionLimit("stack_depth", static_cast<double>(limits_.stack_depth),
                          "the shortest completion has " + std::to_string(left) + " bytes or more");
  return left;
}

u64 Completion::distance(u32 configuration) {
  if (!measured_) {  // least lengths are seldom asked for and cost as much as the rest of a compilation
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
  Scratch<u32> todo{configuration};
  while (!todo.empty()) {
    const u32 node = todo.back();
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
        const u32 below = *found;  // another is inserted where values are looked for
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

// Values that must differ take at least what as many of the cheapest that were not seen take. Of the ways to the end of a scope one with
// the fewest values is measured: a longer one has no fewer to pay for.
u64 Completion::state_length(u32 state) {
  if (!dfa_.nfa().distinct || state == BOTTOM || (dfa_[state].flags & STATE_REGION)) return dfa_.distance(state);
  bool begins = false;  // the value that a guard waits for is still to come as a whole
  u32 scope = state;
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
  const std::vector<Item> items(dfa_.items(scope).begin(), dfa_.items(scope).end());  // looking for values makes more states
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
      length = together >= NONE ? NONE : plus(length, together - std::min(together, plain));
    }
    best = std::min(best, length);
  }
  if (extending_ == 0) scope_lengths_.insert(key, static_cast<u32>(best));
  return best;
}

// What so many values of a rule take together, the cheapest of those that were not seen; a bound where there are too many to look at.
u64 Completion::values_length(u32 rule, u32 count, std::span<const u32> seen) {
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

// The cheapest value that a rule generates beyond those that are known: its texts in the order of their lengths, by A*.
bool Completion::find_value(u32 rule, CheapValues& cheap) {
  constexpr std::size_t MOST_VALUES = 4096, MOST_NODES = 100'000, MOST_SPELLINGS = 1000;
  constexpr u32 MOST_AT_ONCE = 16;  // of one kind inside of another
  if (cheap.ended || cheap.left || cheap.busy || extending_ >= MOST_AT_ONCE || cheap.values.size() >= MOST_VALUES) return false;
  const struct Busy {
    CheapValues& cheap;
    u32& extending;
    Busy(CheapValues& c, u32& e) : cheap(c), extending(e) { cheap.busy = true, extending++; }
    ~Busy() { cheap.busy = false, extending--; }
  } busy(cheap, extending_);
  cheap.left = true;  // unless this comes to its end
  if (cheap.nodes.empty()) {
    std::vector<StackEdge> start;
    if (const u32 state = dfa_.start(rule); state != DEAD) start.push_back({state, EMPTY_STACK});
    const u32 first = steps_.close(start);
    cheap.nodes.push_back({first, NONE, 0, 0});
    if (const u64 length = distance(first); length < LONG) cheap.queue.push({length, static_cast<u32>(length), ~0u});
  }
  for (std::size_t spellings = 0; !cheap.queue.empty(); spellings++) {
    dfa_.work().spend(20);
    if (cheap.nodes.size() > MOST_NODES || spellings > MOST_SPELLINGS * (cheap.values.size() + 1)) return false;
    const auto [whole, to_go, complement] = cheap.queue.top();
    cheap.queue.pop();
    cheap.least = std::max(cheap.least, static_cast<u32>(whole));
    const u32 at = ~complement, here = cheap.nodes[at].configuration, length = cheap.nodes[at].length + 1;
    each_step(here, true, [&](u8 byte, u32 next) {
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

// Whether the values of some scope, having to differ, take more than its rule was measured at.
bool Completion::values_take_more() {
  Nfa& nfa = dfa_.nfa();
  bool more = false;
  nfa.scope_values.assign(nfa.rules.size(), {});
  for (u32 rule = 0; rule < nfa.rules.size(); rule++)
    for (u32 kind = 0; kind < std::min(nfa.scopes[rule].size(), nfa.least_values.size()); kind++) {
      const u32 count = nfa.least_values[kind][nfa.rules[rule].start], value = nfa.scopes[rule][kind];
      if (count < 2 || count == NONE) continue;
      const u64 together = std::min(values_length(value, count, {}), LONG);
      nfa.scope_values[rule].push_back({value, count, together});
      more = more || together > static_cast<u64>(count) * nfa.rules[value].shortest;
    }
  return more;
}

// Each byte that leads on, and where to; where no guard reads along, of bytes that lead the same way one, or `every` one.
template <class F>
void Completion::each_step(u32 here, bool every, F take) {
  for (u32 i = 0; i < stacks_.edge_count(here); i++) {
    const u32 state = stacks_.edges(here)[i].state;
    if (state == BOTTOM) continue;
    dfa_.build(state);
    for (u32 r = 0; r < dfa_[state].range_count; r++) {
      const Range range = dfa_.range(state, r);
      for (u32 b = range.lo; b <= range.hi; b++) {
        dfa_.work().spend(4);
        const u32 next = steps_.step(here, static_cast<u8>(b));
        if (next != NO_STACK) take(static_cast<u8>(b), next);
        if (!every && !stacks_.guarded(here)) break;
      }
    }
  }
}

u64 Completion::shortest_length(u32 configuration) {
  if (stacks_.complete(configuration)) return 0;
  const u64 left = least(configuration);
  if (!dfa_.nfa().distinct) return left;
  if (const u32* known = lengths_.find(configuration)) return *known;
  Scratch<Straight> way;
  const u32 end = straight_down(configuration, left, way, true);
  if (!stacks_.complete(end)) {
    const u32* known = end == configuration ? nullptr : lengths_.find(end);
    if (!known || *known + way.size() != left) return search(configuration).size();
  }
  for (std::size_t i = 0; i < way.size(); i++) lengths_.insert(way[i].configuration, static_cast<u32>(left - i));
  return left;
}

std::string Completion::shortest(u32 configuration) {
  if (stacks_.complete(configuration)) return {};
  Scratch<Straight> way;
  if (!stacks_.complete(straight_down(configuration, least(configuration), way, false))) return search(configuration);
  std::string text;
  for (const Straight& step : way) text.push_back(static_cast<char>(step.byte));
  return text;
}

// Byte by byte to an end that is `left` bytes away, as long as none leads further from it than that. Where no values must differ there
// always is such a byte, and the first one found will do. Where they must, the way may end before that: a byte that leads to where the
// distance is as expected is better then than one to where it is less, for that is a bound which cannot be kept; and one that ends a value
// is better than one that makes it another, for it is new where it is. So is one behind which it has ended for good: before that, as at a
// blank, the distance does not know yet that it is one more that was seen.
u32 Completion::straight_down(u32 configuration, u64 left, std::vector<Straight>& way, bool to_known) {
  u32 here = configuration;
  Scratch<StackEdge> order;
  auto pending = [this](u32 found) {  // a value that must differ was begun and may go on
    for (u32 i = 0; i < stacks_.edge_count(found); i++)
      for (u32 k = 0, below = stacks_.edges(found)[i].below; stacks_.edges(found)[i].state != BOTTOM && k < stacks_.edge_count(below); k++)
        if (const u32 guard = stacks_.edges(below)[k].state;
            guard != BOTTOM && (dfa_[guard].flags & STATE_GUARD) && dfa_.guard_text(guard) != 0)
          return true;
    return false;
  };
  while (!stacks_.complete(here) && !(to_known && here != configuration && lengths_.find(here))) {
    u32 next = NO_STACK;
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
      const u32 state = order[i].state;
      dfa_.build(state);
      for (u32 r = 0; r < dfa_[state].range_count && !best; r++) {
        const u8 byte = dfa_.range(state, r).lo;
        dfa_.work().spend(4);
        const u32 found = steps_.step(here, byte);
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

// Where a value begins that must differ from others, the cheapest one that does, if the distance says so.
u32 Completion::new_value(u32 configuration, u64& left, std::vector<Straight>& way) {
  const std::size_t before = way.size();
  for (u32 i = 0; i < stacks_.edge_count(configuration); i++) {
    const StackEdge edge = stacks_.edges(configuration)[i];
    for (u32 k = 0; edge.state != BOTTOM && k < stacks_.edge_count(edge.below); k++) {
      const u32 guard = stacks_.edges(edge.below)[k].state;
      if (guard == BOTTOM || !(dfa_[guard].flags & STATE_GUARD) || dfa_.guard_text(guard) != 0) continue;
      const u32 back = dfa_.guard_back(guard);
      const auto& kinds = dfa_.nfa().scopes[dfa_.rule(back)];
      const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](u32 rule) { return dfa_.start(rule) == edge.state; });
      if (kind == kinds.end()) continue;
      CheapValues& cheap = cheap_values_[*kind];
      const std::vector<u32> seen = dfa_.seen_ids(back);
      std::size_t v = 0;
      while ((v < cheap.values.size() || find_value(*kind, cheap)) && std::binary_search(seen.begin(), seen.end(), cheap.values[v].id)) v++;
      if (v == cheap.values.size()) continue;
      u32 here = configuration;
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

// A* (Hart, Nilsson & Raphael 1968) with the distance as its bound: a guard may refuse the shortest way, and then others are tried. What
// is known of a node holds for those behind it (pathmax, Mero 1984). There may be very many that are equally good: after PATIENCE nodes
// the distance weighs more than the length so far, and the text found is short instead of shortest (Pohl 1970).
std::string Completion::search(u32 configuration) {
  constexpr std::size_t PATIENCE = 20'000, MOST_ATTEMPTS = 500;
  constexpr u64 MOST_NODES = 50'000, WEIGHT = 16;
  std::vector<SearchNode> nodes{{configuration, NONE, 0, 0}};
  bool greedy = false;
  std::size_t attempts = 0;
  Scratch<Straight> way;
  SearchQueue queue;
  std::unordered_map<u32, u32> reached{{configuration, 0}};
  const u64 first = least(configuration);
  queue.push({first, static_cast<u32>(first), ~0u});
  while (!queue.empty()) {
    const u64 whole = std::get<0>(queue.top());
    const u32 at = ~std::get<2>(queue.top());
    queue.pop();
    dfa_.work().spend(20);
    const u32 here = nodes[at].configuration;
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
      // The nodes that wait are ordered anew. None may be forgotten: the newest may all lead to where a value must come again.
      Scratch<u32> waiting;
      for (; !queue.empty(); queue.pop()) waiting.push_back(~std::get<2>(queue.top()));
      for (const u32 node : waiting) {
        const u64 ahead = distance(nodes[node].configuration);
        queue.push({nodes[node].length + WEIGHT * ahead, static_cast<u32>(ahead), ~node});
      }
    }
    if (nodes.size() > MOST_NODES + 8 * first)
      throw CompletionLimit("states", static_cast<double>(MOST_NODES),
                            "the search for a completion met more than " + std::to_string(MOST_NODES + 8 * first) + " states");
    // Where a value begins that must differ, the cheapest new one at once: its beginnings are as many as the values that were seen.
    u64 any = LONG;
    way.clear();
    if (const u32 next = greedy && (stacks_.guarded(here) & GUARD_BELOW) ? new_value(here, any, way) : NO_STACK; next != NO_STACK) {
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
    each_step(here, false, [&](u8 byte, u32 next) {
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
