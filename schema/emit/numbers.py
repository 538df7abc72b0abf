"""Sets of numbers as nodes: a node for each piece of a set, and a sign where the same magnitudes are negative.

`number_text` has the rules of spelling, and the automata over digits.
"""

from __future__ import annotations

from typing import Final

from ...pda.automata.dfa import from_strings
from ...pda.budget import Budget
from ...pda.grammar import AUTOMATON, GrammarBuilder, NodeId
from ..sets.numbers import (  # fmt: skip
    ABOVE,
    EVERY,
    INTEGERS,
    UNBOUNDED,
    WHOLE,
    ZERO,
    ZERO_CUTS,
    NumberSet,
    Piece,
    Term,
    count_members,
    finite,
    joined,
    list_members,
    magnitudes,
    next_member,
    reflected,
)
from . import number_text

_MOST_LITERALS: Final = 64
"""Most members of a set that are literals."""
WORDS: Final = 20_000
"""Most members of a set that are listed where their step is too large to count remainders."""


def number_node(builder: GrammarBuilder, numbers: NumberSet, *, budget: Budget | None = None) -> NodeId:
    """The node for exactly the JSON texts of these numbers; see `stackmask.schema.emit.number_text` for how a number is spelled."""
    if numbers.pieces == UNBOUNDED:
        return builder.automaton(*number_text.NUMBER, number_text.RAW)
    if numbers.pieces == INTEGERS.pieces:
        return builder.automaton(*number_text.INTEGER, number_text.RAW)
    budget = budget or Budget()
    if len(numbers.pieces) == 1 and numbers.pieces[0][0] >= ZERO_CUTS[0]:
        return builder.alt(*_piece_nodes(builder, numbers.pieces[0], budget))
    positive = magnitudes(numbers.pieces)
    negative = magnitudes(reflected(numbers.pieces))
    if negative and 0 in numbers:
        negative = joined([ZERO, *negative])
    written: dict[Piece, list[NodeId]] = {}
    if positive == (ZERO,) and numbers.pieces[-1][2] == EVERY:
        # The upper end of an interval of all numbers: 0.0 as well as 0.
        nodes = number_text.interval_nodes(builder, 0, True, 0, True, EVERY[0], number_text.STATES)
    else:
        written = {piece: _piece_nodes(builder, piece, budget) for piece in positive}
        nodes = [node for found in written.values() for node in found]
    if negative:
        # The node of a range on one side of 0 serves the other side too.
        below = [node for piece in negative for node in written.get(piece) or _piece_nodes(builder, piece, budget)]
        nodes.append(builder.seq(builder.literal(b"-"), builder.alt(*below)))
    return builder.alt(*nodes)


def _piece_nodes(builder: GrammarBuilder, piece: Piece, budget: Budget) -> list[NodeId]:
    """The nodes, one or more alternatives, for the magnitudes of one piece."""
    start, end, lattice = piece
    low, high = finite(start[0]), None if end == ABOVE else finite(end[0])
    if low == high:
        return [builder.literal(text) for text in number_text.spellings(low)]
    states = min(budget.limits.states, number_text.STATES)
    if lattice == WHOLE and low.__class__ is int:  # PERF: as below, where all that is asked has the same answer for integers
        (node,) = number_text.interval_nodes(builder, low, not start[1], high, bool(end[1]), lattice[0], states)
        budget.spend(1 + number_text.work_of_state(lattice[0]) * len(builder.nodes[node][2]))
        return [node]
    nodes: list[NodeId] = []
    listed = [_listed(piece, term) for term in lattice]
    for term, members in zip(lattice, listed, strict=True):
        if members is None:
            number_text.check_term(low, high, term, states)
    for term, members in zip(lattice, listed, strict=True):
        before, written = len(builder.nodes), len(nodes)
        if members is not None and members <= _MOST_LITERALS:
            nodes.extend(builder.literal(text) for value in list_members(start, end, term) for text in number_text.spellings(value))
        elif members is not None:
            words = from_strings([str(value) for value in list_members(start, end, term)])
            nodes.append(builder.automaton(words.transitions, words.accepting, number_text.RAW))
        else:
            # PERF: to tell what is below the first number of all from what is not takes a comparison; that it is not 0, only a digit.
            is_first = term[0] >= 1 and term[0].denominator == 1 and low > 0 and not start[1]
            is_first = is_first and (next_member(term, ZERO_CUTS[1]) if term[1] else term[0]) >= low
            nodes.extend(number_text.interval_nodes(builder, 1 if is_first else low, not start[1], high, bool(end[1]), term, states))
        # Cached automata count as if they were newly made, so that no verdict depends on earlier compilations.
        made = [
            builder.nodes[node] for node in {*nodes[written:], *range(before, len(builder.nodes))} if builder.nodes[node][0] == AUTOMATON
        ]
        budget.spend(len(nodes) - written + number_text.work_of_state(term) * sum(len(node[2]) for node in made))
    return nodes


def _listed(piece: Piece, term: Term) -> int | None:
    """How many members there are, where these are few, or have a step so large that it has more remainders; else None."""
    start, end, _ = piece
    if end == ABOVE or term[0] <= 1 or term[0].denominator != 1:
        return None
    most = WORDS if term[0] >= number_text.STATES else _MOST_LITERALS
    members = count_members(start, end, term, most + 1)
    return members if members <= most else None
