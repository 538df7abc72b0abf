// How a DFA state reads whole classes of characters, found once a state: its class loop, its byte run, its closed classes.
//
//   state of [^"\\]* in a JSON string        class_loop: inside = all classes but " and \, target = itself
//   state of [ \t]{0,8} before a comma       byte_run: bytes = blank and tab, left = 8
//   states of .*foo.*                        closed_classes: all classes; every state reached reads all of them
//
// A class loop costs a look at each range of the state, closed classes at most `closed_states` states.
//
// Tested by tests/pda/kernel/test_class_loops.py.
#pragma once

#include "rules/counters.h"

namespace stackmask {

// All characters inside `inside` lead from a state to `target`; `live` are the classes of which every byte leads somewhere.
struct ClassLoop {
  u64 inside = 0, live = 0;
  StateId target = DEAD;
};

// A state inside of a bounded run of single bytes, such as blanks: up to `left` more of `bytes` lead to states that differ from it in
// their count alone.
struct ByteRun {
  u64 inside = 0;  // the signature of the bytes, 0 where the state is no such run
  u32 left = 0;
  AsciiSet bytes;
};

// The classes under which the states that can be reached by them are closed: all are live there, and none ends or calls.
struct ClosedClasses {
  bool known = false;
  bool outside = false;        // an item outside of the counted automaton, or in it but entered again, reads these classes
  u64 inside = 0;
  u32 low = NONE, high = 0;    // the range of characters that a counted automaton still needs in these states
};

class ClassLoops {
 public:
  ClassLoops(RuleDfa& dfa, Counters& counters, const Thresholds& thresholds);

  const ClassLoop& class_loop(StateId state);  // until the next is found, as all of these
  const ByteRun& byte_run(StateId state) {
    if (state < run_of_.size() && run_of_[state] != NONE) return byte_runs_[run_of_[state]];
    return find_byte_run(state);
  }
  ClosedClasses closed_classes(StateId state);
  // The state after any character above U+007F but spaces, or after any of these; DEAD if they do not all lead to one.
  StateId non_ascii_target(StateId state, bool spaces);
  StateId after_exit(StateId state, u32 exit);              // as RuleDfa::next, for the exits of classes.h
  // The exits of a loop over some classes that are live in the state.
  void live_exits(StateId state, u64 inside, std::vector<u32>& exits);
  bool reads_any(StateId state, const AsciiSet& bytes); // some of them is live
  void clear() { loop_of_ = {}, run_of_ = {}, loops_ = {}, byte_runs_ = {ByteRun()}, closed_ = {}; }
  std::size_t bytes() const;

 private:
  RuleDfa& dfa_;
  Counters& counters_;
  Nfa& nfa_;
  u32 closed_states_;
  std::vector<u32> loop_of_, run_of_;        // by state: indices into the next two, NONE until computed
  std::vector<ClassLoop> loops_;
  std::vector<ByteRun> byte_runs_{ByteRun()};  // the first stands for states that are no run
  std::vector<ClosedClasses> closed_;        // by state
  const ByteRun& find_byte_run(StateId state);
  ByteRun counted_run(StateId state) const;      // before its successors are looked at
  bool reads_outside(StateId state, u64 inside) const;  // an item that counts nothing, or counts anew, reads characters of the classes
};

}  // namespace stackmask
