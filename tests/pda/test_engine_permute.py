"""PERMUTE and REPEAT, exhaustively: all small cases against a list of all their texts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
from support.engines import Engine, matcher, one_rule

from stackmask.pda.exceptions import UnsatisfiableError
from stackmask.pda.grammar import REPEATABLE, REQUIRED, Grammar, GrammarBuilder

LETTERS = (b"a", b"b", b",", None)
STOP = 3
LENGTH = 4  # of the texts that are looked at
Members = tuple[tuple[bytes, int], ...]


def orders(members: Members, separator: bytes, minimum: int, maximum: int, longest: int) -> Iterator[bytes]:
    """All texts of at most `longest` bytes: every order of members, one after the other."""
    required = {i for i, (_, flags) in enumerate(members) if flags & REQUIRED}
    pending: list[tuple[bytes, tuple[int, ...]]] = [(b"", ())]
    while pending:
        text, chosen = pending.pop()
        if len(chosen) >= minimum and required <= set(chosen):
            yield text
        if len(chosen) == maximum:
            continue
        for i, (member, flags) in enumerate(members):
            longer = text + (separator if chosen else b"") + member
            if len(longer) <= longest and (flags & REPEATABLE or i not in chosen):
                pending.append((longer, (*chosen, i)))


def check(engine: Engine, grammar: Grammar, texts: set[bytes]) -> None:
    """Compare all masks after texts of up to LENGTH letters; `texts` holds all that begin so, with a completion each."""
    if not texts:
        with pytest.raises(UnsatisfiableError):
            matcher(engine, grammar, LETTERS, (STOP,))
        return
    starts: dict[bytes, int] = {}  # with the length of the shortest text that begins so
    for text in texts:
        for n in range(min(len(text), LENGTH + 1) + 1):
            starts[text[:n]] = min(starts.get(text[:n], len(text)), len(text))
    at = matcher(engine, grammar, LETTERS, (STOP,))

    def descend(text: bytes) -> None:
        expected = [i for i in range(3) if text + (LETTERS[i] or b"") in starts] + ([STOP] if text in texts else [])
        assert at.allowed_tokens() == expected, text
        shortest = at.shortest_completion()
        assert text + shortest in texts
        assert len(text + shortest) == starts[text]
        if len(text) < LENGTH:
            for token in expected[: 3 if STOP not in expected else -1]:
                assert at.accept_token(token)
                descend(text + (LETTERS[token] or b""))
                at.rollback(1)

    descend(b"")


def permutations() -> Iterator[tuple[Members, bytes, int, int]]:
    """One to three members with all flags, separators that are members' letters too, and all small bounds."""
    bounds = ((0, -1), (1, -1), (2, -1), (0, 1), (0, 2), (2, 2), (2, 3), (3, -1), (4, 4))
    for words in ((b"a",), (b"a", b"b"), (b"a", b"ab"), (b"aa", b"a"), (b"a", b"b", b"ab")):
        for flags, separator, (minimum, maximum) in product(product(range(4), repeat=len(words)), (b"", b",", b"a"), bounds):
            if len(words) < 3 or sum(flags) % 5 == minimum:
                yield tuple(zip(words, flags, strict=True)), separator, minimum, maximum


@pytest.mark.untraced
def test_small_permutations(engine: Engine) -> None:
    """Members, flags, separators and bounds of all kinds."""
    longest = LENGTH + 9  # the longest way from a text of LENGTH letters to an end
    for members, separator, minimum, maximum in permutations():
        b = GrammarBuilder()
        flat = tuple(number for word, flags in members for number in (b.literal(word), flags))
        node = b.permute(flat, b.literal(separator), minimum=minimum, maximum=maximum)
        check(engine, one_rule(b, node), set(orders(members, separator, minimum, maximum, longest)))


def test_small_repetitions(engine: Engine) -> None:
    """All bounds up to four of bodies that can be cut in several ways, alone, followed by their own letters, and inside one another."""
    for minimum, maximum, follow in product((0, 1, 2, 4), (1, 2, 3, 4, -1), (b"", b"a", b",")):
        for words in ((b"a",), (b"a", b"aa"), (b"ab", b"a"), (b"", b"a"), (b"a", b"b", b"ba")):
            longest = LENGTH + 10
            counted: set[tuple[int, bytes]] = {(0, b"")}
            pending = list(counted)
            while pending:
                count, text = pending.pop()
                longer = {(min(count + 1, max(minimum, maximum, 5)), text + word) for word in words if len(text + word) <= longest}
                pending += [one for one in longer - counted if maximum < 0 or one[0] <= maximum]
                counted |= {one for one in longer if maximum < 0 or one[0] <= maximum}
            texts = {text + follow for count, text in counted if count >= minimum} if minimum <= maximum or maximum < 0 else set()
            b = GrammarBuilder()
            body = b.repeat(b.alt(*(b.literal(word) for word in words)), minimum, maximum)
            check(engine, one_rule(b, b.seq(body, b.literal(follow))), texts)
