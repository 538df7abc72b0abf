"""Structural tags as callers pass them, with keys that equal tags, and equal inner tags, share.

A structural tag is cut into parts, the inner tags that can be cached, and the rest. Each is serialised once, like schemas:
the key of the whole consists of these keys, and a compiler finds a part by its own key.
So if one of many tools has changed, the others are only read once.
"""

from __future__ import annotations

import pickle
from io import BytesIO
from typing import Any, Final, NamedTuple

from ...pda.limits import Limits
from ...schema.dialect.report import Entry
from ...schema.dialect.serialiser import Serialiser
from ...schema.structural_tag.report import tag_entries
from ...schema.structural_tag.tag_cache import HOLDERS, LEAVES, Part
from .cache_key import check_bytes, is_plain, schema_key, schema_of_key

_ONE: Final = ("format", "content")
"""Fields that hold a format."""
_MANY: Final = ("elements", "tags", "structures")
"""Fields that hold a list of formats, or of objects with a format inside."""
_LISTS: Final = (b"triggered_tags", b"tags_with_separator", b"dispatch")
"""Names in the key of every format that holds a list of tags or rules."""
_LARGEST: Final = 1_000
"""The most formats in a part."""
_MOST_TRIES: Final = 20
"""The most tags that may turn out not to be parts after serialisation, which takes time linear in their size."""


class TagKey(NamedTuple):
    """The key of a structural tag: the rest without the parts, and the keys of the parts."""

    rest: bytes
    parts: tuple[bytes, ...]


def tag_key(tag: object, limits: Limits) -> tuple[TagKey, Any]:
    """The key of a structural tag, and the tag with Parts in it, which share values with the caller's tag."""
    if (cut := _Cut.of(tag, limits)) is None:
        # a value that is not plain, one that holds itself, or one that is deep
        copied = schema_key(tag, limits)
        tag = schema_of_key(copied)
        if (cut := _Cut.of(tag, limits)) is None:
            return TagKey(copied, ()), tag
    key = TagKey(cut.rest, cut.parts)
    check_bytes(len(key.rest) + sum(map(len, key.parts)), limits)
    return key, cut.tag


def tag_of_key(key: TagKey) -> Any:
    """The structural tag with this key, with Parts in it, as a fresh copy."""
    return _opened(key, [Part(part, part, pickle.loads) for part in key.parts])


def entries_of_key(key: TagKey) -> tuple[Entry, ...]:
    """The fate of the keywords of the schemas in the structural tag with this key."""
    return tuple(tag_entries(_opened(key, list(map(pickle.loads, key.parts)))))


def _opened(key: TagKey, parts: list[Any]) -> Any:
    """The structural tag with this key, with these values in place of its parts."""
    # the key was made here, out of plain values: loading it runs nothing
    return _Opener(BytesIO(key.rest), parts).load() if is_plain(key.rest) else schema_of_key(key.rest)


class _Cut:
    """A structural tag on its way to its key."""

    def __init__(self, tag: dict[str, Any], limits: Limits) -> None:
        self._serialiser = Serialiser(limits)
        self._stack: list[dict[str, Any]] = []
        self._seen: set[int] = set()
        self._tries = 0
        self.tag = self._copied(tag)
        while self._stack:
            self._cut(self._stack.pop())
        rest = _RestSerialiser(limits)
        self.rest = rest.key(self.tag)
        self.parts = tuple([part.key for part in rest.parts])

    @classmethod
    def of(cls, tag: object, limits: Limits) -> _Cut | None:
        """A structural tag in parts; None if it does not consist of plain values."""
        if tag.__class__ is not dict:
            return None
        try:
            return cls(tag, limits)
        except (TypeError, ValueError, RecursionError):
            return None

    def _cut(self, format: dict[str, Any]) -> None:
        """Replace the contents of a copy of a format by parts and copies."""
        for name in _ONE:
            if name in format:
                format[name] = self._inside(format[name], "format")
        for name in _MANY:
            if format.get(name).__class__ is list:
                format[name] = [self._inside(item, name) for item in format[name]]
        if format.get("rules").__class__ is list:
            format["rules"] = [
                [rule[0], self._inside(rule[1], "format")] if rule.__class__ is list and len(rule) == 2 else rule
                for rule in format["rules"]
            ]

    def _inside(self, value: Any, where: str) -> Any:
        """The replacement of a format or tag."""
        if value.__class__ is not dict:
            return value
        if where == "structures":
            return self._part(value)
        content = value.get("content")
        if content.__class__ is dict and value.get("type", "tag" if where == "tags" else None) == "tag":
            name = content.get("type")
            if name.__class__ is str and (name in LEAVES or (name in HOLDERS and self._tries < _MOST_TRIES)):
                part = self._part(value)
                if name in LEAVES or not any(map(part.key.__contains__, _LISTS)) or _is_part(content):
                    return part
                self._tries += 1
        # INVARIANT: what stands in several places is copied once, so this ends with a value that holds itself
        return value if id(value) in self._seen else self._copied(value)

    def _copied(self, value: dict[str, Any]) -> dict[str, Any]:
        """A copy that is still to be cut."""
        self._seen.add(id(value))
        copy = dict(value)
        self._stack.append(copy)
        return copy

    def _part(self, value: dict[str, Any]) -> Part:
        """A tag by its key."""
        return Part(self._serialiser.key(value), value)


def _is_part(content: Any) -> bool:
    """Whether the contents of a tag include no list of tags or rules."""
    todo = [content]
    for format in todo:
        name = format.get("type") if format.__class__ is dict else None
        if name.__class__ is not str or (name not in LEAVES and name not in HOLDERS) or len(todo) > _LARGEST:
            return False
        if name in HOLDERS:
            elements = format.get("elements")
            todo += elements if elements.__class__ is list else ()
            if "content" in format:
                todo.append(format["content"])
    return True


class _RestSerialiser(Serialiser):
    """Serialises a structural tag but for its parts, which it lists."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self.parts: list[Part] = []

    def persistent_id(self, value: object) -> int | None:
        """The number of a part."""
        if not isinstance(value, Part):
            return None
        self.parts.append(value)
        return len(self.parts)


class _Opener(pickle.Unpickler):
    """Reads what _RestSerialiser wrote."""

    def __init__(self, file: BytesIO, parts: list[Any]) -> None:
        super().__init__(file)
        self._parts = parts

    def persistent_load(self, number: Any) -> Any:
        """The part with a number."""
        return self._parts[number - 1]
