// The trie nodes at which a place was reached: a set that grows by sorted lists, and finds the nodes of a list that are new.
//
// A sorted list costs its whole length each time it grows, which is cheap for the few lists of ordinary grammars. If many lists come one by
// one, for example from deeply nested rules, a bit for each node of the trie is cheaper: it costs only the length of each new list.
//
// Tested by tests/pda/test_coarse_stacks.py and tests/fuzz.
#pragma once

#include <algorithm>
#include <iterator>
#include <span>

#include "ids.h"
#include "work.h"

namespace stackmask {

class ReachedNodes {
 public:
  void add_first(std::span<const NodeId> nodes) { sorted_.assign(nodes.begin(), nodes.end()); }
  void clear() { sorted_.clear(), bits_ = {}, merged_ = 0; }

  // Adds a sorted list, and sets `fresh` to its nodes that were not in the set. `trie_nodes` is the number of nodes of the trie.
  void add(std::span<const NodeId> added, u32 trie_nodes, Work& work, std::vector<NodeId>& fresh) {
    fresh.clear();
    if (bits_.empty() && (merged_ += sorted_.size() + added.size()) > trie_nodes / 8) {
      work.spend(2 + trie_nodes / 256 + sorted_.size() / 4);
      bits_.resize(trie_nodes / 64 + 1);
      for (const NodeId node : sorted_) bits_[node >> 6] |= 1ull << (node & 63);
      sorted_ = {};
    }
    if (!bits_.empty()) {
      work.spend(2 + added.size() / 4);
      for (const NodeId node : added) {
        u64& word = bits_[node >> 6];
        const u64 bit = 1ull << (node & 63);
        if (!(word & bit)) word |= bit, fresh.push_back(node);
      }
      return;
    }
    work.spend(2 + (sorted_.size() + added.size()) / 4);
    std::set_difference(added.begin(), added.end(), sorted_.begin(), sorted_.end(), std::back_inserter(fresh));
    std::size_t before = sorted_.size(), added_before = fresh.size();
    sorted_.resize(before + added_before);
    while (added_before) {  // merged from the end on, where there is room
      const bool greater = before && sorted_[before - 1] > fresh[added_before - 1];
      sorted_[before + added_before - 1] = greater ? sorted_[before - 1] : fresh[added_before - 1];
      (greater ? before : added_before)--;
    }
  }

 private:
  std::vector<NodeId> sorted_;  // while bits_ is empty
  std::vector<u64> bits_;  // by node
  std::size_t merged_ = 0;
};

}  // namespace stackmask
