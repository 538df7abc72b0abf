"""How many tokens the shortest completion takes, so that an answer can be closed before its budget ends.

The shortest completion in bytes is spelt in as few tokens as can be (a shortest path over its positions).
Another completion, longer in bytes, could take fewer tokens; so the number is a bound that can always be kept, not the least one.
"""

from __future__ import annotations

from typing import Final

from stackmask.pda.vocabulary import Vocabulary

LONGEST_PIECE: Final = 32  # bytes; the longer tokens are runs of blanks and the like, which no shortest completion has
KEPT: Final = 4096
KEPT_LENGTH: Final = 2048


class Speller:
    """Spells bytes in as few tokens as can be; one for each vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._ids: dict[bytes, int] = {}
        for token, data in enumerate(vocabulary.tokens):
            if data and len(data) <= LONGEST_PIECE:
                self._ids.setdefault(data, token)
        self.longest = max(map(len, self._ids))
        self._spelt: dict[bytes, tuple[int, ...] | None] = {}  # PERF: inside a string each step asks for the same completion
        self._bytes = bytes(byte for byte in range(256) if bytes([byte]) in self._ids)

    def has_bytes(self, data: bytes) -> bool:
        """Whether every byte of `data` is a token by itself."""
        return not data.translate(None, self._bytes)

    def spell(self, data: bytes, room: int) -> list[int] | None:
        """At most `room` tokens that spell `data`; None where that many do not, or none do."""
        if len(data) > room * self.longest:
            return None
        if data in self._spelt:
            tokens = self._spelt[data]
        else:
            tokens = self._shortest(data)
            if len(self._spelt) >= KEPT:
                self._spelt.clear()
            if len(data) <= KEPT_LENGTH:
                self._spelt[data] = tokens
        return list(tokens) if tokens is not None and len(tokens) <= room else None

    def _shortest(self, data: bytes) -> tuple[int, ...] | None:
        """The fewest tokens that spell `data`."""
        # steps[i]: the number of tokens for the first i bytes and the length of the last; the least number wins, then the longest token
        steps: list[tuple[int, int] | None] = [(0, 0)] + [None] * len(data)
        for end in range(1, len(data) + 1):
            for start in range(max(0, end - self.longest), end):
                before = steps[start]
                if before is not None and data[start:end] in self._ids:
                    here = steps[end]
                    if here is None or before[0] + 1 < here[0]:
                        steps[end] = (before[0] + 1, end - start)
        tokens: list[int] = []
        end = len(data)
        while end:
            step = steps[end]
            if step is None:
                return None
            tokens.append(self._ids[data[end - step[1] : end]])
            end -= step[1]
        return tuple(tokens[::-1])
