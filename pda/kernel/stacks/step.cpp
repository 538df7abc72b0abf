#include "stacks/step.h"

#include <algorithm>

#include "list_index.h"

namespace stackmask {

namespace {
// A list of edges without duplicates.
class EdgeSet {
 public:
  explicit EdgeSet(std::vector<StackEdge>& list) : list_(list) {}
  // Returns whether the edge is new.
  bool add(const StackEdge& edge) {
    if (index_.find(list_, key_of(edge), key_of) != NONE) return false;
    list_.push_back(edge);
    return true;
  }

 private:
  std::vector<StackEdge>& list_;
  ListIndex index_;
  static u64 key_of(const StackEdge& edge) { return static_cast<u64>(edge.state) << 32 | edge.below; }  // no state is NONE
};
}  // namespace

Steps::Steps(const TokenTrie& trie, RuleDfa& dfa, StackSet& stacks, NewValues& new_values, Regions& regions, Statistics& statistics)
    : trie_(trie), dfa_(dfa), stacks_(stacks), new_values_(new_values), regions_(regions), statistics_(statistics) {
  steps_.reserve(128);
}

// Pops ended states. The node below is closed under popping, except for guards, which may end again after a value, and for regions, which
// end at once: Regions::behind() knows what follows them. No guard follows a region, since no region lies in a SCOPE.
void Steps::pop_ended(std::vector<StackEdge>& raw) {
  if (std::none_of(raw.begin(), raw.end(), [this](const StackEdge& edge) { return dfa_[edge.state].flags & STATE_FINAL; })) return;
  PooledVector<StackEdge> ending;
  ending.assign(raw.begin(), raw.end());
  EdgeSet popped_to(raw);
  PooledVector<StackId> popped_nodes;  // states that differ by a count stand on the same nodes
  ListIndex nodes_index;
  for (std::size_t i = 0; i < ending.size(); i++) {
    const StackEdge edge = ending[i];
    if (!(dfa_[edge.state].flags & STATE_FINAL)) continue;
    auto number = [](StackId node) { return u64{node}; };
    if (nodes_index.find(popped_nodes, number(edge.below), number) != NONE) continue;
    popped_nodes.push_back(edge.below);
    dfa_.work().spend(stacks_.edge_count(edge.below));
    bool regions = false;
    for (u32 k = 0; k < stacks_.edge_count(edge.below); k++) {
      StackEdge popped = stacks_.edges(edge.below)[k];
      const u8 flags = dfa_[popped.state].flags;
      if (flags & STATE_REGION) {
        regions = true;
        continue;
      }
      if (flags & STATE_GUARD) {
        popped.state = dfa_.pop_guard(popped.state);
        if (popped.state == DEAD) continue;
      }
      if (popped_to.add(popped) && (flags & STATE_GUARD)) ending.push_back(popped);
    }
    if (!regions) continue;
    if (crossed_after_ != NONE) regions_.add_crossed(edge.below, crossed_after_, crossed_regions_);
    const StackId behind = regions_.behind(edge.below);
    for (u32 k = 0; k < stacks_.edge_count(behind); k++) popped_to.add(stacks_.edges(behind)[k]);
  }
}

// Enters called rules, callers before callees: ranks grow along calls that are made before anything is read.
void Steps::enter_called(std::vector<StackEdge>& raw) {
  if (std::none_of(raw.begin(), raw.end(), [this](const StackEdge& edge) { return dfa_[edge.state].flags & STATE_CALLS; })) return;
  struct Pending {
    u32 rank;
    RuleId rule;
    StackId below;
  };
  PooledVector<Pending> pending;
  auto later = [](const Pending& a, const Pending& b) { return a.rank > b.rank; };
  auto expand = [&](const StackEdge edge) {
    dfa_.build(edge.state);
    dfa_.work().spend(dfa_[edge.state].call_count * 4ull);
    for (u32 c = 0; c < dfa_[edge.state].call_count; c++) {
      const Call call = dfa_.call(edge.state, c);
      if (dfa_.start(call.rule) == DEAD) continue;  // it generates the empty text only, for which the closure has passed it by
      // For example blanks before a new value when none is left.
      if (!call.distinct && call.back != DEAD && !new_values_.scope_can_finish(call.back)) continue;
      pending.push_back({dfa_.nfa().rules[call.rule].rank, call.rule, stacks_.return_node(call, edge.below)});
      std::push_heap(pending.begin(), pending.end(), later);
    }
  };
  const std::size_t before_calls = raw.size();
  for (std::size_t i = 0; i < before_calls; i++)
    if (dfa_[raw[i].state].flags & STATE_CALLS) expand(raw[i]);
  while (!pending.empty()) {
    const RuleId rule = pending.front().rule;
    StackId below = NO_STACK;
    while (!pending.empty() && pending.front().rule == rule) {
      below = stacks_.unite(below, pending.front().below);
      std::pop_heap(pending.begin(), pending.end(), later);
      pending.pop_back();
    }
    const StackEdge edge{dfa_.start(rule), below};
    raw.push_back(edge);
    if (dfa_[edge.state].flags & STATE_CALLS) expand(edge);
  }
  if (raw.size() > before_calls) stacks_.unite_equal(raw);
}

StackId Steps::close(std::vector<StackEdge>& raw) {
  pop_ended(raw);
  stacks_.unite_equal(raw);
  enter_called(raw);
  std::erase_if(raw, [this](const StackEdge& edge) {
    if (edge.state == BOTTOM) return false;
    const bool reads = dfa_[edge.state].flags & (STATE_BYTES | STATE_TOKENS);
    return !reads || !new_values_.has_new_value(edge) || !new_values_.scope_can_finish(edge.state);
  });
  return stacks_.intern(raw);
}

StackId Steps::step(StackId configuration, u8 byte) {
  const u64 key = static_cast<u64>(configuration) << 8 | byte;
  if (const u32* found = steps_.find(key)) return StackId(*found);
  stacks_.begin_step();
  const StackId result = compute_step(configuration, byte);
  if (!stacks_.entered_region()) steps_.insert(key, result);
  return result;
}

StackId Steps::compute_step(StackId configuration, u8 byte) {
  PooledVector<StackEdge> raw;
  dfa_.work().spend(20);
  for (u32 i = 0; i < stacks_.edge_count(configuration); i++) {
    const StackEdge edge = stacks_.edges(configuration)[i];
    if (edge.state == BOTTOM) continue;
    dfa_.work().at_dfa_state(edge.state);
    dfa_.work().spend(4);
    const StateId state = dfa_.next(edge.state, byte);
    if (state != DEAD) raw.push_back({state, stacks_.advance(edge.below, byte)});
  }
  if (raw.empty()) return NO_STACK;
  const StackId closed = close(raw);
  return stacks_.edge_count(closed) ? closed : NO_STACK;
}

StackId Steps::step_bytes(StackId configuration, const char* data, std::size_t count, std::size_t* accepted) {
  std::size_t i = 0;
  dfa_.work().spend(1 + count);
  for (; i < count; i++) {
    const StackId next = step(configuration, static_cast<u8>(data[i]));
    if (next == NO_STACK) break;
    configuration = next;
  }
  if (accepted) *accepted = i;
  return i == count ? configuration : NO_STACK;
}

StackId Steps::step_last(StackId configuration, u8 byte, u32 tokens) {
  stacks_.set_position(tokens + 1, 0);
  const StackId result = step(configuration, byte);
  if (!stacks_.limited() || result == NO_STACK || stacks_.expires_at(result) > tokens + 1) return result;
  const Recording recording(*this, tokens + 1);
  compute_step(configuration, byte);
  return drop_expired(result, tokens + 1);
}

StackId Steps::drop_expired(StackId configuration, u32 tokens) {
  const StackId left = regions_.drop_expired(configuration, tokens, crossed_regions_);
  statistics_.expired += !crossed_regions_.empty();
  return left;
}

StackId Steps::step_token(StackId configuration, TokenId token, u32 tokens) {
  static const std::string none;
  const std::string& text = token < trie_.text_count() ? trie_.text(token) : none;
  const bool by_text_alone = dfa_.nfa().token_sets.empty();
  if (by_text_alone && !stacks_.limited()) return text.empty() ? NO_STACK : step_bytes(configuration, text.data(), text.size());
  StackId before = text.empty() ? NO_STACK : configuration;  // the configuration before the last byte
  for (std::size_t i = 0; i + 1 < text.size() && before != NO_STACK; i++) {
    stacks_.set_position(tokens, static_cast<u32>(i + 1));
    before = step(before, static_cast<u8>(text[i]));
  }
  if (by_text_alone) return before == NO_STACK ? NO_STACK : step_last(before, static_cast<u8>(text.back()), tokens);
  const u64 key = static_cast<u64>(configuration) << 32 | token;
  if (!stacks_.limited())
    if (const u32* found = token_steps_.find(key)) return StackId(*found);
  PooledVector<StackEdge> raw;
  for (u32 i = 0; i < stacks_.edge_count(configuration); i++) {
    const StackEdge edge = stacks_.edges(configuration)[i];
    if (edge.state == BOTTOM) continue;
    dfa_.build(edge.state);
    for (u32 t = 0; t < dfa_[edge.state].token_count; t++) {
      const TokenEdge token_edge = dfa_.token_edge(edge.state, t);
      if (dfa_.nfa().token_sets[token_edge.set].contains(token)) raw.push_back({token_edge.target, edge.below});
    }
  }
  stacks_.set_position(tokens + 1, 0);
  StackId result = before == NO_STACK ? NO_STACK : step(before, static_cast<u8>(text.back()));
  const Recording recording(*this, tokens + 1);
  if (!raw.empty()) result = stacks_.unite(result, close(raw));
  if (!stacks_.limited()) {
    token_steps_.insert(key, result);
  } else if (result != NO_STACK && stacks_.expires_at(result) <= tokens + 1) {
    if (before != NO_STACK) compute_step(before, static_cast<u8>(text.back()));
    result = drop_expired(result, tokens + 1);
  }
  return result;
}

void Steps::live_bytes(StackId configuration, bool (&live)[256]) {
  std::fill(std::begin(live), std::end(live), false);
  dfa_.work().spend(30 * (1ull + stacks_.edge_count(configuration)));
  for (u32 i = 0; i < stacks_.edge_count(configuration); i++) {
    const StateId state = stacks_.edges(configuration)[i].state;
    if (state == BOTTOM) continue;
    dfa_.build(state);
    for (u32 r = 0; r < dfa_[state].range_count; r++)
      if (dfa_.range_target(state, r) != DEAD)
        for (u32 b = dfa_.range(state, r).lo; b <= dfa_.range(state, r).hi; b++) live[b] = true;
  }
  // A guard may refuse a value that has been seen.
  if (stacks_.guarded(configuration))
    for (u32 b = 0; b < 256; b++) live[b] = live[b] && step(configuration, static_cast<u8>(b)) != NO_STACK;
}

bool Steps::reads_tokens(StackId configuration) const {
  for (u32 i = 0; i < stacks_.edge_count(configuration); i++)
    if (dfa_[stacks_.edges(configuration)[i].state].flags & STATE_TOKENS) return true;
  return false;
}

}  // namespace stackmask
