"""The cases of a subschema beside unevaluated keywords: typed parts, each with the members and items that its branches have looked at.

`unevaluatedProperties` and `unevaluatedItems` depend on which branches hold, so a subschema that uses them is split into cases.
The more is evaluated the less is left to constrain, so a case may claim less than the truth as long as another one claims it all:
for anyOf every set of branches is a case, and none needs the complement of the branches outside it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...pda.exceptions import LimitError
from ..dialect.keyword_values import Schema, item_schemas, mapping, schemas
from ..dialect.keywords import REFERENCE, groups_of
from ..dialect.references import OPEN, PLACE, Scope, referred
from ..sets.objects import lacks, requires
from ..sets.types import ANYTHING, EVERY, FALSE, NONE, TRUE, Array, Atom, Keys, Literal, Object, Parts, reduced
from .from_keywords import dependents, required_names

if TYPE_CHECKING:
    from .algebra import Algebra

MOST_BRANCHES: Final = 12
"""Branches of one anyOf beside unevaluated keywords; each subset of them is a case."""


class Evaluated(NamedTuple):
    """Which members and items the keywords of a case have looked at."""

    every_key: bool = False
    names: frozenset[str] = frozenset()
    languages: frozenset[int] = frozenset()
    every_item: bool = False
    items: int = 0
    contained: frozenset[Literal] = frozenset()
    declares: bool = False
    """Whether there are `properties`; this and the rest only where undeclared keys are closed."""
    matches: bool = False
    """Whether there are `patternProperties`."""
    required: frozenset[str] = frozenset()

    def with_(self, other: Evaluated) -> Evaluated:
        """The union of what both evaluated."""
        return Evaluated(
            self.every_key or other.every_key,
            self.names | other.names,
            self.languages | other.languages,
            self.every_item or other.every_item,
            max(self.items, other.items),
            self.contained | other.contained,
            self.declares or other.declares,
            self.matches or other.matches,
            self.required | other.required,
        )


Case = tuple[Parts, Evaluated]
Request = tuple[bool, Literal]
"""(whether cases are wanted, a positive literal)"""
Steps = Generator[Request, Any, Any]
"""A computation that yields its questions and is sent the answers; see `Algebra.evaluate`."""


class Unevaluated:
    """The cases of the subschemas of one compilation."""

    def __init__(self, algebra: Algebra) -> None:
        self.algebra = algebra
        self.numbering = algebra.numbering
        self.boolean = algebra.boolean

    def case_branch(self, schema: Any, scope: Scope) -> Steps:
        """The cases of a subschema that applies to the same place."""
        literal = self.numbering.literal(schema, scope)
        if literal in (TRUE, FALSE):
            return [(EVERY if literal == TRUE else NONE, Evaluated())]
        cases = yield True, literal
        return cases

    def product(self, a: Sequence[Case], b: Sequence[Case]) -> list[Case]:
        """Both hold."""
        self.boolean.check(len(a) * len(b))
        return self.grouped((self.boolean.intersect(one, other), seen.with_(also)) for one, seen in a for other, also in b)

    def grouped(self, cases: Iterable[Case]) -> list[Case]:
        """The cases with those put together that evaluate the same."""
        groups: dict[Evaluated, list[Parts]] = {}
        for parts, seen in cases:
            if not parts.is_empty():
                groups.setdefault(seen, []).append(parts)
        return [(self.boolean.union(parts), seen) for seen, parts in groups.items()]

    def cases(self, schema: Schema, scope: Scope) -> Steps:
        """The cases of a subschema."""
        outer = self.algebra.registry.enter(scope, schema)
        scope = outer.piece
        keyword_groups = scope.resource.dialect.keywords
        groups = groups_of(schema, keyword_groups)
        if groups & REFERENCE and scope.resource.dialect.lone_reference:
            target, within = self.algebra.registry.resolve(outer, schema["$ref"], schema=schema)
            return (yield from self.case_branch(target, within))
        yield from self.algebra.names_of_properties(schema, scope, keyword_groups)
        result: list[Case] = [(self.algebra.keywords.local(schema, scope, groups), self.evaluated(schema, scope, keyword_groups))]
        for target, within in referred(self.algebra.registry, schema, scope):
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
            exclusive = yield from self.algebra.one_of(schema, scope)
            union: list[Case] = []
            for alone, subschema in zip(exclusive, schemas(schema, "oneOf"), strict=True):
                found = yield from self.case_branch(subschema, scope)
                union += self.product([(alone, Evaluated())], found)
            result = self.product(result, self.grouped(union))
        if "not" in schema:
            parts, literal = yield from self.algebra.branch(schema["not"], scope.test)
            result = self.product(result, [(self.algebra.inverted(literal, parts), Evaluated())])
        if "if" in schema and "if" in keyword_groups:
            test, literal = yield from self.algebra.branch(schema["if"], scope.test)
            tested = yield from self.case_branch(schema["if"], scope.test)
            then = yield from self.case_branch(schema.get("then", True), scope)
            otherwise = yield from self.case_branch(schema.get("else", True), scope)
            outside = [(self.algebra.inverted(literal, test), Evaluated())]
            result = self.product(result, self.grouped([*self.product(tested, then), *self.product(outside, otherwise)]))
        for name, subschema in dependents(schema, keyword_groups):
            found = yield from self.case_branch(subschema, scope)
            absent = EVERY._replace(objects=(Object(atoms=(lacks(name),)),))
            present = Parts(objects=(Object(atoms=(requires(name),)),))
            result = self.product(result, self.grouped([(absent, Evaluated()), *self.product([(present, Evaluated())], found)]))
        result = self.without_unevaluated(result, schema, scope, keyword_groups)
        return self.closed(result) if outer.closing == PLACE else result

    def together(self, literals: Sequence[Literal], *, cases: bool) -> Steps:
        """The cases, or the parts, of some pieces of one place that is closed."""
        result: list[Case] = [(EVERY, Evaluated())]
        for literal in literals:
            found = yield True, literal
            result = self.product(result, found)
        result = self.closed(result)
        return result if cases else self.boolean.union([parts for parts, _ in result]) if result else NONE

    def closed(self, cases: list[Case]) -> list[Case]:
        """The cases without undeclared keys, where there are `properties` and nothing says which other keys there are.

        A key that is required is declared: without it there would be no instance.
        """
        result = []
        for parts, seen in cases:
            if seen.declares and not seen.matches and not seen.every_key:
                atom = Atom(True, Keys(True, seen.names | seen.required), FALSE)
                parts = self.boolean.intersect(parts, EVERY._replace(objects=(Object(atoms=(atom,)),)))
                seen = seen._replace(every_key=True)
            result.append((parts, seen))
        return self.grouped(result)

    def any_cases(self, branches: Sequence[list[Case]]) -> list[Case]:
        """For every set of branches that some value meets together, the parts that they evaluate together."""
        silent = [branch for branch in branches if all(seen == Evaluated() for _, seen in branch)]
        telling = [branch for branch in branches if any(seen != Evaluated() for _, seen in branch)]
        if len(telling) > MOST_BRANCHES:
            raise LimitError(
                f"an anyOf beside unevaluated keywords, or in a closed object, has more than {MOST_BRANCHES} branches",
                limit="states",
                value=MOST_BRANCHES,
            )
        # Without the branch, or with it; the first case of `chosen` is "none yet" and is dropped at the end.
        chosen: list[Case] = []
        for branch in telling:
            chosen = self.grouped([*chosen, *branch, *self.product(chosen, branch)])
        return self.grouped([*chosen, *(case for branch in silent for case in branch)])

    def evaluated(self, schema: Schema, scope: Scope, keyword_groups: Mapping[str, int]) -> Evaluated:
        """The members and items that a subschema's own keywords evaluate."""
        first, _ = item_schemas(schema, keyword_groups)
        items = schema.get("items", ())
        every_item = (
            (isinstance(items, list | tuple) and "additionalItems" in schema and "items" in schema)
            if isinstance(items, list | tuple)
            else "items" in keyword_groups
        )
        contained: frozenset[Literal] = frozenset()
        if "contains" in schema and "prefixItems" in keyword_groups:
            contained = frozenset((self.numbering.literal(schema["contains"], scope.test),))
        closing = scope.closing != OPEN
        return Evaluated(
            "additionalProperties" in schema and "additionalProperties" in keyword_groups,
            frozenset(mapping(schema, "properties")) if "properties" in keyword_groups else frozenset(),
            frozenset(language for language, _ in self.algebra.keywords.languages_of_keys(schema, scope.place)),
            every_item,
            len(first),
            contained,
            closing and "properties" in schema and "properties" in keyword_groups,
            closing and "patternProperties" in schema and "patternProperties" in keyword_groups,
            frozenset(required_names(schema, keyword_groups)) if closing else frozenset(),
        )

    def without_unevaluated(self, cases: list[Case], schema: Schema, scope: Scope, keyword_groups: Mapping[str, int]) -> list[Case]:
        """The cases with this subschema's own unevaluated keywords applied."""
        if "unevaluatedProperties" in schema and "unevaluatedProperties" in keyword_groups:
            literal = self.numbering.literal(schema["unevaluatedProperties"], scope.place)
            result = []
            for parts, seen in cases:
                if not seen.every_key and literal != TRUE:
                    atom = Atom(True, Keys(True, seen.names, seen.languages), literal)
                    parts = self.boolean.intersect(parts, EVERY._replace(objects=(Object(atoms=(atom,)),)))
                result.append((parts, seen._replace(every_key=True)))
            cases = self.grouped(result)
        if "unevaluatedItems" in schema and "unevaluatedItems" in keyword_groups:
            literal = self.numbering.literal(schema["unevaluatedItems"], scope.place)
            result = []
            for parts, seen in cases:
                if not seen.every_item:
                    rest = reduced(frozenset((self.numbering.any_of((literal, *seen.contained)),)))
                    parts = self.boolean.intersect(parts, EVERY._replace(arrays=(Array((ANYTHING,) * seen.items, rest),)))
                result.append((parts, seen._replace(every_item=True)))
            cases = self.grouped(result)
        return cases
