// The passes over expressions that compute the facts, each in a file:
//
//   productive.cpp   the vertices that generate a text, and those that generate the empty one
//   reach.cpp        the vertices that the root reaches, their order, and the recursive ones
//   facts.cpp        sizes, shared nodes, and the NFA's facts about the whole grammar
//   endless.cpp      strings with infinitely many values, parts in any order, and free escapes
//   inlining.cpp     the calls that become a part of their caller
#pragma once

#include "grammar/automata.h"
#include "grammar/facts/facts.h"
#include "vocabulary/trie.h"

namespace stackmask {

// Results of one pass for the next.
struct Survey {
  Facts facts;
  PooledVector<u32> order;  // the reached vertices: those that a vertex refers to come before it, except in cycles
};

// A view of the vertices, and the facts so far.
class Pass {
 protected:
  static constexpr u32 MOST_STATES = 1'000'000;  // counts of states are saturated here
  Pass(const Expressions& expressions, Survey& survey)
      : ex_(expressions), facts_(survey.facts), order_(survey.order), nodes_(static_cast<u32>(expressions.nodes.size())) {}

  const Expressions& ex_;
  Facts& facts_;
  std::vector<u32>& order_;
  u32 nodes_;

  i32 op(u32 node) const { return ex_.nodes[node].op; }
  u32 operand(u32 node, std::size_t i = 0) const { return static_cast<u32>(ex_.arg(node, i)); }
  bool apart(u32 node) const {  // its operand is a rule
    return op(node) == OP_SCOPE || op(node) == OP_DISTINCT || op(node) == OP_LIMIT || op(node) == OP_TEMPERATURE;
  }
  u32 root() const { return nodes_ + static_cast<u32>(ex_.root); }
  u32 body(u32 rule) const { return static_cast<u32>(ex_.rules[rule]); }

  // The vertices that a vertex refers to; NONE for an edge of a GRAPH that reads nothing.
  std::size_t child_count(u32 vertex) const { return vertex >= nodes_ || op(vertex) == OP_CALL ? 1 : ex_.operand_count(vertex); }
  u32 child(u32 vertex, std::size_t i) const {
    if (vertex >= nodes_) return body(vertex - nodes_);
    return op(vertex) == OP_CALL ? nodes_ + operand(vertex) : ex_.operand(vertex, i);
  }
  template <class F>
  void each_child(u32 vertex, F f) const {
    const std::size_t count = child_count(vertex);
    for (std::size_t i = 0; i < count; i++)
      if (const u32 c = child(vertex, i); c != NONE) f(c);
  }

  // A negated set holds tokens that have text, or all tokens.
  bool in_negated(const TokenTrie& trie, u32 node, TokenId token) const { return ex_.arg(node, 0) == ANY_TOKEN || trie.has_text(token); }

  // Unescaped ASCII takes one state, for any ranges. Other characters take several bytes, or may be escaped.
  u64 size_of_characters(u32 node) const {
    const i32 encoding = ex_.arg(node, 0);
    const std::size_t n = ex_.count(node);
    if (encoding == JSON_ANY) return 12;
    if (n > 1 && ex_.arg(node, n - 1) > 0x7F) return 8;
    for (std::size_t i = 1; encoding == JSON && i + 1 < n; i += 2)
      for (const i32 escaped : {0x1F, 0x22, 0x2F, 0x5C})
        if (ex_.arg(node, i) <= escaped && escaped <= ex_.arg(node, i + 1)) return 8;
    return 1;
  }

  // The number of states of a node; size_of() gives those of its operands.
  template <class F>
  u64 states(u32 node, F size_of) const {
    const std::size_t n = ex_.count(node);
    u64 size = 1;
    switch (op(node)) {
      case OP_LITERAL: return ex_.literal(node, 0).size();
      case OP_CHARS: return size_of_characters(node);
      case OP_SEQ:
      case OP_ALT:
        for (std::size_t i = 0; i < n; i++) size += size_of(operand(node, i));
        return size;
      case OP_REPEAT: {
        const u64 one = size_of(operand(node));
        const u64 times = static_cast<u64>(std::max({1, ex_.arg(node, 1), ex_.arg(node, 2)}));
        return one * times <= facts_.unrolled ? one * times : one + 3;
      }
      case OP_GRAPH:
        for (std::size_t i = 3; i < n; i += 3)
          if (ex_.arg(node, i) >= 0) size += size_of(operand(node, i));
        return size;
      case OP_AUTOMATON: return static_cast<u64>(ex_.arg(node, 1));
      case OP_EXCEPT:
        for (std::size_t i = 1; i < n; i++) size += ex_.literal(node, i).size();
        return size;
      case OP_PERMUTE: return 1000;
      case OP_CAPTURE: return size_of(operand(node));
      default: return 1;
    }
  }
};

// A search over the states of a GRAPH or an AUTOMATON.
class StateSearch : protected Pass {
 protected:
  using Pass::Pass;
  PooledVector<u8> reached_;
  PooledVector<u32> begin_, next_, work_;

  // Finds the states of a GRAPH that labels with this flag lead to; true if the last state is one.
  bool leads(u32 node, u8 flag);
  // Finds where each state of an automaton begins among its arguments, and starts a search at its first state.
  void enter_automaton(u32 node);
};

// Begins after the nodes that expressions.generates already has, and adds the others to it.
void find_productive(Expressions& expressions, const TokenTrie& trie, Survey& survey, Deadline& deadline);
void reach(const Expressions& expressions, Survey& survey, Deadline& deadline);
void find_endless(const Expressions& expressions, Survey& survey);
void find_permuting(const Expressions& expressions, Survey& survey);
bool any_escapes(const Expressions& expressions, Survey& survey);
void find_inlined(const Expressions& expressions, const Thresholds& thresholds, Survey& survey);

}  // namespace stackmask
