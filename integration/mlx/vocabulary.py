"""The vocabulary of a model of mlx-lm."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from ..tokenizers import Vocabulary


def model_vocabulary(model: Any, tokenizer: Any) -> Vocabulary:
    """The vocabulary of a model and tokenizer of `mlx_lm.load`, as wide as the model's logits."""
    inner = getattr(tokenizer, "_tokenizer", tokenizer)
    stops = getattr(tokenizer, "eos_token_ids", None)
    return Vocabulary.from_transformers(inner, size=logits_width(model), stop_token_ids=sorted(stops) if stops else None)


def logits_width(model: Any) -> int:
    """The number of logits of a token: the shape of a pass that is never computed.

    Models keep it in different places of their arguments, those that also read images in no place of their own.
    """
    logits: mx.array = model(mx.array([[0]]))
    return logits.shape[-1]
