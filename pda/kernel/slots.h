// The slots of a table with open addressing, a power of two of them.
//
// A large table grows bit by bit, so that no step waits for all of it: once it is half full, each new item also copies a few slots, in their
// order, to a table of twice the size, which takes the place of the first when all are copied, at three quarters. It is read from the first
// alone until then. Copying in order touches the memory of the second in order too, at two places: a table of 8 MB that was copied at once
// took 20 to 40 ms where the host of a virtual machine had to find the memory.
//
// Tested by tests/pda/kernel/test_growing_tables.py.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#include "blocks.h"
#include "portable.h"

namespace stackmask {

// A slot of zeros is free; others have a hash and a key.
template <class Slot>
class Slots {
  static_assert(std::is_trivially_copyable_v<Slot>);

 public:
  Slots() = default;
  explicit Slots(std::size_t count) : now_(count), most_(most_in(count)) {}
  Slots(Slots&& other) noexcept { swap(other); }
  Slots& operator=(Slots&& other) noexcept {
    Slots(std::move(other)).swap(*this);
    return *this;
  }
  bool empty() const { return now_.count == 0; }
  std::size_t size() const { return now_.count; }
  std::size_t taken() const { return taken_; }
  std::size_t bytes() const { return (now_.count + 2 * copied_) * sizeof(Slot); }  // no other memory was touched
  const Slot& operator[](std::size_t i) const { return now_.slots[i]; }
  std::size_t first(std::uint64_t hash) const { return hash & (now_.count - 1); }  // where to look first
  std::size_t after(std::size_t i) const { return (i + 1) & (now_.count - 1); }
  // Before an item is added, and before its place is looked for.
  void make_room() {
    if (taken_ >= most_) grow();
  }
  void expect(std::size_t more) {
    std::size_t count = std::max<std::size_t>(size(), FEWEST);
    while (taken_ + more >= count * 3 / 4) count *= 2;
    if (count > size()) move_to(count);
  }
  // Puts an item at its place: the slot with its key, or the first free one.
  void put(std::size_t i, const Slot& slot) {
    taken_ += now_.slots[i].is_free();
    now_.slots[i] = slot;
    if (i < copied_) next_.put(slot);
  }

 private:
  struct Block {
    Slot* slots = nullptr;
    std::size_t count = 0;
    Block() = default;
    explicit Block(std::size_t size) : slots(static_cast<Slot*>(zeroed_block(size * sizeof(Slot)))), count(size) {
      if (!slots) throw std::bad_alloc();
    }
    Block(Block&& other) noexcept : slots(std::exchange(other.slots, nullptr)), count(std::exchange(other.count, 0)) {}
    Block& operator=(Block&& other) noexcept {
      std::swap(slots, other.slots), std::swap(count, other.count);
      return *this;
    }
    ~Block() {
      if (slots) free_zeroed_block(slots, count * sizeof(Slot));
    }
    void put(const Slot& slot) {
      std::size_t i = slot.hash() & (count - 1);
      while (!slots[i].is_free() && !slots[i].has_key_of(slot)) i = (i + 1) & (count - 1);
      slots[i] = slot;
    }
  };
  static constexpr std::size_t FEWEST = 16, LARGE_BYTES = 1 << 19;
  static constexpr std::size_t COPIED = 4;  // slots for each item: all of them while a quarter of the table is filled
  Block now_, next_;
  std::size_t taken_ = 0, most_ = 0;  // with so many items there is something to do before the next
  std::size_t copied_ = 0;  // of the slots of now_, in next_

  static constexpr bool is_large(std::size_t count) { return count * sizeof(Slot) >= LARGE_BYTES; }
  static constexpr std::size_t most_in(std::size_t count) { return is_large(count) ? count / 2 : count * 3 / 4; }
  STACKMASK_NOINLINE void grow() {
    if (!is_large(size())) return move_to(std::max(size() * 2, FEWEST));
    if (!next_.slots) next_ = Block(size() * 2);
    most_ = 0;
    for (const std::size_t end = copied_ + COPIED; copied_ < end; copied_++)
      if (!now_.slots[copied_].is_free()) next_.put(now_.slots[copied_]);
    if (copied_ < size()) return;
    now_ = std::move(next_), next_ = Block();
    copied_ = 0, most_ = most_in(size());
  }
  void move_to(std::size_t count) {
    Block grown(count);
    for (std::size_t i = 0; i < size(); i++)
      if (!now_.slots[i].is_free()) grown.put(now_.slots[i]);
    now_ = std::move(grown), next_ = Block();
    copied_ = 0, most_ = most_in(count);
  }
  void swap(Slots& other) noexcept {
    std::swap(now_, other.now_), std::swap(next_, other.next_);
    std::swap(taken_, other.taken_), std::swap(most_, other.most_), std::swap(copied_, other.copied_);
  }
};

}  // namespace stackmask
