"""Grammars inside grammars: every grammar of the corpus, between two brackets and beside itself."""

from __future__ import annotations

from typing import Any

import pytest
from support.corpus import cases, read_grammar, read_text
from support.engines import Engine, accepts, matcher

from stackmask.pda.embed import compact, splice
from stackmask.pda.grammar import GrammarBuilder

CASES = [case for case in cases("grammar.toml") if not case.get("unsatisfiable")]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_corpus(kernel: Engine, case: dict[str, Any]) -> None:
    """What a grammar generates, it generates inside another; there twice over, and with rules of its own around it."""
    grammar = read_grammar(case["rules"])
    b = GrammarBuilder()
    other, root = b.rule("other"), b.rule("root")
    b.define(other, b.literal(b"!"))
    inside = b.alt(splice(b, grammar), b.call(other))
    b.define(root, b.seq(b.literal(b"<"), inside, b.literal(b"|"), splice(b, grammar), b.literal(b">")))
    start = matcher(kernel, b.build(root))
    texts = [read_text(text) for text in case["accepts"]]
    for text in texts:
        assert accepts(start, b"<" + text + b"|" + texts[0] + b">"), text
        assert accepts(start, b"<!|" + text + b">"), text
    for text in map(read_text, case["rejects"]):
        if not any(byte in text for byte in b"<|>!"):
            assert not accepts(start, b"<!|" + text + b">"), text


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_compact(kernel: Engine, case: dict[str, Any]) -> None:
    """What is not reached is left out, however the rest was numbered, and the texts stay the same."""
    grammar = read_grammar(case["rules"])
    b = GrammarBuilder()
    splice(b, read_grammar(CASES[-1]["rules"]))
    root = b.rule("top")
    b.define(root, splice(b, grammar))
    moved = compact(b.build(root))
    c = GrammarBuilder()
    other = c.rule("top")
    c.define(other, splice(c, grammar))
    assert moved == compact(c.build(other)) == compact(moved)
    start = matcher(kernel, moved)
    assert all(accepts(start, read_text(text)) for text in case["accepts"])
    assert not any(accepts(start, read_text(text)) for text in case["rejects"])
