// Composes the mask of a configuration: a work list of visits, each a state at a set of trie nodes above a stack.
#include <algorithm>

#include "masks/token_masks.h"

namespace stackmask {

namespace {
constexpr u32 MOST_VALUES = 100'000;  // more than any guard will have seen
}

class MaskComposer {
 public:
  MaskComposer(TokenMasks& masks, u32 configuration)
      : trie_(masks.trie_), dfa_(masks.dfa_), counts_(masks.counts_), stacks_(masks.stacks_), spellings_(masks.spellings_),
        new_values_(masks.new_values_), denied_(masks.denied_), state_masks_(masks.state_masks_), lists_(masks.state_masks_.lists()),
        statistics_(masks.statistics_), configuration_(configuration) {
    const u8 flags = stacks_.guarded(configuration);
    // Guards that have seen nothing cannot refuse what a token completes, unless it completes two values.
    const u32 values = flags ? new_values_.guard_values(configuration, MOST_VALUES) : 0;
    guarded_ = values > 0 || (flags & SCOPE_BELOW);
    // With those of scopes, and those that a token completes itself.
    all_values_ = (flags ? new_values_.guard_values(configuration, MOST_VALUES, true) : 0) + trie_.max_token_bytes();
  }

  // State masks, NONE, sets of tokens, NONE, denied tokens.
  void compose(std::vector<u32>& key) {
    begin();
    for (std::size_t v = 0; v < visits_.size(); v++) take(v);
    Scratch<i32> denied;
    statistics_.unverified += !unverified_.empty(), statistics_.refuted += !refuted_.empty();
    if (!unverified_.empty() || !refuted_.empty()) denied_.find_denied(configuration_, unverified_, refuted_, denied);
    std::sort(used_.begin(), used_.end());
    used_.erase(std::unique(used_.begin(), used_.end()), used_.end());
    // State masks with a bitmask first: they are copied, the others added.
    for (const bool dense : {true, false})
      for (const u32 id : used_)
        if ((state_masks_[id].dense != nullptr) == dense) key.push_back(id);
    key.push_back(NONE);
    key.insert(key.end(), token_sets_.begin(), token_sets_.end());
    key.push_back(NONE);
    key.insert(key.end(), denied.begin(), denied.end());
  }

 private:
  struct Visit {
    u32 nodes, state, below;
    bool passed;  // a guard: what its scope has seen is then more than its state knows
    bool operator==(const Visit&) const = default;
  };
  struct Leaving {
    u32 nodes, below;
    bool passed;
  };
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
  u32 configuration_;
  bool guarded_;       // some guard may refuse a value
  u32 all_values_;     // that guards and scopes may have seen behind a token
  Scratch<Visit> visits_;
  Scratch<u32> used_, token_sets_;        // the mask: state masks, sets of tokens read by id
  Scratch<u32> unverified_, refuted_;     // trie nodes, see denied_tokens.h
  Scratch<u32> left_;                     // nodes at which the state of a sole stack is left
  Scratch<std::pair<u32, u32>> spelled_;  // (node, spellings of seen values on the way) for spelled_below_
  u32 spelled_below_ = NONE;
  bool spelled_counted_ = false;
  // Of go_on(), leave() and take(), kept for their memory.
  Scratch<StackEdge> entering_;
  Scratch<Leaving> leavings_;
  Scratch<u32> kept_, seen_, open_;

  // What each stack begins with: tokens read by id, and its state at the root of the trie.
  void begin() {
    for (u32 i = 0; i < stacks_.edge_count(configuration_); i++) {
      const StackEdge edge = stacks_.edges(configuration_)[i];
      if (edge.state == BOTTOM) continue;
      dfa_.build(edge.state);
      for (u32 t = 0; t < dfa_[edge.state].token_count; t++) token_sets_.push_back(dfa_.token_edge(edge.state, t).set);
      if (dfa_[edge.state].flags & STATE_BYTES) visit(NodeLists::ROOT, edge.state, edge.below, false);
    }
  }

  void visit(u32 nodes, u32 state, u32 below, bool passed) {
    const Visit added{nodes, state, below, passed};
    if (std::find(visits_.begin(), visits_.end(), added) == visits_.end()) visits_.push_back(added);
  }

  // Adds the state's mask at the nodes, and all that it leads to. A guard that the token itself has entered counts too: ",true" behind
  // [true ends a value that was seen. So does the scope that a value of the token is in.
  void take(std::size_t v) {
    const Visit at = visits_[v];
    const bool sole = v == 0 && stacks_.edge_count(configuration_) == 1;
    const bool few_left = counts_.scope_may_run_out(at.state);
    const u8 below = stacks_.guarded(at.below);
    auto below_watches = [&] { return below && (at.passed || (below & SCOPE_BELOW) || new_values_.guard_values(at.below, 1) > 0); };
    const bool watched = guarded_ || (at.passed && few_left) || below_watches();
    open_.assign(1, state_masks_.get(at.nodes, at.state, watched));
    while (!open_.empty()) {
      const u32 id = open_.back();
      open_.pop_back();
      const StateMask mask = state_masks_[id];  // more may be made below
      if (mask.dense || !mask.tokens.empty()) used_.push_back(id);
      const auto nested = state_masks_.nested(mask.nested);
      open_.insert(open_.end(), nested.begin(), nested.end());
      if (watched && (below || few_left) && !mask.scarce.empty()) take_scarce(mask, at, sole, v == 1);
      for (u32 i = mask.moves.begin; i < mask.moves.end; i++) take_move(state_masks_.move(i), at, sole);
    }
    if (sole && !refuted_.empty()) denied_.split_refuted(at.state, left_, refuted_, unverified_);
  }

  // Nodes at which few texts are left: refuted where all of them were seen.
  void take_scarce(const StateMask& mask, const Visit& at, bool sole, bool anew) {
    if (spelled_below_ != at.below || anew) {
      spelled_below_ = at.below;
      spelled_counted_ = !at.passed && spellings_.seen_texts(at.below, sole ? at.state : DEAD, &spelled_);
    }
    for (u32 i = mask.scarce.begin; i < mask.scarce.end; i++) {
      const ScarceNode scarce = state_masks_.scarce_node(i);
      if (spelled_counted_ && !at.passed && scarce.texts > 0) {
        // As many values must have been seen that begin like this as there are ways to go on.
        const auto found = std::lower_bound(spelled_.begin(), spelled_.end(), std::pair<u32, u32>{scarce.node, 0});
        if (found == spelled_.end() || found->first != scarce.node || found->second < scarce.texts) continue;
        if (const u32 texts = sole ? counts_.text_count(scarce.state) : UNKNOWN_COUNT; texts != UNKNOWN_COUNT) {
          if (texts == found->second) refuted_.push_back(scarce.node);
          continue;
        }
      } else if (counts_.surely_more(scarce.texts, all_values_)) {
        continue;
      }
      unverified_.push_back(scarce.node);
    }
  }

  void take_move(const StackMove& move, const Visit& at, bool sole) {
    if ((guarded_ || at.passed) && move.distinct && few_values(move.rule)) add_nodes(move.nodes, unverified_);
    if (sole && guarded_) add_nodes(move.nodes, left_);
    if (move.rule == NONE) return leave(move.nodes, at.below, at.passed, sole);
    const u32 start = dfa_.start(move.rule);
    if (start != DEAD) go_on(move.nodes, start, return_to(move.back, move.distinct, at.below), at.passed);
  }

  // Goes on in `state` at a set of trie nodes: there, and in whatever it calls before reading anything.
  void go_on(u32 nodes, u32 state, u32 below, bool passed) {
    entering_.assign(1, {state, below});
    for (std::size_t i = 0; i < entering_.size(); i++) {
      const StackEdge edge = entering_[i];
      if (dfa_[edge.state].flags & STATE_BYTES) visit(nodes, edge.state, edge.below, passed);
      if (!(dfa_[edge.state].flags & STATE_CALLS)) continue;
      dfa_.build(edge.state);
      for (u32 c = 0; c < dfa_[edge.state].call_count; c++) {
        const Call call = dfa_.call(edge.state, c);
        if (dfa_.start(call.rule) == DEAD) continue;
        if ((guarded_ || passed) && call.distinct && few_values(call.rule)) add_nodes(nodes, unverified_);
        const StackEdge next{dfa_.start(call.rule), return_to(call.back, call.distinct, edge.below)};
        if (std::find(entering_.begin(), entering_.end(), next) == entering_.end()) entering_.push_back(next);
      }
    }
  }

  // Goes on in what stands below an ended state, through guards that let the value pass.
  void leave(u32 from_nodes, u32 from_below, bool from_passed, bool sole) {
    leavings_.assign(1, {from_nodes, from_below, from_passed});
    for (std::size_t l = 0; l < leavings_.size(); l++) {
      const Leaving at = leavings_[l];
      for (u32 k = 0; k < stacks_.edge_count(at.below); k++) {
        const StackEdge popped = stacks_.edges(at.below)[k];
        if (popped.state == BOTTOM) continue;
        const u8 flags = dfa_[popped.state].flags;
        if (flags & STATE_REGION) leavings_.push_back({at.nodes, popped.below, at.passed});
        else if (flags & STATE_GUARD) leave_guard(at, popped, sole);
        else go_on(at.nodes, popped.state, popped.below, at.passed);
      }
    }
  }

  // Through a guard, at the nodes that do not complete a value which it has seen.
  void leave_guard(const Leaving& at, const StackEdge& popped, bool sole) {
    const u32 back = dfa_.guard_back(popped.state);
    u32 nodes = at.nodes;
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
    // Here the token ends with a value, behind which there may be too few others.
    if (counts_.scope_may_run_out(back)) add_nodes(nodes, unverified_);
    go_on(nodes, back, popped.below, true);
    if (dfa_[back].flags & STATE_FINAL) leavings_.push_back({nodes, popped.below, true});
  }

  bool few_values(u32 rule) {
    const u32 start = dfa_.start(rule);
    return start != DEAD && !counts_.has_unbounded_strings(start) && !counts_.surely_more(counts_.min_text_count(start), all_values_);
  }

  u32 return_to(u32 back, bool distinct, u32 below) { return stacks_.push(distinct ? dfa_.guard(back, IN_TOKEN) : back, below); }

  void add_nodes(u32 list, std::vector<u32>& nodes) const {
    const std::span<const u32> added = lists_[list];
    nodes.insert(nodes.end(), added.begin(), added.end());
  }
};

TokenMasks::TokenMasks(const TokenTrie& trie, RuleDfa& dfa, TextCounts& counts, StackSet& stacks, SeenSpellings& spellings,
                       NewValues& new_values, DeniedTokens& denied, StateMasks& state_masks, Statistics& statistics)
    : trie_(trie), dfa_(dfa), counts_(counts), stacks_(stacks), spellings_(spellings), new_values_(new_values), denied_(denied),
      state_masks_(state_masks), statistics_(statistics) {
  ids_.reserve(64);
  masks_.reserve(32, 256);
}

u32 TokenMasks::mask(u32 configuration) {
  if (const u32* found = ids_.find(configuration)) return *found;
  statistics_.masks++;
  Scratch<u32> key;
  MaskComposer(*this, configuration).compose(key);
  const u32 id = masks_.intern(key.data(), key.size());
  ids_.insert(configuration, id);
  return id;
}

}  // namespace stackmask
