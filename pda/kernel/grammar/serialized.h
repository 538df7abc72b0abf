// A grammar out of the bytes of CompiledGrammar.to_bytes, without Python:
//
//   "stackmask grammar\n"  version  length of the rest  SHA-256 of the rest  JSON: vocabulary, kind, report, root, rules, names, nodes
//
// The numbers are little-endian, of 16 and 64 bits. The hash finds damage, it is no signature, so every node is checked for its shape here
// and for its numbers by Expressions::validate. One pass over the bytes, without recursion.
#pragma once

#include <string>

#include "rules/nfa.h"

namespace stackmask {

struct Serialized {
  std::shared_ptr<Expressions> expressions;
  std::string vocabulary;  // the fingerprint of the vocabulary that the grammar was compiled for
};

// BadGrammar where the bytes are no grammar of this version.
Serialized read_serialized(const char* data, std::size_t size);

}  // namespace stackmask
