"""The command line: `stackmask generate`, `stackmask check` and more, one table of commands.

Commands import heavy modules (torch, transformers) only when they run.
Results go to standard output and everything else to standard error; an error is a message without a traceback.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, NoReturn

from ...pda.exceptions import StackmaskError
from ..answers.options import OTHER_NAMES
from . import batch, bench, check, export, generate, inspect, serve
from .command import BAD_INPUT, BROKEN_PIPE, EXIT_CODES, INTERRUPTED, Command, CommandError, colour, note

COMMANDS: Final[tuple[Command, ...]] = (
    generate.COMMAND,
    check.COMMAND,
    inspect.COMMAND,
    export.COMMAND,
    bench.COMMAND,
    serve.COMMAND,
    batch.COMMAND,
)

EXTRAS: Final = {"torch": "hf", "transformers": "hf", "fastapi": "server", "uvicorn": "server", "prometheus_client": "server"}
"""Which extra of the package brings a module that a command can ask for."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the result is the exit code of the process."""
    try:
        arguments, unknown = build_parser().parse_known_args(argv)
        if unknown:
            arguments.parser.error(_unknown(arguments.parser, unknown))
        code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains when it flushes at its end
        return BROKEN_PIPE
    except KeyboardInterrupt:
        note("")
        return INTERRUPTED
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        return _fail(f"this command needs {package}: pip install 'stackmask[{EXTRAS[package]}]'")
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
    except (CommandError, StackmaskError) as error:
        return _fail(str(error))


class Parser(argparse.ArgumentParser):
    """Names an unknown option instead of asking for one that is missing: `--regexp` is a specification, misspelt."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does, which parses the arguments of a command by the command's own parser."""
        self._given = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message, and exit."""
        options = itertools.takewhile(lambda argument: argument != "--", self._given)
        unknown = [option for option in options if option.startswith("--") and not self._get_option_tuples(option.partition("=")[0])]
        super().error(_unknown(self, unknown) if unknown and "required" in message else message)


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = Parser(
        prog="stackmask",
        description="Text from a language model that fits a JSON Schema, a regex or a grammar, by construction.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        subparser = commands.add_parser(
            command.name,
            help=command.help,
            description=command.help[0].upper() + command.help[1:] + ".",
            epilog=EXIT_CODES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.configure(subparser)
        subparser.set_defaults(run=command.run, parser=subparser)
    return parser


def _unknown(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> str:
    """The message on arguments that a command does not have; an option that is spelt alike, or is the same elsewhere, is named."""
    known = sorted(parser._option_string_actions)
    messages = []
    for argument in arguments:
        name = argument.partition("=")[0]
        if not name.startswith("--"):
            continue
        other = "--" + OTHER_NAMES.get(name[2:].replace("-", "_"), "").replace("_", "-")
        close = [other] if other in known else get_close_matches(name, known, 1)
        messages.append(f"unknown option {name}" + (f"; did you mean {close[0]}?" if close else ""))
    if messages:
        return "; ".join(messages)
    hint = "; a choice of several texts repeats its option: --choice yes --choice no" if "--choice" in known else ""
    return f"unrecognized arguments: {' '.join(arguments)}{hint}"


def _fail(message: str) -> int:
    note(f"{colour('stackmask: error:', 'red')} {message}")
    return BAD_INPUT


def _version() -> str:
    try:
        return f"stackmask {version('stackmask')}"
    except PackageNotFoundError:
        return "stackmask (not installed)"
