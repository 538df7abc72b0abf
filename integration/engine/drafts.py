"""Guesses at the next tokens, which one forward pass verifies.

    lookup       what followed the last tokens where they occurred before, in the prompt or the answer (prompt lookup)
    DraftModel   a smaller model's most likely tokens among those that the grammar allows

A guess is one token at each place, never a distribution. The verifying pass draws from the target's distribution at each place and
continues while the drawn token equals the guess. So every token is drawn from the target's own distribution, by the same random numbers
in the same order as without drafts: the text is the same, for sampling as for greedy decoding, up to rounding in the batched pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from ...pda.matcher import Matcher, allocate_token_bitmask
from ..torch import apply_token_bitmask_inplace
from .kv_cache import ModelError, make_cache

if TYPE_CHECKING:
    from .sequence import Sequence as Answer

LONGEST: Final = 8
SHORTEST: Final = 2
OCCURRENCES: Final = 64  # that are compared: of a text that repeats one token, 2,000 took 3 ms of each step


@dataclass(frozen=True, slots=True)
class Draft:
    """Guessed tokens; `parents[i]` is the guess that token i follows, -1 for the text so far, and None stands for a chain."""

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] | None = None


NO_DRAFT: Final = Draft()


def lookup(tokens: Sequence[int], count: int, branches: int) -> list[list[int]]:
    """Up to `branches` continuations of at most `count` tokens that differ in their first: the longest match first, then the latest.

    It compares no more than the latest `OCCURRENCES` of the last token.

    >>> lookup([1, 2, 3, 4, 9, 1, 2, 3], 2, 1)
    [[4, 9]]
    """
    found: list[list[int]] = []
    seen: set[int] = set()
    last = len(tokens)
    final = tokens[-1]
    starts = (place for place in range(last - SHORTEST - 1, -1, -1) if tokens[place + SHORTEST - 1] == final)
    matches: list[tuple[int, int]] = []
    for start in islice(starts, OCCURRENCES):
        end = start + SHORTEST  # one past the occurrence's last token
        length = 0
        while length < min(LONGEST, end) and tokens[end - 1 - length] == tokens[last - 1 - length]:
            length += 1
        if length >= SHORTEST:
            matches.append((-length, end))
    matches.sort(key=lambda match: match[0])  # stable, so of equal matches the latest comes first
    for _, end in matches:
        if tokens[end] not in seen:
            seen.add(tokens[end])
            found.append(list(tokens[end : end + count]))
            if len(found) == branches:
                break
    return found


def merge(branches: Iterable[Sequence[int]], budget: int) -> Draft:
    """Branches as one tree of at most `budget` tokens, in which branches that begin alike share a path."""
    tokens: list[int] = []
    parents: list[int] = []
    children: dict[tuple[int, int], int] = {}
    count = 0
    for branch in branches:
        count += 1
        here = -1
        for token in branch:
            place = children.get((here, token))
            if place is None:
                if len(tokens) == budget:
                    break
                place = children[here, token] = len(tokens)
                tokens.append(token)
                parents.append(here)
            here = place
    return Draft(tuple(tokens), tuple(parents) if count > 1 else None)


class DraftModel:
    """A small model with the vocabulary of the large one, and its own cache of keys and values, one row for each answer it serves."""

    def __init__(self, model: Any, capacity: int) -> None:
        self.slots = make_cache(model, capacity)
        if not self.slots.can_take_back:
            raise ModelError(f"{type(model).__name__} cannot draft: nothing can be taken back from its cache")
        self._owners: list[Answer] = []
        self._known: list[list[int]] = []

    def forget(self, answer: Answer) -> None:
        """Free the row of an answer, if it has one."""
        if answer in self._owners:
            row = self._owners.index(answer)
            self.slots.remove(row)
            self._owners[row], self._known[row] = self._owners[-1], self._known[-1]
            del self._owners[-1], self._known[-1]

    def draft(self, answers: Sequence[Answer], room: int) -> dict[Answer, list[int]]:
        """A chain for each of these answers, as many tokens as it asked for.

        Prompts are read in pieces here too, `room` tokens of them in a step; the chain of an answer is empty until its prompt is read.
        """
        chains: dict[Answer, list[int]] = {}
        for answer in answers:
            if answer not in self._owners:
                self._owners.append(answer)
                self._known.append([])
                self.slots.add()
            text = [*answer.request.prompt, *answer.tokens]
            common = self._take_back(answer, text)
            unread = len(answer.request.prompt) - common
            count = min(unread, room)
            if count > 0:
                row = self._owners.index(answer)
                self.slots.prefill(row, text[common : common + count])
                self._known[row] = text[: common + count]
                room -= count
            chains[answer] = [] if count < unread else self._chain(answer, text)
        return chains

    def _take_back(self, answer: Answer, text: list[int]) -> int:
        """Forget the keys of what the target refused; how many tokens of the text the model has read."""
        row = self._owners.index(answer)
        known = self._known[row]
        common = next((i for i, (a, b) in enumerate(zip(known, text, strict=False)) if a != b), min(len(known), len(text)))
        self.slots.lengths[row] = common = min(common, len(text) - 1)
        return common

    def _chain(self, answer: Answer, text: list[int]) -> list[int]:
        """The most likely tokens after a text of which something is not read, one after the other."""
        row = self._owners.index(answer)
        matcher = answer.guide.matcher.fork() if answer.guide is not None and answer.guide.is_active else None
        chain: list[int] = []
        new = text[self.slots.lengths[row] :]
        while len(chain) < answer.request.speculation:
            logits = self.slots.forward([new], first=row, last_only=True)[0, -1]
            token = _best(logits, matcher)
            if token is None or token in answer.stops:
                break
            chain.append(token)
            new = [token]
        self._known[row] = text + chain[:-1]
        return chain


def _best(logits: Any, matcher: Matcher | None) -> int | None:
    """The most likely token that may come, taken; None where none may."""
    if matcher is None:
        return int(logits.argmax())
    bitmask = allocate_token_bitmask(1, matcher.vocabulary.size)
    matcher.fill_next_token_bitmask(bitmask)
    apply_token_bitmask_inplace(logits[None], bitmask)
    token = int(logits.argmax())
    return token if matcher.accept_token(token) else None
