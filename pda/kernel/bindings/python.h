// Python's lock, signals and errors for the kernel, and the arguments that all bindings check.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <string>
#include <vector>

#include "vocabulary/trie.h"

namespace stackmask {

namespace nb = nanobind;

// Makes Python the kernel's host (host.h), and translates its exceptions to those of pda/exceptions.py. The module calls it once.
void begin_host();
bool holds_gil();
void* give_up_gil();  // null if this thread does not hold it
void take_gil(void* state);
// The thread works without the GIL as long as this lives. Unlike nanobind's own, the end of the process in that time is not a crash.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  WithoutGil(const WithoutGil&) = delete;
  ~WithoutGil() { take_gil(state_); }

 private:
  void* state_;
};
// Throws an exception if the main thread was interrupted.
void check_signals();

TokenId checked_token(const TokenTrie& trie, i64 token);
std::vector<TokenId> checked_tokens(const TokenTrie& trie, nb::handle ids);
inline nb::bytes to_bytes(const std::string& text) { return nb::bytes(text.data(), text.size()); }

}  // namespace stackmask
