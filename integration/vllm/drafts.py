"""Forced text as drafts: where a grammar leaves one continuation, vLLM verifies it in one step in the place of a step for each token.

vLLM asks the grammar of each request which drafts of its proposer fit. Behind those that do, this puts the tokens of the text that must
come, up to the number of drafts that vLLM is configured for. They are verified as any draft is, so the distribution is the model's own:
a text can be cut into tokens in several ways, and a model that goes another way loses the drafts and nothing else.

The scheduler's drafts reach the model only where it schedules synchronously and its first model runner works, which is so for the n-gram
proposer. Elsewhere drafts stay on the device, where the scheduler's word comes too late; `most_forced` is 0 there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ...pda.matcher import Matcher
from ...pda.vocabulary import Vocabulary

TAIL: Final = 4  # tokens before the forced text that the tokenizer sees with it

Encode = Callable[[str], Sequence[int]]


def most_forced(config: Any) -> int:
    """How many drafts a step takes from a grammar under vLLM's configuration, 0 where they would not reach the model."""
    speculation = getattr(config, "speculative_config", None)
    if getattr(speculation, "method", None) != "ngram" or config.scheduler_config.async_scheduling or config.use_v2_model_runner:
        return 0
    most: int = config.num_speculative_tokens
    return most


def forced_tokens(matcher: Matcher, vocabulary: Vocabulary, encode: Encode) -> list[int]:
    """The tokens of the text that must come next, cut as the tokenizer cuts it behind the last tokens.

    The last token is left out: it could go on past the forced text.
    """
    forced = matcher.find_jump_forward_bytes()
    if not forced:
        return []
    old: list[int] = []
    for token in reversed(matcher.taken[-TAIL:]):
        if not isinstance(token, int) or vocabulary.token_bytes(token) is None:
            break
        old.insert(0, token)
    for before in (old, []):  # where the model cut the text before otherwise than the tokenizer, the forced text by itself
        tokens = _cut(b"".join(vocabulary.token_bytes(token) or b"" for token in before), forced, vocabulary, encode)
        if tokens[: len(before)] == before and len(tokens) > len(before):
            found = tokens[len(before) : -1]
            return found[: matcher.validate_tokens(found)]
    return []


def _cut(before: bytes, forced: bytes, vocabulary: Vocabulary, encode: Encode) -> list[int]:
    """The tokenizer's tokens of a text; none where it would change the text."""
    try:
        tokens = list(encode((before + forced).decode("utf-8")))
    except UnicodeDecodeError:
        return []
    same = b"".join(vocabulary.token_bytes(token) or b"" for token in tokens) == before + forced
    return tokens if same else []
