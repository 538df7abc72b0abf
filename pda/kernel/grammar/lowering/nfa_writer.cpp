#include "grammar/lowering/nfa_writer.h"

#include <algorithm>

namespace stackmask {

namespace {

constexpr u32 RANKS = 16;  // of a node: of its rule, its scope, and rows of parts in rows of it

}  // namespace

NfaWriter::NfaWriter(std::shared_ptr<const Expressions> expressions, std::shared_ptr<const Facts> facts, const Thresholds& thresholds,
                     const Limits& limits, bool apart)
    : expressions_(std::move(expressions)), facts_(std::move(facts)), limits_(limits), small_literal_(thresholds.spelled_bytes),
      apart_(apart), budget_(inlining_budget(facts_->states)) {
  limits_.states = std::min<u64>(limits_.states, ID_FLAG);
}

std::size_t NfaWriter::bytes() const {
  return expressions_->bytes() + facts_->bytes() + deferred_.capacity() * sizeof(Deferred) + pieces_.capacity() * sizeof(Piece) +
         rule_of_.capacity() * sizeof(u32) + shared_states_bytes();
}

void NfaWriter::begin(Nfa& nfa) {
  nfa_ = &nfa;
  nfa.expressions = expressions_;
  nfa.root_called = facts_->root_called;
  nfa.limited = facts_->limited;
  rule_of_.assign(expressions_->rules.size(), NONE);
  nfa.root = rule(static_cast<u32>(expressions_->root));
}

NfaWriter::Sizes NfaWriter::sizes(NfaStateId state) const {
  const NfaState& found = nfa_->states[state];
  return {state,
          found,
          nfa_->states.size(),
          nfa_->edges.size(),
          nfa_->countings.size(),
          nfa_->heads.size(),
          nfa_->rules.size(),
          nfa_->origins.size(),
          deferred_.size(),
          pieces_.size(),
          nfa_->rules[found.rule].counts};
}

void NfaWriter::restore(const Sizes& before) {
  nfa_->states.resize(before.states);
  nfa_->states[before.at] = before.state;
  nfa_->edges.resize(before.edges);
  nfa_->countings.resize(before.countings);
  nfa_->heads.resize(before.heads);
  nfa_->rules.resize(before.rules);
  bodies_.resize(before.rules);
  nfa_->rules[before.state.rule].counts = before.counts;
  nfa_->origins.resize(before.origins);
  deferred_.resize(before.deferred);
  pieces_.resize(before.pieces);
  for (RuleId& rule : rule_of_)
    if (rule != NONE && rule >= before.rules) rule = NONE;
  std::erase_if(outlined_, [&](const auto& entry) { return entry.second >= before.rules; });
  forget_shared_states();
}

void NfaWriter::expand(NfaStateId state) {
  here_ = state;
  rule_ = nfa_->states[state].rule;
  tasks_.clear();
  for (u32 d = nfa_->states[state].pending; d != NONE; d = deferred_[d].next) tasks_.push_back(deferred_[d].task);
  nfa_->states[state].pending = NONE;
}

bool NfaWriter::next(Task& task) {
  if (tasks_.empty()) return false;
  task = tasks_.back();
  tasks_.pop_back();
  check();
  return true;
}

void NfaWriter::too_many_states() const {
  throw LimitExceeded("states", static_cast<double>(limits_.states),
                      "the grammar needs more than " + std::to_string(limits_.states) + " NFA states");
}

NfaStateId NfaWriter::state(const Place& of) {
  if (nfa_->states.size() >= limits_.states) too_many_states();
  check();
  const NfaStateId added = nfa_->add_state(rule_);
  NfaState& made = nfa_->states[added];
  made.origin = of.origin;
  if (of.body != NONE) nfa_->set_counting(added, {NONE, of.body, of.member, of.least, of.most, 0, of.inside_character});
  return added;
}

void NfaWriter::defer(const Task& task) {
  u32& pending = nfa_->states[task.from].pending;
  deferred_.push_back({task, pending});
  pending = static_cast<u32>(deferred_.size() - 1);
}

void NfaWriter::later(const Task& task) {
  const i32 op = expressions_->nodes[task.node].op;
  const bool small = op == OP_LITERAL ? expressions_->literal(task.node, 0).size() <= small_literal_ : op == OP_BYTES || op == OP_EMPTY;
  if (task.from == here_ || small) tasks_.push_back(task);
  else defer(task);
}

u32 NfaWriter::add_piece(const Piece& piece) {
  pieces_.push_back(piece);
  return static_cast<u32>(pieces_.size() - 1);
}

void NfaWriter::defer_piece(const Task& whole, NfaStateId from, NfaStateId to, const Piece& piece) {
  Task task = whole;
  task.from = from, task.to = to;
  task.piece = add_piece(piece);
  defer(task);
}

RuleId NfaWriter::new_rule(u32 vertex, u32 node, u32 name, bool scope, u32 piece) {
  if (nfa_->states.size() + 2 > limits_.states) too_many_states();
  const Expressions& ex = *expressions_;
  const RuleId id(static_cast<u32>(nfa_->rules.size()));
  Rule rule;
  rule.name = name;
  rule.scope = scope;
  rule.nullable = facts_->is(node, NULLABLE);
  rule.recursive = facts_->is_recursive(vertex);
  rule.rank = facts_->rank[vertex] * RANKS + scope;
  rule.origin = static_cast<u32>(nfa_->origins.size());
  // A capture, limit or temperature around the whole text of a rule is a property of the rule.
  bool empty = false;
  for (i32 op = ex.nodes[node].op; !empty && (op == OP_CAPTURE || op == OP_LIMIT || op == OP_TEMPERATURE); op = ex.nodes[node].op) {
    const u32 inner = static_cast<u32>(ex.arg(node, 0));
    if (op == OP_LIMIT) {
      empty = ex.arg(node, 1) == 0 && facts_->is(inner, NULLABLE);  // that spans no token
      if (!empty) rule.limit = std::min(rule.limit, std::max(1u, static_cast<u32>(ex.arg(node, 1))));
    } else if (op == OP_TEMPERATURE) {
      const auto& values = nfa_->temperatures;
      const double value = ex.numbers[static_cast<std::size_t>(ex.arg(node, 1))];
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
  else defer({node, start, final, NONE, NONE, rule.origin, true, piece});
  return id;
}

RuleId NfaWriter::rule(u32 index) {
  RuleId& found = rule_of_[index];
  if (found == NONE) {
    const u32 vertex = static_cast<u32>(expressions_->nodes.size()) + index;
    found = new_rule(vertex, static_cast<u32>(expressions_->rules[index]), index, false);
  }
  return found;
}

RuleId NfaWriter::outline(u32 node, bool scope) {
  const u64 key = static_cast<u64>(node) << 1 | scope;
  const auto found = outlined_.find(key);
  if (found != outlined_.end()) return found->second;
  const RuleId made = new_rule(node, node, nfa_->origins[place.origin].name, scope);
  outlined_.emplace(key, made);
  return made;
}

RuleId NfaWriter::outline_piece(const Task& whole, const Piece& piece) {
  return new_rule(whole.node, whole.node, nfa_->origins[whole.origin].name, false, add_piece(piece));
}

bool NfaWriter::merges(u32 vertex, const Task& task) const {
  if (apart_ || !facts_->is(vertex, INLINED) || (task.in_body() && facts_->is(vertex, COUNTING))) return false;
  return facts_->is(vertex, CALLED_ONCE) || nfa_->states.size() + facts_->whole[vertex] <= budget_;
}

bool NfaWriter::outlined_counter(const Task& task) {
  if (!task.in_body() && (!apart_ || task.whole || current_rule().scope)) return false;
  call(task, outline(task.node));
  return true;
}

}  // namespace stackmask
