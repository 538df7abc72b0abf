#include "masks/class_loops.h"

#include <algorithm>

namespace stackmask {

namespace {
constexpr u32 FIRST_SPACE_EXIT = 256;  // smaller exits are bytes, see classes.h
}

ClassLoops::ClassLoops(RuleDfa& dfa, Counters& counters, const Thresholds& thresholds)
    : dfa_(dfa), counters_(counters), nfa_(dfa.nfa()), closed_states_(thresholds.closed_states) {
  loops_.reserve(16);
}

std::size_t ClassLoops::bytes() const {
  return (loop_of_.capacity() + run_of_.capacity()) * sizeof(u32) + loops_.capacity() * sizeof(ClassLoop) +
         byte_runs_.capacity() * sizeof(ByteRun) + closed_.capacity() * sizeof(ClosedClasses);
}

const ClassLoop& ClassLoops::class_loop(StateId state) {
  if (loop_of_.size() <= state) loop_of_.resize(dfa_.size(), NONE);
  if (loop_of_[state] != NONE) return loops_[loop_of_[state]];
  dfa_.build(state);
  dfa_.work().spend(20ull + dfa_[state].range_count);
  ClassLoop loop;
  if (dfa_[state].dense) {
    struct Group {
      StateId target;
      u32 count;
      AsciiSet bytes;
    };
    Scratch<Group> groups;
    AsciiSet live;
    for (u32 r = 0; r < dfa_[state].range_count; r++) {
      const Range range = dfa_.range(state, r);
      if (range.lo > 127) break;
      const StateId target = dfa_.range_target(state, r);
      if (target == DEAD) continue;
      auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& each) { return each.target == target; });
      if (group == groups.end()) group = groups.insert(groups.end(), {target, 0, {}});
      const u8 hi = std::min<u8>(range.hi, 127);
      group->count += hi - range.lo + 1u;
      group->bytes.add(range.lo, hi);
      live.add(range.lo, hi);
    }
    const auto best = std::max_element(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.count < b.count; });
    if (best != groups.end()) {
      loop.target = best->target;
      loop.inside = signature_inside(best->bytes);
      loop.live = signature_inside(live);
      const StateId above = non_ascii_target(state, false), spaces = non_ascii_target(state, true);
      if (above != DEAD) loop.live |= SIG_NON_ASCII | SIG_INCOMPLETE;
      if (spaces != DEAD) loop.live |= SIG_SPACE;
      if (above == loop.target) loop.inside |= SIG_NON_ASCII | SIG_INCOMPLETE;
      if (above == loop.target && spaces == loop.target) loop.inside |= SIG_SPACE;
    }
  }
  loop_of_[state] = static_cast<u32>(loops_.size());
  loops_.push_back(loop);
  return loops_.back();
}

StateId ClassLoops::non_ascii_target(StateId state, bool spaces) {
  Scratch<Item> reached;
  for (const Item item : dfa_.items(state)) {
    if (nfa_.states[item.state].partial_non_ascii) return DEAD;
    for (u32 e = nfa_.states[item.state].first; e != NONE; e = nfa_.edges[e].next) {
      const Edge& edge = nfa_.edges[e];
      if (edge.kind != EDGE_NON_ASCII) continue;
      if (spaces && edge.data != 0) return DEAD;  // some spaces, perhaps not all
      if (edge.data != 2) reached.push_back({edge.target, item.reg});
    }
  }
  return reached.empty() ? DEAD : dfa_.closure_of(reached);
}

bool ClassLoops::reads_any(StateId state, const AsciiSet& bytes) {
  dfa_.build(state);
  for (u32 r = 0; r < dfa_[state].range_count; r++) {
    const Range range = dfa_.range(state, r);
    if (range.lo > 127) break;
    AsciiSet read;
    read.add(range.lo, std::min<u8>(range.hi, 127));
    if (read.meets(bytes) && dfa_.range_target(state, r) != DEAD) return true;
  }
  return false;
}

bool ClassLoops::reads_outside(StateId state, u64 inside) const {
  for (const Item item : dfa_.items(state)) {
    const NfaState& nfa_state = nfa_.states[item.state];
    // A counted automaton that was left and entered again has a new count, in addition to the released one.
    const bool counted = nfa_state.body != NONE && nfa_.heads[nfa_state.body].automaton;
    const bool counts_anew = counted && nfa_.registers.get(item.reg).count != COUNT_FREE;
    if ((!counted || counts_anew) && dfa_.reads(nfa_state, inside)) return true;
  }
  return false;
}

// A byte run as the counters show it. Several repetitions may count in step: the blanks before a comma and those before a brace.
ByteRun ClassLoops::counted_run(StateId state) const {
  ByteRun run;
  Scratch<std::pair<u32, AsciiSet>> bodies;  // (head, its bytes)
  AsciiSet other;
  u32 reg_of = NONE;
  for (const Item item : dfa_.items(state)) {
    const NfaState& nfa_state = nfa_.states[item.state];
    if (nfa_state.body == NONE) {
      for (u32 e = nfa_state.first; e != NONE; e = nfa_.edges[e].next)
        if (const Edge& edge = nfa_.edges[e]; edge.kind == EDGE_BYTE && edge.lo < 128) other.add(edge.lo, std::min<u8>(edge.hi, 127));
        else if (edge.kind == EDGE_DEFAULT) other.add(0, 127);
      continue;
    }
    const Head& head = nfa_.heads[nfa_state.body];
    const Register reg = nfa_.registers.get(item.reg);
    const u32 done = reg.count;
    if (!head.byte || head.permutation || head.maximum == NONE) return {};
    if (done >= COUNT_DEEP || done < head.minimum || done >= head.maximum || reg.further) return {};
    if (reg_of != NONE && (item.reg != reg_of || run.left != head.maximum - done)) return {};
    reg_of = item.reg, run.left = head.maximum - done;
    auto body = std::find_if(bodies.begin(), bodies.end(), [&](const auto& each) { return each.first == nfa_state.body; });
    if (body == bodies.end()) bodies.push_back({nfa_state.body, {}}), body = bodies.end() - 1;
    for (u32 e = nfa_state.first; e != NONE; e = nfa_.edges[e].next) {
      if (nfa_.edges[e].kind != EDGE_BYTE) continue;
      if (nfa_.edges[e].hi > 127) return {};
      body->second.add(nfa_.edges[e].lo, nfa_.edges[e].hi);
    }
  }
  if (bodies.empty()) return {};
  run.bytes = bodies[0].second;
  run.inside = signature_inside(run.bytes);
  if (run.bytes.meets(other) || ascii_inside(run.inside) != run.bytes) return {};
  for (const auto& body : bodies)
    if (body.second != run.bytes) return {};
  return run;
}

// The states after it differ only by their count. The start of a rule is never final, but its successor may be.
const ByteRun& ClassLoops::find_byte_run(StateId state) {
  if (run_of_.size() <= state) run_of_.resize(dfa_.size(), NONE);
  run_of_[state] = 0;
  if (dfa_[state].flags & STATE_GUARD) return byte_runs_[0];
  dfa_.work().spend(4 + dfa_.items(state).size());
  const ByteRun run = counted_run(state);
  if (run.inside == 0) return byte_runs_[0];
  StateId after = DEAD;
  for (u32 b = 0; b < 128 && after == DEAD; b++)
    if (run.bytes.has(b)) after = dfa_.next(state, static_cast<u8>(b));
  if (after == DEAD) return byte_runs_[0];
  const std::span<const Item> items = dfa_.items(state), after_items = dfa_.items(after);
  auto same_state = [](const Item& a, const Item& b) { return a.state == b.state; };
  if (!std::equal(items.begin(), items.end(), after_items.begin(), after_items.end(), same_state)) return byte_runs_[0];
  run_of_[state] = static_cast<u32>(byte_runs_.size());
  byte_runs_.push_back(run);
  return byte_runs_.back();
}

StateId ClassLoops::after_exit(StateId state, u32 exit) {
  if (exit < FIRST_SPACE_EXIT) return dfa_.next(state, static_cast<u8>(exit));
  for (const char byte : exit_text(exit))
    if (state != DEAD) state = dfa_.next(state, static_cast<u8>(byte));
  return state;
}

// The exits of a loop over some classes that are live in the state. If characters above U+007F are not part of the loop, the exit is the
// first byte of one.
void ClassLoops::live_exits(StateId state, u64 inside, std::vector<u32>& exits) {
  dfa_.build(state);
  for (u32 r = 0; r < dfa_[state].range_count; r++) {
    const Range range = dfa_.range(state, r);
    if (range.lo > 127 && (inside & SIG_NON_ASCII)) break;
    if (dfa_.range_target(state, r) == DEAD) continue;
    for (u32 b = range.lo; b <= range.hi; b++)
      if (!(signature_of_exit(b) & inside)) exits.push_back(b);
  }
  if (!(inside & SIG_NON_ASCII) || (inside & SIG_SPACE)) return;
  for (u32 exit = FIRST_SPACE_EXIT; exit < EXITS; exit++)
    if (after_exit(state, exit) != DEAD) exits.push_back(exit);
}

// The classes that lead from the state only to states that read all of them again and neither end nor call. Unanchored patterns and "any
// key but these" have such states.
ClosedClasses ClassLoops::closed_classes(StateId state) {
  if (state < closed_.size() && closed_[state].known) return closed_[state];
  u64 inside = class_loop(state).live;
  Scratch<StateId> seen;
  // A class is dropped if it leads to a state outside such a set, as the backslash does; then the search begins again.
  auto closed = [&](StateId at) {
    if (at == DEAD) return false;
    dfa_.build(at);
    if (!dfa_.dense(at) || (dfa_[at].flags & STATE_LEAVES)) return false;
    // Inside a character, such as an escape of JSON, the next byte begins no new one; but characters are what is counted.
    return std::ranges::none_of(dfa_.items(at), [&](const Item& item) { return nfa_.states[item.state].inside_character; });
  };
  for (bool again = true; again && inside;) {
    again = false;
    seen.assign(1, state);
    auto reach = [&](StateId target, u64 classes) {
      if (!closed(target)) inside &= ~classes, again = true;
      else if (std::find(seen.begin(), seen.end(), target) == seen.end()) seen.push_back(target);
    };
    for (std::size_t i = 0; i < seen.size() && inside && !again; i++) {
      const StateId at = seen[i];
      dfa_.work().spend(20ull + dfa_[at].range_count);
      if (seen.size() > closed_states_) inside = 0;
      again = (inside & ~class_loop(at).live) != 0;
      inside &= class_loop(at).live;
      for (u32 r = 0; r < dfa_[at].range_count; r++) {
        const Range range = dfa_.range(at, r);
        u64 classes = 0;
        for (u32 b = range.lo; b <= range.hi && b < 128; b++) classes |= signature_of_ascii(static_cast<u8>(b)) & inside;
        if (classes) reach(dfa_.range_target(at, r), classes);
      }
      if (inside & SIG_NON_ASCII) reach(non_ascii_target(at, false), SIG_NON_ASCII | SIG_INCOMPLETE);
      if (inside & SIG_SPACE) reach(non_ascii_target(at, true), SIG_SPACE);
    }
  }
  ClosedClasses found;
  found.known = true;
  found.inside = inside;
  for (const StateId at : seen) {
    const auto [low, high] = counters_.settled(at);
    found.low = std::min(found.low, low), found.high = std::max(found.high, high);
    found.outside = found.outside || reads_outside(at, inside);
  }
  if (closed_.size() < dfa_.size()) closed_.resize(dfa_.size());
  closed_[state] = found;
  if (inside)
    for (const StateId at : seen)
      if (!closed_[at].known) closed_[at] = found;
  return found;
}

}  // namespace stackmask
