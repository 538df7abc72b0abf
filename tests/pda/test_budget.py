"""The budget of one compilation: steps that are counted, shares of parts, the clock, and the wish to end."""

from __future__ import annotations

import pytest

from stackmask.pda.automata import dfa
from stackmask.pda.budget import HALF, QUARTER, STOP, Budget
from stackmask.pda.exceptions import LimitError
from stackmask.pda.limits import Limits
from stackmask.pda.regex.to_nfa import within_states


def test_all_of_it() -> None:
    """The work of one compilation may reach its limit and not pass it."""
    budget = Budget(Limits(compile_work=1_000))
    budget.spend(1_000)
    with pytest.raises(LimitError, match="the compilation takes more than 1,000 steps") as caught:
        budget.spend()
    assert (caught.value.limit, caught.value.value) == ("compile_work", 1_000)


def test_parts() -> None:
    """A part may take half; what parts inside of it take counts against theirs, and all of it against the whole."""
    budget = Budget(Limits(compile_work=1_000))
    with budget.part("one product"):
        budget.spend(1_000 // HALF)
        with budget.part("one automaton"):
            budget.spend(150)
        with pytest.raises(LimitError, match="one product takes more than 500 steps"):
            budget.spend()
    with budget.part("one automaton"):
        budget.spend(300)
    with budget.part("one automaton"), pytest.raises(LimitError, match="the compilation takes more than 1,000 steps"):
        budget.spend(150)


def test_smaller_parts() -> None:
    """A part may get a quarter; one around it has its own share again."""
    budget = Budget(Limits(compile_work=1_000))
    with budget.part("one product"):
        with budget.part("one graph", QUARTER), pytest.raises(LimitError, match=r"one graph takes more than 250 steps.*may take a quarter"):
            budget.spend(251)
        with pytest.raises(LimitError, match=r"one product takes more than 500 steps.*may take half"):
            budget.expect(501)


def test_attempts() -> None:
    """What only has to be tried may take an eighth, in parts and parts of these; then parts have their shares again."""
    budget = Budget(Limits(compile_work=8_000))

    def make(work: int) -> dfa.Dfa:
        with budget.part("one product"), budget.part("one automaton"):
            budget.spend(work)
        return dfa.EPSILON

    assert within_states(lambda: make(1_000), 10, budget) == dfa.EPSILON
    assert within_states(lambda: make(1_001), 10, budget) is None
    assert budget.work == 2_001
    assert make(4_000) == dfa.EPSILON
    with pytest.raises(LimitError, match="the compilation takes more than 8,000 steps"):
        within_states(lambda: make(2_000), 10, budget)


def test_what_is_expected() -> None:
    """Work that is to come is refused like work that was done, and is not counted."""
    budget = Budget(Limits(compile_work=1_000))
    with budget.part("one product"):
        budget.spend(200)
        budget.expect(300)
        with pytest.raises(LimitError, match="one product takes more than 500 steps"):
            budget.expect(301)
    budget.expect(800)
    with pytest.raises(LimitError, match="the compilation takes more than 1,000 steps"):
        budget.expect(801)
    assert budget.work == 200
    budget.spend(800)


def test_the_same_in_every_run() -> None:
    """Equal operations take equal work, whatever was compiled before."""

    def work() -> int:
        budget = Budget()
        words = dfa.from_strings([str(number) for number in range(0, 3_000, 7)], budget=budget)
        dfa.intersection(words, dfa.from_strings([str(number) for number in range(0, 3_000, 3)], budget=budget), budget=budget)
        return budget.work

    assert work() == work() > 0


def test_the_wish_to_end() -> None:
    """What begins in a context that has a stop ends with its exception at the next step."""
    asked: list[int] = []

    def stop() -> BaseException | None:
        asked.append(1)
        return KeyboardInterrupt() if len(asked) == 3 else None

    token = STOP.set(stop)
    try:
        budget = Budget()
    finally:
        STOP.reset(token)
    budget.spend()
    budget.spend()
    with pytest.raises(KeyboardInterrupt):
        budget.spend()
    Budget().spend()


def test_places() -> None:
    """The innermost place is told, once."""
    error = LimitError("too much", limit="states", value=3)
    inner = error.at("rule `a`")
    assert str(inner) == str(inner.at("line 3")) == "rule `a`: too much"
    assert (inner.limit, inner.value) == ("states", 3)
