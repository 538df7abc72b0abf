// The state of one request: the configurations after each step. Rollback cuts the list, fork copies it.
#pragma once

#include "automaton.h"
#include "portable.h"

namespace stackmask {

class Matcher {
 public:
  static constexpr u64 COMPLETION_STEPS = 40;  // that a completion may take the work of
  Matcher(std::shared_ptr<Automaton> automaton, std::vector<TokenId> stop_token_ids);
  Matcher(const Matcher& other);
  Matcher& operator=(const Matcher&) = delete;
  ~Matcher();

  const TokenTrie& trie() const { return automaton_->trie(); }
  u32 num_accepted() const { return static_cast<u32>(history_.size() - 1); }
  bool is_terminated() const { return history_.back() & TERMINATED; }
  bool is_completed() const;
  // Prefetch the memory that accept_token reads first; its matcher was prefetched a while before.
  void prefetch() const { stackmask::prefetch(history_.data() + history_.size() - 1), stackmask::prefetch(stop_.data()); }
  bool accept_token(TokenId token);
  bool accept_bytes(const char* data, std::size_t count);
  std::size_t validate_tokens(const std::vector<TokenId>& tokens) const;
  void rollback(i64 n);
  void reset() { rollback(num_accepted()); }
  bool fill(u32* row) const;  // false if every token is allowed
  void fill_by_trial(u32* row) const;  // the same mask, by trying every token: the masks' oracle in tests
  // Row i + 1 is the mask after draft token i, whose parent is row parents[i] + 1; below a refused token rows are zero.
  void fill_drafts(const std::vector<TokenId>& tokens, const std::vector<i32>& parents, u32* rows) const;
  std::string jump_forward() const;
  std::string shortest_completion() const;
  u64 completion_length() const;  // of that text
  std::size_t matching_prefix(const char* data, std::size_t count) const;
  std::string next_bytes(const char* data, std::size_t count) const;
  std::vector<std::string> rule_names(const char* data, std::size_t count) const;
  double temperature() const;   // negative for none
  // The steps but those by stop tokens that the grammar did not ask for, kept where the grammar has captures: a token, or NONE and a text.
  std::vector<std::pair<TokenId, std::string>> taken() const;

 private:
  static constexpr u32 TERMINATED = ID_FLAG;
  static StackId configuration(u32 state) { return StackId(state & ~TERMINATED); }
  static constexpr std::size_t JUMP_BYTES = 1 << 16;
  std::shared_ptr<Automaton> automaton_;
  std::vector<TokenId> stop_;  // sorted
  std::vector<u32> history_;  // configurations; TERMINATED once a stop token was accepted
  std::vector<u32> tokens_;  // after each step, how many steps have read something; empty where no rule has a limit
  std::vector<std::pair<TokenId, std::string>> taken_;
  std::size_t slot_ = 0;  // of history_ in the automaton
  bool is_stop(TokenId token) const;
  u32 tokens() const { return tokens_.empty() ? 0 : tokens_.back(); }
  void advance(u32 state, bool read, TokenId token, std::string_view text);
  void cut(std::size_t steps);
  u32 after(u32 state, TokenId token, u32 tokens) const;  // NO_STACK if refused
  bool fill(u32 state, u32 tokens, u32* row) const;
};

}  // namespace stackmask
