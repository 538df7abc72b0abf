// Memos that share one bound on their memory: values that are used often stay; the others are forgotten and made again.
//
// Values are in two generations. A value that is added or found is young. When the young values of all memos exceed half of the bound,
// they become old, and the values that were old are forgotten. So a value stays until half of the bound was spent on others since its
// last use, a lookup is at most two lookups in hash tables, and no order of uses is kept. This is the second chance of the clock algorithm
// (Corbato 1968), given to a whole generation at once.
//
// A value is a number or a shared pointer, so its user can keep it when it is forgotten.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "base.h"
#include "portable.h"

namespace stackmask {

// A key that is kept: words, in place where they are few. PERF: a lookup that compares keys elsewhere waits for memory once more.
class KeptKey {
 public:
  explicit KeptKey(std::span<const u32> words) : count_(words.size()) {
    if (count_ <= FEW) std::copy(words.begin(), words.end(), few_);
    else many_.assign(words.begin(), words.end());
  }
  std::span<const u32> words() const { return count_ <= FEW ? std::span(few_, count_) : std::span<const u32>(many_); }

 private:
  static constexpr std::size_t FEW = 6;
  std::size_t count_;
  u32 few_[FEW];
  std::vector<u32> many_;
};

// Values by their keys, in open addressing. PERF: a lookup waits for memory twice, for the slot and for the entry; in std::unordered_map it
// waits for a bucket and for the nodes before, and divides.
template <class Value>
class MemoTable {
 public:
  struct Entry {
    KeptKey key;
    Value value;
    std::size_t bytes;
  };
  // Null if there is none.
  Entry* find(std::span<const u32> key, u64 hash) {
    Slot* const slot = slot_of(key, hash);
    return slot ? slot->entry.get() : nullptr;
  }
  // Makes room for one more, so that `add` takes no memory.
  void make_room() {
    if ((used_ + 1) * 4 <= slots_.size() * 3) return;
    std::vector<Slot> grown(std::max<std::size_t>(64, slots_.size() * 2));
    grown.swap(slots_);
    used_ = 0;
    for (Slot& slot : grown)
      if (slot.entry) add(std::move(slot.entry), slot.hash);
  }
  Entry& add(std::unique_ptr<Entry> entry, u64 hash) {
    std::size_t i = place(hash);
    while (slots_[i].hash != FREE) i = (i + 1) & (slots_.size() - 1);
    used_++;
    slots_[i] = {hash | 1, std::move(entry)};
    return *slots_[i].entry;
  }
  // Takes an entry out; null if there is none.
  std::unique_ptr<Entry> take(std::span<const u32> key, u64 hash) {
    Slot* const slot = slot_of(key, hash);
    return slot ? std::move(slot->entry) : nullptr;
  }
  template <class Visit>
  void each(Visit visit) {
    for (Slot& slot : slots_)
      if (slot.entry) visit(slot.entry->value);
  }
  void swap(MemoTable& other) noexcept { slots_.swap(other.slots_), std::swap(used_, other.used_); }

 private:
  static constexpr u64 FREE = 0;
  struct Slot {
    u64 hash = FREE;               // else with its last bit set
    std::unique_ptr<Entry> entry;  // null where it was taken out
  };
  std::vector<Slot> slots_;  // as many as a power of two
  std::size_t used_ = 0;

  std::size_t place(u64 hash) const { return static_cast<std::size_t>(hash >> 32) & (slots_.size() - 1); }
  Slot* slot_of(std::span<const u32> key, u64 hash) {
    if (slots_.empty()) return nullptr;
    for (std::size_t i = place(hash); slots_[i].hash != FREE; i = (i + 1) & (slots_.size() - 1)) {
      Slot& slot = slots_[i];
      if (slot.hash == (hash | 1) && slot.entry && std::ranges::equal(slot.entry->key.words(), key)) return &slot;
    }
    return nullptr;
  }
};

// One memo for each type of values. Keys are sequences of words.
template <class... Values>
class Memos {
 public:
  explicit Memos(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  // The value of a key: the known one, or that of make(), which returns the value and its bytes. Takes mutex_, but not around make().
  template <class Value, class Make>
  Value get(std::span<const u32> key, Make make) {
    Memo<Value>& memo = std::get<Memo<Value>>(memos_);
    const u64 hash = hash_words(key.data(), key.size());
    {
      const std::lock_guard lock(mutex_);
      if (const Value* found = find(memo, key, hash)) return *found;
    }
    auto [made, bytes] = make();
    bytes += key.size_bytes() + OVERHEAD;
    std::tuple<MemoTable<Values>...> forgotten;  // freed without the lock
    std::unique_ptr<typename MemoTable<Value>::Entry> entry(new typename MemoTable<Value>::Entry{KeptKey(key), made, bytes});
    const std::lock_guard lock(mutex_);
    if (const Value* found = find(memo, key, hash)) return *found;  // another thread was faster
    memo.young.make_room();
    memo.young.add(std::move(entry), hash);
    young_bytes_ += bytes;
    if (young_bytes_ > most_bytes_ / 2) {
      (turn(std::get<Memo<Values>>(memos_), std::get<MemoTable<Values>>(forgotten)), ...);
      old_bytes_ = std::exchange(young_bytes_, 0);
    }
    return made;
  }

  std::size_t bytes() const {  // takes mutex_
    const std::lock_guard lock(mutex_);
    return young_bytes_ + old_bytes_;
  }

 private:
  static constexpr std::size_t OVERHEAD = 160;  // of an entry: itself with its key, its slot in the table, a shared pointer's control block
  template <class Value>
  struct Memo {
    MemoTable<Value> young, old;
  };
  mutable Mutex mutex_;  // of memos_, young_bytes_ and old_bytes_
  std::tuple<Memo<Values>...> memos_;
  std::size_t most_bytes_, young_bytes_ = 0, old_bytes_ = 0;

  template <class Value>
  const Value* find(Memo<Value>& memo, std::span<const u32> key, u64 hash) {  // L >= mutex_
    if (const auto* found = memo.young.find(key, hash)) return &found->value;
    memo.young.make_room();
    std::unique_ptr<typename MemoTable<Value>::Entry> old = memo.old.take(key, hash);
    if (!old) return nullptr;
    auto& found = memo.young.add(std::move(old), hash);
    young_bytes_ += found.bytes, old_bytes_ -= found.bytes;
    return &found.value;
  }
  template <class Value>
  void turn(Memo<Value>& memo, MemoTable<Value>& forgotten) {  // L >= mutex_
    forgotten.swap(memo.old);
    memo.old.swap(memo.young);
    forgotten.each([](Value& value) {
      if constexpr (requires { value->forgotten = true; }) value->forgotten = true;
    });
  }
};

}  // namespace stackmask
