"""Prompts as token ids."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from ...pda.exceptions import StackmaskError

Prompt = str | Sequence[Mapping[str, Any]] | Sequence[int]
"""A text (the user's turn where the tokenizer has a chat template), the messages of a chat, or token ids as they are."""


class PromptError(StackmaskError, ValueError):
    """The model cannot take this prompt."""


def encode_prompt(tokenizer: Any, prompt: Prompt) -> list[int]:
    """The token ids of a prompt, through the chat template where the tokenizer has one; PromptError if there are none."""
    if not isinstance(prompt, str | Sequence) and not hasattr(prompt, "__array__"):
        raise PromptError(f"a prompt must be a text, the messages of a chat or token ids, not {type(prompt).__name__}")
    if isinstance(prompt, str) and not getattr(tokenizer, "chat_template", None):
        ids: list[int] = tokenizer(prompt)["input_ids"]
    elif isinstance(prompt, str) or (prompt and isinstance(prompt[0], Mapping)):
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    else:
        try:
            ids = [operator.index(token) for token in prompt]  # type: ignore[arg-type]
        except TypeError:
            several = "; several prompts are for generate_batch" if any(isinstance(part, str) for part in prompt) else ""
            raise PromptError(f"a prompt must be a text, the messages of a chat or token ids{several}") from None
    if not ids:
        raise PromptError("the prompt has no tokens")
    return ids
