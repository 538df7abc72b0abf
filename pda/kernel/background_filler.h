// A thread that fills rows of a bitmask while its owner does other work, such as a forward pass. It does not use Python, so it never waits
// for the interpreter.
#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
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
    forget_parent();
    if (!shared_ || !shared_->thread.joinable()) return;
    {
      const std::lock_guard lock(shared_->mutex);
      over_ = true;
    }
    shared_->changed.notify_all();
    shared_->thread.join();
  }

  // Until end() the matchers are not to be changed and the rows not to be read, and both lists stay where they are.
  void begin(const std::vector<Matcher*>& matchers, const std::vector<u32*>& rows) {
    if (rows.empty()) return;
    forget_parent();
    if (!shared_) shared_ = std::make_unique<Shared>();
    {
      const std::lock_guard lock(shared_->mutex);
      matchers_ = &matchers, rows_ = &rows;
      busy_ = true;
    }
    if (shared_->thread.joinable()) {
      shared_->changed.notify_all();
      return;
    }
    try {
      shared_->thread = std::thread([this] { run(); });
    } catch (const std::system_error&) {  // there can be no more threads
      busy_ = false;
      fill();
    }
  }

  // The error of the first row that has one; the rows after it are unchanged.
  std::exception_ptr end() {
    if (forget_parent())
      return std::make_exception_ptr(std::runtime_error("the process forked while the bitmasks were filled: begin again"));
    if (!shared_) return nullptr;
    std::unique_lock lock(shared_->mutex);
    shared_->changed.wait(lock, [this] { return !busy_; });
    return std::exchange(error_, nullptr);
  }

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::thread thread;
  };
  std::unique_ptr<Shared> shared_;
  unsigned forks_ = host.forks;
  bool busy_ = false, over_ = false;
  const std::vector<Matcher*>* matchers_ = nullptr;
  const std::vector<u32*>* rows_ = nullptr;
  std::exception_ptr error_;

  // Where the system takes other cores for busy, as in a virtual machine whose idle cores are halted, it puts a woken thread on the core of
  // the thread that woke it, and ahead of it: the step would lose the time that this thread is there to save. So it does not preempt.
  // PERF: begin() took 75 us of a step, and takes 5 (AMD EPYC, two virtual cores).
  static void yield_to_waker() {
#ifdef __linux__
    const sched_param none{};
    pthread_setschedparam(pthread_self(), SCHED_BATCH, &none);
#endif
  }

  // A fork has no thread but the one that forked: the others, and the objects they hold, are left to the parent. Whether this was filling.
  bool forget_parent() {
    if (forks_ == host.forks) return false;
    forks_ = host.forks;
    static_cast<void>(shared_.release());  // a mutex that may be locked, and a thread that cannot be joined
    error_ = nullptr;
    return std::exchange(busy_, false);
  }

  void fill() {
    try {
      for (std::size_t i = 0; i < rows_->size(); i++) (*matchers_)[i]->fill((*rows_)[i]);
    } catch (...) {
      error_ = std::current_exception();
    }
  }

  void run() {
    yield_to_waker();
    std::unique_lock lock(shared_->mutex);
    for (;;) {
      shared_->changed.wait(lock, [this] { return busy_ || over_; });
      if (!busy_) return;
      lock.unlock();
      fill();
      lock.lock();
      busy_ = false;
      shared_->changed.notify_all();
    }
  }
};

}  // namespace stackmask
