"""Forced text as drafts: where a grammar leaves one continuation, vLLM verifies it in one step in the place of a step for each token.

vLLM asks the grammar of each request which drafts of its proposer fit. Behind those that do come the tokens of the text that must follow,
up to the number of drafts that vLLM is configured for. They are verified as any draft is, so the distribution is the model's own.

The scheduler's drafts reach the model only where it schedules synchronously and its first model runner works, which is so for the n-gram
proposer. Elsewhere drafts stay on the device, where the scheduler's word comes too late; `most_forced` is 0 there.
"""

from __future__ import annotations

from typing import Any


def most_forced(config: Any) -> int:
    """The most drafts that a step takes from a grammar under vLLM's configuration, 0 if they would not reach the model."""
    speculation = getattr(config, "speculative_config", None)
    if getattr(speculation, "method", None) != "ngram" or config.scheduler_config.async_scheduling or config.use_v2_model_runner:
        return 0
    most: int = config.num_speculative_tokens
    return most
