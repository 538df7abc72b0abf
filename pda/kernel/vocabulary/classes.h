// The facts about tokens that class loops need: for all tokens at the root, and for those below each node with a large subtree.
//
// Each token and each node has a 64-bit signature of the byte classes on the way to it. A loop over a character class X
// takes every token whose signature lies in X, and is left by bytes outside X. The occurrences of each such byte are listed,
// with the signature of the path before them.
//
// All lists are in groups of one signature and one number of characters, since loops do not tell the members of a group apart. The 128,000
// tokens of a large vocabulary are in 6,000 groups, and its 270,000 paths in 10,000, so a question looks at these and at what it finds.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <memory>
#include <span>
#include <vector>

#include "base.h"
#include "ids.h"
#include "vocabulary/memo.h"
#include "vocabulary/token_bits.h"

namespace stackmask {

// Signature bits. ASCII bytes are divided into classes; loops use the part of a character class that is a union of them.
constexpr u64 SIG_WORDS = 31;               // the classes of digits and letters
constexpr u64 SIG_SPACE = 1ull << 60;       // one of NON_ASCII_SPACES
constexpr u64 SIG_NON_ASCII = 1ull << 61;   // another complete, well-formed character above U+007F
constexpr u64 SIG_INCOMPLETE = 1ull << 62;  // ends inside a character that may still become well-formed
constexpr u64 SIG_MALFORMED = 1ull << 63;   // cannot be part of UTF-8 that starts at a character boundary
// The characters that \s, \S and the dot of patterns distinguish. They share a separate bit, and are exits 256, 257, ... of a loop.
constexpr u32 NON_ASCII_SPACES[] = {0x85,   0xA0,   0x1680, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006,
                                    0x2007, 0x2008, 0x2009, 0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0xFEFF};
constexpr u32 EXITS = 256 + sizeof(NON_ASCII_SPACES) / sizeof(u32);
std::string exit_text(u32 exit);                // the bytes of an exit: one, or those of a space

// A set of bytes below 0x80.
struct AsciiSet {
  u64 words[2] = {0, 0};
  bool operator==(const AsciiSet&) const = default;
  bool has(u32 byte) const { return byte < 128 && (words[byte >> 6] >> (byte & 63) & 1); }
  void add(u32 lo, u32 hi) {
    for (u32 w = lo >> 6; w <= hi >> 6; w++) {
      const u32 from = w == lo >> 6 ? lo & 63 : 0, to = w == hi >> 6 ? hi & 63 : 63;
      words[w] |= ~0ull >> (63 - (to - from)) << from;
    }
  }
  void add(const AsciiSet& other) { words[0] |= other.words[0], words[1] |= other.words[1]; }
  u32 size() const { return static_cast<u32>(std::popcount(words[0]) + std::popcount(words[1])); }
  bool meets(const AsciiSet& other) const { return (words[0] & other.words[0]) | (words[1] & other.words[1]); }
  bool holds(const AsciiSet& other) const { return !((other.words[0] & ~words[0]) | (other.words[1] & ~words[1])); }
};

// Classes: digits; a-f, g-z, A-F, G-Z; tab, newline, carriage return; other control characters; DEL; space and each
// punctuation mark by itself. DEL and the control characters must not share a class: JSON strings take one and not the other.
struct AsciiClasses {
  u8 of[128] = {};        // by byte
  AsciiSet bytes[64];     // by class
  u32 count = 9;
  constexpr AsciiClasses() {
    for (u32 b = 0; b < 128; b++) {
      if (b == '\t') of[b] = 5;
      else if (b == '\n') of[b] = 6;
      else if (b == '\r') of[b] = 7;
      else if (b < 32) of[b] = 8;
      else if (b >= '0' && b <= '9') of[b] = 0;
      else if (b >= 'a' && b <= 'f') of[b] = 1;
      else if (b >= 'g' && b <= 'z') of[b] = 2;
      else if (b >= 'A' && b <= 'F') of[b] = 3;
      else if (b >= 'G' && b <= 'Z') of[b] = 4;
      else of[b] = static_cast<u8>(count++);
      bytes[of[b]].words[b >> 6] |= 1ull << (b & 63);
    }
  }
};
inline constexpr AsciiClasses CLASSES;

inline u64 signature_of_ascii(u8 byte) { return 1ull << CLASSES.of[byte]; }  // the class bit of a byte below 0x80
inline u64 signature_of_exit(u32 exit) {  // the class of the exit; lead bytes stand for the characters above U+007F
  return exit < 128 ? signature_of_ascii(static_cast<u8>(exit)) : exit < 256 ? SIG_NON_ASCII : SIG_SPACE;
}
u64 signature_inside(const AsciiSet& set);      // all class bits whose bytes are all in the set
AsciiSet ascii_inside(u64 inside);              // all bytes of the classes

// Ids, each of one path, in groups of paths that are alike for every loop. Groups of few characters come first.
template <class AnyId>
class PathGroups {
 public:
  struct Group {
    u64 signature;
    u32 chars;
    u32 end;  // its ids are those from the end of the group before
    bool lies_in(u64 inside) const { return (signature & ~inside) == 0; }
  };
  void open(u64 signature, u32 chars) {  // a group, unless it is the last one
    if (groups_.empty() || groups_.back().signature != signature || groups_.back().chars != chars)
      groups_.push_back({signature, chars, static_cast<u32>(ids_.size())});
  }
  void add(AnyId id) {  // to the last group
    ids_.push_back(id);
    groups_.back().end++;
  }
  template <class Visit>
  void each(u32 low, u32 high, Visit visit) const {  // visit(group, its ids) for those of `low` to `high` characters
    const auto last = above(high);
    for (auto at = low ? above(low - 1) : groups_.begin(); at < last; at++)
      visit(*at, std::span(ids_).subspan(size_before(at), at->end - size_before(at)));
  }
  // The ids of the groups of `low` to `high` characters whose signatures lie in `inside`.
  std::vector<AnyId> inside(u64 inside, u32 low, u32 high) const {
    std::vector<AnyId> found;
    each(low, high, [&](const Group& group, std::span<const AnyId> ids) {
      if (group.lies_in(inside)) found.insert(found.end(), ids.begin(), ids.end());
    });
    return found;
  }
  // The numbers of characters of the groups whose signatures lie in `inside`, rising.
  std::vector<u32> lengths(u64 inside) const {
    std::vector<u32> found;
    for (const Group& group : groups_)
      if (group.lies_in(inside) && (found.empty() || found.back() != group.chars)) found.push_back(group.chars);
    found.shrink_to_fit();
    return found;
  }
  std::size_t size() const { return ids_.size(); }
  std::size_t size_up_to(u32 chars) const { return size_before(above(chars)); }  // the ids of the groups of so many characters
  void shrink() { groups_.shrink_to_fit(), ids_.shrink_to_fit(); }
  std::size_t bytes() const { return groups_.capacity() * sizeof(Group) + ids_.capacity() * sizeof(AnyId); }

 private:
  std::vector<Group> groups_;
  std::vector<AnyId> ids_;

  using Place = typename std::vector<Group>::const_iterator;
  Place above(u32 chars) const {  // the first group with more characters
    return std::upper_bound(groups_.begin(), groups_.end(), chars, [](u32 count, const Group& group) { return count < group.chars; });
  }
  std::size_t size_before(Place group) const { return group == groups_.begin() ? 0 : group[-1].end; }
};

struct NodeSet;

// A set of trie nodes, sorted, that have children.
struct NodeList {
  u64 number;                  // unique among all lists
  std::vector<NodeId> nodes;
  std::vector<NodeId> leaves;  // nodes left out because they have no children
  std::vector<TokenId> tokens;     // that end at all of them
  u32 height = 0;              // the largest number of bytes below one of them
  mutable std::atomic<const NodeSet*> set = nullptr;  // the set of the nodes, made on first use
};

// The paths to some nodes of the trie, in its order, each without the bytes that it shares with the previous one.
struct Paths {
  struct Way {
    NodeId node;
    u32 begin;    // its new bytes: bytes[begin, next way's begin)
    u16 common;   // the number of shared bytes
  };
  std::vector<Way> ways;  // and one more for the end
  std::vector<u8> bytes;
};

// Tokens as a bitmask.
struct LoopMask {
  std::vector<u32> words;
  mutable std::atomic<bool> forgotten = false;  // by the vocabulary, so its holder counts its bytes
};

// Numbers of characters, rising.
using Lengths = std::shared_ptr<const std::vector<u32>>;

// Answers questions of class loops, for the root and all nodes with a large subtree.
using ClassMemos = Memos<std::shared_ptr<const LoopMask>, std::shared_ptr<const NodeList>, std::shared_ptr<const std::vector<TokenId>>,
                         Lengths, std::shared_ptr<const Paths>>;

class TokenTrie;

// The caller keeps an answer while it uses it, because the memos may forget it. Any number of threads may ask.
class ClassIndex {
 public:
  ClassIndex(const TokenTrie& trie, NodeId node, ClassMemos& memos);
  NodeId node() const { return node_; }
  u32 depth() const;  // of the node
  u64 signature(NodeId node) const { return node_signatures_[node - node_]; }

  // Tokens whose signature lies in `inside` and that have at most `chars` characters.
  std::shared_ptr<const LoopMask> loop_mask(u64 inside, u32 chars) const;
  // Tokens whose signature lies in `inside`, of `low` to `high` characters, in the order of their texts.
  std::shared_ptr<const std::vector<TokenId>> loop_tokens(u64 inside, u32 low, u32 high) const;
  // loop_mask, and the tokens that end at nodes of `exits`, lists of loop_exits.
  std::shared_ptr<const LoopMask> loop_mask_with_exits(u64 inside, u32 chars, std::span<const std::shared_ptr<const NodeList>> exits) const;
  // The nodes that `exit` leads to after a path of `low` to `high` characters inside the loop. The list is made once if callers pass only
  // bounds that are among exit_places, and 0 or NONE for the first or the last of them.
  std::shared_ptr<const NodeList> loop_exits(u64 inside, u32 exit, u32 low, u32 high) const;
  // The same after at most `most` characters, which need not be one of exit_places.
  std::shared_ptr<const NodeList> loop_exits_up_to(u64 inside, u32 exit, u32 most) const;
  // The numbers of characters before occurrences of `exit` on paths inside the loop.
  Lengths exit_places(u64 inside, u32 exit) const;
  // The paths to all nodes that an exit leads to after a path inside the loop.
  std::shared_ptr<const Paths> exit_paths(u64 inside) const;
  // The nodes with children at the ends of paths of `low` to `high` characters inside the loop; `low` is 1 or more.
  std::shared_ptr<const NodeList> loop_nodes(u64 inside, u32 low, u32 high) const;
  // The largest number of characters before an occurrence of `exit` on a path inside the loop, 0 if there is none.
  u32 longest_exit(u64 inside, u32 exit) const;
  // The largest number of characters of a token inside the loop; and of a path inside it, which a longer token may leave.
  u32 longest_loop(u64 inside) const;
  u32 longest_path(u64 inside) const;
  std::size_t bytes() const;  // without the memos

 private:
  const TokenTrie& trie_;
  NodeId node_;
  PathGroups<TokenId> tokens_;        // a token that ends inside a character counts it
  PathGroups<NodeId> inner_;          // the nodes with children; groups of nodes without any have no ids
  PathGroups<NodeId> occurrences_[EXITS];  // of each exit: the nodes that it leads to, by the paths before it
  std::vector<u64> node_signatures_;  // by node, from node_ on

  ClassMemos& memos_;

  Lengths token_lengths(u64 inside) const;
  Lengths path_lengths(u64 inside) const;
};

}  // namespace stackmask
