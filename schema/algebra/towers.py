"""Towers of if/then/else, each in the `else` of the one before: the branches of a union, told apart by their tests.

    if A1 then B1 else if A2 then B2 else C  =  (A1 and B1) or (not A1 and A2 and B2) or (not A1 and not A2 and C)

Level by level, from the innermost one out, each level meets every branch below it once more: n levels take n * n intersections, of objects
with n demands each.
From the outermost one in, what is outside the tests so far is one object, and a test whose objects have none in common with those of the
tests before it needs none of that.
So a tower of kinds takes time linear in its levels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from ...pda.budget import Budget
from ..dialect.keyword_values import Schema
from ..dialect.references import Registry, Scope
from ..sets.objects import Oracle, plain, requires
from ..sets.types import EVERY, Atom, Literal, Object, Parts
from .boolean import Boolean
from .bounds import OBJECTS, UpperBound, may_overlap, upper_bound

_ALONE: Final = frozenset({"if", "then", "else", "title", "description", "$comment"})
_MOST_PAIRS: Final = 16
"""Of more pairs of tests a level that may share objects, each test is taken to share some with one before it."""


def levels(schema: Schema) -> tuple[list[Schema], Any]:
    """The levels of a tower, and what the innermost `else` says.

    >>> levels({"type": "object", "if": True, "else": {"if": False, "then": {}}})
    ([{'type': 'object', 'if': True, 'else': {'if': False, 'then': {}}}, {'if': False, 'then': {}}], True)
    """
    found = [schema]
    while True:
        below = found[-1].get("else", True)
        if not isinstance(below, dict) or "if" not in below or not ("then" in below or "else" in below) or not below.keys() <= _ALONE:
            return found, below
        found.append(below)


def objects_only(bound: UpperBound) -> UpperBound:
    """The upper bound on the objects among some values."""
    return bound if bound.types == OBJECTS else bound._replace(types=bound.types & OBJECTS, values=None)


def overlapping(count: int, pairs: Iterable[tuple[int, int]]) -> list[bool]:
    """For each of so many tests whether it may share objects with one before it, by the pairs that may, the later one first.

    >>> overlapping(3, [(2, 0)])
    [False, False, True]
    """
    found = [False] * count
    for number, (later, _) in enumerate(pairs):
        if number >= _MOST_PAIRS * count:
            return [False] + [True] * (count - 1)
        found[later] = True
    return found


def share_objects(registry: Registry, tests: Sequence[Schema], scope: Scope, budget: Budget) -> list[bool]:
    """For each level of a tower whether its `if` may hold of objects of which one before it does."""
    bounds = [objects_only(upper_bound(registry, level["if"], scope)) for level in tests]
    return overlapping(len(bounds), may_overlap(bounds, budget))


def guards(boolean: Boolean, tests: Sequence[Parts], outsides: Sequence[Parts], overlaps: Sequence[bool]) -> Iterator[Parts]:
    """For each test, what has to hold besides for no test before it to hold, by their complements; then what none of them leaves."""
    rest = EVERY
    """What is outside the tests so far, and every object."""
    objects, done = EVERY, 0
    """The objects outside the first `done` tests, and every other value."""
    kinds = Kinds(boolean.oracle)
    for place, overlapping_ in enumerate((*overlaps, True)):
        told = kinds.outside(tests[place]) if overlapping_ and place < len(tests) else None
        if told is not None:
            yield boolean.intersect(rest, EVERY._replace(objects=(Object(atoms=told),)))
        elif overlapping_:
            more = [EVERY._replace(objects=outside.objects) for outside in outsides[done:place]]
            objects, done = boolean.intersect_all(objects, more), place
            yield boolean.intersect(rest, objects)
        else:
            yield rest
        if place < len(outsides):
            rest = boolean.intersect(rest, outsides[place]._replace(objects=EVERY.objects))
            kinds.add(tests[place])


class Kinds:
    """The tests so far, as long as each asks nothing of objects but that a member, if there is one, has one of some listed values.

    PERF: all of them hold of an object without the member, so that each has to be excluded from those below it. Of a kind that a test
    lists, what the tests before it leave is that the member is there, and whatever else they list is no concern: 1,500 levels took 1.5 s.
    """

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self.name: str | None = None
        self.lists: dict[object, list[Literal]] = {}
        """By value the tests that list it."""
        self.are_all = True

    def add(self, test: Parts) -> None:
        """Take in one more test."""
        found = self.listed(test)
        self.are_all = self.are_all and found is not None and self.name in (None, found.name)
        if self.are_all and found is not None:
            self.name = found.name
            for value in self.oracle.extent(found.literal) or ():
                self.lists.setdefault(value, []).append(found.literal)

    def outside(self, test: Parts) -> tuple[Atom, ...] | None:
        """What has to hold besides for an object of a test to be one of none before it; None where that is not known."""
        found = self.listed(test)
        if not self.are_all or self.name is None or found is None or found.name != self.name:
            return None
        shared = {literal: None for value in self.oracle.extent(found.literal) or () for literal in self.lists.get(value, ())}
        return (requires(self.name), *(plain(self.name, -literal) for literal in shared))

    def listed(self, test: Parts) -> Atom | None:
        """The member that a test asks for, with its values."""
        if len(test.objects) != 1:
            return None
        ((_, atoms, clauses, low, high),) = test.objects
        if clauses or low > 0 or high >= 0 or len(atoms) != 1:
            return None
        (atom,) = atoms
        return atom if atom.every and atom.name is not None and self.oracle.extent(atom.literal) is not None else None
