"""Automata by classes of characters: a row is a tuple of targets, one for each class, and -1 where there is none.

Two characters are in one class where no state tells them apart, so patterns have few classes, however many ranges these are of.
Automata that are read side by side share the classes that all of them together tell apart.
A step of a product is then one addition for each class, and a signature of a state one lookup for each, all of it in loops of the
interpreter that are written in C: a state of a product takes 10 us where rows of ranges take 30.

Where classes are many, as in the tree of thousands of words, rows of labels are shorter: `MOST_CLASSES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from math import inf
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

MOST_CLASSES: Final = 64
"""Automata of more classes than this are better read by ranges."""
MOST_CELLS: Final = 1 << 20
"""What a table of all states and stretches of characters may have; it takes 20 ms."""
_BOUNDS: Final = (0, 0xD800, 0xE000, 0x110000)
_SURROGATES: Final = 0xD800

Ranges: TypeAlias = Sequence[Sequence[tuple[int, int, int]]]
DenseRow: TypeAlias = tuple[int, ...]
Automaton: TypeAlias = tuple[list[DenseRow], Sequence[bool]]
Stretch: TypeAlias = tuple[int, int, int]
"""The first and the last of some neighbouring characters, and their class."""


class Dense(NamedTuple):
    """The rows of one automaton by its classes; class 0 holds the characters that no state reads."""

    points: tuple[int, ...]
    """Where stretches of one class begin, and the end."""
    classes: tuple[int, ...]
    """The class of each stretch."""
    rows: list[DenseRow]


def dense(transitions: Ranges) -> Dense | None:
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
    return Dense(tuple(points), classes, list(zip(*numbers, strict=True)))


def side_by_side(automata: Sequence[Dense]) -> tuple[list[Stretch], list[tuple[int, ...]]]:
    """The classes that some automata together tell apart, in the order of their first characters.

    Given are the stretches of one class, surrogates left out, and what each class is in each automaton.
    """
    if len(automata) == 1:
        points, whole = automata[0].points, [(number,) for number in automata[0].classes]
    else:
        points = tuple(sorted(set(chain.from_iterable(one.points for one in automata))))
        stretched: list[list[int]] = []
        for one in automata:
            ends = {end: index for index, end in enumerate(one.points)}
            classes: list[int] = []
            current = 0
            for point in points[:-1]:
                current = ends.get(point, current)
                classes.append(one.classes[current])
            stretched.append(classes)
        whole = list(zip(*stretched, strict=True))
    numbers: dict[tuple[int, ...], int] = {}
    stretches = [
        (start, end - 1, numbers.setdefault(key, len(numbers)))
        for start, end, key in zip(points, points[1:], whole, strict=False)
        if start != _SURROGATES
    ]
    return stretches, list(numbers)


def widened(rows: Iterable[DenseRow], classes: Sequence[int]) -> list[DenseRow]:
    """The rows by the classes of several automata, each of which is in one of this one's."""
    if len(classes) < 2:
        return [tuple([row[number] for number in classes]) for row in rows]
    pick = itemgetter(*classes)
    return [pick(row) for row in rows]


class Spelling:
    """Rows by classes written as rows of ranges, neighbours with one target joined."""

    def __init__(self, stretches: Sequence[Stretch]) -> None:
        self.stretches = stretches
        self.templates: dict[DenseRow, list[Stretch]] = {}
        """PERF: rows differ in their targets more than in which characters go together."""

    def row(self, targets: Sequence[int]) -> tuple[tuple[int, int, int], ...]:
        """The row that leads to these targets, -1 for none."""
        places = dict.fromkeys(targets, 0)
        slots = [-1, *(target for target in places if target >= 0)]
        for place, target in enumerate(slots):
            places[target] = place
        pattern = tuple(map(places.__getitem__, targets))
        template = self.templates.get(pattern)
        if template is None:
            template = self.templates[pattern] = self._template(pattern)
        return tuple([(lo, hi, slots[place]) for lo, hi, place in template])

    def _template(self, pattern: DenseRow) -> list[Stretch]:
        """The ranges of a row whose classes lead to these of its targets, 0 for none."""
        row: list[Stretch] = []
        end = last = 0
        for lo, hi, number in self.stretches:
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


def _lengths(rows: list[DenseRow], accepting: Sequence[bool]) -> tuple[list[float], list[float]]:
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
