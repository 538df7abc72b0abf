"""A line on standard error while a model loads, which may take minutes."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .command import note


@contextmanager
def shown_loading(name: str | None, *, patience: float = 3.0, interval: float = 0.5) -> Iterator[None]:
    """Say that a model loads, once that has taken `patience` seconds: a terminal shows the seconds so far, and a log has one line.

    The demo model, whose name is None, needs no line. The terminal's line is erased once the model is there.
    """
    if name is None:
        yield
        return
    done = threading.Event()
    teller = threading.Thread(target=_tell, args=(_described(name), done, patience, interval), daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


def _tell(what: str, done: threading.Event, patience: float, interval: float) -> None:
    start = time.monotonic()
    if done.wait(patience):
        return
    if not sys.stderr.isatty():
        note(f"loading {what}")
        return
    while True:
        sys.stderr.write(f"\rloading {what}, {time.monotonic() - start:.0f} s")
        sys.stderr.flush()
        if done.wait(interval):
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            return


def _described(name: str) -> str:
    """A model with the size of its weights, where these are files.

    >>> _described("gpt2")
    'gpt2'
    """
    path = Path(name)
    files = [path] if path.is_file() else [*path.glob("*.safetensors"), *path.glob("*.bin")] if path.is_dir() else []
    size = sum(file.stat().st_size for file in files)
    return f"{name} ({size / 1e9:.1f} GB)" if size else name
