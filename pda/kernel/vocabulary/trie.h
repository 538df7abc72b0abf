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
#include "vocabulary/node_sets.h"

namespace stackmask {

struct TrieNode {
  u32 skip_byte;  // subtree size << 8 | byte on the edge to this node
  TokenId token;  // the first token that ends here, NONE for none; `tokens_at` has those with the same bytes too
  NodeId parent;
  u16 depth;
  u16 wide;       // 0, or one more than the index of its table of children
  u32 skip() const { return skip_byte >> 8; }
  u8 byte() const { return static_cast<u8>(skip_byte); }
};

// The children of a node, in byte order.
struct TrieChildren {
  struct Iterator {
    const TrieNode* nodes;
    u32 at;
    NodeId operator*() const { return NodeId(at); }
    void operator++() { at += nodes[at].skip(); }
    bool operator==(const Iterator& other) const { return at == other.at; }
  };
  const TrieNode* nodes;
  NodeId node;
  Iterator begin() const { return {nodes, node + 1}; }
  Iterator end() const { return {nodes, node + nodes[node].skip()}; }
};

class TokenTrie {
 public:
  static constexpr NodeId ROOT{0};

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
  // Tokens with the same bytes, which end at one node, from the first of them on.
  struct Tokens {
    struct Iterator {
      const TokenTrie* trie;
      TokenId token;
      TokenId operator*() const { return token; }
      void operator++() { token = trie->duplicates_ ? trie->next_duplicates_[token] : NONE; }
      bool operator==(None) const { return token == NONE; }
    };
    const TokenTrie* trie;
    TokenId first;
    Iterator begin() const { return {trie, first}; }
    None end() const { return NONE; }
  };
  Tokens tokens_at(NodeId node) const { return {this, nodes_[node].token}; }
  EachId<NodeId> each_node() const { return {node_count()}; }
  EachId<NodeId> each_below(NodeId node) const { return {after(node), node + 1}; }  // depth first
  NodeId after(NodeId node) const { return NodeId(node + nodes_[node].skip()); }    // the first behind its subtree
  u32 height(NodeId node) const { return heights_[node]; }  // bytes of the longest path below
  NodeId parent(NodeId node) const { return nodes_[node].parent; }

  // Tokens that spell an exponent after zeros only: of a number that began before them, and of a number of their own that is not at their
  // beginning. One token stands for all with the same bytes.
  struct ZeroExponents {
    std::vector<TokenId> begun, own;
  };
  const ZeroExponents& zero_exponents() const { return zero_exponents_; }

  // Children of a node in byte order: by table for a wide node, from sibling to sibling for others.
  TrieChildren children(NodeId node) const { return {nodes_.data(), node}; }
  bool wide(NodeId node) const { return nodes_[node].wide != 0; }
  NodeId child(NodeId node, u8 byte) const;

  // The bytes of a token below text_count(): ids without text have none.
  const std::string& text(TokenId token) const { return texts_[token]; }
  u32 text_count() const { return static_cast<u32>(texts_.size()); }
  bool has_text(TokenId token) const { return token < text_count() && !texts_[token].empty(); }

  // The tokens in the order of the trie, depth first.
  struct Order {
    std::vector<u32> before;  // by node, and one for the end: the number of tokens that end at earlier nodes
    std::vector<u32> place;   // by token: its place
    u32 tokens = 0;
  };
  const Order& order() const { return order_; }
  // Answers questions of class loops about the tokens below the root or a node with a large subtree.
  const ClassIndex* classes(NodeId node) const;  // takes mutex_
  // A large subtree (`large_subtree` nodes or more, at the end of a character) is masked by token classes, like the root.
  bool large(NodeId node) const { return nodes_[node].skip() >= thresholds_.large_subtree && ends_character_[node]; }
  const NodeSets& sets() const { return sets_; }
  std::size_t bytes() const;  // takes mutex_

 private:
  u32 size_ = 0, max_token_bytes_ = 0;
  Thresholds thresholds_;
  std::vector<TrieNode> nodes_;
  std::vector<TokenId> next_duplicates_;  // by token: the next one with the same bytes
  bool duplicates_ = false;
  std::vector<std::string> texts_;
  std::vector<u16> heights_;     // by node: bytes of the longest path below it
  std::vector<NodeId> child_tables_;     // the tables of children, NONE for none
  std::vector<u8> ends_character_;  // by node: a character ends there
  ZeroExponents zero_exponents_;
  Order order_;
  mutable Mutex mutex_;  // of classes_
  mutable ClassMemos class_memos_;
  mutable std::unordered_map<u32, std::unique_ptr<ClassIndex>> classes_;
  NodeSets sets_;
};

}  // namespace stackmask
