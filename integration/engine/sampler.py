"""One token from one row of logits: temperature, top-k, top-p, min-p, then chance or the maximum.

Only allowed tokens are considered, so the cost of a draw grows with their number: `allowed_tokens` reads them off a row
of a bitmask without a pass over the vocabulary, and `Sampler.draw` gathers their logits. A few are read and weighed one by one in Python:
behind a pass of the model, each of the thirty calls of NumPy that it takes otherwise costs some 10 us.
Top-p sorts only the tokens above a bound that hold enough of the probability, found in at most four passes.
Weights are float32, their sums float64.

Each request has its own generator and draws one number per token, so that its text does not depend on the rest of the batch.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from .request import Sampling, TokenLogprob

TokenIds = npt.NDArray[np.int64]
Weights = npt.NDArray[np.float32]

BLOCK = 256  # tokens whose weights are added up before a draw searches among them
BOUNDS = (2.0**-6, 2.0**-12, 2.0**-20)  # of the largest weight; real distributions hold 0.95 of their mass above the first or the second
LEAST_TEMPERATURE = 1e-30  # below it float32 cannot hold the inverse; the most likely token has all the weight long before
DENSE = 4  # from one word in four of a bitmask on, its bits are unpacked in one piece
SHORT = 128  # words of a bitmask that are not worth looking for those that are not zero
FEW = 128  # tokens that are read and weighed one by one


class Sampler:
    """The random numbers of one request, and how it chooses; `prompt` is needed for the repetition penalty alone.

    `is_greedy`: it takes the most likely token of the logits as they are. `changes_logits`: `adjust` does something.
    """

    __slots__ = ("_bias", "_generator", "_penalises", "_prompt", "_sampling", "changes_logits", "is_greedy")

    def __init__(self, sampling: Sampling, prompt: Sequence[int] = ()) -> None:
        self._sampling = sampling
        self._generator = torch.Generator()
        if sampling.seed is None:
            self._generator.seed()
        else:
            self._generator.manual_seed(sampling.seed & (1 << 63) - 1)
        self._bias = _bias_tensors(sampling.logit_bias)
        self._penalises = bool(sampling.presence_penalty or sampling.frequency_penalty or sampling.repetition_penalty != 1)
        self._prompt = np.unique(np.asarray(prompt, np.int64)) if sampling.repetition_penalty != 1 else None
        self.is_greedy = sampling.temperature == 0 and not self._penalises
        self.changes_logits = self._bias is not None or self._penalises

    def adjust(self, logits: torch.Tensor, tokens: Sequence[int]) -> None:
        """Add the biases, then the repetition penalty and the other penalties, in place, given the tokens of the answer so far.

        Forbidden tokens stay at minus infinity.
        """
        if self._bias is not None:
            ids, values = self._bias
            logits[ids] += values.to(logits.device)
        if not self._penalises:
            return
        seen, counts = np.unique(np.asarray(tokens, np.int64), return_counts=True)
        if self._prompt is not None:
            repeated = np.union1d(self._prompt, seen)
            places = torch.from_numpy(repeated[repeated < len(logits)])  # a prompt can hold tokens that no answer can
            values, penalty = logits[places], self._sampling.repetition_penalty
            logits[places] = torch.where(values < 0, values * penalty, values / penalty)
        if tokens:
            penalties = self._sampling.presence_penalty + self._sampling.frequency_penalty * torch.from_numpy(counts)
            logits[torch.from_numpy(seen)] -= penalties.to(logits)

    def draw(self, logits: torch.Tensor, temperature: float | None = None, allowed: TokenIds | None = None) -> int:
        """A token of `logits`, shape (vocabulary,), any float type and device.

        `temperature` is set by the grammar; None leaves it to the request.
        `allowed` are the ids to choose among, in rising order; None for all.
        One of them comes back even where all their logits are minus infinity, which is the caller's to notice.
        """
        if temperature is None:
            temperature = self._sampling.temperature
        chosen = logits if allowed is None or len(allowed) == len(logits) else logits[torch.from_numpy(allowed)]
        place = int(chosen.argmax()) if temperature == 0 else self._draw(chosen.float().cpu().numpy(), temperature)
        return place if allowed is None else int(allowed[place])

    def _draw(self, values: Weights, temperature: float) -> int:
        """The place of a draw among logits, at a temperature above zero."""
        best = values.max()
        if not np.isfinite(best):
            return int(values.argmax())
        if len(values) == 1:  # PERF: forced tokens are common; the random number is drawn all the same, so that a seed gives the same text
            self._point()
            return 0
        scale = 1 / max(temperature, LEAST_TEMPERATURE)
        if len(values) <= FEW:
            return self._draw_few(values.tolist(), float(best), scale)
        weights = values - best  # PERF: then in place, as each fresh array of the vocabulary's length costs its page faults
        with np.errstate(over="ignore"):  # the largest is 0, so no temperature, however small, overflows upwards
            weights *= np.float32(scale)
            np.exp(weights, out=weights)
        places = truncate(weights, self._sampling.top_k, self._sampling.top_p, self._sampling.min_p)
        return _search(weights, self._point()) if places is None else int(places[_search(weights[places], self._point())])

    def _draw_few(self, values: list[float], best: float, scale: float) -> int:
        """The same among a few logits, of which `best` is the largest, with float64 weights."""
        weights = [math.exp((value - best) * scale) for value in values]
        places = truncate_few(weights, self._sampling.top_k, self._sampling.top_p, self._sampling.min_p)
        ends = list(accumulate([weights[place] for place in places]))
        found = places[min(bisect_right(ends, self._point() * ends[-1]), len(places) - 1)]
        return found if weights[found] else max(place for place in places if weights[place])  # rounding

    def _point(self) -> float:
        """The random number of a draw, at least 0 and below 1."""
        return float(torch.rand(1, generator=self._generator, dtype=torch.float64))


def allowed_tokens(bits: npt.NDArray[np.int32]) -> TokenIds:
    """The ids whose bits are set in a row of a bitmask, int32 of shape (words,), in rising order.

    >>> allowed_tokens(np.array([5, 0, 1 << 31], np.uint32).view(np.int32)).tolist()
    [0, 2, 95]
    """
    if len(bits) <= SHORT:
        return np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little"))
    words = np.flatnonzero(bits)
    if len(words) * DENSE > len(bits):
        return np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little"))
    if len(words) <= FEW:
        values = bits[words].view(np.uint32).tolist()
        if sum(map(int.bit_count, values)) <= FEW:
            return np.array([token for word, value in zip(words.tolist(), values, strict=True) for token in _bits(word, value)], np.int64)
    places = np.flatnonzero(np.unpackbits(bits[words].view(np.uint8), bitorder="little"))
    tokens: TokenIds = words[places >> 5] * 32 + (places & 31)
    return tokens


def _bits(word: int, value: int) -> Iterator[int]:
    """The ids of the tokens in one word of a bitmask."""
    while value:
        lowest = value & -value
        yield word * 32 + lowest.bit_length() - 1
        value ^= lowest


def truncate(weights: Weights, top_k: int, top_p: float, min_p: float) -> npt.NDArray[np.int64] | None:
    """The places that top-k, then top-p, then min-p leave, in rising order; None for all of them. The largest weight is 1.

    Top-k keeps all that weigh as much as the last of the k. Top-p keeps the fewest that hold the share `top_p` of what top-k leaves;
    among equals the first ones.
    """
    places: npt.NDArray[np.int64] | None = None
    if top_k and top_k < len(weights):
        bound = np.partition(weights, len(weights) - top_k)[len(weights) - top_k]
        places = np.flatnonzero(weights >= bound)
        weights = weights[places]
    if top_p < 1:
        kept = _nucleus(weights, top_p)
        places, weights = kept if places is None else places[kept], weights[kept]
    if min_p > 0:
        kept = np.flatnonzero(weights >= np.float32(min_p))
        places = kept if places is None else places[kept]
    return places


def truncate_few(weights: list[float], top_k: int, top_p: float, min_p: float) -> list[int]:
    """The places that `truncate` leaves, in rising order, of a few weights. The largest weight is 1.

    >>> truncate_few([0.5, 1.0, 0.25, 0.5], 0, 0.6, 0.0)
    [0, 1]
    """
    places = list(range(len(weights)))
    if (top_k and top_k < len(weights)) or top_p < 1:
        places.sort(key=weights.__getitem__, reverse=True)  # stable: the first of equals come first
    if top_k and top_k < len(weights):
        last = weights[places[top_k - 1]]
        places = [place for place in places if weights[place] >= last]
    if top_p < 1:
        ends = list(accumulate([weights[place] for place in places]))
        del places[bisect_left(ends, top_p * ends[-1]) + 1 :]
    if min_p > 0:
        places = [place for place in places if weights[place] >= min_p]
    return sorted(places)


def _nucleus(weights: Weights, share: float) -> npt.NDArray[np.int64]:
    """The places of the fewest weights that add up to a share of all, in rising order."""
    target = share * weights.sum(dtype=np.float64)
    places: npt.NDArray[np.int64] | None = None
    heavy = weights
    for bound in BOUNDS:
        above = weights >= bound
        if np.count_nonzero(above) == len(weights):
            break
        places = np.flatnonzero(above)
        heavy = weights[places]
        if heavy.sum(dtype=np.float64) >= target:
            break
    else:
        places, heavy = None, weights
    ordered = np.sort(heavy)[::-1]
    count = min(_crossing(ordered, _block_ends(ordered), target, "left") + 1, len(ordered))
    last = ordered[count - 1]
    kept = heavy > last
    equals = np.flatnonzero(heavy == last)[: count - int(np.count_nonzero(kept))]
    kept[equals] = True
    found = np.flatnonzero(kept)
    return found if places is None else places[found]


def _search(weights: Weights, point: float) -> int:
    """The place where the running sum of the weights passes a share of their total; one with a weight above zero."""
    ends = _block_ends(weights)
    place = min(_crossing(weights, ends, point * ends[-1], "right"), len(weights) - 1)
    while weights[place] == 0:  # rounding
        place -= 1
    return place


def _block_ends(weights: Weights) -> npt.NDArray[np.float64]:
    """The running sum of the weights at the end of each block; the last block may be short."""
    whole = len(weights) // BLOCK * BLOCK
    sums = weights[:whole].reshape(-1, BLOCK).sum(axis=1, dtype=np.float64)
    if whole < len(weights):
        sums = np.append(sums, weights[whole:].sum(dtype=np.float64))
    ends: npt.NDArray[np.float64] = sums.cumsum()
    return ends


def _crossing(weights: Weights, ends: npt.NDArray[np.float64], target: float, side: Literal["left", "right"]) -> int:
    """The number of running sums below the target, or up to it if `side` is "right"."""
    block = int(np.searchsorted(ends, target, side=side))
    start = block * BLOCK
    before = ends[block - 1] if block else 0.0
    return start + int(np.searchsorted(before + weights[start : start + BLOCK].cumsum(dtype=np.float64), target, side=side))


def token_logprob(logits: torch.Tensor, token: int, top: int) -> TokenLogprob:
    """The log-probability of a token and of the most likely ones, among those that the grammar allows, before the temperature."""
    logprobs = logits.double().log_softmax(-1)
    values, ids = logprobs.topk(min(top, len(logprobs)))
    best = tuple((int(other), float(value)) for other, value in zip(ids, values, strict=True) if value > -torch.inf)
    return TokenLogprob(token, float(logprobs[token]), best)


def _bias_tensors(bias: Mapping[int, float]) -> tuple[torch.Tensor, torch.Tensor] | None:
    return (torch.tensor(list(bias)), torch.tensor(list(bias.values()))) if bias else None
