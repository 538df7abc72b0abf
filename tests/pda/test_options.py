"""Bounds on tokens and temperatures: the kernel against the reference engine, and both against what is written down."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.corpus import cases, read_grammar
from support.engines import Engine, load_engine, mask_of, matcher, prepare
from support.generators import Features
from support.strategies import grammars, vocabularies

from stackmask.pda.exceptions import GrammarError, LimitError, UnsatisfiableError
from stackmask.pda.grammar import Grammar, GrammarBuilder

FEATURES = Features(tokens=True, distinct=False, options=True)
CASES = cases("options.toml")


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_texts_in_tokens(engine: Engine, case: dict[str, Any]) -> None:
    """After some tokens these tokens may follow, sampled at this temperature; rollback and forks change nothing about it."""
    tokens = [token.encode() for token in case["tokens"]]
    start = matcher(engine, read_grammar(case["rules"]), [*tokens, None], (len(tokens),))
    for walk in case["walks"]:
        at = start.fork()
        for text in walk["after"]:
            assert at.accept_token(tokens.index(text.encode())), text
        for way in (at, at.fork()):
            allowed = sorted("" if i == len(tokens) else tokens[i].decode() for i in way.allowed_tokens())
            assert allowed == sorted(walk["next"]), walk["after"]
            assert way.temperature == walk.get("temperature")
            assert way.allowed_tokens() == mask_of(way, len(tokens) + 1)
        assert start.validate_tokens([tokens.index(text.encode()) for text in walk["after"]]) == len(walk["after"])


@given(grammar=grammars(FEATURES), tokens=vocabularies(), seed=st.integers(0, 1 << 30))
def test_kernel_is_reference(grammar: Grammar, tokens: list[bytes | None], seed: int) -> None:
    """Both engines allow the same tokens along random walks that go back and fork, at the same temperatures."""
    stop = len(tokens) - 1
    try:
        slow = matcher(load_engine("reference"), grammar, tokens, (stop,))
    except UnsatisfiableError:
        with pytest.raises(UnsatisfiableError):
            prepare(load_engine("kernel"), grammar, tokens)
        return
    try:
        fast = matcher(load_engine("kernel"), grammar, tokens, (stop,))
    except GrammarError as error:
        assert "left recursion of several rules through a LIMIT" in str(error)
        return
    except LimitError:
        return
    random = Random(seed)
    for _ in range(10):
        allowed = slow.allowed_tokens()
        assert fast.allowed_tokens() == allowed == mask_of(fast, len(tokens))
        assert fast.temperature == slow.temperature
        assert fast.is_completed() == slow.is_completed()
        choices = [token for token in allowed if token != stop]
        random.shuffle(choices)
        drafts = choices[:1] + [random.choice(choices) for _ in range(2)] if choices else []
        assert fast.validate_tokens(drafts) == slow.validate_tokens(drafts)
        rows = [np.zeros((len(drafts) + 1, (len(tokens) + 31) // 32), np.int32) for _ in range(2)]
        parents = [random.randint(-1, i - 1) for i in range(len(drafts))] if random.random() < 0.5 else None
        for name, at, bitmask in (("kernel", fast, rows[0]), ("reference", slow, rows[1])):
            load_engine(name).fill_draft_bitmasks(at, drafts, bitmask, 0, parents)
        assert (rows[0] == rows[1]).all()
        if slow.num_accepted and random.random() < 0.2:
            steps = random.randint(1, slow.num_accepted)
            slow.rollback(steps)
            fast.rollback(steps)
        elif not choices:
            break
        else:
            longest = max(choices[:4], key=lambda token: len(tokens[token] or b""))
            token = longest if random.random() < 0.5 else choices[0]
            text = tokens[token]
            if text and slow.matching_prefix(text) == len(text) and random.random() < 0.3:
                assert fast.accept_bytes(text)
                assert slow.accept_bytes(text)
            else:
                assert fast.accept_token(token)
                assert slow.accept_token(token)
        if random.random() < 0.3:
            fast, slow = fast.fork(), slow.fork()


def test_long_region(engine: Engine) -> None:
    """A region of many tokens ends at its bound, and its configurations are not one for each token."""
    b = GrammarBuilder()
    root = b.rule("root")
    b.define(root, b.seq(b.literal(b"<"), b.limit(b.repeat(b.bytes((0x61, 0x7A))), tokens=300), b.literal(b">")))
    compiled = prepare(engine, b.build(root))
    at = engine.Matcher(compiled, [256])
    assert at.accept_bytes(b"<")
    for i in range(300):
        assert ord("a") in at.allowed_tokens(), i
        assert at.accept_token(ord("a") + i % 26)
    assert at.allowed_tokens() == [ord(">")]
    assert getattr(compiled, "statistics", {}).get("configurations", 0) < 30  # which the reference engine does not count
    at.rollback(1)
    assert ord("a") in at.allowed_tokens()


def test_a_region_behind_a_token_by_id(engine: Engine) -> None:
    """A region that begins behind a token asked for by id spans its own tokens alone."""
    b = GrammarBuilder()
    region = b.limit(b.repeat(b.bytes((0x61, 0x7A))), tokens=3)
    root = b.rule("root")
    b.define(root, b.seq(b.literal(b"<"), b.tokens((ord("="), ord("-"))), region, b.literal(b">")))
    at = engine.Matcher(prepare(engine, b.build(root)), [256])
    assert at.accept_token(ord("<")) and at.accept_token(ord("="))
    for letter in "abc":
        assert at.allowed_tokens() == [ord(">"), *range(0x61, 0x7B)]
        assert at.accept_token(ord(letter))
    assert at.allowed_tokens() == [ord(">")]


def test_reclaimed_tables(engine: Engine) -> None:
    """What a matcher holds keeps its bounds when the tables are dropped."""
    b = GrammarBuilder()
    root = b.rule("root")
    word = b.limit(b.repeat(b.bytes((0x61, 0x7A))), tokens=3)
    b.define(root, b.repeat(b.seq(word, b.bytes((0x21, 0x40)))))
    at = engine.Matcher(prepare(engine, b.build(root), memory=20_000), [256])
    random = Random(1)
    inside = 0
    for _ in range(1500 if engine.__name__.endswith("_kernel") else 50):
        letters = [token for token in at.allowed_tokens() if 0x61 <= token <= 0x7A]
        assert bool(letters) == (inside < 3)
        if letters and random.random() < 0.8:
            assert at.accept_token(random.choice(letters))
            inside += 1
        else:
            assert at.accept_token(random.randint(0x21, 0x40))
            inside = 0
    with pytest.raises(ValueError, match="out of range"):
        at.accept_token(-1)


@pytest.mark.parametrize("mark", ["limit", "temperature"])
def test_no_marks_in_scopes(engine: Engine, mark: str) -> None:
    """What ends early must leave something to follow, which the values that a scope has seen may forbid: so there is no mark in one."""
    b = GrammarBuilder()
    root = b.rule("root")
    digits = b.repeat(b.bytes((0x30, 0x39)), 1, -1)
    value = b.distinct(b.limit(digits, tokens=2) if mark == "limit" else b.temperature(digits, 0.5))
    b.define(root, b.scope(b.seq(value, b.repeat(b.seq(b.literal(b","), value)))))
    with pytest.raises(GrammarError, match="inside of a SCOPE"):
        prepare(engine, b.build(root))


def test_many_regions_at_once(kernel: Engine) -> None:
    """Regions that begin everywhere and cannot end take memory linear in the text, for texts of many tokens and for one of many bytes."""
    b = GrammarBuilder()
    root = b.rule("root")
    letters = b.bytes((0x61, 0x62))
    region = b.limit(b.seq(letters, b.repeat(letters), b.literal(b"!")), tokens=2)
    b.define(root, b.seq(b.repeat(letters), region))
    for pieces in ([b"a"] * 5000, [b"ab" * 2500]):
        compiled = prepare(kernel, b.build(root), memory=8 << 20)
        at = kernel.Matcher(compiled, [256])
        for piece in pieces:
            assert at.accept_bytes(piece)
        assert compiled.statistics["reclaims"] == 0
        assert compiled.statistics["work"] < 4_000_000
        assert at.allowed_tokens() == [0x21, 0x61, 0x62]
        assert at.accept_token(0x21)
        assert at.is_completed()


def test_readings_of_a_limit(kernel: Engine) -> None:
    """Of a rule that may begin before every letter, those readings end that have spanned the limit: the others go on."""
    b = GrammarBuilder()
    root = b.rule("root")
    letters = b.repeat(b.bytes((0x61, 0x7A)))
    b.define(root, b.seq(letters, b.limit(b.seq(b.literal(b"<"), letters), tokens=3000), b.repeat(b.literal(b"<")), b.literal(b".")))
    at = matcher(kernel, b.build(root))
    assert at.accept_bytes(b"abc") and at.accept_token(ord("<"))
    for count in range(2999):
        assert ord("a") in at.allowed_tokens(), count
        assert at.accept_token(ord("a"))
    assert at.allowed_tokens() == [ord("."), ord("<")]


@pytest.mark.parametrize("seed", range(4))
def test_limits_in_limits_by_the_reference(seed: int) -> None:
    """Both engines allow the same where limits in limits begin anywhere, over more and longer tokens than a bundle of regions holds."""
    b = GrammarBuilder()
    root, a, inner, c = (b.rule(name) for name in ("root", "a", "b", "c"))
    b.define(root, b.seq(b.repeat(b.call(a), 1, -1), b.repeat(b.literal(b"!"), 0, 1)))
    b.define(a, b.limit(b.repeat(b.alt(b.call(inner), b.literal(b";")), 1, -1), tokens=9))
    b.define(inner, b.limit(b.alt(b.repeat(b.call(c), 1, -1), b.seq(b.literal(b"("), b.call(inner), b.literal(b")"))), tokens=5 + seed))
    b.define(c, b.limit(b.seq(b.repeat(b.bytes((0x61, 0x63)), 1, -1), b.repeat(b.literal(b" "), 0, 2)), tokens=2))
    tokens = [b"a", b"bc", b" ", b"a ", b"(", b")", b"((", b"))", b";", b"!", b"abcabcabcabcabcabcabc", b" ;a", None]
    fast, slow = (matcher(load_engine(name), b.build(root), tokens, (12,)) for name in ("kernel", "reference"))
    random = Random(seed)
    for _ in range(40):
        allowed = slow.allowed_tokens()
        assert fast.allowed_tokens() == allowed == mask_of(fast, len(tokens))
        token = random.choice([token for token in allowed if token < 9 or (token < 12 and random.random() < 0.1)] or allowed[:1])
        if token == 12:
            break
        assert fast.accept_token(token) and slow.accept_token(token)


def test_limits_in_limits_over_ambiguity(kernel: Engine) -> None:
    """Each reading of an outer limit stands below all of the inner ones: a step costs paths to those that end, not all pairs."""
    b = GrammarBuilder()
    root, a, inner, c = (b.rule(name) for name in ("root", "a", "b", "c"))
    b.define(root, b.repeat(b.call(a), 1, -1))
    b.define(a, b.limit(b.repeat(b.call(inner), 1, -1), tokens=400))
    b.define(inner, b.limit(b.alt(b.repeat(b.call(c), 1, -1), b.seq(b.call(inner), b.call(inner))), tokens=100))
    b.define(c, b.limit(b.repeat(b.bytes((0x61, 0x7A)), 1, -1), tokens=2))
    compiled = prepare(kernel, b.build(root))
    at = kernel.Matcher(compiled, [256])
    for count in range(600):
        assert at.accept_token(0x61)
        assert compiled.statistics["reclaims"] == 0 or count > 300  # few nodes for each token
    assert compiled.statistics["largest_work"] < 200_000
