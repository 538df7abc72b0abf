"""Rows of an engine's batch as caches of mlx-lm, which keep their keys and values.

A row has the cache that the model makes, so every architecture of mlx-lm runs: full attention, sliding windows, states. The rows of a pass
are built one by one and computed together; each adds its own number of tokens. A row is cut back by `trim`, where every layer has full
attention.

mlx-lm's own batches are not used: all their rows are cut back by the same number of tokens, and what drafts and forced text take back
differs from row to row. The price is that each row reads the weights again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import mlx.core as mx
import numpy as np
import torch
from mlx_lm.models.cache import KVCache, make_prompt_cache

from ..engine.kv_cache import LARGE_PIECE, ChainRows

if TYPE_CHECKING:
    from .model import MLXModel

PREFILL_CHUNK: Final = 512  # tokens of a prompt that are computed at once


class MLXRows(ChainRows):
    """The cache of one model: lengths of rows, and forward passes over a range of them."""

    model: MLXModel
    piece: int | None = LARGE_PIECE

    def __init__(self, model: MLXModel, capacity: int) -> None:
        super().__init__(model, capacity)
        self.can_take_back = all(type(layer) is KVCache for layer in make_prompt_cache(model.module))
        self._caches: list[list[Any]] = []

    def add(self) -> int:
        """Take a row, empty."""
        self._caches.append(make_prompt_cache(self.model.module))
        return super().add()

    def remove(self, row: int) -> None:
        """Give a row back; the last row moves to its place."""
        self._drop(row, self._caches)
        mx.clear_cache()  # MLX keeps freed memory; a row's is of no other row's size

    def swap(self, row: int, other: int) -> None:
        """Exchange two rows."""
        self._exchange(row, other, self._caches)

    def clear(self) -> None:
        """Forget all rows."""
        self.lengths.clear()
        self._caches.clear()
        mx.clear_cache()

    def prefill(self, row: int, prompt: Sequence[int]) -> torch.Tensor:
        """Append a prompt, or a piece of one, to a row; the logits after its last token: (1, 1, vocabulary), float32."""
        return self.forward([prompt], first=row, last_only=True)

    def forward(
        self,
        tokens: Sequence[Sequence[int]],
        *,
        first: int = 0,
        parents: Sequence[Sequence[int] | None] | None = None,
        last_only: bool = False,
    ) -> torch.Tensor:
        """The logits after each of the tokens appended to rows `first`, `first` + 1, ...: (rows, longest, vocabulary), float32.

        `last_only`: the logits after the last token of each row alone, as (rows, 1, vocabulary).
        """
        assert parents is None, "drafts are chains"
        found = [self._run(row, new, last_only) for row, new in enumerate(tokens, first)]
        mx.eval(found)
        self.forwards += 1
        width = max(len(logits) for logits in found)
        table = torch.zeros((len(found), width, self.model.config.vocab_size))
        for row, logits in enumerate(found):
            table[row, : len(logits)] = torch.from_numpy(np.array(logits))
        return table

    def _run(self, row: int, tokens: Sequence[int], last_only: bool) -> mx.array:
        """The logits after tokens appended to a row, (tokens, vocabulary), float32; nothing of the last pass is computed yet."""
        cache = self._caches[row]
        if self.can_take_back:
            for layer in cache:
                layer.trim(layer.offset - self.lengths[row])
        self.lengths[row] += len(tokens)
        if last_only:  # the logits of the tokens before are never asked for, so MLX does not compute them
            *before, last = tokens
            for begin in range(0, len(before), PREFILL_CHUNK):
                self.model.module(mx.array([before[begin : begin + PREFILL_CHUNK]]), cache=cache)
                mx.eval([layer.state for layer in cache])
                mx.clear_cache()
            tokens = [last]
        logits: mx.array = self.model.module(mx.array([list(tokens)]), cache=cache)
        return logits[0].astype(mx.float32)
