"""Grammars as text: what `to_ebnf` prints is read back as a grammar with the same masks, on the whole corpus and on random grammars."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.compiled import compiled, corpus, start, token_ids
from support.engines import Engine, load_engine
from support.generators import Features
from support.strategies import grammars, vocabularies

import stackmask.pda.operators
from stackmask.pda.ebnf import ebnf_grammar
from stackmask.pda.exceptions import GrammarError, LimitError, UnsatisfiableError
from stackmask.pda.grammar import JSON, Grammar, GrammarBuilder
from stackmask.pda.operators import SIGNATURES, Op


def read_back(grammar: Grammar) -> Grammar:
    """The grammar that its text describes; no rule in it is unused."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return ebnf_grammar(grammar.to_ebnf())


def assert_same(left: Any, right: Any, text: str) -> None:
    """Two matchers allow the same tokens, at the same temperature."""
    assert (left.allowed_tokens(), left.temperature) == (right.allowed_tokens(), right.temperature), text


def assert_same_walks(left: Any, right: Any, text: str, random: Random, steps: int) -> None:
    """Two matchers allow the same tokens all along a random walk, up to a mask that takes more work than one may."""
    for _ in range(steps):
        try:
            assert_same(left, right, text)
            allowed = left.allowed_tokens()
        except LimitError as error:
            assert error.limit == "step_work"
            return
        if not allowed:
            return
        token = random.choice(allowed)
        assert left.accept_token(token), text
        assert right.accept_token(token), text


@pytest.mark.parametrize(("file", "case"), [pytest.param(*found, id=f"{found[0]}-{found[1]['name']}") for found in corpus()])
def test_corpus(kernel: Engine, file: str, case: dict[str, Any]) -> None:
    """The grammar of every case and the one of its text have the same masks, along the texts of the case and random ones."""
    try:
        grammar = compiled(file, case)
    except UnsatisfiableError:  # the front end says it
        return
    try:
        one = start(kernel, grammar)
    except UnsatisfiableError:
        with pytest.raises(GrammarError, match="generates no text"):
            grammar.to_ebnf()
        return
    text = grammar.to_ebnf()
    other = start(kernel, read_back(grammar))
    for sample in [*case.get("accepts", []), *case.get("rejects", [])]:
        left, right = one.fork(), other.fork()
        for token in token_ids(sample):
            assert_same(left, right, text)
            fits = left.accept_token(token)
            assert fits == right.accept_token(token), (sample, text)
            if not fits:
                break
        assert_same(left, right, text)
    random = Random(file + case["name"])
    for _ in range(3):
        assert_same_walks(one.fork(), other.fork(), text, random, 40)


@given(grammar=grammars(Features(tokens=True, distinct=True, options=True)), tokens=vocabularies(), seed=st.integers(0, 1 << 30))
def test_random_grammars(grammar: Grammar, tokens: list[bytes | None], seed: int) -> None:
    """The same for random grammars of all operators."""
    kernel = load_engine("kernel")
    try:
        one = start(kernel, grammar, tokens, len(tokens) - 1)
    except UnsatisfiableError:
        return
    except (GrammarError, LimitError):
        return
    text = grammar.to_ebnf()
    other = start(kernel, read_back(grammar), tokens, len(tokens) - 1)
    assert_same_walks(one, other, text, Random(seed), 12)


def test_bytes_that_are_no_text() -> None:
    """Bytes, ranges of bytes and code points in other encodings are rules with an encoding."""
    b = GrammarBuilder()
    root = b.rule("root")
    b.define(root, b.seq(b.literal(b"\xff\n"), b.bytes((0, 0x7F)), b.bytes((0x80, 0xFF)), b.chars((0x61, 0x7A), JSON)))
    text = str(b.build(root))
    assert text.split("\n") == [
        "root ::= bytes [\\x00-\\x7F] byte char",
        'bytes[encoding=bytes] ::= "ÿ\\n"',
        "byte[encoding=bytes] ::= [\\x80-ÿ]",
        "char[encoding=json] ::= [a-z]",
    ]


def test_names() -> None:
    """Names that are none in EBNF, or mean something there, are changed, and those of several rules numbered."""
    b = GrammarBuilder()
    names = ["start", "root", "i", "Token", "#/$defs/x", "same", "same", "7", "."]
    rules = [b.rule(name) for name in names]
    b.define(rules[0], b.seq(*map(b.call, rules[1:])))
    for rule in rules[1:]:
        b.define(rule, b.chars((97, 97 + rule)))
    grammar = b.build(rules[0])
    assert str(grammar).split("\n")[:2] == ["root ::= start", "start ::= root-2 _i _Token ___defs_x same5 same6 _7 _."]
    assert read_back(grammar).to_ebnf() == str(grammar)


def test_shared_and_deep_expressions_are_rules() -> None:
    """The text is linear in the grammar, where expressions share their parts, and where they lie deep inside others."""
    b = GrammarBuilder()
    root = b.rule("root")
    node = b.literal(b"some text of a certain length")
    for number in range(200):
        node = b.alt(b.seq(node, b.literal(b"%d" % number), node), b.literal(b"end"))
    b.define(root, node)
    text = b.build(root).to_ebnf()
    assert len(text) < 200 * 60
    assert "\n".join(sorted(ebnf_grammar(text).to_ebnf().split("\n"))).count("end") == 200


def test_what_cannot_be_written() -> None:
    """A grammar without a text and a capture without a name are errors that name the rule; `str` gives the reason."""
    b = GrammarBuilder()
    loop, unnamed = b.rule("loop"), b.rule("unnamed")
    b.define(loop, b.call(loop))
    b.define(unnamed, b.capture(b.literal(b"x"), ""))
    with pytest.raises(GrammarError, match="rule `loop` generates no text"):
        b.build(loop).to_ebnf()
    with pytest.raises(GrammarError, match="rule `unnamed`: CAPTURE without a name"):
        b.build(unnamed).to_ebnf()
    assert str(b.build(loop)) == "# rule `loop` generates no text, so there is nothing to write"


def test_the_kernel_has_the_same_operators() -> None:
    """The enumeration in the kernel's source has the names and numbers of `Op`."""
    source = (Path(stackmask.pda.operators.__file__).parent / "kernel" / "rules" / "nfa.h").read_text(encoding="utf-8")
    body = re.search(r"enum Operator : i32 \{(.*?)\}", source, re.DOTALL)
    assert body is not None
    assert re.findall(r"OP_(\w+)", body[1]) == [operator.name for operator in sorted(Op)]
    assert set(SIGNATURES) == set(Op)
