// Where an item stands in a list, by a table.
//
// The list is its user's, who only adds to its end; the table catches up with it when it is asked.
//
//   list   a b c             slots, one byte each     . . 2 . . 3 . 1 .      an index + 1, or 0; found by the key's hash
//
// Most lists end as short ones: the bytes cost 64 of memory, are cleared at once, and hold no keys. A longer list has a table of its keys.
// Tested by tests/pda/test_coarse_stacks.py and test_engine_exhaustive.py.
#pragma once

#include <array>

#include "base.h"

namespace stackmask {

class ListIndex {
 public:
  // The index of the item with this key, NONE where there is none. key_of(item) gives different items different keys, and none ~0.
  template <class List, class KeyOf>
  u32 find(const List& list, u64 key, KeyOf key_of) {
    if (list.size() > FEW) return find_in_table(list, key, key_of);
    for (; in_slots_ < list.size(); in_slots_++) {
      u32 free = slot_of(key_of(list[in_slots_]));
      while (slots_[free]) free = (free + 1) % SLOTS;
      slots_[free] = static_cast<u8>(in_slots_ + 1);
    }
    for (u32 slot = slot_of(key); slots_[slot]; slot = (slot + 1) % SLOTS)
      if (key_of(list[slots_[slot] - 1u]) == key) return slots_[slot] - 1u;
    return NONE;
  }

  void clear() {
    if (in_slots_) slots_.fill(0);
    if (in_table_) table_.clear();
    in_slots_ = in_table_ = 0;
  }

 private:
  static constexpr u32 SLOTS = 64, FEW = 40;
  std::array<u8, SLOTS> slots_{};
  FlatMap table_;
  u32 in_slots_ = 0, in_table_ = 0;  // how many items are

  static u32 slot_of(u64 key) { return static_cast<u32>((key ^ key >> 32) * 0x9E3779B97F4A7C15ull >> 58); }

  template <class List, class KeyOf>
  STACKMASK_NOINLINE u32 find_in_table(const List& list, u64 key, KeyOf key_of) {
    for (; in_table_ < list.size(); in_table_++) table_.insert(key_of(list[in_table_]), in_table_);
    const u32* found = table_.find(key);
    return found ? *found : NONE;
  }
};

}  // namespace stackmask
