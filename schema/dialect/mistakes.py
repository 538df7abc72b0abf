"""Values that are passed as a schema but are not: OpenAI's objects around a schema, definitions of tools, instances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...pda.exceptions import SchemaError, shown
from .unknown_keywords import KNOWN

_WRAPPER: Final = frozenset({"name", "schema", "strict", "description", "type"})
_FUNCTION: Final = frozenset({"name", "parameters", "strict", "description", "type"})
_HOLDING: Final = frozenset({"json_schema", "schema", "function", "parameters"})
"""The members of wrappers that hold what is inside."""


def check_is_schema(schema: Any) -> None:
    """Raise SchemaError, with what to pass instead, where a value can only be meant as something else than a schema.

    >>> check_is_schema({"type": "string", "x-order": 3})
    >>> check_is_schema({"name": "Anna", "age": 31})
    Traceback (most recent call last):
    stackmask.pda.exceptions.SchemaError: no member of the object is a keyword of JSON Schema: 'name', 'age'; \
this looks like an instance; a schema has the form {"type": "object", "properties": {"name": ...}}
    """
    if schema.__class__ is dict and _HOLDING.isdisjoint(schema) and not KNOWN.isdisjoint(schema):
        return  # PERF: most schemas
    if isinstance(schema, Mapping) and schema:
        _check(schema)


def _check(schema: Mapping[Any, Any]) -> None:
    """As `check_is_schema`, for an object with members."""
    found = _inside(schema)
    if found is not None:
        what, path, strict = found
        closed = ', and extra_properties="closed" for "strict": true' if strict else ""
        raise SchemaError(f"this is {what}, not a schema: pass the value of {path}{closed}")
    if KNOWN.isdisjoint(schema) and not all(isinstance(name, str) and name.startswith("x-") for name in schema):
        names = list(schema)
        more = ", ..." if len(names) > 5 else ""
        raise SchemaError(
            f"no member of the object is a keyword of JSON Schema: {', '.join(shown(name) for name in names[:5])}{more}; "
            f'this looks like an instance; a schema has the form {{"type": "object", "properties": {{"{names[0]}": ...}}}}'
        )


def _inside(schema: Mapping[Any, Any]) -> tuple[str, str, bool] | None:
    """The wrapper around a schema, the path of the schema in it, and whether it asks for OpenAI's strict mode; None without a wrapper."""
    kind, names = schema.get("type"), schema.keys()
    inner = schema.get("json_schema")
    if kind == "json_schema" and isinstance(inner, Mapping):
        return "OpenAI's response_format", "json_schema.schema", inner.get("strict") is True
    if isinstance(schema.get("schema"), Mapping | bool) and names <= _WRAPPER and kind in (None, "json_schema"):
        return "OpenAI's wrapper around a schema", "schema", schema.get("strict") is True
    inner = schema.get("function")
    if kind == "function" and isinstance(inner, Mapping):
        return "the definition of a tool", "function.parameters", inner.get("strict") is True
    if kind in (None, "function") and isinstance(schema.get("parameters"), Mapping) and names <= _FUNCTION:
        return "the definition of a function", "parameters", schema.get("strict") is True
    return None
