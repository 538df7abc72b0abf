"""The engine for asyncio: events as an async iterator, one wake-up of the loop for each step however many requests it serves."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from ..compiler import CompiledGrammar
from .engine import Engine, Ticket
from .request import Answer, Constraint, Event, Request
from .sequence import Sequence


class AsyncEngine:
    """An engine as one event loop sees it; made inside the loop."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._loop = asyncio.get_running_loop()
        self._moved: set[Stream] = set()
        engine.add_step_hook(self._after_step)

    def stream(self, request: Request | Sequence) -> Stream:
        """Submit a request, or one that the engine prepared; RequestError, EngineBusyError and EngineClosedError are raised here."""
        return Stream(self, request)

    async def generate(self, request: Request) -> Answer:
        """The answer to a request; cancelling the task frees its place in the batch."""
        async with self.stream(request) as stream:
            return await stream.answer()

    async def compile(self, constraint: Constraint) -> CompiledGrammar:
        """The grammar of a constraint, compiled outside the event loop."""
        return await asyncio.wrap_future(self.engine.compile(constraint))

    def close(self) -> None:
        """Stop listening to the engine's steps."""
        self.engine.remove_step_hook(self._after_step)

    def _after_step(self) -> None:
        """In the engine's thread, after each step: wake the streams with new events."""
        if self._moved:
            moved, self._moved = self._moved, set()
            self._loop.call_soon_threadsafe(_wake, moved)


class Stream:
    """The events of one request; leaving it as a context manager cancels unfinished requests."""

    def __init__(self, engine: AsyncEngine, request: Request | Sequence) -> None:
        self._engine = engine
        self._events: deque[Event] = deque()
        self.more = asyncio.Event()
        self._last: Answer | None = None
        self._ticket: Ticket = engine.engine.submit(request, self._listen)

    def _listen(self, event: Event) -> None:
        """In the engine's thread."""
        self._events.append(event)
        self._engine._moved.add(self)

    async def __aiter__(self) -> AsyncIterator[Event]:
        while self._last is None:
            while self._events:
                event = self._events.popleft()
                self._last = event.answer or self._last
                yield event
            if self._last is None:
                await self.more.wait()
                self.more.clear()

    async def answer(self) -> Answer:
        """The whole answer."""
        async for event in self:
            if event.answer is not None:
                return event.answer
        assert self._last is not None
        return self._last

    def cancel(self) -> None:
        """End it at the next step."""
        self._ticket.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._last is None:
            self.cancel()


def _wake(streams: set[Stream]) -> None:
    for stream in streams:
        stream.more.set()
