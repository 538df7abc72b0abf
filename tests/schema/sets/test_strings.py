"""Sets of strings: the values of a part that has few."""

from __future__ import annotations

from itertools import product

import pytest

from stackmask.pda.budget import Budget
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
