// Decides which calls become a part of their caller.
#include <algorithm>

#include "grammar/facts/passes.h"

namespace stackmask {

namespace {

constexpr u64 MOST_ADDED = 65'536;  // states, by inlining what follows loops

class Inlining : Pass {
 public:
  Inlining(const Expressions& expressions, const Thresholds& thresholds, Survey& survey)
      : Pass(expressions, survey), thresholds_(thresholds) {}

  // Calls of small rules, and of rules that are called once, become the callee's states. States of one rule need no stack, and a
  // rule that ends inside a large loop would pass a large set of trie nodes to its caller.
  void run() {
    facts_.whole.assign(facts_.flags.size(), 1);
    find_behind_loops();
    for (const u32 vertex : order_)
      if (facts_.is(vertex, CALLED_ONCE) && may_inline(vertex)) facts_.flags[vertex] |= INLINED;
    for (const u32 v : order_) {  // callees come before the vertices that they are inlined into
      u8& flags = facts_.flags[v];
      if (v >= nodes_) {
        const u32 node = body(v - nodes_);
        facts_.whole[v] = facts_.whole[node];
        flags = static_cast<u8>(flags | (facts_.flags[node] & (COUNTING | OPEN)));
      } else {
        auto merged = [&](u32 c) { return c >= nodes_ || facts_.is(c, SHARED) ? facts_.is(c, INLINED) : true; };
        auto cost = [&](u32 c) -> u64 { return merged(c) ? facts_.whole[c] : 1; };
        facts_.whole[v] = static_cast<u32>(std::min<u64>(op(v) == OP_CALL ? cost(child(v, 0)) : states(v, cost), MOST_STATES));
        bool counting = counts(v);
        if (!apart(v)) each_child(v, [&](u32 c) { counting = counting || (merged(c) && facts_.is(c, COUNTING)); });
        if (counting) flags |= COUNTING;
        if (ends_open(v)) flags |= OPEN;
      }
      if (facts_.is(v, INLINED) || facts_.is_recursive(v) || !may_inline(v)) continue;
      if (facts_.whole[v] <= thresholds_.inlined_states || (facts_.whole[v] <= thresholds_.inlined_open_states && facts_.is(v, OPEN)) ||
          inlined_behind_loop(v))
        flags |= INLINED;
    }
  }

 private:
  const Thresholds& thresholds_;
  PooledVector<u8> behind_loop_;  // by vertex: it stands behind a loop over a large class, which it may read as well
  PooledVector<u32> places_;      // by vertex: how often it occurs
  u64 added_ = 0;                 // states

  // PERF: no state of such a loop calls then, and masks take its classes as a whole. A grammar of two patterns that are searched for and
  // begin with the same 24 characters took 1.4 ms for each mask.
  bool inlined_behind_loop(u32 vertex) {
    if (!behind_loop_[vertex] || facts_.whole[vertex] > thresholds_.inlined_behind_loop) return false;
    const u64 more = static_cast<u64>(places_[vertex]) * facts_.whole[vertex];
    if (added_ + more > MOST_ADDED) return false;
    added_ += more;
    return true;
  }

  void find_behind_loops() {
    behind_loop_.assign(facts_.flags.size(), 0);
    places_.assign(facts_.flags.size(), 0);
    for (std::size_t i = order_.size(); i-- > 0;) {  // callers come before what they call
      const u32 v = order_[i];
      bool behind = behind_loop_[v];
      const bool sequence = v < nodes_ && op(v) == OP_SEQ;
      const bool begins = v >= nodes_ || op(v) == OP_ALT || op(v) == OP_REPEAT || op(v) == OP_CAPTURE || op(v) == OP_CALL;
      each_child(v, [&](u32 c) {
        places_[c]++;
        if (behind && (sequence || begins)) behind_loop_[c] = 1;
        if (sequence) behind = is_large_loop(c) || (behind && facts_.is(c, NULLABLE));
      });
    }
  }

  bool is_large_loop(u32 vertex) const {
    if (vertex >= nodes_ || op(vertex) != OP_REPEAT || ex_.arg(vertex, 2) >= 0) return false;
    const u32 body = operand(vertex);
    if (op(body) != OP_CHARS) return false;
    u32 ascii = 0;
    for (std::size_t i = 1; i + 1 < ex_.count(body) && ex_.arg(body, i) < 128; i += 2)
      ascii += static_cast<u32>(std::min(ex_.arg(body, i + 1), 127) - ex_.arg(body, i)) + 1;
    return ascii >= thresholds_.dense_bytes;
  }

  bool may_inline(u32 vertex) const {
    if (vertex == root() || (vertex < nodes_ && !facts_.is(vertex, SHARED))) return false;
    u32 node = vertex < nodes_ ? vertex : body(vertex - nodes_);
    while (op(node) == OP_CAPTURE) node = operand(node);
    return op(node) != OP_LIMIT && op(node) != OP_TEMPERATURE;
  }
  bool counts(u32 node) const {
    switch (op(node)) {
      case OP_REPEAT: return counted_repeat(ex_, facts_, node);
      case OP_PERMUTE: return true;
      case OP_AUTOMATON: return counts_characters(ex_, node);
      default: return false;
    }
  }
  bool ends_open(u32 node) const {
    const std::size_t n = ex_.count(node);
    auto open = [&](u32 c) { return facts_.is(c, OPEN) && (!facts_.is(c, SHARED) || facts_.is(c, INLINED)); };
    switch (op(node)) {
      case OP_SEQ:
        for (std::size_t i = n; i-- > 0;) {
          const u32 c = operand(node, i);
          if (open(c)) return true;
          if (!facts_.is(c, NULLABLE)) return false;
          if (op(c) != OP_EMPTY) return true;
        }
        return false;
      case OP_ALT:
        for (std::size_t i = 0; i < n; i++)
          if (open(operand(node, i)) || (n > 1 && facts_.is(operand(node, i), NULLABLE))) return true;
        return false;
      case OP_REPEAT: return ex_.arg(node, 1) != ex_.arg(node, 2) || open(operand(node));
      case OP_CALL: return facts_.is(nodes_ + operand(node), INLINED) && facts_.is(nodes_ + operand(node), OPEN);
      case OP_CAPTURE: return open(operand(node));
      case OP_EXCEPT:
      case OP_PERMUTE: return true;
      case OP_GRAPH:
        for (std::size_t i = 1; i < n; i += 3)
          if (operand(node, i + 1) == 1 && (ex_.arg(node, i + 2) < 0 || open(operand(node, i + 2)))) return true;
        return false;
      case OP_AUTOMATON: {
        std::size_t at = 4;
        for (i32 s = 0; s < ex_.arg(node, 1); s++) {
          if (ex_.arg(node, at) && ex_.arg(node, at + 1)) return true;
          at += 2 + 3 * operand(node, at + 1);
        }
        return false;
      }
      default: return false;
    }
  }
};

}  // namespace

void find_inlined(const Expressions& expressions, const Thresholds& thresholds, Survey& survey) {
  Inlining(expressions, thresholds, survey).run();
}

}  // namespace stackmask
