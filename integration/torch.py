"""Token bitmasks applied to PyTorch logits.

On a CPU the engine masks in one pass over the words of the mask, if the columns of the logits are contiguous in memory.
Other logits (strided columns, logits that autograd follows, other devices) go through `masked_fill_`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from ..pda import engine

Bitmask = torch.Tensor | npt.NDArray[np.int32]

INTEGERS: Final = {torch.float32: torch.int32, torch.bfloat16: torch.int16, torch.float16: torch.int16, torch.float64: torch.int64}
"""The dtypes of logits, and the integers of their size."""
INFINITIES: Final = {torch.float32: 0xFF800000, torch.bfloat16: 0xFF80, torch.float16: 0xFC00, torch.float64: 0xFFF0000000000000}
"""The bits of minus infinity."""


def apply_token_bitmask_inplace(
    logits: torch.Tensor, bitmask: Bitmask, *, vocab_size: int | None = None, indices: Sequence[int] | torch.Tensor | None = None
) -> None:
    """Set the logits of forbidden tokens to minus infinity, in place.

    Bit i of word w of a bitmask row says whether token 32 w + i may come next.
    `logits` is (rows, width) or (width,), `bitmask` int32 (rows, words) or (words,), on the device of the logits or a NumPy array.
    Columns without a bit in the mask are forbidden, and so are those from `vocab_size` on, if it is given.
    With `indices`, only these rows of the logits are masked, each by the row of the bitmask with the same number.

    >>> logits = torch.zeros(3)
    >>> apply_token_bitmask_inplace(logits, np.array([0b101], np.int32))
    >>> logits
    tensor([0., -inf, 0.])
    """
    _check_logits(logits)
    mask = _checked_mask(bitmask, logits)
    rows = logits.unsqueeze(0) if logits.dim() == 1 else logits
    width = rows.shape[1] if vocab_size is None else min(vocab_size, rows.shape[1])
    if width < 0:
        raise ValueError(f"vocab_size is {vocab_size}, which is negative")
    selected = None if indices is None else _checked_indices(indices, min(rows.shape[0], mask.shape[0]))
    if selected is None and rows.shape[0] != mask.shape[0]:
        raise ValueError(f"the logits have {rows.shape[0]} rows, the bitmask has {mask.shape[0]}; `indices` selects rows")
    if _is_plain(rows, mask) and (vocab_size is None or vocab_size >= rows.shape[1]):
        engine.mask_logits(rows.view(INTEGERS[rows.dtype]).numpy(), mask.numpy(), INFINITIES[rows.dtype], selected)
    elif selected is None:
        _forbid(rows, mask, width)
    else:
        for index in selected:
            _forbid(rows[index : index + 1], mask[index : index + 1], width)


def best_tokens(logits: torch.Tensor, bitmask: Bitmask | None, *, indices: Sequence[int]) -> list[int]:
    """The allowed token with the largest logit in each of the rows `indices`; -1 if the bitmask's row allows none.

    The logits stay as they are.

    >>> best_tokens(torch.tensor([[1.0, 3.0, 2.0]]), np.array([[0b101]], np.int32), indices=[0])
    [2]
    """
    _check_logits(logits)
    if logits.dtype == torch.float32 and _is_plain(logits, logits) and not isinstance(bitmask, torch.Tensor):
        # PERF: a third of the time of torch's argmax on one thread, and less where few tokens are allowed
        return engine.best_tokens(logits.numpy(), bitmask, indices)
    rows = logits[list(indices)]
    if bitmask is None:
        best: list[int] = rows.argmax(-1).tolist()
        return best
    chosen = _checked_mask(bitmask, logits)[list(indices)]
    apply_token_bitmask_inplace(rows, chosen)
    return torch.where(chosen.any(-1), rows.argmax(-1), -1).tolist()


def _forbid(rows: torch.Tensor, mask: torch.Tensor, width: int) -> None:
    """Mask `rows` by the first `width` bits of as many mask rows; the columns after them, and those without a bit, are forbidden."""
    width = min(width, 32 * mask.shape[1])
    rows[:, :width].masked_fill_(_forbidden(mask, width), float("-inf"))
    if width < rows.shape[1]:
        rows[:, width:].fill_(float("-inf"))


def _forbidden(mask: torch.Tensor, width: int) -> torch.Tensor:
    """The first `width` bits of each mask row as booleans, inverted."""
    if mask.device.type != "cpu":
        return _forbidden_on_device(mask, width)
    bits = np.unpackbits(~np.ascontiguousarray(mask.numpy(), dtype="<i4").view(np.uint8), axis=1, count=width, bitorder="little")
    return torch.from_numpy(bits.view(np.bool_))


def _forbidden_on_device(mask: torch.Tensor, width: int) -> torch.Tensor:
    """The same by torch operations, where the mask is."""
    shifts = torch.arange(32, dtype=torch.int32, device=mask.device)
    return (mask.unsqueeze(-1) >> shifts).bitwise_and_(1).eq(0).flatten(1)[:, :width]


def _is_plain(rows: torch.Tensor, mask: torch.Tensor) -> bool:
    """Whether the engine can read and write the memory of these as it is."""
    return rows.device.type == "cpu" and rows.stride(1) == 1 == mask.stride(1) and not rows.requires_grad


def _check_logits(logits: torch.Tensor) -> None:
    if not isinstance(logits, torch.Tensor):
        raise TypeError(f"logits must be a torch.Tensor, not {type(logits).__name__}")
    if logits.dtype not in INTEGERS:
        raise TypeError(f"logits must be float32, bfloat16, float16 or float64, not {logits.dtype}")
    if logits.dim() not in (1, 2):
        raise ValueError(f"logits must have one or two dimensions, not the shape {tuple(logits.shape)}")
    if any(stride == 0 and length > 1 for stride, length in zip(logits.stride(), logits.shape, strict=True)):
        raise ValueError(f"several of the logits share memory (strides {logits.stride()}): clone an expanded tensor first")


def _checked_mask(bitmask: Bitmask, logits: torch.Tensor) -> torch.Tensor:
    """The bitmask as a tensor of two dimensions on the device of the logits."""
    if not isinstance(bitmask, torch.Tensor | np.ndarray):
        raise TypeError(f"a bitmask must be a torch.Tensor or a NumPy array, not {type(bitmask).__name__}")
    if bitmask.dtype not in (torch.int32, np.int32):
        raise TypeError(f"a bitmask must be int32, not {bitmask.dtype}")
    if bitmask.ndim not in (1, 2) or bitmask.ndim > logits.dim():
        raise ValueError(f"a bitmask of the shape {tuple(bitmask.shape)} does not fit logits of the shape {tuple(logits.shape)}")
    if isinstance(bitmask, np.ndarray):
        mask = torch.from_numpy(np.require(bitmask, np.int32, ["C", "W"])).to(logits.device)
    elif bitmask.device != logits.device:
        raise ValueError(f"the bitmask is on {bitmask.device}, the logits are on {logits.device}")
    else:
        mask = bitmask
    return mask.unsqueeze(0) if mask.dim() == 1 else mask


def _checked_indices(indices: Sequence[int] | torch.Tensor, rows: int) -> list[int]:
    """Row numbers as a list, each within the logits and the bitmask."""
    if isinstance(indices, torch.Tensor | np.ndarray):
        if indices.dtype in (torch.bool, np.bool_) or indices.ndim != 1:
            raise TypeError("indices must be a sequence of row numbers")
        indices = indices.tolist()
    for index in indices:
        if isinstance(index, bool) or not isinstance(index, int):
            raise TypeError(f"a row number must be an int, not {type(index).__name__}")
        if not 0 <= index < rows:
            raise IndexError(f"row {index} is outside the {rows} rows of logits and bitmask")
    return list(indices)
