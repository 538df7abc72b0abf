// The NFA while it is written: its new states, rules and edges, and the tasks that wait at states.
//
// Whoever writes an expression asks for states and says where they belong by `place`. An operand becomes a task of its own (part()): it is
// done at once if it begins at the state that is being expanded or is small, and else it waits there until a closure comes. A new rule is
// two states and a task. An expansion that fails leaves no trace: restore() returns to the sizes of all tables before it.
//
// A state or a task takes constant time.
#pragma once

#include <unordered_map>

#include "grammar/facts/facts.h"
#include "grammar/spelling.h"
#include "grammar/lowering/task.h"

namespace stackmask {

class NfaWriter final : public Spelling {
 public:
  // With `apart` calls stay calls, and counted repetitions become rules: with left recursion through counters, the least lengths could not
  // be measured.
  NfaWriter(std::shared_ptr<const Expressions> expressions, std::shared_ptr<const Facts> facts, const Thresholds& thresholds,
            const Limits& limits, bool apart);
  const Expressions& expressions() const { return *expressions_; }
  const Facts& facts() const { return *facts_; }
  bool apart() const { return apart_; }
  Nfa& nfa() const { return *nfa_; }
  Deadline* deadline() const { return deadline_; }
  u32 body(RuleId rule) const { return bodies_[rule]; }
  std::size_t bytes() const;

  // An NFA with the root's rule alone.
  void begin(Nfa& nfa);
  // For each call from outside: the NFA, and the deadline of a call that lowers everything. Other calls spend work.
  void enter(Nfa& nfa, Deadline* deadline) { nfa_ = &nfa, deadline_ = deadline; }
  void spend(u64 units) {
    if (!deadline_) nfa_->work.spend(units);
  }
  void check() {
    if (deadline_) deadline_->check();
    else nfa_->work.spend(4);
  }

  // The sizes of all that an expansion may add to.
  struct Sizes {
    NfaStateId at;
    NfaState state;
    std::size_t states, edges, countings, heads, rules, origins, deferred, pieces;
    bool counts;
  };
  Sizes sizes(NfaStateId state) const;
  void restore(const Sizes& before);
  // The tasks that wait at a state become those that next() gives, and all tasks that begin there. The last that came is the next.
  void expand(NfaStateId state);
  bool next(Task& task);

  // States.
  Place place;  // of the states that a task makes
  NfaStateId state() override { return state(place); }
  NfaStateId state(const Place& of);
  void epsilon(NfaStateId from, NfaStateId to) { nfa_->add_edge(from, EDGE_EPSILON, to); }

  // Tasks.
  void now(const Task& task) { tasks_.push_back(task); }
  void defer(const Task& task);
  // Now if it begins here or is small, else when a closure comes to where it begins.
  void later(const Task& task);
  void part(const Task& task, i32 node, NfaStateId from, NfaStateId to) {
    later({static_cast<u32>(node), from, to, task.body, task.member, task.origin});
  }
  const Piece& piece(u32 number) const { return pieces_[number]; }
  u32 add_piece(const Piece& piece);
  void defer_piece(const Task& whole, NfaStateId from, NfaStateId to, const Piece& piece);

  // Rules.
  Rule& current_rule() { return nfa_->rules[rule_]; }  // that new states belong to
  RuleId rule(u32 index);  // of a rule of the expressions
  RuleId outline(u32 node, bool scope = false);  // a separate rule for a node
  RuleId outline_piece(const Task& whole, const Piece& piece);  // ... and for a piece of it
  void call(const Task& task, RuleId rule, u8 flags = 0) {
    nfa_->add_edge(task.from, EDGE_CALL, task.to, rule, 0, 0, static_cast<u8>(flags | (task.in_body() ? EDGE_IN_BODY : 0)));
  }
  // Whether a rule or a shared node becomes a part of its caller here.
  bool merges(u32 vertex, const Task& task) const;
  // Calls a separate rule for an expression that counts, if it lies in a counted body or has to be a rule. Whether it did.
  bool outlined_counter(const Task& task);

 private:
  struct Deferred {
    Task task;
    u32 next;
  };
  std::shared_ptr<const Expressions> expressions_;
  std::shared_ptr<const Facts> facts_;
  Limits limits_;
  u32 small_literal_;  // bytes of a literal that is small
  bool apart_;
  u64 budget_;  // states up to which small rules are inlined
  Deadline* deadline_ = nullptr;
  std::vector<RuleId> rule_of_;  // rules of the expressions -> rules of the NFA
  std::vector<u32> bodies_;      // by rule of the NFA: its node
  std::unordered_map<u64, RuleId> outlined_;
  std::vector<Task> tasks_;
  std::vector<Deferred> deferred_;
  std::vector<Piece> pieces_;
  NfaStateId here_ = NONE;  // the state being expanded
  RuleId rule_{0};          // ... and its rule

  [[noreturn]] void too_many_states() const;
  RuleId new_rule(u32 vertex, u32 node, u32 name, bool scope, u32 piece = NONE);
};

// A base class of those that write one kind of expression: the expressions and their facts, and the NFA that they write to.
class ExpressionWriter {
 protected:
  explicit ExpressionWriter(NfaWriter& out) : out_(out), ex_(out.expressions()), facts_(out.facts()) {}
  ~ExpressionWriter() = default;

  NfaWriter& out_;
  const Expressions& ex_;
  const Facts& facts_;

  Nfa& nfa() const { return out_.nfa(); }
  u32 operand(u32 node, std::size_t i) const { return static_cast<u32>(ex_.arg(node, i)); }
  u32 vertex_of_rule(u32 rule) const { return static_cast<u32>(ex_.nodes.size()) + rule; }
  u32 rule_body(u32 rule) const { return static_cast<u32>(ex_.rules[rule]); }
};

}  // namespace stackmask
