"""A model's log-probabilities after the places of a token tree, many places in one pass.

    TreeScorer     the tree behind the prompt in one row of a cache: each token sees its ancestors. For models with full attention.
    BatchScorer    a row for each path, without a cache. For all other causal models.

Prompts with a common beginning share its keys and values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from ..engine.kv_cache import PREFILL_CHUNK, ModelError, Slots, has_full_attention

LogProbs = npt.NDArray[np.float64]

BLOCK: Final = 16  # rows of logits that are normalised at once, in float64


class Rows:
    """Logits after several places; log-probabilities of a few tokens are read from them."""

    def __init__(self, logits: torch.Tensor, temperature: float) -> None:
        self._logits = logits
        self._temperature = temperature
        sums = [torch.logsumexp(logits[begin : begin + BLOCK].double() / temperature, 1) for begin in range(0, len(logits), BLOCK)]
        self._sums = torch.cat(sums).cpu().numpy()

    def logprobs(self, row: int, tokens: Sequence[int]) -> LogProbs:
        """The log-probabilities of tokens after a place: float64 of shape (tokens,)."""
        chosen = self._logits[row, torch.tensor(tokens, dtype=torch.long, device=self._logits.device)].double().cpu().numpy()
        values: LogProbs = chosen / self._temperature - self._sums[row]
        return values


class TreeScorer:
    """Tree attention over one row of a cache of its own."""

    def __init__(self, model: Any, size: int) -> None:
        self._slots = Slots(model, 1)
        self._slots.add()
        self._size = size
        self._prompt: list[int] = []
        self.forwards = 0

    def begin(self, prompt: Sequence[int], temperature: float) -> Rows:
        """Start a prompt and return the logits after it."""
        shared = 0  # the last token runs anyway: its logits are asked for
        while shared < min(len(prompt), len(self._prompt) + 1) - 1 and prompt[shared] == self._prompt[shared]:
            shared += 1
        self._slots.lengths[0] = shared
        self._prompt = list(prompt)
        for begin in range(shared, len(prompt), PREFILL_CHUNK):
            logits = self._slots.forward([prompt[begin : begin + PREFILL_CHUNK]], last_only=True)
            self.forwards += 1
        return Rows(logits[0, -1:, : self._size], temperature)

    def after(self, tokens: Sequence[int], parents: Sequence[int], temperature: float) -> Rows:
        """The logits after each token of a tree; `parents` are indices into `tokens`, -1 for the prompt, each before its children."""
        logits = self._slots.forward([tokens], parents=[parents])
        self.forwards += 1
        self._slots.lengths[0] = len(self._prompt)
        return Rows(logits[0, :, : self._size], temperature)


class BatchScorer:
    """A row for each path of the tree, prompt and all."""

    def __init__(self, model: Any, size: int) -> None:
        self._model = model
        self._size = size
        self._prompt: list[int] = []
        self.forwards = 0

    def begin(self, prompt: Sequence[int], temperature: float) -> Rows:
        """Start a prompt and return the logits after it."""
        self._prompt = list(prompt)
        return Rows(self._run([[]])[0, -1:], temperature)

    def after(self, tokens: Sequence[int], parents: Sequence[int], temperature: float) -> Rows:
        """The logits after each token of a tree; `parents` are indices into `tokens`, -1 for the prompt, each before its children."""
        paths: list[list[int]] = []
        for token, parent in zip(tokens, parents, strict=True):
            paths.append([*(paths[parent] if parent >= 0 else ()), token])
        inner = set(parents)
        leaves = [place for place in range(len(tokens)) if place not in inner]
        logits = self._run([paths[place] for place in leaves])
        where: dict[int, tuple[int, int]] = {}
        for row, leaf in enumerate(leaves):
            place = leaf
            while place >= 0:
                where[place] = (row, len(paths[place]))
                place = parents[place]
        rows, columns = zip(*(where[place] for place in range(len(tokens))), strict=True)
        return Rows(logits[list(rows), list(columns)], temperature)

    def _run(self, paths: Sequence[Sequence[int]]) -> torch.Tensor:
        """The logits after the prompt and after each token of the paths: (paths, 1 + longest, size), float32."""
        width = max(map(len, paths))
        rows = [[*self._prompt, *path, *[0] * (width - len(path))] for path in paths]
        mask = [[1] * (len(self._prompt) + len(path)) + [0] * (width - len(path)) for path in paths]
        device = self._model.device
        output = self._model(input_ids=torch.tensor(rows, device=device), attention_mask=torch.tensor(mask, device=device), use_cache=False)
        self.forwards += 1
        logits: torch.Tensor = output.logits[:, len(self._prompt) - 1 :, : self._size].float()
        return logits


def make_scorer(model: Any, size: int) -> TreeScorer | BatchScorer:
    """The scorer for a model whose vocabulary has `size` ids; ModelError if it is not a module of transformers."""
    if not isinstance(model, torch.nn.Module):
        raise ModelError(f"decisions need the logits of many positions at once, which {type(model).__name__} does not return")
    return TreeScorer(model, size) if has_full_attention(model) else BatchScorer(model, size)
