"""Turns arguments written as literals of a language into JSON, while they arrive."""

from __future__ import annotations

import json
import re
from typing import Final

from ...schema.structural_tag.notations import Notation
from .arguments import JsonScanner, StateReader, overlap
from .spelling import BLANKS

_WORD: Final = re.compile(r"[A-Za-z0-9_.+-]+")
_CLOSE: Final = {"{": "}", "[": "]"}


class LiteralsReader(StateReader):
    """Reads arguments: `key=value` or `key:value` with commas between, and objects and arrays inside values."""

    def __init__(self, tail: str, notation: Notation) -> None:
        super().__init__(tail)
        assert notation.literals is not None
        self._literals = notation.literals
        self._words = dict(zip(notation.literals.words, ("null", "true", "false"), strict=True))
        self._stack = ["{"]
        self._count = [0]
        self._state = self._member
        self._scanner = JsonScanner()

    def _member(self, out: list[str]) -> bool:
        """Before a member or an item, a comma, or the end of the object or array around them."""
        self._buffer = text = self._buffer.lstrip(BLANKS)
        is_top = len(self._stack) == 1
        end = self._tail if is_top else _CLOSE[self._stack[-1]]
        if text.startswith(end):
            out.append(_CLOSE[self._stack[-1]] if self._count[-1] else self._stack[-1] + _CLOSE[self._stack[-1]])
            if is_top:
                self._state = self._over
                return True
            self._buffer = text[len(end) :]
            self._stack.pop()
            self._count.pop()
            return True
        if not text or end.startswith(text):
            return False
        if text[0] == ",":
            self._buffer = text[1:]
            return True
        if self._stack[-1] == "[":
            self._begin(out, "")
            return True
        return self._key(out, self._literals.assign if is_top else self._literals.member.strip())

    def _key(self, out: list[str], assign: str) -> bool:
        """At the key of a member."""
        text = self._buffer
        if text[0] == '"':
            end = JsonScanner().scan(text)
            if end is None or assign not in text[end:]:
                return False
            key, rest = text[:end], text[end:].partition(assign)[2]
        else:
            name, found, rest = text.partition(assign)
            if not found:
                return False
            key = json.dumps(name.strip(BLANKS), ensure_ascii=False)
        self._buffer = rest
        self._begin(out, f"{key}: ")
        return True

    def _begin(self, out: list[str], key: str) -> None:
        """Write the separator and the key before a value."""
        out.append((", " if self._count[-1] else self._stack[-1]) + key)
        self._count[-1] += 1
        self._state = self._value

    def _value(self, out: list[str]) -> bool:
        """At a value."""
        self._buffer = text = self._buffer.lstrip(BLANKS)
        quote = self._literals.quote
        if not text or (quote and quote.startswith(text) and text != quote):
            return False
        if quote and text.startswith(quote):
            self._buffer = text[len(quote) :]
            out.append('"')
            self._state = self._quoted
        elif text[0] in _CLOSE:
            self._stack.append(text[0])
            self._count.append(0)
            self._buffer = text[1:]
            self._state = self._member
        elif text[0] == '"':
            self._scanner = JsonScanner()
            self._state = self._string
        else:
            found = _WORD.match(text)
            if found is not None and found.end() == len(text):
                return False
            word = text[: found.end()] if found is not None else text[0]
            self._buffer = text[len(word) :]
            out.append(self._words.get(word) or _number(word))
            self._state = self._member
        return True

    def _quoted(self, out: list[str]) -> bool:
        """In a string between quotes."""
        end = self._buffer.find(self._literals.quote)
        kept = end if end >= 0 else len(self._buffer) - overlap(self._buffer, self._literals.quote)
        out.append(json.dumps(self._buffer[:kept], ensure_ascii=False)[1:-1])
        self._buffer = self._buffer[kept:]
        if end < 0:
            return False
        self._buffer = self._buffer[len(self._literals.quote) :]
        out.append('"')
        self._state = self._member
        return True

    def _string(self, out: list[str]) -> bool:
        """In a string that is JSON."""
        end = self._scanner.scan(self._buffer)
        out.append(self._buffer[:end])
        self._buffer = "" if end is None else self._buffer[end:]
        if end is None:
            return False
        self._state = self._member
        return True

    def _over(self, out: list[str]) -> bool:
        """After the last argument."""
        self.end()
        return False


def _number(word: str) -> str:
    """A number unchanged, any other word as a string."""
    try:
        json.loads(word)
    except ValueError:
        return json.dumps(word, ensure_ascii=False)
    return word
