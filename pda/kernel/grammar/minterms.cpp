#include "grammar/minterms.h"

#include <algorithm>

#include "grammar/spelling.h"

namespace stackmask {

namespace {

// The characters of all classes as an NFA, which knows of each state the class that it is made for.
class SpelledClasses final : private Spelling {
 public:
  SpelledClasses(const ByTarget& targets, i32 encoding, Work& work, Deadline* deadline) : work_(work), deadline_(deadline) {
    nfa_ = &nfa;
    nfa.rules.emplace_back();
    which_ = NONE;
    start = state();
    for (which_ = 0; which_ < targets.groups.size(); which_++) ends.push_back(state());
    for (which_ = 0; which_ < targets.groups.size(); which_++) {
      const auto& group = targets.groups[which_];
      chars(start, ends[which_], targets.ranges.data() + group.begin, group.end - group.begin, encoding);
    }
  }
  Nfa nfa;
  NfaStateId start{0};
  std::vector<NfaStateId> ends;  // by class
  std::vector<u32> classes;      // by state
  bool is_end(NfaStateId state) const { return state > start && state <= ends.size(); }

 private:
  Work& work_;
  Deadline* deadline_;
  u32 which_;
  NfaStateId state() override {
    if (deadline_) deadline_->check();
    else work_.spend(4);
    classes.push_back(which_);
    return nfa.add_state(RuleId(0));
  }
};

}  // namespace

// Determinizes the NFA of all classes (Rabin & Scott 1959). Characters are spelled by a prefix code, so there are no more nodes than states.
u32 Minterms::root(const ByTarget& classes, i32 encoding, Work& work, Deadline* deadline) {
  PooledVector<u32> key;
  key.push_back(static_cast<u32>(encoding));
  for (const auto& group : classes.groups) {
    key.push_back(group.end - group.begin);
    for (u32 r = group.begin; r < group.end; r++) key.push_back(static_cast<u32>(classes.ranges[r]));
  }
  auto spend = [&](u64 units) {
    if (deadline) deadline->check();
    else work.spend(units);
  };
  spend(key.size() / 2);
  const u32 number = keys_.intern(key.data(), key.size());
  if (number < roots_.size() && roots_[number] != NONE) return roots_[number];
  roots_.resize(keys_.size(), NONE);
  ends_.resize(keys_.size(), NONE);
  const SpelledClasses spelled(classes, encoding, work, deadline);
  const u32 first = static_cast<u32>(nodes_.size() - 1);
  Interner sets;
  const u32 start = spelled.start;
  sets.intern(&start, 1);
  std::vector<Node> nodes{nodes_.back()};
  std::vector<Edge> edges;
  std::vector<u32> found;
  std::vector<NonAscii> non_ascii;
  struct Live {
    u8 lo, hi;
    NfaStateId target;
  };
  PooledVector<Live> live;
  PooledVector<u32> cuts, set;
  std::vector<std::vector<u32>> pieces(257);
  for (u32 n = 0; n < sets.size(); n++) {
    Node& node = nodes.back();
    node.root = number;
    const std::size_t classes_before = found.size(), edges_before = edges.size();
    live.clear(), cuts.clear();
    bool cut[257] = {};
    for (std::size_t i = 0; i < sets.length(n); i++) {
      const NfaStateId state(sets.at(n)[i]);
      const NfaState& member = spelled.nfa.states[state];
      node.partial_non_ascii = node.partial_non_ascii || member.partial_non_ascii;
      if (n) found.push_back(spelled.classes[state]);
      for (u32 e = member.first; e != NONE; e = spelled.nfa.edges[e].next) {
        const ::stackmask::Edge& edge = spelled.nfa.edges[e];
        if (edge.kind == EDGE_NON_ASCII) non_ascii.push_back({spelled.classes[edge.target], edge.data});
        else live.push_back({edge.lo, edge.hi, edge.target}), cut[edge.lo] = cut[edge.hi + 1] = true;
      }
    }
    spend(4 + 4 * live.size());
    if (n == 0)
      for (u32 which = 0; which < spelled.ends.size(); which++) found.push_back(which);
    std::sort(found.begin() + static_cast<std::ptrdiff_t>(classes_before), found.end());
    found.erase(std::unique(found.begin() + static_cast<std::ptrdiff_t>(classes_before), found.end()), found.end());
    u32 place_of[257];
    for (u32 b = 0; b <= 256; b++) {
      if (cut[b]) cuts.push_back(b), pieces[cuts.size() - 1].clear();
      place_of[b] = static_cast<u32>(cuts.size() - 1);
    }
    for (const Live& edge : live)
      for (u32 c = place_of[edge.lo]; cuts[c] <= edge.hi; c++) pieces[c].push_back(edge.target);
    for (std::size_t c = 0; c + 1 < cuts.size(); c++) {
      const u8 lo = static_cast<u8>(cuts[c]), hi = static_cast<u8>(cuts[c + 1] - 1);
      auto add = [&](u32 to) {
        for (std::size_t e = edges_before; e < edges.size(); e++)
          if (edges[e].to == to && edges[e].hi + 1 == lo) {
            edges[e].hi = hi;
            return;
          }
        edges.push_back({lo, hi, to});
      };
      set.clear();
      for (const u32 state : pieces[c]) {
        if (spelled.is_end(NfaStateId(state))) add(END | spelled.classes[state]);
        else set.push_back(state);
      }
      spend(pieces[c].size());
      if (set.empty()) continue;
      std::sort(set.begin(), set.end());
      set.erase(std::unique(set.begin(), set.end()), set.end());
      add(first + sets.intern(set.data(), set.size()));
    }
    Node next;
    next.edges = static_cast<u32>(edges_.size() + edges.size());
    next.classes = static_cast<u32>(classes_.size() + found.size());
    next.non_ascii = static_cast<u32>(non_ascii_.size() + non_ascii.size());
    nodes.push_back(next);
  }
  nodes_.pop_back();
  nodes_.insert(nodes_.end(), nodes.begin(), nodes.end());
  edges_.insert(edges_.end(), edges.begin(), edges.end());
  classes_.insert(classes_.end(), found.begin(), found.end());
  non_ascii_.insert(non_ascii_.end(), non_ascii.begin(), non_ascii.end());
  ends_[number] = static_cast<u32>(nodes_.size() - 1);
  return roots_[number] = first;
}

std::size_t Minterms::bytes() const {
  return keys_.bytes() + (roots_.capacity() + ends_.capacity() + classes_.capacity()) * sizeof(u32) + nodes_.capacity() * sizeof(Node) +
         edges_.capacity() * sizeof(Edge) + non_ascii_.capacity() * sizeof(NonAscii);
}

}  // namespace stackmask
