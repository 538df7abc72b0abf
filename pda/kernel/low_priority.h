// Runs a callable in a thread whose priority drops after 20 ms. A priority that was lowered cannot be raised again, so the thread is new; on
// Linux every thread has a priority of its own, elsewhere the callable runs as any other.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#ifdef __linux__
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace stackmask {

constexpr std::chrono::milliseconds FULL_PRIORITY{20};

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
    if (!changed.wait_for(lock, FULL_PRIORITY, [&] { return over; }) && id) setpriority(PRIO_PROCESS, id, LOWEST);
  }
  thread.join();
#else
  call();
#endif
}

}  // namespace stackmask
