// The work of a step for all matchers of a batch, in one call.
#pragma once

#include <optional>

#include "matcher.h"

namespace stackmask {

// The length in bytes of a matcher's shortest completion, -1 where there is none or it is too far to be found.
i64 completion_length(const Matcher& matcher);

// Every matcher accepts its token; the lengths of their shortest completions then. Nothing, and no matcher has changed, where one refuses
// its token or runs into a limit.
std::optional<std::vector<i64>> accept_all(const std::vector<Matcher*>& matchers, const std::vector<TokenId>& tokens);

}  // namespace stackmask
