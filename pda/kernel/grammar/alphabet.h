// Which classes of characters the texts of a grammar can have at all, computed from its expressions.
// Tested by tests/pda/test_coarse_stacks.py.
#pragma once

#include "rules/nfa.h"
#include "vocabulary/classes.h"

namespace stackmask {

// Signature bits (classes.h) of all classes of which some text has a byte, and of the characters made of such bytes.
u64 alphabet(const Expressions& expressions);

}  // namespace stackmask
