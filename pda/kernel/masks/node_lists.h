// Interned lists of trie nodes, at which states continue. Lists of the vocabulary are found by their number.
// Tested by tests/pda/test_engine_masks.py.
#pragma once

#include <span>

#include "vocabulary/trie.h"

namespace stackmask {

class NodeLists {
 public:
  static constexpr u32 ROOT = 0;  // the list of the root alone
  explicit NodeLists(const TokenTrie& trie) : trie_(trie) { clear(); }

  u32 intern(std::span<const u32> nodes) { return lists_.intern(nodes.data(), nodes.size()); }  // sorted
  u32 id(const NodeList* list) {
    if (const u32* found = shared_.find(list->number)) return *found;
    if (!list->set && list->nodes.size() >= trie_.thresholds().many_nodes) list->set = trie_.set(list->nodes.data(), list->nodes.size());
    const u32 id = intern(list->nodes);
    shared_.insert(list->number, id);
    if (sets_.size() <= id) sets_.resize(id + 1);
    sets_[id] = list->set;
    return id;
  }
  std::span<const u32> operator[](u32 id) const { return {lists_.at(id), lists_.length(id)}; }  // valid until the next is interned
  // The vocabulary's set of these nodes, null if it has none.
  const NodeSet* set(u32 id) const {
    if (id < sets_.size() && sets_[id]) return sets_[id];
    return trie_.set(lists_.at(id), lists_.length(id));
  }
  void clear() {
    lists_.clear(), shared_.clear(), sets_.clear();
    lists_.reserve(64, 1024);
    const u32 root = 0;
    intern({&root, 1});
  }
  std::size_t bytes() const { return lists_.bytes() + shared_.bytes() + sets_.capacity() * sizeof(const NodeSet*); }

 private:
  const TokenTrie& trie_;
  Interner lists_;
  Map64 shared_;                      // by number: the vocabulary's lists
  std::vector<const NodeSet*> sets_;  // by list: their sets
};

}  // namespace stackmask
