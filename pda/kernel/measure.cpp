// Least lengths: of what every state still has to read, and of every rule's texts, tokens by their ids left out. Knuth's generalisation
// of Dijkstra's algorithm (1977): values are settled in increasing order, a call's weight is known once its rule is settled.
//
// A state in the body of a repetition or a permutation measures to the end of that body: what follows depends on the register, and is
// added where one is at hand (Nfa::distance). Left recursion that was rewritten leads into bodies from outside of them, with registers
// that are known, and a rule may begin in one: such a way in is an Entrance. In a counted automaton lengths depend on the register
// altogether, and CountedLengths has a row for each count.
//
// INVARIANT: where no values must differ the length of a configuration's shortest completion is what its frames measure. Values that
// must differ make it a bound, see Automaton::shortest().
#include <algorithm>
#include <queue>
#include <tuple>

#include "automaton.h"

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
      for (auto at = std::lower_bound(back.begin(), back.end(), std::pair<u32, u32>{queue[i], 0}); at != back.end() && at->first == queue[i]; ++at)
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
      throw LimitExceeded("states", static_cast<double>(MOST_LENGTHS), "the least lengths of a pattern of at least " + std::to_string(minimum_) + " characters are more than " + std::to_string(MOST_LENGTHS) + " numbers");
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
    nfa_.distinct = std::any_of(nfa_.edges.begin(), nfa_.edges.end(), [](const Edge& edge) { return edge.kind == EDGE_CALL && (edge.flags & EDGE_DISTINCT); });
    for (State& state : nfa_.states) state.distance = NONE;
    for (Rule& rule : nfa_.rules) rule.shortest = NONE;
    count_automata();
    index();
    for (const Rule& rule : nfa_.rules)
      if (!rule.merged) propose(rule.final, 0);
    for (u32 s = 0; s < states_; s++) {
      if (!counts_bodies(s)) continue;
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

 private:
  // Nodes: the states, then one for each rule: its shortest text that is not empty.
  struct Back {
    u32 source, call;
    u8 weight;
  };
  // A way from outside of a body into it, or from where a rule begins: what is read on it, and the register then.
  struct Entrance {
    u32 source, call;
    u8 weight;
    Item to;
  };
  Nfa& nfa_;
  Deadline& deadline_;
  u32 states_ = 0;
  std::vector<u32> begin_, best_;
  std::vector<Back> back_;
  std::vector<std::pair<u32, u32>> heads_;
  std::vector<Entrance> entrances_;
  std::vector<u32> watching_begin_, watching_;  // by node: the entrances that its length matters to
  std::vector<u8> settled_;
  std::vector<std::vector<std::pair<u32, u32>>> waiting_;  // by rule: (source, distance of the call's target)
  using Entry = std::pair<u32, u32>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;

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
    for (const State& state : nfa_.states)
      if (state.head != NONE && nfa_.heads[state.head].automaton && !nfa_.counted[state.head]) nfa_.counted[state.head].emplace(nfa_, state.head, nfa_.counted_places, deadline_);
  }

  void index() {
    states_ = static_cast<u32>(nfa_.states.size());
    const u32 rules = static_cast<u32>(nfa_.rules.size());
    best_.assign(states_ + rules, NONE);
    settled_.assign(states_ + rules, 0);
    waiting_.resize(rules);
    // A seed of left recursion is a state of its own, which only an EDGE_SET leads to.
    std::vector<u32> register_of(states_, 0);
    for (u32 s = 0; s < states_; s++)
      for (u32 e = nfa_.states[s].first; e != NONE; e = nfa_.edges[e].next)
        if (nfa_.edges[e].kind == EDGE_SET) register_of[nfa_.edges[e].target] = nfa_.edges[e].data;
    std::vector<std::pair<u32, Back>> edges;
    auto lead = [&](u32 source, u32 body, u32 reg, u32 target, u32 call, u8 weight) {
      if (nfa_.states[target].body == body) edges.push_back({target, {source, call, weight}});
      else entrances_.push_back({source, call, weight, {target, reg}});
    };
    auto read = [&](u32 source, u32 from, u32 body, u32 reg, const Edge& edge) {
      if (edge.kind == EDGE_BYTE) lead(source, body, reg, edge.target, NONE, 1);
      else if (edge.kind == EDGE_CALL) lead(source, body, reg, edge.target, edge.data, 0);
      else if (edge.kind == EDGE_REST) each_rest(from, edge.target, [&](u32 target) { lead(source, body, reg, target, NONE, 1); });
    };
    std::vector<u8> wanted(rules, 0);  // what may read nothing must read something in some call
    for (u32 s = 0; s < states_; s++) {
      if (in_automaton(s)) continue;
      const u32 body = nfa_.states[s].body;
      for (u32 e = nfa_.states[s].first; e != NONE; e = nfa_.edges[e].next) {
        const Edge& edge = nfa_.edges[e];
        read(s, s, body, register_of[s], edge);
        if (edge.kind == EDGE_EPSILON || edge.kind == EDGE_ENTER || edge.kind == EDGE_SET)
          lead(s, body, edge.kind == EDGE_SET ? edge.data : register_of[s], edge.target, NONE, 0);
        if (edge.kind != EDGE_CALL) continue;
        if (nfa_.rules[edge.data].nullable && !(edge.flags & EDGE_NONEMPTY)) lead(s, body, register_of[s], edge.target, NONE, 0);
        else wanted[edge.data] = 1;
      }
    }
    Closure closure(nfa_);
    for (u32 r = 0; r < rules; r++) {
      if (nfa_.rules[r].merged) continue;
      if (!nfa_.rules[r].nullable) {
        edges.push_back({nfa_.rules[r].start, {states_ + r, NONE, 0}});
        continue;
      }
      if (!wanted[r]) continue;
      closure.begin();
      closure.add(nfa_.rules[r].start, 0);
      closure.run();
      for (const Item& item : closure.result)
        for (u32 e = nfa_.states[item.state].first; e != NONE; e = nfa_.edges[e].next) read(states_ + r, item.state, NONE, item.reg, nfa_.edges[e]);
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
  void each_rest(u32 from, u32 target, F f) const {
    bool own[256] = {};
    for (u32 e = nfa_.states[from].first; e != NONE; e = nfa_.edges[e].next)
      if (const Edge& edge = nfa_.edges[e]; edge.kind == EDGE_BYTE) std::fill(own + edge.lo, own + edge.hi + 1, true);
    for (u32 e = nfa_.states[target].first; e != NONE; e = nfa_.edges[e].next)
      if (const Edge& edge = nfa_.edges[e]; edge.kind == EDGE_BYTE && !std::all_of(own + edge.lo, own + edge.hi + 1, [](bool byte) { return byte; })) f(edge.target);
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
      enter(entrance);
    }
    std::sort(pairs.begin(), pairs.end());
    watching_begin_.assign(best_.size() + 1, 0);
    for (const auto& pair : pairs) {
      watching_begin_[pair.first + 1]++;
      watching_.push_back(pair.second);
    }
    for (std::size_t i = 1; i < watching_begin_.size(); i++) watching_begin_[i] += watching_begin_[i - 1];
  }

  // By what is settled: the length from an entrance on falls as more is, and is never less than what is settled last.
  void enter(const Entrance& entrance) {
    const u64 called = entrance.call == NONE ? 0 : nfa_.rules[entrance.call].shortest;
    propose(entrance.source, plus(plus(entrance.weight, called), nfa_.distance(entrance.to)));
  }

  void settle_state(u32 t, u32 distance) {
    nfa_.states[t].distance = distance;
    for (u32 i = begin_[t]; i < begin_[t + 1]; i++) {
      const Back& back = back_[i];
      if (back.call == NONE) {
        propose(back.source, static_cast<u64>(distance) + back.weight);
      } else if (settled_[states_ + back.call]) {
        propose(back.source, static_cast<u64>(distance) + best_[states_ + back.call]);
      } else {
        waiting_[back.call].push_back({back.source, distance});
      }
    }
    for (auto at = std::lower_bound(heads_.begin(), heads_.end(), std::pair<u32, u32>{t, 0}); at != heads_.end() && at->first == t; ++at)
      propose(at->second, nfa_.distance_of_head(nfa_.heads[nfa_.states[at->second].head], {}));
  }

  void settle_rule(u32 rule, u32 distance) {
    nfa_.rules[rule].shortest = distance;
    for (const auto& [source, rest] : waiting_[rule]) propose(source, static_cast<u64>(rest) + distance);
    waiting_[rule].clear();
  }
};

}  // namespace

u64 Nfa::distance_of_head(const Head& head, const Register& reg) const {
  const u64 exit = states[head.exit].distance;
  if (exit == NONE) return NONE;
  if (head.automaton) return plus(exit, counted[states[head.body].body]->of(head.body, reg.count));
  if (!head.permutation) {
    const u64 missing = reg.count < COUNT_DEEP && reg.count < head.minimum ? head.minimum - reg.count : 0;
    if (missing == 0) return exit;
    const u64 body = states[head.body].distance;
    return body == NONE ? NONE : plus(exit, missing * body);
  }
  u64 total = exit, chosen = 0;
  std::vector<u64> others;
  u64 repeatable = NONE;
  for (u32 i = 0; i < head.members.size(); i++) {
    if (head.flags[i] & NEVER_MEMBER) continue;
    const u64 length = states[head.members[i]].distance;
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
    const u64 separator = states[head.body].distance;
    if (separator == NONE) return NONE;
    total += separators * separator;
  }
  return std::min(total, LONG);
}

u64 Nfa::distance(Item item) const {
  const State& state = states[item.state];
  const u64 here = state.distance;
  if (state.body == NONE) return here;
  const Head& head = heads[state.body];
  Register reg = registers.get(item.reg);
  if (head.automaton) return plus(states[head.exit].distance, counted[state.body]->of(item.state, reg.count));
  if (here == NONE) return NONE;
  if (!head.permutation) {
    if (reg.count < COUNT_DEEP) reg.count++;
    return plus(here, distance_of_head(head, reg));
  }
  if (state.member == NONE) {  // in the separator: a member must follow
    u64 best = NONE;
    for (u32 i = 0; i < head.members.size(); i++)
      if (member_available(registers, head, reg, i)) best = std::min(best, distance({head.members[i], item.reg}));
    return plus(here, best);
  }
  // The member's use is not in the register yet.
  Registers& mutable_registers = const_cast<Registers&>(registers);
  if (!(head.flags[state.member] & REPEATABLE) || (head.flags[state.member] & REQUIRED)) reg.used = mutable_registers.use(reg.used, state.member);
  reg.count++;
  return plus(here, distance_of_head(head, reg));
}

void measure(Nfa& nfa, Deadline& deadline) { Measure(nfa, deadline).run(); }

static constexpr const char* NO_COMPLETION = "no text completes the structure from here without reading a token by its id";

// The distance, or an error where there is no completion, or none that can be written.
u64 Automaton::least(u32 configuration) {
  const u64 left = distance(configuration);
  if (left == NONE) throw BadGrammar(NO_COMPLETION);
  if (left > 4 * limits_.stack_depth)
    throw LimitExceeded("stack_depth", static_cast<double>(limits_.stack_depth), "the shortest completion has " + std::to_string(left) + " bytes or more");
  return left;
}

u64 Automaton::distance(u32 configuration) {
  if (!measured_) {  // least lengths are seldom asked for and cost as much as the rest of a compilation
    Deadline deadline(limits_.seconds);
    measure(frames_.nfa(), deadline);
    measured_ = true;
  }
  Scratch<u32> todo{configuration};
  while (!todo.empty()) {
    const u32 node = todo.back();
    if (distances_.find(node)) {
      todo.pop_back();
      continue;
    }
    const std::size_t waiting = todo.size();
    u64 best = NONE;
    for (u32 i = 0; i < entry_count(node); i++) {
      const Entry entry = entries(node)[i];
      if (entry.frame == BOTTOM) {
        best = 0;
        continue;
      }
      const u32* below = distances_.find(entry.rest);
      if (!below) todo.push_back(entry.rest);
      else best = std::min(best, plus(frames_.distance(entry.frame), *below));
    }
    if (todo.size() > waiting) continue;
    distances_.insert(node, static_cast<u32>(best));
    todo.pop_back();
  }
  return *distances_.find(configuration);
}

u64 Automaton::shortest_length(u32 configuration) {
  if (complete(configuration)) return 0;
  const u64 left = least(configuration);
  if (!frames_.nfa().distinct) return left;
  if (const u32* known = lengths_.find(configuration)) return *known;
  Scratch<Straight> way;
  const u32 end = straight_down(configuration, way, true);
  if (!complete(end)) {
    const u32* known = end == configuration ? nullptr : lengths_.find(end);
    if (!known || *known + way.size() != left) return search(configuration).size();
  }
  for (std::size_t i = 0; i < way.size(); i++) lengths_.insert(way[i].configuration, static_cast<u32>(left - i));
  return left;
}

std::string Automaton::shortest(u32 configuration) {
  if (complete(configuration)) return {};
  least(configuration);
  Scratch<Straight> way;
  if (!complete(straight_down(configuration, way, false))) return search(configuration);
  std::string text;
  for (const Straight& step : way) text.push_back(static_cast<char>(step.byte));
  return text;
}

// Byte by byte as long as each brings the end nearer by one: a text that gets there is as short as the distance says. Where values must
// differ the way may end before that, and may not be told further than to where the rest is known.
u32 Automaton::straight_down(u32 configuration, std::vector<Straight>& way, bool to_known) {
  u32 here = configuration;
  for (u64 left = distance(here); !complete(here); left--) {
    if (to_known && here != configuration && lengths_.find(here)) break;
    u32 next = NO_STACK;
    for (u32 i = 0; i < entry_count(here) && next == NO_STACK; i++) {
      const u32 frame = entries(here)[i].frame;
      if (frame == BOTTOM) continue;
      frames_.build(frame);
      for (u32 r = 0; r < frames_[frame].range_count && next == NO_STACK; r++) {
        const u8 byte = frames_.range(frame, r).lo;
        const u32 found = step(here, byte);
        if (found == NO_STACK || distance(found) >= left) continue;
        way.push_back({here, byte});
        next = found;
      }
    }
    if (next == NO_STACK) break;
    here = next;
  }
  return here;
}

// A* (Hart, Nilsson & Raphael 1968) with the distance as its bound: a guard may refuse the shortest way, and then others are tried. There
// may be exponentially many that are equally good: after PATIENCE nodes the distance weighs more than the length so far, and the text
// found is short instead of shortest (Pohl 1970).
std::string Automaton::search(u32 configuration) {
  struct Node {
    u32 configuration, parent, length;
    u8 byte;
  };
  constexpr std::size_t PATIENCE = 500;
  constexpr u64 MOST_NODES = 50'000, WEIGHT = 16;
  std::vector<Node> nodes{{configuration, NONE, 0, 0}};
  bool greedy = false, met_guard = false;
  using Key = std::tuple<u64, u32, u32>;  // whole length, bytes to go, complement of the node: newest first
  std::priority_queue<Key, std::vector<Key>, std::greater<>> queue;
  std::unordered_map<u32, u32> reached{{configuration, 0}};
  const u64 first = least(configuration);
  queue.push({first, static_cast<u32>(first), ~0u});
  while (!queue.empty()) {
    const u32 at = ~std::get<2>(queue.top());
    queue.pop();
    const u32 here = nodes[at].configuration;
    if (complete(here)) {
      std::string text;
      for (u32 node = at; node != 0; node = nodes[node].parent) {
        text.push_back(static_cast<char>(nodes[node].byte));
        if (!greedy) lengths_.insert(nodes[node].configuration, nodes[at].length - nodes[node].length);
      }
      std::reverse(text.begin(), text.end());
      lengths_.insert(configuration, static_cast<u32>(text.size()));
      return text;
    }
    if (nodes[at].length > reached[here]) continue;
    if (!greedy && nodes.size() > (met_guard ? PATIENCE : 8 * PATIENCE)) {
      greedy = true;
      while (!queue.empty()) queue.pop();
    }
    if (nodes.size() > MOST_NODES + 4 * first)
      throw LimitExceeded("states", static_cast<double>(MOST_NODES), "the search for a completion met more than " + std::to_string(MOST_NODES + 4 * first) + " states");
    const u32 length = nodes[at].length + 1;
    met_guard |= guarded_[here] != 0;
    for (u32 i = 0; i < entry_count(here); i++) {
      const u32 frame = entries(here)[i].frame;
      if (frame == BOTTOM) continue;
      frames_.build(frame);
      for (u32 r = 0; r < frames_[frame].range_count; r++) {
        const Range range = frames_.range(frame, r);
        for (u32 b = range.lo; b <= range.hi; b++) {
          const u32 next = step(here, static_cast<u8>(b));
          if (next != NO_STACK) {
            const u64 ahead = distance(next);
            const auto [found, added] = reached.try_emplace(next, length);
            if (ahead != NONE && (added || length < found->second)) {
              found->second = length;
              nodes.push_back({next, at, length, static_cast<u8>(b)});
              queue.push({length + (greedy ? WEIGHT : 1) * ahead, static_cast<u32>(ahead), ~static_cast<u32>(nodes.size() - 1)});
            }
          }
          if (!guarded_[here]) break;  // all bytes of a range lead the same way
        }
      }
    }
  }
  throw BadGrammar(NO_COMPLETION);
}

}  // namespace stackmask
