"""Messages and texts as token ids, through the model's own chat template."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from jinja2 import TemplateError

from ...pda.vocabulary import Vocabulary
from .errors import ApiError

ROLES: Final = ("system", "developer", "user", "assistant", "tool")
SHRINKS: Final = 4
"""The most by which a text may shrink on its way to tokens: chat templates leave earlier thoughts out, normalisers join characters."""
SLACK: Final = 1 << 16
"""Bytes of messages that are rendered in any case, however short the model's context is."""


def plain_messages(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Messages whose content is one text each; other parts are refused."""
    result = []
    for index, message in enumerate(messages):
        role = message.get("role")
        if role not in ROLES:
            raise ApiError(f"messages[{index}].role is {str(role)[:60]!r}; available: {', '.join(ROLES)}", param="messages")
        plain = {**message, "content": _content(message.get("content"), f"messages[{index}].content")}
        calls = message.get("tool_calls")
        if calls is not None:
            plain["tool_calls"] = _calls(calls, f"messages[{index}].tool_calls")
        result.append(plain)
    return result


def render_messages(
    tokenizer: Any, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Any] | None, options: Mapping[str, Any]
) -> str:
    """The prompt of a chat as a text, special tokens by their names."""
    if not getattr(tokenizer, "chat_template", None):
        raise ApiError("this model has no chat template; use /v1/completions", status=404, code="no_chat_template")
    reserved = options.keys() & {"tools", "add_generation_prompt", "tokenize", "conversation", "chat_template"}
    if reserved:
        raise ApiError(f"chat_template_kwargs cannot set {sorted(reserved)[0]}", param="chat_template_kwargs")
    try:
        text: str = tokenizer.apply_chat_template(
            [_for_template(message) for message in messages],
            tools=list(tools) if tools else None,
            add_generation_prompt=True,
            tokenize=False,
            **options,
        )
    except TemplateError as error:  # its own words, such as that roles have to alternate
        raise ApiError(f"the model's chat template refuses these messages: {str(error)[:300]}", param="messages") from None
    except Exception:  # a template is a program of the model's author, and fails as it likes
        raise ApiError("the model's chat template cannot render these messages", param="messages") from None
    return text


class Encoder:
    """Texts to token ids, for a model that reads `context` tokens; what cannot fit is refused before it is cut into tokens.

    A token is at most as long as the longest of the vocabulary, so a text of more than `longest_text` bytes has more tokens than fit.
    """

    def __init__(self, tokenizer: Any, vocabulary: Vocabulary, context: int) -> None:
        self._tokenizer = tokenizer
        self._context = context
        self._backend = getattr(tokenizer, "backend_tokenizer", None)
        longest = max((len(data) for data in vocabulary.tokens if data), default=1)
        if self._backend is not None:
            self._backend.no_truncation()
            self._backend.no_padding()
        if self._backend is None or self._backend.normalizer is not None or _takes_blanks(tokenizer):
            longest *= SHRINKS
        self.longest_text = context * longest

    def check_size(self, size: int, param: str = "messages") -> None:
        """Refuse texts whose prompt cannot fit, by their bytes, whatever a chat template leaves out."""
        if size > SHRINKS * self.longest_text + SLACK:
            raise self._too_long(f"texts of {size} bytes", param)

    def encode(self, text: str, *, special: bool) -> list[int]:
        """The token ids of a text, with the tokens that begin one where `special`."""
        try:
            size = len(text.encode())
            if size > self.longest_text:
                raise self._too_long(f"a prompt of {size} bytes", "prompt")
            if self._backend is None:
                ids: list[int] = self._tokenizer(text, add_special_tokens=special)["input_ids"]
            else:
                # PERF: of a batch the interpreter is free all the while, and what is too long becomes no list
                (encoding,) = self._backend.encode_batch_fast([text], add_special_tokens=special)
                if len(encoding) >= self._context:
                    raise self._too_long(f"a prompt of {len(encoding)} tokens", "prompt")
                ids = encoding.ids
        except (UnicodeError, ValueError, TypeError):
            raise ApiError("the prompt cannot be cut into tokens: it has half of a surrogate pair", param="prompt") from None
        if not ids:
            raise ApiError("the prompt has no tokens", param="prompt")
        return ids

    def _too_long(self, what: str, param: str) -> ApiError:
        message = f"{what} does not fit into the model's context of {self._context} tokens"
        return ApiError(message, param=param, code="context_length_exceeded")


def _takes_blanks(tokenizer: Any) -> bool:
    """Whether a token takes the blanks beside it, however many."""
    return any(token.lstrip or token.rstrip for token in tokenizer.added_tokens_decoder.values())


def _for_template(message: Mapping[str, Any]) -> dict[str, Any]:
    """Templates know no developer role."""
    return {**message, "role": "system"} if message["role"] == "developer" else dict(message)


def _content(content: Any, where: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise ApiError(f"{where} must be a text or a list of parts", param="messages")
    texts = []
    for part in content:
        if not isinstance(part, Mapping) or part.get("type") not in ("text", "input_text", "output_text", "refusal"):
            kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
            raise ApiError(f"{where} has a part of type {str(kind)[:60]!r}; this model reads text alone", param="messages")
        text = part.get("text", part.get("refusal"))
        if not isinstance(text, str):
            raise ApiError(f"{where} has a part without text", param="messages")
        texts.append(text)
    return "".join(texts)


def _calls(calls: Any, where: str) -> list[dict[str, Any]]:
    """Earlier calls as chat templates know them: functions, with arguments as values where they are JSON objects."""
    if not isinstance(calls, list):
        raise ApiError(f"{where} is a list", param="messages")
    result = []
    for call in calls:
        kind = "custom" if isinstance(call, Mapping) and call.get("type") == "custom" else "function"
        inner = call.get(kind) if isinstance(call, Mapping) else None
        if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str):
            raise ApiError(f"{where} has a call without a {kind}'s name", param="messages")
        arguments = {"input": inner.get("input", "")} if kind == "custom" else _arguments(inner.get("arguments", "{}"))
        result.append({"id": call.get("id"), "type": "function", "function": {"name": inner["name"], "arguments": arguments}})
    return result


def _arguments(arguments: Any) -> Any:
    """Arguments as a value; text that is not a JSON object stays unchanged."""
    if not isinstance(arguments, str):
        return arguments
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return value if isinstance(value, dict) else arguments
