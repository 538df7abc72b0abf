// Static analysis of the expressions, before any NFA state exists: a few passes over the nodes. The facts decide which nodes become rules,
// which calls are inlined, and in which order calls are expanded, so that rules can be lowered when they are reached.
#pragma once

#include <unordered_map>

#include "rules/nfa.h"
#include "vocabulary/trie.h"

namespace stackmask {

// Vertices are the nodes, followed by the rules: rule r is vertex `nodes + r`.
enum VertexFlags : u8 {
  PRODUCTIVE = 1,  // generates a text
  NULLABLE = 2,    // generates the empty text
  REACHED = 4,     // from the root, through productive vertices
  SHARED = 8,      // large, and used in several places: becomes a rule, or lowering would be exponential
  INLINED = 16,    // a rule or a shared node that becomes a part of its callers
  CALLED_ONCE = 32,
  COUNTING = 64,   // its own states count, calls aside
  OPEN = 128,      // it may end in a state where it may also continue
};

struct Facts {
  std::vector<u8> flags;         // by vertex
  std::vector<u32> size;         // by node: its approximate number of states, saturated
  std::vector<u32> least;        // by node: a lower bound on the bytes that it reads, without following calls
  std::vector<u32> whole;        // by vertex: its states, including those of inlined callees
  std::vector<u32> rank;         // by vertex: smaller than the rank of every vertex that it may call before it reads anything
  // By vertex, if there is a DISTINCT: a string in it surely has infinitely many values; parts of it may come in any order.
  std::vector<u8> endless, permuting;
  std::vector<u8> recursive;  // by vertex, if there are any: it may come to itself
  std::vector<std::pair<u32, u32>> token_sets;  // (node, index into those of the NFA), sorted
  struct Lengths {
    std::vector<u32> least, most;
  };
  std::unordered_map<u32, Lengths>
      lengths;  // by node: of counted automata, the result of automaton_lengths(); missing for nodes known before
  u64 unrolled = 0;  // the number of states up to which a repetition is unrolled instead of counted
  u64 states = 0;  // the approximate number for all reached expressions, each lowered once
  bool left_recursive = false;
  bool root_called = false;
  bool limited = false;  // a LIMIT is reached
  bool nested_distinct = false;  // a DISTINCT is in a position where lowering may have to refuse it

  bool is(u32 vertex, u8 flag) const { return flags[vertex] & flag; }
  bool is_recursive(u32 vertex) const { return !recursive.empty() && recursive[vertex]; }
  std::size_t bytes() const;
};

// Whether some repetition needs a counter: not *, + or ?, nor one that is short when unrolled.
bool counted_repeat(const Expressions& expressions, const Facts& facts, u32 node);

// Also fills in the NFA's facts about the whole grammar: token sets, temperatures, captures, escapes. Throws Unsatisfiable if the root
// generates nothing, and BadGrammar for a grammar that cannot be lowered.
Facts find_facts(Expressions& expressions, const TokenTrie& trie, Nfa& nfa, Deadline& deadline);

}  // namespace stackmask
