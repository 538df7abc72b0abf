// Finds the vertices that generate a text, and those that generate the empty one.
#include <algorithm>

#include "grammar/facts/passes.h"

namespace stackmask {

namespace {

class Productive : StateSearch {
 public:
  Productive(Expressions& expressions, const TokenTrie& trie, Survey& survey, Deadline& deadline)
      : StateSearch(expressions, survey), expressions_(expressions), trie_(trie), deadline_(deadline) {}

  // A least fixed point. Nodes come after their operands, so one round over all of them leaves only calls of rules that are defined later.
  void run() {
    constexpr int ROUNDS = 4;
    std::vector<u8>& flags = facts_.flags;
    flags.resize(nodes_ + ex_.rules.size());
    const u32 first = static_cast<u32>(ex_.generates.size());
    std::copy(ex_.generates.begin(), ex_.generates.end(), flags.begin());
    PooledVector<u32> calls;
    for (u32 node = first; node < nodes_; node++) {
      deadline_.check();
      if (op(node) == OP_CALL) calls.push_back(node);
      flags[node] = evaluate(node);
    }
    auto stale = [&](u32 call) { return flags[call] != flags[body(operand(call))]; };
    bool done = std::none_of(calls.begin(), calls.end(), stale);
    PooledVector<u8> changed;
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
    expressions_.generates.assign(flags.begin(), flags.begin() + nodes_);
    for (u32 r = 0; r < ex_.rules.size(); r++) flags[nodes_ + r] = flags[body(r)];
  }

 private:
  Expressions& expressions_;
  const TokenTrie& trie_;
  Deadline& deadline_;

  // The same with a queue of vertices that may have changed, for rules that call each other in long chains.
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
        bool empty = false;  // some last edge can read nothing
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
    std::vector<TokenId> ids;
    for (std::size_t i = 1; i < n; i++) ids.emplace_back(operand(node, i));
    std::sort(ids.begin(), ids.end());
    for (const TokenId token : EachId<TokenId>{trie_.size()})
      if (in_negated(trie_, node, token) && !std::binary_search(ids.begin(), ids.end(), token)) return true;
    return false;
  }

  u8 automaton(u32 node) {
    const i32 minimum = ex_.arg(node, 2), maximum = ex_.arg(node, 3);
    const bool empty = ex_.arg(node, 4) != 0;
    if (minimum > 0 || maximum >= 0) {
      auto& [least, most] = facts_.lengths[node];
      if (least.empty()) automaton_lengths(ex_, node, least, &most);
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
};

}  // namespace

void find_productive(Expressions& expressions, const TokenTrie& trie, Survey& survey, Deadline& deadline) {
  Productive(expressions, trie, survey, deadline).run();
}

}  // namespace stackmask
