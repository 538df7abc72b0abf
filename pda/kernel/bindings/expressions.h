// A grammar of pda/grammar.py, read into the kernel's expressions.
#pragma once

#include <memory>

#include "bindings/python.h"
#include "rules/nfa.h"

namespace stackmask {

// BadGrammar where the tuples are not those of a grammar.
std::shared_ptr<Expressions> read_expressions(nb::handle grammar, const std::shared_ptr<const TokenTrie>& trie);
// Keeps a large grammar that was read, so that one which begins with the same nodes is read from where they differ.
void remember(nb::handle grammar, std::shared_ptr<const Expressions> expressions, const std::shared_ptr<const TokenTrie>& trie);

}  // namespace stackmask
