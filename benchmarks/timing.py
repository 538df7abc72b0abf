"""Timing on machines that do other things too: each sample is the lesser of wall-clock time and the CPU time of the process."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from benchmarks.engines import Tokenizer
from benchmarks.instances import DATA


def once(function: Callable[[], object]) -> float:
    """Microseconds of one call."""
    cpu, wall = time.process_time_ns(), time.perf_counter_ns()
    function()
    spent = time.perf_counter_ns() - wall
    return min(spent, time.process_time_ns() - cpu) / 1e3


def typical(function: Callable[[], object], *, repeat: int, calls: int = 1) -> float:
    """Microseconds of a call: the median of `repeat` samples, each of as many calls, with the garbage collector off."""

    def sample() -> None:
        for _ in range(calls):
            function()

    gc.disable()
    try:
        return median(once(sample) for _ in range(repeat)) / calls
    finally:
        gc.enable()


def llama3_vocabulary() -> tuple[Any, Tokenizer]:
    """The vocabulary that the figures of all benchmarks are about, and its tokenizer."""
    import stackmask

    tokenizer = Tokenizer(DATA / "tokenizers" / "llama3")
    return stackmask.Vocabulary.from_transformers(tokenizer.transformers), tokenizer


def verdict(broken: list[str], *, check: bool) -> int:
    """Print what breaks the promise; the exit code, which says so under `check` only."""
    print("\n".join(["", "broken promises:", *broken] if broken else ["", "the promise holds"]))
    return 1 if broken and check else 0
