"""Turns arguments spelled as elements inside elements into JSON, while they arrive."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from ...schema.structural_tag.notations import Notation
from .arguments import Base, Values, checked
from .kinds import kinds, member
from .spelling import BLANKS

_WHOLE: Final = {"object": "{}", "array": "[]"}


class _Element:
    """An element that is open: a text until an element begins in it, unless its tag or its schema says what kind of value it holds."""

    __slots__ = ("count", "is_raw", "kind", "kinds", "schema", "word")

    def __init__(self, schema: Any, root: Any, word: str, kind: str = "") -> None:
        self.schema = schema
        self.kinds = kinds(schema, root)
        self.word = word
        self.count = 0
        self.is_raw = word == "raw"
        self.kind = kind or {"dict": "object", "list": "array"}.get(word, "text")
        if not word and not kind and len(self.kinds) == 1 and self.kinds <= _WHOLE.keys():
            (self.kind,) = self.kinds


class ElementsReader(Base):
    """Reads elements to any depth."""

    def __init__(self, tail: str, notation: Notation, schema: Any) -> None:
        super().__init__(tail)
        self._root = schema
        self._values = Values(notation, schema)
        self._notation = notation
        self._stack = [_Element(schema, schema, "", "object")]
        begin, close = notation.pair.split("$value")
        item = notation.item.split("$value")[0]
        last = begin[begin.index("$key") + len("$key")]
        key = rf"(?!/)[^{last}]*"
        opens = re.escape(begin).replace(r"\$key", f"(?P<name>{key})").replace(r"\$kind", "(?P<word>[a-z]+)")
        items = re.escape(item).replace(r"\$kind", "(?P<item_word>[a-z]+)")
        self._close = re.compile("(?P<close>" + re.escape(close).replace(r"\$key", key) + ")")
        self._tags = re.compile(f"(?:{opens})|(?:{items})|{self._close.pattern}")

    def feed(self, text: str) -> str:
        """Read these characters; returns the text that they add to the result."""
        self._buffer += text
        out: list[str] = []
        while not self.is_done and self._step(out):
            pass
        return "".join(out)

    def _step(self, out: list[str]) -> bool:
        """One tag, or the end of the call; False where more text is needed."""
        if not self._stack:
            self.end()
            return False
        top = self._stack[-1]
        if len(self._stack) == 1:
            text = self._buffer.lstrip(BLANKS)
            if self._tail.startswith(text) and len(text) < len(self._tail):
                return False
            if text.startswith(self._tail):
                out.append("}" if top.count else "{}")
                self._stack.clear()
                return True
        found = (self._close if top.is_raw else self._tags).search(self._buffer)
        if found is None:
            return False
        between, self._buffer = self._buffer[: found.start()], self._buffer[found.end() :]
        if found["close"] is not None:
            out.append(self._closed(between))
        else:
            out.append(self._opened(top, found["name"], found.groupdict().get("word") or found.groupdict().get("item_word") or ""))
        return True

    def _opened(self, top: _Element, name: str | None, word: str) -> str:
        """The JSON that the beginning of an element adds."""
        if top.kind == "text":
            is_item = name is None or (not self._notation.escapes and name == "item" and member(top.schema, name, self._root) is True)
            top.kind = "array" if "array" in top.kinds and (is_item or "object" not in top.kinds) else "object"
        begin = ", " if top.count else _WHOLE[top.kind][0]
        top.count += 1
        key = None
        if top.kind == "object":
            key = self._notation.unescaped(name or "item")
            begin += f"{json.dumps(key, ensure_ascii=False)}: "
        self._stack.append(_Element(member(top.schema, key, self._root), self._root, word))
        return begin

    def _closed(self, text: str) -> str:
        """The JSON that the end of an element adds."""
        top = self._stack.pop() if len(self._stack) > 1 else self._stack[0]
        if top.kind != "text":
            return _WHOLE[top.kind][1] if top.count else _WHOLE[top.kind]
        if top.word and not top.is_raw:
            return checked(text.strip(BLANKS))
        return self._values.json(text, top.schema, frozenset(("string",)) if top.is_raw else top.kinds)
