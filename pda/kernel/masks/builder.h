// A state mask under construction: a walk over the trie, or a class loop and walks from its exits.
//
// One object holds the whole working state, in the memory of an earlier one. If a mask needs another one, as loops do, a second object
// builds that.
//
//   trie, depth first:   root  a  a"  a",  "  ",  ","        walk in [string]: a stays; at a" and " the string may end, so they are
//   [string] reads       .     .  hit .    hit .   .          hits of the state after the quote; bytes after them belong to the caller
//
// A walk visits each node below whose byte is live once. If few bytes are live and a node has many children, it looks these bytes up
// instead. Walks from many nodes at once use the vocabulary's sets of nodes. Large subtrees become separate state masks.
//
// Tested by tests/pda/test_engine_masks.py.
#pragma once

#include "masks/class_loops.h"
#include "masks/node_lists.h"
#include "pooled.h"
#include "rules/text_counts.h"
#include "statistics.h"

namespace stackmask {

class StateMasks;

// A move on the stack at these nodes of the trie: a call of the rule, or the end of the state's own rule if `rule` is NONE.
struct StackMove {
  RuleId rule;
  StateId back;    // to return to
  ListId nodes;
  bool distinct;
};

// A node of the trie from which a state has few texts to its end; state DEAD: a scope that may run out of values.
struct ScarceNode {
  NodeId node;
  StateId state;
  u32 texts;
};

// Shared by all builders.
struct MaskContext {
  const TokenTrie& trie;
  RuleDfa& dfa;
  Counters& counters;
  TextCounts& counts;
  ClassLoops& loops;
  NodeLists& lists;
  Statistics& statistics;
  StateMasks& masks;
};

class StateMaskBuilder : public MaskContext {
  struct Lists {
    std::vector<u32> own;
    std::vector<TokenId> tokens, excluded;
    std::vector<StackMove> moves;
    std::vector<StateMaskId> nested;
    std::vector<ScarceNode> scarce;
    std::vector<std::pair<StateId, NodeId>> hits;
    std::vector<std::pair<NodeId, StateId>> seeds, large;
    std::vector<StateId> path;
    Lists() { tokens.reserve(64), hits.reserve(64), seeds.reserve(64); }  // as most masks need: growing step by step would copy them
    void clear() {
      own.clear(), tokens.clear(), excluded.clear(), moves.clear(), nested.clear(), scarce.clear();
      hits.clear(), seeds.clear(), large.clear();
    }
    STACKMASK_NOINLINE void free() {
      const auto each = [](auto&... list) { (..., std::exchange(list, {})); };
      each(own, tokens, excluded, moves, nested, scarce, hits, seeds, large, path);
    }
  };
  Pooled<Lists> pooled_{dfa.work()};
  Lists& l_ = *pooled_;

 public:
  explicit StateMaskBuilder(const MaskContext& context) : MaskContext(context) {
    if (path.size() < trie.max_token_bytes() + 2) path.resize(trie.max_token_bytes() + 2);
  }
  StateMaskBuilder(const StateMaskBuilder&) = delete;
  void build(ListId nodes, StateId state, bool guarded);

  // The mask.
  const u32* dense = nullptr;           // a bitmask of the vocabulary's, or own
  std::vector<u32>& own = l_.own;       // an own bitmask, where the tokens are many
  std::vector<TokenId>& tokens = l_.tokens;
  std::vector<TokenId>& excluded = l_.excluded;
  std::vector<StackMove>& moves = l_.moves;
  std::vector<StateMaskId>& nested = l_.nested;
  std::vector<ScarceNode>& scarce = l_.scarce;  // where guarded

  // For class loops.
  bool guarded = false;              // leaves of the trie, and nodes where few values remain, matter
  const ClassIndex* index = nullptr;  // of the node where the mask begins, if there is only one
  std::vector<std::pair<StateId, NodeId>>& hits = l_.hits;  // (state, node) where a state ends or calls
  std::vector<StateId>& path = l_.path;             // states by depth
  void clear();
  void take_bitmask(const std::shared_ptr<const LoopMask>& mask);
  void add_tokens(NodeId node);      // those that end there
  void walk_child(NodeId child, StateId state);
  // Continues in `state` at these sorted nodes: adds its moves, and its tokens below them. `shared`: the list of exactly these nodes.
  void go_on_at(const std::vector<NodeId>& nodes, StateId state, const NodeList* shared = nullptr);
  // Adds the moves of a state that leaves, which is reached at these nodes.
  void leave_at(StateId state, const NodeList& nodes);
  // Under guards: the nodes where a state ends, and those where it does not but few texts lead to its end.
  void record_guarded(NodeId node, StateId state);

 private:
  std::vector<std::pair<NodeId, StateId>>& seeds_ = l_.seeds;  // (node, state) to walk from
  std::vector<std::pair<NodeId, StateId>>& large_ = l_.large;  // (node, state) of large subtrees, to continue at
  void walk_nodes(ListId nodes, StateId state);
  void walk(NodeId node, StateId state);
  void walk_seeds();
  void walk_byte_run(NodeId node, StateId state);
  bool walk_set(const NodeSet* set, StateId state);
  template <class F>
  void each_move(StateId state, F take);
  void finish();
  void gather_moves();
  void group_hits(std::vector<std::pair<StateId, u32>>& states, std::vector<NodeId>& by_state);
};

}  // namespace stackmask
