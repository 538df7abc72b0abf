r"""The text that %ignore allows before each terminal.

Any number of ignored texts may, but each as long as its terminal's pattern would have it: a comment ends where its line ends, so in

    %ignore /#[^\n]*/

the text "# 5" is a comment and never half a comment and a number.
So the automaton of ignored texts remembers by which characters the last one could be longer, and may not be left for a terminal that
begins with one of them.
Whatever follows, the last ignored text of all may end anywhere.

A pattern that needs two more characters to match again counts as one that cannot be longer: that allows more than lark does, never less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce

from ..automata import dfa
from ..automata.char_classes import Labels
from ..automata.charset import CharSet, contains, difference, from_ranges, intersection, pairs
from ..automata.dfa import Dfa
from ..automata.minimize import Row
from ..budget import Budget
from ..grammar import GrammarBuilder, NodeId, RuleId

# A state of one of the automata of ignored terminals.
_Position = tuple[int, int]


class Ignored:
    """The ignored texts of a grammar, as nodes to put before its terminals."""

    def __init__(self, builder: GrammarBuilder, automata: Sequence[Dfa], budget: Budget, *, once: bool = False) -> None:
        self.builder = builder
        self.budget = budget
        self.nodes: dict[frozenset[CharSet], NodeId] = {}
        self.rules: set[RuleId] = set()
        self.labels = Labels()
        self.rows: list[Row] = []
        # By state the characters that may not follow where the ignored texts end there; None where they cannot end.
        self.barred: list[CharSet | None] = []
        self.determinize(automata, once)
        self.ends = frozenset(chars for chars in self.barred if chars is not None)

    def before(self, node: NodeId, first: CharSet, restricted: Callable[[CharSet], NodeId | None]) -> NodeId:
        """A terminal with optional ignored text before it.

        `first` holds the characters that it may begin with; `restricted` gives its texts that begin with one out of a set, None for none.
        """
        free = frozenset(chars for chars in self.ends if not intersection(chars, first))
        alternatives = [self.builder.seq(self.texts(free), node)]
        for chars in sorted(self.ends - free):
            left = difference(first, chars)
            rest = restricted(left) if left else None
            if rest is not None:
                alternatives.append(self.builder.seq(self.texts(frozenset({chars})), rest))
        return self.builder.alt(*alternatives)

    def after(self) -> NodeId:
        """The text that may be ignored at the end."""
        return self.texts(self.ends)

    def texts(self, ends: frozenset[CharSet]) -> NodeId:
        """The ignored texts that bar one of these sets."""
        node = self.nodes.get(ends)
        if node is None:
            automaton = dfa.canonical(self.rows, [chars in ends for chars in self.barred], self.labels, self.budget)
            rule = self.builder.rule("%ignore")
            self.rules.add(rule)
            self.builder.define(rule, self.builder.automaton(automaton.transitions, automaton.accepting))
            node = self.nodes[ends] = self.builder.call(rule)
        return node

    def determinize(self, automata: Sequence[Dfa], once: bool) -> None:
        """Follow all ignored terminals at once; where one ends, another may begin with any character that does not make it longer.

        A state is a set of positions; the start state is the empty set, where nothing was ignored yet.
        """
        intern = self.labels.intern
        distinct = tuple({intern(chars) for automaton in automata for row in automaton.transitions for chars in _targets(row).values()})
        classes = [label for label, _ in self.labels.partition(distinct)] if distinct else []
        points = [self.labels.sets[label][0] for label in classes]
        longer = [[_longer(automaton, state) for state in range(len(automaton.accepting))] for automaton in automata]
        steps: dict[_Position, list[_Position | None]] = {}  # by class, None where the text ends

        def steps_of(position: _Position) -> list[_Position | None]:
            found = steps.get(position)
            if found is None:
                self.budget.spend(len(classes))
                which, state = position
                targets = [_step(automata[which], state, point) for point in points]
                found = steps[position] = [None if target < 0 else (which, target) for target in targets]
            return found

        def following(positions: Iterable[_Position]) -> list[frozenset[_Position]]:
            columns = zip(*map(steps_of, positions), strict=True)
            return [frozenset(filter(None, column)) for column in columns] or [frozenset()] * len(classes)

        first = following((which, 0) for which in range(len(automata)))
        # PERF: the positions of a state mostly bar one set, in which counts differ.
        shared: dict[frozenset[CharSet], CharSet | None] = {}
        start: frozenset[_Position] = frozenset()
        numbers = {start: 0}
        todo = [start]
        for positions in todo:
            self.budget.check_states(len(numbers))
            self.budget.spend((1 + len(positions)) * len(classes))
            barred = frozenset([longer[which][state] for which, state in positions if automata[which].accepting[state]])
            if barred not in shared:
                self.budget.spend(sum(map(len, barred)) // 4)
                shared[barred] = reduce(intersection, barred) if barred else None
            common = shared[barred]
            self.barred.append(() if not positions else common)
            row: Row = []
            for label, point, targets, more in zip(classes, points, following(positions), first, strict=True):
                if not positions or (not once and common is not None and not contains(common, point)):
                    self.budget.spend(len(more) // 8)
                    targets |= more
                if targets:
                    number = numbers.get(targets)
                    if number is None:
                        number = numbers[targets] = len(numbers)
                        todo.append(targets)
                    row.append((number, label))
            self.rows.append(row)


def restrict(automaton: Dfa, first: CharSet, budget: Budget) -> Dfa:
    """The texts that begin with a character out of a set, or are empty."""
    start = []
    for low, high, target in automaton.transitions[0]:
        start += [(begin, end, target + 1) for begin, end in pairs(intersection((low, high), first))]
    rows = tuple(tuple((low, high, target + 1) for low, high, target in row) for row in automaton.transitions)
    return dfa.minimize(Dfa((tuple(start), *rows), (automaton.accepting[0], *automaton.accepting)), budget=budget)


def first_of(automaton: Dfa) -> CharSet:
    """The characters that a text may begin with."""
    return from_ranges((low, high) for low, high, _ in automaton.transitions[0])


def _targets(row: tuple[tuple[int, int, int], ...]) -> dict[int, CharSet]:
    """The characters that lead from a state to each other one."""
    ranges: dict[int, list[tuple[int, int]]] = {}
    for low, high, target in row:
        ranges.setdefault(target, []).append((low, high))
    return {target: from_ranges(parts) for target, parts in ranges.items()}


def _longer(automaton: Dfa, state: int) -> CharSet:
    """The characters by which a text that ends in a state becomes a longer one."""
    return from_ranges((low, high) for low, high, target in automaton.transitions[state] if automaton.accepting[target])


def _step(automaton: Dfa, state: int, point: int) -> int:
    """The state behind a character, -1 if there is none."""
    return next((target for low, high, target in automaton.transitions[state] if low <= point <= high), -1)
