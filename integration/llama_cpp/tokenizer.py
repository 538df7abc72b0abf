"""The vocabulary and the tokenizer inside a GGUF file, as llama.cpp reads them.

What a token stands for is asked of llama.cpp (`llama_token_to_piece`), which undoes the escapes of each kind of vocabulary: GPT-2's
alphabet for bytes, SentencePiece's `▁` and `<0x0A>`. Control tokens have no text. Tokens that a user defined have theirs, and can be named
by a grammar. Stop tokens are all that llama.cpp takes for the end of a generation.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from ...pda.exceptions import VocabularyError
from ..tokenizers import Vocabulary
from .library import Library

NO_VOCABULARY: Final = 0
SENTENCEPIECE: Final = 1
WORDPIECE: Final = 3
UNKNOWN, UNUSED, CONTROL, USER_DEFINED = 1 << 0, 1 << 1, 1 << 3, 1 << 4

LONGEST_PIECE: Final = 1 << 16


def read_vocabulary(library: Library, model: int | None) -> Vocabulary:
    """The vocabulary of a model that llama.cpp has loaded; `model` is the address of its `llama_model`."""
    vocab = library.llama_model_get_vocab(model)
    kind = library.llama_vocab_type(vocab)
    if kind in (NO_VOCABULARY, WORDPIECE):
        why = "has no vocabulary" if kind == NO_VOCABULARY else "has WordPiece's vocabulary, whose blanks depend on the tokens around them"
        raise VocabularyError(f"the model {why}")
    tokens: list[bytes | None] = []
    special: dict[str, int] = {}
    named: dict[str, int] = {}
    stops: list[int] = []
    buffer = ctypes.create_string_buffer(LONGEST_PIECE)
    for token in range(library.llama_vocab_n_tokens(vocab)):
        attributes = library.llama_vocab_get_attr(vocab, token)
        if library.llama_vocab_is_eog(vocab, token):
            stops.append(token)
        if attributes & (UNKNOWN | UNUSED | CONTROL | USER_DEFINED):
            name = library.llama_vocab_get_text(vocab, token).decode("utf-8", "replace")
            (named if attributes & USER_DEFINED else special).setdefault(name, token)
        length = library.llama_token_to_piece(vocab, token, buffer, LONGEST_PIECE, 0, False)
        if length < 0:
            raise VocabularyError(f"token {token} has {-length} bytes, more than {LONGEST_PIECE}")
        tokens.append(buffer.raw[:length] or None)
    return Vocabulary._fit(tokens, None, (stops, False), special=special, named=named)


class LlamaTokenizer:
    """A GGUF's tokenizer, with those methods of a Hugging Face tokenizer that prompts need.

    `model` is the address of a `llama_model` of `library`; `owner` is kept, so that it lives as long.
    """

    def __init__(self, library: Library, model: int | None, *, owner: object = None) -> None:
        self._library = library
        self._model = model
        self._owner = owner
        self._vocab = library.llama_model_get_vocab(model)
        self.eos_token_id: int | None = self._token(library.llama_vocab_eos(self._vocab))
        self.bos_token_id: int | None = self._token(library.llama_vocab_bos(self._vocab))
        template = library.llama_model_chat_template(model, None)
        self.chat_template: str | None = None if template is None else template.decode("utf-8", "replace")

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Its tokens."""
        return read_vocabulary(self._library, self._model)

    def __call__(self, text: str, *, add_special_tokens: bool = True) -> dict[str, list[int]]:
        """The token ids of a text, in which the names of special tokens stand for these: `{"input_ids": [...]}`."""
        return {"input_ids": self._tokenize(text.encode(), add_special_tokens)}

    def continuation(self, text: str) -> list[int]:
        """The token ids of a text that continues after another: SentencePiece puts no blank before it."""
        if self._library.llama_vocab_type(self._vocab) != SENTENCEPIECE:
            return self._tokenize(text.encode(), special=False)
        mark = b"\n"
        ids = self._tokenize(mark + text.encode(), special=False)
        spelled, pieces = b"", self.vocabulary
        for place, token in enumerate(ids):
            if spelled.lstrip(b" ") == mark:
                return ids[place:]
            spelled += pieces.token_bytes(token) or b""
        return self._tokenize(text.encode(), special=False)  # the mark is part of a token: no place is known where the text begins

    def apply_chat_template(
        self,
        conversation: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Any] | None = None,
        add_generation_prompt: bool = False,
        tokenize: bool = False,
        **options: Any,
    ) -> str:
        """The prompt of a chat as a text, by the template in the file."""
        from transformers.utils.chat_template_utils import render_jinja_template

        if self.chat_template is None:
            raise ValueError("the GGUF file has no chat template")
        if tokenize:
            raise ValueError("apply_chat_template of a GGUF's tokenizer gives text; call the tokenizer with it for ids")
        names = {"bos_token": self._name(self.bos_token_id), "eos_token": self._name(self.eos_token_id)}
        rendered: Any = render_jinja_template(
            conversations=[[dict(message) for message in conversation]],
            tools=list(tools) if tools else None,
            chat_template=self.chat_template,
            add_generation_prompt=add_generation_prompt,
            **{**names, **options},
        )
        texts: list[str] = rendered[0] if isinstance(rendered, tuple) else rendered
        return texts[0]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens, special ones left out."""
        return b"".join(self.vocabulary.token_bytes(token) or b"" for token in ids).decode("utf-8", "replace")

    def _tokenize(self, data: bytes, special: bool) -> list[int]:
        room = len(data) + 8
        while True:
            ids = (ctypes.c_int32 * room)()
            count = self._library.llama_tokenize(self._vocab, data, len(data), ids, room, special, True)
            if count >= 0:
                return list(ids[:count])
            room = -count

    def _name(self, token: int | None) -> str:
        return "" if token is None else self._library.llama_vocab_get_text(self._vocab, token).decode("utf-8", "replace")

    @staticmethod
    def _token(token: int) -> int | None:
        return None if token < 0 else token
