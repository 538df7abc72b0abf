// Ids: the numbers of things, a type for each kind of thing, so that the number of a rule is never taken for that of a state.
//
//   rules[rule], u64{rule} << 8 | byte     an id reads as a number: it indexes tables and goes into keys
//   RuleId(words[2])                       a number becomes an id where the code says so
//   state == rule, start(state)            does not compile
//
// An id is four bytes, and a table of ids is a table of u32: an Interner keeps it as words.
#pragma once

#include <compare>
#include <concepts>
#include <type_traits>

#include "base.h"

namespace stackmask {

template <class Kind>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(u32 number) : number_(number) {}
  template <class Other>
  explicit Id(Id<Other>) = delete;
  constexpr Id(None) : number_(NONE) {}
  constexpr operator u32() const { return number_; }
  friend constexpr bool operator==(Id, Id) = default;
  friend constexpr auto operator<=>(Id, Id) = default;
  friend constexpr bool operator==(Id id, None) { return id.number_ == NONE; }

 private:
  u32 number_;
};
template <class A, class B>
bool operator==(Id<A>, Id<B>) = delete;
template <class A, class B>
std::strong_ordering operator<=>(Id<A>, Id<B>) = delete;

// The ids of a table of `size` entries, in order, from the `first` on.
template <class AnyId>
struct EachId {
  struct Iterator {
    u32 at;
    AnyId operator*() const { return AnyId(at); }
    void operator++() { at++; }
    bool operator==(const Iterator&) const = default;
  };
  u32 size;
  u32 first = 0;
  Iterator begin() const { return {first}; }
  Iterator end() const { return {size}; }
};

using RuleId = Id<struct RuleKind>;            // a rule of an NFA; the expressions have other rules
using NfaStateId = Id<struct NfaStateKind>;
using StateId = Id<struct StateKind>;          // a state of a rule's DFA, a guard, a region or BOTTOM: a symbol on the stack
using RegisterId = Id<struct RegisterKind>;    // what an item counts and has seen
using StackId = Id<struct StackKind>;          // a node of the graph-structured stack, which is a configuration
using TokenId = Id<struct TokenKind>;          // a token of the vocabulary
using NodeId = Id<struct NodeKind>;            // a node of the vocabulary's trie; the stack has other nodes
using ListId = Id<struct ListKind>;            // a list of nodes of the trie
using StateMaskId = Id<struct StateMaskKind>;  // the mask of a state at a list of nodes
using MaskId = Id<struct MaskKind>;            // the mask of a configuration, which is made of those

// The highest bit of a word, which is a flag beside the number of a state.
// INVARIANT: NFAs and DFAs refuse to have more states than this, whatever the limit of states.
constexpr u32 ID_FLAG = 1u << 31;

static_assert(sizeof(StackId) == sizeof(u32) && std::is_trivially_copyable_v<StackId>);
static_assert(!std::is_convertible_v<u32, StackId> && !std::is_constructible_v<StackId, StateId>);
static_assert(!std::is_constructible_v<RegisterId, NfaStateId> && !std::equality_comparable_with<RegisterId, NfaStateId>);
static_assert(!std::is_constructible_v<StateId, NfaStateId> && !std::equality_comparable_with<StateId, NfaStateId>);
static_assert(!std::equality_comparable_with<StackId, StateId> && !std::totally_ordered_with<StackId, StateId>);
static_assert(!std::is_constructible_v<NodeId, StackId> && !std::equality_comparable_with<NodeId, StackId>);
static_assert(!std::is_constructible_v<ListId, NodeId> && !std::equality_comparable_with<ListId, NodeId>);
static_assert(!std::is_constructible_v<MaskId, StateMaskId> && !std::equality_comparable_with<MaskId, StateMaskId>);

}  // namespace stackmask
