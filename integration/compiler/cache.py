"""Compiled grammars by specification: made once for any number of simultaneous callers, kept within a number of bytes.

A specification that is being compiled is a future on which all its callers wait.
A failure reaches all of them and is then forgotten: a later call compiles again. If all callers cancel, the compilation ends at its next
step.
When the bytes are used up, the least recently used grammars are dropped; a matcher keeps its grammar alive nevertheless.
A stored exception keeps its stack frames alive, and with them everything that the failed compilation had made. So the frames are cleared,
and a future and its exception never refer to each other, since only the garbage collector would free such a cycle.
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
    """A value that can be cached: it knows its memory, which may grow."""

    @property
    def size(self) -> int:
        """Bytes it takes now, with those of its key."""


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """The contents of a cache, and its hits; `waited` counts the callers that joined a compilation in progress."""

    entries: int
    size: int
    capacity: int
    hits: int
    misses: int
    waited: int


S = TypeVar("S", bound=Sized)
V = TypeVar("V")


class SharedFuture(Future[V]):
    """A future that also reports its turn: `begun` is done once the value is being made. Do not cancel it, because it is shared."""

    def __init__(self, begun: Future[None] | None = None) -> None:
        super().__init__()
        self.begun: Future[None] = Future() if begun is None else begun

    def begin(self) -> None:
        """Note that the value is being made, or is ready."""
        if not self.begun.done():
            self.begun.set_result(None)

    @classmethod
    def ready(cls, value: V) -> Self:
        """A future with a value."""
        future = cls()
        future.begin()
        future.set_result(value)
        return future

    @classmethod
    def failed(cls, error: Exception) -> Self:
        """A failed future."""
        future = cls()
        future.begin()
        future.set_exception(error)
        return future


class Cache(Generic[S]):
    """A thread-safe table with a bound on the bytes of its values."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lock = Lock()
        # values with their size when last used
        self._ready: OrderedDict[Hashable, tuple[S, int]] = OrderedDict()
        self._pending: dict[Hashable, SharedFuture[S] | None] = {}  # None until somebody waits: a future takes longer than all else here
        self._wanted: dict[Hashable, int] = {}  # of what is made on an executor, how many wait for it
        self._size = self._hits = self._misses = self._waited = 0

    def get(self, key: Hashable, make: Callable[[], S]) -> S:
        """The value of `key`; made in this thread unless it exists or is being made."""
        future: SharedFuture[S] | None = None
        with self._lock:
            found = self._ready.get(key)
            if found is not None:
                return self._used(key, found[0])
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
        """A future of the value of `key` for this caller alone: cancelling it does not affect other callers."""
        with self._lock:
            found = self._ready.get(key)
            if found is not None:
                return SharedFuture.ready(self._used(key, found[0]))
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
        """The maximal size of its values in bytes."""
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

    def _used(self, key: Hashable, value: S) -> S:
        """A value that is ready, as the most recent; call under the lock."""
        self._hits += 1
        self._size -= self._ready.pop(key)[1]
        self._keep(key, value)
        return value

    def _joined(self, key: Hashable) -> SharedFuture[S]:
        """The future of a value in the making; call under the lock."""
        self._waited += 1
        if key in self._wanted:
            self._wanted[key] += 1
        future = self._pending[key]
        if future is None:
            future = self._pending[key] = SharedFuture()
            future.begin()
        return future

    def _make(self, key: Hashable, make: Callable[[], S], future: SharedFuture[S]) -> None:
        """Make a value, as long as a caller waits for it."""
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
        """The exception that ends a compilation for which no caller waits."""
        return None if self._wanted.get(key) else CancelledError()

    def _leave(self, key: Hashable) -> None:
        """Note that one caller has stopped waiting."""
        with self._lock:
            if self._wanted.get(key):
                self._wanted[key] -= 1

    def _abandon(self, key: Hashable, error: CancelledError) -> bool:
        """Forget a value for which no caller waits; False if one has come since it was given up."""
        with self._lock:
            if self._wanted.get(key):
                return False
            self._forget(key)
        _clear(error)
        return True

    def _forget(self, key: Hashable) -> SharedFuture[S] | None:
        """Remove a value in the making and return its future, if there is one; call under the lock."""
        if self._wanted:  # PERF: to look up a key takes the hashes of all its parts
            self._wanted.pop(key, None)
        return self._pending.pop(key)

    def _finish(self, key: Hashable, value: S) -> None:
        """Cache a finished value, and pass it to all waiting callers."""
        with self._lock:
            future = self._forget(key)
            self._keep(key, value)
        if future is not None:
            future.set_result(value)

    def _fail(self, key: Hashable, error: Exception) -> None:
        """Pass an exception to all waiting callers."""
        with self._lock:
            future = self._forget(key)
        _clear(error)
        if future is not None:
            future.set_exception(error)

    def _give_up(self, key: Hashable) -> None:
        """Tell all waiting callers that the value will not be made."""
        with self._lock:
            future = self._forget(key)
        if future is not None:
            future.cancel()
            future.set_running_or_notify_cancel()

    def _keep(self, key: Hashable, value: S) -> None:
        """Add a value as the most recent one, with its size now, and drop old ones while there are too many bytes; call under the lock.

        A value that is too large by itself is not kept and drops nothing; otherwise one hostile specification would evict all others.
        """
        size = value.size
        if size > self._capacity:
            return
        self._ready[key] = value, size
        self._size += size
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
    """Clear the frames of an exception and of those that caused it."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        found = todo.pop()
        if found is not None and id(found) not in seen:
            seen.add(id(found))
            clear_frames(found.__traceback__)
            todo += (found.__cause__, found.__context__)
