"""What it costs to apply a bitmask to logits on a CPU.

The promise: `apply_token_bitmask_inplace` takes at most 1.3 times as long as `masked_fill_` with a boolean mask that is ready, and is not
counted, for every dtype, 1-D and 2-D logits and subsets of rows.
Both run in one thread.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.report import machine, markdown, number
from benchmarks.timing import command_line, typical, verdict

WIDTH = 128_256
MOST = 1.3


def main(arguments: list[str] | None = None) -> int:
    """Measure each shape and dtype, the two in turn, and print the table."""
    options = command_line("apply", __doc__, rounds=25, tokenizer=False).parse_args(arguments)
    import torch

    torch.set_num_threads(1)
    random = np.random.default_rng(0)
    lines, broken = [["us", "bitmask", "masked_fill_", "ratio"]], []
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for name, rows, stride, share in SHAPES:
            allowed = random.random((max(rows, 1), WIDTH)) < share
            ours, theirs = compare(torch.randn((rows, WIDTH) if rows else (WIDTH,)).to(dtype), allowed, stride, options.rounds)
            what = f"{name}, {str(dtype).removeprefix('torch.')}"
            lines.append([what, number(ours), number(theirs), f"{ours / theirs:.2f}"])
            broken += [f"{what}: {ours / theirs:.2f} times masked_fill_, promised {MOST}"] * (ours > MOST * theirs)
    print(f"{WIDTH:,} columns, one thread, torch {torch.__version__}; {machine()}\n\n{markdown(lines)}")
    return verdict(broken, check=options.check)


def compare(logits: Any, allowed: npt.NDArray[np.bool_], stride: int, rounds: int) -> tuple[float, float]:
    """Microseconds of applying a bitmask to every `stride`-th row, and of masked_fill_ on these rows with the same mask as booleans."""
    import torch

    from stackmask.integration.torch import apply_token_bitmask_inplace

    bitmask = torch.from_numpy(np.packbits(allowed, axis=1, bitorder="little").view(np.int32))
    forbidden = torch.from_numpy(~allowed)
    if logits.dim() == 1:
        bitmask, forbidden = bitmask[0], forbidden[0]
    indices = None if stride == 1 else [*range(0, len(allowed), stride)]
    ours = partial(apply_token_bitmask_inplace, logits, bitmask, indices=indices)
    theirs = partial(logits[::stride].masked_fill_, forbidden[::stride], float("-inf"))
    pairs = [(typical(ours, repeat=1, calls=10), typical(theirs, repeat=1, calls=10)) for _ in range(rounds)]
    first, second = np.median(pairs, axis=0)
    return float(first), float(second)


SHAPES: tuple[tuple[str, int, int, float], ...] = (
    ("1-D, half allowed", 0, 1, 0.5),
    ("1-D, few allowed", 0, 1, 0.001),
    ("1-D, most allowed", 0, 1, 0.96),
    ("16 rows, half allowed", 16, 1, 0.5),
    ("8 of 16 rows, half allowed", 16, 2, 0.5),
)
"""What is masked: rows (0 for 1-D logits), every how-many-th of them, and the share of tokens that are allowed."""


if __name__ == "__main__":
    sys.exit(main())
