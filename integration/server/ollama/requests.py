"""Ollama's requests, read into chat requests.

The fields are those of the `ollama` package 0.6.3 and of Ollama's documentation. Options of loading change nothing, because the model is
loaded; a sampler that the engine does not have is refused where it would change something.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import Field

from ..errors import ApiError
from ..protocol import ChatRequest, Extension, Json, Model
from ..turn import read_chat

_SAMPLING: Final = ("temperature", "top_k", "top_p", "min_p", "seed", "presence_penalty", "frequency_penalty", "stop")
_NEUTRAL: Final = {"repeat_penalty": 1, "tfs_z": 1, "typical_p": 1, "mirostat": 0}
_LOADING: Final = {
    "numa", "num_ctx", "num_batch", "num_gpu", "main_gpu", "low_vram", "f16_kv", "logits_all", "vocab_only", "use_mmap", "use_mlock",
    "embedding_only", "num_thread", "num_keep", "penalize_newline", "repeat_last_n", "mirostat_tau", "mirostat_eta",
}  # fmt: skip


class _Common(Model):
    """The fields of both generating routes; a stream is the default."""

    model: str
    stream: bool | None = None
    format: Any = None
    options: Json | None = None
    think: bool | str | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    keep_alive: Any = None  # accepted, and without effect: the model stays
    stackmask: Extension = Field(default_factory=Extension)

    @property
    def streams(self) -> bool:
        """Whether the answer is a stream."""
        return self.stream is not False


class OllamaChatRequest(_Common):
    """The body of /api/chat."""

    messages: list[Json] = Field(default_factory=list, fail_fast=True)
    tools: list[Json] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it only asks for the model to be loaded."""
        return not self.messages

    def chat_request(self) -> ChatRequest:
        """The same as a chat request."""
        tools = [{"type": "function", **tool} for tool in self.tools or ()]
        return _chat_request(self, _messages(self.messages), tools or None)


class GenerateRequest(_Common):
    """The body of /api/generate."""

    prompt: str = ""
    system: str | None = None
    raw: bool | None = None
    suffix: str | None = None
    template: str | None = None
    context: list[int] | None = None
    images: list[Any] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it only asks for the model to be loaded."""
        return not self.prompt

    def chat_request(self) -> ChatRequest:
        """The same as a chat request."""
        for name, instead in (
            ("suffix", "this server does not fill in text before a suffix"),
            ("template", "the chat template is the model's own; raw: true uses none"),
            ("context", "send the messages so far to /api/chat"),
            ("images", "this model reads text alone"),
        ):
            if getattr(self, name):
                raise ApiError(f"{name} is not supported: {instead}", param=name)
        if self.raw and self.system:
            raise ApiError("raw: true uses no chat template, so there is no place for system", param="system")
        system = [{"role": "system", "content": self.system}] if self.system else []
        return _chat_request(self, [*system, {"role": "user", "content": self.prompt}], None)


class ShowRequest(Model):
    """The body of /api/show."""

    model: str
    verbose: bool | None = None


def _chat_request(body: _Common, messages: list[Json], tools: list[Json] | None) -> ChatRequest:
    extension, thinking = body.stackmask, body.think
    if thinking is False:
        extension = extension.model_copy(update={"reasoning": False})
    return read_chat(
        {
            "model": body.model.removesuffix(":latest"),
            "messages": messages,
            "tools": tools,
            "response_format": _format(body.format),
            "logprobs": body.logprobs,
            "top_logprobs": body.top_logprobs,
            "chat_template_kwargs": None if thinking is None else {"enable_thinking": thinking is not False},
            "stackmask": extension,
            **_options(body.options or {}),
        }
    )


def _format(format: Any) -> Json | None:
    """`format` as a response format: a schema, as an object or as its text, or "json" for any object."""
    if format in (None, ""):
        return None
    if format == "json":
        return {"type": "json_object"}
    if isinstance(format, str):
        try:
            format = json.loads(format)
        except ValueError:
            raise ApiError(f'format is {format[:60]!r}; available: "json" and a JSON Schema', param="format") from None
    if not isinstance(format, Mapping):
        raise ApiError('format must be "json" or a JSON Schema, which is an object', param="format")
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": format}}


def _options(options: Mapping[str, Any]) -> Json:
    """The options as fields of a chat request."""
    found: Json = {name: options[name] for name in _SAMPLING if options.get(name) is not None}
    count = options.get("num_predict")
    if count not in (None, -1, -2):  # as far as the context goes
        found["max_tokens"] = count
    for name, neutral in _NEUTRAL.items():
        if options.get(name) not in (None, neutral):
            raise ApiError(f"options.{name} is {options[name]!r}; this server has no such sampler and takes only {neutral}", param=name)
    if unknown := sorted(options.keys() - {*_SAMPLING, *_NEUTRAL, *_LOADING, "num_predict"}):
        raise ApiError(f"unknown field options.{unknown[0]}: no field is ignored here", param="options")
    return found


def _messages(messages: Sequence[Json]) -> list[Json]:
    """The messages of a chat; results belong to the earlier call of their tool, since neither has an id."""
    result: list[Json] = []
    waiting: list[tuple[str, str]] = []
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        if message.get("images"):
            raise ApiError(f"{where}.images is not supported: this model reads text alone", param="messages")
        if unknown := sorted(message.keys() - {"role", "content", "thinking", "images", "tool_calls", "tool_name", "tool_call_id"}):
            raise ApiError(f"unknown field {where}.{unknown[0]}: no field is ignored here", param="messages")
        plain: Json = {"role": message.get("role"), "content": message.get("content")}
        if message.get("thinking"):
            plain["reasoning_content"] = message["thinking"]
        if message.get("tool_calls"):
            calls = enumerate(message["tool_calls"])
            plain["tool_calls"] = [_call(call, f"{where}.tool_calls", f"call_{index}_{place}") for place, call in calls]
            waiting += [(call["function"]["name"], call["id"]) for call in plain["tool_calls"]]
        if plain["role"] == "tool":
            name = message.get("tool_name")
            found = next((entry for entry in waiting if name in (None, entry[0])), None)
            if found is not None:
                waiting.remove(found)
                name = found[0]
            plain |= {"tool_call_id": message.get("tool_call_id") or (found[1] if found else f"call_{index}"), "name": name}
        result.append(plain)
    return result


def _call(call: Any, where: str, name: str) -> Json:
    """An earlier call as OpenAI has it."""
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str) or not isinstance(function.get("arguments"), Mapping):
        raise ApiError(f"{where} has a call without a function's name and arguments", param="messages")
    return {
        "id": call.get("id") or name,
        "type": "function",
        "function": {"name": function["name"], "arguments": dict(function["arguments"])},
    }
