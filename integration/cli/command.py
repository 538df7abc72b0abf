"""The common parts of all commands: their table entry, exit codes, errors, and the terminal."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TextIO

OK: Final = 0
REFUSED: Final = 1
BAD_INPUT: Final = 2
CUT: Final = 3
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141

EXIT_CODES: Final = f"""exit codes:
  {OK}    done
  {REFUSED}    check: an instance was refused; generate, bench: a wrong result
  {BAD_INPUT}    bad usage, a bad specification, a missing file or package
  {CUT}    generate: cut off by --max-tokens before the text was complete
  {INTERRUPTED}  interrupted"""

_COLOURS: Final = {"red": "31", "green": "32", "yellow": "33", "dim": "2", "bold": "1"}


class CommandError(Exception):
    """An error that the user can correct; shown as one line, exit code 2."""


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand: its name, a line of help, and the two functions that declare its arguments and run it."""

    name: str
    help: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def colour(text: str, name: str, stream: TextIO | None = None) -> str:
    """`text` in a colour where `stream` (standard error unless given) is a terminal and the environment does not say no."""
    stream = stream or sys.stderr
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty()
    return text if plain else f"\x1b[{_COLOURS[name]}m{text}\x1b[0m"


def note(text: str) -> None:
    """A line for the person at the terminal; standard output is for results alone."""
    print(text, file=sys.stderr, flush=True)


def integer(minimum: int) -> Callable[[str], int]:
    """An argument type: an integer of at least `minimum`."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no integer") from None
        if value < minimum:
            raise argparse.ArgumentTypeError(f"{value} is less than {minimum}")
        return value

    return parse


def seconds(value: float) -> str:
    """A duration for people.

    >>> seconds(0.00042), seconds(0.42), seconds(42)
    ('0.42 ms', '420 ms', '42.00 s')
    """
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.3g} ms"
