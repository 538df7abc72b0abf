"""Key classes: the undeclared keys of an object, cut into sets that its keywords treat alike, the minterms of its patterns.

The automata of all patterns run side by side, once for each set of patterns that some object uses.
What a key belongs to is read off the state it ends in, so every set of keys is this automaton with other accepting states.
The declared keys come last: those in a set are taken out of its automaton along the few states that spell them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from operator import add, itemgetter
from typing import Final

from ...pda.automata import language
from ...pda.automata.char_classes import ClassTable, RowWriter, common_refinement, project
from ...pda.automata.dfa import ANYTHING, NOTHING, Dfa, by_classes
from ...pda.automata.minimize import live_states, restricted, sources
from ...pda.budget import Budget
from ...pda.exceptions import LimitError
from .types import Keys

MOST_CLASSES: Final = 4_096
MANY_CLASSES: Final = 256
"""More sets of keys are refused where the automata side by side have more than half of `MOST_STATES`."""
MOST_STATES: Final = 65_536
"""The states of the automata of all sets of keys that one partition writes, whatever these are."""
SINK: Final = -1
UNKNOWN: Final = -1
"""The number of the language of strings that are in no class."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_SURROGATES: Final = (0xD800, 0xE000)
_TARGET: Final = itemgetter(2)
Row = tuple[tuple[int, int, int], ...]
KeyClass = frozenset[int]
"""A key class (a minterm of the patterns): the keys that are in just these languages."""


def in_class(keys: Keys, inside: KeyClass) -> bool:
    """Whether the undeclared keys that are in just these languages belong to a set of keys."""
    return (not keys.languages.isdisjoint(inside)) is not keys.negated


class _Product:
    """Automata side by side, each completed by a sink; `inside` are per state the languages of the strings that end there.

    A state is a number whose digits are the states of the automata, 0 for the sink, so what has failed takes no part in a sum of states.
    PERF: patterns of keys mostly begin in different ways, so in most states a single automaton is left, and its own ranges are the row.
    """

    def __init__(self, languages: Sequence[tuple[int, Dfa]], budget: Budget) -> None:
        self.automata = [automaton for _, automaton in languages]
        self.weights: list[int] = []
        weight = 1
        for automaton in self.automata:
            self.weights.append(weight)
            weight *= len(automaton.accepting) + 1
        self.shared: tuple[RowWriter, list[list[list[int]]]] | None = None
        self.rows: list[Row] = []
        self.inside: list[KeyClass] = []
        self.todo = [sum(self.weights)]
        self.index = {self.todo[0]: 0}
        tables = [by_classes(automaton) for automaton in self.automata]
        dense = [table for table in tables if table is not None]
        finals = [automaton.accepting for automaton in self.automata]
        numbers = [number for number, _ in languages]
        classes: dict[tuple[int, ...], KeyClass] = {}
        sizes = [len(automaton.accepting) + 1 for automaton in self.automata]
        for key in self.todo:
            running: list[tuple[int, int]] = []
            for place, size in enumerate(sizes):
                key, state = divmod(key, size)
                if state:
                    running.append((place, state - 1))
            if len(running) == 1:
                self.rows.append(self.alone(*running[0]))
            elif running and len(dense) == len(tables):
                self.rows.append(self.together(dense, running))
            else:
                self.rows.append(self.by_ranges(running))
            accepting = tuple([place for place, state in running if finals[place][state]])
            found = classes.get(accepting)
            if found is None:
                found = classes[accepting] = frozenset([numbers[place] for place in accepting])
                # PERF: what will have too many is known by the states to come before that.
                most = MOST_CLASSES if len(self.todo) <= MOST_STATES // 2 else MANY_CLASSES
                if len(classes) > most:
                    raise LimitError(f"the patterns of one object cut its keys into more than {most:,} sets", limit="states", value=most)
            self.inside.append(found)
            budget.spend(len(sizes) // 4 + 2 * len(running) + len(self.rows[-1]))
            if not len(self.rows) & 63:
                budget.check_states(len(self.todo))

    def number(self, key: int) -> int:
        """The place of a state."""
        found = self.index.get(key)
        if found is None:
            found = self.index[key] = len(self.todo)
            self.todo.append(key)
        return found

    def alone(self, place: int, state: int) -> Row:
        """The row of a state where all other automata have failed."""
        number, weight = self.number, self.weights[place]
        row: list[tuple[int, int, int]] = []
        end = 0
        for lo, hi, target in self.automata[place].transitions[state]:
            if lo != end and (end, lo) != _SURROGATES:
                row.append((end, lo - 1, number(0)))
            row.append((lo, hi, number((target + 1) * weight)))
            end = hi + 1
        if end <= 0x10FFFF:
            row.append((end, 0x10FFFF, number(0)))
        return tuple(row)

    def together(self, tables: Sequence[ClassTable], running: Sequence[tuple[int, int]]) -> Row:
        """The row of a state of several automata, by the classes of characters that they tell apart."""
        if self.shared is None:
            intervals, classes = common_refinement(tables)
            sides = []
            for place, (table, weight) in enumerate(zip(tables, self.weights, strict=True)):
                part = [*range(weight, (len(table.rows) + 1) * weight, weight), 0].__getitem__  # the last is what the sink, -1, picks
                sides.append([list(map(part, row)) for row in project(table.rows, [its[place] for its in classes])])
            self.shared = RowWriter(intervals), sides
        writer, sides = self.shared
        keys = [sides[place][state] for place, state in running]
        targets = list(map(add, keys[0], keys[1])) if len(keys) == 2 else list(map(sum, zip(*keys, strict=True)))
        return writer.row(list(map(self.number, targets)))

    def by_ranges(self, running: Sequence[tuple[int, int]]) -> Row:
        """The row of a state of any automata."""
        row: list[tuple[int, int, int]] = []
        for lo, hi, targets in _side_by_side([self.automata[place].transitions[state] for place, state in running]):
            key = sum([(target + 1) * self.weights[place] for (place, _), target in zip(running, targets, strict=True)])
            target = self.number(key)
            if row and row[-1][2] == target and row[-1][1] + 1 == lo:
                row[-1] = (row[-1][0], hi, target)
            else:
                row.append((lo, hi, target))
        return tuple(row)


class Partition:
    """All strings, cut into key classes, the minterms of a few languages."""

    def __init__(self, languages: Sequence[tuple[int, Dfa]], budget: Budget, unknown: Dfa | None = None) -> None:
        """`unknown` are strings of which no automaton tells which languages they are in: they are in no class."""
        self.budget = budget
        self.written = 0
        self.automata: dict[frozenset[KeyClass], Dfa] = {}
        self.words: dict[str, KeyClass] = {}
        self.endless: set[KeyClass] | None = None
        self.before: list[list[int]] | None = None
        if unknown is not None:
            product = _Product([*languages, (UNKNOWN, unknown)], budget)
            self.rows, self.inside = product.rows, product.inside
        elif languages:
            product = _Product(languages, budget)
            self.rows, self.inside = product.rows, product.inside
        else:
            self.rows, self.inside = list(ANYTHING.transitions), [frozenset()]
        self.classes = dict.fromkeys(inside for inside in self.inside if UNKNOWN not in inside)
        self.is_whole = unknown is None
        if len(languages) == 1 and self.is_whole:
            ((number, automaton),) = languages
            self.automata[frozenset((frozenset((number,)),))] = automaton

    def class_of(self, word: str) -> KeyClass:
        """The key class that a string is in."""
        found = self.words.get(word)
        if found is None:
            found = self.words[word] = self._class_of(word)
        return found

    def _class_of(self, word: str) -> KeyClass:
        state = 0
        for point in map(ord, word):
            for _, hi, target in self.rows[state]:
                if point <= hi:
                    state = target
                    break
        return self.inside[state]

    def is_endless(self, key_class: KeyClass) -> bool:
        """Whether infinitely many strings are in a key class."""
        if self.endless is None:
            # A state that cannot be put in order can be reached from a cycle.
            _, entering = language.in_order(self.rows)
            self.endless = {inside for inside, left in zip(self.inside, entering, strict=True) if left}
        return key_class in self.endless

    def automaton(self, classes: Iterable[KeyClass]) -> Dfa:
        """The automaton of the strings in these classes, trimmed but not minimal."""
        chosen = frozenset(classes)
        if self.is_whole and len(chosen) == len(self.classes):
            return ANYTHING
        found = self.automata.get(chosen)
        if found is None:
            found = self.automata[chosen] = self._automaton(chosen)
        return found

    def _automaton(self, chosen: frozenset[KeyClass]) -> Dfa:
        accepting = [inside in chosen for inside in self.inside]
        if self.before is None:
            self.before = sources(self.rows)
        alive = live_states(accepting, self.before)
        if not alive[0]:
            return NOTHING
        states = sum(alive)
        self.written += states
        if self.written > MOST_STATES:
            message = f"the patterns of one object cut its keys into sets whose automata have more than {MOST_STATES:,} states together"
            raise LimitError(message, limit="states", value=MOST_STATES)
        self.budget.spend(len(alive) // 8 + states)
        return Dfa(*restricted(self.rows, accepting, alive))


class KeySpace:
    """All keys but the declared ones, each in one class of a partition."""

    def __init__(self, declared: Iterable[str], partition: Partition) -> None:
        self.partition = partition
        self.declared: dict[KeyClass, list[str]] = {}
        if len(partition.classes) == 1 and partition.is_whole:
            self.declared, self.classes = {key_class: list(declared) for key_class in partition.classes}, list(partition.classes)
            return
        for name in declared:
            if name.isascii() or not _SURROGATE.search(name):  # a key with a lone surrogate is no text, and in no class
                self.declared.setdefault(partition.class_of(name), []).append(name)
        self.classes = [key_class for key_class in partition.classes if key_class not in self.declared or self._has_more(key_class)]

    def _has_more(self, key_class: KeyClass) -> bool:
        """Whether a class has a key that is not declared."""
        return self.room([key_class], 1) > 0

    def room(self, classes: Iterable[KeyClass], enough: int) -> int:
        """The number of undeclared keys in these classes, at most `enough`."""
        total = 0
        for key_class in classes:
            if total >= enough or self.partition.is_endless(key_class):
                return enough
            declared = len(set(self.declared.get(key_class, ())))
            found = language.count(self.partition.automaton([key_class]), declared + enough)
            assert found is not None
            total += found - declared
        return min(total, enough)

    def names(self, key_class: KeyClass) -> list[str]:
        """The undeclared keys in a class of which there are not too many."""
        declared = frozenset(self.declared.get(key_class, ()))
        return [name for name in language.enumerate_texts(self.partition.automaton([key_class])) if name not in declared]

    def keys(self, classes: Iterable[KeyClass]) -> tuple[Dfa, list[str]]:
        """The undeclared keys in these classes: an automaton, and the declared keys that it accepts."""
        chosen = list(classes)
        return self.partition.automaton(chosen), [name for key_class in chosen for name in self.declared.get(key_class, ())]


def without(automaton: Dfa, words: Iterable[str]) -> Dfa:
    """The automaton without these words, all of which it accepts, trimmed but not minimal.

    State 0 is the root of the trie of the words; the automaton's own state 0 comes behind its others, then the rest of the trie.
    """
    first = len(automaton.transitions)
    rows: list[Row] = []
    for row in automaton.transitions:
        if 0 in map(_TARGET, row):
            row = tuple([(lo, hi, target or first) for lo, hi, target in row])
        rows.append(row)
    rows.append(rows[0])
    accepting = [*automaton.accepting, automaton.accepting[0]]
    origin = [first, *range(1, first + 1)]  # the state of the automaton that each state stands beside
    children: list[dict[int, int]] = [{} for _ in rows]
    for word in sorted(set(words)):
        state = 0
        for code in map(ord, word):
            following = children[state].get(code)
            if following is None:
                following = children[state][code] = len(rows)
                for _, high, beneath in rows[origin[state]]:  # noqa: B007 - the first range that does not end before
                    if code <= high:
                        break
                origin.append(beneath)
                rows.append(rows[beneath])
                accepting.append(accepting[beneath])
                children.append({})
            state = following
        accepting[state] = False
    for state in range(len(rows) - 1, -1, -1):  # a child is younger than its parent
        its = children[state]
        if len(its) == 1:
            ((code, child),) = its.items()
            rows[state] = _with_one(rows[state], code, child if rows[child] or accepting[child] else -1)
        elif its:
            rows[state] = _spliced(rows[state], its, rows, accepting)
    return Dfa(tuple(rows), tuple(accepting)) if rows[0] or accepting[0] else NOTHING


def _with_one(row: Row, code: int, child: int) -> Row:
    """As `_spliced`, for one character, -1 for nowhere. PERF: most states of a trie have one child."""
    place = 0
    while row[place][1] < code:
        place += 1
    low, high, target = row[place]
    middle = [(low, code - 1, target)] if low < code else []
    if child >= 0:
        middle.append((code, code, child))
    if code < high:
        middle.append((code + 1, high, target))
    return (*row[:place], *middle, *row[place + 1 :])


def _spliced(row: Row, children: dict[int, int], rows: list[Row], accepting: list[bool]) -> Row:
    """A row in which some characters, all of them in it and in order, lead elsewhere, or nowhere where nothing continues from there."""
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
