"""Text that the grammar forces, as the tokens that the tokenizer would make of it.

Forced text rarely begins where a token begins: after `{` the model may have gone on with `"na` where the tokenizer has `{"` as one token.
So the last tokens are taken back, and their text together with the forced text is cut into tokens anew.
Where the forced text ends, the last token could have gone on past it; it is left to the model, unless the text ends there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ...pda.vocabulary import Vocabulary
from .guide import Guide

TAIL: Final = 4  # tokens before the forced text that are cut anew with it

Encode = Callable[[str], list[int]]


@dataclass(frozen=True, slots=True)
class Jump:
    """Tokens to take back, and those to put in their place; `forced` of these were not there before."""

    back: int
    tokens: tuple[int, ...]

    @property
    def saved(self) -> int:
        """Forward passes that it saves: the tokens beyond those taken back."""
        return len(self.tokens) - self.back


def find_jump(guide: Guide, tokens: Sequence[int], vocabulary: Vocabulary, encode: Encode) -> Jump | None:
    """The jump from here; None where nothing is forced or it would save nothing."""
    if not guide.is_active or guide.is_terminated:
        return None
    forced = guide.matcher.find_jump_forward_bytes()
    if not forced:
        return None
    tail = min(TAIL, len(tokens), guide.matcher.num_accepted)
    pieces = [vocabulary.token_bytes(token) for token in tokens[len(tokens) - tail :]]
    while None in pieces:  # a token without text is a border that no token crosses
        del pieces[: pieces.index(None) + 1]
    before = b"".join(piece for piece in pieces if piece is not None)
    try:
        text = (before + forced).decode("utf-8")
    except UnicodeDecodeError:
        return None  # a border inside a character: nothing to cut into tokens
    new = encode(text)
    if b"".join(vocabulary.token_bytes(token) or b"" for token in new) != before + forced:
        return None  # a tokenizer that normalises text would change what was said
    old = list(tokens[len(tokens) - len(pieces) :])
    new = new[:-1]  # it could have gone on past the forced text
    common = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    back = len(old) - common
    kept = b"".join(vocabulary.token_bytes(token) or b"" for token in new)
    if len(kept) < len(before) or len(new) - common <= back:
        return None
    return Jump(back, tuple(new[common:]))
