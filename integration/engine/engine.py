"""The loop: admit, draft, forward, mask, sample, deliver.

Hugging Face has a manager for continuous batching. It is not used, because it cannot serve what requests ask for here: its temperature,
top-k and top-p are one setting for all or a default that must not be neutral, whether to sample at all is one setting for all, there are no
seeds, biases or log-probabilities, its logits processors see one position a request, so that drafts cannot be verified, and nothing can be
taken back from its cache. What is left of an engine without these is a batch of rows and a loop, which is what this is: the model,
its attention and its kernels are Hugging Face's.

    step:   admit     waiting requests whose grammar is compiled, each prompt in a pass of its own
            draft     guesses, cut at the first that the grammar forbids
            forward   one pass over all rows, while the masks of all rows and positions are filled beside it (`masks.py`)
            choose    masks applied in one call, before temperature, top-k and top-p; a token a row, and on along the guesses while they
                      are what was drawn (`select.py`)
            jump      on over text that the grammar forces, for those who asked
            deliver   text to the listeners

A request without a constraint costs one `is None` in every step.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final, Self

import torch

from ...pda.exceptions import StackmaskError, VocabularyError
from ..compiler import CompiledGrammar, Compiler
from ..compiler.cache import Awaited
from ..tokenizers import Vocabulary
from ..tokenizers.prompts import encode_prompt
from .budget import Speller
from .drafts import NO_DRAFT, Draft, DraftModel, lookup, merge
from .guide import Guide
from .jump import find_jump
from .kv_cache import make_cache
from .masks import Masks
from .request import Answer, Event, Request, RequestError
from .select import Chooser
from .sequence import Listener, Sequence

PREFILL_TOKENS: Final = 512  # prompts of more tokens than this in all wait for the next step, so that those who run do not


class EngineBusyError(StackmaskError):
    """As many requests wait as may; try again later."""


class EngineClosedError(StackmaskError):
    """The engine takes no more requests."""


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What the engine is doing, and what it has done since it began; seconds are those of its own thread."""

    running: int
    waiting: int
    compiling: int
    finished: int
    steps: int
    forwards: int
    tokens: int
    model_seconds: float
    mask_seconds: float
    sample_seconds: float
    prefill_seconds: float


class Ticket:
    """A request that was submitted."""

    __slots__ = ("_engine", "_sequence")

    def __init__(self, engine: Engine, sequence: Sequence) -> None:
        self._engine = engine
        self._sequence = sequence

    def cancel(self) -> None:
        """End it at the next step; its last event says "cancelled", unless it was over before."""
        self._engine._cancel(self._sequence)


class Engine:
    """A model, a compiler, and a thread that serves requests; as a context manager it starts and stops.

    `max_running` requests run at a time and `max_waiting` wait; more raise EngineBusyError.
    Where the model's logits are wider than the vocabulary, ids beyond it are never chosen.
    `draft_model` shares the vocabulary of `model`; requests that speculate use it in place of looking drafts up.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        compiler: Compiler | None = None,
        draft_model: Any = None,
        max_running: int = 32,
        max_waiting: int = 256,
    ) -> None:
        if max_running < 1 or max_waiting < 0:
            raise ValueError("an engine runs at least one request at a time")
        self.model = model
        self.tokenizer = tokenizer
        config = model.config.get_text_config()
        if compiler is None:
            compiler = Compiler(Vocabulary.from_transformers(tokenizer, size=config.vocab_size))
        self.compiler = compiler
        self.vocabulary = compiler.vocabulary
        self.slots = make_cache(model, max_running)
        self._embeddings: int = config.vocab_size
        if draft_model is not None and draft_model.config.get_text_config().vocab_size != config.vocab_size:
            raise VocabularyError("the draft model has another vocabulary than the model")
        self.drafts = None if draft_model is None else DraftModel(draft_model, max_running)
        self.max_running = max_running
        self.max_waiting = max_waiting
        self.on_finish: Callable[[Request, Answer], None] | None = None
        self._speller = Speller(self.vocabulary)
        self._running: list[Sequence] = []
        self._waiting: deque[tuple[Sequence, Future[CompiledGrammar] | None]] = deque()
        self._cancelled: set[Sequence] = set()
        self._lock = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._after_step: list[Callable[[], None]] = []
        self._masks = Masks(self.vocabulary, max_running)
        self._chooser = Chooser(self.vocabulary, self.slots, self._masks)
        self._steps = self._finished = 0
        self._seconds = {"model": 0.0, "prefill": 0.0}

    # what others call, from any thread

    def encode(self, prompt: Any) -> list[int]:
        """The token ids of a text, through the chat template where there is one, or of the messages of a chat."""
        return encode_prompt(self.tokenizer, prompt)

    def submit(self, request: Request, listener: Listener, *, patient: bool = False) -> Ticket:
        """Queue a request; `listener` is called from the engine's thread with each event, the last of which has the answer.

        Where too many wait already this raises EngineBusyError, unless the caller is `patient`.

        What is wrong with the request by itself raises RequestError here. What is wrong with its grammar comes as an answer
        whose `finish_reason` is "error"; who wants to know before calls `compile` first.
        """
        grammar = request.constraint if isinstance(request.constraint, CompiledGrammar) else None
        sequence = Sequence(request, self.vocabulary, self._room(request), listener)
        future: Future[CompiledGrammar] | None = None
        if grammar is not None:
            if grammar.vocabulary is not self.vocabulary:
                raise RequestError("the grammar was compiled for another vocabulary", "constraint")
            future = Future()
            future.set_result(grammar)
            sequence.stats.cache_hit = True
        elif request.constraint is not None:
            future = self.compile(request.constraint)
            sequence.stats.cache_hit = future.done()
        with self._lock:
            if self._closing:
                raise EngineClosedError("the engine is shutting down")
            if not patient and len(self._waiting) >= self.max_waiting + max(0, self.max_running - len(self._running)):
                raise EngineBusyError(f"{len(self._waiting)} requests wait already")
            self._waiting.append((sequence, future))
            self._lock.notify()
        if future is not None and not future.done():
            future.add_done_callback(lambda _: self._wake())
        return Ticket(self, sequence)

    def check(self, request: Request) -> None:
        """Raise RequestError where a request cannot be served; its budget can only be judged with a grammar that is compiled."""
        grammar = request.constraint if isinstance(request.constraint, CompiledGrammar) else None
        Sequence(request, self.vocabulary, self._room(request), _ignore).begin(grammar, self._speller)

    def compile(self, constraint: Any) -> Awaited[CompiledGrammar]:
        """The grammar of a constraint, as a future; one compilation serves all who ask for the same."""
        return self.compiler.submit(constraint.kind, *constraint.arguments, **constraint.options)

    def generate(self, request: Request) -> Answer:
        """The answer to one request; its error, if it has one, is raised."""
        (answer,) = self.generate_batch([request])
        if answer.error is not None:
            raise answer.error
        return answer

    def generate_batch(self, requests: Iterable[Request]) -> list[Answer]:
        """The answers to several requests, in their order; an error is in its answer."""
        results: list[Future[Answer]] = []
        for request in requests:
            future: Future[Answer] = Future()
            results.append(future)

            def listen(event: Event, future: Future[Answer] = future) -> None:
                if event.answer is not None:
                    future.set_result(event.answer)

            self.submit(request, listen, patient=True)
        if self._thread is None:
            while self.step():
                pass
            for future in results:  # those left wait for a grammar
                while not future.done():
                    with self._lock:
                        self._lock.wait(0.01)
                    self.step()
        return [future.result() for future in results]

    def add_step_hook(self, call: Callable[[], None]) -> None:
        """Call this in the engine's thread after each step."""
        self._after_step = [*self._after_step, call]

    def remove_step_hook(self, call: Callable[[], None]) -> None:
        """Call it no more."""
        self._after_step = [other for other in self._after_step if other != call]

    @property
    def info(self) -> EngineInfo:
        """What it is doing."""
        with self._lock:
            compiling = sum(future is not None and not future.done() for _, future in self._waiting)
            waiting = len(self._waiting) - compiling
        return EngineInfo(
            len(self._running), waiting, compiling, self._finished, self._steps, self.slots.forwards, self._chooser.tokens,
            mask_seconds=self._chooser.mask_seconds, sample_seconds=self._chooser.sample_seconds,
            **{f"{name}_seconds": value for name, value in self._seconds.items()},
        )  # fmt: skip

    def start(self) -> None:
        """Start the thread that serves requests."""
        if self._thread is None:
            self._speller.prepare()
            self._thread = threading.Thread(target=self._serve, name="stackmask-engine", daemon=True)
            self._thread.start()

    def close(self, *, grace: float = 0.0) -> None:
        """Take no more requests, give those at hand `grace` seconds to end, then cancel what is left, and stop."""
        deadline = perf_counter() + grace
        with self._lock:
            self._closing = True
            while self._thread is not None and (self._running or self._waiting) and (left := deadline - perf_counter()) > 0:
                self._lock.wait(min(left, 0.05))
            self._cancelled.update(self._running, (sequence for sequence, _ in self._waiting))
            self._lock.notify_all()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        else:
            self.step()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # the loop

    def step(self) -> bool:
        """Do one round of work; whether there was any."""
        with torch.inference_mode():
            self._drop_cancelled()
            entering, tables = self._admit()
            self._running.sort(key=lambda sequence: sequence.row)
            before = list(self._running)
            self._running = before + entering
            sequences = entering + before
            if not sequences:
                self._masks.clear()
            else:
                drafts = [NO_DRAFT] * len(entering) + self._draft(before)
                self._masks.begin(sequences, drafts)
                try:
                    if before:
                        tables += self._forward(before, drafts[len(entering) :])
                finally:
                    self._masks.end(sequences, drafts)
                self._chooser.choose(sequences, tables, drafts)
                self._jump_forward(sequences)
                self._deliver(sequences)
                self._steps += 1
        for call in self._after_step:
            call()
        return bool(sequences)

    def _serve(self) -> None:
        while True:
            try:
                busy = self.step()
            except Exception as error:  # whatever it is, nobody is left without an answer
                self._fail_all(error)
                busy = True
            with self._lock:
                if self._closing and not self._running and not self._waiting:
                    return
                self._lock.notify_all()
                if not busy and not self._cancelled and not any(future is None or future.done() for _, future in self._waiting):
                    self._lock.wait()

    def _admit(self) -> tuple[list[Sequence], list[torch.Tensor]]:
        """Waiting requests whose grammar is ready, in the order of their arrival, and the logits after their prompts."""
        admitted: list[Sequence] = []
        tables: list[torch.Tensor] = []
        budget = PREFILL_TOKENS
        while len(self._running) + len(admitted) < self.max_running and budget > 0:
            sequence, grammar, error = self._next_ready()
            if sequence is None:
                break
            try:
                if error is not None:
                    raise error
                sequence.begin(grammar, self._speller, self._chooser.share)
                budget -= len(sequence.request.prompt)
                tables.append(self._prefill(sequence))
            except Exception as problem:
                self._end(sequence, problem)
                continue
            admitted.append(sequence)
        return admitted, tables

    def _next_ready(self) -> tuple[Sequence | None, CompiledGrammar | None, Exception | None]:
        with self._lock:
            for place, (sequence, future) in enumerate(self._waiting):
                if future is None or future.done():
                    del self._waiting[place]
                    if future is None:
                        return sequence, None, None
                    try:
                        return sequence, future.result(), None
                    except Exception as error:
                        return sequence, None, error
        return None, None, None

    def _prefill(self, sequence: Sequence) -> torch.Tensor:
        """Run a prompt through the model in a new row; the logits after it."""
        start = perf_counter()
        sequence.row = self.slots.add()
        logits = self.slots.prefill(sequence.row, sequence.request.prompt)
        sequence.stats.prefill_seconds = perf_counter() - start
        self._seconds["prefill"] += sequence.stats.prefill_seconds
        return logits[:, -1, : self.vocabulary.size]

    def _draft(self, running: list[Sequence]) -> list[Draft]:
        """Guesses for each running request."""
        wanted = [sequence for sequence in running if sequence.request.speculation and sequence.room > 1]
        if not wanted:
            return [NO_DRAFT] * len(running)
        chains = {} if self.drafts is None else self.drafts.draft(wanted)
        drafts = []
        for sequence in running:
            draft = NO_DRAFT
            count = min(sequence.request.speculation, sequence.room - 1)
            if sequence in wanted and self.slots.lengths[sequence.row] + len(sequence.pending) + 8 * count < self.slots.context:
                branches = self._branches(sequence, chains, count)
                draft = merge(branches, sequence.request.speculation * sequence.request.draft_tree)
            sequence.stats.draft_tokens += len(draft.tokens)
            drafts.append(draft)
        return drafts

    def _branches(self, sequence: Sequence, chains: Mapping[Sequence, list[int]], count: int) -> list[list[int]]:
        """The continuations that are guessed, each cut at the first token that the grammar forbids."""
        guide = sequence.guide
        width = sequence.request.draft_tree if guide is None or guide.is_active else 1
        chain = chains.get(sequence)
        found = lookup([*sequence.request.prompt, *sequence.tokens], count, width) if chain is None else [chain[:count]]
        cut = [_before_stop(branch, sequence.stops) for branch in found]
        if guide is not None:
            cut = [guide.cut(branch) for branch in cut]
        return [branch for branch in cut if branch]

    def _forward(self, running: list[Sequence], drafts: list[Draft]) -> list[torch.Tensor]:
        """One pass over all rows: what was chosen last, and the guesses; the logits of the places that tokens are chosen at."""
        start = perf_counter()
        tokens = [[*sequence.pending, *draft.tokens] for sequence, draft in zip(running, drafts, strict=True)]
        trees = any(draft.parents is not None for draft in drafts)
        parents = [_row_parents(sequence, draft) for sequence, draft in zip(running, drafts, strict=True)] if trees else None
        logits = self.slots.forward(tokens, parents=parents)[..., : self.vocabulary.size]
        elapsed = perf_counter() - start
        self._seconds["model"] += elapsed
        for sequence in running:
            sequence.stats.forwards += 1
            sequence.stats.model_seconds += elapsed / len(running)
        if logits.shape[1] == 1:
            return [logits[:, 0]]  # PERF: a view, where cutting rows out would copy them
        return [
            logits[place, len(sequence.pending) - 1 : len(row)] for place, (sequence, row) in enumerate(zip(running, tokens, strict=True))
        ]

    def _jump_forward(self, sequences: list[Sequence]) -> None:
        """Append what grammars force, for those who asked; who wants log-probabilities did not: forced tokens have none."""
        for sequence in sequences:
            request = sequence.request
            if request.jump_forward and request.logprobs is None and sequence.guide is not None and sequence.finish_reason is None:
                try:
                    self._jump(sequence, sequence.guide)
                except StackmaskError as error:
                    sequence.fail(error)

    def _jump(self, sequence: Sequence, guide: Guide) -> None:
        """Append what the grammar forces; the model sees it in the next pass."""
        jump = find_jump(guide, sequence.tokens, self.vocabulary, self._encode_plain)
        if jump is None or jump.saved >= sequence.room:
            return
        old = sequence.tokens[len(sequence.tokens) - jump.back :] if jump.back else []
        guide.rollback(jump.back)
        # A grammar that counts tokens may have other limits spanned where the text is cut into other tokens.
        taken = next((place for place, token in enumerate(jump.tokens) if not guide.accept(token)), len(jump.tokens))
        if taken < len(jump.tokens) or (sequence.is_bounded and not guide.can_close(sequence.room - jump.saved)):
            guide.rollback(taken)
            fits = all(guide.accept(token) for token in old) and (not sequence.is_bounded or guide.can_close(sequence.room))
            assert fits, "what was said before is refused"
            return
        # the last token has no keys yet, those before it have
        self.slots.lengths[sequence.row] -= max(0, jump.back - 1)
        sequence.replace(jump.back, jump.tokens)
        self._masks.clear()  # its room is another
        sequence.pending = sequence.tokens[self.slots.lengths[sequence.row] - len(sequence.request.prompt) :]
        sequence.stats.jump_tokens += jump.saved
        sequence.stats.tokens += jump.saved
        sequence.stats.rollbacks += jump.back > 0

    def _encode_plain(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def _deliver(self, sequences: list[Sequence]) -> None:
        """Tell the listeners, and free the rows of what is over."""
        for sequence in sequences:
            sequence.say()
        for sequence in sequences:
            if sequence.finish_reason is not None:
                self._free(sequence)

    # endings

    def _drop_cancelled(self) -> None:
        with self._lock:
            cancelled, self._cancelled = self._cancelled, set()
            waiting = [sequence for sequence, _ in self._waiting if sequence in cancelled]
            if waiting:
                self._waiting = deque(entry for entry in self._waiting if entry[0] not in cancelled)
        for sequence in [*waiting, *(sequence for sequence in self._running if sequence in cancelled)]:
            sequence.finish_reason = "cancelled"
            sequence.say()
            self._free(sequence)

    def _end(self, sequence: Sequence, error: Exception) -> None:
        """End a request by an error."""
        sequence.fail(error)
        sequence.say()
        self._free(sequence)

    def _free(self, sequence: Sequence) -> None:
        """Give a request's row back; the request of the last row takes its place."""
        if sequence in self._running:
            self._running.remove(sequence)
        if sequence.row >= 0:
            last = self.slots.rows - 1
            self.slots.remove(sequence.row)
            for other in self._running:
                if other.row == last:
                    other.row = sequence.row
            sequence.row = -1
        if self.drafts is not None:
            self.drafts.forget(sequence)
        self._finished += 1
        if self.on_finish is not None:
            assert sequence.answer is not None
            self.on_finish(sequence.request, sequence.answer)

    def _fail_all(self, error: Exception) -> None:
        """Answer everybody who runs with an error, and begin again with an empty batch."""
        for sequence in list(self._running):
            sequence.row = -1
            self._end(sequence, error)
        self.slots.clear()

    def _cancel(self, sequence: Sequence) -> None:
        with self._lock:
            if sequence.finish_reason is None:
                self._cancelled.add(sequence)
                self._lock.notify_all()

    def _wake(self) -> None:
        with self._lock:
            self._lock.notify_all()

    def _room(self, request: Request) -> int:
        """How many tokens the answer may have."""
        left = self.slots.context - len(request.prompt)
        if left < 1:
            raise RequestError(f"a prompt of {len(request.prompt)} tokens fills the model's context of {self.slots.context}", "prompt")
        if not self.slots.can_take_back and (request.speculation or request.jump_forward):
            name = "speculation" if request.speculation else "jump_forward"
            raise RequestError(f"{name} takes tokens back from the cache, which this model's layers do not allow", name)
        for name, tokens, size in (
            ("prompt", request.prompt, self._embeddings),
            ("stop_token_ids", request.stop_token_ids, self.vocabulary.size),
            ("logit_bias", request.sampling.logit_bias, self.vocabulary.size),
        ):
            odd = next((token for token in tokens if not 0 <= token < size), None)
            if odd is not None:
                raise RequestError(f"token {odd} is outside 0 to {size - 1}", name)
        return left if request.max_tokens is None else min(request.max_tokens, left)


def _ignore(event: Event) -> None:
    """A listener that listens to nothing."""


def _before_stop(branch: list[int], stops: tuple[int, ...]) -> list[int]:
    """A branch up to its first stop token: what comes after it is never needed."""
    return branch[: next((place for place, token in enumerate(branch) if token in stops), len(branch))]


def _row_parents(sequence: Sequence, draft: Draft) -> list[int] | None:
    """The parents of a row's tokens where its guesses are a tree: what is pending is a chain, and the guesses follow its last."""
    if draft.parents is None:
        return None
    count = len(sequence.pending)
    return [*range(-1, count - 1), *(parent + count for parent in draft.parents)]
