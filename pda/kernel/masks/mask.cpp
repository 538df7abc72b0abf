// Masks by composition.
//
// A part says what the tokens below a set of trie nodes do in one state: state_mask({root}, state) is the context-independent mask of a
// state. Tokens that leave the state are handed over as moves: a set of trie nodes and where they go on, in a rule that is called
// or, where the state ends, in what stands below it on the stack. A configuration's mask is the parts met on the way down.
//
// A part does not depend on the stack, so it is computed once a grammar. The mask of a configuration is a list of parts.
#include <algorithm>
#include <bit>
#include <span>

#include "stacks/automaton.h"

namespace stackmask {

namespace {
constexpr u32 MOST_VALUES = 100'000;  // more than any guard will have seen
}

void Automaton::emit(u32 node, StateMaskBuilder& mask) {
  for (i32 token = trie_->nodes()[node].token; token >= 0; token = trie_->same(token)) mask.tokens.push_back(token);
}

// The subtree of one child, reached in `state`: a flat loop over the depth-first layout, the state of each depth remembered.
// Where few bytes are live and a node has many children, these are looked up instead of passed by.
void Automaton::walk_child(u32 child, u32 state, StateMaskBuilder& mask) {
  seeds_.push_back({child, state});
  walk_seeds(mask);
}

void Automaton::walk_seeds(StateMaskBuilder& mask) {
  const TrieNode* nodes = trie_->nodes();
  while (!seeds_.empty()) {
    const auto [first, start] = seeds_.back();
    seeds_.pop_back();
    const u32 end = first + nodes[first].skip();
    u32 at = first;
    u32 current = start;  // the state at `at`
    for (;;) {
      statistics.walked_nodes++;
      if (nodes[at].token >= 0) emit(at, mask);
      const u32 skip = nodes[at].skip();
      u32 next = at + skip;
      if (guarded_mask_) record_guarded(at, current, mask);
      if (skip > 1) {
        const u8 flags = dfa_[current].flags;  // byte_run() may make states
        if (!guarded_mask_ && (flags & STATE_LEAVES)) hits_.push_back({current, at});
        if ((flags & STATE_BYTES) && !guarded_mask_ && dfa_.byte_run(current).inside) {
          walk_byte_run(at, current, mask);
        } else if ((flags & STATE_BYTES) && trie_->heavy(at)) {
          heavy_.push_back({at, current});  // its tokens may be taken by classes
        } else if (flags & STATE_BYTES) {
          dfa_.build(current);
          if (!dfa_.dense(current) && trie_->wide(at)) {
            statistics.wide_walks++;
            for (u32 r = 0; r < dfa_[current].range_count; r++) {
              const Range range = dfa_.range(current, r);
              for (u32 b = range.lo; b <= range.hi; b++)
                if (const u32 below = trie_->child(at, static_cast<u8>(b)); below != NONE)
                  if (const u32 target = dfa_.range_target(current, r); target != DEAD) seeds_.push_back({below, target});
            }
          } else {
            path_[nodes[at].depth] = current;
            next = at + 1;
          }
        }
      }
      // On to the next node whose byte is live.
      for (at = next; at < end; at += nodes[at].skip()) {
        current = dfa_.next(path_[nodes[at].depth - 1u], nodes[at].byte());
        if (current != DEAD) break;
      }
      if (at >= end) break;
    }
  }
}

// From many nodes at once, by the sets that they are followed by; single nodes become seeds. False where there are no more sets; then
// nothing was done. In a bounded run of single bytes the run's other bytes are counted here, not by a state for each count.
bool Automaton::walk_set(const NodeSet* set, u32 state, StateMaskBuilder& mask) {
  const std::size_t few = trie_->thresholds().few_nodes;
  Scratch<std::pair<const NodeSet*, u32>> todo{{set, state}};
  const std::size_t tokens = mask.tokens.size(), hits = hits_.size(), seeds = seeds_.size();
  const u32* dense = mask.dense;
  bool spent = false;
  auto take = [&](const NodeSet& taken) {
    if (!mask.dense && !taken.mask.empty()) mask.dense = taken.mask.data(), statistics.set_masks++;
    else mask.tokens.insert(mask.tokens.end(), taken.tokens.begin(), taken.tokens.end());
  };
  // The bytes of one range, read from the nodes of a set. Where no token goes on by them, nobody asks where they lead.
  auto read = [&](const NodeSet& at, u32 from, u32 r) {
    const u8 lo = dfa_.range(from, r).lo, hi = dfa_.range(from, r).hi;
    if (at.nodes.size() == 1 && lo == hi) {
      if (const u32 child = trie_->child(at.nodes[0], lo); child != NONE)
        if (const u32 target = dfa_.range_target(from, r); target != DEAD) seeds_.push_back({child, target});
      return;
    }
    if (!at.reads(lo, hi)) return;
    const u32 target = dfa_.range_target(from, r);
    if (target == DEAD) return;
    const NodeSet* next = trie_->below(&at, lo, hi);
    if (!next) {
      spent = true;
    } else if (next->nodes.size() <= few || next->heavy || dfa_.dense(target)) {
      for (const u32 node : next->nodes) seeds_.push_back({node, target});
      if (next->leaves.size() > few) take(*next);
      else
        for (const u32 leaf : next->leaves) emit(leaf, mask);
    } else {
      take(*next);
      const u8 flags = dfa_[target].flags;
      if (flags & STATE_LEAVES)
        for (const u32 node : next->nodes) hits_.push_back({target, node});
      if (flags & STATE_BYTES) todo.push_back({next, target});
    }
  };
  while (!todo.empty() && !spent) {
    const auto [at, here] = todo.back();
    todo.pop_back();
    dfa_.build(here);
    const ByteRun run = dfa_.byte_run(here);
    const NodeSet* inside = nullptr;
    if (run.inside) {
      inside = trie_->run(at, run.bytes, run.left);
      if (!inside) spent = true;
      else take(*inside), statistics.set_runs++;
      if (inside && (dfa_[here].flags & STATE_LEAVES))
        for (const u32 node : inside->nodes) hits_.push_back({here, node});
    }
    for (u32 r = 0; r < dfa_[here].range_count && !spent; r++) {
      if (run.inside && run.bytes.has(dfa_.range(here, r).lo)) continue;
      read(*at, here, r);
      if (inside && !spent) read(*inside, here, r);
    }
  }
  (spent ? statistics.spent_sets : statistics.set_walks)++;
  if (spent) mask.tokens.resize(tokens), mask.dense = dense, hits_.resize(hits), seeds_.resize(seeds);
  return !spent;
}

// From one node in a run: the same, or node by node where there are no more sets.
void Automaton::walk_byte_run(u32 node, u32 state, StateMaskBuilder& mask) {
  if (const NodeSet* one = trie_->set(&node, 1); one && walk_set(one, state, mask)) return;
  statistics.node_runs++;
  const ByteRun run = dfa_.byte_run(state);
  const bool leaves = dfa_[state].flags & STATE_LEAVES;
  const TrieNode* nodes = trie_->nodes();
  dfa_.build(state);
  std::vector<u32> inside = trie_->run_nodes({node}, run.bytes, run.left);
  for (const u32 at : inside) {
    emit(at, mask);
    if (leaves && nodes[at].skip() > 1) hits_.push_back({state, at});
  }
  inside.push_back(node);
  for (const u32 at : inside) {
    statistics.walked_nodes++;
    for (u32 child = at + 1, end = at + nodes[at].skip(); child < end; child += nodes[child].skip()) {
      if (run.bytes.has(nodes[child].byte())) continue;
      if (const u32 target = dfa_.next(state, nodes[child].byte()); target != DEAD) seeds_.push_back({child, target});
    }
  }
}

// Under guards every node counts where a state ends, and those where it does not and few texts are left to end it.
void Automaton::record_guarded(u32 node, u32 state, StateMaskBuilder& mask) {
  const u8 flags = dfa_[state].flags;
  if (flags & STATE_LEAVES) hits_.push_back({state, node});
  if (scope_may_run_out(state)) {
    mask.scarce.push_back({node, DEAD, 0});
  } else if (!(flags & STATE_FINAL) && trie_->nodes()[node].token >= 0 && !dfa_.has_unbounded_strings(state)) {
    if (const u32 texts = dfa_.min_text_count(state); texts != UNBOUNDED) mask.scarce.push_back({node, state, texts});
  }
}

void Automaton::walk(u32 node, u32 state, StateMaskBuilder& mask) {
  statistics.walks++;
  if (!(dfa_[state].flags & STATE_BYTES)) return;
  dfa_.build(state);
  if (!guarded_mask_ && node != 0 && dfa_.byte_run(state).inside) {
    walk_byte_run(node, state, mask);
    walk_seeds(mask);
    return;
  }
  const TrieNode* nodes = trie_->nodes();
  if (trie_->wide(node) && !dfa_.dense(state)) {
    statistics.wide_walks++;
    for (u32 r = 0; r < dfa_[state].range_count; r++) {
      const Range range = dfa_.range(state, r);
      for (u32 b = range.lo; b <= range.hi; b++)
        if (const u32 child = trie_->child(node, static_cast<u8>(b)); child != NONE)
          if (const u32 target = dfa_.range_target(state, r); target != DEAD) walk_child(child, target, mask);
    }
    return;
  }
  for (u32 at = node + 1, end = node + nodes[node].skip(); at < end; at += nodes[at].skip()) {
    const u32 target = dfa_.next(state, nodes[at].byte());
    if (target != DEAD) walk_child(at, target, mask);
  }
}

u32 Automaton::list_id(const NodeList* list) {
  if (const u32* found = shared_lists_.find(list->number)) return *found;
  if (!list->set && list->nodes.size() >= trie_->thresholds().many_nodes) list->set = trie_->set(list->nodes.data(), list->nodes.size());
  const u32 id = node_lists_.intern(list->nodes.data(), list->nodes.size());
  shared_lists_.insert(list->number, id);
  if (list_sets_.size() <= id) list_sets_.resize(id + 1);
  list_sets_[id] = list->set;
  return id;
}

const u32* Automaton::hold(const std::shared_ptr<const LoopMask>& mask) {
  return loop_masks_.try_emplace(mask->words.data(), mask).first->first;
}

template <class F>
void Automaton::each_move(u32 state, F take) {
  if (dfa_[state].flags & STATE_FINAL) take(Call{NONE, DEAD, false});
  dfa_.build(state);
  for (u32 c = 0; c < dfa_[state].call_count; c++) take(dfa_.call(state, c));
}

// Sorts out what walks have found: where states end or call, and tokens into a bitmask if they are many.
void Automaton::finish(StateMaskBuilder& mask) {
  if (!hits_.empty()) {
    if (!std::is_sorted(hits_.begin(), hits_.end())) std::sort(hits_.begin(), hits_.end());
    Scratch<Call> targets;
    Scratch<std::pair<u32, u32>> reached;  // (index into targets, node)
    for (std::size_t begin = 0, end = 0; begin < hits_.size(); begin = end) {
      const u32 state = hits_[begin].first;
      while (end < hits_.size() && hits_[end].first == state) end++;
      each_move(state, [&](const Call& target) {
        const auto found = std::find(targets.begin(), targets.end(), target);
        const u32 index = static_cast<u32>(found - targets.begin());
        if (found == targets.end()) targets.push_back(target);
        for (std::size_t i = begin; i < end; i++) reached.push_back({index, hits_[i].second});
      });
    }
    if (!std::is_sorted(reached.begin(), reached.end())) std::sort(reached.begin(), reached.end());
    Scratch<u32> nodes;
    for (std::size_t i = 0; i < reached.size();) {
      const u32 index = reached[i].first;
      nodes.clear();
      for (; i < reached.size() && reached[i].first == index; i++)
        if (nodes.empty() || nodes.back() != reached[i].second) nodes.push_back(reached[i].second);
      mask.moves.push_back({targets[index].rule, targets[index].back, node_lists_.intern(nodes.data(), nodes.size()), targets[index].distinct});
    }
    hits_.clear();
  }
  if (mask.tokens.size() > trie_->thresholds().listed_tokens && mask.excluded.empty()) {
    if (mask.dense) mask.own.assign(mask.dense, mask.dense + trie_->words());
    else mask.own.assign(trie_->words(), 0);
    for (const i32 token : mask.tokens) mask.own[static_cast<u32>(token) >> 5] |= 1u << (token & 31);
    mask.tokens.clear();
    mask.dense = mask.own.data();
    statistics.own_masks++;
  }
}

u32 Automaton::state_mask(u32 list, u32 state, bool guarded) {
  const u32 asked = state;
  if (!guarded) state = dfa_.saturated(state);
  const u64 key = static_cast<u64>(list) << 32 | state | (guarded ? 0x80000000u : 0u);
  if (const u32* found = state_mask_ids_.find(key)) return *found;
  statistics.state_masks++, statistics.guarded_state_masks += guarded, statistics.saturated += state != asked;
  const bool before = guarded_mask_;
  guarded_mask_ = guarded;
  // A loop asks for further parts while it is made.
  if (making_.size() == making_depth_) making_.emplace_back();
  Making& making = making_[making_depth_++];
  StateMaskBuilder& made = making.mask;
  made.clear();
  making.hits.clear(), making.heavy.clear();
  making.hits.swap(hits_);
  making.heavy.swap(heavy_);
  const ClassIndex* outer_index = index_;
  const std::size_t count = node_lists_.length(list);
  const u32 first = *node_lists_.at(list);
  index_ = count == 1 && (first == 0 || trie_->heavy(first)) ? trie_->classes(first) : nullptr;
  if (index_ == nullptr || !by_class_loop(state, made)) {
    made.clear();
    heavy_.clear();
    dfa_.build(state);
    const bool together = !guarded && (count >= trie_->thresholds().many_nodes || first == 0) && (dfa_[state].flags & STATE_BYTES) && !dfa_.dense(state);
    const NodeSet* set = !together ? nullptr : list < list_sets_.size() && list_sets_[list] ? list_sets_[list] : trie_->set(node_lists_.at(list), count);
    if (set && (first == 0 || !set->heavy) && walk_set(set, state, made)) {
      walk_seeds(made);
    } else {
      for (std::size_t i = 0; i < count; i++) {
        const u32 node = node_lists_.at(list)[i];
        if (index_ == nullptr && trie_->heavy(node) && (dfa_[state].flags & STATE_BYTES)) heavy_.push_back({node, state});
        else walk(node, state, made);
      }
    }
  }
  while (!heavy_.empty()) {
    const auto [node, target] = heavy_.back();
    heavy_.pop_back();
    statistics.heavy_walks++;
    made.nested.push_back(state_mask(node_lists_.intern(&node, 1), target, guarded));
  }
  index_ = outer_index;
  heavy_.swap(making.heavy);
  finish(made);
  guarded_mask_ = before;
  hits_.swap(making.hits);
  making_depth_--;
  const u32 id = static_cast<u32>(state_masks_.size());
  auto keep = [](auto& all, const auto& added) {
    const u32 begin = static_cast<u32>(all.size());
    all.insert(all.end(), added.begin(), added.end());
    return StateMask::List{begin, static_cast<u32>(all.size())};
  };
  state_masks_.push_back({made.dense, keep(mask_tokens_, made.tokens), keep(mask_tokens_, made.excluded), keep(mask_moves_, made.moves),
                    keep(nested_masks_, made.nested), keep(scarce_nodes_, made.scarce)});
  if (!made.own.empty()) own_masks_.push_back(std::move(made.own)), made.own = {};
  state_mask_ids_.insert(key, id);
  return id;
}

// ---- class loops

// A state in which nearly every character leads to the same place takes whole classes of tokens without a walk.
bool Automaton::by_class_loop(u32 state, StateMaskBuilder& mask) {
  dfa_.build(state);
  if (by_byte_run(state, mask)) return true;
  if (!dfa_.dense(state)) return false;
  const ClassLoop loop = dfa_.class_loop(state);
  if (loop.target == DEAD || loop.live == 0) return false;
  auto attempt = [&](bool made) {
    if (!made) mask.clear(), hits_.clear();
    return made;
  };
  // A chain is the cheapest where it has few exits, or the states ahead have no more classes in common than it has.
  auto closes = [&] {
    u32 left = NONE;
    const u32 released = dfa_.without_bounds(state, &left);
    return released != DEAD && dfa_.class_loop(released).target == released && (closed_classes(released).inside & ~loop.inside) == 0;
  };
  // Exits by letters or digits are too many, however a repetition counts.
  const u64 exits = loop.live & ~loop.inside;
  const bool simple = exits == 0 || (dfa_.in_repetition(state) && !(exits & SIG_WORDS)) || (loop.target == state && few_exits(loop)) || closes();
  const bool made = (simple && loop.inside && attempt(by_counter_chain(state, loop, mask))) || attempt(by_absorbing_state(state, loop, mask)) ||
                    attempt(by_closed_classes(state, mask)) || (!simple && loop.inside && attempt(by_counter_chain(state, loop, mask)));
  (made ? statistics.loops : statistics.loop_fallbacks)++;
  statistics.heavy_loops += made && index_->node() != 0;
  return made;
}

// A loop was left at these nodes, in rising order, for a state: where that state ends or calls, and what it takes below them. `shared`
// is the list that holds just these nodes, if there is one.
void Automaton::go_on_at(const std::vector<u32>& nodes, u32 state, StateMaskBuilder& mask, const NodeList* shared) {
  const bool leaves = !guarded_mask_ && (dfa_[state].flags & STATE_LEAVES), reads = dfa_[state].flags & STATE_BYTES;
  if (nodes.empty() || (!leaves && !reads)) return;
  const u32 list = shared ? list_id(shared) : node_lists_.intern(nodes.data(), nodes.size());
  if (leaves) each_move(state, [&](const Call& target) { mask.moves.push_back({target.rule, target.back, list, target.distinct}); });
  if (reads) mask.nested.push_back(this->state_mask(list, state, guarded_mask_));
}

// All characters but a few that are rare in tokens stay in the loop, as in a JSON string.
bool Automaton::few_exits(const ClassLoop& loop) const {
  const std::size_t few = trie_->thresholds().loop_exits;
  const u64 exits = loop.live & ~loop.inside;
  if (exits >= 1ull << CLASSES.count) return false;
  std::size_t nodes = 0;
  for (u32 c = 0; c < CLASSES.count && nodes < few; c++) {
    if (!(exits >> c & 1)) continue;
    const AsciiSet& bytes = CLASSES.bytes[c];
    if (std::popcount(bytes.words[0]) + std::popcount(bytes.words[1]) != 1) return false;
    const u32 exit = static_cast<u32>(bytes.words[0] ? std::countr_zero(bytes.words[0]) : 64 + std::countr_zero(bytes.words[1]));
    nodes += index_->loop_exits(loop.inside, exit, 0, index_->longest_exit(loop.inside, exit))->nodes.size();
  }
  return nodes < few;
}

// The exits of a loop over some classes that are live in the state. Where characters above U+007F are no part of the loop, the first
// byte of one is the exit.
void Automaton::live_exits(u32 state, u64 inside, std::vector<u32>& exits) {
  dfa_.build(state);
  for (u32 r = 0; r < dfa_[state].range_count; r++) {
    const Range range = dfa_.range(state, r);
    if (range.lo > 127 && (inside & SIG_NON_ASCII)) break;
    if (dfa_.range_target(state, r) == DEAD) continue;
    for (u32 b = range.lo; b <= range.hi; b++)
      if (!(signature_of_exit(b) & inside)) exits.push_back(b);
  }
  if (!(inside & SIG_NON_ASCII) || (inside & SIG_SPACE)) return;
  for (u32 exit = 256; exit < EXITS; exit++)
    if (dfa_.after_exit(state, exit) != DEAD) exits.push_back(exit);
}

// A bounded run of single bytes, such as blanks: what can follow it does not depend on how many were read, so no state is made for
// each count.
bool Automaton::by_byte_run(u32 state, StateMaskBuilder& mask) {
  if (guarded_mask_) return false;
  const ByteRun run = dfa_.byte_run(state);
  const auto& [inside, left, bytes] = run;
  if (inside == 0) return false;
  const bool leaves = dfa_[state].flags & STATE_LEAVES;
  if (leaves) {
    const auto list = index_->loop_nodes(inside, left);
    if (list->nodes.size() > trie_->thresholds().run_nodes) return false;
    for (const u32 node : list->nodes) hits_.push_back({state, node});
  }
  statistics.loops++, statistics.byte_runs++;
  Scratch<std::pair<u32, u64>> exits;
  Scratch<std::pair<u32, u32>> reached;  // (state, node): all digits lead to one
  for (u32 r = 0; r < dfa_[state].range_count; r++) {
    const Range range = dfa_.range(state, r);
    for (u32 b = range.lo; b <= range.hi; b++) {
      if (bytes.has(b)) continue;
      const u32 target = dfa_.next(state, static_cast<u8>(b));
      if (target == DEAD) continue;
      const auto list = index_->loop_exits(inside, b, 0, left);
      if (list->tokens.empty() && list->nodes.empty()) continue;
      exits.push_back({b, left});
      for (const u32 node : list->nodes) reached.push_back({target, node});
    }
  }
  std::sort(reached.begin(), reached.end());
  Scratch<u32> nodes;
  for (std::size_t i = 0; i < reached.size();) {
    const u32 target = reached[i].first;
    nodes.clear();
    for (; i < reached.size() && reached[i].first == target; i++) nodes.push_back(reached[i].second);
    go_on_at(nodes, target, mask);
  }
  mask.dense = hold(index_->loop_mask_with_exits(inside, left, exits));
  return true;
}

// RuleDfa q0 q1 q2 ... where every character of a class leads from each to the next, until one leads to itself or none is left: what
// happens depends on the number of characters only. A counter near its bounds is such a chain, an unbounded loop one of length 0.
bool Automaton::by_counter_chain(u32 state, const ClassLoop& loop, StateMaskBuilder& mask) {
  const u64 inside = loop.inside;
  const u32 longest = index_->longest_loop(inside);
  u32 furthest = 0;  // characters before an exit, which only guards must know
  for (u32 exit = 0; guarded_mask_ && exit < EXITS; exit++)
    if (!(signature_of_exit(exit) & inside)) furthest = std::max(furthest, index_->longest_exit(inside, exit));
  Scratch<u32> chain{state};
  u32 cap = NONE;       // characters that the chain can take, NONE if it loops
  bool counts = false;  // what follows the last state differs from it in its count alone
  bool ends = false;    // the last state takes none of the class as a whole
  for (;;) {
    const u32 last = chain.back();
    dfa_.build(last);
    const ClassLoop here = dfa_.class_loop(last);
    if (here.target == DEAD || (here.inside & inside) != inside) {
      // The chain ends where none of the class is live; where only some of its ASCII is, it is no chain. Some characters above U+007F
      // may be live, as in `.é`: their first bytes are exits, there and nowhere else.
      if (here.live & inside & ~SIG_INCOMPLETE) return false;
      if (dfa_.reads_any(last, ascii_inside(inside))) return false;
      cap = static_cast<u32>(chain.size() - 1);
      ends = true;
      break;
    }
    const u32 next = guarded_mask_ ? here.target : dfa_.saturated(here.target);
    const bool loops = next == last;
    if ((chain.size() > 1 || loops) && (dfa_[last].flags & STATE_LEAVES)) return false;
    if (loops) break;
    if (chain.size() > longest + 1 && chain.size() > index_->longest_path(inside) + 1) break;  // no token is longer
    if (u32 more = 0; (!guarded_mask_ || chain.size() > furthest + 1) && dfa_.differs_by_count(last, next, inside, &more)) {
      cap = static_cast<u32>(chain.size() - 1) + more;  // a counter goes on like this to its end
      counts = true;
      break;
    }
    chain.push_back(next);
  }
  // Only the first state may leave: at the node where the part begins, which its caller sees to.
  if ((chain.size() > 1 || counts) && (dfa_[chain.back()].flags & STATE_LEAVES)) return false;
  if (cap == 0) return false;
  if (guarded_mask_)
    for (const u32 link : chain)
      if (dfa_.min_text_count(link) < trie_->thresholds().guarded_texts) return false;
  // Exits, grouped by where they lead: (exit, from how many characters, to how many) -> state.
  Scratch<std::pair<u32, u64>> exits;
  const u32 tail = static_cast<u32>(chain.size() - 1);
  const auto [freed, needed] = counts ? dfa_.with_free_counts(chain[tail]) : std::pair<u32, u32>{DEAD, 0};
  Scratch<u32> places;
  auto state_at = [&](u32 j) { return j <= tail ? chain[j] : counts ? dfa_.advanced(chain[tail], j - tail) : chain[tail]; };
  // The exit behind `low` to `high` characters leads to `target`.
  auto leave_by = [&](u32 exit, u32 low, u32 high, u32 target) {
    const auto list = index_->loop_exits(inside, exit, low, high);
    if (!list->tokens.empty() || !list->nodes.empty()) exits.push_back({exit, static_cast<u64>(low) << 32 | high});
    if (guarded_mask_) {
      for (const u32 node : list->nodes) record_guarded(node, target, mask);
      for (const u32 node : list->leaves) record_guarded(node, target, mask);
    }
    go_on_at(list->nodes, target, mask, list.get());
  };
  Scratch<u32> live;
  for (const u32 link : chain) live_exits(link, inside, live);
  if (chain.size() > 1) {
    std::sort(live.begin(), live.end());
    live.erase(std::unique(live.begin(), live.end()), live.end());
  }
  for (const u32 exit : live) {
    const u32 far = std::min(index_->longest_exit(inside, exit), cap);
    // An exit out of what is counted leads to the same place from wherever it is taken. One that stays in it leads to where the bound
    // is out of reach, but near the end; only where it occurs does that matter.
    const u32 next = !counts || cap == tail ? DEAD : state_at(tail + 1);
    const bool alike = next == DEAD || dfa_.after_exit(chain[tail], exit) == dfa_.after_exit(next, exit);
    auto leads_to = [&](u32 j) {
      if (alike || j < tail) {
        const u32 target = dfa_.after_exit(chain[std::min(j, tail)], exit);
        return target == DEAD || guarded_mask_ ? target : dfa_.saturated(target);
      }
      if (!guarded_mask_ && cap - j > index_->loop_exits(inside, exit, j, j)->height + 2 + needed) return dfa_.after_exit(freed, exit);
      const u32 at = state_at(j);
      return at == DEAD ? DEAD : dfa_.after_exit(at, exit);
    };
    places.clear();
    for (u32 j = 0; j <= std::min(far, tail); j++) places.push_back(j);
    if (alike) {
      if (far > tail) places.push_back(far + 1);
    } else {
      for (const auto found = index_->exit_places(inside, exit); const u16 j : *found)
        if (j > tail && j <= far) places.push_back(j);
    }
    for (std::size_t i = 0; i < places.size();) {
      const u32 low = places[i];
      if (low > far) break;
      const u32 target = leads_to(low);
      u32 high = low + 1;
      for (i++; i < places.size() && (places[i] > far || leads_to(places[i]) == target); i++) high = std::min(places[i], far) + 1;
      if (target != DEAD) leave_by(exit, low, high - 1, target);
    }
  }
  const u32 last = chain[tail];
  for (u32 r = 0; ends && (inside & SIG_NON_ASCII) && r < dfa_[last].range_count; r++) {
    const Range range = dfa_.range(last, r);
    for (u32 b = std::max<u32>(range.lo, 128); b <= range.hi; b++) {
      const u32 target = dfa_.range_target(last, r);
      if (target == DEAD) break;
      leave_by(b, cap, cap, target);
    }
  }
  mask.dense = hold(index_->loop_mask_with_exits(inside, cap, exits));
  (counts ? statistics.counted_chains : statistics.chains)++, statistics.guarded_chains += guarded_mask_;
  return true;
}

// The classes under which the states that can be reached by them are closed: all are live there, none ends or calls. Unanchored
// patterns and "any key but these" are such states.
Automaton::ClosedClasses Automaton::closed_classes(u32 state) {
  const std::size_t look = trie_->thresholds().closed_states;
  if (state < closed_classes_.size() && closed_classes_[state].known) return closed_classes_[state];
  u64 inside = dfa_.class_loop(state).live;
  Scratch<u32> seen;
  // A class that leads to a state which is no part of such a set, such as the backslash, is none of them; then all is looked at anew.
  auto closed = [&](u32 at) {
    if (at == DEAD) return false;
    dfa_.build(at);
    return dfa_.dense(at) && !(dfa_[at].flags & STATE_LEAVES);
  };
  for (bool again = true; again && inside;) {
    again = false;
    seen.assign(1, state);
    auto reach = [&](u32 target, u64 classes) {
      if (!closed(target)) inside &= ~classes, again = true;
      else if (std::find(seen.begin(), seen.end(), target) == seen.end()) seen.push_back(target);
    };
    for (std::size_t i = 0; i < seen.size() && inside && !again; i++) {
      const u32 at = seen[i];
      if (seen.size() > look) inside = 0;
      again = (inside & ~dfa_.class_loop(at).live) != 0;
      inside &= dfa_.class_loop(at).live;
      for (u32 r = 0; r < dfa_[at].range_count; r++) {
        const Range range = dfa_.range(at, r);
        u64 classes = 0;
        for (u32 b = range.lo; b <= range.hi && b < 128; b++) classes |= signature_of_ascii(static_cast<u8>(b)) & inside;
        if (classes) reach(dfa_.range_target(at, r), classes);
      }
      if (inside & SIG_NON_ASCII) reach(dfa_.non_ascii_target(at, false), SIG_NON_ASCII | SIG_INCOMPLETE);
      if (inside & SIG_SPACE) reach(dfa_.non_ascii_target(at, true), SIG_SPACE);
    }
  }
  ClosedClasses found;
  found.known = true;
  found.inside = inside;
  for (const u32 at : seen) {
    const auto [low, high] = dfa_.settled(at);
    found.low = std::min(found.low, low), found.high = std::max(found.high, high);
    found.outside = found.outside || dfa_.reads_outside(at, inside);
  }
  if (closed_classes_.size() < dfa_.size()) closed_classes_.resize(dfa_.size());
  closed_classes_[state] = found;
  if (inside)
    for (const u32 at : seen)
      if (!closed_classes_[at].known) closed_classes_[at] = found;
  return found;
}

// All tokens of the classes under which the state is closed, and its exits by following the path to each.
bool Automaton::by_closed_classes(u32 state, StateMaskBuilder& mask) {
  if (guarded_mask_) return false;
  u32 left = NONE;
  const u32 released = dfa_.without_bounds(state, &left);
  if (released == DEAD) return false;
  const ClosedClasses closed = closed_classes(released);
  const u64 inside = closed.inside;
  if ((inside & ~(SIG_INCOMPLETE | SIG_SPACE)) == 0) return false;
  if (left != NONE && closed.outside) return false;
  // Characters that surely are in bounds, and those that may be, by where they lead.
  const u32 surely = left == NONE ? NONE : left - std::min(left, closed.high), maybe = left == NONE ? NONE : left - std::min(left, closed.low);
  Scratch<std::pair<u32, u32>> landed;  // (state, node)
  const auto paths = index_->exit_paths(inside);
  path_[0] = state;
  for (std::size_t i = 0; i + 1 < paths->ways.size(); i++) {
    const Paths::Way way = paths->ways[i];
    u32 depth = way.common;
    for (u32 b = way.begin; b < paths->ways[i + 1].begin; b++, depth++)
      path_[depth + 1] = path_[depth] == DEAD ? DEAD : dfa_.next(path_[depth], paths->bytes[b]);
    if (path_[depth] != DEAD) landed.push_back({path_[depth], way.node});
  }
  mask.dense = hold(index_->loop_mask(inside, surely));
  if (surely != maybe)
    for (const auto tokens = index_->loop_tokens(inside, surely + 1, maybe); const i32 token : *tokens) {
      u32 at = state;
      for (const char byte : trie_->text(static_cast<u32>(token)).substr(index_->depth()))
        if (at != DEAD) at = dfa_.next(at, static_cast<u8>(byte));
      if (at != DEAD) mask.tokens.push_back(token);
    }
  statistics.closed++, statistics.bounded_closed += left != NONE;
  std::sort(landed.begin(), landed.end());
  Scratch<u32> below;
  for (std::size_t i = 0; i < landed.size();) {
    const u32 target = landed[i].first;
    below.clear();
    for (; i < landed.size() && landed[i].first == target; i++) {
      const u32 node = landed[i].second;
      emit(node, mask);
      if (trie_->nodes()[node].skip() > 1) below.push_back(node);
    }
    go_on_at(below, target, mask);
  }
  return true;
}

// A state that is not itself a loop but leads into one, the absorbing state, by all characters but those of some words ("any key but these"):
// that state's mask with the differences, found by following both through the trie while they differ.
bool Automaton::by_absorbing_state(u32 state, const ClassLoop& loop, StateMaskBuilder& mask) {
  u32 absorbing = loop.target;
  for (u32 hops = 0; hops < 4; hops++) {
    dfa_.build(absorbing);
    if (!dfa_.dense(absorbing)) return false;
    const u32 next = dfa_.class_loop(absorbing).target;
    if (next == DEAD || next == absorbing) break;
    absorbing = next;
  }
  if (absorbing == state) return false;
  const ClassLoop at_absorbing = dfa_.class_loop(absorbing);
  if (at_absorbing.target != absorbing || (dfa_[absorbing].flags & STATE_LEAVES) || (at_absorbing.live & ~at_absorbing.inside & SIG_WORDS)) return false;
  if (guarded_mask_ && dfa_.min_text_count(absorbing) < trie_->thresholds().guarded_texts) return false;
  const u64 inside = at_absorbing.inside & loop.live;
  // With a space outside of the loop the paths below compare byte by byte what leaves it as a whole character.
  if (inside == 0 || ((inside & SIG_NON_ASCII) && !(inside & SIG_SPACE))) return false;
  const TrieNode* nodes = trie_->nodes();
  struct Pair {
    u32 node, here, there;  // states from `state` and from the absorbing one
    bool inside;            // the path lies in the loop
  };
  Scratch<Pair> todo{{index_->node(), state, absorbing, true}};
  Scratch<RuleDfa::Difference> differences;
  struct Differing {
    u32 node, here, there;
  };
  Scratch<Differing> differing;
  Scratch<std::pair<u32, u32>> extra;  // (node, state) to walk besides
  Scratch<u32> removed;                // exit nodes that the absorbing state's exits have and this state has not, or otherwise
  u32 visited = 0;
  while (!todo.empty()) {
    const Pair pair = todo.back();
    todo.pop_back();
    // At a node with many children the bytes that lead apart are few; at another, there are few bytes to look up.
    differing.clear();
    if (trie_->wide(pair.node)) {
      dfa_.differences(pair.here, pair.there, differences);
      for (const auto& [lo, hi, here, there] : differences)
        for (u32 b = lo; b <= hi; b++)
          if (const u32 child = trie_->child(pair.node, static_cast<u8>(b)); child != NONE) differing.push_back({child, here, there});
    } else {
      for (u32 at = pair.node + 1, end = pair.node + nodes[pair.node].skip(); at < end; at += nodes[at].skip()) {
        const u32 here = dfa_.next(pair.here, nodes[at].byte()), there = dfa_.next(pair.there, nodes[at].byte());
        if (here != there) differing.push_back({at, here, there});
      }
    }
    visited += static_cast<u32>(differing.size());
    if (visited > trie_->thresholds().absorbing_differences) return false;
    for (const auto& [at, here, there] : differing) {
      const bool still = pair.inside && (signature_of_exit(nodes[at].byte()) & inside) != 0;
      if (still && there != DEAD) {
        if (here == DEAD || (dfa_[here].flags & STATE_LEAVES)) return false;
        if (guarded_mask_) record_guarded(at, here, mask);
        if (nodes[at].skip() > 1) todo.push_back({at, here, there, true});
        continue;
      }
      if (there != DEAD) removed.push_back(at);
      if (here != DEAD) extra.push_back({at, here});
    }
  }
  std::sort(removed.begin(), removed.end());
  Scratch<std::pair<u32, u64>> exits;
  Scratch<u32> kept, live;
  live_exits(absorbing, inside, live);
  for (const u32 exit : live) {
    const u32 target = dfa_.after_exit(absorbing, exit);
    const u32 furthest = index_->longest_exit(inside, exit);
    const auto list = index_->loop_exits(inside, exit, 0, furthest);
    exits.push_back({exit, furthest});
    kept.clear();
    for (const u32 node : list->nodes)
      if (!std::binary_search(removed.begin(), removed.end(), node)) kept.push_back(node);
    if (guarded_mask_) {
      for (const u32 node : kept) record_guarded(node, target, mask);
      for (const u32 node : list->leaves)
        if (!std::binary_search(removed.begin(), removed.end(), node)) record_guarded(node, target, mask);
    }
    go_on_at(kept, target, mask, kept.size() == list->nodes.size() ? list.get() : nullptr);
  }
  mask.dense = hold(index_->loop_mask_with_exits(inside, NONE, exits));
  for (const u32 node : removed)
    for (i32 token = nodes[node].token; token >= 0; token = trie_->same(token)) mask.excluded.push_back(token);
  std::sort(mask.excluded.begin(), mask.excluded.end());
  statistics.absorbing++, statistics.guarded_absorbing += guarded_mask_, statistics.excluded += !mask.excluded.empty();
  for (const auto& [node, target] : extra) walk_child(node, target, mask);
  return true;
}

// ---- configurations

u32 Automaton::mask(u32 configuration) {
  if (const u32* found = mask_ids_.find(configuration)) return *found;
  statistics.masks++;
  seeds_.clear(), hits_.clear(), heavy_.clear();  // what a limit may have left
  guarded_mask_ = false, making_depth_ = 0;
  Scratch<u32> token_sets;
  Scratch<i32> denied;
  struct Visit {
    u32 nodes, state, below;
    bool passed;  // a guard: what its scope has seen is then more than its state knows
    bool operator==(const Visit&) const = default;
  };
  Scratch<Visit> visits;
  Scratch<u32> state_masks, unverified;
  // Guards that have seen nothing cannot refuse what a token completes, unless it completes two values.
  const u32 values = guarded_[configuration] ? guard_values(configuration, MOST_VALUES) : 0;
  const bool guarded = values > 0 || (guarded_[configuration] & SCOPE_BELOW);
  // With those of scopes, and those that a token completes itself.
  const u32 all_values = (guarded_[configuration] ? guard_values(configuration, MOST_VALUES, true) : 0) + trie_->max_token_bytes();
  auto visit = [&](u32 nodes, u32 state, u32 below, bool passed) {
    const Visit v{nodes, state, below, passed};
    if (std::find(visits.begin(), visits.end(), v) == visits.end()) visits.push_back(v);
  };
  for (u32 i = 0; i < edge_count(configuration); i++) {
    const StackEdge edge = edges(configuration)[i];
    if (edge.state == BOTTOM) continue;
    dfa_.build(edge.state);
    for (u32 t = 0; t < dfa_[edge.state].token_count; t++) token_sets.push_back(dfa_.token_edge(edge.state, t).set);
    if (dfa_[edge.state].flags & STATE_BYTES) visit(root_list_, edge.state, edge.below, false);
  }
  auto few_values = [&](u32 rule) {
    const u32 start = dfa_.start(rule);
    return start != DEAD && !dfa_.has_unbounded_strings(start) && !surely_more(dfa_.min_text_count(start), all_values);
  };
  auto return_to = [&](u32 back, bool distinct, u32 below) { return push(distinct ? dfa_.guard(back, IN_TOKEN) : back, below); };
  // Goes on in `state` at a set of trie nodes: there, and in whatever it calls before reading anything.
  Scratch<StackEdge> entering;
  auto go_on = [&](u32 nodes, u32 state, u32 below, bool passed) {
    entering.assign(1, {state, below});
    for (std::size_t i = 0; i < entering.size(); i++) {
      const StackEdge edge = entering[i];
      if (dfa_[edge.state].flags & STATE_BYTES) visit(nodes, edge.state, edge.below, passed);
      if (!(dfa_[edge.state].flags & STATE_CALLS)) continue;
      dfa_.build(edge.state);
      for (u32 c = 0; c < dfa_[edge.state].call_count; c++) {
        const Call call = dfa_.call(edge.state, c);
        if (dfa_.start(call.rule) == DEAD) continue;
        if ((guarded || passed) && call.distinct && few_values(call.rule))
          unverified.insert(unverified.end(), node_lists_.at(nodes), node_lists_.at(nodes) + node_lists_.length(nodes));
        const StackEdge next{dfa_.start(call.rule), return_to(call.back, call.distinct, edge.below)};
        if (std::find(entering.begin(), entering.end(), next) == entering.end()) entering.push_back(next);
      }
    }
  };
  // What stands below an ended state, through guards that let the value pass.
  struct Leaving {
    u32 nodes, below;
    bool passed;
  };
  Scratch<Leaving> leavings;
  Scratch<u32> kept, refused, refuted;
  auto leave = [&](u32 from_nodes, u32 from_rest, bool from_passed, bool sole) {
    leavings.assign(1, {from_nodes, from_rest, from_passed});
    for (std::size_t l = 0; l < leavings.size(); l++) {
      const Leaving at = leavings[l];
      for (u32 k = 0; k < edge_count(at.below); k++) {
        const StackEdge popped = edges(at.below)[k];
        if (popped.state == BOTTOM) continue;
        if (dfa_[popped.state].flags & STATE_REGION) {
          leavings.push_back({at.nodes, popped.below, at.passed});
          continue;
        }
        if (!(dfa_[popped.state].flags & STATE_GUARD)) {
          go_on(at.nodes, popped.state, popped.below, at.passed);
          continue;
        }
        const u32 back = dfa_.guard_back(popped.state);
        u32 nodes = at.nodes;
        if (at.passed || (dfa_.guard_text(popped.state) == IN_TOKEN && dfa_.seen_any(back))) {
          unverified.insert(unverified.end(), node_lists_.at(nodes), node_lists_.at(nodes) + node_lists_.length(nodes));
        } else if (dfa_.seen_any(back)) {
          refused_nodes(nodes, popped.state, kept, refused);
          statistics.refusals += !refused.empty();
          if (sole) refuted.insert(refuted.end(), refused.begin(), refused.end());
          else unverified.insert(unverified.end(), refused.begin(), refused.end());
          if (kept.empty()) continue;
          nodes = node_lists_.intern(kept.data(), kept.size());
        }
        // Here the token ends with a value, behind which there may be too few others.
        if (scope_may_run_out(back)) unverified.insert(unverified.end(), node_lists_.at(nodes), node_lists_.at(nodes) + node_lists_.length(nodes));
        go_on(nodes, back, popped.below, true);
        if (dfa_[back].flags & STATE_FINAL) leavings.push_back({nodes, popped.below, true});
      }
    }
  };
  Scratch<std::pair<u32, u32>> prefixes;  // of seen_texts() for seen_below
  u32 seen_below = NONE;
  bool counted = false;
  Scratch<u32> left;  // nodes at which the state of a sole stack is left
  Scratch<u32> open;
  for (std::size_t v = 0; v < visits.size(); v++) {
    const Visit at = visits[v];
    const bool sole = v == 0 && edge_count(configuration) == 1;
    // A guard that the token itself has entered counts too: ",true" behind [true ends a value that was seen.
    // So does the scope that a value of the token is in.
    const bool few_left = scope_may_run_out(at.state);
    const bool watched = guarded || (at.passed && few_left) || (guarded_[at.below] && (at.passed || (guarded_[at.below] & SCOPE_BELOW) || guard_values(at.below, 1) > 0));
    open.assign(1, state_mask(at.nodes, at.state, watched));
    while (!open.empty()) {
      const u32 id = open.back();
      open.pop_back();
      const StateMask kept_mask = state_masks_[id];  // more may be made below
      if (kept_mask.dense || !kept_mask.tokens.empty()) state_masks.push_back(id);
      open.insert(open.end(), nested_masks_.begin() + kept_mask.nested.begin, nested_masks_.begin() + kept_mask.nested.end);
      if (watched && (guarded_[at.below] || few_left) && !kept_mask.scarce.empty()) {
        if (seen_below != at.below || v == 1) seen_below = at.below, counted = !at.passed && seen_texts(at.below, sole ? at.state : DEAD, &prefixes);
        for (u32 p = kept_mask.scarce.begin; p < kept_mask.scarce.end; p++) {
          const StateMaskBuilder::ScarceNode scarce = scarce_nodes_[p];
          if (counted && !at.passed && scarce.texts > 0) {
            // As many values must have been seen that begin like this as there are ways to go on.
            const auto found = std::lower_bound(prefixes.begin(), prefixes.end(), std::pair<u32, u32>{scarce.node, 0});
            if (found == prefixes.end() || found->first != scarce.node || found->second < scarce.texts) continue;
            if (const u32 texts = sole ? dfa_.text_count(scarce.state) : UNKNOWN_COUNT; texts != UNKNOWN_COUNT) {
              if (texts == found->second) refuted.push_back(scarce.node);
              continue;
            }
          } else if (surely_more(scarce.texts, all_values)) {
            continue;
          }
          unverified.push_back(scarce.node);
        }
      }
      for (u32 t = kept_mask.moves.begin; t < kept_mask.moves.end; t++) {
        const StateMaskBuilder::StackMove move = mask_moves_[t];
        if ((guarded || at.passed) && move.distinct && few_values(move.rule))
          unverified.insert(unverified.end(), node_lists_.at(move.nodes), node_lists_.at(move.nodes) + node_lists_.length(move.nodes));
        if (sole && guarded) left.insert(left.end(), node_lists_.at(move.nodes), node_lists_.at(move.nodes) + node_lists_.length(move.nodes));
        if (move.rule == NONE) leave(move.nodes, at.below, at.passed, sole);
        else if (dfa_.start(move.rule) != DEAD)
          go_on(move.nodes, dfa_.start(move.rule), return_to(move.back, move.distinct, at.below), at.passed);
      }
    }
    if (sole && !refuted.empty()) split_refuted(at.state, left, refuted, unverified);
  }
  std::sort(state_masks.begin(), state_masks.end());
  state_masks.erase(std::unique(state_masks.begin(), state_masks.end()), state_masks.end());
  // Parts with a bitmask first: they are copied, the others added.
  Scratch<u32> key;
  for (const bool dense : {true, false})
    for (const u32 id : state_masks)
      if ((state_masks_[id].dense != nullptr) == dense) key.push_back(id);
  statistics.unverified += !unverified.empty(), statistics.refuted += !refuted.empty();
  if (!unverified.empty() || !refuted.empty()) find_denied(configuration, unverified, refuted, denied);
  // Level by level a deep structure has the same masks.
  key.push_back(NONE);
  key.insert(key.end(), token_sets.begin(), token_sets.end());
  key.push_back(NONE);
  key.insert(key.end(), denied.begin(), denied.end());
  const u32 id = masks_.intern(key.data(), key.size());
  mask_ids_.insert(configuration, id);
  return id;
}

// ---- guards

u32 Automaton::guard_values(u32 node, u32 limit, bool scopes) {
  u32 count = 0;
  Scratch<u32> todo{node}, seen;
  while (!todo.empty() && count < limit) {
    const u32 at = todo.back();
    todo.pop_back();
    if (!(guarded_[at] & (scopes ? GUARD_BELOW | SCOPE_BELOW : GUARD_BELOW)) || std::find(seen.begin(), seen.end(), at) != seen.end()) continue;
    if (seen.size() < 64) seen.push_back(at);
    for (u32 i = 0; i < edge_count(at); i++) {
      const StackEdge edge = edges(at)[i];
      if (dfa_[edge.state].flags & STATE_GUARD) {
        const u32 back = dfa_.guard_back(edge.state);
        count += dfa_.seen_count(back);
      } else if (scopes && dfa_.in_scope(edge.state)) {
        count += dfa_.seen_count(edge.state);
      }
      todo.push_back(edge.below);
    }
  }
  return std::min(count, limit);
}

// One guard alone watches, and what it has seen is spelled without needless escapes.
bool Automaton::spells_values(u32 below) const {
  if (edge_count(below) != 1 || dfa_.nfa().any_escapes) return false;
  const StackEdge edge = edges(below)[0];
  return edge.state != BOTTOM && (dfa_[edge.state].flags & STATE_GUARD) && !guarded_[edge.below] && dfa_.guard_text(edge.state) != IN_TOKEN;
}

// Where one guard alone watches and its value is a string: how many spellings of strings that it has seen can follow, only those that
// the state reads if one is given, and how many of them each node is on the way to. Nothing where that cannot be told.
std::optional<u32> Automaton::seen_texts(u32 below, u32 state, std::vector<std::pair<u32, u32>>* counts) {
  u32 total = 0;
  if (counts) counts->clear();
  if (!spells_values(below)) return std::nullopt;
  const StackEdge edge = edges(below)[0];
  const u32 back = dfa_.guard_back(edge.state);
  if (dfa_.seen_spellings(back) == NONE) return std::nullopt;
  std::string before = dfa_.text(dfa_.guard_text(edge.state));
  if (!before.empty() && before[0] != '"') return std::nullopt;
  for (std::size_t i = before.find('\\'); i != std::string::npos; i = before.find('\\', i + 1)) {
    if (i + 1 == before.size() || before[i + 1] != '/') return std::nullopt;
    before.erase(i, 1);
  }
  const std::vector<u32> ids = dfa_.seen_ids(back);
  statistics.counted_texts++;
  if (!counts) {
    for (const u32 id : ids) total += count_spellings(dfa_.value(id), before, state, nullptr);
    return total;
  }
  // What was counted before one more value was seen need not be counted again.
  auto known = std::find_if(counted_.begin(), counted_.end(), [&](const Counted& each) {
    return each.state == state && each.before == before && std::includes(ids.begin(), ids.end(), each.ids.begin(), each.ids.end());
  });
  if (known == counted_.end()) {
    if (counted_.size() < MOST_COUNTED) counted_.emplace_back();
    known = counted_.begin() + static_cast<std::ptrdiff_t>(next_counted_++ % counted_.size());
    *known = {state, before, {}, {}, 0};
  }
  Scratch<u32> added;
  std::set_difference(ids.begin(), ids.end(), known->ids.begin(), known->ids.end(), std::back_inserter(added));
  Scratch<std::pair<u32, u32>> spelled;
  for (const u32 id : added) known->total += count_spellings(dfa_.value(id), before, state, &spelled);
  known->ids = ids;
  auto& list = known->counts;
  const std::ptrdiff_t sorted = static_cast<std::ptrdiff_t>(list.size());
  list.insert(list.end(), spelled.begin(), spelled.end());
  std::sort(list.begin() + sorted, list.end());
  std::inplace_merge(list.begin(), list.begin() + sorted, list.end());
  std::size_t out = 0;
  for (const auto& [node, spellings] : list) {
    if (out && list[out - 1].first == node) list[out - 1].second += spellings;
    else list[out++] = {node, spellings};
  }
  list.resize(out);
  counts->assign(list.begin(), list.end());
  return known->total;
}

// How many texts spell what is left of a value behind its beginning, only those that the state reads if one is given, and how many of
// them each node is on the way to.
u32 Automaton::count_spellings(const std::string& value, const std::string& before, u32 state, std::vector<std::pair<u32, u32>>* counts) {
  if (value.compare(0, before.size(), before) != 0) return 0;
  struct Place {
    std::size_t index, depth;  // into the value, and into path
    u32 slash, node, state;    // slash: the node of the backslash before a slash; NONE where the trie has no such node
  };
  Scratch<Place> places{{before.size(), 0, NONE, 0, state}};
  Scratch<u32> path;  // nodes of the spelling so far
  u32 total = 0;
  while (!places.empty()) {
    const Place at = places.back();
    places.pop_back();
    path.resize(at.depth);
    if (at.slash != NONE) path.push_back(at.slash);
    if (at.node != NONE && at.index > before.size()) path.push_back(at.node);
    if (at.index == value.size()) {
      if (state != DEAD && !(dfa_[at.state].flags & STATE_FINAL)) continue;
      total++;
      for (const u32 node : path) counts->push_back({node, 1});
      continue;
    }
    auto child = [&](u32 node, char byte) { return node == NONE || !counts ? NONE : trie_->child(node, static_cast<u8>(byte)); };
    auto next = [&](u32 f, char byte) { return f == DEAD ? DEAD : dfa_.next(f, static_cast<u8>(byte)); };
    const char byte = value[at.index];
    if (const u32 to = next(at.state, byte); to != DEAD || state == DEAD) places.push_back({at.index + 1, path.size(), NONE, child(at.node, byte), to});
    if (byte != '/') continue;
    const u32 to = next(next(at.state, '\\'), '/'), backslash = child(at.node, '\\');
    if (to != DEAD || state == DEAD) places.push_back({at.index + 1, path.size(), backslash, child(backslash, '/'), to});
  }
  return total;
}

// Which of the nodes complete a value that the guard has seen. Strings without escapes are compared as text, down the trie; every
// other value in its canonical spelling.
void Automaton::refused_nodes(u32 list, u32 guard, std::vector<u32>& kept, std::vector<u32>& refused) {
  const u32 back = dfa_.guard_back(guard);
  const std::string before = dfa_.text(dfa_.guard_text(guard));
  const std::size_t count = node_lists_.length(list);
  kept.clear();
  refused.clear();
  std::vector<const std::string*> values;
  for (const u32 id : dfa_.seen_ids(back)) values.push_back(&dfa_.value(id));
  // A value whose characters have one spelling only can be met by that text alone.
  bool plain = !dfa_.nfa().any_escapes && before.find('\\') == std::string::npos;
  for (const std::string* value : values)
    for (std::size_t i = 0; i < value->size() && plain; i++) plain = static_cast<u8>((*value)[i]) >= 0x20 && (*value)[i] != '\\' && (*value)[i] != '/';
  std::vector<u32> strings;  // nodes that complete a seen string
  for (const std::string* each : values) {
    const std::string& value = *each;
    if (!plain || value[0] != '"' || value.compare(0, before.size(), before) != 0) continue;
    u32 at = 0;
    for (std::size_t i = before.size(); i < value.size() && at != NONE; i++) at = trie_->child(at, static_cast<u8>(value[i]));
    if (at != NONE && at != 0) strings.push_back(at);
  }
  std::sort(strings.begin(), strings.end());
  const u32 quote = before.empty() ? trie_->child(0, '"') : NONE;
  const u32 quote_end = quote == NONE ? 0 : quote + trie_->nodes()[quote].skip();
  std::string path;
  for (std::size_t i = 0; i < count; i++) {
    const u32 node = node_lists_.at(list)[i];
    bool seen;
    if (plain && (before.empty() ? quote != NONE && node >= quote && node < quote_end : before[0] == '"')) {
      seen = std::binary_search(strings.begin(), strings.end(), node);
    } else {
      path.clear();
      for (u32 at = node; at != 0; at = trie_->parent(at)) path.push_back(static_cast<char>(trie_->nodes()[at].byte()));
      std::reverse(path.begin(), path.end());
      seen = dfa_.after_value(back, before + path) == DEAD;
    }
    (seen ? refused : kept).push_back(node);
  }
}

// Of a sole stack: the dead nodes are those at which the state may only end with values that were seen. A node is a mere suspect where
// the state goes on behind a value, or was left on the way: what called or was called may read the same text.
void Automaton::split_refuted(u32 state, std::vector<u32>& left, std::vector<u32>& refuted, std::vector<u32>& unverified) {
  std::sort(left.begin(), left.end());
  auto sure = [&](u32 node) {
    std::string path;
    for (u32 at = node; at != 0; at = trie_->parent(at)) {
      if (at != node && std::binary_search(left.begin(), left.end(), at)) return false;
      path.push_back(static_cast<char>(trie_->nodes()[at].byte()));
    }
    u32 at = state;
    for (std::size_t i = path.size(); i-- > 0 && at != DEAD;) at = dfa_.next(at, static_cast<u8>(path[i]));
    return at != DEAD && (!(dfa_[at].flags & STATE_FINAL) || dfa_.only_ends(at));
  };
  std::erase_if(refuted, [&](u32 node) {
    if (sure(node)) return false;
    unverified.push_back(node);
    return true;
  });
}

// Tokens at and below dead nodes are denied, those at and below suspects tried one by one.
void Automaton::find_denied(u32 configuration, std::vector<u32>& unverified, std::vector<u32>& refuted, std::vector<i32>& denied) {
  auto refuse = [&](u32 node) {
    for (i32 token = trie_->nodes()[node].token; token >= 0; token = trie_->same(token)) denied.push_back(token);
  };
  std::sort(refuted.begin(), refuted.end());
  std::sort(unverified.begin(), unverified.end());
  std::vector<std::pair<u32, u32>> spans;
  u32 end = 0;
  for (const u32 first : refuted) {
    if (first < end) continue;
    end = first + trie_->nodes()[first].skip();
    for (u32 node = first; node < end; node++) refuse(node);
    spans.push_back({first, end});
  }
  end = 0;
  auto span = spans.begin();
  for (const u32 to_try : unverified) {
    const u32 last = to_try + trie_->nodes()[to_try].skip();
    for (u32 node = std::max(to_try, end); node < last; node++) {
      while (span != spans.end() && span->second <= node) ++span;
      if (span != spans.end() && node >= span->first) {
        node = span->second - 1;
        continue;
      }
      const i32 token = trie_->nodes()[node].token;
      if (token < 0) continue;
      const std::string& text = trie_->text(static_cast<u32>(token));
      if (step_bytes(configuration, text.data(), text.size()) == NO_STACK) refuse(node);
    }
    end = std::max(end, last);
  }
}

bool Automaton::scope_may_run_out(u32 state) {
  if (!dfa_.in_scope(state)) return false;
  const u32 rule = dfa_.rule(state);
  if (scope_text_counts_.size() <= rule) scope_text_counts_.resize(rule + 1, NONE);
  if (scope_text_counts_[rule] == NONE) {
    u32 texts = UNBOUNDED;
    for (const u32 callee : dfa_.nfa().distinct_rules(rule)) {
      const u32 start = dfa_.start(callee);
      if (start == DEAD) texts = 0;
      else if (!dfa_.has_unbounded_strings(start)) texts = std::min(texts, dfa_.min_text_count(start, 512));
    }
    scope_text_counts_[rule] = texts;
  }
  return scope_text_counts_[rule] != UNBOUNDED && !surely_more(scope_text_counts_[rule], dfa_.seen_count(state) + trie_->max_token_bytes());
}

// A search over the states ahead, depth first. What is called is taken to end, but for values that the scope has run out of. That one
// value takes from the next is not seen here: who writes a scope counts where that could leave too few.
bool Automaton::scope_can_finish(u32 state) {
  if (!scope_may_run_out(state) || !dfa_.seen_any(state)) return true;
  if (const u32* found = scope_can_finish_.find(state)) return *found != 0;
  constexpr std::size_t BUDGET = 4096;
  Scratch<u32> todo{state};
  Map64 visited;
  std::size_t count = 0;
  bool result = false;
  auto add = [&](u32 next) {
    if (next == DEAD || visited.find(next)) return;
    visited.insert(next, 1);
    todo.push_back(next);
  };
  while (!todo.empty() && !result) {
    const u32 at = todo.back();
    todo.pop_back();
    dfa_.build(at);
    if ((dfa_[at].flags & (STATE_FINAL | STATE_TOKENS)) || ++count > BUDGET) result = true;
    // The last ones go first: calls, then marks, and blanks in the end.
    for (u32 r = 0; r < dfa_[at].range_count && !result; r++) add(dfa_.range_target(at, r));
    for (u32 c = 0; c < dfa_[at].call_count && !result; c++) {
      const Call call = dfa_.call(at, c);
      const u32 start = dfa_.start(call.rule);
      if (start != DEAD && (!call.distinct || has_new_value({start, push(dfa_.guard(call.back, 0), EMPTY_STACK)}))) add(call.back);
    }
  }
  scope_can_finish_.insert(state, result);
  return result;
}

// A number that is zero whatever its exponent becomes, and a guard that has seen zero: any number of texts of one value.
bool Automaton::spells_only_zero(const StackEdge& edge) {
  for (u32 k = 0; k < edge_count(edge.below); k++) {
    const StackEdge popped = edges(edge.below)[k];
    if (!(dfa_[popped.state].flags & STATE_GUARD)) return false;
    const std::string text = dfa_.text(dfa_.guard_text(popped.state));
    const std::size_t exponent = text.find_first_of("eE");
    if (exponent == std::string::npos || text.find_first_not_of("-0.") != exponent) return false;
    if (dfa_.after_value(dfa_.guard_back(popped.state), "0") != DEAD) return false;
  }
  return edge_count(edge.below) > 0;
}

// A number has a few spellings, escapes and other orders give a text any number of them.
bool Automaton::surely_more(u32 texts, u32 values) const {
  constexpr u64 SPELLINGS = 64;
  return texts == UNBOUNDED || (texts > SPELLINGS * (values + 1ull) && !dfa_.nfa().any_escapes && !dfa_.nfa().permutes);
}

// Whether some completion of the value that the nearest guard waits for is one that it has not seen.
bool Automaton::has_new_value(const StackEdge& edge) {
  if (!(guarded_[edge.below] & GUARD_BELOW)) return true;
  const u32 values = guard_values(edge.below, 1'000'000);
  if (values != 0 && spells_only_zero(edge)) return false;
  if (values == 0 || dfa_.has_unbounded_strings(edge.state) || surely_more(dfa_.min_text_count(edge.state), values)) return true;
  const u64 key = static_cast<u64>(edge.state) << 32 | edge.below;
  if (const u32* found = has_new_value_.find(key)) return *found != 0;
  bool skipped = false;
  const u32 texts = dfa_.text_count(edge.state);
  if (texts != UNKNOWN_COUNT && spells_values(edge.below) && texts > dfa_.seen_spellings(dfa_.guard_back(edges(edge.below)[0].state))) return true;
  const std::optional<u32> seen = texts == UNKNOWN_COUNT ? std::nullopt : seen_texts(edge.below, edge.state);
  const bool result = seen ? texts > *seen : finds_new_value(edge, values, false, skipped) || (skipped && finds_new_value(edge, values, true, skipped));
  has_new_value_.insert(key, result);
  return result;
}

// A search over stacks of this one edge, by bytes, depth first until values have passed all guards: most texts differ from the values seen
// by what has been read, so the first completion is one. Blanks between the parts of a value are left out at first: they make no other
// value, though a grammar may ask for some. INVARIANT: nothing is interned as a configuration.
bool Automaton::finds_new_value(const StackEdge& edge, u32 values, bool blanks, bool& skipped) {
  statistics.searches++;
  constexpr std::size_t BUDGET = 4096;
  struct Place {
    StackEdge at;
    u32 text;   // that the nearest guard has, before the byte
    u32 byte;   // to be read by the guards yet, NONE for none
  };
  Scratch<Place> pending;
  Map64 visited;
  std::size_t count = 0;
  auto nearest_text = [&](u32 node) {
    for (;;) {
      for (u32 k = 0; k < edge_count(node); k++)
        if (const u32 state = edges(node)[k].state; state != BOTTOM && (dfa_[state].flags & STATE_GUARD)) return dfa_.guard_text(state);
      u32 below = NO_STACK;
      for (u32 k = 0; k < edge_count(node) && below == NO_STACK; k++)
        if (guarded_[edges(node)[k].below] & GUARD_BELOW) below = edges(node)[k].below;
      node = below;
    }
  };
  pending.push_back({edge, nearest_text(edge.below), NONE});
  while (!pending.empty()) {
    auto [at, text, byte] = pending.back();
    pending.pop_back();
    if (byte != NONE) {
      at.below = advance(at.below, static_cast<u8>(byte));
      if (text != IN_TOKEN) text = dfa_.extend_text(text, static_cast<u8>(byte));
    }
    const u64 key = static_cast<u64>(at.state) << 32 | at.below;
    if (visited.find(key)) continue;
    visited.insert(key, 1);
    if (++count > BUDGET) return true;  // so many ways on that it would be odd if all were seen
    if (count > 1 && surely_more(dfa_.min_text_count(at.state), values)) return true;
    dfa_.build(at.state);
    const bool inside = text != IN_TOKEN && dfa_.inside_string(text);
    for (u32 r = dfa_[at.state].range_count; r-- > 0;) {
      const u32 target = dfa_.range_target(at.state, r);
      if (target == DEAD) continue;
      const Range range = dfa_.range(at.state, r);
      for (u32 b = range.lo; b <= range.hi; b++) {
        if (inside || blanks || !is_blank(static_cast<u8>(b))) pending.push_back({{target, at.below}, text, b});
        else skipped = true;
      }
    }
    for (u32 c = 0; c < dfa_[at.state].call_count; c++) {
      const Call call = dfa_.call(at.state, c);
      if (dfa_.start(call.rule) != DEAD) pending.push_back({{dfa_.start(call.rule), return_node(call, at.below)}, call.distinct ? 0 : text, NONE});
    }
    if (!(dfa_[at.state].flags & STATE_FINAL)) continue;
    for (u32 k = 0; k < edge_count(at.below); k++) {
      const StackEdge popped = edges(at.below)[k];
      if (popped.state == BOTTOM) continue;
      StackEdge next = popped;
      const bool guard = dfa_[popped.state].flags & STATE_GUARD;
      if (guard) next.state = dfa_.pop_guard(popped.state);
      if (next.state == DEAD) continue;
      if (!(guarded_[popped.below] & GUARD_BELOW)) return true;
      // What a value is part of may have been seen as well.
      pending.push_back({next, guard ? nearest_text(popped.below) : text, NONE});
    }
  }
  return false;
}

void Automaton::fill(u32 configuration, u32* row) {
  const u32 made = mask(configuration);
  const u32* made_of = masks_.at(made);
  const u32* const end = made_of + masks_.length(made);
  const u32 words = trie_->words();
  bool first = true;
  for (; *made_of != NONE; made_of++) {
    const StateMask& p = state_masks_[*made_of];
    const std::span excluded(mask_tokens_.data() + p.excluded.begin, p.excluded.end - p.excluded.begin);
    if (p.dense) {
      if (first) {
        std::memcpy(row, p.dense, words * sizeof(u32));
        for (const i32 token : excluded) row[static_cast<u32>(token) >> 5] &= ~(1u << (token & 31));
      } else if (excluded.empty()) {
        for (u32 w = 0; w < words; w++) row[w] |= p.dense[w];
      } else {
        Scratch<u32> before;  // bits at the excluded stay what they were
        for (const i32 token : excluded) before.push_back(row[static_cast<u32>(token) >> 5] >> (token & 31) & 1);
        for (u32 w = 0; w < words; w++) row[w] |= p.dense[w];
        for (std::size_t i = 0; i < excluded.size(); i++)
          if (!before[i]) row[static_cast<u32>(excluded[i]) >> 5] &= ~(1u << (excluded[i] & 31));
      }
    } else if (first) {
      std::memset(row, 0, words * sizeof(u32));
    }
    first = false;
    for (u32 t = p.tokens.begin; t < p.tokens.end; t++) row[static_cast<u32>(mask_tokens_[t]) >> 5] |= 1u << (mask_tokens_[t] & 31);
  }
  if (first) std::memset(row, 0, words * sizeof(u32));
  const u32* sets = ++made_of;
  while (*made_of != NONE) made_of++;
  for (const u32* token = made_of + 1; token < end; token++) row[*token >> 5] &= ~(1u << (*token & 31));
  for (; *sets != NONE; sets++) {
    const TokenSet& tokens = dfa_.nfa().token_sets[*sets];
    if (!tokens.negated) {
      for (const u32 id : tokens.ids) row[id >> 5] |= 1u << (id & 31);
      continue;
    }
    for (u32 w = 0; w < words; w++) row[w] |= tokens.bits[w];
  }
}

}  // namespace stackmask
