// The host: the program that the kernel runs in. It may hold a lock for the thread, as Python holds the GIL, and may want to stop a call.
// Without Python nothing is held and nothing stops.
#pragma once

#include "portable.h"

namespace stackmask {

// The program wants the call to stop; it knows why. No std::exception, so that it is not taken for an error of the kernel.
struct Interrupted {};

struct Host {
  void (*lock)(Mutex&) = [](Mutex& mutex) { mutex.lock(); };  // waits for a mutex that another thread holds
  void (*check)() = [] {};                                              // throws Interrupted
  void* (*pause)() = []() -> void* { return nullptr; };  // gives up the lock that the program holds for this thread; null for none
  void (*resume)(void* paused) = [](void*) {};
  unsigned forks = 0;  // by which this process came about: threads that were at work before the last one are not here
};

inline Host host;  // set once, by the bindings

}  // namespace stackmask
