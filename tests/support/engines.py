"""The two engines behind one interface, and short ways to make matchers with them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from stackmask.pda.grammar import Grammar, GrammarBuilder, NodeId

Engine = Any  # a module with the names of stackmask.pda.reference
ENGINES = ("kernel", "reference")
BYTES: tuple[bytes | None, ...] = (*(bytes((byte,)) for byte in range(256)), None)  # token i is byte i; the last one is the stop token
STOP = 256


def load_engine(name: str) -> Engine:
    """The module of an engine."""
    return importlib.import_module({"kernel": "stackmask.pda._kernel", "reference": "stackmask.pda.reference"}[name])


def prepare(
    engine: Engine,
    grammar: Grammar | bytes,
    tokens: Sequence[bytes | None] = BYTES,
    *,
    size: int | None = None,
    states: int = 1_000_000,
    stack_depth: int = 1_000_000,
    memory: int = 64 << 20,
    seconds: float = 30,
    step_work: int = 2_000_000,
    thresholds: Mapping[str, int] | None = None,
) -> Any:
    """The grammar made ready for a vocabulary; only the kernel has thresholds."""
    options = {"thresholds": dict(thresholds)} if thresholds else {}
    trie = engine.TokenTrie(list(tokens), len(tokens) if size is None else size, **options)
    limits = {"states": states, "stack_depth": stack_depth, "memory": memory, "seconds": seconds, "step_work": step_work}
    return engine.KernelGrammar(trie, grammar, **limits)


def matcher(
    engine: Engine, grammar: Grammar, tokens: Sequence[bytes | None] = BYTES, stop: Sequence[int] = (STOP,), *, size: int | None = None
) -> Any:
    """A matcher at the beginning of a grammar."""
    return engine.Matcher(prepare(engine, grammar, tokens, size=size), list(stop))


def one_rule(builder: GrammarBuilder, node: NodeId) -> Grammar:
    """The grammar whose only rule is this expression."""
    root = builder.rule("root")
    builder.define(root, node)
    return builder.build(root)


def accepts(start: Any, text: bytes) -> bool:
    """Whether the whole text is one that the grammar generates; `start` is a matcher that stays where it is."""
    fork = start.fork()
    return bool(fork.accept_bytes(text) and fork.is_completed())


def mask_of(at: Any, size: int) -> list[int]:
    """The tokens whose bits are set in the mask."""
    import numpy as np

    bitmask = np.full((1, (size + 31) // 32), -1, dtype=np.int32)
    at.fill_next_token_bitmask(bitmask)
    return [int(i) for i in np.flatnonzero(np.unpackbits(bitmask.view(np.uint8), bitorder="little"))]


def check_mask(at: Any, tokens: Sequence[bytes | None]) -> None:
    """The mask is that of trying each token."""
    import numpy as np

    rows = np.zeros((2, (len(tokens) + 31) // 32), np.int32)
    at.fill_next_token_bitmask(rows, 0)
    at.fill_by_trial(rows, 1)
    differing = np.flatnonzero(np.unpackbits((rows[0] ^ rows[1]).view(np.uint8), bitorder="little"))
    assert not differing.size, [tokens[place] for place in differing[:8]]
