"""Many cases, one after the other, in processes of their own: a crash or a hang of one is a finding too."""

from __future__ import annotations

import faulthandler
import multiprocessing
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from random import Random
from typing import Any, Final

from fuzz.case import Case
from fuzz.draw import draw_case, find
from fuzz.session import Abandoned, Disagreement, Session
from fuzz.shrink import failure, shrink

HANG_SECONDS: Final = 300
STEPS: Final = (5, 15, 30)
"""How many calls a program has."""


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
        self.tried += other.tried
        self.strategies += other.strategies


def one(kind: str, seed: int, number: int, plan: Plan) -> Result:
    """Draw one case and play it."""
    result = Result()
    random = Random(f"program {kind} {seed} {number}")
    case = draw_case(kind, seed, number)
    found: Disagreement | None
    try:
        case, found, session = find(case, random, random.choice(STEPS), plan.skipped)
    except Abandoned:
        result.tried[f"{kind} refused"] += 1
        return result
    except Disagreement as error:
        found = error
    else:
        for prepared in session.prepared:
            result.strategies.update(prepared.statistics)
    result.tried[kind] += 1
    if found is not None and found.check not in plan.skipped:
        result.findings.append(describe(case, found, f"{kind}:{seed}:{number}", plan))
    return result


def describe(case: Case, found: Disagreement, name: str, plan: Plan) -> str:
    """A finding as a script, after the case was made as small as it gets."""
    small = shrink(case, found.check, seconds=plan.shrink_seconds, skipped=plan.skipped)
    again = failure(small, plan.skipped)
    return f"# {name}: {again or found}\n{small.script()}"


def numbers(plan: Plan, process: int, processes: int) -> Iterator[tuple[str, int]]:
    """The cases of one of the processes, kinds by turns."""
    number = plan.first
    while plan.count is None or number < plan.first + plan.count:
        for i, kind in enumerate(plan.kinds):
            if (number * len(plan.kinds) + i) % processes == process:
                yield kind, number
        number += 1


def _work(plan: Plan, process: int, processes: int, out: Connection) -> None:
    """The cases of one process; what is tried is said before."""
    end = time.monotonic() + plan.seconds if plan.seconds is not None else None
    for kind, number in numbers(plan, process, processes):
        if end is not None and time.monotonic() > end:
            break
        out.send(f"{kind}:{plan.seed}:{number}")
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True, file=sys.__stderr__)
        try:
            result = one(kind, plan.seed, number, plan)
        except Exception:
            result = Result([f"# {kind}:{plan.seed}:{number}: the fuzzer itself fails\n{traceback.format_exc()}"])
        faulthandler.cancel_dump_traceback_later()
        out.send(result)
    out.send(None)


def run(plan: Plan, processes: int, report: Any) -> Result:
    """All cases of a plan; `report` is called with each finding."""
    total = Result()
    context = multiprocessing.get_context("spawn")
    pending: dict[Connection, tuple[Any, str]] = {}
    for process in range(processes):
        ours, theirs = context.Pipe(duplex=False)
        worker = context.Process(target=_work, args=(plan, process, processes, theirs), daemon=True)
        worker.start()
        theirs.close()
        pending[ours] = (worker, "")
    while pending and len(total.findings) < plan.most_findings:
        for ready in wait(list(pending)):
            assert isinstance(ready, Connection)
            worker, name = pending[ready]
            try:
                message = ready.recv()
            except EOFError:
                worker.join()
                message = Result([f"# {name}: the process died with exit code {worker.exitcode}; --only {name} tries it again\n"])
                del pending[ready]
            if message is None:
                del pending[ready]
                worker.join()
            elif isinstance(message, str):
                pending[ready] = (worker, message)
            else:
                total.add(message)
                for finding in message.findings:
                    report(finding)
    for worker, _ in pending.values():
        worker.terminate()
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
