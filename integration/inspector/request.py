"""Requests to the inspector, read from JSON with a limit on every field.

`FIELDS` is the one description of a request: `read_request` checks by it, and `request_schema` shows it in the server's OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ...pda.exceptions import StackmaskError, shown

KINDS: Final = ("json_schema", "regex", "ebnf", "lark", "structural_tag", "choice", "json")
VIEWS: Final = ("trace", "tokens", "cursor", "report", "rules", "automaton", "sample", "difference", "snippets", "probabilities")
FIRST_VIEWS: Final = ("trace", "tokens", "cursor")

MOST_SPECIFICATION: Final = 4 << 20
"""Characters of a specification."""
MOST_TEXT: Final = 64 << 10
"""Characters of a text."""
MOST_ROWS: Final = 200
"""Rows of a page of allowed tokens."""
MOST_QUERY: Final = 200

OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "json_schema": {
        "whitespace": {"type": "string", "maxLength": 1000},
        "property_order": {"enum": ["schema", "any"]},
        "extra_properties": {"enum": ["schema", "closed"]},
        "lenient": {"type": "boolean"},
        "distinct_keys": {"type": "boolean"},
    },
    "json": {"whitespace": {"type": "string", "maxLength": 1000}, "distinct_keys": {"type": "boolean"}},
    "ebnf": {"root": {"type": "string", "maxLength": 200}},
    "lark": {"start": {"type": "string", "maxLength": 200}},
    "regex": {},
    "choice": {},
    "structural_tag": {},
}
"""The compiler's options that each kind of specification takes."""

_SPECIFICATION: Final = {
    "type": "object",
    "properties": {
        "kind": {"enum": list(KINDS)},
        "text": {"type": "string", "maxLength": MOST_SPECIFICATION},
        "options": {"type": "object"},
    },
    "required": ["kind", "text"],
    "additionalProperties": False,
}

FIELDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "specification": _SPECIFICATION,
    "other": _SPECIFICATION,
    "text": {"type": "string", "maxLength": MOST_TEXT},
    "cursor": {"type": "integer", "minimum": 0, "maximum": MOST_TEXT},
    "tokenizer": {"type": "string", "maxLength": 200},
    "views": {"type": "array", "items": {"enum": list(VIEWS)}, "maxItems": len(VIEWS)},
    "query": {"type": "string", "maxLength": MOST_QUERY},
    "offset": {"type": "integer", "minimum": 0, "maximum": 1 << 24},
    "limit": {"type": "integer", "minimum": 0, "maximum": MOST_ROWS},
    "try_token": {"type": "integer", "minimum": 0, "maximum": 1 << 24},
    "try_text": {"type": "string", "maxLength": 400},
    "prompt": {"type": "string", "maxLength": 20_000},
    "seed": {"type": "integer", "minimum": 0, "maximum": 1 << 31},
}
"""Every field of a request as a JSON Schema; `specification` is required. Nulls stand for absent fields."""


class RequestError(StackmaskError, ValueError):
    """A request that the inspector cannot read; `field` is the wrong field."""

    def __init__(self, message: str, field: str | None = None) -> None:
        self.field = field
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Specification:
    """A specification as it is written: `text` is JSON for schemas, structural tags and choices."""

    kind: str
    text: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, tuple[tuple[str, Any], ...]]:
        """The key by which two requests are the same."""
        return self.kind, self.text, tuple(sorted(self.options.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectRequest:
    """A question to the inspector.

    `cursor` counts code points of `text`; None is its end. `query`, `offset` and `limit` choose a page of the allowed tokens.
    `try_token` is a token, and `try_text` a text, to be tried at the cursor. `seed` chooses the random instance.
    `prompt` is the model's prompt, if its probabilities are wanted. `other` is a specification to compare with.
    """

    specification: Specification
    other: Specification | None = None
    text: str = ""
    cursor: int | None = None
    tokenizer: str | None = None
    views: tuple[str, ...] = FIRST_VIEWS
    query: str = ""
    offset: int = 0
    limit: int = 50
    try_token: int | None = None
    try_text: str | None = None
    prompt: str = ""
    seed: int = 0


def read_request(body: object) -> InspectRequest:
    """The request in parsed JSON; RequestError names the field that is wrong."""
    given = dict(_object(body, "the body", FIELDS))
    given = {name: value for name, value in given.items() if value is not None}
    if "specification" not in given:
        raise RequestError("specification is missing", "specification")
    for name, value in given.items():
        if name in ("specification", "other"):
            given[name] = _specification(value, name)
        else:
            _check(value, FIELDS[name], name)
    if "views" in given:
        given["views"] = tuple(dict.fromkeys(given["views"]))
    return InspectRequest(**given)


def request_schema() -> dict[str, Any]:
    """A request as a JSON Schema."""
    return {
        "type": "object",
        "properties": {name: dict(schema) for name, schema in FIELDS.items()},
        "required": ["specification"],
        "additionalProperties": False,
    }


def _specification(value: object, name: str) -> Specification:
    given = _object(value, name, {"kind": {}, "text": {}, "options": {}})
    kind, text = given.get("kind"), given.get("text")
    if kind not in KINDS:
        raise RequestError(f"{name}.kind is {shown(kind)}; available: {', '.join(KINDS)}", f"{name}.kind")
    _check(text, {"type": "string", "maxLength": MOST_SPECIFICATION}, f"{name}.text")
    options = given.get("options") or {}
    takes = OPTIONS[kind]
    for option, setting in _object(options, f"{name}.options", takes).items():
        _check(setting, takes[option], f"{name}.options.{option}")
    assert isinstance(text, str)
    return Specification(kind, text, dict(options))


def _object(value: object, name: str, known: Mapping[str, object]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise RequestError(f"{name} must be an object, not {shown(value)}", name)
    for key in value:
        if key not in known:
            place = key if name == "the body" else f"{name}.{key}"
            names = ", ".join(known) or "none"
            raise RequestError(f"unknown field {shown(place)}: no field is ignored here; available: {names}", str(place)[:80])
    return value


_TYPES: Final = {"string": str, "integer": int, "array": list, "boolean": bool, "object": Mapping}


def _check(value: object, schema: Mapping[str, Any], name: str) -> None:
    """Refuse a value that the description of its field does not allow."""
    kind = schema.get("type")
    if kind is not None and (not isinstance(value, _TYPES[kind]) or (kind == "integer" and isinstance(value, bool))):
        raise RequestError(f"{name} must be {'an' if kind[0] in 'aeiou' else 'a'} {kind}, not {shown(value)}", name)
    if "enum" in schema and value not in schema["enum"]:
        raise RequestError(f"{name} is {shown(value)}; available: {', '.join(map(str, schema['enum']))}", name)
    if isinstance(value, str) and len(value) > schema.get("maxLength", len(value)):
        raise RequestError(f"{name} has {len(value)} characters; it may have {schema['maxLength']}", name)
    if isinstance(value, int) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        raise RequestError(f"{name} is {value}, outside {schema['minimum']}..{schema['maximum']}", name)
    if isinstance(value, list):
        if len(value) > schema["maxItems"]:
            raise RequestError(f"{name} has {len(value)} items; it may have {schema['maxItems']}", name)
        for item in value:
            _check(item, schema["items"], name)
