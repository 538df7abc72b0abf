"""The state of one request, and of a batch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Literal

import torch

from ...pda.engine import fill_bitmasks, fill_draft_bitmasks
from ...pda.matcher import Matcher
from .compiler import CompiledGrammar
from .exception import refuse, runtime_errors


class GrammarMatcher:
    """Rollback is never limited, so `max_rollback_tokens` bounds nothing."""

    def __init__(
        self,
        compiled_grammar: CompiledGrammar,
        *,
        override_stop_tokens: list[int] | int | None = None,
        terminate_without_stop_token: bool = False,
        max_rollback_tokens: int = -1,
        default_temperature: float | None = None,
    ) -> None:
        stops = [override_stop_tokens] if isinstance(override_stop_tokens, int) else override_stop_tokens
        self._stops = compiled_grammar.tokenizer_info.stop_token_ids if stops is None else list(stops)
        self._matcher = compiled_grammar.compiled.matcher(stops)
        self._without_stop = terminate_without_stop_token
        self._temperature = default_temperature

    @property
    def matcher(self) -> Matcher:
        """The matcher of stackmask."""
        return self._matcher

    def accept_token(self, token_id: int, *, debug_print: bool = False) -> bool:
        """Go on by a token; False, and nothing changes, where it is not allowed."""
        refuse(debug_print=debug_print)
        return 0 <= token_id < self._matcher.vocabulary.size and not self.is_terminated() and self._matcher.accept_token(token_id)

    def accept_string(self, input_str: str | bytes, *, debug_print: bool = False) -> bool:
        """Go on by a text, as one step; False, and nothing changes, where it is not allowed."""
        refuse(debug_print=debug_print)
        return self._matcher.accept_bytes(input_str.encode() if isinstance(input_str, str) else input_str)

    def fill_next_token_bitmask(self, bitmask: Any, index: int = 0, *, debug_print: bool = False) -> bool:
        """Write a row; False if everything is allowed."""
        refuse(debug_print=debug_print)
        with runtime_errors():
            return self._matcher.fill_next_token_bitmask(bitmask, index)

    def traverse_draft_tree(
        self,
        retrieve_next_token: torch.Tensor,
        retrieve_next_sibling: torch.Tensor,
        draft_tokens: torch.Tensor,
        token_bitmask: torch.Tensor,
        time_threshold: float = -1.0,
        temperatures: torch.Tensor | None = None,
    ) -> bool:
        """Fill a row for each node of a tree: node 0 is where the matcher is, every other is a draft token. False after too much time.

        `temperatures` gets those of nodes that have one.
        """
        start = time.monotonic()
        parents = _parents(retrieve_next_token.tolist(), retrieve_next_sibling.tolist())
        with runtime_errors():
            fill_draft_bitmasks(self._matcher, draft_tokens.tolist()[1:], token_bitmask, 0, parents)
        if temperatures is not None:
            self._fill_temperatures(draft_tokens.tolist()[1:], parents, temperatures)
        return time_threshold <= 0 or time.monotonic() - start <= time_threshold

    def _fill_temperatures(self, tokens: list[int], parents: list[int], temperatures: torch.Tensor) -> None:
        """Write the temperature of every node that has one; a node below a refused token has none."""
        places: list[GrammarMatcher | None] = [self]
        for token, parent in zip(tokens, parents, strict=True):
            before = places[parent + 1]
            twin = None if before is None else before.fork()
            places.append(twin if twin is not None and twin.accept_token(token) else None)
        for index, place in enumerate(places):
            if place is not None and place.temperature is not None:
                temperatures[index] = place.temperature

    def find_jump_forward_string(self) -> str:
        """The text that must come next."""
        return self._matcher.find_jump_forward_string()

    def rollback(self, num_tokens: int = 1) -> None:
        """Undo the last steps."""
        with runtime_errors():
            self._matcher.rollback(num_tokens)

    def get_captures(self, *, deduplicate: bool = True) -> list[tuple[str, bytes]]:
        """The names and texts of the captured parts so far, of one way to read the text."""
        return self._matcher.get_captures(deduplicate=deduplicate)

    def is_terminated(self) -> bool:
        """Whether a stop token was accepted; with `terminate_without_stop_token`, whether the text is complete."""
        return self._matcher.is_completed() if self._without_stop else self._matcher.is_terminated()

    def is_completed(self) -> bool:
        """Whether the text is complete."""
        return self._matcher.is_completed() or self._matcher.is_terminated()

    def reset(self) -> None:
        """Back to the beginning."""
        self._matcher.reset()

    def fork(self) -> GrammarMatcher:
        """An independent matcher in the same state, with the same history."""
        twin = type(self).__new__(type(self))
        twin._matcher, twin._stops = self._matcher.fork(), self._stops
        twin._without_stop, twin._temperature = self._without_stop, self._temperature
        return twin

    @property
    def max_rollback_tokens(self) -> int:
        """No limit."""
        return -1

    @property
    def temperature(self) -> float | None:
        """The temperature that the grammar asks for here, else the default."""
        asked = self._matcher.temperature
        return self._temperature if asked is None else asked

    @property
    def stop_token_ids(self) -> list[int]:
        """The ids that end the text."""
        return list(self._stops)


class BatchGrammarMatcher:
    """Calls for a whole batch. Masks are filled in one call without the interpreter's lock, on the caller's thread."""

    def __init__(self, max_threads: int | Literal["auto"] = "auto") -> None:
        self.max_threads = max_threads

    def batch_fill_next_token_bitmask(
        self, matchers: list[GrammarMatcher], bitmask: Any, indices: list[int] | None = None, debug_print: bool = False
    ) -> None:
        """Write a row for each matcher."""
        refuse(debug_print=debug_print)
        with runtime_errors():
            fill_bitmasks([matcher.matcher for matcher in matchers], bitmask, indices)

    @staticmethod
    def batch_fill_temperature(matchers: list[GrammarMatcher], temperatures: torch.Tensor, indices: list[int] | None = None) -> None:
        """Write the temperature of each matcher that has one."""
        for index, matcher in zip(indices or range(len(matchers)), matchers, strict=True):
            if matcher.temperature is not None:
                temperatures[index] = matcher.temperature

    @staticmethod
    def batch_accept_token(matchers: list[GrammarMatcher], tokens: list[int], debug_print: bool = False) -> list[bool]:
        """Go on by a token each."""
        return [matcher.accept_token(token, debug_print=debug_print) for matcher, token in zip(matchers, tokens, strict=True)]

    @staticmethod
    def batch_accept_string(matchers: list[GrammarMatcher], strings: Sequence[bytes | str], debug_print: bool = False) -> list[bool]:
        """Go on by a text each."""
        return [matcher.accept_string(text, debug_print=debug_print) for matcher, text in zip(matchers, strings, strict=True)]

    @staticmethod
    def batch_rollback(matchers: list[GrammarMatcher], num_tokens: list[int] | int = 1) -> None:
        """Undo the last steps of each."""
        counts = [num_tokens] * len(matchers) if isinstance(num_tokens, int) else num_tokens
        for matcher, count in zip(matchers, counts, strict=True):
            matcher.rollback(count)


def _parents(children: list[int], siblings: list[int]) -> list[int]:
    """The parent of each node but the first, as the engine counts them: -1 is where the matcher is, i the draft of node i + 1."""
    parents = [-1] * (len(children) - 1)
    for node, child in enumerate(children):
        seen = 0
        while child > 0 and seen < len(children):
            parents[child - 1] = node - 1
            child = siblings[child]
            seen += 1
    return parents
