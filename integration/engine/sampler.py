"""One token from one row of logits that are masked already: temperature, top-k, top-p, min-p, then chance or the maximum.

Each request draws from a generator of its own, one number a token, so that its text does not depend on who shares the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from .request import Sampling, TokenLogprob


class Sampler:
    """The random numbers of one request, and how it chooses.

    `is_greedy`: it takes the most likely token of the logits as they are. `changes_logits`: `adjust` does something.
    """

    __slots__ = ("_bias", "_generator", "_penalises", "_sampling", "changes_logits", "is_greedy")

    def __init__(self, sampling: Sampling) -> None:
        self._sampling = sampling
        self._generator = torch.Generator()
        if sampling.seed is None:
            self._generator.seed()
        else:
            self._generator.manual_seed(sampling.seed & (1 << 63) - 1)
        self._bias = _bias_tensors(sampling.logit_bias)
        self._penalises = bool(sampling.presence_penalty or sampling.frequency_penalty)
        self.is_greedy = sampling.temperature == 0 and not self._penalises
        self.changes_logits = self._bias is not None or self._penalises

    def adjust(self, logits: torch.Tensor, tokens: Sequence[int]) -> None:
        """Add the biases and subtract the penalties, in place; what the grammar forbids stays at minus infinity."""
        if self._bias is not None:
            ids, values = self._bias
            logits[ids] += values.to(logits.device)
        if self._penalises and tokens:
            counts = torch.bincount(torch.tensor(tokens), minlength=logits.shape[-1])[: logits.shape[-1]].to(logits.device)
            logits -= self._sampling.presence_penalty * (counts > 0) + self._sampling.frequency_penalty * counts

    def draw(self, logits: torch.Tensor, temperature: float | None = None) -> int:
        """A token; at the temperature that the grammar asks for, where it does, else at the request's."""
        sampling = self._sampling
        if temperature is None:
            temperature = sampling.temperature
        if temperature == 0:
            return int(logits.argmax())
        # the largest is 0, so that no temperature, however small, overflows
        scaled = (logits - logits.max()).double() / temperature
        probabilities = _truncate(scaled.softmax(-1), sampling).cpu()
        # PERF: one uniform number and a search is ten times faster than multinomial over a large vocabulary
        sums = probabilities.cumsum(-1)
        point = torch.rand(1, generator=self._generator, dtype=torch.float64) * sums[-1]
        token = int(torch.searchsorted(sums, point, right=True))
        return token if token < len(sums) and probabilities[token] > 0 else int(probabilities.argmax())


def token_logprob(logits: torch.Tensor, token: int, top: int) -> TokenLogprob:
    """The log-probability of a token and of the most likely ones, among those that the grammar allows, before the temperature."""
    logprobs = logits.double().log_softmax(-1)
    values, ids = logprobs.topk(min(top, len(logprobs)))
    best = tuple((int(other), float(value)) for other, value in zip(ids, values, strict=True) if value > -torch.inf)
    return TokenLogprob(token, float(logprobs[token]), best)


def _truncate(probabilities: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """The probabilities with those that top-k, top-p and min-p leave out at zero; they no longer add up to one."""
    if sampling.top_k and sampling.top_k < len(probabilities):
        bound = probabilities.topk(sampling.top_k).values[-1]
        probabilities = torch.where(probabilities < bound, 0.0, probabilities)
    if sampling.top_p < 1:
        ordered, ids = probabilities.sort(descending=True)
        total = ordered.sum()
        outside = ordered.cumsum(-1) - ordered > sampling.top_p * total  # the first is always inside
        probabilities[ids[outside]] = 0.0
    if sampling.min_p > 0:
        probabilities = torch.where(probabilities < sampling.min_p * probabilities.max(), 0.0, probabilities)
    return probabilities


def _bias_tensors(bias: Mapping[int, float]) -> tuple[torch.Tensor, torch.Tensor] | None:
    return (torch.tensor(list(bias)), torch.tensor(list(bias.values()))) if bias else None
