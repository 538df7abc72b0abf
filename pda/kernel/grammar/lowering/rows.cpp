#include "grammar/lowering/rows.h"

#include <algorithm>

namespace stackmask {

namespace {

constexpr std::size_t LOOKED_AT = 16;  // nodes, for a call

}  // namespace

void RowWriter::sequence(const Task& task) {
  const u32 n = static_cast<u32>(ex_.count(task.node));
  NfaStateId at = task.from;
  for (u32 i = 0, looked_at = 0; i < n;) {
    u32 end = i + 1;
    if (i >= looked_at) {
      looked_at = row_end(task, i);
      if (is_row(task, i, looked_at)) end = looked_at;
    }
    const NfaStateId next = end == n ? task.to : out_.state();
    if (end > i + 1) {
      Task own = task;
      own.from = at, own.to = next;
      row(own, {i, end, 0, NONE});
    } else {
      out_.part(task, ex_.arg(task.node, i), at, next);
    }
    at = next, i = end;
  }
}

void RowWriter::row(const Task& task, const Piece whole) {
  const u32 parts = whole.last - whole.first, rows = std::min(8u, std::max(2u, row_parts_ / 4));
  const u32 each = parts > rows ? (parts + rows - 1) / rows : 1;
  NfaStateId at = task.from;
  for (u32 first = whole.first; first < whole.last; first += each) {
    const u32 last = std::min(first + each, whole.last);
    const NfaStateId next = last == whole.last ? task.to : out_.state();
    if (last == first + 1) {
      out_.part(task, ex_.arg(task.node, first), at, next);
    } else {
      Task own = task;
      own.from = at, own.to = next;
      out_.call(own, row_rule(task, {first, last, whole.depth + 1, NONE}));
    }
    at = next;
  }
}

RuleId RowWriter::row_rule(const Task& whole, const Piece& row) {
  const RuleId id = out_.outline_piece(whole, row);
  Rule& rule = nfa().rules[id];
  rule.nullable = true;
  rule.rank += 1 + row.depth;
  return id;
}

// The end of the row of parts that begins at `first`: the index after its last part.
u32 RowWriter::row_end(const Task& task, u32 first) const {
  const u32 n = static_cast<u32>(ex_.count(task.node));
  u32 end = first;
  while (end < n && facts_.is(operand(task.node, end), NULLABLE)) end++;
  return std::max(end, first + 1);
}

bool RowWriter::is_row(const Task& task, u32 first, u32 last) const {
  if (last - first < row_parts_ || last - first < 3 || out_.apart() || nfa().any_distinct) return false;
  u32 calls = 0;
  for (u32 i = first; i < last && calls < row_parts_; i++) calls += holds_call(task, operand(task.node, i));
  return calls >= row_parts_;
}

bool RowWriter::deep_in_row(const Task& task, u32 vertex) const {
  if (!facts_.is(vertex, NULLABLE) || nfa().any_distinct) return false;
  u32 depth = 0;
  for (u32 at = nfa().origins[task.origin].parent; at != NONE && depth < row_parts_; at = nfa().origins[at].parent) depth++;
  return depth == row_parts_ && holds_call(task, rule_body(vertex - vertex_of_rule(0)));
}

bool RowWriter::ends_in_many_ways(const Task& task, u32 body) const {
  u32 node = body;
  while (ex_.nodes[node].op == OP_CALL && out_.merges(vertex_of_rule(operand(node, 0)), task)) node = rule_body(operand(node, 0));
  if (ex_.nodes[node].op != OP_ALT || ex_.count(node) < row_parts_ || out_.apart() || nfa().any_distinct) return false;
  u32 starts = 0, ends = 0;
  for (std::size_t i = 0; i < ex_.count(node); i++) {
    const u32 way = operand(node, i);
    if (ex_.nodes[way].op != OP_SEQ) {
      starts += holds_call(task, way);
      continue;
    }
    const std::size_t parts = ex_.count(way);
    std::size_t last = parts - 1;
    while (last > 0 && facts_.is(operand(way, last), NULLABLE)) last--;
    starts += holds_call(task, operand(way, 0));
    ends += last + 1 < parts && holds_call(task, operand(way, last));
  }
  return starts >= row_parts_ && ends >= row_parts_;
}

// Whether a node is or contains a call that stays one, within a few nodes.
bool RowWriter::holds_call(const Task& task, u32 node) const {
  PooledVector<u32> work{node};
  for (std::size_t i = 0; i < work.size() && i < LOOKED_AT; i++) {
    const u32 at = work[i];
    const i32 op = ex_.nodes[at].op;
    if (op == OP_SCOPE || op == OP_LIMIT || op == OP_TEMPERATURE || (facts_.is(at, SHARED) && !out_.merges(at, task))) return true;
    if (op == OP_CALL) {
      const u32 called = operand(at, 0);
      if (!out_.merges(vertex_of_rule(called), task)) return true;
      work.push_back(rule_body(called));
    } else {
      for (std::size_t k = 0, n = ex_.operand_count(at); k < n && work.size() < LOOKED_AT; k++)
        if (const u32 found = ex_.operand(at, k); found != NONE) work.push_back(found);
    }
  }
  return false;
}

}  // namespace stackmask
