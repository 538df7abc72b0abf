"""One token from one row of logits: temperature, top-k, top-p, min-p, then chance or the maximum.

Only allowed tokens are considered, so the cost of a draw grows with their number: `allowed_tokens` reads them off a row
of a bitmask without a pass over the vocabulary, and `Sampler.draw` gathers their logits. A few are read and weighed one by one in Python:
behind a pass of the model, each of the thirty calls of NumPy that it takes otherwise costs some 10 us.
Top-k looks for its tokens in the blocks with the largest maxima. Top-p neither sorts nor finds its tokens: a token is drawn among all,
and drawn again, without those that weigh less, until it is one that top-p leaves; whether it is one takes a sum of the heavier weights.
Drawn so, each token comes as often as its weight says (rejection sampling, von Neumann 1951), and a second draw is as rare as a token
outside.
Weights are float32, or float64 where they are few, their sums float64.

Each request has its own generator and draws one number per token, so that its text does not depend on the rest of the batch.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import torch

from .request import Sampling, TokenLogprob

TokenIds = npt.NDArray[np.int64]
Weights = npt.NDArray[np.float32]

BLOCK = 256  # tokens whose weights are added up before a draw searches among them
PEAKS = 4  # blocks for each token that top-k leaves; in blocks of fewer than SMALLEST_BLOCK tokens their maxima are not worth looking at
SMALLEST_BLOCK = 8
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
        top_k, top_p, min_p = self._sampling.top_k, self._sampling.top_p, self._sampling.min_p
        places = largest(values, top_k) if 0 < top_k < len(values) else None
        if places is not None:
            values = values[places]
        if len(values) <= FEW:
            few = [math.exp((value - float(best)) * scale) for value in values.tolist()]
            place = draw_among_few(few, top_p, min_p, self._point())
        else:
            weights = values - best  # PERF: then in place, as each fresh array of the vocabulary's length costs its page faults
            with np.errstate(over="ignore"):  # the largest is 0, so no temperature, however small, overflows upwards
                weights *= np.float32(scale)
                np.exp(weights, out=weights)
            place = draw_among_many(weights, top_p, min_p, self._point())
        return place if places is None else int(places[place])

    def _point(self) -> float:
        """The random number of a draw, at least 0 and below 1."""
        return float(torch.rand(1, generator=self._generator, dtype=torch.float64))


def allowed_tokens(bits: npt.NDArray[np.int32]) -> TokenIds:
    """The ids whose bits are set in a row of a bitmask, int32 of shape (words,), in rising order.

    >>> allowed_tokens(np.array([5, 0, 1 << 31], np.uint32).view(np.int32)).tolist()
    [0, 2, 95]
    """
    if len(bits) <= SHORT:
        return _places(bits)
    words = np.flatnonzero(bits)
    if len(words) * DENSE > len(bits):
        return _places(bits)
    if len(words) <= FEW:
        values = bits[words].view(np.uint32).tolist()
        if sum(map(int.bit_count, values)) <= FEW:
            return np.array([token for word, value in zip(words.tolist(), values, strict=True) for token in _bits(word, value)], np.int64)
    places = _places(bits[words])
    tokens: TokenIds = words[places >> 5] * 32 + (places & 31)
    return tokens


def _places(bits: npt.NDArray[np.int32]) -> TokenIds:
    """The places of the bits that are set."""
    return np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little").view(np.bool_))  # PERF: 3 times as fast as of integers


def _bits(word: int, value: int) -> Iterator[int]:
    """The ids of the tokens in one word of a bitmask."""
    while value:
        lowest = value & -value
        yield word * 32 + lowest.bit_length() - 1
        value ^= lowest


def largest(values: Weights, count: int) -> TokenIds:
    """The places of the largest values, in rising order: `count` of them, and all that equal the last; `count` is below their number.

    >>> largest(np.array([3.0, 1.0, 2.0, 2.0], np.float32), 2).tolist()
    [0, 2, 3]
    """
    size = len(values) // (PEAKS * count)
    if size < SMALLEST_BLOCK:
        return np.flatnonzero(values >= _ranked(values, count))
    peaks = values[: len(values) // size * size].reshape(-1, size).max(axis=1)
    bound = _ranked(peaks, count)  # as many blocks have a value of that size, so the bound that is sought is not smaller
    places = np.flatnonzero(values >= bound)
    chosen = values[places]
    if np.count_nonzero(chosen > bound) < count:  # PERF: so it is this one, and of many equals none has to be moved
        return places
    return places[chosen >= _ranked(chosen, count)]


def _ranked(values: Weights, rank: int) -> np.float32:
    """The value that has a rank from the top, the largest being the first."""
    place = len(values) - rank
    value: np.float32 = np.partition(values, place)[place]
    return value


def draw_among_many(weights: Weights, top_p: float, min_p: float, point: float) -> int:
    """The place of a draw among weights, of which the largest is 1; they are changed.

    Top-p leaves the fewest that hold its share of all, the first of equals; min-p those of them that weigh as much, beside the largest.
    """
    ends = _block_ends(weights)
    mass = top_p * float(ends[-1])
    if min_p > 0:
        weights *= weights >= np.float32(min_p)
        ends = _block_ends(weights)
    for number in _points(point):
        place = _search(weights, ends, number)
        if top_p >= 1:
            break
        weight = weights[place]
        heavier = (weights * (weights > weight)).sum(dtype=np.float64)
        before = float(heavier) + float(weight) * np.count_nonzero(weights[:place] == weight)
        if before < mass or not before:
            break
        weights *= weights >= weight
        equals = weights[place:]
        equals[equals == weight] = 0
        ends = _block_ends(weights)
    return place


def draw_among_few(weights: list[float], top_p: float, min_p: float, point: float) -> int:
    """The same among a few weights.

    >>> [draw_among_few([0.5, 1.0, 0.25, 0.5], 0.6, 0.0, point) for point in (0.0, 0.3, 0.6)]
    [0, 1, 1]
    """
    ends = list(accumulate(weights))
    mass = top_p * ends[-1]
    if min_p > 0:
        weights = [weight if weight >= min_p else 0.0 for weight in weights]
        ends = list(accumulate(weights))
    for number in _points(point):
        place = bisect_right(ends, number * ends[-1])
        if place == len(weights) or not weights[place]:  # rounding
            place = max(other for other, weight in enumerate(weights[:place]) if weight)
        if top_p >= 1:
            break
        bound = weights[place]
        before = sum([weight for weight in weights if weight > bound]) + bound * weights[:place].count(bound)
        if before < mass or not before:
            break
        weights = [weight if weight > bound or (weight == bound and other < place) else 0.0 for other, weight in enumerate(weights)]
        ends = list(accumulate(weights))
    return place


def _points(point: float) -> Iterator[float]:
    """A number from 0 to 1 and those of the draws after it, which depend on it."""
    yield point
    later = random.Random(point)
    while True:
        yield later.random()


def _search(weights: Weights, ends: npt.NDArray[np.float64], point: float) -> int:
    """The place where the running sum of the weights passes a share of their total, given `_block_ends`; one with a weight above zero."""
    target = point * ends[-1]
    block = int(np.searchsorted(ends, target, side="right"))
    before = ends[block - 1] if block else 0.0
    sums = before + weights[block * BLOCK : (block + 1) * BLOCK].cumsum(dtype=np.float64)
    place = min(block * BLOCK + int(np.searchsorted(sums, target, side="right")), len(weights) - 1)
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


def token_logprob(logits: torch.Tensor, token: int, top: int) -> TokenLogprob:
    """The log-probability of a token and of the most likely ones, among those that the grammar allows, before the temperature."""
    logprobs = logits.double().log_softmax(-1)
    values, ids = logprobs.topk(min(top, len(logprobs)))
    best = tuple((int(other), float(value)) for other, value in zip(ids, values, strict=True) if value > -torch.inf)
    return TokenLogprob(token, float(logprobs[token]), best)


def _bias_tensors(bias: Mapping[int, float]) -> tuple[torch.Tensor, torch.Tensor] | None:
    return (torch.tensor(list(bias)), torch.tensor(list(bias.values()))) if bias else None
