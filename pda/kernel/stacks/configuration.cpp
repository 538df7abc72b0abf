#include <algorithm>

#include "stacks/automaton.h"

namespace stackmask {

namespace {

constexpr u32 MOST_REGIONS = 1024;  // of one rule with a limit, or a text would take memory quadratic in its length

Nfa compile(std::shared_ptr<Expressions> expressions, const TokenTrie& trie, const Limits& limits) {
  Deadline deadline(limits.seconds);
  expressions->validate(trie.size());
  return lower(std::move(expressions), trie, limits, deadline);
}

}  // namespace

Automaton::Automaton(std::shared_ptr<const TokenTrie> trie, std::shared_ptr<Expressions> expressions, const Limits& limits)
    : trie_(std::move(trie)), limits_(limits), dfa_(compile(std::move(expressions), *trie_, limits), *trie_, limits), threshold_(limits.memory), state_threshold_(limits.states / 2) {
  nodes_.reserve(64, 256);
  node_lists_.reserve(64, 1024);
  masks_.reserve(32, 256);
  guarded_.reserve(64);
  depth_.reserve(64);
  steps_.reserve(128);
  pushes_.reserve(64);
  state_mask_ids_.reserve(64);
  mask_ids_.reserve(64);
  state_masks_.reserve(64);
  mask_tokens_.reserve(1024);
  mask_moves_.reserve(64);
  nested_masks_.reserve(64);
  Scratch<StackEdge> list;
  nodes_.intern(nullptr, 0);
  guarded_.push_back(0);
  depth_.push_back(0);
  expires_at_.push_back(NONE);
  limited_ = dfa_.nfa().limited;
  list.push_back({BOTTOM, NO_STACK});
  intern(list);
  const u32 root = 0;
  node_lists_.intern(&root, 1);
  path_.resize(trie_->max_token_bytes() + 2);
  std::vector<StackEdge> start;
  const Nfa& nfa = dfa_.nfa();
  const u32 state = dfa_.start(nfa.root);
  if (state != DEAD) start.push_back({state, nfa.rules[nfa.root].is_region() ? region_node(nfa.root, EMPTY_STACK) : EMPTY_STACK});
  if (nfa.rules[nfa.root].nullable) start.push_back({BOTTOM, NO_STACK});
  initial_ = close(start);
}

// `edges` sorted, states unique.
u32 Automaton::intern(std::vector<StackEdge>& list) {
  const u32 id = nodes_.intern(reinterpret_cast<const u32*>(list.data()), list.size() * 2);
  if (id == guarded_.size()) {
    u8 guarded = 0;
    u32 depth = 0, expires_at = NONE, regions = 0;
    for (const StackEdge& edge : list) {
      if (limited_) {
        expires_at = std::min(expires_at, expires_at_[edge.below]);
        if (dfa_[edge.state].flags & STATE_REGION) expires_at = std::min(expires_at, dfa_.region_start(edge.state) + dfa_.region_rule(edge.state).limit), regions++;
      }
      guarded |= guarded_[edge.below];
      const bool guard = dfa_[edge.state].flags & STATE_GUARD;
      if (guard) guarded |= GUARD_BELOW;
      if (scope_may_run_out(guard ? dfa_.guard_back(edge.state) : edge.state)) guarded |= SCOPE_BELOW;
      depth = std::max(depth, depth_[edge.below]);
    }
    guarded_.push_back(guarded);
    if (limited_) expires_at_.push_back(expires_at);
    if (regions > MOST_REGIONS)
      throw LimitExceeded("states", MOST_REGIONS, "more than " + std::to_string(MOST_REGIONS) + " readings of a rule with a limit, begun at different places, go on at once");
    depth_.push_back(depth + 1);
    if (depth >= limits_.stack_depth)
      throw LimitExceeded("stack_depth", static_cast<double>(limits_.stack_depth), "the stack grew past " + std::to_string(limits_.stack_depth) + " edges");
  }
  return id;
}

// The node for returning to `state` above `below`: where the state may end at once, the edges of `below` come along.
u32 Automaton::push(u32 state, u32 below) {
  if (dfa_.only_ends(state)) return below;
  const u64 key = static_cast<u64>(state) << 32 | below;
  if (const u32* found = pushes_.find(key)) return *found;
  Scratch<StackEdge> single{{state, below}};
  u32 node = intern(single);
  if (dfa_[state].flags & STATE_FINAL) node = unite(node, below);
  pushes_.insert(key, node);
  return node;
}

u32 Automaton::region_node(u32 rule, u32 below) {
  const bool limit = dfa_.nfa().rules[rule].limit != NONE;
  entered_region_ |= limit;
  Scratch<StackEdge> single{{dfa_.region(rule, limit ? position_tokens_ : 0, limit ? position_bytes_ : 0), below}};
  return intern(single);
}

u32 Automaton::return_node(const Call& call, u32 below) {
  const u32 back = push(call.distinct ? dfa_.guard(call.back, 0) : call.back, below);
  return dfa_.nfa().rules[call.rule].is_region() ? region_node(call.rule, back) : back;
}

// All stacks of both. Where both hold a state its rests unite, so the work goes down the stacks: an explicit list of pairs to do.
u32 Automaton::unite(u32 a, u32 b) {
  if (a == b || b == NO_STACK) return a;
  if (a == NO_STACK) return b;
  auto key_of = [](u32 x, u32 y) { return x < y ? static_cast<u64>(x) << 32 | y : static_cast<u64>(y) << 32 | x; };
  if (const u32* found = unions_.find(key_of(a, b))) return *found;
  Scratch<std::pair<u32, u32>> todo{{a, b}};
  Scratch<StackEdge> merged;
  while (!todo.empty()) {
    const auto [x, y] = todo.back();
    if (unions_.find(key_of(x, y))) {
      todo.pop_back();
      continue;
    }
    merged.clear();
    const std::size_t waiting = todo.size();
    u32 i = 0, j = 0;
    const u32 n = edge_count(x), m = edge_count(y);
    while (i < n || j < m) {
      const StackEdge left = i < n ? edges(x)[i] : StackEdge{NONE, NONE}, right = j < m ? edges(y)[j] : StackEdge{NONE, NONE};
      if (j >= m || (i < n && left.state < right.state)) {
        merged.push_back(left), i++;
      } else if (i >= n || right.state < left.state) {
        merged.push_back(right), j++;
      } else {
        u32 below = left.below;
        if (left.below != right.below && right.below != NO_STACK) {
          if (left.below == NO_STACK) below = right.below;
          else if (const u32* found = unions_.find(key_of(left.below, right.below))) below = *found;
          else todo.push_back({left.below, right.below});
        }
        merged.push_back({left.state, below}), i++, j++;
      }
    }
    if (todo.size() > waiting) continue;  // below first
    const u32 node = intern(merged);
    unions_.insert(key_of(x, y), node);
    todo.pop_back();
  }
  return *unions_.find(key_of(a, b));
}

// The byte becomes part of the texts that guards on these stacks wait for.
u32 Automaton::advance(u32 node, u8 byte) {
  if (!(guarded_[node] & GUARD_BELOW)) return node;
  auto key_of = [byte](u32 x) { return static_cast<u64>(x) << 8 | byte; };
  if (const u32* found = advances_.find(key_of(node))) return *found;
  Scratch<u32> todo{node};
  while (!todo.empty()) {
    const u32 x = todo.back();
    if (advances_.find(key_of(x))) {
      todo.pop_back();
      continue;
    }
    const std::size_t waiting = todo.size();
    Scratch<StackEdge> moved;
    for (u32 i = 0; i < edge_count(x); i++) {
      StackEdge edge = edges(x)[i];
      if (guarded_[edge.below] & GUARD_BELOW) {
        const u32* found = advances_.find(key_of(edge.below));
        if (!found) todo.push_back(edge.below);
        else edge.below = *found;
      }
      if (dfa_[edge.state].flags & STATE_GUARD) edge.state = dfa_.extend_guard(edge.state, byte);
      moved.push_back(edge);
    }
    if (todo.size() > waiting) continue;
    std::sort(moved.begin(), moved.end());
    const u32 result = intern(moved);
    advances_.insert(key_of(x), result);
    todo.pop_back();
  }
  return *advances_.find(key_of(node));
}

// The configuration for raw edges: what ends is popped, what is called is entered, and what eats nothing itself is dropped.
u32 Automaton::close(std::vector<StackEdge>& raw) {
  // Pops. The node below is closed under popping, but a guard that lets a value pass may end again, and a region does.
  Scratch<StackEdge> ending;
  ending.assign(raw.begin(), raw.end());
  for (std::size_t i = 0; i < ending.size(); i++) {
    const StackEdge edge = ending[i];
    if (!(dfa_[edge.state].flags & STATE_FINAL)) continue;
    if (record_crossed_ && (dfa_[edge.state].flags & STATE_REGION)) crossed_regions_.push_back(edge.state);
    for (u32 k = 0; k < edge_count(edge.below); k++) {
      StackEdge popped = edges(edge.below)[k];
      const u8 flags = dfa_[popped.state].flags;
      if (flags & STATE_GUARD) {
        popped.state = dfa_.pop_guard(popped.state);
        if (popped.state == DEAD) continue;
      }
      if (std::find(raw.begin(), raw.end(), popped) != raw.end()) continue;
      raw.push_back(popped);
      if (flags & (STATE_GUARD | STATE_REGION)) ending.push_back(popped);
    }
  }
  auto unify = [this](std::vector<StackEdge>& list) {
    std::sort(list.begin(), list.end());
    std::size_t out = 0;
    for (std::size_t i = 0; i < list.size(); i++) {
      if (out && list[out - 1].state == list[i].state) list[out - 1].below = unite(list[out - 1].below, list[i].below);
      else list[out++] = list[i];
    }
    list.resize(out);
  };
  unify(raw);
  // Calls, callers before callees: ranks grow along calls made before anything is read.
  struct Pending {
    u32 rank, rule, below;
  };
  Scratch<Pending> pending;
  auto later = [](const Pending& a, const Pending& b) { return a.rank > b.rank; };
  auto expand = [&](const StackEdge edge) {
    dfa_.build(edge.state);
    for (u32 c = 0; c < dfa_[edge.state].call_count; c++) {
      const Call call = dfa_.call(edge.state, c);
      if (dfa_.start(call.rule) == DEAD) continue;  // it generates the empty text only, which the closure knows
      if (!call.distinct && call.back != DEAD && !scope_can_finish(call.back)) continue;  // blanks, say, before a value of which none is left
      pending.push_back({dfa_.nfa().rules[call.rule].rank, call.rule, return_node(call, edge.below)});
      std::push_heap(pending.begin(), pending.end(), later);
    }
  };
  const std::size_t before_calls = raw.size();
  for (std::size_t i = 0; i < before_calls; i++)
    if (dfa_[raw[i].state].flags & STATE_CALLS) expand(raw[i]);
  while (!pending.empty()) {
    const u32 rule = pending.front().rule;
    u32 below = NO_STACK;
    while (!pending.empty() && pending.front().rule == rule) {
      below = unite(below, pending.front().below);
      std::pop_heap(pending.begin(), pending.end(), later);
      pending.pop_back();
    }
    const StackEdge edge{dfa_.start(rule), below};
    raw.push_back(edge);
    if (dfa_[edge.state].flags & STATE_CALLS) expand(edge);
  }
  if (raw.size() > before_calls) unify(raw);
  raw.erase(std::remove_if(raw.begin(), raw.end(),
                           [this](const StackEdge& edge) {
                             return edge.state != BOTTOM && (!(dfa_[edge.state].flags & (STATE_BYTES | STATE_TOKENS)) || !has_new_value(edge) || !scope_can_finish(edge.state));
                           }),
            raw.end());
  return intern(raw);
}

u32 Automaton::step(u32 configuration, u8 byte) {
  const u64 key = static_cast<u64>(configuration) << 8 | byte;
  if (const u32* found = steps_.find(key)) return *found;
  entered_region_ = false;
  const u32 result = compute_step(configuration, byte);
  if (!entered_region_) steps_.insert(key, result);
  return result;
}

u32 Automaton::compute_step(u32 configuration, u8 byte) {
  Scratch<StackEdge> raw;
  for (u32 i = 0; i < edge_count(configuration); i++) {
    const StackEdge edge = edges(configuration)[i];
    if (edge.state == BOTTOM) continue;
    const u32 state = dfa_.next(edge.state, byte);
    if (state != DEAD) raw.push_back({state, advance(edge.below, byte)});
  }
  if (raw.empty()) return NO_STACK;
  const u32 closed = close(raw);
  return edge_count(closed) ? closed : NO_STACK;
}

u32 Automaton::step_bytes(u32 configuration, const char* data, std::size_t count, std::size_t* accepted) {
  std::size_t i = 0;
  for (; i < count; i++) {
    const u32 next = step(configuration, static_cast<u8>(data[i]));
    if (next == NO_STACK) break;
    configuration = next;
  }
  if (accepted) *accepted = i;
  return i == count ? configuration : NO_STACK;
}

u32 Automaton::step_last(u32 configuration, u8 byte, u32 tokens) {
  set_position(tokens + 1, 0);
  const u32 result = step(configuration, byte);
  if (!limited_ || result == NO_STACK || expires_at_[result] > tokens + 1) return result;
  const Recording recording(*this);
  compute_step(configuration, byte);
  return drop_expired(result, tokens + 1);
}

// Without the stacks inside of the regions that have spanned their limit and may end here: those that were crossed. What
// follows a region that ends is there already. INVARIANT: something is, for no region lies in a SCOPE.
u32 Automaton::drop_expired(u32 configuration, u32 tokens) {
  std::sort(crossed_regions_.begin(), crossed_regions_.end());
  std::erase_if(crossed_regions_, [&](u32 region) { return dfa_.region_rule(region).limit == NONE || tokens - dfa_.region_start(region) < dfa_.region_rule(region).limit; });
  if (crossed_regions_.empty()) return configuration;
  statistics.expired++;
  std::unordered_map<u32, u32> done;
  Scratch<u32> todo{configuration};
  Scratch<StackEdge> kept;
  while (!todo.empty()) {
    const u32 node = todo.back();
    const std::size_t waiting = todo.size();
    kept.clear();
    for (u32 i = 0; i < edge_count(node); i++) {
      StackEdge edge = edges(node)[i];
      if (std::binary_search(crossed_regions_.begin(), crossed_regions_.end(), edge.state)) continue;
      if (expires_at_[edge.below] <= tokens) {
        const auto found = done.find(edge.below);
        if (found == done.end()) {
          todo.push_back(edge.below);
          continue;
        }
        edge.below = found->second;
        if (edge.below == NO_STACK) continue;
      }
      kept.push_back(edge);
    }
    if (todo.size() > waiting) continue;
    done[node] = intern(kept);
    todo.pop_back();
  }
  return done[configuration];
}

u32 Automaton::step_token(u32 configuration, u32 token, u32 tokens) {
  static const std::string none;
  const std::string& text = token < trie_->text_count() ? trie_->text(token) : none;
  if (!limited_ && dfa_.nfa().token_sets.empty()) return text.empty() ? NO_STACK : step_bytes(configuration, text.data(), text.size());
  u32 before = text.empty() ? NO_STACK : configuration;  // the last byte
  for (std::size_t i = 0; i + 1 < text.size() && before != NO_STACK; i++) {
    set_position(tokens, static_cast<u32>(i + 1));
    before = step(before, static_cast<u8>(text[i]));
  }
  if (dfa_.nfa().token_sets.empty()) return before == NO_STACK ? NO_STACK : step_last(before, static_cast<u8>(text.back()), tokens);
  const u64 key = static_cast<u64>(configuration) << 32 | token;
  if (!limited_)
    if (const u32* found = token_steps_.find(key)) return *found;
  Scratch<StackEdge> raw;
  for (u32 i = 0; i < edge_count(configuration); i++) {
    const StackEdge edge = edges(configuration)[i];
    if (edge.state == BOTTOM) continue;
    dfa_.build(edge.state);
    for (u32 t = 0; t < dfa_[edge.state].token_count; t++) {
      const TokenEdge token_edge = dfa_.token_edge(edge.state, t);
      if (dfa_.nfa().token_sets[token_edge.set].contains(token)) raw.push_back({token_edge.target, edge.below});
    }
  }
  set_position(tokens + 1, 0);
  u32 result = before == NO_STACK ? NO_STACK : step(before, static_cast<u8>(text.back()));
  const Recording recording(*this);
  if (!raw.empty()) result = unite(result, close(raw));
  if (!limited_) {
    token_steps_.insert(key, result);
  } else if (result != NO_STACK && expires_at_[result] <= tokens + 1) {
    if (before != NO_STACK) compute_step(before, static_cast<u8>(text.back()));
    result = drop_expired(result, tokens + 1);
  }
  return result;
}

bool Automaton::complete(u32 configuration) { return edge_count(configuration) && edges(configuration)[0].state == BOTTOM; }

void Automaton::live_bytes(u32 configuration, bool (&live)[256]) {
  std::fill(std::begin(live), std::end(live), false);
  for (u32 i = 0; i < edge_count(configuration); i++) {
    const u32 state = edges(configuration)[i].state;
    if (state == BOTTOM) continue;
    dfa_.build(state);
    for (u32 r = 0; r < dfa_[state].range_count; r++)
      if (dfa_.range_target(state, r) != DEAD)
        for (u32 b = dfa_.range(state, r).lo; b <= dfa_.range(state, r).hi; b++) live[b] = true;
  }
  // A guard may refuse a value that has been seen.
  if (guarded_[configuration])
    for (u32 b = 0; b < 256; b++) live[b] = live[b] && step(configuration, static_cast<u8>(b)) != NO_STACK;
}

bool Automaton::reads_tokens(u32 configuration) {
  for (u32 i = 0; i < edge_count(configuration); i++)
    if (dfa_[edges(configuration)[i].state].flags & STATE_TOKENS) return true;
  return false;
}

double Automaton::temperature(u32 configuration) {
  if (dfa_.nfa().temperatures.size() == 1) return -1;
  Scratch<u32> todo{configuration};
  while (!todo.empty()) {
    const u32 node = todo.back();
    const std::size_t waiting = todo.size();
    u32 highest = 0;
    for (u32 i = 0; i < edge_count(node); i++) {
      const StackEdge edge = edges(node)[i];
      if ((dfa_[edge.state].flags & STATE_REGION) && dfa_.region_rule(edge.state).temperature) {
        highest = std::max(highest, dfa_.region_rule(edge.state).temperature);
      } else if (edge.state != BOTTOM) {
        const u32* below = temperatures_.find(edge.below);
        if (!below) todo.push_back(edge.below);
        else highest = std::max(highest, *below);
      }
    }
    if (todo.size() > waiting) continue;
    temperatures_.insert(node, highest);
    todo.pop_back();
  }
  const u32 highest = *temperatures_.find(configuration);
  return highest ? dfa_.nfa().temperatures[highest] : -1;
}

void Automaton::rule_names(u32 configuration, std::vector<std::string>& names) {
  for (u32 node = configuration; node > EMPTY_STACK && names.size() < 64;) {
    u32 below = NO_STACK;
    for (u32 i = 0; i < edge_count(node); i++) {
      const StackEdge edge = edges(node)[i];
      if (edge.state == BOTTOM) continue;
      const Nfa& nfa = dfa_.nfa();
      for (u32 origin = dfa_.origin(edge.state); origin != NONE && names.size() < 64; origin = nfa.origins[origin].parent) {
        const u32 name = nfa.origins[origin].name;
        if (name < nfa.expressions->names.size() && (names.empty() || names.back() != nfa.expressions->names[name])) names.emplace_back(nfa.expressions->names[name]);
      }
      if (below == NO_STACK) below = edge.below;
    }
    node = below;
  }
}

// Keeps the configurations that matchers hold, and what these stand on; everything else is made again when it is needed.
void Automaton::reclaim() {
  constexpr u32 FLAG = 0x80000000u;
  std::vector<u8> used(nodes_.size(), 0);
  used[NO_STACK] = used[EMPTY_STACK] = used[initial_] = 1;
  for (const Held& matcher : held)
    for (const u32 id : *matcher.configurations) used[id & ~FLAG] = 1;
  std::vector<u8> states_used(dfa_.size(), 0);
  states_used[BOTTOM] = 1;
  for (u32 id = static_cast<u32>(nodes_.size()); id-- > 0;) {  // what is below has a smaller number
    if (!used[id]) continue;
    for (u32 i = 0; i < edge_count(id); i++) {
      used[edges(id)[i].below] = 1;
      states_used[edges(id)[i].state] = 1;
    }
  }
  const std::vector<u32> state_map = dfa_.keep(states_used);
  Interner old = std::move(nodes_);
  nodes_ = Interner();
  guarded_.clear();
  depth_.clear();
  expires_at_.clear();
  std::vector<u32> map(used.size(), NONE);
  std::vector<StackEdge> list;
  for (u32 id = 0; id < used.size(); id++) {
    if (!used[id]) continue;
    list.clear();
    const StackEdge* before = reinterpret_cast<const StackEdge*>(old.at(id));
    for (std::size_t i = 0; i < old.length(id) / 2; i++) list.push_back({state_map[before[i].state], map[before[i].below]});
    std::sort(list.begin(), list.end());
    map[id] = intern(list);
  }
  initial_ = map[initial_];
  for (const Held& matcher : held)
    for (u32& id : *matcher.configurations) id = map[id & ~FLAG] | (id & FLAG);
  has_new_value_.clear(), steps_.clear(), unions_.clear(), pushes_.clear(), advances_.clear(), distances_.clear(), lengths_.clear(), scope_lengths_.clear(), cheap_values_.clear(), token_steps_.clear(), temperatures_.clear();
  closed_classes_.clear(), scope_can_finish_.clear(), counted_.clear();
  state_mask_ids_.clear(), mask_ids_.clear(), node_lists_.clear(), shared_lists_.clear();
  list_sets_.clear();
  state_masks_ = {}, mask_tokens_ = {}, mask_moves_ = {}, nested_masks_ = {}, scarce_nodes_ = {}, own_masks_ = {}, loop_masks_ = {};
  masks_.clear();
  const u32 root = 0;
  node_lists_.intern(&root, 1);
  statistics.reclaims++;
  threshold_ = std::max<u64>(limits_.memory, 2 * bytes());
  state_threshold_ = std::max<u64>(limits_.states / 2, 2 * dfa_.size());
}

std::size_t Automaton::bytes() const {
  std::size_t measured = scope_lengths_.bytes();
  for (const auto& lengths : dfa_.nfa().counted) measured += lengths ? lengths->bytes() : 0;
  for (const auto& [rule, cheap] : cheap_values_) measured += cheap.nodes.capacity() * sizeof(SearchNode) + cheap.queue.size() * sizeof(SearchKey);
  for (const auto& [words, mask] : loop_masks_) measured += mask->forgotten ? trie_->words() * sizeof(u32) : 0;
  return measured + dfa_.bytes() + nodes_.bytes() + guarded_.capacity() + depth_.capacity() * 4 + has_new_value_.bytes() + steps_.bytes() + unions_.bytes() + pushes_.bytes() +
         advances_.bytes() + distances_.bytes() + lengths_.bytes() + token_steps_.bytes() + temperatures_.bytes() + expires_at_.capacity() * 4 + node_lists_.bytes() + list_sets_.capacity() * 8 + shared_lists_.bytes() + state_mask_ids_.bytes() + mask_ids_.bytes() + masks_.bytes() +
         state_masks_.capacity() * sizeof(StateMask) + mask_tokens_.capacity() * 4 + mask_moves_.capacity() * sizeof(StateMaskBuilder::StackMove) + nested_masks_.capacity() * 4 +
         scarce_nodes_.capacity() * sizeof(StateMaskBuilder::ScarceNode) + own_masks_.size() * trie_->words() * 4;
}

}  // namespace stackmask
