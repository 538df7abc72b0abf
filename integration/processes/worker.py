"""A process that turns specifications into grammars, one after the other: `python -P worker.py CHANNEL FILE`, two descriptors.

It ends when the other end of its channel does. What is large goes by the file.

What everybody asks for is compiled in less than a millisecond, and should not wait for a turn on a busy machine; what takes long should
take turns from nobody. Nobody can raise a priority that was lowered, but on Linux every thread has its own. So tasks are done by a thread
of the priority that the process came with, which is lowered when one has taken a while. The main thread lowers itself at once, and loads
the package: that takes as long as a large grammar, which is why nothing of it is imported here. Elsewhere the whole process is lowered.

The lowest ordinary priority has few turns, but whoever wakes waits until one is over, which may be milliseconds. So a task that goes on and
on is left to idle cores (SCHED_IDLE): then whoever wakes takes the core at once, and it does not count as busy when a thread is placed.
That is not for all that is lowered, since on a machine without an idle core next to nothing would come of it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .task import Workshop

PATIENCE: Final = 0.02  # seconds of a task before it is lowered
ENDURANCE: Final = 0.2  # further seconds before it is left to idle cores
NICENESS: Final = 19  # the most there is


def main() -> None:
    """Serve until nobody is left to serve."""
    channel, file = Connection(int(sys.argv[1])), int(sys.argv[2])
    loaded: list[type[Workshop]] = []
    ready = threading.Event()
    server = threading.Thread(target=_serve, args=(channel, file, loaded, ready), daemon=True)
    server.start()
    _lower(threading.main_thread())
    from stackmask.integration.processes.task import Workshop

    loaded.append(Workshop)
    ready.set()
    server.join()


def _serve(channel: Connection, file: int, loaded: list[type[Workshop]], ready: threading.Event) -> None:
    """Answer one task after the other."""
    with contextlib.suppress(EOFError, OSError, RuntimeError):  # the last where there is no memory for another thread
        ready.wait()
        workshop = loaded[0](channel.recv_bytes(), file)
        channel.send(True)
        hand = _Hand(workshop)
        while True:
            channel.send_bytes(hand.answer(channel.recv_bytes()))
            if hand.is_lowered:
                hand = _Hand(workshop)


class _Hand:
    """A thread that does one task after the other, until one takes long: then it is lowered, and others are left to another hand."""

    def __init__(self, workshop: Workshop) -> None:
        self.is_lowered = False
        self._workshop = workshop
        self._tasks: SimpleQueue[bytes | None] = SimpleQueue()
        self._answers: SimpleQueue[bytes] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def answer(self, task: bytes) -> bytes:
        """The answer to a task."""
        self._tasks.put(task)
        try:
            return self._answers.get(timeout=PATIENCE)
        except Empty:
            _lower(self._thread)
        self.is_lowered = True
        self._tasks.put(None)
        try:
            return self._answers.get(timeout=ENDURANCE)
        except Empty:
            _leave_to_idle_cores(self._thread)
        return self._answers.get()

    def _work(self) -> None:
        try:
            while (task := self._tasks.get()) is not None:
                self._answers.put(self._workshop.answer(task))
        except BaseException:  # there is no memory left to say so: the channel ends
            os._exit(1)


def _lower(thread: threading.Thread) -> None:
    """Give a thread the lowest priority, or the process where threads have none of their own."""
    if sys.platform == "win32":
        return
    target = thread.native_id if sys.platform == "linux" else 0
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, target or 0, NICENESS)


def _leave_to_idle_cores(thread: threading.Thread) -> None:
    """Let a thread run where nothing else does, where the system can."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.sched_setscheduler(thread.native_id or 0, os.SCHED_IDLE, os.sched_param(0))


if __name__ == "__main__":
    main()
