// State masks: how one state of a rule reads the tokens below a set of trie nodes, for any stack.
//
// These are the context-independent masks of XGrammar (Dong et al. 2024). Tokens that leave the state move on the stack: a rule is called
// (push) or ends (pop). The state mask names the trie nodes at which this happens, and compose.cpp continues there.
//
//   array of strings, inside a string   vocabulary   a    a"   a",   ","   "       (the first " ends the string)
//
//   state_mask({root}, [string])        tokens       a
//                                       move pop     at the nodes  "  a"    which tokens pass: "  a"  a",  ","
//   state_mask({" a"}, [array])         tokens       (ending at a node of the pop)  a"  "   and after a comma  a",
//                                       move push    string, at the node  ",  on the way to  ","
//
// A state mask is a bitmask or a list of tokens, with further state masks of the same stack nested in it: those that a class loop leads
// to, and those of large subtrees. It is made once for a grammar, by the cheapest way in loops.h or a walk over the trie (builder.h).
//
// Tested by tests/pda/test_engine_masks.py, tests/pda/test_mask_exits.py and tests/pda/kernel/test_class_loops.py.
#pragma once

#include <memory>
#include <unordered_map>

#include "masks/builder.h"

namespace stackmask {

// Its lists are ranges of lists that all state masks share.
struct StateMask {
  struct List {
    u32 begin, end;
    bool empty() const { return begin == end; }
  };
  const u32* dense;  // a bitmask, or null
  List tokens;  // single tokens
  List excluded;  // tokens of dense that are not allowed
  List moves, nested, scarce;
};

class StateMasks {
 public:
  StateMasks(const TokenTrie& trie, RuleDfa& dfa, Counters& counters, TextCounts& counts, ClassLoops& loops, Statistics& statistics);

  // The mask of a state at a list of nodes; guarded: with the nodes at which few values remain. It may need further masks, and then calls
  // itself.
  StateMaskId get(ListId nodes, StateId state, bool guarded);
  const StateMask& operator[](StateMaskId id) const { return masks_[id]; }
  // Valid until the next mask is made.
  std::span<const TokenId> tokens(StateMask::List list) const { return {tokens_.data() + list.begin, list.end - list.begin}; }
  const StackMove& move(u32 index) const { return moves_[index]; }
  std::span<const StateMaskId> nested(StateMask::List list) const { return {nested_.data() + list.begin, list.end - list.begin}; }
  const ScarceNode& scarce_node(u32 index) const { return scarce_[index]; }
  NodeLists& lists() { return lists_; }
  const u32* hold(const std::shared_ptr<const LoopMask>& mask);  // keeps a mask of the vocabulary, which may forget it; returns its words
  void clear();
  std::size_t bytes() const;

 private:
  const TokenTrie& trie_;
  Counters& counters_;
  Statistics& statistics_;
  NodeLists lists_;
  MaskContext context_;
  FlatMap ids_;  // by nodes, state and whether it is guarded
  GrowingArray<StateMask> masks_;
  GrowingArray<TokenId> tokens_;  // tokens and excluded tokens
  GrowingArray<StackMove> moves_;
  GrowingArray<StateMaskId> nested_;
  GrowingArray<ScarceNode> scarce_;
  std::vector<std::vector<u32>> own_masks_;
  std::unordered_map<const u32*, std::shared_ptr<const LoopMask>> loop_masks_;  // by their words
  StateMaskId keep(StateMaskBuilder& made);
};

}  // namespace stackmask
