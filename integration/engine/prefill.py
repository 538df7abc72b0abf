"""Prompts on their way through the model, in pieces between the steps of those who run.

A step reads at most so many tokens in at most `PIECES` passes, so it takes no longer than by these, however long the prompts are.
Prompts take turns: after its piece one goes to the end of the line, so a short prompt behind long ones waits for one piece of each.
A piece has a pass of its own, with the logits after its last token alone. In a pass shared with those who run, each of their rows would be
padded to its length: 4 rows beside 16 tokens take 3.0 ms with the demo model, and in two passes 1.3 and 1.5 ms.

    `slots.lengths`   says how far a prompt is read
    rows              of those who run are the first ones, because a pass takes a range of rows; `make_way` sees to that
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from time import perf_counter
from typing import Final

import torch

from .kv_cache import RowCache
from .sequence import Sequence

PIECES: Final = 2  # passes a step while others run: a pass over a few tokens takes nearly as long as one over a piece
ALONE: Final = 512  # tokens a step while nobody runs; who comes then, or cancels, waits for these


class Prefill:
    """The requests whose prompts are being read, `tokens` a step while others run; None: what suits the cache."""

    def __init__(self, slots: RowCache, tokens: int | None) -> None:
        self.seconds = 0.0
        self.sequences: deque[Sequence] = deque()
        self._slots = slots
        self.tokens = slots.piece and (tokens or slots.piece)

    def add(self, sequence: Sequence) -> None:
        """Begin with a prompt, in a row of its own, at the end of the line."""
        sequence.row = self._slots.add()
        self.sequences.append(sequence)

    def room(self, *, is_alone: bool) -> int:
        """Tokens of prompts that a step may read."""
        return ALONE if is_alone or self.tokens is None else self.tokens

    def turns(self, *, is_alone: bool) -> Iterator[tuple[Sequence, int]]:
        """Those whose turn it is in a step, taken out of the line, and how many tokens of each; `read` puts back who is not through."""
        room = self.room(is_alone=is_alone)
        for _ in range(len(self.sequences) if is_alone else min(PIECES, len(self.sequences))):
            if room <= 0:
                break
            sequence = self.sequences.popleft()
            left = len(sequence.request.prompt) - self._slots.lengths[sequence.row]
            count = left if self.tokens is None else min(left, room)
            room -= count
            yield sequence, count

    def read(self, sequence: Sequence, count: int) -> torch.Tensor | None:
        """Read so many tokens of a prompt; the logits after it, (1, vocabulary), or None where some of it is left."""
        start = perf_counter()
        prompt, before = sequence.request.prompt, self._slots.lengths[sequence.row]
        logits = self._slots.prefill(sequence.row, prompt[before : before + count])
        elapsed = perf_counter() - start
        sequence.stats.prefill_seconds += elapsed
        self.seconds += elapsed
        if before + count == len(prompt):
            return logits[:, -1]
        self.sequences.append(sequence)
        return None

    def make_way(self, running: list[Sequence]) -> None:
        """Give the first rows to those who run, where a prompt that is still read has one of them."""
        late = [sequence for sequence in running if sequence.row >= len(running)]
        early = [sequence for sequence in self.sequences if sequence.row < len(running)]
        for sequence, other in zip(late, early, strict=True):
            self._slots.swap(sequence.row, other.row)
            sequence.row, other.row = other.row, sequence.row
