"""Subschemas that list scalars, as `const` and `enum` do, compared as sets.

A member that tells branches or conditions apart, such as a kind, is one constant in one of them and another constant in each other one.
As intersections of typed parts, n of them take n * n intersections; as sets of values, each comparison is a lookup.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...pda.budget import Budget
from ..sets.objects import EXCLUDES, IMPLIES, NEITHER
from ..sets.strings import FREE
from ..sets.types import Conjunction, Literal, Parts

MOST_LISTED: Final = 256
"""Of more numbers between two bounds none is listed."""

MANY_LITERALS: Final = 8
"""Of fewer literals none is left out for what others list."""


class Lists:
    """The lists of one algebra, whose `signed` gives the parts of a literal."""

    def __init__(self, signed: Callable[[Literal], Parts], budget: Budget) -> None:
        self.signed = signed
        self.budget = budget
        self.extents: dict[Literal, frozenset[object] | None] = {}
        self.found: dict[Conjunction, tuple[frozenset[object] | None, bool]] = {}

    def extent(self, literal: Literal) -> frozenset[object] | None:
        """The scalars that meet a literal; None where arrays or objects do, or where the subschema does not list its values."""
        if literal not in self.extents:
            self.extents[literal] = self._extent(literal)
        return self.extents[literal]

    def _extent(self, literal: Literal) -> frozenset[object] | None:
        """As `extent`, not remembered."""
        constants, numbers, texts, arrays, objects = self.signed(literal)
        if arrays or objects or any(text.words is None or text[:3] != FREE[:3] for text in texts):
            return None
        listed = numbers.values(MOST_LISTED)
        if listed is None:
            return None
        words = (word for text in texts for word in text.words or ())
        # Constants are wrapped, since True equals 1.
        return frozenset([*((constant, None) for constant in constants), *listed, *words])

    def relation(self, conjunction: Conjunction, literal: Literal) -> int | None:
        """Whether the values of a conjunction meet a literal, as far as lists tell: IMPLIES, EXCLUDES, NEITHER, or None if they do not."""
        extent = self.extent(abs(literal))
        if extent is None:
            return None
        values, exact = self.values(conjunction)
        if values is None:
            return None
        common = len(values & extent)
        if 0 < common < len(values):
            return NEITHER if exact else None
        return IMPLIES if (common > 0) == (literal > 0) else EXCLUDES

    def telling(self, conjunction: Conjunction) -> Conjunction:
        """A conjunction without complements of lists that exclude none of the values that another one of its literals lists.

        PERF: what is one of n kinds, and none of those before it in a tower of conditions, is a conjunction of as many literals.
        """
        if len(conjunction) < MANY_LITERALS:
            return conjunction
        self.budget.spend(len(conjunction) // 2)
        values: frozenset[object] | None = None
        for literal in conjunction:
            if literal > 0 and (extent := self.extent(literal)) is not None:
                values = extent if values is None else values & extent
        if values is None:
            return conjunction
        idle = [one for one in conjunction if one < 0 and (its := self.extent(-one)) is not None and values.isdisjoint(its)]
        return conjunction.difference(idle)

    def values(self, conjunction: Conjunction) -> tuple[frozenset[object] | None, bool]:
        """Scalars among which all values of a conjunction are, and whether these are its values; None where no subschema lists them."""
        found = self.found.get(conjunction)
        if found is None:
            values: frozenset[object] | None = None
            exact = True
            for literal in sorted(conjunction, reverse=True):  # literals that list values, then those that exclude them
                extent = self.extent(abs(literal))
                if extent is None:
                    exact = False
                elif literal > 0:
                    values = extent if values is None else values & extent
                elif values is None:
                    break
                else:
                    values -= extent
            self.budget.spend(len(conjunction) // 8)
            found = self.found[conjunction] = values, exact
        return found
