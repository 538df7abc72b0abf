"""Grammars as GBNF: where nothing is lost the text stands for the same language, else for a larger one, and says so."""

from __future__ import annotations

import re
import warnings
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.compiled import compiled, corpus, start, token_ids
from support.engines import Engine, load_engine
from support.generators import Features
from support.strategies import grammars, vocabularies

from stackmask.pda.ebnf import ebnf_grammar
from stackmask.pda.exceptions import GrammarError, LimitError, UnsatisfiableError
from stackmask.pda.gbnf import PRODUCT, to_gbnf
from stackmask.pda.grammar import JSON, JSON_ANY, REPEATABLE, REQUIRED, UTF8, Grammar, GrammarBuilder
from stackmask.pda.lark import lark_grammar
from stackmask.schema.json_schema import json_schema_grammar

REFUSED = "left-recursive|may be empty|not UTF-8|above 0x7F|generates no text"


def read_back(text: str) -> Grammar:
    """The grammar that a GBNF describes, read as EBNF, which spells tokens otherwise."""
    assert not re.search(r"(?<!\\)'[^\"]*'", re.sub(r'"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]', "", text)), "GBNF has no single quotes"
    assert all(re.fullmatch("[A-Za-z][A-Za-z0-9-]*", name) for name in re.findall(r"^(\S+) ::=", text, re.M))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        excluding = re.sub(r"!<\[([0-9]+)\]>", r"ExcludeToken(\1, textless=true)", text)
        return ebnf_grammar(re.sub(r"<\[([0-9]+)\]>", r"Token(\1)", excluding))


def assert_same_walks(left: Any, right: Any, text: str, random: Random, steps: int) -> None:
    """Two matchers allow the same tokens all along a random walk."""
    for _ in range(steps):
        allowed = left.allowed_tokens()
        assert allowed == right.allowed_tokens(), text
        if not allowed:
            return
        token = random.choice(allowed)
        assert left.accept_token(token) and right.accept_token(token)


@pytest.mark.parametrize(("file", "case"), [pytest.param(*found, id=f"{found[0]}-{found[1]['name']}") for found in corpus()])
def test_gbnf_of_the_corpus(kernel: Engine, file: str, case: dict[str, Any]) -> None:
    """The grammar of every case and its GBNF have the same masks, or it says what is lost and accepts what the case accepts."""
    try:
        grammar = compiled(file, case)
        one = start(kernel, grammar)
        gbnf = to_gbnf(grammar)
    except UnsatisfiableError:
        return
    except GrammarError as error:
        assert re.search(REFUSED, str(error))
        return
    other = start(kernel, read_back(gbnf.text))
    for sample in case.get("accepts", []):
        fork, own = other.fork(), one.fork()
        if all(own.accept_token(token) for token in token_ids(sample)):  # a pattern that is searched for is matched here
            assert all(fork.accept_token(token) for token in token_ids(sample)), (sample, gbnf)
            assert fork.is_completed() >= own.is_completed()
    if not gbnf.lost:
        random = Random(file + case["name"])
        for _ in range(2):
            assert_same_walks(one.fork(), other.fork(), gbnf.text, random, 30)


@given(grammar=grammars(Features()), tokens=vocabularies(), seed=st.integers(0, 1 << 30))
def test_gbnf_of_random_grammars(grammar: Grammar, tokens: list[bytes | None], seed: int) -> None:
    """The same for random grammars."""
    kernel = load_engine("kernel")
    try:
        one = start(kernel, grammar, tokens, len(tokens) - 1)
        gbnf = to_gbnf(grammar)
    except (UnsatisfiableError, LimitError):
        return
    except GrammarError as error:
        assert re.search(REFUSED, str(error))
        return
    if not gbnf.lost:
        assert_same_walks(one, start(kernel, read_back(gbnf.text), tokens, len(tokens) - 1), gbnf.text, Random(seed), 10)


def one_rule(make: Any) -> Grammar:
    """A grammar of one rule, made with a builder."""
    builder = GrammarBuilder()
    root = builder.rule("root")
    builder.define(root, make(builder))
    return builder.build(root)


@pytest.mark.parametrize(
    ("low", "high"), [(0, 2000), (0, 2001), (2001, 2001), (1999, 4500), (3, 65536), (2500, -1), (65536, 65536), (0, 5_000_000)]
)
def test_large_counts_are_exact(kernel: Engine, low: int, high: int) -> None:
    """Counts beyond llama.cpp's bound are counts of counts, none of them beyond it, without a gap or one too many."""
    grammar = one_rule(lambda b: b.seq(b.repeat(b.literal(b"a"), low, high), b.literal(b".")))
    gbnf = to_gbnf(grammar)
    assert gbnf.lost == ()
    assert all(int(number) <= 2000 for number in re.findall(r"[{,]([0-9]+)", gbnf.text))
    other = start(kernel, read_back(gbnf.text))
    at = 0
    for count in sorted({low - 1, low, low + 1, 999, 1000, 1001, 2000, 2255, 2256, 3999, 4000, high - 1, high, high + 1} - {-1, -2}):
        if 0 <= count <= 70_000:
            assert other.accept_bytes(b"a" * (count - at)) == (high < 0 or count <= high), count
            if 0 <= high < count:
                break
            at = count
            assert other.fork().accept_bytes(b".") == (low <= count), count


def test_what_is_lost_is_said(kernel: Engine) -> None:
    """Each operator that GBNF has not is named with its rule, and the text stands for more."""
    cases = [
        (lambda b: b.scope(b.distinct(b.literal(b"1"))), "differ"),
        (lambda b: b.limit(b.repeat(b.literal(b"a")), tokens=5), "no limit of 5 tokens"),
        (lambda b: b.temperature(b.literal(b"a"), 0.5), "temperature 0.5"),
        (lambda b: b.tokens((3, 4), negated=True), "tokens without text and tokens 4"),
        (lambda b: b.tokens((3, 4), negated=True, textless=True), "also allows tokens 4"),
        (
            lambda b: b.automaton((((97, 122, 1),), ((97, 122, 0),)), (True, False), JSON, minimum=3, maximum=65536),
            "fewer than 3 or more than 65536",
        ),
        (lambda b: b.permute(tuple(x for n in range(14) for x in (b.literal(b"%d," % n), 0)), b.empty()), "14 members in any order"),
    ]
    for make, words in cases:
        gbnf = to_gbnf(one_rule(make))
        assert len(gbnf.lost) == 1
        assert gbnf.lost[0].startswith("rule `root`: ")
        assert words in gbnf.lost[0]
        assert start(kernel, read_back(gbnf.text)).allowed_tokens()
    captured = to_gbnf(one_rule(lambda b: b.capture(b.literal(b"a"), "x")))
    assert (captured.text, captured.lost) == ('root ::= "a"', ())


def test_counted_automata_and_exceptions(kernel: Engine) -> None:
    """Their products with the counter, and the trie of the words, have the same texts in every encoding."""
    odd = (((97, 97, 1), (0xE9, 0xE9, 0)), ((10, 10, 0), (97, 98, 1)))
    for encoding in (UTF8, JSON, JSON_ANY):
        for bounds in ((2, 4), (3, -1), (0, 2)):
            grammar = one_rule(lambda b, e=encoding, n=bounds: b.automaton(odd, (True, False), e, minimum=n[0], maximum=n[1]))
            gbnf = to_gbnf(grammar)
            assert gbnf.lost == ()
            for seed in range(10):
                assert_same_walks(start(kernel, grammar), start(kernel, read_back(gbnf.text)), gbnf.text, Random(seed), 12)
        grammar = one_rule(lambda b, e=encoding: b.seq(b.except_words(["", "a", "ab", "é\n"], e), b.literal(b'"')))
        gbnf = to_gbnf(grammar)
        for seed in range(10):
            assert_same_walks(start(kernel, grammar), start(kernel, read_back(gbnf.text)), gbnf.text, Random(seed), 8)


def test_members_in_any_order(kernel: Engine) -> None:
    """Required, optional and repeatable members, with and without bounds, as a graph."""
    for minimum, maximum in ((0, -1), (2, 3), (0, 1), (1, -1)):
        for separator in (b",", b""):
            grammar = one_rule(
                lambda b, s=separator, n=minimum, m=maximum: b.permute(
                    (b.literal(b"a"), REQUIRED, b.literal(b"b"), 0, b.literal(b"c"), REPEATABLE), b.literal(s), minimum=n, maximum=m
                )
            )
            gbnf = to_gbnf(grammar)
            assert gbnf.lost == ()
            for seed in range(10):
                assert_same_walks(start(kernel, grammar), start(kernel, read_back(gbnf.text)), gbnf.text, Random(seed), 10)


def test_as_many_members_as_the_product_holds(kernel: Engine) -> None:
    """The largest sets whose states are at most PRODUCT are exact, by the number of members and by the count that is bounded."""
    for count, minimum, maximum in ((11, 0, -1), (11, 1, -1), (10, 3, -1), (10, 2, 3), (9, 7, -1)):
        assert (max(1, minimum, maximum) + 1) << count == PRODUCT
        for more in (0, 1):
            members = tuple(x for n in range(count + more) for x in (b"%c" % (97 + n), 0))
            grammar = one_rule(
                lambda b, m=members, low=minimum, high=maximum: b.permute(
                    tuple(b.literal(x) if isinstance(x, bytes) else x for x in m), b.empty(), minimum=low, maximum=high
                )
            )
            assert len(to_gbnf(grammar).lost) == more


def test_what_llama_cpp_does_not_take() -> None:
    """Left recursion, direct or through others, and raw bytes are errors that name the rule."""
    for text, words in (
        ('root ::= root "a" | "b"', "`root` is left-recursive"),
        ('root ::= "x" s\ns ::= t? u "a" | "b"\nt ::= "t"\nu ::= s | "c"', "left-recursive"),
    ):
        with pytest.raises(GrammarError, match=words):
            to_gbnf(ebnf_grammar(text))
    with pytest.raises(GrammarError, match="not UTF-8"):
        to_gbnf(one_rule(lambda b: b.literal(b"\xff")))
    with pytest.raises(GrammarError, match="above 0x7F"):
        to_gbnf(one_rule(lambda b: b.bytes((0x80, 0x81))))
    with pytest.raises(GrammarError, match="generates no text"):
        to_gbnf(one_rule(lambda b: b.never()))
    assert to_gbnf(lark_grammar('start: "a" [start] "b"')).lost == ()


def test_names_are_gbnf_names() -> None:
    """Names have letters, digits and hyphens, and begin with a letter."""
    grammar = json_schema_grammar(
        {"$ref": "#/$defs/a_b.c", "$defs": {"a_b.c": {"anyOf": [{"type": "array", "items": {"$ref": "#"}}, {"const": 1}]}}}
    )[0]
    assert read_back(to_gbnf(grammar).text)
