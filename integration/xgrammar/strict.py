"""XGrammar's strict mode: objects have no keys, and arrays no items, beyond those that the schema declares.

A schema that declares properties or prefix items, and says nothing about others, gets `unevaluatedProperties` or `unevaluatedItems` false.
These see through allOf, if, then, else and references beside them, so parts of one object are closed together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

_ONE: Final = ("additionalProperties", "unevaluatedProperties", "items", "additionalItems", "unevaluatedItems", "contains", "propertyNames")
_MANY: Final = ("anyOf", "oneOf", "prefixItems", "items")
_NAMED: Final = ("properties", "patternProperties", "$defs", "definitions")
_TOGETHER: Final = ("allOf", "if", "then", "else", "dependentSchemas")
"""Subschemas of the same object or array; the schema around them closes it."""
_CLOSED: Final = {
    "unevaluatedProperties": (("properties", "patternProperties"), ("additionalProperties", "unevaluatedProperties")),
    "unevaluatedItems": (("prefixItems",), ("items", "additionalItems", "unevaluatedItems")),
}


def closed(schema: Any) -> Any:
    """A copy of the schema in strict mode."""
    root: dict[str, Any] = {"schema": schema}
    todo: list[tuple[dict[Any, Any] | list[Any], Any, bool]] = [(root, "schema", True)]
    while todo:
        holder, place, whole = todo.pop()
        if not isinstance(holder[place], Mapping):
            continue
        value = holder[place] = dict(holder[place])
        if whole:
            for keyword, (declares, others) in _CLOSED.items():
                if any(_declares(value, declares)) and not any(other in value for other in others):
                    value[keyword] = False
        todo += _places(value, whole)
    return root["schema"]


def _declares(schema: Mapping[str, Any], keywords: tuple[str, ...]) -> Iterator[bool]:
    """Whether a schema, or a part of it for the same value, has one of these keywords."""
    todo: list[Any] = [schema]
    while todo:
        part = todo.pop()
        if isinstance(part, Mapping):
            yield any(keyword in part for keyword in keywords)
            todo += [part[name] for name in ("if", "then", "else") if name in part]
            todo += part["allOf"] if isinstance(part.get("allOf"), list) else []


def _places(schema: dict[str, Any], whole: bool) -> Iterator[tuple[dict[Any, Any] | list[Any], Any, bool]]:
    """The places of the subschemas of a schema, each with whether it describes a value by itself; copies the containers."""
    for name in (*_ONE, *_TOGETHER):
        if isinstance(schema.get(name), Mapping) and name != "dependentSchemas":
            yield schema, name, name not in _TOGETHER
    for name in (*_MANY, "allOf"):
        if isinstance(schema.get(name), list):
            schema[name] = list(schema[name])
            yield from (
                (schema[name], index, name != "allOf" and (whole or name in ("prefixItems", "items"))) for index in range(len(schema[name]))
            )
    for name in (*_NAMED, "dependentSchemas"):
        if isinstance(schema.get(name), Mapping):
            schema[name] = dict(schema[name])
            yield from ((schema[name], key, name != "dependentSchemas") for key in schema[name])
