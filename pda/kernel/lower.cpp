// Expressions to NFAs: Thompson's construction, with characters spelled out as bytes and long repetitions as counters.
#include <algorithm>
#include <array>
#include <map>

#include "nfa.h"
#include "trie.h"

namespace stackmask {

namespace {

constexpr u64 UNROLL = 24;  // states a repetition may be unrolled to instead of counted
constexpr u32 SHARED = 12;  // states from which an expression that stands in several places becomes a rule

class Lowering {
 public:
  Lowering(const Expressions& expressions, const Limits& limits, Deadline& deadline, bool apart)
      : ex_(expressions), limits_(limits), deadline_(deadline), apart_(apart) {}

  Nfa run() {
    nfa_.names = ex_.names;
    rule_of_.assign(ex_.rules.size(), NONE);
    sizes();
    nfa_.root = rule(ex_.root);
    while (!pending_.empty()) {
      const Pending job = pending_.back();
      pending_.pop_back();
      current_ = job.rule;
      scope_ = nfa_.rules[job.rule].scope;
      Rule& rule = nfa_.rules[job.rule];
      rule.start = nfa_.add_state(job.rule);
      rule.final = nfa_.add_state(job.rule);
      lower(job.node, rule.start, rule.final);
      nfa_.rules[job.rule].counts = counts_;
      counts_ = false;
    }
    rank_temperatures();
    if (std::any_of(nfa_.rules.begin(), nfa_.rules.end(), [](const Rule& rule) { return rule.marked(); })) check_scopes();
    nfa_.trimmed = all_productive();
    return std::move(nfa_);
  }

 private:
  struct Task {
    u32 node, from, to;
    u32 body, member;  // the counted body it lies in
    bool whole = false;  // the whole of a rule, which is not made a rule again
    bool in_body() const { return body != NONE; }
  };
  struct Pending {
    u32 rule, node;
  };
  const Expressions& ex_;
  const Limits& limits_;
  Deadline& deadline_;
  bool apart_;  // counted repetitions are rules of their own
  Nfa nfa_;
  std::vector<u32> rule_of_;      // rules of the expressions -> rules of the NFA
  std::map<std::pair<u32, bool>, u32> outlined_;
  std::vector<Pending> pending_;
  std::vector<Task> tasks_;
  std::vector<u32> size_;         // states that a node takes, saturated
  std::vector<u32> least_;        // bytes that a node reads at least, as far as can be told without following calls
  std::vector<u8> shared_;        // stands in several places and is large: a rule, or lowering would be exponential
  std::vector<u8> nullable_;      // computed when first asked for
  u32 current_ = 0, body_ = NONE, member_ = NONE;
  bool scope_ = false, counts_ = false;

  u32 state() {
    if (nfa_.states.size() >= limits_.states)
      throw LimitExceeded("states", static_cast<double>(limits_.states), "the grammar needs more than " + std::to_string(limits_.states) + " NFA states");
    deadline_.check();
    const u32 added = nfa_.add_state(current_);
    nfa_.states[added].body = body_;
    nfa_.states[added].member = member_;
    nfa_.states[added].least = least_counted_;
    nfa_.states[added].most = most_counted_;
    return added;
  }

  u32 new_rule(u32 node, u32 name, bool scope) {
    Rule rule;
    rule.name = name;
    rule.scope = scope;
    rule.origin = static_cast<u32>(nfa_.origins.size());
    const u32 id = static_cast<u32>(nfa_.rules.size());
    nfa_.origins.push_back({id, NONE});
    nfa_.rules.push_back(rule);
    pending_.push_back({id, node});
    return id;
  }
  u32 rule(i32 index) {
    u32& found = rule_of_[static_cast<std::size_t>(index)];
    if (found == NONE) found = new_rule(static_cast<u32>(ex_.rules[static_cast<std::size_t>(index)]), static_cast<u32>(index), false);
    return found;
  }
  // A rule of its own for a node.
  u32 outline(u32 node, bool scope = false) {
    const auto [found, added] = outlined_.try_emplace({node, scope}, 0);
    if (added) found->second = new_rule(node, nfa_.rules[current_].name, scope);
    return found->second;
  }

  // Children have smaller indices than their parents, so one pass forward sees children first.
  void sizes() {
    size_.resize(ex_.nodes.size());
    least_.assign(ex_.nodes.size(), 0);
    for (u32 node = 0; node < ex_.nodes.size(); node++) {
      u64 size = 1, least = 0;
      const std::size_t n = ex_.count(node);
      switch (ex_.nodes[node].op) {
        case OP_LITERAL: least = size = ex_.literals[static_cast<std::size_t>(ex_.arg(node, 0))].size(); break;
        case OP_BYTES: least = 1; break;
        case OP_CHARS: least = 1, size = ex_.arg(node, 0) == JSON_ANY ? 12 : n > 3 || ex_.arg(node, n - 1) > 127 ? 8 : 1; break;
        case OP_SEQ:
        case OP_ALT:
          least = ex_.nodes[node].op == OP_ALT ? NONE : 0;
          for (std::size_t i = 0; i < n; i++) {
            const u32 part = static_cast<u32>(ex_.arg(node, i));
            size += size_[part];
            least = ex_.nodes[node].op == OP_ALT ? std::min<u64>(least, least_[part]) : least + least_[part];
          }
          break;
        case OP_REPEAT: {
          least = static_cast<u64>(ex_.arg(node, 1)) * least_[static_cast<u32>(ex_.arg(node, 0))];
          const u64 body = size_[static_cast<u32>(ex_.arg(node, 0))];
          const u64 times = static_cast<u64>(std::max({1, ex_.arg(node, 1), ex_.arg(node, 2)}));
          size = body * times <= UNROLL ? body * times : body + 3;
          break;
        }
        case OP_GRAPH:
          for (std::size_t i = 3; i < n; i += 3)
            if (ex_.arg(node, i) >= 0) size += size_[static_cast<u32>(ex_.arg(node, i))];
          break;
        case OP_AUTOMATON: size = static_cast<u64>(ex_.arg(node, 1)); break;
        case OP_EXCEPT:
          for (std::size_t i = 1; i < n; i++) size += ex_.literals[static_cast<std::size_t>(ex_.arg(node, i))].size();
          break;
        case OP_PERMUTE: size = 1000; break;
        case OP_CAPTURE: size = size_[static_cast<u32>(ex_.arg(node, 0))]; [[fallthrough]];
        case OP_LIMIT:
        case OP_TEMPERATURE: least = least_[static_cast<u32>(ex_.arg(node, 0))]; break;
        default: break;
      }
      size_[node] = static_cast<u32>(std::min<u64>(size, 1'000'000));
      least_[node] = static_cast<u32>(std::min<u64>(least, 1'000'000));
    }
    find_shared();
  }

  void find_shared() {
    shared_.assign(ex_.nodes.size(), 0);
    std::vector<u8> distinct(ex_.nodes.size(), 0);  // holds a DISTINCT of a scope outside of it, which must stay in its rule
    for (u32 node = 0; node < ex_.nodes.size(); node++) {
      const std::size_t n = ex_.count(node);
      auto child = [&](std::size_t i) {
        const i32 c = ex_.arg(node, i);
        if (c < 0) return;
        shared_[static_cast<u32>(c)] = static_cast<u8>(std::min(2, shared_[static_cast<u32>(c)] + 1));
        distinct[node] |= distinct[static_cast<u32>(c)];
      };
      switch (ex_.nodes[node].op) {
        case OP_SEQ:
        case OP_ALT:
          for (std::size_t i = 0; i < n; i++) child(i);
          break;
        case OP_REPEAT:
        case OP_LIMIT:
        case OP_CAPTURE:
        case OP_TEMPERATURE: child(0); break;
        case OP_GRAPH:
          for (std::size_t i = 3; i < n; i += 3) child(i);
          break;
        case OP_PERMUTE:
          child(0);
          for (std::size_t i = 3; i < n; i += 2) child(i);
          break;
        case OP_SCOPE:
          child(0);
          distinct[node] = 0;
          break;
        case OP_DISTINCT:
          child(0);
          distinct[node] = 1;
          break;
        default: break;
      }
    }
    for (u32 node = 0; node < ex_.nodes.size(); node++) {
      const i32 op = ex_.nodes[node].op;
      shared_[node] = shared_[node] > 1 && size_[node] > SHARED && !distinct[node] && op != OP_CALL && op != OP_SCOPE && op != OP_DISTINCT &&
                      op != OP_LIMIT && op != OP_TEMPERATURE;
    }
  }

  // Whether every expression, and every state of its automata and graphs, can be read to its end. A fixpoint by rounds, since nodes stand
  // behind their operands: a few where rules do not nest deeper. Where this does not tell, the states themselves are looked at.
  bool all_productive() {
    constexpr int ROUNDS = 12;
    std::vector<u8> productive(ex_.nodes.size(), 0);
    std::size_t missing = ex_.nodes.size();
    for (int round = 0; round < ROUNDS && missing; round++) {
      const std::size_t before = missing;
      for (u32 node = 0; node < ex_.nodes.size(); node++)
        if (!productive[node] && generates(node, productive)) productive[node] = 1, missing--;
      if (missing == before) return false;
    }
    return missing == 0;
  }
  bool generates(u32 node, const std::vector<u8>& productive) {
    deadline_.check();
    const std::size_t n = ex_.count(node);
    auto good = [&](std::size_t i) { return productive[static_cast<u32>(ex_.arg(node, i))] != 0; };
    switch (ex_.nodes[node].op) {
      case OP_NEVER: return false;
      case OP_EMPTY:
      case OP_LITERAL:
      case OP_BYTES:
      case OP_EXCEPT: return true;
      case OP_CHARS:
        for (std::size_t i = 1; i < n; i += 2)
          if (!only_surrogates(ex_.arg(node, i), ex_.arg(node, i + 1))) return true;
        return false;
      case OP_TOKENS: return ex_.arg(node, 0) != 0 || n > 1;
      case OP_SEQ:
        for (std::size_t i = 0; i < n; i++)
          if (!good(i)) return false;
        return true;
      case OP_ALT:
        for (std::size_t i = 0; i < n; i++)
          if (good(i)) return true;
        return false;
      case OP_REPEAT: return (ex_.arg(node, 2) < 0 || ex_.arg(node, 1) <= ex_.arg(node, 2)) && (ex_.arg(node, 1) == 0 || good(0));
      case OP_CALL: return productive[static_cast<u32>(ex_.rules[static_cast<std::size_t>(ex_.arg(node, 0))])] != 0;
      case OP_GRAPH: return graph_ends(node, productive);
      case OP_AUTOMATON: return automaton_ends(node);
      case OP_PERMUTE: {
        long long required = 0, members = 0;
        bool repeatable = false;
        for (std::size_t i = 3; i < n; i += 2) {
          if (!good(i)) return false;
          members++;
          required += (ex_.arg(node, i + 1) & REQUIRED) != 0;
          repeatable = repeatable || (ex_.arg(node, i + 1) & REPEATABLE);
        }
        const long long least = std::max<long long>(required, ex_.arg(node, 1));
        return good(0) && (ex_.arg(node, 2) < 0 || least <= ex_.arg(node, 2)) && (repeatable || least <= members);
      }
      case OP_SCOPE:
      case OP_DISTINCT:
      case OP_LIMIT:
      case OP_CAPTURE:
      case OP_TEMPERATURE: return good(0);
      default: return false;
    }
  }
  // From every state of the graph its end is reached.
  bool graph_ends(u32 node, const std::vector<u8>& productive) const {
    const std::size_t states = static_cast<std::size_t>(ex_.arg(node, 0)), n = ex_.count(node);
    std::vector<std::vector<u32>> sources(states);
    for (std::size_t i = 1; i < n; i += 3) {
      if (const i32 label = ex_.arg(node, i + 2); label >= 0 && !productive[static_cast<u32>(label)]) return false;
      sources[static_cast<std::size_t>(ex_.arg(node, i + 1))].push_back(static_cast<u32>(ex_.arg(node, i)));
    }
    return all_reach(sources, {1});
  }
  bool automaton_ends(u32 node) {
    const std::size_t states = static_cast<std::size_t>(ex_.arg(node, 1));
    const i32 minimum = ex_.arg(node, 2), maximum = ex_.arg(node, 3);
    if (minimum > 0 || maximum >= 0) {
      std::vector<u32> least, most;
      lengths(node, least, most);
      if (std::find(least.begin(), least.end(), NONE) != least.end()) return false;
      return (maximum < 0 || least[0] <= static_cast<u32>(maximum)) && (minimum <= 0 || most[0] >= static_cast<u32>(minimum));
    }
    std::vector<std::vector<u32>> sources(states);
    std::vector<u32> ends;
    std::size_t at = 4;
    for (u32 state = 0; state < states; state++) {
      if (ex_.arg(node, at)) ends.push_back(state);
      at = by_target(node, at);
      for (const auto& each : by_target_) sources[each.first].push_back(state);
    }
    return all_reach(sources, std::move(ends));
  }
  static bool only_surrogates(i32 lo, i32 hi) { return lo >= 0xD800 && hi <= 0xDFFF; }  // which have no UTF-8
  static bool all_reach(const std::vector<std::vector<u32>>& sources, std::vector<u32> ends) {
    std::vector<u8> reaches(sources.size(), 0);
    for (const u32 end : ends) reaches[end] = 1;
    for (std::size_t i = 0; i < ends.size(); i++)
      for (const u32 source : sources[ends[i]])
        if (!reaches[source]) reaches[source] = 1, ends.push_back(source);
    return ends.size() == sources.size();
  }

  // Which nodes may read nothing: a fixpoint over the rules.
  bool nullable(u32 node) {
    if (nullable_.empty()) {
      nullable_.assign(ex_.nodes.size(), 0);
      std::vector<std::vector<u32>> parents(ex_.nodes.size());
      std::vector<std::vector<u32>> callers(ex_.rules.size());
      for (u32 at = 0; at < ex_.nodes.size(); at++) {
        const std::size_t n = ex_.count(at);
        auto child = [&](i32 c) {
          if (c >= 0) parents[static_cast<u32>(c)].push_back(at);
        };
        switch (ex_.nodes[at].op) {
          case OP_SEQ:
          case OP_ALT:
            for (std::size_t i = 0; i < n; i++) child(ex_.arg(at, i));
            break;
          case OP_REPEAT:
          case OP_SCOPE:
          case OP_DISTINCT:
          case OP_LIMIT:
          case OP_CAPTURE:
          case OP_TEMPERATURE: child(ex_.arg(at, 0)); break;
          case OP_GRAPH:
            for (std::size_t i = 3; i < n; i += 3) child(ex_.arg(at, i));
            break;
          case OP_PERMUTE:
            for (std::size_t i = 3; i < n; i += 2) child(ex_.arg(at, i));
            break;
          case OP_CALL: callers[static_cast<u32>(ex_.arg(at, 0))].push_back(at); break;
          default: break;
        }
      }
      for (u32 r = 0; r < ex_.rules.size(); r++)
        for (const u32 call : callers[r]) parents[static_cast<u32>(ex_.rules[r])].push_back(call);
      std::vector<u32> work;
      for (u32 at = static_cast<u32>(ex_.nodes.size()); at-- > 0;) work.push_back(at);
      while (!work.empty()) {
        const u32 at = work.back();
        work.pop_back();
        deadline_.check();
        if (nullable_[at] || !derives_empty(at)) continue;
        nullable_[at] = 1;
        for (const u32 parent : parents[at]) work.push_back(parent);
      }
    }
    return nullable_[node];
  }
  bool derives_empty(u32 node) const {
    const std::size_t n = ex_.count(node);
    auto empty = [&](std::size_t i) { return nullable_[static_cast<u32>(ex_.arg(node, i))] != 0; };
    switch (ex_.nodes[node].op) {
      case OP_EMPTY: return true;
      case OP_SEQ:
        for (std::size_t i = 0; i < n; i++)
          if (!empty(i)) return false;
        return true;
      case OP_ALT:
        for (std::size_t i = 0; i < n; i++)
          if (empty(i)) return true;
        return false;
      case OP_REPEAT: return (ex_.arg(node, 2) < 0 || ex_.arg(node, 1) <= ex_.arg(node, 2)) && (ex_.arg(node, 1) == 0 || empty(0));
      case OP_SCOPE:
      case OP_DISTINCT:
      case OP_LIMIT:
      case OP_CAPTURE:
      case OP_TEMPERATURE: return empty(0);
      case OP_CALL: return nullable_[static_cast<u32>(ex_.rules[static_cast<std::size_t>(ex_.arg(node, 0))])] != 0;
      case OP_AUTOMATON: return ex_.arg(node, 4) != 0 && ex_.arg(node, 2) <= 0;
      case OP_EXCEPT: return n == 1 || !ex_.literals[static_cast<std::size_t>(ex_.arg(node, 1))].empty();
      case OP_GRAPH: {
        std::vector<u8> reached(static_cast<std::size_t>(ex_.arg(node, 0)), 0);
        reached[0] = 1;
        for (bool changed = true; changed;) {
          changed = false;
          for (std::size_t i = 1; i < n; i += 3) {
            const i32 label = ex_.arg(node, i + 2);
            const auto source = static_cast<std::size_t>(ex_.arg(node, i)), target = static_cast<std::size_t>(ex_.arg(node, i + 1));
            if (reached[source] && !reached[target] && (label < 0 || nullable_[static_cast<u32>(label)])) reached[target] = 1, changed = true;
          }
        }
        return reached[1];
      }
      case OP_PERMUTE: {
        if (ex_.arg(node, 1) > 0) return false;  // also where minimum > maximum
        for (std::size_t i = 3; i < n; i += 2)
          if (ex_.arg(node, i + 1) & REQUIRED) return false;
        return true;
      }
      default: return false;
    }
  }

  void lower(u32 root, u32 from, u32 to) {
    tasks_.push_back({root, from, to, NONE, NONE, true});
    while (!tasks_.empty()) {
      const Task task = tasks_.back();
      tasks_.pop_back();
      deadline_.check();
      step(task);
    }
  }

  void epsilon(u32 from, u32 to) { nfa_.add_edge(from, EDGE_EPSILON, to); }

  void step(const Task& task) {
    const u32 node = task.node;
    body_ = task.body;
    member_ = task.member;
    const u8 body_flag = task.in_body() ? EDGE_IN_BODY : 0;
    const std::size_t n = ex_.count(node);
    if (shared_[node] && !task.whole) {
      nfa_.add_edge(task.from, EDGE_CALL, task.to, outline(node), 0, 0, body_flag);
      return;
    }
    switch (ex_.nodes[node].op) {
      case OP_EMPTY: epsilon(task.from, task.to); break;
      case OP_NEVER: break;
      case OP_LITERAL: {
        const std::string& data = ex_.literals[static_cast<std::size_t>(ex_.arg(node, 0))];
        u32 at = task.from;
        for (std::size_t i = 0; i < data.size(); i++) {
          const u32 next = i + 1 == data.size() ? task.to : state();
          const u8 byte = static_cast<u8>(data[i]);
          nfa_.add_edge(at, EDGE_BYTE, next, 0, byte, byte);
          if (byte > 0x7F) nfa_.states[at].partial_non_ascii = true;
          at = next;
        }
        nfa_.any_escapes = nfa_.any_escapes || odd_escape(data);
        break;
      }
      case OP_BYTES:
        for (std::size_t i = 0; i < n; i += 2) bytes(task.from, task.to, ex_.arg(node, i), ex_.arg(node, i + 1));
        break;
      case OP_CHARS:
        chars(task.from, task.to, &ex_.ints[ex_.nodes[node].begin + 1], n - 1, ex_.arg(node, 0));
        break;
      case OP_SEQ: {
        u32 at = task.from;
        for (std::size_t i = 0; i < n; i++) {
          const u32 next = i + 1 == n ? task.to : state();
          tasks_.push_back({static_cast<u32>(ex_.arg(node, i)), at, next, task.body, task.member});
          at = next;
        }
        break;
      }
      case OP_ALT:
        for (std::size_t i = 0; i < n; i++) tasks_.push_back({static_cast<u32>(ex_.arg(node, i)), task.from, task.to, task.body, task.member});
        break;
      case OP_REPEAT: repeat(task); break;
      case OP_CALL: nfa_.add_edge(task.from, EDGE_CALL, task.to, rule(ex_.arg(node, 0)), 0, 0, body_flag); break;
      case OP_GRAPH: {
        const u32 base = static_cast<u32>(nfa_.states.size());
        for (i32 i = 0; i < ex_.arg(node, 0); i++) state();
        epsilon(task.from, base);
        epsilon(base + 1, task.to);
        for (std::size_t i = 1; i < n; i += 3) {
          const u32 source = base + static_cast<u32>(ex_.arg(node, i)), target = base + static_cast<u32>(ex_.arg(node, i + 1));
          const i32 label = ex_.arg(node, i + 2);
          if (label < 0) {
            epsilon(source, target);
            continue;
          }
          // Fresh ends: an expression's loops must not meet the edges of its neighbours.
          tasks_.push_back({static_cast<u32>(label), source, target, task.body, task.member});
        }
        break;
      }
      case OP_AUTOMATON:
        if (ex_.arg(node, 2) > 0 || ex_.arg(node, 3) >= 0) counted_automaton(task);
        else automaton(task);
        break;
      case OP_EXCEPT: except(task); break;
      case OP_TOKENS: {
        TokenSet set;
        set.negated = ex_.arg(node, 0) != 0;
        for (std::size_t i = 1; i < n; i++) set.ids.push_back(static_cast<u32>(ex_.arg(node, i)));
        std::sort(set.ids.begin(), set.ids.end());
        nfa_.token_sets.push_back(std::move(set));
        nfa_.add_edge(task.from, EDGE_TOKEN, task.to, static_cast<u32>(nfa_.token_sets.size() - 1));
        break;
      }
      case OP_PERMUTE: permute(task); break;
      case OP_SCOPE: nfa_.add_edge(task.from, EDGE_CALL, task.to, outline(static_cast<u32>(ex_.arg(node, 0)), true), 0, 0, body_flag); break;
      case OP_DISTINCT:
        if (!scope_) throw BadGrammar("DISTINCT outside of a SCOPE of the same rule");
        nfa_.add_edge(task.from, EDGE_CALL, task.to, outline(static_cast<u32>(ex_.arg(node, 0))), 0, 0,
                      static_cast<u8>(body_flag | EDGE_NONEMPTY | EDGE_DISTINCT));
        break;
      case OP_CAPTURE:
        nfa_.captures = true;
        tasks_.push_back({static_cast<u32>(ex_.arg(node, 0)), task.from, task.to, task.body, task.member, task.whole});
        break;
      case OP_LIMIT:
      case OP_TEMPERATURE: mark(task); break;
      default: break;
    }
  }

  // What a rule is as a whole is a property of the rule; of anything less a rule is made.
  void mark(const Task& task) {
    const u32 node = task.node, body = static_cast<u32>(ex_.arg(node, 0));
    const bool limit = ex_.nodes[node].op == OP_LIMIT;
    u32 tokens = limit ? static_cast<u32>(ex_.arg(node, 1)) : NONE;
    if (tokens == 0) {
      if (nullable(body)) return epsilon(task.from, task.to);  // that spans no token
      tokens = 1;
    }
    if (!task.whole) {
      nfa_.add_edge(task.from, EDGE_CALL, task.to, outline(node), 0, 0, task.in_body() ? EDGE_IN_BODY : 0);
      return;
    }
    Rule& rule = nfa_.rules[current_];
    if (limit) rule.limit = std::min(rule.limit, tokens);
    else rule.temperature = temperature(ex_.numbers[static_cast<std::size_t>(ex_.arg(node, 1))]);
    tasks_.push_back({body, task.from, task.to, task.body, task.member, true});
  }
  u32 temperature(double value) {
    const auto found = std::find(nfa_.temperatures.begin() + 1, nfa_.temperatures.end(), value);
    if (found == nfa_.temperatures.end()) nfa_.temperatures.push_back(value);
    return static_cast<u32>(std::find(nfa_.temperatures.begin() + 1, nfa_.temperatures.end(), value) - nfa_.temperatures.begin());
  }
  // Temperatures by rank, so that the highest of some has the highest index.
  void rank_temperatures() {
    const std::vector<double> before = nfa_.temperatures;
    std::sort(nfa_.temperatures.begin() + 1, nfa_.temperatures.end());
    for (Rule& rule : nfa_.rules)
      if (rule.temperature) rule.temperature = static_cast<u32>(std::lower_bound(nfa_.temperatures.begin() + 1, nfa_.temperatures.end(), before[rule.temperature]) - nfa_.temperatures.begin());
  }
  // Inside of a SCOPE that a rule may end does not mean that something may follow: the values may have run out.
  void check_scopes() const {
    std::vector<u8> reached(nfa_.rules.size(), 0);
    std::vector<std::vector<u32>> callees(nfa_.rules.size());
    for (const State& state : nfa_.states)
      for (u32 e = state.first; e != NONE; e = nfa_.edges[e].next)
        if (nfa_.edges[e].kind == EDGE_CALL) callees[state.rule].push_back(nfa_.edges[e].data);
    std::vector<u32> work;
    for (u32 r = 0; r < nfa_.rules.size(); r++)
      if (nfa_.rules[r].scope) work.push_back(r), reached[r] = 1;
    while (!work.empty()) {
      const u32 r = work.back();
      work.pop_back();
      if (nfa_.rules[r].marked()) throw BadGrammar("a LIMIT or a TEMPERATURE inside of a SCOPE");
      for (const u32 callee : callees[r])
        if (!reached[callee]) reached[callee] = 1, work.push_back(callee);
    }
  }

  void repeat(const Task& task) {
    const u32 body = static_cast<u32>(ex_.arg(task.node, 0));
    const i32 minimum = ex_.arg(task.node, 1), maximum = ex_.arg(task.node, 2);
    if (maximum >= 0 && minimum > maximum) return;  // an impossible number of times is nothing
    if (maximum == 0) return epsilon(task.from, task.to);
    if (maximum < 0 && minimum <= 1) {  // * and +
      const u32 in = state(), out = state();
      epsilon(task.from, in);
      tasks_.push_back({body, in, out, task.body, task.member});
      epsilon(out, in);
      epsilon(out, task.to);
      if (minimum == 0) epsilon(in, task.to);
      return;
    }
    if (minimum == 0 && maximum == 1) {
      epsilon(task.from, task.to);
      tasks_.push_back({body, task.from, task.to, task.body, task.member});
      return;
    }
    const u64 times = static_cast<u64>(std::max(minimum, maximum));
    if (size_[body] * times <= UNROLL) {
      u32 at = task.from;
      for (i32 i = 0; i < std::max(minimum, maximum); i++) {
        if (i >= minimum) epsilon(at, task.to);
        const bool last = maximum > 0 && i + 1 == maximum;
        const u32 next = last ? task.to : state();
        tasks_.push_back({body, at, next, task.body, task.member});
        at = next;
      }
      if (maximum < 0) {  // {n,}: the last body loops
        const u32 out = state();
        epsilon(at, task.to);
        tasks_.push_back({body, at, out, task.body, task.member});
        epsilon(out, at);
      }
      return;
    }
    if (task.in_body() || (apart_ && !task.whole && !scope_)) {  // an item has one counter: a repetition inside of a counted one gets a frame of its own
      nfa_.add_edge(task.from, EDGE_CALL, task.to, outline(task.node), 0, 0, task.in_body() ? EDGE_IN_BODY : 0);
      return;
    }
    // A body that may read nothing counts for nothing: (body without the empty text){0,maximum}.
    const bool empty = nullable(body);
    counts_ = true;
    const u32 id = static_cast<u32>(nfa_.heads.size());
    const u32 head = state(), exit = state();
    body_ = id;
    const u32 start = state(), end = state();
    body_ = NONE;
    Head h;
    h.minimum = empty ? 0 : static_cast<u32>(minimum);
    h.maximum = maximum < 0 ? NONE : static_cast<u32>(maximum);
    h.body = start;
    h.exit = exit;
    h.least = std::max(1u, least_[body]);
    h.byte = ex_.nodes[body].op == OP_BYTES;
    nfa_.states[head].head = id;
    nfa_.heads.push_back(std::move(h));
    nfa_.add_edge(task.from, EDGE_ENTER, head);
    nfa_.add_edge(end, EDGE_COUNT, head);
    epsilon(exit, task.to);
    if (empty) nfa_.add_edge(start, EDGE_CALL, end, outline(body), 0, 0, EDGE_IN_BODY | EDGE_NONEMPTY);
    else tasks_.push_back({body, start, end, id, 0});
  }

  void permute(const Task& task) {
    if (task.in_body() || (apart_ && !task.whole && !scope_)) {
      nfa_.add_edge(task.from, EDGE_CALL, task.to, outline(task.node), 0, 0, task.in_body() ? EDGE_IN_BODY : 0);
      return;
    }
    counts_ = true;
    const u32 id = static_cast<u32>(nfa_.heads.size());
    const u32 head = state(), exit = state();
    body_ = id;
    const u32 second = state(), separator = state();
    Head h;
    h.permutation = true;
    h.minimum = static_cast<u32>(ex_.arg(task.node, 1));
    h.maximum = ex_.arg(task.node, 2) < 0 ? NONE : static_cast<u32>(ex_.arg(task.node, 2));
    h.body = separator;
    h.exit = exit;
    for (std::size_t i = 3; i < ex_.count(task.node); i += 2) {
      const u32 member = static_cast<u32>(ex_.arg(task.node, i));
      member_ = static_cast<u32>(h.members.size());
      const u32 start = state(), end = state();
      tasks_.push_back({member, start, end, id, member_});
      nfa_.add_edge(end, EDGE_MEMBER, head, static_cast<u32>(h.members.size()));
      h.members.push_back(start);
      h.flags.push_back(static_cast<u8>(ex_.arg(task.node, i + 1)));
    }
    body_ = member_ = NONE;
    tasks_.push_back({static_cast<u32>(ex_.arg(task.node, 0)), separator, second, id, NONE});
    nfa_.states[head].head = id;
    nfa_.heads.push_back(h);
    h.after_separator = true;
    nfa_.states[second].head = static_cast<u32>(nfa_.heads.size());
    nfa_.heads.push_back(std::move(h));
    nfa_.add_edge(task.from, EDGE_ENTER, head);
    epsilon(exit, task.to);
  }

  void automaton(const Task& task) {
    const i32 encoding = ex_.arg(task.node, 0), count = ex_.arg(task.node, 1);
    const u32 base = static_cast<u32>(nfa_.states.size());
    for (i32 i = 0; i < count; i++) state();
    epsilon(task.from, base);
    std::size_t at = 4;
    for (i32 i = 0; i < count; i++) {
      const u32 source = base + static_cast<u32>(i);
      if (ex_.arg(task.node, at)) epsilon(source, task.to);
      at = by_target(task.node, at);
      for (const auto& [target, ranges] : by_target_) characters(source, base + target, ranges, encoding);
    }
  }

  // The transitions of a DFA's state whose arguments begin `at`, by target: parallel ranges are lowered together. Where the next begin.
  std::vector<std::pair<u32, std::vector<i32>>> by_target_;
  std::size_t by_target(u32 node, std::size_t at) {
    const i32 transitions = ex_.arg(node, at + 1);
    at += 2;
    by_target_.clear();
    for (i32 t = 0; t < transitions; t++, at += 3) {
      const u32 target = static_cast<u32>(ex_.arg(node, at + 2));
      if (ex_.arg(node, 0) != RAW && only_surrogates(ex_.arg(node, at), ex_.arg(node, at + 1))) continue;
      auto found = std::find_if(by_target_.begin(), by_target_.end(), [&](const auto& entry) { return entry.first == target; });
      if (found == by_target_.end()) found = by_target_.insert(by_target_.end(), {target, {}});
      found->second.push_back(ex_.arg(node, at));
      found->second.push_back(ex_.arg(node, at + 1));
    }
    return at;
  }
  void characters(u32 source, u32 target, const std::vector<i32>& ranges, i32 encoding) {
    if (encoding == RAW)
      for (std::size_t r = 0; r < ranges.size(); r += 2) bytes(source, target, ranges[r], ranges[r + 1]);
    else chars(source, target, ranges.data(), ranges.size(), encoding);
  }

  // A DFA whose characters are counted in the register. Each of its states is three: where it stands, from where it reads, and where
  // it is reached, the character not counted yet. Each knows how many characters may still be counted, so that a closure leaves out
  // what the bounds no longer allow.
  void counted_automaton(const Task& task) {
    if (task.in_body() || (apart_ && !task.whole && !scope_)) {
      nfa_.add_edge(task.from, EDGE_CALL, task.to, outline(task.node), 0, 0, task.in_body() ? EDGE_IN_BODY : 0);
      return;
    }
    const i32 encoding = ex_.arg(task.node, 0), count = ex_.arg(task.node, 1);
    const i32 minimum = std::max(ex_.arg(task.node, 2), 0), maximum = ex_.arg(task.node, 3);
    std::vector<u32> least, most;
    lengths(task.node, least, most);
    if (least[0] == NONE || (maximum >= 0 && least[0] > static_cast<u32>(maximum)) || most[0] < static_cast<u32>(minimum)) return;
    counts_ = true;
    const u32 id = static_cast<u32>(nfa_.heads.size());
    const u32 head = state(), exit = state();
    Head h;
    h.automaton = true;
    h.minimum = static_cast<u32>(minimum);
    h.maximum = maximum < 0 ? NONE : static_cast<u32>(maximum);
    h.exit = exit;
    body_ = id;
    std::vector<u32> stands, reached;
    for (u32 i = 0; i < static_cast<u32>(count); i++) {
      least_counted_ = least[i], most_counted_ = most[i];
      stands.push_back(state());
      least_counted_ = least[i] == NONE ? NONE : least[i] + 1;
      most_counted_ = most[i] == NONE ? NONE : most[i] + 1;
      reached.push_back(state());
      nfa_.add_edge(reached[i], EDGE_COUNT, stands[i]);
      if (least[i] != NONE) h.furthest = std::max(h.furthest, least[i] + 1);
      h.bounded = h.bounded || (least[i] != NONE && most[i] != NONE);
    }
    std::size_t at = 4;
    for (u32 i = 0; i < static_cast<u32>(count); i++) {
      if (ex_.arg(task.node, at)) nfa_.add_edge(stands[i], EDGE_LEAVE, exit);
      at = by_target(task.node, at);
      if (by_target_.empty()) continue;
      least_counted_ = NONE, most_counted_ = 0;
      for (const auto& each : by_target_) {
        if (least[each.first] == NONE) continue;
        least_counted_ = std::min(least_counted_, least[each.first] + 1);
        most_counted_ = std::max(most_counted_, most[each.first] == NONE ? NONE : most[each.first] + 1);
      }
      const u32 reads = state();
      nfa_.states[reads].settled = least[i];
      epsilon(stands[i], reads);
      for (const auto& [target, ranges] : by_target_) {
        least_counted_ = nfa_.states[reached[target]].least, most_counted_ = nfa_.states[reached[target]].most;
        characters(reads, reached[target], ranges, encoding);
      }
    }
    body_ = NONE;
    least_counted_ = 0, most_counted_ = NONE;
    h.body = stands[0];
    nfa_.states[head].head = id;
    nfa_.heads.push_back(std::move(h));
    nfa_.add_edge(task.from, EDGE_ENTER, head);
    epsilon(exit, task.to);
  }
  u32 least_counted_ = 0, most_counted_ = NONE;  // of the states being made

  // From each state of a DFA the least number of characters to an accepting one (NONE where there is none), and the largest (NONE
  // where there is no largest).
  void lengths(u32 node, std::vector<u32>& least, std::vector<u32>& most) {
    const u32 count = static_cast<u32>(ex_.arg(node, 1));
    std::vector<std::vector<u32>> targets(count), sources(count);
    std::vector<u32> work, waiting(count, 0);
    least.assign(count, NONE);
    most.assign(count, NONE);
    std::size_t at = 4;
    for (u32 i = 0; i < count; i++) {
      if (ex_.arg(node, at)) least[i] = 0, work.push_back(i);
      at = by_target(node, at);
      for (const auto& each : by_target_) targets[i].push_back(each.first), sources[each.first].push_back(i);
    }
    for (std::size_t next = 0; next < work.size(); next++)
      for (const u32 source : sources[work[next]])
        if (least[source] == NONE) least[source] = least[work[next]] + 1, work.push_back(source);
    // Kahn's order from the ends: a state on a cycle, or before one, never comes up.
    work.clear();
    for (u32 i = 0; i < count; i++) {
      if (least[i] == NONE) continue;
      for (const u32 target : targets[i]) waiting[i] += least[target] != NONE;
      if (waiting[i] == 0) most[i] = 0, work.push_back(i);
    }
    for (std::size_t next = 0; next < work.size(); next++)
      for (const u32 source : sources[work[next]]) {
        if (least[source] == NONE || --waiting[source]) continue;
        most[source] = 0;
        for (const u32 target : targets[source])
          if (least[target] != NONE) most[source] = std::max(most[source], most[target] + 1);
        work.push_back(source);
      }
  }

  // Any text but some words: their trie, with an end wherever no word ends, and a state for every text that has left it.
  void except(const Task& task) {
    const i32 encoding = ex_.arg(task.node, 0);
    const std::size_t count = ex_.count(task.node) - 1;
    const u32 outside = state();
    epsilon(outside, task.to);
    const i32 all[] = {0, 0x10FFFF};
    chars(outside, outside, all, 2, encoding);
    struct Branch {
      std::size_t first, last;  // the words that begin like this
      std::size_t depth;        // by so many bytes
      u32 place;
    };
    const u32 start = state();
    epsilon(task.from, start);
    std::vector<Branch> branches{{0, count, 0, start}};
    std::vector<i32> others;
    auto word = [&](std::size_t i) -> const std::string& { return ex_.literals[static_cast<std::size_t>(ex_.arg(task.node, i + 1))]; };
    while (!branches.empty()) {
      const Branch at = branches.back();
      branches.pop_back();
      deadline_.check();
      std::size_t i = at.first;
      if (i < at.last && word(i).size() == at.depth) i++;
      else epsilon(at.place, task.to);
      others.clear();
      i32 low = 0;
      while (i < at.last) {
        std::size_t end = at.depth;
        const i32 code = decode(word(i), end);
        std::size_t j = i + 1;
        while (j < at.last && word(j).compare(at.depth, end - at.depth, word(i), at.depth, end - at.depth) == 0) j++;
        const u32 below = state();
        const i32 one[] = {code, code};
        chars(at.place, below, one, 2, encoding);
        if (low < code) others.insert(others.end(), {low, code - 1});
        low = code + 1;
        branches.push_back({i, j, end, below});
        i = j;
      }
      if (low <= 0x10FFFF) others.insert(others.end(), {low, 0x10FFFF});
      chars(at.place, outside, others.data(), others.size(), encoding);
    }
  }
  // The code point at `at` of well-formed UTF-8, and where the next begins.
  static i32 decode(const std::string& text, std::size_t& at) {
    const u8 lead = static_cast<u8>(text[at++]);
    if (lead < 0x80) return lead;
    i32 code = lead < 0xE0 ? lead & 0x1F : lead < 0xF0 ? lead & 0x0F : lead & 0x07;
    for (i32 more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3; more > 0; more--) code = code << 6 | (static_cast<u8>(text[at++]) & 0x3F);
    return code;
  }

  // A JSON text that begins here or before may spell a character by an escape that it does not need.
  static bool odd_escape(const std::string& data) {
    for (std::size_t i = data.find('\\'); i != std::string::npos; i = data.find('\\', i + 2)) {
      if (i + 1 >= data.size()) return true;
      if (data[i + 1] != 'u') continue;
      const u32 code = static_cast<u32>(std::strtoul(data.substr(i + 2, 4).c_str(), nullptr, 16));
      if (i + 6 > data.size() || code >= 0x20 || (code >= 8 && code <= 13 && code != 11)) return true;
    }
    return false;
  }

  void bytes(u32 from, u32 to, i32 lo, i32 hi) {
    nfa_.any_escapes = nfa_.any_escapes || (lo <= '\\' && '\\' <= hi);
    nfa_.add_edge(from, EDGE_BYTE, to, 0, static_cast<u8>(lo), static_cast<u8>(hi));
    if (hi > 0x7F) nfa_.states[from].partial_non_ascii = true;
  }

  // One code point out of the ranges, as bytes.
  void chars(u32 from, u32 to, const i32* ranges, std::size_t count, i32 encoding) {
    describe_non_ascii(from, to, ranges, count);
    u32 escape = NONE;
    // The escapes of all characters that have one are the same for every state that leads to `to` by all of them.
    const bool all_escapes = encoding != UTF8 && contains(ranges, count, 0, 0x1F) && contains(ranges, count, '"', '"') &&
                             contains(ranges, count, '/', '/') && contains(ranges, count, '\\', '\\') &&
                             (encoding == JSON || contains(ranges, count, 0, 0x10FFFF));
    const u64 key = static_cast<u64>(to) << 2 | static_cast<u64>(encoding);
    if (all_escapes) {
      if (const u32* found = escapes_.find(key)) {
        nfa_.add_edge(from, EDGE_BYTE, *found, 0, '\\', '\\');
        escape = *found;
      }
    }
    const bool escapes_known = escape != NONE;
    auto backslash = [&] {
      if (escape == NONE) {
        escape = state();
        nfa_.add_edge(from, EDGE_BYTE, escape, 0, '\\', '\\');
      }
      return escape;
    };
    for (std::size_t i = 0; i < count; i += 2) {
      const i32 lo = ranges[i];
      i32 hi = ranges[i + 1];
      // Ranges that only the surrogates part are one: surrogates have no UTF-8.
      while (i + 2 < count && (ranges[i + 2] <= hi + 1 || (hi >= 0xD7FF && ranges[i + 2] <= 0xE000))) i += 2, hi = ranges[i + 1];
      if (encoding == UTF8) {
        nfa_.any_escapes = nfa_.any_escapes || (lo <= '\\' && '\\' <= hi);
        utf8(from, to, lo, hi);
        continue;
      }
      raw_json(from, to, lo, hi);
      if (escapes_known) continue;
      static constexpr std::pair<i32, char> SHORT[] = {{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {8, 'b'}, {12, 'f'}, {10, 'n'}, {13, 'r'}, {9, 't'}};
      for (const auto& [code, letter] : SHORT)
        if (lo <= code && code <= hi) nfa_.add_edge(backslash(), EDGE_BYTE, to, 0, static_cast<u8>(letter), static_cast<u8>(letter));
      if (encoding == JSON_ANY) {
        nfa_.any_escapes = true;
        unicode_escape(backslash(), to, lo, hi);
      } else {
        static constexpr i32 LONG[][2] = {{0, 7}, {11, 11}, {14, 31}};  // control characters without a short escape
        for (const auto& control : LONG)
          if (const i32 low = std::max(lo, control[0]), high = std::min(hi, control[1]); low <= high) unicode_escape(backslash(), to, low, high);
      }
    }
    if (all_escapes && !escapes_known) escapes_.insert(key, escape);
  }

  // Which characters above U+007F lead to `to`: class loops know all, all but spaces, and spaces only.
  void describe_non_ascii(u32 from, u32 to, const i32* ranges, std::size_t count) {
    if (ranges[count - 1] < 0x80) return;
    bool every_other = true, every_space = true;
    i32 last = 0x7F;  // the characters up to here have been seen
    for (const u32 space : NON_ASCII_SPACES) {
      const i32 code = static_cast<i32>(space);
      every_other = every_other && contains(ranges, count, last + 1, code - 1);
      every_space = every_space && contains(ranges, count, code, code);
      last = code;
    }
    every_other = every_other && contains(ranges, count, last + 1, 0x10FFFF);
    bool only_spaces = !every_other;
    for (std::size_t i = 0; i < count && only_spaces; i += 2)
      for (i32 code = std::max(ranges[i], 0x80); code <= ranges[i + 1] && only_spaces; code++)
        only_spaces = std::find(std::begin(NON_ASCII_SPACES), std::end(NON_ASCII_SPACES), static_cast<u32>(code)) != std::end(NON_ASCII_SPACES);
    if (every_other) nfa_.add_edge(from, EDGE_NON_ASCII, to, every_space ? 0 : 1);
    else if (only_spaces) nfa_.add_edge(from, EDGE_NON_ASCII, to, 2);
    else nfa_.states[from].partial_non_ascii = true;
  }

  // lo..hi lies in the ranges, surrogates apart.
  static bool contains(const i32* ranges, std::size_t count, i32 lo, i32 hi) {
    for (std::size_t i = 0; i < count && lo <= hi; i += 2) {
      if (ranges[i] > lo) return false;
      if (ranges[i + 1] >= lo) lo = ranges[i + 1] + 1;
      if (lo >= 0xD800 && lo < 0xE000) lo = 0xE000;
    }
    return lo > hi;
  }

  void raw_json(u32 from, u32 to, i32 lo, i32 hi) {
    static constexpr i32 PLAIN[][2] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x10FFFF}};
    for (const auto& plain : PLAIN) {
      const i32 low = std::max(lo, plain[0]), high = std::min(hi, plain[1]);
      if (low <= high) utf8(from, to, low, high);
    }
  }

  // What is left to read until `to`, by the kind of tail: shared by all that lead to it.
  Map64 tails_, escapes_;
  u32 tail(u32 to, i32 kind, i32 lo, i32 hi) {
    const u64 key = static_cast<u64>(to) << 24 | static_cast<u64>(kind) << 16 | static_cast<u64>(lo) << 8 | static_cast<u64>(hi);
    if (const u32* found = tails_.find(key)) return *found;
    const u32 at = state();
    tails_.insert(key, at);
    nfa_.states[at].partial_non_ascii = true;
    nfa_.add_edge(at, EDGE_BYTE, kind == 1 ? to : tail(to, kind - 1, 0x80, 0xBF), 0, static_cast<u8>(lo), static_cast<u8>(hi));
    return at;
  }

  // UTF-8 byte ranges (RFC 3629), after Thompson's utf8 construction: split where the encoded length or a prefix changes.
  void utf8(u32 from, u32 to, i32 lo, i32 hi) {
    if (lo <= 0x7F) {
      nfa_.add_edge(from, EDGE_BYTE, to, 0, static_cast<u8>(lo), static_cast<u8>(std::min(hi, 0x7F)));
      lo = 0x80;
    }
    if (lo > hi) return;
    if (lo == 0x80 && hi == 0x10FFFF) {
      struct Group { u8 lo, hi; i32 kind, low, high; };
      static constexpr Group GROUPS[] = {{0xC2, 0xDF, 1, 0x80, 0xBF}, {0xE0, 0xE0, 2, 0xA0, 0xBF}, {0xE1, 0xEC, 2, 0x80, 0xBF}, {0xED, 0xED, 2, 0x80, 0x9F},
                                         {0xEE, 0xEF, 2, 0x80, 0xBF}, {0xF0, 0xF0, 3, 0x90, 0xBF}, {0xF1, 0xF3, 3, 0x80, 0xBF}, {0xF4, 0xF4, 3, 0x80, 0x8F}};
      for (const Group& g : GROUPS) nfa_.add_edge(from, EDGE_BYTE, tail(to, g.kind, g.low, g.high), 0, g.lo, g.hi);
      return;
    }
    static constexpr i32 BLOCKS[][3] = {{0x80, 0x7FF, 2}, {0x800, 0xD7FF, 3}, {0xE000, 0xFFFF, 3}, {0x10000, 0x10FFFF, 4}};
    for (const auto& block : BLOCKS) {
      const i32 low = std::max(lo, block[0]), high = std::min(hi, block[1]);
      if (low <= high) utf8_block(from, to, low, high, block[2]);
    }
  }

  static u8 utf8_byte(i32 code, i32 length, i32 index) {
    const i32 bits = code >> (6 * (length - 1 - index));
    static constexpr i32 LEAD[] = {0, 0, 0xC0, 0xE0, 0xF0};
    return static_cast<u8>(index == 0 ? LEAD[length] | bits : 0x80 | (bits & 0x3F));
  }

  void utf8_block(u32 from, u32 to, i32 lo, i32 hi, i32 length) {
    // Peel the ends until all bytes after the first differing one span their whole range. At most 2 * length - 1 pieces.
    for (i32 i = 1; i < length; i++) {
      const i32 low_bits = (1 << (6 * i)) - 1;
      if ((lo & ~low_bits) == (hi & ~low_bits)) continue;
      if (lo & low_bits) {
        utf8_block(from, to, lo, lo | low_bits, length);
        return utf8_block(from, to, (lo | low_bits) + 1, hi, length);
      }
      if ((hi & low_bits) != low_bits) {
        utf8_block(from, to, lo, (hi & ~low_bits) - 1, length);
        return utf8_block(from, to, hi & ~low_bits, hi, length);
      }
    }
    u32 at = from;
    for (i32 i = 0; i < length; i++) {
      const u8 low = utf8_byte(lo, length, i), high = utf8_byte(hi, length, i);
      const i32 left = length - 1 - i;
      bool full = true;  // the rest spans everything: share its states
      for (i32 j = i + 1; j < length; j++) full = full && utf8_byte(lo, length, j) == 0x80 && utf8_byte(hi, length, j) == 0xBF;
      if (i > 0) nfa_.states[at].partial_non_ascii = true;
      if (left == 0) {
        nfa_.add_edge(at, EDGE_BYTE, to, 0, low, high);
      } else if (full) {
        nfa_.add_edge(at, EDGE_BYTE, tail(to, left, 0x80, 0xBF), 0, low, high);
        return;
      } else {
        const u32 next = state();
        nfa_.add_edge(at, EDGE_BYTE, next, 0, low, high);
        at = next;
      }
    }
  }

  // \uXXXX for lo..hi after the backslash; a surrogate pair above U+FFFF; lone surrogates never.
  void unicode_escape(u32 from, u32 to, i32 lo, i32 hi) {
    const u32 digits = state();
    nfa_.add_edge(from, EDGE_BYTE, digits, 0, 'u', 'u');
    static constexpr i32 BLOCKS[][2] = {{0, 0xD7FF}, {0xE000, 0xFFFF}};
    for (const auto& block : BLOCKS) {
      const i32 low = std::max(lo, block[0]), high = std::min(hi, block[1]);
      if (low <= high) hexadecimal(digits, to, low, high, 4);
    }
    lo = std::max(lo, 0x10000) - 0x10000;
    hi -= 0x10000;
    while (lo <= hi) {  // high surrogates with the same range of low ones go together
      const i32 high_first = lo >> 10, low_first = lo & 0x3FF;
      i32 high_last = hi >> 10, low_last = hi & 0x3FF;
      if (high_first != high_last) {
        if (low_first != 0) high_last = high_first, low_last = 0x3FF;
        else if (low_last != 0x3FF) high_last--, low_last = 0x3FF;
      }
      const u32 middle = state(), slash = state(), second = state();
      hexadecimal(digits, middle, 0xD800 + high_first, 0xD800 + high_last, 4);
      nfa_.add_edge(middle, EDGE_BYTE, slash, 0, '\\', '\\');
      nfa_.add_edge(slash, EDGE_BYTE, second, 0, 'u', 'u');
      hexadecimal(second, to, 0xDC00 + low_first, 0xDC00 + low_last, 4);
      lo = ((high_last << 10) | low_last) + 1;
    }
  }

  void hex_digits(u32 from, u32 to, i32 lo, i32 hi) {
    if (lo <= 9) nfa_.add_edge(from, EDGE_BYTE, to, 0, static_cast<u8>('0' + lo), static_cast<u8>('0' + std::min(hi, 9)));
    if (hi >= 10) {
      const i32 low = std::max(lo, 10) - 10, high = hi - 10;
      nfa_.add_edge(from, EDGE_BYTE, to, 0, static_cast<u8>('a' + low), static_cast<u8>('a' + high));
      nfa_.add_edge(from, EDGE_BYTE, to, 0, static_cast<u8>('A' + low), static_cast<u8>('A' + high));
    }
  }

  // The numbers lo..hi as `digits` hexadecimal digits.
  void hexadecimal(u32 from, u32 to, i32 lo, i32 hi, i32 digits) {
    if (digits == 1) return hex_digits(from, to, lo, hi);
    const i32 span = 1 << (4 * (digits - 1));
    i32 first = lo / span, last = hi / span;
    if (first == last) {
      const u32 next = state();
      hex_digits(from, next, first, first);
      return hexadecimal(next, to, lo % span, hi % span, digits - 1);
    }
    if (lo % span != 0) {
      hexadecimal(from, to, lo, first * span + span - 1, digits);
      first++;
    }
    if (hi % span != span - 1) {
      hexadecimal(from, to, last * span, hi, digits);
      last--;
    }
    if (first > last) return;
    const u32 next = state();
    hex_digits(from, next, first, last);
    hexadecimal(next, to, 0, span - 1, digits - 1);
  }
};

}  // namespace

void Expressions::validate(u32 vocabulary_size) const {
  auto fail = [](const std::string& what) { throw BadGrammar("malformed grammar: " + what); };
  if (rules.empty()) fail("no rules");
  if (root < 0 || static_cast<std::size_t>(root) >= rules.size()) fail("the root is not a rule");
  for (std::size_t r = 0; r < rules.size(); r++)
    if (rules[r] < 0 || static_cast<std::size_t>(rules[r]) >= nodes.size()) fail("rule " + (r < names.size() ? names[r] : std::to_string(r)) + " is not defined");
  for (u32 node = 0; node < nodes.size(); node++) {
    const std::size_t n = count(node);
    auto child = [&](std::size_t i) {
      if (i >= n || arg(node, i) < 0 || static_cast<u32>(arg(node, i)) >= node) fail("node " + std::to_string(node) + " refers to a node that does not come before it");
    };
    auto ranges = [&](std::size_t from, std::size_t to, std::size_t step, i32 maximum) {
      for (std::size_t i = from; i + 1 < to; i += step) {
        if (arg(node, i) < 0 || arg(node, i) > arg(node, i + 1) || arg(node, i + 1) > maximum) fail("node " + std::to_string(node) + " has a range out of order");
        if (i > from && arg(node, i) <= arg(node, i - step + 1)) fail("node " + std::to_string(node) + " has ranges out of order");
      }
    };
    auto need = [&](bool ok) {
      if (!ok) fail("node " + std::to_string(node) + " has wrong arguments");
    };
    switch (nodes[node].op) {
      case OP_EMPTY:
      case OP_NEVER: break;
      case OP_LITERAL: need(n == 1 && !literals[static_cast<std::size_t>(arg(node, 0))].empty()); break;
      case OP_BYTES: need(n >= 2 && n % 2 == 0), ranges(0, n, 2, 255); break;
      case OP_CHARS: need(n >= 3 && n % 2 == 1 && arg(node, 0) >= UTF8 && arg(node, 0) <= JSON_ANY), ranges(1, n, 2, 0x10FFFF); break;
      case OP_SEQ:
      case OP_ALT:
        need(n >= 1);
        for (std::size_t i = 0; i < n; i++) child(i);
        break;
      case OP_REPEAT:
        need(n == 3 && arg(node, 1) >= 0 && arg(node, 2) >= -1);
        child(0);
        break;
      case OP_CALL: need(n == 1 && arg(node, 0) >= 0 && static_cast<std::size_t>(arg(node, 0)) < rules.size()); break;
      case OP_GRAPH:
        need(n >= 1 && n % 3 == 1 && arg(node, 0) >= 2);
        for (std::size_t i = 1; i < n; i += 3) {
          need(arg(node, i) >= 0 && arg(node, i) < arg(node, 0) && arg(node, i + 1) >= 0 && arg(node, i + 1) < arg(node, 0));
          if (arg(node, i + 2) != -1) child(i + 2);
        }
        break;
      case OP_AUTOMATON: {
        need(n >= 4 && arg(node, 0) >= RAW && arg(node, 0) <= JSON_ANY && arg(node, 1) >= 1);
        std::size_t at = 4;
        for (i32 s = 0; s < arg(node, 1); s++) {
          need(at + 1 < n && arg(node, at + 1) >= 0);
          const std::size_t transitions = static_cast<std::size_t>(arg(node, at + 1));
          at += 2;
          need(transitions <= (n - at) / 3);
          ranges(at, at + 3 * transitions, 3, arg(node, 0) == RAW ? 255 : 0x10FFFF);
          for (std::size_t t = 0; t < transitions; t++, at += 3) need(arg(node, at + 2) >= 0 && arg(node, at + 2) < arg(node, 1));
        }
        need(at == n);
        break;
      }
      case OP_EXCEPT:
        need(n >= 1 && arg(node, 0) >= UTF8 && arg(node, 0) <= JSON_ANY);
        for (std::size_t i = 2; i < n; i++)
          if (literals[static_cast<std::size_t>(arg(node, i - 1))] >= literals[static_cast<std::size_t>(arg(node, i))])
            fail("node " + std::to_string(node) + " has words out of order");
        break;
      case OP_TOKENS:
        need(n >= 1);
        for (std::size_t i = 1; i < n; i++)
          if (arg(node, i) < 0 || static_cast<u32>(arg(node, i)) >= vocabulary_size) fail("token " + std::to_string(arg(node, i)) + " is not in the vocabulary");
        break;
      case OP_PERMUTE:
        need(n >= 3 && n % 2 == 1 && arg(node, 1) >= 0 && arg(node, 2) >= -1);
        child(0);
        for (std::size_t i = 3; i < n; i += 2) child(i);
        break;
      case OP_SCOPE:
      case OP_DISTINCT:
      case OP_CAPTURE: need(n == 1), child(0); break;
      case OP_LIMIT: need(n == 2 && arg(node, 1) >= 0), child(0); break;
      case OP_TEMPERATURE: need(n == 2), child(0); break;
      default: fail("node " + std::to_string(node) + " has an unknown operator");
    }
  }
}

Nfa lower(const Expressions& expressions, const Limits& limits, Deadline& deadline, bool apart) {
  return Lowering(expressions, limits, deadline, apart).run();
}

}  // namespace stackmask
