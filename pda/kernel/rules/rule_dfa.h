// DfaState states: the NFA of a rule, determinised lazily (subset construction, Rabin & Scott 1959).
//
// A state is the set of NFA items that a rule may stand in after some text, with their registers. It says where each live byte leads,
// which rules may be called here, which tokens may be read by id, and whether the rule may end here.
#pragma once

#include <array>
#include <span>

#include "rules/nfa.h"
#include "vocabulary/trie.h"

namespace stackmask {

constexpr u32 DEAD = NONE;
constexpr u32 IN_TOKEN = NONE - 1;  // the text of a value that began inside of the token being looked at
constexpr u32 BOTTOM = 0;  // the state below the root: reaching it completes the text

struct Range {
  u32 target;      // state, or PENDING until somebody asks
  u32 begin, end;  // the NFA items it is the closure of
  u8 lo, hi;
};
constexpr u32 PENDING = NONE - 1;

struct Call {
  u32 rule, back;  // state to go on in after the call
  bool distinct;
  bool operator==(const Call&) const = default;
};

struct TokenEdge {
  u32 set, target;
};

// STATE_LEAVES: tokens may go on in another state, a caller's or a callee's. The root ends to nobody if no rule calls it.
enum StateFlags : u8 { STATE_FINAL = 1, STATE_CALLS = 2, STATE_BYTES = 4, STATE_TOKENS = 8, STATE_GUARD = 16, STATE_BUILT = 32, STATE_REGION = 64, STATE_LEAVES = 128 };

struct DfaState {
  u8 flags = 0;
  u32 ranges = 0, range_count = 0;
  u32 calls = 0, call_count = 0;
  u32 tokens = 0, token_count = 0;
  bool dense = false;    // many bytes are live
  u16 lookups = 0;       // of bytes in it, until it has a table
  u32 table = NONE;      // 256 targets of a dense state that bytes are looked up in often
  u32 saturated = NONE;  // the state that stands for it in masks
  u32 class_loop = NONE;       // what class_loop() found, an index into class_loops_
  u32 byte_run = NONE;        // what byte_run() found, an index into byte_runs_
  u32 min_text_count = NONE;
  u32 text_count = NONE;
  u32 default_state = DEAD;       // of a delta state: the state that it differs from by its own bytes; BOTTOM until that is known
  u32 deltas = 0, delta_count = 0;  // its own ranges
};
constexpr u32 UNKNOWN_COUNT = NONE - 1;  // of text_count()
constexpr u32 UNBOUNDED = 1'000'000;  // of min_text_count()

inline bool is_blank(u8 byte) { return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r'; }

// All characters inside `inside` lead from a state to `target`; `live` are the classes of which every byte leads somewhere.
struct ClassLoop {
  u64 inside = 0, live = 0;
  u32 target = DEAD;
};

// A state inside of a bounded run of single bytes, such as blanks: up to `left` more of `bytes` lead to states that differ from it in
// their count alone.
struct ByteRun {
  u64 inside = 0;  // the signature of the bytes, 0 where the state is no such run
  u32 left = 0;
  AsciiSet bytes;
};

class RuleDfa {
 public:
  RuleDfa(Nfa nfa, const TokenTrie& trie, const Limits& limits);

  u32 start(u32 rule);                          // where a call of the rule begins; never final
  u32 next(u32 state, u8 byte) {                // DEAD if the byte is not live
    if (!(states_[state].flags & STATE_BUILT)) {
      if (is_delta(state)) return next_of_delta(state, byte);
      build_edges(state);
    }
    const DfaState& f = states_[state];
    if (f.table != NONE) {
      const u32 target = tables_[f.table][byte];
      if (target != PENDING) return target;
    } else if (f.dense && ++states_[state].lookups == lookups_) {
      make_table(state);
    }
    const Range* range = ranges_.data() + f.ranges;
    for (u32 i = 0; i < f.range_count && range[i].lo <= byte; i++)
      if (byte <= range[i].hi) return range[i].target == PENDING ? range_target(state, i) : range[i].target;
    return DEAD;
  }
  // The bytes that lead to different places from two states, in their order.
  struct Difference {
    u8 lo, hi;
    u32 here, there;
  };
  void differences(u32 a, u32 b, std::vector<Difference>& found);
  void build(u32 state) {
    if (!(states_[state].flags & STATE_BUILT)) build_edges(state);
  }
  bool dense(u32 state) const { return states_[state].dense; }
  const DfaState& operator[](u32 state) const { return states_[state]; }
  u32 range_target(u32 state, u32 index) {
    const Range& range = ranges_[states_[state].ranges + index];
    return range.target == PENDING ? resolve(state, index) : range.target;
  }
  const Range& range(u32 state, u32 index) const { return ranges_[states_[state].ranges + index]; }
  const Call& call(u32 state, u32 index) const { return calls_[states_[state].calls + index]; }
  const TokenEdge& token_edge(u32 state, u32 index) const { return token_edges_[states_[state].tokens + index]; }
  bool only_ends(u32 state) { return (states_[state].flags & (STATE_FINAL | STATE_CALLS | STATE_BYTES | STATE_TOKENS)) == STATE_FINAL; }

  // Counters that no token, or no text of so many bytes, can exhaust are replaced by COUNT_DEEP and COUNT_FREE.
  u32 saturated(u32 state);
  u32 saturated(u32 state, u32 bytes);
  u32 advanced(u32 state, u32 count);           // the state with so many more counted
  std::pair<u32, u32> with_free_counts(u32 state);         // the state far from its bounds, and how many an automaton in it may still need
  const ClassLoop& class_loop(u32 state);
  u32 non_ascii_target(u32 state, bool spaces); // after any character above U+007F but spaces, or after any of these
  u32 after_exit(u32 state, u32 exit) {         // as next, for the exits of trie.h
    if (exit < 256) return next(state, static_cast<u8>(exit));
    for (const char byte : exit_text(exit))
      if (state != DEAD) state = next(state, static_cast<u8>(byte));
    return state;
  }
  // `next`, the successor of a state under some class, differs from it by having counted one more, and so does what follows, for `more`
  // steps from `state` on in all.
  bool differs_by_count(u32 state, u32 next, u64 inside, u32* more) const;
  bool reads_outside(u32 state, u64 inside) const;  // characters of the classes are read by what is in no counted automaton
  bool reads_any(u32 state, const AsciiSet& bytes);  // some of them is live
  bool in_repetition(u32 state) const;                // inside of a counted repetition
  // The state without the bounds of the automaton that it counts in: itself where there is none, DEAD where it cannot be told.
  u32 without_bounds(u32 state, u32* left);           // left: characters up to the maximum, NONE for no bound
  std::pair<u32, u32> settled(u32 state) const; // the range of NfaState::settled in it: characters that an automaton still needs
  const ByteRun& byte_run(u32 state);
  u64 distance(u32 state);                      // least bytes until the rule ends
  u32 origin(u32 state) const;                  // where one of its items was written, for messages
  Nfa& nfa() { return nfa_; }
  const Nfa& nfa() const { return nfa_; }
  std::size_t size() const { return states_.size(); }
  std::size_t table_count() const { return tables_.size(); }
  u32 delta_count() const { return delta_states_; }  // states that were kept as what differs from another
  std::size_t bytes() const;
  std::vector<u32> keep(std::vector<u8>& used);  // forgets all states but these; their new numbers
  RuleDfa(const RuleDfa&) = delete;

  // Guards: a state that waits for a value which must be new in its scope, with the value's text so far.
  u32 guard(u32 back, u32 text);
  u32 guard_back(u32 guard) const { return items_.at(guard)[1]; }
  u32 guard_text(u32 guard) const { return items_.at(guard)[2]; }
  u32 extend_guard(u32 guard, u8 byte) { return this->guard(guard_back(guard), extend_text(guard_text(guard), byte)); }
  u32 pop_guard(u32 guard);                     // the state after the value, DEAD if it was seen before
  u32 after_value(u32 back, const std::string& text);
  u32 extend_text(u32 text, u8 byte);
  u32 min_text_count(u32 state, std::size_t look = 48); // at least this many texts end the state, UNBOUNDED for no end; sees so many states ahead
  bool inside_string(u32 text) const { return text_states_[text] != 0; }
  u32 text_count(u32 state);                         // how many texts end the state, UNKNOWN_COUNT for very many and where rules are called
  bool has_unbounded_strings(u32 state);                      // a string can follow that has no end of values
  std::string text(u32 text) const;
  // Regions: a state below those of a rule with a limit or a temperature, which ends as soon as they do. It says which rule it is and,
  // for a limit, where its text began: after so many tokens, and so many bytes of one.
  u32 region(u32 rule, u32 tokens, u32 bytes);
  const Rule& region_rule(u32 region) const { return nfa_.rules[items_.at(region)[2]]; }
  u32 region_start(u32 region) const { return items_.at(region)[3]; }
  // The values that a state has seen: whether any, and whether one equals the JSON text.
  bool in_scope(u32 state) const {
    return !(states_[state].flags & (STATE_GUARD | STATE_REGION)) && state != BOTTOM && nfa_.rules[rule(state)].scope;
  }
  u32 rule(u32 state) const { return nfa_.states[items_.at(state)[0]].rule; }
  bool seen_any(u32 state) const { return seen_count(state) != 0; }
  u32 seen_count(u32 state) const;
  std::vector<u32> seen_ids(u32 state) const;                    // the values, rising
  const std::string& value(u32 id) const { return values_[id]; }  // canonical; until the next is seen
  u32 value_id(const std::string& text);                         // of a JSON text
  std::span<const u32> seen_set(u32 seen) const { return {seen_sets_.at(seen), seen_sets_.length(seen)}; }  // of a register; until the next is seen
  std::span<const Item> items(u32 state) const { return {reinterpret_cast<const Item*>(items_.at(state)), items_.length(state) / 2}; }  // until the next is made
  u32 seen_spellings(u32 state) const;                           // at most so many texts spell them without needless escapes, NONE if unknown

 private:
  Nfa nfa_;
  Limits limits_;
  Closure closure_;
  u32 longest_token_, dense_bytes_;
  Interner items_;
  std::vector<DfaState> states_;
  std::vector<Range> ranges_;
  std::vector<Call> calls_;
  std::vector<TokenEdge> token_edges_;
  std::vector<Item> pending_;
  std::vector<std::array<u32, 256>> tables_;
  std::vector<u32> starts_;
  std::vector<u8> unbounded_;                     // by NFA state, of the rules that are known
  std::vector<u8> unbounded_known_;                       // by rule: unbounded_ tells of its states
  u32 base_registers_;                          // those that the NFA was made with
  std::vector<ClassLoop> class_loops_;
  std::vector<ByteRun> byte_runs_{ByteRun()};                // the first stands for states that are none
  Map64 texts_, popped_, values_after_;
  std::vector<std::pair<u32, u8>> text_parents_;
  std::vector<u8> text_states_;                 // 0 outside of JSON strings, 1 inside, 2 behind a backslash
  Interner seen_sets_;
  std::unordered_map<std::string, u32> value_ids_;
  std::vector<std::string> values_;
  std::vector<u32> spellings_;                  // by value: how many texts spell it without needless escapes, NONE if unknown

  // The state with `change(item, state, head, register)` made to the register of each item in a body; the item goes where that is false.
  template <class F>
  u32 recounted(u32 state, F change);
  template <class F>
  void each_seen(u32 state, F take) const;  // the sets of values that the state's items have seen; equal ones in a row count once
  bool reads(const NfaState& state, u64 inside) const;
  void find_unbounded_strings(u32 rule);
  void check_limit() const;
  u32 intern_closure();  // closure_.result as a state, DEAD if empty
  u32 intern_items(std::span<const Item> items);
  bool reads_only(u32 state) const;
  void build_edges(u32 state);
  // A state on the way into a word that some text must not be differs from the state behind such words by few bytes. It is built only
  // when more is asked than where bytes lead.
  bool is_delta(u32 state) {
    if (states_[state].default_state == BOTTOM) make_delta(state);
    return states_[state].default_state != DEAD;
  }
  void make_delta(u32 state);
  u32 delta_states_ = 0;
  void add_default(const Item& item, u32 target);
  u32 next_of_delta(u32 state, u8 byte);
  u32 target_of(const Range& range);
  void add_ranges();  // of live_
  u32 lookups_;  // from which on a dense state has a table
  void make_table(u32 state);
  u32 resolve(u32 state, u32 index);  // of a range
  struct Live {
    u8 lo, hi;
    Item target;
  };
  std::vector<Live> live_;  // of build_edges()
  struct CallTo {
    u32 rule;
    bool distinct;
    Item back;
  };
  std::vector<CallTo> calls_to_;
  std::vector<std::pair<u32, Item>> tokens_to_;
  std::vector<Item> targets_;
  std::vector<Call> made_calls_;
};

// The canonical spelling of a JSON text's value: equal values have equal spellings (numbers by value, objects without key order).
std::string canonical_json(const std::string& text);

}  // namespace stackmask
