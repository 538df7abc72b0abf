"""The text that a grammar forces, cut into the tokens that an engine verifies as drafts.

A text can be cut into tokens in several ways. The model most likely continues as its tokenizer would, so that is the cut.
Drafts are verified, and a model that goes another way loses them and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ..pda.matcher import Matcher
from ..pda.vocabulary import Vocabulary

TAIL: Final = 4  # tokens before the forced text that the tokenizer sees with it

Encode = Callable[[str], Sequence[int]]


def forced_tokens(matcher: Matcher, before: Sequence[int | bytes], vocabulary: Vocabulary, encode: Encode) -> list[int]:
    """The tokens of the text that must come next, cut as the tokenizer cuts it behind the tokens `before`.

    The last token is left out: it could go on past the forced text.
    """
    found = cut_behind(before, matcher.find_jump_forward_bytes(), vocabulary, encode).tokens[:-1]
    return found[: matcher.validate_tokens(found)]


class Cut(NamedTuple):
    """The tokens of a text; `is_usual` unless the tokens before it are not those that the tokenizer makes of their text."""

    tokens: list[int]
    is_usual: bool


def cut_behind(before: Sequence[int | bytes], text: bytes, vocabulary: Vocabulary, encode: Encode) -> Cut:
    """A text cut as the tokenizer cuts it behind tokens, of which it sees the last; no tokens where it cannot be cut there."""
    old: list[int] = []
    for token in reversed(before[-TAIL:]):
        if not isinstance(token, int) or vocabulary.token_bytes(token) is None:
            break
        old.insert(0, token)
    for seen in (old, []) if text else ():  # where the model cut the text before otherwise than the tokenizer, the text by itself
        tokens = _cut(b"".join(vocabulary.token_bytes(token) or b"" for token in seen), text, vocabulary, encode)
        if tokens[: len(seen)] == seen and len(tokens) > len(seen):
            return Cut(tokens[len(seen) :], seen == old)
    return Cut([], is_usual=True)


def _cut(before: bytes, text: bytes, vocabulary: Vocabulary, encode: Encode) -> list[int]:
    """The tokenizer's tokens of a text; none where it would change the text."""
    try:
        tokens = list(encode((before + text).decode("utf-8")))
    except UnicodeDecodeError:
        return []
    same = b"".join(vocabulary.token_bytes(token) or b"" for token in tokens) == before + text
    return tokens if same else []
