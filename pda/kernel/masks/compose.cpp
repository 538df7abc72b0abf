// Composes the mask of a configuration: a work list of places, each a state above a stack, with the trie nodes at which it is reached.
//
// A place continues only at the nodes that are new to it (semi-naive evaluation, Bancilhon & Ramakrishnan 1986), and takes all that have
// collected since its last visit together. So in an ambiguous grammar, where very many ways lead to a place, it is visited at most once for
// each length of a token, and each of its nodes is looked at once.
#include <algorithm>
#include <bit>

#include "grammar/alphabet.h"
#include "list_index.h"
#include "masks/reached_nodes.h"
#include "masks/token_masks.h"

namespace stackmask {

namespace {
constexpr u32 MOST_VALUES = 100'000;  // more than any guard will have seen

u32 count_at(NodeId node, const std::vector<std::pair<NodeId, u32>>& spelled) {
  const auto found = std::lower_bound(spelled.begin(), spelled.end(), std::pair<NodeId, u32>{node, 0});
  return found == spelled.end() || found->first != node ? 0 : found->second;
}
}  // namespace

class MaskComposer {
 public:
  MaskComposer(TokenMasks& masks, StackId configuration)
      : masks_(masks), trie_(masks.trie_), dfa_(masks.dfa_), counts_(masks.counts_), stacks_(masks.stacks_), spellings_(masks.spellings_),
        new_values_(masks.new_values_), denied_(masks.denied_), state_masks_(masks.state_masks_), lists_(masks.state_masks_.lists()),
        statistics_(masks.statistics_), configuration_(configuration) {
    const u8 flags = stacks_.guarded(configuration);
    // Guards that have seen nothing cannot refuse the value that a token completes, unless it completes two.
    const u32 values = flags ? new_values_.guard_values(configuration, MOST_VALUES) : 0;
    guarded_ = values > 0 || (flags & SCOPE_BELOW);
    // Including the values of scopes, and those that a token itself completes.
    all_values_ = (flags ? new_values_.guard_values(configuration, MOST_VALUES, true) : 0) + trie_.max_token_bytes();
  }

  // State masks, NONE, sets of tokens, NONE, denied tokens.
  void compose(std::vector<u32>& key) {
    begin();
    for (std::size_t v = 0; v < visits_.size(); v++) take(v);
    PooledVector<TokenId> denied;
    statistics_.unverified += !unverified_.empty(), statistics_.refuted += !refuted_.empty();
    std::sort(used_.begin(), used_.end());
    used_.erase(std::unique(used_.begin(), used_.end()), used_.end());
    if (!unverified_.empty() || !refuted_.empty()) {
      // PERF: of 59,000 tokens after a blank between two arrays, masks hold 900.
      const bool many = nodes_below(unverified_) + nodes_below(refuted_) >= trie_.thresholds().tried_nodes;
      statistics_.held_trials += many;
      denied_.find_denied(configuration_, many ? bits() : nullptr, unverified_, refuted_, denied);
    }
    if (begins_value_ || stacks_.guarded(configuration_)) denied_.find_zeros(configuration_, begins_value_, denied);
    // State masks with a bitmask first: they are copied, the others added.
    for (const bool dense : {true, false})
      for (const StateMaskId id : used_)
        if ((state_masks_[id].dense != nullptr) == dense) key.push_back(id);
    key.push_back(NONE);
    key.insert(key.end(), token_sets_.begin(), token_sets_.end());
    key.push_back(NONE);
    key.insert(key.end(), denied.begin(), denied.end());
  }

 private:
  // A state above a stack; or, if the state is NONE, a stack to which a state above it was left.
  struct Place {
    StateId state;
    StackId below;
    bool passed;  // through a guard: its scope has then seen more values than its state records
    bool sole;  // it is the only stack, and is left
    ListId reached;  // the nodes at which it was reached, NONE for those in `all`
    ListId waiting;  // the nodes at which it is still to be visited, NONE for none
    u32 more;  // index into more_waiting_: further lists of such nodes, NONE if it never had any
    u32 all;  // index into all_nodes_
  };
  struct Visit {
    ListId nodes;
    StateId state;
    StackId below;
    bool passed;
  };
  struct Reached {
    u32 place;
    ListId nodes;
  };
  TokenMasks& masks_;
  const TokenTrie& trie_;
  RuleDfa& dfa_;
  TextCounts& counts_;
  StackSet& stacks_;
  SeenSpellings& spellings_;
  NewValues& new_values_;
  DeniedTokens& denied_;
  StateMasks& state_masks_;
  NodeLists& lists_;
  Statistics& statistics_;
  StackId configuration_;
  bool guarded_;  // some guard may refuse a value
  u32 all_values_;  // the number of values that guards and scopes may have seen after a token
  PooledVector<Place> places_;
  ListIndex place_of_;
  std::vector<ReachedNodes> all_nodes_;
  std::vector<std::vector<NodeId>> more_waiting_;  // lists in a row, no node twice
  PooledVector<u32> visits_;  // places
  std::size_t looked_at_ = 0, added_ = 0;
  std::optional<CoveredTokens> covered_;  // by used_[0, added_), once many nodes were looked at
  FlatMap narrowed_;  // by list
  PooledVector<StateMaskId> used_;  // the mask's state masks
  PooledVector<u32> token_sets_;  // ... and sets of tokens read by id
  bool begins_value_ = false;  // a token enters a value that must differ
  PooledVector<NodeId> unverified_, refuted_;  // trie nodes, see denied_tokens.h
  PooledVector<NodeId> left_;  // nodes at which the state of a sole stack is left
  // (node, spellings of seen values on the way) for spelled_below_, and of these the ones that the state of a sole stack itself reads
  PooledVector<std::pair<NodeId, u32>> spelled_, spelled_alone_;
  PooledVector<u32> bits_;
  StackId spelled_below_ = NONE;
  bool spelled_counted_ = false, counted_alone_ = false;
  // Used by go_on(), leave() and take(); kept to reuse their memory.
  PooledVector<Reached> entering_, leavings_;
  PooledVector<StateMaskId> open_;
  PooledVector<NodeId> kept_, seen_, fresh_;

  // The mask so far, as bits.
  const u32* bits() {
    dfa_.work().spend((1 + used_.size()) * (1 + trie_.words() / 32));
    bits_.resize(trie_.words());
    bool first = true;
    for (const StateMaskId id : used_) masks_.add(state_masks_[id], std::exchange(first, false), bits_.data());
    return bits_.data();
  }

  std::size_t nodes_below(std::span<const NodeId> nodes) const {
    std::size_t count = 0;
    for (const NodeId node : nodes) count += trie_.nodes()[node].skip();
    return count;
  }

  // The beginning of each stack: tokens read by id, and its state at the root of the trie.
  void begin() {
    for (u32 i = 0; i < stacks_.edge_count(configuration_); i++) {
      const StackEdge edge = stacks_.edges(configuration_)[i];
      if (edge.state == BOTTOM) continue;
      dfa_.build(edge.state);
      for (u32 t = 0; t < dfa_[edge.state].token_count; t++) token_sets_.push_back(dfa_.token_edge(edge.state, t).set);
      if (dfa_[edge.state].flags & STATE_BYTES) visit(place(edge.state, edge.below, false, false), NodeLists::ROOT);
    }
  }

  u32 place(StateId state, StackId below, bool passed, bool sole) {
    const Place added{state, below, passed, sole, NONE, NONE, NONE, NONE};
    if (const u32 found = place_of_.find(places_, key_of(added), key_of); found != NONE) return found;
    places_.push_back(added);
    return static_cast<u32>(places_.size() - 1);
  }
  static u64 key_of(const Place& place) {  // INVARIANT: there are fewer than 2^30 states
    return (static_cast<u64>(place.state & 0x3FFFFFFF) << 2 | (place.sole ? 2u : 0u) | (place.passed ? 1u : 0u)) << 32 | place.below;
  }

  // The list of the nodes that are new to a place, NONE if there are none.
  ListId reach(u32 id, ListId nodes) {
    Place& at = places_[id];
    if (at.all == NONE) {
      if (at.reached == nodes) return NONE;
      if (at.reached == NONE) return at.reached = nodes;
      at.all = static_cast<u32>(all_nodes_.size());
      all_nodes_.emplace_back(lists_[at.reached]);
    }
    const std::span<const NodeId> added = lists_[nodes];
    all_nodes_[at.all].add(added, trie_.node_count(), dfa_.work(), fresh_);
    if (fresh_.empty()) return NONE;
    return fresh_.size() == added.size() ? nodes : lists_.intern(fresh_);
  }

  // The nodes at which the place was neither visited before nor waits to be.
  void visit(u32 id, ListId nodes) {
    Place& at = places_[id];
    if (at.waiting == NONE) {
      at.waiting = nodes;
      visits_.push_back(id);
      return;
    }
    if (at.more == NONE) {
      at.more = static_cast<u32>(more_waiting_.size());
      more_waiting_.emplace_back();
    }
    const std::span<const NodeId> added = lists_[nodes];
    dfa_.work().spend(2 + added.size() / 4);
    more_waiting_[at.more].insert(more_waiting_[at.more].end(), added.begin(), added.end());
  }

  // Takes the list of all nodes at which a place waits to be visited.
  ListId waiting(Place& place) {
    const ListId nodes = std::exchange(place.waiting, NONE);
    if (place.more == NONE || more_waiting_[place.more].empty()) return nodes;
    std::vector<NodeId>& all = more_waiting_[place.more];
    const std::span<const NodeId> first = lists_[nodes];
    all.insert(all.end(), first.begin(), first.end());
    const ListId id = lists_.intern_unsorted(all, dfa_.work());
    all.clear();
    return id;
  }

  // A list without some of the nodes below which everything is allowed. The result is kept, because most lists occur above many stacks.
  ListId narrowed(ListId nodes) {
    if (!tells_covered(nodes)) return nodes;
    if (const u32* found = narrowed_.find(nodes)) return ListId(*found);
    const ListId left = uncovered(nodes);
    narrowed_.insert(nodes, left);
    return left;
  }

  // Once many nodes were looked at, nodes whose tokens are all allowed already are skipped. Not in grammars with guards, which must know
  // each way to a node, also guards that a token itself enters: another way to the node may be the one that completes a seen value.
  bool tells_covered(ListId nodes) {
    if (dfa_.nfa().any_distinct) return false;
    looked_at_ += lists_[nodes].size();
    return looked_at_ >= trie_.thresholds().covered_nodes;
  }

  // The nodes with a token below them that is not allowed yet, NONE if there are none.
  ListId uncovered(ListId nodes) {
    const std::span<const NodeId> list = lists_[nodes];
    dfa_.work().spend(2 + list.size());
    if (!covered_) covered_.emplace(masks_.uncovered_tokens());
    for (; added_ < used_.size(); added_++) {
      const StateMask& mask = state_masks_[used_[added_]];
      dfa_.work().spend((mask.dense ? trie_.words() / 4 : 0) + (mask.tokens.end - mask.tokens.begin));
      covered_->add(state_masks_, mask);
    }
    fresh_.clear();
    for (const NodeId node : list)
      if (!covered_->covers(node)) fresh_.push_back(node);
    if (fresh_.size() == list.size()) return nodes;
    statistics_.covered++;
    return fresh_.empty() ? NONE : lists_.intern(fresh_);
  }

  // Adds the state's mask at the nodes, and follows its moves. A guard that the token itself has entered counts too: ",true" after
  // [true ends a seen value. So does the scope of a value in the token.
  void take(std::size_t v) {
    Place& place = places_[visits_[v]];
    const ListId nodes = waiting(place);
    const Visit at{tells_covered(nodes) ? uncovered(nodes) : nodes, place.state, place.below, place.passed};
    if (at.nodes == NONE) return;
    dfa_.work().at_dfa_state(at.state);
    dfa_.work().spend(8);
    const bool sole = v == 0 && stacks_.edge_count(configuration_) == 1;
    const bool few_left = counts_.scope_may_run_out(at.state);
    const u8 below = stacks_.guarded(at.below);
    auto below_watches = [&] { return below && (at.passed || (below & SCOPE_BELOW) || new_values_.guard_values(at.below, 1) > 0); };
    const bool watched = guarded_ || (at.passed && few_left) || below_watches();
    open_.assign(1, state_masks_.get(at.nodes, at.state, watched));
    while (!open_.empty()) {
      const StateMaskId id = open_.back();
      open_.pop_back();
      const StateMask mask = state_masks_[id];  // a copy: more may be made below
      dfa_.work().spend(4ull + (mask.moves.end - mask.moves.begin) + (mask.scarce.end - mask.scarce.begin) / 4);
      if (mask.dense || !mask.tokens.empty()) used_.push_back(id);
      const auto nested = state_masks_.nested(mask.nested);
      open_.insert(open_.end(), nested.begin(), nested.end());
      if (watched && (below || few_left) && !mask.scarce.empty()) take_scarce(mask, at, sole);
      for (u32 i = mask.moves.begin; i < mask.moves.end; i++) {
        StackMove move = state_masks_.move(i);
        move.nodes = narrowed(move.nodes);
        if (move.nodes != NONE) take_move(move, at, sole);
      }
    }
    if (sole && !refuted_.empty()) denied_.split_refuted(at.state, left_, refuted_, unverified_);
  }

  // Nodes at which few texts remain: refuted if all of them were seen. Fewer spellings of seen values than texts leave a new one, if all
  // are counted: those that only the state itself reads, without the rules that it calls, serve where it calls none.
  void take_scarce(const StateMask& mask, const Visit& at, bool sole) {
    if (spelled_below_ != at.below) {
      spelled_below_ = at.below;
      spelled_counted_ = !at.passed && spellings_.seen_texts(at.below, DEAD, &spelled_);
    }
    for (u32 i = mask.scarce.begin; i < mask.scarce.end; i++) {
      const ScarceNode scarce = state_masks_.scarce_node(i);
      if (spelled_counted_ && !at.passed && scarce.texts > 0) {
        if (count_at(scarce.node, spelled_) < scarce.texts) continue;
        if (const u32 texts = sole ? counts_.text_count(scarce.state) : UNKNOWN_COUNT; texts != UNKNOWN_COUNT) {
          if (!std::exchange(counted_alone_, true)) spellings_.seen_texts(at.below, at.state, &spelled_alone_);
          if (count_at(scarce.node, spelled_alone_) == texts) refuted_.push_back(scarce.node);
          continue;
        }
      } else if (counts_.surely_more(scarce.texts, all_values_, scarce.state)) {
        continue;
      }
      unverified_.push_back(scarce.node);
    }
  }

  void take_move(const StackMove& move, const Visit& at, bool sole) {
    if ((guarded_ || at.passed) && move.distinct && few_values(move.rule)) add_nodes(move.nodes, unverified_);
    if (sole && guarded_) add_nodes(move.nodes, left_);
    if (move.rule == NONE) return leave(move.nodes, at.below, at.passed, sole);
    const StateId start = dfa_.start(move.rule);
    if (start != DEAD) go_on(move.nodes, start, return_to(move.back, move.distinct, at.below), at.passed);
  }

  // Continues in `state` at a set of trie nodes, and in the rules that it calls before reading anything.
  void go_on(ListId nodes, StateId state, StackId below, bool passed) {
    entering_.clear();
    enter(nodes, state, below, passed);
    while (!entering_.empty()) {
      const Reached entered = entering_.back();
      const Place at = places_[entered.place];
      entering_.pop_back();
      dfa_.build(at.state);
      dfa_.work().spend(4ull * dfa_[at.state].call_count);
      for (u32 c = 0; c < dfa_[at.state].call_count; c++) {
        const Call call = dfa_.call(at.state, c);
        if (dfa_.start(call.rule) == DEAD) continue;
        if ((guarded_ || passed) && call.distinct && few_values(call.rule)) add_nodes(entered.nodes, unverified_);
        enter(entered.nodes, dfa_.start(call.rule), return_to(call.back, call.distinct, at.below), passed);
      }
    }
  }

  void enter(ListId nodes, StateId state, StackId below, bool passed) {
    const u8 flags = dfa_[state].flags;
    if (!(flags & (STATE_BYTES | STATE_CALLS))) return;
    const u32 id = place(state, below, passed, false);
    const ListId fresh = reach(id, nodes);
    if (fresh == NONE) return;
    if (flags & STATE_BYTES) visit(id, fresh);
    if (flags & STATE_CALLS) entering_.push_back({id, fresh});
  }

  // Continues in the states below an ended state, through guards that let the value pass.
  void leave(ListId from_nodes, StackId from_below, bool from_passed, bool sole) {
    leavings_.clear();
    pop(from_nodes, from_below, from_passed, sole);
    while (!leavings_.empty()) {
      const Reached left = leavings_.back();
      const Place at = places_[left.place];
      leavings_.pop_back();
      dfa_.work().spend(2ull + stacks_.edge_count(at.below));
      for (u32 k = 0; k < stacks_.edge_count(at.below); k++) {
        const StackEdge popped = stacks_.edges(at.below)[k];
        if (popped.state == BOTTOM) continue;
        const u8 flags = dfa_[popped.state].flags;
        if (flags & STATE_REGION) pop(left.nodes, popped.below, at.passed, sole);
        else if (flags & STATE_GUARD) leave_guard({left.nodes, at.state, at.below, at.passed}, popped, sole);
        else go_on_in_caller(left.nodes, popped.state, popped.below, at.passed);
      }
    }
  }

  void pop(ListId nodes, StackId below, bool passed, bool sole) {
    const u32 id = place(NONE, below, passed, sole);
    if (const ListId fresh = reach(id, nodes); fresh != NONE) leavings_.push_back({id, fresh});
  }

  // Passes a guard, at the nodes that do not complete a value which it has seen.
  void leave_guard(const Visit& at, const StackEdge& popped, bool sole) {
    const StateId back = dfa_.guard_back(popped.state);
    ListId nodes = at.nodes;
    if (at.passed || (dfa_.guard_text(popped.state) == IN_TOKEN && dfa_.seen_any(back))) {
      add_nodes(nodes, unverified_);
    } else if (dfa_.seen_any(back)) {
      denied_.find_seen(lists_[nodes], popped.state, kept_, seen_);
      statistics_.refusals += !seen_.empty();
      auto& refused = sole ? refuted_ : unverified_;
      refused.insert(refused.end(), seen_.begin(), seen_.end());
      if (kept_.empty()) return;
      nodes = lists_.intern(kept_);
    }
    // Here the token ends with a value, after which too few others may remain.
    if (counts_.scope_may_run_out(back)) add_nodes(nodes, unverified_);
    go_on_in_caller(nodes, back, popped.below, true);
    if (dfa_[back].flags & STATE_FINAL) pop(nodes, popped.below, true, sole);
  }

  // A token that ends here leaves its value unfinished. All completions of this value may be seen values, for example
  // after the last member of an object. The state masks record this for the states inside a rule.
  void go_on_in_caller(ListId nodes, StateId state, StackId below, bool passed) {
    const bool watched = (stacks_.guarded(below) & GUARD_BELOW) && (passed || new_values_.guard_values(below, 1) > 0);
    if (watched && few_texts(state)) add_nodes(nodes, unverified_);
    go_on(nodes, state, below, passed);
  }

  bool few_values(RuleId rule) {
    const StateId start = dfa_.start(rule);
    return start != DEAD && few_texts(start);
  }

  bool few_texts(StateId state) {
    return !counts_.has_unbounded_strings(state) && !counts_.surely_more(counts_.min_text_count(state), all_values_, state);
  }

  StackId return_to(StateId back, bool distinct, StackId below) {
    begins_value_ = begins_value_ || distinct;
    return stacks_.push(distinct ? dfa_.guard(back, IN_TOKEN) : back, below);
  }

  void add_nodes(ListId list, std::vector<NodeId>& nodes) const {
    const std::span<const NodeId> added = lists_[list];
    dfa_.work().spend(added.size());
    nodes.insert(nodes.end(), added.begin(), added.end());
  }
};

TokenMasks::TokenMasks(const TokenTrie& trie, RuleDfa& dfa, TextCounts& counts, StackSet& stacks, CoarseStacks& coarse,
                       SeenSpellings& spellings, NewValues& new_values, DeniedTokens& denied, StateMasks& state_masks,
                       Statistics& statistics)
    : trie_(trie), dfa_(dfa), counts_(counts), stacks_(stacks), coarse_(coarse), spellings_(spellings), new_values_(new_values),
      denied_(denied), state_masks_(state_masks), statistics_(statistics) {
  ids_.reserve(64);
  masks_.reserve(32, 256);
}

const CoveredTokens& TokenMasks::uncovered_tokens() {
  if (!uncovered_tokens_) uncovered_tokens_.emplace(trie_, alphabet(*dfa_.nfa().expressions));
  return *uncovered_tokens_;
}

MaskId TokenMasks::mask(StackId configuration) {
  if (const u32* found = ids_.find(configuration)) return MaskId(*found);
  const StackId coarse = stacks_.guarded(configuration) ? configuration : coarse_.of(configuration);
  MaskId id;
  if (const u32* found = coarse == configuration ? nullptr : ids_.find(coarse)) {
    id = MaskId(*found);
  } else {
    statistics_.masks++;
    PooledVector<u32> key;
    MaskComposer(*this, coarse).compose(key);
    id = MaskId(masks_.intern(key.data(), key.size()));
    ids_.insert(coarse, id);
  }
  if (coarse != configuration) ids_.insert(configuration, id);
  return id;
}

}  // namespace stackmask
