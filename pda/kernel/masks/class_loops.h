// How a DFA state reads whole classes of characters, computed once for each state: its class loop, its byte run, its closed classes.
//
//   state of [^"\\]* in a JSON string        class_loop: inside = all classes but " and \, target = itself
//   state of [ \t]{0,8} before a comma       byte_run: bytes = blank and tab, left = 8
//   states of .*foo.*                        closed_classes: all classes; every state reached reads all of them
//
// A class loop costs one look at each range of the state, and closed classes visit at most `closed_states` states.
//
// Tested by tests/pda/kernel/test_class_loops.py.
#pragma once

#include <bitset>

#include "rules/counters.h"

namespace stackmask {

// All characters inside `inside` lead from a state to `target`; `live` are the classes of which every byte leads somewhere.
struct ClassLoop {
  u64 inside = 0, live = 0;
  StateId target = DEAD;
};

// A state inside a bounded run of single bytes, such as blanks: up to `left` more of `bytes` lead to states that differ from it only in
// their count.
struct ByteRun {
  u64 inside = 0;  // the signature of the bytes, 0 if the state is no such run
  u32 left = 0;
  AsciiSet bytes;
};

// Classes that lead from the state only to states that read all of them again and neither end nor call: the set is closed under them.
struct ClosedClasses {
  u64 inside = 0;              // 0 where so few states show none
  u32 most = 0;                // states, with which it was looked for
  bool outside = false;        // an item outside the counted automaton, or in it but entered again, reads these classes
  u32 low = NONE, high = 0;    // the range of characters that a counted automaton still needs in these states
};

// An item of a state that every character of some classes leads to itself, besides wherever else they lead. So it is in all states that can
// be reached by them, all of which read all of them.
struct LastingItem {
  u64 inside = 0;         // 0 where there is none, or where texts of the classes may end or call
  u32 left = NONE;        // so many characters of the classes lead to states that have it with other counts; NONE for any number
  std::bitset<256> read;  // bytes that lead on from some of the states
};

class ClassLoops {
 public:
  ClassLoops(RuleDfa& dfa, Counters& counters, const Thresholds& thresholds);

  const ClassLoop& class_loop(StateId state);  // valid until the next is computed, as are all of these
  const ByteRun& byte_run(StateId state) {
    if (state < run_of_.size() && run_of_[state] != NONE) return byte_runs_[run_of_[state]];
    return find_byte_run(state);
  }
  ClosedClasses closed_classes(StateId state, u32 most = NONE);  // that at most so many states show
  // Of the items that are tried the one with most of the live classes; none without those needed.
  LastingItem lasting_item(StateId state, u64 live, u64 needed);
  // The state after any character above U+007F except spaces, or after any such space; DEAD if these lead to different states.
  StateId non_ascii_target(StateId state, bool spaces);
  StateId after_exit(StateId state, u32 exit);              // as RuleDfa::next, for the exits of classes.h
  // The exits of a loop over some classes that are live in the state.
  void live_exits(StateId state, u64 inside, std::vector<u32>& exits);
  bool reads_any(StateId state, const AsciiSet& bytes); // some of them is live
  void clear() {
    loop_of_ = {}, run_of_ = {}, loops_ = {}, byte_runs_ = {ByteRun()}, closed_ = {}, lasting_ = {}, stays_of_.clear(), stays_ = {};
  }
  std::size_t bytes() const;

 private:
  RuleDfa& dfa_;
  Counters& counters_;
  Nfa& nfa_;
  u32 closed_states_;
  std::vector<u32> loop_of_, run_of_;        // by state: indices into the next two, NONE until computed
  std::vector<ClassLoop> loops_;
  std::vector<ByteRun> byte_runs_{ByteRun()};  // index 0: not a run
  std::vector<ClosedClasses> closed_;        // by state
  std::vector<u64> lasting_;  // by state of one item: the classes under which the item lasts, LASTING_UNKNOWN until computed
  Interner stays_of_;  // classes and states of the NFA
  std::vector<LastingItem> stays_;  // by these
  const ByteRun& find_byte_run(StateId state);
  template <class Enter, class Narrow>
  u64 close_under(u64 inside, StateId first, u32 most, std::vector<StateId>& seen, Enter enter, Narrow narrow);
  u64 classes_of_item(const Item& item);
  u64 counted_classes(const Item& item);
  bool has_item(StateId state, const Item& item) const;
  u64 ascii_classes_to(StateId from, const Item& item);  // by whose every character a state leads to one that has the item
  std::pair<u64, u32> row_of_states(NfaStateId first, u64 needed);
  LastingItem stays(std::span<const u32> nfa_states, u64 inside);
  ByteRun counted_run(StateId state) const;      // without a look at its successors
  bool reads_outside(StateId state, u64 inside) const;  // an item without a count, or with a new count, reads characters of the classes
};

}  // namespace stackmask
