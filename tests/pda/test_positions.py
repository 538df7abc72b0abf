"""Lines and columns of the errors of text formats."""

from __future__ import annotations

from itertools import product

from stackmask.pda.exceptions import RegexError


def test_lines_and_columns() -> None:
    """Both count from one, and a line break is the last character of its line."""
    for size in range(6):
        for letters in product("a\n", repeat=size):
            line, column = 1, 1
            for position in range(size + 1):
                error = RegexError("wrong", "".join(letters), position)
                assert (error.line, error.column) == (line, column)
                line, column = (line + 1, 1) if letters[position : position + 1] == ("\n",) else (line, column + 1)
    assert (RegexError("wrong").line, RegexError("wrong").column) == (None, None)
