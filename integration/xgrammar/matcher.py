"""The state of one request, and of a batch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import inf
from typing import Any, Literal

import torch

from ...pda.engine import fill_bitmasks, fill_draft_bitmasks
from ...pda.matcher import Matcher
from .compiler import CompiledGrammar
from .draft_tree import DraftTree, checked
from .exception import refuse, runtime_errors


class GrammarMatcher:
    """Rollback is never limited, so `max_rollback_tokens` bounds nothing.

    With `terminate_without_stop_token` no stop token is accepted, and a text that is complete may go on where the grammar lets it.
    `default_temperature` is that of places for which the grammar names none.
    """

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
        self._temperature = None if default_temperature is None else float(default_temperature)
        if self._temperature is not None and not 0 <= self._temperature < inf:
            raise RuntimeError(f"default_temperature must be a finite number of at least 0, not {default_temperature!r}")

    @property
    def matcher(self) -> Matcher:
        """The matcher of stackmask."""
        return self._matcher

    def accept_token(self, token_id: int, *, debug_print: bool = False) -> bool:
        """Go on by a token; False, and nothing changes, where it is not allowed."""
        refuse(debug_print=debug_print)
        is_out = not 0 <= token_id < self._matcher.vocabulary.size or (self._without_stop and token_id in self._stops)
        return not is_out and not self._matcher.is_terminated() and self._matcher.accept_token(token_id)

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

        The tensors of the tree are int64 and have an element for each node, `token_bitmask` (int32) has a row for each.
        The row of a refused draft is all zeros. Rows below it, and those of nodes that node 0 does not lead to, stay as they were.
        `temperatures` (float32) gets the temperature of each node, -1 if it has none.
        """
        start = time.monotonic()
        tree = DraftTree.of(retrieve_next_token, retrieve_next_sibling, draft_tokens)
        bitmask = checked(token_bitmask, "token_bitmask", 2, torch.int32, len(tree.tokens))
        known, stops = range(self._matcher.vocabulary.size), frozenset(self._stops)
        order, parents, ends = tree.walk(lambda token: token in known and token not in stops)
        masks = torch.zeros((len(order), bitmask.shape[1]), dtype=torch.int32)
        with runtime_errors(ValueError):
            fill_draft_bitmasks(self._matcher, [tree.tokens[node] for node in order[1:]], masks, 0, [place - 1 for place in parents[1:]])
        is_alive = masks.any(1).tolist()
        written = [place for place, parent in enumerate(parents) if place == 0 or is_alive[parent]]
        bitmask[[order[place] for place in written]] = masks[written]
        bitmask[[node for node, parent in ends if is_alive[parent]]] = 0
        if temperatures is not None:
            temperatures = checked(temperatures, "temperatures", 1, torch.float32, len(tree.tokens))
            temperatures.fill_(-1)
            self._fill_temperatures(tree, order, parents, temperatures)
        return time_threshold <= 0 or time.monotonic() - start <= time_threshold

    def _fill_temperatures(self, tree: DraftTree, order: list[int], parents: list[int], temperatures: torch.Tensor) -> None:
        """Write the temperature of every node that has one; a node at or below a refused token has none."""
        places: list[GrammarMatcher | None] = []
        for node, parent in zip(order, parents, strict=True):
            above = places[parent] if places else self
            place = above.fork() if above is not None and places else above
            if place is not None and places and not place.accept_token(tree.tokens[node]):
                place = None
            places.append(place)
            if place is not None and place.temperature is not None:
                temperatures[node] = place.temperature

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
        fork = type(self).__new__(type(self))
        fork._matcher, fork._stops = self._matcher.fork(), self._stops
        fork._without_stop, fork._temperature = self._without_stop, self._temperature
        return fork

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
        """Write the temperature of each matcher, -1 for one that has none, at its place or at `indices`; `temperatures` is float32."""
        places = list(range(len(matchers)) if indices is None else indices)
        written = checked(temperatures, "temperatures", 1, torch.float32)
        if len(places) != len(matchers) or not all(0 <= place < len(written) for place in places):
            raise RuntimeError(f"{len(matchers)} matchers and the places {places} do not fit {len(written)} temperatures")
        for place, matcher in zip(places, matchers, strict=True):
            written[place] = -1 if matcher.temperature is None else matcher.temperature

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
