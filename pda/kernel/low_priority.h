// Runs a callable in a thread whose priority drops after 20 ms of CPU time. A priority that was lowered cannot be raised again, so the
// thread is new; on Linux every thread has its own priority, elsewhere the callable runs as any other.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#ifdef __linux__
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#endif

namespace stackmask {

constexpr std::chrono::milliseconds FULL_PRIORITY{20};
constexpr std::chrono::nanoseconds SHORTEST_WAIT{2'000'000};  // between two looks at how long it has worked

// The callable must not throw; it has ended when this returns.
template <class Call>
void run_low_priority(Call call) {
#ifdef __linux__
  constexpr int LOWEST = 19;
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  id_t id = 0;
  std::thread thread;
  const auto run = [&] {
    {
      const std::lock_guard lock(mutex);
      id = static_cast<id_t>(syscall(SYS_gettid));
    }
    call();
    const std::lock_guard lock(mutex);
    over = true;
    changed.notify_all();
  };
  try {
    thread = std::thread(run);
  } catch (const std::system_error&) {  // there can be no more threads
    return call();
  }
  {
    std::unique_lock lock(mutex);
    std::chrono::nanoseconds left = FULL_PRIORITY;
    clockid_t clock;
    const bool counted = pthread_getcpuclockid(thread.native_handle(), &clock) == 0;
    while (!changed.wait_for(lock, std::max(left, SHORTEST_WAIT), [&] { return over; })) {
      // On a busy machine it may have waited for a core until now.
      timespec worked{};
      left = {};
      if (counted && clock_gettime(clock, &worked) == 0)
        left = FULL_PRIORITY - std::chrono::seconds{worked.tv_sec} - std::chrono::nanoseconds{worked.tv_nsec};
      if (left.count() <= 0) {
        if (id) setpriority(PRIO_PROCESS, id, LOWEST);
        break;
      }
    }
  }
  thread.join();
#else
  call();
#endif
}

}  // namespace stackmask
