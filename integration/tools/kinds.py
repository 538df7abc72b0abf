"""The kinds of value that a schema allows: formats that write strings without quotes need them to tell strings from other values.

An upper bound by the keywords `type`, `enum`, `const`, references inside the document, and those that combine schemas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

KINDS: Final = frozenset(("string", "number", "integer", "boolean", "null", "object", "array"))
_DEEP: Final = 32  # references and combinations inside each other that are followed
_STEPS: Final = 10_000  # and in all


def kinds(schema: Any, root: Any) -> frozenset[str]:
    """The kinds of value that `schema` allows, a part of the document `root`.

    >>> sorted(kinds({"anyOf": [{"type": "string"}, {"const": 3}]}, {}))
    ['integer', 'number', 'string']
    """
    return _kinds(schema, root, 0, [_STEPS])


def _kinds(schema: Any, root: Any, depth: int, steps: list[int]) -> frozenset[str]:
    """The same, from some depth and with a number of remaining steps; where either limit is exceeded, every kind is allowed."""
    steps[0] -= 1
    if schema is False:
        return frozenset()
    if not isinstance(schema, Mapping) or depth > _DEEP or steps[0] < 0:
        return KINDS
    found = KINDS
    types = schema.get("type")
    if isinstance(types, str):
        found &= _typed(types)
    elif isinstance(types, list):
        found &= frozenset[str]().union(*(_typed(kind) for kind in types if isinstance(kind, str)))
    if "const" in schema:
        found &= kinds_of(schema["const"])
    if isinstance(schema.get("enum"), list):
        found &= frozenset[str]().union(*map(kinds_of, schema["enum"]))
    if isinstance(schema.get("$ref"), str):
        found &= _kinds(resolve(schema["$ref"], root), root, depth + 1, steps)
    for name in ("anyOf", "oneOf"):
        if isinstance(schema.get(name), list):
            found &= frozenset[str]().union(*(_kinds(part, root, depth + 1, steps) for part in schema[name]))
    for part in schema["allOf"] if isinstance(schema.get("allOf"), list) else ():
        found &= _kinds(part, root, depth + 1, steps)
    return found


def kinds_of(value: Any) -> frozenset[str]:
    """The kinds of a value."""
    match value:
        case None:
            return frozenset(("null",))
        case bool():
            return frozenset(("boolean",))
        case str():
            return frozenset(("string",))
        case int() | float():
            return frozenset(("number", "integer") if value == value // 1 else ("number",))
        case Mapping():
            return frozenset(("object",))
        case _:
            return frozenset(("array",))


def resolve(reference: str, root: Any) -> Any:
    """The schema that a reference inside a document names; true, which allows any value, if it names no schema."""
    if not reference.startswith("#"):
        return True
    found = root
    for part in unquote(reference[1:]).split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and key in found:
            found = found[key]
        elif isinstance(found, Sequence) and key.isdigit() and int(key) < len(found):
            found = found[int(key)]
        else:
            return True
    return found


def member(schema: Any, key: str | None, root: Any) -> Any:
    """The schema of a member of an object, or with None of an item of an array; true where that is not decided by these keywords."""
    return _member(schema, key, root, 0, [_STEPS])


def _member(schema: Any, key: str | None, root: Any, depth: int, steps: list[int]) -> Any:
    while isinstance(schema, Mapping) and isinstance(schema.get("$ref"), str) and depth < _DEEP:
        schema, depth = resolve(schema["$ref"], root), depth + 1
    steps[0] -= 1
    if not isinstance(schema, Mapping) or depth > _DEEP or steps[0] < 0:
        return True
    if key is None:
        return schema.get("items", True)
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and key in properties:
        return properties[key]
    for name in ("anyOf", "oneOf", "allOf"):
        for part in schema[name] if isinstance(schema.get(name), list) else ():
            if (found := _member(part, key, root, depth + 1, steps)) is not True:
                return found
    return schema.get("additionalProperties", True)


def _typed(kind: str) -> frozenset[str]:
    return frozenset(("number", "integer") if kind == "number" else (kind,))
