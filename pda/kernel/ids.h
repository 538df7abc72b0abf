// Ids: the numbers of things, a type for each kind of thing, so that the number of a rule is never taken for that of a state.
//
//   rules[rule], u64{rule} << 8 | byte     an id reads as a number: it indexes tables and goes into keys
//   RuleId(words[2])                       a number becomes an id where the code says so
//   state == rule, start(state)            does not compile
//
// An id is four bytes, and a table of ids is a table of u32.
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

// The ids of a table of `size` entries, in order.
template <class AnyId>
struct EachId {
  struct Iterator {
    u32 at;
    AnyId operator*() const { return AnyId(at); }
    void operator++() { at++; }
    bool operator==(const Iterator&) const = default;
  };
  u32 size;
  Iterator begin() const { return {0}; }
  Iterator end() const { return {size}; }
};

using RuleId = Id<struct RuleKind>;  // a rule of an NFA; the expressions have other rules
using NfaStateId = Id<struct NfaStateKind>;
using StateId = Id<struct StateKind>;  // a state of a rule's DFA, a guard, a region or BOTTOM: a symbol on the stack
using StackId = Id<struct StackKind>;  // a node of the graph-structured stack, which is a configuration

static_assert(sizeof(StackId) == sizeof(u32) && std::is_trivially_copyable_v<StackId>);
static_assert(!std::is_convertible_v<u32, StackId> && !std::is_constructible_v<StackId, StateId>);
static_assert(!std::is_constructible_v<StateId, NfaStateId> && !std::equality_comparable_with<StateId, NfaStateId>);
static_assert(!std::equality_comparable_with<StackId, StateId> && !std::totally_ordered_with<StackId, StateId>);

}  // namespace stackmask
