"""`stackmask bench`: the quick benchmark as a table."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from ..demo import demo_vocabulary
from .benchmark import ENGINES, Timing, measure
from .command import OK, REFUSED, Command, CommandError, colour, integer, note

COLUMNS = ("compile", "first", "mean", "p50", "p99")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--rounds", type=integer(1), default=10, metavar="N", help="compile each schema N times (default: 10)")
    parser.add_argument("--engine", action="append", choices=ENGINES, help="only this engine (default: all that are installed)")
    parser.add_argument("--as-json", action="store_true", help="print JSON instead of a table")


def run(arguments: argparse.Namespace) -> int:
    """Measure the engines one after the other and print what they took."""
    vocabulary = demo_vocabulary()
    timings: list[Timing] = []
    for engine in arguments.engine or ENGINES:
        try:
            timings += measure(vocabulary, engine, rounds=arguments.rounds)
        except ImportError as error:
            if arguments.engine:
                raise CommandError(f"{engine} is not installed: {error}") from None
            note(colour(f"{engine}: not installed", "dim"))
    if arguments.as_json:
        print(json.dumps([asdict(timing) for timing in timings], indent=2))
    else:
        print(table(timings))
        note(f"microseconds; a step is mask + accept; {vocabulary.size} tokens, {arguments.rounds} rounds, one thread")
    return REFUSED if any(timing.error for timing in timings if timing.engine == "stackmask") else OK


def table(timings: list[Timing]) -> str:
    """The timings, a line for each case and engine."""
    lines = [f"{'case':16} {'engine':12}" + "".join(f"{column:>10}" for column in COLUMNS)]
    cases = list(dict.fromkeys(timing.case for timing in timings))
    for timing in sorted(timings, key=lambda timing: cases.index(timing.case)):
        values = f"  {timing.error[:60]}" if timing.error else "".join(f"{getattr(timing, column):10.1f}" for column in COLUMNS)
        line = f"{timing.case:16} {timing.engine:12}{values}"
        lines.append(colour(line, "bold", sys.stdout) if timing.engine == "stackmask" else line)
    return "\n".join(lines)


COMMAND = Command("bench", "measure compilation and masks on a few schemas, beside other engines where they are installed", configure, run)
