// Words as tries, of which a piece is made when a text comes there: literals among the alternatives of an ALT, and the words of an EXCEPT.
//
//   "cat" | "cow" | "dog"        state --c--> {cat, cow} --a--> ...      one state for each beginning that a text has come to
//                                      --d--> og
//
// With a state for each word at its first byte, every state of a DFA before such alternatives would hold them all. Words in merged rules
// belong to the trie too, and words after the same part, such as the terminals of a lexer after blanks. A piece takes time linear in its
// words, so all of them take at most the number of bytes.
#pragma once

#include "grammar/lowering/nfa_writer.h"

namespace stackmask {

class WordWriter final : private ExpressionWriter {
 public:
  WordWriter(NfaWriter& out, const Thresholds& thresholds)
      : ExpressionWriter(out), sharing_bytes_(thresholds.sharing_bytes), spelled_bytes_(thresholds.spelled_bytes) {}

  // An ALT, and the words of one that share what they begin with.
  void alternatives(const Task& task);
  void alternatives_piece(const Task& task);
  // An EXCEPT: any text but some words.
  void except(const Task& task);
  void except_piece(const Task& task);

  std::size_t size() const { return words_.size(); }
  void restore(std::size_t before) { words_.resize(before); }
  std::size_t bytes() const { return words_.capacity() * sizeof(Word); }

 private:
  // An alternative that is a literal, maybe after another node (`behind`) and maybe in a rule of its own; NONE if there is none.
  struct Word {
    u32 alternative, literal, behind, rule;
  };
  u32 sharing_bytes_, spelled_bytes_;
  std::vector<Word> words_;

  Word word_of(u32 alternative, const Task& task) const;
  u32 origin_of(u32 rule, const Task& task);
};

}  // namespace stackmask
