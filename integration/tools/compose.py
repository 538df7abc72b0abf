"""Arguments in a tagged notation that structural tags do not write by themselves, composed of the formats that they have.

The schema is a plain object: properties in their order, each required or not, and no other keyword. A value stands between two texts:
a string unescaped, any other value as JSON. A schema that this cannot enforce exactly, such as a string with a pattern, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ...schema.structural_tag.notations import Notation
from .fits import NOTES
from .kinds import kinds, kinds_of, resolve
from .tool import ToolError

Json = dict[str, Any]

SHARED: Final = ("$defs", "definitions")
_OBJECT: Final = NOTES | {"type", "properties", "required", "additionalProperties", *SHARED}
_REFERENCES: Final = 32


def compose_arguments(schema: Any, notation: Notation, whitespace: str) -> Json:
    """The arguments that a schema describes, as a format of structural tags."""
    properties, required = plain_object(schema, schema)
    if odd := [key for key in properties if re.search(r'["<>]', key)]:
        raise ToolError(f"its argument {odd[0]!r} has a name that this format cannot write; it must not contain < or > or a double quote")
    elements = []
    for key, value in properties.items():
        begin, end = notation.pair.replace("$key", key).split("$value")
        pair = {"type": "tag", "begin": begin, "content": _value(key, value, schema, end, whitespace), "end": end}
        elements.append(pair if key in required else {"type": "optional", "content": pair})
    if not elements:
        return {"type": "const_string", "value": ""}
    return {"type": "sequence", "elements": elements}


def plain_object(schema: Any, root: Any) -> tuple[Mapping[str, Any], frozenset[str]]:
    """The properties of an object that has no other keywords, and which of them are required."""
    schema = resolved(schema, root)
    if not isinstance(schema, Mapping) or schema.get("type", "object") != "object":
        raise ToolError("its parameters are not of type object")
    if odd := sorted(schema.keys() - _OBJECT):
        raise ToolError(f"its parameters have {odd[0]!r}; this format supports only type, properties, required and additionalProperties")
    properties, required = schema.get("properties") or {}, schema.get("required") or ()
    if not isinstance(properties, Mapping) or not isinstance(required, list | tuple) or not all(isinstance(name, str) for name in required):
        raise ToolError("its parameters are not a JSON Schema")
    if missing := [name for name in required if name not in properties]:
        raise ToolError(f"it requires {missing[0]!r}, which is not among its properties")
    return properties, frozenset(required)


def resolved(schema: Any, root: Any) -> Any:
    """The schema that a reference leads to, or the schema itself if it is not a reference."""
    for _ in range(_REFERENCES):
        if not isinstance(schema, Mapping) or not isinstance(schema.get("$ref"), str):
            return schema
        if odd := sorted(schema.keys() - NOTES - {"$ref", *SHARED}):
            raise ToolError(f"it has {odd[0]!r} beside a reference, which this format does not support")
        schema = resolve(schema["$ref"], root)
    raise ToolError("its references form a cycle")


def whole_schema(schema: Any, root: Any) -> Any:
    """A part of a schema with the definitions that it may refer to."""
    shared = {name: root[name] for name in SHARED if name in root}
    return {**shared, **schema} if isinstance(schema, Mapping) else schema


def words(schema: Any) -> list[Any] | None:
    """The values of a schema that only lists them, None for other schemas."""
    if not isinstance(schema, Mapping) or not ("enum" in schema or "const" in schema) or schema.keys() - NOTES - {"type", "enum", "const"}:
        return None
    values = schema.get("enum", [schema.get("const")])
    allowed = kinds({"type": schema["type"]} if "type" in schema else {}, schema)
    if not isinstance(values, list) or ("const" in schema and "enum" in schema):
        return None
    return [value for value in values if kinds_of(value) & allowed] or None


def _value(key: str, schema: Any, root: Mapping[str, Any], end: str, whitespace: str) -> Json:
    """One value."""
    schema = resolved(schema, root)
    found = kinds(schema, root)
    if "string" not in found:
        form = {"type": "json_schema", "json_schema": whole_schema(schema, root), "whitespace": whitespace}
        return {**form, "excludes": [end.strip()]} if found & {"array", "object"} else form
    values = words(schema)
    if values is not None and all(isinstance(value, str) and end not in value for value in values):
        return {"type": "or", "elements": [{"type": "const_string", "value": value} for value in values]}
    if found - {"string", "null", "boolean"}:
        raise ToolError(f"its argument {key!r} may be a string or {' or '.join(sorted(found - {'string'}))}, which it writes alike")
    free_text(key, schema)
    return {"type": "any_text"}


def free_text(key: str, schema: Any) -> None:
    """Refuse a schema that constrains a string."""
    plain = schema if isinstance(schema, Mapping) else {}
    for part in (plain, *(plain.get("anyOf") or ()), *(plain.get("oneOf") or ())):
        if odd := sorted(part.keys() - NOTES - {"type", "anyOf", "oneOf"}) if isinstance(part, Mapping) else ["anyOf"]:
            raise ToolError(f"its argument {key!r} has {odd[0]!r}, which this format cannot enforce on a string")
