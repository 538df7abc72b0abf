"""A process that turns specifications into grammars, one after the other: `python -m stackmask.integration.compile_worker FD`.

It is not part of the engine's package, whose imports it would wait for.

It ends when the other end of its channel does.
"""

from __future__ import annotations

import contextlib
import os
import sys
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from stackmask.integration.compiler import _KINDS, Compiler
from stackmask.pda.exceptions import LimitError
from stackmask.pda.vocabulary import Vocabulary


def main() -> None:
    """Serve until nobody is left to serve."""
    channel = Connection(int(sys.argv[1]))
    with contextlib.suppress(EOFError, OSError):
        special, size, limits, memory = channel.recv()
        _limit_memory(memory)
        # front ends know of a vocabulary no more than its names; one token of text has to be there
        vocabulary = Vocabulary.from_bytes([None] * size + [b"a"], stop_token_ids=[], special=special)
        compiler = Compiler(vocabulary, limits=limits, threads=1)
        channel.send(True)
        while True:
            channel.send(_compile(compiler, channel.recv()))


def _compile(compiler: Compiler, job: tuple[str, tuple[Any, ...], dict[str, Any]]) -> tuple[Any, ...]:
    """The grammar and the entries of its report, or an error in parts: not every error can be made from its arguments."""
    kind, arguments, options = job
    try:
        _, make = _KINDS[kind](compiler, *arguments, **options)
        assert isinstance(make, partial)
        _, front_end = make.args
        grammar, report = front_end()
        return grammar, None if report is None else report.entries
    except MemoryError:
        error: Exception = LimitError("compilation took more memory than a worker has", limit="memory")
    except RecursionError:
        error = LimitError("the specification is nested too deep", limit="nesting", value=compiler.limits.nesting)
    except Exception as problem:
        error = problem
    return type(error), error.args, vars(error)


def _limit_memory(memory: int) -> None:
    """Bound the address space where the system can, and give way to the engine."""
    try:
        import resource
    except ImportError:  # Windows has neither
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    os.nice(15)


if __name__ == "__main__":
    main()
