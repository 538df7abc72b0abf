"""Objects: the algebra of Object parts.

A part is a conjunction of atoms ("every key in K has a value in S", "some key in K has") and of clauses, each a disjunction of atoms.
The complement of an atom is an atom, so complements stay small: that of a conjunction is one clause.
Two parts of few clauses unite into one by distribution, so `anyOf` over `required`, dependencies and implications do not multiply parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from typing import Final, NamedTuple

from ...pda.budget import Budget
from ...pda.exceptions import LimitError
from .keys import KeyClass, KeySpace, Partition, in_class
from .types import FALSE, TRUE, Atom, Clause, Conjunction, Keys, Literal, Object, Parts, high_bound, reduced

FREE: Final = Object()
DISTRIBUTED: Final = 16
"""Two parts unite by distribution when that makes at most this many clauses."""
_LONGEST_KEPT: Final = 200
"""Longer names of keys are not remembered from one compilation to the next."""
COMPARED: Final = 64
"""Of at most this many clauses, and parts of a union, each is compared with each."""


IMPLIES: Final = 1
"""Every value of a conjunction meets a literal;"""
EXCLUDES: Final = -1
"""none does;"""
NEITHER: Final = 0
"""some do."""


class Oracle(NamedTuple):
    """The questions about other subschemas that the algebra answers."""

    is_empty: Callable[[Conjunction], bool]
    is_small: Callable[[Literal], bool]
    """Whether the complement of a literal is cheap to write."""
    partition: Callable[[tuple[int, ...]], Partition]
    """All keys, cut by languages."""
    holds: Callable[[int, str], bool]
    """Whether a language has a string."""
    extent: Callable[[Literal], frozenset[object] | None]
    """The values that meet a literal, where these are a list of scalars."""
    normal: Callable[[Conjunction], Parts]
    """The parts of a conjunction: conjunctions of equal parts have the same values."""
    relation: Callable[[Conjunction, Literal], int | None]
    """IMPLIES, EXCLUDES, or NEITHER, as far as lists of scalars tell; None where they do not."""
    budget: Budget


def single(name: str) -> Keys:
    """The key of this name."""
    # what is no text, as a key of a Python mapping may be, is refused where it would be written
    return _single.__wrapped__(name) if isinstance(name, str) and len(name) > _LONGEST_KEPT else _single(name)


@lru_cache(maxsize=1 << 12)
def _single(name: str) -> Keys:
    return Keys(False, frozenset((name,)))


def member(oracle: Oracle, keys: Keys, name: str) -> bool:
    """Whether a key belongs to a set of keys."""
    negated, names, languages = keys
    if name in names:
        return not negated
    for language in languages:
        if oracle.holds(language, name):
            return not negated
    return negated


def demands(part: Object) -> int:
    """The number of atoms and clauses of a part, which an operation on it looks at."""
    return len(part.atoms) + len(part.clauses)


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
    negated = merged(tuple([atom.negated() for atom in part.atoms]))
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


def merged(clause: Clause) -> Clause:
    """A clause with "there is no such key" and "there is one with a value that meets the literal" as one atom: if there is one, it does.

    What else "there is no such key" tells goes with it: it is a case of every demand on all values of the key.
    PERF: an object that requires keys of certain types has complements of half as many atoms. Those of a union of eight objects, whose keys
    come in any order, have 4,000 alternatives without this.
    """
    absent = {atom.keys for atom in clause if atom.every and atom.literal == FALSE}
    if not absent:
        return clause
    result = [
        atom._replace(every=True) if not atom.every and atom.name is not None and atom.keys in absent else atom
        for atom in clause
        if not (atom.every and atom.literal == FALSE)
    ]
    told = {atom.keys for atom in result if atom.every}
    return tuple(dict.fromkeys([*result, *(atom for atom in clause if atom.every and atom.literal == FALSE and atom.keys not in told)]))


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
    """A part as a set of demands, for comparison with others."""

    part: Object
    atoms: frozenset[Atom]
    clauses: tuple[frozenset[Atom], ...]


def _implies(a: _Demands, b: _Demands) -> bool:
    """Whether a comparison of demands shows that all objects of one part are of the other, and written in the same order."""
    if not b.atoms <= a.atoms or a.part.order != b.part.order or a.part.low < b.part.low:
        return False
    if b.part.high >= 0 and not 0 <= a.part.high <= b.part.high:
        return False
    return all(not a.atoms.isdisjoint(clause) or any(one <= clause for one in a.clauses) for clause in b.clauses)


def _largest(parts: Iterable[Object]) -> list[Object]:
    """The parts that no other one holds."""
    kept: list[_Demands] = []
    for part in parts:
        one = _Demands(part, frozenset(part.atoms), tuple([frozenset(clause) for clause in part.clauses]))
        if not any(_implies(one, other) for other in kept):
            kept = [other for other in kept if not _implies(other, one)]
            kept.append(one)
    return [one.part for one in kept]


def unite(parts: Iterable[Object]) -> tuple[Object, ...]:
    """A union, with parts of few clauses put together, and without parts that others hold."""
    result: list[Object] = []
    few: dict[int, int] = {}  # the places of parts of few clauses, and how many those are
    for part in _with_runs_united(dict.fromkeys(parts)):
        size = _size(part)
        if not size:
            return (part,)
        # Two parts unite where one of them has a single clause, and the union few of them.
        # INVARIANT: only the first of the parts of few clauses may have a single one: others are made or changed where it has more.
        found = next(iter(few), -1) if size <= DISTRIBUTED else -1
        if found >= 0 and 1 in (size, few[found]):
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


def _with_runs_united(parts: Iterable[Object]) -> Iterator[Object]:
    """The parts, with each run of those that have a single clause as one.

    PERF: one after the other, n of them look at n * n atoms, as in an anyOf over `required`.
    """
    run: list[Object] = []
    for part in parts:
        if _size(part) == 1:
            run.append(part)
            continue
        if run:
            yield _united(run)
            run = []
        yield part
    if run:
        yield _united(run)


def _united(run: Sequence[Object]) -> Object:
    """The union of parts of a single clause each."""
    if len(run) == 1:
        return run[0]
    clause = _clause(atom for part in run for one in (part.atoms, *part.clauses) for atom in one)
    order = tuple(dict.fromkeys(name for part in run for name in part.order))
    if clause is None:
        return Object(order)
    return Object(order, clause) if len(clause) == 1 else Object(order, clauses=(clause,))


def _clause(atoms: Iterable[Atom]) -> Clause | None:
    """One of some atoms holds; None where that is always so."""
    clause = merged(tuple(dict.fromkeys(atoms)))
    its = frozenset(clause)
    # There is such a key, or all of these, none as they are, have certain values: that always holds.
    there = {atom.keys for atom in clause if not atom.every and atom.literal == TRUE}
    return None if any(atom.negated() in its or (atom.every and atom.keys in there) for atom in clause) else clause


def _size(part: Object) -> int:
    """The number of clauses of a part; above DISTRIBUTED if the number of members is bounded."""
    return DISTRIBUTED + 1 if part.low > 0 or part.high >= 0 else len(part.atoms) + len(part.clauses)


def _distributed(a: Object, b: Object) -> Object:
    """The union of two parts as one part."""
    rows_a: list[Clause] = [*((atom,) for atom in a.atoms), *a.clauses]
    rows_b: list[Clause] = [*((atom,) for atom in b.atoms), *b.clauses]
    clauses = []
    for one in rows_a:
        for other in rows_b:
            clause = _clause(one + other)
            if clause is not None:
                clauses.append(clause)
    order = tuple(dict.fromkeys(a.order + b.order))
    atoms = tuple(dict.fromkeys(c[0] for c in clauses if len(c) == 1))
    return Object(order, atoms, _needed(atoms, (c for c in clauses if len(c) > 1)))


class Known:
    """The constraints of the unit atoms of a part, by key."""

    def __init__(self, part: Object, oracle: Oracle) -> None:
        self.oracle = oracle
        self.literals_of: dict[str, list[Literal]] = {}
        """The constraints on the value of a key by the atoms about this key alone."""
        self.required: dict[str, None] = {}
        self.general: list[Atom] = []
        self.values: dict[str, Conjunction] = {}
        self.add(part.atoms)

    def add(self, atoms: Iterable[Atom]) -> None:
        """Take in more unit atoms.

        PERF: called for every part of a union, with all of its atoms, so the loop is here and not around it.
        """
        literals_of, required = self.literals_of, self.required
        self.values.clear()
        for atom in atoms:
            every, _, literal, name = atom
            if name is None:
                if every:
                    self.general.append(atom)
                continue
            if not every:
                required[name] = None
            if name in literals_of:
                literals_of[name].append(literal)
            else:
                literals_of[name] = [literal]

    def value(self, name: str, more: Literal = TRUE) -> Conjunction:
        """The constraints on the value of a key if the key is present, with one more.

        PERF: n clauses about one key ask for its n constraints.
        """
        found = self.values.get(name)
        if found is None:
            literals = set(self.literals_of.get(name, ()))
            for _, keys, literal, _ in self.general:
                if literal not in literals and member(self.oracle, keys, name):
                    literals.add(literal)
            found = self.values[name] = reduced(frozenset(literals))
        return found if more == TRUE or more in found else reduced(found | {more})

    def undeclared(self, key_class: KeyClass, *more: Literal) -> Conjunction:
        """The constraints on the value of an undeclared key of a class if the key is present."""
        return reduced(frozenset((*more, *(atom.literal for atom in self.general if in_class(atom.keys, key_class)))))


def prune(part: Object, oracle: Oracle, fresh: Iterable[Atom] | None = None) -> Object | None:
    """The part without what cannot be, None where nothing is left.

    `fresh` are the atoms that a part has more than one that was pruned: what speaks of none of their keys is as it was.
    """
    if 0 <= part.high < part.low:
        return None
    known = Known(part, oracle)
    touched = None if fresh is None else _names(fresh)
    for name in known.required:
        if (touched is None or name in touched) and oracle.is_empty(known.value(name)):
            return None
    if 0 <= part.high < len(known.required):
        return None
    if not part.clauses:
        return part
    atoms = list(part.atoms)
    clauses: list[Clause | None] = list(part.clauses)
    speaking: dict[str | None, list[int]] = {}
    """By key the places of the clauses that speak of it."""
    for place, clause in enumerate(part.clauses):
        for atom in clause:
            speaking.setdefault(atom.name, []).append(place)
    oracle.budget.spend(len(atoms) // 4 + len(clauses))
    todo: dict[int, None] = dict.fromkeys(range(len(clauses)))
    if touched is not None:
        short = (place for place, clause in enumerate(part.clauses) if len(clause) < 2)
        todo = dict.fromkeys(sorted({*short, *(place for name in touched for place in speaking.get(name, ()))}))
    while todo:
        place = next(iter(todo))
        del todo[place]
        before = clauses[place]
        if before is None:
            continue
        oracle.budget.spend(3 * len(before))
        rest = _reduced_clause(before, known, oracle)
        clauses[place] = rest
        if rest is None:
            continue
        if not rest:
            return None
        if len(rest) == 1:
            clauses[place] = None
            unit = rest[0]
            atoms.append(unit)
            known.add(rest)
            if unit.name is not None and unit.name in known.required and oracle.is_empty(known.value(unit.name)):
                return None
            names = _names(rest)
            places = range(len(clauses)) if names is None else [place for name in names for place in speaking.get(name, ())]
            todo.update(dict.fromkeys(places))
    if 0 <= part.high < len(known.required):
        return None
    settled = tuple(dict.fromkeys(atoms))
    return part._replace(atoms=settled, clauses=_needed(settled, (clause for clause in clauses if clause is not None)))


def _names(atoms: Iterable[Atom]) -> set[str | None] | None:
    """The keys that atoms speak of; None where one of them may speak of any."""
    names = {atom.name for atom in atoms if atom.every or atom.name is not None}
    return None if None in names else names


def _reduced_clause(clause: Clause, known: Known, oracle: Oracle) -> Clause | None:
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
                relation = oracle.relation(value, atom.literal)
                if relation == IMPLIES:
                    return None
                if relation == EXCLUDES or (relation is None and oracle.is_empty(reduced(value | {atom.literal}))):
                    continue
                if relation is None and surely(value, atom.literal, oracle):
                    return None
            elif not atom.every:
                if oracle.is_empty(known.value(name, atom.literal)):
                    continue
            elif surely(known.value(name), atom.literal, oracle):
                return None
        kept.append(atom)
    return tuple(kept)


def surely(value: Conjunction, literal: Literal, oracle: Oracle) -> bool:
    """Whether all that meets a conjunction surely meets a literal, where that is cheap to tell."""
    if literal in value:
        return True
    relation = oracle.relation(value, literal)
    if relation is not None:
        return relation == IMPLIES
    return bool(value) and oracle.is_small(literal) and oracle.is_empty(reduced(value | {-literal}))


def names_of(part: Object) -> list[str]:
    """The declared keys of a part in the order in which they are written, then every other key that an atom names."""
    found = dict.fromkeys(part.order)
    for atom in (*part.atoms, *(atom for clause in part.clauses for atom in clause)):
        if atom.name is not None:
            found[atom.name] = None
        else:
            found.update(dict.fromkeys(sorted(atom.keys.names)))
    return list(found)


def names_of_open(parts: Sequence[Object]) -> frozenset[str] | None:
    """The keys that objects have to have or may not have, where that is all that they are asked for and no key is asked for both.

    Two such unions of one part share objects where they speak of different keys.
    """
    if len(parts) != 1:
        return None
    ((_, atoms, clauses, low, high),) = parts
    if clauses or low > 0 or high >= 0 or not all(atom.name is not None and (atom.every or atom.literal == TRUE) for atom in atoms):
        return None
    needed = {atom.name for atom in atoms if not atom.every}
    if any(atom.every and atom.name in needed for atom in atoms):
        return None
    return frozenset(atom.name for atom in atoms if atom.name is not None)


def sets_of_keys(part: Object) -> list[Keys]:
    """The sets of keys that atoms speak of, those of one name aside."""
    atoms = (*part.atoms, *(atom for clause in part.clauses for atom in clause))
    return list(dict.fromkeys(atom.keys for atom in atoms if atom.name is None))


def key_space(part: Object, names: Sequence[str], oracle: Oracle) -> KeySpace:
    """The keys of a part that are not declared."""
    languages = sorted({language for keys in sets_of_keys(part) for language in keys.languages})
    return KeySpace(names, oracle.partition(tuple(languages)))


JOINT_LISTS: Final = 4
"""A member's value is cut by this many lists of values together, and by fewer one after the other."""
FILTERED_LISTS: Final = 32
"""Of more lists than this, only the values that the value may have are looked at."""


class Cases:
    """The ways in which a value may meet some literals and not others, for one object."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self.splits: dict[tuple[Conjunction, tuple[Literal, ...]], list[tuple[Conjunction, frozenset[Literal]]]] = {}

    def split(self, value: Conjunction, literals: tuple[Literal, ...]) -> list[tuple[Conjunction, frozenset[Literal]]]:
        """A value cut by literals into cases: (the part that the value meets, the literals that then hold).

        A lone literal whose complement is large is not cut off: "unknown" takes the place of "does not hold", which is right since
        nothing is ever gained from a literal that does not hold.
        """
        found = self.splits.get((value, literals))
        if found is None:
            found, literals_left = [(value, frozenset[Literal]())], literals
            unknown = len(literals) == 1 and not self.oracle.is_small(literals[0])
            if len(literals) >= JOINT_LISTS and (listed := self.by_lists(value, literals)) is not None:
                found, settled = listed
                literals_left = tuple(literal for literal in literals if literal not in settled)
            for literal in literals_left:
                cases: list[tuple[Conjunction, frozenset[Literal]]] = []
                for conjunction, true in found:
                    within = reduced(conjunction | {literal})
                    if literal == TRUE or literal in conjunction:
                        cases.append((conjunction, true | {literal}))
                        continue
                    if self.oracle.is_empty(within):
                        # PERF: the case is as it was. With the complement in it, a value that is one of n constants would be a
                        # conjunction of n literals.
                        cases.append((conjunction, true))
                        continue
                    cases.append((within, true | {literal}))
                    without = conjunction if unknown else reduced(conjunction | {-literal})
                    if not self.oracle.is_empty(without):
                        cases.append((without, true))
                found = cases
                if len(found) > 4096:
                    raise LimitError("the conditions on one property have more than 4,096 outcomes", limit="states", value=4096)
            self.splits[value, literals] = found
        return found

    def by_lists(
        self, value: Conjunction, literals: Sequence[Literal], few: int = JOINT_LISTS
    ) -> tuple[list[tuple[Conjunction, frozenset[Literal]]], Set[Literal]] | None:
        """A value cut by those of some literals that list values, with these; None where they are few."""
        lists = {literal: extent for literal in literals if (extent := self._list(value, literal)) is not None}
        return (self._by_lists(value, lists), lists.keys()) if len(lists) >= few else None

    def apart(self, value: Conjunction, literals: Iterable[Literal]) -> Iterator[Literal]:
        """Those of some literals that list values, the value among them, and none that is listed by one before."""
        taken: set[object] = set()
        for literal in literals:
            extent = self.oracle.extent(literal) if literal > 0 else None
            if extent and taken.isdisjoint(extent) and not self.oracle.is_empty(reduced(value | {literal})):
                taken |= extent
                yield literal

    def _list(self, value: Conjunction, literal: Literal) -> frozenset[object] | None:
        """The values that a literal or its complement lists; None where it lists none, or where the value meets the literal anyway."""
        return None if literal == TRUE or literal in value else self.oracle.extent(abs(literal))

    def _by_lists(self, value: Conjunction, lists: Mapping[Literal, frozenset[object]]) -> list[tuple[Conjunction, frozenset[Literal]]]:
        """A value cut by literals that list values: values of the same lists are a case, and so are all others.

        PERF: a kind that decides among n subschemas has n + 1 cases. Cut by one literal after the other, these take n * n tests of
        emptiness.
        """
        places: dict[object, list[int]] = {}
        known = [extent for literal in value if literal > 0 and (extent := self.oracle.extent(literal)) is not None]
        known = known if len(lists) > FILTERED_LISTS else []
        among = frozenset.intersection(*known) if known else None
        for place, extent in enumerate(lists.values()):
            self.oracle.budget.spend(len(extent))
            for one in extent:
                if among is None or one in among:
                    places.setdefault(one, []).append(place)
        extents, listed = list(lists.values()), [abs(literal) for literal in lists]
        kinds = sorted(set(map(tuple, places.values())))
        cases: list[tuple[Conjunction, frozenset[Literal]]] = []
        for kind in (*kinds, ()):
            # Those that are in further lists are told apart by their complements.
            least = min([extents[place] for place in kind], key=len, default=places.keys())
            others = {place for one in least for place in places.get(one, ())}.difference(kind)
            self.oracle.budget.spend(1 + len(others) + len(lists) // 16)
            conjunction = reduced(value | {listed[place] for place in kind} | {-listed[place] for place in others})
            if not self.oracle.is_empty(conjunction):
                inside = set(kind)
                true = frozenset(literal for place, literal in enumerate(lists) if (place in inside) == (literal > 0))
                cases.append((conjunction, true))
        return cases


def plain(name: str, literal: Literal) -> Atom:
    """The value of this key, if there is one, meets the literal."""
    return Atom(True, single(name), literal, name)


def requires(name: str) -> Atom:
    """There is a key of this name."""
    return Atom(False, single(name), TRUE, name)


def lacks(name: str) -> Atom:
    """There is no key of this name."""
    return Atom(True, single(name), FALSE, name)
