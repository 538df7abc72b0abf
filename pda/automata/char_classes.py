"""Classes of characters: the sets that the edges of automata read, and the characters that no state tells apart.

Inside one operation the sets on edges are interned as labels: equality is equality of small integers, and union, intersection and partition
are one dictionary lookup after their first use.

Two characters are in one class where no state tells them apart, so patterns have few classes, however many ranges these are of (the
`alphabet` of Rust's regex crate; minterms in the literature on symbolic automata).
A row by classes is a tuple of targets, one for each class, and -1 if there is none.
Automata that are read side by side share the common refinement of their classes.
A step of a product is then one addition for each class, and a signature of a state one lookup for each, all of it in loops of the
interpreter that are written in C: a state of a product takes 10 us where rows of ranges take 30.

Where classes are many, as in the tree of thousands of words, rows of labels are shorter: `MOST_CLASSES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from math import inf
from operator import itemgetter
from typing import Final, NamedTuple, NewType, TypeAlias

from . import charset
from .charset import CharSet

LabelId = NewType("LabelId", int)

NO_LABEL: Final = LabelId(0)


class Labels:
    """The code point sets of one operation, by number; number 0 is the empty set.

    `effort` counts the ranges that were sorted for partitions: the cost of a determinisation besides its steps.
    """

    __slots__ = ("_complements", "_ids", "_meets", "_partitions", "_unions", "effort", "sets")

    def __init__(self) -> None:
        self.effort = 0
        self.sets: list[CharSet] = [()]
        self._ids: dict[CharSet, LabelId] = {(): NO_LABEL}
        self._unions: dict[tuple[LabelId, ...], LabelId] = {}
        self._meets: dict[tuple[LabelId, LabelId], LabelId] = {}
        self._complements: dict[LabelId, LabelId] = {}
        self._partitions: dict[tuple[LabelId, ...], tuple[tuple[LabelId, tuple[LabelId, ...]], ...]] = {}

    def intern(self, chars: CharSet) -> LabelId:
        """The number of a set."""
        found = self._ids.get(chars)
        if found is None:
            found = self._ids[chars] = LabelId(len(self.sets))
            self.sets.append(chars)
        return found

    def union(self, labels: list[LabelId]) -> LabelId:
        """The set that holds what any of the labels holds."""
        if len(labels) == 1:
            return labels[0]
        key = tuple(sorted(labels))
        found = self._unions.get(key)
        if found is None:
            found = self._unions[key] = self.intern(charset.union(*(self.sets[label] for label in key)))
        return found

    def meet(self, left: LabelId, right: LabelId) -> LabelId:
        """The set that holds what both labels hold."""
        if left == right:
            return left
        key = (left, right) if left < right else (right, left)
        found = self._meets.get(key)
        if found is None:
            found = self._meets[key] = self.intern(charset.intersection(self.sets[left], self.sets[right]))
        return found

    def complement(self, label: LabelId) -> LabelId:
        """The set of all other scalar values."""
        found = self._complements.get(label)
        if found is None:
            found = self._complements[label] = self.intern(charset.complement(self.sets[label]))
        return found

    def partition(self, labels: tuple[LabelId, ...]) -> tuple[tuple[LabelId, tuple[LabelId, ...]], ...]:
        """The minterms of labels: disjoint classes (class, the labels that hold it) which cover their union."""
        found = self._partitions.get(labels)
        if found is None:
            found = self._partitions[labels] = self._partition(labels)
        return found

    def _partition(self, labels: tuple[LabelId, ...]) -> tuple[tuple[LabelId, tuple[LabelId, ...]], ...]:
        if len(labels) == 1:
            return ((labels[0], labels),)
        # One sweep over all ends of ranges, with the set of the labels that hold the current character.
        events: dict[int, list[LabelId]] = {}
        for label in labels:
            flat = self.sets[label]
            self.effort += len(flat)
            for index in range(0, len(flat), 2):
                events.setdefault(flat[index], []).append(label)
                events.setdefault(flat[index + 1] + 1, []).append(label)
        classes: dict[frozenset[LabelId], list[int]] = {}
        holding: set[LabelId] = set()
        start = 0
        for point in sorted(events):
            if holding:
                classes.setdefault(frozenset(holding), []).extend((start, point - 1))
            holding.symmetric_difference_update(events[point])
            start = point
        return tuple((self.intern(tuple(flat)), tuple(sorted(members))) for members, flat in classes.items())


MOST_CLASSES: Final = 64
"""Automata of more classes than this are better read by ranges."""
MOST_CELLS: Final = 1 << 20
"""The most entries of a table of all states and intervals of characters; it takes 20 ms."""
_BOUNDS: Final = (0, 0xD800, 0xE000, 0x110000)
_SURROGATES: Final = 0xD800
_TEMPLATES: Final = 256
"""So many rows are written before it is decided whether templates pay."""

Ranges: TypeAlias = Sequence[Sequence[tuple[int, int, int]]]
ClassRow: TypeAlias = tuple[int, ...]
Automaton: TypeAlias = tuple[list[ClassRow], Sequence[bool]]
Interval: TypeAlias = tuple[int, int, int]
"""The first and the last of some neighbouring characters, and their class."""


class ClassTable(NamedTuple):
    """The rows of one automaton by its classes; class 0 holds the characters that no state reads."""

    points: tuple[int, ...]
    """Where intervals of one class begin, and the end."""
    classes: tuple[int, ...]
    """The class of each interval."""
    rows: list[ClassRow]


def class_table(transitions: Ranges) -> ClassTable | None:
    """An automaton by its classes, None where it has very many states that many ranges tell apart."""
    cuts = set(_BOUNDS)
    for row in transitions:
        for lo, hi, _ in row:
            cuts.add(lo)
            cuts.add(hi + 1)
    points = sorted(cuts)
    place = {point: index for index, point in enumerate(points)}
    size = len(points) - 1
    if len(transitions) * size > MOST_CELLS:
        return None
    wide: list[list[int]] = []
    for row in transitions:
        cells = [-1] * size
        for lo, hi, target in row:
            start, end = place[lo], place[hi + 1]
            if end == start + 1:
                cells[start] = target
            else:
                cells[start:end] = [target] * (end - start)
        wide.append(cells)
    columns = list(zip(*wide, strict=True))
    numbers: dict[tuple[int, ...], int] = {(-1,) * len(wide): 0}
    classes = tuple([numbers.setdefault(column, len(numbers)) for column in columns])
    return ClassTable(tuple(points), classes, list(zip(*numbers, strict=True)))


def merged_table(rows: Sequence[ClassRow], intervals: Sequence[Interval]) -> ClassTable:
    """The table of rows by finer classes, each of some of the intervals; classes that no state tells apart become one.

    >>> merged_table([(1, 1, -1), (-1, -1, -1)], [(97, 98, 0), (99, 99, 1), (100, 120, 2)]).rows
    [(-1, 1), (-1, -1)]
    """
    numbers: dict[tuple[int, ...], int] = {(-1,) * len(rows): 0}
    class_of = [numbers.setdefault(column, len(numbers)) for column in zip(*rows, strict=True)]
    points, classes = [0], []
    for lo, hi, number in (*intervals, (0x110000, -1, 0)):
        for start in (*_BOUNDS[1:3], lo):  # between two intervals no state reads; surrogates are an interval of their own
            if points[-1] < start <= lo:
                points.append(start)
                classes.append(0)
        if hi >= 0:
            points.append(hi + 1)
            classes.append(class_of[number])
    return ClassTable(tuple(points), tuple(classes), list(zip(*numbers, strict=True)))


def common_refinement(automata: Sequence[ClassTable]) -> tuple[list[Interval], list[tuple[int, ...]]]:
    """The classes that some automata together tell apart, in the order of their first characters.

    Given are the intervals of one class, surrogates left out, and what each class is in each automaton.
    """
    if len(automata) == 1:
        points, whole = automata[0].points, [(number,) for number in automata[0].classes]
    else:
        points = tuple(sorted(set(chain.from_iterable(one.points for one in automata))))
        refined: list[list[int]] = []
        for one in automata:
            ends = {end: index for index, end in enumerate(one.points)}
            classes: list[int] = []
            current = 0
            for point in points[:-1]:
                current = ends.get(point, current)
                classes.append(one.classes[current])
            refined.append(classes)
        whole = list(zip(*refined, strict=True))
    numbers: dict[tuple[int, ...], int] = {}
    intervals = [
        (start, end - 1, numbers.setdefault(key, len(numbers)))
        for start, end, key in zip(points, points[1:], whole, strict=False)
        if start != _SURROGATES
    ]
    return intervals, list(numbers)


def project(rows: Iterable[ClassRow], classes: Sequence[int]) -> list[ClassRow]:
    """The rows by the classes of several automata, each of which is in one of this one's."""
    if len(classes) < 2:
        return [tuple([row[number] for number in classes]) for row in rows]
    pick = itemgetter(*classes)
    return [pick(row) for row in rows]


class RowWriter:
    """Rows by classes written as rows of ranges, neighbours with one target joined."""

    def __init__(self, intervals: Sequence[Interval]) -> None:
        self.intervals = intervals
        self.templates: dict[ClassRow, list[Interval]] = {}
        """PERF: rows differ in their targets more than in which characters go together; which do takes a sweep over all intervals."""
        self.written = 0
        self.sweeps = False

    def row(self, targets: Sequence[int]) -> tuple[tuple[int, int, int], ...]:
        """The row that leads to these targets, -1 for none."""
        if self.sweeps:
            return self._swept(targets)
        self.written += 1
        places = dict.fromkeys(targets, 0)
        slots = [-1, *(target for target in places if target >= 0)]
        for place, target in enumerate(slots):
            places[target] = place
        pattern = tuple(map(places.__getitem__, targets))
        template = self.templates.get(pattern)
        if template is None:
            template = self.templates[pattern] = self._template(pattern)
            # PERF: where most of the first rows have templates of their own, these only cost: 10 us a row of 17 classes, a sweep takes 3.
            self.sweeps = len(self.templates) == _TEMPLATES and self.written < 2 * _TEMPLATES
        return tuple([(lo, hi, slots[place]) for lo, hi, place in template])

    def _swept(self, targets: Sequence[int]) -> tuple[tuple[int, int, int], ...]:
        """As `row`, by one sweep over the intervals."""
        row: list[tuple[int, int, int]] = []
        first, end, last = 0, -1, -1
        for lo, hi, number in self.intervals:
            target = targets[number]
            if target != last or lo != end + 1:
                if last >= 0:
                    row.append((first, end, last))
                first, last = lo, target
            end = hi
        if last >= 0:
            row.append((first, end, last))
        return tuple(row)

    def _template(self, pattern: ClassRow) -> list[Interval]:
        """The ranges of a row whose classes lead to these of its targets, 0 for none."""
        row: list[Interval] = []
        end = last = 0
        for lo, hi, number in self.intervals:
            place = pattern[number]
            if place:
                if place == last and lo == end + 1:
                    row[-1] = (row[-1][0], hi, place)
                else:
                    row.append((lo, hi, place))
                end = hi
            last = place
        return row


def common_lengths(one: Automaton, other: Automaton) -> Callable[[int, int], bool] | None:
    """Whether texts from a state of each automaton may have the same length, going by the least and the largest; None where all may."""
    least, most = _lengths(*one)
    its_least, its_most = _lengths(*other)
    if most[0] == its_most[0] == inf:
        return None
    return lambda p, q: least[p] <= its_most[q] and its_least[q] <= most[p]


def _lengths(rows: list[ClassRow], accepting: Sequence[bool]) -> tuple[list[float], list[float]]:
    """For every state the lengths of the shortest text accepted from it and of the longest; all states are live."""
    before: list[list[int]] = [[] for _ in rows]
    left = []
    for state, row in enumerate(rows):
        targets = {*row}
        targets.discard(-1)
        left.append(len(targets))
        for target in targets:
            before[target].append(state)
    least: list[float] = [0 if accepts else inf for accepts in accepting]
    todo = [state for state, accepts in enumerate(accepting) if accepts]
    for state in todo:
        for source in before[state]:
            if least[source] == inf:
                least[source] = least[state] + 1
                todo.append(source)
    # From the states without successors back; those that a cycle can be reached from are never done.
    most: list[float] = [inf] * len(rows)
    todo = [state for state, number in enumerate(left) if not number]
    for state in todo:
        most[state] = max((most[target] + 1 for target in {*rows[state]} if target >= 0), default=0)
        for source in before[state]:
            left[source] -= 1
            if not left[source]:
                todo.append(source)
    return least, most
