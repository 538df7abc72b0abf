"""/v1/responses: one answer, as a message or as calls of functions; nothing is stored."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

from starlette.requests import Request as HttpRequest

from stackmask.integration.engine import Answer
from stackmask.integration.server.constraints import Found, find_constraint, flat_format, only
from stackmask.integration.server.errors import ApiError, api_error
from stackmask.integration.server.prompts import encode_messages, plain_messages
from stackmask.integration.server.protocol import ResponsesRequest, SamplingFields
from stackmask.integration.server.serving import Prepared, Serving, sse
from stackmask.integration.server.tools import Call, CallReader, ToolPlan, plan_tools, read_tools

Json = dict[str, Any]


class Response:
    """One request for a response."""

    def __init__(self, serving: Serving, body: ResponsesRequest) -> None:
        self.serving = serving
        self.body = body
        self.id = f"resp_{uuid.uuid4().hex}"
        self.created = int(time.time())
        self.plan: ToolPlan | None = None
        self.prepared: Prepared
        self._sequence = 0

    async def prepare(self) -> None:
        """Check everything and compile the grammar, before the first byte of an answer."""
        serving, body = self.serving, self.body
        serving.check_model(body.model)
        whitespace = serving.options.json_whitespace
        self.plan = plan_tools(read_tools(body.tools), body.tool_choice, bool(body.parallel_tool_calls), {"whitespace": whitespace})
        found: Found = [] if self.plan is None or self.plan.constraint is None else [("tool_choice", self.plan.constraint)]
        if body.text is not None and body.text.format is not None:
            found += flat_format(body.text.format, body.stackmask, whitespace)
        only(found)
        constraint, field = find_constraint(body, whitespace, found)
        prompt = encode_messages(
            serving.tokenizer,
            plain_messages(self._messages()),
            tools=[_nested(tool) for tool in body.tools or ()],
            prefix=self.plan.prefix if self.plan is not None else "",
            options={},
        )
        self.prepared = await serving.prepare(
            [prompt],
            constraint,
            field,
            fields=SamplingFields(temperature=body.temperature, top_p=body.top_p),
            extension=body.stackmask,
            max_tokens=body.max_output_tokens,
            reasoning=self.plan is None or not self.plan.prefix,
        )

    async def answer(self, http: HttpRequest) -> Json:
        """The whole answer."""
        (answer,) = await self.serving.answers(self.prepared, http)
        text, calls = self._read(answer)
        items = [self._call_item(call, "completed") for call in calls] if calls else [self._message(text, _status(answer))]
        return self._body(_status(answer), items, answer)

    async def stream(self) -> AsyncIterator[bytes]:
        """The answer as server-sent events."""
        try:
            yield self._event("response.created", response=self._body("in_progress", []))
            yield self._event("response.in_progress", response=self._body("in_progress", []))
            async with aclosing(self._items()) as events:
                async for event in events:
                    yield event
        except Exception as error:  # the status is sent, so that the error can only be an event
            inner = api_error(error).body["error"]
            yield self._event("error", code=inner["code"], message=inner["message"], param=inner["param"])

    async def _items(self) -> AsyncGenerator[bytes, None]:
        """The events of the output's items, and the last one."""
        reader = None if self.plan is None else CallReader(self.plan)
        items: list[Json] = []
        message: Json | None = None
        call: Call | None = None
        arguments = ""
        async with aclosing(self.serving.events(self.prepared)) as events:
            async for _, event in events:
                answer = event.answer
                if answer is not None and answer.error is not None:
                    raise answer.error
                text, pieces = (event.text, []) if reader is None else reader.feed(event.text, final=answer is not None)
                if text or (answer is not None and reader is None and message is None):
                    if message is None:
                        message = self._message("", "in_progress")
                        yield self._event("response.output_item.added", output_index=len(items), item={**message, "content": []})
                        yield self._event("response.content_part.added", **self._place(message, items), part=message["content"][0])
                    if text:
                        message["content"][0]["text"] += text
                        yield self._event("response.output_text.delta", **self._place(message, items), delta=text, logprobs=[])
                for piece in pieces:
                    if piece.begins:
                        if call is not None:
                            for done in self._call_done(call, arguments, items):
                                yield done
                        call, arguments = piece, ""
                        empty = Call(piece.index, piece.name, "", piece.id, piece.custom)
                        yield self._event("response.output_item.added", output_index=len(items), item=self._call_item(empty, "in_progress"))
                    assert call is not None
                    if piece.arguments:
                        arguments += piece.arguments
                        kind = "response.custom_tool_call_input.delta" if call.custom else "response.function_call_arguments.delta"
                        yield self._event(kind, item_id=call.id, output_index=len(items), delta=piece.arguments)
                if answer is None:
                    continue
                if message is not None:
                    for done in self._message_done(message, items, answer):
                        yield done
                if call is not None:
                    for done in self._call_done(call, arguments, items):
                        yield done
                status = _status(answer)
                yield self._event(f"response.{status}", response=self._body(status, items, answer))

    def _message_done(self, message: Json, items: list[Json], answer: Answer) -> list[bytes]:
        place, part = self._place(message, items), message["content"][0]
        message["status"] = _status(answer)
        events = [
            self._event("response.output_text.done", **place, text=part["text"], logprobs=[]),
            self._event("response.content_part.done", **place, part=part),
            self._event("response.output_item.done", output_index=len(items), item=message),
        ]
        items.append(message)
        return events

    def _call_done(self, call: Call, arguments: str, items: list[Json]) -> list[bytes]:
        whole = self._call_item(Call(call.index, call.name, arguments, call.id, call.custom), "completed")
        kind = "response.custom_tool_call_input.done" if call.custom else "response.function_call_arguments.done"
        inner = {"input": arguments} if call.custom else {"arguments": arguments, "name": call.name}
        events = [
            self._event(kind, item_id=call.id, output_index=len(items), **inner),
            self._event("response.output_item.done", output_index=len(items), item=whole),
        ]
        items.append(whole)
        return events

    def _read(self, answer: Answer) -> tuple[str, list[Call]]:
        return (answer.text, []) if self.plan is None else CallReader(self.plan).feed(answer.text, final=True)

    def _messages(self) -> list[Json]:
        """The input as the messages of a chat."""
        messages: list[Json] = []
        if self.body.instructions is not None:
            messages.append({"role": "system", "content": self.body.instructions})
        if isinstance(self.body.input, str):
            return [*messages, {"role": "user", "content": self.body.input}]
        for index, item in enumerate(self.body.input):
            match item.get("type", "message"):
                case "message":
                    messages.append({"role": item.get("role"), "content": item.get("content")})
                case "function_call":
                    function = {"name": item.get("name"), "arguments": item.get("arguments")}
                    messages.append(
                        {"role": "assistant", "tool_calls": [{"id": item.get("call_id"), "type": "function", "function": function}]}
                    )
                case "function_call_output":
                    output = item.get("output")
                    content = output if isinstance(output, str) else json.dumps(output)
                    messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": content})
                case other:
                    raise ApiError(
                        f"input[{index}].type is {str(other)[:60]!r}; there are message, function_call and function_call_output",
                        param="input",
                    )
        if not messages:
            raise ApiError("the input is empty", param="input")
        return messages

    def _message(self, text: str, status: str) -> Json:
        content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
        return {"id": f"msg_{uuid.uuid4().hex}", "type": "message", "role": "assistant", "status": status, "content": content}

    def _call_item(self, call: Call, status: str) -> Json:
        if call.custom:
            return {"id": call.id, "type": "custom_tool_call", "call_id": call.id, "name": call.name, "input": call.arguments}
        return {
            "id": call.id,
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
            "status": status,
        }

    def _place(self, message: Json, items: list[Json]) -> Json:
        return {"item_id": message["id"], "output_index": len(items), "content_index": 0}

    def _event(self, kind: str, **fields: Any) -> bytes:
        self._sequence += 1
        return sse({"type": kind, "sequence_number": self._sequence - 1, **fields}, kind)

    def _body(self, status: str, items: list[Json], answer: Answer | None = None) -> Json:
        body = self.body
        usage = None
        if answer is not None:
            counted = self.serving.usage(self.prepared, [answer])
            usage = {
                "input_tokens": counted["prompt_tokens"],
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": counted["completion_tokens"],
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": counted["total_tokens"],
                **({"stackmask": counted["stackmask"]} if "stackmask" in counted else {}),
            }
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "instructions": body.instructions,
            "max_output_tokens": body.max_output_tokens,
            "model": self.serving.options.model_name,
            "output": items,
            "parallel_tool_calls": bool(body.parallel_tool_calls),
            "previous_response_id": None,
            "store": False,
            "temperature": 1.0 if body.temperature is None else body.temperature,
            "text": {"format": (body.text.format if body.text is not None else None) or {"type": "text"}},
            "tool_choice": body.tool_choice or "auto",
            "tools": body.tools or [],
            "top_p": 1.0 if body.top_p is None else body.top_p,
            "truncation": "disabled",
            "usage": usage,
            "metadata": body.metadata or {},
            **({"stackmask": {"closed": True, "complete": answer.complete}} if answer is not None and answer.closed else {}),
        }


def _status(answer: Answer) -> str:
    return "completed" if answer.finish_reason == "stop" else "incomplete"


def _nested(tool: Mapping[str, Any]) -> Json:
    """A flat tool definition in the form that chat templates know."""
    kind = tool.get("type")
    return dict(tool) if kind in tool else {"type": kind, str(kind): {key: value for key, value in tool.items() if key != "type"}}
