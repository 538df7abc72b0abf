"""The kernel for logits of MLX, which are immutable: it returns masked ones."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from ...mlx.bitmask import apply_token_bitmask


def apply_token_bitmask_mlx(bitmask: mx.array, logits: mx.array, vocab_size: int) -> mx.array:
    """The first `vocab_size` columns of the logits with those of forbidden tokens at minus infinity; `bitmask` is int32 (rows, words)."""
    return apply_token_bitmask(logits[..., :vocab_size], np.array(bitmask))
