// The ways to take a class loop. If nearly every character of some classes leads from a state to the same place, the state takes whole
// classes of tokens without a walk.
//
// The signature of a token has a bit for each class of characters in it (vocabulary/classes.h). A loop over classes takes the tokens whose
// signature lies in them, as one bitmask, and is left by exits: bytes outside the classes. The vocabulary lists the occurrences of each
// exit, with the nodes that they lead to. All ways end with a bitmask, and `go_on_at` for the nodes of each exit.
//
//   way                chosen where                                   example                 cost, besides the bitmask
//   byte run           a bounded run of single bytes, tried first     [ \t]{0,8} before ","   one list of nodes a live byte
//   counter chain      every character of a class leads from each     "[^"\\]{1,20}"          a state a character until states repeat
//                      state to the next, and exits are few                                   or differ by their count; a list an exit
//   absorbing state    all characters but those of some words         keys but "id", "ids"    the nodes at which both states differ,
//                      lead into one state                                                    at most `absorbing_differences`
//   lasting item       one item leads back to itself by the classes,  .*x.{9}y                no states but those on the paths to exits
//                      and exits are few; if they are letters, closed
//                      states come first as long as they are few
//   closed classes     all states ahead read all of the classes,      .*foo.*, \w{3,9}        at most `closed_states` states, and each
//                      and exits may be many                                                  exit's path (thousands, by letters)
//
// take_class_loop() decides. Every way may refuse, and then leaves only changes that the builder's clear() undoes; the next way is tried,
// and last a walk.
//
// Tested by tests/pda/kernel/test_class_loops.py and tests/pda/test_mask_exits.py; statistics count each way.
#pragma once

#include "masks/builder.h"

namespace stackmask {

bool take_class_loop(StateMaskBuilder& mask, StateId state);

bool take_byte_run(StateMaskBuilder& mask, StateId state);
bool take_counter_chain(StateMaskBuilder& mask, StateId state, const ClassLoop& loop);
bool take_absorbing_state(StateMaskBuilder& mask, StateId state, const ClassLoop& loop);
bool take_lasting_item(StateMaskBuilder& mask, StateId state, const ClassLoop& loop, u64 staying);  // no class of `staying` may be an exit
bool take_closed_classes(StateMaskBuilder& mask, StateId state, u32 most = NONE);  // with at most so many states

// The nodes behind the exits of a loop.
using LoopExits = PooledVector<std::shared_ptr<const NodeList>>;

}  // namespace stackmask
