"""Which expressions generate a text, for automata whose texts are counted."""

from __future__ import annotations

from itertools import product

import pytest

from stackmask.pda.automata.dfa import from_strings
from stackmask.pda.grammar import JSON, GrammarBuilder
from stackmask.pda.productive import productive
from stackmask.pda.regex import regex_dfa

LONGEST = 6


@pytest.mark.parametrize(("shortest", "longest"), [(s, n) for s in range(4) for n in (*range(s, 4), LONGEST)])
def test_automata_with_bounds(shortest: int, longest: int) -> None:
    """An automaton of all lengths between two, or of all from one on, generates a text if one of those is within the bounds."""
    lengths = range(shortest, longest + 1)
    automaton = from_strings(["a" * n for n in lengths]) if longest < LONGEST else regex_dfa(f"^a{{{shortest},}}$", search=True)
    for low, high in product(range(6), range(-1, 6)):
        if 0 <= high < low:
            continue
        builder = GrammarBuilder()
        node = builder.automaton(automaton.transitions, automaton.accepting, JSON, minimum=low, maximum=high)
        within = [n for n in lengths if low <= n and (high < 0 or n <= high)]
        assert productive(builder.nodes, builder.rules)[0][node] == bool(within), (low, high)
        assert productive(builder.nodes, builder.rules, empty=True)[0][node] == (0 in within), (low, high)
