"""/v1/responses: one answer, as a message or as calls of tools; nothing is stored."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from starlette.requests import Request as HttpRequest

from ..engine import Answer
from ..tools import Call, Piece, Text
from .constraints import Found, find_constraint, flat_format
from .errors import ApiError, api_error
from .partials import Partials, PartialsPlan
from .plan import PreparedRequest
from .protocol import ResponsesRequest, SamplingFields
from .serving import Serving, sse

Json = dict[str, Any]


class Response:
    """One request for a response."""

    def __init__(self, serving: Serving, body: ResponsesRequest) -> None:
        self.serving = serving
        self.body = body
        self.id = f"resp_{uuid.uuid4().hex}"
        self.created = int(time.time())
        self.partials: Partials
        self.prepared: PreparedRequest
        self._sequence = 0

    async def prepare(self) -> None:
        """Check everything and compile the grammar, before the first byte of an answer."""
        planner, body = self.serving.planner, self.body
        planner.check_model(body.model)
        found: Found = []
        if body.text is not None and body.text.format is not None:
            found = flat_format(body.text.format, body.stackmask, planner.options.json_whitespace)
        fields = SamplingFields(temperature=body.temperature, top_p=body.top_p)
        plan = await planner.plan_turn(body, input_messages(body.input, body.instructions), fields, others=found)
        asked, _ = find_constraint(body, planner.options.json_whitespace, found)
        self.partials = PartialsPlan(body.stackmask, asked, plan.tools, stream=body.stream).begin()
        self.prepared = await planner.prepare(replace(plan, max_tokens=body.max_output_tokens))

    async def answer(self, http: HttpRequest) -> Json:
        """The whole answer."""
        (answer,) = await self.serving.answers(self.prepared, http)
        status = _status(answer)
        items: list[Json] = []
        for piece in self._read(answer):
            if isinstance(piece, Call):
                items.append(self._call_item(piece, "completed"))
            elif not piece.is_reasoning:
                items.append(self._message(piece.text, "completed"))
        if not items:
            items.append(self._message("", status))
        if items[-1]["type"] != "custom_tool_call":
            items[-1]["status"] = status
        return self._body(status, items, answer)

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
        parser = None if self.prepared.tools is None else self.prepared.tools.parser()
        items: list[Json] = []
        current: Json | None = None
        async with aclosing(self.serving.events(self.prepared)) as events:
            async for _, event in events:
                answer = event.answer
                if answer is not None and answer.error is not None:
                    raise answer.error
                pieces: list[Piece] = _texts(event.text) if parser is None else parser.feed(event.text, final=answer is not None)
                if answer is not None and current is None and not items and not pieces:
                    pieces = [Text("")]
                for piece in pieces:
                    if isinstance(piece, Text) and piece.is_reasoning:
                        continue
                    begins = current is None or (piece.begins if isinstance(piece, Call) else current["type"] != "message")
                    if begins:
                        for done in self._done(current, items, "completed"):
                            yield done
                        current = (
                            self._call_item(_empty(piece), "in_progress") if isinstance(piece, Call) else self._message("", "in_progress")
                        )
                        for begun in self._begun(current, items):
                            yield begun
                    assert current is not None
                    if (delta := self._delta(current, items, piece)) is not None:
                        yield delta
                if answer is None:
                    continue
                status = _status(answer)
                for done in self._done(current, items, status):
                    yield done
                yield self._event(f"response.{status}", response=self._body(status, items, answer))

    def _begun(self, item: Json, items: list[Json]) -> list[bytes]:
        """The events that begin an item."""
        if item["type"] != "message":
            return [self._event("response.output_item.added", output_index=len(items), item=item)]
        return [
            self._event("response.output_item.added", output_index=len(items), item={**item, "content": []}),
            self._event("response.content_part.added", **self._place(item, items), part=item["content"][0]),
        ]

    def _delta(self, item: Json, items: list[Json], piece: Piece) -> bytes | None:
        """The event for a piece that is added to an item."""
        if isinstance(piece, Text):
            if not piece.text:
                return None
            item["content"][0]["text"] += piece.text
            ended = self.partials.of_text(piece.text)
            return self._event("response.output_text.delta", **self._place(item, items), delta=piece.text, logprobs=[], **ended)
        if not piece.arguments:
            return None
        item["input" if piece.custom else "arguments"] += piece.arguments
        kind = "response.custom_tool_call_input.delta" if piece.custom else "response.function_call_arguments.delta"
        ended = self.partials.of_call(piece)
        return self._event(kind, item_id=item["id"], output_index=len(items), delta=piece.arguments, **ended)

    def _done(self, item: Json | None, items: list[Json], status: str) -> list[bytes]:
        """The events that end an item, which is then one of the output's."""
        if item is None:
            return []
        place = {"item_id": item["id"], "output_index": len(items)}
        if "status" in item:
            item["status"] = status
        match item["type"]:
            case "message":
                part = item["content"][0]
                ended = self.partials.of_text("", final=True)
                inside = [
                    self._event("response.output_text.done", **place, content_index=0, text=part["text"], logprobs=[], **ended),
                    self._event("response.content_part.done", **place, content_index=0, part=part),
                ]
            case "function_call":
                named = {"arguments": item["arguments"], "name": item["name"]}
                inside = [self._event("response.function_call_arguments.done", **place, **named)]
            case _:
                inside = [self._event("response.custom_tool_call_input.done", **place, input=item["input"])]
        last = self._event("response.output_item.done", output_index=len(items), item=item)
        items.append(item)
        return [*inside, last]

    def _read(self, answer: Answer) -> list[Piece]:
        return _texts(answer.text) if self.prepared.tools is None else self.prepared.tools.parser().feed(answer.text, final=True)

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
            "parallel_tool_calls": body.parallel_tool_calls is not False,
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
            **self.serving.warnings(self.prepared),
        }


def input_messages(items: str | Sequence[Json], instructions: str | None = None) -> list[Json]:
    """The input of a response or a decision as the messages of a chat."""
    messages: list[Json] = []
    if instructions is not None:
        messages.append({"role": "system", "content": instructions})
    if isinstance(items, str):
        return [*messages, {"role": "user", "content": items}]
    for index, item in enumerate(items):
        match item.get("type", "message"):
            case "message":
                messages.append({"role": item.get("role"), "content": item.get("content")})
            case "function_call":
                function = {"name": item.get("name"), "arguments": item.get("arguments")}
                messages.append(
                    {"role": "assistant", "tool_calls": [{"id": item.get("call_id"), "type": "function", "function": function}]}
                )
            case "custom_tool_call":
                custom = {"name": item.get("name"), "input": item.get("input")}
                messages.append({"role": "assistant", "tool_calls": [{"id": item.get("call_id"), "type": "custom", "custom": custom}]})
            case "function_call_output" | "custom_tool_call_output":
                output = item.get("output")
                content = output if isinstance(output, str) else json.dumps(output)
                messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": content})
            case other:
                raise ApiError(
                    f"input[{index}].type is {str(other)[:60]!r}; available: message, function_call, custom_tool_call and their outputs",
                    param="input",
                )
    if not messages:
        raise ApiError("the input is empty", param="input")
    return messages


def _status(answer: Answer) -> str:
    return "completed" if answer.finish_reason == "stop" else "incomplete"


def _texts(text: str) -> list[Piece]:
    return [Text(text)] if text else []


def _empty(call: Call) -> Call:
    """A call whose arguments are still to come."""
    return Call(call.index, call.name, "", call.id, call.custom)
