"""The kernel for logits on a GPU."""

from __future__ import annotations

import torch

from ..bitmask import apply_on


def apply_token_bitmask_inplace_cuda(
    logits: torch.Tensor,
    bitmask: torch.Tensor,
    indices: list[int] | torch.Tensor | None = None,
) -> None:
    """Set the logits of forbidden tokens to minus infinity; see `apply_token_bitmask_inplace`."""
    apply_on("cuda", logits, bitmask, None, indices)
