"""`stackmask bench`: the quick benchmark as a table, over the vocabulary of a model."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from dataclasses import asdict
from typing import Any

from ...pda.engine import Matcher
from ..demo import demo_vocabulary, find_model, load_tokenizer
from ..tokenizers import Vocabulary, model_vocabulary
from .benchmark import ENGINES, Timing, measure
from .command import OK, REFUSED, Command, CommandError, colour, integer, note
from .tokenizer import read_tokenizer

COLUMNS = ("compile", "first", "mean", "p50", "p99")
MEASURED = (
    "microseconds, one thread: each schema compiled anew {rounds} times (median), and a document of it taken token by token; "
    "first is the first mask with its token (median), the others are of all further steps, each a mask and the token accepted"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    vocabulary = parser.add_mutually_exclusive_group()
    vocabulary.add_argument("--tokenizer", metavar="PATH", help="the vocabulary of a tokenizer.json, or of a directory that contains one")
    vocabulary.add_argument(
        "--model", metavar="DIR", help="the vocabulary of a Hugging Face model (default: the demo model's, which is small)"
    )
    parser.add_argument("--rounds", type=integer(1), default=10, metavar="N", help="compile each schema N times (default: 10)")
    parser.add_argument("--engine", action="append", choices=ENGINES, help="only this engine (default: all that are installed)")
    parser.add_argument("--as-json", action="store_true", help="print JSON instead of a table")


def run(arguments: argparse.Namespace) -> int:
    """Measure the engines one after the other and print their times."""
    name, vocabulary = read_vocabulary(arguments)
    note(f"vocabulary of {name}: {vocabulary.size:,} tokens; Python {platform.python_version()} on {platform.machine()}; {_kernel()}")
    timings: list[Timing] = []
    for engine in arguments.engine or ENGINES:
        try:
            timings += measure(vocabulary, engine, rounds=arguments.rounds)
        except ImportError as error:
            if arguments.engine:
                raise CommandError(f"{engine} is not installed: {error}") from None
            note(colour(f"{engine}: not installed", "dim"))
    if arguments.as_json:
        print(json.dumps([{"vocabulary": name, "tokens": vocabulary.size, **asdict(timing)} for timing in timings], indent=2))
    else:
        print(table(timings))
        note(MEASURED.format(rounds=arguments.rounds))
    return REFUSED if any(timing.error for timing in timings if timing.engine == "stackmask") else OK


def read_vocabulary(arguments: argparse.Namespace) -> tuple[str, Vocabulary]:
    """The vocabulary to measure with, and its name."""
    if arguments.tokenizer is not None:
        name, vocabulary, _ = read_tokenizer(arguments.tokenizer)
    elif arguments.model is not None:
        name, vocabulary = arguments.model, _model_vocabulary(arguments.model)
    else:
        return "the demo model (--tokenizer and --model measure a large vocabulary)", demo_vocabulary()
    if not vocabulary.stop_token_ids:
        raise CommandError(f"{name}: no token is known to end a text, but engines need one")
    return name, vocabulary


def _model_vocabulary(directory: str) -> Vocabulary:
    try:
        from transformers import AutoConfig
    except ImportError:
        raise CommandError("--model needs transformers: pip install 'stackmask[hf]'") from None
    try:
        config: Any = AutoConfig.from_pretrained(find_model(directory))
        return model_vocabulary(load_tokenizer(directory), config.get_text_config().vocab_size)
    except (OSError, ValueError) as error:
        raise CommandError(f"{directory}: {str(error).splitlines()[0][:200]}") from None


def _kernel() -> str:
    return "the kernel in plain Python" if "reference" in Matcher.__module__ else "the compiled kernel"


def table(timings: list[Timing]) -> str:
    """The timings, a line for each case and engine."""
    lines = [f"{'case':16} {'engine':12}" + "".join(f"{column:>10}" for column in COLUMNS)]
    cases = list(dict.fromkeys(timing.case for timing in timings))
    for timing in sorted(timings, key=lambda timing: cases.index(timing.case)):
        values = f"  {timing.error[:60]}" if timing.error else "".join(f"{getattr(timing, column):10.1f}" for column in COLUMNS)
        line = f"{timing.case:16} {timing.engine:12}{values}"
        lines.append(colour(line, "bold", sys.stdout) if timing.engine == "stackmask" else line)
    return "\n".join(lines)


COMMAND = Command("bench", "measure compilation and masks on a few schemas, and compare with other installed engines", configure, run)
