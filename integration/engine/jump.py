"""Text that the grammar forces, as the tokenizer's tokens.

Forced text rarely begins where a token begins: after `{` the model may have gone on with `"na` where the tokenizer has `{"` as one token.
So the last tokens are taken back, and their text together with the forced text is tokenized again.
At the end of the forced text, the model might prefer a longer token; so the last token is left to the model, unless the text ends there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...pda.exceptions import StackmaskError
from ...pda.vocabulary import Vocabulary
from ..forced_drafts import Encode, cut_text
from .guide import Guide
from .kv_cache import RowCache
from .sequence import Sequence as Answer

TAIL: Final = 4  # tokens before the forced text that are cut anew with it


class Jumper:
    """Appends what grammars force; the model sees it in its next pass."""

    def __init__(self, tokenizer: Any, vocabulary: Vocabulary, slots: RowCache) -> None:
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._slots = slots

    def jump(self, answers: Sequence[Answer]) -> bool:
        """Jump for the requests that asked for it, except those with log-probabilities, which forced tokens lack. Whether any jumped."""
        jumped = False
        for answer in answers:
            request = answer.request
            if request.jump_forward and request.logprobs is None and answer.guide is not None and answer.finish_reason is None:
                try:
                    jumped |= self._jump(answer, answer.guide)
                except StackmaskError as error:
                    answer.fail(error)
        return jumped

    def _jump(self, answer: Answer, guide: Guide) -> bool:
        """Append the text that one grammar forces, if that saves passes and leaves room for an end."""
        jump = find_jump(guide, answer.tokens, self._vocabulary, self.encode)
        if jump is None or jump.saved >= answer.room:
            return False
        old = answer.tokens[len(answer.tokens) - jump.back :] if jump.back else []
        guide.rollback(jump.back)
        # A grammar that counts tokens may have other limits spanned where the text is cut into other tokens.
        taken = next((place for place, token in enumerate(jump.tokens) if not guide.accept(token)), len(jump.tokens))
        if taken < len(jump.tokens) or (answer.is_bounded and not guide.can_close(answer.room - jump.saved)):
            guide.rollback(taken)
            fits = all(guide.accept(token) for token in old) and (not answer.is_bounded or guide.can_close(answer.room))
            assert fits, "what was said before is refused"
            return False
        # the last token has no keys yet, those before it have
        self._slots.lengths[answer.row] -= max(0, jump.back - 1)
        answer.replace(jump.back, jump.tokens)
        answer.pending = answer.tokens[self._slots.lengths[answer.row] - len(answer.request.prompt) :]
        answer.stats.jump_tokens += jump.saved
        answer.stats.tokens += jump.saved
        answer.stats.rollbacks += jump.back > 0
        return True

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, without those that begin one."""
        if hasattr(self._tokenizer, "continuation"):
            found: list[int] = self._tokenizer.continuation(text)
            return found
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids


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
    new = cut_text(before + forced, vocabulary, encode)
    if not new:
        return None
    old = list(tokens[len(tokens) - len(pieces) :])
    new = new[:-1]  # it could have gone on past the forced text
    common = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    back = len(old) - common
    kept = b"".join(vocabulary.token_bytes(token) or b"" for token in new)
    if len(kept) < len(before) or len(new) - common <= back:
        return None
    return Jump(back, tuple(new[common:]))
