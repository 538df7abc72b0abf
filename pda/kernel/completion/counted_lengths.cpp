// Least lengths in a counted automaton: a row for each count, and one for all counts whose rows repeat.
#include <algorithm>

#include "completion/lengths.h"
#include "rules/nfa.h"

namespace stackmask {

// Computed backwards from the largest count: after a number of characters, the least way from a state is one more character and the least
// way from its target. From the minimum on, rows no longer change once every shortest text is short enough. Below the minimum each row is
// mostly the next one plus the length of a character.
CountedLengths::CountedLengths(const Nfa& nfa, u32 id, std::vector<u32>& place, Deadline& deadline) : place_(&place) {
  const Head& head = nfa.heads[id];
  minimum_ = head.minimum, maximum_ = head.maximum;
  std::vector<NfaStateId> states{head.body};
  std::vector<u32> stands, reached;
  place[head.body] = 0;
  std::vector<std::pair<u32, u32>> back;  // (target, source) of edges that read a byte
  for (std::size_t i = 0; i < states.size(); i++) {
    for (u32 e = nfa.states[states[i]].first; e != NONE; e = nfa.edges[e].next) {
      const Edge& edge = nfa.edges[e];
      if (edge.kind != EDGE_BYTE && edge.kind != EDGE_EPSILON && edge.kind != EDGE_COUNT) continue;
      if (place[edge.target] == NONE) place[edge.target] = static_cast<u32>(states.size()), states.push_back(edge.target);
      if (edge.kind == EDGE_BYTE) back.push_back({place[edge.target], static_cast<u32>(i)});
      if (edge.kind == EDGE_COUNT) stands.push_back(place[edge.target]), reached.push_back(static_cast<u32>(i));
    }
  }
  if (std::find(stands.begin(), stands.end(), 0u) == stands.end()) stands.push_back(0), reached.push_back(NONE);
  // The states where the next character may end, and after how many bytes: found for all of `stands`, backwards from their targets.
  std::sort(back.begin(), back.end());
  ways_.resize(states.size());
  std::vector<u32> depth(states.size(), NONE), queue;
  for (u32 to = 0; to < reached.size(); to++) {
    if (reached[to] == NONE) continue;
    queue.assign(1, reached[to]);
    depth[reached[to]] = 0;
    for (std::size_t i = 0; i < queue.size(); i++) {
      deadline.check();
      ways_[queue[i]].push_back({to, depth[queue[i]]});
      for (auto at = std::lower_bound(back.begin(), back.end(), std::pair<u32, u32>{queue[i], 0});
           at != back.end() && at->first == queue[i]; ++at)
        if (depth[at->second] == NONE) depth[at->second] = depth[queue[i]] + 1, queue.push_back(at->second);
    }
    for (const u32 state : queue) depth[state] = NONE;
  }
  width_ = static_cast<u32>(stands.size());
  std::vector<u8> accepting(width_, 0);
  for (u32 i = 0; i < width_; i++)
    for (u32 e = nfa.states[states[stands[i]]].first; e != NONE; e = nfa.edges[e].next) {
      const Edge& edge = nfa.edges[e];
      if (edge.kind == EDGE_LEAVE) accepting[i] = 1;
      if (edge.kind == EDGE_EPSILON) {
        auto& ways = ways_[stands[i]];
        const auto& more = ways_[place[edge.target]];
        ways.insert(ways.end(), more.begin(), more.end());
      }
    }
  for (u32 state = 0; state < states.size(); state++) place[states[state]] = state;
  stand_of_.assign(states.size(), NONE);
  for (u32 i = 0; i < width_; i++) stand_of_[stands[i]] = i;
  auto row_before = [&](const u32* next, bool may_end, std::vector<u32>& row) {
    row.assign(width_, NONE);
    for (u32 i = 0; i < width_; i++) {
      if (may_end && accepting[i]) row[i] = 0;
      else if (next) row[i] = after(stands[i], next);
    }
    deadline.check();
  };
  std::vector<u32> row, last;
  row_before(nullptr, true, last);
  rows_ = last;
  for (u64 count = 1; maximum_ == NONE || count <= maximum_ - minimum_; count++) {
    row_before(last.data(), true, row);
    if (row == last) break;
    rows_.insert(rows_.end(), row.begin(), row.end());
    last.swap(row);
  }
  free_ = static_cast<u32>(rows_.size() / width_);
  const u32 first = maximum_ == NONE ? free_ - 1 : std::min(maximum_ - minimum_, free_ - 1);  // the row of the minimum
  last.assign(rows_.begin() + first * width_, rows_.begin() + (first + 1) * width_);
  constexpr u32 LONGEST_PERIOD = 16;
  constexpr u64 MOST_LENGTHS = 16'000'000;
  for (u32 below = 1; below <= minimum_; below++) {
    row_before(last.data(), false, row);
    rows_.insert(rows_.end(), row.begin(), row.end());
    last.swap(row);
    for (u32 period = 1; period <= std::min(LONGEST_PERIOD, below - 1) && !period_; period++)
      if (repeats(period)) period_ = period;
    if (period_) break;
    if (rows_.size() > MOST_LENGTHS)
      throw LimitExceeded("states", static_cast<double>(MOST_LENGTHS),
                          "the least lengths of a pattern of at least " + std::to_string(minimum_) + " characters are more than " +
                              std::to_string(MOST_LENGTHS) + " numbers");
  }
}

// The last row is the one `period` rows before it, plus the same amount at each index.
bool CountedLengths::repeats(u32 period) {
  const u32* now = rows_.data() + rows_.size() - width_;
  const u32* before = now - static_cast<std::size_t>(period) * width_;
  u32 more = NONE;
  for (u32 i = 0; i < width_; i++) {
    if ((now[i] == NONE) != (before[i] == NONE)) return false;
    if (now[i] == NONE) continue;
    if (more == NONE) more = now[i] - before[i];
    else if (now[i] - before[i] != more) return false;
  }
  more_ = more == NONE ? 0 : more;
  return true;
}

u32 CountedLengths::after(u32 place, const u32* row) const {
  u64 best = NONE;
  for (const auto& [to, bytes] : ways_[place]) best = std::min(best, plus(bytes, row[to]));
  return static_cast<u32>(best);
}

// The length from a state, between characters or inside one, after `count` characters.
u64 CountedLengths::of(NfaStateId state, u32 count) const {
  const u32 place = (*place_)[state], stand = stand_of_[place];
  const bool deep = count == COUNT_DEEP;
  u64 at = deep ? 0 : maximum_ == NONE ? std::min(count, minimum_) : std::min(count, maximum_);
  if (stand == NONE && at == maximum_) return NONE;
  at += stand == NONE;  // the row that the character leads to
  u64 more = 0;
  u64 row;
  if (at >= minimum_) {
    row = maximum_ == NONE ? free_ - 1 : std::min<u64>(maximum_ - at, free_ - 1);
  } else {
    const u64 kept = rows_.size() / width_ - free_;
    u64 below = minimum_ - at;
    if (below > kept) {
      const u64 rounds = (below - kept + period_ - 1) / period_;
      more = rounds * more_;
      below -= rounds * period_;
    }
    row = free_ + below - 1;
  }
  const u32* lengths = rows_.data() + row * width_;
  return plus(stand == NONE ? after(place, lengths) : lengths[stand], more);
}

}  // namespace stackmask
