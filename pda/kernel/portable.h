// Differences between systems, in one place: a hint to the cache, and a lock where there is only one thread.
#pragma once

#include <chrono>
#include <mutex>
#include <thread>
#if defined(_MSC_VER) && !defined(__clang__)
#include <xmmintrin.h>
#endif

namespace stackmask {

// Fetches the line of the cache at this address, which need not be one that can be read.
inline void prefetch(const void* address) {
#if defined(_MSC_VER) && !defined(__clang__)
  _mm_prefetch(static_cast<const char*>(address), _MM_HINT_T0);
#else
  __builtin_prefetch(address);
#endif
}

#if defined(__wasm__) && !defined(_REENTRANT)
// WebAssembly without threads: the standard library has no mutex, and there is no thread to wait for.
struct Mutex {
  void lock() {}
  bool try_lock() { return true; }
  void unlock() {}
};
inline void nap() {}
#else
using Mutex = std::mutex;
inline void nap() { std::this_thread::sleep_for(std::chrono::microseconds(100)); }  // while another thread takes a mutex
#endif

}  // namespace stackmask
