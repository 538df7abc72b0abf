"""What one compilation may still spend."""

from __future__ import annotations

import time

from .exceptions import LimitError
from .limits import Limits

# A state of a DFA weighs as much as this many states of an NFA: its row is wider, and a determinisation can make one for every set of them.
DFA_STATE_WEIGHT = 16


class Budget:
    """The limits of one compilation and the moment it has to end; made once and handed down to every operation."""

    __slots__ = ("deadline", "limits", "states")

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = Limits() if limits is None else limits
        self.deadline = time.monotonic() + self.limits.compile_seconds
        self.states = self.limits.states // DFA_STATE_WEIGHT

    def check_states(self, states: int, weight: int = 1) -> None:
        """Raise where a DFA under construction has too many states, or the time is over; a state may weigh as much as several."""
        if states * weight > self.states:
            raise LimitError(
                f"an automaton needs more than {self.states // weight} deterministic states; "
                f"limit states is {self.limits.states}, and one of these weighs {DFA_STATE_WEIGHT * weight}",
                limit="states",
                value=self.limits.states,
            )
        self.check_time()

    def check_positions(self, positions: int) -> None:
        """Raise where an NFA under construction has too many states, or the time is over."""
        if positions > self.limits.states:
            raise LimitError(f"an automaton needs more than {self.limits.states} states", limit="states", value=self.limits.states)
        self.check_time()

    def check_time(self) -> None:
        """Raise where the time is over."""
        if time.monotonic() > self.deadline:
            raise LimitError(
                f"compilation took more than {self.limits.compile_seconds:g} s", limit="compile_seconds", value=self.limits.compile_seconds
            )
