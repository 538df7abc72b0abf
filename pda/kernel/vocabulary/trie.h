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
  u16 wide;       // 0, or one more than the place of its table of children
  u32 skip() const { return skip_byte >> 8; }
  u8 byte() const { return static_cast<u8>(skip_byte); }
};

// Nodes of the trie that a walk visits together, and where it continues from there. Shared by all grammars: many of them take the same
// steps at the same nodes, such as those behind a quote or the digits, and these steps are looked up rather than walked.
struct NodeSet {
  std::vector<u32> nodes;   // rising; those without children are left out
  std::vector<u32> leaves;  // ... and listed here
  std::vector<i32> tokens;  // that end at all of them
  bool heavy = false;       // one of them is
  std::vector<u32> mask;    // of the tokens, where they are many
  bool reads(u8 lo, u8 hi) const {  // a byte of the range leads on
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
  mutable Map64 steps;           // by the bytes that are read, lo << 8 | hi: the number of the set they lead to
  struct Run {
    AsciiSet bytes;
    u32 left;
    const NodeSet* to;
  };
  mutable std::vector<Run> runs;
};

class TokenTrie {
 public:
  // tokens[id] = bytes, or null data for an id without text; ids in [tokens.size(), size) are padding.
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

  // Tokens that spell an exponent behind zeros alone: of a number that the text before them has begun, and of one of their own that does
  // not begin them. One token for all with the same bytes.
  struct ZeroExponents {
    std::vector<i32> begun, own;
  };
  const ZeroExponents& zero_exponents() const { return zero_exponents_; }

  // Children of a node in byte order: of a wide node by table, of others by hopping from sibling to sibling.
  bool wide(u32 node) const { return nodes_[node].wide != 0; }
  u32 child(u32 node, u8 byte) const;

  // The bytes of a token below text_count(): ids without text have none.
  const std::string& text(u32 token) const { return texts_[token]; }
  u32 text_count() const { return static_cast<u32>(texts_.size()); }
  bool has_text(u32 token) const { return token < text_count() && !texts_[token].empty(); }

  // The tokens in the order of the trie, depth first; made on first use.
  struct Order {
    std::vector<u32> before;  // by node, and one for the end: how many tokens end at the nodes before it
    std::vector<u32> place;   // by token: its place
    u32 tokens = 0;
  };
  const Order& order() const;
  // Answers questions of class loops about the tokens below the root or a heavy node.
  const ClassIndex* classes(u32 node) const;
  // Below a heavy node stand so many tokens that these are taken by classes, as those of the whole vocabulary are.
  bool heavy(u32 node) const { return nodes_[node].skip() >= thresholds_.heavy_nodes && whole_[node]; }
  // The set of these nodes, and that of the children that bytes of a range lead to from a set. Null where the memory for sets is spent.
  const NodeSet* set(const u32* nodes, std::size_t count) const;
  const NodeSet* below(const NodeSet* set, u8 lo, u8 hi) const;
  // The set of all nodes that one to `left` of the bytes lead to, and the same as a list, which takes no memory for sets.
  const NodeSet* run(const NodeSet* set, const AsciiSet& bytes, u32 left) const;
  std::vector<u32> run_nodes(const std::vector<u32>& nodes, const AsciiSet& bytes, u32 left) const;
  std::size_t bytes() const;

 private:
  u32 size_ = 0, max_token_bytes_ = 0;
  Thresholds thresholds_;
  std::vector<TrieNode> nodes_;
  std::vector<i32> same_;
  bool duplicates_ = false;
  std::vector<std::string> texts_;
  std::vector<u16> heights_;     // by node: bytes of the longest path below it
  std::vector<u32> wide_;        // the tables of children, NONE where there is none

  std::vector<u8> whole_;  // by node: a character ends there
  ZeroExponents zero_exponents_;
  mutable Mutex mutex_;
  mutable std::unique_ptr<const Order> order_;
  mutable ClassMemos class_memos_;
  mutable std::unordered_map<u32, std::unique_ptr<ClassIndex>> classes_;
  std::size_t most_set_bytes_;
  mutable std::size_t set_bytes_ = 0;                  // of all sets together
  mutable Interner set_keys_;                          // nodes, with and without children
  mutable std::vector<std::unique_ptr<NodeSet>> sets_;
  const NodeSet* make_set(const u32* nodes, std::size_t count) const;  // under the lock
};

}  // namespace stackmask
