"""A JSON text, whole or not, as a value with the places of its parts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from .problems import Path

DEEPEST: Final = 100
"""Objects and arrays nested deeper are not read: the paths of their parts alone would take memory in the square of the depth."""
_BLANKS: Final = re.compile(r"[ \t\n\r]*")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*("?)')
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_PYTHON: Final = {"True": "true", "False": "false", "None": "null"}
_WORDS: Final = {"true": True, "false": False, "null": None}


@dataclass(slots=True)
class Part:
    """A value or a key in the text: where it begins and ends, and whether its end is there."""

    path: Path
    start: int
    end: int
    is_key: bool = False
    is_whole: bool = True

    def has(self, position: int) -> bool:
        """Whether a position lies in it."""
        return self.start <= position < self.end


@dataclass(slots=True)
class Reading:
    """The values of a text up to its end, or up to the first character that is not JSON.

    `parts` are in the order of their beginnings. `stopped` says where the text stops being JSON, -1 where it does not; `wanted` is what
    would have to be there, in the value at `path`. `twice` are keys that an object has already, with where they begin.
    """

    value: Any = None
    parts: list[Part] = field(default_factory=list)
    stopped: int = -1
    wanted: str = ""
    path: Path = ()
    twice: list[Part] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether the text is a JSON value from its beginning to its end."""
        return self.stopped < 0

    def by_path(self) -> dict[Path, Part]:
        """The value at each path, or its key where there is no value yet."""
        return {part.path: part for part in sorted(self.parts, key=lambda part: not part.is_key)}

    def part_at(self, position: int) -> Part | None:
        """The innermost part that a position lies in."""
        return next((part for part in reversed(self.parts) if part.has(position)), None)


@dataclass(slots=True)
class _Frame:
    """An object or array that is open."""

    value: Any
    part: Part
    key: str | None = None


class TooDeepError(Exception):
    """The text is nested deeper than sentences about it would be read."""


class _Stopped(Exception):  # noqa: N818 - no error, but an end of the reading
    """The text continues otherwise than JSON does, or ends."""

    def __init__(self, position: int, wanted: str) -> None:
        self.position = position
        self.wanted = wanted


def read(text: str) -> Reading:
    """The value of a text, without recursion; TooDeepError where it is nested deeper than DEEPEST.

    >>> reading = read('{"a": [1, tru')
    >>> reading.value, reading.path, reading.wanted
    ({'a': [1]}, ('a', 1), 'a value')
    """
    reading, frames = Reading(), list[_Frame]()
    try:
        place = _read_values(text, reading, frames)
        place = _blanks(text, place)
        if place < len(text):
            reading.path = ()
            raise _Stopped(place, "the end of the text")
    except _Stopped as stop:
        reading.stopped, reading.wanted = stop.position, stop.wanted
        for frame in frames:
            frame.part.end, frame.part.is_whole = len(text), False
    return reading


def _read_values(text: str, reading: Reading, frames: list[_Frame]) -> int:
    """Read the outermost value; the place behind it."""
    place = _blanks(text, 0)
    while True:
        # a value begins here
        path = _path(frames)
        reading.path = path
        opening = text[place : place + 1]
        if opening and opening in "{[":
            value: Any = {} if opening == "{" else []
            part = Part(path, place, len(text))
            reading.parts.append(part)
            _put(reading, frames, value)
            if len(frames) == DEEPEST:
                raise TooDeepError
            frames.append(_Frame(value, part))
            reading.path = path
            place = _blanks(text, place + 1)
            if text[place : place + 1] != ("}" if opening == "{" else "]"):
                if opening == "{":
                    place = _read_key(text, place, reading, frames, "a key or }")
                continue
        else:
            place = _read_scalar(text, place, path, reading, frames)
        # a value has ended, or an empty object or array is about to
        while frames:
            frame = frames[-1]
            closing = "}" if isinstance(frame.value, dict) else "]"
            place = _blanks(text, place)
            reading.path = frame.part.path
            found = text[place : place + 1]
            if found == closing:
                place += 1
                frame.part.end = place
                frames.pop()
                continue
            if found != ",":
                raise _Stopped(place, f", or {closing}")
            place = _blanks(text, place + 1)
            if closing == "}":
                place = _read_key(text, place, reading, frames, "a key")
            break
        else:
            return place


def _read_key(text: str, place: int, reading: Reading, frames: list[_Frame], wanted: str) -> int:
    """Read a key and its colon; the place of its value."""
    frame = frames[-1]
    if text[place : place + 1] != '"':
        raise _Stopped(place, wanted)
    key, end = _string(text, place, reading, frame.part.path, is_key=True, put=lambda key: frame.value.setdefault(key, None))
    part = reading.parts[-1]
    if key in frame.value:
        reading.twice.append(part)
    frame.key = key
    frame.value.setdefault(key, None)  # until its value is read
    reading.path = part.path
    place = _blanks(text, end)
    if text[place : place + 1] != ":":
        raise _Stopped(place, ":")
    return _blanks(text, place + 1)


def _read_scalar(text: str, place: int, path: Path, reading: Reading, frames: list[_Frame]) -> int:
    """Read a string, number or word; the place behind it."""
    if text[place : place + 1] == '"':
        return _string(text, place, reading, path, is_key=False, put=lambda value: _put(reading, frames, value))[1]
    value: Any
    for word, value in _WORDS.items():
        if text.startswith(word, place):
            reading.parts.append(Part(path, place, place + len(word)))
            _put(reading, frames, value)
            return place + len(word)
    begun = next((word for word in _WORDS if place < len(text) and word.startswith(text[place:])), None)
    if begun is not None:
        raise _Stopped(len(text), f"the rest of {begun}")
    found = _NUMBER.match(text, place)
    if found is None:
        python = next((word for word in _PYTHON if text.startswith(word, place)), None)
        raise _Stopped(place, "a value" if python is None else f"{_PYTHON[python]}, as JSON writes {python}")
    number = found[0]
    try:
        value = Decimal(number) if re.search(r"[.eE]", number) else int(number)
    except (ValueError, InvalidOperation):  # more digits than Python reads
        raise _Stopped(place, "a number that can be read") from None
    reading.parts.append(Part(path, place, found.end()))
    _put(reading, frames, value)
    return found.end()


def _string(
    text: str, place: int, reading: Reading, path: Path, *, is_key: bool, put: Callable[[str], None] = lambda value: None
) -> tuple[str, int]:
    """Read a string; what there is of it counts where it is cut."""
    found = _STRING.match(text, place)
    assert found is not None
    whole = bool(found[1])
    value = json.loads(found[0] if whole else f'{found[0]}"')
    part = Part((*path, value) if is_key else path, place, found.end(), is_key=is_key, is_whole=whole)
    reading.parts.append(part)
    if not (is_key and whole):
        put(value)
    if not whole:
        part.end = len(text)
        raise _Stopped(found.end(), 'a character of the string, or "')
    return value, found.end()


def _put(reading: Reading, frames: list[_Frame], value: Any) -> None:
    if not frames:
        reading.value = value
    elif isinstance(frames[-1].value, dict):
        assert frames[-1].key is not None
        frames[-1].value[frames[-1].key] = value
    else:
        frames[-1].value.append(value)


def _path(frames: list[_Frame]) -> Path:
    """The path of the value that begins."""
    if not frames:
        return ()
    frame = frames[-1]
    return (*frame.part.path, frame.key if isinstance(frame.value, dict) else len(frame.value))  # type: ignore[arg-type]


def _blanks(text: str, place: int) -> int:
    found = _BLANKS.match(text, place)
    assert found is not None
    return found.end()
