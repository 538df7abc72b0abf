"""A grammar as a logits processor of mlx-lm.

mlx-lm tells a processor nothing but the tokens of one row, prompt included, as they are now. Rows of a `BatchGenerator` move and end, and
all rows may share one processor; speculative decoding asks for places that it has passed already. So the state belongs to the tokens: a
call continues from the text that has all its tokens but the last, from a fork of one that has these and more, or begins a new text, whose
prompt is all that is there.

Only the first call tells which part of a text is the prompt. A prompt that is an earlier prompt, some of its answer and one token more is
taken for the answer going on; a processor for each request never meets one.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

import mlx.core as mx

from ...pda.exceptions import GrammarError
from ...pda.matcher import allocate_token_bitmask
from ..compiler import CompiledGrammar
from ..follower import Follower
from .bitmask import apply_token_bitmask
from .vocabulary import model_vocabulary

__all__ = ["GrammarLogitsProcessor", "model_vocabulary"]

KEPT: Final = 256  # texts; a batch has fewer rows, and guesses of speculative decoding are forgotten after as many


@dataclass(slots=True)
class _Text:
    """One text: where its answer begins, and its place in the grammar."""

    begin: int
    follower: Follower


class GrammarLogitsProcessor:
    """Keeps what mlx-lm generates inside a grammar: all rows that it serves have the same grammar, and each its own place in it."""

    def __init__(self, grammar: CompiledGrammar) -> None:
        self._grammar = grammar
        self._bitmask = allocate_token_bitmask(1, grammar.vocabulary.size)
        self.reset()

    def reset(self) -> None:
        """Forget all texts."""
        self._texts: OrderedDict[tuple[int, ...], list[_Text]] = OrderedDict()
        self._count = 0

    def __call__(self, tokens: mx.array, logits: mx.array) -> mx.array:
        """The logits of one row, (1, width) or (width,), with those of forbidden tokens at minus infinity.

        `tokens` is (length,). GrammarError where the grammar refuses one of them, or no token can follow.
        """
        values: Any = tokens.tolist()
        ids: tuple[int, ...] = tuple(values)
        text = self._take(ids)
        text.follower.follow(list(ids[text.begin :]))
        matcher = text.follower.matcher
        if not text.follower.fits:
            token = ids[text.begin + len(text.follower.tokens)]
            raise GrammarError(f"the grammar refuses a token that was chosen: {matcher.explain(token)}")
        self._texts.setdefault(ids, []).append(text)
        self._count += 1
        while self._count > KEPT:
            _, dropped = self._texts.popitem(last=False)
            self._count -= len(dropped)
        matcher.fill_next_token_bitmask(self._bitmask)
        if not self._bitmask.any():
            raise GrammarError(f"no token of the vocabulary begins with one of the bytes {matcher.next_bytes()[:8]!r}, which must follow")
        return apply_token_bitmask(logits, self._bitmask if logits.ndim == 2 else self._bitmask[0])

    def _take(self, ids: tuple[int, ...]) -> _Text:
        """The kept text that these tokens belong to, or a new one."""
        before = ids[:-1]
        for known in (before, ids):
            texts = [text for text in self._texts.get(known, ()) if text.begin < len(ids)]
            if texts:
                found = texts[-1]
                self._texts[known].remove(found)
                self._count -= 1
                if not self._texts[known]:
                    del self._texts[known]
                return found
        for known, longer in reversed(self._texts.items()):
            for text in longer:
                if text.begin <= len(before) and known[: len(before)] == before:
                    return _Text(text.begin, text.follower.fork())
        return _Text(len(ids), Follower(self._grammar.matcher()))
