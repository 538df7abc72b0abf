"""Requests to the engine, and its answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, Final, Literal

from ...pda.exceptions import StackmaskError
from ..compiler import CompiledGrammar

FinishReason = Literal["stop", "length", "cancelled", "error"]

KINDS: Final = ("json_schema", "json", "regex", "ebnf", "lark", "choice", "structural_tag")


class RequestError(StackmaskError, ValueError):
    """A request cannot be served; `field` names the wrong field."""

    def __init__(self, message: str, field: str | None = None) -> None:
        self.field = field
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint on the text: the name of a compiler's method, its argument (None for "json") and its options."""

    kind: str
    value: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise RequestError(f"no constraint is called {self.kind!r}; available: {', '.join(KINDS)}", "constraint")

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The arguments of the compiler's method."""
        return () if self.kind == "json" else (self.value,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """The choice among the allowed tokens. Temperature 0 takes the most likely token; `top_k` 0 means all.

    The presence and frequency penalties are subtracted from the logits of the answer's tokens. `repetition_penalty` is that of CTRL
    (Keskar et al. 2019) as transformers has it: it divides the positive and multiplies the negative logits of tokens of prompt and answer.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checks: list[tuple[str, float, float, float]] = [
            ("temperature", self.temperature, 0, math.inf),
            ("top_k", self.top_k, 0, math.inf),
            ("top_p", self.top_p, 0, 1),
            ("min_p", self.min_p, 0, 1),
            ("presence_penalty", self.presence_penalty, -2, 2),
            ("frequency_penalty", self.frequency_penalty, -2, 2),
            ("repetition_penalty", self.repetition_penalty, 0, math.inf),
            *(("logit_bias", bias, -100, 100) for bias in self.logit_bias.values()),
        ]
        for name, value, low, high in checks:
            if not isinstance(value, Real):
                raise RequestError(f"{name} is {value!r}, which is not a number", name)
            if not (low <= value <= high and math.isfinite(value)):
                raise RequestError(
                    f"{name} is {value}, outside {low} to {high}" if high < math.inf else f"{name} is {value}, below {low} or not finite",
                    name,
                )
        if self.seed is not None and not isinstance(self.seed, Integral):
            raise RequestError(f"seed is {self.seed!r}, which is not a whole number", "seed")
        if self.top_p == 0:
            raise RequestError("top_p is 0, which leaves no token", "top_p")
        if self.repetition_penalty == 0:
            raise RequestError("repetition_penalty is 0, but logits are divided by it", "repetition_penalty")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One answer to one prompt.

    `stop` are texts that end the answer and are not part of it; `stop_token_ids` end it beside those of the vocabulary.
    `max_tokens`: None for the rest of the model's context.
    `finish_within_budget`: near `max_tokens`, allow only tokens after which the shortest completion still fits.
    `speculation`: drafts a forward pass, 0 for none; they come from the engine's draft model, or else from the text so far (`lookup`).
    `jump_forward`: append text that the grammar forces without a forward pass for each token.
    `reasoning_end`: the constraint begins after these tokens.
    `shown` are tokens without text that the answer's text shows nevertheless, and how: the delimiters of tool calls, say. Unless it is
    None, U+FDD0 in the text of other tokens becomes U+FFFD, because it marks the names of tokens (`stackmask.integration.tools.MARK`).
    `min_tokens`: before this many tokens no stop token is chosen, `ignore_stop_tokens`: none of the vocabulary's ever is; unless the
    constraint leaves nothing else.
    `logprobs`: how many alternatives to report with each token, None for no log-probabilities at all.
    """

    prompt: Sequence[int]
    constraint: Constraint | CompiledGrammar | None = None
    sampling: Sampling = field(default_factory=Sampling)
    max_tokens: int | None = None
    stop: Sequence[str] = ()
    stop_token_ids: Sequence[int] = ()
    finish_within_budget: bool = True
    speculation: int = 0
    draft_tree: int = 1
    jump_forward: bool = False
    reasoning_end: Sequence[int] = ()
    shown: Mapping[int, str] | None = None
    logprobs: int | None = None
    min_tokens: int = 0
    ignore_stop_tokens: bool = False

    def __post_init__(self) -> None:
        if not self.prompt:
            raise RequestError("the prompt has no tokens", "prompt")
        for name, value, low, high in (
            ("max_tokens", self.max_tokens, 1, None),
            ("logprobs", self.logprobs, 0, None),
            ("min_tokens", self.min_tokens, 0, None),
            ("speculation", self.speculation, 0, 64),
            ("draft_tree", self.draft_tree, 1, 8),
        ):
            if value is None and high is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool):
                raise RequestError(f"{name} is {value!r}, which is not a whole number", name)
            if value < low or (high is not None and value > high):
                bounds = f"below {low}" if high is None else f"outside {low} to {high}"
                raise RequestError(f"{name} is {value}, {bounds}", name)
        if any(not stop for stop in self.stop):
            raise RequestError("a stop text is empty", "stop")


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token's log-probability among the tokens that the grammar allowed, and those of the most likely tokens there."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(slots=True)
class RequestStats:
    """The cost of one request. Seconds are wall-clock; those of a batch are divided among its rows.

    `forwards` are the forward passes that it took part in after its prompt;
    `mask_seconds` is waiting for masks and applying them.
    """

    kind: str | None = None
    cache_hit: bool = False
    compile_seconds: float = 0.0
    waiting_seconds: float = 0.0
    prefill_seconds: float = 0.0
    mask_seconds: float = 0.0
    model_seconds: float = 0.0
    tokens: int = 0
    forwards: int = 0
    jump_tokens: int = 0
    draft_tokens: int = 0
    draft_accepted: int = 0
    rollbacks: int = 0


@dataclass(frozen=True, slots=True)
class Event:
    """A piece of an answer: text and its tokens; the last piece also has the reason and the whole answer."""

    text: str = ""
    reasoning: str = ""
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A finished answer.

    `finish_reason` is "stop" if a stop token, a stop text or the end of the grammar ended it, "length" if the budget did.
    `complete`: the text satisfies the constraint; `closed`: the budget made it end early.
    `stop` is the stop text that ended it, the longest that begins at its place.
    `error` is set if `finish_reason` is "error".
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    complete: bool
    closed: bool
    prompt_tokens: int
    reasoning: str
    logprobs: tuple[TokenLogprob, ...]
    stats: RequestStats
    error: Exception | None = None
    stop: str | None = None
