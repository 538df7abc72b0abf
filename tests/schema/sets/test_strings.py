"""Sets of strings: the values of a part that has few."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmask.pda.automata import language
from stackmask.pda.budget import Budget
from stackmask.pda.exceptions import LimitError
from stackmask.schema.sets import strings as strings_module
from stackmask.schema.sets.strings import Strings
from stackmask.schema.sets.types import Text

TEXTS = ["".join(letters) for size in range(4) for letters in product("ab", repeat=size)]


@pytest.mark.parametrize("limit", range(17))
def test_values(limit: int) -> None:
    """A part has values if these are no more than the limit, whether it is a set of words or a test with bounds of the length."""
    strings = Strings(Budget())
    test = frozenset({("pattern", "^[ab]*$", True)})
    for count in range(len(TEXTS) + 1):
        words = frozenset(TEXTS[:count])
        assert strings.values(Text(words=words), limit) == (sorted(words) if count <= limit else None)
    for low, high in product(range(4), repeat=2):
        if low <= high:
            expected = {text for text in TEXTS if low <= len(text) <= high}
            found = strings.values(Text(low, high, test), limit)
            assert (found if found is None else set(found)) == (expected if len(expected) <= limit else None)


SEARCHED = ["ab", "ba", "c", "^a", "b$", "[ab]c", "cc", "a.a", "^.{2,5}$", "^[^c]*$", "bca"]


@given(st.lists(st.tuples(st.sampled_from(SEARCHED), st.booleans()), min_size=1, max_size=5, unique=True), st.sampled_from([0, 3, 2_000]))
def test_shortest_of_tests_that_come_one_by_one(tests: list[tuple[str, bool]], most: int) -> None:
    """The length is never above that of a shortest text, and tests that some text passes are never said to be empty."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strings_module, "MOST_TUPLES", most)
        strings = Strings(Budget())
        so_far: frozenset[tuple[str, object, bool]] = frozenset()
        for pattern, holds in tests:
            so_far |= {("pattern", pattern, holds)}
            expected = language.shortest(strings.all_of(so_far))
            found = strings.shortest(so_far)
            assert found <= len(expected) if expected is not None else found == -1 or most < 2_000
            if expected is not None:
                assert found >= 0


def test_a_search_that_was_given_up_is_spared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patterns that may match anywhere are searched for together until it takes too long; then their texts one after the other suffice."""
    searches: list[int] = []
    search = strings_module._shortest_common

    def counted(automata: Any, budget: Budget) -> Any:
        searches.append(len(automata))
        return search(automata, budget)

    monkeypatch.setattr(strings_module, "_shortest_common", counted)
    strings = Strings(Budget())
    tests = [("pattern", f"{letter}{letter}[0-9]", True) for letter in "abcdefghijklmnop"]
    lengths = [strings.shortest(frozenset(tests[: count + 1])) for count in range(len(tests))]
    assert lengths[4] == 15
    assert all(0 < length <= 3 * (count + 1) for count, length in enumerate(lengths))
    assert len(searches) < 10
    begun = len(searches)
    assert strings.shortest(frozenset([*tests, ("pattern", "z$", True)])) > 0
    assert len(searches) == begun
    # the text of one more is not behind all others any longer
    assert strings.shortest(frozenset([*tests, ("pattern", "z$", True), ("pattern", "y$", True)])) > 0
    assert len(searches) == begun + 1
    # others have nothing to do with it
    assert strings.shortest(frozenset([("pattern", "q{3}", True), ("pattern", "r{3}", True)])) == 6
    # what contradicts is still found empty, or left to who writes it; what only the text does not pass is searched for again
    assert strings.shortest(frozenset([*tests, ("pattern", "^[a-p]*$", True)])) == -1
    assert 0 < strings.shortest(frozenset([*tests, ("pattern", "^z", True)])) <= 49


def test_long_texts_are_not_put_together() -> None:
    """Nor do they count as work."""
    budget = Budget()
    strings = Strings(budget)
    tests = [("pattern", f"{letter}{letter}[0-9]", True) for letter in "abcdefghijklmnop"]
    assert strings.shortest(frozenset(tests)) > 0
    before = budget.work
    long = ("pattern", "q{4000}", True)
    strings.test(long)
    made = budget.work - before
    assert strings.shortest(frozenset([*tests, long])) > 0
    assert budget.work - before < 2 * made + 200_000
    assert list(strings.long_words) == [frozenset(tests)]


def test_what_surely_has_too_many_states_is_refused_at_once() -> None:
    """Before any product is made."""
    budget = Budget()
    strings = Strings(budget)
    tests = frozenset(("pattern", f"{letter}q[0-9]", True) for letter in "abcdefghijklmnop")
    with pytest.raises(LimitError, match="more than 125000 deterministic states"):
        strings.all_of(tests)
    assert budget.work < 20_000
    assert not strings.pairs
