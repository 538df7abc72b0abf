// Characters as edges of bytes: UTF-8, and JSON's escapes.
#pragma once

#include "rules/nfa.h"

namespace stackmask {

// A base class of those that write NFAs: it adds edges, and asks for the states between them.
class Spelling {
 public:
  virtual NfaStateId state() = 0;

  void byte(NfaStateId from, NfaStateId to, i32 lo, i32 hi);
  void text(std::string_view text, NfaStateId from, NfaStateId to);  // its bytes
  // One code point out of `count / 2` ranges, in order.
  void chars(NfaStateId from, NfaStateId to, const i32* ranges, std::size_t count, i32 encoding);
  // The last `kind` bytes of characters, the first of them lo..hi and the others any.
  NfaStateId tail(NfaStateId to, i32 kind, i32 lo, i32 hi);

 protected:
  ~Spelling() = default;
  Nfa* nfa_ = nullptr;
  void forget_shared_states() { tails_.clear(), escapes_.clear(); }  // after states are gone
  std::size_t shared_states_bytes() const { return tails_.bytes() + escapes_.bytes(); }

 private:
  FlatMap tails_, escapes_;  // shared by all edges that lead to a state: by the kind of tail, and by the encoding
  void describe_non_ascii(NfaStateId from, NfaStateId to, const i32* ranges, std::size_t count);
  void raw_json(NfaStateId from, NfaStateId to, i32 lo, i32 hi);
  void utf8(NfaStateId from, NfaStateId to, i32 lo, i32 hi);
  void utf8_block(NfaStateId from, NfaStateId to, i32 lo, i32 hi, i32 length);
  void unicode_escape(NfaStateId from, NfaStateId to, i32 lo, i32 hi);
  void hex_digits(NfaStateId from, NfaStateId to, i32 lo, i32 hi);
  void hexadecimal(NfaStateId from, NfaStateId to, i32 lo, i32 hi, i32 digits);
};

}  // namespace stackmask
