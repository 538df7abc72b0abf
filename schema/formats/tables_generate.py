"""Writes tables.py, the automata of the formats, and idn_tables.py, the classes of characters of IDNA.

Run as `python -m stackmask.schema.formats.tables_generate formats > tables.py` and
`python -m stackmask.schema.formats.tables_generate idn > idn_tables.py`; the second needs the package `idna`, whose tables are those of
the newest Unicode version, and takes those code points that the standard library knows too.
A test compares the tables of automata with the patterns.
"""

from __future__ import annotations

import sys
import textwrap
import unicodedata
from typing import Any

from ...pda.automata import dfa, nfa
from ...pda.automata.dfa import Dfa
from ...pda.automata.varints import pack
from ...pda.grammar import UTF8
from ...pda.regex import regex_dfa
from .regex_syntax import FLAT, Characters, disjunction
from .rfc import PATTERNS

HEAD = '''"""The automata of the formats, written by tables_generate.py: base85 of deflated varints, see rfc.py."""

from __future__ import annotations

from typing import Final

TABLES: Final = {
'''


IDN_HEAD = '''"""Classes of characters of IDNA 2008, written by tables_generate.py: their flags, and base85 of deflated varints.

See idn.py.

From the Unicode Character Database, (c) Unicode, Inc., Unicode License v3.
"""

from __future__ import annotations

from typing import Final

CLASSES: Final = {
'''
BIDI = {"AL": "R", "AN": "A", "EN": "E", "ES": "S", "CS": "S", "ET": "S", "NSM": "N", "ON": "O", "BN": "O"}


def entry(name: str, data: str) -> str:
    """One entry of a table."""
    lines = textwrap.wrap(data, 120)
    return f'    "{name}": (\n' + "".join(f'        "{line}"\n' for line in lines) + "    ),\n"


def encoded(automaton: Dfa) -> str:
    """An automaton as `stackmask.schema.formats` reads it."""
    numbers = [len(automaton.accepting)]
    for row, accepts in zip(automaton.transitions, automaton.accepting, strict=True):
        numbers.append(2 * len(row) + accepts)
        place = 0
        for low, high, target in row:
            numbers += [low - place, high - low, target]
            place = high
    return pack(numbers)


def idn_classes() -> dict[str, list[int]]:
    """The code points that IDNA 2008 allows, by their flags."""
    from idna import idnadata
    from idna.intranges import intranges_contain

    pairs = [unicodedata.decomposition(chr(point)).split() for point in range(0x110000)]
    seconds = {int(pair[1], 16) for pair in pairs if len(pair) == 2 and pair[0][0] != "<"}
    japanese = [idnadata.scripts[name] for name in ("Hiragana", "Katakana", "Han")]
    classes: dict[str, list[int]] = {}
    for point in range(0x110000):
        character = chr(point)
        allowed = [name for name, ranges in idnadata.codepoint_classes.items() if intranges_contain(point, ranges)]
        bidi = unicodedata.bidirectional(character)
        if not allowed or not bidi:
            continue
        flags = BIDI.get(bidi, bidi) + ("1" if point < 0x80 else "3" if point < 0x800 else "5")
        if character in "-l" or (allowed != ["PVALID"] and bidi not in ("AN", "EN")):
            flags += "@" + character.replace("״", "׳")
        combining = unicodedata.combining(character)
        joining = {name for name, ranges in idnadata.joining_types.items() if intranges_contain(point, ranges)}
        flags += "".join(
            flag
            for flag, holds in (
                ("m", unicodedata.category(character)[0] == "M"),
                ("v", combining == 9),
                ("c", combining not in (0, 9)),
                ("y", point in seconds),
                ("g", intranges_contain(point, idnadata.scripts["Greek"])),
                ("h", intranges_contain(point, idnadata.scripts["Hebrew"])),
                ("k", character != "・" and any(intranges_contain(point, ranges) for ranges in japanese)),
                ("j", joining & {"L", "D"}),
                ("i", joining & {"R", "D"}),
            )
            if holds
        )
        classes.setdefault(flags, []).append(point)
    return classes


def ranges_of(points: list[int]) -> list[int]:
    """The ends of the ranges of sorted code points."""
    ends: list[int] = []
    for point in points:
        if ends and ends[-1] == point - 1:
            ends[-1] = point
        else:
            ends += [point, point]
    return ends


class AutomatonBuilder:
    """A builder whose nodes are automata instead of grammar nodes; a graph is solved state by state."""

    def chars(self, ranges: tuple[int, ...], _encoding: int) -> Dfa:
        """One character."""
        return dfa.from_set(ranges)

    def literal(self, data: bytes) -> Dfa:
        """A text."""
        return dfa.from_string(data.decode())

    def never(self) -> Dfa:
        """No text."""
        return dfa.NOTHING

    def seq(self, *parts: Dfa) -> Dfa:
        """One after the other."""
        return nfa.concatenation(*parts)

    def alt(self, *parts: Dfa) -> Dfa:
        """Any of them; halves first, so that large ones meet seldom."""
        while len(parts) > 1:
            parts = tuple([dfa.union(*parts[place : place + 2]) for place in range(0, len(parts), 2)])
        return parts[0]

    def repeat(self, part: Dfa, minimum: int = 0, maximum: int = -1) -> Dfa:
        """Some number of times."""
        return nfa.repeat(part, minimum, maximum)

    def optional(self, part: Dfa) -> Dfa:
        """At most once."""
        return nfa.repeat(part, 0, 1)

    def graph(self, states: int, edges: tuple[Any, ...]) -> Dfa:
        """The texts from state 0 to state 1: a state is left out once its ways in, around and out have been put together."""
        ways: dict[tuple[int, int], Dfa] = {}

        def add(source: int, target: int, way: Dfa) -> None:
            known = ways.get((source, target))
            ways[source, target] = way if known is None else dfa.union(known, way)

        # State 0 may be come to again, so a new one stands before it.
        start = states
        add(start, 0, dfa.from_string(""))
        for source, target, node in zip(*[iter(edges)] * 3, strict=True):
            add(source, target, node if isinstance(node, Dfa) else dfa.from_string(""))
        for left in (*range(2, states), 0):
            around = nfa.repeat(ways.pop((left, left))) if (left, left) in ways else dfa.from_string("")
            before = [(source, ways.pop((source, target))) for source, target in list(ways) if target == left]
            behind = [(target, ways.pop((source, target))) for source, target in list(ways) if source == left]
            for source, way in before:
                for target, rest in behind:
                    add(source, target, nfa.concatenation(way, around, rest))
        return ways[start, 1]


def flat_regex_dfa() -> Dfa:
    """The automaton of the format `regex` without groups."""
    builder: Any = AutomatonBuilder()
    automaton: Any = disjunction(Characters(builder, UTF8), builder.never(), builder.never())
    assert isinstance(automaton, Dfa)
    return automaton


def automata_table() -> str:
    """The text of tables.py."""
    automata = {name: regex_dfa(pattern, search=False) for name, pattern in PATTERNS.items()} | {FLAT: flat_regex_dfa()}
    return HEAD + "".join(entry(name, encoded(automaton)) for name, automaton in automata.items()) + "}\n"


def idn_table() -> str:
    """The text of idn_tables.py."""
    text = IDN_HEAD
    for flags, points in idn_classes().items():
        ends = ranges_of(points)
        name = flags.encode("ascii", "backslashreplace").decode()
        text += entry(name, pack(end - before for before, end in zip([0, *ends], ends, strict=False)))
    return text + "}\n"


if __name__ == "__main__":
    sys.stdout.write(idn_table() if sys.argv[1:] == ["idn"] else automata_table())
