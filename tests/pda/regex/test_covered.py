"""Counts in counts that a text leaves open, determinised: positions that others cover are left out, and no text is lost."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmask.pda.automata import language, nfa
from stackmask.pda.limits import Limits
from stackmask.pda.regex import regex_dfa

TEXTS = ["".join(text) for length in range(8) for text in product("ab", repeat=length)]


def counted(bodies: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Sequences, alternatives and counts of bodies."""
    counts = st.tuples(st.integers(0, 3), st.integers(0, 3)).map(lambda pair: f"{{{pair[0]},{max(sum(pair), 1)}}}")
    quantified = st.tuples(bodies, counts | st.sampled_from(["*", "+", "?", "{2,}"])).map(lambda parts: f"(?:{parts[0]}){parts[1]}")
    return quantified | st.lists(bodies, min_size=2, max_size=3).map("".join) | st.lists(bodies, min_size=2, max_size=3).map("|".join)


PATTERNS = st.recursive(st.sampled_from(["a", "b", "[ab]", "ab?", "(?:a|bb)", "a?"]), counted, max_leaves=6)


@given(pattern=PATTERNS)
def test_texts_are_those_of_re(pattern: str) -> None:
    """All texts of up to seven letters."""
    automaton = regex_dfa(pattern, search=False)
    assert [text for text in TEXTS if language.accepts(automaton, text)] == [text for text in TEXTS if re.fullmatch(pattern, text)]


@given(pattern=PATTERNS, search=st.booleans())
def test_the_automaton_is_that_of_all_positions(pattern: str, search: bool) -> None:
    """Automata are canonical, so texts of any length are compared here."""
    automaton = regex_dfa(pattern, search=search)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nfa.Covered, "left", lambda _, positions: positions)
        assert regex_dfa(pattern, search=search) == automaton


@pytest.mark.parametrize(
    ("pattern", "states", "work"),
    [
        ("(?:[a-z]{1,9} ?){1,30}", 30 * 10 + 1, 9_000),
        ("(?:[a-z]{1,7}_?){1,300}", 300 * 8 + 1, 75_000),
        (".{1,64}(?:,.{1,100})*", 103, 130_000),
        ("(?:[ab]{30,60}c?){1,20}", 1772, 110_000),
        ("(?:a?b?){1,200}", 200 * 2 + 1, 97_000),
        ("(?:(?:a{1,20}b?){1,20}c?){1,5}", 2106, 95_000),
        ("(?:(?:[ab]{1,9}b?){1,20}a?){1,9}", 1810, 160_000),
        ("(?:(?:[ab]{3,9}a?){2,9}b?){2,9}", 822, 90_000),
        ("(?:[ab]{1,30}|[bc]{2,30}){1,30}", 3511, 250_000),
        ("(?:" * 9 + "a" + "b?){1,2}" * 9, 1535, 125_000),
    ],
)
def test_states_are_as_many_as_counts(pattern: str, states: int, work: int) -> None:
    """Where a text can be cut anywhere, a state stands for the fewest parts that it can be cut into, so that little work is done."""
    automaton = regex_dfa(pattern, search=False, limits=Limits(compile_work=2 * work))  # a part of a compilation may take half of it
    assert len(automaton.accepting) == states
