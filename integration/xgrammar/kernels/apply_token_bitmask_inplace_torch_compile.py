"""The kernel for logits on any device."""

from __future__ import annotations

import torch

from ..bitmask import apply_on


def apply_token_bitmask_inplace_torch_compile(
    logits: torch.Tensor,
    bitmask: torch.Tensor,
    vocab_size: int | None = None,
    indices: list[int] | torch.Tensor | None = None,
) -> None:
    """Set the logits of forbidden tokens to minus infinity; see `apply_token_bitmask_inplace`."""
    apply_on(None, logits, bitmask, vocab_size, indices)
