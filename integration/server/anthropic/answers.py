"""Answers of the Messages API: content blocks, the events of a stream in their order, and errors.

    message_start  (content_block_start  content_block_delta*  content_block_stop)*  message_delta  message_stop

A thinking block ends with a signature_delta. An error after the first byte is an `error` event.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any, Final

from starlette.requests import Request as HttpRequest

from ...answers.partial import PartialJson
from ...engine import Answer
from ...tools import Call, Piece
from ..errors import ApiError, api_error
from ..protocol import Json
from ..serving import Serving, sse
from ..turn import Turn
from .requests import THINKING, CountTokensRequest, MessagesRequest, chat_request

_ERRORS: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}


class Message:
    """One request for a message."""

    def __init__(self, serving: Serving, body: MessagesRequest) -> None:
        self.serving = serving
        self.body = body
        self.id = f"msg_{uuid.uuid4().hex}"
        self.turn = Turn(serving, chat_request(body, can_think=serving.options.reasoning_end is not None))

    async def prepare(self) -> None:
        """Check everything and compile the grammar, before the first byte of an answer."""
        await self.turn.prepare()

    async def answer(self, http: HttpRequest | None) -> Json:
        """The whole answer."""
        pieces, answer = await self.turn.answer(http)
        blocks = _Blocks(self.body)
        for _ in (*blocks.feed(pieces), *blocks.close()):
            pass
        usage = self._usage(len(answer.token_ids))
        return {**self._head(), "content": blocks.content, **self._end(answer, blocks), "usage": usage, **_closed(answer)}

    async def stream(self) -> AsyncIterator[bytes]:
        """The answer as server-sent events."""
        blocks = _Blocks(self.body)
        try:
            start = {**self._head(), "content": [], "stop_reason": None, "stop_sequence": None, "usage": self._usage(0)}
            yield _event("message_start", message=start)
            async with aclosing(self.turn.steps()) as steps:
                async for step in steps:
                    answer = step.answer
                    for event in blocks.feed(step.pieces):
                        yield event
                    if answer is None:
                        continue
                    for event in blocks.close():
                        yield event
                    usage = {"output_tokens": len(answer.token_ids)}
                    yield _event("message_delta", delta=self._end(answer, blocks), usage=usage, **_closed(answer))
            yield _event("message_stop")
        except Exception as error:  # the status is sent, so that the error can only be an event
            yield sse(error_body(api_error(error)), "error")

    def _head(self) -> Json:
        return {"id": self.id, "type": "message", "role": "assistant", "model": self.serving.options.model_name}

    def _usage(self, output: int) -> Json:
        read = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        return {"input_tokens": self.turn.prompt_tokens, "output_tokens": output, **read}

    def _end(self, answer: Answer, blocks: _Blocks) -> Json:
        """Why the answer ended."""
        if answer.finish_reason != "stop":
            cut = len(answer.token_ids) < self.body.max_tokens and not answer.closed
            return {"stop_reason": "model_context_window_exceeded" if cut else "max_tokens", "stop_sequence": None}
        if answer.stop is not None:
            return {"stop_reason": "stop_sequence", "stop_sequence": answer.stop}
        return {"stop_reason": "tool_use" if blocks.has_calls else "end_turn", "stop_sequence": None}


class _Blocks:
    """The content as it is written, block by block; `content` has the blocks that ended."""

    def __init__(self, body: MessagesRequest) -> None:
        self.content: list[Json] = []
        self._shows_thinking = body.shows_thinking
        self._omits_thinking = body.omits_thinking
        self._kind = ""
        self._block: Json = {}
        self._text = ""

    @property
    def has_calls(self) -> bool:
        """Whether a tool is called."""
        return any(block["type"] == "tool_use" for block in self.content)

    def feed(self, pieces: list[Piece]) -> Iterator[bytes]:
        """The events of what these pieces add."""
        for piece in pieces:
            if isinstance(piece, Call):
                if piece.begins:
                    yield from self._begin("tool_use", {"id": _call_id(piece), "name": piece.name, "input": {}})
                yield from self._delta("input_json_delta", "partial_json", piece.arguments)
            elif not piece.is_reasoning:
                if self._kind != "text":
                    yield from self._begin("text", {"text": ""})
                yield from self._delta("text_delta", "text", piece.text)
            elif self._shows_thinking:
                if self._kind != "thinking":
                    yield from self._begin("thinking", {"thinking": "", "signature": ""})
                yield from self._delta("thinking_delta", "thinking", piece.text, hidden=self._omits_thinking)

    def close(self) -> Iterator[bytes]:
        """The events that end the block at hand."""
        match self._kind:
            case "":
                return
            case "text":
                self._block["text"] = self._text
            case "tool_use":
                self._block["input"] = _value(self._text)
            case "thinking":
                self._block["thinking"] = "" if self._omits_thinking else self._text
                self._block["signature"] = THINKING + base64.b64encode(self._text.encode("utf-8", "replace")).decode()
                yield self._event("content_block_delta", delta={"type": "signature_delta", "signature": self._block["signature"]})
        yield self._event("content_block_stop")
        self.content.append(self._block)
        self._kind = ""

    def _begin(self, kind: str, fields: Json) -> Iterator[bytes]:
        yield from self.close()
        self._kind, self._block, self._text = kind, {"type": kind, **fields}, ""
        yield self._event("content_block_start", content_block=self._block)

    def _delta(self, kind: str, field: str, text: str, *, hidden: bool = False) -> Iterator[bytes]:
        self._text += text
        if text and not hidden:
            yield self._event("content_block_delta", delta={"type": kind, field: text})

    def _event(self, kind: str, **fields: Any) -> bytes:
        return _event(kind, index=len(self.content), **fields)


async def count_tokens(serving: Serving, body: CountTokensRequest) -> Json:
    """The answer of /v1/messages/count_tokens."""
    planner, chat = serving.planner, chat_request(body, can_think=serving.options.reasoning_end is not None)
    planner.check_model(chat.model)
    plan = await planner.plan_turn(chat, chat.messages, chat, template=chat.chat_template_kwargs)
    (prompt,) = plan.prompts
    return {"input_tokens": len(prompt)}


def error_body(error: ApiError) -> Json:
    """An error in Anthropic's form."""
    kind = _ERRORS.get(error.status, "invalid_request_error" if error.status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": error.message}}


def _event(kind: str, **fields: Any) -> bytes:
    return sse({"type": kind, **fields}, kind)


def _call_id(call: Call) -> str:
    return f"toolu_{call.id.removeprefix('call_')}"


def _value(arguments: str) -> Any:
    """The arguments of a call, of one that was cut those that were finished."""
    try:
        return json.loads(arguments)
    except ValueError:
        reader = PartialJson()
        reader.feed(arguments)
        return reader.value if isinstance(reader.value, dict) else {}


def _closed(answer: Answer) -> Json:
    """Fields of this server alone: whether the budget ended an answer early, and whether it is complete nevertheless."""
    return {"stackmask": {"closed": True, "complete": answer.complete}} if answer.closed else {}
