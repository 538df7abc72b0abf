"""The canonical form of a deterministic automaton: trimmed, minimal, numbered breadth first.

Minimisation is Hopcroft's "process the smaller half" in the coalgebraic form of Jacobs and Wissmann, "Fast coalgebraic bisimilarity
minimization" (POPL 2023): O(m log n) for m entries, and partial automata need no sink.

Rows come in two forms, and the algorithm asks either for the same few things. `ClassRows` have a target for each class of characters, which
is fastest as long as classes are few. `LabelRows` are lists of (target, label): of thousands of words over thousands of characters, where
a table of classes would have millions of cells, they hold only the entries that there are.

Trimming without the rest is here too, for callers that keep the numbers of states.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from ..budget import Budget
from . import charset
from .char_classes import MOST_CLASSES, ClassRow, ClassTable, Interval, LabelId, Labels, RowWriter, merged_table

Range: TypeAlias = tuple[int, int, int]
Transitions: TypeAlias = tuple[tuple[Range, ...], ...]
Row: TypeAlias = list[tuple[int, LabelId]]
"""(target, label) with disjoint labels; several entries may share a target."""
EMPTY: Final[tuple[Transitions, tuple[bool, ...]]] = (((),), (False,))
"""The tables of the empty language."""
_WORK_AT_ONCE: Final = 500
"""Steps that are counted together."""


RowT = TypeVar("RowT")


class Rows(Protocol[RowT]):
    """The rows of an automaton under construction; RowT is a row whose targets are blocks of states."""

    def predecessors(self) -> list[list[int]]:
        """Per state those with a transition to it."""

    def trim(self, live: list[bool]) -> None:
        """Leave out the transitions from and to states that are not live."""

    def signatures(self, block: list[int]) -> Callable[[int], Hashable]:
        """The function from a state to its row with every target replaced by its block; it follows changes of `block`."""

    def signature_work(self) -> int:
        """The steps of work that a signature takes."""

    def merged(self, state: int, block: list[int]) -> tuple[RowT, Iterable[int]]:
        """The row of a state with blocks for targets, and these blocks in the order of their first characters."""

    def written(self, row: RowT, numbers: dict[int, int]) -> tuple[Range, ...]:
        """A merged row as ranges, by the numbers of the blocks."""


class ClassRows:
    """Rows by classes, which are in the order of their first characters."""

    __slots__ = ("numbered", "rows", "writer")

    def __init__(self, rows: list[ClassRow], intervals: list[Interval]) -> None:
        self.rows = rows
        self.writer = RowWriter(intervals)
        self.numbered: list[ClassRow] = []
        """The rows that were written, by the numbers of the result."""

    def predecessors(self) -> list[list[int]]:
        """As in Rows."""
        found: list[list[int]] = [[] for _ in self.rows]
        found.append([])  # the one that the target -1 picks
        for state, row in enumerate(self.rows):
            for target in set(row):
                found[target].append(state)
        return found

    def trim(self, live: list[bool]) -> None:
        """As in Rows."""
        kept = [*[state if is_live else -1 for state, is_live in enumerate(live)], -1].__getitem__
        self.rows = [tuple(map(kept, row)) for row in self.rows]

    def signatures(self, block: list[int]) -> Callable[[int], Hashable]:
        """As in Rows."""
        rows = self.rows
        return lambda state: tuple(map(block.__getitem__, rows[state]))

    def signature_work(self) -> int:
        """As in Rows."""
        return 1

    def merged(self, state: int, block: list[int]) -> tuple[list[int], Iterable[int]]:
        """As in Rows."""
        row = list(map(block.__getitem__, self.rows[state]))
        targets = dict.fromkeys(row)
        targets.pop(-1, None)
        return row, targets

    def written(self, row: list[int], numbers: dict[int, int]) -> tuple[Range, ...]:
        """As in Rows."""
        targets = tuple(map(numbers.__getitem__, row))
        self.numbered.append(targets)
        return self.writer.row(targets)

    def table(self) -> ClassTable:
        """What was written, by classes. PERF: to read it off the ranges takes five times as long, a sixth of a oneOf of 60 patterns."""
        return merged_table(self.numbered, self.writer.intervals)


class LabelRows:
    """Rows by labels."""

    __slots__ = ("labels", "pairs", "rows")

    def __init__(self, rows: list[Row], labels: Labels) -> None:
        self.rows = rows
        self.labels = labels
        self.pairs: dict[LabelId, list[tuple[int, int]]] = {}
        """The ranges of the labels that were written."""

    def predecessors(self) -> list[list[int]]:
        """As in Rows."""
        found: list[list[int]] = [[] for _ in self.rows]
        for state, row in enumerate(self.rows):
            for target, _ in row:
                found[target].append(state)
        return found

    def trim(self, live: list[bool]) -> None:
        """As in Rows."""
        self.rows = [[entry for entry in row if live[entry[0]]] if live[state] else [] for state, row in enumerate(self.rows)]

    def signatures(self, block: list[int]) -> Callable[[int], Hashable]:
        """As in Rows."""
        return lambda state: frozenset(self._by_block(state, block))

    def signature_work(self) -> int:
        """As in Rows: 0.6 us for each entry of a row."""
        return 1 + sum(map(len, self.rows)) // (2 * len(self.rows))

    def _by_block(self, state: int, block: list[int]) -> Row:
        row = self.rows[state]
        if len(row) == 1:
            target, label = row[0]
            return [(block[target], label)]
        by_block: dict[int, list[LabelId]] = {}
        for target, label in row:
            by_block.setdefault(block[target], []).append(label)
        return [(number, self.labels.union(found)) for number, found in by_block.items()]

    def merged(self, state: int, block: list[int]) -> tuple[Row, Iterable[int]]:
        """As in Rows."""
        row = self._by_block(state, block)
        if len(row) > 1:
            sets = self.labels.sets
            row.sort(key=lambda entry: sets[entry[1]][0])
        return row, [number for number, _ in row]

    def written(self, row: Row, numbers: dict[int, int]) -> tuple[Range, ...]:
        """As in Rows."""
        ranges: list[Range] = []
        for target, label in row:
            number = numbers[target]
            # PERF: a list, not a generator: a row of \\P{Lu} has 640 ranges, of 0.15 us each instead of 0.4.
            ranges += [(lo, hi, number) for lo, hi in self._pairs(label)]
        if len(row) > 1:
            ranges.sort()
        return tuple(ranges)

    def _pairs(self, label: LabelId) -> list[tuple[int, int]]:
        found = self.pairs.get(label)
        if found is None:
            found = self.pairs[label] = [*charset.pairs(self.labels.sets[label])]
        return found


def rows_of(rows: list[Row], labels: Labels) -> Rows[Any]:
    """Rows of labels, by classes if these are few."""
    used = tuple(sorted({label for row in rows for _, label in row}))
    if not used or sum(len(labels.sets[label]) for label in used) > 2 * MOST_CLASSES:
        return LabelRows(rows, labels)
    parts = sorted(labels.partition(used), key=lambda part: labels.sets[part[0]])
    intervals = sorted((lo, hi, number) for number, (part, _) in enumerate(parts) for lo, hi in charset.pairs(labels.sets[part]))
    members: dict[LabelId, list[int]] = {}
    for number, (_, holding) in enumerate(parts):
        for label in holding:
            members.setdefault(label, []).append(number)
    class_rows: list[ClassRow] = []
    for row in rows:
        cells = [-1] * len(parts)
        for target, label in row:
            for number in members[label]:
                cells[number] = target
        class_rows.append(tuple(cells))
    return ClassRows(class_rows, intervals)


def canonical_form(rows: Rows[RowT], accepting: list[bool], budget: Budget) -> tuple[Transitions, tuple[bool, ...]]:
    """The transitions and accepting states of the canonical automaton of rows from start state 0."""
    predecessors = rows.predecessors()
    budget.spend(len(accepting))
    left = _steps_left(accepting, predecessors)
    if left[0] < 0:
        return EMPTY
    if -1 in left:
        rows.trim([steps >= 0 for steps in left])
    block = _minimize(left, predecessors, rows, budget)
    return numbered(rows, accepting, block, 0, budget)


def numbered(
    rows: Rows[RowT], accepting: Sequence[bool], block: list[int], start: int, budget: Budget
) -> tuple[Transitions, tuple[bool, ...]]:
    """The automaton that has one state for each block, numbered breadth first; `start` is a state of the first."""
    representative: dict[int, int] = {-1: -1}
    for state, its in enumerate(block[: len(accepting)]):
        representative.setdefault(its, state)
    numbers = {block[start]: 0, -1: -1}
    order = [start]
    transitions: list[tuple[Range, ...]] = []
    work = 0
    for state in order:
        row, targets = rows.merged(state, block)
        for target in targets:
            if target not in numbers:
                numbers[target] = len(order)
                order.append(representative[target])
        written = rows.written(row, numbers)
        transitions.append(written)
        work += 2 + len(written) // 2
        if work > _WORK_AT_ONCE:  # a row may have a thousand ranges
            budget.spend(work)
            work = 0
    budget.spend(work)
    return tuple(transitions), tuple([accepting[state] for state in order])


def live_states(accepting: list[bool], predecessors: list[list[int]]) -> list[bool]:
    """From which states a text is accepted."""
    live = accepting[:]
    todo = [state for state, accepts in enumerate(accepting) if accepts]
    for state in todo:
        for predecessor in predecessors[state]:
            if not live[predecessor]:
                live[predecessor] = True
                todo.append(predecessor)
    return live


def _steps_left(accepting: list[bool], predecessors: list[list[int]]) -> list[int]:
    """The length of the shortest text accepted from each state, -1 for none."""
    left = [0 if accepts else -1 for accepts in accepting]
    todo = [state for state, accepts in enumerate(accepting) if accepts]
    for state in todo:
        steps = left[state] + 1
        for predecessor in predecessors[state]:
            if left[predecessor] < 0:
                left[predecessor] = steps
                todo.append(predecessor)
    return left


def sources(rows: Sequence[Sequence[Range]]) -> list[list[int]]:
    """Per state those that a transition leads from, once for each."""
    result: list[list[int]] = [[] for _ in rows]
    for state, row in enumerate(rows):
        for _, _, target in row:
            result[target].append(state)
    return result


def restricted(rows: Sequence[Sequence[Range]], accepting: Sequence[bool], alive: Sequence[bool]) -> tuple[Transitions, tuple[bool, ...]]:
    """Transitions and accepting states of an automaton, with some of its states only, which keep their order."""
    kept = [state for state, living in enumerate(alive) if living]
    names = [-1] * len(alive)
    for name, state in enumerate(kept):
        names[state] = name
    return (
        tuple([tuple([(lo, hi, names[target]) for lo, hi, target in rows[state] if alive[target]]) for state in kept]),
        tuple([accepting[state] for state in kept]),
    )


def _minimize(
    left: list[int],
    predecessors: list[list[int]],
    rows: Rows[Any],
    budget: Budget,
) -> list[int]:
    """The number of the equivalence class of every state, and -1.

    `left` are the lengths of the shortest texts that states accept, which separate them before anything else does.
    A state's signature is its row with every target replaced by its class.
        all states are dirty
        while a class has dirty states:
            split it by signature, its clean states being one part (they kept the signature they were put together for)
            the largest part keeps the number of the class, the others get new numbers, and their predecessors become dirty
    A state gets a new number only when it falls into the smaller part, so at most log n times.
    """
    # A dead state has no transitions either: a class of its own keeps it apart from the accepting end of the automaton.
    dead = max(left) + 1
    block = [steps if steps >= 0 else dead for steps in left]
    signature, each = rows.signatures(block), rows.signature_work()
    members: dict[int, set[int]] = {}
    for state, number in enumerate(block):
        members.setdefault(number, set()).add(state)
    block.append(-1)  # what the target -1 picks
    # The blocks nearest to an end are split first (popitem takes the last): their parts separate most of the others.
    dirty = {number: set(members[number]) for number in range(dead - 1, -1, -1) if len(members[number]) > 1}
    fresh = dead + 1
    work = 0
    while dirty:
        number, states = dirty.popitem()
        work += each * len(states)
        if work > _WORK_AT_ONCE:
            budget.spend(work)
            work = 0
        parts: dict[Hashable, list[int]] = {}
        for state in states:
            parts.setdefault(signature(state), []).append(state)
        whole = members[number]
        clean = len(whole) - len(states)
        if clean == 0 and len(parts) == 1:
            continue
        largest = max(parts.values(), key=len)
        groups: list[Iterable[int]]
        if clean >= len(largest):
            groups = list(parts.values())
        else:
            groups = [part for part in parts.values() if part is not largest]
            if clean:
                groups.append(whole - states)
        for group in groups:
            whole.difference_update(group)
            members[fresh] = set(group)
            for state in group:
                block[state] = fresh
            fresh += 1
        for group in groups:
            for state in group:
                for predecessor in predecessors[state]:
                    its = block[predecessor]
                    if len(members[its]) > 1:
                        dirty.setdefault(its, set()).add(predecessor)
    budget.spend(work)
    return block
