"""Rows of an engine's batch as sequences of llama.cpp, which keeps their keys and values.

A row is a sequence number. When a row is given back, the number of the last row moves to its place, and nothing is copied.
What a row has more of than its length says, drafts that were refused or text that is cut anew, is removed before the next pass
(`llama_memory_seq_rm`). A pass is one batch of all rows, each with its own number of tokens; where that is more than llama.cpp takes at
once, it is cut into several.
"""

from __future__ import annotations

import heapq
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import torch

from ..engine.kv_cache import PIECE, ChainRows, ModelError
from .library import Batch, Library

if TYPE_CHECKING:
    from .model import LlamaModel

BATCH: Final = 512  # tokens that llama.cpp takes at once


class LlamaRows(ChainRows):
    """The cache of one model: lengths of rows, and forward passes over a range of them."""

    model: LlamaModel
    piece: int | None = PIECE

    def __init__(self, model: LlamaModel, capacity: int) -> None:
        most = model.library.llama_max_parallel_sequences()
        if capacity > most:
            raise ModelError(f"llama.cpp runs at most {most} requests at a time, not {capacity}")
        super().__init__(model, capacity)
        self.can_take_back = model.can_take_back
        self._library = model.library
        self._sequences: list[int] = []
        self._computed: list[int] = []  # tokens that llama.cpp has of each row
        self._free = list(range(capacity))
        self._context: int | None = None

    def add(self) -> int:
        """Take a row, empty."""
        self._sequences.append(heapq.heappop(self._free))
        self._computed.append(0)
        return super().add()

    def remove(self, row: int) -> None:
        """Give a row back; the last row moves to its place."""
        self._forget(row, 0)
        heapq.heappush(self._free, self._sequences[row])
        self._drop(row, self._sequences, self._computed)

    def swap(self, row: int, other: int) -> None:
        """Exchange two rows."""
        self._exchange(row, other, self._sequences, self._computed)

    def clear(self) -> None:
        """Forget all rows."""
        if self._context is not None:
            self._library.llama_memory_clear(self._library.llama_get_memory(self._context), False)
        self._free = list(range(self.capacity))
        for values in (self.lengths, self._sequences, self._computed):
            values.clear()

    def prefill(self, row: int, prompt: Sequence[int]) -> torch.Tensor:
        """Append a prompt, or a piece of one, to a row; the logits after its last token: (1, 1, vocabulary), float32."""
        return self.forward([prompt], first=row, last_only=True).clone()  # the next pass overwrites them

    def forward(
        self,
        tokens: Sequence[Sequence[int]],
        *,
        first: int = 0,
        parents: Sequence[Sequence[int] | None] | None = None,
        last_only: bool = False,
    ) -> torch.Tensor:
        """The logits after each of the tokens appended to rows `first`, `first` + 1, ...: (rows, longest, vocabulary), float32.

        They are valid until the next pass. `last_only`: the logits after the last token of each row alone.
        """
        assert parents is None, "drafts are chains"
        counts = [len(row) for row in tokens]
        total, rows = sum(counts), range(first, first + len(tokens))
        for row in rows:
            self._forget(row, self.lengths[row])
        ids = np.fromiter((token for row in tokens for token in row), np.int32, total)
        owners = np.repeat(np.array([self._sequences[row] for row in rows], np.int32), counts)
        positions = np.concatenate(
            [np.arange(self.lengths[row], self.lengths[row] + count) for row, count in zip(rows, counts, strict=True)]
        )
        ends = np.cumsum(counts) - 1
        outputs = np.ones(total, np.int8)
        if last_only:
            outputs[:] = 0
            outputs[ends] = 1
        found = self._decode(ids, positions.astype(np.int32), owners, outputs)
        for row, count in zip(rows, counts, strict=True):
            self.lengths[row] += count
            self._computed[row] = self.lengths[row]
        self.forwards += 1
        logits = torch.from_numpy(found)
        width = 1 if last_only else max(counts)
        if len(found) == len(tokens) * width:
            return logits.view(len(tokens), width, -1)
        padded = logits.new_zeros((len(tokens), width, logits.shape[1]))
        for place, (end, count) in enumerate(zip(ends.tolist(), counts, strict=True)):
            padded[place, :count] = logits[end + 1 - count : end + 1]
        return padded

    def _decode(
        self, ids: npt.NDArray[np.int32], positions: npt.NDArray[np.int32], owners: npt.NDArray[np.int32], outputs: npt.NDArray[np.int8]
    ) -> npt.NDArray[np.float32]:
        """Run a batch; the logits of its outputs, in order. They are llama.cpp's own memory where one pass does."""
        context = self._begin()
        ones = np.ones(BATCH, np.int32)
        parts: list[npt.NDArray[np.float32]] = []
        for start in range(0, len(ids), BATCH):
            end = min(start + BATCH, len(ids))
            owner = np.ascontiguousarray(owners[start:end])
            places = owner.ctypes.data + 4 * np.arange(end - start, dtype=np.uintp)
            batch = Batch(
                n_tokens=end - start,
                token=ids.ctypes.data + 4 * start,
                pos=positions.ctypes.data + 4 * start,
                n_seq_id=ones.ctypes.data,
                seq_id=places.ctypes.data,
                logits=outputs.ctypes.data + start,
            )
            self._library.errors.clear()
            status = self._library.llama_decode(context, batch)
            if status:
                raise ModelError(f"llama_decode returned {status}: {'; '.join(self._library.errors) or 'it does not say why'}")
            if count := int(outputs[start:end].sum()):
                logits = np.ctypeslib.as_array(self._library.llama_get_logits(context), (count, self.model.config.vocab_size))
                parts.append(logits if end == len(ids) else logits.copy())
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _begin(self) -> int:
        """The context of llama.cpp, made when it is first needed."""
        context = self._context
        if context is None:
            params = self._library.context_params()
            params.n_ctx = self.context * self.capacity
            params.n_seq_max = self.capacity
            params.n_batch = params.n_ubatch = BATCH
            params.n_threads = params.n_threads_batch = self.model.threads
            params.swa_full = True  # what is behind a sliding window can be taken back then
            self._library.errors.clear()
            context = self._library.llama_init_from_model(self.model.pointer, params)
            if context is None:
                raise ModelError(f"llama.cpp cannot create a context: {'; '.join(self._library.errors) or 'it does not say why'}")
            weakref.finalize(self, _free, self._library, context, self.model.weights)
            self._context = context
        return context

    def _forget(self, row: int, length: int) -> None:
        """Keep no more than the first `length` tokens of a row."""
        if self._computed[row] > length:
            assert self._context is not None
            memory = self._library.llama_get_memory(self._context)
            if not self._library.llama_memory_seq_rm(memory, self._sequences[row], length or -1, -1):
                raise ModelError("llama.cpp cannot take tokens back from the cache of this model")
            self._computed[row] = length


def _free(library: Library, context: int, weights: object) -> None:
    """Free a context; its model lives until then, because this function's arguments do."""
    library.llama_free(context)
