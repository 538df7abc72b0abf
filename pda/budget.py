"""The work that one compilation may still do.

Work is counted, not timed, so that a verdict is the same on every machine and on every rank: each loop that can grow counts its steps by
`spend`. A step is about what takes a microsecond: a transition of an automaton, a pair of alternatives, a token of a grammar's text.

One automaton, one graph or one product may take a share of the work (`part`). So what explodes is refused in a fraction of the time that a
large specification may take.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from math import inf
from types import TracebackType
from typing import Final, Self

from .exceptions import LimitError
from .limits import Limits

# A state of a DFA weighs as much as this many states of an NFA: its row is wider, and a determinisation can make one for every set of them.
DFA_STATE_WEIGHT = 16
HALF: Final = 2
"""One part of a compilation may take this fraction of its work: regexes as a format, negated, need a third."""
QUARTER: Final = 4
"""A part that needs no more unless it explodes may take this fraction."""
_NAMES: Final = {HALF: "half", QUARTER: "a quarter"}

Stop = Callable[[], BaseException | None]
STOP: Final[ContextVar[Stop | None]] = ContextVar("STOP", default=None)
"""A function that compilations begun in this context call at every step: it returns the exception to end with, or None to continue."""


def time_is_over(seconds: float) -> LimitError:
    """The error of a compilation that took longer than it may."""
    return LimitError(f"compilation took more than {seconds:g} s", limit="compile_seconds", value=seconds)


class Budget:
    """The limits of one compilation and the work that it has done; made once and handed down to every operation.

    No part goes beyond `ceiling`, however large its share: an attempt lowers it.
    """

    __slots__ = ("ceiling", "deadline", "end", "is_watched", "limits", "share", "states", "stop", "what", "work")

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = Limits() if limits is None else limits
        self.deadline = time.monotonic() + self.limits.compile_seconds
        self.states = self.limits.states // DFA_STATE_WEIGHT
        self.work = 0
        self.end = self.ceiling = self.limits.compile_work
        self.what = ""
        self.share = 1
        self.stop = STOP.get()
        self.is_watched = self.stop is not None or self.deadline != inf

    def spend(self, work: int = 1) -> None:
        """Count steps before or after they are taken, and raise if they are too many, or the time is over."""
        self.work += work
        if self.work > self.end:
            raise self._excess(self.work)
        if self.is_watched:
            self._check()

    def _check(self) -> None:
        """Raise where the time is over, or nobody waits for the result any longer."""
        if time.monotonic() > self.deadline:
            raise time_is_over(self.limits.compile_seconds)
        if self.stop is not None and (error := self.stop()) is not None:
            raise error

    def expect(self, work: int) -> None:
        """Raise if this many more steps would be too many; they are not counted.

        A loop whose result needs more steps behind it says so by this, and what explodes is refused while it grows, not when it is done.
        """
        if self.work + work > self.end:
            raise self._excess(self.work + work)

    def _excess(self, work: int) -> LimitError:
        """The error for this many steps."""
        most = self.limits.compile_work
        if work > most:
            message = f"the compilation takes more than {most:,} steps of work; limit compile_work is {most:,}"
        else:
            message = (
                f"{self.what} takes more than {most // self.share:,} steps of work; limit compile_work is {most:,}, "
                f"and this part may take {_NAMES[self.share]} of it"
            )
        return LimitError(message, limit="compile_work", value=most)

    def part(self, what: str, share: int = HALF) -> Part:
        """A context in which one part of the compilation, "an automaton", does its work."""
        return Part(self, what, share)

    def check_states(self, states: int, weight: int = 1) -> None:
        """Raise where a DFA under construction has too many states; a state may weigh as much as several."""
        if states * weight > self.states:
            raise LimitError(
                f"an automaton needs more than {self.states // weight} deterministic states; "
                f"limit states is {self.limits.states}, and one of these weighs {DFA_STATE_WEIGHT * weight}",
                limit="states",
                value=self.limits.states,
            )

    def check_positions(self, positions: int) -> None:
        """Raise where an NFA under construction has too many states."""
        if positions > self.limits.states:
            raise LimitError(f"an automaton needs more than {self.limits.states} states", limit="states", value=self.limits.states)


class Part:
    """One part of a compilation, with its own share of the work, like the parts inside it."""

    __slots__ = ("before", "budget", "share", "start", "what")

    def __init__(self, budget: Budget, what: str, share: int) -> None:
        self.budget = budget
        self.what = what
        self.share = share

    def __enter__(self) -> Self:
        budget = self.budget
        most = budget.limits.compile_work
        self.before = (budget.end, budget.what, budget.share)
        self.start = budget.work
        budget.end = min(budget.ceiling, budget.work + most // self.share)
        budget.what = self.what
        budget.share = self.share
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        budget = self.budget
        end, budget.what, budget.share = self.before
        # The work done inside does not count against the share of the part around it.
        budget.end = min(budget.limits.compile_work, end + budget.work - self.start)
