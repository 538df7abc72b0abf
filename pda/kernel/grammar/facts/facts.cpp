#include "grammar/facts/facts.h"

#include <algorithm>

#include "grammar/facts/passes.h"

namespace stackmask {

namespace {

class FactFinder : Pass {
 public:
  FactFinder(Expressions& expressions, const TokenTrie& trie, Nfa& nfa, Deadline& deadline, Survey& survey)
      : Pass(expressions, survey), expressions_(expressions), trie_(trie), nfa_(nfa), deadline_(deadline), survey_(survey),
        thresholds_(trie.thresholds()) {}

  void run() {
    facts_.unrolled = thresholds_.unrolled_states;
    find_productive(expressions_, trie_, survey_, deadline_);
    if (!facts_.is(root(), PRODUCTIVE)) throw Unsatisfiable("the grammar generates no text");
    reach(ex_, survey_, deadline_);
    sizes();
    share();
    find_inlined(ex_, thresholds_, survey_);
    check_marks();
  }

 private:
  Expressions& expressions_;
  const TokenTrie& trie_;
  Nfa& nfa_;
  Deadline& deadline_;
  Survey& survey_;
  const Thresholds& thresholds_;
  PooledVector<u8> calls_;     // by vertex: the number of its callers, saturated at 2
  PooledVector<u8> distinct_;  // by node: has a DISTINCT inside whose scope is outside, and so must stay in its rule

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
    PooledVector<u8> held;  // has a node inside that counts and has a DISTINCT inside
    held.assign(nodes_, 0);
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

  void share() {
    const u32 vertices = static_cast<u32>(facts_.flags.size());
    calls_.assign(vertices, 0);
    PooledVector<u8> references, places, wholes;  // saturated at 2; wholes: as the body of a rule
    references.assign(nodes_, 0), places.assign(nodes_, 0), wholes.assign(nodes_, 0);
    auto add = [](u8& count, u8 more) { count = static_cast<u8>(std::min(2, count + more)); };
    bool guards = false;
    for (u32 r = 0; r < ex_.rules.size(); r++)
      if (facts_.is(nodes_ + r, REACHED)) {
        add(wholes[body(r)], 1);
        if (distinct_[body(r)]) outside_of_scope();
      }
    for (u32 node = nodes_; node-- > 0;) {
      const i32 kind = op(node);
      if (kind == OP_CAPTURE) nfa_.captures = true;  // anywhere in the grammar, so that no facts are needed
      if (!facts_.is(node, REACHED)) continue;
      deadline_.check();
      if (references[node] > 1 && facts_.size[node] > thresholds_.shared_states && !distinct_[node] && kind != OP_CALL && !apart(node))
        facts_.flags[node] |= SHARED;
      u8 inner = wholes[node];  // the number of times it is lowered
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
      else if (kind == OP_LIMIT) facts_.limited = true;
      else if (kind == OP_TEMPERATURE) nfa_.temperatures.push_back(temperature(node));
      else if (kind == OP_DISTINCT) guards = nfa_.any_distinct = true;
      else if (kind == OP_PERMUTE) nfa_.permutes = true;
    }
    std::sort(facts_.token_sets.begin(), facts_.token_sets.end());
    std::sort(nfa_.temperatures.begin() + 1, nfa_.temperatures.end());
    nfa_.temperatures.erase(std::unique(nfa_.temperatures.begin() + 1, nfa_.temperatures.end()), nfa_.temperatures.end());
    if (guards) find_endless(ex_, survey_), find_permuting(ex_, survey_), nfa_.any_escapes = any_escapes(ex_, survey_);
    facts_.root_called = calls_[root()] != 0;
    add(calls_[root()], 1);
    for (const u32 vertex : order_)
      if (calls_[vertex] == 1) facts_.flags[vertex] |= CALLED_ONCE;
  }

  [[noreturn]] static void outside_of_scope() { throw BadGrammar("DISTINCT outside of a SCOPE of the same rule"); }
  double temperature(u32 node) const { return ex_.numbers[static_cast<std::size_t>(ex_.arg(node, 1))]; }

  // Turns negated sets into bitmasks.
  void token_set(u32 node) {
    TokenSet set;
    set.negated = ex_.arg(node, 0) != 0;
    for (std::size_t i = 1; i < ex_.count(node); i++) set.ids.emplace_back(operand(node, i));
    std::sort(set.ids.begin(), set.ids.end());
    if (set.negated) {
      set.bits.assign(trie_.words(), 0);
      for (const TokenId token : EachId<TokenId>{trie_.size()})
        if (in_negated(trie_, node, token)) set_bit(set.bits.data(), token);
      for (const TokenId token : set.ids) clear_bit(set.bits.data(), token);
    }
    facts_.token_sets.push_back({node, static_cast<u32>(nfa_.token_sets.size())});
    nfa_.token_sets.push_back(std::move(set));
  }

  // Inside a SCOPE, the end of a rule does not mean that more may follow: the values may have run out.
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

Facts find_facts(Expressions& expressions, const TokenTrie& trie, Nfa& nfa, Deadline& deadline) {
  Survey survey;
  FactFinder(expressions, trie, nfa, deadline, survey).run();
  return std::move(survey.facts);
}

std::size_t Facts::bytes() const {
  std::size_t automata = 0;
  for (const auto& [node, known] : lengths) automata += sizeof(known) + (known.least.capacity() + known.most.capacity()) * sizeof(u32);
  return automata + flags.capacity() + endless.capacity() + permuting.capacity() + recursive.capacity() +
         4 * (size.capacity() + least.capacity() + whole.capacity() + rank.capacity()) + token_sets.capacity() * sizeof(token_sets[0]);
}

}  // namespace stackmask
