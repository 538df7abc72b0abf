"""The algebra of schemas: every subschema as a union of typed parts, closed under intersection, union and complement.

A subschema in its scope has a number, its literal; minus that number is its complement.
`normal` turns a conjunction of literals into parts, one level deep: schemas of items and members stay literals, so recursion through
`$ref` ends.  Only what applies to the same place (allOf, anyOf, oneOf, not, if, $ref, dependent schemas) is followed, on an explicit stack.

    allOf = intersection    anyOf = union    not = complement    oneOf = disjoint sum
    if/then/else = (if and then) or (not if and else)            dependentSchemas = lacks the key or meets the schema

`numbering` numbers subschemas, `from_keywords` reads keywords of one type, `boolean` combines parts, `unevaluated` splits them into cases.

Emptiness is decided a few levels deep and otherwise taken to be false, which is safe: it only prunes.
What it leaves is removed by the engine, which knows which rules can generate text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from ...pda.budget import Budget
from ...pda.exceptions import LimitError
from ..dialect.keyword_values import Schema, schemas
from ..dialect.keywords import ALGEBRA, ANY_OF, ONE_OF, REFERENCE, TYPE, groups_of
from ..dialect.references import PLACE, Registry, Scope, referred
from ..errors import Inexact, Malformed, excess
from ..sets import arrays, objects
from ..sets.objects import Oracle, lacks
from ..sets.strings import Strings
from ..sets.types import ANYTHING, EVERY, FALSE, NEVER, NONE, TRUE, Conjunction, Literal, Object, Parts
from .boolean import Boolean
from .bounds import may_overlap, surely_inhabited, surely_not_universal, upper_bound
from .closing import declares, passes_on
from .from_keywords import Keywords, dependents
from .lists import Lists
from .numbering import Alternatives, Numbering, Together
from .towers import guards, levels, share_objects
from .unevaluated import Evaluated, Request, Steps, Unevaluated

DEEPEST_EMPTINESS: Final = 3
"""The levels of required members and items that a test of emptiness descends."""
_BESIDE_CONJUNCTIONS: Final = frozenset(
    ("anyOf", "oneOf", "not", "if", "dependentSchemas", "dependencies", "propertyNames", "unevaluatedItems", "unevaluatedProperties")
) | {"$dynamicRef", "$recursiveRef"}
"""The keywords besides `allOf` and `$ref` that ask for subschemas of the same place, or of its keys."""


class Algebra:
    """The normal forms of the subschemas of one compilation."""

    def __init__(self, registry: Registry, budget: Budget, *, formats: bool = True, strings: Strings | None = None) -> None:
        """`strings` are those of the compilation, where it has more than this algebra."""
        self.registry = registry
        self.budget = budget
        self.strings = strings = Strings(budget) if strings is None else strings
        self.numbering = Numbering(registry, strings, budget)
        self.results: dict[Request, Any] = {(False, TRUE): EVERY}
        self.complements: dict[Literal, Parts] = {TRUE: NONE}
        self.normals: dict[tuple[Conjunction, bool], Parts] = {(ANYTHING, True): EVERY, (ANYTHING, False): EVERY}
        self.emptiness: dict[Conjunction, bool] = {ANYTHING: False, NEVER: True}
        self.tested: dict[Conjunction, int] = {}
        """The level nearest the top at which a conjunction was not found to be empty."""
        self.small: dict[Literal, bool] = {}
        self.small_tests = 0
        """How many tests of that kind are within one another."""
        self.lists = lists = Lists(self.signed, budget)
        self.level = 0
        self.oracle = Oracle(
            self.is_empty,
            self.is_small,
            self.numbering.partition,
            self.numbering.holds,
            lists.extent,
            self.normal,
            lists.relation,
            budget,
        )
        self.boolean = Boolean(strings, self.oracle, budget, self.prunes)
        self.keywords = Keywords(self.numbering, self.boolean, self.writable, formats=formats)
        self.unevaluated = Unevaluated(self)

    def release(self) -> None:
        """Drop what refers back to this algebra, so that no garbage collection is needed; it answers nothing after that."""
        del self.oracle, self.boolean, self.keywords, self.unevaluated, self.lists

    def prunes(self) -> bool:
        """Whether products of unions are rid of empty parts: not below the levels that tests of emptiness look down to."""
        return self.level < DEEPEST_EMPTINESS

    # The normal form of a conjunction.

    def normal(self, conjunction: Conjunction) -> Parts:
        """The parts of a conjunction of literals."""
        key = (conjunction, self.level < DEEPEST_EMPTINESS)
        found = self.normals.get(key)
        if found is None:
            found = EVERY
            if conjunction == NEVER:
                found = NONE
            elif (telling := self.lists.telling(conjunction)) != conjunction:
                found = self.normal(telling)
            else:
                ordered = sorted(self.closed_once(conjunction) if self.registry.root.closing else conjunction, key=abs)
                # PERF: conditions on a member add one literal after the other, so all but the last are mostly known.
                known = (
                    self.normals.get((conjunction - {ordered[-1]}, key[1])) if len(ordered) > 2 and not self.registry.root.closing else None
                )
                if known is not None:
                    found = known
                    ordered = ordered[-1:]
                self.budget.spend(4 * len(ordered))
                for literal in ordered:
                    if found == NONE:
                        break
                    found = self.boolean.intersect(found, self.signed(literal))
            self.normals[key] = found
        return found

    def closed_once(self, conjunction: Conjunction) -> Conjunction:
        """The conjunction with one literal for all those that close undeclared keys: what one of them declares the others allow."""
        entries = self.numbering.entries
        closing = sorted(literal for literal in conjunction if literal > 0 and entries[literal][1].closing == PLACE)
        if len(closing) < 2:
            return conjunction
        return conjunction.difference(closing) | {self.numbering.together(closing)}

    def writable(self, conjunction: Conjunction) -> Parts:
        """The parts of a conjunction with counts that a grammar can hold; see `Keywords.countable`."""
        return self.keywords.countable(self.normal(conjunction))

    def signed(self, literal: Literal) -> Parts:
        """The parts of a literal or of a complement."""
        parts: Parts = self.evaluate((False, abs(literal)))
        return parts if literal > 0 else self.inverse(-literal, parts)

    def inverse(self, literal: Literal, parts: Parts) -> Parts:
        """The complement of the parts of a literal."""
        found = self.complements.get(literal)
        if found is None:
            found = self.complements[literal] = self.boolean.complement(parts)
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
                    arrays.prune(part, self.is_empty) and self.boolean.has_items(part) for part in parts.arrays
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
        schema, scope = self.numbering.entries[abs(literal)]
        return surely_inhabited(self.registry, schema, scope) if literal > 0 else surely_not_universal(self.registry, schema, scope)

    def is_small(self, literal: Literal) -> bool:
        """Whether a literal and its complement are about constants, numbers and strings, or whole types."""
        found = self.small.get(literal)
        if found is None:
            # The complement may ask the same of subschemas of members, or of this one where it is recursive.
            if self.small_tests >= DEEPEST_EMPTINESS:
                return False
            self.small_tests += 1
            try:
                self.small[literal] = False
                found = all(
                    part.arrays in ((), (arrays.FREE,)) and part.objects in ((), (objects.FREE,)) and len(part.texts) < 4
                    for part in (self.signed(literal), self.signed(-literal))
                )
            finally:
                self.small_tests -= 1
                del self.small[literal]
            self.small[literal] = found
        return found

    # Subschemas that apply to the same place.

    def evaluate(self, request: Request) -> Any:
        """The parts of a subschema, or its cases.

        A trampoline, so that schemas nested deep cost no Python stack: each subschema is a generator that yields the requests whose answers
        it needs. The topmost generator of an explicit stack runs until it asks for something unknown, whose generator is put on top,
        or until it returns, and its answer is sent to the one below. A request that is on the stack already refers to itself.
        """
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
            except LimitError as error:
                raise excess(error, self.numbering.entries[current[1]][0]) from None
            except StopIteration as stop:
                answer = self.results[current] = stop.value
                stack.pop()
                active.discard(current)
                continue
            answer = self.results.get(wanted)
            if answer is None:
                if wanted in active and self.only_conjunctions([request for request, _ in stack], wanted):
                    # S = S and P has no least solution but the empty one: no evaluation that ends finds an instance valid.
                    answer = NONE
                    continue
                if wanted in active:
                    for (_, literal), _ in stack:
                        schema = self.numbering.entries[literal][0]
                        if isinstance(schema, dict) and "propertyNames" in schema:
                            raise Inexact(schema, "propertyNames", "a schema of names that contains its own parent is not supported")
                    schema = self.numbering.entries[wanted[1]][0]
                    raise Malformed(schema, "", "refers to itself without going down into the instance, so it says nothing")
                stack.append((wanted, self.steps(wanted)))
                active.add(wanted)
                self.budget.spend(8)
        return answer

    def only_conjunctions(self, requests: Sequence[Request], wanted: Request) -> bool:
        """Whether each of the requests since the one that is wanted again asks for the next by `allOf` or a plain reference."""
        circle = requests[requests.index(wanted) :]
        schemas_of = [self.numbering.entries[literal][0] for _, literal in circle]
        return not any(cases for cases, _ in circle) and all(
            schema.__class__ is dict and _BESIDE_CONJUNCTIONS.isdisjoint(schema) for schema in schemas_of
        )

    def steps(self, request: Request) -> Steps:
        """The generator that works a request out."""
        cases, literal = request
        schema, scope = self.numbering.entries[literal]
        if isinstance(schema, Alternatives):
            return self.alternatives(schema, cases)
        if isinstance(schema, Together):
            return self.unevaluated.together(schema.literals, cases=cases)
        if cases:
            return self.unevaluated.cases(schema, scope)
        scope = self.registry.enter(scope, schema)
        if "unevaluatedProperties" in schema or "unevaluatedItems" in schema:
            keyword_groups = scope.resource.dialect.keywords
            if "unevaluatedProperties" in keyword_groups or "unevaluatedItems" in keyword_groups:
                return self.of_cases(literal)
        if scope.closing == PLACE and not passes_on(schema, scope.resource.dialect) and declares(self.registry, schema, scope):
            return self.of_cases(literal)
        return self.parts(schema, scope)

    def alternatives(self, schema: Alternatives, cases: bool) -> Steps:
        """The union of some literals."""
        branches = []
        for literal in schema.literals:
            parts = yield False, abs(literal)
            branches.append(parts if literal > 0 else self.inverse(-literal, parts))
        union = self.boolean.union(branches)
        return [(union, Evaluated())] if cases else union

    def of_cases(self, literal: Literal) -> Steps:
        """The parts of a schema whose cases matter to itself."""
        cases = yield True, literal
        return self.boolean.union([parts for parts, _ in cases]) if cases else NONE

    def branch(self, schema: Any, scope: Scope) -> Steps:
        """The parts of a subschema that applies to the same place, and its literal."""
        literal = self.numbering.literal(schema, scope)
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
        if not passes_on(schema, scope.resource.dialect):
            scope = scope.piece
        yield from self.names_of_properties(schema, scope, keyword_groups)
        result = self.keywords.local(schema, scope, groups)
        for target, within in referred(self.registry, schema, scope):
            parts, _ = yield from self.branch(target, within)
            result = self.boolean.intersect(result, parts)
        if groups & ALGEBRA and "allOf" in schema:
            branches = []
            for subschema in schemas(schema, "allOf"):
                parts, _ = yield from self.branch(subschema, scope)
                branches.append(parts)
            result = self.boolean.intersect_all(result, branches)
        if groups & ANY_OF:
            found = []
            for subschema in schemas(schema, "anyOf"):
                parts, _ = yield from self.branch(subschema, scope)
                found.append(parts)
            result = self.boolean.intersect(result, self.boolean.union(found))
        if groups & ONE_OF:
            exclusive = yield from self.one_of(schema, scope)
            if scope.closing:
                for index, subschema in enumerate(schemas(schema, "oneOf")):
                    parts, _ = yield from self.branch(subschema, scope)
                    exclusive[index] = self.boolean.intersect(exclusive[index], parts)
            result = self.boolean.intersect(result, self.boolean.union(exclusive))
        if groups & ALGEBRA:
            if "not" in schema:
                parts, literal = yield from self.branch(schema["not"], scope.test)
                result = self.boolean.intersect(result, self.inverted(literal, parts))
            if "if" in schema and "if" in keyword_groups and ("then" in schema or "else" in schema):
                conditional = yield from self.tower(schema, scope)
                result = self.boolean.intersect(result, conditional)
            for name, subschema in dependents(schema, keyword_groups):
                parts, _ = yield from self.branch(subschema, scope)
                absent = EVERY._replace(objects=(Object(atoms=(lacks(name),)),))
                result = self.boolean.intersect(result, self.boolean.union([absent, parts]))
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

    def tower(self, schema: Schema, scope: Scope) -> Steps:
        """The parts of if/then/else, and of those that `else` consists of."""
        tests, innermost = levels(schema)
        found: list[tuple[Parts, Parts, Parts]] = []
        for level in tests:
            test, literal = yield from self.branch(level["if"], scope.test)
            then, _ = yield from self.branch(level.get("then", True), scope)
            found.append((test, self.inverted(literal, test), then))
        otherwise, _ = yield from self.branch(innermost, scope)
        last = self.boolean.conditional(*found.pop(), otherwise)
        if not found:
            return last
        overlaps = share_objects(self.registry, tests[:-1], scope.test, self.budget)
        outside_before = guards(self.boolean, [test for test, _, _ in found], [outside for _, outside, _ in found], overlaps)
        branches = [*(self.boolean.intersect(test, then) for test, _, then in found), last]
        return self.boolean.union([self.boolean.intersect(*both) for both in zip(outside_before, branches, strict=True)])

    def one_of(self, schema: Schema, scope: Scope) -> Steps:
        """For every branch of oneOf the values in it alone, as the specification says: closed branches would exclude less."""
        scope = scope.test
        subschemas = schemas(schema, "oneOf")
        keyword_groups = scope.resource.dialect.keywords
        # A type beside oneOf spares the complements of other types.
        kinds = self.keywords.local(schema, scope, TYPE) if "type" in schema and "type" in keyword_groups else EVERY
        branches: list[tuple[Parts, Callable[[], Parts]]] = []
        for subschema in subschemas:
            parts, literal = yield from self.branch(subschema, scope)
            inverse = lambda literal=literal, parts=parts: self.inverted(literal, parts)  # noqa: E731
            branches.append((self.boolean.intersect(kinds, parts), inverse))

        def pairs(places: Sequence[int], of: int) -> Iterator[tuple[int, int]]:
            """The places of branches that may share values of some types, given as bits."""
            bounds = [upper_bound(self.registry, subschemas[place], scope) for place in places]
            bounds = [bound._replace(types=bound.types & of) if bound.types & ~of else bound for bound in bounds]
            return ((places[i], places[j]) for i, j in may_overlap(bounds, self.budget))

        return self.boolean.exactly_one(branches, pairs)
