// The work of one call of the kernel: counted, not timed, so that all processes that make the same calls stop at the same place.
//
// A unit is about 10 ns on a machine of 2024: an item of a closure, an edge of a stack, a node of the trie. Loops that can explode spend
// their units before they change anything that outlives them, so a call that has spent too much leaves all tables as they were, or more
// complete. Now and then, every few milliseconds, a call that takes long also looks at its memory and asks whether it is to stop.
//
// Tested by tests/pda/test_work.py.
#pragma once

#include <algorithm>

#include "ids.h"

namespace stackmask {

struct WorkExceeded {};
struct MemoryExceeded {};

class Work {
 public:
  static constexpr u64 UNLIMITED = ~0ull >> 1;

  void spend(u64 units) {
    if ((spent_ += units) > next_look_) look();
  }
  // Where the call works, for messages: at a state of an NFA or of a DFA, NONE for the other.
  void at_nfa_state(NfaStateId state) { nfa_state_ = state; }
  void at_dfa_state(StateId state) { dfa_state_ = state, nfa_state_ = NONE; }
  NfaStateId nfa_state() const { return nfa_state_; }
  StateId dfa_state() const { return dfa_state_; }

  // From begin() to end() is a call, by one thread. `tables` gives the bytes of all tables, which may take `most_bytes`.
  void begin(u64 most) {
    spent_ = 0, most_ = most, next_look_ = std::min(most, LOOK);
    nfa_state_ = NONE, dfa_state_ = NONE;
    paused_ = nullptr;
  }
  // The host's lock that the thread gave up, to be taken back without the mutex.
  void* end() {
    total_ += spent_, largest_ = std::max(largest_, spent_);
    spent_ = 0, next_look_ = UNLIMITED;
    return std::exchange(paused_, nullptr);
  }
  // While this lives nothing is spent: the work in hand has to be finished.
  struct Free {
    Work& work;
    u64 spent, next_look;
    explicit Free(Work& w) : work(w), spent(w.spent_), next_look(std::exchange(w.next_look_, UNLIMITED)) {}
    Free(const Free&) = delete;
    ~Free() { work.spent_ = spent, work.next_look_ = next_look; }
  };
  void go_on(const Work& before) {  // a call that other calls interrupted
    const u64 total = total_, largest = largest_;
    *this = before;
    total_ = total, largest_ = largest;
  }
  void watch(const void* tables, u64 (*bytes)(const void*), u64 most_bytes) { tables_ = tables, bytes_ = bytes, most_bytes_ = most_bytes; }
  u64 spent() const { return spent_; }
  u64 most() const { return most_; }
  u64 total() const { return total_ + spent_; }
  u64 largest() const { return largest_; }
  bool called_by_this_thread() const { return looking_ == this_thread(); }

 private:
  static constexpr u64 LOOK = 200'000;
  u64 spent_ = 0, next_look_ = UNLIMITED, most_ = UNLIMITED, total_ = 0, largest_ = 0, most_bytes_ = UNLIMITED;
  NfaStateId nfa_state_ = NONE;
  StateId dfa_state_ = NONE;
  void* paused_ = nullptr;
  const void* looking_ = nullptr;  // the thread that asks the program, which may run a handler of signals
  const void* tables_ = nullptr;
  u64 (*bytes_)(const void*) = nullptr;

  static const void* this_thread() {
    static thread_local char place;
    return &place;
  }
  void look();
};

}  // namespace stackmask
