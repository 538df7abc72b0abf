"""Timing on machines that do other things too: each sample is the lesser of wall-clock time and the CPU time of the process."""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.engines import Tokenizer
from benchmarks.instances import DATA

LLAMA3 = DATA / "tokenizers" / "llama3"


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


def load_vocabulary(folder: Path) -> tuple[Any, Tokenizer]:
    """The vocabulary of the tokenizer in a folder, and that tokenizer."""
    import stackmask

    tokenizer = Tokenizer(folder)
    return stackmask.Vocabulary.from_transformers(tokenizer.backend, stop_token_ids=tokenizer.stop), tokenizer


def command_line(name: str, description: str | None, *, rounds: int | None = None, tokenizer: bool = True) -> argparse.ArgumentParser:
    """The arguments that benchmarks share."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=(description or "").splitlines()[0])
    add = parser.add_argument
    if tokenizer:
        add("--tokenizer", type=folder, default=str(LLAMA3), metavar="DIR", help="whose vocabulary to use (default: that of Llama 3)")
    if rounds:
        add("--rounds", type=int, default=rounds, metavar="N", help=f"how often each is measured (default: {rounds})")
    add("--check", action="store_true", help="exit with 1 where the promise is broken")
    return parser


def folder(name: str) -> Path:
    """The folder of a tokenizer."""
    if not (Path(name) / "tokenizer.json").is_file():
        raise argparse.ArgumentTypeError(f"no tokenizer in {name} ($STACKMASK_DATA names the folder of the large data files)")
    return Path(name)


def verdict(broken: list[str], *, check: bool) -> int:
    """Print what breaks the promise; the exit code, which says so under `check` only."""
    print("\n".join(["", "broken promises:", *broken] if broken else ["", "the promise holds"]))
    return 1 if broken and check else 0
