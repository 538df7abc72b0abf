"""Grammars compiled in separate processes, so that a slow one takes no time from the engine's thread.

Front ends are Python: a thread that runs one holds the interpreter, and every operation of the engine's step would wait for it.
So a worker process turns the specification into a grammar and sends that back, packed; the engine's tables are built from it here.
Long work there takes little from this process; `worker.py` explains how.
A worker that exceeds its time or its memory is ended, and its request gets an error; the next request gets a new worker.
A worker that grew over a large specification is replaced too, since Python returns little of its memory,
and this process returns free memory to the system after a large grammar.
`turns.py` decides which specification comes next, and which slow one must begin again because others wait.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from io import FileIO
from multiprocessing.connection import Connection
from typing import Any, Final, Literal

from ...pda.budget import STOP, time_is_over
from ...pda.exceptions import GrammarError, LimitError, UnsatisfiableError
from ...pda.limits import Limits
from ...pda.vocabulary import Vocabulary
from ..compiler import CompiledGrammar, Compiler
from ..compiler.cache import SharedFuture
from ..compiler.cache_key import schema_key
from ..compiler.jobs import Job
from . import worker as compile_worker
from .task import Purpose, Task
from .turns import SLOW_AFTER, BusyError, Turns

PATIENCE: Final = 30.0  # seconds that a call which was stopped for the sake of others waits for its turn, if its limit is not less
ASKED_EVERY: Final = 0.02  # seconds after which a caller is asked whether it still wants an answer
GRACE: Final = 2.0  # seconds that a worker may take longer than its limit, which it minds by itself
MEMORY: Final = 4 << 30  # bytes of address space of a worker
GROWTH: Final = 32 << 20  # bytes that a worker may have grown by before another takes its place
LARGE: Final = 1 << 20  # bytes of a grammar after which free memory is given back
MOST_WAITING: Final = 256  # specifications that wait for a worker


class WorkerCompiler(Compiler):
    """A compiler whose `submit` works in up to `workers` other processes; its other methods work in the caller's thread."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        limits: Limits | None = None,
        cache_bytes: int = 512 << 20,
        workers: int | None = None,
        memory: int = MEMORY,
    ) -> None:
        count = workers or max(2, (os.cpu_count() or 1) // 2)  # at least two, so that a slow specification leaves one to the others
        super().__init__(vocabulary, limits=limits, cache_bytes=cache_bytes, threads=count)
        self._count, self._memory, self._forked = count, memory, False
        self._executor.shutdown()
        self._executor = self._turns = Turns(count, most_waiting=MOST_WAITING, patience=min(self.limits.compile_seconds, PATIENCE))
        # one more than work at a time: it is there when another was stopped
        self._nursery = _Nursery()
        self._workers = _WorkerPool(count + 1, self._turns, partial(_WorkerProcess, self._nursery, vocabulary, self.limits, memory))

    def __reduce__(self) -> tuple[Any, ...]:
        """Its vocabulary and its options, for workers of its own."""
        options: dict[str, Any] = {
            "limits": self.limits,
            "cache_bytes": self._cache.capacity,
            "workers": self._count,
            "memory": self._memory,
        }
        return partial(type(self), self.vocabulary, **options), ()

    def _begin_in_child(self) -> None:
        self._forked = True  # the workers are the parent's

    def submit(self, kind: str, *arguments: Any, **options: Any) -> SharedFuture[CompiledGrammar]:
        """As the compiler's, in another process."""
        try:
            job, task = self._read(kind, arguments, options)
            future = self.start(job, partial(self._remote, task))
        except (GrammarError, LimitError, BusyError) as error:
            return SharedFuture.failed(error)
        if not future.done():
            future.add_done_callback(self._tidy)
        return future

    def check(self, text: str | None, kind: str, *arguments: Any, **options: Any) -> SharedFuture[dict[str, Any]]:
        """As the compiler's, in another process; a text that takes longer than a specification may is a LimitError."""
        future: SharedFuture[dict[str, Any]] = SharedFuture()
        try:
            task = self._read(kind, arguments, options)[1]._replace(purpose=Purpose.CHECK, text=text)
            self._turns.submit(self._check, task, future)
        except (GrammarError, LimitError, BusyError) as error:
            return SharedFuture.failed(error)
        return future

    def start_workers(self) -> None:
        """Start all workers now, so that the first specification does not wait for them; LimitError if one cannot be started.

        Otherwise they start when they are first needed, at the lowest priority: a second of work, which may take long on a busy machine.
        """
        self._nursery.start()
        self._workers.fill()

    def close(self) -> None:
        """End the workers; their present work fails."""
        super().close()
        self._workers.close()
        self._nursery.close()

    def _read(self, kind: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[Job, Task]:
        """A specification, checked and normalised, and the task for a worker."""
        if self._forked:
            raise RuntimeError("the workers of this compiler belong to the parent process: make a compiler in the child")
        if kind == "json":
            kind, arguments = "json_schema", (True, *arguments)  # which is what it is
        job = self.read(kind, *arguments, **options)
        return job, _task(job, kind, arguments, options, self.limits)

    def _check(self, task: Task, future: SharedFuture[dict[str, Any]]) -> None:
        """Have a worker check a text."""
        future.begin()
        try:
            _, answer = self._workers.ask(task)
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(answer)

    def _remote(self, task: Task) -> CompiledGrammar:
        """The grammar of a specification in the engine."""
        start, (grammar, report) = self._workers.ask(task)
        try:
            compiled = CompiledGrammar.build(self.vocabulary, task.kind, grammar, report, start, self.limits)
        except UnsatisfiableError as error:
            if task.kind == "json_schema":  # the front end knows why
                with contextlib.suppress(LimitError):
                    self._workers.ask(task._replace(purpose=Purpose.EXPLAIN))
            raise error from None
        compiled.warm_up()  # here, so that neither the batch nor the server waits for it
        return compiled

    def _tidy(self, future: Future[CompiledGrammar]) -> None:
        """Give free memory back after a large or failed grammar, once nothing here holds it."""
        if future.cancelled() or future.exception() is not None or future.result().size >= LARGE:
            self.run(_trim)


class _WorkerPool:
    """At most `count` processes, each with one task at a time; one that is over is replaced before it is needed again."""

    def __init__(self, count: int, turns: Turns, make: Callable[[], _WorkerProcess]) -> None:
        self._make = make
        self._turns = turns
        self._is_closed = False
        self._idle: queue.LifoQueue[_WorkerProcess | None] = queue.LifoQueue()  # the one used last has its memory in the caches
        for _ in range(count):
            self._idle.put(None)  # a worker that is still to be started

    def fill(self) -> None:
        """Start the workers that are still to be started."""
        places: list[_WorkerProcess | None] = []
        with contextlib.suppress(queue.Empty):
            while True:
                places.append(self._idle.get_nowait())
        try:
            for at, worker in enumerate(places):
                places[at] = worker or self._make()
        finally:
            for worker in places:
                self._idle.put(worker)

    def ask(self, task: Task) -> tuple[float, Any]:
        """When a worker began a task, and its answer: the wait for a worker does not count against the task."""
        while True:
            start, answer = self._try(task)
            if answer is not None:
                return start, answer
            if self._is_closed:
                raise BusyError("the compiler is closed")
            self._turns.wait_again()

    def _try(self, task: Task) -> tuple[float, Any]:
        """The same; the answer is None where the worker was stopped for the sake of others."""
        worker = self._idle.get()
        stopped = False
        try:
            if worker is None:
                worker = self._make()
            start = time.monotonic()
            self._turns.begin(worker.stop)
            try:
                return start, worker.ask(task, self._outlast)
            finally:
                stopped = self._turns.end()
        except _LostError as error:
            if stopped:
                return start, None
            raise error.reason from None
        finally:
            if worker is None or not (worker.is_over or stopped):
                self._idle.put(worker)
            else:
                worker.close()
                threading.Thread(target=self._replace, name="stackmask-worker", daemon=True).start()

    def _outlast(self) -> None:
        """A task takes long: if it may be stopped, have another worker ready for new tasks."""
        if not self._turns.outlast():
            with contextlib.suppress(queue.Empty):
                worker = self._idle.get_nowait()
                if worker is None:
                    threading.Thread(target=self._replace, name="stackmask-worker", daemon=True).start()
                else:
                    self._idle.put(worker)

    def close(self) -> None:
        """End idle workers; the others end with the process that they were forked from."""
        self._is_closed = True
        while True:
            try:
                worker = self._idle.get_nowait()
            except queue.Empty:
                return
            if worker is not None:
                worker.close()

    def _replace(self) -> None:
        """Start another in place of one that is over; where that fails, the next task tries again."""
        worker = None
        with contextlib.suppress(LimitError):
            worker = self._make()
        if self._is_closed and worker is not None:
            worker.close()
        self._idle.put(worker)


class _LostError(Exception):
    """A worker is lost; `reason` is the error of its request."""

    def __init__(self, reason: BaseException) -> None:
        self.reason = reason
        super().__init__(str(reason))


class _Nursery:
    """The process that workers are forked from, started when the first is asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._is_closed = False

    def fork(self, channel: int, file: int) -> int:
        """The number of a new worker with these descriptors; OSError where none can be had."""
        with self._lock:
            if self._is_closed:
                raise OSError("no more workers are wanted")
            if self._control is None:
                self._start("later")
            assert self._control is not None
            try:
                socket.send_fds(self._control, [b"w"], [channel, file])
                number = self._control.recv(8)
            except OSError:
                number = b""
            if not number:  # it has ended; the next attempt starts another
                self._end()
                raise OSError("the process that workers are forked from has ended")
            return int.from_bytes(number, "little")

    def start(self) -> None:
        """Start it now, at the priority of this process, unless it has been started."""
        with self._lock:
            if self._control is None and not self._is_closed:
                self._start("now")

    def close(self) -> None:
        """End it, and with it its workers; there are no others."""
        with self._lock:
            self._is_closed = True
            self._end()

    def _start(self, when: Literal["now", "later"]) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", compile_worker.__file__, str(theirs.fileno()), when],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            )

    def _end(self) -> None:
        if self._control is not None and self._process is not None:
            self._control.close()
            self._process.kill()
            self._process.wait()
            self._control = self._process = None


class _WorkerProcess:
    """One process and the channel to it; `is_over` says that it takes no more tasks."""

    def __init__(self, nursery: _Nursery, vocabulary: Vocabulary, limits: Limits, memory: int) -> None:
        ours, theirs = socket.socketpair()
        self._file = _file()
        self.is_over = False
        self._channel = Connection(ours.detach())
        self._seconds = limits.compile_seconds + GRACE
        self._limits = limits
        self._handle = -1
        try:
            with theirs:
                self.number = nursery.fork(theirs.fileno(), self._file.fileno())
            if sys.platform == "linux":
                self._handle = os.pidfd_open(self.number)  # a number may be another process's one day
            self._channel.send((dict(vocabulary.special), vocabulary.size, limits, memory, GROWTH))
            self._channel.recv()
        except (EOFError, OSError):
            self._channel.close()
            self._file.close()
            raise LimitError("a process that compiles grammars could not be started", limit="memory") from None

    def _answers_within(self, seconds: float) -> bool:
        """Whether an answer comes in time; a caller that no longer wants one is asked for now and then, and ends the wait."""
        stop, end = STOP.get(), time.monotonic() + seconds
        while not self._channel.poll(max(0.0, min(end - time.monotonic(), ASKED_EVERY))):
            if stop is not None and (error := stop()) is not None:
                raise _LostError(error)
            if time.monotonic() >= end:
                return False
        return True

    def ask(self, task: Task, outlast: Callable[[], None]) -> Any:
        """The answer to a task; its error is raised here as it was there. `outlast` is called when it takes long."""
        data = pickle.dumps(task)
        self.is_over = True  # unless it answers
        try:
            self._channel.send_bytes(data)
            if not self._answers_within(min(SLOW_AFTER, self._seconds)):
                outlast()
                if not self._answers_within(max(0.0, self._seconds - SLOW_AFTER)):
                    raise _LostError(time_is_over(self._limits.compile_seconds))
            is_over, answer, sizes = self._channel.recv()
            buffers = self._buffers(sizes)
        except (EOFError, OSError):
            raise _LostError(LimitError("compilation took more memory than a worker has", limit="memory")) from None
        self.is_over = is_over
        found = pickle.loads(answer, buffers=buffers)
        if isinstance(found, tuple) and isinstance(found[0], type):
            kind_of_error, args, fields = found
            error = kind_of_error.__new__(kind_of_error)
            error.args = args
            vars(error).update(fields)
            raise error
        return found

    def stop(self) -> None:
        """Have the process end at once; a caller that waits for its answer learns that it is lost."""
        with contextlib.suppress(OSError):  # it has ended
            if sys.platform == "linux":
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            else:
                os.kill(self.number, signal.SIGKILL)

    def close(self) -> None:
        """End the process."""
        self.stop()
        self._channel.close()
        self._file.close()
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _buffers(self, sizes: list[int]) -> list[bytes]:
        """The contents that the process left in the file; empties it.

        PERF: of a channel, megabytes are read in pieces that the interpreter puts together, which nobody else has for 5 to 12 ms then. Of a
        file the system reads them at once, and nobody waits.
        """
        buffers: list[bytes] = []
        place = 0
        for size in sizes:
            parts: list[bytes] = []
            end = place + size
            while place < end:
                parts.append(os.pread(self._file.fileno(), end - place, place))
                if not parts[-1]:
                    raise EOFError
                place += len(parts[-1])
            buffers.append(parts[0] if len(parts) == 1 else b"".join(parts))
        if sizes:
            self._file.truncate(0)
        return buffers


def _file() -> FileIO:
    """A file without a name, in memory where the system has such."""
    if sys.platform == "linux":
        return FileIO(os.memfd_create("stackmask", os.MFD_CLOEXEC), "w+")
    with tempfile.TemporaryFile() as file:
        return FileIO(os.dup(file.fileno()), "w+")


def _task(job: Job, kind: str, arguments: tuple[Any, ...], options: dict[str, Any], limits: Limits) -> Task:
    """A specification as it is sent to a worker: schemas and structural tags by their keys, which contain no object of the caller's."""
    if kind in ("json_schema", "structural_tag"):
        assert isinstance(job.key, tuple)
        arguments = (job.key[1], *arguments[1:])
    if options.get("documents"):
        options = {**options, "documents": {uri: schema_key(document, limits) for uri, document in options["documents"].items()}}
    return Task(kind, arguments, options)


def _trim() -> None:
    """Give free memory to the system, if the C library can: otherwise it keeps the gaps between memory in use."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
