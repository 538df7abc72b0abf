"""/v1/chat/completions."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from starlette.requests import Request as HttpRequest

from ..engine import Answer
from ..tools import Call, Piece, Text
from .constraints import find_constraint
from .errors import ApiError, api_error
from .partials import PartialsPlan
from .plan import PreparedRequest
from .protocol import ChatRequest
from .serving import Serving, sse


class Chat:
    """One request for chat completions."""

    def __init__(self, serving: Serving, body: ChatRequest) -> None:
        self.serving = serving
        self.body = body
        self.id = f"chatcmpl-{uuid.uuid4().hex}"
        self.created = int(time.time())
        self.n = body.n or 1
        self.partials: PartialsPlan
        self.prepared: PreparedRequest

    async def prepare(self) -> None:
        """Check everything and compile the grammar, before the first byte of an answer."""
        planner, body = self.serving.planner, self.body
        planner.check_model(body.model)
        if body.max_tokens is not None and body.max_completion_tokens is not None and body.max_tokens != body.max_completion_tokens:
            raise ApiError("max_tokens and max_completion_tokens differ", param="max_tokens")
        if body.top_logprobs is not None and not body.logprobs:
            raise ApiError("top_logprobs needs logprobs: true", param="top_logprobs")
        plan = await planner.plan_turn(body, body.messages, body, template=body.chat_template_kwargs)
        limit = body.max_completion_tokens if body.max_completion_tokens is not None else body.max_tokens
        logprobs = (body.top_logprobs or 0) if body.logprobs else None
        asked, _ = find_constraint(body, planner.options.json_whitespace)
        self.partials = PartialsPlan(body.stackmask, asked, plan.tools, stream=body.stream)
        self.prepared = await planner.prepare(replace(plan, n=self.n, max_tokens=limit, logprobs=logprobs))

    async def answer(self, http: HttpRequest | None) -> dict[str, Any]:
        """The whole answer."""
        answers = await self.serving.answers(self.prepared, http)
        return {
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.serving.options.model_name,
            "choices": [self._choice(index, answer) for index, answer in enumerate(answers)],
            "usage": self.serving.usage(self.prepared, answers, self.n),
            "system_fingerprint": None,
            **self.serving.warnings(self.prepared),
        }

    async def stream(self) -> AsyncIterator[bytes]:
        """The answer as server-sent events."""
        answers: list[Answer | None] = [None] * self.n
        tools = self.prepared.tools
        readers = [None if tools is None else tools.parser() for _ in range(self.n)]
        called = [False] * self.n
        partials = [self.partials.begin() for _ in range(self.n)]
        try:
            for index in range(self.n):
                content = None if tools and tools.choice.is_required else ""
                warnings = self.serving.warnings(self.prepared) if index == 0 else {}
                yield self._chunk(index, {"role": "assistant", "content": content}, warnings=warnings)
            async with aclosing(self.serving.events(self.prepared)) as events:
                async for index, event in events:
                    if event.answer is not None and event.answer.error is not None:
                        raise event.answer.error
                    delta: dict[str, Any] = {}
                    text, reasoning, reader = event.text, event.reasoning, readers[index]
                    if reader is not None:
                        text, thought, calls = _sorted(reader.feed(event.text, final=event.answer is not None))
                        reasoning += thought
                        if calls:
                            called[index] = True
                            delta["tool_calls"] = [_call_delta(call) | partials[index].of_call(call) for call in calls]
                    if reasoning:
                        delta["reasoning_content"] = reasoning
                    if text:
                        delta["content"] = text
                    logprobs = self._logprobs(event.logprobs) if event.logprobs else None
                    ended = partials[index].of_text(text, final=event.answer is not None)
                    if delta or logprobs or ended:
                        yield self._chunk(index, delta, logprobs=logprobs, extra=ended)
                    if event.answer is not None:
                        answers[index] = event.answer
                        reason = self._reason(event.answer, called[index])
                        yield self._chunk(index, {}, reason, extra=_closed(event.answer))
            if self.body.stream_options is not None and self.body.stream_options.include_usage:
                usage = self.serving.usage(self.prepared, [answer for answer in answers if answer is not None], self.n)
                yield sse({**self._head(), "choices": [], "usage": usage})
        except Exception as error:  # the status is sent, so that the error can only be an event
            yield sse(api_error(error).body)
        yield sse("[DONE]")

    def _choice(self, index: int, answer: Answer) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": answer.text, "refusal": None}
        reasoning = answer.reasoning
        if self.prepared.tools is not None:
            text, thought, calls = _sorted(self.prepared.tools.parser().feed(answer.text, final=True))
            reasoning += thought
            message["content"] = text or None
            if calls:
                message["tool_calls"] = [_call_body(call) for call in calls]
        if reasoning:
            message["reasoning_content"] = reasoning
        return {
            "index": index,
            "message": message,
            "logprobs": self._logprobs(answer.logprobs) if self.body.logprobs else None,
            "finish_reason": self._reason(answer, bool(message.get("tool_calls"))),
            **_closed(answer),
        }

    def _reason(self, answer: Answer, called: bool) -> str:
        """OpenAI says "stop" where a tool was named, and "tool_calls" where the model chose."""
        if answer.finish_reason != "stop":
            return "length"
        choice = self.body.tool_choice
        is_named = isinstance(choice, dict) and choice.get("type") != "allowed_tools"
        return "tool_calls" if called and not is_named else "stop"

    def _logprobs(self, logprobs: Any) -> dict[str, Any]:
        return {"content": [self.serving.logprob(logprob) for logprob in logprobs], "refusal": None}

    def _head(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.serving.options.model_name,
            "system_fingerprint": None,
        }

    def _chunk(
        self,
        index: int,
        delta: dict[str, Any],
        reason: str | None = None,
        *,
        logprobs: Any = None,
        extra: dict[str, Any] | None = None,
        warnings: dict[str, Any] | None = None,
    ) -> bytes:
        choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason, **(extra or {})}
        usage = {"usage": None} if self.body.stream_options is not None and self.body.stream_options.include_usage else {}
        return sse({**self._head(), "choices": [choice], **usage, **(warnings or {})})


def _closed(answer: Answer) -> dict[str, Any]:
    """Fields of this server alone: whether the budget ended an answer early, and whether it is complete nevertheless."""
    return {"stackmask": {"closed": True, "complete": answer.complete}} if answer.closed else {}


def _sorted(pieces: list[Piece]) -> tuple[str, str, list[Call]]:
    """Pieces of an answer as text, reasoning and calls."""
    texts = [piece for piece in pieces if isinstance(piece, Text)]
    return (
        "".join(piece.text for piece in texts if not piece.is_reasoning),
        "".join(piece.text for piece in texts if piece.is_reasoning),
        [piece for piece in pieces if isinstance(piece, Call)],
    )


def _call_body(call: Call) -> dict[str, Any]:
    if call.custom:
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.arguments}}
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _call_delta(call: Call) -> dict[str, Any]:
    inner = {"input" if call.custom else "arguments": call.arguments}
    kind = "custom" if call.custom else "function"
    if call.begins:
        return {"index": call.index, "id": call.id, "type": kind, kind: {"name": call.name, **inner}}
    return {"index": call.index, kind: inner}
