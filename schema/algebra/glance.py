"""What a few looks at a subschema tell of its values, without its normal form: types, lists of values, and which members objects have.

All of it is necessary and none of it sufficient, so it can tell subschemas apart, as the branches of a `oneOf` whose objects say by a
constant, or by a member that only they have, which branch they are for; but never that they overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from ..dialect.keyword_values import same_value, types
from ..dialect.references import Registry, Scope

TYPE_BITS: Final[Mapping[str, int]] = {
    "null": 1, "boolean": 2, "integer": 4, "number": 12, "string": 16, "array": 32, "object": 64,
}  # fmt: skip
OBJECTS: Final = TYPE_BITS["object"]
ALL_TYPES: Final = 127
_MOST_LOOKS: Final = 16
_MOST_VALUES: Final = 64
_MOST_PAIRED: Final = 64
"""More branches than this are not compared with each other."""

Values = frozenset[object]


class Glance(NamedTuple):
    """A superset of what a subschema allows."""

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


def glance(registry: Registry, schema: Any, scope: Scope, *more: tuple[Any, Scope]) -> Glance:
    """A look at a subschema, together with `more`, and at those it has to meet: its references and what `allOf` lists."""
    bits = ALL_TYPES
    listed: Values | None = None
    required: set[str] = set()
    allowed: frozenset[str] | None = None
    values: dict[str, Values] = {}
    todo = [(schema, scope), *more]
    for looks, (schema, scope) in enumerate(todo):
        if schema is False:
            return Glance(0, frozenset(), frozenset(), None, {})
        if looks == _MOST_LOOKS:
            break
        dialect = scope.resource.dialect
        codes = dialect.keywords
        if not isinstance(schema, dict) or (dialect.identifier in schema and dialect.identifier in codes):
            continue
        if "$ref" in schema and "$ref" in codes:
            todo.append(registry.resolve(scope, schema["$ref"], schema=schema))
            if dialect.lone_reference:
                continue
        bits &= _types(schema, codes)
        found = _values(schema, codes)
        if found is not None:
            listed = found if listed is None else found & listed
        if "allOf" in codes and isinstance(schema.get("allOf"), list):
            todo += [(branch, scope) for branch in schema["allOf"]]
        if "required" in codes and isinstance(schema.get("required"), list):
            required.update(name for name in schema["required"] if isinstance(name, str))
        properties = schema.get("properties", {}) if "properties" in codes else {}
        if isinstance(properties, dict):
            for name, member in properties.items():
                found = _values(member, codes)
                if found is not None:
                    values[name] = found & values[name] if name in values else found
            closed = schema.get("additionalProperties") is False and "additionalProperties" in codes
            if closed and ("patternProperties" not in schema or "patternProperties" not in codes):
                allowed = frozenset(properties) if allowed is None else allowed & properties.keys()
    return Glance(bits, listed, frozenset(required), allowed, {name: found for name, found in values.items() if name in required})


def _types(schema: dict[str, Any], codes: Mapping[str, int]) -> int:
    """The types that a subschema's own keywords allow."""
    if "type" in schema and "type" in codes:
        bits = 0
        for kind in types(schema):
            bits |= TYPE_BITS[kind]
        return bits
    if "enum" in codes and isinstance(schema.get("enum"), list):
        bits = 0
        for value in schema["enum"]:
            bits |= type_bit(value)
        return bits
    return type_bit(schema["const"]) if "const" in schema and "const" in codes else ALL_TYPES


def _values(schema: Any, codes: Mapping[str, int]) -> Values | None:
    """The values that a subschema lists, None where it does not or where they are many."""
    if not isinstance(schema, dict):
        return None
    listed: Any = schema.get("enum") if "enum" in codes else None
    if "const" in schema and "const" in codes:
        listed = [schema["const"]]
    if not isinstance(listed, list) or len(listed) > _MOST_VALUES or ("$ref" in schema and "$ref" in codes):
        return None
    return frozenset(map(same_value, listed))


def differ(a: Glance, b: Glance) -> bool:
    """Whether these two surely have no value in common."""
    common = a.types & b.types
    if common & ~OBJECTS:
        return a.values is not None and b.values is not None and a.values.isdisjoint(b.values)
    return (
        not common
        or (a.values is not None and b.values is not None and a.values.isdisjoint(b.values))
        or (a.allowed is not None and not b.required <= a.allowed)
        or (b.allowed is not None and not a.required <= b.allowed)
        or any(name in b.members and found.isdisjoint(b.members[name]) for name, found in a.members.items())
    )


def are_disjoint(glances: Sequence[Glance]) -> bool:
    """Whether surely no two of these have a value in common."""
    if len(glances) > _MOST_PAIRED:
        return False
    return all(differ(one, other) for index, one in enumerate(glances) for other in glances[:index])


def type_bit(value: object) -> int:
    """The type of a value, as a bit of TYPE_BITS."""
    if isinstance(value, str):
        return 16
    if value is None:
        return 1
    if isinstance(value, bool):
        return 2
    if isinstance(value, list | tuple):
        return 32
    if isinstance(value, Mapping):
        return 64
    return 8 if isinstance(value, float | Decimal) and value % 1 else 4
