"""Compiled grammars by specification: made once however many ask at the same time, kept while they fit a number of bytes.

A specification that is being compiled is a future which everybody who asks for it waits on.
A failure reaches all of them and is forgotten: whoever asks later compiles anew. Where all have cancelled, the compilation ends at its next
step.
The least recently used grammars go first when the bytes are used up; a matcher keeps its grammar alive nevertheless.
An exception that is kept holds the frames it came through, and so all that a compilation had made when it failed: these are cleared,
and nothing here lets a future and its exception hold each other, which would last until the garbage collector comes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import CancelledError, Executor, Future
from dataclasses import dataclass
from functools import partial
from threading import Lock
from traceback import clear_frames
from typing import Generic, Protocol, Self, TypeVar

from ...pda.budget import STOP


class Sized(Protocol):
    """What can be kept: something that knows its memory, which may grow."""

    @property
    def size(self) -> int:
        """Bytes it takes now."""


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """What a cache holds and how often it helped; `waited` counts those who joined a compilation under way."""

    entries: int
    size: int
    capacity: int
    hits: int
    misses: int
    waited: int


S = TypeVar("S", bound=Sized)
V = TypeVar("V")


class SharedFuture(Future[V]):
    """A future that also says when its turn has come: `begun` is done once somebody makes the value. Leave it uncancelled: it is shared."""

    def __init__(self, begun: Future[None] | None = None) -> None:
        super().__init__()
        self.begun: Future[None] = Future() if begun is None else begun

    def begin(self) -> None:
        """Somebody makes the value, or it is there."""
        if not self.begun.done():
            self.begun.set_result(None)

    @classmethod
    def ready(cls, value: V) -> Self:
        """One whose value is there."""
        future = cls()
        future.begin()
        future.set_result(value)
        return future

    @classmethod
    def failed(cls, error: Exception) -> Self:
        """One that has failed."""
        future = cls()
        future.begin()
        future.set_exception(error)
        return future


class Cache(Generic[S]):
    """A thread-safe table with a bound on the bytes of its values."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lock = Lock()
        self._ready: OrderedDict[Hashable, tuple[S, int]] = OrderedDict()  # values with their size when last used
        self._pending: dict[Hashable, SharedFuture[S] | None] = {}  # None until somebody waits: a future takes longer than all else here
        self._wanted: dict[Hashable, int] = {}  # of what is made on an executor, how many wait for it
        self._size = self._hits = self._misses = self._waited = 0

    def get(self, key: Hashable, make: Callable[[], S]) -> S:
        """The value of `key`; made in this thread if nobody has made it or is making it."""
        future: SharedFuture[S] | None = None
        with self._lock:
            found = self._found(key)
            if found is not None:
                return found
            if key in self._pending:
                future = self._joined(key)
            else:
                self._misses += 1
                self._pending[key] = None
        if future is not None:
            try:
                return future.result()
            finally:
                del future
                self._leave(key)
        try:
            value = make()
        except Exception as error:
            self._fail(key, error)
            raise
        except BaseException:  # an interrupt concerns this thread alone
            self._give_up(key)
            raise
        self._finish(key, value)
        return value

    def submit(self, key: Hashable, make: Callable[[], S], executor: Executor) -> SharedFuture[S]:
        """A future of the value of `key`, which is the caller's own: cancelling it leaves the others waiting."""
        with self._lock:
            found = self._found(key)
            if found is not None:
                return SharedFuture.ready(found)
            owner = key not in self._pending
            if owner:
                self._misses += 1
                future = self._pending[key] = SharedFuture()
                self._wanted[key] = 1
            else:
                future = self._joined(key)
        follower = _follow(future)
        follower.add_done_callback(lambda done: self._leave(key) if done.cancelled() else None)
        if owner:
            try:
                executor.submit(self._make, key, make, future)
            except BaseException:
                self._give_up(key)
                raise
        return follower

    @property
    def capacity(self) -> int:
        """The bytes that its values may take."""
        return self._capacity

    @property
    def info(self) -> CacheInfo:
        """The state of the cache."""
        with self._lock:
            return CacheInfo(len(self._ready), self._size, self._capacity, self._hits, self._misses, self._waited)

    def clear(self) -> None:
        """Drop every value that is ready."""
        with self._lock:
            self._ready.clear()
            self._size = 0

    def _found(self, key: Hashable) -> S | None:
        """The value of `key` where it is ready; under the lock."""
        found = self._ready.get(key)
        if found is None:
            return None
        self._hits += 1
        self._keep(key, found[0])
        return found[0]

    def _joined(self, key: Hashable) -> SharedFuture[S]:
        """The future of what is being made; under the lock."""
        self._waited += 1
        if key in self._wanted:
            self._wanted[key] += 1
        future = self._pending[key]
        if future is None:
            future = self._pending[key] = SharedFuture()
            future.begin()
        return future

    def _make(self, key: Hashable, make: Callable[[], S], future: SharedFuture[S]) -> None:
        """Make a value for those who wait for it, as long as there are any."""
        future.begin()
        del future
        token = STOP.set(partial(self._unwanted, key))
        try:
            while True:
                try:
                    value = make()
                except CancelledError as error:
                    if self._abandon(key, error):
                        return
                else:
                    self._finish(key, value)
                    return
        except Exception as error:
            del make
            self._fail(key, error)
        except BaseException:  # an interrupt concerns this thread alone
            self._give_up(key)
            raise
        finally:
            STOP.reset(token)

    def _unwanted(self, key: Hashable) -> CancelledError | None:
        """What ends a compilation that nobody waits for."""
        return None if self._wanted.get(key) else CancelledError()

    def _leave(self, key: Hashable) -> None:
        """One who waited waits no more."""
        with self._lock:
            if self._wanted.get(key):
                self._wanted[key] -= 1

    def _abandon(self, key: Hashable, error: CancelledError) -> bool:
        """Forget what nobody waits for; False where somebody has come since it was given up."""
        with self._lock:
            if self._wanted.get(key):
                return False
            self._forget(key)
        _clear(error)
        return True

    def _forget(self, key: Hashable) -> SharedFuture[S] | None:
        """The future of what is made no more, if anybody has asked for one; under the lock."""
        self._wanted.pop(key, None)
        return self._pending.pop(key)

    def _finish(self, key: Hashable, value: S) -> None:
        """Keep a value that was made, and give it to all who wait."""
        with self._lock:
            future = self._forget(key)
            self._keep(key, value)
        if future is not None:
            future.set_result(value)

    def _fail(self, key: Hashable, error: Exception) -> None:
        """Tell all who wait why there is no value."""
        with self._lock:
            future = self._forget(key)
        _clear(error)
        if future is not None:
            future.set_exception(error)

    def _give_up(self, key: Hashable) -> None:
        """Tell all who wait that nobody makes the value any more."""
        with self._lock:
            future = self._forget(key)
        if future is not None:
            future.cancel()
            future.set_running_or_notify_cancel()

    def _keep(self, key: Hashable, value: S) -> None:
        """Put a value at the young end with its size of now, and drop old ones while there are too many bytes; under the lock.

        One that is too large by itself is not kept, and drops nothing: else a single hostile specification would cost all others theirs.
        """
        _, before = self._ready.pop(key, (None, 0))
        size = value.size
        if size > self._capacity:
            self._size -= before
            return
        self._ready[key] = value, size
        self._size += size - before
        while self._size > self._capacity and self._ready:
            self._size -= self._ready.popitem(last=False)[1][1]


def _follow(future: SharedFuture[S]) -> SharedFuture[S]:
    """A future that ends as `future` does, unless it is cancelled before."""
    follower: SharedFuture[S] = SharedFuture(future.begun)

    def pass_on(done: Future[S]) -> None:
        if not follower.set_running_or_notify_cancel():
            return
        if done.cancelled():
            follower.set_exception(CancelledError())
        elif (error := done.exception()) is not None:
            follower.set_exception(error)
        else:
            follower.set_result(done.result())

    future.add_done_callback(pass_on)
    return follower


def _clear(error: BaseException) -> None:
    """Forget what the functions held that an exception came through, and those before it."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        found = todo.pop()
        if found is not None and id(found) not in seen:
            seen.add(id(found))
            clear_frames(found.__traceback__)
            todo += (found.__cause__, found.__context__)
