"""One request's place in a grammar, as SGLang asks for it.

SGLang ends a request where its grammar is terminated, and drops the last token of the text then; so a grammar terminates by a stop token
and never by being complete.
In a tree of drafts it tests a bit of the mask and then accepts the token without any guard: bits and `accept_token` agree exactly.

An exception out of a mask would end SGLang's scheduler, and with it every request.
A grammar that runs into a limit of the engine allows a single token that no text has; accepting that is an error of this request only.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Self

import torch
from sglang.srt.constrained.base_grammar_backend import BaseGrammarObject, GrammarStats
from sglang.srt.utils.common import is_pin_memory_available

from ...pda.engine import fill_bitmasks
from ...pda.exceptions import LimitError
from ...pda.limits import Limits
from ...pda.matcher import Matcher
from ..compiler import CompiledGrammar
from ..torch import apply_token_bitmask_inplace

TRITON_DEVICES = frozenset({"cuda", "xpu", "musa"})
"""The devices on which SGLang's own kernel applies a mask; on others, it is done by torch."""


class Grammar(BaseGrammarObject):  # type: ignore[misc]
    """A grammar object of SGLang; the one that is kept in the table is forked for each request."""

    def __init__(self, compiled: CompiledGrammar, kind: str, specification: str, stats: GrammarStats, *, matcher: Matcher | None = None):
        super().__init__()
        self.current_token: int | None = None
        self.compiled = compiled
        self.kind = kind
        self.specification = specification
        self.grammar_stats = stats
        self.matcher = matcher or compiled.matcher()
        self.limit: LimitError | None = None  # what the last mask ran into
        self._first_size = compiled.size
        self._late = 0  # tokens after the stop token, which change nothing but can be rolled back

    def accept_token(self, token: int) -> None:
        """Go on by a token; ValueError, and nothing changes, where the grammar forbids it."""
        if self.matcher.is_terminated():
            self._late += 1
            return
        try:
            accepted = self.matcher.accept_token(token)
        except LimitError as error:
            self.limit, accepted = error, False
        if not accepted:
            raise ValueError(str(self.limit or self.matcher.explain(token)))
        self.current_token = token

    def rollback(self, k: int) -> None:
        """Take back the last `k` tokens."""
        late = min(k, self._late)
        self.matcher.rollback(k - late)
        self._late -= late
        if not self.matcher.num_accepted:
            self.current_token = None  # by which SGLang tells that no token was accepted yet

    def is_terminated(self) -> bool:
        """Whether a stop token was accepted."""
        return self.matcher.is_terminated()

    def copy(self) -> Self:
        """A grammar of its own in the same state, for another request."""
        stats = replace(self.grammar_stats, is_cache_hit=True, tree_traversal_time=[])
        copied = type(self)(self.compiled, self.kind, self.specification, stats, matcher=self.matcher.fork())
        copied._finished, copied.current_token, copied._late, copied.limit = self._finished, self.current_token, self._late, self.limit
        return copied

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: object) -> torch.Tensor:
        """A mask with everything allowed, where masks are filled."""
        return allocate_vocab_mask(vocab_size, batch_size, device)

    def fill_vocab_mask(self, vocab_mask: torch.Tensor, idx: int) -> None:
        """Overwrite a row with the tokens that may come next."""
        try:
            self.matcher.fill_next_token_bitmask(vocab_mask.numpy(), idx)  # PERF: 2.5 us in all, where the tensor itself takes 6
        except LimitError as error:
            self.limit = error
            set_token_filter(vocab_mask, [self._textless()], idx)

    @staticmethod
    def fill_vocab_mask_batched(entries: Sequence[Any], vocab_mask: torch.Tensor) -> None:
        """The rows of a whole batch in one call of the engine; others' grammars, and wrappers, fill their own."""
        ours = [entry for entry in entries if type(entry.grammar) is Grammar]
        try:
            fill_bitmasks([entry.grammar.matcher for entry in ours], vocab_mask.numpy(), [entry.row for entry in ours])
        except LimitError:
            ours = []
        done = {entry.row for entry in ours}
        for entry in entries:
            if entry.row not in done:
                entry.grammar.fill_vocab_mask(vocab_mask, entry.row)

    @staticmethod
    def reset_vocab_mask(vocab_mask: torch.Tensor) -> None:
        """Allow everything."""
        vocab_mask.fill_(-1)

    @staticmethod
    def move_vocab_mask(vocab_mask: torch.Tensor, device: object) -> torch.Tensor:
        """The mask where the logits are."""
        return move_vocab_mask(vocab_mask, device)

    @staticmethod
    def apply_vocab_mask(logits: torch.Tensor, vocab_mask: torch.Tensor) -> None:
        """Set the logits of forbidden tokens to minus infinity."""
        apply_vocab_mask(logits, vocab_mask)

    def try_jump_forward(self, tokenizer: object) -> tuple[list[int], str] | None:
        """The text that must come next, with no tokens; None where there is a choice."""
        text = self.matcher.find_jump_forward_string()
        return ([], text) if text else None

    def jump_forward_str_state(self, helper: tuple[list[int], str]) -> tuple[str, int]:
        """The text of what `try_jump_forward` gave; there is no number for the state after it."""
        return helper[1], -1

    def jump_and_retokenize(self, old_output_ids: Sequence[int], new_output_ids: Sequence[int], next_state: int) -> None:
        """Go from one list of accepted tokens to another; ValueError where the grammar forbids that."""
        pairs = zip(old_output_ids, new_output_ids, strict=False)
        common = next((place for place, (old, new) in enumerate(pairs) if old != new), min(len(old_output_ids), len(new_output_ids)))
        self.rollback(len(old_output_ids) - common)
        for token in new_output_ids[common:]:
            self.accept_token(token)

    @property
    def static_size(self) -> int:
        """Bytes of the grammar, equal on every rank."""
        return self.compiled._static_size

    @property
    def table_size(self) -> int:
        """Bytes of the engine's tables now."""
        return self.compiled.size - self.static_size

    @property
    def has_grown(self) -> bool:
        """Whether the tables hold more than they began with."""
        return self.compiled.size > self._first_size

    def renew(self) -> None:
        """Begin with empty tables; copies of this grammar keep the old ones."""
        old = self.compiled
        with contextlib.suppress(LimitError):  # it took too long this time: the old tables are better than none
            self.compiled = CompiledGrammar.build(old.vocabulary, old.stats.kind, old.grammar, old.report, time.monotonic(), Limits())
            self.matcher, self._first_size = self.compiled.matcher(), self.compiled.size

    def _textless(self) -> int:
        """A token that no text has, and a stop token only where there is no other."""
        vocabulary = self.compiled.vocabulary
        stops = vocabulary.stop_token_ids
        ids: Iterable[int] = (token for token in range(vocabulary.size - 1, -1, -1) if token not in stops)
        return next((token for token in ids if vocabulary.token_bytes(token) is None), stops[0] if stops else 0)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.kind} accepted={self.matcher.num_accepted} {self.specification[:80]!r}>"


def allocate_vocab_mask(vocab_size: int, batch_size: int, device: object) -> torch.Tensor:
    """A mask with everything allowed, in memory of the host that the device can copy from while both work."""
    mask = torch.empty((batch_size, (vocab_size + 31) // 32), dtype=torch.int32, pin_memory=is_pin_memory_available())
    mask.numpy().fill(-1)  # PERF: 20 us a megabyte; torch would share it out to threads, and wait for them on a busy machine
    return mask


def move_vocab_mask(vocab_mask: torch.Tensor, device: object) -> torch.Tensor:
    """The mask where the logits are."""
    return vocab_mask.to(device, non_blocking=True)  # type: ignore[call-overload, no-any-return]


def apply_vocab_mask(logits: torch.Tensor, vocab_mask: torch.Tensor) -> None:
    """Set the logits of forbidden tokens to minus infinity, by SGLang's kernel where there is one for the device."""
    if logits.device.type in TRITON_DEVICES and torch.version.hip is None:
        from sglang.kernels.ops.grammar.bitmask_ops import apply_token_bitmask_inplace_triton

        apply_token_bitmask_inplace_triton(logits, vocab_mask)
    else:
        apply_token_bitmask_inplace(logits, vocab_mask)


def set_token_filter(
    vocab_mask: torch.Tensor, token_ids: Sequence[int], batch_idx: int, is_allowed: bool = True, reset_vocab_mask: bool = True
) -> None:
    """Allow or forbid some tokens in a row; with `reset_vocab_mask`, the others get the opposite."""
    row = vocab_mask[batch_idx]
    if reset_vocab_mask:
        row.fill_(0 if is_allowed else -1)
    for token in token_ids:
        bit = 1 << token % 32
        mask = bit - (1 << 32) if bit == 1 << 31 else bit  # as a signed word
        word = row[token // 32]
        word.copy_(word | mask if is_allowed else word & ~mask)
