"""The rows of each request in a step, and their treatment; constant from step to step while the same requests run without drafts.

PERF: asking every request in every step what to do with it takes longer than doing it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ...pda.engine import MatcherRows
from ...pda.matcher import Matcher
from .drafts import Draft
from .sequence import Sequence

BOUNDLESS: Final = 1 << 62


class Layout:
    """The rows of some sequences in a bitmask: one for each, and one for each of its drafts.

    `firsts`     the first row of each sequence
    `plain`      those whose mask is the matcher's own, with `rows`; `filling` is the engine's view of them
    `others`     those with drafts, and those in whose reasoning the grammar has not begun: sequence, row, draft
    `masked`     rows to mask before they are sampled from
    `guided`     those whose best allowed token can be taken at once, with `guided_places` and `guided_rows`; `taking` is the engine's view
    `spare`      how many tokens are left to that of these which has least, of those that are to be complete; None where the length of a
                 completion does not say whether it fits
    `free`       those whose best token can be taken at once, with `free_rows`
    `single`     the places of those who are gone through one by one; `single_guided` and `single_free` are the rows of the greedy ones of
                 these, whose best token is looked for among the allowed ones or all
    """

    __slots__ = (
        "_is_lasting",
        "_sequences",
        "count",
        "filling",
        "firsts",
        "free",
        "free_rows",
        "guided",
        "guided_places",
        "guided_rows",
        "masked",
        "others",
        "plain",
        "rows",
        "single",
        "single_free",
        "single_guided",
        "spare",
        "taking",
    )

    def __init__(self, sequences: list[Sequence], drafts: list[Draft], bits: npt.NDArray[np.int32]) -> None:
        self._sequences = sequences
        self._is_lasting = True
        self.firsts: list[int] = []
        self.plain: list[Sequence] = []
        self.rows: list[int] = []
        self.others: list[tuple[Sequence, int, Draft]] = []
        self.masked: list[int] = []
        self.guided: list[Sequence] = []
        self.guided_places: list[int] = []
        self.guided_rows: list[int] = []
        self.free: list[Sequence] = []
        self.free_rows: list[int] = []
        self.single: list[int] = []
        self.single_free: list[int] = []
        self.single_guided: list[int] = []
        self.count = 0
        for place, (sequence, draft) in enumerate(zip(sequences, drafts, strict=True)):
            self.firsts.append(self.count)
            if sequence.finish_reason is None:
                self._add(place, sequence, draft)
            self.count += 1 + len(draft.tokens)
        self.filling = MatcherRows(_matchers(self.plain), bits, self.rows)
        self.taking = MatcherRows(_matchers(self.guided), bits, self.guided_rows)
        self.spare = self.least_room()

    def fits(self, sequences: list[Sequence], drafts: list[Draft]) -> bool:
        """Whether it is that of these sequences too."""
        return self._is_lasting and sequences == self._sequences and not any(draft.tokens for draft in drafts)

    def least_room(self) -> int | None:
        """The present value of `spare`."""
        bounded = [(sequence.room, sequence.guide) for sequence in self.guided if sequence.is_bounded]
        if all(guide is not None and guide.closes_by_length for _, guide in bounded):
            return min((room for room, _ in bounded), default=BOUNDLESS)
        return None

    def _add(self, place: int, sequence: Sequence, draft: Draft) -> None:
        row, guide = self.count, sequence.guide
        rows = range(row, row + 1 + len(draft.tokens))
        if draft.tokens or (guide is not None and guide.reasons):
            self._is_lasting = False
        if guide is not None:
            if draft.tokens or not guide.is_active:
                self.others.append((sequence, row, draft))
            else:
                self.plain.append(sequence)
                self.rows.append(row)
            if not sequence.masked_late:
                self.masked += rows
        if not sequence.greedy_first or draft.tokens or (guide is not None and not guide.is_direct):
            self.single.append(place)
            if sequence.sampler.is_greedy:
                (self.single_guided if sequence.greedy_first and guide is not None else self.single_free).extend(rows)
        elif guide is None:
            self.free.append(sequence)
            self.free_rows.append(row)
        else:
            self.guided.append(sequence)
            self.guided_places.append(place)
            self.guided_rows.append(row)


def _matchers(sequences: list[Sequence]) -> list[Matcher]:
    return [sequence.guide.matcher for sequence in sequences if sequence.guide is not None]
