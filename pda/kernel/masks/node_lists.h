// Interned lists of trie nodes, at which states continue. Lists of the vocabulary are found by their number.
// Tested by tests/pda/test_engine_masks.py.
#pragma once

#include <algorithm>
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
    if (!std::is_sorted(nodes.begin(), nodes.end(), std::less_equal<>())) {
      work.spend(2 + nodes.size() / 4);
      sort_nodes(nodes, trie_.node_count());
    }
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
};

}  // namespace stackmask
