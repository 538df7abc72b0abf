"""One answer, and where its time went."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Generic, Literal, TypeVar

import numpy as np

from ...pda import html
from ...pda.matcher import allocate_token_bitmask
from ..compiler import CompiledGrammar

SHOWN_TOKENS: Final = 1_000
"""Tokens of an answer that a notebook shows."""

T = TypeVar("T")


@dataclass(slots=True)
class GenerationStats:
    """Seconds by stage, shared by the rows of a batch. `mask` includes filling and applying masks and accepting tokens."""

    compile: float = 0.0
    model: float = 0.0
    mask: float = 0.0
    sample: float = 0.0
    steps: int = 0


@dataclass(frozen=True, slots=True)
class Generation(Generic[T]):
    """One answer; T is the type of the value that `parsed` gives.

    `finish_reason` is "stop" if a stop token, a stop text or the end of the grammar ended the answer, "length" if `max_tokens` or the
    model's context did. `complete`: the text satisfies the constraint; this is always true after "stop" unless a stop text cut it.
    `closed`: `finish_within_budget` made it end early. `mass`: with `faithful`, the probability that the unconstrained model writes a
    text that the constraint allows. `others`: the rest of the `n` answers to the same prompt.
    `logprobs`: if requested, the natural logarithm of the probability of each token except stop tokens, relative to the tokens that the
    constraint allowed there.
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: Literal["stop", "length"]
    complete: bool
    closed: bool
    prompt_tokens: int
    stats: GenerationStats
    others: tuple[Generation[T], ...] = ()
    parser: Callable[[str], T] | None = field(repr=False, default=None)
    grammar: CompiledGrammar | None = field(repr=False, default=None)
    mass: float | None = None
    logprobs: tuple[float, ...] = ()

    @property
    def captures(self) -> list[tuple[str, str]]:
        """The names and texts of the grammar's captures, in the order of their ends; a fresh matcher reads the tokens again."""
        if self.grammar is None:
            return []
        matcher = self.grammar.matcher()
        for token in self.token_ids:
            matcher.accept_token(token)
        return [(name, data.decode("utf-8", "replace")) for name, data in matcher.get_captures()]

    def _repr_html_(self) -> str:
        """For notebooks: the tokens where a grammar constrained them, forced ones apart, chosen ones by their probability if known."""
        ending = f"{self.finish_reason}, {len(self.token_ids)} tokens, {'complete' if self.complete else 'not complete'}"
        if self.grammar is None:
            return html.block(html.escape(self.text)) + html.table([("ended by", ending)])
        matcher = self.grammar.matcher()
        bitmask = allocate_token_bitmask(1, matcher.vocabulary.size)
        pieces = []
        for number, token in enumerate(self.token_ids[:SHOWN_TOKENS]):
            matcher.fill_next_token_bitmask(bitmask)
            allowed = int(np.unpackbits(bitmask.view(np.uint8), bitorder="little")[: matcher.vocabulary.size].sum())
            data = matcher.vocabulary.token_bytes(token)
            if not matcher.accept_token(token):  # what came before or behind the constrained text
                return html.block(html.escape(self.text)) + html.table([("ended by", ending)])
            text = data.decode("utf-8", "backslashreplace") if data is not None else f"token {token}"
            kind = "stop" if data is None else "forced" if allowed == 1 else "chosen"
            probability = math.exp(self.logprobs[number]) if number < len(self.logprobs) else None
            pieces.append(html.span(text, kind, f"token {token}: {allowed} allowed", probability))
        return html.block("".join(pieces)) + html.table([("ended by", ending)])

    @property
    def parsed(self) -> T | None:
        """The value of the text; None if the text is cut or had no constraint.

        For a type this is an object of it, for a function its arguments by name, for other schemas and any JSON the JSON value; for a
        regex, choices and grammars it is the text itself.
        A type can require more than its schema (a validator in Python); then this raises the type's own error.
        """
        return self.parser(self.text) if self.parser is not None and self.complete else None
