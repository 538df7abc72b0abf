"""Tables of many megabytes, which lie in memory of their own: `pda/kernel/blocks.h`."""

from __future__ import annotations

import gc
import random
from pathlib import Path

import pytest

import stackmask
from stackmask.integration.compiler import CompiledGrammar

LENGTH = 1500
VOCABULARY = stackmask.Vocabulary.from_bytes([*(bytes([byte]) for byte in range(256)), b"ab", b"ba", None], stop_token_ids=[258])


def grown() -> tuple[CompiledGrammar, stackmask.Matcher, list[int], dict[int, bytes]]:
    """A matcher whose steps made tables of more than 16 MB, its tokens, and some masks on its way by their positions."""
    grammar = stackmask.Compiler(VOCABULARY).regex("[ab]*a[ab]{5000}|[ab]{0,1000}c")
    matcher, random_ = grammar.matcher(), random.Random(1)
    tokens = [random_.choice((*b"ab", 256, 257)) for _ in range(LENGTH)]
    masks = {}
    for place, token in enumerate(tokens):
        if place % 100 == 0:
            masks[place] = mask(matcher)
        assert matcher.accept_token(token)
    assert grammar.size > 16 << 20
    return grammar, matcher, tokens, masks


def mask(matcher: stackmask.Matcher) -> bytes:
    row = stackmask.allocate_token_bitmask(1, VOCABULARY.size)
    matcher.fill_next_token_bitmask(row)
    return row.tobytes()


def test_content() -> None:
    """What a table held when it was small it holds after it grew and was moved; another matcher of the grammar reads the same."""
    grammar, matcher, tokens, masks = grown()
    assert len(set(masks.values())) > 1
    other = grammar.matcher()
    for place, token in enumerate(tokens):
        if place in masks:
            assert mask(other) == masks[place]
        assert other.accept_token(token)
    assert mask(matcher) == mask(other)
    for place in sorted(masks, reverse=True):
        matcher.rollback(matcher.num_accepted - place)
        assert mask(matcher) == masks[place]


def test_memory_is_given_back() -> None:
    """A grammar that is dropped leaves nothing: three more take the memory of one."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        pytest.skip("the resident memory is read from Linux's /proc")

    def megabytes() -> float:
        gc.collect()
        return int(statm.read_text().split()[1]) * 4096 / 1e6

    grown()
    before = megabytes()
    for _ in range(3):
        grown()
    assert megabytes() < before + 48
