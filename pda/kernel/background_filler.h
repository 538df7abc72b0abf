// A thread that fills rows of a bitmask while its owner does something else, such as a forward pass. It knows nothing of Python, so it never
// waits for the interpreter.
#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#ifdef __linux__
#include <pthread.h>
#include <sched.h>
#endif

#include "matcher.h"

namespace stackmask {

class BackgroundFiller {
 public:
  BackgroundFiller() = default;
  BackgroundFiller(const BackgroundFiller&) = delete;
  ~BackgroundFiller() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  // Until end() the matchers are not to be changed and the rows not to be read, and both lists stay where they are.
  void begin(const std::vector<Matcher*>& matchers, const std::vector<u32*>& rows) {
    if (rows.empty()) return;
    {
      const std::lock_guard lock(mutex_);
      matchers_ = &matchers, rows_ = &rows;
      busy_ = true;
    }
    if (thread_.joinable()) changed_.notify_all();
    else thread_ = std::thread([this] { run(); });
  }

  // The error of the first row that has one, after which the others are as they were.
  std::exception_ptr end() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !busy_; });
    return std::exchange(error_, nullptr);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;
  bool busy_ = false, over_ = false;
  const std::vector<Matcher*>* matchers_ = nullptr;
  const std::vector<u32*>* rows_ = nullptr;
  std::exception_ptr error_;

  // Where the system takes other cores for busy, as it does in a virtual machine whose idle cores are halted, a thread that is woken is put on
  // the core of whoever woke it, and before it: then it would take from the step what it is there to save. So it interrupts nobody.
  // PERF: begin() took 75 us of a step, and takes 5 (AMD EPYC, two virtual cores).
  static void yield_to_waker() {
#ifdef __linux__
    const sched_param none{};
    pthread_setschedparam(pthread_self(), SCHED_BATCH, &none);
#endif
  }

  void run() {
    yield_to_waker();
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return busy_ || over_; });
      if (!busy_) return;
      lock.unlock();
      try {
        for (std::size_t i = 0; i < rows_->size(); i++) (*matchers_)[i]->fill((*rows_)[i]);
      } catch (...) {
        error_ = std::current_exception();
      }
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }
};

}  // namespace stackmask
