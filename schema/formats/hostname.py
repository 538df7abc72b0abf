"""The format `hostname` (RFC 1123): labels of 1 to 63 letters, digits and inner hyphens, 253 characters in all.

A label that begins with `xn--` encodes one in other scripts; whether the encoded label is valid no automaton can tell, so such labels
are refused.

Two bounds at once, of the label and of the name, would make an automaton of 24,000 states.
So the automata here keep the bound of the label alone; who uses them bounds the name, by a counted automaton.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from ...pda.automata.dfa import Dfa
from ...pda.grammar import UTF8, GrammarBuilder, NodeId

LONGEST_LABEL: Final = 63
LONGEST_NAME: Final = 253

# Where a label stands: behind a letter or digit, behind a hyphen, and behind what begins like "xn--".
START, INSIDE, HYPHEN, X, XN, XN_HYPHEN = range(6)
_MOVES: Final = {
    START: {"digit": INSIDE, "n": INSIDE, "x": X, "other": INSIDE},
    INSIDE: {"-": HYPHEN, "digit": INSIDE, "n": INSIDE, "x": INSIDE, "other": INSIDE},
    HYPHEN: {"-": HYPHEN, "digit": INSIDE, "n": INSIDE, "x": INSIDE, "other": INSIDE},
    X: {"-": HYPHEN, "digit": INSIDE, "n": XN, "x": INSIDE, "other": INSIDE},
    XN: {"-": XN_HYPHEN, "digit": INSIDE, "n": INSIDE, "x": INSIDE, "other": INSIDE},
    XN_HYPHEN: {"digit": INSIDE, "n": INSIDE, "x": INSIDE, "other": INSIDE},
}
_RANGES: Final = {
    "-": ("--",),
    "digit": ("09",),
    "n": ("NN", "nn"),
    "x": ("XX", "xx"),
    "other": ("AM", "OW", "YZ", "am", "ow", "yz"),
}
_ROOM: Final = {INSIDE: 0, HYPHEN: 0, X: 4, XN: 3, XN_HYPHEN: 2}
_PLAIN: Final = {X: INSIDE, XN: INSIDE, XN_HYPHEN: HYPHEN}
_ENDS: Final = (INSIDE, X, XN)


@cache
def hostname_dfa() -> Dfa:
    """Names of any length, of labels that keep their bound."""
    return joined(_label(), (46, 46))


def joined(label: Dfa, dots: tuple[int, ...]) -> Dfa:
    """One label or more with a dot between two: some characters, in ranges, that no label has."""
    dot = [(lo, hi, 0) for lo, hi in zip(dots[::2], dots[1::2], strict=True)]
    rows = [tuple(sorted((*row, *dot))) if ends else row for row, ends in zip(label.transitions, label.accepting, strict=True)]
    return Dfa(tuple(rows), label.accepting)


def _label() -> Dfa:
    """Labels; a state is (place in the label, characters left in the label)."""
    start = (START, LONGEST_LABEL)
    index = {start: 0}
    states = [start]
    rows = []
    for place, left in states:
        row: list[tuple[int, int, tuple[int, int]]] = []
        for kind, target in _MOVES[place].items():
            # A hyphen needs a character behind it.
            if left and not (target in (HYPHEN, XN_HYPHEN) and left == 1):
                # A label that begins like "xn--" is like any other where there is no room for "--" and a character.
                place_then = _PLAIN[target] if left - 1 < _ROOM[target] else target
                row.extend((ord(ends[0]), ord(ends[1]), (place_then, left - 1)) for ends in _RANGES[kind])
        row.sort()
        numbered: list[tuple[int, int, int]] = []
        for lo, hi, state in row:
            number = index.get(state)
            if number is None:
                number = index[state] = len(states)
                states.append(state)
            if numbered and numbered[-1][1] + 1 == lo and numbered[-1][2] == number:
                numbered[-1] = (numbered[-1][0], hi, number)
            else:
                numbered.append((lo, hi, number))
        rows.append(tuple(numbered))
    return Dfa(tuple(rows), tuple(place in _ENDS for place, _ in states))


@cache
def plain_label(shortest: int, longest: int) -> Dfa:
    """Labels of a given number of characters as IDNA has them: never with hyphens in the third and fourth place.

    State 2 n - 1 stands behind n characters of which the last is a letter or digit, state 2 n behind a hyphen.
    """
    rows: list[tuple[tuple[int, int, int], ...]] = []
    accepting = []
    for state in range(2 * longest):
        read = (state + 1) // 2
        behind_hyphen = state > 0 and state % 2 == 0
        word = 2 * read + 1
        row = [] if read == longest else [(48, 57, word), (65, 90, word), (97, 122, word)]
        if 0 < read < longest - 1 and not (behind_hyphen and read == 3):
            row.insert(0, (45, 45, word + 1))
        rows.append(tuple(row))
        accepting.append(not behind_hyphen and shortest <= read)
    return Dfa(tuple(rows), tuple(accepting))


def plain_label_node(builder: GrammarBuilder, longest: int, encoding: int = UTF8) -> NodeId:
    """The labels of `plain_label` from one character on."""
    automaton = plain_label(1, longest)
    return builder.automaton(automaton.transitions, automaton.accepting, encoding)


def hostname_node(builder: GrammarBuilder, encoding: int = UTF8) -> NodeId:
    """Names that keep both bounds."""
    return _bounded(builder, hostname_dfa(), encoding)


def plain_name_node(builder: GrammarBuilder, dots: tuple[int, ...], encoding: int = UTF8) -> NodeId:
    """Names of the labels of `plain_label`."""
    return _bounded(builder, joined(plain_label(1, LONGEST_LABEL), dots), encoding)


def _bounded(builder: GrammarBuilder, names: Dfa, encoding: int) -> NodeId:
    return builder.automaton(names.transitions, names.accepting, encoding, maximum=LONGEST_NAME)
