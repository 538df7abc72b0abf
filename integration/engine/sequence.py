"""One answer in the making: its tokens, its text, its place in the grammar, and the tokens that the model has not read yet."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Final

import numpy as np
import numpy.typing as npt

from ...pda.vocabulary import Vocabulary
from ..compiler import CompiledGrammar
from .budget import ShortestTokenization
from .guide import Guide
from .request import Answer, Event, FinishReason, Request, RequestError, RequestStats, TokenLogprob
from .sampler import Sampler
from .text import TextStream

Listener = Callable[[Event], None]

RETRIES: Final = 16  # tokens that would not leave room for an end and are drawn again, before the shortest end is taken


class MaskClock:
    """Running mask time of a batch row, in seconds; the mask time of a request is the difference between its end and its start."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = 0.0


class Sequence:
    """The state of a request from its preparation to its answer.

    `greedy_first`: its most likely token is looked at before its row is masked.
    `masked_late`: its row is masked only where a token is refused: the tokens are looked for among those that the mask allows.
    """

    def __init__(self, request: Request, vocabulary: Vocabulary, room: int) -> None:
        self.request = request
        self.vocabulary = vocabulary
        self.max_tokens = room
        self.listener: Listener | None = None
        self.stops = tuple(sorted({*vocabulary.stop_token_ids, *request.stop_token_ids}))
        self.sampler = Sampler(request.sampling, request.prompt)
        self.guide: Guide | None = None
        self.holds_stops = request.min_tokens > 0 or request.ignore_stop_tokens
        self.greedy_first = self.sampler.is_greedy and not self.sampler.changes_logits and not self.holds_stops and request.logprobs is None
        self.masked_late = self.greedy_first or not (self.sampler.is_greedy or self.holds_stops or request.logprobs is not None)
        self.tokens: list[int] = []
        self.pending: list[int] = []
        self.row = -1
        self.stats = RequestStats()
        self.finish_reason: FinishReason | None = None
        self.error: Exception | None = None
        self.closed = False
        self.submitted = 0.0
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._thinking = bool(request.reasoning_end)
        self._held: list[int] = []  # tokens that may be the beginning of the end of the reasoning
        self._stream = TextStream(() if self._thinking else request.stop, marks=request.shown is not None)
        self._logprobs: list[TokenLogprob] = []
        self._said = 0
        self._said_logprobs = 0
        self._skip = 0  # bytes of what is said next that were said before
        self.answer: Answer | None = None
        self._mask_clock, self._mask_start = MaskClock(), 0.0

    def submit(self, listener: Listener, *, cache_hit: bool) -> None:
        """Begin to wait; `listener` hears its events. A sequence is submitted once."""
        if self.listener is not None:
            raise ValueError("this request was submitted before; prepare it again")
        self.listener = listener
        self.stats.cache_hit = cache_hit
        self.submitted = perf_counter()

    def admit(self) -> None:
        """Wait no longer: a row is there."""
        self.stats.waiting_seconds = perf_counter() - self.submitted

    def enter(self, clock: MaskClock) -> None:
        """Enter the batch, whose rows take their mask time from `clock`."""
        if self.guide is not None:
            self._mask_clock, self._mask_start = clock, clock.seconds

    def begin(self, grammar: CompiledGrammar, tokenization: ShortestTokenization) -> None:
        """Take up the compiled grammar; RequestError where the budget cannot hold even the shortest answer."""
        self.guide = Guide(grammar, self.stops, self.request.reasoning_end, tokenization)
        if self.greedy_first and self.guide.has_temperature:
            self.greedy_first = self.masked_late = False
        self.stats.kind = grammar.stats.kind
        self.stats.compile_seconds = grammar.stats.seconds
        if self.is_bounded and not self.guide.can_close(self.max_tokens):
            raise RequestError(
                f"max_tokens is {self.max_tokens}, which cannot hold even the shortest answer{self.guide.shortest_in_words()}", "max_tokens"
            )

    @property
    def is_bounded(self) -> bool:
        """Whether the answer must be complete before its budget ends."""
        return self.guide is not None and self.request.finish_within_budget

    @property
    def held_stops(self) -> tuple[int, ...]:
        """The stop tokens that are not to be chosen now."""
        if len(self.tokens) < self.request.min_tokens:
            return self.stops
        return tuple(self.vocabulary.stop_token_ids) if self.request.ignore_stop_tokens else ()

    @property
    def room(self) -> int:
        """Tokens left."""
        return self.max_tokens - len(self.tokens)

    def accept(self, token: int) -> bool:
        """Take a token that the mask allows; False where the budget does not."""
        guide = self.guide
        if guide is None:
            return True
        if self.request.finish_within_budget:
            return guide.accept_within(token, self.max_tokens - len(self.tokens) - 1)
        accepted = guide.accept(token)
        assert accepted, f"the mask allowed token {token}, the matcher refuses it"
        return True

    def choose(self, sample: Callable[[], int], forbid: Callable[[int], None]) -> int | None:
        """Take a token: `sample` draws one, `forbid` rules one out. None where the budget leaves nothing but to end here."""
        guide = self.guide
        for _ in range(RETRIES):
            token = sample()
            if self.accept(token):
                return token
            self.closed = True
            forbid(token)
        assert guide is not None, "nobody refuses a token"
        closing = guide.closing_token(self.room)
        if closing is not None:
            accepted = guide.accept_within(closing, self.room - 1)
            assert accepted, "the shortest completion is refused"
        return closing

    def keep(self, token: int, length: int) -> bool:
        """Keep a token that the matcher took, if the budget allows it; False and as before it if not.

        It left `length` bytes to a completion, -1 if nobody knows.
        """
        guide = self.guide
        assert guide is not None
        return not self.request.finish_within_budget or guide.keep_within(token, length, self.max_tokens - len(self.tokens) - 1)

    def commit(self, token: int, scratch: npt.NDArray[np.int32], *, may_end: bool = True) -> None:
        """Record a token that was taken, and end where it ends the answer; without `may_end` the text is not complete."""
        if token in self.stops:
            self.finish_reason = "length" if self.closed else "stop"
            return
        self.tokens.append(token)
        self.stats.tokens += 1
        if may_end and self.guide is not None and self.guide.is_at_end(scratch):
            self.finish_reason = "length" if self.closed else "stop"
        elif len(self.tokens) >= self.max_tokens:
            self.finish_reason = "length"

    def fail(self, error: Exception) -> None:
        """End by an error."""
        self.finish_reason, self.error = "error", error

    def replace(self, back: int, tokens: tuple[int, ...]) -> None:
        """Replace the last `back` tokens; their text that was sent already is the beginning of the text of the new ones."""
        kept = len(self.tokens) - back
        data = self._bytes(self.tokens[kept : self._said])
        self.tokens[kept:] = tokens
        self._skip = len(data) if self._said > kept else 0
        self._said = min(self._said, kept)

    def spelled(self) -> str:
        """The text of the tokens so far, stop texts and tokens without text aside."""
        return self._bytes(self.tokens).decode("utf-8", "replace")

    def add_logprob(self, logprob: TokenLogprob) -> None:
        """Record a token's log-probability."""
        self._logprobs.append(logprob)

    def emit(self) -> None:
        """Send the listener the new tokens and their text, and the answer when it is over."""
        final = self.finish_reason is not None
        if len(self.tokens) == self._said and not final:
            return
        new = self.tokens[self._said :]
        self._said = len(self.tokens)
        reasoning, text = self._split(new, final)
        if self._stream.stopped and self.finish_reason in (None, "length"):
            self.finish_reason = "stop"
        self._reasoning.append(reasoning)
        self._text.append(text)
        logprobs = tuple(self._logprobs[self._said_logprobs :])
        self._said_logprobs = len(self._logprobs)
        if self.finish_reason is not None:
            self.answer = self._make_answer(self.finish_reason)
        assert self.listener is not None
        self.listener(Event(text, reasoning, tuple(new), logprobs, self.answer))

    def _split(self, tokens: list[int], final: bool) -> tuple[str, str]:
        """The reasoning and the text that new tokens add."""
        reasoning = ""
        if self._thinking:
            end = list(self.request.reasoning_end)
            held = self._held + tokens
            found = next((place for place in range(len(held) - len(end) + 1) if held[place : place + len(end)] == end), None)
            if found is None:
                keep = 0 if final else next((n for n in range(min(len(end) - 1, len(held)), 0, -1) if held[-n:] == end[:n]), 0)
                self._held = held[len(held) - keep :]
                return self._stream.feed(self._bytes(held[: len(held) - keep]), final=final), ""
            reasoning = self._stream.feed(self._bytes(held[:found]), final=True)
            stream = TextStream(self.request.stop, marks=self.request.shown is not None)
            self._thinking, self._stream, tokens = False, stream, held[found + len(end) :]
        skip, self._skip = self._skip, 0
        said: list[str] = []
        start, shown = 0, self.request.shown or {}
        for place, token in enumerate(tokens):
            if token in shown:
                said += (self._stream.feed(self._bytes(tokens[start:place])[skip:]), self._stream.name(shown[token]))
                start, skip = place + 1, 0
        said.append(self._stream.feed(self._bytes(tokens[start:])[skip:], final=final))
        return reasoning, "".join(said)

    def _bytes(self, tokens: list[int]) -> bytes:
        return b"".join(self.vocabulary.token_bytes(token) or b"" for token in tokens)

    def _is_complete(self, guide: Guide, ended: bool) -> bool:
        """Whether the delivered text, without the part that a stop text cut off, satisfies the grammar."""
        if not self._stream.cut:
            return guide.is_completed or (ended and guide.is_terminated)
        cut, kept = self._stream.cut, len(self.tokens)
        while cut > 0 and kept:
            kept -= 1
            cut -= len(self._bytes([self.tokens[kept]]))
        last = self._bytes(self.tokens[kept : kept + 1])
        guide.rollback(len(self.tokens) - kept + guide.is_terminated)
        return guide.is_active and guide.matcher.accept_bytes(last[:-cut] if cut else b"") and guide.is_completed

    def _make_answer(self, reason: FinishReason) -> Answer:
        ended = reason == "stop"
        self.stats.mask_seconds = self._mask_clock.seconds - self._mask_start
        return Answer(
            text="".join(self._text),
            token_ids=tuple(self.tokens),
            finish_reason=reason,
            complete=self.error is None and (self.guide is None or self._is_complete(self.guide, ended)),
            closed=self.closed,
            prompt_tokens=len(self.request.prompt),
            reasoning="".join(self._reasoning),
            logprobs=tuple(self._logprobs),
            stats=self.stats,
            error=self.error,
            stop=self._stream.stop,
        )
