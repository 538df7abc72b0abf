"""Turns the arguments of a call from a model's text into JSON, while they arrive.

One reader for each way that arguments are spelled, and one more in `elements`.
A reader takes text until the end of the call, returns the JSON of the text so far, and keeps the text after the call in `rest`.
Nothing here recurses on the depth of a value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, Protocol

from ...schema.structural_tag.notations import Notation
from .fits import Checker
from .kinds import kinds, member
from .spelling import BLANKS, between_gaps

_STRUCTURE: Final = re.compile(r'["{}\[\]]')
_STRING: Final = re.compile(r'["\\]')
_SCALAR: Final = re.compile(r"[A-Za-z0-9+.-]*")
_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "/": "/"}


class Reader(Protocol):
    """Reads one call's arguments or input."""

    is_done: bool
    rest: str

    def feed(self, text: str) -> str:
        """Read these characters; returns the text that they add to the result."""


class JsonScanner:
    """Finds the end of a JSON value."""

    __slots__ = ("_depth", "_escaped", "_in_string", "_scalar")

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = self._escaped = self._scalar = False

    def scan(self, text: str) -> int | None:
        """The index in `text` where the value ends, None if it has not ended; `text` continues the text scanned before.

        >>> scanner = JsonScanner()
        >>> scanner.scan('{"a": "}'), scanner.scan('"} and more')
        (None, 2)
        """
        index = 0
        while index < len(text):
            if self._in_string:
                if self._escaped:
                    self._escaped = False
                    index += 1
                    continue
                found = _STRING.search(text, index)
                if found is None:
                    return None
                index = found.end()
                self._escaped = found[0] == "\\"
                self._in_string = self._escaped
                if not self._in_string and not self._depth:
                    return index
            elif self._depth:
                found = _STRUCTURE.search(text, index)
                if found is None:
                    return None
                index = found.end()
                self._in_string = found[0] == '"'
                self._depth += (found[0] in "{[") - (found[0] in "}]")
                if not self._depth:
                    return index
            elif not self._scalar and text[index] in '"{[':
                self._in_string, self._depth = text[index] == '"', int(text[index] != '"')
                index += 1
            else:
                self._scalar = True
                found = _SCALAR.match(text, index)
                assert found is not None
                return None if found.end() == len(text) else found.end()
        return None


class Base:
    """The part that all readers share: the text not yet read, and the text that ends the call."""

    def __init__(self, tail: str) -> None:
        self.is_done = False
        self.rest = ""
        self._tails = [part.strip(BLANKS) for part in between_gaps(tail)]
        self._tail = self._tails[0] if self._tails else ""
        self._buffer = ""

    def end(self) -> None:
        """Read the end of the call: blanks and the tail; if other text follows, the call ends there."""
        while self._tails:
            word, text = self._tails[0], self._buffer.lstrip(BLANKS)
            if word.startswith(text) and len(text) < len(word):
                return
            self._buffer = text.removeprefix(word)
            del self._tails[0]
        self.is_done, self.rest, self._buffer = True, self._buffer, ""


class JsonReader(Base):
    """JSON, passed on unchanged."""

    def __init__(self, tail: str) -> None:
        super().__init__(tail)
        self._scanner: JsonScanner | None = JsonScanner()
        self._begun = False

    def feed(self, text: str) -> str:
        """Read these characters; returns the text that they add to the result."""
        if not self._begun:
            text = text.lstrip(BLANKS)
            self._begun = bool(text)
        out = ""
        if self._scanner is not None:
            end = self._scanner.scan(text)
            if end is None:
                return text
            out, text, self._scanner = text[:end], text[end:], None
        self._buffer += text
        self.end()
        return out


class StringReader(Base):
    """The text that a JSON string stands for."""

    def __init__(self, tail: str) -> None:
        super().__init__(tail)
        self._is_closed = False
        self._begun = False

    def feed(self, text: str) -> str:
        """Read these characters; returns the text that they add to the result."""
        self._buffer += text
        if not self._begun:
            self._buffer = self._buffer.lstrip(BLANKS)
            if not self._buffer:
                return ""
            self._begun, self._buffer = True, self._buffer.removeprefix('"')
        out: list[str] = []
        while not self._is_closed:
            found = _STRING.search(self._buffer)
            plain = len(self._buffer) if found is None else found.start()
            out.append(self._buffer[:plain])
            self._buffer = self._buffer[plain:]
            if found is None:
                return "".join(out)
            if found[0] == '"':
                self._is_closed, self._buffer = True, self._buffer[1:]
                break
            escape = _escape(self._buffer)
            if escape is None:
                return "".join(out)
            character, length = escape
            out.append(character)
            self._buffer = self._buffer[length:]
        self.end()
        return "".join(out)


class InputReader(Base):
    """Unescaped text, up to the end of the call."""

    def __init__(self, tail: str) -> None:
        super().__init__(tail)
        self._word = next(iter(between_gaps(tail)), "")
        self._is_closed = False

    def feed(self, text: str) -> str:
        """Read these characters; returns the text that they add to the result."""
        self._buffer += text
        out = ""
        if not self._is_closed:
            end = self._buffer.find(self._word) if self._word else -1
            self._is_closed = end >= 0
            end = end if self._is_closed else len(self._buffer) - overlap(self._buffer, self._word)
            out, self._buffer = self._buffer[:end], self._buffer[end:]
        if self._is_closed:
            self.end()
        return out


class StateReader(Base):
    """Reads by states: each is a method that consumes part of the buffer and returns whether the next state can run at once."""

    _state: Callable[[list[str]], bool]

    def feed(self, text: str) -> str:
        """Read these characters; returns the text that they add to the result."""
        self._buffer += text
        out: list[str] = []
        while not self.is_done and self._state(out):
            pass
        return "".join(out)


class PairsReader(StateReader):
    """Arguments one after the other, each between two texts."""

    def __init__(self, tail: str, notation: Notation, schema: Any) -> None:
        super().__init__(tail)
        self._notation = notation
        self._schema = schema
        self._open, self._close = notation.before, notation.close
        after = r"\s*".join(map(re.escape, notation.opening)).replace(r"\$kind", "(?P<kind>[a-z]*)")
        self._head = re.compile(f"(?P<key>.*?){re.escape(notation.ends_key)}{after}", re.DOTALL)
        self._count = 0
        self._state = self._between
        self._kinds: frozenset[str] = frozenset()
        self._member: Any = True
        self._scanner = JsonScanner()
        self._scalar = ""
        self._values = Values(notation, schema)

    def _between(self, out: list[str]) -> bool:
        """Before an argument, or at the end."""
        self._buffer = text = self._buffer.lstrip(BLANKS)
        if text.startswith(self._open):
            self._buffer = text[len(self._open) :]
            self._state = self._name
            return True
        if any(expected.startswith(text) and len(text) < len(expected) for expected in (self._open, self._tail)):
            return False
        out.append("}" if self._count else "{}")
        self._state = self._over
        return True

    def _over(self, out: list[str]) -> bool:
        """After the last argument."""
        self.end()
        return False

    def _name(self, out: list[str]) -> bool:
        """In the name of an argument."""
        found = self._head.match(self._buffer)
        if found is None:
            return False
        self._buffer = self._buffer[found.end() :]
        key = self._notation.unescaped(found["key"])
        out.append(f"{', ' if self._count else '{'}{json.dumps(key, ensure_ascii=False)}: ")
        self._count += 1
        self._member = member(self._schema, key, self._schema)
        self._kinds = self._values.kinds(self._member, found.groupdict().get("kind"))
        if "string" not in self._kinds:
            self._scanner, self._scalar = JsonScanner(), ""
            self._state = self._json
        elif len(self._kinds) == 1 and self._values.checker.allows_any_text(self._member):
            out.append('"')
            self._state = self._first
        else:
            self._state = self._whole
        return True

    def _first(self, out: list[str]) -> bool:
        """Before the first character of a string."""
        if self._notation.trim:
            if not self._buffer:
                return False
            if not self._buffer.startswith("\n" + self._close):  # where one newline is all there is, it is the last
                self._buffer = self._buffer.removeprefix("\n")
        self._state = self._string
        return True

    def _string(self, out: list[str]) -> bool:
        """In a string, which is passed on as it arrives."""
        close = "\n" + self._close if self._notation.trim else self._close
        ends = [index for text in {close, self._close} if (index := self._buffer.find(text)) >= 0]
        if ends:
            end = min(ends)
            out.append(_inside(self._buffer[:end]) + '"')
            self._buffer = self._buffer[self._buffer.index(self._close, end) + len(self._close) :]
            self._state = self._between
            return True
        partial = max(overlap(self._buffer, close), overlap(self._buffer, self._close))
        out.append(_inside(self._buffer[: len(self._buffer) - partial]))
        self._buffer = self._buffer[len(self._buffer) - partial :]
        return False

    def _json(self, out: list[str]) -> bool:
        """In a value that is JSON."""
        if not self._scalar:
            self._buffer = self._buffer.lstrip(BLANKS)
        text, self._buffer = self._buffer, ""
        end = self._scanner.scan(text)
        self._scalar += text[:end]
        if end is None:
            return False
        out.append(checked(self._scalar))
        self._buffer = text[end:]
        self._state = self._after
        return True

    def _after(self, out: list[str]) -> bool:
        """After a value that is JSON."""
        text = self._buffer.lstrip(BLANKS)
        if self._close.startswith(text) and len(text) < len(self._close):
            return False
        self._buffer = text.removeprefix(self._close)
        self._state = self._between
        return True

    def _whole(self, out: list[str]) -> bool:
        """In a constrained string, or a value that may be a string or JSON."""
        end = self._buffer.find(self._close)
        if end < 0:
            return False
        is_open = self._buffer.lstrip(BLANKS)[:1] in ("{", "[") and self._kinds & {"object", "array"}
        longer = end
        while is_open and longer >= 0 and not _is_json(self._buffer[:longer]):  # the close may stand in a string of the value
            longer = self._buffer.find(self._close, longer + 1)
        end = longer if longer >= 0 else end
        out.append(self._values.json(self._buffer[:end], self._member, self._kinds))
        self._buffer = self._buffer[end + len(self._close) :]
        self._state = self._between
        return True


class Values:
    """Values of one tool's arguments in one notation."""

    def __init__(self, notation: Notation, schema: Any) -> None:
        self._notation = notation
        self._schema = schema
        self.checker = Checker(schema)

    def kinds(self, schema: Any, word: str | None) -> frozenset[str]:
        """The kinds that a value may be of, by its schema and by the word that the notation has for its kind."""
        found = kinds(schema, self._schema)
        if word is None:
            return found
        is_string = word == self._notation.kinds["string"]
        return frozenset(("string",)) if is_string else found - {"string"}

    def json(self, text: str, schema: Any, allowed: frozenset[str]) -> str:
        """A value as JSON: of the ways in which the text can be read, the first that the schema allows."""
        readings: list[str] = []
        if allowed - {"string"} and _is_json(text):
            readings.append(text.strip(BLANKS))
        if "string" in allowed:
            trimmed = text.removeprefix("\n").removesuffix("\n") if self._notation.trim else text
            readings += (json.dumps(one, ensure_ascii=False) for one in dict.fromkeys((trimmed, text, text.strip(BLANKS))))
        if not text:
            readings += (empty for kind, empty in (("array", "[]"), ("object", "{}")) if kind in allowed)
        if not readings:
            return json.dumps(text, ensure_ascii=False)
        return next((one for one in readings if len(readings) == 1 or self.checker(schema, one)), readings[0])


def overlap(text: str, word: str) -> int:
    """The most last characters of `text` that could be the beginning of `word`.

    >>> overlap("a < b <too", "<tool>")
    4
    """
    return next((count for count in range(min(len(word) - 1, len(text)), 0, -1) if text.endswith(word[:count])), 0)


def checked(text: str) -> str:
    """The text itself if it is JSON, else the text as a JSON string."""
    return text if _is_json(text) else json.dumps(text, ensure_ascii=False)


def _is_json(text: str) -> bool:
    """Whether a text is JSON, however deep."""
    try:
        json.loads(text)
    except ValueError:
        return False
    except RecursionError:
        pass
    return True


def _inside(text: str) -> str:
    """A piece of a text as it stands inside a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _escape(text: str) -> tuple[str, int] | None:
    """The character that an escape at the beginning of `text` stands for and its length; None where more text is needed."""
    if len(text) < 2:
        return None
    if text[1] != "u":
        return _ESCAPES.get(text[1], text[1]), 2
    if len(text) < 6:
        return None
    first = _unit(text[2:6])
    if not 0xD800 <= first <= 0xDBFF:
        return chr(first) if not 0xDC00 <= first <= 0xDFFF else "\ufffd", 6
    if len(text) < 12 and text[6:8] in ("", "\\", "\\u"):
        return None
    if text[6:8] == "\\u" and len(text) < 12:
        return None
    second = _unit(text[8:12]) if text[6:8] == "\\u" else 0
    if 0xDC00 <= second <= 0xDFFF:
        return chr(0x10000 + (first - 0xD800 << 10) + second - 0xDC00), 12
    return "\ufffd", 6


def _unit(text: str) -> int:
    """The number of four hexadecimal digits; that of the replacement character if they are not hexadecimal."""
    return int(text, 16) if re.fullmatch("[0-9A-Fa-f]{4}", text) else 0xFFFD
