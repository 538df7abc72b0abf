"""Processes that turn specifications into grammars: `python -P worker.py CONTROL WHEN`, the descriptor of a socket, and "now" or "later".

The process that is started so loads the package and then does no task. For each message with two descriptors, CHANNEL and FILE, it forks a
worker, and answers with its number: a fork takes milliseconds where loading takes a second, so a worker that was ended is soon replaced.
A worker does one task after the other. It ends when the other end of its channel does, or when the process that it was forked from does,
which ends with its own socket. What is large goes by the file.

Most specifications compile in less than a millisecond and should not wait for a turn on a busy machine; long ones should take turns from
nobody. Nobody can raise a priority that was lowered, but on Linux every thread has its own. So a thread with the priority of the process
does one task after the other, and gets the lowest ordinary priority when a task has worked for NICE_AFTER seconds. A thread of
its own loads the package, which takes as long as a large grammar, and ends before anything is forked; so this file imports nothing of it.
WHEN says whether an engine works meanwhile: then that thread lowers itself at once. On other systems the whole process is lowered.

A thread of the lowest ordinary priority has few turns, but another that wakes waits until such a turn ends, which may be milliseconds. So
after IDLE_AFTER more seconds a task is left to idle cores (SCHED_IDLE): another thread that wakes takes the core at once, and the core does
not count as busy when a thread is placed. Only long tasks get there, because on a machine without an idle core they hardly progress. Both
times are CPU time: on a busy machine a short task waits long for a core, and must not be taken for a long one.

These priorities are lowered in one more place, the kernel's `warm_up`, after the same time. That runs in the server's process, beside the
engine: a thread of Python's would need the interpreter to end, and at the lowest priority it could hold the interpreter without a turn.
The kernel's thread never takes the interpreter. A test compares the two times.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .task import Worker

NICE_AFTER: Final = 0.02  # seconds that a task works before it gets the lowest ordinary priority
IDLE_AFTER: Final = 0.2  # further seconds before it is left to idle cores
SHORTEST_WAIT: Final = 0.002  # seconds between two looks at how long a task has worked
LOWEST: Final = 19  # the niceness of the lowest ordinary priority


def main() -> None:
    """Fork a worker for each message, until the other end of the socket closes."""
    control = socket.socket(fileno=int(sys.argv[1]))
    loaded: list[type[Worker]] = []
    loader = threading.Thread(target=_load, args=(loaded, sys.argv[2] == "later"))
    loader.start()
    loader.join()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system forgets workers that have ended
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, whose server ends its workers by itself
    gc.freeze()  # what is loaded stays, and is shared with the workers as long as nobody writes to it
    while loaded:
        message, descriptors, *_ = socket.recv_fds(control, 1, 2)
        if not message:
            return
        number = os.fork()
        if not number:
            control.close()
            end_with_parent()
            _serve(Connection(descriptors[0]), descriptors[1], loaded[0])
            os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)
        control.sendall(number.to_bytes(8, "little"))


def _load(loaded: list[type[Worker]], others_wait: bool) -> None:
    """Load the package; at the lowest priority, where threads have one of their own, if an engine works meanwhile."""
    if others_wait and sys.platform == "linux":
        _lower(threading.current_thread())
    from stackmask.integration.processes.task import Worker, load_front_ends

    load_front_ends()
    loaded.append(Worker)


def end_with_parent() -> None:
    """Have this process killed when the one that it was forked from ends, where the system can."""
    if sys.platform == "linux":
        set_signal_of_parents_death = 1
        ctypes.CDLL(None).prctl(set_signal_of_parents_death, signal.SIGKILL)


def _serve(channel: Connection, file: int, kind: type[Worker]) -> None:
    """Answer one task after the other."""
    with contextlib.suppress(EOFError, OSError, MemoryError, RuntimeError):  # the last where there is no memory for another thread
        worker = kind(channel.recv_bytes(), file)
        channel.send(True)
        thread = _TaskThread(worker)
        while True:
            channel.send_bytes(thread.answer(channel.recv_bytes()))
            if thread.is_lowered:
                thread = _TaskThread(worker)


class _TaskThread:
    """A thread that does one task after the other, until one takes long: then its priority is lowered, and another thread does the next."""

    def __init__(self, worker: Worker) -> None:
        self.is_lowered = False
        self._worker = worker
        self._tasks: SimpleQueue[bytes | None] = SimpleQueue()
        self._answers: SimpleQueue[bytes] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def answer(self, task: bytes) -> bytes:
        """The answer to a task."""
        clock = _clock(self._thread)
        start = clock()
        self._tasks.put(task)
        if (answer := self._within(NICE_AFTER, clock, start)) is not None:
            return answer
        _lower(self._thread)
        self.is_lowered = True
        self._tasks.put(None)
        if (answer := self._within(NICE_AFTER + IDLE_AFTER, clock, start)) is not None:
            return answer
        _leave_to_idle_cores(self._thread)
        return self._answers.get()

    def _within(self, seconds: float, clock: Callable[[], float], start: float) -> bytes | None:
        """The answer, or None once the thread has worked for so long."""
        left = seconds
        while left > 0:
            with contextlib.suppress(Empty):
                return self._answers.get(timeout=max(left, SHORTEST_WAIT))
            try:
                left = start + seconds - clock()
            except OSError:  # the thread has ended, so the answer is there
                return self._answers.get()
        return None

    def _work(self) -> None:
        try:
            while (task := self._tasks.get()) is not None:
                self._answers.put(self._worker.answer(task))
        except BaseException:  # there is no memory left to say so: the channel ends
            os._exit(1)


def _clock(thread: threading.Thread) -> Callable[[], float]:
    """A function that reads the CPU seconds of a thread if the system counts them, else the time in seconds."""
    if sys.platform == "linux" and thread.ident is not None:
        return partial(time.clock_gettime, time.pthread_getcpuclockid(thread.ident))
    return time.monotonic


def _lower(thread: threading.Thread) -> None:
    """Give a thread the lowest priority, or the process where threads have none of their own."""
    if sys.platform == "win32":
        return
    target = thread.native_id if sys.platform == "linux" else 0
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, target or 0, LOWEST)


def _leave_to_idle_cores(thread: threading.Thread) -> None:
    """Let a thread run where nothing else does, where the system can."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.sched_setscheduler(thread.native_id or 0, os.SCHED_IDLE, os.sched_param(0))


if __name__ == "__main__":
    main()
