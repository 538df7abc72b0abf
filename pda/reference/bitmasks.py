"""Bitmasks as arrays: the checks of a caller's array, and its use on logits.

Bit i of word w in a row stands for token 32 w + i; 1 is allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt


class Tensor(Protocol):
    """A bitmask that is no numpy array: a CPU torch tensor, say."""

    def numpy(self) -> npt.NDArray[np.int32]:
        """The same memory as an array."""


def checked_rows(bitmask: Any, size: int, rows: Sequence[int]) -> npt.NDArray[np.int32]:
    """The bitmask as a two-dimensional array that has these rows; a wrong array is an error."""
    if not isinstance(bitmask, np.ndarray):
        device = getattr(getattr(bitmask, "device", None), "type", "cpu")
        if not hasattr(bitmask, "numpy"):
            raise TypeError(f"the bitmask is {type(bitmask).__name__}, not a numpy array or a CPU torch tensor")
        if device != "cpu":
            raise ValueError(f"the bitmask is on device {device}; it must be on the CPU")
        bitmask = bitmask.numpy()
    array: npt.NDArray[np.int32] = bitmask
    if array.dtype != np.int32:
        raise TypeError(f"the bitmask has dtype {array.dtype}, not int32")
    if array.ndim not in (1, 2):
        raise ValueError(f"the bitmask has {array.ndim} dimensions, not 1 or 2")
    width = (size + 31) // 32
    if array.shape[-1] != width:
        raise ValueError(f"a row of the bitmask has {array.shape[-1]} words; {size} tokens take {width}")
    if not array.flags.c_contiguous:
        raise ValueError("the bitmask is not C-contiguous")
    if not array.flags.writeable:
        raise ValueError("the bitmask is read-only")
    array = array.reshape(-1, width)
    for row in rows:
        if not 0 <= row < len(array):
            raise ValueError(f"row {row} is out of range: the bitmask has {len(array)} rows")
    return array


def best_tokens(logits: npt.NDArray[np.float32], bitmask: npt.NDArray[np.int32] | None, rows: Sequence[int] | None = None) -> list[int]:
    """The token with the largest logit in each row, float32, of those that the bitmask allows if there is one; -1 where it allows none."""
    if logits.dtype != np.float32:
        raise TypeError("the logits are not float32")
    if bitmask is not None and rows is None and len(logits) != len(bitmask):
        raise ValueError("the logits and the bitmask have different numbers of rows")
    best = []
    for row in range(len(logits)) if rows is None else rows:
        allowed = np.arange(logits.shape[1]) if bitmask is None else _allowed_columns(bitmask[row], logits.shape[1])
        values = np.nan_to_num(logits[row][allowed], nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        best.append(int(allowed[values.argmax()]) if len(allowed) else -1)
    return best


def mask_logits(logits: npt.NDArray[Any], bitmask: npt.NDArray[np.int32], forbidden: int, rows: Sequence[int] | None = None) -> None:
    """Replace the logits that a bitmask forbids by `forbidden`, given as the bits of a logit; rows of both by the same index."""
    if rows is None and len(logits) != len(bitmask):
        raise ValueError("the logits and the bitmask have different numbers of rows")
    bits = logits.view(np.dtype(f"u{logits.dtype.itemsize}"))
    for row in range(len(logits)) if rows is None else rows:
        is_forbidden = np.ones(logits.shape[1], dtype=np.bool_)
        is_forbidden[_allowed_columns(bitmask[row], logits.shape[1])] = False
        bits[row][is_forbidden] = forbidden


def _allowed_columns(row: npt.NDArray[np.int32], width: int) -> npt.NDArray[np.intp]:
    """The numbers of the bits of a bitmask row that are set, those below `width`."""
    columns = np.flatnonzero(np.unpackbits(np.ascontiguousarray(row, dtype="<i4").view(np.uint8), bitorder="little"))
    return columns[columns < width]
