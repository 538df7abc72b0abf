"""Union, intersection and complement of typed parts, type by type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from ...pda.budget import Budget
from ...pda.exceptions import LimitError
from ..sets import arrays, objects
from ..sets.objects import Oracle
from ..sets.strings import FREE as FREE_TEXT
from ..sets.strings import Strings, Texts, merged
from ..sets.types import CONSTANTS, EVERY, NONE, Array, Object, Parts
from .bounds import type_bits

MOST_PARTS: Final = 4_000
MANY_OVERLAPS: Final = 8
"""Of more pairs of branches that share strings, the strings in one branch alone are one automaton."""
MANY_BRANCHES: Final = 32
"""Of more branches of which one is to hold, numbers and constants are counted."""
_BITS: Final = {
    "constants": type_bits(("null", "boolean")),
    "numbers": type_bits(("integer", "number")),
    "texts": type_bits(("string",)),
    "arrays": type_bits(("array",)),
    "objects": type_bits(("object",)),
}
"""The types of each kind of parts."""
_WHOLE: Final = {kind: getattr(EVERY, kind) for kind in ("texts", "arrays", "objects")}
_PRODUCTS: Final = (0, 9, 9, 18)
"""What `check` counts for one pair of arrays, of objects, and of both."""
_SHARED_ARRAYS: Final = 40
"""What it takes besides to see whether the arrays that two branches have in common are none."""
_TWO_ARRAYS: Final = 68
"""About what two branches take that both have the empty array: to be compared, and to be put outside of each other."""
_TWO_PRODUCTS: Final = 24
"""About what two branches that share objects take to be put outside of each other."""

Blocks: TypeAlias = dict[tuple[int, int], tuple[Object, ...]]
"""Objects outside of all branches from a place on, by it and their number."""


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

        PERF: runs of single objects and arrays are put together in pairs first. One after the other, each looks at all before it.
        """
        run: list[Parts] = []
        for parts in others:
            if len(parts.objects) < 2 and len(parts.arrays) < 2 and parts.texts in ((), EVERY.texts):
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
        if len(a) == len(b) == 1:
            return (objects.intersect(a[0], b[0]),)
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

    def conditional(self, test: Parts, outside: Parts, then: Parts, otherwise: Parts) -> Parts:
        """(if and then) or (not if and else); as implications where only one side says something, which multiplies fewer parts."""
        if otherwise is EVERY:
            return self.union([outside, then]) if then is not EVERY else EVERY
        if then is EVERY:
            return self.union([test, otherwise])
        return self.union([self.intersect(test, then), self.intersect(outside, otherwise)])

    def exactly_one(
        self,
        branches: Sequence[tuple[Parts, Callable[[], Parts]]],
        pairs: Callable[[Sequence[int], int], Iterable[tuple[int, int]]],
    ) -> list[Parts]:
        """For every branch, the values in it and in no other; a branch comes with its complement, which is made only where it is needed.

        Type by type: branches that share no value of a type leave each other's values of it alone.
        `pairs` are those of some branches, by their places, that may share values of some types.
        """
        settled = self.settled([parts for parts, _ in branches])
        result = [parts._replace(**{kind: getattr(NONE, kind) for kind in settled}) if settled else parts for parts, _ in branches]
        types = sum(bits for kind, bits in _BITS.items() if kind not in settled)
        overlaps = self.overlaps(result, pairs([place for place, parts in enumerate(result) if not parts.is_empty()], types))
        if sum(bool(common.texts) for _, _, common in overlaps) > MANY_OVERLAPS:
            texts = self.strings.exactly_one([parts.texts for parts, _ in branches])
            if texts is not None:
                settled["texts"] = texts
                overlaps = [(i, j, common._replace(texts=())) for i, j, common in overlaps]
        beside: list[list[tuple[Parts, int]]] = [[] for _ in branches]
        for i, j, common in overlaps:
            if not common.is_empty():
                beside[i].append((common, j))
                beside[j].append((common, i))
        blocks: Blocks = {}
        for place, others in enumerate(beside):
            result[place] = self.outside(result[place], [(common, branches[other][1](), other) for common, other in others], blocks)
        for place, (parts, _) in enumerate(branches):
            # Those of all branches stand in each: they are put together, or meet the branch again.
            result[place] = result[place]._replace(**{kind: its for kind, its in settled.items() if getattr(parts, kind)})
        return result

    def settled(self, branches: Sequence[Parts]) -> dict[str, Any]:
        """The kinds of values for which no pairs of branches are compared, each with the values that are in one branch alone.

        Where two branches have all strings, no string is in one alone. Of many branches numbers and constants are counted.
        """
        found: dict[str, Any] = {kind: () for kind, every in _WHOLE.items() if sum(getattr(parts, kind) == every for parts in branches) > 1}
        if len(branches) > MANY_BRANCHES:
            counted = Counter(constant for parts in branches for constant in parts.constants)
            found["constants"] = frozenset(constant for constant, count in counted.items() if count == 1)
            level = [(parts.numbers, NONE.numbers) for parts in branches if parts.numbers] or [(NONE.numbers, NONE.numbers)]
            while len(level) > 1:
                halves = zip(level[::2], level[1::2], strict=False)
                level = [(a | b, more | also | (a & b)) for (a, more), (b, also) in halves] + level[len(level) & ~1 :]
                self.budget.spend(4 * sum(len(any_.pieces) + len(more.pieces) for any_, more in level))
            ((any_, more),) = level
            found["numbers"] = any_ - more
        return found

    def overlaps(self, branches: Sequence[Parts], pairs: Iterable[tuple[int, int]]) -> list[tuple[int, int, Parts]]:
        """The pairs of branches that share values, with these."""
        least = sure = 0
        compared: list[tuple[int, int]] = []
        products = [(parts.arrays not in ((), EVERY.arrays)) + 2 * (parts.objects not in ((), EVERY.objects)) for parts in branches]
        spoken_of = [objects.names_of_open(parts.objects) for parts in branches]
        have_empty_array = [any(map(arrays.has_empty, parts.arrays)) for parts in branches]
        for i, j in pairs:
            least += 4 + _PRODUCTS[products[i] & products[j]]
            one, other = spoken_of[i], spoken_of[j]
            if one is not None and other is not None and one.isdisjoint(other):
                sure += _TWO_PRODUCTS
            if have_empty_array[i] and have_empty_array[j]:
                sure += _TWO_ARRAYS
            self.budget.expect(least + sure)
            compared.append((i, j))
        found: list[tuple[int, int, Parts]] = []
        shared = 0
        for i, j in compared:
            least -= 4 + _PRODUCTS[products[i] & products[j]]
            self.budget.spend(4)
            common = self.intersect(branches[i], branches[j])
            if common.is_empty():
                continue
            if common.arrays:
                self.budget.spend(_SHARED_ARRAYS)
            common = self.pruned(common)
            if not common.is_empty():
                found.append((i, j, common))
                shared += bool(common.objects)
                self.budget.expect(least + _TWO_PRODUCTS * shared)
        return found

    def outside(self, parts: Parts, others: Sequence[tuple[Parts, Parts, int]], blocks: Blocks) -> Parts:
        """The parts without some others, each given by what they have in common, by its complement, and by its place.

        PERF: `blocks` remembers what is outside of many others, for all that have them in common.
        """
        constants, numbers, texts, array_parts, object_parts = parts
        outside_objects: list[tuple[int, Object]] = []
        single = len(others) > MANY_OVERLAPS and len(object_parts) == 1
        for common, outside, place in others:
            constants = constants & outside.constants if common.constants else constants
            numbers = numbers & outside.numbers if common.numbers else numbers
            texts = self.strings.intersect(texts, outside.texts) if common.texts else texts
            array_parts = self.intersect_arrays(array_parts, outside.arrays) if common.arrays else array_parts
            if common.objects and single and len(outside.objects) == 1:
                outside_objects.append((place, outside.objects[0]))
            elif common.objects:
                object_parts = self.intersect_objects(object_parts, outside.objects)
        for block in self.in_blocks(outside_objects, blocks):
            object_parts = self.intersect_objects(object_parts, block)
        return Parts(constants, numbers, texts, array_parts, object_parts)

    def in_blocks(self, parts: Sequence[tuple[int, Object]], blocks: Blocks) -> Iterator[tuple[Object, ...]]:
        """The intersections of objects by their places, in blocks of 2 ** n places that begin at a multiple of as many."""
        at = 0
        while at < len(parts):
            place, part = parts[at]
            found: tuple[Object, ...] = (part,)
            size = 1
            while place % (2 * size) == 0 and at + 2 * size <= len(parts) and parts[at + 2 * size - 1][0] == place + 2 * size - 1:
                size *= 2
                if (place, size) not in blocks:
                    (other,) = self.in_blocks(parts[at + size // 2 : at + size], blocks)
                    blocks[place, size] = self.intersect_objects(found, other)
                found = blocks[place, size]
            yield found
            at += size

    def pruned(self, parts: Parts) -> Parts:
        """The parts without those that are surely empty."""
        return parts._replace(
            arrays=tuple(a for a in parts.arrays if arrays.prune(a, self.is_empty) is not None and self.has_items(a)),
            objects=tuple(o for o in parts.objects if objects.prune(o, self.oracle) is not None),
        )

    def has_items(self, part: Array) -> bool:
        """Whether the items that an array must have can be there."""
        return not any(self.is_empty(item) for item in part.prefix[: part.low])
