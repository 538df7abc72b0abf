"""Objects: the algebra of Object parts, and how one is written as a graph over its members.

A part is a conjunction of atoms ("every key in K has a value in S", "some key in K has") and of clauses, each a disjunction of atoms.
The complement of an atom is an atom, so complements stay small: that of a conjunction is one clause.
Two parts of few clauses unite into one by distribution, so `anyOf` over `required`, dependencies and implications do not multiply parts.

Emission walks the declared keys in order. A state of the graph is the next key, whether it stands before or after a member, how many there
were (where that counts), and for every clause which of its universal atoms still hold; a clause whose atom is settled leaves the state.
So the graph is linear in the keys for ordinary objects, and grows only with the clauses that are open at the same time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from operator import itemgetter
from typing import Final, NamedTuple

from ...pda.automata.dfa import ANYTHING, Dfa
from ...pda.budget import Budget
from ...pda.exceptions import LimitError
from ...pda.grammar import AUTOMATON, REPEATABLE, REQUIRED, GrammarBuilder, NodeId
from ..emit.json_parts import Fragments, quoted
from ..emit.unordered import Key, Unordered
from ..emit.values import extra_key, object_node
from .keys import Cell, KeySpace, Partition, in_cell, without
from .types import ANYTHING as ANY_VALUE  # fmt: skip
from .types import FALSE, NEVER, TRUE, Atom, Clause, Conjunction, Keys, Literal, Object, high_bound, reduced

FREE: Final = Object()
DISTRIBUTED: Final = 16
"""Two parts unite by distribution when that makes at most this many clauses."""
COMPARED: Final = 64
"""Of at most this many clauses, and parts of a union, each is compared with each."""
GRAPH_STATES: Final = 200_000
FEW_KEYS: Final = 1_024
"""A set of no more undeclared keys may run out before the members that have to be there are; of more keys there are always others."""
FEW_NAMES: Final = 64
"""Of a set of no more undeclared keys each is a member of its own where keys come in any order."""
MOST_OPTIONS: Final = 500
"""An object whose keys come in any order is a union of at most this many alternatives, or a graph (`emit.unordered`)."""
SMALL_GRAPH: Final = 2_000
"""States that such a graph may have before ten times as many alternatives are tried."""


class Facts(NamedTuple):
    """What the algebra answers about other subschemas."""

    is_empty: Callable[[Conjunction], bool]
    is_small: Callable[[Literal], bool]
    """Whether the complement of a literal is cheap to write."""
    partition: Callable[[tuple[int, ...]], Partition]
    """All keys, cut by languages."""
    holds: Callable[[int, str], bool]
    """Whether a language has a string."""
    budget: Budget


@lru_cache(maxsize=1 << 12)
def single(name: str) -> Keys:
    """The key of this name."""
    return Keys(False, frozenset((name,)))


def member(facts: Facts, keys: Keys, name: str) -> bool:
    """Whether a key belongs to a set of keys."""
    negated, names, languages = keys
    if name in names:
        return not negated
    for language in languages:
        if facts.holds(language, name):
            return not negated
    return negated


def intersect(a: Object, b: Object) -> Object:
    """Objects of both parts."""
    if a == FREE:
        return b
    if b == FREE:
        return a
    atoms = tuple(dict.fromkeys(a.atoms + b.atoms))
    return Object(
        a.order if not b.order else tuple(dict.fromkeys(a.order + b.order)),
        atoms,
        _needed(atoms, a.clauses + b.clauses),
        max(a.low, b.low),
        high_bound(a.high, b.high),
    )


def complement(part: Object) -> list[Object]:
    """All objects outside a part."""
    result: list[Object] = []
    negated = tuple(atom.negated() for atom in part.atoms)
    if len(negated) == 1:
        result.append(Object(atoms=negated))
    elif negated:
        result.append(Object(clauses=(negated,)))
    result.extend(Object(atoms=tuple(atom.negated() for atom in clause)) for clause in part.clauses)
    if part.low > 0:
        result.append(Object(high=part.low - 1))
    if part.high >= 0:
        result.append(Object(low=part.high + 1))
    return result


def _needed(atoms: Iterable[Atom], clauses: Iterable[Clause]) -> tuple[Clause, ...]:
    """The clauses that hold neither whenever the atoms do nor whenever another clause does."""
    sets: dict[frozenset[Atom], Clause] = {}
    for clause in clauses:
        sets.setdefault(frozenset(clause), clause)
    if not sets:
        return ()
    settled = frozenset(atoms)
    sizes: dict[int, list[frozenset[Atom]]] = {}
    if 1 < len(sets) <= COMPARED:
        for its in sets:
            sizes.setdefault(len(its), []).append(its)
    kept: list[Clause] = []
    for its, clause in sets.items():
        if settled.isdisjoint(its) and not any(any(map(its.issuperset, few)) for size, few in sizes.items() if size < len(its)):
            kept.append(clause)
    return tuple(kept)


class _Demands(NamedTuple):
    """A part as what it asks for, to be compared with others."""

    part: Object
    atoms: frozenset[Atom]
    clauses: tuple[frozenset[Atom], ...]


def _implies(a: _Demands, b: _Demands) -> bool:
    """Whether a glance tells that all objects of one part are of the other, and written in the same order."""
    if not b.atoms <= a.atoms or a.part.order != b.part.order or a.part.low < b.part.low:
        return False
    if b.part.high >= 0 and not 0 <= a.part.high <= b.part.high:
        return False
    return all(not a.atoms.isdisjoint(clause) or any(one <= clause for one in a.clauses) for clause in b.clauses)


def _largest(parts: Iterable[Object]) -> list[Object]:
    """The parts that no other one holds."""
    kept: list[_Demands] = []
    for part in parts:
        demands = _Demands(part, frozenset(part.atoms), tuple([frozenset(clause) for clause in part.clauses]))
        if not any(_implies(demands, other) for other in kept):
            kept = [other for other in kept if not _implies(other, demands)]
            kept.append(demands)
    return [demands.part for demands in kept]


def unite(parts: Iterable[Object]) -> tuple[Object, ...]:
    """A union, with parts of few clauses put together, and without parts that others hold."""
    result: list[Object] = []
    few: dict[int, int] = {}  # the places of parts of few clauses, and how many those are
    seen: set[Object] = set()
    for part in parts:
        if part in seen:
            continue
        seen.add(part)
        size = _size(part)
        if not size:
            return (part,)
        # Two parts unite where one of them has a single clause, and the union few of them.
        found = next((i for i, its in few.items() if size * its <= DISTRIBUTED and 1 in (size, its)), -1) if size <= DISTRIBUTED else -1
        if found >= 0:
            part = _distributed(result[found], part)
            size = _size(part)
            if not size:
                return (part,)
            result[found] = part
        else:
            found = len(result)
            result.append(part)
        if size <= DISTRIBUTED:
            few[found] = size
        else:
            few.pop(found, None)
    kept = dict.fromkeys(result)
    return tuple(_largest(kept) if 1 < len(kept) <= COMPARED else kept)


def _size(part: Object) -> int:
    """The number of clauses of a part; a number as good as endless where it bounds the number of members."""
    return DISTRIBUTED + 1 if part.low > 0 or part.high >= 0 else len(part.atoms) + len(part.clauses)


def _distributed(a: Object, b: Object) -> Object:
    """The union of two parts as one part."""
    rows_a: list[Clause] = [*((atom,) for atom in a.atoms), *a.clauses]
    rows_b: list[Clause] = [*((atom,) for atom in b.atoms), *b.clauses]
    clauses = []
    for one in rows_a:
        for other in rows_b:
            clause = tuple(dict.fromkeys(one + other))
            if not any(atom.negated() in clause for atom in clause):
                clauses.append(clause)
    order = tuple(dict.fromkeys(a.order + b.order))
    atoms = tuple(dict.fromkeys(c[0] for c in clauses if len(c) == 1))
    return Object(order, atoms, _needed(atoms, (c for c in clauses if len(c) > 1)))


class Known:
    """What the unit atoms of a part say about each key."""

    def __init__(self, part: Object, facts: Facts) -> None:
        self.facts = facts
        self.said: dict[str, list[Literal]] = {}
        """What the value of a key must meet, by atoms about this key alone."""
        self.required: dict[str, None] = {}
        self.general: list[Atom] = []
        for atom in part.atoms:
            self.add(atom)

    def add(self, atom: Atom) -> None:
        """Take in one more unit atom."""
        every, _, literal, name = atom
        if name is None:
            if every:
                self.general.append(atom)
            return
        if not every:
            self.required[name] = None
        found = self.said.get(name)
        if found is None:
            self.said[name] = [literal]
        else:
            found.append(literal)

    def value(self, name: str, *more: Literal) -> Conjunction:
        """What the value of a key must meet if the key is there."""
        literals = {*self.said.get(name, ()), *more}
        for _, keys, literal, _ in self.general:
            if literal not in literals and member(self.facts, keys, name):
                literals.add(literal)
        return reduced(frozenset(literals))

    def undeclared(self, cell: Cell, *more: Literal) -> Conjunction:
        """What the value of an undeclared key in a cell must meet if the key is there."""
        return reduced(frozenset((*more, *(atom.literal for atom in self.general if in_cell(atom.keys, cell)))))


def prune(part: Object, facts: Facts) -> Object | None:
    """The part without what cannot be, None where nothing is left."""
    if 0 <= part.high < part.low:
        return None
    known = Known(part, facts)
    for name in known.required:
        if facts.is_empty(known.value(name)):
            return None
    if 0 <= part.high < len(known.required):
        return None
    if not part.clauses:
        return part
    atoms = list(part.atoms)
    clauses = list(part.clauses)
    changed = True
    while changed:
        changed = False
        kept: list[Clause] = []
        for clause in clauses:
            rest = _reduced_clause(clause, known, facts)
            if rest is None:
                continue
            if not rest:
                return None
            if len(rest) == 1:
                atoms.append(rest[0])
                known.add(rest[0])
                decided = rest[0].name
                if decided is not None and decided in known.required and facts.is_empty(known.value(decided)):
                    return None
                changed = True
            else:
                kept.append(rest)
        clauses = kept
    if 0 <= part.high < len(known.required):
        return None
    settled = tuple(dict.fromkeys(atoms))
    return part._replace(atoms=settled, clauses=_needed(settled, clauses))


def _reduced_clause(clause: Clause, known: Known, facts: Facts) -> Clause | None:
    """The atoms of a clause that can hold beside the unit atoms; None where one of them holds anyway."""
    kept: list[Atom] = []
    for atom in clause:
        name = atom.name
        if atom.every and atom.literal == TRUE:
            return None
        if not atom.every and atom.literal == FALSE:
            continue
        if name is not None:
            if name in known.required:
                value = known.value(name)
                if atom.literal == TRUE or atom.literal in value:
                    return None
                if facts.is_empty(reduced(value | {atom.literal})):
                    continue
                if _surely(value, atom.literal, facts):
                    return None
            elif not atom.every:
                if facts.is_empty(known.value(name, atom.literal)):
                    continue
            elif _surely(known.value(name), atom.literal, facts):
                return None
        kept.append(atom)
    return tuple(kept)


def _surely(value: Conjunction, literal: Literal, facts: Facts) -> bool:
    """Whether all that meets a conjunction surely meets a literal, where that is cheap to tell."""
    return literal in value or (bool(value) and facts.is_small(literal) and facts.is_empty(reduced(value | {-literal})))


def names_of(part: Object) -> list[str]:
    """The declared keys of a part in the order in which they are written, then every other key that an atom names."""
    found = dict.fromkeys(part.order)
    for atom in (*part.atoms, *(atom for clause in part.clauses for atom in clause)):
        if atom.name is not None:
            found[atom.name] = None
        else:
            found.update(dict.fromkeys(sorted(atom.keys.names)))
    return list(found)


def sets_of_keys(part: Object) -> list[Keys]:
    """The sets of keys that atoms speak of, those of one name aside."""
    atoms = (*part.atoms, *(atom for clause in part.clauses for atom in clause))
    return list(dict.fromkeys(atom.keys for atom in atoms if atom.name is None))


def key_space(part: Object, names: Sequence[str], facts: Facts) -> KeySpace:
    """The keys of a part that are not declared."""
    languages = sorted({language for keys in sets_of_keys(part) for language in keys.languages})
    return KeySpace(names, facts.partition(tuple(languages)))


class _Member(NamedTuple):
    """A declared key, or a cell of undeclared ones: the node that reads key and colon, and what the value must meet."""

    name: str | None
    inside: frozenset[int]
    key: NodeId
    value: Conjunction
    required: bool
    room: int = -1
    """How many different keys of the cells there are, -1 where that does not matter."""


State = tuple[bool, int, int, tuple[int, ...], tuple[int, ...]]
"""Whether a member was just written or one has to follow, the next declared key, how many members there were, the clauses, and how many
keys are left of each set of undeclared ones, -1 for any number."""
SATISFIED: Final = -1
Witnesses = tuple[tuple[frozenset[int], Conjunction], ...]
"""Undeclared keys that there have to be: the languages that each is in, and what its value meets."""


class Writer:
    """Object parts written into one builder."""

    def __init__(
        self, b: GrammarBuilder, f: Fragments, facts: Facts, value: Callable[[Conjunction], NodeId], *, any_order: bool, distinct: bool
    ) -> None:
        self.b = b
        self.f = f
        self.facts = facts
        self.value = value
        self.any_order = any_order
        self.always_distinct = self.distinct = distinct
        self.extra_keys: dict[tuple[int, frozenset[str]], NodeId] = {}
        """Nodes for the keys of an automaton but some declared ones, which many objects may share."""

    def node(self, part: Object) -> NodeId:
        """The objects of a part."""
        pruned = prune(part, self.facts)
        if pruned is None:
            return self.f.never
        # A key that occurs again replaces its value by another that is as good, unless keys are counted or one must have a certain value.
        matters = pruned.low > 0 or bool(pruned.clauses) or any(not atom.every and atom.name is None for atom in pruned.atoms)
        outer, self.distinct = self.distinct, self.always_distinct or matters
        node = self._node(pruned)
        node = self.b.scope(node) if self.distinct and node != self.f.never else node
        self.distinct = outer
        return node

    def _node(self, pruned: Object) -> NodeId:
        """The objects of a part that is not empty, in the scope that `distinct` asks for."""
        if self.any_order:
            return self.unchained(self.named(pruned) if self.distinct else pruned)
        return self.chained(pruned)

    def named(self, part: Object) -> Object:
        """The part with the undeclared keys that may run out declared, so that each is a member of its own."""
        names = names_of(part)
        space, known = key_space(part, names, self.facts), Known(part, self.facts)
        choices = len(part.clauses) + sum(not atom.every and atom.name is None for atom in part.atoms)
        for cell in space.cells:
            most = FEW_NAMES if choices else max(FEW_KEYS, part.low)
            if not self.facts.is_empty(known.undeclared(cell)) and space.room([cell], most + 1) <= most:
                names += space.names(cell)
        return part._replace(order=tuple(names))

    def members(self, part: Object) -> tuple[list[_Member], list[_Member]]:
        """The declared keys that can occur, and the cells of the others."""
        known = Known(part, self.facts)
        names = names_of(part)
        declared: list[_Member] = []
        for name in names:
            value = known.value(name)
            if not self.facts.is_empty(value):
                key = self.b.seq(self.b.literal(quoted(name)), self.f.colon)
                declared.append(_Member(name, frozenset(), key, value, name in known.required))
        undeclared: list[_Member] = []
        sets = sets_of_keys(part)
        space = key_space(part, names, self.facts)
        # Cells that no set of keys tells apart are one.
        groups: dict[tuple[bool, ...], list[frozenset[int]]] = {}
        for inside in sorted(space.cells, key=sorted) if len(space.cells) > 1 else space.cells:
            groups.setdefault(tuple([in_cell(keys, inside) for keys in sets]), []).append(inside)
        for cells in groups.values():
            value = known.undeclared(cells[0])
            if not self.facts.is_empty(value):
                # Keys that may occur again never run out.
                many = max(FEW_KEYS, part.low) + 1
                room = space.room(cells, many) if self.distinct else many
                key = self.extra_key(*space.keys(cells))
                undeclared.append(_Member(None, cells[0], key, value, False, room if room < many else -1))
        return declared, undeclared

    def extra_key(self, keys: Dfa, declared: Sequence[str]) -> NodeId:
        """The keys of an automaton but the declared ones, and a colon."""
        b, f = self.b, self.f
        if keys is ANYTHING:
            key = extra_key(b, f, declared)
        else:
            # The partition that an automaton is from keeps it as long as this writer is there.
            known = (id(keys), frozenset(declared))
            found = self.extra_keys.get(known)
            if found is None:
                left = without(keys, declared) if declared else keys
                found = b.seq(f.quote, b.node((AUTOMATON, left.transitions, left.accepting, f.encoding)), f.quote)
                self.extra_keys[known] = found
            key = found
        return b.seq(b.distinct(key) if self.distinct else key, f.colon)

    def pair(self, key: NodeId, value: Conjunction) -> NodeId:
        """Key, colon and value."""
        node = self.value(value)
        return self.f.never if node == self.f.never or key == self.f.never else self.b.seq(key, node)

    def chained(self, part: Object) -> NodeId:
        """An object with its declared keys in order."""
        b, f = self.b, self.f
        declared, undeclared = self.members(part)
        missing = {atom.name for atom in part.atoms if not atom.every and atom.name is not None}
        if not missing <= {m.name for m in declared}:
            return f.never
        clauses = [*part.clauses, *((atom,) for atom in part.atoms if not atom.every and atom.name is None)]
        low, high = part.low, part.high
        if low <= sum(m.required for m in declared):
            low = 0
        if not undeclared and high >= len(declared):
            high = -1
        if not clauses and not low and high < 0:
            pairs = [(self.pair(m.key, m.value), m.required) for m in declared]
            extras = [n for m in undeclared if (n := self.pair(m.key, m.value)) != f.never]
            return object_node(b, f, pairs, b.alt(*extras) if extras else f.never)
        return _Chain(self, declared, undeclared, clauses, low, high).node()

    def unchained(self, part: Object) -> NodeId:
        """An object with its keys in any order.

        As few alternatives where they are few, which is quickest, else as a small graph, else as what is possible.
        """
        for most, states in ((MOST_OPTIONS, SMALL_GRAPH), (10 * MOST_OPTIONS, 10 * SMALL_GRAPH)):
            options = self.without_clauses(part, most)
            if options is not None:
                nodes = dict.fromkeys(self.permuted(option, part, witnesses) for option, witnesses in options)
                return self.b.alt(*(node for node in nodes if node != self.f.never)) if nodes else self.f.never
            graph = self.unordered(part, states)
            if graph is not None:
                return graph
        message = f"one object needs more than {10 * MOST_OPTIONS} alternatives, and a graph of more than {10 * SMALL_GRAPH} states"
        raise LimitError(message, limit="states", value=10 * SMALL_GRAPH)

    def unordered(self, part: Object, states: int) -> NodeId | None:
        """An object with its keys in any order, as one graph; None where that has too many states."""
        b, f = self.b, self.f
        self.distinct = True  # in the scope that `node` opens
        declared, undeclared = self.members(part)
        clauses = [*part.clauses, *((atom,) for atom in part.atoms if not atom.every)]
        keys = [
            Key(m.name, b.seq(b.distinct(b.literal(quoted(m.name))), f.colon), m.value, partial(self.speaks_of, m.name), lambda _: False)
            for m in declared
            if m.name is not None
        ]
        partition = key_space(part, names_of(part), self.facts).partition
        for m in undeclared:
            endless = part.high < 0 and partition.is_endless(m.inside)
            keys.append(Key(None, m.key, m.value, partial(self.speaks_of_cell, m.inside), partial(self.lasts, m, endless)))
        split = _Chain(self, [], [], (), 0, -1).split
        graph = Unordered(b, f, keys, clauses, pair=self.pair, split=split, budget=self.facts.budget)
        return graph.node(part.low, part.high, states)

    def speaks_of(self, name: str, atom: Atom) -> bool:
        """Whether an atom speaks of a declared key."""
        return member(self.facts, atom.keys, name)

    @staticmethod
    def speaks_of_cell(inside: frozenset[int], atom: Atom) -> bool:
        """Whether an atom speaks of the undeclared keys of a cell."""
        return atom.name is None and in_cell(atom.keys, inside)

    def lasts(self, cell: _Member, endless: bool, atom: Atom) -> bool:
        """Whether there is always one more key of a cell with which an atom is met."""
        return endless and self.speaks_of_cell(cell.inside, atom) and not self.facts.is_empty(reduced(cell.value | {atom.literal}))

    def without_clauses(self, part: Object, most: int) -> list[tuple[Object, Witnesses]] | None:
        """Parts without clauses, whose union is the part, each with what some different undeclared keys must have; None where many."""
        stack: list[tuple[Object, Witnesses]] = [(part, ())]
        names = names_of(part)
        cells = sorted(key_space(part, names, self.facts).cells, key=sorted)
        found: list[tuple[Object, Witnesses]] = []
        steps = 0
        while stack:
            current, witnesses = stack.pop()
            steps += 1
            if len(found) + len(stack) > most or steps > 10 * most:
                return None
            choice = next((i for i, a in enumerate(current.atoms) if not a.every and a.name is None), None)
            if current.clauses:
                options = [(option, witnesses) for option in self.decided(current)]
            elif choice is not None:
                atom = current.atoms[choice]
                base = current._replace(atoms=current.atoms[:choice] + current.atoms[choice + 1 :])
                if self.is_met(atom, base, witnesses):
                    stack.append((base, witnesses))
                    continue
                options = [
                    (base._replace(atoms=(*base.atoms, Atom(False, single(name), atom.literal, name))), witnesses)
                    for name in names
                    if member(self.facts, atom.keys, name)
                ]
                met = frozenset((atom.literal,))
                options += [(base, (*witnesses, (inside, met))) for inside in cells if in_cell(atom.keys, inside)]
                # One key may be what several atoms ask for.
                options += [
                    (base, (*witnesses[:place], (inside, literals | met), *witnesses[place + 1 :]))
                    for place, (inside, literals) in enumerate(witnesses)
                    if in_cell(atom.keys, inside)
                ]
            else:
                found.append((current, witnesses))
                continue
            self.facts.budget.check_time()
            for option, wanted in reversed(options):
                pruned = prune(option, self.facts)
                if pruned is not None:
                    stack.append((pruned, wanted))
        return found

    def is_met(self, atom: Atom, part: Object, witnesses: Witnesses) -> bool:
        """Whether a key that has to be there anyway is surely one of those that an atom asks for."""
        known = Known(part, self.facts)
        return any(
            in_cell(atom.keys, inside) and (atom.literal == TRUE or atom.literal in literals) for inside, literals in witnesses
        ) or any(
            member(self.facts, atom.keys, name) and (atom.literal == TRUE or _surely(known.value(name), atom.literal, self.facts))
            for name in known.required
        )

    def decided(self, part: Object) -> list[Object]:
        """A part with clauses as a union of some that each have fewer.

        An atom of several clauses, or of a key that several clauses speak of, as the member by which branches are told apart, either
        holds and settles them, or is in none.
        Its negation is told only where it is cheap: nothing is ever gained from an atom that does not hold.
        """
        found = Counter(atom for clause in part.clauses for atom in clause)
        keys = Counter(name for clause in part.clauses for name in {atom.name for atom in clause if not atom.every} if name is not None)
        told_apart = {atom: keys[atom.name] for atom in found if not atom.every and atom.name is not None and self.is_cheap(atom)}
        atom, times = max(((atom, max(times, told_apart.get(atom, 1))) for atom, times in found.items()), key=_TIMES)
        if times == 1:
            shortest = min(range(len(part.clauses)), key=lambda place: len(part.clauses[place]))
            base = part._replace(clauses=part.clauses[:shortest] + part.clauses[shortest + 1 :])
            return [base._replace(atoms=(*base.atoms, atom)) for atom in part.clauses[shortest]]
        holds = part._replace(atoms=(*part.atoms, atom), clauses=tuple(clause for clause in part.clauses if atom not in clause))
        rest = tuple([tuple([other for other in clause if other != atom]) for clause in part.clauses])
        told = (atom.negated(),) if self.is_cheap(atom) else ()
        fails = part._replace(
            atoms=(*part.atoms, *told, *(clause[0] for clause in rest if len(clause) == 1)),
            clauses=tuple(clause for clause in rest if len(clause) > 1),
        )
        return [holds, fails] if all(rest) else [holds]

    def is_cheap(self, atom: Atom) -> bool:
        """Whether an atom can be negated without a large complement."""
        return abs(atom.literal) == TRUE or self.facts.is_small(atom.literal)

    def permuted(self, part: Object, whole: Object, witnesses: Witnesses) -> NodeId:
        """An object with its keys in any order; `whole` is the part this is an alternative of, whose sets of keys cut the others."""
        b, f = self.b, self.f
        declared, undeclared = self.members(part._replace(order=tuple(names_of(whole))))
        if {atom.name for atom in part.atoms if not atom.every and atom.name is not None} - {m.name for m in declared}:
            return f.never
        members: list[int] = []
        for m in (*declared, *undeclared):
            node = self.pair(m.key, m.value)
            if node != f.never:
                members += (node, REQUIRED if m.required else REPEATABLE if m.name is None else 0)
            elif m.required:
                return f.never
        if witnesses:
            space, known = key_space(whole, names_of(whole), self.facts), Known(part, self.facts)
            for inside, literals in witnesses:
                value = known.undeclared(inside, *literals)
                node = f.never if self.facts.is_empty(value) else self.pair(self.extra_key(*space.keys([inside])), value)
                if node == f.never:
                    return node
                members += (node, REQUIRED)
        return permuted_object(b, f, tuple(members), part.low, part.high)


def permuted_object(b: GrammarBuilder, f: Fragments, members: tuple[int, ...], low: int, high: int) -> NodeId:
    """An object of `low` to `high` of these members, in any order; members are (node, flags, ...) as PERMUTE has them."""
    empty = not low and not any(flags & REQUIRED for flags in members[1::2])
    if not members or high == 0:
        return b.seq(f.open_object, f.blank, f.close_object) if empty else f.never
    body = b.seq(b.permute(members, f.comma, minimum=max(low, 1), maximum=high), f.blank)
    return b.seq(f.open_object, f.blank, b.optional(body) if empty else body, f.close_object)


def unordered(b: GrammarBuilder, f: Fragments, members: Sequence[tuple[NodeId, bool]], extra: NodeId) -> NodeId:
    """An object with these members (node, required) in any order, and any number of `extra` ones."""
    flat: list[int] = []
    for node, required in members:
        if node != f.never:
            flat += (node, REQUIRED if required else 0)
        elif required:
            return f.never
    if extra != f.never:
        flat += (extra, REPEATABLE)
    return permuted_object(b, f, tuple(flat), 0, -1)


_PLACE: Final = itemgetter(0, 1)
_TIMES: Final = itemgetter(1)


class _Chain:
    """The graph of one part that has clauses or counts, in the shape of `emit.object_node`: one comma behind a member, whatever follows."""

    def __init__(
        self, writer: Writer, declared: list[_Member], undeclared: list[_Member], clauses: Sequence[Clause], low: int, high: int
    ) -> None:
        self.writer = writer
        self.facts = writer.facts
        self.declared = declared
        self.undeclared = undeclared
        self.clauses = clauses
        self.low = low
        self.high = high
        self.cap = high if high >= 0 else low
        self.numbers: dict[State, int] = {}
        self.todo: list[State] = []
        self.edges: list[int] = []
        self.splits: dict[tuple[Conjunction, tuple[Literal, ...]], list[tuple[Conjunction, frozenset[Literal]]]] = {}
        self.decided: dict[tuple[int, tuple[int, ...]], tuple[int, ...] | None] = {}
        self.turns: dict[tuple[int, tuple[int, ...]], list[tuple[NodeId, tuple[int, ...], int]]] = {}
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

    def last(self, keys: Keys) -> int:
        """The position after the last member that a set of keys has; past the end where it has undeclared keys."""
        if any(in_cell(keys, m.inside) for m in self.undeclared):
            return len(self.declared) + 1
        return max((i + 1 for i, m in enumerate(self.declared) if member(self.facts, keys, m.name or "")), default=0)

    def node(self) -> NodeId:
        """The whole object."""
        b, f = self.writer.b, self.writer.f
        start = self.settled(0, tuple((1 << len(clause)) - 1 for clause in self.clauses))
        room = tuple(m.room for m in self.undeclared)
        if start is None:
            return f.never
        if self.may_end(0, 0, start):
            self.edges += (0, 1, -1)
        if self.high:
            self.edges += (0, self.number((False, 0, 0, start, room)), -1)
        for state in self.todo:
            behind, position, _, alive, _ = state
            source = self.numbers[state]
            if behind:
                self.after(source, state)
            elif position < len(self.declared):
                self.before(source, state)
            elif alive.count(SATISFIED) < len(alive):
                self.write(source, self.undeclared, position, state)
            elif (extra := self.extra()) != f.never:
                least, most = self.missing(state)
                if most and not 0 <= most < least:
                    tail = b.repeat(b.seq(f.comma, extra), max(least - 1, 0), most - 1 if most > 0 else -1)
                    self.edges += (source, 1, b.seq(extra, tail, f.blank))
        graph = b.graph(len(self.numbers) + 2, tuple(self.edges))
        return b.seq(f.open_object, f.blank, graph, f.close_object)

    def number(self, state: State) -> int:
        """The graph's number of a state; 0 is the start and 1 the end."""
        found = self.numbers.get(state)
        if found is None:
            found = self.numbers[state] = len(self.numbers) + 2
            self.todo.append(state)
            if found > GRAPH_STATES:
                raise LimitError(f"one object needs a graph of more than {GRAPH_STATES} states", limit="states", value=GRAPH_STATES)
        return found

    def settled(self, position: int, alive: tuple[int, ...], before: int = -1) -> tuple[int, ...] | None:
        """The clauses with every one that is decided by now marked so; None where one has failed.

        They may be settled for the position `before`, where -1 is none.
        """
        if before >= 0 and self.open[position] is self.open[before]:
            return alive
        key = (position, alive)
        if key in self.decided:
            return self.decided[key]
        result: list[int] = []
        for bits, left, universal in zip(alive, self.open[position], self.universal, strict=True):
            # What still holds of every key, and speaks of none to come, holds.
            if bits != SATISFIED:
                bits = SATISFIED if bits & universal & ~left else bits & left
                if not bits:
                    self.decided[key] = None
                    return None
            result.append(bits)
        found = self.decided[key] = tuple(result)
        return found

    def may_end(self, position: int, count: int, alive: tuple[int, ...]) -> bool:
        """Whether the object may end where this declared key is the next."""
        return position >= self.last_required and count >= self.low and self.settled(len(self.declared) + 1, alive) is not None

    def missing(self, state: State) -> tuple[int, int]:
        """How many undeclared members have to follow and how many may, -1 for any number."""
        _, _, count, _, room = state
        most = self.high - count if self.high >= 0 else -1
        never = self.writer.f.never
        left = [some for m, some in zip(self.undeclared, room, strict=True) if self.writer.pair(m.key, m.value) != never]
        return max(self.low - count, 0), most if -1 in left else high_bound(most, sum(left))

    def extra(self) -> NodeId:
        """Any undeclared member."""
        never = self.writer.f.never
        extras = [node for m in self.undeclared if (node := self.writer.pair(m.key, m.value)) != never]
        return self.writer.b.alt(*extras) if extras else never

    def before(self, source: int, state: State) -> None:
        """The edges that write a declared member, and the one that goes on to the next."""
        _, position, count, alive, room = state
        current = self.declared[position]
        if not current.required:
            skipped = self.settled(position + 1, alive, position)
            if skipped is not None and (position + 1 < len(self.declared) or self.undeclared):
                self.edges += (source, self.number((False, position + 1, count, skipped, room)), -1)
        self.write(source, [current], position + 1, state)

    def after(self, source: int, state: State) -> None:
        """The edges behind a member: to the end, and over a comma to the next one."""
        b, f = self.writer.b, self.writer.f
        _, position, count, alive, room = state
        if self.may_end(position, count, alive):
            self.edges += (source, 1, f.blank)
        if 0 <= self.high <= count:
            return
        if position < len(self.declared) or alive.count(SATISFIED) < len(alive):
            if position < len(self.declared) or self.undeclared:
                self.edges += (source, self.number((False, position, count, alive, room)), f.comma)
        elif (extra := self.extra()) != f.never:
            least, most = self.missing(state)
            if most and not 0 <= most < least:
                self.edges += (source, 1, b.seq(b.repeat(b.seq(f.comma, extra), max(least, 1), most), f.blank))

    def write(self, source: int, members: Sequence[_Member], following: int, state: State) -> None:
        """The edges that write one of some members, those at the state's position; `following` is the next declared key after them."""
        _, position, count, alive, room = state
        turns = self.turns.get((position, alive))
        if turns is None:
            turns = self.turns[position, alive] = []
            for place, current in enumerate(members):
                for value, left in self.outcomes(current, alive):
                    target = self.settled(following, left, position if left is alive else -1)
                    node = self.writer.f.never if target is None else self.writer.pair(current.key, value)
                    if target is not None and node != self.writer.f.never:
                        turns.append((node, target, place if current.name is None else -1))
        after = min(count + 1, self.cap)
        for node, target, place in turns:
            if place < 0 or room[place] < 0:
                self.edges += (source, self.number((True, following, after, target, room)), node)
            elif room[place]:
                left = (*room[:place], room[place] - 1, *room[place + 1 :])
                self.edges += (source, self.number((True, following, after, target, left)), node)

    def outcomes(self, current: _Member, alive: tuple[int, ...]) -> Iterator[tuple[Conjunction, tuple[int, ...]]]:
        """How a member may turn out: what its value meets, and which atoms are then alive."""
        relevant: dict[Literal, None] = {}
        touched: list[tuple[int, int, Atom]] = []
        for entry in self.concerning(current):
            number, bit, atom = entry
            if alive[number] != SATISFIED and alive[number] & bit:
                touched.append(entry)
                relevant[atom.literal] = None
        if not touched:
            yield current.value, alive
            return
        for value, true in self.split(current.value, tuple(relevant)):
            following = list(alive)
            for number, bit, atom in touched:
                if following[number] == SATISFIED:
                    continue
                if atom.literal in true:
                    if not atom.every:
                        following[number] = SATISFIED
                elif atom.every:
                    following[number] &= ~bit
            yield value, tuple(following)

    def concerning(self, current: _Member) -> list[tuple[int, int, Atom]]:
        """The atoms that speak of a member, clause by clause."""
        name = current.name
        which = current.inside if name is None else name
        found = self.concerned.get(which)
        if found is None:
            if name is None:
                found = [entry for entry in self.general if in_cell(entry[2].keys, current.inside)]
            else:
                found = self.named.get(name, [])
                if self.general:
                    found = sorted([*found, *(entry for entry in self.general if member(self.facts, entry[2].keys, name))], key=_PLACE)
            self.concerned[which] = found
        return found

    def split(self, value: Conjunction, literals: tuple[Literal, ...]) -> list[tuple[Conjunction, frozenset[Literal]]]:
        """A value cut by literals into cases: (what the value meets, which literals are then known to hold).

        A lone literal whose complement is large is not cut off: "unknown" takes the place of "does not hold", which is right since
        nothing is ever gained from a literal that does not hold.
        """
        found = self.splits.get((value, literals))
        if found is None:
            found = [(value, frozenset[Literal]())]
            unknown = len(literals) == 1 and not self.facts.is_small(literals[0])
            for literal in literals:
                cases: list[tuple[Conjunction, frozenset[Literal]]] = []
                for conjunction, true in found:
                    within = reduced(conjunction | {literal})
                    if literal == TRUE or literal in conjunction:
                        cases.append((conjunction, true | {literal}))
                        continue
                    if not self.facts.is_empty(within):
                        cases.append((within, true | {literal}))
                    without = conjunction if unknown or within == NEVER else reduced(conjunction | {-literal})
                    if not self.facts.is_empty(without):
                        cases.append((without, true))
                found = cases
                if len(found) > 4096:
                    raise LimitError("the conditions on one property have more than 4,096 outcomes", limit="states", value=4096)
            self.splits[value, literals] = found
        return found


def plain(name: str, literal: Literal) -> Atom:
    """The value of this key, if there is one, meets the literal."""
    return Atom(True, single(name), literal, name)


def requires(name: str) -> Atom:
    """There is a key of this name."""
    return Atom(False, single(name), TRUE, name)


def lacks(name: str) -> Atom:
    """There is no key of this name."""
    return Atom(True, single(name), FALSE, name)


__all__ = [
    "ANY_VALUE", "FREE", "Facts", "Writer", "complement", "intersect", "lacks", "member", "names_of", "permuted_object",
    "plain", "prune", "requires", "single", "unite",
]  # fmt: skip
