"""One engine in a separate process, fed schema by schema, so that a crash or a hang costs one schema and no more.

All timing happens inside the process:

    compile   JSON text to a grammar
    first     JSON text to the first mask: compile, begin a text, fill
    steps     fill the mask and accept the next token, for every further token of the instances and for the stop token

The two calls of a step are timed apart and added, and the mask's bit for the token is read between them: a token that the mask
forbids ends the walk, as a sampler never picks it, and its step is the fill alone.
A sample is wall-clock time or, with `cpu_time`, the lesser of wall-clock time and the CPU time of the process, which leaves out what other
processes of a busy machine take.
The garbage collector runs while compiling, as it does for users, and not while walking.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.engines import ENGINES, Engine, Tokenizer, Tokens, Walk
from benchmarks.instances import search

Clock = Callable[[], int]
Instances = tuple[tuple[bool, tuple[str, ...]], ...]
WARM_UP = '{"type":"object","properties":{"a":{"type":"string","maxLength":3}},"required":["b"]}', ((True, ('{"a":"b","b":1}',)),)
START_SECONDS = 120.0


@dataclass(slots=True)
class Outcome:
    """What one engine did with one schema; times in nanoseconds, `steps` of all instances with their places in `positions`."""

    status: str = "compiled"
    """Compiled, empty (no instance satisfies the schema), refused (the engine says no), failed (while walking), crashed or timed out."""
    detail: str = ""
    compile: int = 0
    first: int = 0
    steps: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    positions: list[tuple[int, int]] = field(default_factory=list)
    """The instance of each step, and which of its tokens."""
    over: list[int] = field(default_factory=list)
    """The valid instances that were refused."""
    under: list[int] = field(default_factory=list)
    """The invalid instances that were accepted."""
    torn: int = 0
    """How often a token that the mask allows was refused."""


def no_clock() -> int:
    """A clock that costs nothing and says nothing."""
    return 0


def walk(run: Walk, tokens: Tokens, stop: int, clock: Clock) -> tuple[list[int], bool, bool]:
    """Take a text through the masks: the nanoseconds of each step, whether it was accepted and complete, whether mask and accept agree."""
    wall = time.perf_counter_ns
    mask, fill, accept = run.mask, run.fill, run.accept
    steps = []
    for token in (*tokens, stop):
        cpu = clock()
        start = wall()
        fill()
        spent = wall() - start
        used = clock() - cpu
        if not mask[token >> 5] >> (token & 31) & 1:
            steps.append(min(spent, used) if used else spent)
            return steps, False, True
        cpu = clock()
        start = wall()
        accepted = accept(token)
        spent += wall() - start
        used += clock() - cpu
        steps.append(min(spent, used) if used else spent)
        if not accepted:
            return steps, False, False
    return steps, True, True


def fits(run: Walk, tokens: Tokens) -> bool:
    """Whether a text may begin with these tokens."""
    for token in tokens:
        run.fill()
        if not run.mask[token >> 5] >> (token & 31) & 1 or not run.accept(token):
            return False
    return True


def measure(engine: Engine, schema: str, instances: Instances, *, cpu_time: bool) -> Outcome:
    """Everything about one schema; each instance has a few texts, of which the first is timed."""
    outcome = Outcome()
    encode, stop = engine.tokenizer.encode, engine.tokenizer.stop
    clock: Clock = time.process_time_ns if cpu_time else no_clock
    wall = time.perf_counter_ns
    engine.fresh()
    gc.collect()
    gc.enable()
    try:
        cpu, begin = clock(), wall()
        start = engine.compile(schema)
        compiled, compiled_cpu = wall() - begin, clock() - cpu
        run = start()
        run.fill()
        first, first_cpu = wall() - begin, clock() - cpu
    except Exception as error:  # engines have exceptions of their own, and a refusal is a result
        outcome.detail = f"{type(error).__name__}: {error}"[:500]
        outcome.status = "empty" if "nsatisfiable" in outcome.detail else "refused"
        outcome.over = [number for number, (valid, _) in enumerate(instances) if valid and outcome.status == "empty"]
        return outcome
    finally:
        gc.disable()
    outcome.compile = min(compiled, compiled_cpu) if cpu_time else compiled
    outcome.first = min(first, first_cpu) if cpu_time else first
    samples: list[int] = []
    try:
        for number, (valid, texts) in enumerate(instances):
            accepted = False
            for attempt, text in enumerate(texts):
                steps, accepted, agree = walk(start(), encode(text), stop, clock)
                outcome.torn += not agree
                if not attempt:
                    known = not number  # the first mask of all is in `first`
                    samples += steps[known:]
                    outcome.positions += [(number, place) for place in range(known, len(steps))]
                if accepted:
                    break
            if valid and not accepted:
                found = search(texts[0], lambda text: fits(start(), encode(text)))
                accepted = found is not None and walk(start(), encode(found), stop, no_clock)[1]
            if accepted != valid:
                (outcome.over if valid else outcome.under).append(number)
    except Exception as error:
        outcome.status, outcome.detail = "failed", f"{type(error).__name__}: {error}"[:500]
    outcome.steps = np.array(samples, np.int64)
    return outcome


def serve(name: str, folder: Path, cpu_time: bool, connection: Connection) -> None:
    """The loop of the process."""
    engine = ENGINES[name].load(Tokenizer(folder))
    measure(engine, *WARM_UP, cpu_time=cpu_time)
    gc.collect()
    gc.freeze()
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())  # what engines log about single schemas would bury the progress bar
    connection.send(None)
    while True:
        try:
            job = connection.recv()
        except EOFError:
            return
        connection.send(measure(engine, *job, cpu_time=cpu_time))


class Isolated:
    """An engine in its process, which is started again after it crashed or was ended."""

    def __init__(self, name: str, folder: Path, *, cpu_time: bool, seconds: float) -> None:
        self.name = name
        self._folder, self._cpu_time, self._seconds = folder, cpu_time, seconds
        self._process: Any = None
        self._connection: Any = None

    def measure(self, schema: str, instances: Instances) -> Outcome:
        """One schema."""
        self.start()
        try:
            self._connection.send((schema, instances))
            if self._connection.poll(self._seconds):
                outcome: Outcome = self._connection.recv()
                return outcome
            self.stop()
            return Outcome("timed out", f"after {self._seconds:g} s")
        except (EOFError, OSError):
            self._process.join(5)
            code = self._process.exitcode
            self.stop()
            return Outcome("crashed", f"exit code {code}")

    def start(self) -> None:
        """Start the process where none is running, and wait until it is warm."""
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._connection, other = context.Pipe()
            self._process = context.Process(target=serve, args=(self.name, self._folder, self._cpu_time, other), daemon=True)
            self._process.start()
            other.close()
            if not self._connection.poll(START_SECONDS):
                self.stop()
                raise RuntimeError(f"{self.name} does not start")
            self._connection.recv()

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
            self._process = None
