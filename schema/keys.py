"""The undeclared keys of an object, cut into sets that its keywords treat alike.

The automata of all patterns run side by side, once for each set of patterns that some object uses.
What a key belongs to is read off the state it ends in, so every set of keys is this automaton with other accepting states.
The declared keys come last: those in a set are taken out of its automaton along the few states that spell them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import compress
from operator import getitem
from typing import Final

from stackmask.pda import language
from stackmask.pda.budget import Budget
from stackmask.pda.dense import side_by_side, widened
from stackmask.pda.dfa import ANYTHING, NOTHING, Dfa, by_classes, live_states, restricted, sources
from stackmask.pda.exceptions import LimitError
from stackmask.schema.types import Keys

MOST_CELLS: Final = 256
SINK: Final = -1
_SURROGATES: Final = (0xD800, 0xE000)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
Row = tuple[tuple[int, int, int], ...]
Cell = frozenset[int]
"""The keys that are in just these languages."""


def in_cell(keys: Keys, inside: Cell) -> bool:
    """Whether the undeclared keys that are in just these languages belong to a set of keys."""
    return (not keys.languages.isdisjoint(inside)) is not keys.negated


class Partition:
    """All strings, cut into the cells of a few languages."""

    def __init__(self, languages: Sequence[tuple[int, Dfa]], budget: Budget) -> None:
        self.budget = budget
        self.rows: list[list[tuple[int, int, int]]] = []
        self.inside: list[Cell] = []
        """Per state the languages of the strings that end there."""
        if len(languages) == 1:
            self._complete(*languages[0])
        elif languages:
            self._run(languages)
        else:
            self.rows, self.inside = [list(ANYTHING.transitions[0])], [frozenset()]
        self.cells = dict.fromkeys(self.inside)
        if len(self.cells) > MOST_CELLS:
            raise LimitError(f"the patterns of one object cut its keys into more than {MOST_CELLS} sets", limit="states", value=MOST_CELLS)
        self.before: list[list[int]] | None = None
        self.automata: dict[frozenset[Cell], Dfa] = {}
        self.words: dict[str, Cell] = {}
        self.endless: set[Cell] | None = None

    def _complete(self, number: int, automaton: Dfa) -> None:
        """One automaton and a sink, if there is any use for one."""
        inside, outside = frozenset((number,)), frozenset[int]()
        sink = len(automaton.accepting)
        is_used = False
        for row in automaton.transitions:
            whole: list[tuple[int, int, int]] = []
            end = 0
            for entry in row:
                if entry[0] != end and (end, entry[0]) != _SURROGATES:
                    whole.append((end, entry[0] - 1, sink))
                    is_used = True
                whole.append(entry)
                end = entry[1] + 1
            if end <= 0x10FFFF:
                whole.append((end, 0x10FFFF, sink))
                is_used = True
            self.rows.append(whole)
        self.inside = [inside if accepts else outside for accepts in automaton.accepting]
        if is_used:
            self.rows.append([(0, 0x10FFFF, sink)])
            self.inside.append(outside)

    def _run(self, languages: Sequence[tuple[int, Dfa]]) -> None:
        """The product of the automata, each completed by a sink."""
        known = [by_classes(automaton) for _, automaton in languages]
        tables = [table for table in known if table is not None]
        if len(tables) < len(known):
            self._run_by_ranges(languages)
            return
        stretches, classes = side_by_side(tables)
        # The last row is what the sink, -1, picks.
        lost = (SINK,) * len(classes)
        rows = [[*widened(table.rows, [its[place] for its in classes]), lost] for place, table in enumerate(tables)]
        todo = [(0,) * len(languages)]
        index = {todo[0]: 0}
        for states in todo:
            targets = list(zip(*map(getitem, rows, states), strict=True))
            for target in dict.fromkeys(targets):
                if target not in index:
                    index[target] = len(todo)
                    todo.append(target)
            numbers = [index[target] for target in targets]
            self._add_row((lo, hi, numbers[its]) for lo, hi, its in stretches)
            if not len(todo) & 63:
                self.budget.check_states(len(todo))
        self._note_cells(languages, todo)

    def _run_by_ranges(self, languages: Sequence[tuple[int, Dfa]]) -> None:
        """As `_run`, for automata that are too large for tables."""
        tables = [automaton.transitions for _, automaton in languages]
        start = (0,) * len(languages)
        index = {start: 0}
        todo = [start]
        for states in todo:
            # What a state is in no need to spell out are the automata that have failed: they take no part in the row.
            running = [place for place, state in enumerate(states) if state != SINK]
            row = []
            for lo, hi, targets in _side_by_side([tables[place][states[place]] for place in running]):
                following = [SINK] * len(states)
                for place, target in zip(running, targets, strict=True):
                    following[place] = target
                key = tuple(following)
                number = index.get(key)
                if number is None:
                    number = index[key] = len(todo)
                    todo.append(key)
                row.append((lo, hi, number))
            self._add_row(row)
            if not len(todo) & 63:
                self.budget.check_states(len(todo))
        self._note_cells(languages, todo)

    def _add_row(self, transitions: Iterable[tuple[int, int, int]]) -> None:
        """The transitions of the next state, neighbours with one target joined."""
        row: list[tuple[int, int, int]] = []
        for lo, hi, target in transitions:
            if row and row[-1][2] == target and row[-1][1] + 1 == lo:
                row[-1] = (row[-1][0], hi, target)
            else:
                row.append((lo, hi, target))
        self.rows.append(row)

    def _note_cells(self, languages: Sequence[tuple[int, Dfa]], todo: Sequence[tuple[int, ...]]) -> None:
        """The cells of the states, by which automata accept."""
        finals = [(*automaton.accepting, False) for _, automaton in languages]
        numbers = [number for number, _ in languages]
        cells: dict[tuple[bool, ...], Cell] = {}
        for states in todo:
            accepting = tuple(map(getitem, finals, states))
            found = cells.get(accepting)
            if found is None:
                found = cells[accepting] = frozenset(compress(numbers, accepting))
            self.inside.append(found)

    def cell(self, word: str) -> Cell:
        """The cell that a string is in."""
        found = self.words.get(word)
        if found is None:
            found = self.words[word] = self._cell(word)
        return found

    def _cell(self, word: str) -> Cell:
        state = 0
        for point in map(ord, word):
            for _, hi, target in self.rows[state]:
                if point <= hi:
                    state = target
                    break
        return self.inside[state]

    def is_endless(self, cell: Cell) -> bool:
        """Whether infinitely many strings are in a cell."""
        if self.endless is None:
            # What cannot be put in order can be reached from a cycle.
            _, entering = language.in_order(self.rows)
            self.endless = {inside for inside, left in zip(self.inside, entering, strict=True) if left}
        return cell in self.endless

    def automaton(self, cells: Iterable[Cell]) -> Dfa:
        """The automaton of the strings in these cells, trimmed but not minimal."""
        chosen = frozenset(cells)
        found = self.automata.get(chosen)
        if found is None:
            found = self.automata[chosen] = self._automaton(chosen)
        return found

    def _automaton(self, chosen: frozenset[Cell]) -> Dfa:
        if len(chosen) == len(self.cells):
            return ANYTHING
        accepting = [inside in chosen for inside in self.inside]
        if self.before is None:
            self.before = sources(self.rows)
        alive = live_states(accepting, self.before)
        return Dfa(*restricted(self.rows, accepting, alive)) if alive[0] else NOTHING


class KeySpace:
    """All keys but the declared ones, each in one cell of a partition."""

    def __init__(self, declared: Iterable[str], partition: Partition) -> None:
        self.partition = partition
        self.declared: dict[Cell, list[str]] = {}
        if len(partition.cells) == 1:
            self.declared, self.cells = {cell: list(declared) for cell in partition.cells}, list(partition.cells)
            return
        for name in declared:
            if name.isascii() or not _SURROGATE.search(name):  # a key with a lone surrogate is no text, and in no cell
                self.declared.setdefault(partition.cell(name), []).append(name)
        self.cells = [cell for cell in partition.cells if cell not in self.declared or self._has_more(cell)]

    def _has_more(self, cell: Cell) -> bool:
        """Whether a cell has a key that is not declared."""
        if self.partition.is_endless(cell):
            return True
        names = len(set(self.declared[cell]))
        found = language.count(self.partition.automaton([cell]), names + 1)
        assert found is not None
        return found > names

    def keys(self, cells: Iterable[Cell]) -> tuple[Dfa, list[str]]:
        """The undeclared keys in these cells: an automaton, and the declared keys that it accepts."""
        chosen = list(cells)
        return self.partition.automaton(chosen), [name for cell in chosen for name in self.declared.get(cell, ())]


def without(automaton: Dfa, words: Iterable[str]) -> Dfa:
    """The automaton without these words, all of which it accepts, trimmed but not minimal.

    State 0 is the root of the trie of the words, then come the states of the automaton, then the rest of the trie.
    """
    shifted: list[Row] = [tuple([(lo, hi, target + 1) for lo, hi, target in row]) for row in automaton.transitions]
    rows = [shifted[0], *shifted]
    accepting = [automaton.accepting[0], *automaton.accepting]
    origin = [1, *range(1, len(rows))]  # the state of the automaton that each state stands beside
    children: list[dict[int, int]] = [{} for _ in rows]
    for word in sorted(set(words)):
        state = 0
        for code in map(ord, word):
            following = children[state].get(code)
            if following is None:
                following = children[state][code] = len(rows)
                beneath = next(target for lo, hi, target in shifted[origin[state] - 1] if lo <= code <= hi)
                origin.append(beneath)
                rows.append(shifted[beneath - 1])
                accepting.append(accepting[beneath])
                children.append({})
            state = following
        accepting[state] = False
    for state in range(len(rows) - 1, -1, -1):  # a child is younger than its parent
        if children[state]:
            rows[state] = _spliced(rows[state], children[state], rows, accepting)
    return Dfa(tuple(rows), tuple(accepting)) if rows[0] or accepting[0] else NOTHING


def _spliced(row: Row, children: dict[int, int], rows: list[Row], accepting: list[bool]) -> Row:
    """A row in which some characters, all of them in it and in order, lead elsewhere, or nowhere where nothing goes on from there."""
    result: list[tuple[int, int, int]] = []
    pending = iter(children.items())
    code, child = next(pending)
    for low, high, target in row:
        while low <= code <= high:
            if code > low:
                result.append((low, code - 1, target))
            if rows[child] or accepting[child]:
                result.append((code, code, child))
            low = code + 1
            code, child = next(pending, (-1, -1))
        if low <= high:
            result.append((low, high, target))
    return tuple(result)


def _side_by_side(rows: Sequence[Sequence[tuple[int, int, int]]]) -> list[tuple[int, int, tuple[int, ...]]]:
    """Several sorted rows over all characters at once, a sink where one has no transition.

    >>> _side_by_side([[(97, 98, 5)], [(98, 98, 7)]])[1:4]
    [(97, 97, (5, -1)), (98, 98, (5, 7)), (99, 1114111, (-1, -1))]
    """
    changes: list[tuple[int, int, int]] = []
    for place, row in enumerate(rows):
        end = 0
        for lo, hi, target in row:
            if lo != end:
                changes.append((end, place, SINK))
            changes.append((lo, place, target))
            end = hi + 1
        if end <= 0x10FFFF:
            changes.append((end, place, SINK))
    changes.sort()
    current = [SINK] * len(rows)
    result: list[tuple[int, int, tuple[int, ...]]] = []
    start = 0
    for at, place, target in changes:
        if at > start:
            result.append((start, at - 1, tuple(current)))
            start = at
        current[place] = target
    result.append((start, 0x10FFFF, tuple(current)))
    return result
