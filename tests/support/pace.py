"""How long something takes, in units of an ordinary compilation.

A machine that is busy, or that measures coverage, is slower at both by about the same factor: a test compares the two, and names no time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stackmask.pda.regex import regex_dfa

ORDINARY = "(a|b)*a(a|b){8}"
"""A pattern whose automaton has 512 states: it takes 10 ms where nothing else runs."""


def cpu_seconds(call: Callable[[], object]) -> float:
    """The time of the processor that a call takes in this process."""
    begin = time.process_time()
    call()
    return time.process_time() - begin


def ordinary_compilation() -> float:
    """The time of the processor that the ordinary compilation takes now, the longest of three."""
    return max(cpu_seconds(lambda: regex_dfa(ORDINARY, search=False)) for _ in range(3))


@contextmanager
def as_quick_as(compilations: float) -> Iterator[None]:
    """Assert that the block takes no more of the processor than so many ordinary compilations just before and just after it."""
    before = ordinary_compilation()
    begin = time.process_time()
    yield
    spent = time.process_time() - begin
    unit = max(before, ordinary_compilation())
    assert spent < compilations * unit, f"took {spent / unit:.0f} ordinary compilations; {compilations:g} are allowed"
