"""Masks over the logits of a step, and a token for each row.

A draw looks at the allowed tokens alone, so a row is masked only where a token was refused, or where all of its logits count: for
log-probabilities, and for stop tokens that are held back. These are masked in one call.
Greedy rows are not written to: their best allowed tokens are found in one call, and taken and measured for their budgets in another, so
that a constraint costs the interpreter nothing a row. What these calls leave over is gone through one by one, as are sampled rows.
"""

from __future__ import annotations

from time import perf_counter

import torch

from ...pda.exceptions import StackmaskError, VocabularyError
from ...pda.matcher import allocate_token_bitmask
from ...pda.vocabulary import Vocabulary
from ..torch import apply_token_bitmask_inplace, best_tokens
from .batch_layout import Layout
from .drafts import Draft
from .kv_cache import RowCache
from .masks import Masks
from .sampler import allowed_tokens, token_logprob
from .sequence import MaskClock, Sequence


class TokenSelector:
    """Takes tokens, and counts them and the seconds that masks and the rest took."""

    def __init__(self, vocabulary: Vocabulary, slots: RowCache, masks: Masks) -> None:
        self.tokens = 0
        self.mask_seconds = self.sample_seconds = 0.0
        self.mask_clock = MaskClock()
        self._slots = slots
        self._masks = masks
        self._scratch = allocate_token_bitmask(1, vocabulary.size)

    def choose(self, sequences: list[Sequence], tables: list[torch.Tensor], drafts: list[Draft]) -> None:
        """Mask the logits, and take tokens from them; the masks are filled."""
        logits = tables[0] if len(tables) == 1 else torch.cat(tables)
        layout, bits = self._masks.layout, self._masks.bits[: len(logits)]
        start = perf_counter()
        if layout.masked:
            apply_token_bitmask_inplace(logits, bits, indices=None if len(layout.masked) == len(logits) else layout.masked)
        masked = perf_counter()
        best = [-1] * len(logits)
        for rows, mask in (
            (layout.guided_rows, bits), (layout.single_guided, bits), (layout.free_rows, None), (layout.single_free, None)
        ):  # fmt: skip
            for row, token in zip(rows, best_tokens(logits, mask, indices=rows) if rows else (), strict=True):
                best[row] = token
        for sequence, row in zip(layout.free, layout.free_rows, strict=True):
            self._commit(sequence, best[row])
        for place in [*self._take_guided(layout, best), *layout.single]:
            sequence = sequences[place]
            try:
                self._walk(sequence, drafts[place], layout.firsts[place], logits, best)
            except StackmaskError as error:
                sequence.fail(error)
        self.sample_seconds += perf_counter() - masked
        waited = masked - start + self._masks.seconds
        self.mask_seconds += waited
        if guides := len(layout.plain) + len(layout.others):
            self.mask_clock.seconds += waited / guides

    def _take_guided(self, layout: Layout, best: list[int]) -> list[int]:
        """Take the best allowed tokens of the rows that can take theirs at once; the places of rows that cannot after all."""
        if not layout.guided:
            return []
        tokens = [best[row] for row in layout.guided_rows]
        lengths = None if -1 in tokens else layout.taking.take(tokens)
        if lengths is None:  # each by itself, so that the error is only that of the row that has it
            return layout.guided_places
        if layout.spare is None:
            layout.spare = layout.least_room()
        if layout.spare is not None and min(lengths) > 0 and max(lengths) < layout.spare:
            layout.spare -= 1
            for sequence, token in zip(layout.guided, tokens, strict=True):
                self._commit(sequence, token, may_end=False)
            return []
        left: list[int] = []
        for place, sequence, token, length in zip(layout.guided_places, layout.guided, tokens, lengths, strict=True):
            try:
                if sequence.keep(token, length):
                    self._commit(sequence, token, may_end=length <= 0)
                else:
                    left.append(place)
            except StackmaskError as error:
                sequence.fail(error)
        layout.spare = None
        return left

    def _commit(self, sequence: Sequence, token: int, *, may_end: bool = True) -> None:
        """Record a token that was taken."""
        sequence.commit(token, self._scratch, may_end=may_end)
        self.tokens += 1
        if sequence.finish_reason is None:
            sequence.pending = [token]

    def _walk(self, sequence: Sequence, draft: Draft, first: int, logits: torch.Tensor, best: list[int]) -> None:
        """Take a token, and another at the place of the guess that it was, as long as there is one."""
        children = _children(draft) if draft.tokens else {}
        node, path = -1, []
        base = self._slots.lengths[sequence.row] - len(draft.tokens)
        while True:
            token = self._take(sequence, first + node + 1, logits, best)
            if token is None:
                sequence.finish_reason = "length"  # complete as it stands, and without room to go on
                break
            self._commit(sequence, token)
            following = children.get((node, token))
            if sequence.finish_reason is not None or following is None:
                break
            node = following
            path.append(node)
        if draft.tokens:
            sequence.stats.draft_accepted += len(path)
            sequence.stats.rollbacks += len(path) < len(draft.tokens)
            self._slots.keep(sequence.row, base, path)

    def _take(self, sequence: Sequence, row: int, logits: torch.Tensor, best: list[int]) -> int | None:
        """A token from one row of logits."""
        guide = sequence.guide
        known = -1
        if sequence.greedy_first:
            known = best[row]
            if known < 0:
                raise self._stuck(sequence)
            if sequence.accept(known):  # PERF: nearly always, and what follows takes longer than all of this
                return known
        sampler = sequence.sampler
        request = sequence.request
        table = logits[row]
        if sampler.changes_logits:
            sampler.adjust(table, sequence.tokens)
        if sequence.holds_stops:
            _hold_back(table, sequence.held_stops)
        original = table.clone() if request.logprobs is not None else table
        greedy_first = sequence.greedy_first
        temperature = None if guide is None else guide.temperature
        if sampler.is_greedy and not greedy_first and not sampler.changes_logits and not sequence.holds_stops and temperature is None:
            known = best[row]
        forbidden = False

        def sample() -> int:
            if known >= 0 and not forbidden:
                return known
            allowed = None if guide is None or forbidden else allowed_tokens(self._masks.bits[row])
            if allowed is not None and not len(allowed):
                raise self._stuck(sequence)
            token = sampler.draw(table, temperature, allowed)
            if guide is not None and not greedy_first and table[token] == -torch.inf:
                raise self._stuck(sequence)
            return token

        def forbid(token: int) -> None:
            nonlocal forbidden
            if sequence.masked_late and not forbidden:
                apply_token_bitmask_inplace(table[None], self._masks.bits[row : row + 1])
            forbidden = True
            table[token] = -torch.inf
            if not torch.isfinite(table.max()):
                table[sequence.guide.closing_token(sequence.room) or sequence.stops[0]] = 0.0  # type: ignore[union-attr]

        token = sequence.choose(sample, forbid)
        if token is not None and request.logprobs is not None and token not in sequence.stops:
            sequence.add_logprob(token_logprob(original, token, request.logprobs))
        return token

    def _stuck(self, sequence: Sequence) -> VocabularyError:
        assert sequence.guide is not None
        expected = sequence.guide.matcher.next_bytes()[:8]
        return VocabularyError(
            f"no token can follow {sequence.spelled()[-40:]!r}: the grammar continues with one of the bytes {expected!r}, "
            "and no token of the vocabulary begins with one of them"
        )


def _hold_back(logits: torch.Tensor, tokens: tuple[int, ...]) -> None:
    """Rule tokens out, in place, unless nothing else is allowed."""
    places = torch.tensor(tokens, dtype=torch.long, device=logits.device)
    before = logits[places]
    logits[places] = -torch.inf
    if not torch.isfinite(logits.max()):
        logits[places] = before


def _children(draft: Draft) -> dict[tuple[int, int], int]:
    """Which guess follows which by which token."""
    parents = draft.parents if draft.parents is not None else range(-1, len(draft.tokens) - 1)
    return {(parent, token): place for place, (parent, token) in enumerate(zip(parents, draft.tokens, strict=True))}
