// Rewrites left recursive NFAs into NFAs without left recursion and with few calls, which the matchers can run.
#include <algorithm>

#include "grammar/components.h"
#include "rules/nfa.h"

namespace stackmask {

namespace {

class Rewriter {
 public:
  Rewriter(Nfa& nfa, const Thresholds& thresholds, const Limits& limits, Deadline& deadline)
      : nfa_(nfa), thresholds_(thresholds), limits_(limits), deadline_(deadline) {}

  void run() {
    find_nullable();
    rewrite_left_recursion();
    trim();
    mark_recursive();
    inline_rules();
    rank();
    nfa_.root_called = false;
    for (const NfaState& state : nfa_.states)
      for (u32 e = state.first; e != NONE; e = nfa_.edges[e].next)
        nfa_.root_called = nfa_.root_called || (nfa_.edges[e].kind == EDGE_CALL && nfa_.edges[e].callee() == nfa_.root);
  }

 private:
  Nfa& nfa_;
  const Thresholds& thresholds_;
  const Limits& limits_;
  Deadline& deadline_;
  std::vector<std::vector<RuleId>> left_;  // rules that a rule may call before it has read anything

  void check_states() {
    if (nfa_.states.size() > limits_.states)
      throw LimitExceeded("states", static_cast<double>(limits_.states),
                          "the grammar needs more than " + std::to_string(limits_.states) + " NFA states");
  }

  template <class F>
  void each_edge(NfaStateId state, F f) {
    for (u32 e = nfa_.states[state].first; e != NONE; e = nfa_.edges[e].next) f(e);
  }

  // A rule is nullable if its final state is in the closure of its start; left_ falls out of the same closures.
  void find_nullable() {
    Closure closure(nfa_);
    left_.assign(nfa_.rules.size(), {});
    std::vector<std::vector<RuleId>> waiting(nfa_.rules.size());
    std::vector<RuleId> work;
    for (const RuleId r : nfa_.each_rule())
      if (!nfa_.rules[r].merged) work.push_back(r);
    while (!work.empty()) {
      const RuleId r = work.back();
      work.pop_back();
      deadline_.check();
      closure.begin();
      closure.add(nfa_.rules[r].start, ZERO_REGISTER);
      closure.run();
      left_[r].clear();
      bool nullable = nfa_.rules[r].nullable;
      for (const Item& item : closure.result) {
        if (item.state == nfa_.rules[r].final) nullable = true;
        each_edge(item.state, [&](u32 e) {
          const Edge& edge = nfa_.edges[e];
          if (edge.kind != EDGE_CALL) return;
          left_[r].push_back(edge.callee());
          if (!nfa_.rules[edge.callee()].nullable && !(edge.flags & EDGE_NONEMPTY)) waiting[edge.callee()].push_back(r);
        });
      }
      std::sort(left_[r].begin(), left_[r].end());
      left_[r].erase(std::unique(left_[r].begin(), left_[r].end()), left_[r].end());
      if (nullable && !nfa_.rules[r].nullable) {
        nfa_.rules[r].nullable = true;
        for (const RuleId caller : waiting[r]) work.push_back(caller);
        waiting[r].clear();
      }
    }
  }

  // A state is productive if it can reach the end of its rule through productive rules: a fixpoint, backwards.
  void trim() {
    const u32 n = static_cast<u32>(nfa_.states.size());
    struct Back {
      NfaStateId source;
      RuleId call;  // the rule that the edge calls, NONE for others
    };
    std::vector<u32> begin(n + 1, 0);  // the edges into s: back[begin[s], begin[s + 1])
    for (const NfaState& state : nfa_.states)
      for (u32 e = state.first; e != NONE; e = nfa_.edges[e].next) begin[nfa_.edges[e].target + 1]++;
    for (u32 i = 1; i <= n; i++) begin[i] += begin[i - 1];
    std::vector<Back> back(begin[n]);
    std::vector<u32> cursor(begin.begin(), begin.end() - 1);
    for (const NfaStateId s : nfa_.each_state())
      each_edge(s, [&](u32 e) {
        const Edge& edge = nfa_.edges[e];
        back[cursor[edge.target]++] = {s, edge.kind == EDGE_CALL ? edge.callee() : NONE};
      });
    std::vector<u8> productive(n, 0), rule_productive(nfa_.rules.size(), 0);
    std::vector<std::vector<NfaStateId>> waiting(nfa_.rules.size());
    std::vector<std::pair<NfaStateId, NfaStateId>> heads;  // (state whose being productive concerns a head, head state), sorted
    std::vector<RuleId> rule_of_start(n, NONE);
    std::vector<NfaStateId> work;
    for (const RuleId r : nfa_.each_rule()) rule_of_start[nfa_.rules[r].start] = r;
    for (const NfaStateId s : nfa_.each_state()) {
      if (nfa_.counting(s).head == NONE) continue;
      const Head& head = nfa_.heads[nfa_.counting(s).head];
      heads.push_back({head.exit, s});
      heads.push_back({head.body, s});
      for (const NfaStateId member : head.members) heads.push_back({member, s});
    }
    std::sort(heads.begin(), heads.end());
    std::vector<u8> concerns(n, 0);  // the first of a pair in heads
    for (const auto& [state, head] : heads) concerns[state] = 1;
    auto mark = [&](NfaStateId s) {
      if (!productive[s]) productive[s] = 1, work.push_back(s);
    };
    auto visit_head = [&](NfaStateId s) {
      const Head& head = nfa_.heads[nfa_.counting(s).head];
      if (!productive[head.exit]) return;
      // The end of a body is productive as soon as the exit is: that it was reached shows that bodies can be read.
      for (u32 i = begin[s]; i < begin[s + 1]; i++)
        if (nfa_.counting(back[i].source).body == nfa_.counting(s).head || head.after_separator) mark(back[i].source);
      if (!head.permutation) {
        if ((head.minimum == 0 && !head.automaton) || productive[head.body]) mark(s);
        return;
      }
      u64 members = 0, needed = 0;
      bool repeatable = false, required = true;
      for (u32 i = 0; i < head.members.size(); i++) {
        members += productive[head.members[i]];
        repeatable |= productive[head.members[i]] && (head.flags[i] & REPEATABLE);
        required &= productive[head.members[i]] || !(head.flags[i] & REQUIRED);
        needed += (head.flags[i] & REQUIRED) != 0;
      }
      if (std::max<u64>(needed, head.minimum) > head.maximum) return;
      // Two members or more take a separator between them.
      if (std::max<u64>(needed, head.minimum) > 1 && !head.after_separator && !productive[head.body]) return;
      if (required && (members >= head.minimum || repeatable)) mark(s);
    };
    for (const Rule& rule : nfa_.rules) mark(rule.final);
    while (!work.empty()) {
      const NfaStateId t = work.back();
      work.pop_back();
      deadline_.check();
      if (concerns[t])
        for (auto at = std::lower_bound(heads.begin(), heads.end(), std::pair{t, NfaStateId(0)}); at != heads.end() && at->first == t; ++at)
          visit_head(at->second);
      for (u32 i = begin[t]; i < begin[t + 1]; i++) {
        const Back& edge = back[i];
        if (productive[edge.source]) continue;
        if (edge.call != NONE && !rule_productive[edge.call]) waiting[edge.call].push_back(edge.source);
        else mark(edge.source);
      }
      if (const RuleId r = rule_of_start[t]; r != NONE && !rule_productive[r]) {
        rule_productive[r] = 1;
        for (const NfaStateId source : waiting[r]) mark(source);
        waiting[r].clear();
      }
    }
    if (!rule_productive[nfa_.root]) throw Unsatisfiable("the grammar generates no text");
    for (const NfaStateId s : nfa_.each_state()) {
      u32* link = &nfa_.states[s].first;
      while (*link != NONE) {
        Edge& edge = nfa_.edges[*link];
        if (!productive[edge.target] || (edge.kind == EDGE_CALL && !rule_productive[edge.callee()])) *link = edge.next;
        else link = &edge.next;
      }
    }
    for (Head& head : nfa_.heads) {
      if (!head.permutation) {
        if (!productive[head.body]) head.maximum = 0, head.minimum = 0;
        continue;
      }
      // Members keep their numbers, for EDGE_MEMBER names them.
      for (u32 i = 0; i < head.members.size(); i++)
        if (!productive[head.members[i]]) head.flags[i] = NEVER_MEMBER;
      head.index_members();
      if (!productive[head.body]) head.maximum = std::min(head.maximum, 1u);
    }
  }

  // Strongly connected components of the left-call graph that contain a cycle.
  std::vector<std::vector<RuleId>> left_recursive() {
    std::vector<std::vector<RuleId>> cyclic;
    components(left_, [&](const std::vector<RuleId>& component) {
      const RuleId r = component[0];
      if (component.size() > 1 || std::binary_search(left_[r].begin(), left_[r].end(), r)) cyclic.push_back(component);
    });
    return cyclic;
  }

  template <class F>
  void components(const std::vector<std::vector<RuleId>>& graph, F emit) {
    Components found(graph.size());
    for (const RuleId root : nfa_.each_rule()) {
      if (found.reached(root)) continue;
      found.reach(
          root, [&](u32 rule) { return graph[rule].size(); }, [&](u32 rule, std::size_t i) { return u32{graph[rule][i]}; }, [](u32) {},
          [&](const std::vector<u32>& rules) { emit(std::vector<RuleId>(rules.begin(), rules.end())); });
    }
  }

  // Left-corner transform on automata. Within a component, A => B1 x1 => B2 x2 x1 => ... => y xk ... x1: a text of A is a seed y
  // of some Bk (a path that does not begin by calling into the component), followed from the bottom up by what the callers still
  // read after their left calls. So A becomes: the seeds of all members, and from the end of a member B to wherever a member
  // stands after a left call of B. Its other calls stay calls.
  //
  // Only members that are still called need this: from outside of the component, or from what follows a seed. Of rules in a row that call
  // each other first that is one, so that they take states linear in their number, and quadratic at most.
  void rewrite_left_recursion() {
    struct Seed {
      Item item;
      RuleId rule;
    };
    Closure closure(nfa_);
    const std::vector<std::vector<RuleId>> cyclic = left_recursive();
    std::vector<u8> called = called_from_other_components(cyclic);
    for (const std::vector<RuleId>& component : cyclic) {
      std::vector<u8> inside(nfa_.rules.size(), 0);
      for (const RuleId r : component) inside[r] = 1;
      std::vector<Seed> seeds;
      for (const RuleId r : component) {
        if (nfa_.rules[r].scope) throw BadGrammar("left recursion through a SCOPE");
        // Of a rule that is left recursive by itself alone all that begins at one place is one region.
        if (nfa_.rules[r].is_region() && component.size() > 1)
          throw BadGrammar("left recursion of several rules through a LIMIT or a TEMPERATURE");
        closure.begin();
        closure.add(nfa_.rules[r].start, ZERO_REGISTER);
        closure.run();
        for (const Item& item : closure.result)
          if (item.state != nfa_.rules[r].final) seeds.push_back({item, r});
      }
      // All states of the component's rules that follow a seed or a left call.
      std::vector<NfaStateId> states, work;
      for (const RuleId r : component) work.push_back(nfa_.rules[r].final);
      for (const Seed& seed : seeds) each_edge(seed.item.state, [&](u32 e) { work.push_back(nfa_.edges[e].target); });
      collect(work, states);
      for (const NfaStateId s : states)
        each_edge(s, [&](u32 e) {
          if (nfa_.edges[e].kind == EDGE_CALL) called[nfa_.edges[e].callee()] = 1;
        });
      bool counts = false;
      for (const RuleId r : component) counts |= nfa_.rules[r].counts;
      // Rules that do not count may be inlined into a body that does: its count goes on through them.
      auto set = [&](NfaStateId from, NfaStateId to, RegisterId reg) {
        if (counts) nfa_.add_edge(from, EDGE_SET, to, reg);
        else nfa_.add_edge(from, EDGE_EPSILON, to);
      };
      struct Redefinition {
        RuleId rule;
        NfaStateId start, final;
      };
      std::vector<Redefinition> redefinitions;
      for (const RuleId a : component) {
        if (!called[a]) {  // its texts are read as those of its callers
          const NfaStateId start = nfa_.add_state(a);
          redefinitions.push_back({a, start, nfa_.add_state(a)});
          continue;
        }
        nfa_.rewritten_rules++;
        copy_states(states, a);
        auto at = [&](NfaStateId state) { return copy_of_[state]; };
        const NfaStateId start = nfa_.add_state(a);
        for (const Seed& seed : seeds) {
          const NfaStateId entry = nfa_.add_state(a);
          set(start, entry, seed.item.reg);
          std::vector<u32> list;
          each_edge(seed.item.state, [&](u32 e) { list.push_back(e); });
          for (const u32 e : list) {
            const Edge edge = nfa_.edges[e];
            if (edge.kind == EDGE_CALL && inside[edge.callee()]) {
              if (edge.flags & EDGE_DISTINCT) throw BadGrammar("left recursion through a DISTINCT");
              set(at(nfa_.rules[edge.callee()].final), at(edge.target), seed.item.reg);
            } else if (edge.kind == EDGE_BYTE || edge.kind == EDGE_DEFAULT || edge.kind == EDGE_TOKEN || edge.kind == EDGE_CALL ||
                       edge.kind == EDGE_NON_ASCII) {
              // That a call may read nothing is already in the closure: the states behind it are seeds themselves.
              const u8 flags = edge.kind == EDGE_CALL ? edge.flags | EDGE_NONEMPTY : edge.flags;
              nfa_.add_edge(entry, edge.kind, at(edge.target), edge.data, edge.lo, edge.hi, flags);
            }
          }
          nfa_.states[entry].partial_non_ascii = nfa_.states[seed.item.state].partial_non_ascii;
        }
        // A separate end, so that the empty text does not pass through the end that left calls continue from.
        const NfaStateId end = nfa_.add_state(a);
        nfa_.add_edge(at(nfa_.rules[a].final), EDGE_EPSILON, end);
        if (nfa_.rules[a].nullable) nfa_.add_edge(start, EDGE_EPSILON, end);
        redefinitions.push_back({a, start, end});
        check_states();
      }
      for (const auto& [rule, start, final] : redefinitions) {
        nfa_.rules[rule].start = start;
        nfa_.rules[rule].final = final;
        nfa_.rules[rule].counts = counts;
      }
    }
    find_nullable();
    if (!left_recursive().empty()) throw BadGrammar("left recursion that could not be rewritten");
  }
  // By rule: it is the root, or called by a rule that is not in its component of left recursive rules.
  std::vector<u8> called_from_other_components(const std::vector<std::vector<RuleId>>& cyclic) {
    std::vector<u32> component_of(nfa_.rules.size(), NONE);
    for (u32 i = 0; i < cyclic.size(); i++)
      for (const RuleId r : cyclic[i]) component_of[r] = i;
    std::vector<u8> called(nfa_.rules.size(), 0);
    called[nfa_.root] = 1;
    for (const NfaState& state : nfa_.states)
      for (u32 e = state.first; e != NONE; e = nfa_.edges[e].next) {
        if (nfa_.edges[e].kind != EDGE_CALL) continue;
        const RuleId callee = nfa_.edges[e].callee();
        if (component_of[callee] == NONE || component_of[callee] != component_of[state.rule]) called[callee] = 1;
      }
    return called;
  }

  // The states that those in `work` lead to, and these themselves.
  void collect(std::vector<NfaStateId>& work, std::vector<NfaStateId>& states) {
    std::vector<u8> visited(nfa_.states.size(), 0);
    while (!work.empty()) {
      const NfaStateId s = work.back();
      work.pop_back();
      if (visited[s]) continue;
      visited[s] = 1;
      states.push_back(s);
      each_edge(s, [&](u32 e) { work.push_back(nfa_.edges[e].target); });
      if (nfa_.counting(s).head != NONE) {
        const Head& head = nfa_.heads[nfa_.counting(s).head];
        work.push_back(head.body);
        work.push_back(head.exit);
        for (const NfaStateId member : head.members) work.push_back(member);
      }
    }
  }

  // Copies of states with their edges among themselves; `flags` are added to the calls among them. copy_of_ then maps states to copies.
  std::vector<NfaStateId> copy_states(const std::vector<NfaStateId>& states, RuleId rule, u8 flags = 0) {
    std::vector<NfaStateId> copy(states.size());
    copy_of_.resize(nfa_.states.size() + states.size(), NONE);
    std::vector<std::pair<u32, u32>> head_copies;
    for (std::size_t i = 0; i < states.size(); i++) {
      copy[i] = NfaStateId(static_cast<u32>(nfa_.states.size()));
      NfaState state = nfa_.states[states[i]];
      state.rule = rule;
      state.first = NONE;
      nfa_.states.push_back(state);
      if (const u32 original = nfa_.counting(copy[i]).head; original != NONE) {
        const Head head = nfa_.heads[original];
        const u32 added = static_cast<u32>(nfa_.heads.size());
        head_copies.push_back({original, added});
        nfa_.set_head(copy[i], added);
        nfa_.heads.push_back(head);
      }
      copy_of_[states[i]] = copy[i];
    }
    check_states();
    auto at = [&](NfaStateId state) { return copy_of_[state]; };
    std::sort(head_copies.begin(), head_copies.end());
    for (const NfaStateId state : copy) {
      const u32 body = nfa_.counting(state).body;
      if (body == NONE) continue;
      const auto found = std::lower_bound(head_copies.begin(), head_copies.end(), std::pair<u32, u32>{body, 0});
      if (found == head_copies.end() || found->first != body) continue;
      nfa_.change_counting(state, [&](Counting& counting) { counting.body = found->second; });
    }
    for (const auto& [original, added] : head_copies) {
      Head& head = nfa_.heads[added];
      head.body = at(head.body);
      head.exit = at(head.exit);
      for (NfaStateId& member : head.members) member = at(member);
    }
    for (std::size_t i = 0; i < states.size(); i++) {
      deadline_.check();
      for (u32 e = nfa_.states[states[i]].first; e != NONE; e = nfa_.edges[e].next) {
        const Edge edge = nfa_.edges[e];
        nfa_.add_edge(copy[i], edge.kind, at(edge.target), edge.data, edge.lo, edge.hi,
                      edge.kind == EDGE_CALL ? edge.flags | flags : edge.flags);
      }
    }
    return copy;
  }

  std::vector<NfaStateId> copy_of_;

  // The states of each rule, and which rules it calls, a callee as often as it is called.
  void survey() {
    rule_states_.assign(nfa_.rules.size(), {});
    graph_.assign(nfa_.rules.size(), {});
    for (const NfaStateId s : nfa_.each_state()) {
      const RuleId rule = nfa_.states[s].rule;
      rule_states_[rule].push_back(s);
      each_edge(s, [&](u32 e) {
        if (nfa_.edges[e].kind == EDGE_CALL) graph_[rule].push_back(nfa_.edges[e].callee());
      });
    }
  }
  std::vector<std::vector<NfaStateId>> rule_states_;

  void mark_recursive() {
    survey();
    order_.clear();
    components(graph_, [&](const std::vector<RuleId>& component) {
      const RuleId r = component[0];
      const bool cycle = component.size() > 1 || std::find(graph_[r].begin(), graph_[r].end(), r) != graph_[r].end();
      for (const RuleId rule : component) {
        nfa_.rules[rule].recursive = cycle;
        order_.push_back(rule);  // callees come before their callers
      }
    });
  }
  std::vector<std::vector<RuleId>> graph_;
  std::vector<RuleId> order_;

  // Calls of small rules, and of rules that are called once, become the callee's states: states of one rule need no stack, and a
  // rule that ends inside a large loop would hand over a large set of trie nodes.
  void inline_rules() {
    const std::size_t count = nfa_.rules.size();
    std::vector<u32> callers(count, 0);
    for (const auto& callees : graph_)
      for (const RuleId callee : callees) callers[callee]++;
    callers[nfa_.root]++;
    open_.assign(count, 0);
    std::vector<u32> sizes(count, NONE);  // known once a rule's own calls have been seen to
    const u64 budget = inlining_budget(nfa_.states.size());
    // A rule that is called once is searched as a part of its caller, or the work would be quadratic in chains of such rules;
    // those whose only call cannot be inlined come last.
    std::vector<RuleId> order;
    for (const bool once : {false, true})
      for (const RuleId rule : order_)
        if ((callers[rule] == 1 && rule != nfa_.root) == once) order.push_back(rule);
    for (const RuleId caller : order) {
      if (nfa_.rules[caller].merged) continue;
      std::vector<NfaStateId>& states = rule_states_[caller];
      for (std::size_t i = 0; i < states.size(); i++) {  // states grows: new ones are searched too
        u32* link = &nfa_.states[states[i]].first;
        while (*link != NONE) {
          const Edge edge = nfa_.edges[*link];
          if (edge.kind != EDGE_CALL || !inlinable(caller, edge, callers, budget, sizes)) {
            link = &nfa_.edges[*link].next;
            continue;
          }
          deadline_.check();
          *link = edge.next;
          const std::vector<NfaStateId> added = splice(states[i], edge, caller, callers[edge.callee()] == 1);
          nfa_.rules[edge.callee()].merged |= callers[edge.callee()] == 1;
          nfa_.rules[caller].counts |= nfa_.rules[edge.callee()].counts;
          states.insert(states.end(), added.begin(), added.end());
          link = &nfa_.states[states[i]].first;  // states and edges may have moved
        }
      }
      sizes[caller] = static_cast<u32>(states.size());
      open_[caller] = ends_open(states, nfa_.rules[caller].final);
    }
  }

  bool inlinable(RuleId caller, const Edge& edge, const std::vector<u32>& callers, u64 budget, const std::vector<u32>& sizes) const {
    const Rule& callee = nfa_.rules[edge.callee()];
    if (edge.callee() == caller || callee.scope || callee.is_region() || (edge.flags & (EDGE_NONEMPTY | EDGE_DISTINCT))) return false;
    if (callee.counts && (edge.flags & EDGE_IN_BODY)) return false;
    if (callers[edge.callee()] == 1) return true;
    const u32 size = sizes[edge.callee()];
    if (callee.recursive || size == NONE || nfa_.states.size() + size > budget) return false;
    return size <= thresholds_.inlined_states || (size <= thresholds_.inlined_open_states && open_[edge.callee()]);
  }
  std::vector<u8> open_;  // by rule: it may end where it may also go on reading

  bool ends_open(const std::vector<NfaStateId>& states, NfaStateId final) const {
    for (const NfaStateId s : states) {
      bool ends = false, goes_on = false;
      for (u32 e = nfa_.states[s].first; e != NONE; e = nfa_.edges[e].next)
        (nfa_.edges[e].target == final && nfa_.edges[e].kind == EDGE_EPSILON ? ends : goes_on) = true;
      if (ends && goes_on) return true;
    }
    return false;
  }

  // An origin with its outermost rule inlined into `parent`.
  u32 under(u32 origin, u32 parent) {
    std::vector<u32> chain;
    for (u32 at = origin; at != NONE && chain.size() < 64; at = nfa_.origins[at].parent) chain.push_back(nfa_.origins[at].name);
    for (; !chain.empty(); chain.pop_back()) {
      nfa_.origins.push_back({chain.back(), parent});
      parent = static_cast<u32>(nfa_.origins.size() - 1);
    }
    return parent;
  }

  // Puts the callee's states where the call was; returns them.
  std::vector<NfaStateId> splice(NfaStateId source, const Edge& edge, RuleId caller, bool only) {
    const Rule callee = nfa_.rules[edge.callee()];
    const std::vector<NfaStateId>& states = rule_states_[edge.callee()];
    std::vector<NfaStateId> inlined;
    NfaStateId start = callee.start, final = callee.final;
    const u8 flags = edge.flags & EDGE_IN_BODY;
    if (only) {
      inlined = states;
      for (const NfaStateId s : states) {
        nfa_.states[s].rule = caller;
        for (u32 e = nfa_.states[s].first; e != NONE; e = nfa_.edges[e].next)
          if (nfa_.edges[e].kind == EDGE_CALL) nfa_.edges[e].flags |= flags;
      }
    } else {
      inlined = copy_states(states, caller, flags);
      start = copy_of_[start];
      final = copy_of_[final];
    }
    if (flags) {  // they lie in the body that the call lay in
      const Counting around = nfa_.counting(source);
      for (const NfaStateId s : inlined)
        nfa_.change_counting(s, [&](Counting& counting) { counting.body = around.body, counting.member = around.member; });
    }
    const u32 parent = nfa_.states[source].origin;
    std::vector<std::pair<u32, u32>> origins;  // of the callee's states, and the same below the caller's
    for (const NfaStateId s : inlined) {
      const u32 before = nfa_.states[s].origin;
      auto found = std::find_if(origins.begin(), origins.end(), [&](const auto& pair) { return pair.first == before; });
      if (found == origins.end()) found = origins.insert(origins.end(), {before, under(before, parent)});
      nfa_.states[s].origin = found->second;
    }
    nfa_.add_edge(final, EDGE_EPSILON, edge.target);
    nfa_.add_edge(source, EDGE_EPSILON, start);
    return inlined;
  }

  // Ranks so that a rule that calls another before reading anything comes first: the order in which a closure expands calls.
  void rank() {
    find_nullable();
    u32 next = static_cast<u32>(nfa_.rules.size());
    components(left_, [&](const std::vector<RuleId>& component) {
      for (const RuleId rule : component) nfa_.rules[rule].rank = --next;
    });
  }
};

}  // namespace

void rewrite(Nfa& nfa, const Thresholds& thresholds, const Limits& limits, Deadline& deadline) {
  Rewriter(nfa, thresholds, limits, deadline).run();
}

}  // namespace stackmask
