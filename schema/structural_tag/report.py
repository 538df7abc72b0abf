"""The fate of the keywords of the schemas inside a structural tag, each by its pointer into the tag."""

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
"""Fields that hold a list of formats, or of objects with a format inside."""


def tag_entries(tag: Any) -> Iterator[Entry]:
    """The entries for a structural tag of plain values that compiles, in its order."""
    stack: list[tuple[Any, str]] = [(tag, "")]
    while stack:
        value, pointer = stack.pop()
        if not isinstance(value, Mapping):
            continue
        for name in ("json_schema", "schema"):
            if value.get(name) is not None:
                yield from _schema_entries(value[name], f"{pointer}/{name}")
        inner = [(value[name], f"{pointer}/{name}") for name in _ONE if name in value]
        for name in _MANY:
            inner += ((item, f"{pointer}/{name}/{index}") for index, item in enumerate(value.get(name) or ()))
        inner += ((rule[1], f"{pointer}/rules/{index}/1") for index, rule in enumerate(value.get("rules") or ()))
        stack += reversed(inner)


def _schema_entries(schema: Any, pointer: str) -> Iterator[Entry]:
    """The entries for a schema at a pointer; the older form of tags may have it as text."""
    if isinstance(schema, str):
        schema = json.loads(schema)
    for entry in schema_entries(Registry(schema), formats=True):
        yield replace(entry, pointer=pointer + entry.pointer)
