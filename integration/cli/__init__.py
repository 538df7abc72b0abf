"""The command line: `stackmask generate`, `stackmask check` and more, one table of commands."""

from .entry import main

__all__ = [
    "main",
]
