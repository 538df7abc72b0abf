// Where an item stands in a list, by a table.
//
// The list is its user's, who only adds to its end; the table catches up with it when it is asked.
#pragma once

#include "base.h"

namespace stackmask {

class ListIndex {
 public:
  // The index of the item with this key, NONE where there is none. key_of(item) gives different items different keys, and none ~0.
  template <class List, class KeyOf>
  u32 find(const List& list, u64 key, KeyOf key_of) {
    if (list.size() <= FEW) {
      for (u32 i = 0; i < list.size(); i++)
        if (key_of(list[i]) == key) return i;
      return NONE;
    }
    for (; keyed_ < list.size(); keyed_++) table_.insert(key_of(list[keyed_]), keyed_);
    const u32* found = table_.find(key);
    return found ? *found : NONE;
  }

  void clear() {
    if (keyed_) table_.clear();
    keyed_ = 0;
  }

 private:
  static constexpr std::size_t FEW = 8;  // PERF: most lists end as short ones, for which no table is made
  FlatMap table_;  // of list[0, keyed_)
  u32 keyed_ = 0;
};

}  // namespace stackmask
