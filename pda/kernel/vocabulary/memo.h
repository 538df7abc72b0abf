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
#include <unordered_map>
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

struct HashKey {
  using is_transparent = void;
  std::size_t operator()(std::span<const u32> words) const { return static_cast<std::size_t>(hash_words(words.data(), words.size())); }
  std::size_t operator()(const KeptKey& key) const { return (*this)(key.words()); }
};
struct EqualKeys {
  using is_transparent = void;
  bool operator()(std::span<const u32> a, const KeptKey& b) const { return std::ranges::equal(a, b.words()); }
  bool operator()(const KeptKey& a, std::span<const u32> b) const { return std::ranges::equal(a.words(), b); }
  bool operator()(const KeptKey& a, const KeptKey& b) const { return std::ranges::equal(a.words(), b.words()); }
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
    {
      const std::lock_guard lock(mutex_);
      if (const Value* found = find(memo, key)) return *found;
    }
    auto [made, bytes] = make();
    bytes += key.size_bytes() + OVERHEAD;
    std::tuple<Table<Values>...> forgotten;  // freed without the lock
    const std::lock_guard lock(mutex_);
    if (const Value* found = find(memo, key)) return *found;  // another thread was faster
    memo.young.emplace(KeptKey(key), Kept<Value>{made, bytes});
    young_bytes_ += bytes;
    if (young_bytes_ > most_bytes_ / 2) {
      (turn(std::get<Memo<Values>>(memos_), std::get<Table<Values>>(forgotten)), ...);
      old_bytes_ = std::exchange(young_bytes_, 0);
    }
    return made;
  }

  std::size_t bytes() const {  // takes mutex_
    const std::lock_guard lock(mutex_);
    return young_bytes_ + old_bytes_;
  }

 private:
  static constexpr std::size_t OVERHEAD = 160;  // of an entry: its node and bucket in the table, its key, a shared pointer's control block
  template <class Value>
  struct Kept {
    Value value;
    std::size_t bytes;
  };
  template <class Value>
  using Table = std::unordered_map<KeptKey, Kept<Value>, HashKey, EqualKeys>;
  template <class Value>
  struct Memo {
    Table<Value> young, old;
  };
  mutable Mutex mutex_;  // of memos_, young_bytes_ and old_bytes_
  std::tuple<Memo<Values>...> memos_;
  std::size_t most_bytes_, young_bytes_ = 0, old_bytes_ = 0;

  template <class Value>
  const Value* find(Memo<Value>& memo, std::span<const u32> key) {  // L >= mutex_
    if (const auto found = memo.young.find(key); found != memo.young.end()) return &found->second.value;
    const auto found = memo.old.find(key);
    if (found == memo.old.end()) return nullptr;
    young_bytes_ += found->second.bytes, old_bytes_ -= found->second.bytes;
    return &memo.young.insert(memo.old.extract(found)).position->second.value;
  }
  template <class Value>
  void turn(Memo<Value>& memo, Table<Value>& forgotten) {  // L >= mutex_
    forgotten.swap(memo.old);
    memo.old.swap(memo.young);
    for (auto& [key, kept] : forgotten)
      if constexpr (requires { kept.value->forgotten = true; }) kept.value->forgotten = true;
  }
};

}  // namespace stackmask
