#include "matcher.h"

#include <algorithm>

namespace stackmask {

Matcher::Matcher(std::shared_ptr<Automaton> automaton, std::vector<TokenId> stop_token_ids)
    : automaton_(std::move(automaton)), stop_(std::move(stop_token_ids)) {
  std::sort(stop_.begin(), stop_.end());
  stop_.erase(std::unique(stop_.begin(), stop_.end()), stop_.end());
  const auto locked = automaton_->lock();
  history_.push_back(automaton_->initial());
  if (automaton_->limited()) tokens_.push_back(0);
  automaton_->hold(history_, slot_);
}

Matcher::Matcher(const Matcher& other) : automaton_(other.automaton_), stop_(other.stop_) {
  const auto locked = automaton_->lock();
  history_ = other.history_;
  tokens_ = other.tokens_;
  taken_ = other.taken_;
  automaton_->hold(history_, slot_);
}

Matcher::~Matcher() {
  if (automaton_->left_locked()) return;  // the automaton refers to this for good, and is never used again
  if (automaton_->asked_by_this_thread()) {  // garbage that Python collects while a call of this thread looks for signals
    automaton_->release(slot_);
    return;
  }
  const auto locked = automaton_->lock();
  automaton_->release(slot_);
}

bool Matcher::is_stop(TokenId token) const { return std::binary_search(stop_.begin(), stop_.end(), token); }

bool Matcher::is_completed() const {
  const auto locked = automaton_->lock_tables();
  return automaton_->complete(configuration(history_.back()));
}

// All or nothing, should there be no memory.
void Matcher::advance(u32 state, bool read, TokenId token, std::string_view text) {
  const std::size_t steps = history_.size();
  try {
    history_.push_back(state);
    if (!tokens_.empty()) tokens_.push_back(tokens_.back() + read);
    if (automaton_->captures()) taken_.emplace_back(token, text);
  } catch (...) {
    cut(steps);
    throw;
  }
}

void Matcher::cut(std::size_t steps) {
  history_.resize(steps);
  if (!tokens_.empty()) tokens_.resize(steps);
  if (automaton_->captures()) taken_.resize(steps - 1);
}

u32 Matcher::after(u32 state, TokenId token, u32 tokens) const {
  if (!is_stop(token)) return state & TERMINATED ? NO_STACK : automaton_->step_token(configuration(state), token, tokens);
  if (automaton_->complete(configuration(state))) return state | TERMINATED;
  // A grammar that asks for a stop token gets it where the text may end behind it.
  if (trie().has_text(token)) return NO_STACK;
  const StackId next = automaton_->step_token(configuration(state), token, tokens);
  return next != NO_STACK && automaton_->complete(next) ? next | TERMINATED : NO_STACK;
}

bool Matcher::accept_token(TokenId token) {
  return automaton_->run(1, 0, [&] {
    automaton_->check_held();
    const u32 next = after(history_.back(), token, tokens());
    if (next == NO_STACK) return false;
    advance(next, !is_stop(token), token, {});
    automaton_->collect();
    return true;
  });
}

bool Matcher::accept_bytes(const char* data, std::size_t count) {
  return automaton_->run(1, count, [&] {
    if (is_terminated() && count) return false;
    automaton_->check_held();
    const u32 before = tokens();
    // A long text leaves many configurations behind: they may be collected on the way, so the way is held.
    advance(history_.back(), count != 0, NONE, {data, count});
    const std::size_t steps = history_.size() - 1;
    try {
      for (std::size_t i = 0; i < count; i++) {
        const u8 byte = static_cast<u8>(data[i]);
        automaton_->set_position(before, static_cast<u32>(std::min<std::size_t>(i + 1, NONE)));
        const StackId next = i + 1 == count ? automaton_->step_last(configuration(history_.back()), byte, before)
                                            : automaton_->step(configuration(history_.back()), byte);
        if (next == NO_STACK) {
          cut(steps);
          return false;
        }
        history_.back() = next;
        automaton_->collect();
        automaton_->let_others_in();
      }
    } catch (...) {
      cut(steps);
      throw;
    }
    return true;
  });
}

std::size_t Matcher::validate_tokens(const std::vector<TokenId>& tokens) const {
  return automaton_->run(tokens.size(), 0, [&] {
    u32 state = history_.back();
    for (std::size_t i = 0; i < tokens.size(); i++) {
      state = after(state, tokens[i], this->tokens() + static_cast<u32>(i));
      if (state == NO_STACK) return i;
    }
    return tokens.size();
  });
}

void Matcher::rollback(i64 n) {
  const auto locked = automaton_->lock();
  if (n > static_cast<i64>(num_accepted()))
    throw BadRollback("cannot roll back " + std::to_string(n) + " tokens, " + std::to_string(num_accepted()) + " were accepted");
  cut(history_.size() - static_cast<std::size_t>(n));
  automaton_->note_released();
}

bool Matcher::fill(u32 state, u32 tokens, u32* row) const {
  const u32 words = trie().words();
  if (words == 0) return false;
  if (state == NO_STACK) {
    std::memset(row, 0, words * sizeof(u32));
    return true;
  }
  if (state & TERMINATED) std::memset(row, 0, words * sizeof(u32));
  else automaton_->fill(configuration(state), row);
  const bool complete = automaton_->complete(configuration(state));
  for (const TokenId token : stop_) {
    if (complete) set_bit(row, token);
    else if (has_bit(row, token) && after(state, token, tokens) == NO_STACK) clear_bit(row, token);
  }
  if (row[0] != ~0u && trie().size() >= 32) return true;
  for (u32 w = 0; w < trie().size() / 32; w++)
    if (row[w] != ~0u) return true;
  const u32 rest = trie().size() % 32;
  return rest && row[words - 1] != (1u << rest) - 1;
}

bool Matcher::fill(u32* row) const {
  return automaton_->run(1, 0, [&] {
    const bool needed = fill(history_.back(), tokens(), row);
    automaton_->collect();
    return needed;
  });
}

// Tokens that share a beginning share its steps: depth first over the trie, the configuration of each depth remembered.
void Matcher::fill_by_trial(u32* row) const {
  automaton_->run(trie().size(), 0, [&] {
    const u32 state = history_.back(), read = tokens();
    std::memset(row, 0, trie().words() * sizeof(u32));
    for (const TokenId token : EachId<TokenId>{trie().size()})
      if ((is_stop(token) || !trie().has_text(token) || automaton_->reads_tokens(configuration(state))) &&
          after(state, token, read) != NO_STACK)
        set_bit(row, token);
    if (state & TERMINATED) return;
    const TrieNode* nodes = trie().nodes();
    std::vector<StackId> path(trie().max_token_bytes() + 1u, configuration(state));
    for (NodeId at{1}; at < trie().node_count();) {
      const StackId before = path[nodes[at].depth - 1u];
      for (const TokenId token : trie().tokens_at(at))
        if (!is_stop(token) && automaton_->step_last(before, nodes[at].byte(), read) != NO_STACK) set_bit(row, token);
      automaton_->set_position(read, nodes[at].depth);
      path[nodes[at].depth] = automaton_->step(before, nodes[at].byte());
      at = path[nodes[at].depth] == NO_STACK ? trie().after(at) : NodeId(at + 1);
    }
  });
}

void Matcher::fill_drafts(const std::vector<TokenId>& tokens, const std::vector<i32>& parents, u32* rows) const {
  automaton_->run(tokens.size() + 1, 0, [&] {
    std::vector<u32> states{history_.back()}, read{this->tokens()};
    fill(states[0], read[0], rows);
    for (std::size_t i = 0; i < tokens.size(); i++) {
      const auto parent = static_cast<std::size_t>(parents[i] + 1);
      states.push_back(states[parent] == NO_STACK ? NO_STACK : after(states[parent], tokens[i], read[parent]));
      read.push_back(read[parent] + 1);
      fill(states.back(), read.back(), rows + (i + 1) * trie().words());
    }
  });
}

std::string Matcher::jump_forward() const {
  return automaton_->run(1, 0, [&] {
    std::string forced;
    if (is_terminated()) return forced;
    StackId state = configuration(history_.back());
    bool live[256];
    while (forced.size() < JUMP_BYTES && !automaton_->complete(state) && !automaton_->reads_tokens(state) && !automaton_->spent_half()) {
      automaton_->live_bytes(state, live);
      const auto found = std::find(std::begin(live), std::end(live), true);
      if (found == std::end(live) || std::find(found + 1, std::end(live), true) != std::end(live)) break;
      const u8 byte = static_cast<u8>(found - std::begin(live));
      state = automaton_->step(state, byte);
      forced.push_back(static_cast<char>(byte));
    }
    return forced;
  });
}

std::string Matcher::shortest_completion() const {
  return automaton_->run(COMPLETION_STEPS, 0,
                         [&] { return is_terminated() ? std::string() : automaton_->shortest(configuration(history_.back())); });
}

u64 Matcher::completion_length() const {
  return automaton_->run(COMPLETION_STEPS, 0,
                         [&] { return is_terminated() ? u64{0} : automaton_->shortest_length(configuration(history_.back())); });
}

std::size_t Matcher::matching_prefix(const char* data, std::size_t count) const {
  return automaton_->run(1, count, [&] {
    if (is_terminated()) return std::size_t{0};
    std::size_t accepted = 0;
    automaton_->step_bytes(configuration(history_.back()), data, count, &accepted);
    return accepted;
  });
}

std::string Matcher::next_bytes(const char* data, std::size_t count) const {
  return automaton_->run(1, count, [&] {
    std::string result;
    if (is_terminated()) return result;
    const StackId state = automaton_->step_bytes(configuration(history_.back()), data, count);
    if (state == NO_STACK) return result;
    bool live[256];
    automaton_->live_bytes(state, live);
    for (u32 b = 0; b < 256; b++)
      if (live[b]) result.push_back(static_cast<char>(b));
    return result;
  });
}

double Matcher::temperature() const {
  const auto locked = automaton_->lock_tables();
  return is_terminated() ? -1 : automaton_->temperature(configuration(history_.back()));
}

std::vector<std::pair<TokenId, std::string>> Matcher::taken() const {
  std::vector<std::pair<TokenId, std::string>> result;
  for (std::size_t i = 0; i < taken_.size(); i++)
    if (!(history_[i + 1] & TERMINATED) || (history_[i + 1] ^ history_[i]) & ~TERMINATED) result.push_back(taken_[i]);
  return result;
}

std::vector<std::string> Matcher::rule_names(const char* data, std::size_t count) const {
  return automaton_->run(1, count, [&] {
    std::vector<std::string> names;
    if (is_terminated()) return names;
    const StackId state = automaton_->step_bytes(configuration(history_.back()), data, count);
    if (state != NO_STACK) automaton_->rule_names(state, names);
    return names;
  });
}

}  // namespace stackmask
