"""The command line: `stackmask generate`, `stackmask check` and more, one table of commands."""

from stackmask.integration.cli.entry import main

__all__ = [
    "main",
]
