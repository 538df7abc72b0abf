"""A process that turns specifications into grammars, one after the other: `python -m stackmask.integration.compile_worker FD`.

It is not part of the engine's package, whose imports it would wait for.

It ends when the other end of its channel does.
"""

from __future__ import annotations

import contextlib
import os
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NamedTuple

from stackmask.integration.compiler import Compiler
from stackmask.integration.specification import schema_of_key
from stackmask.pda.exceptions import LimitError
from stackmask.pda.vocabulary import Vocabulary

GROWTH: Final = 32 << 20  # bytes that a worker may have grown by before another takes its place


class Task(NamedTuple):
    """A specification on its way to a worker, schemas and tags by their keys; `explain` asks why it generates nothing, as an error."""

    kind: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    explain: bool = False


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
        bound = _resident() + GROWTH
        while True:
            answer = _compile(compiler, channel.recv())
            channel.send((_resident() > bound, answer))
            del answer  # before the next one is made


def _compile(compiler: Compiler, task: Task) -> tuple[Any, ...]:
    """The grammar and its report, or an error in parts: not every error can be made from its arguments."""
    kind, arguments, options, explain = task
    try:
        if kind == "json_schema":
            arguments = (schema_of_key(arguments[0]), *arguments[1:])
        if documents := options.get("documents"):
            options = {**options, "documents": {uri: schema_of_key(key) for uri, key in documents.items()}}
        job = compiler.read(kind, *arguments, **options)
        if explain and job.explain is not None:
            raise job.explain()
        return job.front_end()
    except MemoryError:
        error: Exception = LimitError("compilation took more memory than a worker has", limit="memory")
    except RecursionError:
        error = LimitError("the specification is nested too deep", limit="nesting", value=compiler.limits.nesting)
    except Exception as problem:
        error = problem
    return type(error), error.args, vars(error)


def _limit_memory(memory: int) -> None:
    """Bound the address space where the system can."""
    try:
        import resource
    except ImportError:  # Windows has none
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def _resident() -> int:
    """The bytes of this process that lie in memory; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # another system than Linux
        return 0


if __name__ == "__main__":
    main()
