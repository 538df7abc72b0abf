// Facts about expressions before any of them is lowered: some passes over the nodes, and no states. They decide which nodes become rules,
// which calls are inlined, and in which order calls are expanded; so rules can be lowered as they are reached.
#pragma once

#include "rules/nfa.h"
#include "vocabulary/trie.h"

namespace stackmask {

// Vertices are the nodes, and behind them the rules: rule r is vertex `nodes + r`.
enum VertexFlags : u8 {
  PRODUCTIVE = 1,  // generates a text
  NULLABLE = 2,    // ... the empty one
  REACHED = 4,     // from the root, through productive vertices
  SHARED = 8,      // stands in several places and is large: a rule, or lowering would be exponential
  INLINED = 16,    // a rule, or a shared node, that becomes a part of its callers
  CALLED_ONCE = 32,
  COUNTING = 64,   // its states count, outside of calls
  OPEN = 128,      // it may end where it may also go on
};

struct Facts {
  std::vector<u8> flags;         // by vertex
  std::vector<u32> size;         // by node: about how many states it takes, saturated
  std::vector<u32> least;        // by node: a lower bound of the bytes that it reads, found without following calls
  std::vector<u32> whole;        // by vertex: states, with those of inlined callees
  std::vector<u32> rank;         // by vertex: smaller than that of anything that it may call before it has read something
  // By vertex, where there is a DISTINCT: characters of a string in it surely repeat without end; parts of it may stand in any order.
  std::vector<u8> endless, permuting;
  std::vector<std::pair<u32, u32>> token_sets;  // (node, index into those of the NFA), sorted
  u64 unrolled = 0;  // states that a repetition may be unrolled to instead of counted
  u64 states = 0;  // about how many all reached expressions take, each lowered once
  bool left_recursive = false;
  bool root_called = false;
  bool limited = false;  // a LIMIT is reached
  bool nested_distinct = false;  // a DISTINCT lies where lowering may have to refuse it

  bool is(u32 vertex, u8 flag) const { return flags[vertex] & flag; }
  std::size_t bytes() const;
};

// The texts of some rules are bounded in ways that only a counter can keep: not *, + and ?, and nothing that is short when unrolled.
bool counted_repeat(const Expressions& expressions, const Facts& facts, u32 node);

// Fills in the NFA's facts about the whole grammar: token sets, temperatures, captures, escapes. Unsatisfiable where the root generates
// nothing; BadGrammar for a grammar that cannot be lowered.
Facts find_facts(Expressions& expressions, const TokenTrie& trie, Nfa& nfa, Deadline& deadline);

}  // namespace stackmask
