"""JSON text and where its parts stand: the path of a position in a text that may be unfinished, and the range of a pointer.

Both read characters with one loop and a list in the place of recursion, so neither the length nor the depth of a text matters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_CHARACTER: Final = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]", re.DOTALL)
"""The spelling of one code point in a string literal; two escapes may be the surrogates of one."""
_SCALAR: Final = re.compile(r"[^\s\[\]{},:\"]+")
_BLANK: Final = re.compile(r"[ \t\n\r]*")


@dataclass(slots=True)
class Container:
    """An object or an array that has begun and not ended; `key` is the member or the item that is being read."""

    is_object: bool
    start: int
    key: str | int | None = None
    count: int = 0  # members or items that began
    keys: list[str] = field(default_factory=list)
    awaits_value: bool = False  # an object's key and colon were read
    in_value: bool = False


@dataclass(frozen=True, slots=True)
class JsonPosition:
    """The end of a JSON text: the containers around it, and the value being read there.

    `path` is that of the value that the end stands in. `partial` is the text of a string, key or scalar that has begun there.
    `in_key`: it is the key of a member.
    """

    path: tuple[str | int, ...]
    containers: tuple[Container, ...]
    partial: str | None
    in_key: bool
    in_string: bool

    @property
    def pointer(self) -> str:
        """The path as a JSON pointer (RFC 6901)."""
        return "".join(f"/{escaped(part)}" for part in self.path)


def escaped(part: str | int) -> str:
    """A key or an index as a part of a JSON pointer."""
    return str(part).replace("~", "~0").replace("/", "~1")


def read_position(text: str) -> JsonPosition:
    r"""The position at the end of this text, which is the beginning of some JSON.

    >>> read_position('{"items": [{"price": 1}, {"na').path, read_position('{"a": "xy').partial
    (('items', 1), 'xy')
    """
    stack: list[Container] = []
    at = 0
    partial: str | None = None
    in_key = in_string = False
    while True:
        at = _BLANK.match(text, at).end()  # type: ignore[union-attr]  # it matches everywhere
        if at >= len(text):
            break
        char = text[at]
        top = stack[-1] if stack else None
        if char in "{[":
            _begin_value(top)
            stack.append(Container(char == "{", at, None if char == "{" else -1))
            at += 1
        elif char in "}]":
            if stack:
                stack.pop()
            if stack:
                stack[-1].in_value = False
                stack[-1].awaits_value = False
            at += 1
        elif char == ",":
            if top is not None:
                top.in_value = top.awaits_value = False
                if top.is_object:
                    top.key = None
            at += 1
        elif char == ":":
            if top is not None and top.is_object:
                top.awaits_value = True
            at += 1
        else:
            found = (_STRING if char == '"' else _SCALAR).match(text, at)
            assert found is not None
            piece = found[0]
            is_key = char == '"' and top is not None and top.is_object and not top.awaits_value
            ended = _is_closed(piece) if char == '"' else found.end() < len(text)
            if is_key and top is not None:
                if ended:
                    top.key = _unquoted(piece)
                    top.keys.append(top.key)
                    top.count += 1
            else:
                _begin_value(top)
            at = found.end()
            if not ended:
                partial, in_key, in_string = (_unquoted(piece) if char == '"' else piece), is_key, char == '"'
                break
            if not is_key and top is not None:
                top.in_value = False
    return JsonPosition(tuple(_path(stack)), tuple(stack), partial, in_key, in_string)


def _begin_value(top: Container | None) -> None:
    """A value begins in this container."""
    if top is None:
        return
    if not top.is_object:
        assert isinstance(top.key, int)
        top.key += 1
        top.count += 1
    top.in_value = True


def _path(stack: list[Container]) -> list[str | int]:
    path: list[str | int] = []
    for level, container in enumerate(stack):
        is_inside = level + 1 < len(stack) or container.in_value or container.awaits_value
        if is_inside and container.key is not None and container.key != -1:
            path.append(container.key)
    return path


def _is_closed(piece: str) -> bool:
    return len(piece) > 1 and piece[-1] == '"' and (len(piece) - 1 - len(piece[:-1].rstrip("\\"))) % 2 == 0


def _unquoted(piece: str) -> str:
    """The text of a string that may be cut, also inside of an escape."""
    body = piece[1:-1] if _is_closed(piece) else piece[1:]
    for cut in range(min(len(body), 12) + 1):
        try:
            return str(json.loads(f'"{body[: len(body) - cut]}"', strict=False))
        except ValueError:
            continue
    return body


@lru_cache(4)
def find_ranges(text: str, most: int = 200_000) -> Mapping[str, tuple[int, int]]:
    r"""The range of each value of a JSON text by its pointer, and of each member's key by its pointer and "#"; at most a given number.

    >>> find_ranges('{"a": [1, 22]}')["/a/1"]
    (10, 12)
    """
    ranges: dict[str, tuple[int, int]] = {}
    stack: list[_Open] = []
    at = 0
    while len(ranges) < most:
        at = _BLANK.match(text, at).end()  # type: ignore[union-attr]  # it matches everywhere
        if at >= len(text):
            break
        char = text[at]
        top = stack[-1] if stack else None
        if char in "{[":
            stack.append(_Open(top.place if top is not None else "", at, None if char == "{" else 0, is_object=char == "{"))
            at += 1
        elif char in "}]":
            if top is None:
                break
            stack.pop()
            at += 1
            ranges[top.pointer] = (top.start, at)
        elif char == ",":
            if top is not None:
                top.advance()
            at += 1
        elif char == ":":
            if top is not None:
                top.awaits_value = True
            at += 1
        else:
            found = (_STRING if char == '"' else _SCALAR).match(text, at)
            assert found is not None
            if char == '"' and top is not None and top.is_object and not top.awaits_value:
                top.key = _unquoted(found[0])
                ranges[f"{top.place}#"] = found.span()
            else:
                ranges[top.place if top is not None else ""] = found.span()
            at = found.end()
    return ranges


def inner_range(text: str, where: tuple[int, int], inner: tuple[int, int]) -> tuple[int, int]:
    r"""The range in a JSON text of a range in the value of the string literal at `where`.

    >>> text = r'["a\nb"]'
    >>> start, end = inner_range(text, (1, 7), (1, 2))
    >>> text[start:end]
    '\\n'
    """
    ends = [where[0] + 1]
    ends += (found.end() for found in _CHARACTER.finditer(text, where[0] + 1, where[1] - 1))
    return ends[min(inner[0], len(ends) - 1)], ends[min(inner[1], len(ends) - 1)]


@dataclass(slots=True)
class _Open:
    """An object or array of a whole JSON text that has not ended yet."""

    pointer: str
    start: int
    key: str | int | None
    is_object: bool
    awaits_value: bool = False

    @property
    def place(self) -> str:
        """The pointer of the member or item that is being read."""
        return self.pointer if self.key is None else f"{self.pointer}/{escaped(self.key)}"

    def advance(self) -> None:
        """Go on to the next member or item."""
        if isinstance(self.key, int):
            self.key += 1
        else:
            self.key, self.awaits_value = None, False
