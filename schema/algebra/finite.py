"""The values of a conjunction, one by one, where they are few.

Where values may not repeat, the rest of the text depends on their number.
Constants, numbers and strings come from the sets that their parts hold; arrays and objects are put together out of the values of their
items and members, and those that a count, a clause or a bound forbids are left out.
Membership of an item or member in a further literal is asked of its values, not of the test of emptiness, which looks a few levels deep.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from ...pda.automata import language
from ..dialect.keyword_values import same_value
from ..sets import arrays, objects
from ..sets.numbers import decimal
from ..sets.types import Array, Atom, Conjunction, Literal, Object, Parts, Values, reduced
from .algebra import Algebra

FEW_VALUES: Final = 256
"""The maximal number of values that are listed one by one."""
LOOKS: Final = 16 * FEW_VALUES
"""Arrays and objects that are looked at to find those that hold."""


class Finite:
    """The finite sets of values of conjunctions, for one algebra."""

    def __init__(self, algebra: Algebra) -> None:
        self.algebra = algebra
        self.found: dict[Conjunction, Values | None] = {}

    def values(self, conjunction: Conjunction) -> Values | None:
        """All values that meet a conjunction; None if they are more than FEW_VALUES, or if that is unknown."""
        if conjunction not in self.found:
            self.found[conjunction] = None  # while it is being worked out: a value inside of itself has no end of values
            self.found[conjunction] = self._values(conjunction)
        return self.found[conjunction]

    def has(self, conjunction: Conjunction, value: object) -> bool:
        """Whether a value meets a conjunction."""
        return bool(self.values(reduced(conjunction | {self.algebra.numbering.constant(value)})))

    def scalars(self, conjunction: Conjunction) -> list[Any] | None:
        """All values, where they are few and neither arrays nor objects."""
        parts = self.algebra.normal(conjunction)
        return None if parts.arrays or parts.objects else self._scalars(parts)

    def _scalars(self, parts: Parts) -> list[Any] | None:
        """The constants, numbers and strings among some parts, None where they are many."""
        numbers = parts.numbers.values(FEW_VALUES)
        if numbers is None:
            return None
        words: dict[str, None] = {}
        for text in parts.texts:
            found = self.algebra.strings.values(text, FEW_VALUES)
            if found is None:
                return None
            words.update(dict.fromkeys(found))
        values = [*(c for c in (None, False, True) if c in parts.constants), *numbers, *words]
        return values if len(values) <= FEW_VALUES else None

    def number(self, conjunction: Conjunction, enough: int) -> int:
        """The number of values, at most `enough`; `enough` unless there are surely fewer."""
        found = self.values(conjunction)
        if found is not None:
            return min(len(found), enough)
        if enough <= FEW_VALUES:
            return enough
        parts = self.algebra.normal(conjunction)
        if parts.arrays or parts.objects:
            return enough
        texts = language.count(self.algebra.strings.union(parts.texts), enough) if parts.texts else 0
        return min(len(parts.constants) + parts.numbers.cardinality(enough) + (enough if texts is None else texts), enough)

    def _values(self, conjunction: Conjunction) -> Values | None:
        parts = self.algebra.normal(conjunction)
        result: dict[object, Any] = {}
        scalars = self._scalars(parts)
        if scalars is None:
            return None
        for value in scalars:
            number = decimal(value) if isinstance(value, Fraction) else value
            result[same_value(number)] = number
        for found in (*map(self.arrays_of, parts.arrays), *map(self.objects_of, parts.objects)):
            if found is None:
                return None
            for value in found:
                result[same_value(value)] = value
        return result if len(result) <= FEW_VALUES else None

    # Arrays.

    def arrays_of(self, part: Array) -> list[Any] | None:
        """The arrays of a part, None where they are many."""
        pruned = arrays.prune(part, self.algebra.is_empty)
        if pruned is None:
            return []
        prefix, _, low, high, counts, distinct = pruned
        result: list[Any] = []
        begun: list[list[tuple[object, Any]]] = [[]]
        looks = 0
        length = 0
        while begun and len(result) <= FEW_VALUES:
            if length >= low:
                for items in begun:
                    keys = [key for key, _ in items]
                    if distinct < 0 and len(set(keys)) == length:
                        continue
                    if all(least <= self._met(pruned, keys, literal, start) for literal, start, least, _ in counts):
                        result.append([item for _, item in items])
            if length == high:
                break
            values = self.values(pruned.item(length))
            if values is None or (values and length >= len(prefix) and high < 0 and distinct <= 0):
                return None
            following = []
            for items in begun:
                for key, item in values.items():
                    looks += 1
                    if looks > LOOKS:
                        return None
                    if distinct <= 0 or all(key != other for other, _ in items):
                        longer = [*items, (key, item)]
                        keys = [other for other, _ in longer]
                        if all(most < 0 or self._met(pruned, keys, literal, start) <= most for literal, start, _, most in counts):
                            following.append(longer)
            begun = following
            length += 1
        return result

    def _met(self, part: Array, keys: list[object], literal: Literal, start: int) -> int:
        """The number of these items that a count includes."""
        total = 0
        for index, key in enumerate(keys):
            if index >= start:
                total += key in (self.values(reduced(part.item(index) | {literal})) or ())
        return total

    # Objects.

    def objects_of(self, part: Object) -> list[Any] | None:
        """The objects of a part, None where they are many."""
        oracle = self.algebra.oracle
        pruned = objects.prune(part, oracle)
        if pruned is None:
            return []
        known = objects.Known(pruned, oracle)
        if pruned.low > len(known.required) and not self._has_room(pruned, known):
            return []
        members: list[tuple[str, Values]] = []
        for name in self._names(pruned, known) if pruned.high else []:
            values = None if name is None else self.values(known.value(name))
            if name is None or values is None:
                return None
            members.append((name, values))
        begun: list[dict[str, tuple[object, Any]]] = [{}]
        looks = 0
        for name, values in members:
            following = [] if name in known.required else list(begun)
            for one in begun:
                for pair in values.items():
                    looks += 1
                    if looks > LOOKS:
                        return None
                    if pruned.high < 0 or len(one) < pruned.high:
                        following.append({**one, name: pair})
            begun = following
        demands = [*((atom,) for atom in pruned.atoms), *pruned.clauses]
        return [
            {name: value for name, (_, value) in one.items()}
            for one in begun
            if len(one) >= pruned.low and all(any(self._holds(atom, one, known) for atom in clause) for clause in demands)
        ]

    def _has_room(self, part: Object, known: objects.Known) -> bool:
        """Whether as many keys as an object needs have a value."""
        oracle = self.algebra.oracle
        names = objects.names_of(part)
        room = sum(not oracle.is_empty(known.value(name)) for name in names)
        if room < part.low:
            space = objects.key_space(part, names, oracle)
            room += space.room([one for one in space.classes if not oracle.is_empty(known.undeclared(one))], part.low)
        return room >= part.low

    def _names(self, part: Object, known: objects.Known) -> Iterator[str | None]:
        """The keys that an object may have, None for one of very many."""
        oracle = self.algebra.oracle
        names = objects.names_of(part)
        yield from names
        space = objects.key_space(part, names, oracle)
        for key_class in space.classes:
            values = self.values(known.undeclared(key_class))
            if values is None or (values and space.room([key_class], FEW_VALUES + 1) > FEW_VALUES):
                yield None
            elif values:
                yield from space.names(key_class)

    def _holds(self, atom: Atom, one: Mapping[str, tuple[object, Any]], known: objects.Known) -> bool:
        """Whether an atom holds of an object."""
        met = (
            key in (self.values(known.value(name, atom.literal)) or ())
            for name, (key, _) in one.items()
            if objects.member(self.algebra.oracle, atom.keys, name)
        )
        return all(met) if atom.every else any(met)
