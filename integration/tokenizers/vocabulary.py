"""Vocabularies from tokenizers: Hugging Face, tiktoken, SentencePiece and mistral-common.

The bytes of a token come from the tokenizer's own tables and decoder, never from its name or class, so that
`b"".join(vocabulary.token_bytes(i) for i in ids)` is the text that the tokenizer decodes from these ids.
Tokens marked as special are not text; unmarked added tokens are text like any other, and a grammar can name them too.

This module imports none of these libraries: a caller with a tokenizer has imported its library.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from ...pda import vocabulary as pda
from ...pda.exceptions import VocabularyError
from .decoders import SENTENCEPIECE, decode_pieces

StopTokens = int | Iterable[int] | None


class Vocabulary(pda.Vocabulary):
    """The tokens of a model, immutable and shared by every grammar compiled for it.

    Without `stop_token_ids`, the stop tokens are those that the tokenizer calls its end of text, and those of the
    `generation_config.json` beside it if there is one.
    `size` is the width of the model's logits, which is often padded to a multiple of 64 or 128; ids beyond it are left out.
    """

    __slots__ = ()

    @classmethod
    def from_transformers(cls, tokenizer: Any, size: int | None = None, stop_token_ids: StopTokens = None) -> Self:
        """The vocabulary of a `transformers` tokenizer, whatever its backend, or of a `tokenizers.Tokenizer`."""
        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        if not hasattr(backend, "get_added_tokens_decoder"):
            return cls._from_python_tokenizer(tokenizer, size, stop_token_ids)
        decoder = None if backend.decoder is None else json.loads(backend.decoder.__getstate__())
        added = backend.get_added_tokens_decoder()
        vocab = backend.get_vocab(with_added_tokens=False)
        pieces = [*vocab, *(token.content for token in added.values())]  # an added token takes the id of a model's token from it
        tokens = _by_id(decode_pieces(pieces, decoder), [*vocab.values(), *added])
        return cls._finish(tokens, added, tokenizer, size, stop_token_ids)

    @classmethod
    def from_tiktoken(
        cls, encoding: Any, size: int | None = None, stop_token_ids: StopTokens = None, special: Mapping[str, int] | None = None
    ) -> Self:
        """The vocabulary of a `tiktoken.Encoding`; `special` adds special tokens that the encoding does not know.

        Without `stop_token_ids`, the stop token is `<|endoftext|>`.
        """
        ranks: Mapping[bytes, int] = encoding._mergeable_ranks
        names = {**encoding._special_tokens, **(special or {})}
        stops = _stops(stop_token_ids, [names.get("<|endoftext|>")])
        return cls._fit(_by_id(ranks, ranks.values()), size, stops, special=names)

    @classmethod
    def from_sentencepiece(cls, processor: Any, size: int | None = None, stop_token_ids: StopTokens = None) -> Self:
        """The vocabulary of a `sentencepiece.SentencePieceProcessor`; without `stop_token_ids`, the stop token is its end-of-sentence."""
        ids = list(range(processor.get_piece_size()))
        pieces: list[str] = processor.id_to_piece(ids)
        tokens: list[bytes | None] = [*decode_pieces(pieces, SENTENCEPIECE)]
        for token, (piece, is_byte) in enumerate(zip(pieces, processor.is_byte(ids), strict=True)):
            if len(piece) == 6 and piece.startswith("<0x") and not is_byte:
                tokens[token] = piece.replace("▁", " ").encode()  # a piece spelt like a byte, which is none
        nameless = zip(processor.is_control(ids), processor.is_unknown(ids), strict=True)
        special = {pieces[token]: token for token, kinds in enumerate(nameless) if any(kinds)}
        return cls._fit(tokens, size, _stops(stop_token_ids, [processor.eos_id()]), special=special)

    @classmethod
    def from_mistral(cls, tokenizer: Any, size: int | None = None, stop_token_ids: StopTokens = None) -> Self:
        """The vocabulary of a mistral-common tokenizer: `MistralTokenizer`, `Tekkenizer` or `SentencePieceTokenizer`."""
        inner = tokenizer.instruct_tokenizer.tokenizer if hasattr(tokenizer, "instruct_tokenizer") else tokenizer
        stops = [inner.eos_id] if stop_token_ids is None else stop_token_ids
        if not hasattr(inner, "_tekken_token2id_nospecial"):
            return cls.from_sentencepiece(inner._model, size, stops)
        ranks: Mapping[bytes, int] = inner._tekken_token2id_nospecial
        tokens = [None] * inner.num_special_tokens + _by_id(ranks, ranks.values())
        special = {token["token_str"]: token["rank"] for token in inner._all_special_tokens}
        return cls._fit(tokens, size, _stops(stops, []), special=special)

    @classmethod
    def _from_python_tokenizer(cls, tokenizer: Any, size: int | None, stop_token_ids: StopTokens) -> Self:
        """The vocabulary of a tokenizer whose algorithm is not in `tokenizers`: a wrapper around another library."""
        if hasattr(getattr(tokenizer, "tokenizer", None), "instruct_tokenizer"):
            return cls.from_mistral(tokenizer.tokenizer, size, stop_token_ids)
        if hasattr(tokenizer, "sp_model"):
            pieces = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
            tokens: list[bytes | None] = [*decode_pieces((piece or "" for piece in pieces), SENTENCEPIECE)]
        elif encodings := [value for value in vars(tokenizer).values() if hasattr(value, "_mergeable_ranks")]:
            added, ranks = tokenizer.added_tokens_decoder, encodings[0]._mergeable_ranks
            tokens = _by_id([*ranks, *(token.content.encode() for token in added.values())], [*ranks.values(), *added])
        else:
            raise VocabularyError(
                f"{type(tokenizer).__name__} contains neither a tokenizers.Tokenizer, nor a SentencePiece model, nor a tiktoken encoding; "
                "Vocabulary.from_bytes takes the bytes of each token"
            )
        return cls._finish(tokens, tokenizer.added_tokens_decoder, tokenizer, size, stop_token_ids)

    @classmethod
    def _finish(
        cls, tokens: list[bytes | None], added: Mapping[int, Any], tokenizer: Any, size: int | None, stop_token_ids: StopTokens
    ) -> Self:
        """The vocabulary of a Hugging Face tokenizer, given the bytes of its tokens and its added tokens."""
        special = {token.content: index for index, token in added.items() if token.special}
        special |= zip(getattr(tokenizer, "all_special_tokens", ()), getattr(tokenizer, "all_special_ids", ()), strict=True)
        named = {token.content: index for index, token in added.items() if not token.special}
        stops = _stops(stop_token_ids, [getattr(tokenizer, "eos_token_id", None), *_generation_stops(tokenizer)])
        return cls._fit(tokens, size, stops, special=special, named=named)

    @classmethod
    def _fit(
        cls,
        tokens: list[bytes | None],
        size: int | None,
        stops: tuple[Sequence[int], bool],
        *,
        special: Mapping[str, int],
        named: Mapping[str, int] | None = None,
    ) -> Self:
        """The vocabulary cut to the width of the logits: tokens beyond it are left out, unless they are wanted as stop tokens."""
        stop_token_ids, asked = stops
        names = {**special, **(named or {})}
        width = max(len(tokens), max(names.values(), default=-1) + 1) if size is None else size
        kept = [stop for stop in stop_token_ids if asked or stop < width]
        if not kept and not asked:
            raise VocabularyError("the tokenizer names no token that ends the text: pass stop_token_ids")
        return cls._make(
            tokens[:width] if width >= 0 else tokens,
            stop_token_ids=kept,
            special={name: token for name, token in special.items() if token < width},
            named={name: token for name, token in (named or {}).items() if token < width},
            size=size if size is not None else width,
        )


def model_vocabulary(tokenizer: Any, size: int, stop_token_ids: StopTokens = None) -> Vocabulary:
    """The vocabulary of a model with logits of this width: `tokenizer.vocabulary`, or that of a transformers tokenizer."""
    own: Vocabulary | None = getattr(tokenizer, "vocabulary", None)
    return own if own is not None else Vocabulary.from_transformers(tokenizer, size=size, stop_token_ids=stop_token_ids)


def _by_id(tokens: Iterable[bytes], ids: Collection[int]) -> list[bytes | None]:
    """Tokens at the place of their id, None where an id is missing; of two tokens with one id the later counts."""
    placed: list[bytes | None] = [None] * (max(ids, default=-1) + 1)
    for token, index in zip(tokens, ids, strict=True):
        placed[index] = token
    return placed


def _stops(asked: StopTokens, found: Iterable[object]) -> tuple[Sequence[int], bool]:
    """The stop tokens and whether the caller asked for them; among those found, None and -1 stand for none."""
    if asked is not None:
        return [asked] if isinstance(asked, int) else list(asked), True
    return [token for token in found if isinstance(token, int) and token >= 0], False


def _generation_stops(tokenizer: Any) -> list[object]:
    """The stop tokens of the `generation_config.json` that came with a tokenizer, if it is on this disk."""
    name = getattr(tokenizer, "name_or_path", None)
    if not name:
        return []
    path: str | Path | None = Path(name) / "generation_config.json"
    if not Path(name).is_dir():
        from transformers.utils.hub import cached_file  # a tokenizer with a name came from there

        try:
            path = cached_file(name, "generation_config.json", local_files_only=True)
        except OSError:
            return []
    try:
        config = json.loads(Path(path or "").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    stops = config.get("eos_token_id") if isinstance(config, dict) else None
    return list(stops) if isinstance(stops, list) else [stops]
