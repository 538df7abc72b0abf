#include "masks/class_loops.h"

#include <algorithm>
#include <bit>
#include <tuple>

namespace stackmask {

namespace {
constexpr u32 FIRST_SPACE_EXIT = 256;  // smaller exits are bytes, see classes.h
constexpr u64 LASTING_UNKNOWN = ~0ull;
// Items of a state, with more of which fewer states are looked at for closed classes.
// PERF: seven patterns of keys that match anywhere make too many states, of 129 items each: to see that took half of a step of 34 ms.
constexpr std::size_t FEW_CLOSED = 32;
constexpr u32 FEW_LEFT = 4;                 // characters, below which a repetition near its end is no lasting item
constexpr u32 MOST_IN_ROW = 64;             // states in a row, of which more are as good as any number
constexpr std::size_t MOST_BETWEEN = 8;     // states of the NFA between two of them
constexpr std::size_t MOST_LASTING = 4;     // items of a state that are tried
constexpr u32 MOST_AHEAD = 32;              // states until there is such an item
constexpr std::size_t MOST_REACHED = 4096;  // states of the NFA that are looked at

// What is to come of a character behind a byte: as many bytes, or those behind a first byte that not all may follow (RFC 3629).
enum Utf8Rest : u8 { WHOLE, ONE, TWO, THREE, AFTER_E0, AFTER_ED, AFTER_F0, AFTER_F4, NO_UTF8 };
u8 utf8_rest(u8 rest, u8 byte) {
  auto next = [byte](u8 lo, u8 hi, Utf8Rest after) { return static_cast<u8>(byte >= lo && byte <= hi ? after : NO_UTF8); };
  switch (rest) {
    case ONE: return next(0x80, 0xBF, WHOLE);
    case TWO: return next(0x80, 0xBF, ONE);
    case THREE: return next(0x80, 0xBF, TWO);
    case AFTER_E0: return next(0xA0, 0xBF, ONE);
    case AFTER_ED: return next(0x80, 0x9F, ONE);
    case AFTER_F0: return next(0x90, 0xBF, TWO);
    case AFTER_F4: return next(0x80, 0x8F, TWO);
    default: break;
  }
  if (byte < 0x80) return WHOLE;
  if (byte < 0xC2 || byte > 0xF4) return NO_UTF8;
  if (byte < 0xE0) return ONE;
  if (byte < 0xF0) return byte == 0xE0 ? AFTER_E0 : byte == 0xED ? AFTER_ED : TWO;
  return byte == 0xF0 ? AFTER_F0 : byte == 0xF4 ? AFTER_F4 : THREE;
}
}  // namespace

ClassLoops::ClassLoops(RuleDfa& dfa, Counters& counters, const Thresholds& thresholds)
    : dfa_(dfa), counters_(counters), nfa_(dfa.nfa()), closed_states_(thresholds.closed_states) {
  loops_.reserve(16);
}

std::size_t ClassLoops::bytes() const {
  return (loop_of_.capacity() + run_of_.capacity()) * sizeof(u32) + loops_.capacity() * sizeof(ClassLoop) +
         byte_runs_.capacity() * sizeof(ByteRun) + closed_.capacity() * sizeof(ClosedClasses) + lasting_.capacity() * sizeof(u64) +
         stays_of_.bytes() + stays_.capacity() * sizeof(LastingItem);
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
    PooledVector<Group> groups;
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
  PooledVector<Item> reached;
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
    const u32 body = nfa_.counting(item.state).body;
    // A counted automaton that was left and entered again has a new count, in addition to the released one.
    const bool counted = body != NONE && nfa_.heads[body].automaton;
    const bool counts_anew = counted && nfa_.registers.get(item.reg).count != COUNT_FREE;
    if ((!counted || counts_anew) && dfa_.reads(nfa_.states[item.state], inside)) return true;
  }
  return false;
}

// A byte run as the counters show it. Several repetitions may count in step: the blanks before a comma and those before a brace.
ByteRun ClassLoops::counted_run(StateId state) const {
  ByteRun run;
  PooledVector<std::pair<u32, AsciiSet>> bodies;  // (head, some of its bytes)
  AsciiSet other;
  RegisterId reg_of = NONE;
  for (const Item item : dfa_.items(state)) {
    const NfaState& nfa_state = nfa_.states[item.state];
    const u32 body = nfa_.countings[nfa_state.counting].body;
    if (body == NONE) {
      for (u32 e = nfa_state.first; e != NONE; e = nfa_.edges[e].next)
        if (const Edge& edge = nfa_.edges[e]; edge.kind == EDGE_BYTE && edge.lo < 128) other.add(edge.lo, std::min<u8>(edge.hi, 127));
        else if (edge.kind == EDGE_DEFAULT) other.add(0, 127);
      continue;
    }
    const Head& head = nfa_.heads[body];
    const Register reg = nfa_.registers.get(item.reg);
    const u32 done = reg.count;
    if (!head.byte || head.permutation || head.maximum == NONE) return {};
    if (done >= COUNT_DEEP || done < head.minimum || done >= head.maximum || reg.further) return {};
    if (reg_of != NONE && (item.reg != reg_of || run.left != head.maximum - done)) return {};
    reg_of = item.reg, run.left = head.maximum - done;
    if (bodies.empty() || bodies.back().first != body) bodies.push_back({body, {}});
    for (u32 e = nfa_state.first; e != NONE; e = nfa_.edges[e].next) {
      if (nfa_.edges[e].kind != EDGE_BYTE) continue;
      if (nfa_.edges[e].hi > 127) return {};
      bodies.back().second.add(nfa_.edges[e].lo, nfa_.edges[e].hi);
    }
  }
  if (bodies.empty()) return {};
  // PERF: by a search for each item, 10,000 objects of an enum, each with blanks of its own, took a third of their first mask.
  if (bodies.size() > 1) std::stable_sort(bodies.begin(), bodies.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t i = 0; i < bodies.size();) {
    AsciiSet bytes;
    const u32 head = bodies[i].first;
    for (; i < bodies.size() && bodies[i].first == head; i++) bytes.add(bodies[i].second);
    if (head == bodies[0].first) run.bytes = bytes;
    else if (bytes != run.bytes) return {};
  }
  run.inside = signature_inside(run.bytes);
  if (run.bytes.meets(other) || ascii_inside(run.inside) != run.bytes) return {};
  return run;
}

// The states after it differ only by their count. The start of a rule is never final, but its successor may be.
const ByteRun& ClassLoops::find_byte_run(StateId state) {
  if (run_of_.size() <= state) run_of_.resize(dfa_.size(), NONE);
  run_of_[state] = 0;
  if ((dfa_[state].flags & STATE_GUARD) || !dfa_[state].counts) return byte_runs_[0];
  dfa_.work().spend(4 + dfa_.items(state).size());
  const ByteRun run = counted_run(state);
  if (run.inside == 0) return byte_runs_[0];
  StateId after = DEAD;
  for (u32 b = 0; b < 128 && after == DEAD; b++)
    if (run.bytes.has(b)) after = dfa_.next(state, static_cast<u8>(b));
  if (after == DEAD) return byte_runs_[0];
  const std::span<const Item> items = dfa_.items(state), after_items = dfa_.items(after);
  // Where the repetition may end and begin again, as in ([a-z]{0,3})*, its count does not grow.
  auto counts_on = [this](const Item& a, const Item& b) {
    return a.state == b.state &&
           (nfa_.counting(a.state).body == NONE || nfa_.registers.get(b.reg).count == nfa_.registers.get(a.reg).count + 1);
  };
  if (!std::equal(items.begin(), items.end(), after_items.begin(), after_items.end(), counts_on)) return byte_runs_[0];
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

// Drops classes until texts of the others lead from the state only to states that keep them all, and lists these. A class that leads to a
// state where `enter` finds none is dropped, as the backslash is; then the search begins again. enter(state) gives the state that stands for
// it, DEAD for none. narrow(state, classes) drops the classes that the state does not keep, and says whether to follow those that are left.
template <class Enter, class Narrow>
u64 ClassLoops::close_under(u64 inside, StateId first, u32 most, std::vector<StateId>& seen, Enter enter, Narrow narrow) {
  for (bool again = true; again && inside;) {
    again = false;
    seen.assign(1, first);
    auto reach = [&](StateId target, u64 classes) {
      const StateId entered = enter(target);
      if (entered == DEAD) inside &= ~classes, again = true;
      else if (std::find(seen.begin(), seen.end(), entered) == seen.end()) seen.push_back(entered);
    };
    for (std::size_t i = 0; i < seen.size() && inside && !again; i++) {
      const StateId at = seen[i];
      dfa_.work().spend(20ull + dfa_[at].range_count);
      if (seen.size() > most) inside = 0;
      const u64 before = inside;
      const bool follow = narrow(at, inside);
      again = inside != before;
      if (!follow) continue;
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
  return inside;
}

// The classes that lead from the state only to states that read all of them again and neither end nor call. Unanchored patterns and "any
// key but these" have such states.
ClosedClasses ClassLoops::closed_classes(StateId state, u32 most) {
  most = std::min(most, closed_states_);
  if (state < closed_.size() && (closed_[state].inside || closed_[state].most >= most)) return closed_[state];
  PooledVector<StateId> seen;
  auto enter = [&](StateId at) -> StateId {
    if (at == DEAD) return DEAD;
    dfa_.build(at);
    if (!dfa_.dense(at) || (dfa_[at].flags & STATE_LEAVES)) return DEAD;
    // Inside a character, such as an escape of JSON, the next byte begins no new one; but characters are what is counted.
    return std::ranges::any_of(dfa_.items(at), [&](const Item& item) { return nfa_.counting(item.state).inside_character; }) ? DEAD : at;
  };
  auto narrow = [&](StateId at, u64& classes) {
    classes = seen.size() * dfa_.items(at).size() > most * FEW_CLOSED ? 0 : classes & class_loop(at).live;
    return true;
  };
  const u64 inside = close_under(class_loop(state).live, state, most, seen, enter, narrow);
  ClosedClasses found;
  found.inside = inside, found.most = most;
  if (closed_.size() < dfa_.size()) closed_.resize(dfa_.size());
  if (!inside) return closed_[state] = found;
  for (const StateId at : seen) {
    const auto [low, high] = counters_.settled(at);
    found.low = std::min(found.low, low), found.high = std::max(found.high, high);
    found.outside = found.outside || reads_outside(at, inside);
  }
  for (const StateId at : seen)
    if (!closed_[at].inside) closed_[at] = found;
  return found;
}

LastingItem ClassLoops::lasting_item(StateId state, u64 live, u64 needed) {
  struct Candidate {
    bool counts;
    u32 bytes;  // that it reads
    u32 maximum;
    Item item;
  };
  PooledVector<Candidate> candidates;
  PooledVector<std::pair<u32, Item>> counted;  // (characters that a repetition can still read, its item)
  const u32 fewest = ascii_inside(needed).size();  // PERF: no item of a letter is looked at, as those of keys are
  dfa_.work().spend(2 * dfa_.items(state).size());
  for (const Item item : dfa_.items(state)) {
    const NfaState& nfa_state = nfa_.states[item.state];
    const u32 body = nfa_.countings[nfa_state.counting].body;
    Candidate candidate{body != NONE && nfa_.registers.get(item.reg).count != COUNT_FREE, 0, NONE, item};
    if (candidate.counts) {
      const Head& head = nfa_.heads[body];
      if (head.automaton || head.permutation) continue;
      candidate.maximum = head.maximum;
      if (const u32 count = nfa_.registers.get(item.reg).count;
          head.maximum != NONE && count < head.maximum && head.maximum - count >= FEW_LEFT)
        counted.push_back({head.maximum - count, item});
    }
    for (u32 e = nfa_state.first; e != NONE; e = nfa_.edges[e].next)
      if (const Edge& edge = nfa_.edges[e]; edge.kind == EDGE_BYTE) candidate.bytes += edge.hi - edge.lo + 1u;
      else if (edge.kind == EDGE_DEFAULT) candidate.bytes += 256;
    if (candidate.bytes >= fewest) candidates.push_back(candidate);
  }
  const std::size_t tried = std::min(candidates.size(), MOST_LASTING);
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(tried), candidates.end(),
                    [](const Candidate& a, const Candidate& b) {
                      return std::tie(a.counts, b.bytes, b.maximum, a.item) < std::tie(b.counts, a.bytes, a.maximum, b.item);
                    });
  u64 inside = 0;
  for (std::size_t i = 0; i < tried && (!inside || (live & ~inside & SIG_WORDS)); i++)
    if (const u64 classes = classes_of_item(candidates[i].item); std::popcount(classes & live) > std::popcount(inside & live))
      inside = classes;
  u32 left = NONE;
  if (!inside || (live & ~inside & SIG_WORDS)) {
    std::sort(counted.begin(), counted.end(),
              [](const auto& a, const auto& b) { return std::tie(b.first, a.second) < std::tie(a.first, b.second); });
    counted.resize(std::min(counted.size(), MOST_LASTING));
    PooledVector<std::tuple<u32, u32, u64>> rows;  // (number of live classes, characters, classes)
    auto add = [&](u64 classes, u32 characters) {
      if (characters >= FEW_LEFT && !(needed & ~classes))
        rows.push_back({static_cast<u32>(std::popcount(classes & live)), characters, classes});
    };
    for (const auto& [characters, item] : counted) add(counted_classes(item), characters);
    for (std::size_t i = 0; i < tried; i++)
      if (!candidates[i].counts)
        if (const auto [classes, characters] = row_of_states(candidates[i].item.state, needed); classes) add(classes, characters);
    if (!rows.empty())
      if (const auto [number, characters, classes] = *std::max_element(rows.begin(), rows.end());
          number > static_cast<u32>(std::popcount(inside & live)))
        inside = classes, left = characters;
  }
  if (!inside || (needed & ~inside)) return {};
  PooledVector<u32> key;
  key.assign(1, static_cast<u32>(inside));
  key.push_back(static_cast<u32>(inside >> 32));
  for (const Item item : dfa_.items(state))
    if (key.size() == 2 || key.back() != item.state) key.push_back(item.state);
  const u32 id = stays_of_.intern(key.data(), key.size());
  if (id >= stays_.size()) {
    stays_.resize(id);
    const LastingItem found = stays(std::span(key).subspan(2), inside);
    stays_.push_back(found);
  }
  LastingItem found = stays_[id];
  found.left = left;
  return found;
}

// The ASCII classes by which a state of the NFA leads to one that reads them again, and so on, as those of a short repetition that is not
// counted do; and how many characters of them it reads. None where some of the needed classes are not among them.
std::pair<u64, u32> ClassLoops::row_of_states(NfaStateId first, u64 needed) {
  struct Move {
    NfaStateId target;
    AsciiSet bytes;
  };
  // The target that most characters lead to, all of `bytes` among them.
  auto best = [&](NfaStateId from, const AsciiSet& bytes) {
    PooledVector<NfaStateId> reached;
    reached.push_back(from);
    Move found{NfaStateId(NONE), {}};
    for (std::size_t i = 0; i < reached.size(); i++) {
      nfa_.expand(reached[i]);
      dfa_.work().spend(2);
      if (nfa_.counting(reached[i]).head != NONE || nfa_.counting(reached[i]).body != NONE) continue;
      PooledVector<Edge> moves;
      for (u32 e = nfa_.states[reached[i]].first; e != NONE; e = nfa_.edges[e].next) {
        const Edge& edge = nfa_.edges[e];
        if (edge.kind == EDGE_EPSILON && reached.size() < MOST_BETWEEN) reached.push_back(edge.target);
        if (edge.kind == EDGE_BYTE && edge.lo <= 127) moves.push_back(edge);
      }
      dfa_.work().spend(moves.size());
      std::ranges::sort(moves, {}, &Edge::target);
      for (std::size_t m = 0; m < moves.size();) {
        Move move{moves[m].target, {}};
        for (; m < moves.size() && moves[m].target == move.target; m++) move.bytes.add(moves[m].lo, std::min<u8>(moves[m].hi, 127));
        if (move.bytes.holds(bytes) && move.bytes.size() > found.bytes.size()) found = move;
      }
    }
    return found;
  };
  const Move move = best(first, ascii_inside(needed));
  const u64 classes = signature_inside(move.bytes);
  if (!classes) return {0, 0};
  const AsciiSet bytes = ascii_inside(classes);
  u32 characters = 1;
  for (NfaStateId at = move.target; characters < MOST_IN_ROW; characters++) {
    const Move next = best(at, bytes);
    if (next.target == NONE) break;
    at = next.target;
  }
  return {classes, characters};
}

bool ClassLoops::has_item(StateId state, const Item& item) const {
  if (state == DEAD) return false;
  const std::span<const Item> items = dfa_.items(state);
  return std::binary_search(items.begin(), items.end(), item);
}

u64 ClassLoops::ascii_classes_to(StateId from, const Item& item) {
  dfa_.build(from);
  AsciiSet bytes;
  for (u32 r = 0; r < dfa_[from].range_count; r++) {
    const Range range = dfa_.range(from, r);
    if (range.lo > 127) break;
    dfa_.work().spend(4);
    if (has_item(dfa_.range_target(from, r), item)) bytes.add(range.lo, std::min<u8>(range.hi, 127));
  }
  return signature_inside(bytes);
}

// The ASCII classes by whose every character an item of a repetition leads to itself with a count of one more.
u64 ClassLoops::counted_classes(const Item& item) {
  Register reg = nfa_.registers.get(item.reg);
  reg.count++;
  const Head& head = nfa_.heads[nfa_.counting(item.state).body];
  if (reg.further) reg.further = std::min(reg.further, head.maximum - 1 - reg.count);
  return ascii_classes_to(dfa_.intern_items({&item, 1}), {item.state, nfa_.registers.id(reg)});
}

// The classes by whose every character the item leads to itself; or, where it counts, by a few characters to states that have such an item,
// as its repetition soon counts freely: its minimum is reached, and no token comes near its maximum.
u64 ClassLoops::classes_of_item(const Item& item) {
  const StateId one = dfa_.intern_items({&item, 1});
  if (lasting_.size() <= one) lasting_.resize(dfa_.size(), LASTING_UNKNOWN);
  if (lasting_[one] != LASTING_UNKNOWN) return lasting_[one];
  auto counts = [&](const Item& each) {
    return nfa_.counting(each.state).body != NONE && nfa_.registers.get(each.reg).count != COUNT_FREE;
  };
  auto back_to_itself = [&](const Item& each) {
    const StateId from = dfa_.intern_items({&each, 1});
    const u64 inside = ascii_classes_to(from, each);
    if (!has_item(non_ascii_target(from, false), each)) return inside;
    const u64 spaces = has_item(non_ascii_target(from, true), each) ? SIG_SPACE : 0;
    return inside | SIG_NON_ASCII | SIG_INCOMPLETE | spaces;
  };
  // Some item of a state that leads back to itself, by most of the classes.
  auto lasting_of = [&](StateId state, u64 classes) {
    u64 most = 0;
    PooledVector<Item> items;
    for (const Item each : dfa_.items(state))
      if (!counts(each) && items.size() < MOST_LASTING) items.push_back(each);
    for (const Item& each : items)
      if (const u64 own = back_to_itself(each); std::popcount(own & classes) > std::popcount(most & classes)) most = own;
    return most;
  };
  auto may_count_freely = [&] {
    const Head& head = nfa_.heads[nfa_.counting(item.state).body];
    Register reg = nfa_.registers.get(item.reg);
    if (reg.count >= COUNT_DEEP || head.permutation || head.automaton) return false;
    reg.set_count(std::max(reg.last(), head.minimum));
    const Item later{item.state, nfa_.registers.id(reg)};
    const StateId saturated = counters_.saturated(dfa_.intern_items({&later, 1}));
    return !counts(dfa_.items(saturated)[0]);
  };
  u64 inside = 0;
  if (!counts(item)) {
    inside = back_to_itself(item);
  } else if (may_count_freely()) {
    PooledVector<StateId> seen;
    auto enter = [&](StateId at) -> StateId { return at == DEAD ? at : counters_.saturated(at); };
    auto narrow = [&](StateId at, u64& classes) {
      const u64 before = classes, lasting = lasting_of(at, classes) & classes;
      classes &= lasting ? lasting : class_loop(at).live;
      return classes == before && !lasting;  // texts of lasting classes keep the item
    };
    inside = close_under(class_loop(one).live, one, MOST_AHEAD, seen, enter, narrow);
  }
  if (lasting_.size() <= one) lasting_.resize(dfa_.size(), LASTING_UNKNOWN);
  lasting_[one] = inside;
  return inside;
}

// What the states of the NFA that texts of the classes lead to read. Counts are not looked at: these may be more states than there are.
// Refuses where a state reads bytes that are no UTF-8, which no class has.
LastingItem ClassLoops::stays(std::span<const u32> nfa_states, u64 inside) {
  LastingItem found;
  const AsciiSet ascii = ascii_inside(inside);
  PooledVector<std::pair<NfaStateId, u8>> reached;  // (state, what of a character is still to come)
  std::vector<u8> seen(nfa_.states.size());    // a bit for each
  auto add = [&](NfaStateId state, u8 rest) {
    if (seen.size() <= state) seen.resize(nfa_.states.size());
    if (seen[state] >> rest & 1) return;
    seen[state] |= static_cast<u8>(1u << rest);
    reached.push_back({state, rest});
  };
  dfa_.work().spend(nfa_.states.size() / 64);
  for (const u32 state : nfa_states) add(NfaStateId(state), 0);
  for (std::size_t i = 0; i < reached.size(); i++) {
    if (reached.size() > MOST_REACHED) return {};
    dfa_.work().spend(4);
    const auto [at, rest] = reached[i];
    nfa_.expand(at);
    const NfaState& state = nfa_.states[at];
    if (at == nfa_.rules[state.rule].final && (state.rule != nfa_.root || nfa_.root_called)) return {};
    if (const u32 number = nfa_.countings[state.counting].head; number != NONE) {
      const Head& head = nfa_.heads[number];
      if (head.permutation) return {};
      add(head.body, rest);
      if (!head.automaton) add(head.exit, rest);
      continue;
    }
    for (u32 e = state.first; e != NONE; e = nfa_.edges[e].next) {
      const Edge& edge = nfa_.edges[e];
      if (edge.kind == EDGE_CALL || edge.kind == EDGE_MEMBER) return {};
      if (edge.kind == EDGE_NON_ASCII || edge.kind == EDGE_TOKEN) continue;
      if (edge.kind != EDGE_BYTE) {
        add(edge.target, rest);
        continue;
      }
      dfa_.work().spend(1 + (edge.hi - edge.lo) / 8);
      for (u32 b = edge.lo; b <= edge.hi; b++) {
        found.read.set(b);
        const u8 after = utf8_rest(rest, static_cast<u8>(b));
        if (after == NO_UTF8) return {};
        if (b >= 128 || ascii.has(b)) add(edge.target, after);
      }
    }
  }
  found.inside = inside;
  return found;
}

}  // namespace stackmask
