"""The cases of a subschema beside unevaluated keywords: typed parts, each with the members and items that its branches have looked at.

`unevaluatedProperties` and `unevaluatedItems` depend on which branches hold, so a subschema that uses them is split into cases.
The more is evaluated the less is left to constrain, so a case may claim less than the truth as long as another one claims it all:
for anyOf every set of branches is a case, and none needs the complement of the branches outside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...pda.exceptions import LimitError
from ..dialect.keyword_values import Schema, item_schemas, mapping, schemas
from ..dialect.keywords import REFERENCE, groups_of
from ..dialect.references import OPEN, PLACE, Scope, referred
from ..sets.objects import lacks, plain, requires
from ..sets.types import ANYTHING, EVERY, FALSE, NONE, TRUE, Array, Atom, Keys, Literal, Object, Parts, reduced
from .from_keywords import dependents, required_names
from .towers import guards, levels, share_objects

if TYPE_CHECKING:
    from .algebra import Algebra

MOST_BRANCHES: Final = 12
"""Branches of one anyOf beside unevaluated keywords of which each subset may be a case."""
MOST_CASES: Final = 1 << MOST_BRANCHES


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
    under: tuple[tuple[Parts, frozenset[str]], ...] = ()
    """Names that are evaluated besides where the value is in some parts."""

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
            tuple(dict.fromkeys(self.under + other.under)),
        )

    def names_only(self) -> bool:
        """Whether nothing but names of members were looked at, on whatever condition."""
        return self._replace(names=frozenset(), under=()) == Evaluated()


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
            conditional = yield from self.tower(schema, scope)
            result = self.product(result, conditional)
        for name, subschema in dependents(schema, keyword_groups):
            found = yield from self.case_branch(subschema, scope)
            absent = EVERY._replace(objects=(Object(atoms=(lacks(name),)),))
            present = Parts(objects=(Object(atoms=(requires(name),)),))
            result = self.product(result, self.grouped([(absent, Evaluated()), *self.product([(present, Evaluated())], found)]))
        result = self.without_unevaluated(result, schema, scope, keyword_groups)
        return self.closed(result) if outer.closing == PLACE else result

    def tower(self, schema: Schema, scope: Scope) -> Steps:
        """The cases of if/then/else, and of those that `else` consists of."""
        tests, innermost = levels(schema)
        tested_parts: list[Parts] = []
        outsides: list[Parts] = []
        branches: list[list[Case]] = []
        for level in tests:
            test, literal = yield from self.algebra.branch(level["if"], scope.test)
            tested = yield from self.case_branch(level["if"], scope.test)
            then = yield from self.case_branch(level.get("then", True), scope)
            tested_parts.append(test)
            outsides.append(self.algebra.inverted(literal, test))
            branches.append(self.product(tested, then))
        otherwise = yield from self.case_branch(innermost, scope)
        overlaps = share_objects(self.algebra.registry, tests, scope.test, self.boolean.budget)
        outside_before = guards(self.boolean, tested_parts, outsides, overlaps)
        cases = zip(outside_before, (*branches, otherwise), strict=True)
        return self.grouped(case for guard, branch in cases for case in self.product([(guard, Evaluated())], branch))

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
        telling = [branch for branch in branches if any(seen != Evaluated() for _, seen in branch)]
        if self.are_plain(telling):
            return self.conditional_case(branches)
        silent = [branch for branch in branches if all(seen == Evaluated() for _, seen in branch)]
        # Without the branch, or with it; what evaluates no more together than one of the two alone is a case already.
        chosen: list[Case] = []
        for place, branch in enumerate(telling):
            together = [
                (self.boolean.intersect(one, other), both)
                for one, seen in chosen
                for other, also in branch
                if (both := seen.with_(also)) not in (seen, also)
            ]
            self.boolean.check(len(together))
            chosen = self.grouped([*chosen, *branch, *together])
            if len(chosen) > MOST_CASES or (place >= MOST_BRANCHES and len(chosen) > len(telling) * MOST_BRANCHES):
                raise LimitError(
                    f"an anyOf beside unevaluated keywords, or in a closed object, has more than {MOST_BRANCHES} branches",
                    limit="states",
                    value=MOST_BRANCHES,
                )
        return self.grouped([*chosen, *(case for branch in silent for case in branch)])

    @staticmethod
    def are_plain(branches: Sequence[list[Case]]) -> bool:
        """Whether branches are more than one, and look at nothing but members that they name, each at others, those of all aside."""
        if len(branches) < 2 or not all(seen.names_only() for branch in branches for _, seen in branch):
            return False
        if any(part.clauses or part.low or part.high >= 0 for branch in branches for parts, _ in branch for part in parts.objects):
            return False
        sets = [names for branch in branches for _, seen in branch for names in (seen.names, *(others for _, others in seen.under))]
        common = frozenset.intersection(*(seen.names for branch in branches for _, seen in branch))
        return max(Counter(name for names in sets for name in names - common).values(), default=0) < 2

    def conditional_case(self, branches: Sequence[list[Case]]) -> list[Case]:
        """The union of branches as one case: each evaluates its names where the value is in it."""
        cases = [case for branch in branches for case in branch]
        if not cases:
            return []
        common = frozenset.intersection(*(seen.names for _, seen in cases))
        under: dict[tuple[Parts, frozenset[str]], None] = {}
        for parts, seen in cases:
            if seen.names > common:
                under[parts, seen.names - common] = None
            for condition, names in seen.under:
                # Mostly one of the parts, as in an anyOf within one; what is not written again is not an alternative of its own.
                is_one = condition._replace(objects=parts.objects) == parts and set(condition.objects) <= set(parts.objects)
                under[condition if is_one else self.boolean.intersect(parts, condition), names] = None
        return [(self.boolean.union([parts for parts, _ in cases]), Evaluated(names=common, under=tuple(under)))]

    def unseen(self, parts: Parts, seen: Evaluated, literal: Literal) -> Parts:
        """The values of a case whose members that it has not looked at meet a literal."""
        conditions: dict[str, list[Parts]] = {}
        for condition, names in seen.under:
            ordered = dict.fromkeys([name for part in condition.objects for name in part.order if name in names] + sorted(names))
            for name in ordered:
                if name not in seen.names:
                    conditions.setdefault(name, []).append(condition)
        atom = Atom(True, Keys(True, seen.names.union(conditions), seen.languages), literal)
        result = EVERY._replace(objects=(Object(atoms=(atom,)),))
        for name, its in conditions.items():
            meets = EVERY._replace(objects=(Object(atoms=(plain(name, literal),)),))
            result = self.boolean.intersect(result, self.boolean.union([meets, *its]))
        result = result._replace(objects=tuple([part._replace(order=()) for part in result.objects]))
        both = self.boolean.intersect(parts, result)
        if conditions:
            # A branch that holds beside others has its keys where the schema has them.
            both = both._replace(objects=tuple([part._replace(order=_with(part.order, conditions)) for part in both.objects]))
        return both

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
                    parts = self.unseen(parts, seen, literal)
                result.append((parts, seen._replace(every_key=True, under=())))
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


def _with(order: Sequence[str], names: Iterable[str]) -> tuple[str, ...]:
    """An order with some names where the first of them stands, or at the end.

    >>> _with(("a", "y", "b"), ["x", "y"])
    ('a', 'x', 'y', 'b')
    """
    some = dict.fromkeys(names)
    place = next((place for place, name in enumerate(order) if name in some), len(order))
    return (*order[:place], *some, *(name for name in order[place:] if name not in some))
