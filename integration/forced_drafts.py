"""The text that a grammar forces, cut into the tokens that an engine verifies as drafts.

A text can be cut into tokens in several ways. The model most likely continues as its tokenizer would, so that is the cut.
Drafts are verified, and a model that goes another way loses them and nothing else.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ..pda.matcher import Matcher
from ..pda.vocabulary import Vocabulary

TAIL: Final = 4  # tokens before the forced text that the tokenizer sees with it
LONGEST_TOKEN: Final = 64  # bytes of text looked at for each draft; longer tokens are blanks and rulers

_CONTINUATIONS: Final = frozenset(bytes([byte]) for byte in range(0x80, 0xC0))  # bytes of UTF-8 that begin no character

Encode = Callable[[str], Sequence[int]]


def forced_tokens(matcher: Matcher, before: Sequence[int], most: int, encode: Encode) -> list[int]:
    """At most `most` tokens of the text that must come next, cut as the tokenizer cuts it behind the tokens `before`.

    The last token is left out: it could go on past the forced text.
    """
    text = matcher.find_jump_forward_bytes()[: LONGEST_TOKEN * (most + 1)]
    found = cut_behind(before, text, matcher.vocabulary, encode).tokens[:-1][:most]
    return found[: matcher.validate_tokens(found)]


class Cut(NamedTuple):
    """The tokens of a text; `is_usual` unless the tokens before it are not those that the tokenizer makes of their text."""

    tokens: list[int]
    is_usual: bool


def cut_behind(before: Sequence[int], text: bytes, vocabulary: Vocabulary, encode: Encode) -> Cut:
    """A text, or its whole characters, cut as the tokenizer cuts it behind tokens; none where it cannot be cut there.

    The tokenizer sees the last tokens before the text: those behind which its own cut has a border.
    """
    old: list[int] = []
    for token in reversed(before[-TAIL:]):
        if vocabulary.token_bytes(token) is None:
            break
        old.insert(0, token)
    while old and (vocabulary.token_bytes(old[0]) or b"")[:1] in _CONTINUATIONS:  # nor does it see the end of a character
        del old[0]
    for first in range(len(old) + 1) if text else ():  # fewer where the model cut the text before otherwise than the tokenizer
        seen = old[first:]
        tokens = cut_text(_bytes(seen, vocabulary) + text, vocabulary, encode)
        if tokens[: len(seen)] == seen and len(tokens) > len(seen):
            return Cut(tokens[len(seen) :], is_usual=first == 0)
    return Cut([], is_usual=True)


def cut_text(data: bytes, vocabulary: Vocabulary, encode: Encode) -> list[int]:
    """The tokenizer's tokens of the whole characters of a text; none where it would change the text.

    SentencePiece puts a blank before the first word. Behind a line break it puts none, so there the text is cut a second time.
    """
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return []
    for start in ("", "\n"):
        head = list(encode(start)) if start else []
        tokens = list(encode(start + text))
        rest = tokens[len(head) :]
        if tokens[: len(head)] == head and _bytes(rest, vocabulary) == text.encode():
            return rest
    return []


def _bytes(tokens: Sequence[int], vocabulary: Vocabulary) -> bytes:
    return b"".join(vocabulary.token_bytes(token) or b"" for token in tokens)
