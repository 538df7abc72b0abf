"""Requests on their way into the batch: checked, queued, and handed over in the order of their arrival once their grammar is compiled.

A request becomes a `Sequence` once, when it is checked. It gets its matcher once: by `prepare`, which checks its budget too, or else when
it is admitted.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from typing import Any

from ...pda.exceptions import StackmaskError
from ...pda.vocabulary import Vocabulary
from ..compiler import CompiledGrammar, Compiler
from ..compiler.cache import SharedFuture
from .budget import ShortestTokenization
from .kv_cache import RowCache
from .request import Request, RequestError
from .sequence import Listener, Sequence


class EngineBusyError(StackmaskError):
    """The queue is full; try again later."""


class EngineClosedError(StackmaskError):
    """The engine takes no more requests."""


class Admission:
    """The queue in front of a batch of `max_running` rows; `changed` is notified when a request arrives, leaves or is ready.

    `max_waiting` requests may wait beyond the free rows.
    """

    def __init__(self, compiler: Compiler, slots: RowCache, max_running: int, max_waiting: int) -> None:
        self.changed = threading.Condition()
        self.is_closing = False
        self.max_running = max_running
        self.max_waiting = max_waiting
        self.tokenization = ShortestTokenization(compiler.vocabulary)
        self._compiler = compiler
        self._vocabulary: Vocabulary = compiler.vocabulary
        self._slots = slots
        self._embeddings: int = slots.model.config.get_text_config().vocab_size
        self._waiting: deque[tuple[Sequence, Future[CompiledGrammar] | None]] = deque()
        self._cancelled: set[Sequence] = set()
        self._ends_all = False

    def compile(self, constraint: Any) -> SharedFuture[CompiledGrammar]:
        """The grammar of a constraint, as a future; one compilation serves all requests for the same."""
        return self._compiler.submit(constraint.kind, *constraint.arguments, **constraint.options)

    def check(self, request: Request) -> Sequence:
        """The state of a request; RequestError names the field that cannot be served."""
        room = self._room(request)
        if isinstance(request.constraint, CompiledGrammar) and request.constraint.vocabulary is not self._vocabulary:
            raise RequestError("the grammar was compiled for another vocabulary", "constraint")
        return Sequence(request, self._vocabulary, room)

    def prepare(self, request: Request) -> Sequence:
        """The same, with its budget checked where its constraint is a compiled grammar."""
        sequence = self.check(request)
        if isinstance(request.constraint, CompiledGrammar):
            sequence.begin(request.constraint, self.tokenization)
        return sequence

    def submit(self, sequence: Sequence, listener: Listener, running: int, *, patient: bool) -> None:
        """Queue a request that was checked and not submitted before; `running` requests are in the batch."""
        constraint = sequence.request.constraint
        future: Future[CompiledGrammar] | None = None
        if isinstance(constraint, CompiledGrammar):
            future = Future()
            future.set_result(constraint)
        elif constraint is not None:
            future = self.compile(constraint)
        sequence.submit(listener, cache_hit=future is not None and future.done())
        with self.changed:
            if self.is_closing:
                raise EngineClosedError("the engine is shutting down")
            if not patient and len(self._waiting) >= self.max_waiting + max(0, self.max_running - running):
                raise EngineBusyError(f"{len(self._waiting)} requests wait already")
            self._waiting.append((sequence, future))
            self.changed.notify()
        if future is not None and not future.done():
            future.add_done_callback(lambda _: self.wake())

    def next_ready(self) -> tuple[Sequence | None, CompiledGrammar | None, Exception | None]:
        """The first request in the queue whose grammar is compiled, with that grammar or its error."""
        with self.changed:
            for place, (sequence, future) in enumerate(self._waiting):
                if future is None or future.done():
                    del self._waiting[place]
                    if future is None:
                        return sequence, None, None
                    try:
                        return sequence, future.result(), None
                    except Exception as error:
                        return sequence, None, error
        return None, None, None

    def cancel(self, sequence: Sequence) -> None:
        """End it at the next step."""
        with self.changed:
            if sequence.finish_reason is None:
                self._cancelled.add(sequence)
                self.changed.notify_all()

    def take_cancelled(self, entered: list[Sequence]) -> list[Sequence]:
        """The requests to end now, from the queue and of those that have entered."""
        with self.changed:
            cancelled, self._cancelled = self._cancelled, set()
            if self._ends_all:
                cancelled.update(entered, (sequence for sequence, _ in self._waiting))
            if not cancelled:
                return []
            waiting = [sequence for sequence, _ in self._waiting if sequence in cancelled]
            if waiting:
                self._waiting = deque(entry for entry in self._waiting if entry[0] not in cancelled)
        return [*waiting, *(sequence for sequence in entered if sequence in cancelled)]

    def close(self) -> None:
        """Accept nothing more, and end everything at the next step, what enters meanwhile too."""
        with self.changed:
            self.is_closing = self._ends_all = True
            self.changed.notify_all()

    @property
    def is_empty(self) -> bool:
        """Whether no request waits."""
        return not self._waiting

    @property
    def has_work(self) -> bool:
        """Whether a step would admit or end a request."""
        return (
            bool(self._cancelled)
            or (self._ends_all and not self.is_empty)
            or any(future is None or future.done() for _, future in self._waiting)
        )

    def count(self) -> tuple[int, int]:
        """The number of requests that wait for a row, and the number that wait for their grammar."""
        with self.changed:
            compiling = sum(future is not None and not future.done() for _, future in self._waiting)
            return len(self._waiting) - compiling, compiling

    def wake(self) -> None:
        """Notify the threads that wait for a change."""
        with self.changed:
            self.changed.notify_all()

    def _room(self, request: Request) -> int:
        """The most tokens of the answer."""
        left = self._slots.context - len(request.prompt)
        if left < 1:
            raise RequestError(f"a prompt of {len(request.prompt)} tokens fills the model's context of {self._slots.context}", "prompt")
        if not self._slots.can_take_back and (request.speculation or request.jump_forward):
            name = "speculation" if request.speculation else "jump_forward"
            raise RequestError(f"{name} takes tokens back from the cache, which this model's layers do not allow", name)
        if not self._slots.can_branch and request.speculation and request.draft_tree > 1:
            raise RequestError("draft_tree is more than 1, and this model's cache has no branches", "draft_tree")
        for name, tokens, size in (
            ("prompt", request.prompt, self._embeddings),
            ("stop_token_ids", request.stop_token_ids, self._vocabulary.size),
            ("logit_bias", request.sampling.logit_bias, self._vocabulary.size),
        ):
            odd = next((token for token in tokens if not 0 <= token < size), None)
            if odd is not None:
                raise RequestError(f"token {odd} is outside 0 to {size - 1}", name)
        return left if request.max_tokens is None else min(request.max_tokens, left)
