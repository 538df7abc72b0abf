"""All small context-free grammars, left recursion and empty rules included, with all short texts, against a brute-force oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations, islice, product

import pytest
from support.engines import Engine, matcher
from support.oracles import Productions, cfg_grammar, cfg_prefixes

from stackmask.pda.exceptions import UnsatisfiableError

TOKENS = (b"a", b"b", b"aa", b"ab", b"ba", b"bb", b"aba", b"bab", None)
WORDS = [token.decode() for token in TOKENS if token]
STOP = len(TOKENS) - 1
LENGTH = 3  # of the texts whose masks are checked


def right_sides(symbols: str, length: int) -> list[tuple[str, ...]]:
    """All sequences of at most `length` symbols."""
    return [side for n in range(length + 1) for side in product(symbols, repeat=n)]


def choices(sides: list[tuple[str, ...]], most: int) -> list[Productions]:
    """All sets of 1 to `most` right sides."""
    return [chosen for n in range(1, most + 1) for chosen in combinations(sides, n)]


def one_nonterminal() -> Iterator[dict[str, Productions]]:
    """S alone, right sides of up to two symbols, up to three of them."""
    return ({"S": productions} for productions in choices(right_sides("abS", 2), 3))


def long_right_sides() -> Iterator[dict[str, Productions]]:
    """S alone, right sides of up to three symbols, up to two of them."""
    return ({"S": productions} for productions in choices(right_sides("abS", 3), 2))


def two_nonterminals() -> Iterator[dict[str, Productions]]:
    """S and T, right sides of up to two symbols, three in all."""
    sides = right_sides("abST", 2)
    for first, second in ((2, 1), (1, 2)):
        for s, t in product(choices(sides, first), choices(sides, second)):
            yield {"S": s, "T": t}


def three_nonterminals() -> Iterator[dict[str, Productions]]:
    """S, T and U over one letter, right sides of two symbols, and `a` or nothing besides."""
    sides = [*product("aSTU", repeat=2)]
    for s, t, u in product(sides, repeat=3):
        yield {"S": (s, ("T",)), "T": (t, ("U",)), "U": (u, ("a",), ())}


def check(engine: Engine, rules: dict[str, Productions]) -> None:
    """Compare every mask after every text of up to LENGTH letters with what the oracle says."""
    words, prefixes = cfg_prefixes(rules, LENGTH + 3)
    if not prefixes:
        with pytest.raises(UnsatisfiableError):
            matcher(engine, cfg_grammar(rules), TOKENS, (STOP,))
        return
    at = matcher(engine, cfg_grammar(rules), TOKENS, (STOP,))

    def descend(text: str) -> None:
        expected = [i for i, word in enumerate(WORDS) if text + word in prefixes] + ([STOP] if text in words else [])
        assert at.allowed_tokens() == expected, (rules, text)
        assert at.is_completed() == (text in words), (rules, text)
        if len(text) < LENGTH:
            for token in (0, 1):
                assert at.accept_token(token) == (token in expected), (rules, text, token)
                if token in expected:
                    descend(text + WORDS[token])
                    at.rollback(1)

    descend("")


@pytest.mark.parametrize(
    ("grammars", "step"), [(one_nonterminal, 1), (long_right_sides, 1), (two_nonterminals, 2), (three_nonterminals, 3)]
)
def test_small_grammars(engine: Engine, grammars: Callable[[], Iterator[dict[str, Productions]]], step: int) -> None:
    """The engines agree with the oracle on all of them, or on every n-th."""
    for rules in islice(grammars(), 0, None, step):
        check(engine, rules)
