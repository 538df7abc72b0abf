"""Numbers for subschemas, values and languages of keys, so that the algebra computes with sets of small integers.

A subschema in its scope has a number, its literal; minus that number is its complement. Subschemas that are written alike share one.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from ...pda.automata import dfa
from ...pda.automata.dfa import NOTHING, Dfa
from ...pda.budget import Budget
from ...pda.exceptions import shown
from ..dialect.dialects import DEFAULT
from ..dialect.keyword_values import ATOMS, Schema, same_value
from ..dialect.references import Registry, Resource, Scope
from ..errors import Malformed
from ..sets.keys import Partition
from ..sets.strings import Strings, Texts
from ..sets.types import FALSE, TRUE, Literal

_NESTED: Final = (dict, list)
_UNKNOWN: Final = (0,)
_MOST_SIDE_BY_SIDE: Final = 6
"""Automata in a partition, where some of them are one language."""
_STRINGS: Final = {str}
_MOST_COMPARED: Final = 100
"""The most strings of an array that stand in an outline."""
_OF_TYPE: Final = {kind: {"type": kind} for kind in ("array", "string")}


def _outline(schema: Schema) -> tuple[tuple[object, ...], bool]:
    """The keywords of a subschema with their plain values, what is easily compared of the others, and whether this is all of it.

    Of objects and arrays these are the strings in them, if there is nothing else; else the keys of an object and the length of an array.

    >>> _outline({"const": 1}) == _outline({"const": True}), _outline({"items": {"type": "string"}})[1], _outline({"enum": [1]})[1]
    (False, True, False)
    """
    outline: list[object] = []
    is_all = True
    for keyword, value in schema.items():
        kind = value.__class__
        outline.append(keyword)
        if kind is not str:
            outline.append(kind)  # 1 and 1.0 and true are equal in Python
            if kind is dict:
                if set(map(type, value.values())) <= _STRINGS:
                    value = tuple(value.items())
                else:
                    is_all, value = False, tuple(value)
            elif kind is list:
                if len(value) <= _MOST_COMPARED and set(map(type, value)) <= _STRINGS:
                    value = tuple(value)
                else:
                    is_all, value = False, len(value)
            elif kind not in ATOMS:
                is_all, value = False, None
        outline.append(value)
    return tuple(outline), is_all


class Alternatives(NamedTuple):
    """A subschema that no text wrote: any of some literals."""

    literals: tuple[Literal, ...]


class Together(NamedTuple):
    """The subschemas of one place that closes undeclared keys, which several subschemas around it describe, as pieces."""

    literals: tuple[Literal, ...]


class Numbering:
    """The subschemas, values and languages of one compilation, each with its number."""

    def __init__(self, registry: Registry, strings: Strings, budget: Budget) -> None:
        self.strings = strings
        self.budget = budget
        self.root = registry.root
        # Schemas that no text wrote are of no draft: `const` has to mean what it says beside a schema of draft 4.
        self.neutral = Scope(Resource("", True, DEFAULT, registry.root.resource.document), 0)
        self.entries: list[tuple[Any, Scope]] = [(True, registry.root), (True, registry.root)]
        """Subschema and scope of each literal."""
        self.literals: dict[tuple[int, Scope], Literal] = {}
        self.texts: dict[tuple[int, Scope], Literal] = {}
        self.outlines: dict[tuple[Scope, tuple[object, ...]], Literal] = {}
        """The first literal of each outline; only subschemas of one outline are compared in full."""
        self.written: dict[int, int] = {}
        """The number of the contents of each object and array of the schema, 0 if they cannot be compared."""
        self.forms: dict[bytes, int] = {}
        self.constants: dict[object, Literal] = {}
        self.unions: dict[frozenset[Literal], Literal] = {}
        self.conjunctions: dict[tuple[Literal, ...], Literal] = {}
        self.languages: list[Texts] = []
        self.language_numbers: dict[Texts, int] = {}
        self.automata: dict[int, Dfa] = {}
        self.partitions: dict[tuple[int, ...], Partition] = {}
        self.members: dict[tuple[int, str], bool] = {}

    def literal(self, schema: Any, scope: Scope) -> Literal:
        """The number of a subschema; those that are written alike in one scope share it."""
        if schema.__class__ is bool:
            return TRUE if schema else FALSE
        if not isinstance(schema, dict):
            raise Malformed(schema, "", f"a schema must be an object or a boolean, not {shown(schema)}")
        if not schema:
            return TRUE
        key = (id(schema), scope)
        found = self.literals.get(key)
        if found is None:
            found = self.literals[key] = self._first_number(schema, scope)
        return found

    def _first_number(self, schema: Schema, scope: Scope) -> Literal:
        """The number of a subschema that has none yet: that of one written alike, or a new one.

        PERF: most subschemas differ in their outlines already, and the outlines of many are all that they say, so few are compared in full.
        """
        new = len(self.entries)
        outline, is_all = _outline(schema)
        first = self.outlines.setdefault((scope, outline), new)
        if first != new and is_all:
            return first
        if first != new and (form := self.form(schema)):
            self.texts.setdefault((self.form(self.entries[first][0]), scope), first)
            found = self.texts.setdefault((form, scope), new)
            if found != new:
                return found
        self.entries.append((schema, scope))
        return new

    def form(self, schema: Schema) -> int:
        """A number that two subschemas share just when they are written alike; 0 where that is not known.

        PERF: branches of a oneOf are often copies of each other but for a few members, and members that are the same literal need no
        complement to tell the branches apart. Each object and array is numbered once, by the numbers of those in it.
        """
        numbers = self.written
        known = numbers.get(id(schema))
        if known is not None:
            return known
        todo: list[Any] = [schema]
        work = 0
        while todo:
            value = todo[-1]
            inner = value.values() if value.__class__ is dict else value
            before = len(todo)
            for child in inner:
                if child.__class__ in _NESTED and id(child) not in numbers:
                    todo.append(child)
            if len(todo) > before:
                continue
            todo.pop()
            parts = [(numbers[id(child)],) if child.__class__ in _NESTED else child for child in inner]
            try:  # a later version would mark the objects that it meets again
                key = marshal.dumps((tuple(value) if value.__class__ is dict else None, parts), 2)
                numbers[id(value)] = 0 if _UNKNOWN in parts else self.forms.setdefault(key, len(self.forms) + 1)
            except ValueError:  # decimals, subclasses of the types of JSON, or too deep
                numbers[id(value)] = 0
            work += 2 + len(parts) // 2
        self.budget.spend(work)
        return numbers[id(schema)]

    def constant(self, value: object) -> Literal:
        """The number of the schema of one value."""
        key = same_value(value)
        found = self.constants.get(key)
        if found is None:
            found = self.constants[key] = len(self.entries)
            self.entries.append(({"const": value}, self.neutral))
        return found

    def of_type(self, kind: str) -> Literal:
        """The number of the schema of one type."""
        return self.literal(_OF_TYPE[kind], self.neutral)

    def any_of(self, literals: Iterable[Literal]) -> Literal:
        """The number of the union of some literals."""
        chosen = frozenset(literals)
        if TRUE in chosen:
            return TRUE
        chosen -= {FALSE}
        if len(chosen) < 2:
            return next(iter(chosen), FALSE)
        found = self.unions.get(chosen)
        if found is None:
            found = self.unions[chosen] = len(self.entries)
            self.entries.append((Alternatives(tuple(sorted(chosen))), self.neutral))
        return found

    def together(self, literals: Iterable[Literal]) -> Literal:
        """The number of the conjunction of some subschemas that each would close their place, closed once."""
        entries = [self.entries[literal] for literal in literals]
        pieces = tuple(self.literal(schema, scope.piece) for schema, scope in entries)
        found = self.conjunctions.get(pieces)
        if found is None:
            found = self.conjunctions[pieces] = len(self.entries)
            self.entries.append((Together(pieces), self.neutral))
        return found

    def language(self, texts: Texts) -> int:
        """The number of a set of strings that keys may be in."""
        found = self.language_numbers.get(texts)
        if found is None:
            found = self.language_numbers[texts] = len(self.languages)
            self.languages.append(texts)
        return found

    def automaton(self, language: int) -> Dfa:
        """The automaton of a language."""
        found = self.automata.get(language)
        if found is None:
            found = self.automata[language] = self.strings.union(self.languages[language])
        return found

    def beside_each_other(self, languages: Sequence[int]) -> Iterable[tuple[int, Dfa]]:
        """Automata for a partition by some languages: one for each, or several whose union it is.

        PERF: patterns that begin in different ways part at once, so their union has nothing to minimise: six of 90 states cost nothing as
        they are, and 3 ms as one automaton. What may begin anywhere in a key is united, since k such patterns have 2**k states beside
        each other.
        """
        few = sum(len(self.languages[language]) for language in languages) <= _MOST_SIDE_BY_SIDE
        for language in languages:
            texts = self.languages[language]
            parts: Sequence[Dfa] = ()
            if few and len(texts) > 1 and language not in self.automata:
                parts = [self.strings.automaton(text) for text in texts]
            if len(parts) < 2 or any(part == NOTHING or any(target == 0 for _, _, target in part.transitions[0]) for part in parts):
                parts = (self.automaton(language),)
            for part in parts:
                yield language, part

    def partition(self, languages: tuple[int, ...]) -> Partition:
        """All strings, cut into the key classes of some languages."""
        found = self.partitions.get(languages)
        if found is None:
            automata = [*self.beside_each_other(languages)]
            unknown = [self.strings.unknown(self.languages[language]) for language in languages]
            beyond = [automaton for automaton in unknown if automaton != NOTHING]
            union = dfa.union(*beyond, budget=self.budget) if beyond else None
            found = self.partitions[languages] = Partition(automata, self.budget, union)
        return found

    def holds(self, language: int, word: str) -> bool:
        """Whether a language has a string."""
        key = (language, word)
        found = self.members.get(key)
        if found is None:
            self.budget.spend(4)
            found = self.members[key] = any(self.strings.has(part, word) for part in self.languages[language])
        return found
