"""Typed parts: the demands of a subschema on each JSON type, the normal form of the algebra of schemas.

Subschemas inside a part stay unevaluated: a *literal* is the number of a subschema, negative for its complement, and a *conjunction* is
a set of literals.
So a part is one level deep, and all conjunctions that can ever arise from a schema are finitely many, however recursive it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import neg
from typing import Any, Final, NamedTuple, TypeAlias

from .numbers import NOTHING, NUMBERS, NumberSet

Literal: TypeAlias = int
Conjunction: TypeAlias = frozenset[int]
Values: TypeAlias = Mapping[object, Any]
"""JSON values in a form in which equal values are identical."""

TRUE: Final[Literal] = 1
"""The subschema `true`; its complement -1 is `false`."""
FALSE: Final[Literal] = -1
ANYTHING: Final[Conjunction] = frozenset()
NEVER: Final[Conjunction] = frozenset({FALSE})


class Text(NamedTuple):
    """Strings of `low` to `high` characters (-1 is no bound) that pass every test, or a finite set of strings.

    A test is (what, argument, whether it is to hold): ("pattern", regex), ("format", name), ("words", set of strings) or
    ("union", number of a union of other tests).
    Tests stay symbolic as long as possible, since a lone pattern with counted repetition has a cheaper grammar than its automaton.
    """

    low: int = 0
    high: int = -1
    tests: frozenset[tuple[str, object, bool]] = frozenset()
    words: frozenset[str] | None = None


class Count(NamedTuple):
    """From `low` to `high` (-1 is no bound) of the items at or after `start` satisfy `literal`."""

    literal: Literal
    start: int
    low: int
    high: int


class Array(NamedTuple):
    """Arrays whose items meet `prefix`, then `rest`.

    `distinct`: 1 when no two items are equal, -1 when some two are.
    """

    prefix: tuple[Conjunction, ...] = ()
    rest: Conjunction = ANYTHING
    low: int = 0
    high: int = -1
    counts: tuple[Count, ...] = ()
    distinct: int = 0

    def item(self, position: int) -> Conjunction:
        """The constraint on the item at a position."""
        return self.prefix[position] if position < len(self.prefix) else self.rest


class Keys(NamedTuple):
    """A set of keys: some names and the keys in some languages, or all keys but these.

    A language is a number, given by the algebra to a set of strings.
    """

    negated: bool
    names: frozenset[str]
    languages: frozenset[int] = frozenset()


class Atom(NamedTuple):
    """`every`: each key of `keys` has a value that meets `literal`; else: there is a key of `keys` with such a value.

    `name` is the only key of `keys`, None where there are others.
    """

    every: bool
    keys: Keys
    literal: Literal
    name: str | None = None

    @property
    def leaves_key_open(self) -> bool:
        """Whether there has to be a key, but none in particular."""
        return not self.every and self.name is None

    def negated(self) -> Atom:
        """The complement among objects."""
        return Atom(not self.every, self.keys, -self.literal, self.name)


Clause: TypeAlias = tuple[Atom, ...]
"""One of the atoms holds."""


class Object(NamedTuple):
    """Objects of `low` to `high` members in which every clause holds; `order` is the order in which declared keys are written."""

    order: tuple[str, ...] = ()
    atoms: tuple[Atom, ...] = ()
    clauses: tuple[Clause, ...] = ()
    low: int = 0
    high: int = -1


class Parts(NamedTuple):
    """A union of typed parts: some of the three constants, and unions of numbers, strings, arrays and objects."""

    constants: frozenset[bool | None] = frozenset()
    numbers: NumberSet = NOTHING
    texts: tuple[Text, ...] = ()
    arrays: tuple[Array, ...] = ()
    objects: tuple[Object, ...] = ()

    def is_empty(self) -> bool:
        """Whether no part is left."""
        return not (self.constants or self.numbers or self.texts or self.arrays or self.objects)


CONSTANTS: Final[frozenset[bool | None]] = frozenset((None, False, True))
EVERY: Final = Parts(CONSTANTS, NUMBERS, (Text(),), (Array(),), (Object(),))
NONE: Final = Parts()


def conjunction(*literals: Literal) -> Conjunction:
    """A set of literals, reduced where it is trivial."""
    return reduced(frozenset(literals))


def reduced(literals: Conjunction) -> Conjunction:
    """A conjunction without `true`; the one that holds `false` where it contradicts itself."""
    if TRUE in literals:
        literals -= {TRUE}
    if len(literals) > 1 and (FALSE in literals or not literals.isdisjoint(map(neg, literals))):
        return NEVER
    return literals


def high_bound(a: int, b: int) -> int:
    """The lower of two upper bounds, where -1 means none."""
    return b if a < 0 else a if b < 0 else min(a, b)
