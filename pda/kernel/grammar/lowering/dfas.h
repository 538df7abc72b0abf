// AUTOMATON: a DFA over characters becomes states of the NFA, of which those that lead to an accepting one get edges.
//
// The characters of a small DFA are written at once, those of a larger one when a text comes to their state. If the lengths of texts are
// bounded, characters are counted in the register, and each state of the DFA is three of the NFA:
//
//   reached --count--> stands --epsilon--> reads --characters--> reached of the targets
//                        '-----leave-----> exit, if it accepts
//
// Each knows how many characters may still be counted, so a closure leaves out states that the bounds no longer allow. Time and states are
// linear in the transitions of the DFA, which are never multiplied by the bounds.
#pragma once

#include "grammar/lowering/characters.h"

namespace stackmask {

class DfaWriter final : private ExpressionWriter {
 public:
  DfaWriter(NfaWriter& out, CharacterWriter& characters, const Thresholds& thresholds)
      : ExpressionWriter(out), characters_(characters), few_states_(thresholds.few_states) {}

  void dfa(const Task& task);
  void counted_dfa(const Task& task);
  // The characters of one state of either.
  void piece(const Task& task);

 private:
  CharacterWriter& characters_;
  u32 few_states_;
};

}  // namespace stackmask
