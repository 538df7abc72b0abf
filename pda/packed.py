"""A grammar as it travels between processes: the part that the engine reads without the interpreter, and the rest unopened.

A large grammar is hundreds of thousands of objects. Who unpickles them holds the interpreter for as long as that takes, and most are never
looked at: the engine has its own form, and only people, files and captures ask for the other.
"""

from __future__ import annotations

import pickle
from typing import Any, SupportsIndex

from .engine import pack_grammar
from .grammar import TOKENS, Grammar


class PackedGrammar:
    """A grammar, packed: a KernelGrammar accepts `for_engine` in its place.

    `rules` and `nodes` say how many there are, `asks_for_tokens` whether one of these is of tokens by their ids.
    """

    __slots__ = ("_grammar", "_pickle", "asks_for_tokens", "for_engine", "nodes", "rules")

    def __init__(self, grammar: Grammar) -> None:
        self.for_engine: bytes = pack_grammar(grammar)
        self.rules = len(grammar.rules)
        self.nodes = len(grammar.nodes)
        self.asks_for_tokens = any(node[0] == TOKENS for node in grammar.nodes)
        self._pickle = pickle.dumps(grammar)
        self._grammar: Grammar | None = None

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        """Its bytes as buffers, so that a pickle need not hold them."""
        wrap = pickle.PickleBuffer if protocol.__index__() >= 5 else bytes
        return _restored, (wrap(self.for_engine), wrap(self._pickle), (self.rules, self.nodes, self.asks_for_tokens))

    @property
    def size(self) -> int:
        """The bytes that it takes, unopened."""
        return len(self.for_engine) + len(self._pickle)

    def unpack(self) -> Grammar:
        """The grammar."""
        if self._grammar is None:
            self._grammar = pickle.loads(self._pickle)
        return self._grammar


def _restored(for_engine: bytes, pickled: bytes, facts: tuple[int, int, bool]) -> PackedGrammar:
    packed = PackedGrammar.__new__(PackedGrammar)
    packed.for_engine, packed._pickle, packed._grammar = for_engine, pickled, None
    packed.rules, packed.nodes, packed.asks_for_tokens = facts
    return packed
