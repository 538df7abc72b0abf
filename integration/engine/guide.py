"""A request's place in its grammar: the tokens that may come, and the rest of the budget.

With `reasoning_end`, the grammar begins after these tokens. Before them everything is allowed except the end of the text.
Rolling back counts tokens of either part, so it crosses the boundary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from ...pda.engine import completion_lengths, fill_draft_bitmasks
from ..compiler import CompiledGrammar
from .budget import ShortestTokenization

SHOWN: Final = 60  # bytes of a completion that is quoted
Bitmask = npt.NDArray[np.int32]


class Guide:
    """The state of one constrained answer."""

    __slots__ = ("_end", "_plan", "_reasoning_tokens", "_shadow", "_stops", "_tokenization", "has_temperature", "matcher", "size")

    def __init__(
        self, grammar: CompiledGrammar, stops: Sequence[int], reasoning_end: Sequence[int], tokenization: ShortestTokenization
    ) -> None:
        self.matcher = grammar.matcher(stops)
        self.size = grammar.vocabulary.size
        self._end = tuple(reasoning_end)
        self._reasoning_tokens: list[int] | None = [] if reasoning_end else None  # None: there is no reasoning to end
        self._tokenization = tokenization
        self._shadow = tokenization.shadow(grammar, stops)  # what is completed in its place, where it asks for tokens
        self.has_temperature = grammar.has_temperature
        self._stops = _row(stops, self.size)
        self._plan: list[int] | None = None

    @property
    def is_active(self) -> bool:
        """Whether the grammar has begun."""
        return self._reasoning_tokens is None or self._reasoning_tokens[-len(self._end) :] == list(self._end)

    @property
    def reasons(self) -> bool:
        """Whether there is reasoning before the grammar."""
        return self._reasoning_tokens is not None

    @property
    def is_direct(self) -> bool:
        """Whether its matcher alone decides where a token leads: the grammar has begun and is its own shadow."""
        return self._shadow is None and self.is_active

    @property
    def closes_by_length(self) -> bool:
        """Whether the length of its shortest completion says whether that fits: any is spelt by as many tokens, and no other is planned."""
        return self._tokenization.has_every_byte and self._plan is None

    @property
    def temperature(self) -> float | None:
        """The temperature that the grammar sets for the next token, None if it sets none."""
        return self.matcher.temperature if self.has_temperature and self.is_active else None

    def fill(self, bitmask: Bitmask, row: int, drafts: Sequence[int], parents: Sequence[int] | None) -> None:
        """Fill a row for now and one after each draft."""
        if self.is_active:
            fill_draft_bitmasks(self.matcher, drafts, bitmask, row, parents)
            return
        for place, _ in enumerate([None, *drafts]):
            bitmask[row + place] = ~self._stops
        if drafts and self._ends_with(drafts):
            self.matcher.fill_next_token_bitmask(bitmask, row + len(drafts))

    def cut(self, drafts: Sequence[int]) -> list[int]:
        """The drafts up to the first that is forbidden; in reasoning, up to its end."""
        if self.is_active:
            return list(drafts[: self.matcher.validate_tokens(drafts)])
        for count in range(1, len(drafts) + 1):
            if self._ends_with(drafts[:count]):
                return list(drafts[:count])
        return list(drafts)

    def accept(self, token: int) -> bool:
        """Take a token."""
        if self.is_active:
            accepted = self.matcher.accept_token(token)
            if accepted and self._shadow is not None:
                self._shadow.accept_token(token)
            return accepted
        assert self._reasoning_tokens is not None
        self._reasoning_tokens.append(token)
        return True

    def rollback(self, count: int) -> None:
        """Give back tokens, of the grammar first and then of the reasoning."""
        inside = min(count, self.matcher.num_accepted) if self.is_active else 0
        self.matcher.rollback(inside)
        if self._shadow is not None:
            self._shadow.rollback(inside)
        if self._reasoning_tokens is not None and count > inside:
            del self._reasoning_tokens[len(self._reasoning_tokens) - (count - inside) :]

    @property
    def is_terminated(self) -> bool:
        """Whether a stop token was taken."""
        return self.is_active and self.matcher.is_terminated()

    @property
    def is_completed(self) -> bool:
        """Whether the text may end here."""
        return self.is_active and self.matcher.is_completed()

    def is_at_end(self, scratch: Bitmask) -> bool:
        """Whether nothing but a stop token may follow; `scratch` is a bitmask row to write to."""
        if not self.is_completed:
            return False
        self.matcher.fill_next_token_bitmask(scratch)
        return not (scratch[0] & ~self._stops).any()

    def can_close(self, room: int) -> bool:
        """Whether `room` tokens can complete the text."""
        self._plan = None
        before = () if self.is_active else self._end
        if self._shadow is None:  # PERF: the length is known long before the text, and mostly says enough
            length = completion_lengths((self.matcher,))[0]
            if 0 <= length <= room - len(before) and self._tokenization.has_every_byte:
                return True
            if length > (room - len(before)) * self._tokenization.longest:
                return False
        rest = self.completion()
        has_bytes = self._tokenization.has_bytes if self._shadow is None else self._tokenization.has_all
        if len(before) + len(rest) <= room and has_bytes(rest):
            return True  # byte by byte it fits; how, is worked out when it is asked for
        spelt = self._spell(rest, room - len(before))
        if spelt is not None:
            self._plan = [*before, *spelt]
        return spelt is not None

    def completion(self) -> bytes:
        """A shortest completion; tokens that it needs are marks in it."""
        return (self._shadow or self.matcher).shortest_completion()

    def shortest_in_words(self) -> str:
        """The shortest completion for an error, with its length; only that where it is long."""
        length = completion_lengths((self._shadow or self.matcher,))[0]
        if length > SHOWN:
            return f" ({length} bytes)"
        return f", {self.completion().decode('utf-8', 'replace')!r} ({length} bytes)"

    def closing_token(self, room: int) -> int | None:
        """The first token of a completion within `room`; None where the text is complete. There is one, by `can_close`."""
        if self._plan is None:
            before = () if self.is_active else self._end
            self._plan = [*before, *(self._spell(self.completion(), room) or ())]
        return self._plan[0] if self._plan else None

    def accept_within(self, token: int, room: int) -> bool:
        """Take a token if the text can still be completed by `room` tokens after it; False and unchanged if not."""
        accepted = self.accept(token)
        assert accepted, f"the mask allowed token {token}, the matcher refuses it"
        return self.keep_within(token, completion_lengths((self.matcher,))[0] if self.is_direct else -1, room)

    def keep_within(self, token: int, length: int, room: int) -> bool:
        """The same for a token that was taken: the shortest completion is now `length` bytes long, -1 if nobody knows."""
        plan = self._plan
        if plan and plan[0] == token:
            self._plan = plan[1:]  # as short as it has to be, and had without spelling anything
            return True
        if 0 <= length <= room and self._tokenization.has_every_byte:
            self._plan = None
            return True
        if self.is_terminated or self.can_close(room):
            return True
        self.rollback(1)
        self._plan = plan
        return False

    def _spell(self, data: bytes, room: int) -> list[int] | None:
        return self._tokenization.spell(data, room) if self._shadow is None else self._tokenization.spell_marked(data, room)

    def _ends_with(self, drafts: Sequence[int]) -> bool:
        assert self._reasoning_tokens is not None
        return (self._reasoning_tokens + list(drafts))[-len(self._end) :] == list(self._end)


def _row(tokens: Sequence[int], size: int) -> npt.NDArray[np.int32]:
    """A bitmask row with these tokens set."""
    bits = np.zeros((size + 31) // 32 * 32, np.uint8)
    bits[list(tokens)] = 1
    return np.packbits(bits, bitorder="little").view("<i4").astype(np.int32)
