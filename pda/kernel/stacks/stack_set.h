// Sets of stacks as nodes of a graph-structured stack (Tomita 1985): edges (state, node below), sorted by state, and interned.
//
//   S = "(" S ")" | "(" S | "x"        after "((" there are four stacks; two S's share the node below them
//
//     text  (        node 2: [S after "("] -> 1                          1: the empty stack, below it 0: no stack
//     text  ((       node 3: [S after "("] -> 2
//     text  ((x      node 4: [S after "x)"] -> 2    an ended state is popped: [S after "x"] of node 3 adds the edges of node 2
//
// A configuration of the pushdown automaton is such a node. Equal sets of stacks have equal numbers, so a step from one is computed once,
// and the tokens that a configuration allows are a function of a number.
//
// INVARIANT: a node is closed under popping (if the state of an edge may end, the node also has the edges of the node below), holds a state
// once (equal states unite the nodes below them), and holds no state that can only end, except regions. So ambiguous grammars keep one node
// for all stacks that share their tops. A region does not add the edges of the node below, so that stacks through it can be distinguished
// from others and dropped.
//
// A node also holds no stack that another one of it covers, see covered_stacks.h.
//
// A push copies the edges of one node at most, and is a lookup later. A union goes down both stacks while they share states, with explicit
// lists of work: nothing recurses on depth.
//
// Tested by tests/pda/test_nesting.py, test_engine_corpus.py and test_engine_exhaustive.py.
#pragma once

#include "rules/text_counts.h"
#include "stacks/covered_stacks.h"

namespace stackmask {

struct StackEdge {
  StateId state;
  StackId below;
  bool operator==(const StackEdge&) const = default;
  auto operator<=>(const StackEdge&) const = default;
};
constexpr StackId NO_STACK{0};
constexpr StackId EMPTY_STACK{1};

// What some stack of a node holds, as flags.
enum StackFlags : u8 {
  GUARD_BELOW = 1,
  SCOPE_BELOW = 2,  // a scope whose values may run out
};

class StackSet {
 public:
  StackSet(RuleDfa& dfa, TextCounts& counts, const Limits& limits);

  const StackEdge* edges(StackId node) const { return reinterpret_cast<const StackEdge*>(nodes_.at(node)); }  // until the next is interned
  u32 edge_count(StackId node) const { return static_cast<u32>(nodes_.length(node) / 2); }
  bool complete(StackId node) const { return edge_count(node) && edges(node)[0].state == BOTTOM; }  // the text may end here
  u8 guarded(StackId node) const { return guarded_[node]; }  // StackFlags
  u32 depth(StackId node) const { return depth_[node]; }  // of the longest stack
  u32 expires_at(StackId node) const { return limited_ ? expires_at_[node] : NONE; }  // after how many tokens its first limit is spanned
  u32 size() const { return static_cast<u32>(guarded_.size()); }

  StackId intern(std::vector<StackEdge>& edges);  // sorted, states unique; drops those that others cover
  StackId push(StateId state, StackId below);
  StackId unite(StackId a, StackId b);
  StackId join(std::span<const StackId> all);  // the union of many
  void unite_equal(std::vector<StackEdge>& edges);  // sorts them; edges of one state become one
  StackId advance(StackId node, u8 byte);
  StackId return_node(const Call& call, StackId below);  // the node that a called rule stands on
  StackId region_node(RuleId rule, StackId below);  // the region of a rule above a node, in its bundles

  // Whether some rule has a limit. Only then the position matters, at which a step enters regions.
  bool limited() const { return limited_; }
  void set_position(u32 tokens, u32 bytes) { position_tokens_ = tokens, position_bytes_ = bytes; }
  void begin_step() { entered_region_ = false; }
  bool entered_region() const { return entered_region_; }  // since begin_step(): the nodes made since then depend on the position

  // Calls visit(edge) for the edges of a node and of those below it, each node once. It returns whether to visit the node below the edge,
  // and interns nothing.
  template <class Visit>
  void each_edge(StackId from, Visit visit) const {
    PooledVector<StackId> todo{from};
    FlatMap looked_at;
    while (!todo.empty()) {
      const StackId node = todo.back();
      todo.pop_back();
      if (looked_at.find(node)) continue;
      looked_at.insert(node, 1);
      dfa_.work().spend(4ull + edge_count(node));
      for (const StackEdge& edge : std::span(edges(node), edge_count(node)))
        if (visit(edge) && edge.below != NO_STACK) todo.push_back(edge.below);
    }
  }

  // Marks the nodes below used nodes as used, and the states on them.
  void mark_below(std::vector<u8>& used, std::vector<u8>& states_used) const;
  std::vector<StackId> keep(const std::vector<u8>& used, const std::vector<StateId>& state_map);  // forgets the others; new numbers
  std::size_t bytes() const;

 private:
  RuleDfa& dfa_;
  TextCounts& counts_;
  Limits limits_;
  bool limited_;
  bool entered_region_ = false;
  u32 position_tokens_ = 0, position_bytes_ = 0;
  Interner nodes_;  // edges as pairs of words
  GrowingArray<u8> guarded_;
  GrowingArray<u32> depth_;
  GrowingArray<u32> expires_at_;  // where there are limits
  FlatMap unions_, pushes_, advances_;
  CoveredStacks covered_;
  StackId number(const std::vector<StackEdge>& edges);
};

}  // namespace stackmask
