"""Many threads share one grammar: the same masks as alone, whatever is built lazily at the same time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import numpy as np
from support.engines import Engine, mask_of, prepare

from stackmask.pda.grammar import JSON, Grammar, GrammarBuilder

THREADS = 32
PIECES = (b'{"', b'":', b'": "', b'"},', b'"}', b"[[", b"]]", b"true", b"12", b"ab", b"\xc3", b"\xa9", b"\\n", b'\\"', b"],[", b", ")
TOKENS: tuple[bytes | None, ...] = (*(bytes((byte,)) for byte in range(256)), *PIECES, None)
STOP = len(TOKENS) - 1


def json_like() -> Grammar:
    """JSON with keys of bounded length, members in any order and arrays of different values."""
    b = GrammarBuilder()
    value = b.rule("value")
    characters = b.chars((0, 0x10FFFF), JSON)
    string = b.seq(b.literal(b'"'), b.repeat(characters), b.literal(b'"'))
    short = b.seq(b.literal(b'"'), b.repeat(characters, 1, 40), b.literal(b'"'))
    number = b.seq(b.bytes((0x31, 0x39)), b.repeat(b.bytes((0x30, 0x39))))
    item = b.distinct(b.alt(number, string))
    unique = b.scope(b.seq(b.literal(b"<"), b.optional(b.seq(item, b.repeat(b.seq(b.literal(b","), item)))), b.literal(b">")))
    more = b.repeat(b.seq(b.literal(b","), b.call(value)))
    array = b.seq(b.literal(b"["), b.optional(b.seq(b.call(value), more)), b.literal(b"]"))
    members = [b.seq(b.literal(key), b.call(value)) for key in (b'"a":', b'"ab":', b'"b":')]
    any_key = b.seq(b.literal(b"!"), short, b.literal(b":"), b.call(value))
    body = b.permute((members[0], 1, members[1], 0, members[2], 0, any_key, 2), b.literal(b","))
    b.define(value, b.alt(array, b.seq(b.literal(b"{"), body, b.literal(b"}")), string, number, unique, b.literal(b"true")))
    return b.build(value)


def walk(engine: Engine, grammar: Any, seed: int, steps: int) -> list[tuple[int, int]]:
    """A random walk with rollbacks and forks; the number of allowed tokens and a hash of them at every step."""
    random = Random(seed)
    at = engine.Matcher(grammar, [STOP])
    trace = []
    for _ in range(steps):
        allowed = mask_of(at, len(TOKENS))
        trace.append((len(allowed), hash(tuple(allowed))))
        if at.is_terminated() or random.random() < 0.1:
            at.rollback(random.randint(0, at.num_accepted))
        elif random.random() < 0.05:
            at = at.fork()
        else:
            assert at.accept_token(random.choice(allowed))
    return trace


def test_threads_share_a_grammar(kernel: Engine) -> None:
    """Masks made by 32 threads at once from one cold grammar are those that one thread makes alone."""
    seeds = range(THREADS)
    grammar = prepare(kernel, json_like(), TOKENS)
    alone = [walk(kernel, grammar, seed, 60) for seed in seeds]
    for memory in (64 << 20, 1 << 16):
        shared = prepare(kernel, json_like(), TOKENS, memory=memory)
        barrier = threading.Barrier(THREADS)

        def run(seed: int, shared: Any = shared, barrier: threading.Barrier = barrier) -> list[tuple[int, int]]:
            barrier.wait()
            return walk(kernel, shared, seed, 60)

        with ThreadPoolExecutor(THREADS) as pool:
            assert list(pool.map(run, seeds)) == alone


def test_threads_share_the_reference_engine(reference: Engine) -> None:
    """The reference engine's tables, which only remember, can be shared too."""
    grammar = prepare(reference, json_like(), TOKENS)
    alone = [walk(reference, grammar, seed, 4) for seed in range(4)]
    shared = prepare(reference, json_like(), TOKENS)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda seed: walk(reference, shared, seed, 4), range(4))) == alone


def test_batches_from_many_threads(kernel: Engine) -> None:
    """fill_bitmasks of disjoint matchers from many threads fills what each matcher fills alone."""
    grammar = prepare(kernel, json_like(), TOKENS)
    words = (len(TOKENS) + 31) // 32

    def run(seed: int) -> bool:
        random = Random(seed)
        matchers = [kernel.Matcher(grammar, [STOP]) for _ in range(8)]
        for _ in range(20):
            bitmask = np.zeros((8, words), dtype=np.int32)
            kernel.fill_bitmasks(matchers, bitmask)
            for row, at in zip(bitmask, matchers, strict=True):
                single = np.zeros((1, words), dtype=np.int32)
                at.fill_next_token_bitmask(single)
                if not np.array_equal(row, single[0]):
                    return False
                if not at.is_terminated():
                    at.accept_token(random.choice(at.allowed_tokens()))
        return True

    with ThreadPoolExecutor(THREADS) as pool:
        assert all(pool.map(run, range(THREADS)))
