"""Turns at long work: a few places, shared by client and by age.

    Turns       runs calls on threads, at most `places` of them at a time
    CLIENT      the client, set by the calling code
    BusyError   the work of other clients leaves no turn

A call that waits comes next if its client has the fewest calls running, then if its client was served longest ago.
A call that runs for SLOW_AFTER seconds is slow. Slow calls may have all places but one. A further slow call continues only until
another call waits: then its worker is stopped, and the call begins again when a place for slow calls is free.
So a new call waits at most about SLOW_AFTER seconds for each earlier call, whatever those do.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from math import inf
from typing import Any, Final

from ...pda.exceptions import StackmaskError

CLIENT: Final[ContextVar[str]] = ContextVar("CLIENT", default="")
"""The client that asks for the work of this context."""
SLOW_AFTER: Final = 0.5
MOST_SLOW: Final = 16  # calls that wait for a place of slow ones


class BusyError(StackmaskError):
    """The work of other clients leaves no turn; try again later."""


class Turn:
    """The place of a call that runs. `is_slow`: it has one of the places of slow calls; `is_extra`: it is slow, and has none of these."""

    __slots__ = ("client", "is_extra", "is_slow", "is_stopped", "stop")

    def __init__(self, client: str) -> None:
        self.client = client
        self.is_slow = self.is_extra = self.is_stopped = False
        self.stop: Callable[[], None] | None = None


class Turns(Executor):
    """Runs calls on at most `places` threads. At most `most_waiting` wait, and a call that was stopped waits at most `patience` seconds."""

    def __init__(self, places: int, *, most_waiting: int, patience: float) -> None:
        self._places = places
        self._most_waiting = most_waiting
        self._patience = patience
        self._lock = threading.Lock()
        self._waiting: dict[str, deque[tuple[Callable[[], None], Future[Any]]]] = {}
        self._stopped: dict[Turn, threading.Event] = {}
        self._running: set[Turn] = set()
        self._served: dict[str, int] = {}  # by client, the number of its last call; of those that wait or run
        self._count = 0
        self._mine = threading.local()
        self._threads = ThreadPoolExecutor(places + MOST_SLOW, "stackmask-compile")

    # what callers ask for

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a call when it is its turn; BusyError where too many wait, of which this client has its share."""
        client, future = CLIENT.get(), Future[Any]()
        with self._lock:
            waiting = sum(map(len, self._waiting.values()))
            own = len(self._waiting.get(client, ()))
            if waiting >= self._most_waiting and own >= self._most_waiting // len({*self._waiting, client}):
                raise BusyError(f"{waiting} grammars wait already")
            self._waiting.setdefault(client, deque()).append((partial(call, *args, **kwargs), future))
            self._dispatch()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more; what runs is finished."""
        with self._lock:
            if cancel_futures:
                self._waiting.clear()
            for event in self._stopped.values():
                event.set()
            self._stopped.clear()
        self._threads.shutdown(wait, cancel_futures=cancel_futures)

    # what a call that runs asks for

    def begin(self, stop: Callable[[], None]) -> None:
        """From here on, `stop` can stop the work that the call of this thread waits for."""
        turn: Turn = self._mine.turn
        with self._lock:
            turn.stop, turn.is_stopped = stop, False

    def end(self) -> bool:
        """The work that the call of this thread waited for is over; return whether it was stopped."""
        turn: Turn = self._mine.turn
        with self._lock:
            stopped = turn.is_stopped
            turn.stop, turn.is_stopped = None, False
        return stopped

    def outlast(self) -> bool:
        """The call of this thread is slow; whether it has a place of a slow call, or else may be stopped any time."""
        turn: Turn = self._mine.turn
        with self._lock:
            if not turn.is_slow:
                turn.is_slow = self._has_slow_place()
                turn.is_extra = not turn.is_slow
                self._dispatch()
            return turn.is_slow

    def wait_again(self) -> None:
        """The call of this thread was stopped: wait for a place of a slow call; BusyError where none is free in time."""
        turn: Turn = self._mine.turn
        event = threading.Event()
        with self._lock:
            self._running.discard(turn)
            turn.is_slow = turn.is_extra = False
            full = len(self._stopped) >= MOST_SLOW
            if not full:
                self._stopped[turn] = event
            self._dispatch()
        if full or not event.wait(None if self._patience == inf else self._patience):
            with self._lock:
                if self._stopped.pop(turn, None) is not None or full:
                    raise BusyError("slow grammars of other clients took the whole time")

    # under the lock

    def _dispatch(self) -> None:
        """Give free places to waiting calls, and stop a call that stands in their way."""
        while len(self._running) < self._places:
            if self._stopped and (self._has_slow_place() or not self._waiting):
                turn = min(self._stopped, key=lambda turn: self._claim(turn.client))
                turn.is_slow = self._has_slow_place()
                turn.is_extra = not turn.is_slow
                self._running.add(turn)
                self._serve(turn.client)
                self._stopped.pop(turn).set()
            elif self._waiting:
                client = min(self._waiting, key=self._claim)
                queue = self._waiting[client]
                call, future = queue.popleft()
                if not queue:
                    del self._waiting[client]
                turn = Turn(client)
                self._running.add(turn)
                self._serve(client)
                self._threads.submit(self._run, turn, call, future)
            else:
                break
        for turn in self._running:  # a place of a slow call may be free now
            if turn.is_extra and self._has_slow_place():
                turn.is_slow, turn.is_extra = True, False
        wanted = sum(map(len, self._waiting.values())) - sum(turn.is_stopped for turn in self._running)
        for turn in self._running:
            if wanted > 0 and turn.is_extra and turn.stop is not None and not turn.is_stopped:
                turn.is_stopped = True
                turn.stop()
                wanted -= 1

    def _has_slow_place(self) -> bool:
        return sum(turn.is_slow for turn in self._running) < self._places - 1

    def _claim(self, client: str) -> tuple[int, int]:
        """The client with the least of these comes next."""
        return sum(turn.client == client for turn in self._running), self._served.get(client, 0)

    def _serve(self, client: str) -> None:
        self._count += 1
        self._served[client] = self._count
        if len(self._served) > 4096:  # clients come and go
            self._served = dict(sorted(self._served.items(), key=lambda item: item[1])[-1024:])

    # in the threads

    def _run(self, turn: Turn, call: Callable[[], Any], future: Future[Any]) -> None:
        self._mine.turn = turn
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)
        finally:
            with self._lock:
                self._running.discard(turn)
                self._dispatch()
