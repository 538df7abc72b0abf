#include "grammar/lowering/repetitions.h"

#include <algorithm>

#include "grammar/automata.h"

namespace stackmask {

bool delimits_count(const Expressions& expressions, const Facts& facts, u32 node) {
  bool counts = false;
  for (std::size_t i = 0; i < expressions.count(node); i++) {
    const u32 part = static_cast<u32>(expressions.arg(node, i));
    const i32 op = expressions.nodes[part].op;
    if ((op == OP_REPEAT && counted_repeat(expressions, facts, part)) || (op == OP_AUTOMATON && counts_characters(expressions, part)))
      counts = true;
    else if (op != OP_LITERAL && op != OP_BYTES && op != OP_CHARS) return false;
  }
  return counts;
}

void RepetitionWriter::repeat(const Task& task) {
  const u32 body = operand(task.node, 0);
  const i32 minimum = ex_.arg(task.node, 1), maximum = ex_.arg(task.node, 2);
  if (maximum == 0 || !facts_.is(body, PRODUCTIVE)) return out_.epsilon(task.from, task.to);
  if (maximum < 0 && minimum <= 1) return loop(task, body, minimum == 0);  // * and +
  if (minimum == 0 && maximum == 1) {
    out_.epsilon(task.from, task.to);
    out_.part(task, ex_.arg(task.node, 0), task.from, task.to);
    return;
  }
  if (!counted_repeat(ex_, facts_, task.node) || unrolls_inside(task, body)) return unroll(task, minimum, maximum);
  if (!out_.outlined_counter(task)) count(task, body, minimum, maximum);
}

// Whether a count inside of a counted body is short enough to be unrolled: of one character, few times.
// PERF: otherwise it is a rule of its own, above a stack for each outer count. Unrolled, it is some items of one state: the first mask of
// `(?:[^\n]{1,7}\n?){1,300}` takes 0.6 ms instead of 36. Of longer bodies and higher counts there are too many states with too many items.
bool RepetitionWriter::unrolls_inside(const Task& task, u32 body) const {
  constexpr i32 FEW_TIMES = 20;
  if (!task.in_body() || nfa().heads[task.body].permutation || nfa().heads[task.body].automaton) return false;
  const i32 op = ex_.nodes[body].op, maximum = ex_.arg(task.node, 2);
  if ((op != OP_CHARS && op != OP_BYTES) || maximum < 0 || maximum > FEW_TIMES) return false;
  return facts_.size[body] * static_cast<u64>(maximum) <= unrolled_inside_;
}

void RepetitionWriter::loop(const Task& task, u32 body, bool may_be_empty) {
  const NfaStateId in = out_.state(), out = out_.state();
  out_.epsilon(task.from, in);
  if (rows_.ends_in_many_ways(task, body)) {
    Task own = task;
    own.from = in, own.to = out;
    out_.call(own, ex_.nodes[body].op == OP_CALL ? out_.rule(operand(body, 0)) : out_.outline(body));
  } else {
    out_.part(task, static_cast<i32>(body), in, out);
  }
  out_.epsilon(out, in);
  out_.epsilon(out, task.to);
  if (may_be_empty) out_.epsilon(in, task.to);
}

void RepetitionWriter::unroll(const Task& task, i32 minimum, i32 maximum) {
  const i32 body = ex_.arg(task.node, 0);
  NfaStateId at = task.from;
  for (i32 i = 0; i < std::max(minimum, maximum); i++) {
    if (i >= minimum) out_.epsilon(at, task.to);
    const bool last = maximum > 0 && i + 1 == maximum;
    const NfaStateId next = last ? task.to : out_.state();
    out_.part(task, body, at, next);
    at = next;
  }
  if (maximum < 0) {  // {n,}: the last body loops
    const NfaStateId out = out_.state();
    out_.epsilon(at, task.to);
    out_.part(task, body, at, out);
    out_.epsilon(out, at);
  }
}

void RepetitionWriter::count(const Task& task, u32 body, i32 minimum, i32 maximum) {
  // A body that may read nothing counts for nothing: (body without the empty text){0,maximum}.
  const bool empty = facts_.is(body, NULLABLE);
  out_.current_rule().counts = true;
  const u32 id = static_cast<u32>(nfa().heads.size());
  const NfaStateId head = out_.state(), exit = out_.state();
  const Place inside{id, task.member, task.origin};
  const NfaStateId start = out_.state(inside), end = out_.state(inside);
  Head h;
  h.minimum = empty ? 0 : static_cast<u32>(minimum);
  h.maximum = maximum < 0 ? NONE : static_cast<u32>(maximum);
  h.body = start;
  h.exit = exit;
  h.least = std::max(1u, facts_.least[body]);
  h.byte = ex_.nodes[body].op == OP_BYTES;
  nfa().set_head(head, id);
  nfa().heads.push_back(std::move(h));
  nfa().add_edge(task.from, EDGE_ENTER, head);
  nfa().add_edge(end, EDGE_COUNT, head);
  out_.epsilon(exit, task.to);
  if (empty) nfa().add_edge(start, EDGE_CALL, end, out_.outline(body), 0, 0, EDGE_IN_BODY | EDGE_NONEMPTY);
  else out_.later({body, start, end, id, 0, task.origin});
}

void RepetitionWriter::permute(const Task& task) {
  if (out_.outlined_counter(task)) return;
  out_.current_rule().counts = true;
  const u32 id = static_cast<u32>(nfa().heads.size());
  const NfaStateId head = out_.state(), exit = out_.state();
  Place inside{id, task.member, task.origin};
  const NfaStateId second = out_.state(inside), separator = out_.state(inside);
  Head h;
  h.permutation = true;
  h.minimum = operand(task.node, 1);
  h.maximum = ex_.arg(task.node, 2) < 0 ? NONE : operand(task.node, 2);
  h.body = separator;
  h.exit = exit;
  if (!facts_.is(operand(task.node, 0), PRODUCTIVE)) h.maximum = std::min(h.maximum, 1u);
  const std::size_t members = (ex_.count(task.node) - 3) / 2;
  h.members.reserve(members), h.flags.reserve(members);  // PERF: a union of objects in any order may have thousands of permutations
  NfaStateId never = NONE;  // where all members that cannot be read begin
  for (std::size_t i = 3; i < ex_.count(task.node); i += 2) {
    const u32 member = operand(task.node, i);
    const bool possible = facts_.is(member, PRODUCTIVE);
    inside.member = static_cast<u32>(h.members.size());
    h.flags.push_back(possible ? static_cast<u8>(ex_.arg(task.node, i + 1)) : NEVER_MEMBER);
    if (!possible) {
      if (never == NONE) never = out_.state(inside);
      h.members.push_back(never);
      continue;
    }
    const NfaStateId start = out_.state(inside), end = out_.state(inside);
    out_.later({member, start, end, id, inside.member, task.origin});
    nfa().add_edge(end, EDGE_MEMBER, head, inside.member);
    h.members.push_back(start);
  }
  h.index_members();
  out_.later({operand(task.node, 0), separator, second, id, NONE, task.origin});
  nfa().set_head(head, id);
  nfa().heads.push_back(h);
  h.after_separator = true;
  nfa().set_head(second, static_cast<u32>(nfa().heads.size()));
  nfa().heads.push_back(std::move(h));
  nfa().add_edge(task.from, EDGE_ENTER, head);
  out_.epsilon(exit, task.to);
}

}  // namespace stackmask
