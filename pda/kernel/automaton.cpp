#include "automaton.h"

#include <algorithm>

namespace stackmask {

namespace {

constexpr std::size_t MOST_NAMES = 64;  // of rules, in a message
constexpr u64 WORK_TO_COLLECT = 1'000'000;  // from one look at the memory to the next
constexpr u64 WORK_TO_LET_IN = 100'000;     // after which waiting threads have a turn
constexpr u64 BYTES_A_STEP = 8'192;          // of a text, which may cost as much as a step
// After which what no matcher holds is dropped. PERF: with four times as many states one step of 1,000 unique values took 36 ms, for the
// pages that are given back; a table of nodes that doubles behind a million of them takes 20 ms.
constexpr u64 COLLECTED_STATES = 1 << 16, COLLECTED_NODES = 1 << 19;
constexpr u64 LEAST_MEMORY = 4 << 20;       // that matchers may hold, whatever the limit

Nfa compile(std::shared_ptr<Expressions> expressions, const TokenTrie& trie, const Limits& limits) {
  Deadline deadline(limits.seconds);
  expressions->validate(trie.size());
  return lower(std::move(expressions), trie, limits, deadline);
}

}  // namespace

Automaton::Automaton(std::shared_ptr<const TokenTrie> trie, std::shared_ptr<Expressions> expressions, const Limits& limits)
    : trie_(std::move(trie)), limits_(limits), dfa_(compile(std::move(expressions), *trie_, limits), trie_->thresholds(), limits),
      counters_(dfa_, trie_->max_token_bytes()), counts_(dfa_, *trie_), stacks_(dfa_, counts_, limits), coarse_(dfa_, counters_, stacks_),
      spellings_(*trie_, dfa_, stacks_, statistics_), new_values_(dfa_, counts_, stacks_, spellings_, statistics_), regions_(dfa_, stacks_),
      steps_(*trie_, dfa_, stacks_, new_values_, regions_, statistics_), loops_(dfa_, counters_, trie_->thresholds()),
      state_masks_(*trie_, dfa_, counters_, counts_, loops_, statistics_), denied_(*trie_, dfa_, stacks_, steps_),
      masks_(*trie_, dfa_, counts_, stacks_, coarse_, spellings_, new_values_, denied_, state_masks_, statistics_),
      completion_(dfa_, stacks_, steps_, limits), initial_(start()), steps_to_collect_(trie_->thresholds().steps_to_collect),
      step_budget_(budget(1, 0)), threshold_(limits.memory), state_threshold_(std::min(limits.states / 2, COLLECTED_STATES)),
      node_threshold_(COLLECTED_NODES) {
  watch_memory(0);
  // PERF: a first mask would read as much code to find that little memory is taken as to write its bits.
  if (limits.memory >= LEAST_MEMORY) work_to_collect_ = work().total() + WORK_TO_COLLECT;
}

// A call may take half of the limit besides what matchers hold, which may be a little more than the limit: their masks can be filled.
void Automaton::watch_memory(u64 held) {
  const auto bytes_of = [](const void* automaton) -> u64 { return static_cast<const Automaton*>(automaton)->bytes(); };
  const u64 limit = std::max(limits_.memory, LEAST_MEMORY);
  work().watch(this, bytes_of, std::max(limit, held) + limit / 2);
}

bool Automaton::left_locked() {
  if (holder_forks_.load(std::memory_order_relaxed) == host.forks || !mutex_.try_lock()) return holder_forks_ != host.forks;
  mutex_.unlock();
  return false;
}

// Gives up what the host holds for this thread (Python's GIL) while it waits: the thread that has the mutex may be waiting for it.
void Automaton::wait(std::unique_lock<Mutex>& locked) {
  if (work().called_by_this_thread()) throw std::runtime_error("a handler of signals called a matcher of the grammar that it interrupted");
  if (left_locked()) throw std::runtime_error("the process forked while another thread was at work on this grammar: compile it again");
  waiting_++;
  host.lock(mutex_);
  locked = std::unique_lock(mutex_, std::adopt_lock);
  waiting_--;
}

void Automaton::let_others_in() {
  if (waiting_ == 0 || work().total() < work_to_let_in_) return;
  const Work mine = work();
  mutex_.unlock();
  // A mutex goes to the thread that asks first, which would be this one: it asks again once one of the others has had it.
  for (u32 i = 0; i < 200 && waiting_ != 0; i++) nap();
  host.lock(mutex_);
  work().go_on(mine);
  work_to_let_in_ = work().total() + WORK_TO_LET_IN;
}

u64 Automaton::budget(u64 steps, u64 bytes) const {
  const double all = static_cast<double>(limits_.step_work) * (static_cast<double>(steps) + static_cast<double>(bytes) / BYTES_A_STEP);
  return all < static_cast<double>(Work::UNLIMITED) ? static_cast<u64>(all) : Work::UNLIMITED;
}

std::string Automaton::blamed() const {
  const Nfa& nfa = dfa_.nfa();
  u32 origin = NONE;
  if (const NfaStateId state = work().nfa_state(); state != NONE) origin = nfa.states[state].origin;
  else if (work().dfa_state() != NONE) origin = dfa_.origin(work().dfa_state());
  std::string rules;
  const Texts& all = nfa.expressions->names;
  for (u32 named = 0; origin != NONE && named < 3; origin = nfa.origins[origin].parent) {
    if (nfa.origins[origin].name >= all.size()) continue;
    const std::string_view name = all[nfa.origins[origin].name];
    rules.append(named++ ? ", in '" : "'").append(name.substr(0, 200)).append("'");
  }
  return rules;
}

void Automaton::fail_work(u64 most, const std::string& rules) const {
  const std::string where = rules.empty() ? "" : "; it was in rule " + rules;
  throw LimitExceeded("step_work", static_cast<double>(limits_.step_work),
                      "one call takes more than " + std::to_string(most) + " units of work" + where + "; limit step_work is " +
                          std::to_string(limits_.step_work));
}

void Automaton::fail_memory() const {
  throw LimitExceeded(
      "grammar_bytes", static_cast<double>(limits_.memory),
      "the grammar's tables, and what its matchers hold of them, take more than " + std::to_string(limits_.memory) + " bytes");
}

void Automaton::fail_lost() const {
  throw std::runtime_error("memory ran out while the grammar's tables were copied, and they are lost: compile it again");
}

// The configuration of the empty text.
StackId Automaton::start() {
  const RuleId root = dfa_.nfa().root;
  const StateId state = dfa_.start(root);
  const bool nullable = dfa_.nfa().rules[root].nullable, is_region = dfa_.nfa().rules[root].is_region();
  std::vector<StackEdge> edges;
  if (state != DEAD) edges.push_back({state, is_region ? stacks_.region_node(root, EMPTY_STACK) : EMPTY_STACK});
  if (nullable) edges.push_back({BOTTOM, NO_STACK});
  return steps_.close(edges);
}

void Automaton::rule_names(StackId configuration, std::vector<std::string>& names) const {
  for (StackId node = configuration; node > EMPTY_STACK && names.size() < MOST_NAMES;) {
    StackId below = NO_STACK;
    for (u32 i = 0; i < stacks_.edge_count(node); i++) {
      const StackEdge edge = stacks_.edges(node)[i];
      if (edge.state == BOTTOM) continue;
      const Nfa& nfa = dfa_.nfa();
      for (u32 origin = dfa_.origin(edge.state); origin != NONE && names.size() < MOST_NAMES; origin = nfa.origins[origin].parent) {
        const u32 name = nfa.origins[origin].name;
        const Texts& all = nfa.expressions->names;
        if (name < all.size() && (names.empty() || names.back() != all[name])) names.emplace_back(all[name]);
      }
      if (below == NO_STACK) below = edge.below;
    }
    node = below;
  }
}

void Automaton::hold(std::vector<u32>& configurations, std::size_t& slot) {
  slot = slots_.size();
  slots_.push_back({&configurations, &slot});
}

void Automaton::release(std::size_t slot) {
  *slots_.back().slot = slot;
  slots_[slot] = slots_.back();
  slots_.pop_back();
  released_ = true;
}

void Automaton::look_at_memory() {
  operations_ = 0;
  work_to_collect_ = work().total() + WORK_TO_COLLECT;
  if (!many_entries() && bytes() <= threshold_) return;
  recover();  // the step before it holds, whether or not there is memory for this
  check_tables();
}

void Automaton::check_overfull() {
  if (std::exchange(released_, false)) reclaim();
  if (overfull_) fail_memory();
}

// Keeps the configurations that matchers hold and the nodes and states below them; everything else is made again when it is needed.
void Automaton::reclaim() {
  const Work::Free free(work());
  std::vector<u8> used(stacks_.size(), 0), states_used(dfa_.size(), 0);
  used[NO_STACK] = used[EMPTY_STACK] = used[initial_] = 1;
  states_used[BOTTOM] = 1;
  for (const MatcherSlot& matcher : slots_)
    for (const u32 id : *matcher.configurations) used[id & ~ID_FLAG] = 1;
  stacks_.mark_below(used, states_used);
  lost_ = true;  // from here on, should an allocation fail: two sets of tables at a time would take twice the memory
  const std::vector<StateId> state_map = dfa_.keep(states_used);
  counters_.clear(), counts_.clear(), loops_.clear();
  const std::vector<StackId> map = stacks_.keep(used, state_map);
  initial_ = map[initial_];
  for (const MatcherSlot& matcher : slots_)
    for (u32& id : *matcher.configurations) id = map[id & ~ID_FLAG] | (id & ID_FLAG);
  coarse_.clear(), spellings_.clear(), new_values_.clear(), regions_.clear(), steps_.clear(), state_masks_.clear(), masks_.clear(),
      completion_.clear();
  lost_ = false;
  statistics_.reclaims++;
  const u64 held = bytes();
  overfull_ = held > std::max(limits_.memory, LEAST_MEMORY);
  watch_memory(held);
  threshold_ = std::max(limits_.memory, held + std::min(held, (limits_.memory + LEAST_MEMORY) / 4));
  state_threshold_ = std::min(limits_.states / 2, COLLECTED_STATES) + dfa_.size();
  node_threshold_ = COLLECTED_NODES + stacks_.size();
}

// Where nothing may fail: after an exception in the middle of anything, and after a step.
void Automaton::recover() noexcept {
  if (lost_) return;
  try {
    reclaim();
  } catch (const std::bad_alloc&) {  // nothing was renumbered, or the tables are lost
  }
}

std::size_t Automaton::bytes() const {
  return dfa_.bytes() + counters_.bytes() + counts_.bytes() + stacks_.bytes() + coarse_.bytes() + new_values_.bytes() + regions_.bytes() +
         steps_.bytes() + loops_.bytes() + state_masks_.bytes() + masks_.bytes() + completion_.bytes();
}

}  // namespace stackmask
