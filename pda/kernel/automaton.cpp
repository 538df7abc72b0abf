#include "automaton.h"

#include <algorithm>

namespace stackmask {

namespace {

constexpr std::size_t MOST_NAMES = 64;  // of rules, in a message

Nfa compile(std::shared_ptr<Expressions> expressions, const TokenTrie& trie, const Limits& limits) {
  Deadline deadline(limits.seconds);
  expressions->validate(trie.size());
  return lower(std::move(expressions), trie, limits, deadline);
}

}  // namespace

Automaton::Automaton(std::shared_ptr<const TokenTrie> trie, std::shared_ptr<Expressions> expressions, const Limits& limits)
    : trie_(std::move(trie)),
      limits_(limits),
      dfa_(compile(std::move(expressions), *trie_, limits), trie_->thresholds(), limits),
      counters_(dfa_, trie_->max_token_bytes()),
      counts_(dfa_, trie_->max_token_bytes()),
      stacks_(dfa_, counts_, limits),
      coarse_(dfa_, counters_, stacks_),
      spellings_(*trie_, dfa_, stacks_, statistics_),
      new_values_(dfa_, counts_, stacks_, spellings_, statistics_),
      regions_(dfa_, stacks_),
      steps_(*trie_, dfa_, stacks_, new_values_, regions_, statistics_),
      loops_(dfa_, counters_, trie_->thresholds()),
      state_masks_(*trie_, dfa_, counters_, counts_, loops_, statistics_),
      denied_(*trie_, dfa_, steps_),
      masks_(*trie_, dfa_, counts_, stacks_, coarse_, spellings_, new_values_, denied_, state_masks_, statistics_),
      completion_(dfa_, stacks_, steps_, limits),
      initial_(start()),
      steps_to_collect_(trie_->thresholds().steps_to_collect),
      threshold_(limits.memory),
      state_threshold_(limits.states / 2) {}

// The configuration of the empty text.
u32 Automaton::start() {
  const u32 root = dfa_.nfa().root, state = dfa_.start(root);
  const bool nullable = dfa_.nfa().rules[root].nullable, is_region = dfa_.nfa().rules[root].is_region();
  std::vector<StackEdge> edges;
  if (state != DEAD) edges.push_back({state, is_region ? stacks_.region_node(root, EMPTY_STACK) : EMPTY_STACK});
  if (nullable) edges.push_back({BOTTOM, NO_STACK});
  return steps_.close(edges);
}

void Automaton::rule_names(u32 configuration, std::vector<std::string>& names) const {
  for (u32 node = configuration; node > EMPTY_STACK && names.size() < MOST_NAMES;) {
    u32 below = NO_STACK;
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
}

// Keeps the configurations that matchers hold, and what these stand on; everything else is made again when it is needed.
void Automaton::reclaim() {
  constexpr u32 FLAG = 0x80000000u;  // of the matcher's, in a configuration
  std::vector<u8> used(stacks_.size(), 0), states_used(dfa_.size(), 0);
  used[NO_STACK] = used[EMPTY_STACK] = used[initial_] = 1;
  states_used[BOTTOM] = 1;
  for (const MatcherSlot& matcher : slots_)
    for (const u32 id : *matcher.configurations) used[id & ~FLAG] = 1;
  stacks_.mark_below(used, states_used);
  const std::vector<u32> state_map = dfa_.keep(states_used);
  counters_.clear(), counts_.clear(), loops_.clear();
  const std::vector<u32> map = stacks_.keep(used, state_map);
  initial_ = map[initial_];
  for (const MatcherSlot& matcher : slots_)
    for (u32& id : *matcher.configurations) id = map[id & ~FLAG] | (id & FLAG);
  coarse_.clear(), spellings_.clear(), new_values_.clear(), regions_.clear(), steps_.clear(), state_masks_.clear(), masks_.clear(), completion_.clear();
  statistics_.reclaims++;
  threshold_ = std::max<u64>(limits_.memory, 2 * bytes());
  state_threshold_ = std::max<u64>(limits_.states / 2, 2 * dfa_.size());
}

std::size_t Automaton::bytes() const {
  return dfa_.bytes() + counters_.bytes() + counts_.bytes() + stacks_.bytes() + coarse_.bytes() + new_values_.bytes() + regions_.bytes() + steps_.bytes() +
         loops_.bytes() + state_masks_.bytes() + masks_.bytes() + completion_.bytes();
}

}  // namespace stackmask
