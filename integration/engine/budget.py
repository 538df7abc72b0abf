"""The number of tokens in the shortest completion, so that an answer can be closed before its budget ends.

The shortest completion in bytes is spelt in as few tokens as possible (a shortest path over its positions).
Another completion, longer in bytes, could take fewer tokens; so the number is an upper bound, not the minimum.

A grammar that asks for tokens by their ids may have no completion in bytes. Its completions are those of a shadow, in which a mark of some
bytes stands beside every such token: the shadow reads what the grammar reads, and its shortest completion says which tokens are needed.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence
from functools import cached_property
from typing import Final
from weakref import WeakKeyDictionary

from ...pda.embed import extend
from ...pda.grammar import TOKENS, Grammar, GrammarBuilder, NodeId
from ...pda.limits import Limits
from ...pda.matcher import Matcher
from ...pda.vocabulary import Vocabulary
from ..compiler import CompiledGrammar

LONGEST_PIECE: Final = 32  # bytes; the longer tokens are runs of blanks and the like, which no shortest completion has
KEPT: Final = 4096
KEPT_LENGTH: Final = 2048
_MARK: Final = re.compile(rb"\xff([0-9a-f]{6})")


class ShortestTokenization:
    """Spells bytes in as few tokens as possible; one for each vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._shadows: WeakKeyDictionary[CompiledGrammar, CompiledGrammar | None] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self._vocabulary = vocabulary
        self._spelt: dict[bytes, tuple[int, ...] | None] = {}  # PERF: inside a string each step asks for the same completion

    # PERF: the tables are made when they are first needed: a pass over a vocabulary of 128k tokens takes 30 ms

    @cached_property
    def _ids(self) -> dict[bytes, int]:
        """The first token of each text."""
        ids: dict[bytes, int] = {}
        for token, data in enumerate(self._vocabulary.tokens):
            if data and len(data) <= LONGEST_PIECE:
                ids.setdefault(data, token)
        return ids

    @cached_property
    def longest(self) -> int:
        """The bytes of the longest token that is used."""
        return max(map(len, self._ids))

    @cached_property
    def _bytes(self) -> bytes:
        """The bytes that are tokens by themselves."""
        return bytes(byte for byte in range(256) if bytes([byte]) in self._ids)

    @cached_property
    def has_every_byte(self) -> bool:
        """Whether every byte is a token by itself."""
        return len(self._bytes) == 256

    def prepare(self) -> None:
        """Make the tables now, so that the first request does not pay for them."""
        _ = self.has_every_byte, self.longest

    def has_bytes(self, data: bytes) -> bool:
        """Whether every byte of `data` is a token by itself."""
        return not data.translate(None, self._bytes)

    def spell(self, data: bytes, room: int) -> list[int] | None:
        """At most `room` tokens that spell `data`; None if it needs more, or cannot be spelt."""
        if len(data) > room * self.longest:
            return None
        if data in self._spelt:
            tokens = self._spelt[data]
        else:
            tokens = self._shortest(data)
            if len(self._spelt) >= KEPT:
                self._spelt.clear()
            if len(data) <= KEPT_LENGTH:
                self._spelt[data] = tokens
        return list(tokens) if tokens is not None and len(tokens) <= room else None

    def spell_marked(self, data: bytes, room: int) -> list[int] | None:
        """The same for the completion of a shadow, whose marks are tokens."""
        tokens: list[int] = []
        for place, part in enumerate(_MARK.split(data)):
            if place % 2:
                tokens.append(int(part, 16))
            elif (spelt := self.spell(part, room - len(tokens))) is not None:
                tokens += spelt
            else:
                return None
        return tokens if len(tokens) <= room else None

    def shadow(self, grammar: CompiledGrammar, stops: Sequence[int]) -> Matcher | None:
        """A matcher of the grammar's shadow, None for a grammar that asks for no tokens."""
        with self._lock:
            if grammar not in self._shadows:
                self._shadows[grammar] = self._marked(grammar) if grammar.asks_for_tokens else None
            shadow = self._shadows[grammar]
        return None if shadow is None else shadow.matcher(stops)

    def has_all(self, data: bytes) -> bool:
        """Whether every byte of the completion of a shadow is a token by itself, its marks aside."""
        return self.has_bytes(_MARK.sub(b"", data) if b"\xff" in data else data)

    def _marked(self, grammar: CompiledGrammar) -> CompiledGrammar:
        """The shadow of a grammar."""
        builder, places = GrammarBuilder(), list[NodeId]()
        for rule in grammar.grammar.names:
            builder.rule(rule)
        for node in grammar.grammar.nodes:
            if node[0] == TOKENS:
                token = self._token(*node[1:])
                marks = [] if token is None else [builder.literal(b"\xff%06x" % token)]
                places.append(builder.alt(builder.node(node), *marks))
            else:
                extend(builder, (node,), places, 0)
        rules = tuple(places[rule] for rule in grammar.grammar.rules)
        shadow = Grammar(tuple(builder.nodes), rules, grammar.grammar.names, grammar.grammar.root)
        return CompiledGrammar.build(self._vocabulary, grammar.stats.kind, shadow, None, time.monotonic(), Limits())

    def _token(self, ids: tuple[int, ...], negated: int) -> int | None:
        """A token out of those that a node asks for."""
        if not negated:
            return next((token for token in ids if token not in self._vocabulary.stop_token_ids), None)
        return next((token for token in self._ids.values() if token not in ids), None)

    def _shortest(self, data: bytes) -> tuple[int, ...] | None:
        """The fewest tokens that spell `data`."""
        # steps[i]: the number of tokens for the first i bytes and the length of the last; the least number wins, then the longest token
        steps: list[tuple[int, int] | None] = [(0, 0)] + [None] * len(data)
        for end in range(1, len(data) + 1):
            for start in range(max(0, end - self.longest), end):
                before = steps[start]
                if before is not None and data[start:end] in self._ids:
                    here = steps[end]
                    if here is None or before[0] + 1 < here[0]:
                        steps[end] = (before[0] + 1, end - start)
        tokens: list[int] = []
        end = len(data)
        while end:
            step = steps[end]
            if step is None:
                return None
            tokens.append(self._ids[data[end - step[1] : end]])
            end -= step[1]
        return tuple(tokens[::-1])
