// REPEAT and PERMUTE: loops, and parts that are counted in the register of an item.
//
//   a*      in --a--> out, out --> in            no counter
//   a{2,3}  a a a, with an end behind two        short: unrolled
//   a{9,}   head --body--> ... --count--> head   the head decides by the count; a permutation's head by the used members
//
// An item has one counter, so a repetition inside of a counted body is a rule, unless it is unrolled there. Time and states are linear in
// the unrolled length or in the number of members.
#pragma once

#include "grammar/lowering/rows.h"

namespace stackmask {

class RepetitionWriter final : private ExpressionWriter {
 public:
  RepetitionWriter(NfaWriter& out, const RowWriter& rows, const Thresholds& thresholds)
      : ExpressionWriter(out), rows_(rows), unrolled_inside_(thresholds.unrolled_inside) {}
  void repeat(const Task& task);
  void permute(const Task& task);

 private:
  const RowWriter& rows_;
  u32 unrolled_inside_;

  bool unrolls_inside(const Task& task, u32 body) const;
  void loop(const Task& task, u32 body, bool may_be_empty);
  void unroll(const Task& task, i32 minimum, i32 maximum);
  void count(const Task& task, u32 body, i32 minimum, i32 maximum);
};

// Whether a node is a sequence of a counted repetition and delimiters, such as the quotes of a string with a maxLength. Inside a counted
// body the whole sequence becomes a rule: if only the repetition did, that rule could end after every character, and tokens would move on
// the stack there.
bool delimits_count(const Expressions& expressions, const Facts& facts, u32 node);

}  // namespace stackmask
