"""Arrays: the algebra of Array parts, and how one is written.

A part says what the items are by position, how many there are, how many of them meet other subschemas (`contains`), and whether all differ.
The complement of "item i is in S" is an array of at least i + 1 items with another item i; of "every further item is in S", a count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from ...pda.exceptions import LimitError
from ...pda.grammar import GrammarBuilder, NodeId
from ..emit.json_parts import Fragments
from ..emit.values import array_node, permuted_array
from .types import ANYTHING, FALSE, NEVER, TRUE, Array, Conjunction, Count, Literal, high_bound, reduced

FREE: Final = Array()
GRAPH_STATES: Final = 200_000
ENDLESS: Final = -1
Values = Mapping[object, Any]
"""JSON values by what makes them equal."""


def intersect(a: Array, b: Array) -> Array | None:
    """Arrays of both parts, None where there are none by their counts alone."""
    if a == FREE:
        return b
    if b == FREE:
        return a
    low, high = max(a.low, b.low), high_bound(a.high, b.high)
    if 0 <= high < low or a.distinct * b.distinct < 0:
        return None
    prefix = tuple(
        reduced((a.rest if one is None else one) | (b.rest if other is None else other)) for one, other in zip_longest(a.prefix, b.prefix)
    )
    return Array(prefix, reduced(a.rest | b.rest), low, high, tuple(dict.fromkeys(a.counts + b.counts)), a.distinct or b.distinct)


def complement(part: Array) -> list[Array]:
    """All arrays outside a part."""
    result: list[Array] = []
    if part.low > 0:
        result.append(Array(high=part.low - 1))
    if part.high >= 0:
        result.append(Array(low=part.high + 1))
    for index, item in enumerate(part.prefix):
        result.extend(Array((ANYTHING,) * index + (reduced(frozenset((-literal,))),), low=index + 1) for literal in item)
    result.extend(Array(counts=(Count(-literal, len(part.prefix), 1, -1),)) for literal in part.rest)
    for literal, start, low, high in part.counts:
        if low > 0:
            result.append(Array(counts=(Count(literal, start, 0, low - 1),)))
        if high >= 0:
            result.append(Array(counts=(Count(literal, start, high + 1, -1),)))
    if part.distinct:
        # With all else that the part asks for, so that its items are those of which there may be few.
        result.append(part._replace(distinct=-part.distinct))
    return result


def unite(parts: Iterable[Array]) -> tuple[Array, ...]:
    """A union."""
    kept = tuple(dict.fromkeys(parts))
    return (FREE,) if FREE in kept else kept


def prune(part: Array, is_empty: Callable[[Conjunction], bool]) -> Array | None:
    """The part in its simplest form, None where it holds no array."""
    prefix, rest, low, high, counts, distinct = part
    kept: list[Count] = []
    for literal, start, least, most in counts:
        if 0 <= most < least or (literal == FALSE and least > 0):
            return None
        if literal == TRUE:
            low = max(low, start + least if least > 0 else 0)
            high = high_bound(high, start + most if most >= 0 else -1)
        elif most == 0:
            prefix = (*prefix, *(rest,) * (start - len(prefix)))
            prefix = tuple(reduced(item | {-literal}) if i >= start else item for i, item in enumerate(prefix))
            rest = reduced(rest | {-literal})
        elif literal != FALSE and (least > 0 or most > 0):
            kept.append(Count(literal, start, least, most))
            low = max(low, start + least if least > 0 else 0)
    for index, item in enumerate(prefix):
        if 0 <= high <= index:
            break
        if is_empty(item):
            high = high_bound(high, index)
            break
    if is_empty(rest):
        high = high_bound(high, len(prefix))
        rest = NEVER
    if 0 <= high < len(prefix):
        prefix = prefix[:high]
    while prefix and prefix[-1] == rest:
        prefix = prefix[:-1]
    if distinct < 0:
        low = max(low, 2)
    elif 0 <= high <= 1:
        distinct = 0
    if 0 <= high < low:
        return None
    return Array(prefix, rest, low, high, tuple(dict.fromkeys(kept)), distinct)


class Few(NamedTuple):
    """What is asked of values that are few, where no two items may be equal."""

    values: Callable[[Conjunction], Values | None]
    number: Callable[[Conjunction, int], int]
    """How many there are, at most so many."""
    has: Callable[[Conjunction, object], bool]
    constant: Callable[[object], Literal]
    any_of: Callable[[Iterable[Literal]], Literal]


Outcome = tuple[Conjunction, tuple[int, ...], int]
"""What an item meets, how much it adds to each count, and which kind of values it is of, ENDLESS where it never runs out of them."""
Turn = tuple[NodeId, NodeId, tuple[int, ...], int]
"""An outcome written: the node of the item where it is the first, and behind a comma."""
State = tuple[int, tuple[int, ...], tuple[int, ...]]
"""How many items there are and how many of them counted for each count, both as far as it matters, and values left of each kind, which
matters until the array may end."""


class Writer:
    """Array parts written into one builder."""

    def __init__(
        self,
        b: GrammarBuilder,
        f: Fragments,
        is_empty: Callable[[Conjunction], bool],
        is_small: Callable[[Literal], bool],
        value: Callable[[Conjunction], NodeId],
        few_values: Callable[[Conjunction], list[NodeId] | None],
        few: Few | None = None,
    ) -> None:
        self.b = b
        self.f = f
        self.is_empty = is_empty
        self.is_small = is_small
        self.value = value
        self.few_values = few_values
        self._few = few

    @property
    def few(self) -> Few:
        """What is asked where items are to be unique, which not all writers can write."""
        assert self._few is not None
        return self._few

    def node(self, part: Array) -> NodeId:
        """The arrays of a part."""
        pruned = prune(part, self.is_empty)
        if pruned is None:
            return self.f.never
        prefix, rest, low, high, counts, distinct = pruned
        if counts:
            return self.counted(pruned)
        if distinct and not prefix:
            values = self.few_values(rest)
            if values is not None:
                return permuted_array(self.b, self.f, values, low, high)
            if self.few.number(rest, low) < low:
                return self.f.never
        elif distinct and self.is_scarce(pruned):
            return self.counted(pruned)
        others = self.f.never if rest == NEVER or 0 <= high <= len(prefix) else self.value(rest)
        return array_node(self.b, self.f, [self.value(item) for item in prefix], others, low, high, distinct=bool(distinct))

    def is_scarce(self, part: Array) -> bool:
        """Whether an item that has to be there may find all its values taken by those before it."""
        needed = enumerate(part.prefix[: part.low])
        return any(self.few.number(item, i + 1) <= i for i, item in needed) or (
            part.low > len(part.prefix) and self.few.number(part.rest, part.low) < part.low
        )

    def counted(self, part: Array) -> NodeId:
        """Arrays whose items are counted, as a graph: by counts of what they meet, or, where no two may be equal, by values left."""
        b, f = self.b, self.f
        prefix, _, low, high, counts, distinct = part
        largest = max(low, high, *(max(count.low, count.high) for count in counts))
        if largest > GRAPH_STATES:
            raise LimitError(f"one array counts to {largest}, and its graph to {GRAPH_STATES} states", limit="states", value=GRAPH_STATES)
        floor = max(len(prefix), *(count.start for count in counts), 0)
        cap = max(floor, low, high + 1 if high >= 0 else 0, 1)
        stages = [self.outcomes(part.item(position), position, counts) for position in range(floor + 1)]
        kinds: list[int] = []
        if distinct:
            stages, kinds = self.by_kinds(stages, low)

        def is_whole(position: int, reached: tuple[int, ...]) -> bool:
            return position >= low and all(n >= count.low for n, count in zip(reached, counts, strict=True))

        nothing = (0,) * len(counts)
        start: State = (0, nothing, () if is_whole(0, nothing) else tuple(kinds))
        numbers = {start: 0}
        todo = [start]
        edges: list[int] = []
        # Where an item leads depends on the counts and, past the prefix and the starts of all counts, no more on the position.
        known: dict[tuple[int, tuple[int, ...]], list[Turn]] = {}
        turns: dict[int, list[Turn]] = {}
        for state in todo:
            position, reached, left = state
            source = numbers[state]
            if is_whole(position, reached):
                edges += (source, 1, f.blank if position else -1)
            if 0 <= high <= position:
                continue
            stage = (min(position, floor), reached)
            moves = known.get(stage)
            if moves is None:
                written = turns.get(stage[0])
                if written is None:
                    written = turns[stage[0]] = self.written(stages[stage[0]], distinct=bool(distinct))
                moves = known[stage] = self.moves(written, counts, reached)
            after = min(position + 1, cap)
            for first, later, following, kind in moves:
                rest = left
                if left and kind >= 0:
                    if not left[kind]:
                        continue
                    rest = (*left[:kind], left[kind] - 1, *left[kind + 1 :])
                # What may end after every item needs no more values.
                target = (after, following, () if is_whole(after, following) else rest)
                number = numbers.get(target)
                if number is None:
                    number = numbers[target] = len(numbers) + 1
                    todo.append(target)
                    if number > GRAPH_STATES:
                        raise LimitError(f"one array needs a graph of more than {GRAPH_STATES} states", limit="states", value=GRAPH_STATES)
                edges += (source, number, later if position else first)
        node = b.seq(f.open_array, f.blank, b.graph(len(numbers) + 1, tuple(edges)), f.close_array)
        return b.scope(node) if distinct else node

    def by_kinds(self, stages: list[list[Outcome]], low: int) -> tuple[list[list[Outcome]], list[int]]:
        """Outcomes cut so that each is of one kind of values, and how many values of each kind there are.

        Values are of one kind where the same outcomes have them. So how many are left of each kind says what can still follow, and
        a guard, which looks one value ahead, never finds too late that there are too few.
        """
        items = dict.fromkeys(item for stage in stages for item, _, _ in stage)
        found = {item: self.few.values(item) for item in items}
        if any(few is None and self.few.number(item, low) < low for item, few in found.items()):
            raise LimitError(f"an array of at least {low} different items has too many values of too few kinds", limit="states", value=low)
        places = {item: place for place, item in enumerate(items)}
        kinds: dict[frozenset[int], dict[object, Any]] = {}
        values = {key: value for few in found.values() for key, value in (few or {}).items()}
        for key, value in values.items():
            inside = frozenset(places[item] for item, few in found.items() if (self.few.has(item, value) if few is None else key in few))
            kinds.setdefault(inside, {})[key] = value
        return [self.cut(stage, places, found, kinds) for stage in stages], [len(same) for same in kinds.values()]

    def cut(
        self,
        stage: list[Outcome],
        places: dict[Conjunction, int],
        found: dict[Conjunction, Values | None],
        kinds: dict[frozenset[int], dict[object, Any]],
    ) -> list[Outcome]:
        """The outcomes of one stage, by kinds."""
        result: list[Outcome] = []
        for item, tally, _ in stage:
            few = found[item]
            outside: list[Literal] = []
            for kind, (inside, same) in enumerate(kinds.items()):
                if places[item] not in inside:
                    continue
                # An item that might as well have been counted is read as that.
                if few is None and any(
                    found[other] is not None and places[other] in inside and all(n <= m for n, m in zip(tally, more, strict=True))
                    for other, more, _ in stage
                ):
                    continue
                its = [self.few.constant(value) for value in same.values()]
                outside += its
                whole = few is not None and len(few) == len(same)
                result.append((item if whole else reduced(item | {self.few.any_of(its)}), tally, kind))
            if few is None:
                result.append((reduced(item | {-literal for literal in outside}), tally, ENDLESS))
        return result

    def written(self, stage: list[Outcome], *, distinct: bool) -> list[Turn]:
        """What an item may be, first in the array and behind a comma, what it adds to each count, and its kind."""
        result = []
        for value, tally, kind in stage:
            node = self.value(value)
            if node != self.f.never:
                node = self.b.distinct(node) if distinct else node
                result.append((node, self.b.seq(self.f.comma, node), tally, kind))
        return result

    @staticmethod
    def moves(written: list[Turn], counts: tuple[Count, ...], reached: tuple[int, ...]) -> list[Turn]:
        """What an item may be, and the counts after it, each as far as it matters."""
        result = []
        for first, later, tally, kind in written:
            following = []
            for n, more, (_, _, low, high) in zip(reached, tally, counts, strict=True):
                if 0 <= high < n + more:
                    break
                following.append(min(n + more, max(low, high + 1)))
            else:
                result.append((first, later, tuple(following), kind))
        return result

    def outcomes(self, item: Conjunction, position: int, counts: tuple[Count, ...]) -> list[Outcome]:
        """How an item may turn out: what it meets, and how much that adds to each count.

        Where a count has no upper bound and the complement of its literal is large, an item that adds to it may also go uncounted.
        """
        found: list[tuple[Conjunction, tuple[int, ...]]] = [(item, ())]
        for literal, start, _, most in counts:
            cases: list[tuple[Conjunction, tuple[int, ...]]] = []
            for value, tally in found:
                if position < start:
                    cases.append((value, (*tally, 0)))
                    continue
                within = reduced(value | {literal})
                if not self.is_empty(within):
                    cases.append((within, (*tally, 1)))
                if literal in value:
                    continue
                without = value if most < 0 and not self.is_small(literal) else reduced(value | {-literal})
                if not self.is_empty(without):
                    cases.append((without, (*tally, 0)))
            found = cases
        return [(value, tally, ENDLESS) for value, tally in found]
