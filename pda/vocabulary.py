"""The vocabulary of a model: the bytes of each token id, the ids that end the text, and the ids that have a name instead of text.

An id is one of four things.
A *text* token stands for bytes, and several ids may stand for the same bytes.
A *special* token has a name, such as `<|eot_id|>`, and no text: no text matches it, a grammar can only ask for it by its id.
A *stop* token ends the text; it has no text either.
Everything else, unused ids and the padding of the logits up to `size`, can never be generated.

The engine's trie over the text tokens is built with the vocabulary and shared by every grammar.
`stackmask.integration.tokenizers` extracts the bytes from a tokenizer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Self

import numpy as np

from .engine import TokenTrie
from .exceptions import VocabularyError

MAX_SIZE: Final = 1 << 24  # a hundred times the largest vocabulary in use; ids and trie nodes are 32-bit numbers in the kernel


class Vocabulary:
    """The tokens of a model, immutable and shared by every grammar compiled for it.

    >>> vocabulary = Vocabulary.from_bytes([b"a", b"ab", None], stop_token_ids=[2], size=32)
    >>> vocabulary.token_bytes(1), vocabulary.token_bytes(2), vocabulary.token_bytes(31)
    (b'ab', None, None)
    """

    __slots__ = ("_fingerprint", "_size", "_special", "_stop_token_ids", "_tokens", "_trie")

    _tokens: tuple[bytes | None, ...]
    _stop_token_ids: tuple[int, ...]
    _special: Mapping[str, int]
    _size: int
    _trie: TokenTrie
    _fingerprint: str | None

    def __init__(self, *arguments: object, **options: object) -> None:
        raise TypeError("a Vocabulary is made by from_bytes, from_transformers, from_tiktoken or from_sentencepiece")

    @classmethod
    def from_bytes(
        cls,
        tokens: Sequence[bytes | None],
        *,
        stop_token_ids: Iterable[int],
        special: Mapping[str, int] = MappingProxyType({}),
        size: int | None = None,
    ) -> Self:
        """The vocabulary in which token i stands for the bytes `tokens[i]`.

        `None` and empty bytes mean that an id has no text.
        `special` names the ids of special tokens; special tokens and stop tokens have no text even if `tokens` gives them some.
        `size` is the width of the model's logits, if that is more than `len(tokens)`.
        """
        return cls._make(list(tokens), stop_token_ids=stop_token_ids, special=special, named={}, size=size)

    @classmethod
    def _make(
        cls,
        tokens: list[bytes | None],
        *,
        stop_token_ids: Iterable[int],
        special: Mapping[str, int],
        named: Mapping[str, int],
        size: int | None,
    ) -> Self:
        """A vocabulary from a list that it may keep; `named` are ids that have a name and keep their text."""
        size = len(tokens) if size is None else _integer("size", size)
        stops = tuple(sorted({_integer("a stop token id", stop) for stop in stop_token_ids}))
        if not 0 < size <= MAX_SIZE:
            raise VocabularyError(f"the size is {size}, outside 1..{MAX_SIZE}")
        for name, token in [*special.items(), *named.items()]:
            if not isinstance(name, str):
                raise VocabularyError(f"the name of a special token must be a string, not {type(name).__name__}")
            if not 0 <= _integer(f"the id of special token {name!r}", token) < size:
                raise VocabularyError(f"special token {name!r} has the id {token}, outside 0..{size - 1}")
        for stop in stops:
            if not 0 <= stop < size:
                raise VocabularyError(f"stop token id {stop} is outside 0..{size - 1}")
        if len(tokens) > size:
            raise VocabularyError(f"{len(tokens)} tokens do not fit the size {size}")
        if foreign := set(map(type, tokens)) - {bytes, type(None)}:
            raise VocabularyError(f"a token must be bytes or None, not {', '.join(sorted(kind.__name__ for kind in foreign))}")
        tokens += [None] * (max((-1, *special.values(), *named.values())) + 1 - len(tokens))  # a named token is not padding
        for token in (*special.values(), *stops):
            if token < len(tokens):
                tokens[token] = None
        if b"" in tokens:
            tokens = [token or None for token in tokens]
        if not any(tokens):
            raise VocabularyError("no token has any text")
        self = cls.__new__(cls)
        self._tokens = tuple(tokens)
        self._stop_token_ids = stops
        self._special = MappingProxyType({str.__str__(name): int(token) for name, token in {**named, **special}.items()})
        self._size = size
        self._trie = TokenTrie(tokens, size)
        self._fingerprint = None
        return self

    def __copy__(self) -> Self:
        return self  # immutable, so it is its own copy

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the tokens; the process that reads them rebuilds the engine's trie."""
        return _restored, (type(self), self._tokens, self._stop_token_ids, dict(self._special), self._size)

    @property
    def size(self) -> int:
        """The width of the model's logits, padding included."""
        return self._size

    @property
    def tokens(self) -> tuple[bytes | None, ...]:
        """The bytes of each id, None if it has no text; ids past the end are padding."""
        return self._tokens

    @property
    def stop_token_ids(self) -> tuple[int, ...]:
        """The ids that end the text, ascending."""
        return self._stop_token_ids

    @property
    def special(self) -> Mapping[str, int]:
        """The ids that a grammar can ask for by name: special tokens, and text tokens added to a tokenizer under a name."""
        return self._special

    @property
    def trie(self) -> TokenTrie:
        """The engine's trie over the text tokens."""
        return self._trie

    @property
    def fingerprint(self) -> str:
        """A hash of everything that masks depend on, equal in every process: token bytes, named ids, stop tokens and size."""
        if self._fingerprint is None:
            self._fingerprint = _fingerprint(self)
        return self._fingerprint

    def token_bytes(self, token_id: int) -> bytes | None:
        """The bytes of a token, None if it has no text."""
        if not 0 <= token_id < self._size:
            raise ValueError(f"token id {token_id} is outside 0..{self._size - 1}")
        return self._tokens[token_id] if token_id < len(self._tokens) else None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} size={self._size} stop_token_ids={list(self._stop_token_ids)} named={len(self._special)}>"


def _integer(what: str, value: object) -> int:
    """`value` as an int; booleans and everything that is not an integer are refused."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise VocabularyError(f"{what} must be an integer, not {type(value).__name__}")
    return int(value)


def _restored(
    kind: type[Vocabulary], tokens: tuple[bytes | None, ...], stops: tuple[int, ...], special: Mapping[str, int], size: int
) -> Vocabulary:
    """A vocabulary from a pickle; named tokens keep their text."""
    return kind._make(list(tokens), stop_token_ids=stops, special={}, named=special, size=size)


def _fingerprint(vocabulary: Vocabulary) -> str:
    """The hash behind `Vocabulary.fingerprint`; lengths delimit the bytes, so no two vocabularies share an encoding."""
    tokens = [token or b"" for token in vocabulary.tokens]
    lengths = np.trim_zeros(np.fromiter(map(len, tokens), np.dtype("<u4"), len(tokens)), "b")  # padding counts as tokens without text
    state = hashlib.sha256(b"stackmask vocabulary 1\n")
    named = sorted(vocabulary.special.items())
    for part in (lengths.tobytes(), b"".join(tokens), repr((vocabulary.size, vocabulary.stop_token_ids, named)).encode()):
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.hexdigest()
