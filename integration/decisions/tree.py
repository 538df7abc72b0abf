"""The tokens that spell the texts of a grammar: at each place the tokens that continue, and those that end the text.

    Spellings   every way to cut the texts into tokens: the places are those of a matcher
    Canonical   the tokenizer's own way alone: a trie over the tokens of each text

Both give `(tokens that lead on, tokens that end)`, and the place behind a token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from ...pda.exceptions import LimitError
from ...pda.matcher import Matcher
from ..compiler import CompiledGrammar


class Tree(Protocol):
    """The places that tokens lead to; a place is whatever the tree makes of it."""

    root: Any

    def options(self, place: Any) -> tuple[list[int], list[int]]:
        """The tokens that lead on from a place, and those that end the text there."""

    def step(self, place: Any, token: int) -> Any:
        """The place behind a token."""


class Spellings:
    """All tokenizations of the texts of a grammar."""

    def __init__(self, grammar: CompiledGrammar) -> None:
        self.root = grammar.matcher()
        self._stops = frozenset(grammar.vocabulary.stop_token_ids)

    def options(self, place: Matcher) -> tuple[list[int], list[int]]:
        """The tokens that the grammar allows."""
        allowed = place.allowed_tokens()
        return [token for token in allowed if token not in self._stops], [token for token in allowed if token in self._stops]

    def step(self, place: Matcher, token: int) -> Matcher:
        """A matcher behind a token."""
        fork = place.fork()
        accepted = fork.accept_token(token)
        assert accepted, f"the mask allowed token {token}, the matcher refuses it"
        return fork


class _Node:
    """A place of the trie."""

    __slots__ = ("ends", "next")

    def __init__(self) -> None:
        self.next: dict[int, _Node] = {}
        self.ends = False


class Canonical:
    """One tokenization of each text, that of the tokenizer for the text by itself."""

    def __init__(self, texts: Iterable[bytes], encode: Callable[[str], Sequence[int]], grammar: CompiledGrammar) -> None:
        self.root = _Node()
        self._stops = list(grammar.vocabulary.stop_token_ids)
        for text in texts:
            node = self.root
            tokens = encode(text.decode("utf-8"))
            if b"".join(grammar.vocabulary.token_bytes(token) or b"" for token in tokens) != text:
                raise ValueError(f"the tokenizer changes the text {text.decode()!r}, so that it has no tokenization of its own")
            for token in tokens:
                node = node.next.setdefault(token, _Node())
            node.ends = True

    def options(self, place: _Node) -> tuple[list[int], list[int]]:
        """The tokens of the texts that continue from here."""
        return list(place.next), self._stops if place.ends else []

    def step(self, place: _Node, token: int) -> _Node:
        """The place behind a token."""
        return place.next[token]


def texts_of(grammar: CompiledGrammar, limit: int) -> list[bytes]:
    """All texts of a grammar, byte by byte; LimitError where there are more than `limit` beginnings of them."""
    found: list[bytes] = []
    waiting: list[tuple[bytes, Matcher]] = [(b"", grammar.matcher())]
    seen = 1
    while waiting:
        text, matcher = waiting.pop()
        if matcher.is_completed():
            found.append(text)
        for value in matcher.next_bytes():
            fork = matcher.fork()
            fork.accept_bytes(bytes([value]))
            waiting.append((text + bytes([value]), fork))
            seen += 1
            if seen > limit:
                raise LimitError(f"the texts of the grammar have more than {limit} beginnings; this takes grammars with few texts")
    return sorted(found)
