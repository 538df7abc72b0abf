// Expressions to NFAs: Thompson's construction, with characters spelled out as bytes (spelling.h) and long repetitions as counters.
#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

#include "grammar/automata.h"
#include "grammar/facts/facts.h"
#include "grammar/minterms.h"
#include "grammar/spelling.h"

namespace stackmask {

namespace {

constexpr u64 INLINE_GROWTH = 4;    // inlining small rules may multiply the states of a grammar by this
constexpr u64 INLINE_FLOOR = 2048;  // ... or up to this many states in all
constexpr std::size_t LOOKED_AT = 16;  // nodes, for a call
constexpr u32 RANKS = 16;           // of a node: of its rule, its scope, and rows of parts in rows of it

class Lowering final : public Source, private Spelling {
 public:
  // With `apart` calls stay calls, and counted repetitions become rules: with left recursion through counters, the least lengths could not
  // be measured.
  Lowering(std::shared_ptr<const Expressions> expressions, std::shared_ptr<const Facts> facts, const Thresholds& thresholds,
           const Limits& limits, bool apart)
      : expressions_(std::move(expressions)), known_(std::move(facts)), ex_(*expressions_), facts_(*known_), limits_(limits),
        few_states_(thresholds.few_states), sharing_bytes_(thresholds.sharing_bytes), spelled_bytes_(thresholds.spelled_bytes),
        spelled_ranges_(thresholds.spelled_ranges), row_parts_(thresholds.row_parts), apart_(apart),
        budget_(std::max(facts_.states * INLINE_GROWTH, INLINE_FLOOR)) {}

  void begin(Nfa& nfa) {
    nfa_ = &nfa;
    nfa.expressions = expressions_;
    nfa.root_called = facts_.root_called;
    nfa.limited = facts_.limited;
    rule_of_.assign(ex_.rules.size(), NONE);
    nfa.root = rule(static_cast<u32>(ex_.root));
  }

  void expand(Nfa& nfa, NfaStateId state, Deadline* deadline) override {
    nfa_ = &nfa;
    deadline_ = deadline;
    const Before before(*this, state);
    try {
      here_ = state;
      rule_ = nfa.states[state].rule;
      tasks_.clear();
      for (u32 d = nfa.states[state].pending; d != NONE; d = deferred_[d].next) tasks_.push_back(deferred_[d].task);
      nfa.states[state].pending = NONE;
      while (!tasks_.empty()) {
        const Task task = tasks_.back();
        tasks_.pop_back();
        check();
        step(task);
      }
    } catch (...) {
      before.restore(*this);
      throw;
    }
  }

  std::vector<RuleId> distinct_rules(Nfa& nfa, RuleId rule) override {
    nfa_ = &nfa;
    deadline_ = nullptr;
    place_ = {NONE, NONE, nfa.rules[rule].origin};
    std::vector<RuleId> found;
    std::vector<u32> work{bodies_[rule]};
    std::unordered_set<u32> seen;
    while (!work.empty()) {
      const u32 node = work.back();
      work.pop_back();
      if (!facts_.is(node, PRODUCTIVE) || !seen.insert(node).second) continue;
      const i32 op = ex_.nodes[node].op;
      if (op == OP_DISTINCT) {
        const u32 value = static_cast<u32>(ex_.arg(node, 0));
        if (!facts_.endless[value]) found.push_back(outline(value));
      } else if (op != OP_CALL && op != OP_SCOPE) {
        ex_.each_operand(node, [&](u32 operand) { work.push_back(operand); });
      }
    }
    return found;
  }

  bool is_endless(RuleId rule) const override { return facts_.endless[bodies_[rule]]; }
  bool permutes(RuleId rule) const override { return facts_.permuting[bodies_[rule]]; }

  std::size_t bytes() const override {
    return ex_.bytes() + facts_.bytes() + deferred_.capacity() * sizeof(Deferred) + pieces_.capacity() * sizeof(Piece) +
           words_.capacity() * sizeof(Word) + rule_of_.capacity() * sizeof(u32) + spelled_bytes() + minterms_.bytes() +
           readings_.capacity() * sizeof(Reading) + targets_.capacity() * sizeof(NfaStateId) + inside_.bytes();
  }

 private:
  struct Task {
    u32 node;
    NfaStateId from, to;
    u32 body, member;    // the counted body it lies in
    u32 origin;
    bool whole = false;  // the whole of a rule, which is not made a rule again
    // A piece of an automaton, of its characters, of a SEQ, of the words of an EXCEPT or of those among alternatives: an index into pieces_.
    u32 piece = NONE;
    bool in_body() const { return body != NONE; }
  };
  struct Deferred {
    Task task;
    u32 next;
  };
  // A state of an automaton: where its arguments begin, and the first of them. Of an EXCEPT: the words from `first` to before `last`, which
  // share their first `depth` bytes, and the state of every text that has left them. Of words among alternatives: such a range of words_.
  // Of a SEQ: its parts from `first` to before `last`, a row in `depth` rows.
  // Of characters: which of readings_, and the node that they have come to.
  struct Piece {
    u32 first, last, depth;
    NfaStateId state;
  };
  static constexpr u32 IN_CHARACTER = NONE, IN_COUNTED = NONE - 1;  // `depth` of pieces of characters, and of a counted automaton
  // An alternative that is a literal, maybe behind another node and maybe in a rule of its own, which are NONE elsewhere.
  struct Word {
    u32 alternative, literal, behind, rule;
  };
  std::shared_ptr<const Expressions> expressions_;
  std::shared_ptr<const Facts> known_;
  const Expressions& ex_;
  const Facts& facts_;
  Limits limits_;
  u32 few_states_, sharing_bytes_, spelled_bytes_, spelled_ranges_, row_parts_;  // thresholds
  bool apart_;
  u64 budget_;  // states up to which small rules are inlined
  Deadline* deadline_ = nullptr;
  std::vector<RuleId> rule_of_;  // rules of the expressions -> rules of the NFA
  std::vector<u32> bodies_;  // by rule of the NFA: its node
  std::unordered_map<u64, RuleId> outlined_;
  std::vector<Task> tasks_;
  std::vector<Deferred> deferred_;
  std::vector<Piece> pieces_;
  std::vector<Word> words_;
  NfaStateId here_ = NONE;  // the state being expanded
  RuleId rule_{0};  // that its states belong to
  // Where else a state belongs: the counted body it lies in and the member of it, where it was written, and how many characters may still
  // be counted from it.
  struct Place {
    u32 body = NONE, member = NONE, origin = 0;
    u32 least = 0, most = NONE;
    bool inside_character = false;
  };
  Place place_;  // of the states that a task makes
  // Large classes of characters that are read from a state: where each of the minterms leads, targets_[targets + class].
  struct Reading {
    Place place;  // of the states inside of characters
    u32 targets;
  };
  Minterms minterms_;
  std::vector<Reading> readings_;
  std::vector<NfaStateId> targets_;
  Map64 inside_;  // the state for a node: by the reading and the node, or by the target where only one may follow

  // The sizes of all that an expansion may add to, so that a failed one can be undone.
  struct Before {
    NfaStateId at;
    NfaState state;
    std::size_t states, edges, heads, rules, origins, deferred, pieces, words, readings, targets;
    bool counts;
    Before(const Lowering& l, NfaStateId s)
        : at(s), state(l.nfa_->states[s]), states(l.nfa_->states.size()), edges(l.nfa_->edges.size()), heads(l.nfa_->heads.size()),
          rules(l.nfa_->rules.size()), origins(l.nfa_->origins.size()), deferred(l.deferred_.size()), pieces(l.pieces_.size()),
          words(l.words_.size()), readings(l.readings_.size()), targets(l.targets_.size()), counts(l.nfa_->rules[state.rule].counts) {}
    void restore(Lowering& l) const {
      Nfa& nfa = *l.nfa_;
      nfa.states.resize(states);
      nfa.states[at] = state;
      nfa.edges.resize(edges);
      nfa.heads.resize(heads);
      nfa.rules.resize(rules);
      l.bodies_.resize(rules);
      nfa.rules[state.rule].counts = counts;
      nfa.origins.resize(origins);
      l.deferred_.resize(deferred);
      l.pieces_.resize(pieces);
      l.words_.resize(words);
      l.readings_.resize(readings);
      l.targets_.resize(targets);
      l.inside_.clear();
      for (RuleId& rule : l.rule_of_)
        if (rule != NONE && rule >= rules) rule = NONE;
      std::erase_if(l.outlined_, [this](const auto& entry) { return entry.second >= rules; });
      l.forget_spelled();
    }
  };

  void check() {
    if (deadline_) deadline_->check();
    else nfa_->work.spend(4);
  }

  NfaStateId state() override { return state(place_); }
  NfaStateId state(const Place& place) {
    if (nfa_->states.size() >= limits_.states)
      throw LimitExceeded("states", static_cast<double>(limits_.states),
                          "the grammar needs more than " + std::to_string(limits_.states) + " NFA states");
    check();
    const NfaStateId added = nfa_->add_state(rule_);
    NfaState& made = nfa_->states[added];
    made.body = place.body;
    made.member = place.member;
    made.origin = place.origin;
    made.least = place.least;
    made.most = place.most;
    made.inside_character = place.inside_character;
    return added;
  }

  void defer(const Task& task) {
    u32& pending = nfa_->states[task.from].pending;
    deferred_.push_back({task, pending});
    pending = static_cast<u32>(deferred_.size() - 1);
  }
  // Now if it begins here or is small, else when a closure comes to where it begins.
  void later(const Task& task) {
    const i32 op = ex_.nodes[task.node].op;
    const bool small = op == OP_LITERAL ? ex_.literal(task.node, 0).size() <= spelled_bytes_ : op == OP_BYTES || op == OP_EMPTY;
    if (task.from == here_ || small) tasks_.push_back(task);
    else defer(task);
  }
  void part(const Task& task, i32 node, NfaStateId from, NfaStateId to) {
    later({static_cast<u32>(node), from, to, task.body, task.member, task.origin});
  }

  RuleId new_rule(u32 vertex, u32 node, u32 name, bool scope) {
    if (nfa_->states.size() + 2 > limits_.states)
      throw LimitExceeded("states", static_cast<double>(limits_.states),
                          "the grammar needs more than " + std::to_string(limits_.states) + " NFA states");
    const RuleId id(static_cast<u32>(nfa_->rules.size()));
    Rule rule;
    rule.name = name;
    rule.scope = scope;
    rule.nullable = facts_.is(node, NULLABLE);
    rule.rank = facts_.rank[vertex] * RANKS + scope;
    rule.origin = static_cast<u32>(nfa_->origins.size());
    // A capture, limit or temperature around the whole text of a rule is a property of the rule.
    bool empty = false;
    for (i32 op = ex_.nodes[node].op; !empty && (op == OP_CAPTURE || op == OP_LIMIT || op == OP_TEMPERATURE); op = ex_.nodes[node].op) {
      const u32 inner = static_cast<u32>(ex_.arg(node, 0));
      if (op == OP_LIMIT) {
        empty = ex_.arg(node, 1) == 0 && facts_.is(inner, NULLABLE);  // that spans no token
        if (!empty) rule.limit = std::min(rule.limit, std::max(1u, static_cast<u32>(ex_.arg(node, 1))));
      } else if (op == OP_TEMPERATURE) {
        const auto& values = nfa_->temperatures;
        const double value = ex_.numbers[static_cast<std::size_t>(ex_.arg(node, 1))];
        rule.temperature = static_cast<u32>(std::lower_bound(values.begin() + 1, values.end(), value) - values.begin());
      }
      node = inner;
    }
    nfa_->origins.push_back({name, NONE});
    nfa_->rules.push_back(rule);
    bodies_.push_back(node);
    const NfaStateId start = nfa_->add_state(id), final = nfa_->add_state(id);
    nfa_->rules[id].start = start;
    nfa_->rules[id].final = final;
    if (empty) epsilon(start, final);
    else defer({node, start, final, NONE, NONE, rule.origin, true});
    return id;
  }
  RuleId rule(u32 index) {
    RuleId& found = rule_of_[index];
    if (found == NONE) found = new_rule(static_cast<u32>(ex_.nodes.size()) + index, static_cast<u32>(ex_.rules[index]), index, false);
    return found;
  }
  // A separate rule for a node.
  RuleId outline(u32 node, bool scope = false) {
    const u64 key = static_cast<u64>(node) << 1 | scope;
    const auto found = outlined_.find(key);
    if (found != outlined_.end()) return found->second;
    const RuleId made = new_rule(node, node, nfa_->origins[place_.origin].name, scope);
    outlined_.emplace(key, made);
    return made;
  }
  void call(const Task& task, RuleId rule, u8 flags = 0) {
    nfa_->add_edge(task.from, EDGE_CALL, task.to, rule, 0, 0, static_cast<u8>(flags | (task.in_body() ? EDGE_IN_BODY : 0)));
  }

  // Whether a rule or a shared node becomes a part of its caller here.
  bool merges(u32 vertex, const Task& task) const {
    if (apart_ || !facts_.is(vertex, INLINED) || (task.in_body() && facts_.is(vertex, COUNTING))) return false;
    return facts_.is(vertex, CALLED_ONCE) || nfa_->states.size() + facts_.whole[vertex] <= budget_;
  }

  void epsilon(NfaStateId from, NfaStateId to) { nfa_->add_edge(from, EDGE_EPSILON, to); }

  void step(const Task& task) {
    const u32 node = task.node;
    if (!facts_.is(node, PRODUCTIVE)) return;
    place_ = {task.body, task.member, task.origin};
    if (task.piece != NONE) {
      const i32 op = ex_.nodes[node].op;
      if (const Piece& at = pieces_[task.piece]; at.depth == IN_CHARACTER) return read_node(task, task.from, at.first, at.last);
      if (op == OP_SEQ) return row(task, pieces_[task.piece]);
      return op == OP_EXCEPT ? except_piece(task) : op == OP_ALT ? words_piece(task) : automaton_piece(task);
    }
    const std::size_t n = ex_.count(node);
    if (facts_.is(node, SHARED) && !task.whole && !merges(node, task)) return call(task, outline(node));
    switch (ex_.nodes[node].op) {
      case OP_EMPTY: epsilon(task.from, task.to); break;
      case OP_LITERAL: spell(ex_.literal(node, 0), task.from, task.to); break;
      case OP_BYTES:
        for (std::size_t i = 0; i < n; i += 2) byte(task.from, task.to, ex_.arg(node, i), ex_.arg(node, i + 1));
        break;
      case OP_CHARS:
        by_target_.groups.assign(1, {0, 0, static_cast<u32>(n - 1)});
        by_target_.ranges.assign(ex_.ints.begin() + ex_.nodes[node].begin + 1, ex_.ints.begin() + ex_.nodes[node].end);
        characters(task, task.from, ex_.arg(node, 0), [&](u32) { return task.to; });
        break;
      case OP_SEQ: {
        if (task.in_body() && !task.whole && delimits_count(node)) return call(task, outline(node));
        sequence(task);
        break;
      }
      case OP_ALT: alternatives(task); break;
      case OP_REPEAT: repeat(task); break;
      case OP_CALL: {
        const u32 called = static_cast<u32>(ex_.arg(node, 0)), vertex = static_cast<u32>(ex_.nodes.size()) + called;
        if (!merges(vertex, task) || deep_in_row(task, vertex)) return call(task, rule(called));
        const u32 origin = static_cast<u32>(nfa_->origins.size());
        nfa_->origins.push_back({called, task.origin});
        later({static_cast<u32>(ex_.rules[called]), task.from, task.to, task.body, task.member, origin, true});
        break;
      }
      case OP_GRAPH: graph(task); break;
      case OP_AUTOMATON:
        if (ex_.arg(node, 2) > 0 || ex_.arg(node, 3) >= 0) counted_automaton(task);
        else automaton(task);
        break;
      case OP_EXCEPT: except(task); break;
      case OP_TOKENS: {
        const auto found = std::lower_bound(facts_.token_sets.begin(), facts_.token_sets.end(), std::pair<u32, u32>{node, 0});
        nfa_->add_edge(task.from, EDGE_TOKEN, task.to, found->second);
        break;
      }
      case OP_PERMUTE: permute(task); break;
      case OP_SCOPE: call(task, outline(static_cast<u32>(ex_.arg(node, 0)), true)); break;
      case OP_DISTINCT:
        if (!nfa_->rules[rule_].scope) throw BadGrammar("DISTINCT outside of a SCOPE of the same rule");
        call(task, outline(static_cast<u32>(ex_.arg(node, 0))), EDGE_NONEMPTY | EDGE_DISTINCT);
        break;
      case OP_CAPTURE:
        later({static_cast<u32>(ex_.arg(node, 0)), task.from, task.to, task.body, task.member, task.origin, task.whole});
        break;
      case OP_LIMIT:
        if (ex_.arg(node, 1) == 0 && facts_.is(static_cast<u32>(ex_.arg(node, 0)), NULLABLE))
          return epsilon(task.from, task.to);  // that spans no token
        [[fallthrough]];
      case OP_TEMPERATURE: call(task, outline(node)); break;
      default: break;
    }
  }

  // Words among alternatives share the states of what they begin with: a trie, of which a piece is made when a text comes there. With a
  // state for each word at its first byte, every state behind such alternatives would hold them all. So do words in rules that are merged,
  // and those behind the same part, such as the terminals of a lexer behind blanks.
  void alternatives(const Task& task) {
    const u32 first = static_cast<u32>(words_.size());
    const std::size_t n = ex_.count(task.node);
    for (std::size_t i = 0; i < n; i++) {
      const u32 operand = static_cast<u32>(ex_.arg(task.node, i));
      if (const Word word = word_of(operand, task); word.literal != NONE) words_.push_back(word);
      else part(task, static_cast<i32>(operand), task.from, task.to);
    }
    if (!deadline_) nfa_->work.spend(4 * n);
    std::stable_sort(words_.begin() + first, words_.end(), [](const Word& a, const Word& b) { return a.behind < b.behind; });
    u32 kept = first;
    for (u32 begin = first, end = first; begin < words_.size(); begin = end) {
      std::size_t bytes = 0;
      const u32 behind = words_[begin].behind;
      for (; end < words_.size() && words_[end].behind == behind; end++) bytes += ex_.literal(words_[end].literal, 0).size();
      if (end - begin == 1 || bytes < sharing_bytes_) {
        for (u32 i = begin; i < end; i++) part(task, static_cast<i32>(words_[i].alternative), task.from, task.to);
        continue;
      }
      const u32 from = kept;
      for (u32 i = begin; i < end; i++) words_[kept++] = words_[i];
      const Piece words{from, kept, 0, NONE};
      if (behind == NONE) {
        tasks_.push_back(task);
        tasks_.back().piece = static_cast<u32>(pieces_.size());
        pieces_.push_back(words);
      } else {
        const NfaStateId start = state();
        part(task, static_cast<i32>(behind), task.from, start);
        piece(task, start, task.to, words);
      }
    }
    words_.resize(kept);
  }
  // What an alternative is if it is a word; its literal is NONE elsewhere.
  Word word_of(u32 alternative, const Task& task) const {
    Word word{alternative, NONE, NONE, NONE};
    u32 node = alternative;
    auto own = [&](u32 at) { return facts_.is(at, PRODUCTIVE) && !facts_.is(at, SHARED); };
    if (!own(node)) return word;
    if (ex_.nodes[node].op == OP_CALL) {
      const u32 called = static_cast<u32>(ex_.arg(node, 0));
      node = static_cast<u32>(ex_.rules[called]);
      if (!merges(static_cast<u32>(ex_.nodes.size()) + called, task) || !own(node)) return word;
      word.rule = called;
    }
    if (ex_.nodes[node].op == OP_SEQ && ex_.count(node) == 2 && !(task.in_body() && delimits_count(node))) {
      word.behind = static_cast<u32>(ex_.arg(node, 0));
      node = static_cast<u32>(ex_.arg(node, 1));
    }
    if (ex_.nodes[node].op == OP_LITERAL && own(node) && !ex_.literal(node, 0).empty()) word.literal = node;
    return word;
  }
  u32 origin_of(u32 rule, const Task& task) {
    if (rule == NONE) return task.origin;
    nfa_->origins.push_back({rule, task.origin});
    return static_cast<u32>(nfa_->origins.size() - 1);
  }
  void words_piece(const Task& task) {
    const Piece at = pieces_[task.piece];
    const auto begin = words_.begin() + at.first, end = words_.begin() + at.last;
    auto text_of = [&](const Word& word) { return ex_.literal(word.literal, 0); };
    // By their next byte; those that end here come first (counting sort).
    auto key = [&](const Word& word) { return text_of(word).size() == at.depth ? 0u : 1u + static_cast<u8>(text_of(word)[at.depth]); };
    if (!deadline_) nfa_->work.spend(64 + 2 * (at.last - at.first));
    std::array<u32, 258> ends{};
    for (auto w = begin; w != end; ++w) ends[key(*w) + 1]++;
    for (std::size_t i = 1; i < ends.size(); i++) ends[i] += ends[i - 1];
    Scratch<Word> sorted;
    sorted.assign(begin, end);
    for (const Word& each : sorted) words_[at.first + ends[key(each)]++] = each;
    for (u32 i = at.first; i < at.last;) {
      const u32 from = i, group = key(words_[i]);
      while (i < at.last && key(words_[i]) == group) i++;
      if (group == 0) {
        epsilon(task.from, task.to);
        continue;
      }
      if (i - from == 1) {
        const std::string_view rest = text_of(words_[from]).substr(at.depth);
        Task own = task;
        if (at.last - at.first > 1) place_.origin = own.origin = origin_of(words_[from].rule, task);  // of a single word that is known
        if (rest.size() <= spelled_bytes_) {
          spell(rest, task.from, task.to);
        } else {
          const NfaStateId below = state();
          spell(rest.substr(0, spelled_bytes_), task.from, below);
          piece(own, below, task.to, {from, i, at.depth + spelled_bytes_, NONE});
        }
        place_.origin = task.origin;
        continue;
      }
      const NfaStateId below = state();
      const u8 byte = static_cast<u8>(group - 1);
      nfa_->add_edge(task.from, EDGE_BYTE, below, 0, byte, byte);
      if (byte > 0x7F) nfa_->states[task.from].partial_non_ascii = true;
      piece(task, below, task.to, {from, i, at.depth + 1, NONE});
    }
  }
  void spell(std::string_view text, NfaStateId from, NfaStateId to) {
    for (std::size_t i = 0; i < text.size(); i++) {
      const NfaStateId next = i + 1 == text.size() ? to : state();
      const u8 byte = static_cast<u8>(text[i]);
      nfa_->add_edge(from, EDGE_BYTE, next, 0, byte, byte);
      if (byte > 0x7F) nfa_->states[from].partial_non_ascii = true;
      from = next;
    }
  }

  void sequence(const Task& task) {
    const u32 n = static_cast<u32>(ex_.count(task.node));
    NfaStateId at = task.from;
    for (u32 i = 0, looked_at = 0; i < n;) {
      u32 end = i + 1;
      if (i >= looked_at) {
        looked_at = row_end(task, i);
        if (is_row(task, i, looked_at)) end = looked_at;
      }
      const NfaStateId next = end == n ? task.to : state();
      Task own = task;
      own.from = at, own.to = next;
      if (end > i + 1) row(own, {i, end, 0, NONE});
      else part(task, ex_.arg(task.node, i), at, next);
      at = next, i = end;
    }
  }
  // A row of parts that may all read nothing, many of them calls: rows of it are rules.
  //
  //   r1? r2? ... r64?   ->   (r1? ... r8?) (r9? ... r16?) ... (r57? ... r64?)
  //
  // A state would stand before all parts that follow, and calls make the states behind them all: the square of the row's length, where
  // now it is some times the length.
  void row(const Task& task, const Piece whole) {
    const u32 parts = whole.last - whole.first, rows = std::min(8u, std::max(2u, row_parts_ / 4));
    const u32 each = parts > rows ? (parts + rows - 1) / rows : 1;
    NfaStateId at = task.from;
    for (u32 first = whole.first; first < whole.last; first += each) {
      const u32 last = std::min(first + each, whole.last);
      const NfaStateId next = last == whole.last ? task.to : state();
      if (last == first + 1) {
        part(task, ex_.arg(task.node, first), at, next);
      } else {
        Task own = task;
        own.from = at, own.to = next;
        call(own, row_rule(task, {first, last, whole.depth + 1, NONE}));
      }
      at = next;
    }
  }
  RuleId row_rule(const Task& whole, const Piece row) {
    const RuleId id = new_rule(whole.node, whole.node, nfa_->origins[whole.origin].name, false);
    Rule& rule = nfa_->rules[id];
    rule.nullable = true;
    rule.rank += 1 + row.depth;
    Deferred& body = deferred_[nfa_->states[rule.start].pending];
    body.task.piece = static_cast<u32>(pieces_.size());
    pieces_.push_back(row);
    return id;
  }
  // Behind the part that a row of parts ends with.
  u32 row_end(const Task& task, u32 first) const {
    const u32 n = static_cast<u32>(ex_.count(task.node));
    u32 end = first;
    while (end < n && facts_.is(static_cast<u32>(ex_.arg(task.node, end)), NULLABLE)) end++;
    return std::max(end, first + 1);
  }
  bool is_row(const Task& task, u32 first, u32 last) const {
    if (last - first < row_parts_ || last - first < 3 || apart_ || nfa_->any_distinct) return false;
    u32 calls = 0;
    for (u32 i = first; i < last && calls < row_parts_; i++) calls += holds_call(task, static_cast<u32>(ex_.arg(task.node, i)));
    return calls >= row_parts_;
  }
  // A rule at the end of a rule at the end of a rule ..., each of which may read nothing: a row as well, of which pieces stay rules.
  bool deep_in_row(const Task& task, u32 vertex) const {
    if (!facts_.is(vertex, NULLABLE) || nfa_->any_distinct) return false;
    u32 depth = 0;
    for (u32 at = nfa_->origins[task.origin].parent; at != NONE && depth < row_parts_; at = nfa_->origins[at].parent) depth++;
    return depth == row_parts_ && holds_call(task, static_cast<u32>(ex_.rules[vertex - ex_.nodes.size()]));
  }
  // A body of a loop whose alternatives begin with calls, and end with calls that something optional of their own follows: behind each of
  // these all that begin may follow, unless the body is a rule.
  bool ends_in_many_ways(const Task& task, u32 body) const {
    u32 node = body;
    while (ex_.nodes[node].op == OP_CALL && merges(static_cast<u32>(ex_.nodes.size()) + static_cast<u32>(ex_.arg(node, 0)), task))
      node = static_cast<u32>(ex_.rules[static_cast<std::size_t>(ex_.arg(node, 0))]);
    if (ex_.nodes[node].op != OP_ALT || ex_.count(node) < row_parts_ || apart_ || nfa_->any_distinct) return false;
    u32 starts = 0, ends = 0;
    for (std::size_t i = 0; i < ex_.count(node); i++) {
      const u32 way = static_cast<u32>(ex_.arg(node, i));
      if (ex_.nodes[way].op != OP_SEQ) {
        starts += holds_call(task, way);
        continue;
      }
      const std::size_t parts = ex_.count(way);
      std::size_t last = parts - 1;
      while (last > 0 && facts_.is(static_cast<u32>(ex_.arg(way, last)), NULLABLE)) last--;
      starts += holds_call(task, static_cast<u32>(ex_.arg(way, 0)));
      ends += last + 1 < parts && holds_call(task, static_cast<u32>(ex_.arg(way, last)));
    }
    return starts >= row_parts_ && ends >= row_parts_;
  }
  // A call that stays one, found within a few nodes.
  bool holds_call(const Task& task, u32 node) const {
    Scratch<u32> work{node};
    for (std::size_t i = 0; i < work.size() && i < LOOKED_AT; i++) {
      const u32 at = work[i];
      const i32 op = ex_.nodes[at].op;
      if (op == OP_SCOPE || op == OP_LIMIT || op == OP_TEMPERATURE || (facts_.is(at, SHARED) && !merges(at, task))) return true;
      if (op == OP_CALL) {
        const u32 called = static_cast<u32>(ex_.arg(at, 0));
        if (!merges(static_cast<u32>(ex_.nodes.size()) + called, task)) return true;
        work.push_back(static_cast<u32>(ex_.rules[called]));
      } else {
        for (std::size_t k = 0, n = ex_.operand_count(at); k < n && work.size() < LOOKED_AT; k++)
          if (const u32 operand = ex_.operand(at, k); operand != NONE) work.push_back(operand);
      }
    }
    return false;
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
    const u32 base = static_cast<u32>(nfa_->states.size());
    auto at = [base](auto number) { return NfaStateId(base + static_cast<u32>(number)); };
    for (u32 i = 0; i < states; i++) state();
    epsilon(task.from, at(0));
    epsilon(at(1), task.to);
    for (std::size_t i = 1; i < n; i += 3) {
      if (!good(i) || !leads[static_cast<std::size_t>(ex_.arg(node, i + 1))]) continue;
      const NfaStateId source = at(ex_.arg(node, i)), target = at(ex_.arg(node, i + 1));
      // Fresh ends: an expression's loops must not meet the edges of its neighbours.
      if (ex_.arg(node, i + 2) < 0) epsilon(source, target);
      else part(task, ex_.arg(node, i + 2), source, target);
    }
  }
  void repeat(const Task& task) {
    const u32 body = static_cast<u32>(ex_.arg(task.node, 0));
    const i32 minimum = ex_.arg(task.node, 1), maximum = ex_.arg(task.node, 2);
    if (maximum == 0 || !facts_.is(body, PRODUCTIVE)) return epsilon(task.from, task.to);
    if (maximum < 0 && minimum <= 1) {  // * and +
      const NfaStateId in = state(), out = state();
      epsilon(task.from, in);
      if (ends_in_many_ways(task, body)) {
        Task own = task;
        own.from = in, own.to = out;
        call(own, ex_.nodes[body].op == OP_CALL ? rule(static_cast<u32>(ex_.arg(body, 0))) : outline(body));
      } else {
        part(task, ex_.arg(task.node, 0), in, out);
      }
      epsilon(out, in);
      epsilon(out, task.to);
      if (minimum == 0) epsilon(in, task.to);
      return;
    }
    if (minimum == 0 && maximum == 1) {
      epsilon(task.from, task.to);
      part(task, ex_.arg(task.node, 0), task.from, task.to);
      return;
    }
    if (!counted_repeat(ex_, facts_, task.node)) {
      NfaStateId at = task.from;
      for (i32 i = 0; i < std::max(minimum, maximum); i++) {
        if (i >= minimum) epsilon(at, task.to);
        const bool last = maximum > 0 && i + 1 == maximum;
        const NfaStateId next = last ? task.to : state();
        part(task, ex_.arg(task.node, 0), at, next);
        at = next;
      }
      if (maximum < 0) {  // {n,}: the last body loops
        const NfaStateId out = state();
        epsilon(at, task.to);
        part(task, ex_.arg(task.node, 0), at, out);
        epsilon(out, at);
      }
      return;
    }
    if (own_rule(task)) return;  // an item has one counter: a repetition inside of a counted one gets a separate rule
    // A body that may read nothing counts for nothing: (body without the empty text){0,maximum}.
    const bool empty = facts_.is(body, NULLABLE);
    nfa_->rules[rule_].counts = true;
    const u32 id = static_cast<u32>(nfa_->heads.size());
    const NfaStateId head = state(), exit = state();
    const Place inside{id, task.member, task.origin};
    const NfaStateId start = state(inside), end = state(inside);
    Head h;
    h.minimum = empty ? 0 : static_cast<u32>(minimum);
    h.maximum = maximum < 0 ? NONE : static_cast<u32>(maximum);
    h.body = start;
    h.exit = exit;
    h.least = std::max(1u, facts_.least[body]);
    h.byte = ex_.nodes[body].op == OP_BYTES;
    nfa_->states[head].head = id;
    nfa_->heads.push_back(std::move(h));
    nfa_->add_edge(task.from, EDGE_ENTER, head);
    nfa_->add_edge(end, EDGE_COUNT, head);
    epsilon(exit, task.to);
    if (empty) nfa_->add_edge(start, EDGE_CALL, end, outline(body), 0, 0, EDGE_IN_BODY | EDGE_NONEMPTY);
    else later({body, start, end, id, 0, task.origin});
  }

  // A sequence of a counted repetition and delimiters, such as the quotes of a string with a maxLength. Inside of a body the whole sequence
  // becomes a rule: if only the repetition did, that rule could end behind every character, and every token would be handed over there.
  bool delimits_count(u32 node) const {
    bool counts = false;
    for (std::size_t i = 0; i < ex_.count(node); i++) {
      const u32 part = static_cast<u32>(ex_.arg(node, i));
      const i32 op = ex_.nodes[part].op;
      if ((op == OP_REPEAT && counted_repeat(ex_, facts_, part)) || (op == OP_AUTOMATON && (ex_.arg(part, 2) > 0 || ex_.arg(part, 3) >= 0)))
        counts = true;
      else if (op != OP_LITERAL && op != OP_BYTES && op != OP_CHARS) return false;
    }
    return counts;
  }

  // An expression that counts, in a counted body, or where it has to be a rule.
  bool own_rule(const Task& task) {
    if (!task.in_body() && (!apart_ || task.whole || nfa_->rules[rule_].scope)) return false;
    call(task, outline(task.node));
    return true;
  }

  void permute(const Task& task) {
    if (own_rule(task)) return;
    nfa_->rules[rule_].counts = true;
    const u32 id = static_cast<u32>(nfa_->heads.size());
    const NfaStateId head = state(), exit = state();
    Place inside{id, task.member, task.origin};
    const NfaStateId second = state(inside), separator = state(inside);
    Head h;
    h.permutation = true;
    h.minimum = static_cast<u32>(ex_.arg(task.node, 1));
    h.maximum = ex_.arg(task.node, 2) < 0 ? NONE : static_cast<u32>(ex_.arg(task.node, 2));
    h.body = separator;
    h.exit = exit;
    if (!facts_.is(static_cast<u32>(ex_.arg(task.node, 0)), PRODUCTIVE)) h.maximum = std::min(h.maximum, 1u);
    NfaStateId never = NONE;  // where all members that cannot be read begin
    for (std::size_t i = 3; i < ex_.count(task.node); i += 2) {
      const u32 member = static_cast<u32>(ex_.arg(task.node, i));
      const bool possible = facts_.is(member, PRODUCTIVE);
      inside.member = static_cast<u32>(h.members.size());
      h.flags.push_back(possible ? static_cast<u8>(ex_.arg(task.node, i + 1)) : NEVER_MEMBER);
      if (!possible) {
        if (never == NONE) never = state(inside);
        h.members.push_back(never);
        continue;
      }
      const NfaStateId start = state(inside), end = state(inside);
      later({member, start, end, id, inside.member, task.origin});
      nfa_->add_edge(end, EDGE_MEMBER, head, inside.member);
      h.members.push_back(start);
    }
    h.index_members();
    later({static_cast<u32>(ex_.arg(task.node, 0)), separator, second, id, NONE, task.origin});
    nfa_->states[head].head = id;
    nfa_->heads.push_back(h);
    h.after_separator = true;
    nfa_->states[second].head = static_cast<u32>(nfa_->heads.size());
    nfa_->heads.push_back(std::move(h));
    nfa_->add_edge(task.from, EDGE_ENTER, head);
    epsilon(exit, task.to);
  }

  // Of the states those that lead to an accepting one.
  void automaton(const Task& task) {
    const i32 encoding = ex_.arg(task.node, 0);
    const u32 count = static_cast<u32>(ex_.arg(task.node, 1));
    Scratch<u32> least;
    automaton_lengths(ex_, task.node, least, nullptr);
    const bool all = std::find(least.begin(), least.end(), NONE) == least.end();
    const NfaStateId base(static_cast<u32>(nfa_->states.size()));
    for (u32 i = 0; i < count; i++) state();
    epsilon(task.from, base);
    std::size_t at = 4;
    for (u32 i = 0; i < count; i++) {
      const NfaStateId source(base + i);
      if (ex_.arg(task.node, at)) epsilon(source, task.to);
      if (all && count > few_states_) {
        piece(task, source, task.to, {static_cast<u32>(at), 0, 0, base});
        at += 2 + 3 * static_cast<std::size_t>(ex_.arg(task.node, at + 1));
        continue;
      }
      at = by_target(ex_, task.node, at, by_target_);
      std::erase_if(by_target_.groups, [&](const auto& group) { return least[group.target] == NONE; });
      characters(task, source, encoding, [&](u32 target) { return NfaStateId(base + target); });
    }
  }
  void automaton_piece(const Task& task) {
    const Piece at = pieces_[task.piece];
    const bool counted = at.depth == IN_COUNTED;  // each state that is reached stands beside the one before it, see counted_automaton()
    auto state_of = [&](u32 target) { return NfaStateId(at.state + (counted ? 2 * target : target)); };
    by_target(ex_, task.node, at.first, by_target_);
    if (counted) std::erase_if(by_target_.groups, [&](const auto& group) { return nfa_->states[state_of(group.target)].least == NONE; });
    place_.body = task.body, place_.inside_character = counted;
    characters(task, task.from, ex_.arg(task.node, 0), state_of);
    place_.inside_character = false;
  }
  void piece(const Task& whole, NfaStateId from, NfaStateId to, const Piece& piece) {
    Task task = whole;
    task.from = from, task.to = to;
    task.piece = static_cast<u32>(pieces_.size());
    pieces_.push_back(piece);
    defer(task);
  }

  // The characters of by_target_, each to the state for its target.
  ByTarget by_target_;
  template <class F>
  void characters(const Task& task, NfaStateId source, i32 encoding, F state_of) {
    std::size_t ranges = 0;
    for (const auto& group : by_target_.groups) ranges += (group.end - group.begin) / 2;
    if (encoding != RAW && ranges >= spelled_ranges_) {
      read(task, source, encoding, state_of);
      return;
    }
    for (const auto& group : by_target_.groups) {
      const i32* const first = by_target_.ranges.data() + group.begin;
      const u32 count = group.end - group.begin;
      const NfaStateId target = state_of(group.target);
      if (place_.inside_character) place_.least = nfa_->states[target].least, place_.most = nfa_->states[target].most;
      if (encoding == RAW)
        for (u32 r = 0; r < count; r += 2) byte(source, target, first[r], first[r + 1]);
      else chars(source, target, first, count, encoding);
    }
  }

  // Large classes: the states inside of characters are made as texts come to them. In a counted automaton a state says which numbers of
  // characters may still be counted, as one range: where those of several targets leave a gap, only equal targets share states.
  template <class F>
  void read(const Task& task, NfaStateId source, i32 encoding, F state_of) {
    auto lengths = [&](u32 target) {
      const NfaState& state = nfa_->states[state_of(target)];
      return std::pair{state.least, state.most};
    };
    const u32 root = minterms_.root(by_target_, encoding, nfa_->work, deadline_);
    if (!place_.inside_character || !leaves_gap(root, lengths)) {
      begin_reading(task, source, by_target_.groups, root, state_of);
      return;
    }
    std::stable_sort(by_target_.groups.begin(), by_target_.groups.end(),
                     [&](const auto& a, const auto& b) { return lengths(a.target) < lengths(b.target); });
    const std::vector<ByTarget::Group> all = by_target_.groups;
    for (std::size_t begin = 0, end = 0; begin < all.size(); begin = end) {
      while (end < all.size() && lengths(all[end].target) == lengths(all[begin].target)) end++;
      by_target_.groups.assign(all.begin() + static_cast<std::ptrdiff_t>(begin), all.begin() + static_cast<std::ptrdiff_t>(end));
      begin_reading(task, source, by_target_.groups, minterms_.root(by_target_, encoding, nfa_->work, deadline_), state_of);
    }
  }
  template <class F>
  void begin_reading(const Task& task, NfaStateId source, const std::vector<ByTarget::Group>& groups, u32 root, F state_of) {
    const u32 reading = static_cast<u32>(readings_.size());
    readings_.push_back({place_, static_cast<u32>(targets_.size())});
    for (const auto& group : groups) targets_.push_back(state_of(group.target));
    read_node(task, source, reading, root);
  }
  template <class F>
  bool leaves_gap(u32 root, F lengths) {
    Scratch<std::pair<u32, u32>> ranges;
    for (u32 node = root; node < minterms_.end(root); node++) {
      if (minterms_.classes(node).size() == 1) continue;
      ranges.clear();
      for (const u32 which : minterms_.classes(node)) ranges.push_back(lengths(by_target_.groups[which].target));
      if (!deadline_) nfa_->work.spend(ranges.size());
      std::sort(ranges.begin(), ranges.end());
      u64 most = ranges[0].second;
      for (const auto& range : ranges) {
        if (range.first > most + 1) return true;
        most = std::max<u64>(most, range.second);
      }
    }
    return false;
  }
  void read_node(const Task& task, NfaStateId source, u32 reading, u32 node) {
    const Reading at = readings_[reading];
    const Place before = place_;
    if (!deadline_) nfa_->work.spend(2 * minterms_.edges(node).size());
    for (const Minterms::Edge& edge : minterms_.edges(node)) {
      const NfaStateId target =
          edge.to & Minterms::END ? targets_[at.targets + (edge.to & ~Minterms::END)] : inside_character(task, reading, edge.to);
      nfa_->add_edge(source, EDGE_BYTE, target, 0, edge.lo, edge.hi);
    }
    for (const auto& [which, data] : minterms_.non_ascii(node)) nfa_->add_edge(source, EDGE_NON_ASCII, targets_[at.targets + which], data);
    if (minterms_.partial_non_ascii(node)) nfa_->states[source].partial_non_ascii = true;
    place_ = before;
  }
  NfaStateId inside_character(const Task& task, u32 reading, u32 node) {
    const Reading& at = readings_[reading];
    const std::span<const u32> classes = minterms_.classes(node);
    place_ = at.place;
    if (place_.inside_character) {
      place_.least = NONE, place_.most = 0;
      for (const u32 which : classes) {
        const NfaState& target = nfa_->states[targets_[at.targets + which]];
        place_.least = std::min(place_.least, target.least), place_.most = std::max(place_.most, target.most);
      }
    }
    u64 key = u64{reading | 1u << 31} << 32 | node;
    if (classes.size() == 1) {
      const NfaStateId target = targets_[at.targets + classes[0]];
      if (const auto [kind, lo, hi] = tail_of(node); kind) return tail(target, kind, lo, hi);
      key = u64{target} << 32 | node;
    }
    if (const u32* found = inside_.find(key)) return NfaStateId(*found);
    const NfaStateId made = state();
    inside_.insert(key, made);
    piece(task, made, task.to, {reading, node, IN_CHARACTER, NONE});
    return made;
  }
  // The tail that a node is, of kind 0 where it is none.
  struct Tail {
    i32 kind, lo, hi;
  };
  Tail tail_of(u32 node) const {
    Tail found{0, 0, 0};
    for (i32 kind = 1;; kind++) {
      const auto edges = minterms_.edges(node);
      const auto [lo, hi, to] = edges[0];
      if (edges.size() != 1 || lo < 0x80 || (kind > 1 && (lo != 0x80 || hi != 0xBF))) return {0, 0, 0};
      if (kind == 1) found = {0, lo, hi};
      if (to & Minterms::END) return {kind, found.lo, found.hi};
      node = to;
    }
  }

  // A DFA whose characters are counted in the register. Each of its states is three: where it stands, from where it reads, and where
  // it is reached, the character not counted yet. Each knows how many characters may still be counted, so that a closure leaves out
  // states that the bounds no longer allow.
  void counted_automaton(const Task& task) {
    if (own_rule(task)) return;
    const i32 encoding = ex_.arg(task.node, 0), count = ex_.arg(task.node, 1);
    const i32 minimum = std::max(ex_.arg(task.node, 2), 0), maximum = ex_.arg(task.node, 3);
    Facts::Lengths made;
    const auto known = facts_.lengths.find(task.node);
    if (known == facts_.lengths.end()) automaton_lengths(ex_, task.node, made.least, &made.most);
    const auto& [least, most] = known == facts_.lengths.end() ? made : known->second;
    nfa_->rules[rule_].counts = true;
    const u32 id = static_cast<u32>(nfa_->heads.size());
    const NfaStateId head = state(), exit = state();
    Head h;
    h.automaton = true;
    h.minimum = static_cast<u32>(minimum);
    h.maximum = maximum < 0 ? NONE : static_cast<u32>(maximum);
    h.exit = exit;
    place_.body = id;  // of all states from here on
    Scratch<NfaStateId> stands, reached;
    for (u32 i = 0; i < static_cast<u32>(count); i++) {
      place_.least = least[i], place_.most = most[i];
      stands.push_back(state());
      place_.least = least[i] == NONE ? NONE : least[i] + 1;
      place_.most = most[i] == NONE ? NONE : most[i] + 1;
      reached.push_back(state());
      nfa_->add_edge(reached[i], EDGE_COUNT, stands[i]);
      if (least[i] != NONE) h.furthest = std::max(h.furthest, least[i] + 1);
      h.bounded = h.bounded || (least[i] != NONE && most[i] != NONE);
    }
    Task inside = task;
    inside.body = id;
    std::size_t at = 4;
    for (u32 i = 0; i < static_cast<u32>(count); i++) {
      if (ex_.arg(task.node, at)) nfa_->add_edge(stands[i], EDGE_LEAVE, exit);
      const std::size_t begin = at, end = at + 2 + 3 * static_cast<std::size_t>(ex_.arg(task.node, at + 1));
      place_.least = NONE, place_.most = 0;
      for (at += 2; at < end; at += 3) {
        const u32 target = static_cast<u32>(ex_.arg(task.node, at + 2));
        if (least[target] == NONE || (encoding != RAW && only_surrogates(ex_.arg(task.node, at), ex_.arg(task.node, at + 1)))) continue;
        place_.least = std::min(place_.least, least[target] + 1);
        place_.most = std::max(place_.most, most[target] == NONE ? NONE : most[target] + 1);
      }
      if (place_.least == NONE) continue;
      const NfaStateId reads = state();
      nfa_->states[reads].settled = least[i];
      epsilon(stands[i], reads);
      inside.piece = static_cast<u32>(pieces_.size());
      inside.from = reads;
      pieces_.push_back({static_cast<u32>(begin), 0, IN_COUNTED, reached[0]});
      if (static_cast<u32>(count) > few_states_) defer(inside);
      else automaton_piece(inside);
    }
    h.body = stands[0];
    nfa_->states[head].head = id;
    nfa_->heads.push_back(std::move(h));
    nfa_->add_edge(task.from, EDGE_ENTER, head);
    epsilon(exit, task.to);
  }
  // Any text but some words: their trie, with an end wherever no word ends, and a state for every text that has left it.
  void except(const Task& task) {
    const NfaStateId outside = state(), start = state();
    nfa_->states[outside].is_default = true;
    epsilon(outside, task.to);
    epsilon(task.from, start);
    const i32 all[] = {0, 0x10FFFF};
    chars(outside, outside, all, 2, ex_.arg(task.node, 0));
    piece(task, start, task.to, {0, static_cast<u32>(ex_.count(task.node) - 1), 0, outside});
  }
  void except_piece(const Task& task) {
    const i32 encoding = ex_.arg(task.node, 0);
    const Piece at = pieces_[task.piece];
    auto word = [&](std::size_t i) { return ex_.literal(task.node, i + 1); };
    Scratch<i32> others;
    u32 i = at.first;
    if (i < at.last && word(i).size() == at.depth) i++;
    else epsilon(task.from, task.to);
    i32 low = 0;
    bool bytes = encoding != JSON_ANY;  // each character that continues in words is one byte and has one spelling
    while (i < at.last) {
      std::size_t end = at.depth;
      const i32 code = decode(word(i), end);
      u32 j = i + 1;
      while (j < at.last && word(j).compare(at.depth, end - at.depth, word(i), at.depth, end - at.depth) == 0) j++;
      const NfaStateId below = state();
      const i32 one[] = {code, code};
      chars(task.from, below, one, 2, encoding);
      bytes = bytes && code < 0x80 && (encoding == UTF8 || (code >= 0x20 && code != '"' && code != '\\' && code != '/'));
      if (low < code) others.insert(others.end(), {low, code - 1});
      low = code + 1;
      piece(task, below, task.to, {i, j, static_cast<u32>(end), at.state});
      i = j;
    }
    if (bytes) {
      nfa_->add_edge(task.from, EDGE_DEFAULT, at.state);
      nfa_->add_edge(task.from, EDGE_NON_ASCII, at.state);
      return;
    }
    if (low <= 0x10FFFF) others.insert(others.end(), {low, 0x10FFFF});
    chars(task.from, at.state, others.data(), others.size(), encoding);
  }
  // The code point at `at` of well-formed UTF-8, and where the next begins.
  static i32 decode(std::string_view text, std::size_t& at) {
    const u8 lead = static_cast<u8>(text[at++]);
    if (lead < 0x80) return lead;
    i32 code = lead < 0xE0 ? lead & 0x1F : lead < 0xF0 ? lead & 0x0F : lead & 0x07;
    for (i32 more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3; more > 0; more--) code = code << 6 | (static_cast<u8>(text[at++]) & 0x3F);
    return code;
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
