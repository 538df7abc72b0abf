"""Arguments as literals of Python or of Gemma, composed of formats that structural tags have.

Schemas are plain: objects with properties and no other keyword, arrays of one kind of item with bounds, strings, numbers, booleans, null,
lists of values, and any of these by anyOf. Numbers and, in Python, strings are JSON and may have all keywords. The rest is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from ...schema.structural_tag.notations import Literals, Notation
from .compose import free_text, plain_object, resolved, whole_schema, words
from .fits import NOTES
from .kinds import kinds
from .tool import ToolError

Json = dict[str, Any]

_DEEP: Final = 24
_MOST: Final = 100_000  # parts of one tool's arguments
_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ARRAY: Final = NOTES | {"type", "items", "minItems", "maxItems"}


def compose_literals(schema: Any, notation: Notation, whitespace: str) -> Json:
    """The arguments that a schema describes, as a format of structural tags."""
    assert notation.literals is not None
    return _Composer(notation.literals, schema, whitespace).members(schema, notation.literals.assign, 0, is_argument=True)


class _Composer:
    """One tool's arguments in one notation."""

    def __init__(self, literals: Literals, root: Any, whitespace: str) -> None:
        self.literals = literals
        self.root = root
        self.whitespace = whitespace
        self.parts = 0

    def members(self, schema: Any, assign: str, depth: int, *, is_argument: bool = False) -> Json:
        """The members of an object in their order, with commas between those that are there."""
        properties, required = plain_object(schema, self.root)
        keys = list(properties)
        written = []
        for key in keys:
            if (is_argument or not self.literals.quotes_keys) and not _KEY.fullmatch(key):
                raise ToolError(f"its argument {key!r} has a name that this format cannot write; it must be an identifier")
            name = key if is_argument or not self.literals.quotes_keys else json.dumps(key, ensure_ascii=False)
            written.append(_sequence([_text(name + assign), self.value(key, properties[key], depth + 1)]))
        comma = _text(self.literals.comma)

        def after(index: int) -> list[Json]:
            """The members that may follow the one at `index` - 1."""
            later = zip(keys[index:], written[index:], strict=True)
            return [_sequence([comma, one]) if key in required else _optional(_sequence([comma, one])) for key, one in later]

        firsts: list[Json] = []
        for index, key in enumerate(keys):
            firsts.append(_sequence([written[index], *after(index + 1)]))
            self.count(len(keys) - index)
            if key in required:
                return _or(firsts)
        return _optional(_or(firsts)) if firsts else _text("")

    def value(self, key: str, schema: Any, depth: int) -> Json:
        """One value."""
        self.count(1)
        if depth > _DEEP:
            raise ToolError(f"its argument {key!r} is nested more than {_DEEP} deep, or without end")
        schema = resolved(schema, self.root)
        if (values := words(schema)) is not None:
            return _or([self.constant(key, value) for value in values])
        if isinstance(schema, Mapping) and isinstance(schema.get("anyOf"), list) and not schema.keys() - NOTES - {"anyOf"}:
            return _or([self.value(key, part, depth + 1) for part in schema["anyOf"]])
        types = schema.get("type") if isinstance(schema, Mapping) else None
        if isinstance(types, list) and types:
            return _or([self.value(key, {**schema, "type": kind}, depth + 1) for kind in types])
        match types:
            case "string" if self.literals.quote:
                free_text(key, schema)
                return {"type": "tag", "begin": self.literals.quote, "content": {"type": "any_text"}, "end": self.literals.quote}
            case "string" | "number" | "integer":
                return {"type": "json_schema", "json_schema": whole_schema(schema, self.root), "whitespace": self.whitespace}
            case "boolean" | "null" if kinds(schema, self.root) and not schema.keys() - NOTES - {"type"}:
                return _or([_text(word) for word in (self.literals.words[1:] if types == "boolean" else self.literals.words[:1])])
            case "array":
                return self.array(key, schema, depth)
            case "object":
                return _sequence([_text("{"), self.members(schema, self.literals.member, depth), _text("}")])
        raise ToolError(f"its argument {key!r} has no type, which this format needs")

    def array(self, key: str, schema: Mapping[str, Any], depth: int) -> Json:
        """An array of items of one kind."""
        if odd := sorted(schema.keys() - _ARRAY):
            raise ToolError(f"its argument {key!r} has {odd[0]!r}, which this format cannot enforce on an array")
        low, high = schema.get("minItems", 0), schema.get("maxItems")
        if not all(isinstance(bound, int) and bound >= 0 for bound in (low, high or 0)):
            raise ToolError("its parameters are not a JSON Schema")
        if high == 0:
            return _text("[]")
        item = self.value(key, schema.get("items", True), depth + 1)
        more = {
            "type": "repeat",
            "min": max(0, low - 1),
            "max": -1 if high is None else high - 1,
            "content": _sequence([_text(self.literals.comma), item]),
        }
        items = _sequence([item, more])
        return _sequence([_text("["), items if low else _optional(items), _text("]")])

    def constant(self, key: str, value: Any) -> Json:
        """A value that a schema lists."""
        literals = self.literals
        if value is None or isinstance(value, bool):
            return _text(literals.words[0 if value is None else 1 if value else 2])
        if isinstance(value, str) and literals.quote:
            if literals.quote in value:
                raise ToolError(f"its argument {key!r} has a value that this format cannot write: it contains {literals.quote}")
            return _text(f"{literals.quote}{value}{literals.quote}")
        if isinstance(value, str | int | float):
            return _text(json.dumps(value, ensure_ascii=False))
        raise ToolError(f"its argument {key!r} lists values that this format cannot write; it supports strings, numbers, booleans and null")

    def count(self, parts: int) -> None:
        """Refuse a schema whose tag grows too large."""
        self.parts += parts
        if self.parts > _MOST:
            raise ToolError(f"its parameters have more than {_MOST} parts")


def _text(text: str) -> Json:
    return {"type": "const_string", "value": text}


def _optional(content: Json) -> Json:
    return {"type": "optional", "content": content}


def _sequence(elements: list[Json]) -> Json:
    return elements[0] if len(elements) == 1 else {"type": "sequence", "elements": elements}


def _or(elements: list[Json]) -> Json:
    return elements[0] if len(elements) == 1 else {"type": "or", "elements": elements}
