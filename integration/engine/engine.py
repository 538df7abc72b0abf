"""The loop: admit, read, draft, forward, mask, sample, deliver.

Hugging Face has a manager for continuous batching. It is not used, because it lacks features that requests need here. Its temperature,
top-k and top-p are one setting for all requests or a default that must not be neutral, and so is the choice between sampling and greedy
decoding. It has no seeds, biases or log-probabilities. Its logits processors see one position per request, so drafts cannot be verified,
and nothing can be taken back from its cache. Without these parts an engine is a batch of rows and a loop, and that is this module: the
model, its attention and its kernels are Hugging Face's.

    step:   admit     waiting requests whose grammar is compiled, while there are rows
            read      a piece of the prompts that are not read yet, in turns (`prefill.py`); who is through enters the batch
            draft     guesses, cut at the first that the grammar forbids
            forward   one pass over all rows, while the masks of all rows and positions are filled beside it (`masks.py`)
            choose    masks applied in one call, before temperature, top-k and top-p; a token per row, and further along the guesses while
                      they equal the drawn tokens (`select.py`)
            jump      over text that the grammar forces, for requests that asked for it
            deliver   text to the listeners

A request without a constraint costs one `is None` in every step.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Self

import torch

from ...pda.exceptions import VocabularyError
from ..compiler import CompiledGrammar, Compiler
from ..compiler.cache import SharedFuture
from ..tokenizers import model_vocabulary
from ..tokenizers.prompts import encode_prompt
from .admission import Admission
from .drafts import NO_DRAFT, Draft, DraftModel, lookup, merge
from .jump import Jumper
from .kv_cache import make_cache
from .masks import Masks
from .prefill import Prefill
from .request import Answer, Constraint, Event, Request
from .select import TokenSelector
from .sequence import Listener, Sequence


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """The engine's present load and its totals since it began; seconds are those of its own thread.

    `running` counts the requests whose prompts are being read too.
    """

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

    __slots__ = ("_admission", "_sequence")

    def __init__(self, admission: Admission, sequence: Sequence) -> None:
        self._admission = admission
        self._sequence = sequence

    def cancel(self) -> None:
        """End it at the next step; its last event says "cancelled", unless it was over before."""
        self._admission.cancel(self._sequence)


class Engine:
    """A model, a compiler, and a thread that serves requests; as a context manager it starts and stops.

    `max_running` requests run at a time and `max_waiting` wait; more raise EngineBusyError.
    `prefill_tokens` of the prompts of new requests are read in a step while others run, so that these do not wait for whole prompts;
    by default 64 on a processor and 512 on a GPU. Models with sliding windows or states read a prompt whole.
    If the model's logits are wider than the vocabulary, ids beyond it are never chosen.
    `draft_model` shares the vocabulary of `model`; requests that speculate use it instead of looking drafts up.
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
        prefill_tokens: int | None = None,
    ) -> None:
        if max_running < 1 or max_waiting < 0:
            raise ValueError("an engine runs at least one request at a time")
        if prefill_tokens is not None and prefill_tokens < 1:
            raise ValueError("an engine reads at least one token of a prompt in a step")
        self.model = model
        self.tokenizer = tokenizer
        config = model.config.get_text_config()
        if compiler is None:
            compiler = Compiler(model_vocabulary(tokenizer, config.vocab_size))
        self.compiler = compiler
        self.vocabulary = compiler.vocabulary
        self.slots = make_cache(model, max_running)
        if draft_model is not None and draft_model.config.get_text_config().vocab_size != config.vocab_size:
            raise VocabularyError("the draft model has another vocabulary than the model")
        self.drafts = None if draft_model is None else DraftModel(draft_model, max_running)
        self.max_running = max_running
        self.on_finish: Callable[[Request, Answer], None] | None = None
        self._admission = Admission(compiler, self.slots, max_running, max_waiting)
        self._running: list[Sequence] = []
        self._prefill = Prefill(self.slots, prefill_tokens)
        self._thread: threading.Thread | None = None
        self._after_step: list[Callable[[], None]] = []
        self._masks = Masks(self.vocabulary, max_running)
        self._selector = TokenSelector(self.vocabulary, self.slots, self._masks)
        self._jumper = Jumper(tokenizer, self.vocabulary, self.slots)
        self._steps = self._finished = 0
        self._model_seconds = 0.0

    # the public methods, for any thread

    def encode(self, prompt: Any) -> list[int]:
        """The token ids of a text, through the chat template if there is one, or of the messages of a chat."""
        return encode_prompt(self.tokenizer, prompt)

    def prepare(self, request: Request) -> Sequence:
        """A request checked and ready for `submit`, which takes it once; RequestError if it cannot be served.

        Its budget can only be checked if its constraint is a compiled grammar.
        """
        return self._admission.prepare(request)

    def submit(self, request: Request | Sequence, listener: Listener, *, patient: bool = False) -> Ticket:
        """Queue a request, or one that `prepare` made; the engine's thread calls `listener` with each event, the last with the answer.

        A full queue raises EngineBusyError, unless the caller is `patient`.
        A wrong request raises RequestError. An error in its grammar comes as an answer whose `finish_reason` is
        "error"; to get it earlier, call `compile` first.
        """
        sequence = request if isinstance(request, Sequence) else self._admission.check(request)
        self._admission.submit(sequence, listener, self.slots.rows, patient=patient)
        return Ticket(self._admission, sequence)

    def compile(self, constraint: Constraint) -> SharedFuture[CompiledGrammar]:
        """The grammar of a constraint, as a future; one compilation serves all requests for the same."""
        return self._admission.compile(constraint)

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
                    with self._admission.changed:
                        self._admission.changed.wait(0.01)
                    self.step()
        return [future.result() for future in results]

    def add_step_hook(self, call: Callable[[], None]) -> None:
        """Call this in the engine's thread after each step."""
        self._after_step = [*self._after_step, call]

    def remove_step_hook(self, call: Callable[[], None]) -> None:
        """Stop calling it."""
        self._after_step = [other for other in self._after_step if other != call]

    @property
    def info(self) -> EngineInfo:
        """Its load and its totals."""
        waiting, compiling = self._admission.count()
        return EngineInfo(
            self.slots.rows, waiting, compiling, self._finished, self._steps, self.slots.forwards, self._selector.tokens,
            self._model_seconds, self._selector.mask_seconds, self._selector.sample_seconds, self._prefill.seconds,
        )  # fmt: skip

    def start(self) -> None:
        """Start the thread that serves requests."""
        if self._thread is None:
            self._admission.tokenization.prepare()
            self._thread = threading.Thread(target=self._serve, name="stackmask-engine", daemon=True)
            self._thread.start()

    def close(self, *, grace: float = 0.0) -> None:
        """Accept no more requests, give the running ones `grace` seconds to end, then cancel the rest, and stop."""
        deadline = perf_counter() + grace
        admission = self._admission
        with admission.changed:
            admission.is_closing = True
            while self._thread is not None and not self._is_idle and (remaining := deadline - perf_counter()) > 0:
                admission.changed.wait(min(remaining, 0.05))
        admission.close()
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
            self._admit()
            self._prefill.make_way(self._running)
            before = sorted(self._running, key=lambda sequence: sequence.row)
            entering, tables = self._read()
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
                self._selector.choose(sequences, tables, drafts)
                if self._jumper.jump(sequences):
                    self._masks.clear()  # its room is another
                self._deliver(sequences)
                self._steps += 1
        for call in self._after_step:
            call()
        return bool(sequences or self._prefill.sequences)

    def _serve(self) -> None:
        while True:
            try:
                busy = self.step()
            except Exception as error:  # after any error, every request gets an answer
                self._fail_all(error)
                busy = True
            admission = self._admission
            with admission.changed:
                if admission.is_closing and self._is_idle:
                    return
                admission.changed.notify_all()
                if not busy and not admission.has_work:
                    admission.changed.wait()

    @property
    def _is_idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return not self.slots.rows and self._admission.is_empty

    @property
    def _entered(self) -> list[Sequence]:
        """Those that have a row: those that run, and those whose prompts are being read."""
        return [*self._running, *self._prefill.sequences]

    def _admit(self) -> None:
        """Give rows to waiting requests whose grammar is ready, in the order of their arrival, and begin to read their prompts."""
        while self.slots.rows < self.max_running:
            sequence, grammar, error = self._admission.next_ready()
            if sequence is None:
                break
            try:
                if error is not None:
                    raise error
                if grammar is not None and sequence.guide is None:
                    sequence.begin(grammar, self._admission.tokenization)
                sequence.admit()
                self._prefill.add(sequence)
            except Exception as problem:
                self._end(sequence, problem)

    def _read(self) -> tuple[list[Sequence], list[torch.Tensor]]:
        """Read the prompts whose turn it is; those that are through run now, and the logits after their prompts."""
        entering: list[Sequence] = []
        tables: list[torch.Tensor] = []
        for sequence, count in self._prefill.turns(is_alone=not self._running):
            try:
                logits = self._prefill.read(sequence, count)
            except Exception as problem:
                self._end(sequence, problem)
                continue
            if logits is not None:
                sequence.enter(self._selector.mask_clock)
                entering.append(sequence)
                tables.append(logits[:, : self.vocabulary.size])
                self._running.append(sequence)
        return entering, tables

    def _draft(self, running: list[Sequence]) -> list[Draft]:
        """Guesses for each running request."""
        wanted = [sequence for sequence in running if sequence.request.speculation and sequence.room > 1]
        if not wanted:
            return [NO_DRAFT] * len(running)
        chains = {} if self.drafts is None else self.drafts.draft(wanted, self._prefill.room(is_alone=len(self._running) == 1))
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
        """One pass over all rows, with the last chosen tokens and the guesses; the logits of the positions at which tokens are chosen."""
        start = perf_counter()
        tokens = [[*sequence.pending, *draft.tokens] for sequence, draft in zip(running, drafts, strict=True)]
        trees = any(draft.parents is not None for draft in drafts)
        parents = [_row_parents(sequence, draft) for sequence, draft in zip(running, drafts, strict=True)] if trees else None
        logits = self.slots.forward(tokens, parents=parents)[..., : self.vocabulary.size]
        elapsed = perf_counter() - start
        self._model_seconds += elapsed
        for sequence in running:
            sequence.stats.forwards += 1
            sequence.stats.model_seconds += elapsed / len(running)
        if logits.shape[1] == 1:
            return [logits[:, 0]]  # PERF: a view, where cutting rows out would copy them
        return [
            logits[place, len(sequence.pending) - 1 : len(row)] for place, (sequence, row) in enumerate(zip(running, tokens, strict=True))
        ]

    def _deliver(self, sequences: list[Sequence]) -> None:
        """Tell the listeners, and free the rows of finished requests."""
        for sequence in sequences:
            sequence.emit()
        for sequence in sequences:
            if sequence.finish_reason is not None:
                self._free(sequence)

    # endings

    def _drop_cancelled(self) -> None:
        for sequence in self._admission.take_cancelled(self._entered):
            sequence.finish_reason = "cancelled"
            sequence.emit()
            self._free(sequence)

    def _end(self, sequence: Sequence, error: Exception) -> None:
        """End a request by an error."""
        sequence.fail(error)
        sequence.emit()
        self._free(sequence)

    def _free(self, sequence: Sequence) -> None:
        """Give a request's row back; the request of the last row takes its place."""
        if sequence in self._running:
            self._running.remove(sequence)
        elif sequence in self._prefill.sequences:
            self._prefill.sequences.remove(sequence)
        if sequence.row >= 0:
            last = self.slots.rows - 1
            self.slots.remove(sequence.row)
            for other in self._entered:
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
        """Answer all requests that have a row with an error, and begin again with an empty batch."""
        for sequence in self._entered:
            sequence.row = -1
            self._end(sequence, error)
        self.slots.clear()


def _before_stop(branch: list[int], stops: tuple[int, ...]) -> list[int]:
    """A branch up to its first stop token; later tokens are never needed."""
    return branch[: next((place for place, token in enumerate(branch) if token in stops), len(branch))]


def _row_parents(sequence: Sequence, draft: Draft) -> list[int] | None:
    """The parents of a row's tokens if its guesses are a tree: the pending tokens are a chain, and the guesses follow its last."""
    if draft.parents is None:
        return None
    count = len(sequence.pending)
    return [*range(-1, count - 1), *(parent + count for parent in draft.parents)]
