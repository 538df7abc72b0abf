"""Reads calls, text and reasoning from a model's answer, while it arrives.

    text ---- an opener ----> head ---- its arguments ----> reader ---- its end ----> text, or the separator of calls

The table of formats alone defines the look of a call. Text that begins like a call and is not one is passed on as text.
Blanks next to a call belong to its spelling and are not text.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from ...schema.structural_tag.notations import NOTATIONS
from .arguments import InputReader, JsonReader, PairsReader, Reader, StringReader, overlap
from .elements import ElementsReader
from .formats import Format
from .literals import LiteralsReader
from .spelling import BLANKS, GAPS, MARK, NAME, Spelling, between_gaps, bind, cut, openers, spellings
from .tool import Tool

_FIELDS: Final = {"name": re.compile(NAME), "index": re.compile("[0-9]+"), **dict.fromkeys(GAPS, re.compile(f"[{BLANKS}]*"))}
_WAIT: Final = -1
_FAIL: Final = -2


@dataclass(slots=True)
class Call:
    """A call, or a piece of one: `arguments` is the text since the last piece; `begins` is true for the first."""

    index: int
    name: str
    arguments: str = ""
    id: str = field(default_factory=lambda: f"call_{uuid.uuid4().hex[:24]}")
    custom: bool = False
    begins: bool = True


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of the answer's text, or of its reasoning."""

    text: str
    is_reasoning: bool = False


Piece = Call | Text


class CallParser:
    """Reads one answer.

    `reasoning`: the answer begins inside the model's reasoning. Other options are those of `templates.structural_tag`.
    """

    def __init__(
        self,
        format: Format,
        tools: Sequence[Tool],
        *,
        special: Collection[str] = (),
        stops: Collection[str] = (),
        reasoning: bool = False,
    ) -> None:
        self._format = bind(format, {*special, *stops})
        self._stops = [MARK + stop for stop in stops]
        self._tools = {tool.name: tool for tool in tools}
        self._spellings = spellings(self._format)
        self._openers = openers(self._format)
        begin, self._reasoning_end = self._format.reasoning
        frames = [self._format.text, *self._format.preambles]
        dropped = {text for frame in frames for text in frame} | {self._format.tail}
        self._starts = {begin} if self._format.layout == "either" or not reasoning else set()
        self._words = tuple(sorted({*self._openers, *dropped, *self._starts} - {""}, key=len, reverse=True))
        self._reasoning = reasoning and self._format.layout != "either"
        self._buffer = ""
        self._withheld = ""
        self._after_call = False
        self._in_section = False
        self._opened = ""  # the beginning of a possible section, until a call shows that it is one
        self._call: Call | None = None
        self._reader: Reader | None = None
        self._count = 0

    @property
    def in_call(self) -> bool:
        """Whether a call has begun and not ended."""
        return self._call is not None

    def feed(self, text: str, *, final: bool = False) -> list[Piece]:
        """Read these characters; returns the pieces that they add. `final` means that they are the last."""
        self._buffer += text
        pieces: list[Piece] = []
        while self._step(pieces, final):
            pass
        if final and self._withheld and not self._after_call:
            pieces.append(Text(self._withheld))
            self._withheld = ""
        return _joined(pieces)

    def _step(self, pieces: list[Piece], final: bool) -> bool:
        """Read one part of the buffer; False if its text allows no step."""
        if self._reader is not None:
            return self._read(pieces)
        if not self._buffer:
            return False
        if self._reasoning:
            return self._think(pieces, final)
        return self._between(pieces, final) if self._in_section else self._look(pieces, final)

    def _think(self, pieces: list[Piece], final: bool) -> bool:
        """In reasoning, up to its end."""
        end = self._buffer.find(self._reasoning_end)
        partial = 0 if final else overlap(self._buffer, self._reasoning_end)
        position = end if end >= 0 else len(self._buffer) - partial
        if position:
            pieces.append(Text(self._buffer[:position], True))
        self._buffer = self._buffer[position:]
        if end >= 0:
            self._buffer = self._buffer[len(self._reasoning_end) :]
            self._reasoning = False
        return end >= 0

    def _look(self, pieces: list[Piece], final: bool) -> bool:
        """In free text, up to the next word of the format."""
        found = min(((position, -len(word), word) for word in self._words if (position := self._buffer.find(word)) >= 0), default=None)
        partial = 0 if final else max((overlap(self._buffer, word) for word in self._words), default=0)
        if found is None or len(self._buffer) - partial <= found[0]:  # of words that begin alike the longest counts
            self._emit(pieces, self._buffer[: len(self._buffer) - partial])
            self._buffer = self._buffer[len(self._buffer) - partial :]
            return False
        position, _, word = found
        self._emit(pieces, self._buffer[:position])
        self._buffer = self._buffer[position:]
        if word not in self._openers:
            self._buffer = self._buffer[len(word) :]
            self._reasoning = word in self._starts
            return True
        if not self._format.open:
            return self._begin(pieces, final)
        end, _, _ = self._match(cut(self._format.open))
        if end == _WAIT and not final:
            return False
        self._in_section = end >= 0
        end = max(end, 1)
        if self._in_section:
            self._opened = self._buffer[:end]
        else:
            self._emit(pieces, self._buffer[:end])
        self._buffer = self._buffer[end:]
        return True

    def _between(self, pieces: list[Piece], final: bool) -> bool:
        """In the section of calls, before a call or at its end."""
        text = self._buffer.lstrip(BLANKS)
        separator = self._format.separator.strip(BLANKS)
        closes = [part.strip(BLANKS) for part in between_gaps(self._format.close)]
        close = closes[0]
        if text.startswith(close) and not self._opened:
            rest = text
            for part in closes:
                rest = rest.lstrip(BLANKS)
                if part.startswith(rest) and len(rest) < len(part) and not final:
                    return False
                rest = rest.removeprefix(part)
            self._buffer, self._in_section = rest, False
            return True
        if separator and self._after_call and text.startswith(separator):
            self._buffer, self._after_call = text[len(separator) :], False
            return True
        if not final and (not text or any(word.startswith(text) for word in (close, separator) if word)):
            return False
        blanks, self._buffer = self._buffer[: len(self._buffer) - len(text)], text
        if text and self._begin(pieces, final):
            return True
        if not final and self._head()[0] == _WAIT:
            self._buffer = blanks + text
            return False
        self._in_section = False
        opened, self._opened = self._opened, ""
        self._emit(pieces, opened)  # not a call
        self._buffer = (blanks if opened else "") + text
        return bool(self._buffer)

    def _begin(self, pieces: list[Piece], final: bool) -> bool:
        """At a possible head of a call."""
        position, spelling, name, index = self._head()
        if position == _WAIT and not final:
            return False
        if position < 0 or spelling is None:
            if self._in_section:
                return False
            self._emit(pieces, self._buffer[:1])  # not a call
            self._buffer = self._buffer[1:]
            return True
        self._buffer = self._buffer[position:]
        tool = self._tools[name]
        call = Call(self._count, name, custom=tool.is_custom)
        if self._format.id:
            call.id = self._format.id.replace("$name", name).replace("$index", index)
        self._count += 1
        self._call, self._reader = call, self._reader_for(spelling, tool)
        self._withheld = self._opened = ""
        pieces.append(Call(call.index, name, "", call.id, call.custom))
        call.begins = False
        return True

    def _head(self) -> tuple[int, Spelling | None, str, str]:
        """The head that the buffer begins with: its end, spelling, name and index. Of two spellings the longer head counts."""
        best: tuple[int, Spelling | None, str, str] = (_FAIL, None, "", "")
        for spelling in self._spellings:
            position, name, index = self._match(spelling.pieces, spelling)
            if position == _WAIT:
                return _WAIT, None, "", ""
            if position > best[0]:
                best = position, spelling, name, index
        return best

    def _match(self, template: tuple[str, ...], spelling: Spelling | None = None) -> tuple[int, str, str]:
        """The end of a template in the buffer; -1 if more text is needed to decide, -2 if the buffer does not match."""
        text, position, name, index = self._buffer, 0, "", ""
        for number, piece in enumerate(template):
            if number % 2 == 0 or (piece == "name" and name):
                word = piece if number % 2 == 0 else name
                if number == 0 and self._in_section:
                    word = word.lstrip(BLANKS)
                rest = text[position : position + len(word)]
                if rest != word:
                    return (_WAIT if word.startswith(rest) and position + len(rest) == len(text) else _FAIL), "", ""
                position += len(word)
                continue
            found = _FIELDS[piece].match(text, position)
            if found is None or found.end() == len(text):
                return (_WAIT if position == len(text) or found is not None else _FAIL), "", ""
            position = found.end()
            if piece == "index":
                index = found[0]
            elif piece == "name":
                name = found[0]
                tool = self._tools.get(name)
                if tool is None or spelling is None or tool.is_custom != spelling.is_custom:
                    return _FAIL, "", ""
        return position, name, index

    def _reader_for(self, spelling: Spelling, tool: Tool) -> Reader:
        """The reader of a call's arguments or input."""
        tail = spelling.tail
        for stop in self._stops:
            tail = tail.split(stop)[0]
        if spelling.slot != "arguments":
            return StringReader(tail) if spelling.slot == "string" else InputReader(tail)
        notation = NOTATIONS[self._format.style]
        if notation.literals is not None:
            return LiteralsReader(tail.replace(MARK, ""), notation)
        if not notation.pair:
            return JsonReader(tail)
        return (ElementsReader if notation.item else PairsReader)(tail.replace(MARK, ""), notation, tool.parameters)

    def _read(self, pieces: list[Piece]) -> bool:
        """In a call's arguments."""
        assert self._reader is not None and self._call is not None
        marked, self._buffer = self._buffer, ""
        is_plain = isinstance(self._reader, PairsReader | ElementsReader | LiteralsReader)  # their tags may be tokens or not
        out = self._reader.feed(marked.replace(MARK, "") if is_plain else marked)
        if out:
            call = self._call
            pieces.append(Call(call.index, call.name, out, call.id, call.custom, False))
        if not self._reader.is_done:
            return False
        self._buffer = _suffix(marked, self._reader.rest) if is_plain else self._reader.rest
        self._reader = self._call = None
        self._after_call = True
        return True

    def _emit(self, pieces: list[Piece], text: str) -> None:
        """Emit text; blanks and the separator of calls are withheld until it is clear whether a call follows."""
        text, self._withheld = self._withheld + text, ""
        if self._after_call:
            core, separator = text.strip(BLANKS), self._format.separator.strip(BLANKS)
            if separator.startswith(core):
                self._withheld = text
                return
            text, self._after_call = text.lstrip(BLANKS), False
        stripped = text.rstrip(BLANKS)
        self._withheld = text[len(stripped) :]
        if stripped:
            pieces.append(Text(stripped.replace(MARK, "")))


def _suffix(marked: str, rest: str) -> str:
    """The end of a marked text that is `rest` without its marks; `rest` itself if it is longer, which only malformed calls cause."""
    index, remaining = len(marked), len(rest)
    while index and (remaining or marked[index - 1] == MARK):
        index -= 1
        remaining -= marked[index] != MARK
    return rest if remaining else marked[index:]


def _joined(pieces: list[Piece]) -> list[Piece]:
    """The pieces, with neighbours of the same kind merged."""
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if isinstance(piece, Text) and isinstance(last, Text) and piece.is_reasoning == last.is_reasoning:
            joined[-1] = Text(last.text + piece.text, piece.is_reasoning)
        elif isinstance(piece, Call) and isinstance(last, Call) and piece.index == last.index:
            last.arguments += piece.arguments
        else:
            joined.append(piece)
    return joined
