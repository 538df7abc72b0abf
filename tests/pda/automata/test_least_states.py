"""The least number of states of an intersection is never more than the intersection has."""

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmask.pda.automata.dfa import ANYTHING, complement, intersection
from stackmask.pda.automata.language import least_states
from stackmask.pda.regex import regex_dfa


def searched(*patterns):
    """Automata of the texts in which each pattern matches somewhere; `!` negates."""
    return [
        complement(regex_dfa(pattern[1:], search=True)) if pattern.startswith("!") else regex_dfa(pattern, search=True)
        for pattern in patterns
    ]


def states(automata):
    """The states of the intersection."""
    return len(reduce(intersection, automata).accepting)


ALONE = ["a", "b", "c", "ab", "ba", "cd", "dc", "abc", "a[bd]", "aa", "d+e", "c|dd", "[ae]c", "e.c", "(?:ab){2}", "x?", "a*"]
BODIES = ["a.*b", "c.*d", "e.*[bd]", "d.*e.*a", "a.b", *ALONE]
PATTERNS = st.builds(
    lambda sign, head, body, tail: sign + head + body + tail,
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "", "", "", "^"]),
    st.sampled_from(BODIES),
    st.sampled_from(["", "", "", "", "$"]),
)


@given(st.lists(PATTERNS, min_size=1, max_size=4), st.integers(1, 100))
def test_at_most_the_states_that_there_are(patterns, enough):
    """Whatever is searched, and however it overlaps."""
    automata = searched(*patterns)
    assert 1 <= least_states(automata, enough) <= states(automata)


@pytest.mark.parametrize(
    ("patterns", "least"),
    [
        (["ab", "cd", "ef"], 20),  # all that there are
        (["a", "b", "c"], 8),
        (["abc", "de"], 2**2 + 2 * 3),
        (["ab", "cd", "!ef"], 4),  # only sets of texts that have come are counted beside another that accepts the empty text
        (["ab", "cd", "^x"], 1),  # the text of one leads another away from its start
        (["ab", "cd", ".{3}"], 1),
        (["ab", "ab"], 1),
        (["ab", "cd$"], 1),
        (["ab", "x*"], 2),
        (["ab", "ac"], 4),  # neither is on its way alone
        (["a.*b", "cd"], 4),  # no character leads the first one back
        (["a|bc$", "de"], 4),  # accepts elsewhere than at its end
        (["!a.*b", "!c.*d", "!e.*f"], 8),
        (["!a.*b", "!c.*d", "!cb"], 4),  # the last remembers nothing
        (["!a.*b", "!a.*d"], 1),  # the text of one is that of the other
        (["!a.*b", "!c.*bx"], 2),  # what tells whether the second remembers is never accepted behind the text of the first
        (["!(a.){2}", "!c.*d"], 2),  # the first is not where its text left it when it reads that again
        (["ab", "\ue000c"], 4),  # the first character tried leads the second away from its start
    ],
)
def test_what_is_told(patterns, least):
    """Texts that may stand anywhere count twofold each, and with each set the states on the way to another."""
    automata = searched(*patterns)
    assert least_states(automata, 1_000) == least <= states(automata)


def test_only_as_much_as_asked():
    """The states on the way are left out where sets of texts are enough."""
    automata = searched("ab", "cd", "ef")
    assert [least_states(automata, enough) for enough in (1, 8, 9)] == [8, 8, 20]


def test_the_same_automaton_twice():
    """Texts count once each."""
    automata = searched("ab", "cd")
    assert least_states([*automata, *automata], 1_000) == 1
    assert least_states([ANYTHING, *automata], 1_000) == 4
