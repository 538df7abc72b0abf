"""Several matchers at once, and a matcher at every token of a draft.

The kernel fills rows in parallel and in the background; here a loop does, before its caller continues.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..exceptions import LimitError, StackmaskError
from .bitmasks import Tensor, checked_rows
from .matcher import Matcher


def fill_bitmasks(matchers: Sequence[Matcher], bitmask: npt.NDArray[np.int32] | Tensor, rows: Sequence[int] | None = None) -> None:
    """Fill a row for each matcher: row `rows[i]` for matcher i, or row i."""
    MatcherRows(matchers, bitmask, rows)._fill()


class MatcherRows:
    """A batch of matchers and their rows of a bitmask, `rows[i]` or i, checked once for any number of steps."""

    def __init__(self, matchers: Sequence[Matcher], bitmask: npt.NDArray[np.int32] | Tensor, rows: Sequence[int] | None = None) -> None:
        _check_matchers(matchers)
        indices = list(range(len(matchers))) if rows is None else list(rows)
        if len(indices) != len(matchers):
            raise ValueError(f"{len(matchers)} matchers, but {len(indices)} rows")
        if len(set(indices)) != len(indices):
            raise ValueError("two matchers have the same row")
        if len({matcher._trie.size for matcher in matchers}) > 1:
            raise ValueError("the matchers have vocabularies of different sizes")
        array = checked_rows(bitmask, matchers[0]._trie.size, indices) if matchers else np.zeros((0, 0), np.int32)
        self._matchers = list(matchers)
        self._rows = [array[index] for index in indices]

    def take(self, token_ids: Sequence[int]) -> list[int] | None:
        """Accept one token for each matcher, all or nothing. Return the byte lengths of their shortest completions, -1 for none.

        Return None, with every matcher unchanged, if one refuses its token or exceeds a limit.
        """
        if len(token_ids) != len(self._matchers):
            raise ValueError(f"there are {'more' if len(token_ids) > len(self._matchers) else 'fewer'} tokens than matchers")
        checked = [matcher._checked(token_id) for matcher, token_id in zip(self._matchers, token_ids, strict=True)]
        taken = 0
        with contextlib.suppress(LimitError):
            while taken < len(checked) and self._matchers[taken].accept_token(checked[taken]):
                taken += 1
        if taken == len(checked):
            return completion_lengths(self._matchers)
        for matcher in self._matchers[:taken]:
            matcher.rollback(1)
        return None

    def _fill(self) -> None:
        for matcher, row in zip(self._matchers, self._rows, strict=True):
            matcher._fill(row, matcher._history[-1])


class BitmaskFiller:
    """Fills bitmasks in a thread of its own while its caller does something else; here it is done when it begins."""

    def __init__(self) -> None:
        self._has_begun = False
        self._error: Exception | None = None

    def begin(self, rows: MatcherRows) -> None:
        """Begin to fill these rows. Do not change the matchers or read the rows until `end` returns."""
        if self._has_begun:
            raise ValueError("it has begun already; call end first")
        try:
            rows._fill()
        except StackmaskError as error:
            self._error = error
        self._has_begun = True

    def end(self) -> None:
        """Wait until the rows are filled; an error while they were filled is raised here."""
        if not self._has_begun:
            raise ValueError("nothing has begun")
        self._has_begun = False
        if self._error is not None:
            error, self._error = self._error, None
            raise error


def completion_lengths(matchers: Sequence[Matcher]) -> list[int]:
    """For each matcher the length in bytes of its `shortest_completion`, -1 if that raises an error."""
    _check_matchers(matchers)
    lengths = []
    for matcher in matchers:
        try:
            lengths.append(len(matcher.shortest_completion()))
        except (ValueError, LimitError):
            lengths.append(-1)
    return lengths


def fill_draft_bitmasks(
    matcher: Matcher,
    draft_token_ids: Sequence[int],
    bitmask: npt.NDArray[np.int32] | Tensor,
    row: int,
    parents: Sequence[int] | None = None,
) -> None:
    """Fill `row` with the mask now, and row + i + 1 with the mask after draft token i and those before it.

    `parents[i]` is the draft token before token i, -1 for none; by default the drafts are a chain.
    Rows at and below a refused draft token are all zeros. The matcher does not change.
    """
    tokens = [matcher._checked(token_id) for token_id in draft_token_ids]
    before = list(range(-1, len(tokens) - 1)) if parents is None else list(parents)
    if len(before) != len(tokens):
        raise ValueError(f"{len(tokens)} draft tokens, but {len(before)} parents")
    for i, parent in enumerate(before):
        if not -1 <= parent < i:
            raise ValueError(f"the parent of draft token {i} is {parent}, not -1 or a draft token before it")
    array = checked_rows(bitmask, matcher._trie.size, range(row, row + len(tokens) + 1))
    for offset, here in enumerate(matcher._draft_rows(tokens, before)):
        matcher._fill(array[row + offset], here)


def _check_matchers(matchers: Sequence[object]) -> None:
    for matcher in matchers:
        if not isinstance(matcher, Matcher):
            raise TypeError(f"{type(matcher).__name__} is no Matcher")
