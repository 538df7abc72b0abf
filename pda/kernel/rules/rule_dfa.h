// The lazy DFA of a rule: its NFA determinised as far as texts come (subset construction, Rabin & Scott 1959; lazily as in RE2, Cox 2010).
//
// A state is the set of NFA items that a rule may stand in after some text, each with its register. It says where each live byte leads,
// which rules may be called, which tokens may be read by id, and whether the rule may end. Other stack symbols share the numbers: BOTTOM
// below all rules, and the guards and regions of guards.cpp.
//
//   S = "a" [0-9]{2,3} "b"        items of [count 1]: (digit, register 1)
//
//     [start] --a--> [count 0] --0..9--> [count 1] --0..9--> [count 2] --0..9--> [count 3] --b--> [end]
//                                                               \___________b___________________/
//
// Edges of a state are built when one of them is needed, and the target of a range when a step first goes there: a step costs a closure
// once, and a search in a few ranges afterwards; states that read many bytes, often, get a table.
//
//   rule_dfa.cpp             the construction
//   default_transitions.cpp  states kept as their differences from another one
//   guards.cpp               guards and regions
//
// Tested by tests/pda/test_engine_corpus.py and test_engine_exhaustive.py.
#pragma once

#include <array>
#include <span>

#include "rules/nfa.h"
#include "unique/pending_texts.h"
#include "unique/seen_values.h"
#include "vocabulary/classes.h"

namespace stackmask {

constexpr StateId DEAD = NONE;
constexpr u32 IN_TOKEN = NONE - 1;  // the text of a value that begins inside the token that is looked at
constexpr StateId BOTTOM{0};        // the state below the root: reaching it completes the text

struct Range {
  StateId target;  // UNRESOLVED until it is needed
  u32 begin, end;  // the target is the closure of these NFA items
  u8 lo, hi;
};
constexpr StateId UNRESOLVED{NONE - 1};

struct Call {
  RuleId rule;
  StateId back;  // to return to
  bool distinct;
  bool operator==(const Call&) const = default;
};

struct TokenEdge {
  u32 set;
  StateId target;
};

enum StateFlags : u8 {
  STATE_FINAL = 1,   // the rule may end
  STATE_CALLS = 2,   // it may call another
  STATE_BYTES = 4,   // bytes are read
  STATE_TOKENS = 8,  // tokens are read by id
  STATE_GUARD = 16,
  STATE_BUILT = 32,  // its edges are known
  STATE_REGION = 64,
  STATE_LEAVES = 128,  // tokens may continue in another state, a caller's or a callee's. A root that no rule calls has nothing to return to
};

struct DfaState {
  u8 flags = 0;
  u32 ranges = 0, range_count = 0;
  u32 calls = 0, call_count = 0;
  u32 tokens = 0, token_count = 0;
  bool dense = false;  // many bytes are live
  bool counts = false;  // some item of it is in the body of a repetition
  u16 lookups = 0;  // of bytes in it, until it has a table
  u32 table = NONE;  // of a dense state with many lookups: its 256 targets
  StateId default_state = DEAD;  // of a delta state: the state that it differs from by its own ranges; BOTTOM until that is known
  u32 deltas = 0, delta_count = 0;  // its own ranges
};

class RuleDfa {
 public:
  RuleDfa(Nfa nfa, const Thresholds& thresholds, const Limits& limits);
  RuleDfa(const RuleDfa&) = delete;

  StateId start(RuleId rule);  // where a call of the rule begins; never final
  StateId next(StateId state, u8 byte) {  // DEAD if the byte is not live
    if (!(states_[state].flags & STATE_BUILT)) {
      if (is_delta(state)) return next_of_delta(state, byte);
      build_edges(state);
    }
    const DfaState& f = states_[state];
    if (f.table != NONE) {
      const StateId target = tables_[f.table][byte];
      if (target != UNRESOLVED) return target;
    } else if (f.dense && ++states_[state].lookups == lookups_) {
      make_table(state);
    }
    const Range* range = ranges_.data() + f.ranges;
    for (u32 i = 0; i < f.range_count && range[i].lo <= byte; i++)
      if (byte <= range[i].hi) return range[i].target == UNRESOLVED ? range_target(state, i) : range[i].target;
    return DEAD;
  }
  // The bytes that lead to different places from two states, in their order.
  struct Difference {
    u8 lo, hi;
    StateId here, there;
  };
  void differences(StateId a, StateId b, std::vector<Difference>& found);

  // The functions below read the edges of a state, which build() makes.
  void build(StateId state) {
    if (!(states_[state].flags & STATE_BUILT)) build_edges(state);
  }
  const DfaState& operator[](StateId state) const { return states_[state]; }
  bool dense(StateId state) const { return states_[state].dense; }
  StateId range_target(StateId state, u32 index) {
    const Range& range = ranges_[states_[state].ranges + index];
    return range.target == UNRESOLVED ? resolve(state, index) : range.target;
  }
  const Range& range(StateId state, u32 index) const { return ranges_[states_[state].ranges + index]; }
  const Call& call(StateId state, u32 index) const { return calls_[states_[state].calls + index]; }
  const TokenEdge& token_edge(StateId state, u32 index) const { return token_edges_[states_[state].tokens + index]; }
  bool only_ends(StateId state) const {
    return (states_[state].flags & (STATE_FINAL | STATE_CALLS | STATE_BYTES | STATE_TOKENS)) == STATE_FINAL;
  }

  RuleId rule(StateId state) const { return nfa_.states[items_.at(state)[0]].rule; }
  std::span<const Item> items(StateId state) const {  // until the next state is made
    return {reinterpret_cast<const Item*>(items_.at(state)), items_.length(state) / 2};
  }
  StateId intern_items(std::span<const Item> items);  // sorted; DEAD for none
  StateId closure_of(std::span<const Item> items);  // the state of their closure
  StateId closure_of(Item item);
  // The state that allows what either of two states of one rule allows, if it has no more items than one of them; otherwise DEAD.
  StateId united(StateId a, StateId b);
  bool reads(const NfaState& nfa_state, u64 inside) const;  // characters of these classes
  u64 distance(StateId state);  // least bytes until the rule ends
  u32 origin(StateId state) const;  // where one of its items was written, for messages

  // Guards: a state that waits for a value which must be new in its scope, with the value's text so far.
  StateId guard(StateId back, u32 text);
  StateId guard_back(StateId guard) const { return StateId(items_.at(guard)[1]); }
  u32 guard_text(StateId guard) const { return items_.at(guard)[2]; }
  StateId extend_guard(StateId guard, u8 byte) { return this->guard(guard_back(guard), texts_.extend(guard_text(guard), byte)); }
  std::string pending_text(StateId guard) const { return texts_.text(guard_text(guard)); }
  StateId pop_guard(StateId guard);  // the state after the value, DEAD if it was seen before
  StateId after_value(StateId back, const std::string& text);
  bool was_seen(StateId back, const std::string& text) const;  // the state after the value is DEAD
  PendingTexts& texts() { return texts_; }
  // The values that the scope of a state has seen.
  bool in_scope(StateId state) const {
    return !(states_[state].flags & (STATE_GUARD | STATE_REGION)) && state != BOTTOM && nfa_.rules[rule(state)].scope;
  }
  SeenValues& values() { return seen_; }
  bool seen_any(StateId state) const { return seen_count(state) != 0; }
  u32 seen_count(StateId state) const;
  std::vector<u32> seen_ids(StateId state) const;  // rising
  u32 seen_spellings(StateId state);  // an upper bound on the texts that spell them without needless escapes, NONE if unknown
  // Regions: a state below those of a rule with a limit or a temperature, which ends as soon as they do. It says which rule it is and,
  // for a limit, where its text began: after how many tokens, and how many bytes of one.
  // A bundle stands on regions of a rule that began close together, and on smaller bundles (stacks/regions.h). It is passed like a region.
  StateId region(RuleId rule, u32 tokens, u32 bytes, u32 bundle = 0);
  const Rule& region_rule(StateId region) const { return nfa_.rules[items_.at(region)[2]]; }
  u32 bundled_tokens() const { return bundled_tokens_; }
  bool is_bundle(StateId region) const { return items_.at(region)[5] != 0; }
  u32 region_end(StateId region) const {  // after how many tokens it has spanned its limit, NONE for no limit
    const u32 limit = is_bundle(region) ? NONE : region_rule(region).limit;
    return limit == NONE ? NONE : region_start(region) + limit;
  }
  u32 region_start(StateId region) const { return items_.at(region)[3]; }

  Nfa& nfa() { return nfa_; }
  Work& work() { return nfa_.work; }
  const Nfa& nfa() const { return nfa_; }
  std::size_t size() const { return states_.size(); }
  std::size_t table_count() const { return tables_.size(); }
  u32 delta_count() const { return delta_states_; }  // states that were kept as differences from another
  std::size_t bytes() const;
  std::vector<StateId> keep(std::vector<u8>& used);

 private:
  Nfa nfa_;
  Limits limits_;
  Closure closure_;
  u32 dense_bytes_, lookups_, partly_closed_items_, bundled_tokens_;  // thresholds
  u32 base_registers_;  // those that the NFA was made with
  u32 delta_states_ = 0;
  Interner items_;  // by state; of guards and regions other words, which begin with NONE
  GrowingArray<DfaState> states_;
  GrowingArray<Range> ranges_;
  GrowingArray<Item> range_items_;
  GrowingArray<Call> calls_;
  std::vector<TokenEdge> token_edges_;
  std::vector<std::array<StateId, 256>> tables_;
  std::vector<StateId> starts_;  // by rule
  PendingTexts texts_;
  SeenValues seen_;
  FlatMap popped_, values_after_;  // by guard; by state and value
  FlatMap closures_;  // by item: the large closures
  FlatMap united_;  // by pair of states

  void check_limit() const;
  void add_bottom();
  void add_state(std::span<const Item> items);  // interned last
  void add_unbuilt(const DfaState& before);
  void close(std::span<const Item> items);  // closure_.result is their closure then
  StateId intern_closure();  // closure_.result as a state, DEAD if empty
  bool reads_only(NfaStateId nfa_state) const;
  bool counts(NfaStateId nfa_state) const;
  void build_edges(StateId state);
  void sort_live();
  void unite_calls();
  void add_ranges();  // of live_
  StateId target_of(const Range& range);
  StateId resolve(StateId state, u32 index);  // of a range
  void make_table(StateId state);
  template <class F>
  void each_seen(StateId state, F take) const;  // the sets of values that the state's items have seen; equal ones in a row count once

  bool is_delta(StateId state) {
    if (states_[state].default_state == BOTTOM) make_delta(state);
    return states_[state].default_state != DEAD;
  }
  void make_delta(StateId state);
  void add_default(const Item& item, NfaStateId target);
  StateId next_of_delta(StateId state, u8 byte);

  // Of build_edges() and make_delta(), kept for their memory.
  struct Live {
    u8 lo, hi;
    Item target;
  };
  struct CallTo {
    RuleId rule;
    bool distinct;
    Item back;
  };
  std::vector<Live> live_;
  std::vector<CallTo> calls_to_;
  std::vector<std::pair<u32, Item>> tokens_to_;
  std::vector<Item> targets_;
  std::vector<Call> made_calls_;
};

}  // namespace stackmask
