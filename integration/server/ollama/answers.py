"""Ollama's answers: objects, streams of JSON lines, and what there is to say of the model.

A stream has a line for each piece of text or thinking and for each call, which is sent when it is whole; the last line has `done: true`,
the reason and the counts. Durations are in nanoseconds. An error after the first byte is a line with `error`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, Final

from starlette.requests import Request as HttpRequest

from ...answers.partial import PartialJson
from ...engine import Answer
from ...engine.request import TokenLogprob
from ...tools import Call, Piece
from ..errors import ApiError, api_error
from ..protocol import Json
from ..serving import Serving
from ..turn import RawTurn, Turn
from .requests import GenerateRequest, OllamaChatRequest

VERSION: Final = "0.13.0"
"""The version of Ollama whose interface this is; clients look at it to know what they may send."""


class Reply:
    """One request for a message (`/api/chat`) or a text (`/api/generate`)."""

    def __init__(self, serving: Serving, body: OllamaChatRequest | GenerateRequest) -> None:
        self.serving = serving
        self.body = body
        self._start = perf_counter()
        self._thinks = body.think is not False
        self.turn: Turn | None = None
        if isinstance(body, GenerateRequest) and body.raw and not body.is_empty:
            self.turn = RawTurn(serving, body.chat_request(), body.prompt)
        elif not body.is_empty:
            self.turn = Turn(serving, body.chat_request())

    async def prepare(self) -> None:
        """Check everything and compile the grammar, before the first byte of an answer."""
        if self.turn is None:
            self.serving.planner.check_model(self.body.model.removesuffix(":latest"))
        else:
            await self.turn.prepare()

    async def answer(self, http: HttpRequest | None) -> Json:
        """The whole answer."""
        if self.turn is None:
            return self._loaded()
        pieces, answer = await self.turn.answer(http)
        calls = _Calls()
        said = self._said(pieces, [*calls.feed(pieces), *calls.close()])
        return self._line(said, self._logprobs(answer.logprobs), **self._end(answer))

    async def stream(self) -> AsyncIterator[bytes]:
        """The answer as JSON lines."""
        if self.turn is None:
            yield _encoded(self._loaded())
            return
        calls = _Calls()
        try:
            async with aclosing(self.turn.steps()) as steps:
                async for step in steps:
                    whole = calls.feed(step.pieces) if step.answer is None else [*calls.feed(step.pieces), *calls.close()]
                    said = self._said(step.pieces, whole)
                    if any(said.values()) or step.logprobs:
                        yield _encoded(self._line(said, self._logprobs(step.logprobs), done=False))
                    if step.answer is not None:
                        yield _encoded(self._line(self._said([], []), {}, **self._end(step.answer)))
        except Exception as error:  # the status is sent, so that the error can only be a line
            yield _encoded(error_body(api_error(error)))

    def _said(self, pieces: list[Piece], calls: list[Json]) -> Json:
        """Text, thinking and calls."""
        texts = [piece for piece in pieces if not isinstance(piece, Call)]
        thought = "".join(piece.text for piece in texts if piece.is_reasoning) if self._thinks else ""
        return {"content": "".join(piece.text for piece in texts if not piece.is_reasoning), "thinking": thought, "tool_calls": calls}

    def _line(self, said: Json, logprobs: Json, **end: Any) -> Json:
        """An object of either route."""
        kept = {name: value for name, value in said.items() if value or name == "content"}
        if isinstance(self.body, GenerateRequest):
            inner = {"response": kept.pop("content"), **kept}
        else:
            inner = {"message": {"role": "assistant", **kept}}
        return {"model": self.body.model, "created_at": _now(), **inner, **logprobs, **end}

    def _end(self, answer: Answer) -> Json:
        """Why the answer ended, and its cost."""
        stats = answer.stats
        return {
            "done": True,
            "done_reason": "stop" if answer.finish_reason == "stop" else "length",
            "total_duration": _nanoseconds(perf_counter() - self._start),
            "load_duration": 0,
            "prompt_eval_count": answer.prompt_tokens,
            "prompt_eval_duration": _nanoseconds(stats.prefill_seconds),
            "eval_count": len(answer.token_ids),
            "eval_duration": _nanoseconds(stats.model_seconds + stats.mask_seconds),
            **({"stackmask": {"closed": True, "complete": answer.complete}} if answer.closed else {}),
        }

    def _loaded(self) -> Json:
        """The answer to a request without a prompt, which asks for the model to be loaded."""
        return self._line(self._said([], []), {}, done=True, done_reason="load")

    def _logprobs(self, logprobs: tuple[TokenLogprob, ...]) -> Json:
        return {"logprobs": [self.serving.logprob(logprob) for logprob in logprobs]} if logprobs else {}


class _Calls:
    """Calls put together from their pieces."""

    def __init__(self) -> None:
        self._name: str | None = None
        self._arguments = ""
        self._count = 0

    def feed(self, pieces: list[Piece]) -> list[Json]:
        """The calls that are whole after these pieces: those that another call or a text follows."""
        whole: list[Json] = []
        for piece in pieces:
            if not isinstance(piece, Call):
                whole += self.close()
                continue
            if piece.begins:
                whole += self.close()
                self._name, self._arguments = piece.name, ""
            self._arguments += piece.arguments
        return whole

    def close(self) -> list[Json]:
        """The call at hand, of one that was cut with the arguments that were finished."""
        if self._name is None:
            return []
        reader = PartialJson()
        reader.feed(self._arguments)
        arguments = reader.value if isinstance(reader.value, dict) else {}
        call = {"function": {"index": self._count, "name": self._name, "arguments": arguments}}
        self._name = None
        self._count += 1
        return [call]


def error_body(error: ApiError) -> Json:
    """An error in Ollama's form."""
    return {"error": error.message}


def list_models(serving: Serving, started: float) -> Json:
    """The models: the one that is served."""
    name = serving.options.model_name
    config = _config(serving)
    entry = {
        "name": name,
        "model": name,
        "modified_at": _time(started),
        "size": _size(serving),
        "digest": "",
        "details": _details(config),
    }
    return {"models": [entry]}


def describe_model(serving: Serving, started: float) -> Json:
    """The description of the model."""
    config, tokenizer = _config(serving), serving.engine.tokenizer
    kind = str(config.get("model_type", "unknown"))
    named = {"context_length": serving.engine.slots.context, "embedding_length": config.get("hidden_size")}
    named |= {"block_count": config.get("num_hidden_layers"), "vocab_size": config.get("vocab_size")}
    has_template = bool(getattr(tokenizer, "chat_template", None))
    thinks = ["thinking"] if serving.options.reasoning_end is not None else []
    return {
        "modelfile": "",
        "parameters": "",
        "template": str(tokenizer.chat_template) if has_template else "",
        "details": _details(config),
        "model_info": {
            "general.architecture": kind,
            **{f"{kind}.{name}": value for name, value in named.items() if value is not None},
        },
        "capabilities": ["completion", *(["tools"] if has_template else []), *thinks],
        "modified_at": _time(started),
    }


def _config(serving: Serving) -> Mapping[str, Any]:
    """The configuration of the model's text part."""
    config: Any = getattr(serving.engine.model, "config", None)
    values: Mapping[str, Any] = config.get_text_config().to_dict() if hasattr(config, "get_text_config") else {}
    return values


def _details(config: Mapping[str, Any]) -> Json:
    kind = str(config.get("model_type", "unknown"))
    level = str(config.get("dtype") or config.get("torch_dtype") or "")
    return {"parent_model": "", "format": "", "family": kind, "families": [kind], "parameter_size": "", "quantization_level": level}


def _size(serving: Serving) -> int:
    """The bytes of the model's parameters, 0 where it does not tell."""
    parameters = getattr(serving.engine.model, "parameters", None)
    return sum(tensor.numel() * tensor.element_size() for tensor in parameters()) if callable(parameters) else 0


def _encoded(line: Json) -> bytes:
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)
