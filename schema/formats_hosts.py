"""The format `hostname` (RFC 1123): labels of 1 to 63 letters, digits and inner hyphens, 253 characters in all.

A label that begins with `xn--` encodes one in other scripts; whether the encoded label is valid no automaton can tell, so such labels
are refused.

Two bounds at once, of the label and of the name, make an automaton of 24,000 states.
`hostname_node` is the small form for the grammar: it counts in units of four characters, each label rounded up to 3, 7, 15, 31 or 63
characters, so it takes every name of up to 125 characters, and of the longer ones those that fit.
`hostname_dfa` is exact, for the algebra.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

from stackmask.pda.dfa import Dfa
from stackmask.pda.grammar import UTF8, GrammarBuilder, NodeId

LONGEST_LABEL: Final = 63
LONGEST_NAME: Final = 253
SIZES: Final = (3, 7, 15, 31, 63)
"""A label of up to this many characters, and its dot, counts as one more, a power of two."""
UNIT: Final = 4

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
    """The exact automaton; a state is (place in the label, characters left in the label, characters left in the name)."""
    return _explored((START, LONGEST_LABEL, LONGEST_NAME))


@cache
def _label(shortest: int, longest: int) -> Dfa:
    """Labels of so many characters."""
    whole = _explored((START, longest, longest))
    if shortest <= 1:
        return whole
    depth = [0] * len(whole.accepting)
    for state, row in enumerate(whole.transitions):  # a state is numbered after those that lead to it, and lies at one depth
        for _, _, target in row:
            depth[target] = depth[state] + 1
    return Dfa(whole.transitions, tuple(a and d >= shortest for a, d in zip(whole.accepting, depth, strict=True)))


def _explored(start: tuple[int, int, int]) -> Dfa:
    """The automaton of names, of one label where name and label have the same bound."""
    names = start[1] != start[2]
    index = {start: 0}
    states = [start]
    rows = []
    for place, label, name in states:
        row: list[tuple[int, int, tuple[int, int, int]]] = []
        for kind, target in _MOVES[place].items():
            # A hyphen needs a character behind it.
            if label and name and not (target in (HYPHEN, XN_HYPHEN) and (label == 1 or name == 1)):
                left = min(label - 1, name - 1)
                # What begins like "xn--" is like any other where there is no room for "--" and a character.
                place_then = _PLAIN[target] if left < _ROOM[target] else target
                row.extend((ord(ends[0]), ord(ends[1]), (place_then, left, name - 1)) for ends in _RANGES[kind])
        if names and place in _ENDS and name > 1:
            row.append((46, 46, (START, min(LONGEST_LABEL, name - 1), name - 1)))
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
    return Dfa(tuple(rows), tuple(place in _ENDS for place, _, _ in states))


@cache
def plain_label(shortest: int, longest: int) -> Dfa:
    """Labels of so many characters as IDNA has them: never with hyphens in the third and fourth place.

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


def hostname_node(
    builder: GrammarBuilder,
    encoding: int = UTF8,
    *,
    dots: tuple[int, ...] = (46, 46),
    labels_of: Callable[[int, int], Dfa] = _label,
) -> NodeId:
    """The small form; states 2 + 2 u and 3 + 2 u stand before and behind a label with u units used."""
    units = (LONGEST_NAME + 1) // UNIT
    dot = builder.chars(dots, encoding)
    labels = []
    shortest = 1
    for longest in SIZES:
        automaton = labels_of(shortest, longest)
        labels.append(((longest + 1) // UNIT, builder.automaton(automaton.transitions, automaton.accepting, encoding)))
        shortest = longest + 1
    edges = [0, 2, -1]
    for used in range(units):
        for cost, label in labels:
            if used + cost <= units:
                edges += [2 + 2 * used, 3 + 2 * (used + cost), label]
        if used:
            edges += [3 + 2 * used, 2 + 2 * used, dot]
        edges += [3 + 2 * (used + 1), 1, -1]
    return builder.graph(4 + 2 * units, tuple(edges))
