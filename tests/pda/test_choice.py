"""Choice front end: the corpus, minimality, and the cost of long lists."""

from __future__ import annotations

import random
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmask.pda.automata.dfa import from_strings
from stackmask.pda.choice import choice_grammar
from stackmask.pda.engine import KernelGrammar, Matcher, TokenTrie
from stackmask.pda.exceptions import GrammarError, LimitError
from stackmask.pda.grammar import AUTOMATON, RAW, Grammar
from stackmask.pda.limits import Limits

CASES = tomllib.loads((Path(__file__).parents[1] / "corpus" / "choice.toml").read_text(encoding="utf-8"))["case"]
TRIE = TokenTrie([bytes([byte]) for byte in range(256)], 257)


def generates(grammar: Grammar, text: str) -> bool:
    matcher = Matcher(KernelGrammar(TRIE, grammar, states=100_000, stack_depth=1_000, memory=1 << 26, seconds=10.0), [256])
    return all(matcher.accept_token(byte) for byte in text.encode()) and bool(matcher.is_completed())


def read(automaton: tuple[Any, ...], text: str) -> bool:
    """Whether an AUTOMATON node over bytes accepts a text, by definition."""
    _, transitions, accepting, encoding = automaton
    assert encoding == RAW
    state = 0
    for byte in text.encode():
        following = [target for lo, hi, target in transitions[state] if lo <= byte <= hi]
        if not following:
            return False
        (state,) = following
    return bool(accepting[state])


@pytest.mark.parametrize("case", [case for case in CASES if "error" not in case], ids=lambda case: case["name"])
def test_corpus(case: dict[str, Any]) -> None:
    """Each option is generated, and nothing else."""
    grammar = choice_grammar(case["options"])
    assert [text for text in case["accepts"] if not generates(grammar, text)] == []
    assert [text for text in case["rejects"] if generates(grammar, text)] == []


@pytest.mark.parametrize("case", [case for case in CASES if "error" in case], ids=lambda case: case["name"])
def test_errors(case: dict[str, Any]) -> None:
    """A list that is no list of texts is refused."""
    with pytest.raises(GrammarError) as caught:
        choice_grammar(case["options"])
    assert case["error"] in str(caught.value)


def test_lone_surrogate() -> None:
    """A text without UTF-8 is refused by its place."""
    with pytest.raises(GrammarError, match=r"option 1 of the choice contains U\+D800, a lone surrogate"):
        choice_grammar(["a", "b\ud800"])


@given(st.lists(st.text("abé", max_size=5), min_size=2, max_size=40), st.lists(st.text("abé", max_size=5)))
def test_language(options: list[str], others: list[str]) -> None:
    """The automaton accepts a text exactly when it is among the options."""
    (node,) = choice_grammar([*options, "x"]).nodes
    assert node[0] == AUTOMATON
    for text in [*options, *others, "x", ""]:
        assert read(node, text) == (text in [*options, "x"])


@given(st.lists(st.text("abc", max_size=6), min_size=2, max_size=60))
def test_minimal(options: list[str]) -> None:
    """The automaton has as many states as the canonical one of the same language."""
    (node,) = choice_grammar([*options, "d"]).nodes
    assert len(node[1]) == len(from_strings([*options, "d"]).accepting)  # type: ignore[arg-type]


def test_long_list_is_small() -> None:
    """A hundred thousand numbered options make an automaton of some states a digit, not a trie."""
    (node,) = choice_grammar([f"option-{number}" for number in range(100_000)]).nodes
    assert len(node[1]) == 13  # type: ignore[arg-type]


def test_state_limit() -> None:
    """A list whose automaton is too large raises LimitError, as does one that takes too long."""
    rng = random.Random(1)
    options = ["".join(rng.choices("abcdefgh", k=12)) for _ in range(5_000)]
    with pytest.raises(LimitError) as caught:
        choice_grammar(options, limits=Limits(states=1_000))
    assert (caught.value.limit, caught.value.value) == ("states", 1_000)
    with pytest.raises(LimitError) as caught:
        choice_grammar(options, limits=Limits(compile_seconds=-1.0))
    assert caught.value.limit == "compile_seconds"
