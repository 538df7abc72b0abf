"""Prepared requests through the engine: the events and answers that the three routes that generate have in common."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from ..engine import Answer, Engine, Event
from ..engine.aio import AsyncEngine
from ..engine.request import TokenLogprob
from .errors import ApiError, api_error
from .metrics import Metrics
from .options import ServerOptions
from .plan import Planner, PreparedRequest


class ClientGoneError(Exception):
    """Nobody waits for the answer any more."""


class Serving:
    """The engine behind a server, as one event loop sees it; `planner` prepares its requests."""

    def __init__(self, engine: Engine, options: ServerOptions, metrics: Metrics) -> None:
        self.engine = engine
        self.options = options
        self.planner = Planner(engine, options, metrics)
        self.aio = AsyncEngine(engine)

    async def events(self, prepared: PreparedRequest) -> AsyncGenerator[tuple[int, Event], None]:
        """The events of all sequences as they come, each with the index of its sequence; leaving cancels those that still run."""
        queue: asyncio.Queue[tuple[int, Event | None]] = asyncio.Queue()
        async with AsyncExitStack() as stack:
            streams = [await stack.enter_async_context(self.aio.stream(sequence)) for sequence in prepared.sequences]
            self.planner.in_flight += len(streams)
            stack.callback(self._leave, len(streams))
            if len(streams) == 1:
                async for event in streams[0]:
                    yield 0, event
                return

            async def pump(index: int) -> None:
                async for event in streams[index]:
                    await queue.put((index, event))
                await queue.put((index, None))

            tasks = [asyncio.create_task(pump(index)) for index in range(len(streams))]
            stack.callback(lambda: [task.cancel() for task in tasks])
            left = len(tasks)
            while left:
                index, item = await queue.get()
                if item is None:
                    left -= 1
                else:
                    yield index, item

    async def answers(self, prepared: PreparedRequest, http: HttpRequest | None) -> list[Answer]:
        """The whole answers; ClientGoneError where the client hangs up before."""
        answers: dict[int, Answer] = {}

        async def collect() -> None:
            async for index, event in self.events(prepared):
                if event.answer is not None:
                    answers[index] = event.answer

        work = asyncio.create_task(collect())
        gone = asyncio.create_task(_disconnected(http))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise ClientGoneError
            await work
        except ClientGoneError:
            raise
        except Exception as error:
            raise api_error(error) from error
        finally:
            for task in (work, gone):
                task.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)
        for answer in answers.values():
            if answer.finish_reason == "cancelled":
                raise ApiError("the server is shutting down", status=503, code="shutting_down")
            if answer.error is not None:
                raise api_error(answer.error) from answer.error
        return [answers[index] for index in range(len(prepared.sequences))]

    def token_text(self, token: int) -> tuple[str, list[int] | None]:
        """A token as a text and as bytes."""
        data = self.engine.vocabulary.token_bytes(token)
        if data is None:
            return next((name for name, other in self.engine.vocabulary.special.items() if other == token), f"<{token}>"), None
        return data.decode("utf-8", "replace"), list(data)

    def logprob(self, logprob: TokenLogprob) -> dict[str, Any]:
        """A token's log-probability in the form of chat completions."""
        return {
            **self._one_logprob(logprob.token, logprob.logprob),
            "top_logprobs": [self._one_logprob(token, value) for token, value in logprob.top],
        }

    def _one_logprob(self, token: int, value: float) -> dict[str, Any]:
        text, data = self.token_text(token)
        return {"token": text, "logprob": value, "bytes": data}

    def warnings(self, prepared: PreparedRequest) -> dict[str, Any]:
        """The field of an answer for parts of its constraint that have no effect but were probably meant to."""
        return {"warnings": list(prepared.warnings)} if prepared.warnings else {}

    def usage(self, prepared: PreparedRequest, answers: list[Answer], n: int = 1) -> dict[str, Any]:
        """Token counts, and their cost if requested; `n` answers share a prompt."""
        prompt = sum(answer.prompt_tokens for answer in answers[::n])
        completion = sum(len(answer.token_ids) for answer in answers)
        usage: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
        if prepared.stats:
            usage["stackmask"] = [self._stats(prepared, answer) for answer in answers]
        return usage

    def _stats(self, prepared: PreparedRequest, answer: Answer) -> dict[str, Any]:
        """One answer's statistics."""
        return {**asdict(answer.stats), "cache_hit": prepared.cache_hit, "compile_seconds": prepared.compile_seconds}

    def _leave(self, count: int) -> None:
        self.planner.in_flight -= count


def sse(data: Mapping[str, Any] | str, event: str | None = None) -> bytes:
    """One server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {text}\n\n".encode("utf-8", "replace")


class JsonResponse(Response):
    """JSON that is always valid, whatever it quotes: half of a surrogate pair is escaped, a number that is none is null."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The body."""
        try:
            text = json.dumps(content, separators=(",", ":"), allow_nan=False)
        except ValueError:
            text = json.dumps(json.loads(json.dumps(content), parse_constant=lambda name: None), separators=(",", ":"))
        return text.encode()


async def _disconnected(http: HttpRequest | None) -> None:
    """Return when the client hangs up; the body has been read before. Without a client that never happens."""
    if http is None:
        await asyncio.Event().wait()
    while http is not None:
        message = await http.receive()
        if message["type"] == "http.disconnect":
            return
