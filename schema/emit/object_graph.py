"""Objects with clauses or counts whose declared keys come in their order, as one graph.

A state of the graph is the next key, whether it stands before or after a member, how many there
were (where that counts), and for every open clause which of its atoms may still hold; a clause that is settled leaves the state.
So the graph is linear in the keys for ordinary objects, and grows only with the clauses that are open at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from operator import itemgetter
from typing import Final, NamedTuple

from ...pda.grammar import GrammarBuilder, NodeId
from ..errors import too_many_states
from ..sets.keys import in_class
from ..sets.objects import Cases, Oracle, member
from ..sets.types import FALSE, TRUE, Atom, Clause, Conjunction, Keys, Literal, high_bound
from .json_parts import Fragments

GRAPH_STATES: Final = 200_000
_WORK_OF_A_SET: Final = 20
"""What each set of clauses that are open at a position counts at least, the states before and behind a member together."""
_PLACE: Final = itemgetter(0, 1)


class Member(NamedTuple):
    """A declared key, or a class of undeclared ones: the node that reads key and colon, and the demands on the value."""

    name: str | None
    inside: frozenset[int]
    key: NodeId
    value: Conjunction
    required: bool
    room: int = -1
    """The number of different keys in these classes, -1 if it does not matter."""


Open = tuple[int, ...]
"""The open clauses that speak of a member before, or of any: of each its number and, as bits, the atoms that may still hold.

PERF: one member, such as a kind, often settles all clauses but one, so what is settled is not there. With a number for every clause, 300
conditions on one member took 300 steps for each of 45,000 states.
"""
State = tuple[bool, int, int, Open, tuple[int, ...]]
"""Whether a member was just written or one has to follow, the next declared key, how many members there were, the clauses, and how many
keys are left of each set of undeclared ones, -1 for any number."""


class OrderedGraph:
    """The graph of one part that has clauses or counts, in the shape of `emit.object_node`: one comma behind a member, whatever follows."""

    def __init__(
        self,
        b: GrammarBuilder,
        f: Fragments,
        declared: list[Member],
        undeclared: list[Member],
        clauses: Sequence[Clause],
        low: int,
        high: int,
        *,
        pair: Callable[[NodeId, Conjunction], NodeId],
        oracle: Oracle,
    ) -> None:
        self.b = b
        self.f = f
        self.pair = pair
        self.oracle = oracle
        self.declared = declared
        self.undeclared = undeclared
        self.clauses = clauses
        self.low = low
        self.high = high
        self.cap = high if high >= 0 else low
        self.numbers: dict[State, int] = {}
        self.todo: list[State] = []
        self.edges: list[int] = []
        self.pending = 0
        """The work that the states surely take which are still to be looked at."""
        self.is_counted = bool(self.cap) or any(m.room >= 0 for m in undeclared)
        """Whether states differ by more than their place and their clauses."""
        self.cases = Cases(oracle)
        self.decided: dict[tuple[int, Open], Open | None] = {}
        self.turns: dict[tuple[int, Open], list[tuple[NodeId, Open, int]]] = {}
        self.named: dict[str, list[tuple[int, int, Atom]]] = {}
        """The atoms about one key: the place of the clause, a bit for the atom's place in it, and the atom."""
        self.general: list[tuple[int, int, Atom]] = []
        """Those about sets of keys."""
        self.concerned: dict[str | frozenset[int], list[tuple[int, int, Atom]]] = {}
        self.universal = [sum([1 << index for index, atom in enumerate(clause) if atom.every]) for clause in clauses]
        # due[i]: the atoms that say nothing of the members at position i and after it, but of the one before.
        due: list[list[tuple[int, int]]] = [[] for _ in range(len(declared) + 2)]
        places = {m.name: i + 1 for i, m in enumerate(declared)}
        for number, clause in enumerate(clauses):
            for index, atom in enumerate(clause):
                entry = (number, 1 << index, atom)
                if atom.name is not None:
                    self.named.setdefault(atom.name, []).append(entry)
                    due[places.get(atom.name, 0)].append(entry[:2])
                else:
                    self.general.append(entry)
                    due[self.last(atom.keys)].append(entry[:2])
        self.open: list[list[int]] = []
        """For each position the atoms of each clause that speak of members there or later, as bits."""
        left = [(1 << len(clause)) - 1 for clause in clauses]
        for ended in due:
            if ended:
                left = left.copy()
                for number, bit in ended:
                    left[number] &= ~bit
            self.open.append(left)
        self.last_required = max((i + 1 for i, m in enumerate(declared) if m.required), default=0)
        self.places = places
        self.begun: list[Open] = [()] * (len(declared) + 1)
        """For each declared key the clauses of which it is the first key.

        PERF: none of them is in the states before. With all of them, a oneOf of 100 objects had 99 in each state of each of 100 graphs.
        """
        self.later_hold = [True] * (len(declared) + 1)
        """For each position whether the clauses that begin there or later hold where nothing more follows."""

    def last(self, keys: Keys) -> int:
        """The position after the last member that a set of keys has; past the end where it has undeclared keys."""
        if any(in_class(keys, m.inside) for m in self.undeclared):
            return len(self.declared) + 1
        return max((i + 1 for i, m in enumerate(self.declared) if member(self.oracle, keys, m.name or "")), default=0)

    def node(self) -> NodeId:
        """The whole object."""
        b, f = self.b, self.f
        every = (pair for number, clause in enumerate(self.clauses) for pair in (number, (1 << len(clause)) - 1))
        start = self.settled(0, tuple(every))
        room = tuple(m.room for m in self.undeclared)
        if start is None:
            return f.never
        self.check_counts()
        self.expect_sets(start)
        start = self.begin(start)
        if self.may_end(0, 0, start):
            self.edges += (0, 1, -1)
        if self.high:
            self.edges += (0, self.number((False, 0, 0, start, room)), -1)
        for state in self.todo:
            behind, position, _, alive, _ = state
            source = self.numbers[state]
            self.pending -= self.least(behind, position, alive)
            self.oracle.budget.spend(8 + len(alive) // 8)
            self.oracle.budget.expect(self.pending)
            if behind:
                self.after(source, state)
            elif position < len(self.declared):
                self.before(source, state)
            elif alive:
                self.write(source, self.undeclared, position, state)
            elif (extra := self.extra()) != f.never:
                least, most = self.missing(state)
                if most and not 0 <= most < least:
                    tail = b.repeat(b.seq(f.comma, extra), max(least - 1, 0), most - 1 if most > 0 else -1)
                    self.edges += (source, 1, b.seq(extra, tail, f.blank))
        graph = b.graph(len(self.numbers) + 2, tuple(self.edges))
        return b.seq(f.open_object, f.blank, graph, f.close_object)

    def begin(self, start: Open) -> Open:
        """Those of the clauses that speak of any key; the others begin at the first key that they speak of."""
        first: list[int] = []
        begun: list[list[int]] = [[] for _ in self.begun]
        for number, bits in zip(start[::2], start[1::2], strict=True):
            left = [atom for index, atom in enumerate(self.clauses[number]) if bits >> index & 1]
            if any(atom.name is None for atom in left):
                first += (number, bits)
                continue
            place = min(self.places[atom.name] for atom in left) - 1
            begun[place] += (number, bits)
            if not bits & self.universal[number]:
                self.later_hold[place] = False
        self.begun = [tuple(its) for its in begun]
        for place in range(len(self.declared) - 1, -1, -1):
            self.later_hold[place] &= self.later_hold[place + 1]
        return tuple(first)

    def expect_sets(self, start: Open) -> None:
        """Raise where clauses that are open beside each other surely make too many states: each set of them is one.

        Clauses count that have a key of their own, which may come and then leaves the clause open or settles it, from behind this key up
        to their next one.
        """
        if self.high >= 0:
            return
        changes = [0] * (len(self.declared) + 2)
        for number, bits in zip(start[::2], start[1::2], strict=True):
            left = [atom for index, atom in enumerate(self.clauses[number]) if bits >> index & 1]
            if any(atom.name is None for atom in left):
                continue
            places = sorted({self.places[atom.name] for atom in left})
            current = self.declared[places[0] - 1]
            entries = self.named[current.name or ""]
            if len(places) < 2 or len(entries) > 1 or current.required:
                continue
            atom = entries[0][2]
            if atom.literal == (FALSE if atom.every else TRUE) and self.pair(current.key, current.value) != self.f.never:
                changes[places[0]] += 1
                changes[places[1]] -= 1
        open_beside = [min(beside, 30) for beside in accumulate(changes) if beside > 2]
        self.oracle.budget.expect(sum((_WORK_OF_A_SET + beside // 4) << beside for beside in open_beside))

    def check_counts(self) -> None:
        """Raise where there surely are too many states for the numbers of members that may have come."""
        if not self.cap or self.clauses:
            return
        before = states = 0
        for position, current in enumerate(self.declared):
            # The states in front of a member, with as many before it as there may be, and those behind it.
            states += max(0, min(position, self.cap - 1) - before + 1) + max(0, min(position + 1, self.cap) - before)
            before = min(before + current.required, self.cap)
        if states > GRAPH_STATES and all(self.pair(m.key, m.value) != self.f.never for m in self.declared):
            raise too_many_states("object", GRAPH_STATES)

    def number(self, state: State) -> int:
        """The graph's number of a state; 0 is the start and 1 the end."""
        found = self.numbers.get(state)
        if found is None:
            found = self.numbers[state] = len(self.numbers) + 2
            self.todo.append(state)
            behind, position, _, alive, _ = state
            self.pending += self.least(behind, position, alive)
            if found > GRAPH_STATES:
                raise too_many_states("object", GRAPH_STATES)
        return found

    def least(self, behind: bool, position: int, alive: Open) -> int:
        """What a state counts at least: itself and, before a member, one value of it where these clauses are seen for the first time."""
        size = len(alive)
        if behind or position >= len(self.declared) or self.is_counted:
            return 8 + size // 8
        return 12 + size // 8 + size // 4

    def settled(self, position: int, alive: Open, before: int = -1) -> Open | None:
        """The clauses that are not decided by now; None where one has failed.

        They may be settled for the position `before`, where -1 is none.
        """
        if not alive or (before >= 0 and self.open[position] is self.open[before]):
            return alive
        key = (position, alive)
        if key in self.decided:
            return self.decided[key]
        self.oracle.budget.spend(len(alive) // 8)
        open_here, universal = self.open[position], self.universal
        result: list[int] = []
        for number, bits in zip(alive[::2], alive[1::2], strict=True):
            left = open_here[number]
            # What still holds of every key, and speaks of none to come, holds.
            if bits & universal[number] & ~left:
                continue
            bits &= left
            if not bits:
                self.decided[key] = None
                return None
            result += (number, bits)
        found = self.decided[key] = tuple(result)
        return found

    def may_end(self, position: int, count: int, alive: Open) -> bool:
        """Whether the object may end where this declared key is the next."""
        return (
            position >= self.last_required
            and count >= self.low
            and self.later_hold[position]
            and self.settled(len(self.declared) + 1, alive) is not None
        )

    def missing(self, state: State) -> tuple[int, int]:
        """The least and the largest number of undeclared members that may follow, -1 for any number."""
        _, _, count, _, room = state
        most = self.high - count if self.high >= 0 else -1
        never = self.f.never
        left = [some for m, some in zip(self.undeclared, room, strict=True) if self.pair(m.key, m.value) != never]
        return max(self.low - count, 0), most if -1 in left else high_bound(most, sum(left))

    def extra(self) -> NodeId:
        """Any undeclared member."""
        never = self.f.never
        extras = [node for m in self.undeclared if (node := self.pair(m.key, m.value)) != never]
        return self.b.alt(*extras) if extras else never

    def before(self, source: int, state: State) -> None:
        """The edges that write a declared member, and the one that continues to the next."""
        _, position, count, alive, room = state
        current = self.declared[position]
        if not current.required:
            skipped = self.settled(position + 1, alive + self.begun[position], position)
            if skipped is not None and (position + 1 < len(self.declared) or self.undeclared):
                self.edges += (source, self.number((False, position + 1, count, skipped, room)), -1)
        self.write(source, [current], position + 1, state)

    def after(self, source: int, state: State) -> None:
        """The edges behind a member: to the end, and over a comma to the next one."""
        b, f = self.b, self.f
        _, position, count, alive, room = state
        if self.may_end(position, count, alive):
            self.edges += (source, 1, f.blank)
        if 0 <= self.high <= count:
            return
        if position < len(self.declared) or alive:
            if position < len(self.declared) or self.undeclared:
                self.edges += (source, self.number((False, position, count, alive, room)), f.comma)
        elif (extra := self.extra()) != f.never:
            least, most = self.missing(state)
            if most and not 0 <= most < least:
                self.edges += (source, 1, b.seq(b.repeat(b.seq(f.comma, extra), max(least, 1), most), f.blank))

    def write(self, source: int, members: Sequence[Member], following: int, state: State) -> None:
        """The edges that write one of some members, those at the state's position; `following` is the next declared key after them."""
        _, position, count, alive, room = state
        turns = self.turns.get((position, alive))
        if turns is None:
            turns = self.turns[position, alive] = []
            alive += self.begun[position]
            for place, current in enumerate(members):
                for value, left in self.outcomes(current, alive):
                    self.oracle.budget.spend(4 + len(alive) // 4)
                    target = self.settled(following, left, position if left is alive else -1)
                    node = self.f.never if target is None else self.pair(current.key, value)
                    if target is not None and node != self.f.never:
                        turns.append((node, target, place if current.name is None else -1))
        after = min(count + 1, self.cap)
        self.oracle.budget.spend(2 * len(turns))
        for node, target, place in turns:
            if place < 0 or room[place] < 0:
                self.edges += (source, self.number((True, following, after, target, room)), node)
            elif room[place]:
                left = (*room[:place], room[place] - 1, *room[place + 1 :])
                self.edges += (source, self.number((True, following, after, target, left)), node)

    def outcomes(self, current: Member, alive: Open) -> Iterator[tuple[Conjunction, Open]]:
        """The possible outcomes of a member: the subschemas that its value meets, and the atoms that are then alive."""
        relevant: dict[Literal, None] = {}
        touched: list[tuple[int, int, Atom]] = []
        still = dict(zip(alive[::2], alive[1::2], strict=True))
        for entry in self.concerning(current) if alive else ():
            number, bit, atom = entry
            if still.get(number, 0) & bit:
                touched.append(entry)
                relevant[atom.literal] = None
        if not touched:
            yield current.value, alive
            return
        for value, true in self.cases.split(current.value, tuple(relevant)):
            self.oracle.budget.spend(1 + (len(touched) + len(still)) // 8)
            following = still.copy()
            for number, bit, atom in touched:
                if number not in following:
                    continue
                if atom.literal in true:
                    if not atom.every:
                        del following[number]
                elif atom.every:
                    following[number] &= ~bit
            yield value, tuple([part for pair in following.items() for part in pair])

    def concerning(self, current: Member) -> list[tuple[int, int, Atom]]:
        """The atoms that speak of a member, clause by clause."""
        name = current.name
        which = current.inside if name is None else name
        found = self.concerned.get(which)
        if found is None:
            if name is None:
                found = [entry for entry in self.general if in_class(entry[2].keys, current.inside)]
            else:
                found = self.named.get(name, [])
                if self.general:
                    found = sorted([*found, *(entry for entry in self.general if member(self.oracle, entry[2].keys, name))], key=_PLACE)
            self.concerned[which] = found
        return found
