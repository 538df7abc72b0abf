// The sizes from which the kernel takes one way to a mask or another. Masks do not depend on them; these values measured fastest.
// Tests lower them, so that every way is taken in small cases; they come with the vocabulary, which all grammars share.
#pragma once

#include "base.h"

namespace stackmask {

struct Thresholds {
  // The vocabulary.
  u32 large_subtree = 8192;  // nodes of the trie from which a subtree is large: the tokens there are taken by classes
  u32 wide_children = 12;  // children from which a node of the trie has a table of them
  u32 set_tokens = 256;  // tokens from which a set of nodes has a bitmask
  // Parts of masks.
  u32 covered_nodes = 4096;  // nodes that a mask has looked at, from which on it skips nodes whose tokens are all allowed already
  u32 many_places = 128;  // places of a mask, from which on calls of one rule are made together
  u32 listed_tokens = 1024;  // more tokens than this are a bitmask
  u32 many_nodes = 4;  // nodes from which on they are walked from together
  u32 few_nodes = 3;  // ... and up to which each is walked from by itself again
  u32 loop_exits = 4096;  // nodes that a loop is left at, up to which these are few
  u32 run_nodes = 4096;  // nodes up to which a run of single bytes lists where it may end
  u32 closed_states = 256;  // states up to which a set is found that is closed under some classes
  u32 absorbing_differences = 20'000;  // ways out of an absorbing state's mask that are followed
  u32 guarded_texts = 100'000;  // texts from which a loop serves under guards. INVARIANT: more values than any guard will have seen
  u32 tried_nodes = 512;  // nodes whose tokens may be denied, from which on only those are tried that the mask holds
  // RuleDfa.
  u32 dense_bytes = 24;  // live bytes from which a state is dense
  u32 lookups = 48;  // of bytes in a dense state, from which on it has a table
  u32 partly_closed_items = 64;  // items that a byte leads to, from which on only those are closed that are not closed already
  // Stacks.
  u32 bundled_tokens = 8;  // regions that began in so many tokens are the smallest bundle
  // Lowering.
  u32 unrolled_states = 24;  // states up to which a repetition is unrolled, not counted
  u32 unrolled_inside = 512;  // ... in the body of another one that is counted
  u32 shared_states = 12;  // states from which on an expression that stands in several places becomes a rule
  u32 inlined_states = 12;  // a rule of at most this many states is inlined wherever it is called
  u32 inlined_open_states = 64;  // ... and of this many, if it may end where it may also go on
  u32 inlined_behind_loop = 256;  // ... and of this many, behind a loop over a large class of characters
  u32 few_states = 16;  // an automaton of at most this many is lowered at once
  u32 sharing_bytes = 512;  // of all words among alternatives, from which on they share what they begin with
  u32 spelled_bytes = 64;  // of a long text that are lowered at a time
  u32 row_parts = 32;  // calls that may read nothing, one behind the other, from which on rows of them become rules
  u32 spelled_ranges = 32;  // of all characters that a state reads, from which on they are spelled as texts come to them
  // Texts that are left for values.
  u32 searched_states = 1024;  // of a rule that is searched whole for repeated characters, and searched ahead of a state of a larger one
  // Memory.
  u32 steps_to_collect = 256;  // steps from one look at the memory to the next
};

inline constexpr struct {
  const char* name;
  u32 Thresholds::* value;
} THRESHOLDS[] = {
    {"large_subtree", &Thresholds::large_subtree},
    {"wide_children", &Thresholds::wide_children},
    {"set_tokens", &Thresholds::set_tokens},
    {"covered_nodes", &Thresholds::covered_nodes},
    {"many_places", &Thresholds::many_places},
    {"listed_tokens", &Thresholds::listed_tokens},
    {"many_nodes", &Thresholds::many_nodes},
    {"few_nodes", &Thresholds::few_nodes},
    {"loop_exits", &Thresholds::loop_exits},
    {"run_nodes", &Thresholds::run_nodes},
    {"closed_states", &Thresholds::closed_states},
    {"absorbing_differences", &Thresholds::absorbing_differences},
    {"guarded_texts", &Thresholds::guarded_texts},
    {"tried_nodes", &Thresholds::tried_nodes},
    {"dense_bytes", &Thresholds::dense_bytes},
    {"lookups", &Thresholds::lookups},
    {"partly_closed_items", &Thresholds::partly_closed_items},
    {"bundled_tokens", &Thresholds::bundled_tokens},
    {"unrolled_states", &Thresholds::unrolled_states},
    {"unrolled_inside", &Thresholds::unrolled_inside},
    {"shared_states", &Thresholds::shared_states},
    {"inlined_states", &Thresholds::inlined_states},
    {"inlined_open_states", &Thresholds::inlined_open_states},
    {"inlined_behind_loop", &Thresholds::inlined_behind_loop},
    {"few_states", &Thresholds::few_states},
    {"sharing_bytes", &Thresholds::sharing_bytes},
    {"spelled_bytes", &Thresholds::spelled_bytes},
    {"row_parts", &Thresholds::row_parts},
    {"spelled_ranges", &Thresholds::spelled_ranges},
    {"searched_states", &Thresholds::searched_states},
    {"steps_to_collect", &Thresholds::steps_to_collect},
};

}  // namespace stackmask
