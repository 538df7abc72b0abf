"""Union, intersection and complement of typed parts, type by type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ...pda.budget import Budget
from ...pda.exceptions import LimitError
from ..sets import arrays, objects
from ..sets.objects import Oracle
from ..sets.strings import FREE as FREE_TEXT
from ..sets.strings import Strings, Texts, merged
from ..sets.types import CONSTANTS, EVERY, Array, Object, Parts

MOST_PARTS: Final = 4_000
MANY_OVERLAPS: Final = 8
"""Of more pairs of branches that share strings, the strings in one branch alone are one automaton."""


class Boolean:
    """The Boolean operations of one compilation."""

    def __init__(self, strings: Strings, oracle: Oracle, budget: Budget, prunes: Callable[[], bool]) -> None:
        """`prunes` says whether products of unions are rid of empty parts, which tests of emptiness a few levels down do without."""
        self.strings = strings
        self.oracle = oracle
        self.is_empty = oracle.is_empty
        self.budget = budget
        self.prunes = prunes

    def intersect(self, a: Parts, b: Parts) -> Parts:
        """Values of both."""
        if a is EVERY:
            return b
        if b is EVERY:
            return a
        return Parts(
            a.constants & b.constants,
            a.numbers & b.numbers,
            self.strings.intersect(a.texts, b.texts),
            self.intersect_arrays(a.arrays, b.arrays),
            self.intersect_objects(a.objects, b.objects),
        )

    def intersect_all(self, result: Parts, others: Sequence[Parts]) -> Parts:
        """Values of all, one after the other.

        PERF: runs of single objects are put together in pairs first. One after the other, each looks at the clauses of all before it.
        """
        run: list[Parts] = []
        for parts in others:
            if len(parts.objects) == 1 and parts.texts in ((), EVERY.texts) and parts.arrays in ((), EVERY.arrays):
                run.append(parts)
                continue
            result = self.intersect(self.intersect(result, self._of_run(run)), parts)
            run = []
        return self.intersect(result, self._of_run(run))

    def _of_run(self, run: Sequence[Parts]) -> Parts:
        """Values of all of some parts, in pairs."""
        while len(run) > 1:
            run = [self.intersect(*run[i : i + 2]) if i + 1 < len(run) else run[i] for i in range(0, len(run), 2)]
        return run[0] if run else EVERY

    def intersect_arrays(self, a: Sequence[Array], b: Sequence[Array]) -> tuple[Array, ...]:
        """Arrays of both unions."""
        if a == (arrays.FREE,) or not b:
            return tuple(b)
        if b == (arrays.FREE,) or not a:
            return tuple(a)
        self.check(len(a) * len(b))
        found = [both for one in a for other in b if (both := arrays.intersect(one, other)) is not None]
        if self.prunes() and not (len(a) == 1 or len(b) == 1):
            found = [part for part in found if arrays.prune(part, self.is_empty) is not None]
        return arrays.unite(found)

    def intersect_objects(self, a: Sequence[Object], b: Sequence[Object]) -> tuple[Object, ...]:
        """Objects of both unions."""
        if a == (objects.FREE,) or not b:
            return tuple(b)
        if b == (objects.FREE,) or not a:
            return tuple(a)
        self.check(len(a) * len(b))
        self.budget.spend((len(b) * sum(map(objects.demands, a)) + len(a) * sum(map(objects.demands, b))) // 2)
        found: Iterable[Object] = (objects.intersect(one, other) for one in a for other in b)
        if self.prunes() and len(a) and len(b) and len(a) + len(b) > 2:
            found = [part for candidate in found if (part := objects.prune(candidate, self.oracle)) is not None]
        return objects.unite(found)

    def check(self, parts: int) -> None:
        """Raise where a product of unions is too large."""
        if parts > MOST_PARTS:
            raise LimitError(f"combined subschemas have more than {MOST_PARTS} alternatives", limit="states", value=MOST_PARTS)
        self.budget.spend(1 + 8 * parts)

    def union(self, parts: Sequence[Parts]) -> Parts:
        """Values of any."""
        if len(parts) == 1:
            return parts[0]
        numbers = parts[0].numbers
        for part in parts[1:]:
            if part.numbers:
                numbers = numbers | part.numbers
        return Parts(
            frozenset().union(*(part.constants for part in parts)),
            numbers,
            merged([text for part in parts for text in part.texts]),
            arrays.unite(array for part in parts for array in part.arrays),
            objects.unite(object_ for part in parts for object_ in part.objects),
        )

    def complement(self, parts: Parts) -> Parts:
        """All other values."""
        texts: Texts = (FREE_TEXT,)
        for text_part in parts.texts:
            texts = self.strings.intersect(texts, self.strings.complement(text_part))
        array_parts: tuple[Array, ...] = (arrays.FREE,)
        for array in parts.arrays:
            array_parts = self.intersect_arrays(array_parts, arrays.complement(array))
        object_parts: tuple[Object, ...] = (objects.FREE,)
        for object_ in parts.objects:
            object_parts = self.intersect_objects(object_parts, objects.complement(object_))
        return Parts(CONSTANTS - parts.constants, ~parts.numbers, texts, array_parts, object_parts)

    def exactly_one(self, branches: Sequence[tuple[Parts, Callable[[], Parts]]], pairs: Iterable[tuple[int, int]]) -> list[Parts]:
        """For every branch, the values in it and in no other; a branch comes with its complement, which is made only where it is needed.

        Type by type: branches that share no value of a type leave each other's values of it alone.
        `pairs` are the branches, by their places, that may share some.
        """
        overlaps: list[tuple[int, int, Parts]] = []
        for i, j in pairs:
            self.budget.spend(4)
            common = self.intersect(branches[i][0], branches[j][0])
            if common.is_empty():
                continue
            common = self.pruned(common)
            if not common.is_empty():
                overlaps.append((i, j, common))
        texts = None
        if sum(bool(common.texts) for _, _, common in overlaps) > MANY_OVERLAPS:
            texts = self.strings.exactly_one([parts.texts for parts, _ in branches])
        result = [parts for parts, _ in branches]
        for i, j, common in overlaps:
            rest = common if texts is None else common._replace(texts=())
            if not rest.is_empty():
                result[i] = self.outside(result[i], rest, branches[j][1]())
                result[j] = self.outside(result[j], rest, branches[i][1]())
        if texts is not None:
            # Those of all branches stand in each: they are put together, or meet the branch again.
            result = [parts._replace(texts=texts) if parts.texts else parts for parts in result]
        return result

    def outside(self, parts: Parts, common: Parts, outside: Parts) -> Parts:
        """The difference of the parts and some others, by the complement of the latter."""
        return Parts(
            parts.constants & outside.constants if common.constants else parts.constants,
            parts.numbers & outside.numbers if common.numbers else parts.numbers,
            self.strings.intersect(parts.texts, outside.texts) if common.texts else parts.texts,
            self.intersect_arrays(parts.arrays, outside.arrays) if common.arrays else parts.arrays,
            self.intersect_objects(parts.objects, outside.objects) if common.objects else parts.objects,
        )

    def pruned(self, parts: Parts) -> Parts:
        """The parts without those that are surely empty."""
        return parts._replace(
            arrays=tuple(a for a in parts.arrays if arrays.prune(a, self.is_empty) is not None and self.has_items(a)),
            objects=tuple(o for o in parts.objects if objects.prune(o, self.oracle) is not None),
        )

    def has_items(self, part: Array) -> bool:
        """Whether the items that an array must have can be there."""
        return not any(self.is_empty(item) for item in part.prefix[: part.low])
