"""The syntax tree of a regular expression, as a table.

A node refers to its parts by their index in `Ast.nodes`, and parts stand before the node that uses them.
So every analysis is a loop over the table and no depth of nesting can overflow a stack.
Groups leave no node, since captures have no bearing on the language.
The tree keeps what `re.match` prefers: the order of alternatives and which repetitions are lazy; only first_match.py asks for it.
Nodes are named tuples, which cost half of what a frozen dataclass does: parsing is on the way to the first mask of a JSON Schema.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple, NewType, TypeAlias

from ..automata.charset import CharSet

AstId = NewType("AstId", int)


class Chars(NamedTuple):
    """One character out of a set."""

    chars: CharSet


class Text(NamedTuple):
    """These characters."""

    text: str


class Seq(NamedTuple):
    """One part after the other; the empty text without parts."""

    parts: tuple[AstId, ...]


class Alt(NamedTuple):
    """Any one of the parts, earlier ones preferred."""

    parts: tuple[AstId, ...]


class Repeat(NamedTuple):
    """A part from `minimum` to `maximum` times, -1 for no bound: preferably as often as possible or, if lazy, as seldom."""

    body: AstId
    minimum: int
    maximum: int
    lazy: bool = False


class Atomic(NamedTuple):
    """A part that gives nothing back once matched; it stands at `position` of the pattern."""

    body: AstId
    position: int


class Place(IntEnum):
    """Where an anchor holds; what ends a line is up to the flavour of the pattern."""

    START = 0
    END = 1
    LINE_START = 2
    LINE_END = 3
    LAST_LINE_END = 4  # the end, or before a newline at the end


class Anchor(NamedTuple):
    """The empty text at one kind of place."""

    place: Place


START: Final = Anchor(Place.START)
END: Final = Anchor(Place.END)
LINE_START: Final = Anchor(Place.LINE_START)
LINE_END: Final = Anchor(Place.LINE_END)


class Boundary(NamedTuple):
    """The empty text where exactly one of the characters before and after is in `word`, or with `negated` where none or both are."""

    word: CharSet
    negated: bool


class Look(NamedTuple):
    """The empty text where `body` matches ahead, or behind; with `negated`, where it does not."""

    body: AstId
    ahead: bool
    negated: bool


AstNode: TypeAlias = Chars | Text | Seq | Alt | Repeat | Atomic | Anchor | Boundary | Look


@dataclass(frozen=True, slots=True)
class Ast:
    """A parsed pattern.

    `assertions` counts the nodes that match the empty text under a condition, `atoms` the atomic ones, and `branches` the alternatives
    outside of all groups. `places` has the position in the pattern of each assertion, `blank` that of the first class without characters.
    `position_counts` is what `to_nfa.count_positions` found.
    """

    pattern: str
    nodes: tuple[AstNode, ...]
    root: AstId
    assertions: int
    atoms: int
    branches: int
    places: tuple[tuple[AstId, int], ...] = ()
    blank: int = -1
    position_counts: list[int] = field(default_factory=list, compare=False, repr=False)
