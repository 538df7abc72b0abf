// Counts of the ways that steps and masks took, for tests, the fuzzer and benchmarks: a strategy that never runs passes every test.
#pragma once

#include "base.h"

namespace stackmask {

// How often each way was taken.
struct Statistics {
  u64 masks = 0, state_masks = 0, reclaims = 0;
  // Walks: of all, those by tables of children, from many nodes at once and along runs of bytes, with sets and without.
  u64 walks = 0, walked_nodes = 0, wide_walks = 0, set_walks = 0, set_runs = 0, node_runs = 0, set_masks = 0, spent_sets = 0;
  // Class loops: of all, those of each kind; where none was found; and those below a node with a large subtree.
  u64 loops = 0, loop_fallbacks = 0, byte_runs = 0, chains = 0, counted_chains = 0, guarded_chains = 0, leaving_chains = 0;
  u64 absorbing = 0, guarded_absorbing = 0, excluded = 0;
  u64 closed = 0, bounded_closed = 0, lasting = 0, bounded_lasting = 0, large_loops = 0, large_walks = 0;
  u64 own_masks = 0, guarded_state_masks = 0, saturated = 0, covered = 0, united_calls = 0, same_levels = 0;
  // Guards.
  u64 refusals = 0, refuted = 0, unverified = 0, held_trials = 0, counted_texts = 0, searches = 0;
  u64 expired = 0;  // where a region spans its limit
};
inline constexpr struct {
  const char* name;
  u64 Statistics::* value;
} STATISTICS[] = {
    {"masks", &Statistics::masks},
    {"state_masks", &Statistics::state_masks},
    {"reclaims", &Statistics::reclaims},
    {"walks", &Statistics::walks},
    {"walked_nodes", &Statistics::walked_nodes},
    {"wide_walks", &Statistics::wide_walks},
    {"set_walks", &Statistics::set_walks},
    {"set_runs", &Statistics::set_runs},
    {"node_runs", &Statistics::node_runs},
    {"set_masks", &Statistics::set_masks},
    {"spent_sets", &Statistics::spent_sets},
    {"loops", &Statistics::loops},
    {"loop_fallbacks", &Statistics::loop_fallbacks},
    {"byte_runs", &Statistics::byte_runs},
    {"chains", &Statistics::chains},
    {"counted_chains", &Statistics::counted_chains},
    {"guarded_chains", &Statistics::guarded_chains},
    {"leaving_chains", &Statistics::leaving_chains},
    {"absorbing", &Statistics::absorbing},
    {"guarded_absorbing", &Statistics::guarded_absorbing},
    {"excluded", &Statistics::excluded},
    {"closed", &Statistics::closed},
    {"bounded_closed", &Statistics::bounded_closed},
    {"lasting", &Statistics::lasting},
    {"bounded_lasting", &Statistics::bounded_lasting},
    {"large_loops", &Statistics::large_loops},
    {"large_walks", &Statistics::large_walks},
    {"own_masks", &Statistics::own_masks},
    {"guarded_state_masks", &Statistics::guarded_state_masks},
    {"saturated", &Statistics::saturated},
    {"covered", &Statistics::covered},
    {"united_calls", &Statistics::united_calls},
    {"same_levels", &Statistics::same_levels},
    {"refusals", &Statistics::refusals},
    {"refuted", &Statistics::refuted},
    {"unverified", &Statistics::unverified},
    {"held_trials", &Statistics::held_trials},
    {"counted_texts", &Statistics::counted_texts},
    {"searches", &Statistics::searches},
    {"expired", &Statistics::expired},
};

}  // namespace stackmask
