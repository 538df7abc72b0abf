// Which classes of characters the texts of a grammar can have at all, told from its expressions.
// Tested by tests/pda/test_coarse_stacks.py.
#pragma once

#include "rules/nfa.h"
#include "vocabulary/classes.h"

namespace stackmask {

// Signature bits (classes.h) of all classes of which some text has a byte, and of what is made of them.
u64 alphabet(const Expressions& expressions);

}  // namespace stackmask
