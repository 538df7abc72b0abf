"""Token bitmasks applied to MLX logits, where the logits are.

A mask of 128,000 tokens is 16 kB: it goes to the device, and is spread out there. The logits stay on it, and nothing waits for them.
"""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import numpy.typing as npt


@mx.compile
def _mask(logits: mx.array, words: mx.array) -> mx.array:
    """The logits of the last axis, minus infinity where a bit of `words` is 0 or missing."""
    bits = (words[..., None] >> mx.arange(32, dtype=mx.uint32)) & 1
    allowed = bits.reshape(*words.shape[:-1], -1)
    width = logits.shape[-1]
    if allowed.shape[-1] < width:
        allowed = mx.pad(allowed, [*[(0, 0)] * (allowed.ndim - 1), (0, width - allowed.shape[-1])])
    return mx.where(allowed[..., :width].astype(mx.bool_), logits, mx.array(-mx.inf, logits.dtype))


def apply_token_bitmask(logits: mx.array, bitmask: npt.NDArray[np.int32]) -> mx.array:
    """The logits with those of forbidden tokens at minus infinity, as a new array; nothing is computed before it is asked for.

    Bit i of word w of a bitmask row says whether token 32 w + i may come next; columns without a bit are forbidden.
    `logits` is (rows, width) or (width,), `bitmask` int32 (rows, words) or (words,).

    >>> apply_token_bitmask(mx.zeros(3), np.array([0b101], np.int32)).tolist()
    [0.0, -inf, 0.0]
    """
    if bitmask.dtype != np.int32:
        raise TypeError(f"a bitmask must be int32, not {bitmask.dtype}")
    if bitmask.ndim != logits.ndim or bitmask.shape[:-1] != logits.shape[:-1]:
        raise ValueError(f"a bitmask of the shape {bitmask.shape} does not fit logits of the shape {tuple(logits.shape)}")
    masked: mx.array = _mask(logits, mx.array(bitmask.view(np.uint32)))
    return masked
