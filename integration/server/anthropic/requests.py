"""Requests of the Messages API, read into chat requests.

The fields are those of the `anthropic` package 2.12 and of its documentation. Fields that change nothing here are named and accepted;
every other one is refused, like the tools that only Anthropic's own servers run.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import Field

from ..errors import ApiError
from ..protocol import ChatRequest, Extension, Json, Model
from ..turn import read_chat

THINKING: Final = "stackmask:"
"""The beginning of the signature of a thinking block; the thinking follows in base64, so that blocks without text can be read back."""

_CHOICES: Final = {"auto": "auto", "any": "required", "none": "none"}
_TOOL_FIELDS: Final = {
    "type", "name", "description", "input_schema", "strict",
    "cache_control", "defer_loading", "allowed_callers", "input_examples", "eager_input_streaming",
}  # fmt: skip


class OutputConfig(Model):
    """The form of the answer."""

    format: Json | None = None
    effort: str | None = None  # without effect here


class CountTokensRequest(Model):
    """The body of /v1/messages/count_tokens."""

    model: str
    messages: list[Json] = Field(min_length=1, fail_fast=True)
    system: str | list[Json] | None = None
    tools: list[Json] | None = None
    tool_choice: Json | None = None
    thinking: Json | None = None
    output_config: OutputConfig = Field(default_factory=OutputConfig)
    output_format: Json | None = None
    stackmask: Extension = Field(default_factory=Extension)
    # accepted, and without effect here
    cache_control: Any = None
    context_management: Any = None
    speed: str | None = None
    user_profile_id: str | None = None
    workspace_id: str | None = None
    mcp_servers: list[Json] | None = Field(default=None, max_length=0)


class MessagesRequest(CountTokensRequest):
    """The body of /v1/messages."""

    max_tokens: int = Field(ge=1)
    stream: bool | None = None
    stop_sequences: list[str] | None = None
    temperature: Annotated[float, Field(ge=0, le=1)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0, le=1 << 31)] | None = None
    container: None = None
    # accepted, and without effect here
    metadata: Any = None
    service_tier: str | None = None
    inference_geo: str | None = None
    diagnostics: Any = None

    @property
    def shows_thinking(self) -> bool:
        """Whether the answer has thinking blocks."""
        return self.thinking is not None and self.thinking.get("type") in ("enabled", "adaptive")

    @property
    def omits_thinking(self) -> bool:
        """Whether these blocks have a signature and no text."""
        return self.thinking is not None and self.thinking.get("display") == "omitted"


def chat_request(body: CountTokensRequest, *, can_think: bool) -> ChatRequest:
    """The same as a chat request; `can_think`: the server knows where the model's reasoning ends."""
    fields: dict[str, Any] = {
        "model": body.model,
        "messages": _messages(body),
        "tools": _tools(body.tools),
        "response_format": _format(body),
        "stackmask": body.stackmask,
        **_tool_choice(body.tool_choice),
        **_thinking(body, can_think),
    }
    if isinstance(body, MessagesRequest):
        fields |= {"max_tokens": body.max_tokens, "stop": body.stop_sequences or None}
        fields |= {"temperature": body.temperature, "top_p": body.top_p, "top_k": body.top_k}
    return read_chat(fields)


def _format(body: CountTokensRequest) -> Json | None:
    """`output_config.format`, or `output_format` as it was called in the beta."""
    named = {"output_config.format": body.output_config.format, "output_format": body.output_format}
    given = {name: format for name, format in named.items() if format is not None}
    if not given:
        return None
    if len(given) > 1:
        raise ApiError("output_config.format and output_format are the same field; send one", param="output_format")
    ((name, format),) = given.items()
    if format.get("type") != "json_schema" or not isinstance(format.get("schema"), Mapping) or len(format) > 2:
        raise ApiError(f"{name} must be {{type: json_schema, schema: an object}}", param=name)
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": format["schema"]}}


def _thinking(body: CountTokensRequest, can_think: bool) -> Json:
    """Thinking as an option of the chat template, the one that most templates of models that think have."""
    if body.thinking is None:
        return {}
    kind, display = body.thinking.get("type"), body.thinking.get("display")
    if kind not in ("enabled", "adaptive", "disabled"):
        raise ApiError(f"thinking.type is {str(kind)[:60]!r}; available: enabled, adaptive and disabled", param="thinking")
    if display not in (None, "summarized", "omitted"):
        raise ApiError(f"thinking.display is {str(display)[:60]!r}; available: summarized and omitted", param="thinking")
    if kind == "enabled":
        budget, limit = body.thinking.get("budget_tokens"), getattr(body, "max_tokens", None)
        if not isinstance(budget, int) or budget < 1024 or (limit is not None and budget >= limit):
            raise ApiError("thinking.budget_tokens must be at least 1024 and less than max_tokens", param="thinking")
        if not can_think:
            message = "this server does not know where the model's reasoning ends; its operator sets --reasoning-end"
            raise ApiError(message, param="thinking", code="no_reasoning_end")
    thinks = kind != "disabled" and can_think
    extension = body.stackmask if thinks else body.stackmask.model_copy(update={"reasoning": False})
    return {"chat_template_kwargs": {"enable_thinking": thinks}, "stackmask": extension}


def _tools(tools: Sequence[Json] | None) -> list[Json] | None:
    """Tools as functions."""
    found = []
    for index, tool in enumerate(tools or ()):
        where = f"tools[{index}]"
        if tool.get("type") not in (None, "custom"):
            message = f"{where}.type is {str(tool['type'])[:60]!r}, a tool of Anthropic's; tools here have a name and an input_schema"
            raise ApiError(message, param="tools")
        if unknown := sorted(tool.keys() - _TOOL_FIELDS):
            raise ApiError(f"unknown field {where}.{unknown[0]}: no field is ignored here", param="tools")
        schema = tool.get("input_schema")
        if not isinstance(schema, Mapping) or schema.get("type") != "object":
            raise ApiError(f"{where}.input_schema must be a JSON Schema of type object", param="tools")
        if tool.get("strict") not in (True, False, None):
            raise ApiError(f"{where}.strict must be true or false", param="tools")
        described = {"description": tool["description"]} if tool.get("description") else {}
        found.append({"type": "function", "function": {"name": tool.get("name"), **described, "parameters": schema}})
    return found or None


def _tool_choice(choice: Json | None) -> Json:
    """The choice as OpenAI spells it."""
    if choice is None:
        return {}
    kind = choice.get("type")
    if unknown := sorted(choice.keys() - {"type", "name", "disable_parallel_tool_use"}):
        raise ApiError(f"unknown field tool_choice.{unknown[0]}: no field is ignored here", param="tool_choice")
    parallel = {"parallel_tool_calls": False} if choice.get("disable_parallel_tool_use") else {}
    if kind == "tool":
        return {"tool_choice": {"type": "function", "function": {"name": choice.get("name")}}, **parallel}
    if kind not in _CHOICES:
        raise ApiError(f"tool_choice.type is {str(kind)[:60]!r}; available: auto, any, tool and none", param="tool_choice")
    return {"tool_choice": _CHOICES[kind], **parallel}


def _messages(body: CountTokensRequest) -> list[Json]:
    """The messages of the chat; neighbours of one role are one message, as the documentation has it."""
    messages: list[Json] = []
    if body.system:
        messages.append({"role": "system", "content": _text(body.system, "system")})
    for index, message in enumerate(body.messages):
        where, role, content = f"messages[{index}]", message.get("role"), message.get("content")
        if unknown := sorted(message.keys() - {"role", "content"}):
            raise ApiError(f"unknown field {where}.{unknown[0]}: no field is ignored here", param="messages")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not isinstance(blocks, list) or not all(isinstance(block, Mapping) for block in blocks):
            raise ApiError(f"{where}.content must be a text or a list of blocks", param="messages")
        match role:
            case "user":
                messages += _user(blocks, where, messages)
            case "assistant":
                messages.append(_assistant(blocks, where))
            case "system":
                messages.append({"role": "system", "content": _text(blocks, f"{where}.content")})
            case _:
                raise ApiError(f"{where}.role is {str(role)[:60]!r}; available: user, assistant and system", param="messages")
    if messages[-1]["role"] == "assistant":
        raise ApiError("the last message is the assistant's; this server does not continue one", param="messages", code="no_prefill")
    return _merged(messages)


def _user(blocks: Sequence[Json], where: str, before: Sequence[Json]) -> list[Json]:
    """A user's message: the results of calls, and then its text."""
    called = {call["id"] for message in before for call in message.get("tool_calls", ())}
    results, texts = [], []
    for index, block in enumerate(blocks):
        place = f"{where}.content[{index}]"
        if block.get("type") != "tool_result":
            texts.append(_text([block], place))
            continue
        name = block.get("tool_use_id")
        if name not in called:
            raise ApiError(f"{place}.tool_use_id is {str(name)[:60]!r}, which is not an earlier tool_use", param="messages")
        said = _text(block.get("content") or "", f"{place}.content")
        results.append({"role": "tool", "tool_call_id": name, "content": f"Error: {said}" if block.get("is_error") else said})
    return [*results, *([{"role": "user", "content": "\n".join(texts)}] if texts else [])]


def _assistant(blocks: Sequence[Json], where: str) -> Json:
    """An earlier answer: its text, its calls, and its thinking where the template asks for it."""
    texts, thoughts, calls = [], [], []
    for index, block in enumerate(blocks):
        place = f"{where}.content[{index}]"
        match block.get("type"):
            case "tool_use":
                if not all(isinstance(block.get(key), kind) for key, kind in (("id", str), ("name", str), ("input", dict))):
                    raise ApiError(f"{place} has an id, a name and an object as its input", param="messages")
                calls.append({"id": block["id"], "type": "function", "function": {"name": block["name"], "arguments": block["input"]}})
            case "thinking":
                thoughts.append(_thought(block, place))
            case "redacted_thinking":
                pass  # encrypted for Anthropic's models; no other can read it
            case _:
                texts.append(_text([block], place))
    message: Json = {"role": "assistant", "content": "".join(texts)}
    if thoughts:
        message["reasoning_content"] = "".join(thoughts)
    if calls:
        message["tool_calls"] = calls
    return message


def _thought(block: Json, where: str) -> str:
    """The text of a thinking block; that of a block without text is in its signature, if this server wrote it."""
    text, signature = block.get("thinking"), block.get("signature")
    if not isinstance(text, str) or not isinstance(signature, str):
        raise ApiError(f"{where} has a thinking and a signature", param="messages")
    if not text and signature.startswith(THINKING):
        try:
            return base64.b64decode(signature.removeprefix(THINKING), validate=True).decode()
        except ValueError:
            raise ApiError(f"{where}.signature is not one of this server's", param="messages") from None
    return text


def _text(content: str | Sequence[Json], where: str) -> str:
    """The text of a content; other parts are refused by name."""
    if isinstance(content, str):
        return content
    texts = []
    for block in content:
        kind = block.get("type") if isinstance(block, Mapping) else type(block).__name__
        if kind != "text" or not isinstance(block.get("text"), str):
            raise ApiError(f"{where} has a block of type {str(kind)[:60]!r}; this model reads text alone", param="messages")
        texts.append(block["text"])
    return "\n".join(texts)


def _merged(messages: Sequence[Json]) -> list[Json]:
    """Neighbours of the user, and of the assistant, as one message."""
    merged: list[Json] = []
    for message in messages:
        last = merged[-1] if merged else None
        if last is None or last["role"] != message["role"] or message["role"] not in ("user", "assistant"):
            merged.append(message)
            continue
        joined = {**last, **message, "content": "\n".join(filter(None, (last["content"], message["content"])))}
        for key in ("reasoning_content", "tool_calls"):
            if key in last and key in message:
                joined[key] = last[key] + message[key]
        merged[-1] = joined
    return merged
