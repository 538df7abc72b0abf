// A grammar as bytes, for another process of the same version on the same machine: the tables of Expressions one behind the other, each
// behind its length, all behind a checksum. Reading them takes a copy and a look at every index. For files and other machines there is
// grammar/serialized.h.
#pragma once

#include <string>

#include "rules/nfa.h"

namespace stackmask {

std::string pack(const Expressions& expressions);
// BadGrammar where the bytes are cut off, damaged or name a missing entry. The nodes themselves are checked by Expressions::validate.
std::shared_ptr<Expressions> unpack(const char* data, std::size_t size);

// BadGrammar if a node lies outside of its tables, or names a missing literal or number.
void check_indices(const Expressions& expressions);

}  // namespace stackmask
