"""Runs of chunks, exhaustively: all short lists against all their runs."""

from __future__ import annotations

from itertools import product

import pytest

from stackmask.pda.automata.language import accepts
from stackmask.pda.automata.suffix_automaton import substring_dfa
from stackmask.pda.budget import Budget


@pytest.mark.parametrize(("chunks", "most"), [(("a", "b"), 6), (("a", "ab", "b"), 4), (("ab", "a", "", "ba"), 3), (("é", "éa"), 4)])
def test_every_run_and_no_other_text(chunks: tuple[str, ...], most: int) -> None:
    """Chunks that repeat, overlap and begin like others: a text is read exactly if some chunks in a row make it."""
    letters = sorted(set("".join(chunks)))
    texts = ["".join(text) for length in range(7) for text in product(letters, repeat=length)]
    for length in range(most + 1):
        for row in product(chunks, repeat=length):
            runs = {"".join(row[begin:end]) for begin in range(length + 1) for end in range(begin, length + 1)}
            found = substring_dfa(row, Budget())
            assert [text for text in texts if accepts(found, text) != (text in runs)] == [], row
