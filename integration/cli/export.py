"""`stackmask export`: a specification in the notation of another program."""

from __future__ import annotations

import argparse

from ...pda.exceptions import GrammarError
from ...pda.vocabulary import Vocabulary
from ..compiler import Compiler
from .command import OK, REFUSED, Command, CommandError, colour, note
from .specification import add_specification, read_specification


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_specification(parser)
    parser.add_argument("--gbnf", action="store_true", required=True, help="the notation of llama.cpp, LM Studio and KoboldCpp")
    parser.add_argument("--exact", action="store_true", help="fail if the notation cannot express all of it")


def run(arguments: argparse.Namespace) -> int:
    """Compile, print, and report the lost parts."""
    specification = read_specification(arguments)
    vocabulary = Vocabulary.from_bytes([*(bytes([byte]) for byte in range(256)), None], stop_token_ids=[256])
    try:
        gbnf = specification.compile(Compiler(vocabulary)).to_gbnf()
    except GrammarError as error:
        raise CommandError(f"{specification.label}: {error}") from None
    for loss in gbnf.lost:
        note(f"{colour('lost:', 'yellow')} {loss}")
    if gbnf.lost and arguments.exact:
        return REFUSED
    print(gbnf.text)
    return OK


COMMAND = Command("export", "write a specification in llama.cpp's notation", configure, run)
