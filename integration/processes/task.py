"""The tasks of a compiling process, one after the other (`worker.py`)."""

from __future__ import annotations

import os
import pickle
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple

from ...pda.exceptions import LimitError
from ...pda.packed import PackedGrammar
from ...pda.vocabulary import Vocabulary
from ..compiler import Compiler
from ..compiler.cache_key import schema_of_key
from ..compiler.checking import check_text

ROOM: Final = 32 << 20  # bytes that a worker needs besides the loaded modules
LARGE: Final = 1 << 16  # bytes of a buffer that goes by the file


class Purpose(Enum):
    """The questions about a specification: its grammar and report; why it generates nothing, as an error; whether it accepts a text."""

    GRAMMAR = "grammar"
    EXPLAIN = "explain"
    CHECK = "check"


class Task(NamedTuple):
    """A specification on its way to a worker, schemas and tags by their keys, and perhaps a text to check."""

    kind: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    purpose: Purpose = Purpose.GRAMMAR
    text: str | None = None


class Worker:
    """The compiler of a worker, as the other end of its channel describes it in its first message.

    Large buffers of an answer are left in `file` one after the other: who reads them from there need not hold its interpreter meanwhile.
    """

    def __init__(self, message: bytes, file: int) -> None:
        special, size, limits, memory, growth = pickle.loads(message)
        _limit_memory(memory)
        # front ends know of a vocabulary no more than its names and its size; one token of text has to be there
        tokens: list[bytes | None] = [None] * size
        named = frozenset(special.values())
        tokens[next((token for token in range(size) if token not in named), 0)] = b"a"
        vocabulary = Vocabulary.from_bytes(tokens, stop_token_ids=[], special=special)
        self._compiler = Compiler(vocabulary, limits=limits, threads=1)
        self._file = file
        self._bound = _resident() + growth

    def answer(self, message: bytes) -> bytes:
        """Whether the process has grown so much that another is to take its place, the answer to a task, and the sizes of its buffers."""
        sizes: list[int] = []

        def keep(buffer: pickle.PickleBuffer) -> bool:
            """Leave it in the file if it is large, else in the pickle."""
            data = buffer.raw()
            if data.nbytes < LARGE:
                return True
            sizes.append(data.nbytes)
            while data:
                data = data[os.write(self._file, data) :]
            return False

        os.lseek(self._file, 0, os.SEEK_SET)
        answer = _answer(self._compiler, pickle.loads(message))
        parts = pickle.dumps(answer, protocol=5, buffer_callback=keep)
        return pickle.dumps((_resident() > self._bound, parts, sizes))


def load_front_ends() -> None:
    """Load what front ends load with their first grammar, so that no worker has to.

    PERF: the first Lark grammar takes 0.25 s of a processor. For so long a task gets few turns on a busy machine (`worker.py`).
    """
    # what imports this module for the names of tasks needs neither
    from ...pda.ebnf import ebnf_grammar
    from ...pda.lark import lark_grammar

    ebnf_grammar('root ::= "a"')
    lark_grammar("%import common.WORD\nstart: WORD")


def _answer(compiler: Compiler, task: Task) -> Any:
    """The packed grammar and its report, or the result of a check, or an error in parts: not every error can be made from its arguments."""
    kind, arguments, options, purpose, text = task
    try:
        if kind == "json_schema":
            arguments = (schema_of_key(arguments[0]), *arguments[1:])
        if documents := options.get("documents"):
            options = {**options, "documents": {uri: schema_of_key(key) for uri, key in documents.items()}}
        job = compiler.read(kind, *arguments, **options)
        if purpose is Purpose.EXPLAIN and job.explain is not None:
            raise job.explain()
        if purpose is Purpose.CHECK:
            return check_text(compiler.compile(job), text)
        grammar, report = job.front_end()
        return PackedGrammar(grammar), report
    except MemoryError:
        error: Exception = LimitError("compilation took more memory than a worker has", limit="memory")
    except RecursionError:
        error = LimitError("the specification is nested too deep", limit="nesting", value=compiler.limits.nesting)
    except Exception as problem:
        error = problem
    return type(error), error.args, vars(error)


def _limit_memory(memory: int) -> None:
    """Bound the address space where the system can; MemoryError where that leaves no room to work in."""
    try:
        import resource
    except ImportError:  # Windows has none
        return
    if _pages(0) + ROOM > memory:
        raise MemoryError
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def _resident() -> int:
    """The bytes of this process that lie in memory; 0 where the system does not say."""
    return _pages(1)


def _pages(column: int) -> int:
    """A column of the system's statistics of this process, in bytes."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[column]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # another system than Linux
        return 0
