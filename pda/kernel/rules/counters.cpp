#include "rules/counters.h"

#include <algorithm>

namespace stackmask {

template <class F>
StateId Counters::recounted(StateId state, F change) {
  if (!dfa_[state].counts) return state;
  PooledVector<Item> items;
  dfa_.work().spend(2 + dfa_.items(state).size());
  bool changed = false;
  for (Item item : dfa_.items(state)) {
    const Counting& counting = nfa_.counting(item.state);
    if (counting.body != NONE) {
      Register reg = nfa_.registers.get(item.reg);
      const Register before = reg;
      const bool stays = change(item, counting, nfa_.heads[counting.body], reg);
      changed = changed || !stays || reg != before;
      if (!stays) continue;
      if (reg != before) item.reg = nfa_.registers.id(reg);
    }
    items.push_back(item);
  }
  if (!changed) return state;
  std::sort(items.begin(), items.end());
  items.erase(std::unique(items.begin(), items.end()), items.end());
  return dfa_.intern_items(items);
}

StateId Counters::remembered(StateId state) {
  if (saturated_.size() <= state) saturated_.resize(dfa_.size(), NONE);
  if (saturated_[state] == NONE) {
    const StateId result = saturated(state, longest_token_);
    saturated_[state] = result;
  }
  return saturated_[state];
}

StateId Counters::saturated(StateId state, u32 bytes) {
  if (dfa_[state].flags & STATE_GUARD) return state;
  return recounted(state, [bytes](const Item&, const Counting&, const Head& head, Register& reg) {
    if (head.permutation || reg.count >= COUNT_DEEP) return true;
    const u64 margin = bytes / head.least + 2 + head.furthest;  // a token completes at most this many bodies
    const u32 last = reg.last();
    const u32 leaving = std::max(reg.count, head.minimum);  // the first count at which the repetition may be left
    const bool far = head.maximum == NONE || (head.automaton ? reg.count : leaving) + margin < head.maximum;
    if (last + margin < head.minimum && (!head.automaton || (far && !head.bounded))) reg.set_count(COUNT_DEEP);
    else if (last >= leaving && far) reg.set_count(COUNT_FREE);
    else if (reg.further && reg.count + margin < head.minimum) {  // such low counts are equivalent
      reg.count = static_cast<u32>(head.minimum - margin - 1);
      reg.further = last - reg.count;
    }
    return true;
  });
}

std::pair<StateId, u32> Counters::with_free_counts(StateId state) {
  u32 needed = 0;
  const StateId result = recounted(state, [&needed](const Item&, const Counting&, const Head& head, Register& reg) {
    reg.set_count(COUNT_FREE);
    needed = std::max(needed, head.furthest);
    return true;
  });
  return {result, needed};
}

StateId Counters::advanced(StateId state, u32 more) {
  return recounted(state, [more](const Item&, const Counting& counting, const Head& head, Register& reg) {
    reg.count += more;
    if (reg.further && reg.count < head.maximum) reg.further = std::min(reg.further, head.maximum - 1 - reg.count);
    // If it is false, the body can read nothing more.
    return head.automaton ? static_cast<u64>(reg.count) + counting.least <= head.maximum : reg.count < head.maximum;
  });
}

bool Counters::differs_by_count(StateId state, StateId next, u64 inside, u32* more) const {
  const std::span<const Item> before_items = dfa_.items(state), after_items = dfa_.items(next);
  if (before_items.size() != after_items.size() || ((dfa_[state].flags | dfa_[next].flags) & STATE_GUARD)) return false;
  u32 head = NONE, done = 0;
  dfa_.work().spend(before_items.size());
  for (std::size_t i = 0; i < before_items.size(); i++) {
    const Item here = before_items[i], there = after_items[i];
    if (here.state != there.state) return false;
    const Counting& counting = nfa_.counting(here.state);
    if (counting.body == NONE) {
      if (here.reg != there.reg || dfa_.reads(nfa_.states[here.state], inside)) return false;
      continue;
    }
    const Head& counted = nfa_.heads[counting.body];
    const Register before = nfa_.registers.get(here.reg), after = nfa_.registers.get(there.reg);
    if (counted.permutation || counted.maximum == NONE || before.count >= COUNT_DEEP || before.count < counted.minimum || before.further ||
        after.further || after.count != before.count + 1 || before.used != after.used || before.seen != after.seen ||
        (head != NONE && (head != counting.body || done != before.count)))
      return false;
    const u32 left = counted.maximum - before.count;
    *more = std::min(head == NONE ? NONE : *more, left < counting.settled ? 0 : left - counting.settled);
    head = counting.body, done = before.count;
  }
  return head != NONE;
}

bool Counters::in_repetition(StateId state) const {
  for (const Item item : dfa_.items(state))
    if (const u32 body = nfa_.counting(item.state).body; body != NONE && !nfa_.heads[body].automaton && !nfa_.heads[body].permutation)
      return true;
  return false;
}

Counters::Released Counters::without_bounds(StateId state) {
  Released released;
  if (dfa_[state].flags & STATE_GUARD) return {state};
  u32 body = NONE;
  RegisterId reg_of = NONE;
  bool decided = true;
  released.state = recounted(state, [&](const Item& item, const Counting& counting, const Head& head, Register& reg) {
    if (!head.automaton) return true;
    if (body != NONE && (body != counting.body || reg_of != item.reg)) decided = false;
    body = counting.body, reg_of = item.reg;
    released.below_minimum = reg.count != COUNT_FREE && (reg.count == COUNT_DEEP || reg.count < head.minimum);
    if (released.below_minimum && head.bounded) decided = false;
    if (reg.count < COUNT_DEEP && head.maximum != NONE) released.left = head.maximum - reg.count;
    reg.count = COUNT_FREE;
    return true;
  });
  if (!decided) released.state = DEAD;
  return released;
}

std::pair<u32, u32> Counters::settled(StateId state) const {
  std::pair<u32, u32> range{NONE, 0};
  for (const Item item : dfa_.items(state)) {
    const Counting& counting = nfa_.counting(item.state);
    if (counting.body == NONE || !nfa_.heads[counting.body].automaton) continue;
    range.first = std::min(range.first, counting.settled), range.second = std::max(range.second, counting.settled);
  }
  return range;
}

}  // namespace stackmask
