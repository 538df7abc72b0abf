"""The inspector in a separate process, so that no specification can stop the process that serves.

The process has limits on time and memory; one that overruns them is ended, and the next request gets a new one.
Requests are answered one after the other, and more than a few that wait are refused at once.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any, Final, NamedTuple

from ...pda.vocabulary import Vocabulary

SECONDS: Final = 15.0
"""Time of one answer, compilation included."""
MEMORY: Final = 4 << 30
"""Bytes of address space of the process."""
READY: Final = 120.0
"""Seconds until the process has read its tokenizers."""
MOST_WAITING: Final = 16

Answer = tuple[int, bytes]
"""An HTTP status, and JSON."""


class TokenizerData(NamedTuple):
    """A tokenizer on its way to the process: its name, its vocabulary, and the JSON of a `tokenizers.Tokenizer` where there is one."""

    name: str
    tokens: tuple[bytes | None, ...]
    stop_token_ids: tuple[int, ...]
    special: dict[str, int]
    size: int
    backend: str | None = None

    @classmethod
    def of(cls, name: str, vocabulary: Vocabulary, backend: str | None = None) -> TokenizerData:
        """The data about a vocabulary that the process needs."""
        return cls(name, vocabulary.tokens, vocabulary.stop_token_ids, dict(vocabulary.special), vocabulary.size, backend)


def failure(status: int, message: str, code: str, field: str | None = None) -> Answer:
    """An error in the form of the server's other routes."""
    kind = "rate_limit_error" if status == 429 else "invalid_request_error"
    return status, json.dumps({"error": {"message": message, "type": kind, "param": field, "code": code}}).encode()


class InspectorService:
    """Answers requests in another process, which is started by the first of them."""

    def __init__(self, tokenizers: Sequence[TokenizerData], *, seconds: float = SECONDS, memory: int = MEMORY) -> None:
        self._first = pickle.dumps((list(tokenizers), seconds, memory))
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Connection | None = None
        self._executor = ThreadPoolExecutor(1, "stackmask-inspector")
        self._lock = threading.Lock()
        self._waiting = 0
        self.tokenizers = [{"name": each.name, "size": each.size, "exact": each.backend is not None} for each in tokenizers]

    def start(self) -> None:
        """Start the process now, so that the first request does not wait for it."""
        self.submit(b'{"specification": {"kind": "json", "text": ""}}')

    def submit(self, body: bytes) -> Future[Answer]:
        """The answer to the body of a request, as a future."""
        with self._lock:
            if self._waiting >= MOST_WAITING:
                refused: Future[Answer] = Future()
                refused.set_result(failure(429, f"{MOST_WAITING} inspections wait already; try again later", "rate_limit_exceeded"))
                return refused
            self._waiting += 1
        return self._executor.submit(self._answer, body)

    def ask(self, body: bytes) -> Answer:
        """The answer to the body of a request."""
        return self.submit(body).result()

    def close(self) -> None:
        """End the process; its present work fails."""
        self._end()
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _answer(self, body: bytes) -> Answer:
        try:
            channel = self._connect()
            channel.send_bytes(body)
            if not channel.poll(self._seconds + 2.0):  # it minds its time by itself, as far as it can
                self._end()
                return failure(400, f"the inspection took more than {self._seconds:g} s", "inspection_timeout")
            answer: Answer = pickle.loads(channel.recv_bytes())
            return answer
        except (EOFError, OSError):
            self._end()
            return failure(400, "the inspection took more memory than it may", "inspection_limit")
        finally:
            with self._lock:
                self._waiting -= 1

    def _connect(self) -> Connection:
        """The channel to the process, which is started if there is none."""
        if self._channel is not None:
            return self._channel
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", f"{__package__}.worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            )
        self._channel = Connection(ours.detach())
        self._channel.send_bytes(self._first)
        if not self._channel.poll(READY):  # large vocabularies take seconds, which no request is to answer for
            raise OSError("the inspector's process does not start")
        self._channel.recv_bytes()
        return self._channel

    def _end(self) -> None:
        channel, process = self._channel, self._process
        self._channel = self._process = None
        if channel is not None:
            with contextlib.suppress(OSError):
                channel.close()
        if process is not None:
            process.kill()
            process.wait()


def tokenizer_data(name: str, tokenizer: Any, vocabulary: Vocabulary) -> TokenizerData:
    """A tokenizer of transformers or of tokenizers, for the process; any other by its vocabulary alone."""
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    return TokenizerData.of(name, vocabulary, backend.to_str() if hasattr(backend, "to_str") else None)
