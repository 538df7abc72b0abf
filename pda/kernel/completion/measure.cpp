// Least lengths: the bytes that every state must still read, and the length of every rule's shortest text; tokens by id do not count. By
// Knuth's generalisation of Dijkstra's algorithm (1977): values are settled in increasing order, a call's weight when its rule is settled.
//
// A state in the body of a repetition or a permutation measures to the end of that body: the rest depends on the register, and is added
// when the register is known (Nfa::distance). Rewritten left recursion leads into bodies from outside, with known registers, and a rule may
// begin in a body: such a way in is an Entrance. In a counted automaton lengths depend on the register altogether, and CountedLengths has
// a row for each count.
//
// INVARIANT: if no values must differ, the length of a configuration's shortest completion is the length that its states measure. If values
// must differ, it is a lower bound, see Completion::shortest().
#include <algorithm>
#include <queue>
#include <tuple>

#include "completion/lengths.h"
#include "rules/nfa.h"

namespace stackmask {

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
  static constexpr std::size_t MOST_KINDS = 4;  // the kinds of values in one scope that are counted
  // Nodes are the states, then one for each rule: its shortest text that is not empty.
  struct Back {
    u32 source;
    RuleId call;
    u8 weight, kind;  // kind: of the values of a scope that the call reads, from 1 on; 0 for other calls
  };
  // A way into a body from outside, or from the start of a rule: the text read on it, and the register after it.
  struct Entrance {
    u32 source;
    RuleId call;
    u8 weight, kind;
    Item to;
  };
  Nfa& nfa_;
  Deadline& deadline_;
  u32 states_ = 0;
  u32 counted_kind_ = 0;  // 0: bytes are counted; else the values of this kind
  std::vector<u32>* least_ = nullptr;  // the lengths being computed, by state
  std::vector<u32> begin_, best_;
  std::vector<Back> back_;
  std::vector<std::pair<NfaStateId, NfaStateId>> heads_;
  std::vector<Entrance> entrances_;
  std::vector<u32> watching_begin_, watching_;  // by node: the entrances that depend on its length
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
    for (const NfaStateId s : nfa_.each_state()) {
      if (!counts_bodies(s) || (kind && !nfa_.rules[nfa_.states[s].rule].scope)) continue;
      if (nfa_.counting(s).head != NONE) propose(s, 0);  // the head after a separator is where the separator ends
      for (u32 e = nfa_.states[s].first; e != NONE; e = nfa_.edges[e].next)
        if (nfa_.edges[e].kind == EDGE_COUNT || nfa_.edges[e].kind == EDGE_MEMBER) propose(s, 0);
    }
    while (!queue_.empty()) {
      const auto [distance, node] = queue_.top();
      queue_.pop();
      deadline_.check();
      if (settled_[node]) continue;
      settled_[node] = 1;
      if (node >= states_) settle_rule(RuleId(node - states_), distance);
      else settle_state(NfaStateId(node), distance);
      for (u32 i = watching_begin_[node]; i < watching_begin_[node + 1]; i++) enter(entrances_[watching_[i]]);
    }
  }

  // By scope: the rules of its values, which are their kinds.
  void find_scopes() {
    nfa_.scopes.assign(nfa_.rules.size(), {});
    nfa_.distinct = false;
    for (const NfaState& state : nfa_.states)
      for (u32 e = state.first; e != NONE; e = nfa_.edges[e].next) {
        const Edge& edge = nfa_.edges[e];
        if (edge.kind != EDGE_CALL || !(edge.flags & EDGE_DISTINCT)) continue;
        nfa_.distinct = true;
        auto& kinds = nfa_.scopes[state.rule];
        if (std::find(kinds.begin(), kinds.end(), edge.callee()) == kinds.end()) kinds.push_back(edge.callee());
      }
  }
  u8 kind_of(NfaStateId state, const Edge& edge) const {
    if (edge.kind != EDGE_CALL || !(edge.flags & EDGE_DISTINCT)) return 0;
    const auto& kinds = nfa_.scopes[nfa_.states[state].rule];
    return static_cast<u8>(
        std::min<std::size_t>(static_cast<std::size_t>(std::find(kinds.begin(), kinds.end(), edge.callee()) - kinds.begin()) + 1, 255));
  }

  // The state lies in the body of a repetition or permutation, and measures to the body's end.
  bool counts_bodies(NfaStateId s) const { return nfa_.counting(s).body != NONE && !nfa_.heads[nfa_.counting(s).body].automaton; }
  bool in_automaton(NfaStateId s) const { return nfa_.counting(s).body != NONE && nfa_.heads[nfa_.counting(s).body].automaton; }

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
    for (const NfaStateId s : nfa_.each_state())
      if (const u32 head = nfa_.counting(s).head; head != NONE && nfa_.heads[head].automaton && !nfa_.counted[head])
        nfa_.counted[head].emplace(nfa_, head, nfa_.counted_places, deadline_);
  }

  void index() {
    states_ = static_cast<u32>(nfa_.states.size());
    // A seed of left recursion is a separate state, which only an EDGE_SET leads to.
    std::vector<RegisterId> register_of(states_, ZERO_REGISTER);
    for (const NfaStateId s : nfa_.each_state())
      for (u32 e = nfa_.states[s].first; e != NONE; e = nfa_.edges[e].next)
        if (nfa_.edges[e].kind == EDGE_SET) register_of[nfa_.edges[e].target] = nfa_.edges[e].reg();
    std::vector<std::pair<NfaStateId, Back>> edges;
    auto lead = [&](u32 source, u32 body, RegisterId reg, NfaStateId target, RuleId call, u8 weight, u8 kind) {
      if (nfa_.counting(target).body == body) edges.push_back({target, {source, call, weight, kind}});
      else entrances_.push_back({source, call, weight, kind, {target, reg}});
    };
    auto read = [&](u32 source, NfaStateId from, u32 body, RegisterId reg, const Edge& edge) {
      if (edge.kind == EDGE_BYTE) lead(source, body, reg, edge.target, NONE, 1, 0);
      else if (edge.kind == EDGE_CALL) lead(source, body, reg, edge.target, edge.callee(), 0, kind_of(from, edge));
      else if (edge.kind == EDGE_DEFAULT)
        each_default(from, edge.target, [&](NfaStateId target) { lead(source, body, reg, target, NONE, 1, 0); });
    };
    std::vector<u8> wanted(nfa_.rules.size(), 0);  // a rule that may read nothing must read something in some call
    std::vector<RuleId> to_read;  // these rules
    auto want = [&](RuleId rule) {
      if (nfa_.rules[rule].nullable && !nfa_.rules[rule].merged && !std::exchange(wanted[rule], u8{1})) to_read.push_back(rule);
    };
    for (const NfaStateId s : nfa_.each_state()) {
      if (in_automaton(s)) continue;
      const u32 body = nfa_.counting(s).body;
      for (u32 e = nfa_.states[s].first; e != NONE; e = nfa_.edges[e].next) {
        const Edge& edge = nfa_.edges[e];
        read(s, s, body, register_of[s], edge);
        if (edge.kind == EDGE_EPSILON || edge.kind == EDGE_ENTER || edge.kind == EDGE_SET)
          lead(s, body, edge.kind == EDGE_SET ? edge.reg() : register_of[s], edge.target, NONE, 0, 0);
        if (edge.kind != EDGE_CALL) continue;
        if (nfa_.rules[edge.callee()].nullable && !(edge.flags & EDGE_NONEMPTY)) lead(s, body, register_of[s], edge.target, NONE, 0, 0);
        else want(edge.callee());
      }
    }
    for (const RuleId r : nfa_.each_rule())
      if (!nfa_.rules[r].nullable && !nfa_.rules[r].merged) edges.push_back({nfa_.rules[r].start, {states_ + r, NONE, 0, 0}});
    Closure closure(nfa_);
    for (std::size_t i = 0; i < to_read.size(); i++) {
      const RuleId r = to_read[i];
      closure.begin();
      closure.add(nfa_.rules[r].start, ZERO_REGISTER);
      closure.run();
      for (const Item& item : closure.result)
        for (u32 e = nfa_.states[item.state].first; e != NONE; e = nfa_.edges[e].next) {
          const Edge& edge = nfa_.edges[e];
          read(states_ + r, item.state, NONE, item.reg, edge);
          if (edge.kind == EDGE_CALL) want(edge.callee());  // the rule reads something in this call, or behind it
        }
    }
    begin_.assign(states_ + 1, 0);
    for (const auto& edge : edges) begin_[edge.first + 1]++;
    for (u32 i = 1; i <= states_; i++) begin_[i] += begin_[i - 1];
    back_.resize(edges.size());
    std::vector<u32> cursor(begin_.begin(), begin_.end() - 1);
    for (const auto& [target, back] : edges) back_[cursor[target]++] = back;
    for (const NfaStateId s : nfa_.each_state()) {
      if (nfa_.counting(s).head == NONE || nfa_.counting(s).body != NONE) continue;
      each_part(nfa_.heads[nfa_.counting(s).head], [&](NfaStateId part) { heads_.push_back({part, s}); });
    }
    std::sort(heads_.begin(), heads_.end());
    watch();
  }

  template <class F>
  void each_default(NfaStateId from, NfaStateId target, F f) const {
    bool own[256] = {};
    for (u32 e = nfa_.states[from].first; e != NONE; e = nfa_.edges[e].next)
      if (const Edge& edge = nfa_.edges[e]; edge.kind == EDGE_BYTE) std::fill(own + edge.lo, own + edge.hi + 1, true);
    for (u32 e = nfa_.states[target].first; e != NONE; e = nfa_.edges[e].next)
      if (const Edge& edge = nfa_.edges[e];
          edge.kind == EDGE_BYTE && !std::all_of(own + edge.lo, own + edge.hi + 1, [](bool byte) { return byte; }))
        f(edge.target);
  }

  // The states on whose lengths that of a head depends.
  template <class F>
  void each_part(const Head& head, F f) const {
    f(head.exit);
    if (head.automaton) return;
    f(head.body);
    for (const NfaStateId member : head.members) f(member);
  }

  void watch() {
    std::vector<std::pair<u32, u32>> pairs;
    for (u32 i = 0; i < entrances_.size(); i++) {
      const Entrance& entrance = entrances_[i];
      const NfaStateId target = entrance.to.state;
      const u32 body = nfa_.counting(target).body;
      pairs.push_back({target, i});
      if (entrance.call != NONE) pairs.push_back({states_ + entrance.call, i});
      if (body != NONE) each_part(nfa_.heads[body], [&](NfaStateId part) { pairs.push_back({part, i}); });
    }
    std::sort(pairs.begin(), pairs.end());
    watching_begin_.assign(states_ + nfa_.rules.size() + 1, 0);
    for (const auto& pair : pairs) {
      watching_begin_[pair.first + 1]++;
      watching_.push_back(pair.second);
    }
    for (std::size_t i = 1; i < watching_begin_.size(); i++) watching_begin_[i] += watching_begin_[i - 1];
  }

  // From the settled lengths: the length from an entrance falls as more are settled, and is never less than the last settled one.
  void enter(const Entrance& entrance) {
    const u64 read = entrance.call == NONE ? weight(entrance.weight) : called(entrance.call, entrance.kind);
    propose(entrance.source, plus(read, nfa_.distance(entrance.to, *least_)));
  }
  u64 weight(u8 bytes) const { return counted_kind_ ? 0 : bytes; }
  // The weight of a call; when values are counted, each has the weight one.
  u64 called(RuleId rule, u8 kind) const {
    if (!counted_kind_) return nfa_.rules[rule].shortest;
    return nfa_.rules[rule].shortest == NONE ? u64{NONE} : kind == counted_kind_;
  }

  void settle_state(NfaStateId t, u32 distance) {
    (*least_)[t] = distance;
    for (u32 i = begin_[t]; i < begin_[t + 1]; i++) {
      const Back& back = back_[i];
      if (back.call == NONE) {
        propose(back.source, plus(distance, weight(back.weight) + (back.source < states_ ? 0 : surcharge(RuleId(back.source - states_)))));
      } else if (counted_kind_ || settled_[states_ + back.call]) {
        propose(back.source, plus(distance, called(back.call, back.kind)));
      } else {
        waiting_[back.call].push_back({back.source, distance});
      }
    }
    for (auto at = std::lower_bound(heads_.begin(), heads_.end(), std::pair{t, NfaStateId(0)}); at != heads_.end() && at->first == t; ++at)
      propose(at->second, nfa_.distance_of_head(nfa_.heads[nfa_.counting(at->second).head], {}, *least_));
  }

  // The additional bytes that the values of a scope take because they must differ.
  u64 surcharge(RuleId rule) const {
    u64 more = 0;
    if (!counted_kind_ && rule < nfa_.scope_values.size())
      for (const Nfa::Values& values : nfa_.scope_values[rule]) {
        if (values.together >= NONE) return NONE;
        more += values.together - std::min<u64>(values.together, static_cast<u64>(values.count) * nfa_.rules[values.rule].shortest);
      }
    return more;
  }

  void settle_rule(RuleId rule, u32 distance) {
    if (counted_kind_) return;
    nfa_.rules[rule].shortest = distance;
    for (const auto& [source, rest] : waiting_[rule]) propose(source, plus(rest, distance));
    waiting_[rule].clear();
  }
};

}  // namespace

// For a counted automaton, which reads no values.
u64 Nfa::counted_rest(NfaStateId state, u32 count, const std::vector<u32>& least) const {
  const u64 bytes = counted[counting(state).body]->of(state, count);
  return &least == &least_bytes || bytes == NONE ? bytes : 0;
}

u64 Nfa::distance_of_head(const Head& head, const Register& reg, const std::vector<u32>& least) const {
  const u64 exit = least[head.exit];
  if (exit == NONE) return NONE;
  if (head.automaton) return plus(exit, counted_rest(head.body, reg.count, least));
  if (!head.permutation) {
    const u64 last = reg.last();
    const u64 missing = last < head.minimum && reg.count < COUNT_DEEP ? head.minimum - last : 0;
    if (missing == 0) return exit;
    const u64 body = least[head.body];
    return body == NONE ? u64{NONE} : plus(exit, missing * body);
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
    const u64 other = next < others.size() ? others[next] : u64{NONE};
    if (other > repeatable) {  // so is each later one
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
  const u64 here = least[item.state];
  const Counting& place = counting(item.state);
  if (place.body == NONE) return here;
  const Head& head = heads[place.body];
  Register reg = registers.get(item.reg);
  if (head.automaton) return plus(least[head.exit], counted_rest(item.state, reg.count, least));
  if (here == NONE) return NONE;
  if (!head.permutation) {
    if (reg.count < COUNT_DEEP) reg.count++;
    return plus(here, distance_of_head(head, reg, least));
  }
  if (place.member == NONE) {  // in the separator: a member must follow
    u64 best = NONE;
    PooledVector<u32> available;
    find_available(registers, head, reg, available);
    for (u32 i = 0; i < head.members.size(); i++)
      if (available[i / 32] >> (i % 32) & 1) best = std::min(best, distance({head.members[i], item.reg}, least));
    return plus(here, best);
  }
  // The register does not contain the use of the member yet.
  Registers& mutable_registers = const_cast<Registers&>(registers);
  if (!(head.flags[place.member] & REPEATABLE) || (head.flags[place.member] & REQUIRED))
    reg.used = mutable_registers.use(reg.used, place.member);
  reg.count++;
  return plus(here, distance_of_head(head, reg, least));
}

void measure(Nfa& nfa, Deadline& deadline) { Measure(nfa, deadline).run(); }

}  // namespace stackmask
