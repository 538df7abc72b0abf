// Expressions to NFAs by Thompson's construction (1968), lazily: an expression is lowered when a closure first comes to where it begins.
//
//   task (an expression between two states)  --step()-->  states, edges, and a task for each operand
//
//   nfa_writer.cpp    states, rules, and the tasks that wait
//   rows.cpp          SEQ, and rows of parts that may all read nothing
//   words.cpp         ALT and EXCEPT: words that share what they begin with
//   repetitions.cpp   REPEAT and PERMUTE: loops, and counts in registers
//   dfas.cpp          AUTOMATON: DFAs over characters, which may count them
//   characters.cpp    CHARS, and the characters of an AUTOMATON's states: spelled or read by minterms (spelling, minterms)
//
// Here is the table of operators, and GRAPH. Each file gives its complexity. All together is linear in the expressions as they are after
// inlining, which the facts bound by a multiple of the grammar's size.
//
// Tested by tests/pda/kernel/test_lowering.py.
#include <algorithm>
#include <unordered_set>

#include "grammar/lowering/dfas.h"
#include "grammar/lowering/repetitions.h"
#include "grammar/lowering/rows.h"
#include "grammar/lowering/words.h"

namespace stackmask {

namespace {

class Lowering final : public Source {
 public:
  Lowering(std::shared_ptr<const Expressions> expressions, std::shared_ptr<const Facts> facts, const Thresholds& thresholds,
           const Limits& limits, bool apart)
      : out_(std::move(expressions), std::move(facts), thresholds, limits, apart), ex_(out_.expressions()), facts_(out_.facts()),
        characters_(out_, thresholds), dfas_(out_, characters_, thresholds), words_(out_, thresholds), rows_(out_, thresholds),
        repetitions_(out_, rows_, thresholds) {}

  void begin(Nfa& nfa) { out_.begin(nfa); }

  void expand(Nfa& nfa, NfaStateId state, Deadline* deadline) override {
    out_.enter(nfa, deadline);
    const NfaWriter::Sizes written = out_.sizes(state);
    const CharacterWriter::Sizes read = characters_.sizes();
    const std::size_t words = words_.size();
    try {
      out_.expand(state);
      for (Task task; out_.next(task);) step(task);
    } catch (...) {
      out_.restore(written);
      characters_.restore(read);
      words_.restore(words);
      throw;
    }
  }

  std::vector<RuleId> distinct_rules(Nfa& nfa, RuleId rule) override {
    out_.enter(nfa, nullptr);
    out_.place = {NONE, NONE, nfa.rules[rule].origin};
    const NfaWriter::Sizes written = out_.sizes(nfa.rules[rule].start);
    try {
      return outlined_values(out_.body(rule));
    } catch (...) {
      out_.restore(written);
      throw;
    }
  }

  bool is_endless(RuleId rule) const override { return facts_.endless[out_.body(rule)]; }
  bool permutes(RuleId rule) const override { return facts_.permuting[out_.body(rule)]; }
  std::size_t bytes() const override { return out_.bytes() + words_.bytes() + characters_.bytes(); }

 private:
  // The rules of the values below an expression that must differ and may run out.
  std::vector<RuleId> outlined_values(u32 expression) {
    std::vector<RuleId> found;
    std::vector<u32> work{expression};
    std::unordered_set<u32> seen;
    while (!work.empty()) {
      const u32 node = work.back();
      work.pop_back();
      if (!facts_.is(node, PRODUCTIVE) || !seen.insert(node).second) continue;
      const i32 op = ex_.nodes[node].op;
      if (op == OP_DISTINCT) {
        const u32 value = operand(node);
        if (!facts_.endless[value]) found.push_back(out_.outline(value));
      } else if (op != OP_CALL && op != OP_SCOPE) {
        ex_.each_operand(node, [&](u32 inner) { work.push_back(inner); });
      }
    }
    return found;
  }

  NfaWriter out_;
  const Expressions& ex_;
  const Facts& facts_;
  CharacterWriter characters_;
  DfaWriter dfas_;
  WordWriter words_;
  RowWriter rows_;
  RepetitionWriter repetitions_;

  u32 operand(u32 node) const { return static_cast<u32>(ex_.arg(node, 0)); }

  void step(const Task& task) {
    const u32 node = task.node;
    if (!facts_.is(node, PRODUCTIVE)) return;
    out_.place = {task.body, task.member, task.origin};
    if (task.piece != NONE) return step_piece(task);
    if (facts_.is(node, SHARED) && !task.whole && !out_.merges(node, task)) return out_.call(task, out_.outline(node));
    switch (ex_.nodes[node].op) {
      case OP_EMPTY: out_.epsilon(task.from, task.to); break;
      case OP_LITERAL: out_.text(ex_.literal(node, 0), task.from, task.to); break;
      case OP_BYTES:
        for (std::size_t i = 0; i < ex_.count(node); i += 2) out_.byte(task.from, task.to, ex_.arg(node, i), ex_.arg(node, i + 1));
        break;
      case OP_CHARS: characters_.write_class(task); break;
      case OP_SEQ:
        if (task.in_body() && !task.whole && delimits_count(ex_, facts_, node)) out_.call(task, out_.outline(node));
        else rows_.sequence(task);
        break;
      case OP_ALT: words_.alternatives(task); break;
      case OP_REPEAT: repetitions_.repeat(task); break;
      case OP_CALL: call(task); break;
      case OP_GRAPH: graph(task); break;
      case OP_AUTOMATON:
        if (counts_characters(ex_, node)) dfas_.counted_dfa(task);
        else dfas_.dfa(task);
        break;
      case OP_EXCEPT: words_.except(task); break;
      case OP_TOKENS: {
        const auto found = std::lower_bound(facts_.token_sets.begin(), facts_.token_sets.end(), std::pair<u32, u32>{node, 0});
        out_.nfa().add_edge(task.from, EDGE_TOKEN, task.to, found->second);
        break;
      }
      case OP_PERMUTE: repetitions_.permute(task); break;
      case OP_SCOPE: out_.call(task, out_.outline(operand(node), true)); break;
      case OP_DISTINCT:
        if (!out_.current_rule().scope) throw BadGrammar("DISTINCT outside of a SCOPE of the same rule");
        out_.call(task, out_.outline(operand(node)), EDGE_NONEMPTY | EDGE_DISTINCT);
        break;
      case OP_CAPTURE: out_.later({operand(node), task.from, task.to, task.body, task.member, task.origin, task.whole}); break;
      case OP_LIMIT:
        if (ex_.arg(node, 1) == 0 && facts_.is(operand(node), NULLABLE)) return out_.epsilon(task.from, task.to);  // that spans no token
        [[fallthrough]];
      case OP_TEMPERATURE: out_.call(task, out_.outline(node)); break;
      default: break;
    }
  }

  void step_piece(const Task& task) {
    const Piece piece = out_.piece(task.piece);
    if (piece.depth == IN_CHARACTER) return characters_.write_node(task, piece);
    switch (ex_.nodes[task.node].op) {
      case OP_SEQ: return rows_.row(task, piece);
      case OP_EXCEPT: return words_.except_piece(task);
      case OP_ALT: return words_.alternatives_piece(task);
      default: return dfas_.piece(task);
    }
  }

  void call(const Task& task) {
    const u32 called = operand(task.node), vertex = static_cast<u32>(ex_.nodes.size()) + called;
    if (!out_.merges(vertex, task) || rows_.deep_in_row(task, vertex)) return out_.call(task, out_.rule(called));
    const u32 origin = static_cast<u32>(out_.nfa().origins.size());
    out_.nfa().origins.push_back({called, task.origin});
    out_.later({static_cast<u32>(ex_.rules[called]), task.from, task.to, task.body, task.member, origin, true});
  }

  // Of the edges those that lead to the end.
  void graph(const Task& task) {
    const u32 node = task.node, states = static_cast<u32>(ex_.arg(node, 0));
    const std::size_t n = ex_.count(node);
    auto good = [&](std::size_t i) { return ex_.arg(node, i + 2) < 0 || facts_.is(static_cast<u32>(ex_.arg(node, i + 2)), PRODUCTIVE); };
    std::vector<u32> begin(states + 1, 0), sources, ends{1};  // the edges into s: sources[begin[s], begin[s + 1])
    std::vector<u8> leads(states, 0);
    for (std::size_t i = 1; i < n; i += 3) begin[static_cast<std::size_t>(ex_.arg(node, i + 1)) + 1] += good(i);
    for (u32 i = 1; i <= states; i++) begin[i] += begin[i - 1];
    sources.resize(begin[states]);
    std::vector<u32> cursor(begin.begin(), begin.end() - 1);
    for (std::size_t i = 1; i < n; i += 3)
      if (good(i)) sources[cursor[static_cast<std::size_t>(ex_.arg(node, i + 1))]++] = static_cast<u32>(ex_.arg(node, i));
    leads[1] = 1;
    while (!ends.empty()) {
      const u32 end = ends.back();
      ends.pop_back();
      for (u32 i = begin[end]; i < begin[end + 1]; i++)
        if (!leads[sources[i]]) leads[sources[i]] = 1, ends.push_back(sources[i]);
    }
    const u32 base = static_cast<u32>(out_.nfa().states.size());
    auto at = [base](auto number) { return NfaStateId(base + static_cast<u32>(number)); };
    for (u32 i = 0; i < states; i++) out_.state();
    out_.epsilon(task.from, at(0));
    out_.epsilon(at(1), task.to);
    for (std::size_t i = 1; i < n; i += 3) {
      if (!good(i) || !leads[static_cast<std::size_t>(ex_.arg(node, i + 1))]) continue;
      const NfaStateId source = at(ex_.arg(node, i)), target = at(ex_.arg(node, i + 1));
      // Fresh ends: an expression's loops must not meet the edges of its neighbours.
      if (ex_.arg(node, i + 2) < 0) out_.epsilon(source, target);
      else out_.part(task, ex_.arg(node, i + 2), source, target);
    }
  }
};

}  // namespace

Nfa lower(std::shared_ptr<Expressions> expressions, const TokenTrie& trie, const Limits& limits, Deadline& deadline) {
  Nfa nfa;
  const auto facts = std::make_shared<const Facts>(find_facts(*expressions, trie, nfa, deadline));
  auto lowering = std::make_unique<Lowering>(std::move(expressions), facts, trie.thresholds(), limits, facts->left_recursive);
  nfa.states.reserve(256);
  nfa.edges.reserve(512);
  lowering->begin(nfa);
  nfa.unlowered = std::move(lowering);
  if (facts->left_recursive || facts->nested_distinct) nfa.complete(deadline);
  if (!facts->left_recursive) return nfa;
  nfa.unlowered.reset();
  rewrite(nfa, trie.thresholds(), limits, deadline);
  return nfa;
}

}  // namespace stackmask
