// Stack symbols that are no states of a rule: guards, which wait for a value that must be new, and regions, which know where a text began.
//
// A rule with a scope reads values that must differ. While it reads one, its stack holds a guard: the state after the value, and the
// value's text so far. When the value ends, the guard is popped: the state after the value has seen one more value, or is DEAD.
//
//   [1, 2, 1            guard(back = items with seen {1, 2}, text = "1")   popped: DEAD, for 1 was seen
//   [1, 2, 12           guard(back = items with seen {1, 2}, text = "12")  popped: items with seen {1, 2, 12}
//
// Both are part of the stack, so configurations stay pure values: rollback and fork need no undo.
//
// Tested by tests/pda/test_engine_distinct.py and tests/pda/test_rollback.py.
#include <algorithm>

#include "rules/rule_dfa.h"

namespace stackmask {

StateId RuleDfa::guard(StateId back, u32 text) {
  const u32 words[3] = {NONE, back, text};
  check_limit();
  nfa_.work.spend(4);
  const StateId id(items_.intern(words, 3));
  if (id == states_.size()) {
    DfaState state;
    state.flags = STATE_GUARD | STATE_BUILT;
    states_.push_back(state);
  }
  return id;
}

StateId RuleDfa::region(RuleId rule, u32 tokens, u32 bytes, u32 bundle) {
  const u32 words[6] = {NONE, NONE, rule, tokens, bytes, bundle};
  check_limit();
  const StateId id(items_.intern(words, 6));
  if (id == states_.size()) {
    DfaState state;
    state.flags = STATE_REGION | STATE_FINAL | STATE_BUILT;
    states_.push_back(state);
  }
  return id;
}

template <class F>
void RuleDfa::each_seen(StateId state, F take) const {
  u32 last = NONE;
  for (const Item item : items(state)) {
    const u32 seen = nfa_.registers.get(item.reg).seen;
    if (seen == NONE || seen == last) continue;
    last = seen;
    take(seen);
  }
}

u32 RuleDfa::seen_spellings(StateId state) {
  u64 total = 0;
  bool known = true;
  each_seen(state, [&](u32 set) {
    const u32 spelled = seen_.spellings(set);
    known = known && spelled != NONE;
    total += spelled;
  });
  return known ? static_cast<u32>(std::min<u64>(total, NONE)) : NONE;
}

StateId RuleDfa::after_value(StateId back, const std::string& text) {
  nfa_.work.spend(20 + text.size() + items(back).size());
  const u32 value = seen_.value_id(text);
  const u64 key = static_cast<u64>(back) << 32 | value;
  if (const u32* known = values_after_.find(key)) return StateId(*known);
  PooledVector<Item> left;
  for (Item item : items(back)) {
    Register reg = nfa_.registers.get(item.reg);
    if (reg.seen != NONE) {
      reg.seen = seen_.with(reg.seen, value);
      if (reg.seen == NONE) continue;
      item.reg = nfa_.registers.id(reg);
    }
    left.push_back(item);
  }
  std::sort(left.begin(), left.end());
  const StateId result = intern_items(left);
  values_after_.insert(key, result);
  return result;
}

// PERF: the same as after_value() == DEAD, but it makes no set for the text: after 10,000 integers a thousand tokens that end one took
// 90 ms for each mask.
bool RuleDfa::was_seen(StateId back, const std::string& text) const {
  const u32 value = seen_.find(text);
  if (value == NONE) return false;
  for (const Item item : items(back))
    if (const u32 seen = nfa_.registers.get(item.reg).seen; seen == NONE || !seen_.contains(seen, value)) return false;
  return true;
}

StateId RuleDfa::pop_guard(StateId guard) {
  if (const u32* found = popped_.find(guard)) return StateId(*found);
  const StateId result = after_value(guard_back(guard), texts_.text(guard_text(guard)));
  popped_.insert(guard, result);
  return result;
}

u32 RuleDfa::seen_count(StateId state) const {
  u32 most = 0;
  each_seen(state, [&](u32 set) { most = std::max(most, seen_.count(set)); });
  return most;
}

std::vector<u32> RuleDfa::seen_ids(StateId state) const {
  std::vector<u32> ids;
  each_seen(state, [&](u32 set) { seen_.each(set, [&](u32 value) { ids.push_back(value); }); });
  if (!std::is_sorted(ids.begin(), ids.end())) std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace stackmask
