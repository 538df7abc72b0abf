// Minterms: the classes of characters that a state of an automaton tells apart, as one DFA over bytes.
//
//   \p{Lu} to q1, \P{Lu} to q2      root --0..@--> end of class 1     root --A..Z--> end of class 0
//                                   root --C3--> node --80..96--> end of class 0
//                                                     --97--> end of class 1 ...
//
// Characters of large classes are a few thousand states as an NFA, and all states of an automaton that read the same classes repeat them, each
// with targets of its own. Of a DFA a text is in one node at a time; so the lowering makes states of an NFA for the nodes that texts come to
// (Spelling makes all of them).
//
// Tested by tests/pda/kernel/test_lowering.py.
#pragma once

#include "grammar/automata.h"

namespace stackmask {

class Minterms {
 public:
  static constexpr u32 END = 1u << 31;  // in the place of a node: a character of the class (END | class) ends

  struct Edge {
    u8 lo, hi;
    u32 to;
  };
  struct NonAscii {  // an EDGE_NON_ASCII
    u32 which, data;
  };
  // The node that characters begin at. Classes are the groups of `classes`, in their order; those of equal ones are made once.
  u32 root(const ByTarget& classes, i32 encoding, Work& work, Deadline* deadline);

  // Until the next root is made.
  std::span<const Edge> edges(u32 node) const { return {edges_.data() + nodes_[node].edges, nodes_[node + 1].edges - nodes_[node].edges}; }
  std::span<const u32> classes(u32 node) const {  // that a character may be of
    return {classes_.data() + nodes_[node].classes, nodes_[node + 1].classes - nodes_[node].classes};
  }
  std::span<const NonAscii> non_ascii(u32 node) const {
    return {non_ascii_.data() + nodes_[node].non_ascii, nodes_[node + 1].non_ascii - nodes_[node].non_ascii};
  }
  bool partial_non_ascii(u32 node) const { return nodes_[node].partial_non_ascii; }
  u32 end(u32 root) const { return ends_[nodes_[root].root]; }  // its nodes are those from the root to before this one
  std::size_t bytes() const;

 private:
  struct Node {
    u32 edges = 0, classes = 0, non_ascii = 0;  // where they begin; those of the next node begin where they end
    u32 root = 0;  // the number of its root
    bool partial_non_ascii = false;
  };
  Interner keys_;
  std::vector<u32> roots_, ends_;  // by key
  std::vector<Node> nodes_{Node()};
  std::vector<Edge> edges_;
  std::vector<u32> classes_;
  std::vector<NonAscii> non_ascii_;
};

}  // namespace stackmask
