"""The undeclared keys of an object, cut into sets that its keywords treat alike.

One automaton runs the trie of the declared keys and the automaton of every pattern side by side.
What a key belongs to is read off the state it ends in, so every set of keys is this automaton with other accepting states.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from stackmask.pda.budget import Budget
from stackmask.pda.dfa import Dfa
from stackmask.pda.exceptions import LimitError
from stackmask.schema.emit import excluding
from stackmask.schema.types import Keys

MOST_CELLS: Final = 256
SINK: Final = -1
Row = list[tuple[int, int, int]]


def in_cell(keys: Keys, inside: frozenset[int]) -> bool:
    """Whether the undeclared keys that are in just these languages belong to a set of keys."""
    return (not keys.languages.isdisjoint(inside)) is not keys.negated


class KeySpace:
    """All keys but the declared ones, each in some of a few languages."""

    def __init__(self, declared: Sequence[str], languages: Sequence[tuple[int, Dfa]], budget: Budget) -> None:
        self.budget = budget
        self.is_everything = not declared
        self.rows: list[Row] = []
        self.inside: list[frozenset[int] | None] = []
        """Per state the languages of the keys that end there; None where a declared key ends."""
        trie, undeclared = excluding(declared)
        if not languages:
            self.rows = [list(row) for row in trie]
            self.inside = [frozenset() if ends else None for ends in undeclared]
        else:
            self._run(trie, undeclared, languages)
        self.cells = {inside for inside in self.inside if inside is not None}
        if len(self.cells) > MOST_CELLS:
            raise LimitError(f"the patterns of one object cut its keys into more than {MOST_CELLS} sets", limit="states", value=MOST_CELLS)

    def _run(
        self, trie: Sequence[Sequence[tuple[int, int, int]]], undeclared: Sequence[bool], languages: Sequence[tuple[int, Dfa]]
    ) -> None:
        """The product of the trie and the automata, each of these completed by a sink."""
        tables = [automaton.transitions for _, automaton in languages]
        finals = [automaton.accepting for _, automaton in languages]
        numbers = [number for number, _ in languages]
        start = (0,) * (len(languages) + 1)
        index = {start: 0}
        todo = [start]
        shared: dict[frozenset[int], frozenset[int]] = {}
        for states in todo:
            if undeclared[states[0]]:
                inside = frozenset(n for n, ends, state in zip(numbers, finals, states[1:], strict=True) if state != SINK and ends[state])
                self.inside.append(shared.setdefault(inside, inside))
            else:
                self.inside.append(None)
            pieces: list[tuple[int, int, tuple[int, ...]]] = [(lo, hi, (target,)) for lo, hi, target in trie[states[0]]]
            for transitions, state in zip(tables, states[1:], strict=True):
                pieces = [(lo, hi, (*t, SINK)) for lo, hi, t in pieces] if state == SINK else _cut(pieces, transitions[state])
            row: Row = []
            for lo, hi, targets in pieces:
                target = index.get(targets)
                if target is None:
                    target = index[targets] = len(todo)
                    todo.append(targets)
                if row and row[-1][2] == target and row[-1][1] + 1 == lo:
                    row[-1] = (row[-1][0], hi, target)
                else:
                    row.append((lo, hi, target))
            self.rows.append(row)
            if not len(todo) & 63:
                self.budget.check_states(len(todo))

    def automaton(self, cells: Iterable[frozenset[int]]) -> Dfa | None:
        """The automaton of the undeclared keys in these cells, None where those are all keys there are."""
        chosen = set(cells)
        if self.is_everything and chosen == self.cells:
            return None
        accepting = [inside in chosen for inside in self.inside]
        before: list[list[int]] = [[] for _ in self.rows]
        for state, row in enumerate(self.rows):
            for _, _, target in row:
                before[target].append(state)
        alive = accepting.copy()
        todo = [state for state, ends in enumerate(accepting) if ends]
        for state in todo:
            for source in before[state]:
                if not alive[source]:
                    alive[source] = True
                    todo.append(source)
        if all(alive):
            return Dfa(tuple(map(tuple, self.rows)), tuple(accepting))
        names = [SINK] * len(alive)
        kept = [state for state, living in enumerate(alive) if living]
        for name, state in enumerate(kept):
            names[state] = name
        return Dfa(
            tuple(tuple((lo, hi, names[target]) for lo, hi, target in self.rows[state] if alive[target]) for state in kept),
            tuple(accepting[state] for state in kept),
        )


def _cut(pieces: list[tuple[int, int, tuple[int, ...]]], row: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, tuple[int, ...]]]:
    """Sorted ranges cut by those of a row, with the sink between them."""
    result: list[tuple[int, int, tuple[int, ...]]] = []
    j = 0
    for lo, hi, targets in pieces:
        at = lo
        while j < len(row) and row[j][1] < at:
            j += 1
        k = j
        while k < len(row) and row[k][0] <= hi:
            first, last, target = row[k]
            if first > at:
                result.append((at, first - 1, (*targets, SINK)))
                at = first
            end = last if last < hi else hi
            result.append((at, end, (*targets, target)))
            at = end + 1
            k += 1
        if at <= hi:
            result.append((at, hi, (*targets, SINK)))
    return result
