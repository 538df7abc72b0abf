#include "stacks/stack_set.h"

#include <algorithm>

namespace stackmask {

namespace {
constexpr u32 BUNDLED = 16;  // bundles in the next larger one
constexpr u32 BUNDLES = 3;  // nested in each other, by bytes and again by tokens; those by bytes are half as long
}  // namespace

StackSet::StackSet(RuleDfa& dfa, TextCounts& counts, const Limits& limits)
    : dfa_(dfa), counts_(counts), limits_(limits), limited_(dfa.nfa().limited), covered_(dfa) {
  // The size for an everyday grammar: growing step by step would copy it several times.
  nodes_.reserve(64, 256);
  guarded_.reserve(64);
  depth_.reserve(64);
  pushes_.reserve(64);
  nodes_.intern(nullptr, 0);
  guarded_.push_back(0);
  depth_.push_back(0);
  if (limited_) expires_at_.push_back(NONE);
  PooledVector<StackEdge> list{{BOTTOM, NO_STACK}};
  intern(list);
}

StackId StackSet::intern(std::vector<StackEdge>& list) {
  if (list.size() > 1 && !dfa_.nfa().heads.empty()) covered_.drop(list, *this);
  return number(list);
}

StackId StackSet::number(const std::vector<StackEdge>& list) {
  const StackId id(nodes_.intern(reinterpret_cast<const u32*>(list.data()), list.size() * 2));
  if (id == guarded_.size()) {
    u8 guarded = 0;
    u32 depth = 0, expires_at = NONE;
    for (const StackEdge& edge : list) {
      bool bundle = false;
      if (limited_) {
        expires_at = std::min(expires_at, expires_at_[edge.below]);
        if (dfa_[edge.state].flags & STATE_REGION) {
          expires_at = std::min(expires_at, dfa_.region_end(edge.state));
          bundle = dfa_.is_bundle(edge.state);
        }
      }
      guarded |= guarded_[edge.below];
      const bool guard = dfa_[edge.state].flags & STATE_GUARD;
      if (guard) guarded |= GUARD_BELOW;
      if (counts_.scope_may_run_out(guard ? dfa_.guard_back(edge.state) : edge.state)) guarded |= SCOPE_BELOW;
      depth = std::max(depth, depth_[edge.below] - bundle);
    }
    guarded_.push_back(guarded);
    if (limited_) expires_at_.push_back(expires_at);
    depth_.push_back(list.empty() ? 0 : depth + 1);
  }
  if (depth_[id] > limits_.stack_depth)
    throw LimitExceeded("stack_depth", static_cast<double>(limits_.stack_depth),
                        "the stack grew past " + std::to_string(limits_.stack_depth) + " entries");
  return id;
}

// The node for a return to `state` above `below`. If the state may end at once, the edges of `below` belong to it too.
StackId StackSet::push(StateId state, StackId below) {
  if (dfa_.only_ends(state)) return below;
  const u64 key = static_cast<u64>(state) << 32 | below;
  if (const u32* found = pushes_.find(key)) return StackId(*found);
  PooledVector<StackEdge> list{{state, below}};
  if (dfa_[state].flags & STATE_FINAL) {
    // If `below` holds the state itself, above another node, it also has that node's edges, so the union of both nodes is `below`.
    const std::span<const StackEdge> ended(edges(below), edge_count(below));
    dfa_.work().spend(ended.size());
    const auto at = std::ranges::lower_bound(ended, state, {}, &StackEdge::state);
    list.insert(list.begin(), ended.begin(), at);
    list.insert(list.end(), at != ended.end() && at->state == state ? at + 1 : at, ended.end());
  }
  const StackId node = intern(list);
  pushes_.insert(key, node);
  return node;
}

StackId StackSet::region_node(RuleId rule, StackId below) {
  const bool limit = dfa_.nfa().rules[rule].limit != NONE;
  entered_region_ |= limit;
  const u32 tokens = limit ? position_tokens_ : 0, bytes = limit ? position_bytes_ : 0;
  PooledVector<StackEdge> single{{dfa_.region(rule, tokens, bytes), below}};
  StackId node = intern(single);
  auto bundle = [&](u32 number, u32 in_tokens, u32 in_bytes) {
    single.clear();
    single.push_back({dfa_.region(rule, in_tokens, in_bytes, number), node});
    node = intern(single);
  };
  u32 number = 1;  // regions that begin where the text or a token begins need none
  for (u32 size = 2 * dfa_.bundled_tokens(); number <= BUNDLES; size *= BUNDLED, number++)
    if (bytes >= size) bundle(number, tokens, bytes / size);
  for (u32 size = dfa_.bundled_tokens(); number <= 2 * BUNDLES; size *= BUNDLED, number++)
    if (tokens >= size) bundle(number, tokens / size, 0);
  return node;
}

StackId StackSet::return_node(const Call& call, StackId below) {
  const StackId back = push(call.distinct ? dfa_.guard(call.back, 0) : call.back, below);
  return dfa_.nfa().rules[call.rule].is_region() ? region_node(call.rule, back) : back;
}

// All stacks of both nodes. If both hold a state, the nodes below it are united, so the work goes down the stacks, by an explicit list of
// pairs.
StackId StackSet::unite(StackId a, StackId b) {
  if (a == b || b == NO_STACK) return a;
  if (a == NO_STACK) return b;
  auto key_of = [](StackId x, StackId y) { return x < y ? static_cast<u64>(x) << 32 | y : static_cast<u64>(y) << 32 | x; };
  if (const u32* found = unions_.find(key_of(a, b))) return StackId(*found);
  PooledVector<std::pair<StackId, StackId>> todo{{a, b}};
  PooledVector<StackEdge> merged;
  while (!todo.empty()) {
    const auto [x, y] = todo.back();
    if (unions_.find(key_of(x, y))) {
      todo.pop_back();
      continue;
    }
    merged.clear();
    const std::size_t waiting = todo.size();
    const std::span<const StackEdge> of_x(edges(x), edge_count(x)), of_y(edges(y), edge_count(y));
    dfa_.work().spend(2 + of_x.size() + of_y.size());
    for (std::size_t i = 0, j = 0; i < of_x.size() || j < of_y.size();) {
      if (j == of_y.size() || (i < of_x.size() && of_x[i].state < of_y[j].state)) {
        merged.push_back(of_x[i++]);
      } else if (i == of_x.size() || of_y[j].state < of_x[i].state) {
        merged.push_back(of_y[j++]);
      } else {
        const StackEdge left = of_x[i++], right = of_y[j++];
        StackId below = left.below;
        if (left.below != right.below && right.below != NO_STACK) {
          if (left.below == NO_STACK) below = right.below;
          else if (const u32* found = unions_.find(key_of(left.below, right.below))) below = StackId(*found);
          else todo.push_back({left.below, right.below});
        }
        merged.push_back({left.state, below});
      }
    }
    if (todo.size() > waiting) continue;  // the nodes below come first
    const StackId node = intern(merged);
    unions_.insert(key_of(x, y), node);
    todo.pop_back();
  }
  return StackId(*unions_.find(key_of(a, b)));
}

void StackSet::unite_equal(std::vector<StackEdge>& list) {
  if (list.size() < 2) return;
  std::sort(list.begin(), list.end());
  std::size_t out = 0;
  for (std::size_t i = 0; i < list.size(); i++) {
    if (out && list[out - 1].state == list[i].state) list[out - 1].below = unite(list[out - 1].below, list[i].below);
    else list[out++] = list[i];
  }
  list.resize(out);
}

// PERF: edges of nodes that have few are united state by state, so nothing is made on the way. Nodes of many edges are united one after the
// other: where rules may be empty, each has most of the edges of the others, and many of their unions are known.
StackId StackSet::join(std::span<const StackId> all) {
  constexpr std::size_t FEW = 4;  // edges of a node
  std::size_t total = 0;
  for (const StackId node : all) total += edge_count(node);
  dfa_.work().spend(2 * all.size());
  if (total > FEW * all.size()) {
    StackId united = NO_STACK;
    for (const StackId node : all) united = unite(united, node);
    return united;
  }
  dfa_.work().spend(4 * total);
  PooledVector<StackEdge> list;
  for (const StackId node : all) list.insert(list.end(), edges(node), edges(node) + edge_count(node));
  unite_equal(list);
  return intern(list);
}

// Appends the byte to the texts of the guards on these stacks.
StackId StackSet::advance(StackId node, u8 byte) {
  if (!(guarded_[node] & GUARD_BELOW)) return node;
  auto key_of = [byte](StackId x) { return static_cast<u64>(x) << 8 | byte; };
  if (const u32* found = advances_.find(key_of(node))) return StackId(*found);
  PooledVector<StackId> todo{node};
  while (!todo.empty()) {
    const StackId x = todo.back();
    if (advances_.find(key_of(x))) {
      todo.pop_back();
      continue;
    }
    const std::size_t waiting = todo.size();
    dfa_.work().spend(2ull + edge_count(x));
    PooledVector<StackEdge> moved;
    for (u32 i = 0; i < edge_count(x); i++) {
      StackEdge edge = edges(x)[i];
      if (guarded_[edge.below] & GUARD_BELOW) {
        const u32* found = advances_.find(key_of(edge.below));
        if (!found) todo.push_back(edge.below);
        else edge.below = StackId(*found);
      }
      if (dfa_[edge.state].flags & STATE_GUARD) edge.state = dfa_.extend_guard(edge.state, byte);
      moved.push_back(edge);
    }
    if (todo.size() > waiting) continue;
    std::sort(moved.begin(), moved.end());
    const StackId result = intern(moved);
    advances_.insert(key_of(x), result);
    todo.pop_back();
  }
  return StackId(*advances_.find(key_of(node)));
}

void StackSet::mark_below(std::vector<u8>& used, std::vector<u8>& states_used) const {
  for (u32 number = size(); number-- > 0;) {  // nodes below have smaller numbers
    const StackId node(number);
    if (!used[node]) continue;
    for (u32 i = 0; i < edge_count(node); i++) {
      used[edges(node)[i].below] = 1;
      states_used[edges(node)[i].state] = 1;
    }
  }
}

std::vector<StackId> StackSet::keep(const std::vector<u8>& used, const std::vector<StateId>& state_map) {
  const Interner old = std::move(nodes_);
  nodes_ = Interner();
  guarded_.clear(), depth_.clear(), expires_at_.clear();
  unions_.clear(), pushes_.clear(), advances_.clear(), covered_.clear();
  std::vector<StackId> map(used.size(), NONE);
  std::vector<StackEdge> list;
  for (const StackId node : EachId<StackId>{static_cast<u32>(used.size())}) {
    if (!used[node]) continue;
    list.clear();
    const StackEdge* before = reinterpret_cast<const StackEdge*>(old.at(node));
    for (std::size_t i = 0; i < old.length(node) / 2; i++) list.push_back({state_map[before[i].state], map[before[i].below]});
    if (!std::is_sorted(list.begin(), list.end())) std::sort(list.begin(), list.end());  // the order of guards alone may change
    map[node] = number(list);
  }
  return map;
}

std::size_t StackSet::bytes() const {
  return nodes_.bytes() + guarded_.bytes() + depth_.bytes() + expires_at_.bytes() + unions_.bytes() + pushes_.bytes() + advances_.bytes() +
         covered_.bytes();
}

}  // namespace stackmask
