// Types, errors, hashing and interning that every part of the kernel shares.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "blocks.h"
#include "host.h"
#include "portable.h"
#include "slots.h"

namespace stackmask {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i32 = std::int32_t;
using i64 = std::int64_t;

enum None : u32 { NONE = 0xFFFFFFFFu };  // in place of a number: there is none

// A limit of pda/limits.py was exceeded; `limit` is its name there.
struct LimitExceeded : std::runtime_error {
  std::string limit;
  double value;
  LimitExceeded(std::string name, double bound, const std::string& message)
      : std::runtime_error(message), limit(std::move(name)), value(bound) {}
};

// No completion was found within a limit: nothing else is wrong.
struct CompletionLimit : LimitExceeded {
  using LimitExceeded::LimitExceeded;
};

// The grammar generates nothing.
struct Unsatisfiable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The kernel cannot run the grammar.
struct BadGrammar : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// More tokens were to be rolled back than were accepted.
struct BadRollback : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline u64 mix(u64 x) {
  x ^= x >> 32;
  x *= 0x9E3779B97F4A7C15ull;
  x ^= x >> 29;
  return x;
}

STACKMASK_NOINLINE inline u64 hash_words(const u32* words, std::size_t count) {
  constexpr u64 ODD = 0xD6E8FEB86659FD93ull, OTHER = 0xA0761D6478BD642Full;
  u64 hash = count * 0x9E3779B97F4A7C15ull;
  std::size_t i = 0;
  if (count >= 8) {  // PERF: two chains of two words each, since a long one waits for its own multiplications
    u64 second = ~hash;
    for (u64 pair[2]; i + 4 <= count; i += 4) {
      std::memcpy(pair, words + i, sizeof pair);
      hash = (hash ^ pair[0]) * ODD, hash ^= hash >> 32;
      second = (second ^ pair[1]) * OTHER, second ^= second >> 32;
    }
    hash ^= second * ODD;
  }
  for (; i < count; i++) hash = (hash ^ words[i]) * ODD, hash ^= hash >> 32;
  return mix(hash);
}

// A vector that grows where it lies if it can. A copy of 128 MB into fresh memory takes 0.4 s, and a step would wait for it; large blocks
// are moved by their addresses alone. Nothing lies in memory yet that was not written.
template <class T>
class GrowingArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  GrowingArray() = default;
  GrowingArray(std::size_t count, const T& value) {
    reserve(count);
    resize(count, value);
  }
  GrowingArray(const GrowingArray&) = delete;
  GrowingArray& operator=(const GrowingArray&) = delete;
  GrowingArray(GrowingArray&& other) noexcept { swap(other); }
  GrowingArray& operator=(GrowingArray&& other) noexcept {
    GrowingArray(std::move(other)).swap(*this);
    return *this;
  }
  ~GrowingArray() { free_block(data_, bytes()); }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T* begin() { return data_; }
  const T* begin() const { return data_; }
  T* end() { return data_ + size_; }
  const T* end() const { return data_ + size_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::size_t bytes() const { return capacity_ * sizeof(T); }
  void reserve(std::size_t count) {
    if (count > capacity_) reallocate(count);
  }
  void push_back(const T& value) {
    const T copy = value;  // it may be in here
    grow(1);
    std::construct_at(data_ + size_++, copy);
  }
  void append(const T* values, std::size_t count) {  // not of this array
    grow(count);
    if (count) std::memcpy(static_cast<void*>(data_ + size_), values, count * sizeof(T));
    size_ += count;
  }
  void resize(std::size_t count, const T& value = {}) {
    if (count > size_) grow(count - size_);
    for (; size_ < count; size_++) std::construct_at(data_ + size_, value);
    size_ = count;
  }
  void clear() { size_ = 0; }

 private:
  static constexpr std::size_t FIRST_BYTES = 1024;  // PERF: growing from 64 bytes took 3 % of the first steps
  T* data_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
  void grow(std::size_t count) {
    if (count > capacity_ - size_) grow_by(count);
  }
  STACKMASK_NOINLINE void grow_by(std::size_t count) { reallocate(std::max({size_ + count, capacity_ * 2, FIRST_BYTES / sizeof(T)})); }
  STACKMASK_NOINLINE void reallocate(std::size_t count) {
    void* const grown = grow_block(data_, bytes(), count * sizeof(T));
    if (!grown) throw std::bad_alloc();
    data_ = static_cast<T*>(grown), capacity_ = count;
  }
  void swap(GrowingArray& other) noexcept {
    std::swap(data_, other.data_), std::swap(size_, other.size_), std::swap(capacity_, other.capacity_);
  }
};

// A map from 64-bit keys to 32-bit values. The key ~0 is reserved.
class FlatMap {
 public:
  const u32* find(u64 key) const {
    if (slots_.empty()) return nullptr;
    const std::size_t i = place(key);
    return slots_[i].is_free() ? nullptr : &slots_[i].value;
  }
  void insert(u64 key, u32 value) {
    slots_.make_room();
    slots_.put(place(key), {~key, value});
  }
  void clear() { *this = FlatMap(); }
  void reserve(std::size_t slots) { slots_ = Slots<Slot>(slots); }  // a power of two
  std::size_t bytes() const { return slots_.bytes(); }

 private:
  struct Slot {
    u64 other_key = 0;  // ~key
    u32 value = 0;
    bool is_free() const { return other_key == 0; }
    u64 hash() const { return mix(~other_key); }
    bool has_key_of(const Slot& other) const { return other_key == other.other_key; }
  };
  Slots<Slot> slots_;
  std::size_t place(u64 key) const {  // of the key, or the first free one
    std::size_t i = slots_.first(mix(key));
    while (!slots_[i].is_free() && slots_[i].other_key != ~key) i = slots_.after(i);
    return i;
  }
};

// A vector that lives as long as a function's call. It takes over the memory of an earlier one, so vectors that are made and dropped many
// times a step ask the heap for nothing, and their memory stays in the caches.
template <class T>
class PooledVector : public std::vector<T> {
 public:
  STACKMASK_NOINLINE PooledVector() {
    if (spare_.count == 0) return;
    std::vector<T>* kept = spare_.at(--spare_.count);
    this->swap(*kept);
    std::destroy_at(kept);
  }
  PooledVector(std::initializer_list<T> list) : PooledVector() { this->assign(list); }
  STACKMASK_NOINLINE ~PooledVector() {
    if (this->capacity() == 0 || spare_.count == KEPT || spare_.ended || this->capacity() * sizeof(T) > MOST_BYTES) return;
    if (!spare_.cleaned) static thread_local const Cleaner cleaner;
    this->clear();
    std::construct_at(spare_.at(spare_.count++), std::move(*static_cast<std::vector<T>*>(this)));
  }
  PooledVector(const PooledVector&) = delete;
  PooledVector& operator=(const PooledVector&) = delete;

 private:
  static constexpr std::size_t KEPT = 16, MOST_BYTES = 1 << 15;
  // Without a constructor or destructor, so that no use has to check whether it is initialized; the cleaner ends with the thread.
  struct Spare {
    alignas(std::vector<T>) std::byte kept[KEPT][sizeof(std::vector<T>)];
    std::size_t count;
    bool cleaned, ended;
    std::vector<T>* at(std::size_t i) { return reinterpret_cast<std::vector<T>*>(kept[i]); }
  };
  struct Cleaner {
    Cleaner() { spare_.cleaned = true; }
    ~Cleaner() {
      while (spare_.count) std::destroy_at(spare_.at(--spare_.count));
      spare_.ended = true;  // vectors that end after this are not kept
    }
  };
  static inline constinit thread_local Spare spare_{};
};

// Gives equal sequences of words the same number.
class Interner {
 public:
  STACKMASK_NOINLINE u32 intern(const u32* words, std::size_t count) {
    slots_.make_room();
    const u32 hash = hash_of(words, count);
    const std::size_t slot = slot_of(words, count, hash);
    return slots_[slot].is_free() ? put(slot, hash, words, count) : slots_[slot].id();
  }
  u32 find(const u32* words, std::size_t count) const {  // NONE if it is not there
    if (slots_.empty()) return NONE;
    const Slot slot = slots_[slot_of(words, count, hash_of(words, count))];
    return slot.is_free() ? NONE : slot.id();
  }
  // Fetches the slot of a sequence that will soon be looked for or added: in a large table it waits for memory otherwise.
  void prefetch(const u32* words, std::size_t count) const {
    if (!slots_.empty()) stackmask::prefetch(&slots_[slots_.first(hash_of(words, count))]);
  }
  // A sequence that is not there yet.
  u32 add(const u32* words, std::size_t count) {
    slots_.make_room();
    const u32 hash = hash_of(words, count);
    std::size_t slot = slots_.first(hash);
    while (!slots_[slot].is_free()) slot = slots_.after(slot);
    return put(slot, hash, words, count);
  }
  const u32* at(u32 id) const { return words_.data() + bounds_[id]; }
  std::size_t length(u32 id) const { return bounds_[id + 1] - bounds_[id]; }
  std::size_t size() const { return slots_.taken(); }
  std::size_t bytes() const { return words_.size() * 4 + bounds_.bytes() + slots_.bytes(); }
  void clear() { *this = Interner(); }
  void reserve(std::size_t sequences, std::size_t words) {  // the former a power of two
    slots_ = Slots<Slot>(sequences * 2);
    bounds_.reserve(sequences + 1);
    words_.reserve(words);
  }
  void expect(std::size_t sequences, std::size_t words) {  // room for so many more
    slots_.expect(sequences);
    bounds_.reserve(size() + sequences + 1);
    words_.reserve(words_.size() + words);
  }

 private:
  struct Slot {
    u64 entry = 0;  // half of a hash, and a number + 1
    u32 id() const { return static_cast<u32>(entry) - 1; }
    bool is_free() const { return entry == 0; }
    u64 hash() const { return entry >> 32; }
    bool has_key_of(const Slot& other) const { return entry == other.entry; }
  };
  GrowingArray<u32> words_;
  GrowingArray<u32> bounds_;  // where each sequence begins in words_, and the last one ends
  Slots<Slot> slots_;
  static u32 hash_of(const u32* words, std::size_t count) { return static_cast<u32>(hash_words(words, count) >> 32); }
  std::size_t slot_of(const u32* words, std::size_t count, u32 hash) const {  // of an equal sequence, or a free one
    std::size_t i = slots_.first(hash);
    for (; !slots_[i].is_free(); i = slots_.after(i)) {
      if (slots_[i].hash() != hash) continue;
      const u32 id = slots_[i].id();
      if (length(id) == count && (count == 0 || std::memcmp(at(id), words, count * sizeof(u32)) == 0)) break;
    }
    return i;
  }
  STACKMASK_NOINLINE u32 put(std::size_t slot, u32 hash, const u32* words, std::size_t count) {
    const u32 id = static_cast<u32>(size());
    if (bounds_.empty()) bounds_.push_back(0);
    words_.append(words, count);
    bounds_.push_back(static_cast<u32>(words_.size()));
    slots_.put(slot, {static_cast<u64>(hash) << 32 | (id + 1)});
    return id;
  }
};

// Limits of a compilation; checked often.
struct Limits {
  u64 states = 2'000'000;
  u64 stack_depth = 4'000'000;
  u64 memory = 256ull << 20;
  u64 step_work = 2'000'000;
  double seconds = 30;
};

class Deadline {
 public:
  explicit Deadline(double seconds)
      : seconds_(seconds), end_(std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                                       std::chrono::duration<double>(seconds < 1e8 ? seconds : 1e8))) {}
  void check() {
    if ((++calls_ & 1023) != 0) return;
    const auto now = std::chrono::steady_clock::now();
    if (now > end_) throw LimitExceeded("compile_seconds", seconds_, "the compilation took longer than compile_seconds");
    if (now < next_look_) return;
    next_look_ = now + std::chrono::milliseconds(10);
    host.check();
  }

 private:
  double seconds_;
  std::chrono::steady_clock::time_point end_, next_look_ = std::chrono::steady_clock::now();
  u32 calls_ = 0;
};

}  // namespace stackmask
