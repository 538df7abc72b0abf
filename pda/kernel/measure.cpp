// Least lengths: of what every state still has to read, and of every rule's texts. Knuth's generalisation of Dijkstra's algorithm
// (1977): values are settled in increasing order, a call's weight is known once its rule is settled.
// What these lengths say of a configuration is a bound; the length of its shortest completion is this bound wherever a way goes straight
// down to an end, which is remembered of every configuration on the way.
#include <algorithm>
#include <queue>

#include "automaton.h"

namespace stackmask {

namespace {

class Measure {
 public:
  Measure(Nfa& nfa, Deadline& deadline) : nfa_(nfa), deadline_(deadline) {}

  void run() {
    nfa_.complete(deadline_);
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
    }
    for (u32 r = 0; r < nfa_.rules.size(); r++) nfa_.rules[r].shortest = best_[states_ + r];
    for (u32 s = 0; s < states_; s++) nfa_.states[s].distance = best_[s];
  }

 private:
  // Nodes: the states, then one for each rule: its shortest text that is not empty.
  struct Back {
    u32 source, call;
    u8 weight;
  };
  Nfa& nfa_;
  Deadline& deadline_;
  u32 states_ = 0;
  std::vector<u32> begin_, best_;
  std::vector<Back> back_;
  std::vector<std::pair<u32, u32>> heads_;
  std::vector<u8> settled_;
  std::vector<std::vector<std::pair<u32, u32>>> waiting_;  // by rule: (source, distance of the call's target)
  using Entry = std::pair<u32, u32>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;

  // It lies in the body of a repetition or permutation, and measures to the body's end. In a counted automaton a state measures to
  // the end of its rule.
  bool counts_bodies(u32 s) const { return nfa_.states[s].body != NONE && !nfa_.heads[nfa_.states[s].body].automaton; }

  void propose(u32 node, u64 distance) {
    const u32 value = static_cast<u32>(std::min<u64>(distance, 0xF0000000u));
    if (value < best_[node]) {
      best_[node] = value;
      queue_.push({value, node});
    }
  }

  void index() {
    states_ = static_cast<u32>(nfa_.states.size());
    const u32 rules = static_cast<u32>(nfa_.rules.size());
    best_.assign(states_ + rules, NONE);
    settled_.assign(states_ + rules, 0);
    waiting_.resize(rules);
    std::vector<std::pair<u32, Back>> edges;
    auto add = [&](u32 source, const Edge& edge) {
      switch (edge.kind) {
        case EDGE_BYTE:
        case EDGE_TOKEN: edges.push_back({edge.target, {source, NONE, 1}}); break;
        case EDGE_CALL: edges.push_back({edge.target, {source, edge.data, 0}}); break;
        case EDGE_REST:
          for (u32 e = nfa_.states[edge.target].first; e != NONE; e = nfa_.edges[e].next)
            if (nfa_.edges[e].kind == EDGE_BYTE) edges.push_back({nfa_.edges[e].target, {source, NONE, 1}});
          break;
        default: break;
      }
    };
    for (u32 s = 0; s < states_; s++)
      for (u32 e = nfa_.states[s].first; e != NONE; e = nfa_.edges[e].next) {
        const Edge& edge = nfa_.edges[e];
        add(s, edge);
        if (edge.kind == EDGE_EPSILON || edge.kind == EDGE_SET || edge.kind == EDGE_ENTER || edge.kind == EDGE_LEAVE ||
            (edge.kind == EDGE_COUNT && !counts_bodies(s)))
          edges.push_back({edge.target, {s, NONE, 0}});
        if (edge.kind == EDGE_CALL && nfa_.rules[edge.data].nullable && !(edge.flags & EDGE_NONEMPTY)) edges.push_back({edge.target, {s, NONE, 0}});
      }
    Closure closure(nfa_);
    for (u32 r = 0; r < rules; r++) {
      if (nfa_.rules[r].merged) continue;
      closure.begin();
      closure.add(nfa_.rules[r].start, 0);
      closure.run();
      for (const Item& item : closure.result)
        for (u32 e = nfa_.states[item.state].first; e != NONE; e = nfa_.edges[e].next) {
          // An edge inside of a body measures to the body's end only; its rule is then measured by its start, below.
          if (!counts_bodies(item.state)) add(states_ + r, nfa_.edges[e]);
        }
      if (!nfa_.rules[r].nullable) edges.push_back({nfa_.rules[r].start, {states_ + r, NONE, 0}});
    }
    begin_.assign(states_ + 1, 0);
    for (const auto& edge : edges) begin_[edge.first + 1]++;
    for (u32 i = 1; i <= states_; i++) begin_[i] += begin_[i - 1];
    back_.resize(edges.size());
    std::vector<u32> cursor(begin_.begin(), begin_.end() - 1);
    for (const auto& [target, back] : edges) back_[cursor[target]++] = back;
    for (u32 s = 0; s < states_; s++) {
      if (nfa_.states[s].head == NONE || nfa_.states[s].body != NONE) continue;
      const Head& head = nfa_.heads[nfa_.states[s].head];
      heads_.push_back({head.exit, s});
      heads_.push_back({head.body, s});
      for (const u32 member : head.members) heads_.push_back({member, s});
    }
    std::sort(heads_.begin(), heads_.end());
  }

  void settle_state(u32 t, u32 distance) {
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
    for (auto at = std::lower_bound(heads_.begin(), heads_.end(), std::pair<u32, u32>{t, 0}); at != heads_.end() && at->first == t; ++at) {
      const Head& head = nfa_.heads[nfa_.states[at->second].head];
      for (u32 s : {head.exit}) nfa_.states[s].distance = best_[s];
      nfa_.states[head.body].distance = settled_[head.body] ? best_[head.body] : NONE;
      for (const u32 member : head.members) nfa_.states[member].distance = settled_[member] ? best_[member] : NONE;
      if (!settled_[head.exit]) continue;
      if (const u64 whole = nfa_.distance_of_head(head, {}); whole < NONE) propose(at->second, whole);
    }
  }

  void settle_rule(u32 rule, u32 distance) {
    for (const auto& [source, rest] : waiting_[rule]) propose(source, static_cast<u64>(rest) + distance);
    waiting_[rule].clear();
  }
};

}  // namespace

u64 Nfa::distance_of_head(const Head& head, const Register& reg) const {
  const u64 exit = states[head.exit].distance;
  if (head.automaton) {  // a lower bound: every character missing takes a byte
    const u64 body = states[head.body].distance;
    const u64 missing = reg.count < COUNT_DEEP && reg.count < head.minimum ? head.minimum - reg.count : 0;
    return body == NONE ? NONE : std::max(body, exit + missing);
  }
  if (!head.permutation) {
    const u64 missing = reg.count < COUNT_DEEP && reg.count < head.minimum ? head.minimum - reg.count : 0;
    if (missing == 0) return exit;
    const u64 body = states[head.body].distance;
    return body == NONE ? NONE : exit + missing * body;
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
    if (std::min(other, repeatable) >= NONE) return NONE;
    if (other <= repeatable) next++;
    total += std::min(other, repeatable);
  }
  const u64 separators = chosen == 0 ? 0 : chosen - (reg.count == 0 && !head.after_separator ? 1 : 0) - (head.after_separator ? 1 : 0);
  if (separators) {
    const u64 separator = states[head.body].distance;
    if (separator == NONE) return NONE;
    total += separators * separator;
  }
  return total;
}

u64 Nfa::distance(Item item) const {
  const State& state = states[item.state];
  const u64 here = state.distance;
  if (state.body == NONE) return here;
  const Head& head = heads[state.body];
  Register reg = registers.get(item.reg);
  if (head.automaton) {
    const u64 missing = reg.count < COUNT_DEEP && reg.count < head.minimum ? head.minimum - reg.count : 0;
    return here == NONE ? NONE : std::max(here, states[head.exit].distance + missing);
  }
  if (!head.permutation) {
    if (reg.count < COUNT_DEEP) reg.count++;
    return here + distance_of_head(head, reg);
  }
  if (state.member == NONE) {  // in the separator: a member must follow
    Head after = head;
    after.after_separator = true;
    u64 best = NONE;
    for (u32 i = 0; i < head.members.size(); i++) {
      if (!member_available(registers, head, reg, i)) continue;
      best = std::min<u64>(best, head.members[i] < states.size() ? distance({head.members[i], item.reg}) : NONE);
    }
    return here + best;
  }
  // The member's use is not in the register yet.
  Registers& mutable_registers = const_cast<Registers&>(registers);
  if (!(head.flags[state.member] & REPEATABLE) || (head.flags[state.member] & REQUIRED)) reg.used = mutable_registers.use(reg.used, state.member);
  reg.count++;
  return here + distance_of_head(head, reg);
}

void measure(Nfa& nfa, Deadline& deadline) { Measure(nfa, deadline).run(); }

u64 Automaton::shortest_length(u32 configuration) {
  if (const u32* known = lengths_.find(configuration)) return *known;
  if (complete(configuration)) return 0;
  // Down by the way that shortest() takes, up to where it may have to search; regions make a step depend on more than the configuration.
  std::vector<u32> way;
  u32 here = configuration;
  u64 left = distance(here);
  bool straight = !limited_ && left <= limits_.stack_depth;
  while (straight && !complete(here)) {
    if (const u32* known = lengths_.find(here)) {
      straight = *known == left;
      break;
    }
    way.push_back(here);
    here = below(here, left);
    straight = here != NO_STACK && distance(here) + 1 == left;
    left--;
  }
  if (!straight) {
    const u64 length = shortest(configuration).size();
    if (!limited_) lengths_.insert(configuration, static_cast<u32>(length));
    return length;
  }
  for (std::size_t i = 0; i < way.size(); i++) lengths_.insert(way[i], static_cast<u32>(left + way.size() - i));
  return left + way.size();
}

u32 Automaton::below(u32 configuration, u64 length) {
  if (guarded_[configuration]) return NO_STACK;
  for (u32 i = 0; i < entry_count(configuration); i++) {
    const u32 frame = entries(configuration)[i].frame;
    if (frame == BOTTOM) continue;
    frames_.build(frame);
    for (u32 r = 0; r < frames_[frame].range_count; r++) {
      const u32 next = step(configuration, frames_.range(frame, r).lo);
      if (next != NO_STACK && distance(next) < length) return guarded_[next] ? NO_STACK : next;
    }
  }
  return NO_STACK;
}

}  // namespace stackmask
