// Interned lists of trie nodes, at which states continue. Lists of the vocabulary are found by their number.
// Tested by tests/pda/test_engine_masks.py.
#pragma once

#include <algorithm>
#include <bit>
#include <functional>
#include <span>

#include "vocabulary/trie.h"
#include "work.h"

namespace stackmask {

class NodeLists {
 public:
  static constexpr ListId ROOT{0};  // the list of the root alone
  explicit NodeLists(const TokenTrie& trie) : trie_(trie) { clear(); }

  ListId intern(std::span<const NodeId> nodes) {  // sorted
    return ListId(lists_.intern(reinterpret_cast<const u32*>(nodes.data()), nodes.size()));
  }
  // Nodes in any order, which are sorted and lose those that are there twice.
  ListId intern_unsorted(std::vector<NodeId>& nodes, Work& work) {
    if (!std::is_sorted(nodes.begin(), nodes.end(), std::less_equal<>())) sort(nodes, work);
    return intern(nodes);
  }
  ListId id(const NodeList* list) {
    if (const u32* found = shared_.find(list->number)) return ListId(*found);
    if (!list->set && list->nodes.size() >= trie_.thresholds().many_nodes)
      list->set = trie_.sets().of(list->nodes.data(), list->nodes.size());
    const ListId id = intern(list->nodes);
    shared_.insert(list->number, id);
    if (sets_.size() <= id) sets_.resize(id + 1);
    sets_[id] = list->set;
    return id;
  }
  std::span<const NodeId> operator[](ListId id) const {  // valid until the next is interned
    return {reinterpret_cast<const NodeId*>(lists_.at(id)), lists_.length(id)};
  }
  // The vocabulary's set of these nodes, null if it has none.
  const NodeSet* set(ListId id) const {
    if (id < sets_.size() && sets_[id]) return sets_[id];
    const std::span<const NodeId> nodes = (*this)[id];
    return trie_.sets().of(nodes.data(), nodes.size());
  }
  void clear() {
    lists_.clear(), shared_.clear(), sets_.clear();
    lists_.reserve(64, 1024);
    intern({&TokenTrie::ROOT, 1});
  }
  std::size_t bytes() const { return lists_.bytes() + shared_.bytes() + sets_.capacity() * sizeof(const NodeSet*); }

 private:
  const TokenTrie& trie_;
  Interner lists_;
  FlatMap shared_;                      // by number: the vocabulary's lists
  std::vector<const NodeSet*> sets_;  // by list: their sets
  static constexpr std::size_t FEW_NODES = 24;  // are compared

  // Many nodes by a bit for each node of the trie, and a bit above for each 64 of these, so that the others are passed over.
  // PERF: comparisons, which no processor predicts, were a tenth of the first masks of numbers.
  void sort(std::vector<NodeId>& nodes, Work& work) {
    work.spend(2 + nodes.size() / 4);
    if (nodes.size() < FEW_NODES) {
      std::sort(nodes.begin(), nodes.end());
      nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
      return;
    }
    // Of the thread, not of the grammar. PERF: to clear them once for each grammar took 2 % of first visits.
    static thread_local std::vector<u64> marks, marked;  // zero between calls
    const std::size_t words = trie_.node_count() / 64 + 1;
    if (marks.size() < words) marked.resize(words / 64 + 1), marks.resize(words);  // the last tells that both are done
    for (const NodeId node : nodes) {
      marks[node >> 6] |= 1ull << (node & 63);
      marked[node >> 12] |= 1ull << (node >> 6 & 63);
    }
    nodes.clear();
    for (u32 above = 0; above < marked.size(); above++)
      for (u64 left = std::exchange(marked[above], 0); left; left &= left - 1) {
        const u32 w = above * 64 + static_cast<u32>(std::countr_zero(left));
        for (u64 rest = std::exchange(marks[w], 0); rest; rest &= rest - 1)
          nodes.push_back(NodeId(w * 64 + static_cast<u32>(std::countr_zero(rest))));
      }
  }
};

}  // namespace stackmask
