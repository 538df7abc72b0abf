"""An engine over another library, beside the engine over transformers with the same weights."""

from __future__ import annotations

from typing import Any

import torch

from stackmask.integration.engine import Constraint, Engine, Request, Sampling

STEPS = ([[20], [21], [22]], [[30, 31, 32], [33], [34, 35]], [[40], [41, 42], [43]])
"""Tokens of three rows in three passes; after the second, two of the three of row 0 are refused, and row 1 is another."""


def check_passes(ours: Any, theirs: Any, prompts: list[list[int]], tolerance: float) -> None:
    """Two caches with three rows, filled with the prompts, have the same logits, in passes over rows of different lengths."""
    for place, step in enumerate(STEPS):
        left, right = ours.forward(step), theirs.forward(step)
        assert left.shape == right.shape
        for row, tokens in enumerate(step):
            assert torch.allclose(left[row, : len(tokens)], right[row, : len(tokens)], atol=tolerance)
        for cache in (ours, theirs):
            if place == 1:
                cache.keep(0, len(prompts[0]) + 1, [0])
                cache.remove(1)  # row 2 takes its place
                cache.add()
                cache.prefill(2, [50, 51, 52])
    assert ours.forwards == len(prompts) + 1 + len(STEPS)


def same_greedy_answers(ours: Engine, theirs: Engine, schema: Any) -> int:
    """How many of eight greedy answers in a schema are the same."""
    asks = [f"Write a person as JSON with name, age, tags. {number}" for number in range(8)]
    options = {"constraint": Constraint("json_schema", schema), "sampling": Sampling(temperature=0)}
    found = [one.generate_batch([Request(prompt=one.encode(ask), **options) for ask in asks]) for one in (ours, theirs)]
    return sum(left.token_ids == right.token_ids for left, right in zip(*found, strict=True))
