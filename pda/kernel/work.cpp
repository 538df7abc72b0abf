#include "work.h"

namespace stackmask {

void Work::look() {
  if (spent_ > most_) throw WorkExceeded();
  next_look_ = std::min(most_, spent_ + LOOK);
  if (bytes_ && bytes_(tables_) > most_bytes_) throw MemoryExceeded();
  const struct Looking {
    const void*& thread;
    explicit Looking(const void*& asked) : thread(asked) { thread = this_thread(); }
    ~Looking() { thread = nullptr; }
  } looking(looking_);
  host.check();
  if (!paused_) paused_ = host.pause();
}

}  // namespace stackmask
