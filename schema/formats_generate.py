"""Writes formats_tables.py: the automata of the formats in `stackmask.schema.formats.PATTERNS`, so that none is built at run time.

Run as `python -m stackmask.schema.formats_generate > formats_tables.py`.
A test compares the tables with the patterns.
"""

from __future__ import annotations

import base64
import sys
import textwrap
import zlib

from stackmask.pda.dfa import Dfa
from stackmask.pda.regex import regex_dfa
from stackmask.schema.formats import PATTERNS

HEAD = '''"""The automata of the formats, written by formats_generate.py: base85 of deflated varints, see formats.py."""

from __future__ import annotations

from typing import Final

TABLES: Final = {
'''


def encoded(automaton: Dfa) -> bytes:
    """An automaton as `stackmask.schema.formats` reads it."""
    numbers = [len(automaton.accepting)]
    for row, accepts in zip(automaton.transitions, automaton.accepting, strict=True):
        numbers.append(2 * len(row) + accepts)
        place = 0
        for low, high, target in row:
            numbers += [low - place, high - low, target]
            place = high
    data = bytearray()
    for number in numbers:
        while number > 127:
            data.append(number & 127 | 128)
            number >>= 7
        data.append(number)
    return base64.b85encode(zlib.compress(bytes(data), 9))


def table(name: str, pattern: str) -> str:
    """The entry of one format."""
    lines = textwrap.wrap(encoded(regex_dfa(pattern, search=False)).decode(), 120)
    return f'    "{name}": (\n' + "".join(f'        "{line}"\n' for line in lines) + "    ),\n"


if __name__ == "__main__":
    sys.stdout.write(HEAD + "".join(table(name, pattern) for name, pattern in PATTERNS.items()) + "}\n")
