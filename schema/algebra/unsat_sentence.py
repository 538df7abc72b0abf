"""Constraints that contradict each other, as a sentence about the value and each of its parts.

>>> print(unsat_sentence({"type": "integer", "minimum": 3, "maximum": 2}, ["/type", "/minimum", "/maximum"]))
no instance can satisfy the schema: the value must be an integer (/type), be at least 3 (/minimum) and be at most 2 (/maximum)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ..dialect.keyword_values import pointer_token
from .unsat_core import local_target, value_at

_OPAQUE: Final = frozenset({"not", "if", "then", "else", "dependentSchemas", "dependencies", "dependentRequired"})
"""Keywords that are named as a whole, because their contents are not plain demands on an instance."""
_PARTS: Final = {
    "items": "each item",
    "additionalItems": "each further item",
    "unevaluatedItems": "each further item",
    "contains": "some item",
    "propertyNames": "each key",
    "additionalProperties": "each undeclared member",
    "unevaluatedProperties": "each undeclared member",
}
_NOTHING: Final[Mapping[str, str]] = {
    "items": "have no items",
    "additionalItems": "have no further items",
    "unevaluatedItems": "have no further items",
    "additionalProperties": "have no undeclared members",
    "unevaluatedProperties": "have no undeclared members",
    "contains": "have an item that is nothing",
    "propertyNames": "have no members",
}
"""The demands of keywords whose value is `false`."""


def _types(value: Any) -> str:
    names = value if isinstance(value, list) else [value]
    return "be " + " or ".join("null" if name == "null" else f"{'an' if str(name)[:1] in 'aio' else 'a'} {name}" for name in names)


def _members(value: Any) -> str:
    return f"have the member{'' if len(value) == 1 else 's'} {_listed(value)}"


_DEMANDS: Final[Mapping[str, Callable[[Any], str]]] = {
    "type": _types,
    "enum": lambda value: f"be one of {_listed(value)}" if value else "be one of an empty list",
    "const": lambda value: f"be {_shown(value)}",
    "minimum": lambda value: f"be at least {_shown(value)}",
    "maximum": lambda value: f"be at most {_shown(value)}",
    "exclusiveMinimum": lambda value: "be more than its minimum" if value is True else f"be more than {_shown(value)}",
    "exclusiveMaximum": lambda value: "be less than its maximum" if value is True else f"be less than {_shown(value)}",
    "multipleOf": lambda value: f"be a multiple of {_shown(value)}",
    "minLength": lambda value: f"have at least {_counted(value, 'character')}",
    "maxLength": lambda value: f"have at most {_counted(value, 'character')}",
    "pattern": lambda value: f"match the pattern {_shown(value)}",
    "format": lambda value: f"have the format {_shown(value)}",
    "minItems": lambda value: f"have at least {_counted(value, 'item')}",
    "maxItems": lambda value: f"have at most {_counted(value, 'item')}",
    "uniqueItems": lambda value: "have no two equal items",
    "minContains": lambda value: f"have at least {_counted(value, 'item')} that `contains` asks for",
    "maxContains": lambda value: f"have at most {_counted(value, 'item')} that `contains` asks for",
    "minProperties": lambda value: f"have at least {_counted(value, 'member')}",
    "maxProperties": lambda value: f"have at most {_counted(value, 'member')}",
    "required": _members,
    "$ref": lambda value: f"be an instance of {value}",
    "$dynamicRef": lambda value: f"be an instance of {value}",
    "$recursiveRef": lambda value: f"be an instance of {value}",
    "not": lambda value: "not be what `not` describes",
    "oneOf": lambda value: "be what exactly one part of `oneOf` describes",
    "anyOf": lambda value: "be what a part of `anyOf` describes",
}


def unsat_sentence(schema: Any, core: Sequence[str]) -> str:
    """Why no instance satisfies the schema; `core` has the pointers of the constraints that contradict each other, none if unknown."""
    said = "no instance can satisfy the schema"
    if schema is False:
        return f"{said}: it is `false`"
    demands: dict[str, dict[str, str]] = {}
    for pointer in sorted(core, key=lambda pointer: _order(schema, pointer)):
        subject, keyword, demand = _clause(schema, pointer)
        demands.setdefault(subject, {})[keyword] = f"{demand} ({keyword})"
    if not demands:
        return said
    clauses = [f"{subject} must {_joined(list(demanded.values()))}" for subject, demanded in demands.items()]
    endless = ", which refers to itself without end" if _is_endless(schema, core) else ""
    return f"{said}{endless}: {'; '.join(clauses)}"


def _clause(schema: Any, pointer: str) -> tuple[str, str, str]:
    """The subject of a constraint, the pointer of its keyword, and its demand."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
    value, place, base, path = schema, "", "", ""

    def subject() -> str:
        name = f"`{path}`" if path else ""
        return f"{name} in {base}" if name and base else name or base or "the value"

    at = 0
    while at < len(steps):
        keyword = steps[at]
        value, place, at = value[keyword], f"{place}/{pointer_token(keyword)}", at + 1
        if at == len(steps) or keyword in _OPAQUE:
            demand = _NOTHING.get(keyword) if value is False else None
            if demand is None:
                demand = _DEMANDS[keyword](value) if keyword in _DEMANDS else f"do what `{keyword}` asks for"
            return subject(), place, demand
        if keyword in _PARTS and isinstance(value, dict):
            base, path = f"{_PARTS[keyword]} of {subject()}", ""
            continue
        name = steps[at]
        value, place, at = value[int(name) if isinstance(value, list) else name], f"{place}/{pointer_token(name)}", at + 1
        match keyword:
            case "$defs" | "definitions":
                base, path = f"an instance of #{place}", ""
            case "properties" | "prefixItems" | "items":
                path += f"/{pointer_token(name)}"
            case "patternProperties":
                base, path = f"each member of {subject()} that matches {_shown(name)}", ""
            case "anyOf" | "oneOf":
                base, path = f"{subject()}, by #{place},", ""
    return subject(), place, "be left out" if path else "be nothing"


def _is_endless(schema: Any, core: Sequence[str]) -> bool:
    """Whether a reference of the core leads to a place that leads back to it."""
    targets = {pointer: target for pointer in core if (target := local_target(schema, pointer)) is not None}
    for start in targets:
        reached, new = set[str](), [start]
        while new:
            target = targets[new.pop()]
            found = {pointer for pointer in targets if pointer.startswith(f"{target}/")} - reached
            if start in found:
                return True
            reached |= found
            new += found
    return False


def _order(schema: Any, pointer: str) -> list[int]:
    """The target of a pointer as numbers that sort in the order of the schema, definitions last."""
    order: list[int] = []
    value, place = schema, ""
    for step in pointer.split("/")[1:]:
        if isinstance(value, dict):
            order.append(list(map(pointer_token, value)).index(step) + (len(value) if step in ("$defs", "definitions") else 0))
        else:
            order.append(int(step))
        place += f"/{step}"
        value = value_at(schema, place)
    return order


def _counted(value: Any, noun: str) -> str:
    return f"{_shown(value)} {noun}{'' if value == 1 else 's'}"


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _listed(values: Sequence[Any], most: int = 8) -> str:
    return ", ".join(map(_shown, values[:most])) + (", ..." if len(values) > most else "")


def _shown(value: Any, most: int = 60) -> str:
    """A value as JSON, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= most else f"{text[: most - 3]}..."
