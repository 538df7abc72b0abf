// The vocabulary as a byte trie, laid out flat and depth first.
//
//   nodes:   root  a  a.b  a.b.c  a.d  b  ...         a node's subtree is the run [node, node + skip(node))
//
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "base.h"
#include "portable.h"
#include "thresholds.h"
#include "vocabulary/classes.h"

namespace stackmask {

struct TrieNode {
  u32 skip_byte;  // subtree size << 8 | byte on the edge to this node
  i32 token;      // first token that ends here, -1 for none; more follow in same()
  u32 parent;
  u16 depth;
  u16 wide;       // 0, or one more than the index of its table of children
  u32 skip() const { return skip_byte >> 8; }
  u8 byte() const { return static_cast<u8>(skip_byte); }
};

// Nodes of the trie that a walk visits together, and the sets where it continues. All grammars share them, because many take the same
// steps at the same nodes, such as those after a quote or the digits. These steps are looked up instead of walked.
struct NodeSet {
  std::vector<u32> nodes;   // rising; only those with children
  std::vector<u32> leaves;  // those without children
  std::vector<i32> tokens;  // that end at any of these nodes
  bool heavy = false;       // some node has a large subtree
  std::vector<u32> mask;    // of the tokens, if they are many
  bool reads(u8 lo, u8 hi) const {  // some byte of the range leads to a child
    for (u32 w = lo >> 6; w <= hi >> 6; w++) {
      const u64 from = w == lo >> 6 ? ~0ull << (lo & 63) : ~0ull, to = w == hi >> 6 ? ~0ull >> (63 - (hi & 63)) : ~0ull;
      if (bytes[w] & from & to) return true;
    }
    return false;
  }

 private:
  friend class TokenTrie;
  u32 number;
  u64 bytes[4] = {};
  mutable Map64 steps;           // by the bytes read, lo << 8 | hi: the number of the set that they lead to
  struct Run {
    AsciiSet bytes;
    u32 left;
    const NodeSet* to;
  };
  mutable std::vector<Run> runs;
};

class TokenTrie {
 public:
  // tokens[id] are its bytes, or null data for an id without text; ids in [tokens.size(), size) are padding.
  // Sets of nodes take no more than set_bytes, the answers to class loops no more than class_bytes.
  TokenTrie(const std::vector<std::pair<const char*, std::size_t>>& tokens, u32 size, std::size_t set_bytes, std::size_t class_bytes,
            const Thresholds& thresholds = {});

  u32 size() const { return size_; }
  u32 words() const { return (size_ + 31) / 32; }
  u32 max_token_bytes() const { return max_token_bytes_; }
  const Thresholds& thresholds() const { return thresholds_; }
  const TrieNode* nodes() const { return nodes_.data(); }
  u32 node_count() const { return static_cast<u32>(nodes_.size()); }
  i32 same(i32 token) const { return duplicates_ ? same_[static_cast<std::size_t>(token)] : -1; }  // the next token with the same bytes
  u32 height(u32 node) const { return heights_[node]; }  // bytes of the longest path below
  u32 parent(u32 node) const { return nodes_[node].parent; }

  // Tokens that spell an exponent after zeros only: of a number that began before them, and of a number of their own that is not at their
  // beginning. One token stands for all with the same bytes.
  struct ZeroExponents {
    std::vector<i32> begun, own;
  };
  const ZeroExponents& zero_exponents() const { return zero_exponents_; }

  // Children of a node in byte order: by table for a wide node, from sibling to sibling for others.
  bool wide(u32 node) const { return nodes_[node].wide != 0; }
  u32 child(u32 node, u8 byte) const;

  // The bytes of a token below text_count(): ids without text have none.
  const std::string& text(u32 token) const { return texts_[token]; }
  u32 text_count() const { return static_cast<u32>(texts_.size()); }
  bool has_text(u32 token) const { return token < text_count() && !texts_[token].empty(); }

  // The tokens in the order of the trie, depth first; made on first use.
  struct Order {
    std::vector<u32> before;  // by node, and one for the end: the number of tokens that end at earlier nodes
    std::vector<u32> place;   // by token: its place
    u32 tokens = 0;
  };
  const Order& order() const;  // takes mutex_
  // Answers questions of class loops about the tokens below the root or a heavy node (one with a large subtree).
  const ClassIndex* classes(u32 node) const;  // takes mutex_
  // A large subtree (`heavy_nodes` nodes or more, at the end of a character) is masked by token classes, like the root.
  bool heavy(u32 node) const { return nodes_[node].skip() >= thresholds_.heavy_nodes && whole_[node]; }
  // The set of these nodes, and of the children that bytes of a range lead to from a set. Null if the memory for sets is spent.
  const NodeSet* set(const u32* nodes, std::size_t count) const;  // takes mutex_
  const NodeSet* below(const NodeSet* set, u8 lo, u8 hi) const;   // takes mutex_
  // The set of all nodes that one to `left` of the bytes lead to; and the same as a list, which takes no memory for sets.
  const NodeSet* run(const NodeSet* set, const AsciiSet& bytes, u32 left) const;  // takes mutex_
  std::vector<u32> run_nodes(const std::vector<u32>& nodes, const AsciiSet& bytes, u32 left) const;
  std::size_t bytes() const;  // takes mutex_

 private:
  u32 size_ = 0, max_token_bytes_ = 0;
  Thresholds thresholds_;
  std::vector<TrieNode> nodes_;
  std::vector<i32> same_;
  bool duplicates_ = false;
  std::vector<std::string> texts_;
  std::vector<u16> heights_;     // by node: bytes of the longest path below it
  std::vector<u32> wide_;        // the tables of children, NONE for none

  std::vector<u8> whole_;  // by node: a character ends there
  ZeroExponents zero_exponents_;
  mutable Mutex mutex_;  // of order_, classes_, the sets and their steps
  mutable std::unique_ptr<const Order> order_;
  mutable ClassMemos class_memos_;
  mutable std::unordered_map<u32, std::unique_ptr<ClassIndex>> classes_;
  std::size_t most_set_bytes_;
  mutable std::size_t set_bytes_ = 0;                  // of all sets together
  mutable Interner set_keys_;                          // keys: nodes with children, and those without
  mutable std::vector<std::unique_ptr<NodeSet>> sets_;
  const NodeSet* make_set(const u32* nodes, std::size_t count) const;  // L >= mutex_
};

}  // namespace stackmask
