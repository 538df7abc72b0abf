"""A value against a schema, keyword by keyword, for sentences about what does not fit.

It reads all keywords of all drafts by the registry's references, independently of the grammars, and follows JSON Schema 2020-12, core
and validation. It is for one value of one text: where a schema takes more than MOST_STEPS subschemas, or nests deeper than DEEPEST, it
gives up, and a refusal is explained by its bytes alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from ...pda.automata.language import accepts
from ...pda.budget import Budget
from ...pda.exceptions import StackmaskError
from ...pda.regex import split_length
from ..algebra.closing import declares, passes_on
from ..dialect.dialects import Dialect
from ..dialect.keyword_values import Schema, item_schemas, pointer_token, same_value, types
from ..dialect.pointers import find
from ..dialect.references import PLACE, Registry, Scope
from ..formats import format_accepts, is_known
from ..sets.numbers import exact
from ..sets.strings import pattern_dfa
from .problems import Path, Problem, listed, not_of_type, not_one_of, written

MOST_STEPS: Final = 50_000
DEEPEST: Final = 60


class GivenUpError(Exception):
    """The schema takes too long to evaluate, or holds what only a compilation reads."""


@dataclass(slots=True)
class Verdict:
    """The result of a subschema for a value: the problems, and the members and items that it evaluated."""

    problems: list[Problem] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    items: set[int] = field(default_factory=set)

    def add(self, other: Verdict) -> None:
        """Take in what another subschema says of the same value."""
        self.problems += other.problems
        self.names |= other.names
        self.items |= other.items


class Evaluator:
    """Evaluates values against one schema."""

    def __init__(self, registry: Registry, *, formats: bool = True) -> None:
        self._registry = registry
        self._formats = formats
        self._root = registry.root.resource.root
        self._places: dict[int, str] = {}
        self._steps = 0
        self._budget = Budget(None)

    def problems(self, value: Any) -> list[Problem]:
        """The reasons why a value is no instance, in the order of the schema; GivenUpError if that takes too long."""
        self._steps = 0
        try:
            return self._evaluate(self._root, self._registry.root, "", value, (), 0).problems
        except (StackmaskError, RecursionError, ValueError, TypeError, ArithmeticError) as error:
            raise GivenUpError from error

    def _evaluate(self, schema: Any, scope: Scope, pointer: str, value: Any, path: Path, depth: int) -> Verdict:
        self._steps += 1
        if self._steps > MOST_STEPS or depth > DEEPEST:
            raise GivenUpError
        verdict = Verdict()
        if isinstance(schema, bool):
            if not schema:
                verdict.problems.append(Problem(path, pointer, " is not allowed"))
            return verdict
        scope = self._registry.enter(scope, schema)
        dialect = scope.resource.dialect
        closes = isinstance(value, Mapping) and scope.closing == PLACE and not passes_on(schema, dialect)
        closes = closes and "unevaluatedProperties" not in schema and declares(self._registry, schema, scope)
        inner = scope.piece if closes else scope
        place = _Place(self, schema, inner, pointer, value, path, depth, verdict)
        if "$ref" in schema and dialect.lone_reference:
            place.references()
            return verdict
        place.references()
        place.same_place()
        place.assertions()
        if isinstance(value, Mapping):
            place.members()
        elif isinstance(value, list):
            place.elements()
        if closes:
            for name in value:
                if name not in verdict.names:
                    declared = f"{pointer}/properties" if "properties" in schema else pointer
                    verdict.problems.append(Problem((*path, name), declared, " is not declared, and objects are closed"))
        return verdict

    def place_of(self, target: Any, reference: Any) -> str:
        """The pointer of a reference's target; one in another document begins with its URI."""
        if not isinstance(target, Mapping):
            return str(reference).partition("#")[2]
        found = self._places.get(id(target))
        if found is None:
            for name, document in (("", self._root), *self._registry.documents.items()):
                place = find(target, document)
                if place is not None:
                    found = f"{name}#{place}" if name else place
                    break
            else:
                found = str(reference)
            self._places[id(target)] = found
        return found

    def matches(self, pattern: str, text: str) -> bool:
        """Whether a pattern finds a match in a text."""
        split = split_length(pattern, search=True)
        if split is None:
            return accepts(pattern_dfa(pattern, self._budget), text)
        within = split.minimum <= len(text) and (split.maximum < 0 or len(text) <= split.maximum)
        return within and all(self.matches(part, text) for part in split.patterns)

    @property
    def formats(self) -> bool:
        """Whether formats are enforced."""
        return self._formats


@dataclass(slots=True)
class _Place:
    """One subschema at one value; each method adds to the verdict."""

    evaluator: Evaluator
    schema: Schema
    scope: Scope
    pointer: str
    value: Any
    path: Path
    depth: int
    verdict: Verdict

    @property
    def dialect(self) -> Dialect:
        """The draft that the subschema is written in."""
        return self.scope.resource.dialect

    def get(self, keyword: str) -> Any:
        """The value of a keyword, None where it is absent or not in force."""
        return self.schema.get(keyword) if keyword in self.dialect.keywords else None

    def has(self, keyword: str) -> bool:
        """Whether a keyword is there and in force."""
        return keyword in self.schema and keyword in self.dialect.keywords

    def refuse(self, keyword: str, said: str, *below: str | int, wanted: Sequence[Any] = ()) -> None:
        """Note a problem of the value, or of what lies below it."""
        self.verdict.problems.append(Problem((*self.path, *below), f"{self.pointer}/{pointer_token(keyword)}", said, tuple(wanted)))

    def here(self, schema: Any, *steps: str | int, scope: Scope | None = None) -> Verdict:
        """The result of another subschema for the same value."""
        pointer = self.pointer + "".join(f"/{pointer_token(step)}" for step in steps)
        return self.evaluator._evaluate(schema, scope or self.scope, pointer, self.value, self.path, self.depth + 1)

    def below(self, schema: Any, value: Any, step: str | int, *steps: str | int) -> Verdict:
        """The result of a subschema for a member or an item."""
        pointer = self.pointer + "".join(f"/{pointer_token(step)}" for step in steps)
        return self.evaluator._evaluate(schema, self.scope.place, pointer, value, (*self.path, step), self.depth + 1)

    def references(self) -> None:
        """`$ref` and its relatives."""
        registry = self.evaluator._registry
        for keyword, resolve in (
            ("$ref", registry.resolve),
            ("$dynamicRef", registry.resolve_dynamic),
            ("$recursiveRef", registry.resolve_recursive),
        ):
            if self.has(keyword):
                target, scope = resolve(self.scope, self.schema[keyword], schema=self.schema)
                pointer = self.evaluator.place_of(target, self.schema[keyword])
                self.verdict.add(self.evaluator._evaluate(target, scope, pointer, self.value, self.path, self.depth + 1))

    def same_place(self) -> None:
        """Subschemas of the same value."""
        for index, branch in enumerate(self.get("allOf") or ()):
            self.verdict.add(self.here(branch, "allOf", index))
        if self.has("anyOf"):
            found = [self.here(branch, "anyOf", index) for index, branch in enumerate(self.schema["anyOf"])]
            fitting = [verdict for verdict in found if not verdict.problems]
            for verdict in fitting:
                self.verdict.add(verdict)
            if not fitting:
                self.nearest("anyOf", found)
        if self.has("oneOf"):
            found = [self.here(branch, "oneOf", index, scope=None) for index, branch in enumerate(self.schema["oneOf"])]
            fitting = [verdict for verdict in found if not verdict.problems]
            if len(fitting) == 1:
                self.verdict.add(fitting[0])
            elif fitting:
                which = " and ".join(f"{self.pointer}/oneOf/{index}" for index, verdict in enumerate(found) if not verdict.problems)
                self.refuse("oneOf", f": {written(self.value)} fits {which}, and may fit only one")
            else:
                self.nearest("oneOf", found)
        if self.has("not") and not self.here(self.schema["not"], "not", scope=self.scope.test).problems:
            self.refuse("not", f": {written(self.value)} is excluded by `not`")
        if self.has("if"):
            condition = self.here(self.schema["if"], "if", scope=self.scope.test)
            if not condition.problems:
                self.verdict.add(condition)
            keyword = "else" if condition.problems else "then"
            if self.has(keyword):
                self.verdict.add(self.here(self.schema[keyword], keyword))

    def nearest(self, keyword: str, found: list[Verdict]) -> None:
        """Note the problems of the alternative that the value was probably meant for: the one whose first problem lies deepest."""
        if not found:
            return
        best = min(found, key=lambda verdict: (-max(len(p.path) for p in verdict.problems), _is_type(verdict), len(verdict.problems)))
        first = best.problems[0]
        if _is_type(best) and len(found) > 1 and self.united(keyword, found, first):
            return
        if len(first.path) > len(self.path) or len(found) == 1 or not all(_is_type(verdict) for verdict in found):
            self.verdict.problems += best.problems
            return
        self.refuse(keyword, f": {written(self.value)} fits none of {len(found)} alternatives")

    def united(self, keyword: str, found: list[Verdict], first: Problem) -> bool:
        """Note what all alternatives want in one place, where they differ in their type there or in fixed values, as by a discriminator."""
        alike = [verdict.problems[0] for verdict in found if _is_type(verdict) and verdict.problems[0].path == first.path]
        value: Any = self.value
        for step in first.path[len(self.path) :]:
            value = value[step]
        if len(alike) < len(found) or len({problem.keyword == "type" for problem in alike}) > 1:
            return False
        wanted = list({repr(other): other for problem in alike for other in problem.wanted}.values())
        said = not_of_type(value, wanted) if first.keyword == "type" else not_one_of(value, wanted)
        self.refuse(keyword, said, *first.path[len(self.path) :])
        return True

    def assertions(self) -> None:
        """Keywords that look at the value alone."""
        value = self.value
        if self.has("type"):
            kinds = types(self.schema)
            if not any(_is(value, kind) for kind in kinds):
                self.refuse("type", not_of_type(value, kinds), wanted=kinds)
        if self.has("const") and same_value(self.schema["const"]) != same_value(value):
            self.refuse("const", not_one_of(value, [self.schema["const"]]), wanted=[self.schema["const"]])
        if self.has("enum"):
            values = self.schema["enum"]
            if same_value(value) not in {same_value(other) for other in values}:
                self.refuse("enum", not_one_of(value, values), wanted=values)
        if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            self.number()
        elif isinstance(value, str):
            self.string()

    def number(self) -> None:
        """Bounds and steps."""
        value, shown = exact(self.value), written(self.value)
        for low, open_low, sign, words in (
            ("minimum", "exclusiveMinimum", 1, ("less than", "not more than")),
            ("maximum", "exclusiveMaximum", -1, ("more than", "not less than")),
        ):
            bound = self.get(low)
            if _is_number(bound):
                strict = self.schema.get(open_low) is True
                difference = sign * (value - exact(bound))
                if difference < 0 or (strict and not difference):
                    self.refuse(low, f": {shown} is {words[strict]} {written(bound)}")
            bound = self.get(open_low)
            if _is_number(bound) and sign * (value - exact(bound)) <= 0:
                self.refuse(open_low, f": {shown} is {words[1]} {written(bound)}")
        step = self.get("multipleOf")
        if _is_number(step) and value % exact(step):
            self.refuse("multipleOf", f": {shown} is not a multiple of {written(step)}")

    def string(self) -> None:
        """Lengths, patterns and formats."""
        value, shown = self.value, written(self.value)
        self.count("minLength", "maxLength", len(value), f"{shown} has", "character")
        pattern = self.get("pattern")
        if pattern is not None and not self.evaluator.matches(pattern, value):
            self.refuse("pattern", f": {shown} does not match {pattern}")
        name = self.get("format")
        if name is not None and self.evaluator.formats and is_known(name) and not format_accepts(name, value):
            self.refuse("format", f": {shown} is not a valid {name}")

    def count(self, least: str, most: str, number: int, subject: str, unit: str) -> None:
        """Compare a count with its two bounds."""
        low, high = self.get(least), self.get(most)
        counted = f"{subject} {number} {unit}{'' if number == 1 else 's'}"
        if _is_number(low) and number < low:
            self.refuse(least, f": {counted}, fewer than {written(low)}")
        if _is_number(high) and number > high:
            self.refuse(most, f": {counted}, more than {written(high)}")

    def members(self) -> None:
        """Keywords of objects."""
        value: Mapping[str, Any] = self.value
        self.count("minProperties", "maxProperties", len(value), "the object has", "member")
        for name in self.get("required") or () if not isinstance(self.get("required"), bool) else ():
            if name not in value:
                self.refuse("required", " is required", name)
        declared: Mapping[str, Any] = self.get("properties") or {}
        patterns: Mapping[str, Any] = self.get("patternProperties") or {}
        looked = set()
        for name, schema in declared.items():
            if name in value:
                looked.add(name)
                self.verdict.problems += self.below(schema, value[name], name, "properties", name).problems
        for pattern, schema in patterns.items():
            for name in value:
                if self.evaluator.matches(pattern, name):
                    looked.add(name)
                    self.verdict.problems += self.below(schema, value[name], name, "patternProperties", pattern).problems
        if self.has("additionalProperties"):
            self.others("additionalProperties", [name for name in value if name not in looked], [*declared])
            looked.update(value)
        if self.has("propertyNames"):
            for name in value:
                found = self.below(self.schema["propertyNames"], name, name, "propertyNames")
                self.verdict.problems += [
                    Problem(p.path, p.pointer, f": the key{p.said.removeprefix(':')}", p.wanted) for p in found.problems
                ]
        for keyword in ("dependentRequired", "dependentSchemas", "dependencies"):
            for name, needed in (self.get(keyword) or {}).items():
                if name not in value:
                    continue
                if isinstance(needed, list | tuple | str):
                    for other in [needed] if isinstance(needed, str) else needed:
                        if other not in value:
                            self.refuse(f"{keyword}", f" is required together with {written(name)}", other)
                else:
                    self.verdict.add(self.here(needed, keyword, name))
        self.verdict.names |= looked
        if self.has("unevaluatedProperties"):
            self.others("unevaluatedProperties", [name for name in value if name not in self.verdict.names], [*declared])
            self.verdict.names.update(value)

    def others(self, keyword: str, names: list[str], declared: list[str]) -> None:
        """Members that nothing else speaks of."""
        schema = self.schema[keyword]
        for name in names:
            if schema is False:
                self.refuse(keyword, f" is not allowed; declared are {listed(declared)}" if declared else " is not allowed", name)
            else:
                self.verdict.problems += self.below(schema, self.value[name], name, keyword).problems

    def elements(self) -> None:
        """Keywords of arrays."""
        value: list[Any] = self.value
        self.count("minItems", "maxItems", len(value), "the array has", "item")
        first, rest = item_schemas(self.schema, self.dialect.keywords)
        is_list = isinstance(self.schema.get("items"), list | tuple)
        for index, (item, schema) in enumerate(zip(value, first, strict=False)):
            steps = ("items" if is_list else "prefixItems", index)
            self.verdict.problems += self.below(schema, item, index, *steps).problems
            self.verdict.items.add(index)
        keyword = "additionalItems" if is_list else "items"
        if keyword in self.schema:
            self.rest(keyword, rest, range(len(first), len(value)))
            self.verdict.items.update(range(len(value)))
        if self.get("uniqueItems") is True:
            seen: dict[object, int] = {}
            for index, item in enumerate(value):
                before = seen.setdefault(same_value(item), index)
                if before != index:
                    self.refuse("uniqueItems", f": {written(item)} repeats item {before}", index)
        if self.has("contains"):
            self.contains()
        if self.has("unevaluatedItems"):
            left = [index for index in range(len(value)) if index not in self.verdict.items]
            self.rest("unevaluatedItems", self.schema["unevaluatedItems"], left)
            self.verdict.items.update(range(len(value)))

    def rest(self, keyword: str, schema: Any, indices: Any) -> None:
        """Items that nothing else speaks of."""
        for index in indices:
            if schema is False:
                self.refuse(keyword, " is one item too many", index)
            else:
                self.verdict.problems += self.below(schema, self.value[index], index, keyword).problems

    def contains(self) -> None:
        """The number of items that fit `contains`."""
        scope = self.scope.test.place
        found = {
            index
            for index, item in enumerate(self.value)
            if not self.evaluator._evaluate(
                self.schema["contains"], scope, f"{self.pointer}/contains", item, (*self.path, index), self.depth + 1
            ).problems
        }
        if self.dialect.name == "2020-12":
            self.verdict.items |= found
        least, most = self.get("minContains"), self.get("maxContains")
        low = 1 if least is None else least
        fit = f"{len(found)} item{'' if len(found) == 1 else 's'} of the array {'fits' if len(found) == 1 else 'fit'} contains"
        if len(found) < low:
            if least is None:
                self.refuse("contains", ": no item fits")
            else:
                self.refuse("minContains", f": {fit}, fewer than {written(least)}")
        if most is not None and len(found) > most:
            self.refuse("maxContains", f": {fit}, more than {written(most)}")


def _is(value: Any, kind: str) -> bool:
    """Whether a value has a type of JSON Schema: 1.0 is an integer."""
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, Mapping)
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return is_number and (kind == "number" or exact(value).denominator == 1)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _is_type(verdict: Verdict) -> bool:
    """Whether the first problem is one of the type or of a fixed value, so that nothing says that this alternative was meant."""
    return verdict.problems[0].keyword in ("type", "enum", "const")
