// Sets of nodes of the trie, and the steps between them.
//
// A walk of a state's edges through the trie visits many nodes at once, and most walks of a vocabulary's grammars take the same steps at the
// same nodes, such as those behind a quote or the digits. So a set of nodes is kept with the tokens that end at it and with the sets that its
// bytes lead to: a step is looked up, not walked. It is the trie made deterministic for sets of its nodes as far as walks came, as a lazy DFA
// is for an NFA (Aho, Sethi and Ullman 1986, section 3.7). A step costs the children of the nodes once; the memory of all sets is bounded, and
// beyond it walks go on node by node.
#pragma once

#include <memory>
#include <vector>

#include "base.h"
#include "ids.h"
#include "portable.h"
#include "vocabulary/classes.h"

namespace stackmask {

class TokenTrie;

// Nodes of the trie that a walk visits together, and the sets where it continues.
struct NodeSet {
  std::vector<NodeId> nodes;  // rising; only those with children
  std::vector<NodeId> leaves;  // those without children
  std::vector<TokenId> tokens;  // that end at any of these nodes
  bool large = false;  // some node has a large subtree
  std::vector<u32> mask;  // of the tokens, if they are many
  bool reads(u8 lo, u8 hi) const {  // some byte of the range leads to a child
    for (u32 w = lo >> 6; w <= hi >> 6; w++) {
      const u64 from = w == lo >> 6 ? ~0ull << (lo & 63) : ~0ull, to = w == hi >> 6 ? ~0ull >> (63 - (hi & 63)) : ~0ull;
      if (bytes[w] & from & to) return true;
    }
    return false;
  }

 private:
  friend class NodeSets;
  u32 number;
  u64 bytes[4] = {};
  mutable FlatMap steps;  // by the bytes read, lo << 8 | hi: the number of the set that they lead to
  struct Run {
    AsciiSet bytes;
    u32 left;
    const NodeSet* to;
  };
  mutable std::vector<Run> runs;
};

// All sets of one vocabulary, which its grammars share. Any number of threads may ask.
class NodeSets {
 public:
  NodeSets(const TokenTrie& trie, std::size_t most_bytes) : trie_(trie), most_bytes_(most_bytes) {}
  NodeSets(const NodeSets&) = delete;

  // Each takes mutex_, and gives null if the memory for sets is spent: the set of these nodes, rising; of the children that bytes of a range
  // lead to from a set; and of all nodes that one to `left` bytes of `bytes` lead to.
  const NodeSet* of(const NodeId* nodes, std::size_t count) const;
  const NodeSet* below(const NodeSet* set, u8 lo, u8 hi) const;
  const NodeSet* run(const NodeSet* set, const AsciiSet& bytes, u32 left) const;
  std::size_t bytes() const;  // takes mutex_

 private:
  const TokenTrie& trie_;
  const std::size_t most_bytes_;
  mutable Mutex mutex_;
  mutable std::size_t bytes_ = 0;  // of all sets together
  mutable Interner keys_;  // the nodes of each set
  mutable std::vector<std::unique_ptr<NodeSet>> sets_;  // by number
  const NodeSet* make(const NodeId* nodes, std::size_t count) const;  // L >= mutex_
};

// Sorts nodes of a trie that has `node_count` of them; one that is there twice is left once.
void sort_nodes(std::vector<NodeId>& nodes, u32 node_count);

// The nodes that one to `left` bytes of `bytes` lead to from any of `nodes`, rising: what NodeSets::run() makes a set of.
std::vector<NodeId> run_nodes(const TokenTrie& trie, const std::vector<NodeId>& nodes, const AsciiSet& bytes, u32 left);

}  // namespace stackmask
