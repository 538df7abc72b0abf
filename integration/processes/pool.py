"""Grammars compiled in processes of their own, so that a slow one takes no time from the engine's thread.

Front ends are Python: a thread that runs one holds the interpreter, and every operation of the engine's step would wait for it.
So a worker process turns the specification into a grammar and sends that back, packed; the engine's tables are built from it here.
What takes long there takes little from this process: `worker.py` says how.
A worker that overruns its time or its memory is ended, and costs its own request an error; the next request gets a new one.
A worker that grew over a large specification is replaced too, since Python gives little of its memory back,
and this process gives free memory back to the system after a large grammar.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import queue
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
from typing import Any, Final

from ...pda.exceptions import GrammarError, LimitError, UnsatisfiableError
from ...pda.limits import Limits
from ...pda.packed import PackedGrammar
from ...pda.vocabulary import Vocabulary
from ...schema.dialect.report import Report
from ..compiler import CompiledGrammar, Compiler
from ..compiler.cache import SharedFuture
from ..compiler.cache_key import schema_key
from ..compiler.compiler import Job
from . import worker as compile_worker
from .task import Task

GRACE: Final = 2.0  # seconds that a worker may take longer than its limit, which it minds by itself
MEMORY: Final = 4 << 30  # bytes of address space of a worker
LARGE: Final = 1 << 20  # bytes of a grammar after which free memory is given back


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
        self._workers = _WorkerPool(count, partial(_WorkerProcess, vocabulary, self.limits, memory))

    def submit(self, kind: str, *arguments: Any, **options: Any) -> SharedFuture[CompiledGrammar]:
        """As the compiler's, in another process."""
        if kind == "json":
            kind, arguments = "json_schema", (True, *arguments)  # which is what it is
        try:
            job = self.read(kind, *arguments, **options)
            task = _task(job, kind, arguments, options, self.limits)
        except (GrammarError, LimitError) as error:
            return SharedFuture.failed(error)
        future = self.start(job, partial(self._remote, task))
        if not future.done():
            future.add_done_callback(self._tidy)
        return future

    def close(self) -> None:
        """End the workers; what they are doing fails."""
        super().close()
        self._workers.close()

    def _remote(self, task: Task) -> CompiledGrammar:
        """The grammar of a specification in the engine."""
        start, grammar, report = self._workers.ask(task)
        try:
            compiled = CompiledGrammar.build(self.vocabulary, task.kind, grammar, report, start, self.limits)
        except UnsatisfiableError as error:
            if task.kind == "json_schema":  # the front end knows why
                with contextlib.suppress(LimitError):
                    self._workers.ask(task._replace(explain=True))
            raise error from None
        compiled.warm_up()  # here, so that neither the batch nor the server waits for it
        return compiled

    def _tidy(self, future: Future[CompiledGrammar]) -> None:
        """Have free memory given back after what is large, or failed, once nothing here holds it any more."""
        if future.cancelled() or future.exception() is not None or future.result().size >= LARGE:
            self.run(_trim)


class _WorkerPool:
    """At most `count` processes, each with one task at a time; one that is over is replaced before it is needed again."""

    def __init__(self, count: int, make: Callable[[], _WorkerProcess]) -> None:
        self._make = make
        self._is_closed = False
        self._idle: queue.LifoQueue[_WorkerProcess | None] = queue.LifoQueue()  # the one used last has its memory in the caches
        for _ in range(count):
            self._idle.put(None)  # a worker that is still to be started

    def ask(self, task: Task) -> tuple[float, PackedGrammar, Report | None]:
        """The grammar of a task, and when a worker began it: the wait for a worker does not count against the task."""
        worker = self._idle.get()
        try:
            if worker is None:
                worker = self._make()
            start = time.monotonic()
            return start, *worker.compile(task)
        except _LostError as error:
            raise error.reason from None
        finally:
            if worker is None or not worker.is_over:
                self._idle.put(worker)
            else:
                worker.close()
                threading.Thread(target=self._replace, name="stackmask-worker", daemon=True).start()

    def close(self) -> None:
        """End idle workers now, and the others when their task is done."""
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

    def __init__(self, reason: Exception) -> None:
        self.reason = reason
        super().__init__(str(reason))


class _WorkerProcess:
    """One process and the channel to it; `is_over` says that it takes no more tasks."""

    def __init__(self, vocabulary: Vocabulary, limits: Limits, memory: int) -> None:
        ours, theirs = socket.socketpair()
        self._file = _file()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", compile_worker.__file__, str(theirs.fileno()), str(self._file.fileno())],
                pass_fds=[theirs.fileno(), self._file.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            )
        self.is_over = False
        self._channel = Connection(ours.detach())
        self._seconds = limits.compile_seconds + GRACE
        self._limits = limits
        self._channel.send((dict(vocabulary.special), vocabulary.size, limits, memory))
        try:
            self._channel.recv()
        except (EOFError, OSError):
            self.close()
            raise LimitError("a process that compiles grammars could not be started", limit="memory") from None

    def compile(self, task: Task) -> tuple[PackedGrammar, Report | None]:
        """The grammar of a specification; what is wrong with it is raised here as it was there."""
        data = pickle.dumps(task)
        self.is_over = True  # unless it answers
        try:
            self._channel.send_bytes(data)
            if not self._channel.poll(self._seconds):
                limit = self._limits.compile_seconds
                raise _LostError(LimitError(f"compilation took more than {limit:g} s", limit="compile_seconds", value=limit))
            is_over, answer, sizes = self._channel.recv()
            buffers = self._buffers(sizes)
        except (EOFError, OSError):
            raise _LostError(LimitError("compilation took more memory than a worker has", limit="memory")) from None
        self.is_over = is_over
        found = pickle.loads(answer, buffers=buffers)
        if isinstance(found[0], type):
            kind_of_error, args, fields = found
            error = kind_of_error.__new__(kind_of_error)
            error.args = args
            vars(error).update(fields)
            raise error
        grammar, report = found
        return grammar, report

    def close(self) -> None:
        """End the process."""
        self._channel.close()
        self._process.kill()
        self._process.wait()
        self._file.close()

    def _buffers(self, sizes: list[int]) -> list[bytes]:
        """What the process left in the file, which is empty then.

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
    """What a worker is sent: schemas and structural tags by their keys, in which no object of the caller's is left."""
    if kind in ("json_schema", "structural_tag"):
        assert isinstance(job.key, tuple)
        arguments = (job.key[1], *arguments[1:])
    if options.get("documents"):
        options = {**options, "documents": {uri: schema_key(document, limits) for uri, document in options["documents"].items()}}
    return Task(kind, arguments, options)


def _trim() -> None:
    """Give what is free to the system, where the C library can: else it keeps what lies between what is in use."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
