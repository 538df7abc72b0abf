"""What a few looks at a subschema tell of its values, without its normal form: their types, and what some of their members are.

All of it is necessary and none of it sufficient, so it can tell subschemas apart, as the branches of a `oneOf` whose objects say by a
constant which branch they are for, but never that they overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from stackmask.schema.readers import same_value, types
from stackmask.schema.references import Registry, Scope

TYPE_BITS: Final[Mapping[str, int]] = {
    "null": 1, "boolean": 2, "integer": 4, "number": 12, "string": 16, "array": 32, "object": 64,
}  # fmt: skip
OBJECTS: Final = TYPE_BITS["object"]
ALL_TYPES: Final = 127
_MOST_LOOKS: Final = 16
_MOST_VALUES: Final = 64

Values = frozenset[object]


class Glance(NamedTuple):
    """A superset of what a subschema allows: types, as bits, and for members that every object has, the values they can have."""

    types: int
    members: Mapping[str, Values]


def glance(registry: Registry, schema: Any, scope: Scope) -> Glance:
    """A look at a subschema and at those it has to meet: its references and what `allOf` lists."""
    bits = ALL_TYPES
    required: set[str] = set()
    values: dict[str, Values] = {}
    todo = [(schema, scope)]
    for looks, (schema, scope) in enumerate(todo):
        if schema is False:
            return Glance(0, {})
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
        if "allOf" in codes and isinstance(schema.get("allOf"), list):
            todo += [(branch, scope) for branch in schema["allOf"]]
        if "required" in codes and isinstance(schema.get("required"), list):
            required.update(name for name in schema["required"] if isinstance(name, str))
        if "properties" in codes and isinstance(schema.get("properties"), dict):
            for name, member in schema["properties"].items():
                found = _values(member, codes)
                if found is not None:
                    values[name] = found & values[name] if name in values else found
    return Glance(bits, {name: found for name, found in values.items() if name in required})


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


def are_disjoint(glances: Sequence[Glance]) -> bool:
    """Whether no two of these can have a value in common, as far as they tell."""
    seen = 0
    for bits, _ in glances:
        if bits & seen & ~OBJECTS:
            return False
        seen |= bits
    objects = [members for bits, members in glances if bits & OBJECTS]
    if len(objects) < 2:
        return True
    for name in objects[0]:
        if all(name in members for members in objects) and _all_differ([members[name] for members in objects]):
            return True
    return len(objects) <= _MOST_LOOKS and all(
        any(name in other and found.isdisjoint(other[name]) for name, found in members.items())
        for index, members in enumerate(objects)
        for other in objects[:index]
    )


def _all_differ(sets: Sequence[Values]) -> bool:
    """Whether no value is in two of the sets."""
    return sum(map(len, sets)) == len(frozenset().union(*sets))


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
