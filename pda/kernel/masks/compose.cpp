// Composes the mask of a configuration: a work list of places, each a state above a stack, with the trie nodes at which it is reached.
//
// A place continues only at the nodes that are new to it (semi-naive evaluation, Bancilhon & Ramakrishnan 1986), and takes all that have
// collected since its last visit together. So in an ambiguous grammar, where very many ways lead to a place, it is visited at most once for
// each length of a token, and each of its nodes is looked at once.
//
// A rule has a place for each stack that it is called above. Where places become many, further calls of a rule at the same nodes wait until
// no visit is left, and become one place above all their stacks (as the nodes of a graph-structured stack are shared, Tomita 1985):
//
//   l0 = "[" l1 "]" | l1    l1 = "[" l2 "]" | l2   ...   after "[" each of n rules calls the next, and that all behind it:
//                                                        n * n / 2 places above one stack each, or n places above all of them
#include <algorithm>
#include <bit>
#include <functional>
#include <tuple>

#include "grammar/alphabet.h"
#include "list_index.h"
#include "masks/reached_nodes.h"
#include "masks/token_masks.h"
#include "pooled.h"

namespace stackmask {

namespace {
constexpr u32 FEW_EDGES = 4;  // are followed again where their node is popped again
constexpr u32 MOST_SEEN = 100'000;  // more than any guard will have seen

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
        statistics_(masks.statistics_), configuration_(configuration), sole_(stacks_.edge_count(configuration) == 1),
        guards_(dfa_.nfa().any_distinct), many_places_(guards_ ? NONE : trie_.thresholds().many_places),
        many_nodes_(guards_ ? ~std::size_t{0} : trie_.thresholds().covered_nodes) {
    const u8 flags = stacks_.guarded(configuration);
    // Guards that have seen nothing cannot refuse the value that a token completes, unless it completes two.
    const u32 values = flags ? new_values_.guard_values(configuration, MOST_SEEN) : 0;
    guarded_ = values > 0 || (flags & SCOPE_BELOW);
    // Including the values of scopes, and those that a token itself completes.
    all_values_ = (flags ? new_values_.guard_values(configuration, MOST_SEEN, true) : 0) + trie_.max_token_bytes();
  }

  MaskComposer(const MaskComposer&) = delete;

  // State masks, NONE, sets of tokens, NONE, denied tokens.
  std::span<const u32> compose() {
    begin();
    for (std::size_t v = 0; v < l_.visits.size();) {
      while (v < l_.visits.size()) take(v++);
      if (!l_.calls.empty()) make_calls();
    }
    if (l_.used.size() > 1) {
      std::sort(l_.used.begin(), l_.used.end());
      l_.used.erase(std::unique(l_.used.begin(), l_.used.end()), l_.used.end());
    }
    // State masks with a bitmask first: they are copied, the others added.
    for (const bool dense : {true, false})
      for (const StateMaskId id : l_.used)
        if ((state_masks_[id].dense != nullptr) == dense) l_.key.push_back(id);
    l_.key.push_back(NONE);
    for (const u32 set : l_.token_sets) l_.key.push_back(set);
    l_.key.push_back(NONE);
    if (!l_.unverified.empty() || !l_.refuted.empty() || begins_value_ || stacks_.guarded(configuration_)) add_denied();
    return l_.key;
  }

  // Whether the mask depends on the upper levels of the stack alone, see upper_levels.h; the nodes whose edges it read, in any order.
  bool reads_upper_levels() const { return !guards_ && !joins_ && (!unites_ || dfa_.nfa().heads.empty()); }
  std::span<const StackId> read() const { return l_.read; }

 private:
  // A state above a stack; or, if the state is NONE, a stack to which a state above it was left.
  struct Place {
    u64 key;  // of the next four
    StateId state;
    StackId below;
    bool passed;  // through a guard: its scope has then seen more values than its state records
    bool sole;  // it is the only stack, and is left
    ListId reached;  // the nodes at which it was reached, NONE for those in `all`
    ListId waiting;  // the nodes at which it is still to be visited, NONE for none
    u32 more;  // index into more_waiting: further lists of such nodes, NONE if it never had any
    u32 all;  // index into all_nodes
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
  struct Leaving {
    ListId nodes;
    StackId below;
    bool passed;
  };
  struct WaitingCall {
    u32 rank;  // of the rule; callers at the same nodes have smaller ones
    RuleId rule;
    ListId nodes;
    StackId below;
    bool together_with(const WaitingCall& other) const { return rule == other.rule && nodes == other.nodes; }
    bool operator>(const WaitingCall& other) const { return std::tie(rank, rule, nodes) > std::tie(other.rank, other.rule, other.nodes); }
  };
  struct Lists {
    std::vector<Place> places;
    ListIndex place_of;
    std::vector<ReachedNodes> all_nodes;  // [0, all_nodes_used), the others keep their memory for places to come
    std::vector<std::vector<NodeId>> more_waiting;  // [0, more_waiting_used): lists in a row, no node twice
    u32 all_nodes_used = 0, more_waiting_used = 0;
    std::vector<u32> visits;  // places
    std::optional<CoveredTokens> covered;  // by used[0, added_), once many nodes were looked at
    FlatMap narrowed;  // by list
    std::vector<StateMaskId> used;  // the mask's state masks
    std::vector<u32> token_sets;  // ... and sets of tokens read by id
    std::vector<NodeId> unverified, refuted;  // trie nodes, see denied_tokens.h
    std::vector<NodeId> left;  // nodes at which the state of a sole stack is left
    // (node, spellings of seen values on the way) for spelled_below_, and of these the ones that the state of a sole stack itself reads
    std::vector<std::pair<NodeId, u32>> spelled, spelled_alone;
    std::vector<u32> bits, key;
    // Used by go_on(), leave() and take(); kept to reuse their memory.
    std::vector<Reached> entering;
    std::vector<Leaving> leavings;
    std::vector<StackId> read;  // nodes, each as often as it was
    std::vector<WaitingCall> calls;  // a heap, least ranks first
    std::vector<StackId> callers;
    FlatMap called;  // rules at lists of nodes
    std::vector<StateMaskId> open;
    std::vector<NodeId> kept, seen, fresh;
    void clear() {
      if (covered || narrowed.bytes() || called.bytes()) clear_rare();
      for (; more_waiting_used; more_waiting_used--) more_waiting[more_waiting_used - 1].clear();
      for (; all_nodes_used; all_nodes_used--) all_nodes[all_nodes_used - 1].clear();
      place_of.clear(), places.clear(), visits.clear(), used.clear(), token_sets.clear(), unverified.clear(), refuted.clear();
      left.clear(), spelled.clear(), spelled_alone.clear(), bits.clear(), key.clear(), entering.clear(), leavings.clear(), calls.clear();
      read.clear(), open.clear(), kept.clear(), seen.clear(), fresh.clear();
    }
    STACKMASK_NOINLINE void clear_rare() { covered.reset(), narrowed.clear(), called.clear(); }
    STACKMASK_NOINLINE void free() {
      const auto each = [](auto&... list) { (..., std::exchange(list, {})); };
      each(places, all_nodes, more_waiting, visits, used, token_sets, unverified, refuted, left, spelled, spelled_alone, bits, key,
           entering, leavings, calls, callers, read, open, kept, seen, fresh);
    }
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
  bool sole_;  // it has one edge
  bool guards_;  // the grammar has some; otherwise the stack has no regions either, see coarse_stacks.h
  // From how many places on calls wait for others, and how many nodes on covered ones are skipped; guards must know each way to a place.
  u32 many_places_;
  std::size_t many_nodes_;
  bool guarded_;  // some guard may refuse a value
  u32 all_values_;  // the number of values that guards and scopes may have seen after a token
  std::size_t looked_at_ = 0, added_ = 0;
  bool begins_value_ = false;  // a token enters a value that must differ
  bool unites_ = false, joins_ = false;  // nodes of the stack: returns to states that may end, and calls of one rule
  StackId spelled_below_ = NONE;
  bool spelled_counted_ = false, counted_alone_ = false, much_below_ = false, unseen_below_ = false;
  Pooled<Lists> pooled_{dfa_.work()};
  Lists& l_ = *pooled_;

  STACKMASK_NOINLINE void add_denied() {
    PooledVector<TokenId> denied;
    statistics_.unverified += !l_.unverified.empty(), statistics_.refuted += !l_.refuted.empty();
    if (!l_.unverified.empty() || !l_.refuted.empty()) {
      // PERF: of 59,000 tokens after a blank between two arrays, masks hold 900.
      const bool many = nodes_below(l_.unverified) + nodes_below(l_.refuted) >= trie_.thresholds().tried_nodes;
      statistics_.held_trials += many;
      denied_.find_denied(configuration_, many ? bits() : nullptr, l_.unverified, l_.refuted, denied);
    }
    if (begins_value_ || stacks_.guarded(configuration_)) denied_.find_zeros(configuration_, begins_value_, denied);
    l_.key.insert(l_.key.end(), denied.begin(), denied.end());
  }

  // The mask so far, as bits.
  const u32* bits() {
    dfa_.work().spend((1 + l_.used.size()) * (1 + trie_.words() / 32));
    l_.bits.resize(trie_.words());
    bool first = true;
    for (const StateMaskId id : l_.used) masks_.add(state_masks_[id], std::exchange(first, false), l_.bits.data());
    return l_.bits.data();
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
      for (u32 t = 0; t < dfa_[edge.state].token_count; t++) l_.token_sets.push_back(dfa_.token_edge(edge.state, t).set);
      if (dfa_[edge.state].flags & STATE_BYTES) visit(place(edge.state, edge.below, false, false), NodeLists::ROOT);
    }
  }

  u32 place(StateId state, StackId below, bool passed, bool sole) {
    // INVARIANT: there are fewer than 2^30 states
    const u64 key = (static_cast<u64>(state & 0x3FFFFFFF) << 2 | (sole ? 2u : 0u) | (passed ? 1u : 0u)) << 32 | below;
    if (const u32 found = l_.place_of.find(l_.places, key, [](const Place& place) { return place.key; }); found != NONE) return found;
    l_.places.push_back({key, state, below, passed, sole, NONE, NONE, NONE, NONE});
    return static_cast<u32>(l_.places.size() - 1);
  }

  // The list of the nodes that are new to a place, NONE if there are none.
  ListId reach(u32 id, ListId nodes) {
    Place& at = l_.places[id];
    if (at.all == NONE) {
      if (at.reached == nodes) return NONE;
      if (at.reached == NONE) return at.reached = nodes;
      if (l_.all_nodes_used == l_.all_nodes.size()) l_.all_nodes.emplace_back();
      at.all = l_.all_nodes_used++;
      l_.all_nodes[at.all].add_first(lists_[at.reached]);
    }
    const std::span<const NodeId> added = lists_[nodes];
    l_.all_nodes[at.all].add(added, trie_.node_count(), dfa_.work(), l_.fresh);
    if (l_.fresh.empty()) return NONE;
    return l_.fresh.size() == added.size() ? nodes : lists_.intern(l_.fresh);
  }

  // The nodes at which the place was neither visited before nor waits to be.
  void visit(u32 id, ListId nodes) {
    Place& at = l_.places[id];
    if (at.waiting == NONE) {
      at.waiting = nodes;
      l_.visits.push_back(id);
      return;
    }
    if (at.more == NONE) {
      if (l_.more_waiting_used == l_.more_waiting.size()) l_.more_waiting.emplace_back();
      at.more = l_.more_waiting_used++;
    }
    const std::span<const NodeId> added = lists_[nodes];
    dfa_.work().spend(2 + added.size() / 4);
    l_.more_waiting[at.more].insert(l_.more_waiting[at.more].end(), added.begin(), added.end());
  }

  // Takes the list of all nodes at which a place waits to be visited.
  ListId waiting(Place& place) {
    const ListId nodes = std::exchange(place.waiting, NONE);
    if (place.more == NONE || l_.more_waiting[place.more].empty()) return nodes;
    std::vector<NodeId>& all = l_.more_waiting[place.more];
    const std::span<const NodeId> first = lists_[nodes];
    all.insert(all.end(), first.begin(), first.end());
    const ListId id = lists_.intern_unsorted(all, dfa_.work());
    all.clear();
    return id;
  }

  // A list without some of the nodes below which everything is allowed. The result is kept, because most lists occur above many stacks.
  ListId narrowed(ListId nodes) {
    if (!tells_covered(nodes)) return nodes;
    if (const u32* found = l_.narrowed.find(nodes)) return ListId(*found);
    const ListId left = uncovered(nodes);
    l_.narrowed.insert(nodes, left);
    return left;
  }

  // Once many nodes were looked at, nodes whose tokens are all allowed already are skipped. Not in grammars with guards, which must know
  // each way to a node, also guards that a token itself enters: another way to the node may be the one that completes a seen value.
  bool tells_covered(ListId nodes) { return (looked_at_ += lists_[nodes].size()) >= many_nodes_; }

  // The nodes with a token below them that is not allowed yet, NONE if there are none.
  STACKMASK_NOINLINE ListId uncovered(ListId nodes) {
    const std::span<const NodeId> list = lists_[nodes];
    dfa_.work().spend(2 + list.size());
    if (!l_.covered) l_.covered.emplace(masks_.uncovered_tokens());
    for (; added_ < l_.used.size(); added_++) {
      const StateMask& mask = state_masks_[l_.used[added_]];
      dfa_.work().spend((mask.dense ? trie_.words() / 4 : 0) + (mask.tokens.end - mask.tokens.begin));
      l_.covered->add(state_masks_, mask);
    }
    l_.fresh.clear();
    for (const NodeId node : list)
      if (!l_.covered->covers(node)) l_.fresh.push_back(node);
    if (l_.fresh.size() == list.size()) return nodes;
    statistics_.covered++;
    return l_.fresh.empty() ? NONE : lists_.intern(l_.fresh);
  }

  // Adds the state's mask at the nodes, and follows its moves. A guard that the token itself has entered counts too: ",true" after
  // [true ends a seen value. So does the scope of a value in the token.
  void take(std::size_t v) {
    Place& place = l_.places[l_.visits[v]];
    const ListId nodes = waiting(place);
    const Visit at{tells_covered(nodes) ? uncovered(nodes) : nodes, place.state, place.below, place.passed};
    if (at.nodes == NONE) return;
    dfa_.work().at_dfa_state(at.state);
    dfa_.work().spend(8);
    const bool sole = v == 0 && sole_;
    const bool few_left = counts_.scope_may_run_out(at.state);
    const u8 below = stacks_.guarded(at.below);
    auto below_watches = [&] { return below && (at.passed || (below & SCOPE_BELOW) || new_values_.guard_values(at.below, 1) > 0); };
    const bool watched = guarded_ || (at.passed && few_left) || below_watches();
    for (StateMaskId id = state_masks_.get(at.nodes, at.state, watched);;) {
      const StateMask mask = state_masks_[id];  // a copy: more may be made below
      dfa_.work().spend(4ull + (mask.moves.end - mask.moves.begin) + (mask.scarce.end - mask.scarce.begin) / 4);
      if (mask.dense || !mask.tokens.empty()) l_.used.push_back(id);
      for (const StateMaskId nested : state_masks_.nested(mask.nested)) l_.open.push_back(nested);
      if (watched && (below || few_left) && !mask.scarce.empty()) take_scarce(mask, at, sole);
      for (u32 i = mask.moves.begin; i < mask.moves.end; i++) {
        StackMove move = state_masks_.move(i);
        move.nodes = narrowed(move.nodes);
        if (move.nodes != NONE) take_move(move, at, sole);
      }
      if (l_.open.empty()) break;
      id = l_.open.back();
      l_.open.pop_back();
    }
    if (sole && !l_.refuted.empty()) denied_.split_refuted(at.state, l_.left, l_.refuted, l_.unverified);
  }

  // Nodes at which few texts remain: refuted if all of them were seen. Fewer spellings of seen values than texts leave a new one, if all
  // are counted: those that only the state itself reads, without the rules that it calls, serve where it calls none.
  STACKMASK_NOINLINE void take_scarce(const StateMask& mask, const Visit& at, bool sole) {
    if (spelled_below_ != at.below) {
      spelled_below_ = at.below;
      spelled_counted_ = !at.passed && new_values_.others_pass(at.below) && spellings_.seen_texts(at.below, DEAD, &l_.spelled);
      much_below_ = new_values_.callers_have_more(at.below, all_values_);
      unseen_below_ = new_values_.guard_values(at.below, 1) == 0;
    }
    // Guards that have seen nothing, or not as much as can follow below, refuse nothing.
    const bool all_new = much_below_ || (unseen_below_ && !at.passed);
    for (u32 i = mask.scarce.begin; i < mask.scarce.end; i++) {
      const ScarceNode scarce = state_masks_.scarce_node(i);
      if (all_new && scarce.state != DEAD) continue;
      if (spelled_counted_ && !at.passed && scarce.texts > 0) {
        if (count_at(scarce.node, l_.spelled) < scarce.texts) continue;
        if (const u32 texts = sole ? counts_.text_count(scarce.state) : UNKNOWN_COUNT; texts != UNKNOWN_COUNT) {
          if (!std::exchange(counted_alone_, true)) spellings_.seen_texts(at.below, at.state, &l_.spelled_alone);
          if (count_at(scarce.node, l_.spelled_alone) == texts) l_.refuted.push_back(scarce.node);
          continue;
        }
      } else if (counts_.surely_more(scarce.texts, all_values_, scarce.state)) {
        continue;
      }
      l_.unverified.push_back(scarce.node);
    }
  }

  void take_move(const StackMove& move, const Visit& at, bool sole) {
    if ((guarded_ || at.passed) && move.distinct && few_values(move.rule)) add_nodes(move.nodes, l_.unverified);
    if (sole && guarded_) add_nodes(move.nodes, l_.left);
    if (move.rule == NONE) return leave(move.nodes, at.below, at.passed, sole);
    const StateId start = dfa_.start(move.rule);
    if (start == DEAD) return;
    const StackId below = return_to(move.back, move.distinct, at.below);
    if (!waits(move.nodes, move.rule, below)) go_on(move.nodes, start, below, at.passed);
  }

  // Whether a call has to wait for others: places are many, and the rule was called at the same nodes before.
  bool waits(ListId nodes, RuleId rule, StackId below) { return l_.places.size() >= many_places_ && call_later(nodes, rule, below); }

  STACKMASK_NOINLINE bool call_later(ListId nodes, RuleId rule, StackId below) {
    dfa_.work().spend(4);
    const u64 key = static_cast<u64>(rule) << 32 | nodes;
    if (!l_.called.find(key)) {
      l_.called.insert(key, 1);
      return false;
    }
    l_.calls.push_back({dfa_.nfa().rules[rule].rank, rule, nodes, below});
    std::push_heap(l_.calls.begin(), l_.calls.end(), std::greater<>());
    return true;
  }

  // Makes the waiting calls, callers before callees.
  STACKMASK_NOINLINE void make_calls() {
    while (!l_.calls.empty()) {
      const WaitingCall first = l_.calls.front();
      l_.callers.clear();
      while (!l_.calls.empty() && l_.calls.front().together_with(first)) {
        l_.callers.push_back(l_.calls.front().below);
        std::pop_heap(l_.calls.begin(), l_.calls.end(), std::greater<>());
        l_.calls.pop_back();
      }
      StackId below = l_.callers.front();
      if (l_.callers.size() > 1) {
        statistics_.united_calls++, joins_ = true;
        below = stacks_.join(l_.callers);
      }
      go_on(first.nodes, dfa_.start(first.rule), below, false);
    }
  }

  // Continues in a state at a set of trie nodes, and in the rules that it calls before reading anything.
  void go_on(ListId nodes, StateId first, StackId first_below, bool passed) {
    enter(nodes, first, first_below, passed);
    while (!l_.entering.empty()) {
      const Reached entered = l_.entering.back();
      l_.entering.pop_back();
      const auto [state, below] = StackEdge{l_.places[entered.place].state, l_.places[entered.place].below};
      dfa_.build(state);
      dfa_.work().spend(4ull * dfa_[state].call_count);
      for (u32 c = 0; c < dfa_[state].call_count; c++) {
        const Call call = dfa_.call(state, c);
        if (dfa_.start(call.rule) == DEAD) continue;
        if ((guarded_ || passed) && call.distinct && few_values(call.rule)) add_nodes(entered.nodes, l_.unverified);
        const StackId returned = return_to(call.back, call.distinct, below);
        if (!waits(entered.nodes, call.rule, returned)) enter(entered.nodes, dfa_.start(call.rule), returned, passed);
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
    if (flags & STATE_CALLS) l_.entering.push_back({id, fresh});
  }

  // Continues in the states below an ended state, through guards that let the value pass.
  void leave(ListId from_nodes, StackId from_below, bool from_passed, bool sole) {
    const u32 edges = stacks_.edge_count(from_below);
    // PERF: the same loop for both cases takes 3 % longer in ambiguous grammars. Without guards there are no regions either.
    if (!guards_ && edges <= FEW_EDGES) {
      dfa_.work().spend(2ull + edges);
      l_.read.push_back(from_below);
      for (u32 k = 0; k < edges; k++) {
        const StackEdge popped = stacks_.edges(from_below)[k];
        if (popped.state != BOTTOM) go_on(from_nodes, popped.state, popped.below, from_passed);
      }
      return;
    }
    pop(from_nodes, from_below, from_passed, sole);
    while (!l_.leavings.empty()) {
      const Leaving at = l_.leavings.back();
      l_.leavings.pop_back();
      const u32 count = stacks_.edge_count(at.below);
      dfa_.work().spend(2ull + count);
      l_.read.push_back(at.below);
      for (u32 k = 0; k < count; k++) {
        const StackEdge popped = stacks_.edges(at.below)[k];
        if (popped.state == BOTTOM) continue;
        const u8 flags = dfa_[popped.state].flags;
        if (flags & STATE_REGION) pop(at.nodes, popped.below, at.passed, sole);
        else if (flags & STATE_GUARD) leave_guard(at, popped, sole);
        else go_on_in_caller(at.nodes, popped.state, popped.below, at.passed);
      }
    }
  }

  void pop(ListId nodes, StackId below, bool passed, bool sole) {
    if (const ListId fresh = reach(place(NONE, below, passed, sole), nodes); fresh != NONE) l_.leavings.push_back({fresh, below, passed});
  }

  // Passes a guard, at the nodes that do not complete a value which it has seen.
  STACKMASK_NOINLINE void leave_guard(const Leaving& at, const StackEdge& popped, bool sole) {
    const StateId back = dfa_.guard_back(popped.state);
    ListId nodes = at.nodes;
    if (at.passed || (dfa_.guard_text(popped.state) == IN_TOKEN && dfa_.seen_any(back))) {
      add_nodes(nodes, l_.unverified);
    } else if (dfa_.seen_any(back)) {
      denied_.find_seen(lists_[nodes], popped.state, l_.kept, l_.seen);
      statistics_.refusals += !l_.seen.empty();
      auto& refused = sole ? l_.refuted : l_.unverified;
      refused.insert(refused.end(), l_.seen.begin(), l_.seen.end());
      if (l_.kept.empty()) return;
      nodes = lists_.intern(l_.kept);
    }
    // Here the token ends with a value, after which too few others may remain.
    if (counts_.scope_may_run_out(back)) add_nodes(nodes, l_.unverified);
    go_on_in_caller(nodes, back, popped.below, true);
    if (dfa_[back].flags & STATE_FINAL) pop(nodes, popped.below, true, sole);
  }

  // A token that ends here leaves its value unfinished. All completions of this value may be seen values, for example
  // after the last member of an object. The state masks record this for the states inside a rule.
  void go_on_in_caller(ListId nodes, StateId state, StackId below, bool passed) {
    const bool watched = (stacks_.guarded(below) & GUARD_BELOW) && (passed || new_values_.guard_values(below, 1) > 0);
    if (watched && few_texts(state) && !new_values_.callers_have_more(below, all_values_)) add_nodes(nodes, l_.unverified);
    go_on(nodes, state, below, passed);
  }

  bool few_values(RuleId rule) {
    const StateId start = dfa_.start(rule);
    return start != DEAD && few_texts(start);
  }

  bool few_texts(StateId state) { return !counts_.has_more(state, all_values_); }

  StackId return_to(StateId back, bool distinct, StackId below) {
    begins_value_ = begins_value_ || distinct;
    if ((dfa_[back].flags & STATE_FINAL) && !dfa_.only_ends(back)) {  // its node has the edges of the node below, see StackSet::push
      unites_ = true;
      l_.read.push_back(below);
    }
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
      denied_(denied), state_masks_(state_masks), statistics_(statistics), upper_levels_(dfa, stacks) {
  ids_.reserve(64);
  masks_.reserve(32, 256);
}

const CoveredTokens& TokenMasks::uncovered_tokens() {
  if (!uncovered_tokens_) uncovered_tokens_.emplace(trie_, alphabet(*dfa_.nfa().expressions));
  return *uncovered_tokens_;
}

MaskId TokenMasks::compose(StackId configuration) {
  statistics_.masks++;
  MaskComposer composer(*this, configuration);
  const std::span<const u32> key = composer.compose();
  const MaskId id(masks_.intern(key.data(), key.size()));
  if (composer.reads_upper_levels()) upper_levels_.add(configuration, id, composer.read());
  return id;
}

MaskId TokenMasks::mask(StackId configuration) {
  if (const u32* found = ids_.find(configuration)) return MaskId(*found);
  const StackId coarse = stacks_.guarded(configuration) ? configuration : coarse_.of(configuration);
  MaskId id;
  if (const u32* found = coarse == configuration ? nullptr : ids_.find(coarse)) {
    id = MaskId(*found);
  } else {
    id = upper_levels_.find(coarse);
    if (id == NONE) id = compose(coarse);
    else statistics_.same_levels++;
    ids_.insert(coarse, id);
  }
  if (coarse != configuration) ids_.insert(configuration, id);
  return id;
}

}  // namespace stackmask
