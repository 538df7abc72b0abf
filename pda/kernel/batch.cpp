#include "batch.h"

#include "portable.h"

namespace stackmask {

i64 completion_length(const Matcher& matcher) {
  try {
    return static_cast<i64>(matcher.completion_length());
  } catch (const LimitExceeded&) {
    return -1;
  } catch (const BadGrammar&) {
    return -1;
  }
}

std::optional<std::vector<i64>> accept_all(const std::vector<Matcher*>& matchers, const std::vector<TokenId>& tokens) {
  // PERF: everything that a batch reads has left the caches while the model ran, so it is prefetched at once.
  for (const Matcher* matcher : matchers) prefetch(matcher), prefetch(reinterpret_cast<const char*>(matcher) + 64);
  for (std::size_t i = 0; i < matchers.size(); i++) {
    const TokenTrie& trie = matchers[i]->trie();
    if (tokens[i] < trie.text_count()) prefetch(&trie.text(tokens[i]));
    matchers[i]->prefetch();
  }
  std::vector<i64> lengths;
  lengths.reserve(matchers.size());
  std::size_t accepted = 0;
  auto take_back = [&] {
    while (accepted-- > 0) matchers[accepted]->rollback(1);
  };
  try {
    while (accepted < matchers.size() && matchers[accepted]->accept_token(tokens[accepted]))
      lengths.push_back(completion_length(*matchers[accepted++]));
    if (accepted == matchers.size()) return lengths;
  } catch (const std::exception&) {  // a matcher that accepts its token alone raises it
  } catch (const Interrupted&) {
    take_back();
    throw;
  }
  take_back();
  return std::nullopt;
}

}  // namespace stackmask
