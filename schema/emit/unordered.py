"""Objects with clauses whose keys come in any order, as one graph over the open demands of the clauses.

An object as a union of objects without clauses (`alternatives`) is quick to run where these are few.
They multiply where each of many clauses may be met by many keys; this graph has a state for each set of clauses that are left instead.

    state      how many members there were, where that counts, and of each clause that is left the atoms that may still settle it
    a member   drops the clauses that it meets, and from the others the atoms that it violates or that only its key could have met
    the end    may come where each clause that is left has an atom that holds of all keys so far

What is left of a clause tells of others that have more: only the least are kept, which makes states one that differ in nothing to come.
That no key comes twice is no part of a state but a guard at run time (DISTINCT), so keys that no clause speaks of add no states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...pda.budget import Budget
from ...pda.grammar import GrammarBuilder, NodeId
from ..sets.types import FALSE, TRUE, Atom, Clause, Conjunction, Literal
from .json_parts import Fragments

Left = tuple[int, ...]
"""For each clause that is left, its atoms as bits; sorted, none within another."""
Split = Callable[[Conjunction, tuple[Literal, ...]], list[tuple[Conjunction, frozenset[Literal]]]]
"""A value cut by literals into cases, each with the literals that are known to hold."""


class Key(NamedTuple):
    """A declared key, or a set of others: the node that reads key and colon, the demands on the value, and the atoms about it.

    `lasts`: there is always one more key, so that an atom which asks for one can still be met at any time.
    """

    name: str | None
    node: NodeId
    value: Conjunction
    concerns: Callable[[Atom], bool]
    lasts: Callable[[Atom], bool]


State = tuple[bool, int, Left]
"""Whether a member is behind, how many there were, and what is left."""


class Unordered:
    """The graph of one object of `low` to `high` members, -1 for no bound (`counts`), and how far it has grown."""

    def __init__(
        self,
        b: GrammarBuilder,
        f: Fragments,
        keys: Sequence[Key],
        clauses: Sequence[Clause],
        counts: tuple[int, int],
        *,
        pair: Callable[[NodeId, Conjunction], NodeId],
        split: Split,
        budget: Budget,
    ) -> None:
        self.b = b
        self.f = f
        self.keys = keys
        self.pair = pair
        self.split = split
        self.budget = budget
        self.atoms = list(dict.fromkeys(atom for clause in clauses for atom in clause))
        places = {atom: 1 << place for place, atom in enumerate(self.atoms)}
        first = [sum({places[atom] for atom in clause}) for clause in clauses]
        self.first = without_larger(first, first)
        self.universal = sum(bit for atom, bit in places.items() if atom.every)
        # PERF: an atom about one key is looked at for this key alone: with 3,000 keys all pairs take 9 s.
        named: dict[str | None, list[Atom]] = {}
        for atom in self.atoms:
            named.setdefault(atom.name, []).append(atom)
        general = named.get(None, [])
        budget.spend(len(keys) * len(general))
        concerned = [
            [*(named.get(key.name, ()) if key.name is not None else ()), *(atom for atom in general if key.concerns(atom))] for key in keys
        ]
        self.concerning = [sum(map(places.__getitem__, atoms)) for atoms in concerned]
        self.about = [[(bit, atom.literal) for bit, atom in sorted([(places[atom], atom) for atom in atoms])] for atoms in concerned]
        """By key the atoms that it concerns, as bits, with what they ask of the value."""
        self.own = [sum(map(places.__getitem__, named.get(key.name, ()))) if key.name is not None else 0 for key in keys]
        self.lasting = sum(places[atom] for atom in general if not atom.every and any(key.lasts(atom) for key in keys))
        self.turns: dict[Left, list[tuple[NodeId, Left]]] = {}
        self.low, self.high = counts
        start = (False, 0, self.first)
        self.numbers: dict[State, int] = {start: 2}
        self.todo: list[State] = [start]
        self.read = 0
        self.edges: list[int] = [0, 2, -1] if self.high else []
        if self.low <= 0 and self.may_end(self.first):
            self.edges += (0, 1, -1)

    def node(self, states: int) -> NodeId | None:
        """The objects; None where the graph has more than `states` states. Asked again with more of them, it grows where it stopped."""
        if self.high < 0 and 1 << self.alone() > states:
            return None
        while self.read < len(self.todo):
            self._leave(self.todo[self.read])
            self.read += 1
            if len(self.numbers) + 1 > states:
                return None
        b, f = self.b, self.f
        return b.seq(f.open_object, f.blank, b.graph(len(self.numbers) + 2, tuple(self.edges)), f.close_object)

    def _leave(self, state: State) -> None:
        """Write the edges from a state."""
        b, f, low, high = self.b, self.f, self.low, self.high
        behind, count, left = state
        source = self.numbers[state]
        targets: dict[State, list[NodeId]] = {}
        if not behind:
            cap = high if high >= 0 else low
            members = self.members(left)
            self.budget.spend(len(members))
            for node, after in members:
                targets.setdefault((True, min(count + 1, cap), after), []).append(node)
        else:
            if count >= low and self.may_end(left):
                self.edges += (source, 1, f.blank)
            if not 0 <= high <= count:
                targets[False, count, left] = [f.comma]
        for target, nodes in targets.items():
            number = self.numbers.get(target)
            if number is None:
                number = self.numbers[target] = len(self.numbers) + 2
                self.todo.append(target)
            self.edges += (source, number, b.alt(*nodes))
        self.budget.spend(4)

    def alone(self) -> int:
        """How many clauses share no key with any other, and change by whether one of theirs comes: each set of them is a state."""
        clauses = [[atom for place, atom in enumerate(self.atoms) if clause >> place & 1] for clause in self.first]
        speaking = Counter(name for clause in clauses for name in {atom.name for atom in clause})
        if None in speaking:
            return 0
        keys = {key.name: key for key in self.keys}
        found = 0
        for clause in clauses:
            if len(clause) > 1 and all(speaking[atom.name] == 1 for atom in clause):
                deciding = (keys.get(atom.name) for atom in clause if atom.literal == (FALSE if atom.every else TRUE))
                found += any(key is not None and self.pair(key.node, key.value) != self.f.never for key in deciding)
        return found

    def may_end(self, left: Left) -> bool:
        """Whether the clauses that are left hold of the keys so far."""
        return all(clause & self.universal for clause in left)

    def members(self, left: Left) -> list[tuple[NodeId, Left]]:
        """The members that may come, and the clauses that each leaves open."""
        found = self.turns.get(left)
        if found is None:
            found = self.turns[left] = []
            alive = 0
            for clause in left:
                alive |= clause
            for place, key in enumerate(self.keys):
                for value, after in self.outcomes(place, left, alive):
                    self.budget.spend(4 + len(left) ** 2 // 8)
                    node = self.pair(key.node, value)
                    if node != self.f.never:
                        found.append((node, after))
        return found

    def outcomes(self, place: int, left: Left, alive: int) -> list[tuple[Conjunction, Left]]:
        """The possible outcomes of a member with one of the keys; `alive` are the atoms of all clauses that are left."""
        touched = alive & self.concerning[place]
        value = self.keys[place].value
        if not touched:
            return [(value, left)]
        bits = [(bit, literal) for bit, literal in self.about[place] if touched & bit]
        result = []
        for met_by, true in self.split(value, tuple(dict.fromkeys(literal for _, literal in bits))):
            held = sum(bit for bit, literal in bits if literal in true)
            met = held & ~self.universal
            violated = touched & ~held & self.universal
            # What a key could have met is met no more; where that can wait, which keys came makes no difference.
            missed = touched & ~held & self.own[place]
            kept = [clause for clause in left if not clause & met]
            rest = [clause & ~(violated if clause & self.lasting else violated | missed) for clause in kept]
            if all(rest):
                # PERF: clauses that are as they were hold no other one, so only those that have become less are compared with all.
                result.append((met_by, without_larger(rest, [after for clause, after in zip(kept, rest, strict=True) if after != clause])))
        return result


def without_larger(clauses: Sequence[int], some: Sequence[int]) -> Left:
    """The clauses that hold no other one of `some`.

    >>> without_larger([0b010, 0b101, 0b110], [0b010])
    (2, 5)
    """
    if not some:
        return tuple(clauses)
    kept = set(clauses)
    for clause in some:
        if clause in kept:
            kept = {other for other in kept if other == clause or clause & ~other}
    return tuple(sorted(kept))
