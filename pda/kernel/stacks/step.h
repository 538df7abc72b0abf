// Steps of the pushdown automaton over sets of stacks, by byte and by token.
//
//   for each edge (state, below):    read the byte in the state; guards below read it, too
//   while a state may end:           add the edges of the node below (pop), through guards that let the value pass
//   for each call, callers first:    add the start of the called rule above the state to return to (push)
//   drop                             states that read nothing themselves, and new values if none is left
//
// A step is kept by configuration and byte, so it is computed once; a token takes one lookup for each of its bytes. Ranks of rules grow
// along calls that are made before a byte is read, so a step enters each rule once, with all its callers below it.
//
// Tested by tests/pda/test_engine_corpus.py, test_engine_exhaustive.py and tests/fuzz.
#pragma once

#include "stacks/new_values.h"
#include "stacks/regions.h"

namespace stackmask {

class Steps {
 public:
  Steps(const TokenTrie& trie, RuleDfa& dfa, StackSet& stacks, NewValues& new_values, Regions& regions, Statistics& statistics);

  StackId step(StackId configuration, u8 byte);  // NO_STACK if the byte is refused
  StackId step_bytes(StackId configuration, const char* data, std::size_t count, std::size_t* accepted = nullptr);
  // A step by the token's id and by its text, after `tokens` tokens. Regions that have spanned their limit end if they may.
  StackId step_token(StackId configuration, TokenId token, u32 tokens);
  StackId step_last(StackId configuration, u8 byte, u32 tokens);  // the last byte of a text that counts as a token
  // The configuration for raw edges: ended states are popped, called rules entered, and states that read nothing themselves dropped.
  StackId close(std::vector<StackEdge>& raw);
  void live_bytes(StackId configuration, bool (&live)[256]);
  bool reads_tokens(StackId configuration) const;  // by id
  void clear() { steps_.clear(), token_steps_.clear(); }
  std::size_t bytes() const { return steps_.bytes() + token_steps_.bytes(); }

 private:
  const TokenTrie& trie_;
  RuleDfa& dfa_;
  StackSet& stacks_;
  NewValues& new_values_;
  Regions& regions_;
  Statistics& statistics_;
  FlatMap steps_, token_steps_;
  u32 crossed_after_ = NONE;  // the current step lists the regions that it leaves and that have spanned their limit after so many tokens
  std::vector<StateId> crossed_regions_;
  struct Recording {
    Steps& steps;
    Recording(Steps& s, u32 tokens) : steps(s) { s.crossed_regions_.clear(), s.crossed_after_ = s.stacks_.limited() ? tokens : NONE; }
    ~Recording() { steps.crossed_after_ = NONE; }
  };
  void pop_ended(std::vector<StackEdge>& raw);
  void enter_called(std::vector<StackEdge>& raw);
  StackId compute_step(StackId configuration, u8 byte);
  StackId drop_expired(StackId configuration, u32 tokens);
};

}  // namespace stackmask
