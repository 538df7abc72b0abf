"""The vocabulary, as XGrammar describes it."""

from __future__ import annotations

import enum
import json
from collections.abc import Sequence
from typing import Any, Final

from ..tokenizers import Vocabulary
from ..tokenizers.decoders import SENTENCEPIECE, decode_pieces
from .exception import DeserializeFormatError, InvalidJSONError, UnsupportedOptionError, runtime_errors

StopTokens = list[int] | int | None


class VocabType(enum.Enum):
    """The notations of bytes in the pieces of a vocabulary."""

    RAW = 0
    BYTE_FALLBACK = 1
    BYTE_LEVEL = 2


_DECODERS = {VocabType.BYTE_FALLBACK: SENTENCEPIECE, VocabType.BYTE_LEVEL: {"type": "ByteLevel"}}


_TOLD_BY: Final = 4096
"""The number of pieces from which the notation of a tokenizer is detected; the spellings of single bytes are among the first."""


class TokenizerInfo:
    """A vocabulary of pieces. `stop_token_ids` must be given, because a list of pieces does not show them."""

    def __init__(
        self,
        encoded_vocab: Sequence[bytes] | Sequence[str],
        vocab_type: VocabType = VocabType.RAW,
        *,
        vocab_size: int | None = None,
        stop_token_ids: StopTokens = None,
        add_prefix_space: bool = False,
    ) -> None:
        if stop_token_ids is None:
            raise UnsupportedOptionError("stackmask does not guess stop tokens by their spelling: pass stop_token_ids")
        stops = [stop_token_ids] if isinstance(stop_token_ids, int) else stop_token_ids
        with runtime_errors():
            tokens = _decode(encoded_vocab, vocab_type)[:vocab_size]
            self._init(Vocabulary.from_bytes(tokens, stop_token_ids=stops, size=vocab_size), vocab_type, add_prefix_space)

    def _init(self, vocabulary: Vocabulary, vocab_type: VocabType, add_prefix_space: bool) -> None:
        self._vocabulary = vocabulary
        self._vocab_type = vocab_type
        self._add_prefix_space = add_prefix_space

    @classmethod
    def _of(cls, vocabulary: Vocabulary, vocab_type: VocabType, add_prefix_space: bool) -> TokenizerInfo:
        info = cls.__new__(cls)
        info._init(vocabulary, vocab_type, add_prefix_space)
        return info

    @staticmethod
    def from_huggingface(tokenizer: Any, *, vocab_size: int | None = None, stop_token_ids: StopTokens = None) -> TokenizerInfo:
        """The vocabulary of a Hugging Face tokenizer."""
        with runtime_errors():
            vocabulary = Vocabulary.from_transformers(tokenizer, vocab_size, stop_token_ids)
            return TokenizerInfo._of(vocabulary, _spelling(tokenizer, vocabulary), False)

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of stackmask."""
        return self._vocabulary

    @property
    def vocab_type(self) -> VocabType:
        """The notation of the pieces; RAW for a tokenizer with none of the other notations."""
        return self._vocab_type

    @property
    def vocab_size(self) -> int:
        """The width of the logits."""
        return self._vocabulary.size

    @property
    def add_prefix_space(self) -> bool:
        """The value passed for it; masks do not depend on it."""
        return self._add_prefix_space

    @property
    def prepend_space_in_tokenization(self) -> bool:
        """The older name of `add_prefix_space`."""
        return self._add_prefix_space

    @property
    def decoded_vocab(self) -> list[bytes]:
        """The bytes of each id, empty where it has no text."""
        tokens = [token or b"" for token in self._vocabulary.tokens]
        return tokens + [b""] * (self.vocab_size - len(tokens))

    @property
    def stop_token_ids(self) -> list[int]:
        """The ids that end a text."""
        return list(self._vocabulary.stop_token_ids)

    @property
    def special_token_ids(self) -> list[int]:
        """The ids without text that end nothing."""
        stops = set(self._vocabulary.stop_token_ids)
        return [token for token, data in enumerate(self.decoded_vocab) if not data and token not in stops]

    def dump_metadata(self) -> str:
        """Everything but the pieces, as JSON."""
        return json.dumps(
            {
                "vocab_type": self._vocab_type.value,
                "vocab_size": self.vocab_size,
                "add_prefix_space": self._add_prefix_space,
                "stop_token_ids": self.stop_token_ids,
            }
        )

    @staticmethod
    def from_vocab_and_metadata(encoded_vocab: Sequence[bytes | str], metadata: str) -> TokenizerInfo:
        """A vocabulary out of its pieces and `dump_metadata`."""
        values = _object(metadata)
        try:
            return TokenizerInfo(
                encoded_vocab,  # type: ignore[arg-type]
                VocabType(values["vocab_type"]),
                vocab_size=values["vocab_size"],
                stop_token_ids=values["stop_token_ids"],
                add_prefix_space=values["add_prefix_space"],
            )
        except (KeyError, ValueError) as error:
            raise DeserializeFormatError(f"this is not the metadata of a tokenizer: {error}") from error

    def serialize_json(self) -> str:
        """The vocabulary as JSON."""
        vocabulary = self._vocabulary
        tokens = [None if token is None else token.decode("latin-1") for token in vocabulary.tokens]
        return json.dumps({**json.loads(self.dump_metadata()), "tokens": tokens, "names": dict(vocabulary.special)})

    @staticmethod
    def deserialize_json(json_string: str) -> TokenizerInfo:
        """The vocabulary that `serialize_json` wrote."""
        values = _object(json_string)
        try:
            tokens = [None if token is None else token.encode("latin-1") for token in values["tokens"]]
            names = values["names"].items()
            vocabulary = Vocabulary._make(
                tokens,
                stop_token_ids=values["stop_token_ids"],
                special={name: token for name, token in names if token >= len(tokens) or tokens[token] is None},
                named={name: token for name, token in names if token < len(tokens) and tokens[token] is not None},
                size=values["vocab_size"],
            )
            return TokenizerInfo._of(vocabulary, VocabType(values["vocab_type"]), bool(values["add_prefix_space"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DeserializeFormatError(f"this is not a tokenizer: {error}") from error


def _decode(pieces: Sequence[bytes | str], vocab_type: VocabType) -> list[bytes | None]:
    """The bytes of pieces."""
    if vocab_type is VocabType.RAW:
        return [piece.encode() if isinstance(piece, str) else piece for piece in pieces]
    return [*decode_pieces([piece if isinstance(piece, str) else piece.decode() for piece in pieces], _DECODERS[vocab_type])]


def _spelling(tokenizer: Any, vocabulary: Vocabulary) -> VocabType:
    """The type by which the first pieces of a tokenizer decode to the tokens that were read from it; RAW where none does."""
    pieces = tokenizer.get_vocab() if hasattr(tokenizer, "get_vocab") else {}
    added = tokenizer.get_added_vocab() if hasattr(tokenizer, "get_added_vocab") else {}  # spelled as they are
    texts = {
        piece: text
        for piece, token in pieces.items()
        if token < _TOLD_BY and piece not in added and (text := vocabulary.token_bytes(token)) is not None
    }
    for vocab_type in (VocabType.BYTE_LEVEL, VocabType.BYTE_FALLBACK):
        decoded = decode_pieces(texts, _DECODERS[vocab_type])
        if texts and all(found == text for found, text in zip(decoded, texts.values(), strict=True)):
            return vocab_type
    return VocabType.RAW


def _object(text: str) -> dict[str, Any]:
    """The object of a JSON text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidJSONError(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise DeserializeFormatError(f"not an object but {type(value).__name__}")
    return value
