"""The bitmask of a batch, filled by a thread of the kernel's while the model runs.

The rows of a step are known before the forward pass. So masks take no time from a step, unless filling them takes longer than the pass.
Rows of drafts, and of requests whose grammar has not begun, are filled by their requests.
"""

from __future__ import annotations

from time import perf_counter

from ...pda.engine import BitmaskFiller
from ...pda.exceptions import StackmaskError
from ...pda.matcher import allocate_token_bitmask
from ...pda.vocabulary import Vocabulary
from .batch_layout import Layout
from .drafts import NO_DRAFT, Draft
from .sequence import Sequence


class Masks:
    """The rows of a step: `bits` are those of `layout`, filled after `end`; `seconds` is the caller's waiting time."""

    def __init__(self, vocabulary: Vocabulary, rows: int) -> None:
        self.bits = allocate_token_bitmask(rows, vocabulary.size)
        self.layout = Layout([], [], self.bits)
        self.seconds = 0.0
        self._size = vocabulary.size
        self._filler = BitmaskFiller()

    def begin(self, sequences: list[Sequence], drafts: list[Draft]) -> None:
        """Have the rows of all without drafts filled, in one call; until `end`, their matchers stay as they are."""
        start = perf_counter()
        if not self.layout.fits(sequences, drafts):
            rows = len(sequences) + sum(len(draft.tokens) for draft in drafts)
            if rows > len(self.bits):
                self.bits = allocate_token_bitmask(2 * rows, self._size)
            self.layout = Layout(sequences, drafts, self.bits)
        self._filler.begin(self.layout.filling)
        self.seconds = perf_counter() - start

    def end(self, sequences: list[Sequence], drafts: list[Draft]) -> None:
        """Wait for the rows; a request whose rows cannot be filled has failed, and has no part in the layout any more."""
        start = perf_counter()
        layout = self.layout
        others = layout.others
        try:
            self._filler.end()
        except StackmaskError:  # of some row: each by itself
            others = others + [(sequence, row, NO_DRAFT) for sequence, row in zip(layout.plain, layout.rows, strict=True)]
        failed = False
        for sequence, row, draft in others:
            assert sequence.guide is not None
            try:
                sequence.guide.fill(self.bits, row, draft.tokens, draft.parents)
            except StackmaskError as error:
                sequence.fail(error)
                failed = True
        if failed:
            self.layout = Layout(sequences, drafts, self.bits)
        self.seconds += perf_counter() - start

    def clear(self) -> None:
        """Forget the sequences of the last step."""
        self.layout = Layout([], [], self.bits)
