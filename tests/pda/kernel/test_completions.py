"""Completions of texts with many values that must differ: one is found, the shortest or not, and it is valid."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.engines import Engine, accepts, load_engine, matcher, one_rule

from stackmask.pda.grammar import REQUIRED, UTF8, GrammarBuilder
from stackmask.schema.json_schema import json_schema_grammar

KINDS: list[Any] = [
    {"type": "integer"},
    {"type": ["integer", "boolean", "null"]},
    {"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 3}]},
    {"type": "number"},
]


def completed(engine: Engine, schema: Any, begun: bytes, whitespace: str = "compact") -> Any:
    """The value that the shortest completion of a text makes of it, which must be one that the grammar generates."""
    at = matcher(engine, json_schema_grammar(schema, whitespace=whitespace)[0])
    assert at.accept_bytes(begun)
    rest = at.shortest_completion()
    assert accepts(at, rest)
    assert engine.completion_lengths([at]) == [len(rest)]
    return json.loads(begun + rest)


@pytest.mark.parametrize("count", [500, 1500])
@pytest.mark.parametrize("items", KINDS)
@pytest.mark.parametrize("begun", [b"", b"[7,-12,30"])
@pytest.mark.parametrize("whitespace", ["compact", "flexible"])
def test_many_values(items: Any, count: int, begun: bytes, whitespace: str) -> None:
    """Hundreds of different values, whatever their kinds, from the beginning and behind some that are long."""
    schema = {"type": "array", "items": items, "uniqueItems": True, "minItems": count}
    found = completed(load_engine("kernel"), schema, begun, whitespace)
    assert len(set(map(json.dumps, found))) == len(found) >= count


@pytest.mark.parametrize("items", KINDS)
def test_many_values_on_both_engines(engine: Engine, items: Any) -> None:
    """A few values, on the engine that is the specification, too."""
    schema = {"type": "array", "items": items, "uniqueItems": True, "minItems": 5}
    found = completed(engine, schema, b"[7")
    assert len(set(map(json.dumps, found))) == len(found) >= 5


@pytest.mark.parametrize(("begun", "letters"), [(b"", 2), (b"\x7f", 1), (b"ab", 0)])
def test_texts_that_are_no_word(engine: Engine, begun: bytes, letters: int) -> None:
    """Where the words are the empty text and every ASCII character, the shortest other texts have two bytes."""
    builder = GrammarBuilder()
    words = ["", *map(chr, range(128))]
    at = matcher(engine, one_rule(builder, builder.seq(builder.except_words(words, UTF8), builder.literal(b"\n."))))
    assert at.accept_bytes(begun)
    rest = at.shortest_completion()
    assert accepts(at, rest)
    assert len(rest) == letters + 2
    assert engine.completion_lengths([at]) == [len(rest)]


def test_left_recursion_through_members(engine: Engine) -> None:
    """A left recursive rule whose optional member begins with the rule or with a digit, and of which "b" is the shortest text."""
    builder = GrammarBuilder()
    root, word = builder.rule("root"), builder.rule("word")
    builder.define(word, builder.literal(b"b"))
    inner = builder.permute((builder.call(root), REQUIRED, builder.bytes((0x30, 0x39)), REQUIRED), builder.literal(b","))
    middle = builder.permute((inner, 0, builder.call(word), REQUIRED), builder.empty())
    builder.define(root, builder.permute((middle, REQUIRED, builder.literal(b"a"), 0), builder.empty()))
    at = matcher(engine, builder.build(root))
    for begun, rest in ((b"", b"b"), (b"6", b",bb"), (b"6,", b"bb"), (b"b,6", b"b"), (b"6,b,6", b"bb"), (b"6,6", b",bbb"), (b"a", b"b")):
        here = at.fork()
        assert here.accept_bytes(begun)
        assert accepts(here, rest)
        assert engine.completion_lengths([here]) == [len(rest)]
        assert len(here.shortest_completion()) == len(rest)
