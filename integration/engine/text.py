"""The text of an answer, piece by piece: bytes to characters, and texts that end it.

A piece is held back while it could be the beginning of a stop text or of a character.
Names of tokens without text are inserted unchanged. If a mark precedes such names, it is replaced in the text of other
tokens, so that no text can spell a name.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from ..tools.spelling import MARK


class TextStream:
    """Text as it comes; `stop` is the stop text that ended it, `cut` counts its bytes and those of what comes after it.

    >>> stream = TextStream(["END"])
    >>> stream.feed(b"1 E"), stream.feed(b"2 EN"), stream.feed(b"D3"), stream.stop
    ('1 ', 'E2 ', '', 'END')
    """

    __slots__ = ("_decoder", "_held", "_marks", "_stops", "cut", "stop")

    def __init__(self, stops: Sequence[str] = (), *, marks: bool = True) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stops = tuple(stops)
        self._held = ""
        self._marks = marks
        self.stop: str | None = None
        self.cut = 0

    @property
    def stopped(self) -> bool:
        """Whether a stop text ended it."""
        return self.stop is not None

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """The text that these bytes complete; nothing after a stop text."""
        text = self._decoder.decode(data, final)
        return self._said(text.replace(MARK, "\ufffd") if self._marks else text, final)

    def name(self, text: str) -> str:
        """The text that the name of a token completes."""
        return self._said(self._decoder.decode(b"", True).replace(MARK, "\ufffd") + text, False)

    def _said(self, text: str, final: bool) -> str:
        """Add a piece of text; return the part that cannot be the beginning of a stop text any more."""
        text = self._held + text
        self._held = ""
        if self.stopped:
            self.cut += len(text.encode())
            return ""
        if not self._stops:
            return text
        found = min(((place, -len(stop), stop) for stop in self._stops if (place := text.find(stop)) >= 0), default=None)
        if found is not None:
            place, _, self.stop = found
            self.cut = len(text[place:].encode())
            return text[:place]
        held = 0 if final else self._beginning(text)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def _beginning(self, text: str) -> int:
        """The number of last characters that could be the beginning of a stop text."""
        longest = min(max(map(len, self._stops)) - 1, len(text))
        return next((count for count in range(longest, 0, -1) if any(stop.startswith(text[-count:]) for stop in self._stops)), 0)
