"""Upper and lower bounds on the values of a subschema, by a few looks and without its normal form.

Most members and items are so plain that nothing else asks for their normal form, and most branches of a `oneOf` say by a type, a constant,
a member or an item that only they have which branch they are for. Two kinds of questions are answered:

    upper bound    every value is among these: types, listed values, members that objects have, items, beginnings of strings. Necessary,
                   never sufficient.
                   So two subschemas are `surely_disjoint`, but never surely overlapping.
    lower bound    some value is there. Sufficient, never necessary.
                   So a subschema is `surely_inhabited`, `surely_not_universal`, `surely_many` or `surely_endless`, but never surely empty.

Where a function answers False, nothing is known.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import combinations, islice
from typing import Any, Final, NamedTuple

from ...pda.budget import Budget
from ..dialect.keyword_values import LISTS, TYPES, Schema, same_value, types
from ..dialect.keywords import ANY_OF, BEYOND_LOCAL, LOCAL, OBJECT, REFERENCE, TYPE, VALUES, groups_of
from ..dialect.references import Registry, Scope, referred

TYPE_BITS: Final[Mapping[str, int]] = {
    "null": 1, "boolean": 2, "integer": 4, "number": 12, "string": 16, "array": 32, "object": 64,
}  # fmt: skip
STRINGS: Final = TYPE_BITS["string"]
ARRAYS: Final = TYPE_BITS["array"]
OBJECTS: Final = TYPE_BITS["object"]
_LISTED, _OF_MEMBER, _OF_ITEM = range(3)
"""Where the values of a subschema are listed: it lists them itself, or those of a member of its objects or of an item of its arrays."""
ALL_TYPES: Final = 127
_MOST_LOOKS: Final = 16
_MOST_VALUES: Final = 64
_FEW_COMPARED: Final = 8
"""So few branches are compared with each other, whatever values they list."""
_MOST_COMPARED: Final = 2048
"""The most pairs of branches that are compared before a union is left to the algebra."""

Values = frozenset[object]
STEPS: Final = 4
"""The most references, members and items that are followed, one inside the other."""
_MOST_TRIED: Final = 16
"""The most branches, values and required members that are looked at."""
_BOUNDS: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_HALVES: Final = (
    frozenset({"minimum", "exclusiveMinimum"}),
    frozenset({"maximum", "exclusiveMaximum"}),
    frozenset({"multipleOf"}),
)
_PLAIN_MEMBERS: Final = frozenset({"properties", "required", "additionalProperties"})
_TEXT: Final = ("minLength", "maxLength", "pattern", "format")


# Upper bounds.

_NO_ITEMS: Final[Mapping[int, Values]] = {}
_NO_BEGINNINGS: Final[Mapping[str | None, str]] = {}
_BEGINNING: Final = re.compile(r"\^((?:[^\\.\[\](){}*+?|^$]|\\[^0-9A-Za-z])+)([*?{]?)")
"""What a pattern begins with before anything but itself is meant, and a sign behind it by which its last character may be missing."""


_ATOMS: Final = re.compile(r"\\.|\[(?:[^\\\]]|\\.)*\]", re.DOTALL)
"""Escapes and classes, in which signs have no meaning of their own."""


class UpperBound(NamedTuple):
    """A superset of the values that a subschema allows."""

    types: int
    """As bits."""
    values: Values | None
    """All values there are, None where they are not listed."""
    required: frozenset[str]
    """The members that every object has."""
    allowed: frozenset[str] | None
    """The members that an object may have, None for any."""
    members: Mapping[str, Values]
    """For some of the required members, the values that they can have."""
    items: Mapping[int, Values] = _NO_ITEMS
    """For some of the items that every array has, by their positions, the values that they can have."""
    beginnings: Mapping[str | None, str] = _NO_BEGINNINGS
    """What strings begin with: those that are values, by None, and those of some of the required members."""


def upper_bound(registry: Registry, schema: Any, scope: Scope, *more: tuple[Any, Scope]) -> UpperBound:
    """A look at a subschema, together with `more`, and at those it has to meet: its references and what `allOf` lists."""
    bits = ALL_TYPES
    listed: Values | None = None
    required: dict[str, None] = {}
    allowed: frozenset[str] | None = None
    declared: list[tuple[dict[str, Any], Mapping[str, int]]] = []
    first_items: list[tuple[Sequence[Any], Mapping[str, int]]] = []
    least = 0
    beginnings: dict[str | None, str] = {}
    todo = [(schema, scope), *more]
    for looks, (schema, scope) in enumerate(todo):
        if schema is False:
            return UpperBound(0, frozenset(), frozenset(), None, {})
        if looks == _MOST_LOOKS:
            break
        dialect = scope.resource.dialect
        keyword_groups = dialect.keywords
        if not isinstance(schema, dict) or (dialect.identifier in schema and dialect.identifier in keyword_groups):
            continue
        if "$ref" in schema and "$ref" in keyword_groups:
            todo.append(registry.resolve(scope, schema["$ref"], schema=schema))
            if dialect.lone_reference:
                continue
        bits &= _types(schema, keyword_groups)
        found = _values(schema, keyword_groups)
        if found is not None:
            listed = found if listed is None else found & listed
        if "allOf" in keyword_groups and isinstance(schema.get("allOf"), list):
            todo += [(branch, scope) for branch in schema["allOf"]]
        if "required" in keyword_groups and isinstance(schema.get("required"), list):
            required.update(dict.fromkeys([name for name in schema["required"] if isinstance(name, str)]))
        if "minItems" in schema and isinstance(schema["minItems"], int):
            least = max(least, schema["minItems"])
        if "prefixItems" in schema or schema.get("items").__class__ in LISTS:
            first_items.append((_first_items(schema, keyword_groups), keyword_groups))
        if "pattern" in schema and (beginning := beginning_of(schema["pattern"])):
            beginnings[None] = beginning
        properties = schema.get("properties", {}) if "properties" in keyword_groups else {}
        if isinstance(properties, dict):
            declared.append((properties, keyword_groups))
            closed = schema.get("additionalProperties") is False and "additionalProperties" in keyword_groups
            if closed and ("patternProperties" not in schema or "patternProperties" not in keyword_groups):
                allowed = frozenset(properties) if allowed is None else allowed & properties.keys()
    values: dict[str, Values] = {}
    for name in required:
        for properties, keyword_groups in declared:
            found = _values(properties.get(name), keyword_groups)
            if found is not None:
                values[name] = found & values[name] if name in values else found
            elif beginning := _beginning_of_strings(properties.get(name)):
                beginnings[name] = beginning
    items: Mapping[int, Values] = _NO_ITEMS if not first_items else _listed_items(first_items, least)
    return UpperBound(bits, listed, frozenset(required), allowed, values, items, beginnings)


def beginning_of(pattern: Any) -> str:
    r"""What every string begins with that a pattern matches, as far as it is plain to see.

    >>> [beginning_of(pattern) for pattern in ("^arn:aws:", r"^v1\.[0-9]", "^https?:", "^a(b|c)", "^a|^b", "abc")]
    ['arn:aws:', 'v1.', 'http', 'a', '', '']
    """
    found = _BEGINNING.match(pattern) if isinstance(pattern, str) else None
    if found is None or ("|" in pattern and _has_branches(pattern)):
        return ""
    text = re.sub(r"\\(.)", r"\1", found[1], flags=re.DOTALL)
    return text[:-1] if found[2] else text


def _has_branches(pattern: str) -> bool:
    """Whether a pattern has alternatives outside of all groups."""
    depth = 0
    for sign in _ATOMS.sub("", pattern):
        depth += (sign == "(") - (sign == ")")
        if sign == "|" and not depth:
            return True
    return False


def _beginning_of_strings(schema: Any) -> str:
    """As `beginning_of`, of a subschema whose values are strings with a pattern."""
    if not isinstance(schema, dict) or "pattern" not in schema or schema.get("type") != "string" or "$ref" in schema:
        return ""
    return beginning_of(schema["pattern"])


def _begin_differently(a: UpperBound, b: UpperBound, of: Iterable[str | None]) -> bool:
    """Whether strings of both begin with different texts, for one of some places that they have."""
    for name in of:
        one, other = a.beginnings.get(name), b.beginnings.get(name)
        if one and other and not one.startswith(other) and not other.startswith(one):
            return True
    return False


def _first_items(schema: Schema, keyword_groups: Mapping[str, int]) -> Sequence[Any]:
    """The schemas of the first items, none where they are malformed."""
    items = schema.get("items")
    if not isinstance(items, LISTS):
        items = schema.get("prefixItems") if "prefixItems" in keyword_groups else ()
    return items if isinstance(items, LISTS) else ()


def _listed_items(first_items: Sequence[tuple[Sequence[Any], Mapping[str, int]]], least: int) -> dict[int, Values]:
    """The values of those of the first `least` items that some schema lists, by their positions."""
    found: dict[int, Values] = {}
    for schemas, keyword_groups in first_items:
        for position, schema in enumerate(schemas[: min(least, _MOST_TRIED)]):
            values = _values(schema, keyword_groups)
            if values is not None:
                found[position] = values & found[position] if position in found else values
    return found


def _types(schema: dict[str, Any], keyword_groups: Mapping[str, int]) -> int:
    """The types that a subschema's own keywords allow."""
    if "type" in schema and "type" in keyword_groups:
        return type_bits(types(schema))
    if "enum" in keyword_groups and isinstance(schema.get("enum"), list):
        bits = 0
        for value in schema["enum"]:
            bits |= type_bit(value)
        return bits
    return type_bit(schema["const"]) if "const" in schema and "const" in keyword_groups else ALL_TYPES


def _values(schema: Any, keyword_groups: Mapping[str, int]) -> Values | None:
    """The values that a subschema lists, None where it does not or where they are many."""
    if not isinstance(schema, dict):
        return None
    listed: Any = schema.get("enum") if "enum" in keyword_groups else None
    if "const" in schema and "const" in keyword_groups:
        listed = [schema["const"]]
    if not isinstance(listed, list) or len(listed) > _MOST_VALUES or ("$ref" in schema and "$ref" in keyword_groups):
        return None
    return frozenset(map(same_value, listed))


def lists_values(schema: Any) -> bool:
    """Whether a subschema has a keyword that lists its values."""
    return schema.__class__ is dict and ("const" in schema or "enum" in schema)


def surely_disjoint(a: UpperBound, b: UpperBound) -> bool:
    """Whether these two surely have no value in common."""
    common = a.types & b.types
    if not common or (a.values is not None and b.values is not None and a.values.isdisjoint(b.values)):
        return True
    if common & ~(OBJECTS | ARRAYS | STRINGS) or (common & STRINGS and not _begin_differently(a, b, (None,))):
        return False
    if common & ARRAYS and not any(place in b.items and found.isdisjoint(b.items[place]) for place, found in a.items.items()):
        return False
    return (
        not common & OBJECTS
        or (a.allowed is not None and not b.required <= a.allowed)
        or (b.allowed is not None and not a.required <= b.allowed)
        or any(name in b.members and found.isdisjoint(b.members[name]) for name, found in a.members.items())
        or _begin_differently(a, b, a.beginnings.keys() - {None})
    )


def surely_all_disjoint(bounds: Sequence[UpperBound]) -> bool:
    """Whether surely no two of these have a value in common."""
    if len(bounds) <= _FEW_COMPARED:
        return all(surely_disjoint(a, b) for a, b in combinations(bounds, 2))
    pairs = unseparated(bounds)
    few = all(surely_disjoint(bounds[i], bounds[j]) for i, j in islice(pairs, _MOST_COMPARED))
    return few and next(pairs, None) is None


def unseparated(bounds: Sequence[UpperBound]) -> Iterator[tuple[int, int]]:
    """The pairs, the later one first, that may have a value in common as far as listed values tell.

    Subschemas that list their values are found by them, objects by the listed values of the required member that most of them have, and
    arrays by those of an item. So it takes time linear in these subschemas and in the pairs: a thousand branches with a kind each are not
    compared with each other.
    """
    names = Counter(name for bound in bounds if bound.types == OBJECTS and bound.values is None for name in bound.members)
    positions = Counter(place for bound in bounds if bound.types == ARRAYS and bound.values is None for place in bound.items)
    kind = max(names, key=names.__getitem__, default="")
    position = max(positions, key=positions.__getitem__, default=-1)
    listed: dict[tuple[int, object], list[int]] = {}
    """By where it is listed, and the value."""
    others: list[int] = []
    places: tuple[list[int], list[int], list[int]] = ([], [], [])
    for i, bound in enumerate(bounds):
        where, values = _LISTED, bound.values
        if values is None and bound.types == OBJECTS:
            where, values = _OF_MEMBER, bound.members.get(kind)
        elif values is None and bound.types == ARRAYS:
            where, values = _OF_ITEM, bound.items.get(position)
        if values is None:
            yield from ((i, j) for j in range(i))
            others.append(i)
            continue
        near = {j for value in values for j in listed.get((where, value), ())}
        # Listed values may be objects and arrays; no object is an array.
        beside = places[_LISTED] if where != _LISTED else [*places[_OF_MEMBER], *places[_OF_ITEM]]
        yield from ((i, j) for j in sorted(near.union(others, beside)))
        places[where].append(i)
        for value in values:
            listed.setdefault((where, value), []).append(i)


def may_overlap(bounds: Sequence[UpperBound], budget: Budget) -> Iterator[tuple[int, int]]:
    """The pairs of subschemas that are not surely disjoint, the later one first."""
    for i, j in unseparated(bounds):
        budget.spend(2)
        if not surely_disjoint(bounds[i], bounds[j]):
            yield i, j


def type_bits(kinds: Sequence[str]) -> int:
    """Some types, as bits of TYPE_BITS."""
    bits = 0
    for kind in kinds:
        bits |= TYPE_BITS[kind]
    return bits


def type_bit(value: object) -> int:
    """The type of a value, as a bit of TYPE_BITS."""
    if isinstance(value, str):
        return 16
    if value is None:
        return 1
    if isinstance(value, bool):
        return 2
    if isinstance(value, LISTS):
        return 32
    if isinstance(value, Mapping):
        return 64
    return 8 if isinstance(value, float | Decimal) and value % 1 else 4


# Lower bounds.


def surely_inhabited(registry: Registry, schema: Any, scope: Scope, steps: int = STEPS) -> bool:
    """Whether some value surely meets a subschema.

    >>> registry = Registry(True)
    >>> [surely_inhabited(registry, schema, registry.root) for schema in ({"minimum": 3}, {"type": "string", "pattern": "a"}, {"enum": []})]
    [True, False, False]
    """
    if schema.__class__ is not dict:
        return schema is True
    keyword_groups = scope.resource.dialect.keywords
    groups = groups_of(schema, keyword_groups)
    if groups & BEYOND_LOCAL:
        asserted = groups & (BEYOND_LOCAL | LOCAL | TYPE)
        if asserted & ~TYPE == VALUES:
            return _lists(schema, keyword_groups)
        if asserted == REFERENCE and steps:
            found = referred(registry, schema, scope)
            return len(found) == 1 and surely_inhabited(registry, *found[0], steps - 1)
        if asserted == ANY_OF and steps and schema["anyOf"].__class__ is list:
            return any(surely_inhabited(registry, branch, scope, steps - 1) for branch in schema["anyOf"][:_MOST_TRIED])
        return False
    kinds = schema.get("type", "null") if groups & TYPE else "null"
    for kind in (kinds,) if kinds.__class__ is str else kinds if kinds.__class__ is list else ():
        test = _KINDS.get(kind) if kind.__class__ is str else None
        if test is not None and test(registry, schema, scope, steps):
            return True
    return False


def surely_many(registry: Registry, schema: Any, scope: Scope) -> bool:
    """Whether what meets a subschema, if there is anything, is surely not a few constants, numbers and strings.

    >>> registry = Registry(True)
    >>> [surely_many(registry, s, registry.root) for s in ({}, {"type": "array", "maxItems": 1}, {"type": "string", "pattern": "a"})]
    [True, True, False]
    """
    for _ in range(STEPS):
        if schema.__class__ is not dict:
            return schema is True
        groups = groups_of(schema, scope.resource.dialect.keywords)
        if not groups & REFERENCE:
            kind = schema["type"] if groups & TYPE else ""
            if kind in ("array", "object"):
                return True
            if groups & BEYOND_LOCAL:
                return False
            if kind == "string" and "pattern" not in schema and "format" not in schema:
                return schema.get("maxLength") != 0
            return not groups & LOCAL and kind in ("", "integer", "number")
        if groups & (BEYOND_LOCAL | LOCAL | TYPE) != REFERENCE:
            return False
        found = referred(registry, schema, scope)
        if len(found) != 1:
            return False
        schema, scope = found[0]
    return False


def surely_endless(registry: Registry, schema: Any, scope: Scope, steps: int = STEPS) -> bool:
    """Whether what meets a subschema, if there is anything, has surely no end of values, or of values of some length.

    >>> registry = Registry(True)
    >>> [surely_endless(registry, s, registry.root) for s in ({"type": "array", "maxItems": 0}, {"properties": {"a": {"type": "string"}}})]
    [False, True]
    """
    if schema.__class__ is not dict:
        return schema is True
    keyword_groups = scope.resource.dialect.keywords
    groups = groups_of(schema, keyword_groups)
    if groups & BEYOND_LOCAL:
        if steps and groups & (BEYOND_LOCAL | LOCAL | TYPE) == REFERENCE:
            found = referred(registry, schema, scope)
            return len(found) == 1 and surely_endless(registry, *found[0], steps - 1)
        if steps and groups & (BEYOND_LOCAL | LOCAL | TYPE) == ANY_OF and schema["anyOf"].__class__ is list:
            branches = schema["anyOf"][:_MOST_TRIED]
            return any(_surely_unlimited(registry, branch, scope, steps - 1) for branch in branches)
        return False
    kinds = types(schema) if groups & TYPE else TYPES
    return any(_ENDLESS[kind](registry, schema, scope, steps) for kind in kinds)


def _surely_unlimited(registry: Registry, schema: Any, scope: Scope, steps: int) -> bool:
    """Whether a subschema surely has values, and no end of them."""
    return surely_inhabited(registry, schema, scope, steps) and surely_endless(registry, schema, scope, steps)


def surely_not_universal(registry: Registry, schema: Any, scope: Scope) -> bool:
    """Whether some value surely does not meet a subschema: it lists values, or has not all types, or requires a member."""
    for _ in range(STEPS):
        if schema.__class__ is not dict:
            break
        scope = registry.enter(scope, schema)
        dialect = scope.resource.dialect
        keyword_groups = dialect.keywords
        refers = "$ref" in schema
        if not (refers and dialect.lone_reference):
            if "enum" in schema or ("const" in schema and "const" in keyword_groups) or schema.get("required"):
                return True
            if "type" in schema and type_bits(types(schema)) != ALL_TYPES:
                return True
        if not refers:
            break
        schema, scope = registry.resolve(scope, schema["$ref"], schema=schema)
    return False


def _lists(schema: Schema, keyword_groups: Mapping[str, int]) -> bool:
    """Whether `enum` or `const` has a value of the types that are allowed."""
    values = schema["enum"] if "enum" in schema else [schema["const"]]
    if values.__class__ is not list or ("enum" in schema and "const" in schema and "const" in keyword_groups):
        return False
    allowed = type_bits(types(schema)) if "type" in schema else ALL_TYPES
    return any(type_bit(value) & allowed for value in values[:_MOST_TRIED])


def _always(_registry: Registry, _schema: Schema, _scope: Scope, _steps: int) -> bool:
    return True


def _number(_registry: Registry, schema: Schema, _scope: Scope, _steps: int) -> bool:
    """Bounds on one side leave something, and so do two that are far enough apart."""
    present = _BOUNDS & schema.keys()
    if not present or any(present <= half for half in _HALVES):
        return True
    low, high = schema.get("minimum"), schema.get("maximum")
    return present == {"minimum", "maximum"} and isinstance(low, int | float) and isinstance(high, int | float) and high - low >= 2


def _string(_registry: Registry, schema: Schema, _scope: Scope, _steps: int) -> bool:
    """A text of a length that is allowed, or whatever has a format."""
    present = [keyword for keyword in _TEXT if keyword in schema]
    if present == ["format"]:
        return True
    low, high = schema.get("minLength", 0), schema.get("maxLength")
    fits = high is None or (isinstance(low, int | float) and isinstance(high, int | float) and low <= high)
    return fits and {"pattern", "format"}.isdisjoint(present)


def _array(registry: Registry, schema: Schema, scope: Scope, steps: int) -> bool:
    """The empty array, or one of items that have a value."""
    if "minItems" not in schema:
        return True
    items = schema.get("items", True)
    if not steps or not schema.keys().isdisjoint(("maxItems", "uniqueItems", "prefixItems")):
        return False
    return items is True or surely_inhabited(registry, items, scope, steps - 1)


def _object(registry: Registry, schema: Schema, scope: Scope, steps: int) -> bool:
    """The empty object, or one whose required members are declared and have values."""
    if "required" not in schema:
        return True
    properties, required = schema.get("properties"), schema["required"]
    if not steps or properties.__class__ is not dict or required.__class__ is not list or len(required) > _MOST_TRIED:
        return False
    return all(
        name.__class__ is str and name in properties and surely_inhabited(registry, properties[name], scope, steps - 1) for name in required
    )


def _never(_registry: Registry, _schema: Schema, _scope: Scope, _steps: int) -> bool:
    return False


def _endless_numbers(_registry: Registry, schema: Schema, _scope: Scope, _steps: int) -> bool:
    present = _BOUNDS & schema.keys()
    return not present or any(present <= half for half in _HALVES)


def _endless_strings(_registry: Registry, schema: Schema, _scope: Scope, _steps: int) -> bool:
    return "pattern" not in schema and "format" not in schema and schema.get("maxLength") != 0


def _endless_arrays(registry: Registry, schema: Schema, scope: Scope, steps: int) -> bool:
    """Of any length, or of items without an end of values."""
    if not steps or not schema.keys().isdisjoint(("prefixItems", "additionalItems", "contains", "unevaluatedItems")):
        return False
    items = schema.get("items", True)
    if items.__class__ is list or schema.get("maxItems") == 0:
        return False
    if not surely_inhabited(registry, items, scope, steps - 1):
        return False  # there may be nothing but the empty array
    return schema.keys().isdisjoint(("maxItems", "uniqueItems")) or surely_endless(registry, items, scope, steps - 1)


def _endless_objects(registry: Registry, schema: Schema, scope: Scope, steps: int) -> bool:
    """With any other members, or with a member without an end of values."""
    keyword_groups = scope.resource.dialect.keywords
    if not steps or any(keyword_groups.get(keyword, 0) & OBJECT and keyword not in _PLAIN_MEMBERS for keyword in schema):
        return False
    others = schema.get("additionalProperties", not (scope.closing and "properties" in schema))
    if others is True or surely_inhabited(registry, others, scope, steps - 1):
        return True
    properties = schema.get("properties")
    values = list(properties.values())[:_MOST_TRIED] if properties.__class__ is dict else []
    return any(_surely_unlimited(registry, value, scope, steps - 1) for value in values)


_KINDS: Final[Mapping[str, Callable[[Registry, Schema, Scope, int], bool]]] = {
    "null": _always,
    "boolean": _always,
    "integer": _number,
    "number": _number,
    "string": _string,
    "array": _array,
    "object": _object,
}
"""Whether the keywords of one type, with none beside them that need the algebra, leave a value of it."""

_ENDLESS: Final[Mapping[str, Callable[[Registry, Schema, Scope, int], bool]]] = {
    "null": _never,
    "boolean": _never,
    "integer": _endless_numbers,
    "number": _endless_numbers,
    "string": _endless_strings,
    "array": _endless_arrays,
    "object": _endless_objects,
}
"""Whether the keywords of one type leave no end of values of it, if they leave any."""
