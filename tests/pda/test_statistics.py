"""What the kernel counts while it works: that nothing is built twice, and that the strategies that are only faster do run."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pytest
from support.engines import BYTES, STOP, Engine, one_rule, prepare

from stackmask.pda.grammar import JSON, GrammarBuilder
from stackmask.schema.json_schema import json_schema_grammar

WORDS = (*BYTES, *(bytes(word) for size in (2, 3) for word in product(b'abcdefgh ",.1', repeat=size)))


def texts(engine: Engine, prepared: Any, seed: int, tokens: int) -> None:
    """Random tokens from the beginning, with all masks on the way."""
    random, at = Random(seed), engine.Matcher(prepared, [STOP])
    for _ in range(tokens):
        allowed = at.allowed_tokens()
        token = random.choice([token for token in allowed if token < 256] or allowed)
        if token == STOP:
            return
        assert at.accept_token(token)


@pytest.mark.parametrize("shape", ["nested", "unique"])
def test_nothing_is_built_twice(kernel: Engine, shape: str) -> None:
    """Texts that come a second time find all frames, configurations, parts and masks that they need."""
    if shape == "unique":
        item: Any = {"type": "array", "items": {"enum": [*range(30), "a", "b", "ab", "abc"]}, "uniqueItems": True}
    else:
        item = {"type": "object", "properties": {f"key{i}": {"enum": [f"v{j}{i}" for j in range(40)]} for i in range(20)}}
        item = {"anyOf": [item, {"type": "array", "items": {"$ref": "#/$defs/item"}}]}
    grammar = json_schema_grammar({"$defs": {"item": item}, "type": "array", "items": {"$ref": "#/$defs/item"}}, whitespace="compact")[0]
    prepared = prepare(kernel, grammar)
    for _ in range(2):
        for seed in range(30):
            texts(kernel, prepared, seed, 150)
        counts, memory = prepared.statistics, prepared.memory
    assert counts["dfa_states"] + counts["configurations"] > 100
    for seed in range(30):
        texts(kernel, prepared, seed, 150)
    assert prepared.statistics == counts
    assert prepared.memory == memory


def test_a_string_is_not_walked(kernel: Engine) -> None:
    """Inside a string its characters are told by their classes: a mask looks at few nodes of the trie, each time at none that are new."""
    b = GrammarBuilder()
    string = b.seq(b.literal(b'"'), b.repeat(b.chars((0, 0x10FFFF), JSON)), b.literal(b'"'))
    prepared = prepare(kernel, one_rule(b, string), WORDS)
    at = kernel.Matcher(prepared, [STOP])
    assert at.accept_bytes(b'"')
    assert len(at.allowed_tokens()) > 1500
    counts = prepared.statistics
    assert counts["loops"] > 0 and counts["loop_fallbacks"] == 0
    assert counts["walked_nodes"] < 100
    assert at.accept_bytes(b"abc d")
    assert len(at.allowed_tokens()) > 1500
    assert prepared.statistics == counts | {"masks": prepared.statistics["masks"]}


def test_nodes_that_a_quote_leads_to_are_taken_together(kernel: Engine) -> None:
    """Behind a quote many nodes of the trie are left at once: they are known as sets, and none is walked by itself."""
    grammar = json_schema_grammar({"type": "object", "properties": {key: {"type": "string"} for key in "abcdef"}})[0]
    prepared = prepare(kernel, grammar, WORDS)
    at = kernel.Matcher(prepared, [STOP])
    for text in (b'{"a":"', b"b", b'c","', b'd":"x'):
        assert at.accept_bytes(text)
        at.allowed_tokens()
    counts = prepared.statistics
    assert counts["walks"] == 0
    assert counts["walked_nodes"] < 100
