// An object of many vectors that lives as long as a function's call, and takes over the memory of an earlier one of its thread.
//
// Tested by tests/pda/test_work.py and tests/pda/kernel/test_c_interface.py.
#pragma once

#include "work.h"

namespace stackmask {

// T::clear() empties it; T::free() then gives its memory back, where there was so much work that it may be large.
// PERF: each entry of a list was counted as work; to ask each list for its size reads as much code as to compose a small mask.
template <class T>
class Pooled {
 public:
  explicit Pooled(const Work& work) : object_(spare_.count ? spare_.kept[--spare_.count] : new T), work_(work), spent_(work.spent()) {}
  ~Pooled() {
    if (spare_.count == KEPT || spare_.ended) {
      delete object_;
      return;
    }
    if (!spare_.cleaned) static thread_local const Cleaner cleaner;
    object_->clear();
    if (work_.spent() - spent_ > MOST_KEPT) object_->free();
    spare_.kept[spare_.count++] = object_;
  }
  Pooled(const Pooled&) = delete;
  Pooled& operator=(const Pooled&) = delete;
  T& operator*() const { return *object_; }

 private:
  static constexpr std::size_t KEPT = 4;
  static constexpr u64 MOST_KEPT = 50'000;  // work
  struct Spare {  // as in PooledVector
    T* kept[KEPT];
    std::size_t count;
    bool cleaned, ended;
  };
  struct Cleaner {
    Cleaner() { spare_.cleaned = true; }
    ~Cleaner() {
      while (spare_.count) delete spare_.kept[--spare_.count];
      spare_.ended = true;
    }
  };
  static inline constinit thread_local Spare spare_{};
  T* object_;
  const Work& work_;
  u64 spent_;  // before
};

}  // namespace stackmask
