#include "grammar/facts.h"

#include <algorithm>
#include <cstdlib>

namespace stackmask {

namespace {

constexpr u32 MOST_STATES = 1'000'000;

class Finder {
 public:
  Finder(Expressions& expressions, const TokenTrie& trie, Nfa& nfa, Deadline& deadline)
      : ex_(expressions), trie_(trie), nfa_(nfa), deadline_(deadline), nodes_(static_cast<u32>(ex_.nodes.size())),
        thresholds_(trie.thresholds()) {}

  Facts run() {
    facts_.unrolled = thresholds_.unrolled_states;
    find_productive();
    if (!facts_.is(root(), PRODUCTIVE)) throw Unsatisfiable("the grammar generates no text");
    reach();
    sizes();
    share();
    wholes();
    check_marks();
    return std::move(facts_);
  }

 private:
  Expressions& ex_;
  const TokenTrie& trie_;
  Nfa& nfa_;
  Deadline& deadline_;
  u32 nodes_;
  const Thresholds& thresholds_;
  Facts facts_;
  std::vector<u32> order_;      // the vertices reached: those that a vertex refers to come before it, but for cycles
  std::vector<u8> recursive_;   // by vertex
  std::vector<u8> calls_;       // by vertex: places that call it, saturated at 2
  std::vector<u8> distinct_;    // by node: holds a DISTINCT of a scope outside of it, which must stay in its rule
  ByTarget by_target_;

  i32 op(u32 node) const { return ex_.nodes[node].op; }
  u32 operand(u32 node, std::size_t i = 0) const { return static_cast<u32>(ex_.arg(node, i)); }
  bool apart(u32 node) const {  // its operand is a rule
    return op(node) == OP_SCOPE || op(node) == OP_DISTINCT || op(node) == OP_LIMIT || op(node) == OP_TEMPERATURE;
  }
  u32 root() const { return nodes_ + static_cast<u32>(ex_.root); }
  u32 body(u32 rule) const { return static_cast<u32>(ex_.rules[rule]); }

  // The vertices that a vertex refers to; NONE for an edge of a GRAPH that reads nothing.
  std::size_t child_count(u32 vertex) const { return vertex >= nodes_ || op(vertex) == OP_CALL ? 1 : ex_.operand_count(vertex); }
  u32 child(u32 vertex, std::size_t i) const {
    if (vertex >= nodes_) return body(vertex - nodes_);
    return op(vertex) == OP_CALL ? nodes_ + operand(vertex) : ex_.operand(vertex, i);
  }
  template <class F>
  void each_child(u32 vertex, F f) const {
    const std::size_t count = child_count(vertex);
    for (std::size_t i = 0; i < count; i++)
      if (const u32 c = child(vertex, i); c != NONE) f(c);
  }

  // ---- productive and nullable vertices

  // A least fixpoint. Nodes stand behind their operands, so a round over them all leaves only what calls a rule that is defined later.
  void find_productive() {
    constexpr int ROUNDS = 4;
    std::vector<u8>& flags = facts_.flags;
    flags.resize(nodes_ + ex_.rules.size());
    const u32 first = static_cast<u32>(ex_.generates.size());
    std::copy(ex_.generates.begin(), ex_.generates.end(), flags.begin());
    std::vector<u32> calls;
    for (u32 node = first; node < nodes_; node++) {
      deadline_.check();
      if (op(node) == OP_CALL) calls.push_back(node);
      flags[node] = evaluate(node);
    }
    auto stale = [&](u32 call) { return flags[call] != flags[body(operand(call))]; };
    bool done = std::none_of(calls.begin(), calls.end(), stale);
    std::vector<u8> changed;
    for (int round = 1; round < ROUNDS && !done; round++) {
      changed.assign(nodes_, 0);
      for (u32 node = calls.front(); node < nodes_; node++) {
        if (flags[node] == (PRODUCTIVE | NULLABLE)) continue;
        bool due = op(node) == OP_CALL && stale(node);
        if (op(node) != OP_CALL) each_child(node, [&](u32 c) { due = due || changed[c]; });
        if (!due) continue;
        const u8 now = static_cast<u8>(flags[node] | evaluate(node));
        changed[node] = now != flags[node];
        flags[node] = now;
      }
      done = std::none_of(calls.begin(), calls.end(), stale);
    }
    if (!done) propagate(calls);
    ex_.generates.assign(flags.begin(), flags.begin() + nodes_);
    for (u32 r = 0; r < ex_.rules.size(); r++) flags[nodes_ + r] = flags[body(r)];
  }

  // The same by a queue of vertices that may have changed, for rules that call each other in long rows.
  void propagate(const std::vector<u32>& calls) {
    auto source = [&](u32 node, u32 c) { return op(node) == OP_CALL ? body(operand(node)) : c; };
    std::vector<u32> begin(nodes_ + 1, 0);
    for (u32 node = 0; node < nodes_; node++) each_child(node, [&](u32 c) { begin[source(node, c) + 1]++; });
    for (u32 i = 1; i <= nodes_; i++) begin[i] += begin[i - 1];
    std::vector<u32> parents(begin[nodes_]), cursor(begin.begin(), begin.end() - 1), work(calls);
    for (u32 node = 0; node < nodes_; node++) each_child(node, [&](u32 c) { parents[cursor[source(node, c)]++] = node; });
    std::vector<u8> waiting(nodes_, 0);
    for (const u32 call : calls) waiting[call] = 1;
    for (std::size_t next = 0; next < work.size(); next++) {
      const u32 node = work[next];
      waiting[node] = 0;
      deadline_.check();
      if (facts_.flags[node] == (PRODUCTIVE | NULLABLE)) continue;
      const u8 now = static_cast<u8>(facts_.flags[node] | evaluate(node));
      if (now == facts_.flags[node]) continue;
      facts_.flags[node] = now;
      for (u32 i = begin[node]; i < begin[node + 1]; i++)
        if (!waiting[parents[i]]) waiting[parents[i]] = 1, work.push_back(parents[i]);
    }
  }

  u8 evaluate(u32 node) {
    const std::size_t n = ex_.count(node);
    constexpr u8 SOME = PRODUCTIVE, BOTH = PRODUCTIVE | NULLABLE;
    auto of = [&](std::size_t i) { return facts_.flags[operand(node, i)]; };
    switch (op(node)) {
      case OP_EMPTY: return BOTH;
      case OP_LITERAL:
      case OP_BYTES: return PRODUCTIVE;
      case OP_EXCEPT: return n == 1 || !ex_.literal(node, 1).empty() ? BOTH : SOME;
      case OP_CHARS:
        for (std::size_t i = 1; i < n; i += 2)
          if (!only_surrogates(ex_.arg(node, i), ex_.arg(node, i + 1))) return PRODUCTIVE;
        return 0;
      case OP_TOKENS: return some_token(node) ? PRODUCTIVE : 0;
      case OP_SEQ: {
        u8 all = BOTH;
        for (std::size_t i = 0; i < n && all; i++) all &= of(i);
        return all;
      }
      case OP_ALT: {
        u8 any = 0;
        for (std::size_t i = 0; i < n && any != BOTH; i++) any |= of(i);
        return any;
      }
      case OP_REPEAT:
        if (ex_.arg(node, 2) >= 0 && ex_.arg(node, 1) > ex_.arg(node, 2)) return 0;
        return ex_.arg(node, 1) == 0 ? BOTH : of(0);
      case OP_CALL: return facts_.flags[body(operand(node))];
      case OP_GRAPH: {
        bool empty = false;  // some last edge may read nothing
        for (std::size_t i = 1; i < n && !empty; i += 3)
          empty = ex_.arg(node, i + 1) == 1 && (ex_.arg(node, i + 2) < 0 || (of(i + 2) & NULLABLE));
        return !leads(node, PRODUCTIVE) ? 0 : empty && leads(node, NULLABLE) ? BOTH : SOME;
      }
      case OP_AUTOMATON: return automaton(node);
      case OP_PERMUTE: return static_cast<u8>((permutes(node, PRODUCTIVE) ? PRODUCTIVE : 0) | (permutes(node, NULLABLE) ? NULLABLE : 0));
      case OP_SCOPE:
      case OP_LIMIT:
      case OP_CAPTURE:
      case OP_TEMPERATURE: return of(0);
      case OP_DISTINCT: return of(0) & PRODUCTIVE;
      default: return 0;
    }
  }

  bool some_token(u32 node) const {
    const std::size_t n = ex_.count(node);
    if (!ex_.arg(node, 0)) return n > 1;
    std::vector<u32> ids;
    for (std::size_t i = 1; i < n; i++) ids.push_back(operand(node, i));
    std::sort(ids.begin(), ids.end());
    for (u32 id = 0; id < trie_.size(); id++)
      if (in_negated(node, id) && !std::binary_search(ids.begin(), ids.end(), id)) return true;
    return false;
  }

  // The states of a GRAPH that are reached by labels with this flag.
  std::vector<u8> reached_;
  std::vector<u32> begin_, next_, work_;
  bool leads(u32 node, u8 flag) {
    const std::size_t states = static_cast<std::size_t>(ex_.arg(node, 0)), n = ex_.count(node);
    auto passes = [&](std::size_t i) { return ex_.arg(node, i + 2) < 0 || (facts_.flags[operand(node, i + 2)] & flag); };
    begin_.assign(states + 1, 0);
    for (std::size_t i = 1; i < n; i += 3) begin_[operand(node, i) + 1] += passes(i);
    for (std::size_t s = 1; s <= states; s++) begin_[s] += begin_[s - 1];
    next_.resize(begin_[states]);
    for (std::size_t i = n; i > 1; i -= 3)
      if (passes(i - 3)) next_[--begin_[operand(node, i - 3) + 1]] = operand(node, i - 2);
    // Now begin_[s + 1] is where the edges of s begin.
    reached_.assign(states, 0);
    reached_[0] = 1;
    work_.assign(1, 0);
    while (!work_.empty()) {
      const u32 s = work_.back();
      work_.pop_back();
      const u32 end = s + 2 <= states ? begin_[s + 2] : static_cast<u32>(next_.size());
      for (u32 i = begin_[s + 1]; i < end; i++)
        if (!reached_[next_[i]]) reached_[next_[i]] = 1, work_.push_back(next_[i]);
    }
    return reached_[1];
  }

  // Where the states of an automaton begin among its arguments; its first state is reached and to be worked on.
  void enter_automaton(u32 node) {
    const u32 states = static_cast<u32>(ex_.arg(node, 1));
    begin_.resize(states);
    std::size_t at = 4;
    for (u32 s = 0; s < states; s++) {
      begin_[s] = static_cast<u32>(at);
      at += 2 + 3 * static_cast<std::size_t>(ex_.arg(node, at + 1));
    }
    reached_.assign(states, 0);
    reached_[0] = 1;
    work_.assign(1, 0);
  }

  u8 automaton(u32 node) {
    const i32 minimum = ex_.arg(node, 2), maximum = ex_.arg(node, 3);
    const bool empty = ex_.arg(node, 4) != 0;
    if (minimum > 0 || maximum >= 0) {
      std::vector<u32> least, most;
      automaton_lengths(ex_, node, least, &most);
      const bool some = least[0] != NONE && (maximum < 0 || least[0] <= static_cast<u32>(maximum)) &&
                        (minimum <= 0 || most[0] >= static_cast<u32>(minimum));
      return !some ? 0 : empty && minimum <= 0 ? PRODUCTIVE | NULLABLE : PRODUCTIVE;
    }
    if (empty) return PRODUCTIVE | NULLABLE;
    enter_automaton(node);
    while (!work_.empty()) {
      const u32 from = begin_[work_.back()];
      work_.pop_back();
      if (ex_.arg(node, from)) return PRODUCTIVE;
      const u32 end = from + 2 + 3 * operand(node, from + 1);
      for (u32 i = from + 2; i < end; i += 3) {
        const u32 target = operand(node, i + 2);
        if (reached_[target] || (ex_.arg(node, 0) != RAW && only_surrogates(ex_.arg(node, i), ex_.arg(node, i + 1)))) continue;
        reached_[target] = 1;
        work_.push_back(target);
      }
    }
    return 0;
  }

  bool permutes(u32 node, u8 flag) const {
    long long required = 0, members = 0;
    bool repeatable = false;
    for (std::size_t i = 3; i < ex_.count(node); i += 2) {
      const bool good = facts_.flags[operand(node, i)] & flag;
      if (ex_.arg(node, i + 1) & REQUIRED) {
        if (!good) return false;
        required++;
      }
      members += good;
      repeatable = repeatable || (good && (ex_.arg(node, i + 1) & REPEATABLE));
    }
    const long long needed = std::max<long long>(required, ex_.arg(node, 1));
    if (ex_.arg(node, 2) >= 0 && needed > ex_.arg(node, 2)) return false;
    return (needed <= 1 || (facts_.flags[operand(node)] & flag)) && (members >= needed || repeatable);
  }

  // ---- reachability and recursion (Tarjan 1972, with an explicit stack)

  void reach() {
    const u32 vertices = static_cast<u32>(facts_.flags.size());
    std::vector<u32> index(vertices, 0), low(vertices, 0), stack;
    recursive_.assign(vertices, 0);
    facts_.rank.assign(vertices, 0);
    order_.reserve(vertices);
    std::vector<u8> emitted(vertices, 0);
    u32 next = 1;
    struct Visit {
      u32 vertex;
      u32 at, count;
    };
    std::vector<Visit> visits;
    auto enter = [&](u32 v) {
      index[v] = low[v] = next++;
      facts_.flags[v] |= REACHED;
      stack.push_back(v);
      visits.push_back({v, 0, static_cast<u32>(child_count(v))});
    };
    enter(root());
    while (!visits.empty()) {
      deadline_.check();
      Visit& visit = visits.back();
      const u32 v = visit.vertex;
      bool descended = false;
      while (visit.at < visit.count) {
        const u32 w = child(v, visit.at++);
        if (w == NONE || !facts_.is(w, PRODUCTIVE)) continue;
        if (!index[w]) {
          enter(w);
          descended = true;
          break;
        }
        if (!emitted[w]) low[v] = std::min(low[v], index[w]);
      }
      if (descended) continue;
      visits.pop_back();
      if (!visits.empty()) low[visits.back().vertex] = std::min(low[visits.back().vertex], low[v]);
      if (low[v] != index[v]) continue;
      const std::size_t first = order_.size();
      u32 w;
      do {
        w = stack.back();
        stack.pop_back();
        emitted[w] = 1;
        order_.push_back(w);
      } while (w != v);
      if (order_.size() - first > 1) component(first);
    }
    for (std::size_t i = 0; i < order_.size(); i++) facts_.rank[order_[i]] = static_cast<u32>(order_.size() - i);
  }

  // Vertices that reach each other, by which may call which before anything is read; a cycle there is left recursion.
  void component(std::size_t first) {
    std::vector<u32> members(order_.begin() + static_cast<std::ptrdiff_t>(first), order_.end());
    for (const u32 v : members) recursive_[v] = 1;  // 2: begun, 3: done
    order_.resize(first);
    struct Visit {
      u32 vertex;
      std::size_t at;
      std::vector<u32> left;
    };
    std::vector<Visit> visits;
    for (const u32 start : members) {
      if (recursive_[start] != 1) continue;
      recursive_[start] = 2;
      visits.push_back({start, 0, left_children(start)});
      while (!visits.empty()) {
        deadline_.check();
        Visit& visit = visits.back();
        if (visit.at == visit.left.size()) {
          recursive_[visit.vertex] = 3;
          order_.push_back(visit.vertex);
          visits.pop_back();
          continue;
        }
        const u32 w = visit.left[visit.at++];
        if (recursive_[w] == 2) facts_.left_recursive = true;
        if (recursive_[w] != 1) continue;
        recursive_[w] = 2;
        visits.push_back({w, 0, left_children(w)});
      }
    }
  }

  std::vector<u32> left_children(u32 vertex) {
    std::vector<u32> left;
    auto add = [&](u32 c) {
      if (c != NONE && facts_.is(c, PRODUCTIVE)) left.push_back(c);
    };
    if (vertex < nodes_ && op(vertex) == OP_SEQ) {
      for (std::size_t i = 0; i < ex_.count(vertex); i++) {
        add(operand(vertex, i));
        if (!facts_.is(operand(vertex, i), NULLABLE)) break;
      }
    } else if (vertex < nodes_ && op(vertex) == OP_GRAPH) {
      leads(vertex, NULLABLE);
      for (std::size_t i = 1; i < ex_.count(vertex); i += 3)
        if (reached_[operand(vertex, i)]) add(operand(vertex, i + 2));
    } else if (vertex < nodes_ && op(vertex) == OP_PERMUTE) {
      bool empty = false;  // a member that reads nothing is followed by a separator
      for (std::size_t i = 3; i < ex_.count(vertex); i += 2)
        add(operand(vertex, i)), empty = empty || facts_.is(operand(vertex, i), NULLABLE);
      if (empty) add(operand(vertex));
    } else {
      each_child(vertex, add);
    }
    return left;
  }

  // ---- sizes

  template <class F>
  u64 states(u32 node, F size_of) const {
    const std::size_t n = ex_.count(node);
    u64 size = 1;
    switch (op(node)) {
      case OP_LITERAL: return ex_.literal(node, 0).size();
      case OP_CHARS: return ex_.arg(node, 0) == JSON_ANY ? 12 : n > 3 || ex_.arg(node, n - 1) > 127 ? 8 : 1;
      case OP_SEQ:
      case OP_ALT:
        for (std::size_t i = 0; i < n; i++) size += size_of(operand(node, i));
        return size;
      case OP_REPEAT: {
        const u64 one = size_of(operand(node));
        const u64 times = static_cast<u64>(std::max({1, ex_.arg(node, 1), ex_.arg(node, 2)}));
        return one * times <= facts_.unrolled ? one * times : one + 3;
      }
      case OP_GRAPH:
        for (std::size_t i = 3; i < n; i += 3)
          if (ex_.arg(node, i) >= 0) size += size_of(operand(node, i));
        return size;
      case OP_AUTOMATON: return static_cast<u64>(ex_.arg(node, 1));
      case OP_EXCEPT:
        for (std::size_t i = 1; i < n; i++) size += ex_.literal(node, i).size();
        return size;
      case OP_PERMUTE: return 1000;
      case OP_CAPTURE: return size_of(operand(node));
      default: return 1;
    }
  }

  u64 least_of(u32 node) const {
    const std::size_t n = ex_.count(node);
    u64 least = 0;
    switch (op(node)) {
      case OP_LITERAL: return ex_.literal(node, 0).size();
      case OP_BYTES:
      case OP_CHARS: return 1;
      case OP_SEQ:
        for (std::size_t i = 0; i < n; i++) least += facts_.least[operand(node, i)];
        return least;
      case OP_ALT:
        least = NONE;
        for (std::size_t i = 0; i < n; i++) least = std::min<u64>(least, facts_.least[operand(node, i)]);
        return least;
      case OP_REPEAT: return static_cast<u64>(ex_.arg(node, 1)) * facts_.least[operand(node)];
      case OP_CAPTURE:
      case OP_LIMIT:
      case OP_TEMPERATURE: return facts_.least[operand(node)];
      default: return 0;
    }
  }

  void sizes() {
    facts_.size.resize(nodes_);
    facts_.least.resize(nodes_);
    distinct_.assign(nodes_, 0);
    std::vector<u8> held(nodes_, 0);  // holds a node that counts and has a DISTINCT inside
    for (u32 node = 0; node < nodes_; node++) {
      if (!facts_.is(node, REACHED)) {
        facts_.size[node] = 1, facts_.least[node] = 0;
        continue;
      }
      facts_.size[node] = static_cast<u32>(std::min<u64>(states(node, [&](u32 c) { return facts_.size[c]; }), MOST_STATES));
      facts_.least[node] = static_cast<u32>(std::min<u64>(least_of(node), MOST_STATES));
      facts_.states += child_count(node) + (child_count(node) ? 0 : facts_.size[node]);
      if (op(node) == OP_CALL) continue;
      each_child(node, [&](u32 c) { distinct_[node] |= distinct_[c], held[node] |= held[c]; });
      if (op(node) == OP_SCOPE) distinct_[node] = held[node] = 0;
      if (op(node) == OP_DISTINCT) distinct_[node] = 1;
      if (distinct_[node] && (op(node) == OP_PERMUTE || (op(node) == OP_REPEAT && counted_repeat(ex_, facts_, node)))) {
        if (held[node] || (op(node) == OP_REPEAT && facts_.is(operand(node), NULLABLE))) facts_.nested_distinct = true;
        held[node] = 1;
      }
    }
  }

  // ---- shared nodes, and facts of the whole grammar for the NFA

  void share() {
    const u32 vertices = static_cast<u32>(facts_.flags.size());
    calls_.assign(vertices, 0);
    std::vector<u8> references(nodes_, 0), places(nodes_, 0), wholes(nodes_, 0);  // saturated at 2; a whole is that of a rule
    auto add = [](u8& count, u8 more) { count = static_cast<u8>(std::min(2, count + more)); };
    bool guards = false;
    for (u32 r = 0; r < ex_.rules.size(); r++)
      if (facts_.is(nodes_ + r, REACHED)) {
        add(wholes[body(r)], 1);
        if (distinct_[body(r)]) outside_of_scope();
      }
    for (u32 node = nodes_; node-- > 0;) {
      if (!facts_.is(node, REACHED)) continue;
      deadline_.check();
      const i32 kind = op(node);
      if (references[node] > 1 && facts_.size[node] > thresholds_.shared_states && !distinct_[node] && kind != OP_CALL && !apart(node))
        facts_.flags[node] |= SHARED;
      u8 inner = wholes[node];  // how often it is lowered
      if (facts_.is(node, SHARED)) {
        calls_[node] = places[node];
        add(inner, places[node] != 0);
      } else {
        add(inner, places[node]);
      }
      if (kind == OP_CALL) {
        add(calls_[nodes_ + operand(node)], inner);
        continue;
      }
      const bool ruled = apart(node);
      if (kind == OP_REPEAT && std::max(ex_.arg(node, 1), ex_.arg(node, 2)) > 1 && !counted_repeat(ex_, facts_, node)) inner = 2;
      each_child(node, [&](u32 c) {
        if (!facts_.is(c, REACHED)) return;
        add(references[c], 1);
        add(ruled ? wholes[c] : places[c], ruled ? 1 : inner);
        if (ruled && kind != OP_SCOPE && distinct_[c]) outside_of_scope();
      });
      if (kind == OP_TOKENS) token_set(node);
      else if (kind == OP_CAPTURE) nfa_.captures = true;
      else if (kind == OP_LIMIT) facts_.limited = true;
      else if (kind == OP_TEMPERATURE) nfa_.temperatures.push_back(temperature(node));
      else if (kind == OP_DISTINCT) guards = nfa_.any_distinct = true;
      else if (kind == OP_PERMUTE) nfa_.permutes = true;
    }
    std::sort(facts_.token_sets.begin(), facts_.token_sets.end());
    std::sort(nfa_.temperatures.begin() + 1, nfa_.temperatures.end());
    nfa_.temperatures.erase(std::unique(nfa_.temperatures.begin() + 1, nfa_.temperatures.end()), nfa_.temperatures.end());
    if (guards) find_endless();
    if (guards)
      for (const u32 vertex : order_) nfa_.any_escapes = nfa_.any_escapes || (vertex < nodes_ && escapes(vertex));
    facts_.root_called = calls_[root()] != 0;
    add(calls_[root()], 1);
    for (const u32 vertex : order_)
      if (calls_[vertex] == 1) facts_.flags[vertex] |= CALLED_ONCE;
  }

  [[noreturn]] static void outside_of_scope() { throw BadGrammar("DISTINCT outside of a SCOPE of the same rule"); }
  double temperature(u32 node) const { return ex_.numbers[static_cast<std::size_t>(ex_.arg(node, 1))]; }

  // A negated set holds tokens that have text, or all tokens.
  bool in_negated(u32 node, u32 id) const { return ex_.arg(node, 0) == ANY_TOKEN || trie_.has_text(id); }

  // Negated sets are resolved to bitmasks.
  void token_set(u32 node) {
    TokenSet set;
    set.negated = ex_.arg(node, 0) != 0;
    for (std::size_t i = 1; i < ex_.count(node); i++) set.ids.push_back(operand(node, i));
    std::sort(set.ids.begin(), set.ids.end());
    if (set.negated) {
      set.bits.assign(trie_.words(), 0);
      for (u32 id = 0; id < trie_.size(); id++)
        if (in_negated(node, id)) set.bits[id >> 5] |= 1u << (id & 31);
      for (const u32 id : set.ids) set.bits[id >> 5] &= ~(1u << (id & 31));
    }
    facts_.token_sets.push_back({node, static_cast<u32>(nfa_.token_sets.size())});
    nfa_.token_sets.push_back(std::move(set));
  }

  // GRAPHs, counted repetitions, permutations and rules that call themselves are never found endless.
  void find_endless() {
    std::vector<u8>& endless = facts_.endless;
    endless.assign(facts_.flags.size(), 0);
    for (const u32 v : order_) {
      const i32 kind = v < nodes_ ? op(v) : OP_CALL;
      if (kind == OP_EXCEPT) endless[v] = 1;
      else if (kind == OP_AUTOMATON) endless[v] = repeats_letters(v);
      else if (kind == OP_REPEAT && ex_.arg(v, 2) < 0 && ex_.arg(v, 1) <= 1) endless[v] = endless[operand(v)] || letters(operand(v)) > 1;
      else if (kind != OP_REPEAT && kind != OP_GRAPH && kind != OP_PERMUTE && kind != OP_DISTINCT)
        each_child(v, [&](u32 c) { endless[v] |= endless[c]; });
    }
  }
  static u32 letters(i32 lo, i32 hi) { return static_cast<u32>(std::max(0, std::min<i32>(hi, 'z') - std::max<i32>(lo, 'a') + 1)); }
  u32 letters(u32 node) const {
    u32 count = 0;
    if (op(node) == OP_BYTES || op(node) == OP_CHARS)
      for (std::size_t i = op(node) == OP_CHARS; i < ex_.count(node); i += 2) count += letters(ex_.arg(node, i), ex_.arg(node, i + 1));
    return count;
  }
  // A state that is reached and leads on reads two letters or more and is back.
  bool repeats_letters(u32 node) {
    if (ex_.arg(node, 2) > 0 || ex_.arg(node, 3) >= 0) return false;
    std::vector<u32> least;
    automaton_lengths(ex_, node, least, nullptr);
    enter_automaton(node);
    while (!work_.empty()) {
      const u32 s = work_.back();
      work_.pop_back();
      u32 count = 0;
      for (u32 i = begin_[s] + 2, end = i + 3 * operand(node, begin_[s] + 1); i < end; i += 3) {
        const u32 target = operand(node, i + 2);
        if (target == s) count += letters(ex_.arg(node, i), ex_.arg(node, i + 1));
        if (reached_[target] || least[target] == NONE) continue;
        reached_[target] = 1;
        work_.push_back(target);
      }
      if (count > 1) return true;
    }
    return false;
  }

  // Whether a JSON text may spell a character by an escape that it does not need.
  bool escapes(u32 node) const {
    auto backslash = [](i32 lo, i32 hi) { return lo <= '\\' && '\\' <= hi; };
    const std::size_t n = ex_.count(node);
    switch (op(node)) {
      case OP_LITERAL: return odd_escape(ex_.literal(node, 0));
      case OP_BYTES:
        for (std::size_t i = 0; i < n; i += 2)
          if (backslash(ex_.arg(node, i), ex_.arg(node, i + 1))) return true;
        return false;
      case OP_CHARS:
        if (ex_.arg(node, 0) == JSON_ANY) return true;
        for (std::size_t i = 1; i < n && ex_.arg(node, 0) == UTF8; i += 2)
          if (backslash(ex_.arg(node, i), ex_.arg(node, i + 1))) return true;
        return false;
      case OP_EXCEPT: return ex_.arg(node, 0) != JSON;
      case OP_AUTOMATON: {
        if (ex_.arg(node, 0) == JSON) return false;
        if (ex_.arg(node, 0) == JSON_ANY) return true;
        std::size_t at = 4;
        for (i32 s = 0; s < ex_.arg(node, 1); s++) {
          const std::size_t end = at + 2 + 3 * operand(node, at + 1);
          for (at += 2; at < end; at += 3)
            if (backslash(ex_.arg(node, at), ex_.arg(node, at + 1))) return true;
        }
        return false;
      }
      default: return false;
    }
  }
  // A JSON text that begins here or before may spell a character by an escape that it does not need.
  static bool odd_escape(std::string_view data) {
    for (std::size_t i = data.find('\\'); i != std::string_view::npos; i = data.find('\\', i + 2)) {
      if (i + 1 >= data.size()) return true;
      if (data[i + 1] != 'u') continue;
      const u32 code = static_cast<u32>(std::strtoul(std::string(data.substr(i + 2, 4)).c_str(), nullptr, 16));
      if (i + 6 > data.size() || code >= 0x20 || (code >= 8 && code <= 13 && code != 11)) return true;
    }
    return false;
  }

  // ---- inlining

  // Calls of small rules, and of rules that are called once, become the callee's states: states of one rule need no stack, and a
  // rule that ends inside a large loop would hand over a large set of trie nodes.
  void wholes() {
    facts_.whole.assign(facts_.flags.size(), 1);
    for (const u32 vertex : order_)
      if (facts_.is(vertex, CALLED_ONCE) && may_inline(vertex)) facts_.flags[vertex] |= INLINED;
    for (const u32 v : order_) {  // callees come before the vertices that they are inlined into
      u8& flags = facts_.flags[v];
      if (v >= nodes_) {
        const u32 node = body(v - nodes_);
        facts_.whole[v] = facts_.whole[node];
        flags = static_cast<u8>(flags | (facts_.flags[node] & (COUNTING | OPEN)));
      } else {
        auto merged = [&](u32 c) { return c >= nodes_ || facts_.is(c, SHARED) ? facts_.is(c, INLINED) : true; };
        auto cost = [&](u32 c) -> u64 { return merged(c) ? facts_.whole[c] : 1; };
        facts_.whole[v] = static_cast<u32>(std::min<u64>(op(v) == OP_CALL ? cost(child(v, 0)) : states(v, cost), MOST_STATES));
        bool counting = counts(v);
        if (!apart(v)) each_child(v, [&](u32 c) { counting = counting || (merged(c) && facts_.is(c, COUNTING)); });
        if (counting) flags |= COUNTING;
        if (ends_open(v)) flags |= OPEN;
      }
      if (facts_.is(v, INLINED) || recursive_[v] || !may_inline(v)) continue;
      if (facts_.whole[v] <= thresholds_.inlined_states || (facts_.whole[v] <= thresholds_.inlined_open_states && facts_.is(v, OPEN)))
        flags |= INLINED;
    }
  }

  bool may_inline(u32 vertex) const {
    if (vertex == root() || (vertex < nodes_ && !facts_.is(vertex, SHARED))) return false;
    u32 node = vertex < nodes_ ? vertex : body(vertex - nodes_);
    while (op(node) == OP_CAPTURE) node = operand(node);
    return op(node) != OP_LIMIT && op(node) != OP_TEMPERATURE;
  }
  bool counts(u32 node) const {
    switch (op(node)) {
      case OP_REPEAT: return counted_repeat(ex_, facts_, node);
      case OP_PERMUTE: return true;
      case OP_AUTOMATON: return ex_.arg(node, 2) > 0 || ex_.arg(node, 3) >= 0;
      default: return false;
    }
  }
  bool ends_open(u32 node) const {
    const std::size_t n = ex_.count(node);
    auto open = [&](u32 c) { return facts_.is(c, OPEN) && (!facts_.is(c, SHARED) || facts_.is(c, INLINED)); };
    switch (op(node)) {
      case OP_SEQ:
        for (std::size_t i = n; i-- > 0;) {
          const u32 c = operand(node, i);
          if (open(c)) return true;
          if (!facts_.is(c, NULLABLE)) return false;
          if (op(c) != OP_EMPTY) return true;
        }
        return false;
      case OP_ALT:
        for (std::size_t i = 0; i < n; i++)
          if (open(operand(node, i)) || (n > 1 && facts_.is(operand(node, i), NULLABLE))) return true;
        return false;
      case OP_REPEAT: return ex_.arg(node, 1) != ex_.arg(node, 2) || open(operand(node));
      case OP_CALL: return facts_.is(nodes_ + operand(node), INLINED) && facts_.is(nodes_ + operand(node), OPEN);
      case OP_CAPTURE: return open(operand(node));
      case OP_EXCEPT:
      case OP_PERMUTE: return true;
      case OP_GRAPH:
        for (std::size_t i = 1; i < n; i += 3)
          if (operand(node, i + 1) == 1 && (ex_.arg(node, i + 2) < 0 || open(operand(node, i + 2)))) return true;
        return false;
      case OP_AUTOMATON: {
        std::size_t at = 4;
        for (i32 s = 0; s < ex_.arg(node, 1); s++) {
          if (ex_.arg(node, at) && ex_.arg(node, at + 1)) return true;
          at += 2 + 3 * operand(node, at + 1);
        }
        return false;
      }
      default: return false;
    }
  }

  // Inside of a SCOPE that a rule may end does not mean that something may follow: the values may have run out.
  void check_marks() const {
    if (!facts_.limited && nfa_.temperatures.size() == 1) return;
    std::vector<u8> seen(facts_.flags.size(), 0);
    std::vector<u32> work;
    auto add = [&](u32 c) {
      if (!seen[c] && facts_.is(c, REACHED)) seen[c] = 1, work.push_back(c);
    };
    for (const u32 vertex : order_)
      if (vertex < nodes_ && op(vertex) == OP_SCOPE) add(operand(vertex));
    while (!work.empty()) {
      const u32 vertex = work.back();
      work.pop_back();
      if (vertex < nodes_ &&
          (op(vertex) == OP_TEMPERATURE || (op(vertex) == OP_LIMIT && (ex_.arg(vertex, 1) != 0 || !facts_.is(operand(vertex), NULLABLE)))))
        throw BadGrammar("a LIMIT or a TEMPERATURE inside of a SCOPE");
      each_child(vertex, add);
    }
  }
};

}  // namespace

bool counted_repeat(const Expressions& expressions, const Facts& facts, u32 node) {
  const i32 minimum = expressions.arg(node, 1), maximum = expressions.arg(node, 2);
  if (maximum == 0 || (maximum < 0 && minimum <= 1) || (minimum == 0 && maximum == 1)) return false;
  return facts.size[static_cast<u32>(expressions.arg(node, 0))] * static_cast<u64>(std::max(minimum, maximum)) > facts.unrolled;
}

std::size_t by_target(const Expressions& ex, u32 node, std::size_t at, ByTarget& result) {
  const std::size_t begin = at + 2, end = begin + 3 * static_cast<std::size_t>(ex.arg(node, at + 1));
  auto each = [&](auto take) {
    for (std::size_t t = begin; t < end; t += 3)
      if (ex.arg(node, 0) == RAW || !only_surrogates(ex.arg(node, t), ex.arg(node, t + 1))) take(t, static_cast<u32>(ex.arg(node, t + 2)));
  };
  Scratch<u32> group_of;  // by transition
  result.groups.clear();
  each([&](std::size_t, u32 target) {
    auto found = std::find_if(result.groups.begin(), result.groups.end(), [&](const auto& group) { return group.target == target; });
    if (found == result.groups.end()) found = result.groups.insert(result.groups.end(), {target, 0, 0});
    found->end += 2;
    group_of.push_back(static_cast<u32>(found - result.groups.begin()));
  });
  u32 places = 0;
  for (auto& group : result.groups) {
    const u32 count = group.end;
    group.begin = group.end = places;
    places += count;
  }
  result.ranges.resize(places);
  std::size_t next = 0;
  each([&](std::size_t t, u32) {
    u32& place = result.groups[group_of[next++]].end;
    result.ranges[place++] = ex.arg(node, t);
    result.ranges[place++] = ex.arg(node, t + 1);
  });
  return end;
}

void automaton_lengths(const Expressions& ex, u32 node, std::vector<u32>& least, std::vector<u32>* greatest) {
  const u32 count = static_cast<u32>(ex.arg(node, 1));
  Scratch<std::pair<u32, u32>> edges;  // (target, source), each once
  Scratch<u32> work, last, begin, sources, cursor, waiting, longest;
  last.assign(count, NONE);
  begin.assign(count + 1, 0);
  least.assign(count, NONE);
  std::size_t at = 4;
  for (u32 i = 0; i < count; i++) {
    if (ex.arg(node, at)) least[i] = 0, work.push_back(i);
    const std::size_t end = at + 2 + 3 * static_cast<std::size_t>(ex.arg(node, at + 1));
    for (at += 2; at < end; at += 3) {
      const u32 target = static_cast<u32>(ex.arg(node, at + 2));
      if (last[target] == i || (ex.arg(node, 0) != RAW && only_surrogates(ex.arg(node, at), ex.arg(node, at + 1)))) continue;
      last[target] = i;
      edges.push_back({target, i});
      begin[target + 1]++;
    }
  }
  for (u32 i = 1; i <= count; i++) begin[i] += begin[i - 1];
  sources.resize(edges.size());
  cursor.assign(begin.begin(), begin.end() - 1);
  for (const auto& [target, source] : edges) sources[cursor[target]++] = source;
  for (std::size_t next = 0; next < work.size(); next++)
    for (u32 i = begin[work[next]]; i < begin[work[next] + 1]; i++)
      if (least[sources[i]] == NONE) least[sources[i]] = least[work[next]] + 1, work.push_back(sources[i]);
  if (!greatest) return;
  // Kahn's order from the ends: a state on a cycle, or before one, never comes up.
  std::vector<u32>& most = *greatest;
  waiting.assign(count, 0);
  most.assign(count, NONE);
  work.clear();
  for (const auto& [target, source] : edges) waiting[source] += least[target] != NONE;
  longest.assign(count, 0);
  for (u32 i = 0; i < count; i++)
    if (least[i] != NONE && waiting[i] == 0) most[i] = 0, work.push_back(i);
  for (std::size_t next = 0; next < work.size(); next++)
    for (u32 i = begin[work[next]]; i < begin[work[next] + 1]; i++) {
      const u32 source = sources[i];
      longest[source] = std::max(longest[source], most[work[next]] + 1);
      if (least[source] == NONE || --waiting[source]) continue;
      most[source] = longest[source];
      work.push_back(source);
    }
}

Facts find_facts(Expressions& expressions, const TokenTrie& trie, Nfa& nfa, Deadline& deadline) {
  return Finder(expressions, trie, nfa, deadline).run();
}

std::size_t Facts::bytes() const {
  return flags.capacity() + endless.capacity() + 4 * (size.capacity() + least.capacity() + whole.capacity() + rank.capacity()) +
         token_sets.capacity() * sizeof(token_sets[0]);
}

}  // namespace stackmask
