"""Arrays as nodes: a sequence, a graph over counts where items are counted, or a permutation of few values."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from math import comb
from operator import ge
from typing import Any, Final, NamedTuple

from ...pda.budget import HALF, QUARTER, Budget
from ...pda.exceptions import LimitError
from ...pda.grammar import SEQ, GrammarBuilder, NodeId
from ..errors import too_many_states
from ..sets.arrays import prune
from ..sets.objects import Cases
from ..sets.types import NEVER, Array, Conjunction, Count, Literal, Values, reduced
from .json_parts import Fragments
from .values import called, separated

GRAPH_STATES: Final = 200_000
_WORK_OF_A_STATE: Final = 6
MOST_FORESEEN: Final = 14
"""Of no more lists of values the states of the graph are few, as `expect_counted` tells: it may take half of the work."""
ENDLESS: Final = -1


class Few(NamedTuple):
    """Questions about finite sets of values, for arrays whose items must differ."""

    values: Callable[[Conjunction], Values | None]
    number: Callable[[Conjunction, int], int]
    """The number of values, up to a bound."""
    has: Callable[[Conjunction, object], bool]
    constant: Callable[[object], Literal]
    any_of: Callable[[Iterable[Literal]], Literal]


JOINT_ITEM_LISTS: Final = 8
"""An item is cut by this many lists of values together, and by fewer one after the other."""
Outcome = tuple[Conjunction, tuple[int, ...], int]
"""The subschemas that an item meets, what it adds to each count, and the kind of its values, ENDLESS if there are infinitely many."""
Turn = tuple[NodeId, NodeId, tuple[int, ...], int]
"""An outcome written: the node of the item where it is the first, and behind a comma, and the places of the counts that it adds to."""
Move = tuple[NodeId, NodeId, tuple[int, ...], int]
"""As a turn, with the counts after it."""
Taken = tuple[tuple[int, int], ...]
"""Kinds in their order, each with how many of its values were taken."""
State = tuple[int, tuple[int, ...], Taken]
"""The number of items and of those that each count has counted, both as far as it matters, and the values taken of each kind, which
matter until the array may end, and where the kind may run out."""


class Kinds(NamedTuple):
    """The kinds of values of an array's items, which must differ: how many values each has, and at which items they may come."""

    sizes: list[int]
    places: list[list[int]]
    """The positions of the first items that have values of the kind."""
    always: list[bool]
    """Whether the items behind these first ones have values of the kind."""
    first: int
    """The number of these first items."""
    end: int
    """The number of items from which on it does not matter how many values are left, -1 if it always may."""

    def after(self, taken: Taken, kind: int, position: int) -> Taken | None:
        """The values taken after one more of a kind, as far as they matter to the items from `position` on; None if it has no more."""
        more = 1 + next((number for other, number in taken if other == kind), 0)
        if more > self.sizes[kind]:
            return None
        found = [pair for pair in taken if pair[0] != kind]
        insort(found, (kind, more))
        return self.later(found, position)

    def later(self, taken: Iterable[tuple[int, int]], position: int) -> Taken:
        """The values taken, without kinds that cannot run out in the items from `position` on."""
        return tuple([pair for pair in taken if self.may_run_out(*pair, position)])

    def may_run_out(self, kind: int, taken: int, position: int) -> bool:
        """Whether the items from `position` on could take more values than the kind has left."""
        if self.always[kind] and self.end < 0:
            return True
        places = self.places[kind]
        items = len(places) - bisect_left(places, position)
        if self.always[kind]:
            items += max(0, self.end - max(position, self.first))
        return items > self.sizes[kind] - taken


class ArrayWriter:
    """Array parts written into one builder."""

    def __init__(
        self,
        b: GrammarBuilder,
        f: Fragments,
        is_empty: Callable[[Conjunction], bool],
        is_small: Callable[[Literal], bool],
        value: Callable[[Conjunction], NodeId],
        finite_values: Callable[[Conjunction], list[NodeId] | None],
        budget: Budget,
        cases: Cases,
        few: Few | None = None,
    ) -> None:
        self.b = b
        self.budget = budget
        self.f = f
        self.is_empty = is_empty
        self.is_small = is_small
        self.value = value
        self.finite_values = finite_values
        self.cases = cases
        self._few = few

    @property
    def few(self) -> Few:
        """The demands on unique items, which not all writers can write."""
        assert self._few is not None
        return self._few

    def node(self, part: Array) -> NodeId:
        """The arrays of a part."""
        pruned = prune(part, self.is_empty)
        if pruned is None:
            return self.f.never
        prefix, rest, low, high, counts, distinct = pruned
        if counts:
            lists = [count.literal for count in counts if count.low > 0 > count.high]
            is_foreseen = len(lists) == len(counts) <= MOST_FORESEEN and len([*self.cases.apart(rest, lists)]) == len(lists)
            with self.budget.part("the graph of one array", HALF if is_foreseen else QUARTER):
                return self.counted(pruned)
        if distinct and not prefix:
            values = self.finite_values(rest)
            if values is not None:
                return permuted_array(self.b, self.f, values, low, high)
            if self.few.number(rest, low) < low:
                return self.f.never
        elif distinct and self.is_scarce(pruned):
            with self.budget.part("the graph of one array", QUARTER):
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
        """Arrays whose items are counted, as a graph: by counts of met subschemas, or, if no two may be equal, of remaining values."""
        b, f = self.b, self.f
        prefix, _, low, high, counts, distinct = part
        if any(count.start <= 0 and count.low >= low for count in counts):
            low = 0  # as many items as have to count are there anyway
        largest = max(low, high, *(max(count.low, count.high) for count in counts))
        if largest > GRAPH_STATES:
            raise LimitError(f"one array counts to {largest}, and its graph to {GRAPH_STATES} states", limit="states", value=GRAPH_STATES)
        floor = max(len(prefix), *(count.start for count in counts), 0)
        cap = max(floor, low, high + 1 if high >= 0 else 0, 1)
        self.expect_counted(part, floor)
        stages: list[list[Outcome]] = []
        # An item of each outcome leads from where nothing is counted to a state of its own, and each outcome on from there.
        is_free = high < 0 and not distinct and all(count.low > 0 > count.high for count in counts)
        for position in range(floor + 1):
            squared = is_free and position == floor and all(any(not any(tally) for _, tally, _ in stage) for stage in stages)
            stages.append(self.outcomes(part.item(position), position, counts, squared=squared))
        kinds: Kinds | None = None
        if high < 0 and not distinct:
            self.check_counted(stages, counts)
        if distinct:
            stages, kinds = self.by_kinds(stages, low, high if counts else low)

        lows = [count.low for count in counts]

        def is_whole(position: int, reached: tuple[int, ...]) -> bool:
            return position >= low and all(map(ge, reached, lows))

        nothing = (0,) * len(counts)
        start: State = (0, nothing, ())
        numbers = {start: 0}
        todo = [start]
        edges: list[int] = []
        # Where an item leads depends on the counts and, past the prefix and the starts of all counts, no more on the position.
        known: dict[tuple[int, tuple[int, ...]], list[Move]] = {}
        turns: dict[int, list[Turn]] = {}
        for state in todo:
            position, reached, taken = state
            source = numbers[state]
            self.budget.spend(_WORK_OF_A_STATE + len(counts) // 8)
            whole = is_whole(position, reached)
            if whole:
                edges += (source, 1, f.blank if position else -1)
            if 0 <= high <= position:
                continue
            stage = (min(position, floor), reached)
            moves = known.get(stage)
            if moves is None:
                written = turns.get(stage[0])
                if written is None:
                    written = turns[stage[0]] = self.written(stages[stage[0]], distinct=bool(distinct))
                self.budget.spend(2 * len(written) + len(written) * len(counts) // 64)
                moves = known[stage] = self.moves(written, counts, reached)
            after = min(position + 1, cap)
            self.budget.spend(len(moves) // 2)
            for first, later, following, kind in moves:
                rest: Taken = ()
                if kinds and not whole:
                    self.budget.spend(2 + len(taken) // 2)
                    then = kinds.later(taken, after) if kind < 0 else kinds.after(taken, kind, after)
                    if then is None:
                        continue
                    # An array that may end after every item needs no more values.
                    rest = () if is_whole(after, following) else then
                target = (after, following, rest)
                number = numbers.get(target)
                if number is None:
                    number = numbers[target] = len(numbers) + 1
                    todo.append(target)
                    if number > GRAPH_STATES:
                        raise too_many_states("array", GRAPH_STATES)
                edges += (source, number, later if position else first)
        node = b.seq(f.open_array, f.blank, b.graph(len(numbers) + 1, tuple(edges)), f.close_array)
        return b.scope(node) if distinct else node

    def expect_counted(self, part: Array, first: int) -> None:
        """Raise where lists of values that are counted make too many states, before all ways of counting are known.

        Each set of lists that have no value in common is a state; each of the first items is in one of them at most.
        """
        lists = [count.literal for count in part.counts if count.low > 0]
        if len(lists) < len(part.counts):
            return
        apart: Iterable[Literal] = self.cases.apart(part.rest, lists)
        if any(count.high >= 0 for count in part.counts):
            apart = list(apart)
            if len(apart) < len(lists):
                return  # an item of one list could be one too many of another
        room = part.high - first if part.high >= 0 else len(lists)
        for found, _ in enumerate(apart, 1 - first):
            states = sum(comb(found, some) for some in range(min(found, room) + 1))
            self.budget.expect((_WORK_OF_A_STATE + (2 * found if part.high < 0 else 0)) * states)
            if states > GRAPH_STATES:
                raise too_many_states("array", GRAPH_STATES)

    @staticmethod
    def check_counted(stages: list[list[Outcome]], counts: tuple[Count, ...]) -> None:
        """Raise where items that are counted once each surely make too many states: each set of them is one.

        The first items may have counted some already, as few as there are outcomes that count fewest.
        """
        *before, stage = stages
        alone = {tally.index(1) for _, tally, _ in stage if sum(tally) == 1}
        alone = {place for place in alone if counts[place].low > 0}
        if len(alone) < GRAPH_STATES.bit_length() or not all(before):
            return
        counted = sum(min(sum(tally[place] for place in alone) for _, tally, _ in outcomes) for outcomes in before)
        if len(alone) - counted >= GRAPH_STATES.bit_length():
            raise too_many_states("array", GRAPH_STATES)

    def by_kinds(self, stages: list[list[Outcome]], low: int, end: int) -> tuple[list[list[Outcome]], Kinds]:
        """Outcomes cut so that each is of one kind of values, and these kinds; `end` as theirs.

        Values are of one kind where the same outcomes have them. So how many are left of each kind says what can still follow, and
        a guard, which looks one value ahead, never finds too late that there are too few.
        """
        found = {item: self.few.values(item) for item in dict.fromkeys(item for stage in stages for item, _, _ in stage)}
        if any(few is None and self.few.number(item, low) < low for item, few in found.items()):
            raise LimitError(f"an array of at least {low} different items has too many values of too few kinds", limit="states", value=low)
        values = {key: value for few in found.values() for key, value in (few or {}).items()}
        inside: dict[object, list[int]] = {key: [] for key in values}
        for place, (item, few) in enumerate(found.items()):
            has = [key for key, value in values.items() if self.few.has(item, value)] if few is None else few
            for key in has:
                inside[key].append(place)
            self.budget.spend(len(values if few is None else few))
        kinds: dict[tuple[int, ...], dict[object, Any]] = {}
        for key, value in values.items():
            kinds.setdefault(tuple(inside[key]), {})[key] = value
        of_item: dict[Conjunction, dict[int, dict[object, Any]]] = {item: {} for item in found}
        listed = [*found]
        for kind, (those, same) in enumerate(kinds.items()):
            for place in those:
                of_item[listed[place]][kind] = same
        cut = [self.cut(stage, found, of_item) for stage in stages]
        places: list[list[int]] = [[] for _ in kinds]
        first = len(stages) - 1
        for position, stage in enumerate(cut[: first if end < 0 else min(first, end)]):
            for kind in {kind for _, _, kind in stage if kind >= 0}:
                places[kind].append(position)
        always = {kind for _, _, kind in cut[-1]}
        sizes = [len(same) for same in kinds.values()]
        return cut, Kinds(sizes, places, [kind in always for kind in range(len(sizes))], first, end)

    def cut(
        self, stage: list[Outcome], found: dict[Conjunction, Values | None], of_item: dict[Conjunction, dict[int, dict[object, Any]]]
    ) -> list[Outcome]:
        """The outcomes of one stage, by kinds."""
        result: list[Outcome] = []
        for item, tally, _ in stage:
            few = found[item]
            outside: list[Literal] = []
            for kind, same in of_item[item].items():
                # An item that might as well have been counted is read as that.
                if few is None and any(
                    found[other] is not None and kind in of_item[other] and all(n <= m for n, m in zip(tally, more, strict=True))
                    for other, more, _ in stage
                ):
                    continue
                its = [self.few.constant(value) for value in same.values()]
                outside += its
                whole = few is not None and len(few) == len(same)
                result.append((item if whole else reduced(item | {self.few.any_of(its)}), tally, kind))
                self.budget.spend(1 + len(its))
            if few is None:
                result.append((reduced(item | {-literal for literal in outside}), tally, ENDLESS))
        return result

    def written(self, stage: list[Outcome], *, distinct: bool) -> list[Turn]:
        """The node of an item, first in the array and after a comma, its contribution to each count, and its kind."""
        result = []
        for value, tally, kind in stage:
            node = self.value(value)
            if node != self.f.never:
                node = self.b.distinct(node) if distinct else node
                counted = tuple(place for place, more in enumerate(tally) if more)
                result.append((node, self.b.seq(self.f.comma, node), counted, kind))
        return result

    @staticmethod
    def moves(written: list[Turn], counts: tuple[Count, ...], reached: tuple[int, ...]) -> list[Move]:
        """The possible items, each with the counts after it, as far as they matter."""
        result = []
        for first, later, counted, kind in written:
            following = list(reached)
            for place in counted:
                _, _, low, high = counts[place]
                n = reached[place] + 1
                if 0 <= high < n:
                    break
                following[place] = min(n, max(low, high + 1))
            else:
                result.append((first, later, tuple(following), kind))
        return result

    def outcomes(self, item: Conjunction, position: int, counts: tuple[Count, ...], *, squared: bool) -> list[Outcome]:
        """The possible outcomes of an item: the subschemas that it meets, and its contribution to each count.

        Where a count has no upper bound and the complement of its literal is large, an item that adds to it may also go uncounted.
        `squared` says that the graph surely takes as many steps as there are pairs of outcomes.
        """
        self.budget.spend(len(counts))
        listed = self.cases.by_lists(item, [literal for literal, start, _, _ in counts if position >= start], JOINT_ITEM_LISTS)
        found, settled = ([(item, frozenset())], frozenset()) if listed is None else listed
        tallied = [(value, [int(literal in true and position >= start) for literal, start, _, _ in counts]) for value, true in found]
        for place, (literal, start, _, most) in enumerate(counts):
            if position < start or literal in settled:
                continue
            cases: list[tuple[Conjunction, list[int]]] = []
            for value, tally in tallied:
                within = reduced(value | {literal})
                if not self.is_empty(within):
                    cases.append((within, [*tally[:place], 1, *tally[place + 1 :]]))
                if literal in value:
                    continue
                without = value if most < 0 and not self.is_small(literal) else reduced(value | {-literal})
                if not self.is_empty(without):
                    cases.append((without, tally))
            tallied = cases
            self.budget.spend(12 * len(cases))
            if squared:
                self.budget.expect(2 * len(cases) ** 2)
        return [(value, tuple(tally), ENDLESS) for value, tally in tallied]


def array_node(
    b: GrammarBuilder, f: Fragments, prefix: Sequence[NodeId], rest: NodeId, minimum: int, maximum: int, *, distinct: bool = False
) -> NodeId:
    """An array whose first items are `prefix` and whose others are `rest`, of `minimum` to `maximum` items (-1 is no bound)."""
    never = f.never
    for position, item in enumerate(prefix):
        if item == never and (maximum < 0 or maximum > position):
            maximum = position
    if rest == never and (maximum < 0 or maximum > len(prefix)):
        maximum = len(prefix)
    if 0 <= maximum < minimum:
        return never
    if maximum == 0:
        return b.seq(f.open_array, f.blank, f.close_array)
    if distinct and maximum != 1:
        prefix, rest = [b.distinct(item) for item in prefix], rest if rest == never else b.distinct(rest)
    known = len(prefix) if maximum < 0 else min(len(prefix), maximum)
    if known == 0:
        items = separated(b, f, rest if minimum <= 1 and maximum < 0 else called(b, rest), minimum, maximum)
        optional = minimum == 0
    else:
        # States 2, 3, ... stand after one, two, ... items of the prefix; 1 is the end.
        edges: list[int] = []
        state = 0
        for position in range(known):
            if position and position >= minimum:
                edges += (state, 1, -1)
            edges += (state, position + 2, prefix[position] if not position else b.seq(f.comma, prefix[position]))
            state = position + 2
        if known < len(prefix) or rest == never:
            tail = f.empty
        else:
            tail = b.repeat(b.seq(f.comma, rest), max(minimum - known, 0), maximum - known if maximum >= 0 else -1)
        edges += (state, 1, tail)
        if known == 1:
            items = b.seq(prefix[0], tail)
        elif minimum >= known:
            items = b.seq(prefix[0], *(b.seq(f.comma, item) for item in prefix[1:known]), tail)
        else:
            items = b.graph(known + 2, tuple(edges))
        optional = minimum == 0
    body = b.node((SEQ, items, f.blank))
    node = b.node((SEQ, f.open_array, f.blank, b.optional(body) if optional else body, f.close_array))
    return b.scope(node) if distinct and maximum != 1 else node


def permuted_array(b: GrammarBuilder, f: Fragments, values: Sequence[NodeId], minimum: int, maximum: int) -> NodeId:
    """An array of `minimum` to `maximum` of these values, each at most once."""
    maximum = len(values) if maximum < 0 else min(maximum, len(values))
    if maximum < minimum:
        return f.never
    if not maximum:
        return b.seq(f.open_array, f.blank, f.close_array)
    members = tuple(x for value in values for x in (value, 0))
    body = b.seq(b.permute(members, f.comma, minimum=max(minimum, 1), maximum=maximum), f.blank)
    return b.seq(f.open_array, f.blank, b.optional(body) if not minimum else body, f.close_array)
