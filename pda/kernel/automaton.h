// The pushdown automaton of one grammar and everything computed from it so far: shared by its matchers, built lazily, behind one lock.
//
//   bytes of a grammar -> rules: RuleDfa (states) -> stacks: StackSet, Steps (configurations) -> masks: StateMasks, TokenMasks (bitmasks)
//
// States, steps, state masks and masks that one text needs are kept for the next. Past the memory limit everything that no matcher holds is
// dropped, and made again when it is needed. The configurations of matchers stay; if they alone exceed the limit, no matcher continues.
//
// A call of a matcher is a run(): it has the lock and a budget of work. A call that spends more, is stopped, or finds no memory ends in an
// exception, and the tables keep only the entries that matchers hold.
//
// Tested by tests/pda/test_matcher.py, test_threads.py and test_statistics.py.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "completion/completion.h"
#include "masks/token_masks.h"
#include "portable.h"

namespace stackmask {

class Automaton {
 public:
  Automaton(std::shared_ptr<const TokenTrie> trie, std::shared_ptr<Expressions> expressions, const Limits& limits);

  // Fixed once the automaton is made: no lock needed.
  const TokenTrie& trie() const { return *trie_; }
  bool limited() const { return stacks_.limited(); }  // some rule has a limit: only then `tokens` and the position matter
  bool captures() const { return dfa_.nfa().captures; }
  bool has_temperature() const { return dfa_.nfa().temperatures.size() > 1; }

  // Held during every call that says `L >= mutex_`: const auto locked = automaton.lock();
  [[nodiscard]] std::unique_lock<Mutex> lock() {
    std::unique_lock locked(mutex_, std::try_to_lock);
    if (!locked) wait(locked);
    holder_forks_.store(host.forks, std::memory_order_relaxed);  // read where the mutex cannot be had: no order with it is needed
    return locked;
  }
  // The same for a call that looks at the tables: they may be lost.
  [[nodiscard]] std::unique_lock<Mutex> lock_tables() {
    std::unique_lock<Mutex> locked = lock();
    check_tables();
    return locked;
  }
  // body() with the lock and a budget: that of `steps` steps, and of reading a text of `bytes` bytes. It may be run twice, so it begins
  // anew each time; an exception finds its matcher as it was.
  template <class Body>
  auto run(u64 steps, u64 bytes, Body body) -> decltype(body());
  bool spent_half() const { return work().spent() > work().most() / 2; }  // L >= mutex_
  // Between two steps of a long call, whose configurations are held: lets threads in that wait for the lock.
  void let_others_in();  // L >= mutex_

  StackId initial() const { return initial_; }  // L >= mutex_
  // Steps, see stacks/step.h.
  StackId step(StackId configuration, u8 byte) { return steps_.step(configuration, byte); }  // L >= mutex_
  StackId step_token(StackId configuration, TokenId token, u32 tokens) {
    return steps_.step_token(configuration, token, tokens);
  }  // L >= mutex_
  StackId step_last(StackId configuration, u8 byte, u32 tokens) { return steps_.step_last(configuration, byte, tokens); }  // L >= mutex_
  StackId step_bytes(StackId configuration, const char* data, std::size_t count, std::size_t* accepted = nullptr) {  // L >= mutex_
    return steps_.step_bytes(configuration, data, count, accepted);
  }
  void set_position(u32 tokens, u32 bytes) { stacks_.set_position(tokens, bytes); }  // L >= mutex_
  void live_bytes(StackId configuration, bool (&live)[256]) { steps_.live_bytes(configuration, live); }  // L >= mutex_
  bool reads_tokens(StackId configuration) const { return steps_.reads_tokens(configuration); }  // L >= mutex_
  bool complete(StackId configuration) const { return stacks_.complete(configuration); }  // L >= mutex_
  void note_released() { released_ = true; }  // L >= mutex_
  double temperature(StackId configuration) { return regions_.temperature(configuration); }  // L >= mutex_
  void rule_names(StackId configuration, std::vector<std::string>& names) const;  // L >= mutex_
  // Masks, see masks/token_masks.h.
  void fill(StackId configuration, u32* row) { masks_.fill(configuration, row); }  // L >= mutex_
  // Completions, see completion/completion.h.
  std::string shortest(StackId configuration) { return completion_.shortest(configuration); }  // L >= mutex_
  u64 shortest_length(StackId configuration) { return completion_.shortest_length(configuration); }  // L >= mutex_

  // A matcher's configurations, which collect() keeps and renumbers; `slot` is the automaton's, until release().
  void hold(std::vector<u32>& configurations, std::size_t& slot);  // L >= mutex_
  bool left_locked();  // a thread that a fork left behind has the lock, for good
  bool asked_by_this_thread() const { return work().called_by_this_thread(); }  // which has the lock and asks the host
  void release(std::size_t slot);  // L >= mutex_
  // Past the memory limit, or many states or nodes, drops everything that no matcher holds. Called after every step.
  void collect() {  // L >= mutex_
    if (many_entries() || ++operations_ >= steps_to_collect_ || work().total() > work_to_collect_) look_at_memory();
  }
  // Before a matcher continues, which makes it hold more.
  void check_held() {  // L >= mutex_
    if (overfull_) check_overfull();
  }

  std::size_t bytes() const;  // L >= mutex_
  const Statistics& statistics() const { return statistics_; }  // L >= mutex_
  const Work& work() const { return dfa_.nfa().work; }  // L >= mutex_
  std::size_t rule_count() const { return dfa_.nfa().rules.size(); }  // L >= mutex_
  std::size_t nfa_state_count() const { return dfa_.nfa().states.size(); }  // L >= mutex_
  std::size_t state_count() const { return dfa_.size(); }  // L >= mutex_
  std::size_t node_count() const { return stacks_.size(); }  // L >= mutex_
  std::size_t table_count() const { return dfa_.table_count(); }  // L >= mutex_
  std::size_t delta_count() const { return dfa_.delta_count(); }  // L >= mutex_
  u32 rewritten_rules() const { return dfa_.nfa().rewritten_rules; }  // L >= mutex_

 private:
  struct MatcherSlot {
    std::vector<u32>* configurations;
    std::size_t* slot;  // where this stands in slots_
  };
  // A run: it begins with a budget; at its end the host takes back the lock that it gave up, once the mutex is free.
  struct Run {
    Automaton& automaton;
    std::unique_lock<Mutex> locked;
    Run(Automaton& a, u64 steps, u64 bytes) : automaton(a), locked(a.lock_tables()) {
      a.work().begin(steps == 1 && bytes == 0 ? a.step_budget_ : a.budget(steps, bytes));
    }
    Run(const Run&) = delete;
    ~Run() {
      void* const paused = automaton.work().end();
      locked.unlock();
      if (paused) host.resume(paused);
    }
  };
  Mutex mutex_;
  std::atomic<u32> waiting_ = 0;  // threads, for the mutex
  std::atomic<unsigned> holder_forks_ = 0;  // of the process, when the mutex was taken
  std::shared_ptr<const TokenTrie> trie_;
  Limits limits_;
  Statistics statistics_;
  // Each uses those before it.
  RuleDfa dfa_;
  Counters counters_;
  TextCounts counts_;
  StackSet stacks_;
  CoarseStacks coarse_;
  SeenSpellings spellings_;
  NewValues new_values_;
  Regions regions_;
  Steps steps_;
  ClassLoops loops_;
  StateMasks state_masks_;
  DeniedTokens denied_;
  TokenMasks masks_;
  Completion completion_;
  StackId initial_ = NO_STACK;
  std::vector<MatcherSlot> slots_;
  u32 operations_ = 0, steps_to_collect_;
  const u64 step_budget_;  // of one step, which is what most calls are
  u64 threshold_, state_threshold_, node_threshold_, work_to_collect_ = 0, work_to_let_in_ = 0;
  bool overfull_ = false, released_ = false;  // matchers hold more than the limit; some matcher ended since that was found
  bool lost_ = false;  // there was no memory to copy the tables that matchers hold: the old ones are gone, the new ones are not complete
  StackId start();
  Work& work() { return dfa_.nfa().work; }
  void wait(std::unique_lock<Mutex>& locked);
  u64 budget(u64 steps, u64 bytes) const;
  void watch_memory(u64 held);
  bool many_entries() const { return dfa_.size() > state_threshold_ || stacks_.size() > node_threshold_; }
  void check_tables() const {
    if (lost_) fail_lost();
  }
  void look_at_memory();
  void check_overfull();
  void reclaim();
  void recover() noexcept;
  std::string blamed() const;  // the rules that the work was spent in
  [[noreturn]] void fail_work(u64 most, const std::string& rules) const;
  [[noreturn]] void fail_memory() const;
  [[noreturn]] void fail_lost() const;
};

template <class Body>
auto Automaton::run(u64 steps, u64 bytes, Body body) -> decltype(body()) {
  const Run run(*this, steps, bytes);
  for (bool again = true;; again = false) {
    try {
      return body();
    } catch (const MemoryExceeded&) {
      recover();
      check_tables();
      if (!again) fail_memory();
    } catch (const WorkExceeded&) {
      const std::string rules = blamed();
      recover();
      fail_work(work().most(), rules);
    } catch (const CompletionLimit&) {
      throw;
    } catch (const LimitExceeded&) {
      recover();
      throw;
    } catch (const Interrupted&) {
      recover();
      throw;
    } catch (const std::bad_alloc&) {
      recover();
      throw;
    }
  }
}

}  // namespace stackmask
