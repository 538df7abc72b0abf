"""A packed grammar in which one bit has changed, under a checksum that fits: an error, or a grammar that can be used."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from support.engines import BYTES, load_engine

from stackmask.pda.exceptions import StackmaskError
from stackmask.pda.grammar import GrammarBuilder
from stackmask.schema.json_schema import json_schema_grammar

KERNEL = load_engine("kernel")
LIMITS = {"states": 20_000, "stack_depth": 10_000, "memory": 16 << 20, "seconds": 5}


def checksum(data: bytes) -> bytes:
    """FNV-1a of 64 bits."""
    total = 0xCBF29CE484222325
    for byte in data:
        total = ((total ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return total.to_bytes(8, "little")


def everything() -> bytes:
    """A grammar with most operators, packed."""
    b = GrammarBuilder()
    root, word = b.rule("root"), b.rule("word")
    b.define(word, b.repeat(b.chars((0x61, 0x7A, 0xE9, 0xE9)), 1, 3))
    token = b.tokens((3, 5))
    members = b.permute((b.call(word), 1, b.literal(b"x"), 0), b.literal(b","))
    unique = b.scope(b.seq(b.distinct(b.bytes((0x30, 0x39))), b.distinct(b.bytes((0x30, 0x39)))))
    b.define(root, b.seq(b.literal(b"<"), b.alt(b.call(word), b.literal(b"\x00\xff"), token, members, unique), b.literal(b">")))
    return KERNEL.pack_grammar(b.build(root))


def schema() -> bytes:
    """A grammar with graphs and automata, packed."""
    pattern = {"type": "string", "pattern": "^[a-c]{2,5}x?$", "maxLength": 4}
    properties = {"a": {"type": "integer"}, "b": pattern, "c": {"type": "array", "uniqueItems": True, "items": {"enum": [1, 2]}}}
    return KERNEL.pack_grammar(json_schema_grammar({"type": "object", "properties": properties, "additionalProperties": False})[0])


@pytest.mark.parametrize("packed", [everything(), schema()], ids=["operators", "schema"])
def test_one_bit_changed(packed: bytes) -> None:
    """Whatever is read of it is checked, so nothing but an error of ours or a grammar comes of it."""
    trie = KERNEL.TokenTrie(list(BYTES), len(BYTES))
    body, random = packed[8:], Random(1)
    assert packed[:8] == checksum(body)
    used = 0
    for bit in random.sample(range(8 * len(body)), 1500):
        changed = body[: bit // 8] + bytes([body[bit // 8] ^ 1 << bit % 8]) + body[bit // 8 + 1 :]
        try:
            at = KERNEL.Matcher(KERNEL.KernelGrammar(trie, checksum(changed) + changed, **LIMITS), [len(BYTES) - 1])
            for byte in b'<{"a":12,"b":"':
                at.fill_next_token_bitmask(np.zeros(-(-len(BYTES) // 32), np.int32))
                at.accept_token(byte)
            at.rule_names()
            at.shortest_completion()
            used += 1
        except StackmaskError:
            pass
    assert 0 < used < 1500
