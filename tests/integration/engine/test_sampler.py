"""Draws look at the allowed tokens alone, and follow the distribution that temperature, top-k, top-p and min-p leave."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from stackmask.integration.engine.request import Sampling
from stackmask.integration.engine.sampler import Sampler, allowed_tokens, draw_among_few, draw_among_many, largest


def kept_by_definition(weights, top_p, min_p):
    """The places that are left, by the definitions: sort, cut, compare."""
    left = [*range(len(weights))]
    if top_p < 1:
        order = sorted(left, key=lambda place: (-weights[place], place))
        target = top_p * sum(float(weights[place]) for place in left)
        total, kept = 0.0, []
        for place in order:
            kept.append(place)
            total += float(weights[place])
            if total >= target:
                break
        left = sorted(kept)
    if min_p:
        left = [place for place in left if weights[place] >= np.float32(min_p)]
    return [place for place in left if weights[place]]


@given(
    st.lists(st.sampled_from([0.0, 2.0**-30, 2.0**-21, 2.0**-13, 2.0**-7, 0.125, 0.25, 0.5, 1.0]), min_size=1, max_size=40),
    st.sampled_from([0.0625, 0.125, 0.25, 0.5, 0.75, 0.9375, 0.99999, 1.0]),
    st.sampled_from([0.0, 0.125, 0.3, 1.0]),
)
def test_what_is_drawn(weights, top_p, min_p):
    """Top-p leaves the fewest that hold its share with the first of equals, min-p what is heavy enough beside the heaviest.

    What weighs an eighth of all that is left comes within 400 draws, and what is left out never does.
    """
    weights = np.array([*weights, 1.0], np.float32)
    kept = kept_by_definition(weights, top_p, min_p)
    points = [(count + 0.5) / 400 for count in range(400)]
    drawn = {draw_among_many(weights.copy(), top_p, min_p, point) for point in points}
    assert drawn == {draw_among_few(weights.tolist(), top_p, float(np.float32(min_p)), point) for point in points}
    assert drawn <= set(kept)
    assert drawn >= {place for place in kept if weights[place] * 8 >= weights[kept].sum()}


@pytest.mark.parametrize("draw", [draw_among_many, draw_among_few])
@pytest.mark.parametrize(("top_p", "min_p"), [(1.0, 0.0), (0.5, 0.0), (0.9, 0.0), (0.99, 0.0), (0.2, 0.0), (0.95, 0.3), (1.0, 0.1)])
@pytest.mark.parametrize("shape", ["falling", "equal", "mixed"])
def test_how_often_each_is_drawn(draw, top_p, min_p, shape):
    """What is left comes as often as it weighs: chi-square over 4,000 draws stays below mean and six deviations."""
    shapes = {
        "falling": [2.0**-place for place in range(12)],
        "equal": [1.0] * 20,
        "mixed": [0.01, 0.5, 0.01, 0.5, 1.0, 0.03, 0.5, 0.25, 0.03, 1.0],
    }
    weights = np.array(shapes[shape], np.float32)
    kept = kept_by_definition(weights, top_p, min_p)
    chance = np.random.default_rng(4)
    give = (lambda: weights.copy()) if draw is draw_among_many else weights.tolist
    counts = np.bincount([draw(give(), top_p, min_p, float(chance.random())) for _ in range(4_000)], minlength=len(weights))
    assert counts.sum() == counts[kept].sum()
    expected = weights[kept] / weights[kept].sum() * 4_000
    assert ((counts[kept] - expected) ** 2 / expected).sum() < len(kept) + 6 * (2 * len(kept)) ** 0.5


@given(st.lists(st.sampled_from([-3.0, -0.5, 0.0, 0.25, 1.0, 4.0]) | st.floats(-9, 9, width=32), min_size=2, max_size=300), st.data())
def test_top_k_keeps_ties(values, data):
    """As many as are asked for, and all that equal the last of them, whether found by blocks or not."""
    count = data.draw(st.integers(1, len(values) - 1) | st.integers(1, min(4, len(values) - 1)))
    bound = sorted(values, reverse=True)[count - 1]
    expected = [place for place, value in enumerate(values) if value >= bound]
    assert largest(np.array(values, np.float32), count).tolist() == expected
    assert largest(np.sort(np.array(values, np.float32)), count).tolist() == list(range(len(values) - len(expected), len(values)))


@pytest.mark.parametrize("share", [0.0, 0.001, 0.009, 0.01, 0.2, 0.26, 1.0])
@pytest.mark.parametrize("words", [1, 7, 400])
def test_allowed_tokens_are_the_bits(share, words):
    """The ids are those of the set bits, in rising order, in sparse rows and in dense ones."""
    chance = np.random.default_rng(words)
    bits = (chance.random(words * 32) < share) if share < 1 else np.ones(words * 32, bool)
    row = np.packbits(bits, bitorder="little").view(np.int32)
    assert allowed_tokens(row).tolist() == np.flatnonzero(bits).tolist()


@pytest.mark.parametrize("size", [1, 2, 128, 129, 255, 256, 257, 511, 512, 1000])
@pytest.mark.parametrize("temperature", [0.3, 1.0, 3.0])
def test_draws_invert_the_running_sum(size, temperature):
    """A draw is the first token whose running sum passes the random number, among blocks of any length and tokens without weight."""
    logits = torch.randn(size, generator=torch.Generator().manual_seed(size)) * 4
    logits[torch.arange(size) % 3 == 1] = -torch.inf
    sampler = Sampler(Sampling(temperature=temperature, seed=7))
    numbers = torch.Generator().manual_seed(7)
    sums = (logits.double() / temperature).softmax(-1).cumsum(-1)
    for _ in range(200):
        point = float(torch.rand(1, generator=numbers, dtype=torch.float64))
        token = sampler.draw(logits)
        assert logits[token] > -torch.inf
        assert (float(sums[token - 1]) if token else 0.0) - 1e-6 <= point <= float(sums[token]) + 1e-6


@pytest.mark.parametrize("options", [{}, {"top_k": 5}, {"top_p": 0.7}, {"min_p": 0.2}, {"top_k": 9, "top_p": 0.8, "min_p": 0.1}])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_allowed_tokens_alone(options, dtype):
    """A draw among allowed ids is the draw from logits that are masked, of any precision."""
    chance = np.random.default_rng(3)
    masked, among = (Sampler(Sampling(temperature=1.5, seed=1, **options)) for _ in range(2))
    for count in (1, 2, 3, 40, 900, 1000):
        logits = torch.from_numpy(chance.normal(0, 3, 1000).astype(np.float32)).to(dtype)
        allowed = np.sort(chance.choice(1000, count, replace=False)).astype(np.int64)
        forbidden = torch.ones(1000, dtype=torch.bool)
        forbidden[torch.from_numpy(allowed)] = False
        for _ in range(20):
            token = among.draw(logits, None, allowed)
            assert token in allowed
            assert token == masked.draw(logits.masked_fill(forbidden, -torch.inf))


def test_frequencies():
    """Tokens come as often as their probabilities say, top-p cut off: chi-square over 20,000 draws stays below its 0.999 quantile."""
    probabilities = np.array([0.4, 0.3, 0.2, 0.06, 0.04])
    sampler = Sampler(Sampling(temperature=2.0, top_p=0.95, seed=11))
    weights = np.sqrt(probabilities)
    order = weights / weights.sum()
    assert order[:4].sum() < 0.95  # so all five stay
    logits = torch.from_numpy(np.log(probabilities))
    counts = np.bincount([sampler.draw(logits) for _ in range(20_000)], minlength=5)
    expected = order * 20_000
    assert ((counts - expected) ** 2 / expected).sum() < 18.47


@pytest.mark.parametrize("temperature", [0.0, 1e-320, 1e-9])
@pytest.mark.parametrize("allowed", [None, np.array([1, 3, 4])])
def test_cold_draws_take_the_most_likely(temperature, allowed):
    """At temperature 0 and at any that is tiny the most likely token comes, among those allowed."""
    logits = torch.tensor([9.0, 2.0, 8.0, 3.0, -torch.inf])
    sampler = Sampler(Sampling(temperature=temperature, seed=0))
    assert {sampler.draw(logits, None, allowed) for _ in range(5)} == {0 if allowed is None else 3}
    assert {sampler.draw(logits, 0.0, allowed) for _ in range(5)} == {0 if allowed is None else 3}


@pytest.mark.parametrize("value", [-torch.inf, torch.inf])
def test_rows_without_a_finite_logit(value):
    """A row that is all forbidden, and one with an infinite logit, still give one of the tokens to choose among."""
    logits = torch.full((5,), value)
    sampler = Sampler(Sampling(seed=0))
    assert sampler.draw(logits) in range(5)
    assert sampler.draw(logits, None, np.array([2, 4])) in (2, 4)


def test_penalties_and_biases():
    """Each token loses the presence penalty once and the frequency penalty for every time it came; biases are added."""
    sampler = Sampler(Sampling(presence_penalty=0.5, frequency_penalty=0.25, logit_bias={1: 3.0, 4: -2.0}))
    logits = torch.tensor([0.0, 1.0, 2.0, -torch.inf, 4.0])
    sampler.adjust(logits, [2, 0, 2, 2, 3])
    assert logits.tolist() == [-0.75, 4.0, 0.75, -torch.inf, 2.0]
    sampler = Sampler(Sampling(frequency_penalty=1.0))
    sampler.adjust(logits, [])
    assert logits.tolist() == [-0.75, 4.0, 0.75, -torch.inf, 2.0]


@given(
    st.lists(st.sampled_from([-torch.inf, -3.0, -0.5, 0.0, 0.25, 4.0]), min_size=12, max_size=12),
    st.lists(st.integers(0, 20), max_size=8),
    st.lists(st.integers(0, 11), max_size=8),
    st.sampled_from([0.5, 1.0, 1.25, 3.0]),
)
def test_the_repetition_penalty_is_that_of_transformers(values, prompt, answer, penalty):
    """Positive logits of tokens of prompt and answer are divided, negative ones multiplied; ids beyond the logits have none."""
    transformers = pytest.importorskip("transformers")
    logits = torch.tensor(values)
    seen = [*(token for token in prompt if token < len(values)), *answer]
    expected = logits.clone()
    if seen:
        expected = transformers.RepetitionPenaltyLogitsProcessor(penalty)(torch.tensor([seen]), logits[None].clone())[0]
    sampler = Sampler(Sampling(repetition_penalty=penalty), prompt)
    sampler.adjust(logits, answer)
    assert torch.equal(logits, expected)


def test_the_order_of_penalties():
    """Biases first, then the repetition penalty, then what is subtracted."""
    options = {"logit_bias": {1: 2.0}, "repetition_penalty": 2.0, "presence_penalty": 0.5, "frequency_penalty": 0.25}
    logits = torch.tensor([1.0, 1.0, -1.0, 1.0])
    Sampler(Sampling(**options), [3]).adjust(logits, [1, 2, 1])
    assert logits.tolist() == [1.0, 1.5 - 0.5 - 0.5, -2.0 - 0.75, 0.5]
