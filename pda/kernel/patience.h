// A call that nobody waits for in a hurry: in a thread of its own, which takes turns from nobody else once it has taken a while. Nobody
// can raise a priority that was lowered, but on Linux every thread has its own; elsewhere the call is made as any other.
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

constexpr std::chrono::milliseconds PATIENCE{20};

// The call must not throw.
template <class Call>
void call_patiently(Call call) {
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
  } catch (const std::system_error&) {  // there are as many as there may be
    return call();
  }
  {
    std::unique_lock lock(mutex);
    if (!changed.wait_for(lock, PATIENCE, [&] { return over; }) && id) setpriority(PRIO_PROCESS, id, LOWEST);
  }
  thread.join();
#else
  call();
#endif
}

}  // namespace stackmask
