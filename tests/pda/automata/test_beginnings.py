"""Automata that have no text in common, as their beginnings show."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmask.pda.automata import dfa, language
from stackmask.pda.regex import regex_dfa


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ("ab[0-9]+", "ac[0-9]+", True),
        ("x{20}a", "x{20}b", True),
        ("x{40}a", "x{40}b", False),  # too long to be looked at
        ("ab?", "ac?", False),  # both are "a"
        ("ab", "a", True),
        ("a", "ab?", False),
        ("[a-c]x", "[c-e]y", True),
        ("[a-c]x", "[c-e]x", False),
        ("[a-c]x", "[d-e]x", True),
        ("[d-e]x", "[a-c]x", True),
        ("[c-e]y", "[a-c]x", True),
        ("a*b", "a*c", False),
        ("[ac]x|[bd]y", "[ab]z", False),  # there are two ways on
        ("[acegi]x", "[bdfhj]x", False),  # too many ranges to be compared with each other
    ],
)
def test_texts_that_begin_differently(one: str, other: str, differ: bool) -> None:
    """What is next in both is looked at as long as there is one way on."""
    a, b = regex_dfa(one, search=False), regex_dfa(other, search=False)
    assert language.begin_differently(a, b) == differ
    assert not differ or dfa.intersection(a, b) == dfa.NOTHING


@given(st.tuples(*[st.from_regex(r"\A(?:[abc.]|[bc][?*]|\[[a-c]-[c-e]\]|\|)*\Z")] * 2))
def test_what_begins_differently_is_disjoint(patterns: tuple[str, str]) -> None:
    """No two of such patterns have a text in common."""
    a, b = (regex_dfa(pattern, search=False) for pattern in patterns)
    if language.begin_differently(a, b):
        assert dfa.intersection(a, b) == dfa.NOTHING
