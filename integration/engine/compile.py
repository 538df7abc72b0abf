"""Grammars compiled in processes of their own, so that a slow one takes no time from the engine's thread.

Front ends are Python: a thread that runs one holds the interpreter, and every operation of the engine's step would wait for it.
So a worker process turns the specification into a `Grammar` and sends that back; the engine's tables are built from it here.
A worker that overruns its time or its memory is ended, and costs its own request an error; the next request gets a new one.
"""

from __future__ import annotations

import os
import pickle
import queue
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import Future
from multiprocessing.connection import Connection
from typing import Any, Final

from stackmask.integration.compiler import _KINDS, CompiledGrammar, Compiler
from stackmask.integration.specification import schema_key, schema_of_key
from stackmask.pda.exceptions import GrammarError, LimitError
from stackmask.pda.grammar import Grammar
from stackmask.pda.limits import Limits
from stackmask.pda.matcher import allocate_token_bitmask
from stackmask.pda.vocabulary import Vocabulary
from stackmask.schema.report import Report

GRACE: Final = 2.0  # seconds that a worker may take longer than its limit, which it minds by itself
MEMORY: Final = 4 << 30  # bytes of address space of a worker


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
        count = workers or max(1, (os.cpu_count() or 1) // 2)
        super().__init__(vocabulary, limits=limits, cache_bytes=cache_bytes, threads=count)
        self._memory = memory
        self._idle: queue.LifoQueue[_Worker | None] = queue.LifoQueue()
        for _ in range(count):
            self._idle.put(None)  # a worker that is still to be started

    def submit(self, kind: str, *arguments: Any, **options: Any) -> Future[CompiledGrammar]:
        """As the compiler's, in another process."""
        prepare = _KINDS.get(kind)
        if prepare is None:
            return super().submit(kind, *arguments, **options)  # which says what there is
        if kind == "json":
            kind, arguments = "json_schema", (True, *arguments)  # which is what it is
            prepare = _KINDS[kind]
        try:
            key, _ = prepare(self, *arguments, **options)
            if kind in ("json_schema", "structural_tag") and not isinstance(arguments[0], str | bool | dict):
                arguments = (schema_of_key(schema_key(arguments[0], self.limits)), *arguments[1:])
        except (GrammarError, LimitError) as error:
            failed: Future[CompiledGrammar] = Future()
            failed.set_exception(error)
            return failed
        return self._cache.submit(key, lambda: self._remote(kind, arguments, options), self._executor)

    def close(self) -> None:
        """End the workers; what they are doing fails."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        while True:
            try:
                worker = self._idle.get_nowait()
            except queue.Empty:
                return
            if worker is not None:
                worker.close()

    def _remote(self, kind: str, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> CompiledGrammar:
        start = time.monotonic()
        worker = self._idle.get()
        try:
            if worker is None:
                worker = _Worker(self.vocabulary, self.limits, self._memory)
            start = time.monotonic()  # waiting for a worker is nobody's fault
            grammar, report = worker.compile(kind, arguments, options)
        except _LostError as error:
            if worker is not None:
                worker.close()
            worker = None
            raise error.reason from None
        finally:
            self._idle.put(worker)
        compiled = CompiledGrammar._make(self.vocabulary, kind, grammar, report, start, self.limits)
        # the first mask costs most: it is had here, so that the batch need not wait for it
        compiled.matcher().fill_next_token_bitmask(allocate_token_bitmask(1, self.vocabulary.size))
        return compiled


class _LostError(Exception):
    """A worker is no use any more; `reason` is what its request gets."""

    def __init__(self, reason: Exception) -> None:
        self.reason = reason
        super().__init__(str(reason))


class _Worker:
    """One process and the channel to it."""

    def __init__(self, vocabulary: Vocabulary, limits: Limits, memory: int) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "stackmask.integration.compile_worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            )
        self._channel = Connection(ours.detach())
        self._seconds = limits.compile_seconds + GRACE
        self._limits = limits
        self._channel.send((dict(vocabulary.special), vocabulary.size, limits, memory))
        try:
            self._channel.recv()
        except (EOFError, OSError):
            self.close()
            raise LimitError("a process that compiles grammars could not be started", limit="memory") from None

    def compile(self, kind: str, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> tuple[Grammar, Report | None]:
        """The grammar of a specification; what is wrong with it is raised here as it was there."""
        try:
            self._channel.send_bytes(pickle.dumps((kind, arguments, dict(options))))
            if not self._channel.poll(self._seconds):
                limit = self._limits.compile_seconds
                raise _LostError(LimitError(f"compilation took more than {limit:g} s", limit="compile_seconds", value=limit))
            answer = self._channel.recv()
        except (EOFError, OSError):
            raise _LostError(LimitError("compilation took more memory than a worker has", limit="memory")) from None
        if isinstance(answer[0], type):
            kind_of_error, args, fields = answer
            error = kind_of_error.__new__(kind_of_error)
            error.args = args
            vars(error).update(fields)
            raise error
        grammar, entries = answer
        return grammar, None if entries is None else Report.of(entries)

    def close(self) -> None:
        """End the process."""
        self._channel.close()
        self._process.kill()
        self._process.wait()
