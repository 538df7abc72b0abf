"""The tests as judges of mutants: a plugin of pytest that collects once and forks for every mutant.

A first child runs all tests and notes how long each takes and which mutants it comes by: no other test can notice them.
Then each mutant has a child of its own, which runs the tests that come by it, those first that noticed most for their time, and ends at
the first that fails. A crash and a hang count as noticed, too.
Times are those of the processor: a mutant is not said to hang because the machine is busy.
"""

from __future__ import annotations

import faulthandler
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest

PATIENCE = 30
"""Seconds that any test may take, at least; longer ones may take ten times as long as without a mutant."""
STUCK = 300
"""Seconds by the clock after which a child that waits without working counts as hanging."""


class Switches(Protocol):
    """How mutants are turned on in a process."""

    def watch(self) -> None:
        """From now on note which mutants are come by."""

    def reached(self) -> list[int]:
        """The ids of those come by since the last call."""

    def apply(self, mutant: Any) -> None:
        """Make this mutant the one that runs."""


@dataclass(slots=True)
class Baseline:
    """What the tests do without a mutant."""

    seconds: dict[int, float] = field(default_factory=dict)
    """By index of a test that passes."""
    judges: dict[int, set[int]] = field(default_factory=dict)
    """By id of a mutant the tests that come by it."""
    failed: list[str] = field(default_factory=list)


class Judge:
    """The plugin: `switches` is called when all tests are collected, `report` with (mutant, who noticed it or None, seconds).

    Tests of the engine `without` are left out, and no mutant has longer than `seconds`.
    """

    def __init__(
        self,
        switches: Callable[[], Switches],
        mutants: list[Any],
        report: Callable[[Any, str | None, float], None],
        seconds: float,
        without: str = "",
    ) -> None:
        self._make, self._mutants, self._report, self._seconds = switches, mutants, report, seconds
        self._noticed: dict[int, int] = {}
        self._skipped = 0
        self.params: dict[str, str] = {}
        self._without = without

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out what runs on another engine alone."""
        items[:] = [item for item in items if not self._without or getattr(item, "callspec", self).params.get("engine") != self._without]

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests on each mutant, in place of once."""
        if session.testsfailed:
            raise pytest.UsageError("the tests cannot be collected")
        switches = self._make()
        base = self._baseline(session, switches)
        everything = sum(base.seconds.values())
        print(f"\n{len(base.seconds)} tests pass in {everything:.0f} s and judge, {len(base.failed)} fail or are skipped", flush=True)
        for name in base.failed[:20]:
            print(f"  no judge: {name}")
        for mutant in self._mutants:
            tests = sorted(base.judges.get(mutant.id, ()), key=lambda i: base.seconds[i] / (1 + self._noticed.get(i, 0)))
            by, spent = self._judge(session, switches, mutant, tests, base) if tests else (None, 0.0)
            if by is None and tests:
                # What a test finds in a cache it does not come by: the others of its file may notice, too.
                files = {session.items[i].path for i in tests}
                others = [i for i in base.seconds if session.items[i].path in files and i not in base.judges[mutant.id]]
                others.sort(key=lambda i: base.seconds[i])
                if spent < self._seconds:
                    by, more = self._judge(session, switches, mutant, others, base)
                    spent += more
            if isinstance(by, int):
                self._noticed[by] = self._noticed.get(by, 0) + 1
            mutant.tests = len(tests)
            self._report(mutant, session.items[by].nodeid if isinstance(by, int) else by, spent)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count the tests that are skipped."""
        self._skipped += report.skipped

    def _run(self, session: pytest.Session, index: int, following: int | None) -> str:
        """Run one test; how it ends."""
        failed, skipped = session.testsfailed, self._skipped
        item, nextitem = session.items[index], None if following is None else session.items[following]
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
        return "failed" if session.testsfailed > failed else "skipped" if self._skipped > skipped else "passed"

    def _baseline(self, session: pytest.Session, switches: Switches) -> Baseline:
        def work(send: Callable[[object], None]) -> None:
            silence(session)
            switches.watch()
            switches.reached()
            for i in range(len(session.items)):
                start = time.process_time()
                outcome = self._run(session, i, i + 1 if i + 1 < len(session.items) else None)
                send([i, time.process_time() - start, outcome, switches.reached()])

        base = Baseline()
        passed: dict[str, list[int]] = {}
        for i, seconds, outcome, reached in child(work, lambda _: 600):
            if outcome != "passed":
                base.failed.append(f"{session.items[i].nodeid} {outcome}")
                continue
            base.seconds[i] = seconds
            for number in reached:
                base.judges.setdefault(number, set()).add(i)
            passed.setdefault(str(session.items[i].path), []).append(i)
        return base

    def _judge(
        self, session: pytest.Session, switches: Switches, mutant: Any, tests: list[int], base: Baseline
    ) -> tuple[int | str | None, float]:
        """The test that notices, or why the child ended; and the seconds of the processor that it took."""

        def work(send: Callable[[object], None]) -> None:
            silence(session)
            switches.apply(mutant)
            for place, i in enumerate(tests):
                send([i, None, time.process_time()])
                outcome = self._run(session, i, tests[place + 1] if place + 1 < len(tests) else None)
                if outcome == "failed":
                    send([i, outcome, time.process_time()])
                    return
            send([-1, "passed", time.process_time()])

        last, begun, now = -1, None, 0.0
        try:
            for i, outcome, now in child(work, lambda line: max(PATIENCE, 10 * base.seconds.get(line[0], 0)) if line else PATIENCE):
                last = i
                begun = now if begun is None else begun
                if outcome == "failed":
                    return i, now - begun
                if outcome == "passed":
                    return None, now - begun
                if now - begun > self._seconds:
                    mutant.unfinished = True
                    return None, now - begun
        except HangError:
            return f"hang in {session.items[last].nodeid}", PATIENCE
        return f"crash in {session.items[last].nodeid}", now - (begun or 0.0)


def silence(session: pytest.Session) -> None:
    """Let this process print neither dots nor tracebacks."""
    faulthandler.disable()
    session.config.pluginmanager.unregister(name="terminalreporter")


class HangError(Exception):
    """A child has said nothing for too long."""


def child(work: Callable[[Callable[[object], None]], None], patience: Callable[[list[Any]], float]) -> Iterator[list[Any]]:
    """What a forked process that does the work sends, line by line; it ends with the iteration."""
    reading, writing = os.pipe()
    sys.stdout.flush(), sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        quiet = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(quiet, number)
        try:
            work(lambda message: write_all(writing, json.dumps(message).encode() + b"\n"))
        finally:
            os._exit(0)
    os.close(writing)
    try:
        yield from lines(reading, pid, patience)
    finally:
        os.close(reading)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def write_all(descriptor: int, data: bytes) -> None:
    """Write to a pipe, however full it is."""
    while data:
        data = data[os.write(descriptor, data) :]


def worked(pid: int) -> float:
    """Seconds of the processor that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def lines(reading: int, pid: int, patience: Callable[[list[Any]], float]) -> Iterator[list[Any]]:
    """Messages of a pipe, each awaited as long as the one before allows."""
    last: list[Any] = []
    kept = b""
    since, clock = worked(pid), time.monotonic()
    while True:
        if not select.select([reading], [], [], 1)[0]:
            if worked(pid) - since > patience(last) or time.monotonic() - clock > max(STUCK, 10 * patience(last)):
                raise HangError
            continue
        more = os.read(reading, 1 << 16)
        if not more:
            return
        *whole, kept = (kept + more).split(b"\n")
        for line in whole:
            last = json.loads(line)
            yield last
        since, clock = worked(pid), time.monotonic()


def arguments(tests: Iterable[str]) -> list[str]:
    """How pytest is called: quietly, without anything that would take up failures, and without tests that compile a kernel of their own.

    No mutant is turned on in such a kernel.
    """
    return ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "--ignore=tests/pda/kernel/test_c_interface.py", *tests]
