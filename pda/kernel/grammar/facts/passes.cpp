#include "grammar/facts/passes.h"

namespace stackmask {

bool StateSearch::leads(u32 node, u8 flag) {
  const std::size_t states = static_cast<std::size_t>(ex_.arg(node, 0)), n = ex_.count(node);
  auto passes = [&](std::size_t i) { return ex_.arg(node, i + 2) < 0 || (facts_.flags[operand(node, i + 2)] & flag); };
  begin_.assign(states + 1, 0);
  for (std::size_t i = 1; i < n; i += 3) begin_[operand(node, i) + 1] += passes(i);
  for (std::size_t s = 1; s <= states; s++) begin_[s] += begin_[s - 1];
  next_.resize(begin_[states]);
  for (std::size_t i = n; i > 1; i -= 3)
    if (passes(i - 3)) next_[--begin_[operand(node, i - 3) + 1]] = operand(node, i - 2);
  // Now begin_[s + 1] is where the edges of s begin.
  reached_.assign(states, 0);
  reached_[0] = 1;
  work_.assign(1, 0);
  while (!work_.empty()) {
    const u32 s = work_.back();
    work_.pop_back();
    const u32 end = s + 2 <= states ? begin_[s + 2] : static_cast<u32>(next_.size());
    for (u32 i = begin_[s + 1]; i < end; i++)
      if (!reached_[next_[i]]) reached_[next_[i]] = 1, work_.push_back(next_[i]);
  }
  return reached_[1];
}

void StateSearch::enter_automaton(u32 node) {
  const u32 states = static_cast<u32>(ex_.arg(node, 1));
  begin_.resize(states);
  std::size_t at = 4;
  for (u32 s = 0; s < states; s++) {
    begin_[s] = static_cast<u32>(at);
    at += 2 + 3 * static_cast<std::size_t>(ex_.arg(node, at + 1));
  }
  reached_.assign(states, 0);
  reached_[0] = 1;
  work_.assign(1, 0);
}

}  // namespace stackmask
