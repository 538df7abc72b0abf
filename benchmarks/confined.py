"""One hostile input in a separate process, with limits of memory and time: a hang or a crash costs one input and no more.

`benchmarks.isolation` keeps one process for all schemas, since those are harmless; here each input gets a fork of one that has loaded
the engine and its vocabulary.

    compile   specification to a grammar
    first     begin a text and fill the mask, in the grammar just compiled
    steps     accept the next token and fill the mask after it

A time is the lesser of wall-clock time and the CPU time of the process, which leaves out what other processes of a busy machine take;
the wall-clock time of a compilation and of the worst step are kept beside it.
Memory is the peak of the process above where it was before the compilation: grammar, matcher, and what the compiler needed meanwhile.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from benchmarks.engines import ENGINES, Engine, NotTakenError, Tokenizer, Walk
from benchmarks.families import FAMILIES

START_SECONDS: Final = 300.0
SHOW_SECONDS: Final = 0.2
BUSY: Final = 5.0
WARM_UP: Final = {
    "json_schema": '{"type":"object","properties":{"a":{"type":"string","maxLength":3}},"required":["b"]}',
    "regex": "[a-z]+",
    "ebnf": 'root ::= "a" root | [0-9]+',
    "lark": 'start: "a" start | /[0-9]+/',
    "structural_tag": {"type": "any_text"},
    "choice": ["yes", "no"],
}
"""What loads the modules and the vocabulary's tables that a server would have loaded."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one input may take."""

    seconds: float = 20.0
    """Of CPU time in all, or `BUSY` times as much wall-clock time; then the process is ended."""
    megabytes: int = 2048
    """Of address space above where it began."""
    steps: int = 3000
    """Then the walk is over,"""
    walk_seconds: float = 4.0
    """or after this CPU time."""


@dataclass(slots=True)
class Outcome:
    """What an engine did with an input; times in milliseconds."""

    verdict: str = "timed out"
    """One of `benchmarks.hostile.VERDICTS`."""
    stage: str = "compile"
    """Where it ended: compile, first, walk, end."""
    detail: str = ""
    compile: float = 0.0
    compile_wall: float = 0.0
    first: float = 0.0
    worst: float = 0.0
    """The worst step."""
    worst_wall: float = 0.0
    worst_at: int = 0
    p99: float = 0.0
    steps: int = 0
    last: float = 0.0
    """What was spent in the stage that ended with a refusal."""
    memory: float = 0.0
    """In megabytes of 1,000,000 bytes."""
    samples: list[float] = field(default_factory=list, repr=False)

    def record(self) -> dict[str, Any]:
        """The numbers, without the samples that they were made of."""
        members = asdict(self)
        del members["samples"]
        return {name: round(value, 3) if isinstance(value, float) else value for name, value in members.items()}


class Begun(NamedTuple):
    """The process of an input, and the megabytes that it had before the compilation."""

    process: int
    megabytes: float


class Ended(NamedTuple):
    """The exit code of an input's process, or the signal that ended it, negated."""

    code: int


class Stopwatch:
    """Wall-clock time and the CPU time of the process, in milliseconds."""

    def __enter__(self) -> Stopwatch:
        self._cpu, self._wall = time.process_time_ns(), time.perf_counter_ns()
        return self

    def __exit__(self, *error: object) -> None:
        self.wall = (time.perf_counter_ns() - self._wall) / 1e6
        self.spent = min(self.wall, (time.process_time_ns() - self._cpu) / 1e6)


def measure(engine: Engine, name: str, size: int, bounds: Bounds, connection: Connection) -> Outcome:
    """Everything about one input."""
    family = FAMILIES[name]
    specification, text = family.case(size)
    tokens = None if text is None else engine.tokenizer.encode(text)
    outcome, watch = Outcome(), Stopwatch()
    gc.collect()
    before = resident()
    connection.send(Begun(os.getpid(), before))
    limit_memory(bounds.megabytes)
    try:
        with watch:
            start = engine.compile_kind(family.kind, specification, **family.options)
        outcome.compile, outcome.compile_wall, outcome.stage = watch.spent, watch.wall, "first"
        connection.send(outcome)
        with watch:
            run = start()
            run.fill()
        outcome.first, outcome.stage = watch.spent, "walk"
        connection.send(outcome)
        gc.disable()
        walk(engine, run, tokens, bounds, connection, outcome, watch)
        outcome.stage = "end"
    except NotTakenError as error:
        outcome.verdict, outcome.detail = "not taken", str(error)
    except MemoryError:
        outcome.verdict, outcome.last = "out of memory", watch.spent
    except Exception as error:  # engines have exceptions of their own, and a refusal is a result
        outcome.verdict = "refused" if isinstance(error, engine.refusals) else "failed"
        outcome.detail, outcome.last = f"{type(error).__name__}: {error}"[:400], watch.spent
    outcome.memory = max(0.0, resident("VmHWM") - before)
    return replace(summed(outcome), samples=[])


def walk(
    engine: Engine, run: Walk, tokens: list[int] | None, bounds: Bounds, connection: Connection, outcome: Outcome, watch: Stopwatch
) -> None:
    """Take a text, or what the masks allow, through the masks: the worst step and whether the text was accepted."""
    outcome.verdict = "timed out"
    shown, end = time.monotonic(), time.process_time() + bounds.walk_seconds
    for place, token in enumerate(sampled(run, engine.tokenizer.stop) if tokens is None else tokens):
        if place == bounds.steps or time.process_time() > end:
            break
        if not run.mask[token >> 5] >> (token & 31) & 1:
            raise_error(run)
            outcome.verdict, outcome.detail = "wrong", f"token {place}, {engine.tokenizer.backend.id_to_token(token)!r}, is refused"
            return
        with watch:
            accepted = run.accept(token)
            run.fill()
        outcome.samples.append(watch.spent)
        if watch.spent > outcome.worst:
            outcome.worst, outcome.worst_wall, outcome.worst_at = watch.spent, watch.wall, place
        outcome.steps = place + 1
        raise_error(run)
        if not accepted:
            outcome.verdict, outcome.detail = "wrong", f"the mask allows token {place}, which is refused then"
            return
        if time.monotonic() > shown + SHOW_SECONDS:
            shown = time.monotonic()
            connection.send(replace(summed(outcome), samples=[]))
    outcome.verdict = "right"


def summed(outcome: Outcome) -> Outcome:
    """With the percentile of the steps so far."""
    outcome.p99 = float(np.percentile(outcome.samples, 99)) if outcome.samples else 0.0
    return outcome


def raise_error(run: Walk) -> None:
    """Where an engine gave up, that is a refusal, not an answer about the text."""
    if error := run.error():
        raise ValueError(error)


def sampled(run: Walk, stop: int) -> Iterator[int]:
    """Tokens that the mask allows, picked by a fixed seed; it ends where only the stop token can follow."""
    pick = random.Random(0)
    while True:
        allowed = np.flatnonzero(np.unpackbits(run.mask.view(np.uint8), bitorder="little"))
        allowed = allowed[allowed != stop]
        if not len(allowed):
            return
        yield int(allowed[pick.randrange(len(allowed))])


def resident(field: str = "VmRSS", process: int | str = "self") -> float:
    """The memory of a process, in megabytes: what it has now (VmRSS) or had at most (VmHWM); 0 where the system does not say."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        lines = []
    return sum(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(f"{field}:"))


def cpu_seconds(process: int) -> float:
    """The CPU time of another process; infinity where the system does not say."""
    try:
        members = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("inf")
    return (int(members[11]) + int(members[12])) / float(os.sysconf("SC_CLK_TCK"))


def limit_memory(megabytes: int) -> None:
    """Let the address space grow by so much and no more."""
    file = Path("/proc/self/statm")
    if file.exists():
        most = int(file.read_text().split()[0]) * resource.getpagesize() + megabytes * 1_000_000
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def serve(engine_name: str, folder: Path, bounds: Bounds, connection: Connection) -> None:
    """Load an engine, then fork for each input: the child sends its id and its outcomes, the parent how the child ended."""
    from stackmask.integration.processes.worker import end_with_parent

    engine = ENGINES[engine_name].load(Tokenizer(folder))
    for kind, specification in WARM_UP.items():
        with contextlib.suppress(NotTakenError):
            engine.compile_kind(kind, specification)().fill()
    engine.fresh()
    gc.collect()
    gc.freeze()
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())  # engines log about what they refuse
    connection.send(None)
    while True:
        try:
            name, size = connection.recv()
        except EOFError:
            return
        child = os.fork()
        if not child:
            end_with_parent()
            if sys.platform != "linux":  # which under a limit of CPU time counts it in ticks of some milliseconds
                most = int(START_SECONDS + bounds.seconds)  # should nobody be left to end it
                resource.setrlimit(resource.RLIMIT_CPU, (most, most))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            code = 1
            try:
                connection.send(measure(engine, name, size, bounds, connection))
                code = 0
            finally:
                os._exit(code)
        connection.send(Ended(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))


class Confined:
    """An engine whose inputs have a process each."""

    def __init__(self, name: str, folder: Path, bounds: Bounds) -> None:
        self.bounds = bounds
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=serve, args=(name, folder, bounds, other), daemon=True)
        self._process.start()
        other.close()
        self._receive(START_SECONDS)

    def measure(self, name: str, size: int) -> Outcome:
        """One input of a family."""
        self._connection.send((name, size))
        outcome = Outcome()
        begun: Begun | None = None
        cpu = 0.0
        deadline = end = time.monotonic() + START_SECONDS
        while True:
            if not self._connection.poll(max(0.0, deadline - time.monotonic())):
                if begun is None:
                    raise RuntimeError(f"{name} {size} does not begin")
                left = self.bounds.seconds - (cpu_seconds(begun.process) - cpu)
                if left > 0 and time.monotonic() < end:
                    deadline = min(end, time.monotonic() + left)
                    continue
                outcome.memory = max(0.0, resident("VmHWM", begun.process) - begun.megabytes)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(begun.process, signal.SIGKILL)
                outcome.verdict, outcome.detail = "timed out", f"after {self.bounds.seconds:g} s"
                self._drain()
                return outcome
            message = self._connection.recv()
            if isinstance(message, Outcome):
                outcome = message
            elif isinstance(message, Begun):
                begun, cpu = message, cpu_seconds(message.process)
                deadline, end = time.monotonic() + self.bounds.seconds, time.monotonic() + BUSY * self.bounds.seconds
            else:
                if message.code:
                    outcome.verdict, outcome.detail = "crashed", f"exit code {message.code}"
                return outcome

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self._connection.close()

    def _receive(self, seconds: float) -> Any:
        if not self._connection.poll(seconds):
            self.stop()
            raise RuntimeError("an engine does not start")
        return self._connection.recv()

    def _drain(self) -> None:
        """Up to the message that the child has ended."""
        while not isinstance(self._receive(START_SECONDS), Ended):
            pass
