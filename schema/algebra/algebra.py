"""The algebra of schemas: every subschema as a union of typed parts, closed under intersection, union and complement.

A subschema in its scope has a number, its literal; minus that number is its complement.
`normal` turns a conjunction of literals into parts, one level deep: schemas of items and members stay literals, so recursion through
`$ref` ends.  Only what applies to the same place (allOf, anyOf, oneOf, not, if, $ref, dependent schemas) is followed, on an explicit stack.

    allOf = intersection    anyOf = union    not = complement    oneOf = disjoint sum
    if/then/else = (if and then) or (not if and else)            dependentSchemas = lacks the key or meets the schema

`unevaluated*` asks which members and items the rest of the schema has looked at, and that depends on which branches hold.
So a schema that uses it is split into cases, each with what it evaluates.
The more is evaluated the less is left to constrain, so a case may claim less than the truth as long as another one claims it all:
for anyOf every set of branches is a case, and none needs the complement of the branches outside it.

Emptiness is decided a few levels deep and otherwise taken to be false, which is safe: it only prunes.
What it leaves is removed by the engine, which knows which rules can generate text.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from ...pda.automata import dfa
from ...pda.automata.dfa import NOTHING, Dfa
from ...pda.budget import Budget
from ...pda.exceptions import LimitError, SchemaError, shown
from ..dialect.dialects import DEFAULT
from ..dialect.keyword_values import (  # fmt: skip
    MOST_COUNTED,
    Numeral,
    Schema,
    count,
    flag,
    item_schemas,
    mapping,
    names,
    number_set,
    pointer_token,
    same_value,
    schemas,
    text,
    too_many,
    types,
)
from ..dialect.keywords import (  # fmt: skip
    ALGEBRA,
    ANY_OF,
    ARRAY,
    NUMBER,
    OBJECT,
    ONE_OF,
    REFERENCE,
    STRING,
    TYPE,
    VALUES,
    groups_of,
)
from ..dialect.references import Registry, Resource, Scope, referred
from ..errors import Inexact, Malformed
from ..formats import format_longest, is_known
from ..sets import arrays, objects
from ..sets.keys import Partition
from ..sets.numbers import INTEGERS, NUMBERS, NumberSet
from ..sets.objects import Oracle, lacks, plain, requires
from ..sets.strings import FREE as FREE_TEXT
from ..sets.strings import Strings, Texts, merged
from ..sets.types import (  # fmt: skip
    ANYTHING,
    CONSTANTS,
    EVERY,
    FALSE,
    NEVER,
    NONE,
    TRUE,
    Array,
    Atom,
    Conjunction,
    Count,
    Keys,
    Literal,
    Object,
    Parts,
    Text,
    high_bound,
    reduced,
)
from .bounds import surely_disjoint, surely_inhabited, surely_not_universal, upper_bound

MOST_PARTS: Final = 4_000
DEEPEST_EMPTINESS: Final = 3
"""How many levels of required members and items a test of emptiness looks down."""
MOST_COMPARED: Final = 1 << 23
"""Bytes of subschemas that are compared by what is written in them."""
MOST_BRANCHES: Final = 12
"""Branches of one anyOf beside unevaluated keywords; each subset of them is a case."""


_OF_TYPE: Final = {kind: {"type": kind} for kind in ("array", "string")}


class Alternatives(NamedTuple):
    """A subschema that no text wrote: any of some literals."""

    literals: tuple[Literal, ...]


class Evaluated(NamedTuple):
    """Which members and items the keywords of a case have looked at."""

    every_key: bool = False
    names: frozenset[str] = frozenset()
    languages: frozenset[int] = frozenset()
    every_item: bool = False
    items: int = 0
    contained: frozenset[Literal] = frozenset()

    def with_(self, other: Evaluated) -> Evaluated:
        """What both have looked at together."""
        return Evaluated(
            self.every_key or other.every_key,
            self.names | other.names,
            self.languages | other.languages,
            self.every_item or other.every_item,
            max(self.items, other.items),
            self.contained | other.contained,
        )


Case = tuple[Parts, Evaluated]
Request = tuple[bool, Literal]
"""(whether cases are wanted, a positive literal)"""
Steps = Generator[Request, Any, Any]


class Algebra:
    """The subschemas of one compilation, and what is known of them."""

    def __init__(self, registry: Registry, budget: Budget, *, formats: bool = True) -> None:
        self.registry = registry
        self.budget = budget
        self.formats = formats
        self.strings = Strings(budget)
        # Schemas that no text wrote are of no draft: `const` has to mean what it says beside a schema of draft 4.
        self.neutral = Scope(Resource("", True, DEFAULT, registry.root.resource.document), ())
        self.entries: list[tuple[Any, Scope]] = [(True, registry.root), (True, registry.root)]
        self.literals: dict[tuple[int, Scope], Literal] = {}
        self.texts: dict[tuple[bytes, Scope], Literal] = {}
        self.compared = 0
        self.constants: dict[object, Literal] = {}
        self.unions: dict[frozenset[Literal], Literal] = {}
        self.results: dict[Request, Any] = {(False, TRUE): EVERY}
        self.complements: dict[Literal, Parts] = {TRUE: NONE}
        self.normals: dict[tuple[Conjunction, bool], Parts] = {(ANYTHING, True): EVERY, (ANYTHING, False): EVERY}
        self.emptiness: dict[Conjunction, bool] = {ANYTHING: False, NEVER: True}
        self.tested: dict[Conjunction, int] = {}
        """The level nearest the top at which a conjunction was not found to be empty."""
        self.small: dict[Literal, bool] = {}
        self.languages: list[Texts] = []
        self.language_numbers: dict[Texts, int] = {}
        self.automata: dict[int, Dfa] = {}
        self.partitions: dict[tuple[int, ...], Partition] = {}
        self.members: dict[tuple[int, str], bool] = {}
        self.large: dict[int, tuple[Schema, str]] = {}
        """Lower bounds that no text reaches, those of complements too, with the subschema and the keyword."""
        self.unique: list[Schema] = []
        """The subschemas with uniqueItems, for the error where one would have to be negated."""
        self.level = 0
        self.oracle = Oracle(self.is_empty, self.is_small, self.partition, self.holds, budget)

    def release(self) -> None:
        """Drop the oracle, which refers back to this algebra; it answers nothing after that."""
        del self.oracle

    # Numbers for subschemas, sets of values and languages.

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
            text = self.written(schema)
            found = self.texts.get((text, scope)) if text else None
            if found is None:
                found = len(self.entries)
                self.entries.append((schema, scope))
                if text:
                    self.texts[text, scope] = found
            self.literals[key] = found
        return found

    def written(self, schema: Schema) -> bytes:
        """What two subschemas have in common just when they are written alike; empty where it is not known.

        PERF: branches of a oneOf are often copies of each other but for a few members, and members that are the same literal need no
        complement to tell the branches apart. A text takes 3 us a KB, and a subschema is in those of all around it, so there is a limit.
        """
        if self.compared > MOST_COMPARED:
            return b""
        try:
            text = marshal.dumps(schema, 2)  # a later version would mark the objects that it meets again
        except ValueError:  # decimals, subclasses of the types of JSON, or too deep
            return b""
        self.compared += len(text)
        return text

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
            self.entries.append((Alternatives(tuple(sorted(chosen))), self.registry.root))
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

    def partition(self, languages: tuple[int, ...]) -> Partition:
        """All strings, cut into the key classes of some languages."""
        found = self.partitions.get(languages)
        if found is None:
            automata = [(language, self.automaton(language)) for language in languages]
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
            found = self.members[key] = any(self.strings.has(part, word) for part in self.languages[language])
        return found

    # What is known of a conjunction.

    def normal(self, conjunction: Conjunction) -> Parts:
        """The parts of a conjunction of literals."""
        key = (conjunction, self.level < DEEPEST_EMPTINESS)
        found = self.normals.get(key)
        if found is None:
            found = EVERY
            if conjunction == NEVER:
                found = NONE
            else:
                ordered = sorted(conjunction, key=abs)
                # PERF: conditions on a member add one literal after the other, so all but the last are mostly known.
                known = self.normals.get((conjunction - {ordered[-1]}, key[1])) if len(ordered) > 2 else None
                if known is not None:
                    found = known
                    ordered = ordered[-1:]
                for literal in ordered:
                    if found == NONE:
                        break
                    found = self.intersect(found, self.signed(literal))
            self.normals[key] = found
        return found

    def signed(self, literal: Literal) -> Parts:
        """The parts of a literal or of a complement."""
        parts: Parts = self.evaluate((False, abs(literal)))
        return parts if literal > 0 else self.inverse(-literal, parts)

    def inverse(self, literal: Literal, parts: Parts) -> Parts:
        """The complement of the parts of a literal."""
        found = self.complements.get(literal)
        if found is None:
            found = self.complements[literal] = self.complement(parts)
        return found

    def is_empty(self, conjunction: Conjunction) -> bool:
        """Whether surely no value meets a conjunction."""
        if FALSE in conjunction:
            return True
        found = self.emptiness.get(conjunction)
        if found is None and len(conjunction) == 1 and self.is_plain(*conjunction):
            found = self.emptiness[conjunction] = False
        if found is None:
            # A test at this level sees no deeper than one nearer the top has.
            if self.level >= self.tested.get(conjunction, DEEPEST_EMPTINESS):
                return False
            self.tested[conjunction] = self.level
            self.level += 1
            try:
                self.emptiness[conjunction] = False  # while it is being decided: a recursive schema has to end somewhere
                parts = self.normal(conjunction)
                found = not (parts.constants or parts.numbers or parts.texts) and not any(
                    arrays.prune(part, self.is_empty) and self.has_items(part) for part in parts.arrays
                )
                found = found and not any(objects.prune(part, self.oracle) for part in parts.objects)
            finally:
                self.level -= 1
                del self.emptiness[conjunction]
            if found:
                self.emptiness[conjunction] = True
        return found

    def is_plain(self, literal: Literal) -> bool:
        """Whether a few looks at a subschema tell a value of it, or of its complement.

        PERF: spares most subschemas of members and items their normal form, which nothing else asks for.
        """
        schema, scope = self.entries[abs(literal)]
        return surely_inhabited(self.registry, schema, scope) if literal > 0 else surely_not_universal(self.registry, schema, scope)

    def has_items(self, part: Array) -> bool:
        """Whether the items that an array must have can be there."""
        return not any(self.is_empty(item) for item in part.prefix[: part.low])

    def is_small(self, literal: Literal) -> bool:
        """Whether a literal and its complement are about constants, numbers and strings, or whole types."""
        found = self.small.get(literal)
        if found is None:
            found = all(
                part.arrays in ((), (arrays.FREE,)) and part.objects in ((), (objects.FREE,)) and len(part.texts) < 4
                for part in (self.signed(literal), self.signed(-literal))
            )
            self.small[literal] = found
        return found

    # Boolean operations on parts.

    def intersect(self, a: Parts, b: Parts) -> Parts:
        """Values of both."""
        if a is EVERY:
            return b
        if b is EVERY:
            return a
        return Parts(
            a.constants & b.constants,
            a.numbers & b.numbers,
            self.strings.intersect(a.texts, b.texts),
            self.intersect_arrays(a.arrays, b.arrays),
            self.intersect_objects(a.objects, b.objects),
        )

    def intersect_arrays(self, a: Sequence[Array], b: Sequence[Array]) -> tuple[Array, ...]:
        """Arrays of both unions."""
        if a == (arrays.FREE,) or not b:
            return tuple(b)
        if b == (arrays.FREE,) or not a:
            return tuple(a)
        self.check(len(a) * len(b))
        found = [both for one in a for other in b if (both := arrays.intersect(one, other)) is not None]
        if self.level < DEEPEST_EMPTINESS and not (len(a) == 1 or len(b) == 1):
            found = [part for part in found if arrays.prune(part, self.is_empty) is not None]
        return arrays.unite(found)

    def intersect_objects(self, a: Sequence[Object], b: Sequence[Object]) -> tuple[Object, ...]:
        """Objects of both unions."""
        if a == (objects.FREE,) or not b:
            return tuple(b)
        if b == (objects.FREE,) or not a:
            return tuple(a)
        self.check(len(a) * len(b))
        found: Iterable[Object] = (objects.intersect(one, other) for one in a for other in b)
        if self.level < DEEPEST_EMPTINESS and len(a) and len(b) and len(a) + len(b) > 2:
            found = [part for candidate in found if (part := objects.prune(candidate, self.oracle)) is not None]
        return objects.unite(found)

    def check(self, parts: int) -> None:
        """Raise where a product of unions is too large."""
        if parts > MOST_PARTS:
            raise LimitError(f"combined subschemas have more than {MOST_PARTS} alternatives", limit="states", value=MOST_PARTS)
        self.budget.check_time()

    def union(self, parts: Sequence[Parts]) -> Parts:
        """Values of any."""
        if len(parts) == 1:
            return parts[0]
        numbers = parts[0].numbers
        for part in parts[1:]:
            if part.numbers:
                numbers = numbers | part.numbers
        return Parts(
            frozenset().union(*(part.constants for part in parts)),
            numbers,
            merged([text for part in parts for text in part.texts]),
            arrays.unite(array for part in parts for array in part.arrays),
            objects.unite(object_ for part in parts for object_ in part.objects),
        )

    def complement(self, parts: Parts) -> Parts:
        """All other values."""
        texts: Texts = (FREE_TEXT,)
        for text_part in parts.texts:
            texts = self.strings.intersect(texts, self.strings.complement(text_part))
        array_parts: tuple[Array, ...] = (arrays.FREE,)
        for array in parts.arrays:
            array_parts = self.intersect_arrays(array_parts, arrays.complement(array))
        object_parts: tuple[Object, ...] = (objects.FREE,)
        for object_ in parts.objects:
            object_parts = self.intersect_objects(object_parts, objects.complement(object_))
        return Parts(CONSTANTS - parts.constants, ~parts.numbers, texts, array_parts, object_parts)

    def exactly_one(self, branches: Sequence[tuple[Parts, Callable[[], Parts]]], apart: Callable[[int, int], bool]) -> list[Parts]:
        """For every branch, the values in it and in no other; a branch comes with its complement, which is made only where it is needed.

        Type by type: branches that share no value of a type leave each other's values of it alone.
        `apart` tells of two branches whether they surely share none.
        """
        result = [parts for parts, _ in branches]
        for i, (parts, inverse) in enumerate(branches):
            for j, (other, its_inverse) in enumerate(branches[:i]):
                if apart(i, j):
                    continue
                self.budget.check_time()
                common = self.intersect(parts, other)
                if common.is_empty():
                    continue
                common = self.pruned(common)
                if not common.is_empty():
                    result[i] = self.outside(result[i], common, its_inverse())
                    result[j] = self.outside(result[j], common, inverse())
        return result

    def outside(self, parts: Parts, common: Parts, outside: Parts) -> Parts:
        """The parts without what they have in common with some others, by the complement of those."""
        return Parts(
            parts.constants & outside.constants if common.constants else parts.constants,
            parts.numbers & outside.numbers if common.numbers else parts.numbers,
            self.strings.intersect(parts.texts, outside.texts) if common.texts else parts.texts,
            self.intersect_arrays(parts.arrays, outside.arrays) if common.arrays else parts.arrays,
            self.intersect_objects(parts.objects, outside.objects) if common.objects else parts.objects,
        )

    def pruned(self, parts: Parts) -> Parts:
        """The parts without those that are surely empty."""
        return parts._replace(
            arrays=tuple(a for a in parts.arrays if arrays.prune(a, self.is_empty) is not None and self.has_items(a)),
            objects=tuple(o for o in parts.objects if objects.prune(o, self.oracle) is not None),
        )

    # From keywords to parts.

    def evaluate(self, request: Request) -> Any:
        """The parts of a subschema, or its cases."""
        found = self.results.get(request)
        if found is not None:
            return found
        stack: list[tuple[Request, Steps]] = [(request, self.steps(request))]
        active = {request}
        answer: Any = None
        while stack:
            current, steps = stack[-1]
            try:
                wanted = steps.send(answer)
            except StopIteration as stop:
                answer = self.results[current] = stop.value
                stack.pop()
                active.discard(current)
                continue
            answer = self.results.get(wanted)
            if answer is None:
                if wanted in active:
                    for (_, literal), _ in stack:
                        schema = self.entries[literal][0]
                        if isinstance(schema, dict) and "propertyNames" in schema:
                            raise Inexact(schema, "propertyNames", "a schema of names that holds the schema it stands in is not supported")
                    schema = self.entries[wanted[1]][0]
                    raise Malformed(schema, "", "refers to itself without going down into the instance, so it says nothing")
                stack.append((wanted, self.steps(wanted)))
                active.add(wanted)
                self.budget.check_time()
        return answer

    def steps(self, request: Request) -> Steps:
        """The generator that works a request out."""
        cases, literal = request
        schema, scope = self.entries[literal]
        if isinstance(schema, Alternatives):
            return self.alternatives(schema, cases)
        if cases:
            return self.cases(schema, scope)
        scope = self.registry.enter(scope, schema)
        if "unevaluatedProperties" in schema or "unevaluatedItems" in schema:
            keyword_groups = scope.resource.dialect.keywords
            if "unevaluatedProperties" in keyword_groups or "unevaluatedItems" in keyword_groups:
                return self.of_cases(literal)
        return self.parts(schema, scope)

    def alternatives(self, schema: Alternatives, cases: bool) -> Steps:
        """The union of some literals."""
        branches = []
        for literal in schema.literals:
            parts = yield False, abs(literal)
            branches.append(parts if literal > 0 else self.inverse(-literal, parts))
        union = self.union(branches)
        return [(union, Evaluated())] if cases else union

    def of_cases(self, literal: Literal) -> Steps:
        """The parts of a schema whose cases matter to itself."""
        cases = yield True, literal
        return self.union([parts for parts, _ in cases]) if cases else NONE

    def branch(self, schema: Any, scope: Scope) -> Steps:
        """The parts of a subschema that applies to the same place, and its literal."""
        literal = self.literal(schema, scope)
        parts = yield False, abs(literal)
        return (parts if literal > 0 else self.inverse(-literal, parts)), literal

    def parts(self, schema: Schema, scope: Scope) -> Steps:
        """The parts of a subschema without unevaluated keywords."""
        keyword_groups = scope.resource.dialect.keywords
        groups = groups_of(schema, keyword_groups)
        if groups & REFERENCE and scope.resource.dialect.lone_reference:
            target, within = self.registry.resolve(scope, schema["$ref"], schema=schema)
            parts, _ = yield from self.branch(target, within)
            return parts
        yield from self.names_of_properties(schema, scope, keyword_groups)
        result = self.local(schema, scope, groups)
        for target, within in referred(self.registry, schema, scope):
            parts, _ = yield from self.branch(target, within)
            result = self.intersect(result, parts)
        if groups & ALGEBRA and "allOf" in schema:
            for subschema in schemas(schema, "allOf"):
                parts, _ = yield from self.branch(subschema, scope)
                result = self.intersect(result, parts)
        if groups & ANY_OF:
            found = []
            for subschema in schemas(schema, "anyOf"):
                parts, _ = yield from self.branch(subschema, scope)
                found.append(parts)
            result = self.intersect(result, self.union(found))
        if groups & ONE_OF:
            exclusive = yield from self.one_of(schema, scope)
            result = self.intersect(result, self.union(exclusive))
        if groups & ALGEBRA:
            if "not" in schema:
                parts, literal = yield from self.branch(schema["not"], scope)
                result = self.intersect(result, self.inverted(literal, parts))
            if "if" in schema and "if" in keyword_groups and ("then" in schema or "else" in schema):
                test, literal = yield from self.branch(schema["if"], scope)
                then, _ = yield from self.branch(schema.get("then", True), scope)
                otherwise, _ = yield from self.branch(schema.get("else", True), scope)
                result = self.intersect(result, self.conditional(test, self.inverted(literal, test), then, otherwise))
            for name, subschema in self.dependents(schema, keyword_groups):
                parts, _ = yield from self.branch(subschema, scope)
                absent = EVERY._replace(objects=(Object(atoms=(lacks(name),)),))
                result = self.intersect(result, self.union([absent, parts]))
        return result

    def names_of_properties(self, schema: Schema, scope: Scope, keyword_groups: Mapping[str, int]) -> Steps:
        """The parts of propertyNames, which `object_part` asks for: worked out here, where nesting costs no Python stack."""
        if "propertyNames" in schema and "propertyNames" in keyword_groups:
            yield from self.branch(schema["propertyNames"], scope)

    def inverted(self, literal: Literal, parts: Parts) -> Parts:
        """The complement of what `branch` gave."""
        if literal > 0:
            return self.inverse(literal, parts)
        return self.evaluate((False, -literal)) if literal != FALSE else EVERY

    def conditional(self, test: Parts, outside: Parts, then: Parts, otherwise: Parts) -> Parts:
        """(if and then) or (not if and else); as implications where only one side says something, which multiplies fewer parts."""
        if otherwise is EVERY:
            return self.union([outside, then]) if then is not EVERY else EVERY
        if then is EVERY:
            return self.union([test, otherwise])
        return self.union([self.intersect(test, then), self.intersect(outside, otherwise)])

    def one_of(self, schema: Schema, scope: Scope) -> Steps:
        """For every branch of oneOf the values in it alone."""
        subschemas = schemas(schema, "oneOf")
        keyword_groups = scope.resource.dialect.keywords
        # A type beside oneOf spares the complements of other types.
        kinds = self.local(schema, scope, TYPE) if "type" in schema and "type" in keyword_groups else EVERY
        branches: list[tuple[Parts, Callable[[], Parts]]] = []
        for subschema in subschemas:
            parts, literal = yield from self.branch(subschema, scope)
            inverse = lambda literal=literal, parts=parts: self.inverted(literal, parts)  # noqa: E731
            branches.append((self.intersect(kinds, parts), inverse))
        upper_bounds = [upper_bound(self.registry, subschema, scope) for subschema in subschemas]
        return self.exactly_one(branches, lambda i, j: surely_disjoint(upper_bounds[i], upper_bounds[j]))

    def dependents(self, schema: Schema, keyword_groups: Mapping[str, int]) -> list[tuple[str, Any]]:
        """The schemas that apply when a key is there."""
        found: list[tuple[str, Any]] = []
        for keyword in ("dependentSchemas", "dependencies"):
            if keyword in schema and keyword in keyword_groups:
                for name, value in mapping(schema, keyword).items():
                    if keyword == "dependentSchemas" or not isinstance(value, list | tuple):
                        found.append((name, value))
        return found

    def local(self, schema: Schema, scope: Scope, groups: int) -> Parts:
        """What the keywords say that concern one type each, or list values."""
        keyword_groups = scope.resource.dialect.keywords
        kinds = frozenset(types(schema)) if "type" in schema and "type" in keyword_groups else None
        constants, numbers = CONSTANTS, NUMBERS
        texts: Texts = (FREE_TEXT,)
        array_parts: tuple[Array, ...] = (arrays.FREE,)
        object_parts: tuple[Object, ...] = (objects.FREE,)
        if kinds is not None:
            constants = frozenset(c for c in CONSTANTS if ("null" if c is None else "boolean") in kinds)
            numbers = NUMBERS if "number" in kinds else INTEGERS if "integer" in kinds else NONE.numbers
        if groups & NUMBER and numbers:
            numbers = numbers & number_set(schema)
        if kinds is not None and "string" not in kinds:
            texts = ()
        elif groups & STRING:
            part = self.strings.reduced(self.text_part(schema, keyword_groups))
            texts = () if part is None else (part,)
        if kinds is not None and "array" not in kinds:
            array_parts = ()
        elif groups & ARRAY:
            array_parts = (self.array_part(schema, scope, keyword_groups),)
        if kinds is not None and "object" not in kinds:
            object_parts = ()
        elif groups & OBJECT:
            part_of_object = self.object_part(schema, scope, keyword_groups)
            pruned = objects.prune(part_of_object, self.oracle) if part_of_object.clauses else part_of_object
            object_parts = () if pruned is None else (pruned,)
        result = Parts(constants, numbers, texts, array_parts, object_parts)
        if result == EVERY:
            result = EVERY
        if groups & VALUES:
            if "enum" in schema:
                values = schema["enum"]
                if not isinstance(values, list | tuple):
                    raise Malformed(schema, "enum", "must be an array")
                result = self.intersect(result, self.finite(values))
            if "const" in schema and "const" in keyword_groups:
                result = self.intersect(result, self.finite([schema["const"]]))
        return result

    def bounds(self, schema: Schema, lowest: str, highest: str, *, default: int = 0) -> tuple[int, int]:
        """Two counts, exact however large, since a complement turns one into the other; `default` and -1 where they are absent."""
        low, high = count(schema, lowest, default), count(schema, highest, -1)
        if low > MOST_COUNTED:
            self.large.setdefault(low, (schema, lowest))
        if high >= MOST_COUNTED:
            self.large.setdefault(high + 1, (schema, highest))
        return low, high

    def writable(self, conjunction: Conjunction) -> Parts:
        """The parts of a conjunction with counts that a grammar can hold.

        No text has more than MOST_COUNTED characters, items or members, so a larger upper bound is none, and what its complement allows
        is left out.
        Raise Inexact for a larger lower bound, and where nothing else is left: such values exist, but none can be written.
        """
        parts = self.normal(conjunction)
        if not self.large:
            return parts
        least = [
            *(text_part.low for text_part in parts.texts),
            *(object_.low for object_ in parts.objects),
            *(max((part.low, *(some.low for some in part.counts))) for part in parts.arrays),
        ]
        beyond = [low for low in least if low > MOST_COUNTED]
        kept = parts._replace(
            texts=tuple(part._replace(high=_countable(part.high)) for part in parts.texts if part.low <= MOST_COUNTED),
            arrays=tuple(
                part._replace(high=_countable(part.high), counts=tuple(some._replace(high=_countable(some.high)) for some in part.counts))
                for part in parts.arrays
                if max((part.low, *(some.low for some in part.counts))) <= MOST_COUNTED
            ),
            objects=tuple(part._replace(high=_countable(part.high)) for part in parts.objects if part.low <= MOST_COUNTED),
        )
        for schema, keyword in (self.large.get(low) or next(iter(self.large.values())) for low in beyond):
            if keyword.startswith("min") or kept.is_empty():
                raise too_many(schema, keyword)
        return kept

    def text_part(self, schema: Schema, keyword_groups: Mapping[str, int]) -> Text:
        """What the string keywords say."""
        low, high = self.bounds(schema, "minLength", "maxLength")
        tests: set[tuple[str, object, bool]] = set()
        if "pattern" in schema:
            pattern = text(schema, "pattern")
            self.strings.sources.setdefault(("pattern", pattern), (schema, "pattern", ""))
            tests.add(("pattern", pattern, True))
        if self.formats and "format" in schema and "format" in keyword_groups:
            name = text(schema, "format")
            if is_known(name):
                self.strings.sources.setdefault(("format", name), (schema, "format", ""))
                tests.add(("format", name, True))
                high = high_bound(high, format_longest(name))
        return Text(low, high, frozenset(tests))

    def array_part(self, schema: Schema, scope: Scope, keyword_groups: Mapping[str, int]) -> Array:
        """What the array keywords say."""
        low, high = self.bounds(schema, "minItems", "maxItems")
        first, others = item_schemas(schema, keyword_groups)
        prefix = tuple(reduced(frozenset((self.literal(item, scope),))) for item in first)
        rest = reduced(frozenset((self.literal(others, scope),)))
        counts: tuple[Count, ...] = ()
        if "contains" in schema and "contains" in keyword_groups:
            least, most = self.bounds(schema, "minContains", "maxContains", default=1) if "minContains" in keyword_groups else (1, -1)
            if least > 0 or most >= 0:
                counts = (Count(self.literal(schema["contains"], scope), 0, least, most),)
        distinct = flag(schema, "uniqueItems")
        if distinct:
            self.unique.append(schema)
        return Array(prefix, rest, low, high, counts, int(distinct))

    def object_part(self, schema: Schema, scope: Scope, keyword_groups: Mapping[str, int]) -> Object:
        """What the object keywords say."""
        low, high = self.bounds(schema, "minProperties", "maxProperties")
        properties = mapping(schema, "properties")
        required = names(schema, "required", schema["required"]) if "required" in schema else ()
        atoms: list[Atom] = []
        for name, subschema in properties.items():
            literal = self.literal(subschema, scope)
            if literal != TRUE:
                atoms.append(plain(name, literal))
        languages: list[int] = []
        for pattern, subschema in mapping(schema, "patternProperties").items():
            self.strings.sources.setdefault(("pattern", pattern), (schema, "patternProperties", f"/{pointer_token(pattern)}"))
            language = self.language((Text(tests=frozenset({("pattern", pattern, True)})),))
            languages.append(language)
            literal = self.literal(subschema, scope)
            if literal != TRUE:
                atoms.append(Atom(True, Keys(False, frozenset(), frozenset((language,))), literal))
        literal = self.literal(schema.get("additionalProperties", True), scope)
        if literal != TRUE:
            atoms.append(Atom(True, Keys(True, frozenset(properties), frozenset(languages)), literal))
        if "propertyNames" in schema and "propertyNames" in keyword_groups:
            literal = self.literal(schema["propertyNames"], scope)
            texts = self.writable(reduced(frozenset((literal, self.of_type("string"))))).texts
            if texts != (FREE_TEXT,):
                keys = Keys(True, frozenset(), frozenset((self.language(texts),))) if texts else Keys(True, frozenset())
                atoms.append(Atom(True, keys, FALSE))
        atoms.extend(map(requires, required))
        clauses = []
        for keyword in ("dependentRequired", "dependencies"):
            if keyword in schema and keyword in keyword_groups:
                for name, value in mapping(schema, keyword).items():
                    if keyword == "dependentRequired" or isinstance(value, list | tuple):
                        clauses += [(lacks(name), requires(other)) for other in names(schema, keyword, value) if other != name]
        # Keys that are only required have no place of their own: another subschema may declare them.
        return Object(tuple(properties), tuple(dict.fromkeys(atoms)), tuple(clauses), low, high)

    def finite(self, values: Sequence[object]) -> Parts:
        """The parts of a list of values."""
        constants: set[bool | None] = set()
        numerals: list[Numeral] = []
        words: list[str] = []
        array_parts: list[Array] = []
        object_parts: list[Object] = []
        for value in values:
            if value is None or isinstance(value, bool):
                constants.add(value)
            elif isinstance(value, str):
                words.append(value)
            elif isinstance(value, list | tuple):
                items = tuple(frozenset((self.constant(item),)) for item in value)
                array_parts.append(Array(items, NEVER, len(items), len(items)))
            elif isinstance(value, Mapping):
                atoms = [atom for name, item in value.items() for atom in (requires(name), plain(name, self.constant(item)))]
                atoms.append(Atom(True, Keys(True, frozenset(value)), FALSE))
                object_parts.append(Object(tuple(value), tuple(atoms)))
            elif isinstance(value, int | float | Decimal):
                numerals.append(value)
            else:
                raise SchemaError(f"a {type(value).__name__} is no JSON value")
        try:
            numbers = NumberSet.of(numerals) if numerals else NONE.numbers
        except ValueError as error:  # NaN and infinity
            raise SchemaError(str(error)) from None
        return Parts(
            frozenset(constants),
            numbers,
            (Text(words=frozenset(words)),) if words else (),
            tuple(dict.fromkeys(array_parts)),
            tuple(dict.fromkeys(object_parts)),
        )

    # Cases, for unevaluated keywords.

    def case_branch(self, schema: Any, scope: Scope) -> Steps:
        """The cases of a subschema that applies to the same place."""
        literal = self.literal(schema, scope)
        if literal in (TRUE, FALSE):
            return [(EVERY if literal == TRUE else NONE, Evaluated())]
        cases = yield True, literal
        return cases

    def product(self, a: Sequence[Case], b: Sequence[Case]) -> list[Case]:
        """Both hold."""
        self.check(len(a) * len(b))
        return self.grouped((self.intersect(one, other), seen.with_(also)) for one, seen in a for other, also in b)

    def grouped(self, cases: Iterable[Case]) -> list[Case]:
        """The cases with those put together that evaluate the same."""
        groups: dict[Evaluated, list[Parts]] = {}
        for parts, seen in cases:
            if not parts.is_empty():
                groups.setdefault(seen, []).append(parts)
        return [(self.union(parts), seen) for seen, parts in groups.items()]

    def cases(self, schema: Schema, scope: Scope) -> Steps:
        """The cases of a subschema."""
        scope = self.registry.enter(scope, schema)
        keyword_groups = scope.resource.dialect.keywords
        groups = groups_of(schema, keyword_groups)
        if groups & REFERENCE and scope.resource.dialect.lone_reference:
            target, within = self.registry.resolve(scope, schema["$ref"], schema=schema)
            return (yield from self.case_branch(target, within))
        yield from self.names_of_properties(schema, scope, keyword_groups)
        result: list[Case] = [(self.local(schema, scope, groups), self.evaluated(schema, scope, keyword_groups))]
        for target, within in referred(self.registry, schema, scope):
            found = yield from self.case_branch(target, within)
            result = self.product(result, found)
        if "allOf" in schema:
            for subschema in schemas(schema, "allOf"):
                found = yield from self.case_branch(subschema, scope)
                result = self.product(result, found)
        if "anyOf" in schema:
            branches = []
            for subschema in schemas(schema, "anyOf"):
                found = yield from self.case_branch(subschema, scope)
                branches.append(found)
            result = self.product(result, self.any_cases(branches))
        if "oneOf" in schema:
            exclusive = yield from self.one_of(schema, scope)
            union: list[Case] = []
            for alone, subschema in zip(exclusive, schemas(schema, "oneOf"), strict=True):
                found = yield from self.case_branch(subschema, scope)
                union += self.product([(alone, Evaluated())], found)
            result = self.product(result, self.grouped(union))
        if "not" in schema:
            parts, literal = yield from self.branch(schema["not"], scope)
            result = self.product(result, [(self.inverted(literal, parts), Evaluated())])
        if "if" in schema and "if" in keyword_groups:
            test, literal = yield from self.branch(schema["if"], scope)
            tested = yield from self.case_branch(schema["if"], scope)
            then = yield from self.case_branch(schema.get("then", True), scope)
            otherwise = yield from self.case_branch(schema.get("else", True), scope)
            outside = [(self.inverted(literal, test), Evaluated())]
            result = self.product(result, self.grouped([*self.product(tested, then), *self.product(outside, otherwise)]))
        for name, subschema in self.dependents(schema, keyword_groups):
            found = yield from self.case_branch(subschema, scope)
            absent = EVERY._replace(objects=(Object(atoms=(lacks(name),)),))
            present = Parts(objects=(Object(atoms=(requires(name),)),))
            result = self.product(result, self.grouped([(absent, Evaluated()), *self.product([(present, Evaluated())], found)]))
        return self.without_unevaluated(result, schema, scope, keyword_groups)

    def any_cases(self, branches: Sequence[list[Case]]) -> list[Case]:
        """For every set of branches that some value meets together, what they evaluate together."""
        silent = [branch for branch in branches if all(seen == Evaluated() for _, seen in branch)]
        telling = [branch for branch in branches if any(seen != Evaluated() for _, seen in branch)]
        if len(telling) > MOST_BRANCHES:
            raise LimitError(
                f"an anyOf beside unevaluated keywords has more than {MOST_BRANCHES} branches", limit="states", value=MOST_BRANCHES
            )
        # Without the branch, or with it; the first case of `chosen` is "none yet" and is dropped at the end.
        chosen: list[Case] = []
        for branch in telling:
            chosen = self.grouped([*chosen, *branch, *self.product(chosen, branch)])
        return self.grouped([*chosen, *(case for branch in silent for case in branch)])

    def evaluated(self, schema: Schema, scope: Scope, keyword_groups: Mapping[str, int]) -> Evaluated:
        """What a subschema's own keywords evaluate."""
        first, _ = item_schemas(schema, keyword_groups)
        items = schema.get("items", ())
        every_item = (
            (isinstance(items, list | tuple) and "additionalItems" in schema and "items" in schema)
            if isinstance(items, list | tuple)
            else "items" in keyword_groups
        )
        contained: frozenset[Literal] = frozenset()
        if "contains" in schema and "prefixItems" in keyword_groups:
            contained = frozenset((self.literal(schema["contains"], scope),))
        return Evaluated(
            "additionalProperties" in schema and "additionalProperties" in keyword_groups,
            frozenset(mapping(schema, "properties")) if "properties" in keyword_groups else frozenset(),
            frozenset(
                self.language((Text(tests=frozenset({("pattern", pattern, True)})),)) for pattern in mapping(schema, "patternProperties")
            ),
            every_item,
            len(first),
            contained,
        )

    def without_unevaluated(self, cases: list[Case], schema: Schema, scope: Scope, keyword_groups: Mapping[str, int]) -> list[Case]:
        """The cases with this subschema's own unevaluated keywords applied."""
        if "unevaluatedProperties" in schema and "unevaluatedProperties" in keyword_groups:
            literal = self.literal(schema["unevaluatedProperties"], scope)
            result = []
            for parts, seen in cases:
                if not seen.every_key and literal != TRUE:
                    atom = Atom(True, Keys(True, seen.names, seen.languages), literal)
                    parts = self.intersect(parts, EVERY._replace(objects=(Object(atoms=(atom,)),)))
                result.append((parts, seen._replace(every_key=True)))
            cases = self.grouped(result)
        if "unevaluatedItems" in schema and "unevaluatedItems" in keyword_groups:
            literal = self.literal(schema["unevaluatedItems"], scope)
            result = []
            for parts, seen in cases:
                if not seen.every_item:
                    rest = reduced(frozenset((self.any_of((literal, *seen.contained)),)))
                    parts = self.intersect(parts, EVERY._replace(arrays=(Array((ANYTHING,) * seen.items, rest),)))
                result.append((parts, seen._replace(every_item=True)))
            cases = self.grouped(result)
        return cases


def _countable(high: int) -> int:
    """An upper bound, -1 where it is none or above all counts."""
    return high if high <= MOST_COUNTED else -1
