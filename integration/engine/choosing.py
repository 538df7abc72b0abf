"""Masks over the logits of a step, and a token for each row.

All rows are filled in one call and applied in one call, before temperature, top-k and top-p.
Greedy rows are not even written to: whether the most likely token is allowed is a bit of the mask, and where it is not, the few that
are allowed are looked at.
"""

from __future__ import annotations

from time import perf_counter
from typing import Final

import numpy as np
import torch

from stackmask.integration.engine.drafts import NO_DRAFT, Draft
from stackmask.integration.engine.sampler import token_logprob
from stackmask.integration.engine.sequence import Sequence
from stackmask.integration.engine.slots import Slots
from stackmask.integration.torch import apply_token_bitmask_inplace
from stackmask.pda.engine import fill_bitmasks
from stackmask.pda.exceptions import StackmaskError, VocabularyError
from stackmask.pda.matcher import allocate_token_bitmask
from stackmask.pda.vocabulary import Vocabulary

FEW_WORDS: Final = 1024  # words of a mask row with a bit in them


class Chooser:
    """The bitmask of a batch, and how tokens are taken; it counts both what was taken and the seconds that each half took."""

    def __init__(self, vocabulary: Vocabulary, slots: Slots, rows: int) -> None:
        self.tokens = 0
        self.mask_seconds = self.sample_seconds = 0.0
        self._vocabulary = vocabulary
        self._slots = slots
        self._bitmask = allocate_token_bitmask(rows, vocabulary.size)
        self._scratch = allocate_token_bitmask(1, vocabulary.size)

    def choose(self, sequences: list[Sequence], tables: list[torch.Tensor], drafts: list[Draft]) -> None:
        """Mask the logits, and take tokens from them."""
        logits = tables[0] if len(tables) == 1 else torch.cat(tables)
        start = perf_counter()
        firsts = [0]
        for draft in drafts:
            firsts.append(firsts[-1] + 1 + len(draft.tokens))
        self._mask(sequences, drafts, firsts, logits)
        masked = perf_counter()
        best: list[int] = logits.argmax(-1).tolist() if any(sequence.sampler.is_greedy for sequence in sequences) else []
        for sequence, draft, first in zip(sequences, drafts, firsts, strict=False):
            if sequence.finish_reason is None:
                try:
                    self._walk(sequence, draft, first, logits, best)
                except StackmaskError as error:
                    sequence.fail(error)
        guided = sum(sequence.guide is not None for sequence in sequences)
        for sequence in sequences:
            if sequence.guide is not None:
                sequence.stats.mask_seconds += (masked - start) / guided
        self.mask_seconds += masked - start
        self.sample_seconds += perf_counter() - masked

    def _mask(self, sequences: list[Sequence], drafts: list[Draft], firsts: list[int], logits: torch.Tensor) -> None:
        """Fill the rows of all that are constrained and apply them: one call for those without drafts, one for all logits."""
        if len(logits) > len(self._bitmask):
            self._bitmask = allocate_token_bitmask(2 * len(logits), self._vocabulary.size)
        plain: list[Sequence] = []
        rows: list[int] = []
        constrained: list[int] = []
        for sequence, draft, first in zip(sequences, drafts, firsts, strict=False):
            if (guide := sequence.guide) is None:
                continue
            if not sequence.looks_first:
                constrained += range(first, first + 1 + len(draft.tokens))
            if draft.tokens or not guide.is_active:
                self._fill(sequence, first, draft)
            else:
                plain.append(sequence)
                rows.append(first)
        try:
            fill_bitmasks([sequence.guide.matcher for sequence in plain if sequence.guide], self._bitmask, rows)
        except StackmaskError:  # one of them, by a limit: find out which, so that it fails alone
            for sequence, row in zip(plain, rows, strict=True):
                self._fill(sequence, row, NO_DRAFT)
        if constrained:
            mask = self._bitmask[: len(logits)]
            apply_token_bitmask_inplace(logits, mask, indices=None if len(constrained) == len(logits) else constrained)

    def _fill(self, sequence: Sequence, row: int, draft: Draft) -> None:
        """Fill the rows of one request; an error is its own."""
        assert sequence.guide is not None
        try:
            sequence.guide.fill(self._bitmask, row, draft.tokens, draft.parents)
        except StackmaskError as error:
            sequence.fail(error)

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
            sequence.commit(token, self._scratch)
            self.tokens += 1
            following = children.get((node, token))
            if sequence.finish_reason is not None or following is None:
                break
            node = following
            path.append(node)
        if draft.tokens:
            sequence.stats.draft_accepted += len(path)
            sequence.stats.rollbacks += len(path) < len(draft.tokens)
            self._slots.keep(sequence.row, base, path)
        if sequence.finish_reason is None:
            sequence.pending = [sequence.tokens[-1]]

    def _take(self, sequence: Sequence, row: int, logits: torch.Tensor, best: list[int]) -> int | None:
        """A token from one row of logits."""
        guide = sequence.guide
        known = -1
        if sequence.looks_first:
            known = best[row] if guide is None else self._best_allowed(sequence, row, best[row], logits)
            if sequence.accept(known):  # PERF: nearly always, and what follows takes longer than all of this
                return known
        sampler = sequence.sampler
        request = sequence.request
        table = logits[row]
        if sampler.changes_logits:
            sampler.adjust(table, sequence.tokens)
        original = table.clone() if request.logprobs is not None else table
        looks_first = sequence.looks_first
        temperature = None if guide is None else guide.temperature
        if sampler.is_greedy and not looks_first and not sampler.changes_logits and temperature is None:
            known = best[row]
        forbidden = False

        def sample() -> int:
            token = known if known >= 0 and not forbidden else sampler.draw(table, temperature)
            if sequence.guide is not None and not looks_first and table[token] == -torch.inf:
                raise self._stuck(sequence)
            return token

        def forbid(token: int) -> None:
            nonlocal forbidden
            if looks_first and not forbidden:
                apply_token_bitmask_inplace(table[None], self._bitmask[row : row + 1])
            forbidden = True
            table[token] = -torch.inf
            if not torch.isfinite(table.max()):
                table[sequence.guide.closing_token(sequence.room) or sequence.stops[0]] = 0.0  # type: ignore[union-attr]

        token = sequence.choose(sample, forbid)
        if token is not None and request.logprobs is not None and token not in sequence.stops:
            sequence.add_logprob(token_logprob(original, token, request.logprobs))
        return token

    def _best_allowed(self, sequence: Sequence, row: int, best: int, logits: torch.Tensor) -> int:
        """The most likely token that is allowed, given the most likely of all.

        PERF: a model that follows its grammar chooses what is allowed, and where few tokens are, looking at these is cheaper than
        writing a whole row: of a step of 60 ms with 32 rows of 128,256 logits, masking all of them takes 3 ms.
        """
        mask = self._bitmask[row]
        if int(mask[best >> 5]) >> (best & 31) & 1:
            return best
        (words,) = mask.nonzero()
        if not len(words):
            raise self._stuck(sequence)
        if len(words) > FEW_WORDS:
            masked = logits[row : row + 1].clone()
            apply_token_bitmask_inplace(masked, self._bitmask[row : row + 1])
            return int(masked.argmax())
        bits = np.flatnonzero(np.unpackbits(np.ascontiguousarray(mask[words], dtype="<i4").view(np.uint8), bitorder="little"))
        ids = words[bits >> 5] * 32 + (bits & 31)
        if logits.device.type == "cpu":
            return int(ids[logits[row].numpy()[ids].argmax()])  # PERF: a third of the time that torch takes to look at a few numbers
        return int(ids[int(logits[row, torch.from_numpy(ids).to(logits.device)].argmax())])

    def _stuck(self, sequence: Sequence) -> VocabularyError:
        assert sequence.guide is not None
        expected = sequence.guide.matcher.next_bytes()[:8]
        return VocabularyError(f"no token can go on here, though the grammar does: none in the vocabulary begins with {expected!r}")


def _children(draft: Draft) -> dict[tuple[int, int], int]:
    """Which guess follows which by which token."""
    parents = draft.parents if draft.parents is not None else range(-1, len(draft.tokens) - 1)
    return {(parent, token): place for place, (parent, token) in enumerate(zip(parents, draft.tokens, strict=True))}
