"""A grammar as it travels between processes: what the engine reads of it without the interpreter, and the rest unopened.

A large grammar is hundreds of thousands of objects. Who unpickles them holds the interpreter for as long as that takes, and most are never
looked at: the engine has its own form, and only people, files and captures ask for the other.
"""

from __future__ import annotations

import pickle

from stackmask.pda.engine import pack_grammar
from stackmask.pda.grammar import TOKENS, Grammar


class PackedGrammar:
    """A grammar, packed: `for_engine` is what a KernelGrammar takes in its place.

    `rules` and `nodes` say how many there are, `asks_for_tokens` whether one of these is of tokens by their ids.
    """

    __slots__ = ("_grammar", "_pickle", "asks_for_tokens", "for_engine", "nodes", "rules")

    def __init__(self, grammar: Grammar) -> None:
        self.for_engine = pack_grammar(grammar)
        self.rules = len(grammar.rules)
        self.nodes = len(grammar.nodes)
        self.asks_for_tokens = any(node[0] == TOKENS for node in grammar.nodes)
        self._pickle = pickle.dumps(grammar)
        self._grammar: Grammar | None = None

    @property
    def size(self) -> int:
        """The bytes that it takes, unopened."""
        return len(self.for_engine) + len(self._pickle)

    def unpack(self) -> Grammar:
        """The grammar."""
        if self._grammar is None:
            self._grammar = pickle.loads(self._pickle)
        return self._grammar
