"""Many cases, one after the other, in separate processes: a crash of one is a finding too, and what takes very long is given up."""

from __future__ import annotations

import multiprocessing
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from random import Random
from typing import Any, Final

from fuzz.case import Case
from fuzz.draw import draw_case, find
from fuzz.session import AbandonedError, DisagreementError, Session
from fuzz.shrink import failure, shrink

MOST_SECONDS: Final = 10
"""Of the processor, for one case: a grammar may have so many readings that either engine takes very long."""
STEPS: Final = {True: (4, 8, 12), False: (5, 15, 40)}
"""How many calls a program has, with the reference engine and without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to try: `count` cases of each kind from number `first` on, or as many as `seconds` allow."""

    kinds: tuple[str, ...]
    seed: int = 1
    first: int = 0
    count: int | None = None
    seconds: float | None = None
    skipped: frozenset[str] = frozenset()
    shrink_seconds: float = 60
    most_findings: int = 20


@dataclass(slots=True)
class Result:
    """What became of some cases."""

    findings: list[str] = field(default_factory=list)
    tried: Counter[str] = field(default_factory=Counter)
    strategies: Counter[str] = field(default_factory=Counter)

    def add(self, other: Result) -> None:
        """Take in another."""
        self.findings += other.findings
        self.tried.update(other.tried)
        self.strategies.update(other.strategies)  # with those that were never taken


def one(kind: str, seed: int, number: int, plan: Plan) -> Result:
    """Draw one case and play it."""
    result = Result()
    random = Random(f"program {kind} {seed} {number}")
    case = draw_case(kind, seed, number)
    found: DisagreementError | None
    try:
        case, found, session = find(case, random, random.choice(STEPS[case.has_reference]), plan.skipped)
    except AbandonedError:
        result.tried[f"{kind} refused"] += 1
        return result
    except DisagreementError as error:
        found = error
    else:
        for prepared in session.prepared:
            result.strategies.update(prepared.statistics)
    result.tried[kind] += 1
    if found is not None and found.check not in plan.skipped:
        result.findings.append(describe(case, found, f"{kind}:{seed}:{number}", plan))
    return result


def describe(case: Case, found: DisagreementError, name: str, plan: Plan) -> str:
    """A finding as a script, after the case was made as small as it gets."""
    signal.setitimer(signal.ITIMER_PROF, 0)
    small = shrink(case, found.check, seconds=plan.shrink_seconds, skipped=plan.skipped)
    again = failure(small, plan.skipped)
    return f"# {name}: {again or found}\n{small.script()}"


def numbers(plan: Plan, process: int, processes: int, after: str = "") -> Iterator[tuple[str, int]]:
    """The cases of one of the processes, kinds by turns, those behind a name if one is given."""
    number = int(after.split(":")[2]) if after else plan.first
    while plan.count is None or number < plan.first + plan.count:
        for i, kind in enumerate(plan.kinds):
            if after:
                after = "" if after == f"{kind}:{plan.seed}:{number}" else after
            elif (number * len(plan.kinds) + i) % processes == process:
                yield kind, number
        number += 1


def _work(plan: Plan, share: tuple[int, int, str], end: float | None, out: Connection) -> None:
    """The cases of one process; what is tried is said before."""
    for kind, number in numbers(plan, *share):
        if end is not None and time.monotonic() > end:
            break
        out.send(f"{kind}:{plan.seed}:{number}")
        signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)  # which ends the process
        try:
            result = one(kind, plan.seed, number, plan)
        except Exception:
            result = Result([f"# {kind}:{plan.seed}:{number}: the fuzzer itself fails\n{traceback.format_exc()}"])
        out.send(result)
    out.send(None)


@dataclass(slots=True)
class _Worker:
    """A process and the name of the case that it tries; where one dies, another goes on behind that case."""

    plan: Plan
    share: tuple[int, int]
    end: float | None
    name: str = ""
    process: Any = None
    results: Connection = field(init=False)

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.results, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=_work, args=(self.plan, (*self.share, self.name), self.end, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def receive(self) -> Result | None:
        """What there is to receive, None at the end."""
        try:
            message = self.results.recv()
        except EOFError:
            self.process.join()
            code, name = self.process.exitcode, self.name
            self.start()
            if code == -signal.SIGPROF:
                return Result(tried=Counter({f"{name.split(':')[0]} given up": 1}))
            return Result([f"# {name}: the process died with exit code {code}; --only {name} tries it again\n"])
        if isinstance(message, str):
            self.name = message
            return Result()
        assert message is None or isinstance(message, Result)
        return message


def run(plan: Plan, processes: int, report: Callable[[str], None]) -> Result:
    """All cases of a plan; `report` is called with each finding."""
    total = Result()
    end = time.monotonic() + plan.seconds if plan.seconds is not None else None
    workers = [_Worker(plan, (process, processes), end) for process in range(processes)]
    for worker in workers:
        worker.start()
    while workers and len(total.findings) < plan.most_findings:
        ready = wait([worker.results for worker in workers])
        for worker in [worker for worker in workers if worker.results in ready]:
            result = worker.receive()
            if result is None:
                workers.remove(worker)
                worker.process.join()
                continue
            total.add(result)
            for finding in result.findings:
                report(finding)
    for worker in workers:
        worker.process.terminate()
    return total


def only(names: Sequence[str], plan: Plan) -> Result:
    """The cases of these names, in this process."""
    total = Result()
    for name in names:
        kind, seed, number = name.split(":")
        total.add(one(kind, int(seed), int(number), plan))
    return total


def replay(case: Case) -> None:
    """Play a case that was written down; raises where it goes wrong."""
    session = Session(case)
    for operation in case.operations:
        session.run(operation)
