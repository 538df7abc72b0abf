"""Keywords that concern one type each, or list values, as typed parts; subschemas inside them become literals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from ...pda.exceptions import SchemaError
from ...pda.regex import split_length
from ..dialect.keyword_values import (  # fmt: skip
    LISTS,
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
    text,
    too_many,
    types,
)
from ..dialect.keywords import (  # fmt: skip
    ARRAY,
    NUMBER,
    OBJECT,
    STRING,
    VALUES,
)
from ..dialect.references import Scope
from ..errors import Malformed
from ..formats import format_longest, is_known
from ..sets import arrays, objects
from ..sets.numbers import INTEGERS, NUMBERS, NumberSet
from ..sets.objects import lacks, plain, requires
from ..sets.strings import FREE as FREE_TEXT
from ..sets.strings import Strings, Texts
from ..sets.types import (  # fmt: skip
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
from .boolean import Boolean
from .numbering import Numbering


class Keywords:
    """The keywords of the subschemas of one compilation, read into parts."""

    def __init__(self, numbering: Numbering, boolean: Boolean, writable: Callable[[Conjunction], Parts], *, formats: bool) -> None:
        """`writable` gives the parts of a conjunction, for `propertyNames`."""
        self.numbering = numbering
        self.boolean = boolean
        self.strings = numbering.strings
        self.oracle = boolean.oracle
        self.writable = writable
        self.formats = formats
        self.large: dict[int, tuple[Schema, str]] = {}
        """Lower bounds that no text reaches, those of complements too, with the subschema and the keyword."""
        self.unique: list[Schema] = []
        """The subschemas with uniqueItems, for the error where one would have to be negated."""

    def local(self, schema: Schema, scope: Scope, groups: int) -> Parts:
        """The parts of the keywords that concern one type each, or list values."""
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
            low, high = self.bounds(schema, "minLength", "maxLength")
            part = self.strings.reduced(text_part(schema, keyword_groups, low, high, self.strings, formats=self.formats))
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
                if not isinstance(values, LISTS):
                    raise Malformed(schema, "enum", "must be an array")
                result = self.boolean.intersect(result, self.of_values(values))
            if "const" in schema and "const" in keyword_groups:
                result = self.boolean.intersect(result, self.of_values([schema["const"]]))
        return result

    def bounds(self, schema: Schema, lowest: str, highest: str, *, default: int = 0) -> tuple[int, int]:
        """Two counts, exact however large, since a complement turns one into the other; `default` and -1 where they are absent."""
        low, high = count(schema, lowest, default), count(schema, highest, -1)
        if low > MOST_COUNTED:
            self.large.setdefault(low, (schema, lowest))
        if high >= MOST_COUNTED:
            self.large.setdefault(high + 1, (schema, highest))
        return low, high

    def countable(self, parts: Parts) -> Parts:
        """The parts with counts that a grammar can hold.

        No text has more than MOST_COUNTED characters, items or members, so a larger upper bound is no bound, and what its complement allows
        is left out.
        Raise Inexact for a larger lower bound, and where nothing else is left: such values exist, but none can be written.
        """
        if not self.large:
            return parts
        least = [
            *(part.low for part in parts.texts),
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

    def array_part(self, schema: Schema, scope: Scope, keyword_groups: Mapping[str, int]) -> Array:
        """The part of the array keywords."""
        low, high = self.bounds(schema, "minItems", "maxItems")
        place = scope.place
        first, others = item_schemas(schema, keyword_groups)
        prefix = tuple(reduced(frozenset((self.numbering.literal(item, place),))) for item in first)
        rest = reduced(frozenset((self.numbering.literal(others, place),)))
        counts: tuple[Count, ...] = ()
        if "contains" in schema and "contains" in keyword_groups:
            least, most = self.bounds(schema, "minContains", "maxContains", default=1) if "minContains" in keyword_groups else (1, -1)
            if least > 0 or most >= 0:
                counts = (Count(self.numbering.literal(schema["contains"], scope.test), 0, least, most),)
        distinct = flag(schema, "uniqueItems")
        if distinct:
            self.unique.append(schema)
        return Array(prefix, rest, low, high, counts, int(distinct))

    def object_part(self, schema: Schema, scope: Scope, keyword_groups: Mapping[str, int]) -> Object:
        """The part of the object keywords."""
        low, high = self.bounds(schema, "minProperties", "maxProperties")
        scope = scope.place
        properties = mapping(schema, "properties")
        required = names(schema, "required", schema["required"]) if "required" in schema else ()
        atoms: list[Atom] = []
        for name, subschema in properties.items():
            literal = self.numbering.literal(subschema, scope)
            if literal != TRUE:
                atoms.append(plain(name, literal))
        languages: list[int] = []
        for language, literal in self.languages_of_keys(schema, scope):
            languages.append(language)
            if literal != TRUE:
                atoms.append(Atom(True, Keys(False, frozenset(), frozenset((language,))), literal))
        literal = self.numbering.literal(schema.get("additionalProperties", True), scope)
        if literal != TRUE:
            atoms.append(Atom(True, Keys(True, frozenset(properties), frozenset(languages)), literal))
        if "propertyNames" in schema and "propertyNames" in keyword_groups:
            literal = self.numbering.literal(schema["propertyNames"], scope)
            texts = self.writable(reduced(frozenset((literal, self.numbering.of_type("string"))))).texts
            if texts != (FREE_TEXT,):
                keys = Keys(True, frozenset(), frozenset((self.numbering.language(texts),))) if texts else Keys(True, frozenset())
                atoms.append(Atom(True, keys, FALSE))
        atoms.extend(map(requires, required))
        clauses = []
        for keyword in ("dependentRequired", "dependencies"):
            if keyword in schema and keyword in keyword_groups:
                for name, value in mapping(schema, keyword).items():
                    if keyword == "dependentRequired" or isinstance(value, LISTS):
                        clauses += [(lacks(name), requires(other)) for other in names(schema, keyword, value) if other != name]
        # Keys that are only required have no place of their own: another subschema may declare them.
        return Object(tuple(properties), tuple(dict.fromkeys(atoms)), tuple(clauses), low, high)

    def languages_of_keys(self, schema: Schema, place: Scope) -> list[tuple[int, Literal]]:
        """The languages of patternProperties, each with the literal of the values of its keys.

        Patterns with the same subschema are one language. With one for each, n patterns that match anywhere cut the keys into 2 ** n sets.
        """
        patterns: dict[Literal, list[Text]] = {}
        for pattern, subschema in mapping(schema, "patternProperties").items():
            self.strings.sources.setdefault(("pattern", pattern), (schema, "patternProperties", f"/{pointer_token(pattern)}"))
            patterns.setdefault(self.numbering.literal(subschema, place), []).append(Text(tests=frozenset({("pattern", pattern, True)})))
        return [(self.numbering.language(tuple(texts)), literal) for literal, texts in patterns.items()]

    def of_values(self, values: Sequence[object]) -> Parts:
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
            elif isinstance(value, LISTS):
                items = tuple(frozenset((self.numbering.constant(item),)) for item in value)
                array_parts.append(Array(items, NEVER, len(items), len(items)))
            elif isinstance(value, Mapping):
                atoms = [atom for name, item in value.items() for atom in (requires(name), plain(name, self.numbering.constant(item)))]
                atoms.append(Atom(True, Keys(True, frozenset(value)), FALSE))
                object_parts.append(Object(tuple(value), tuple(atoms)))
            elif isinstance(value, int | float | Decimal):
                numerals.append(value)
            else:
                raise SchemaError(f"a {type(value).__name__} is not a JSON value")
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


def text_part(schema: Schema, keyword_groups: Mapping[str, int], low: int, high: int, strings: Strings, *, formats: bool) -> Text:
    """The part of the string keywords: strings of `low` to `high` characters, with the pattern and, if `formats` count, the format."""
    tests: set[tuple[str, object, bool]] = set()
    if "pattern" in schema:
        patterns = [text(schema, "pattern")]
        for pattern in patterns:
            strings.sources.setdefault(("pattern", pattern), (schema, "pattern", ""))
            split = split_length(pattern, search=True, limits=strings.budget.limits)
            if split is None:
                tests.add(("pattern", pattern, True))
                continue
            low, high = max(low, split.minimum), high_bound(high, split.maximum)
            patterns += split.patterns
    if formats and "format" in schema and "format" in keyword_groups:
        name = text(schema, "format")
        if is_known(name):
            strings.sources.setdefault(("format", name), (schema, "format", ""))
            tests.add(("format", name, True))
            high = high_bound(high, format_longest(name))
    return Text(low, high, frozenset(tests))


def dependents(schema: Schema, keyword_groups: Mapping[str, int]) -> list[tuple[str, Any]]:
    """The schemas that apply when a key is there."""
    found: list[tuple[str, Any]] = []
    for keyword in ("dependentSchemas", "dependencies"):
        if keyword in schema and keyword in keyword_groups:
            for name, value in mapping(schema, keyword).items():
                if keyword == "dependentSchemas" or not isinstance(value, LISTS):
                    found.append((name, value))
    return found


def required_names(schema: Schema, keyword_groups: Mapping[str, int]) -> Iterator[str]:
    """The keys that a subschema requires, always or beside others."""
    if "required" in schema and "required" in keyword_groups:
        yield from names(schema, "required", schema["required"])
    for keyword in ("dependentRequired", "dependencies"):
        if keyword in schema and keyword in keyword_groups:
            for value in mapping(schema, keyword).values():
                if isinstance(value, LISTS):
                    yield from names(schema, keyword, value)


def _countable(high: int) -> int:
    """An upper bound; -1 if there is none, or if it is above all counts."""
    return high if high <= MOST_COUNTED else -1
