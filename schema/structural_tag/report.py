"""What became of the keywords of the schemas inside a structural tag, each by its pointer into the tag."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from ..dialect.references import Registry
from ..dialect.report import Entry, schema_entries

_ONE: Final = ("format", "content")
"""Fields that hold a format."""
_MANY: Final = ("elements", "tags", "structures")
"""Fields that hold a list of formats, or of what has one in it."""


def tag_entries(tag: Any) -> Iterator[Entry]:
    """The entries for a structural tag out of plain values that was compiled, in its order."""
    stack: list[tuple[Any, str]] = [(tag, "")]
    while stack:
        value, place = stack.pop()
        if not isinstance(value, Mapping):
            continue
        for name in ("json_schema", "schema"):
            if value.get(name) is not None:
                yield from _schema_entries(value[name], f"{place}/{name}")
        inner = [(value[name], f"{place}/{name}") for name in _ONE if name in value]
        for name in _MANY:
            inner += ((item, f"{place}/{name}/{index}") for index, item in enumerate(value.get(name) or ()))
        inner += ((rule[1], f"{place}/rules/{index}/1") for index, rule in enumerate(value.get("rules") or ()))
        stack += reversed(inner)


def _schema_entries(schema: Any, place: str) -> Iterator[Entry]:
    """The entries for a schema that stands at a place; the older form of tags may have it as text."""
    if isinstance(schema, str):
        schema = json.loads(schema)
    for entry in schema_entries(Registry(schema), formats=True):
        yield replace(entry, pointer=place + entry.pointer)
