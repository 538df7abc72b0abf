// Reads a grammar of pda/grammar.py into the kernel's expressions.
#pragma once

#include <memory>

#include "bindings/python.h"
#include "rules/nfa.h"

namespace stackmask {

// Throws BadGrammar if the tuples are not those of a grammar.
std::shared_ptr<Expressions> read_expressions(nb::handle grammar, const std::shared_ptr<const TokenTrie>& trie);
// Keeps a large grammar, so that the next one with the same first nodes is read from the first difference on.
void remember(nb::handle grammar, std::shared_ptr<const Expressions> expressions, const std::shared_ptr<const TokenTrie>& trie);

}  // namespace stackmask
