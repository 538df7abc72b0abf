"""What a few looks at a subschema tell of a value that meets it, or of one that does not, without its normal form.

The opposite of `glance`: all of it is sufficient and none of it necessary.
So it can tell that a subschema is not empty, and never that it is.
Most members and items are so plain that nothing else asks for their normal form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ..dialect.keyword_values import TYPES, Schema, types
from ..dialect.keywords import ANY_OF, BEYOND_LOCAL, LOCAL, OBJECT, REFERENCE, TYPE, UNKNOWN, VALUES
from ..dialect.references import Registry, Scope, referred
from .glance import ALL_TYPES, TYPE_BITS, type_bit

STEPS: Final = 4
"""How many references, members and items are followed, one inside the other."""
_MOST: Final = 16
"""How many branches, values and required members are looked at."""
_BOUNDS: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_HALVES: Final = (
    frozenset({"minimum", "exclusiveMinimum"}),
    frozenset({"maximum", "exclusiveMaximum"}),
    frozenset({"multipleOf"}),
)
_PLAIN_MEMBERS: Final = frozenset({"properties", "required", "additionalProperties"})
_TEXT: Final = ("minLength", "maxLength", "pattern", "format")


def has_value(registry: Registry, schema: Any, scope: Scope, steps: int = STEPS) -> bool:
    """Whether some value surely meets a subschema.

    >>> registry = Registry(True)
    >>> [has_value(registry, schema, registry.root) for schema in ({"minimum": 3}, {"type": "string", "pattern": "a"}, {"enum": []})]
    [True, False, False]
    """
    if schema.__class__ is not dict:
        return schema is True
    codes = scope.resource.dialect.keywords
    code = _code(schema, codes)
    if code & BEYOND_LOCAL:
        said = code & (BEYOND_LOCAL | LOCAL | TYPE)
        if said & ~TYPE == VALUES:
            return _lists(schema, codes)
        if said == REFERENCE and steps:
            found = referred(registry, schema, scope)
            return len(found) == 1 and has_value(registry, *found[0], steps - 1)
        if said == ANY_OF and steps and schema["anyOf"].__class__ is list:
            return any(has_value(registry, branch, scope, steps - 1) for branch in schema["anyOf"][:_MOST])
        return False
    kinds = schema.get("type", "null") if code & TYPE else "null"
    for kind in (kinds,) if kinds.__class__ is str else kinds if kinds.__class__ is list else ():
        test = _KINDS.get(kind) if kind.__class__ is str else None
        if test is not None and test(registry, schema, scope, steps):
            return True
    return False


def _code(schema: Schema, codes: Mapping[str, int]) -> int:
    """The codes of all keywords of a schema together."""
    code = 0
    for keyword in schema:
        code |= codes.get(keyword, UNKNOWN)
    return code


def has_many(registry: Registry, schema: Any, scope: Scope) -> bool:
    """Whether what meets a subschema, if there is anything, is surely not a few constants, numbers and strings.

    >>> registry = Registry(True)
    >>> [has_many(registry, schema, registry.root) for schema in ({}, {"type": "array", "maxItems": 1}, {"type": "string", "pattern": "a"})]
    [True, True, False]
    """
    for _ in range(STEPS):
        if schema.__class__ is not dict:
            return schema is True
        code = _code(schema, scope.resource.dialect.keywords)
        if not code & REFERENCE:
            kind = schema["type"] if code & TYPE else ""
            if kind in ("array", "object"):
                return True
            if code & BEYOND_LOCAL:
                return False
            if kind == "string" and "pattern" not in schema and "format" not in schema:
                return schema.get("maxLength") != 0
            return not code & LOCAL and kind in ("", "integer", "number")
        if code & (BEYOND_LOCAL | LOCAL | TYPE) != REFERENCE:
            return False
        found = referred(registry, schema, scope)
        if len(found) != 1:
            return False
        schema, scope = found[0]
    return False


def is_endless(registry: Registry, schema: Any, scope: Scope, steps: int = STEPS) -> bool:
    """Whether what meets a subschema, if there is anything, has surely no end of values, or of values of some length.

    >>> registry = Registry(True)
    >>> [is_endless(registry, s, registry.root) for s in ({"type": "array", "maxItems": 0}, {"properties": {"a": {"type": "string"}}})]
    [False, True]
    """
    if schema.__class__ is not dict:
        return schema is True
    codes = scope.resource.dialect.keywords
    code = _code(schema, codes)
    if code & BEYOND_LOCAL:
        if steps and code & (BEYOND_LOCAL | LOCAL | TYPE) == REFERENCE:
            found = referred(registry, schema, scope)
            return len(found) == 1 and is_endless(registry, *found[0], steps - 1)
        if steps and code & (BEYOND_LOCAL | LOCAL | TYPE) == ANY_OF and schema["anyOf"].__class__ is list:
            branches = schema["anyOf"][:_MOST]
            return any(has_value(registry, one, scope, steps - 1) and is_endless(registry, one, scope, steps - 1) for one in branches)
        return False
    kinds = types(schema) if code & TYPE else TYPES
    return any(_ENDLESS[kind](registry, schema, scope, steps) for kind in kinds)


def lacks_value(registry: Registry, schema: Any, scope: Scope) -> bool:
    """Whether some value surely does not meet a subschema: it lists values, or has not all types, or requires a member."""
    for _ in range(STEPS):
        if schema.__class__ is not dict:
            break
        scope = registry.enter(scope, schema)
        dialect = scope.resource.dialect
        codes = dialect.keywords
        refers = "$ref" in schema
        if not (refers and dialect.lone_reference):
            if "enum" in schema or ("const" in schema and "const" in codes) or schema.get("required"):
                return True
            if "type" in schema and _allowed(schema) != ALL_TYPES:
                return True
        if not refers:
            break
        schema, scope = registry.resolve(scope, schema["$ref"], schema=schema)
    return False


def _allowed(schema: Schema) -> int:
    """The types of a subschema, as bits."""
    allowed = 0
    for kind in types(schema):
        allowed |= TYPE_BITS[kind]
    return allowed


def _lists(schema: Schema, codes: Mapping[str, int]) -> bool:
    """Whether `enum` or `const` has a value of the types that are allowed."""
    values = schema["enum"] if "enum" in schema else [schema["const"]]
    if values.__class__ is not list or ("enum" in schema and "const" in schema and "const" in codes):
        return False
    allowed = _allowed(schema) if "type" in schema else ALL_TYPES
    return any(type_bit(value) & allowed for value in values[:_MOST])


def _always(_registry: Registry, _schema: Schema, _scope: Scope, _steps: int) -> bool:
    return True


def _number(_registry: Registry, schema: Schema, _scope: Scope, _steps: int) -> bool:
    """Bounds on one side leave something, and so do two that are far enough apart."""
    said = _BOUNDS & schema.keys()
    if not said or any(said <= half for half in _HALVES):
        return True
    low, high = schema.get("minimum"), schema.get("maximum")
    return said == {"minimum", "maximum"} and isinstance(low, int | float) and isinstance(high, int | float) and high - low >= 2


def _string(_registry: Registry, schema: Schema, _scope: Scope, _steps: int) -> bool:
    """The empty text, or whatever has a format."""
    said = [keyword for keyword in _TEXT if keyword in schema]
    return said in ([], ["maxLength"], ["format"])


def _array(registry: Registry, schema: Schema, scope: Scope, steps: int) -> bool:
    """The empty array, or one of items that have a value."""
    if "minItems" not in schema:
        return True
    items = schema.get("items", True)
    if not steps or not schema.keys().isdisjoint(("maxItems", "uniqueItems", "prefixItems")):
        return False
    return items is True or has_value(registry, items, scope, steps - 1)


def _object(registry: Registry, schema: Schema, scope: Scope, steps: int) -> bool:
    """The empty object, or one whose required members are declared and have values."""
    if "required" not in schema:
        return True
    properties, required = schema.get("properties"), schema["required"]
    if not steps or properties.__class__ is not dict or required.__class__ is not list or len(required) > _MOST:
        return False
    return all(
        name.__class__ is str and name in properties and has_value(registry, properties[name], scope, steps - 1) for name in required
    )


def _never(_registry: Registry, _schema: Schema, _scope: Scope, _steps: int) -> bool:
    return False


def _endless_numbers(_registry: Registry, schema: Schema, _scope: Scope, _steps: int) -> bool:
    said = _BOUNDS & schema.keys()
    return not said or any(said <= half for half in _HALVES)


def _endless_strings(_registry: Registry, schema: Schema, _scope: Scope, _steps: int) -> bool:
    return "pattern" not in schema and "format" not in schema and schema.get("maxLength") != 0


def _endless_arrays(registry: Registry, schema: Schema, scope: Scope, steps: int) -> bool:
    """Of any length, or of items without an end of values."""
    if not steps or not schema.keys().isdisjoint(("prefixItems", "additionalItems", "contains", "unevaluatedItems")):
        return False
    items = schema.get("items", True)
    if items.__class__ is list or schema.get("maxItems") == 0:
        return False
    if schema.keys().isdisjoint(("maxItems", "uniqueItems")) and (items is True or has_value(registry, items, scope, steps - 1)):
        return True
    return is_endless(registry, items, scope, steps - 1)


def _endless_objects(registry: Registry, schema: Schema, scope: Scope, steps: int) -> bool:
    """With any other members, or with a member without an end of values."""
    said = scope.resource.dialect.keywords
    if not steps or any(said.get(keyword, 0) & OBJECT and keyword not in _PLAIN_MEMBERS for keyword in schema):
        return False
    others = schema.get("additionalProperties", True)
    if others is True or has_value(registry, others, scope, steps - 1):
        return True
    properties = schema.get("properties")
    values = list(properties.values())[:_MOST] if properties.__class__ is dict else []
    return any(is_endless(registry, value, scope, steps - 1) for value in values)


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
