// Rows: many parts of a SEQ, one after the other, that may all read nothing and that are or contain calls.
//
//   r1? r2? ... r64?   ->   (r1? ... r8?) (r9? ... r16?) ... (r57? ... r64?)        each (...) is a rule
//
// Otherwise a state stands before all parts that follow, and each call has a state after it that does so too: the square of the row's
// length. With rules for parts of it the number of edges is a multiple of the length. Two other forms grow in the same way, and get rules
// too: rules at the end of rules, each of which may read nothing, and loops whose body may begin and end by many calls.
#pragma once

#include "grammar/lowering/nfa_writer.h"

namespace stackmask {

class RowWriter final : private ExpressionWriter {
 public:
  RowWriter(NfaWriter& out, const Thresholds& thresholds) : ExpressionWriter(out), row_parts_(thresholds.row_parts) {}

  // A SEQ.
  void sequence(const Task& task);
  // A piece: some parts of a row.
  void row(const Task& task, Piece whole);
  // Whether a rule that may read nothing is called at the end of a rule at the end of a rule ...: a row as well, so some of them stay
  // rules.
  bool deep_in_row(const Task& task, u32 vertex) const;
  // Whether many alternatives of a loop's body begin with calls, and many end with a call and something optional of their own. After each
  // of the latter all of the former may follow, unless the body is a rule.
  bool ends_in_many_ways(const Task& task, u32 body) const;

 private:
  u32 row_parts_;

  RuleId row_rule(const Task& whole, const Piece& row);
  u32 row_end(const Task& task, u32 first) const;
  bool is_row(const Task& task, u32 first, u32 last) const;
  bool holds_call(const Task& task, u32 node) const;
};

}  // namespace stackmask
