"""AUTOMATON nodes that nothing has trimmed: states that lead nowhere, or nowhere but through others with many transitions."""

from __future__ import annotations

from random import Random

import pytest
from support.engines import Engine, accepts, load_engine, matcher, one_rule, prepare

from stackmask.pda.exceptions import UnsatisfiableError
from stackmask.pda.grammar import UTF8, GrammarBuilder, NodeId

RANGES = {"a": (0x61, 0x61), "b": (0x62, 0x62), "é": (0xE9, 0xE9), "😀": (0x1F600, 0x1F600)}
"""The one character of a range."""
SURROGATES = (0xD800, 0xDFFF)
"""A range that holds no character: a transition that is none."""
BESIDE = {"\ud7ff": (0xD7FF, 0xDFFF), "\ue000": (0xD800, 0xE000)}
"""Ranges of surrogates and of one character before or behind them."""
LETTERS = {lo_hi: letter for letter, lo_hi in (RANGES | BESIDE).items()}
Rows = tuple[tuple[tuple[int, int, int], ...], ...]
LONGEST = 5


def random_automaton(random: Random) -> tuple[Rows, tuple[bool, ...]]:
    """Up to six states with up to four transitions each, in which few accept."""
    states = random.randint(1, 6)
    rows = []
    for _ in range(states):
        row = [(*lo_hi, random.randrange(states)) for lo_hi in RANGES.values() if random.random() < 0.3]
        if random.random() < 0.4:
            row.append((*random.choice((SURROGATES, *BESIDE.values())), random.randrange(states)))
        rows.append(tuple(sorted(row)))
    return tuple(rows), tuple(random.random() < 0.25 for _ in range(states))


def live(rows: Rows, accepting: tuple[bool, ...]) -> set[int]:
    """The states from which one that accepts is reached."""
    found = {state for state, accepts in enumerate(accepting) if accepts}
    while True:
        more = {state for state, row in enumerate(rows) for lo, hi, target in row if (lo, hi) != SURROGATES and target in found} | found
        if more == found:
            return found
        found = more


def automaton(b: GrammarBuilder, rows: Rows, accepting: tuple[bool, ...]) -> NodeId:
    """The node."""
    return b.automaton(rows, accepting, UTF8)


def test_what_an_automaton_reads(engine: Engine) -> None:
    """At every place the bytes that lead to an end are allowed, and no others; one without an end is left out, or cannot be satisfied."""
    random = Random(11)
    empty = 0
    for _ in range(400 if engine is load_engine("kernel") else 100):
        rows, accepting = random_automaton(random)
        alive = live(rows, accepting)
        b = GrammarBuilder()
        node = automaton(b, rows, accepting)
        if 0 not in alive:
            empty += 1
            with pytest.raises(UnsatisfiableError):
                prepare(engine, one_rule(b, node))
        start = matcher(engine, one_rule(b, b.alt(b.literal(b"x"), b.seq(b.literal(b"<"), node, b.literal(b">")))))
        assert accepts(start, b"x")
        if 0 not in alive:
            assert start.next_bytes() == b"x"
            continue
        pending = [("", 0)]
        while pending:
            text, state = pending.pop()
            here = start.fork()
            assert here.accept_bytes(b"<" + text.encode())
            moves = {LETTERS[lo, hi]: target for lo, hi, target in rows[state] if (lo, hi) != SURROGATES and target in alive}
            expected = {letter.encode()[0] for letter in moves} | ({ord(">")} if accepting[state] else set())
            assert set(here.next_bytes()) == expected, (rows, accepting, text)
            if len(text) < LONGEST:
                pending += [(text + letter, target) for letter, target in moves.items()]
    assert empty > 10
