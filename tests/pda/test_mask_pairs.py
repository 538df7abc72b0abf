"""Masks of two things that may be read at once, enumerated: in one rule, and in rules of their own that stay apart.

Each alone takes its tokens in a way of its own; together one must not take away what the other allows, nor hide what it reads.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from support.engines import load_engine, one_rule
from support.tokens import JSON_ENDS, WHOLE

from stackmask.pda.grammar import JSON, GrammarBuilder, NodeId
from stackmask.pda.regex import regex_dfa

ANY = (0, 0x10FFFF)
WORDS = (b"a", b"ab", b"cd", b"the", b"foo", b"foo/", b"x" * 7, b"y" * 20, b"12", b" ", b"  ", b" " * 9, b"\t\n", b".", b"-")


def automaton(b: GrammarBuilder, pattern: str, maximum: int) -> NodeId:
    """A pattern of at most `maximum` characters."""
    found = regex_dfa(pattern, search=False)
    return b.automaton(found.transitions, found.accepting, JSON, minimum=0, maximum=maximum)


PARTS: dict[str, Callable[[GrammarBuilder], NodeId]] = {
    "any text": lambda b: b.repeat(b.chars(ANY, JSON)),
    "to 30": lambda b: b.repeat(b.chars(ANY, JSON), 0, 30),
    "2 to 4": lambda b: b.repeat(b.chars(ANY, JSON), 2, 4),
    "letters": lambda b: b.repeat(b.chars((0x61, 0x7A), JSON)),
    "any but two words": lambda b: b.except_words(["ab", "the"], JSON),
    "any but other words": lambda b: b.except_words(["cd", "the", "xx", "foo/"], JSON),
    "foo in it": lambda b: automaton(b, ".*foo.*", -1),
    "foo in it, to 12": lambda b: automaton(b, ".*foo.*", 12),
    "no slash, to 6": lambda b: automaton(b, "[^/]*", 6),
    "blanks": lambda b: b.repeat(b.bytes((9, 10, 13, 13, 32, 32)), 0, 40),
}


def apart(b: GrammarBuilder, body: NodeId, name: str) -> NodeId:
    """The body in any number of brackets: a rule that is never made a part of its caller."""
    rule = b.rule(name)
    b.define(rule, b.alt(body, b.seq(b.literal(b"["), b.call(rule), b.literal(b"]"))))
    return b.call(rule)


@pytest.fixture(scope="module")
def tokens() -> list[bytes | None]:
    """Bytes, and words with what may stand behind them."""
    ends = (*JSON_ENDS, b'"0', b'"1', b"\xc3", *WHOLE[:4])
    joined = {word + end for word, end in product((b"", *WORDS), (*ends, *WORDS))}
    return [*sorted({bytes((byte,)) for byte in range(256)} | joined | set(WORDS)), None]


LOW = {"listed_tokens": 0, "set_tokens": 0, "many_nodes": 1, "loop_exits": 4, "dense_bytes": 5, "unrolled_states": 2}


@pytest.mark.parametrize("thresholds", [{}, LOW], ids=["as always", "low"])
@pytest.mark.parametrize("alone", [False, True], ids=["in one rule", "apart"])
def test_two_at_once(tokens: list[bytes | None], thresholds: dict[str, int], *, alone: bool) -> None:
    """Between quotes, each with a mark of its own behind it: masks say what trying every token says."""
    kernel = load_engine("kernel")
    trie = kernel.TokenTrie(tokens, len(tokens), thresholds=thresholds)
    rows = np.zeros((2, (len(tokens) + 31) // 32), np.int32)
    checked = excluded = 0
    for names in combinations_with_replacement(PARTS, 2):
        b = GrammarBuilder()
        parts = [b.seq(b.literal(b'"'), PARTS[name](b), b.literal(b'"%d' % mark)) for mark, name in enumerate(names)]
        if alone:
            parts = [apart(b, part, f"part {mark}") for mark, part in enumerate(parts)]
        prepared = kernel.KernelGrammar(trie, one_rule(b, b.alt(*parts)), states=100_000, stack_depth=1000, memory=64 << 20, seconds=30)
        start = kernel.Matcher(prepared, [len(tokens) - 1])
        for text in (b"", b'"', b'"a', b'"ab', b'"the', b'"fo', b'"foo y', b'"     ', b'"\xc3', b'"ab"'):
            at = start.fork()
            if not at.accept_bytes(text):
                continue
            at.fill_next_token_bitmask(rows, 0)
            at.fill_by_trial(rows, 1)
            differing = np.flatnonzero(np.unpackbits((rows[0] ^ rows[1]).view(np.uint8), bitorder="little"))
            assert not differing.size, (names, text, [tokens[token] for token in differing[:8]])
            checked += 1
        excluded += prepared.statistics["excluded"]
    assert checked > 400 and excluded > 10
