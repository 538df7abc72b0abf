// The pushdown automaton of one grammar, and all that is remembered about it. Shared by its matchers, built lazily.
//
//   configuration.cpp   sets of stacks, interned; what a byte or a token makes of one
//   mask.cpp            which tokens a configuration allows, composed of parts
//   measure.cpp         how much it still lacks
#pragma once

#include <deque>
#include <optional>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "rules/rule_dfa.h"

namespace stackmask {

// A set of stacks is a node: edges (state, below) sorted by state, where below is the node below. Node 0 is no stack at all,
// node 1 the empty stack. INVARIANT: a node is closed under popping (an edge whose state may end brings the edges of its below
// along), holds a state once (equal states unite what is below), and of the states that only end regions alone.
// A region stands for itself: what is below it is not brought along, so that stacks through it can be told from others and be dropped.
struct StackEdge {
  u32 state, below;
  bool operator==(const StackEdge&) const = default;
  auto operator<=>(const StackEdge&) const = default;
};
constexpr u32 NO_STACK = 0;
constexpr u32 EMPTY_STACK = 1;

// What the tokens below a set of trie nodes do in a state: those that stay inside, and where the others leave it. While it is made.
struct StateMaskBuilder {
  const u32* dense = nullptr;                    // a bitmask shared by the vocabulary, or own
  std::vector<u32> own;                          // an own bitmask, where the tokens are many
  std::vector<i32> tokens;                       // single tokens
  std::vector<i32> excluded;                        // tokens of dense that are not allowed
  struct StackMove {
    u32 rule, back;                              // rule NONE: the state ends here
    u32 nodes;
    bool distinct;
  };
  std::vector<StackMove> moves;
  std::vector<u32> nested;                     // further parts of the same state
  struct ScarceNode {
    u32 node, state, texts;                      // state DEAD: one that may run out of values
  };
  std::vector<ScarceNode> scarce;                        // nodes of the trie at which a state has few texts left: kept under guards only
  void clear() {
    dense = nullptr;
    own.clear(), tokens.clear(), excluded.clear(), moves.clear(), nested.clear(), scarce.clear();
  }
};

// The same as it is kept: its lists lie in those of all parts.
struct StateMask {
  struct List {
    u32 begin, end;
    bool empty() const { return begin == end; }
  };
  const u32* dense;
  List tokens, excluded, moves, nested, scarce;
};

// How often each way was taken.
struct Statistics {
  u64 masks = 0, state_masks = 0, reclaims = 0;
  // Walks: of all, those by tables of children, from many nodes at once and along runs of bytes, with sets and without.
  u64 walks = 0, walked_nodes = 0, wide_walks = 0, set_walks = 0, set_runs = 0, node_runs = 0, set_masks = 0, spent_sets = 0;
  // Class loops: of all, those of each kind; where none was found; and those below a heavy node.
  u64 loops = 0, loop_fallbacks = 0, byte_runs = 0, chains = 0, counted_chains = 0, guarded_chains = 0, absorbing = 0, guarded_absorbing = 0, excluded = 0;
  u64 closed = 0, bounded_closed = 0, heavy_loops = 0, heavy_walks = 0;
  u64 own_masks = 0, guarded_state_masks = 0, saturated = 0;
  // Guards.
  u64 refusals = 0, refuted = 0, unverified = 0, counted_texts = 0, searches = 0;
  u64 expired = 0;  // where a region spans its limit
};
inline constexpr struct {
  const char* name;
  u64 Statistics::*value;
} STATISTICS[] = {
    {"masks", &Statistics::masks},
    {"state_masks", &Statistics::state_masks},
    {"reclaims", &Statistics::reclaims},
    {"walks", &Statistics::walks},
    {"walked_nodes", &Statistics::walked_nodes},
    {"wide_walks", &Statistics::wide_walks},
    {"set_walks", &Statistics::set_walks},
    {"set_runs", &Statistics::set_runs},
    {"node_runs", &Statistics::node_runs},
    {"set_masks", &Statistics::set_masks},
    {"spent_sets", &Statistics::spent_sets},
    {"loops", &Statistics::loops},
    {"loop_fallbacks", &Statistics::loop_fallbacks},
    {"byte_runs", &Statistics::byte_runs},
    {"chains", &Statistics::chains},
    {"counted_chains", &Statistics::counted_chains},
    {"guarded_chains", &Statistics::guarded_chains},
    {"absorbing", &Statistics::absorbing},
    {"guarded_absorbing", &Statistics::guarded_absorbing},
    {"excluded", &Statistics::excluded},
    {"closed", &Statistics::closed},
    {"bounded_closed", &Statistics::bounded_closed},
    {"heavy_loops", &Statistics::heavy_loops},
    {"heavy_walks", &Statistics::heavy_walks},
    {"own_masks", &Statistics::own_masks},
    {"guarded_state_masks", &Statistics::guarded_state_masks},
    {"saturated", &Statistics::saturated},
    {"refusals", &Statistics::refusals},
    {"refuted", &Statistics::refuted},
    {"unverified", &Statistics::unverified},
    {"counted_texts", &Statistics::counted_texts},
    {"searches", &Statistics::searches},
    {"expired", &Statistics::expired},
};

class Automaton {
 public:
  Automaton(std::shared_ptr<const TokenTrie> trie, std::shared_ptr<Expressions> expressions, const Limits& limits);

  const TokenTrie& trie() const { return *trie_; }
  u32 initial() const { return initial_; }

  // The calls below need the lock.
  std::mutex mutex;
  u32 step(u32 configuration, u8 byte);                    // NO_STACK if the byte is refused
  // By id and by text, after `tokens` tokens: regions that have spanned their limit end where they may.
  u32 step_token(u32 configuration, u32 token, u32 tokens);
  // The last byte of a text that counts as a token.
  u32 step_last(u32 configuration, u8 byte, u32 tokens);
  bool limited() const { return limited_; }                // some rule has a limit: only then `tokens` and the position matter
  void set_position(u32 tokens, u32 bytes) { position_tokens_ = tokens, position_bytes_ = bytes; }  // where a region that is entered begins
  bool captures() const { return dfa_.nfa().captures; }
  bool has_temperature() const { return dfa_.nfa().temperatures.size() > 1; }
  double temperature(u32 configuration);                   // the highest that a stack asks for, by its innermost rule; negative for none
  u32 step_bytes(u32 configuration, const char* data, std::size_t count, std::size_t* accepted = nullptr);
  bool complete(u32 configuration);                        // the text may end here
  void fill(u32 configuration, u32* row);                  // all but stop tokens
  void live_bytes(u32 configuration, bool (&live)[256]);
  bool reads_tokens(u32 configuration);                    // by id
  u64 distance(u32 configuration);                         // least bytes to completion, values that must differ aside; NONE for none
  std::string shortest(u32 configuration);
  u64 shortest_length(u32 configuration);                  // of that text
  void rule_names(u32 configuration, std::vector<std::string>& names);
  std::size_t bytes() const;
  Statistics statistics;
  std::size_t rule_count() const { return dfa_.nfa().rules.size(); }
  std::size_t nfa_state_count() const { return dfa_.nfa().states.size(); }
  std::size_t state_count() const { return dfa_.size(); }
  std::size_t node_count() const { return nodes_.size(); }
  std::size_t table_count() const { return dfa_.table_count(); }
  std::size_t delta_count() const { return dfa_.delta_count(); }
  u32 rewritten_rules() const { return dfa_.nfa().rewritten_rules; }

  struct Held {
    std::vector<u32>* configurations;                      // of a matcher, renumbered by collect()
    std::size_t* place;                                    // where this stands in held
  };
  std::vector<Held> held;
  void collect() {                                         // past the memory limit, or half of the states allowed, drops what no matcher holds
    if (dfa_.size() > state_threshold_ || (++operations_ >= trie_->thresholds().steps_to_collect && (operations_ = 0, bytes() > threshold_))) reclaim();
  }

 private:
  std::shared_ptr<const TokenTrie> trie_;
  Limits limits_;
  RuleDfa dfa_;
  u32 initial_ = 0;
  u32 operations_ = 0;
  bool measured_ = false;
  u64 threshold_, state_threshold_;
  void reclaim();

  // Configurations.
  Interner nodes_;                // edges as pairs of words
  static constexpr u8 GUARD_BELOW = 1, SCOPE_BELOW = 2;
  std::vector<u8> guarded_;       // by node: a guard, or a scope whose values may run out, is on one of its stacks
  std::vector<u32> depth_;        // by node: longest stack, saturated
  Map64 steps_, unions_, pushes_, advances_, distances_, lengths_, token_steps_, temperatures_;
  bool limited_ = false;
  bool entered_region_ = false;          // the step being computed entered a region, so it depends on the position
  bool record_crossed_ = false;           // ... and is to note the regions that it leaves
  std::vector<u32> crossed_regions_;
  struct Recording {
    Automaton& automaton;
    explicit Recording(Automaton& a) : automaton(a) { a.crossed_regions_.clear(), a.record_crossed_ = a.limited_; }
    ~Recording() { automaton.record_crossed_ = false; }
  };
  u32 position_tokens_ = 0, position_bytes_ = 0;
  std::vector<u32> expires_at_;          // by node: after how many tokens the first limit on its stacks is spanned
  u32 region_node(u32 rule, u32 below);   // the node for calling a rule that is a region
  u32 drop_expired(u32 configuration, u32 tokens);
  u32 intern(std::vector<StackEdge>& edges);
  const StackEdge* edges(u32 node) const { return reinterpret_cast<const StackEdge*>(nodes_.at(node)); }
  u32 edge_count(u32 node) const { return static_cast<u32>(nodes_.length(node) / 2); }
  u32 push(u32 state, u32 below);
  u32 unite(u32 a, u32 b);
  u32 advance(u32 node, u8 byte);
  u32 close(std::vector<StackEdge>& raw);
  u32 return_node(const Call& call, u32 below);
  u32 compute_step(u32 configuration, u8 byte);
  u64 least(u32 configuration);
  struct Straight {
    u32 configuration;
    u8 byte;
  };
  u32 straight_down(u32 configuration, u64 left, std::vector<Straight>& way, bool to_known);  // where it ends
  std::string search(u32 configuration);
  struct SearchNode {
    u32 configuration, parent, length;
    u8 byte;
  };
  using SearchKey = std::tuple<u64, u32, u32>;  // whole length, bytes to go, complement of the node: newest first
  using SearchQueue = std::priority_queue<SearchKey, std::vector<SearchKey>, std::greater<>>;
  template <class F>
  void each_step(u32 here, bool every, F take);
  // The values that a rule generates, the cheapest first, as far as somebody asked.
  struct CheapValues {
    struct Value {
      u32 length, id, node;
    };
    std::vector<Value> values;
    std::unordered_set<u32> known;
    std::vector<SearchNode> nodes;
    SearchQueue queue;
    u32 least = 0;                             // no other value is shorter
    bool ended = false, left = false, busy = false;  // there are no more; too many to look at; being looked for
    std::string text(u32 node) const;
  };
  std::unordered_map<u32, CheapValues> cheap_values_;  // by rule
  u32 extending_ = 0;
  Map64 scope_lengths_;                        // by state of a scope, and whether a value is to come before it
  u32 new_value(u32 configuration, u64& left, std::vector<Straight>& way);
  u64 state_length(u32 state);                 // least bytes until the rule ends, of values that differ
  u64 values_length(u32 rule, u32 count, std::span<const u32> seen);
  bool find_value(u32 rule, CheapValues& cheap);
  bool values_take_more();

  // Masks.
  Interner node_lists_;
  Map64 shared_lists_;                     // by number: those that the vocabulary has
  std::vector<const NodeSet*> list_sets_;  // by list, of these
  u32 root_list_ = 0;
  std::vector<StateMask> state_masks_;
  std::vector<i32> mask_tokens_;           // tokens and excluded of all parts
  std::vector<StateMaskBuilder::StackMove> mask_moves_;
  std::vector<u32> nested_masks_;
  std::vector<StateMaskBuilder::ScarceNode> scarce_nodes_;
  std::vector<std::vector<u32>> own_masks_;
  std::unordered_map<const u32*, std::shared_ptr<const LoopMask>> loop_masks_;  // of the vocabulary, which may forget them: by their words
  const u32* hold(const std::shared_ptr<const LoopMask>& mask);
  Map64 state_mask_ids_, mask_ids_;
  Interner masks_;                         // parts, NONE, sets of tokens, NONE, tokens that a guard refuses
  u32 state_mask(u32 nodes, u32 state, bool guarded = false);
  bool guarded_mask_ = false;              // the part being made is for guards: leaves of the trie and scarce landed count
  void walk(u32 node, u32 state, StateMaskBuilder& mask);
  void walk_child(u32 node, u32 state, StateMaskBuilder& mask);
  void walk_seeds(StateMaskBuilder& mask);
  void walk_byte_run(u32 node, u32 state, StateMaskBuilder& mask);
  bool walk_set(const NodeSet* set, u32 state, StateMaskBuilder& mask);
  bool by_class_loop(u32 state, StateMaskBuilder& mask);
  template <class F>
  void each_move(u32 state, F take);   // to whom it hands over, as calls: rule NONE where it ends
  void go_on_at(const std::vector<u32>& nodes, u32 state, StateMaskBuilder& mask, const NodeList* shared = nullptr);
  void live_exits(u32 state, u64 inside, std::vector<u32>& exits);
  bool few_exits(const ClassLoop& loop) const;
  bool by_byte_run(u32 state, StateMaskBuilder& mask);
  bool by_counter_chain(u32 state, const ClassLoop& loop, StateMaskBuilder& mask);
  bool by_closed_classes(u32 state, StateMaskBuilder& mask);
  struct ClosedClasses {
    bool known = false;
    bool outside = false;                  // something besides the automaton reads these classes
    u64 inside = 0;
    u32 low = NONE, high = 0;              // the range of what a counted automaton still needs in these states
  };
  ClosedClasses closed_classes(u32 state);
  std::vector<ClosedClasses> closed_classes_;             // by state, what closed_classes found
  bool by_absorbing_state(u32 state, const ClassLoop& loop, StateMaskBuilder& mask);
  void finish(StateMaskBuilder& mask);
  void emit(u32 node, StateMaskBuilder& mask);
  u32 list_id(const NodeList* list);
  void record_guarded(u32 node, u32 state, StateMaskBuilder& mask);
  u32 mask(u32 configuration);             // an index into masks_

  // Guards.
  Map64 has_new_value_;
  // How many values the guards on these stacks have seen, and the scopes on them if asked for; saturated at limit.
  u32 guard_values(u32 node, u32 limit, bool scopes = false);
  std::vector<u32> scope_text_counts_;           // by rule: at least so many values may stand in its scope, UNBOUNDED for no end
  Map64 scope_can_finish_;
  bool scope_may_run_out(u32 state);                   // a state of a scope that a token may run out of values for
  bool scope_can_finish(u32 state);                // its rule can end without a value that its scope has seen
  bool surely_more(u32 texts, u32 values) const;  // so many texts are more values than these
  bool spells_only_zero(const StackEdge& edge);
  bool finds_new_value(const StackEdge& edge, u32 values, bool blanks, bool& skipped);
  bool has_new_value(const StackEdge& edge);          // some value that a guard below has not seen can still be read
  bool spells_values(u32 below) const;
  // What seen_texts() counted last, by state and beginning.
  struct Counted {
    u32 state = DEAD;
    std::string before;
    std::vector<u32> ids;                                // of the values, rising
    std::vector<std::pair<u32, u32>> counts;
    u32 total = 0;
  };
  static constexpr std::size_t MOST_COUNTED = 8;
  std::vector<Counted> counted_;
  u32 next_counted_ = 0;
  u32 count_spellings(const std::string& value, const std::string& before, u32 state, std::vector<std::pair<u32, u32>>* counts);
  std::optional<u32> seen_texts(u32 below, u32 state, std::vector<std::pair<u32, u32>>* counts = nullptr);
  void refused_nodes(u32 list, u32 guard, std::vector<u32>& kept, std::vector<u32>& refused);
  void split_refuted(u32 state, std::vector<u32>& left, std::vector<u32>& refuted, std::vector<u32>& unverified);
  void find_denied(u32 configuration, std::vector<u32>& unverified, std::vector<u32>& refuted, std::vector<i32>& denied);
  const ClassIndex* index_ = nullptr;         // of the node that the part being made begins at
  std::vector<std::pair<u32, u32>> heavy_;    // (node, state) to go on at
  // A part that is being made, and what was found for the one that asked for it.
  struct Making {
    StateMaskBuilder mask;
    std::vector<std::pair<u32, u32>> hits, heavy;
  };
  std::deque<Making> making_;
  u32 making_depth_ = 0;
  std::vector<std::pair<u32, u32>> hits_;  // (state, node) where a state ends or calls
  std::vector<u32> path_;                  // states by depth
  std::vector<std::pair<u32, u32>> seeds_;
};

}  // namespace stackmask
