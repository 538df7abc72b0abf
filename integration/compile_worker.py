"""A process that turns specifications into grammars, one after the other: `python -P compile_worker.py FD`.

It ends when the other end of its channel does.

What everybody asks for is compiled in less than a millisecond, and should not wait for a turn on a busy machine; what takes long should
take turns from nobody. Nobody can raise a priority that was lowered, but on Linux every thread has its own. So a task is a thread of the
priority that the process came with, and is lowered when it has taken a while. The main thread lowers itself at once, and loads the
package: that takes as long as a large grammar, which is why nothing of it is imported here. Elsewhere the whole process is lowered.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from stackmask.integration.compile_task import Workshop

PATIENCE: Final = 0.02  # seconds of a task before it is lowered
NICENESS: Final = 19  # the most there is


def main() -> None:
    """Serve until nobody is left to serve."""
    channel = Connection(int(sys.argv[1]))
    loaded: list[type[Workshop]] = []
    ready = threading.Event()
    server = threading.Thread(target=_serve, args=(channel, loaded, ready), daemon=True)
    server.start()
    _lower(threading.main_thread())
    from stackmask.integration.compile_task import Workshop

    loaded.append(Workshop)
    ready.set()
    server.join()


def _serve(channel: Connection, loaded: list[type[Workshop]], ready: threading.Event) -> None:
    """Answer one task after the other."""
    with contextlib.suppress(EOFError, OSError):
        ready.wait()
        workshop = loaded[0](channel.recv_bytes())
        channel.send(True)
        while True:
            message = channel.recv_bytes()
            channel.send_bytes(_in_thread(lambda: workshop.answer(message)))  # noqa: B023  # it is called before the next message


def _in_thread(call: Callable[[], bytes]) -> bytes:
    """What a call gives; made in a thread of its own, whose priority is lowered if it takes long."""
    results: list[bytes] = []
    thread = threading.Thread(target=lambda: results.append(call()), daemon=True)
    thread.start()
    thread.join(PATIENCE)
    if thread.is_alive():
        _lower(thread)
        thread.join()
    return results.pop()


def _lower(thread: threading.Thread) -> None:
    """Give a thread the lowest priority, or the process where threads have none of their own."""
    if sys.platform == "win32":
        return
    target = thread.native_id if sys.platform == "linux" else 0
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, target or 0, NICENESS)


if __name__ == "__main__":
    main()
