"""Vocabulary, grammar and matcher of the reference engine, as the kernel has them.

A mask is found by trying the tokens of the vocabulary one by one, along the trie.
A matcher is a list of columns, one for each step: rollback cuts the list, fork copies it.
"""

from __future__ import annotations

import operator
import pickle
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from ..exceptions import RollbackError
from ..grammar import Grammar
from .bitmasks import Tensor, checked_rows
from .columns import Column, above
from .program import Program
from .shortest import shortest_text
from .unique import UniqueChart

JUMP_BYTES = 1 << 16  # find_jump_forward_bytes gives no more than these at once


class TokenTrie:
    """The bytes of every token, as a trie. An id with None or with no bytes is a token without text.

    `set_bytes` and `class_bytes` bound the tables that the kernel's grammars share, and `thresholds` choose its strategies.
    This engine has no such tables and one strategy.
    """

    def __init__(
        self,
        tokens: Sequence[bytes | None],
        size: int,
        *,
        set_bytes: int = 64 << 20,
        class_bytes: int = 64 << 20,
        thresholds: Mapping[str, int] | None = None,
    ) -> None:
        if size < len(tokens):
            raise ValueError(f"the vocabulary has {len(tokens)} tokens, more than its size {size}")
        for i, token in enumerate(tokens):
            if token is not None and not isinstance(token, bytes):
                raise TypeError(f"token {i} is {type(token).__name__}, not bytes or None")
        self.tokens = tuple(token or b"" for token in tokens)
        self.size = size
        self.with_text = frozenset(i for i, token in enumerate(self.tokens) if token)
        self.children: list[dict[int, int]] = [{}]
        self.ids: list[list[int]] = [[]]
        for i, token in enumerate(self.tokens):
            if token:
                self._insert(i, token)

    def _insert(self, token_id: int, token: bytes) -> None:
        node = 0
        for byte in token:
            following = self.children[node].get(byte)
            if following is None:
                following = self.children[node][byte] = len(self.children)
                self.children.append({})
                self.ids.append([])
            node = following
        self.ids[node].append(token_id)


class KernelGrammar:
    """A grammar, packed or not, prepared for one vocabulary. Any number of matchers share it."""

    def __init__(
        self,
        trie: TokenTrie,
        grammar: Grammar | bytes,
        *,
        states: int,
        stack_depth: int,
        memory: int,
        seconds: float,
        step_work: int = 0,  # the kernel's work, which this engine does not do
    ) -> None:
        if not isinstance(trie, TokenTrie):
            raise TypeError(f"trie is {type(trie).__name__}, not TokenTrie")
        self.trie = trie
        self.memory_limit = memory
        unpacked = pickle.loads(grammar) if isinstance(grammar, bytes) else grammar
        self.program = Program(unpacked, trie, states=states, memory=memory, seconds=seconds)
        self.chart = UniqueChart(self.program, states=states, stack_depth=stack_depth)

    def warm_up(self) -> None:
        """Build the tables of the first request in advance; this engine has none."""

    @property
    def memory(self) -> int:
        """The size of the tables in bytes, which this engine does not count."""
        return 0

    @property
    def statistics(self) -> dict[str, int]:
        """Counts of built objects, which this engine does not keep."""
        return {}

    @property
    def has_temperature(self) -> bool:
        """Whether some part of the text has a temperature."""
        return self.program.has_temperature


def pack_grammar(grammar: Grammar) -> bytes:
    """The grammar as bytes, which a KernelGrammar takes instead of it in a process of the same version on the same machine."""
    return pickle.dumps(grammar)


class Position(NamedTuple):
    """A matcher after some step."""

    column: Column
    is_terminated: bool  # whether a stop token ended the text


class Matcher:
    """The text of one request so far, and the tokens that may follow it. Two threads must not use it at once."""

    def __init__(self, grammar: KernelGrammar, stop_token_ids: Sequence[int]) -> None:
        if not isinstance(grammar, KernelGrammar):
            raise TypeError(f"grammar is {type(grammar).__name__}, not KernelGrammar")
        self._grammar = grammar
        self._chart = grammar.chart
        self._trie = grammar.trie
        self._stop = frozenset(self._checked(token_id) for token_id in stop_token_ids)
        self._history = [Position(self._chart.first(), False)]  # after each step
        self._taken: list[int | bytes] = []  # the steps

    def __repr__(self) -> str:
        return f"<Matcher after {self.num_accepted} tokens{', terminated' if self.is_terminated() else ''}>"

    @property
    def num_accepted(self) -> int:
        """The number of steps that rollback can undo."""
        return len(self._history) - 1

    @property
    def temperature(self) -> float | None:
        """The temperature at which to sample the next token, the highest if there are several; None if the grammar sets none."""
        column, is_terminated = self._history[-1]
        return None if is_terminated else self._chart.temperature(column)

    @property
    def taken(self) -> list[int | bytes]:
        """The accepted ids and texts, without stop tokens that the grammar does not require; empty for a grammar without CAPTURE."""
        if not self._chart.program.has_capture:
            return []
        steps = zip(self._taken, pairwise(self._history), strict=True)
        return [step for step, ((before, _), (after, is_terminated)) in steps if not is_terminated or after is not before]

    def is_terminated(self) -> bool:
        """Whether a stop token was accepted."""
        return self._history[-1].is_terminated

    def is_completed(self) -> bool:
        """Whether the text may end here, so that every stop token is allowed."""
        return self._history[-1].column.is_complete

    def accept_token(self, token_id: int) -> bool:
        """Accept a token and return True; return False and change nothing if it is not allowed."""
        following = self._after_token(self._history[-1], self._checked(token_id))
        if following is not None:
            self._history.append(following)
            self._taken.append(token_id)
        return following is not None

    def accept_bytes(self, data: bytes) -> bool:
        """Accept a text as one step and return True; return False and change nothing if it is not allowed."""
        column, is_terminated = self._history[-1]
        following = self._after_bytes(column, data) if not is_terminated or not data else None
        if following is not None:
            self._history.append(Position(self._chart.end_token(following) if data else following, is_terminated))
            self._taken.append(bytes(data))
        return following is not None

    def validate_tokens(self, token_ids: Sequence[int]) -> int:
        """The number of these tokens that can be accepted one after the other. Accepts none of them."""
        here: Position | None = self._history[-1]
        checked = [self._checked(token_id) for token_id in token_ids]
        for count, token_id in enumerate(checked):
            assert here is not None
            here = self._after_token(here, token_id)
            if here is None:
                return count
        return len(checked)

    def rollback(self, n: int) -> None:
        """Undo the last n steps."""
        if n < 0:
            raise ValueError(f"cannot roll back {n} tokens")
        if n > self.num_accepted:
            raise RollbackError(f"cannot roll back {n} tokens, {self.num_accepted} were accepted")
        del self._history[len(self._history) - n :]
        del self._taken[len(self._taken) - n :]

    def fork(self) -> Self:
        """An independent matcher in the same state, with the same history."""
        copy = object.__new__(type(self))
        copy._grammar, copy._chart, copy._trie, copy._stop = self._grammar, self._chart, self._trie, self._stop
        copy._history = list(self._history)
        copy._taken = list(self._taken)
        return copy

    def reset(self) -> None:
        """Return to the beginning of the text and forget the history."""
        del self._history[1:]
        self._taken.clear()

    def fill_next_token_bitmask(self, bitmask: npt.NDArray[np.int32] | Tensor, index: int = 0) -> bool:
        """Write one row of a bitmask: bit i of word w is 1 if token 32 w + i is allowed. Return False if every token is allowed."""
        row = checked_rows(bitmask, self._trie.size, [index])[index]
        return self._fill(row, self._history[-1])

    def fill_by_trial(self, bitmask: npt.NDArray[np.int32] | Tensor, index: int = 0) -> None:
        """As fill_next_token_bitmask, which tries every token here."""
        self.fill_next_token_bitmask(bitmask, index)

    def allowed_tokens(self) -> list[int]:
        """The ids of the tokens that are allowed now, ascending."""
        return sorted(self._allowed(self._history[-1]))

    def find_jump_forward_bytes(self) -> bytes:
        """The bytes that must follow, up to a choice or the end of the text; at most JUMP_BYTES at once."""
        column = self._history[-1].column
        forced = bytearray()
        while not column.is_complete and not self._chart.reads_ids(column) and len(forced) < JUMP_BYTES:
            following = self._chart.bytes_after(column)
            if len(following) != 1:
                break
            after = self._chart.read_byte(column, following[0])
            assert after is not None
            forced.append(following[0])
            column = after
        return bytes(forced)

    def find_jump_forward_string(self) -> str:
        """The bytes that must follow, as text, up to the first that are not UTF-8."""
        forced = self.find_jump_forward_bytes()
        try:
            return forced.decode()
        except UnicodeDecodeError as error:
            return forced[: error.start].decode()

    def shortest_completion(self) -> bytes:
        """A shortest text that completes the text so far.

        A completion has no token that the grammar requires by its id. Raises GrammarError if every completion needs such a token,
        and LimitError if the completion is too long or values that must differ leave too many candidates.
        """
        return shortest_text(self._chart, self._history[-1].column, self._grammar.memory_limit)

    def matching_prefix(self, data: bytes) -> int:
        """The number of these bytes, from the first on, that can be accepted. Accepts none of them."""
        column, is_terminated = self._history[-1]
        for count, byte in enumerate(data):
            following = None if is_terminated else self._chart.read_byte(column, byte)
            if following is None:
                return count
            column = following
        return len(data)

    def next_bytes(self, data: bytes = b"") -> bytes:
        """The bytes that may follow `data`, sorted; empty if `data` is not allowed."""
        column = self._peek(data)
        return bytes(self._chart.bytes_after(column)) if column is not None else b""

    def rule_names(self, data: bytes = b"") -> list[str]:
        """The names of the rules that are open after `data`, innermost first; empty if `data` is not allowed."""
        column = self._peek(data)
        if column is None:
            return []
        rules = self._chart.program.rules
        nodes = above(column.reading or column.items)
        return [rules[node.rule].name for node in nodes if rules[node.rule].name]

    def _peek(self, data: bytes) -> Column | None:
        """The column after `data`."""
        column, is_terminated = self._history[-1]
        return None if is_terminated else self._after_bytes(column, data)

    def _checked(self, token_id: int) -> int:
        number = operator.index(token_id)
        if not 0 <= number < self._trie.size:
            raise ValueError(f"token id {number} is out of range 0..{self._trie.size - 1}")
        return number

    def _after_bytes(self, column: Column, data: bytes) -> Column | None:
        here: Column | None = column
        for byte in data:
            assert here is not None
            here = self._chart.read_byte(here, byte)
            if here is None:
                return None
        return here

    def _after_token(self, here: Position, token_id: int) -> Position | None:
        column, is_terminated = here
        is_stop = token_id in self._stop
        if is_stop and column.is_complete:
            return Position(column, True)
        text = self._trie.tokens[token_id] if token_id < len(self._trie.tokens) else b""
        if is_terminated or (is_stop and text):
            return None
        following = self._chart.read_token(column, token_id, text)
        if following is None:
            return None
        following = self._chart.end_token(following)
        # A grammar that asks for a stop token gets it where the text may end behind it.
        return None if is_stop and not following.is_complete else Position(following, is_stop)

    def _allowed(self, here: Position) -> set[int]:
        """The tokens allowed after some text: every token of the trie is tried, and every token that the grammar names."""
        column, is_terminated = here
        if is_terminated:
            return set(self._stop)
        allowed: set[int] = set()
        pending = [(0, column)]
        while pending:
            node, column_here = pending.pop()
            allowed.update(self._trie.ids[node])
            for byte, child in self._trie.children[node].items():
                following = self._chart.read_byte(column_here, byte)
                if following is not None:
                    pending.append((child, following))
        allowed.update(self._chart.ids_after(column))
        return (allowed - self._stop) | {token_id for token_id in self._stop if self._after_token(here, token_id) is not None}

    def _fill(self, row: npt.NDArray[np.int32], here: Position | None) -> bool:
        """Write one row; all zeros without a position."""
        allowed = self._allowed(here) if here is not None else set()
        bits = np.zeros(len(row) * 32, dtype=np.uint8)
        bits[list(allowed)] = 1
        row[:] = np.packbits(bits, bitorder="little").view("<i4")
        return len(allowed) < self._trie.size

    def _draft_rows(self, tokens: Sequence[int], parents: Sequence[int]) -> Iterator[Position | None]:
        """The position of each row of a draft: now, then after each draft token; None below a refused one."""
        positions: list[Position | None] = [self._history[-1]]
        yield positions[0]
        for token_id, parent in zip(tokens, parents, strict=True):
            before = positions[parent + 1]
            positions.append(None if before is None else self._after_token(before, token_id))
            yield positions[-1]
