"""Bitmasks: int32, bit i of word w says whether token 32 w + i may come next."""

from __future__ import annotations

from typing import Final

import torch

from .. import torch as masks
from .exception import refuse

bitmask_dtype: Final = torch.int32
_DEVICES: Final = {"auto": "any", "torch_native": "any", "torch_compile": "any", "triton": "cuda"}
"""The devices of XGrammar's backends that have another name."""


def get_bitmask_shape(batch_size: int, vocab_size: int) -> tuple[int, int]:
    """The shape of a bitmask."""
    return batch_size, (vocab_size + 31) // 32


def allocate_token_bitmask(batch_size: int, vocab_size: int) -> torch.Tensor:
    """A bitmask on the CPU that allows everything."""
    return torch.full(get_bitmask_shape(batch_size, vocab_size), -1, dtype=bitmask_dtype)


def reset_token_bitmask(bitmask: torch.Tensor) -> None:
    """Allow everything."""
    bitmask.fill_(-1)


def apply_token_bitmask_inplace(
    logits: torch.Tensor,
    bitmask: torch.Tensor,
    *,
    vocab_size: int | None = None,
    indices: list[int] | None = None,
    backend: str = "auto",
) -> None:
    """Set the logits of forbidden tokens to minus infinity. How that is done depends on the device of the logits, not on `backend`.

    `logits` have one dimension or two; those of one dimension are a row, for a bitmask of one row.
    """
    if _DEVICES.get(backend, backend) not in ("any", logits.device.type):
        refuse(backend=backend)
    apply_on(None, logits, bitmask, vocab_size, indices)


def apply_on(
    device: str | None,
    logits: torch.Tensor,
    bitmask: torch.Tensor,
    vocab_size: int | None,
    indices: list[int] | torch.Tensor | None,
) -> None:
    """The same, for logits on the device of this name only; None for any."""
    if device not in (None, logits.device.type):
        raise ValueError(f"the logits are on {logits.device}, not on {device}")
    if logits.dim() == 1 and bitmask.dim() == 2 and len(bitmask) == 1:
        bitmask = bitmask[0]
    masks.apply_token_bitmask_inplace(logits, bitmask, vocab_size=vocab_size, indices=indices)
