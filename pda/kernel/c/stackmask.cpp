// The C interface: it checks arguments, and turns exceptions into a status and a text.
#include "c/stackmask.h"

#include <algorithm>
#include <new>

#include "grammar/serialized.h"
#include "matcher.h"

using namespace stackmask;

struct stackmask_vocabulary {
  std::shared_ptr<const TokenTrie> trie;
  std::vector<TokenId> stop_ids;
  std::string fingerprint;  // empty if it is not compared
};

struct stackmask_grammar {
  std::shared_ptr<Automaton> automaton;
  std::vector<TokenId> stop_ids;
};

struct stackmask_matcher {
  Matcher matcher;
};

namespace {

struct BadArgument : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void require(bool holds, const char* otherwise) {
  if (!holds) throw BadArgument(otherwise);
}

std::string& last_error() {
  static thread_local std::string text;
  return text;
}

stackmask_status fail(stackmask_status status, const char* text) noexcept {
  try {
    last_error() = text;
  } catch (...) {  // the status reports it
    last_error().clear();
  }
  return status;
}

// Runs call(), which returns a status, or nothing for STACKMASK_OK.
template <class Call>
stackmask_status guarded(Call call) noexcept {
  try {
    if constexpr (std::is_void_v<decltype(call())>) return call(), STACKMASK_OK;
    else return call();
  } catch (const BadArgument& error) {
    return fail(STACKMASK_BAD_ARGUMENT, error.what());
  } catch (const BadRollback& error) {
    return fail(STACKMASK_BAD_ARGUMENT, error.what());
  } catch (const BadGrammar& error) {
    return fail(STACKMASK_BAD_GRAMMAR, error.what());
  } catch (const Unsatisfiable& error) {
    return fail(STACKMASK_UNSATISFIABLE, error.what());
  } catch (const LimitExceeded& error) {
    return fail(STACKMASK_LIMIT, error.what());
  } catch (const std::bad_alloc&) {
    return fail(STACKMASK_NO_MEMORY, "there is no memory left");
  } catch (const std::exception& error) {
    return fail(STACKMASK_INTERNAL, error.what());
  } catch (...) {
    return fail(STACKMASK_INTERNAL, "unknown error");
  }
}

const Matcher& inside(const stackmask_matcher* matcher) {
  require(matcher != nullptr, "the matcher is NULL");
  return matcher->matcher;
}
Matcher& inside(stackmask_matcher* matcher) {
  require(matcher != nullptr, "the matcher is NULL");
  return matcher->matcher;
}

}  // namespace

extern "C" {

uint32_t stackmask_version(void) { return STACKMASK_VERSION; }

const char* stackmask_error(void) { return last_error().c_str(); }

stackmask_status stackmask_vocabulary_new(const stackmask_bytes* tokens, size_t count, size_t size, const uint32_t* stop_ids,
                                          size_t stop_count, const uint32_t* special_ids, size_t special_count, const char* fingerprint,
                                          stackmask_vocabulary** made) {
  return guarded([&] {
    require(made != nullptr, "there is nowhere to put the vocabulary");
    require(tokens != nullptr || count == 0, "the tokens are NULL");
    require((stop_ids != nullptr || stop_count == 0) && (special_ids != nullptr || special_count == 0), "the ids are NULL");
    require(size >= count, "the vocabulary has more tokens than its size");
    require(size <= 1u << 24, "a vocabulary has at most 16,777,216 tokens");
    std::vector<std::pair<const char*, std::size_t>> texts;
    for (size_t i = 0; i < count; i++) {
      require(tokens[i].data != nullptr || tokens[i].size == 0, "the bytes of a token are NULL");
      texts.push_back({tokens[i].size ? tokens[i].data : nullptr, tokens[i].size});
    }
    for (const auto& [ids, ids_count] : {std::pair(stop_ids, stop_count), std::pair(special_ids, special_count)})
      for (size_t i = 0; i < ids_count; i++) {
        require(ids[i] < size, "a stop or special token is not in the vocabulary");
        if (ids[i] < count) texts[ids[i]] = {nullptr, 0};
      }
    constexpr std::size_t SHARED = 64 << 20;
    auto trie = std::make_shared<const TokenTrie>(texts, static_cast<u32>(size), SHARED, SHARED);
    std::vector<TokenId> stops;
    stops.reserve(stop_count);
    for (std::size_t i = 0; i < stop_count; i++) stops.emplace_back(stop_ids[i]);
    *made = new stackmask_vocabulary{std::move(trie), std::move(stops), fingerprint ? fingerprint : ""};
  });
}

void stackmask_vocabulary_free(stackmask_vocabulary* vocabulary) { delete vocabulary; }

size_t stackmask_vocabulary_words(const stackmask_vocabulary* vocabulary) { return vocabulary ? vocabulary->trie->words() : 0; }

stackmask_status stackmask_grammar_new(const stackmask_vocabulary* vocabulary, const void* bytes, size_t size,
                                       const stackmask_limits* limits, stackmask_grammar** made) {
  return guarded([&] {
    require(vocabulary != nullptr && made != nullptr, "the vocabulary, or where to put the grammar, is NULL");
    require(bytes != nullptr || size == 0, "the bytes are NULL");
    Limits bounds;
    if (limits && limits->states) bounds.states = limits->states;
    if (limits && limits->stack_depth) bounds.stack_depth = limits->stack_depth;
    if (limits && limits->memory) bounds.memory = limits->memory;
    if (limits && limits->seconds > 0) bounds.seconds = limits->seconds;
    Serialized read = read_serialized(static_cast<const char*>(bytes), size);
    if (!vocabulary->fingerprint.empty() && vocabulary->fingerprint != read.vocabulary)
      throw BadGrammar("the grammar was compiled for another vocabulary");
    auto automaton = std::make_shared<Automaton>(vocabulary->trie, std::move(read.expressions), bounds);
    *made = new stackmask_grammar{std::move(automaton), vocabulary->stop_ids};
  });
}

void stackmask_grammar_free(stackmask_grammar* grammar) { delete grammar; }

stackmask_status stackmask_matcher_new(const stackmask_grammar* grammar, stackmask_matcher** made) {
  return guarded([&] {
    require(grammar != nullptr && made != nullptr, "the grammar, or where to put the matcher, is NULL");
    *made = new stackmask_matcher{Matcher(grammar->automaton, grammar->stop_ids)};
  });
}

stackmask_status stackmask_matcher_fork(const stackmask_matcher* matcher, stackmask_matcher** made) {
  return guarded([&] {
    require(made != nullptr, "there is nowhere to put the matcher");
    *made = new stackmask_matcher{Matcher(inside(matcher))};
  });
}

void stackmask_matcher_free(stackmask_matcher* matcher) { delete matcher; }

stackmask_status stackmask_matcher_fill(const stackmask_matcher* matcher, uint32_t* mask, size_t words) {
  return guarded([&] {
    const Matcher& at = inside(matcher);
    require(mask != nullptr && words == at.trie().words(), "the mask is NULL, or has not the words of the vocabulary");
    at.fill(mask);
  });
}

stackmask_status stackmask_matcher_accept_token(stackmask_matcher* matcher, uint32_t token) {
  return guarded([&] {
    Matcher& at = inside(matcher);
    require(token < at.trie().size(), "the token is not in the vocabulary");
    return at.accept_token(TokenId(token)) ? STACKMASK_OK : STACKMASK_REFUSED;
  });
}

stackmask_status stackmask_matcher_accept_bytes(stackmask_matcher* matcher, const void* bytes, size_t size) {
  return guarded([&] {
    require(bytes != nullptr || size == 0, "the bytes are NULL");
    return inside(matcher).accept_bytes(static_cast<const char*>(bytes), size) ? STACKMASK_OK : STACKMASK_REFUSED;
  });
}

stackmask_status stackmask_matcher_rollback(stackmask_matcher* matcher, size_t steps) {
  return guarded([&] {
    Matcher& at = inside(matcher);
    require(steps <= at.num_accepted(), "there are fewer steps to take back");
    at.rollback(static_cast<i64>(steps));
  });
}

stackmask_status stackmask_matcher_reset(stackmask_matcher* matcher) {
  return guarded([&] { inside(matcher).reset(); });
}

size_t stackmask_matcher_steps(const stackmask_matcher* matcher) { return matcher ? matcher->matcher.num_accepted() : 0; }

stackmask_status stackmask_matcher_is_completed(const stackmask_matcher* matcher, int* is_completed) {
  return guarded([&] {
    require(is_completed != nullptr, "there is nowhere to put the answer");
    *is_completed = inside(matcher).is_completed();
  });
}

stackmask_status stackmask_matcher_is_terminated(const stackmask_matcher* matcher, int* is_terminated) {
  return guarded([&] {
    require(is_terminated != nullptr, "there is nowhere to put the answer");
    *is_terminated = inside(matcher).is_terminated();
  });
}

stackmask_status stackmask_matcher_forced_bytes(const stackmask_matcher* matcher, char* buffer, size_t capacity, size_t* size) {
  return guarded([&] {
    require(size != nullptr && (buffer != nullptr || capacity == 0), "the buffer, or where to put its size, is NULL");
    const std::string forced = inside(matcher).jump_forward();
    std::copy_n(forced.data(), std::min(forced.size(), capacity), buffer);
    *size = forced.size();
  });
}

}  // extern "C"
