"""Text from a Hugging Face model under a constraint, for scripts and the command line.

    generate        one prompt              generate_batch   several prompts in one batch
    generate_async  one prompt, in a thread that does not block the event loop
    stream          one prompt, piece by piece, for `for` and `async for`

    Generator       their shared state for one model: its vocabulary and a compiler with its cache

Each call runs its own engine (`stackmask.integration.engine`) in the caller's thread, so that calls in several threads do not
wait for each other. Servers submit their requests to one engine instead, which batches requests that arrive at different times.
This module imports neither torch nor the engine until a call needs them, because `import stackmask` imports it.
"""

from __future__ import annotations

import asyncio
import json as json_module
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from .answers.generation import Generation, GenerationStats
from .answers.options import (
    CONSTRAINT_NAMES,
    KINDS,
    ConstraintOptions,
    GenerateOptions,
    JsonOptions,
    TextOptions,
    check_constraint,
    check_names,
    sampling_of,
    stop_texts,
)
from .answers.partial import partial_reader
from .answers.stream import Piece, Stream
from .answers.types import Reader, read_type
from .compiler import CompiledGrammar, Compiler
from .decisions import Decider
from .tokenizers import model_vocabulary
from .tokenizers.prompts import Prompt, PromptError, encode_prompt

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from typing_extensions import TypeForm

    from .engine import Answer, Event

T = TypeVar("T")


class Generator:
    """A model with its tokenizer, its vocabulary, and a compiler that keeps its grammars between calls."""

    def __init__(self, model: Any, tokenizer: Any, *, compiler: Compiler | None = None) -> None:
        self.model = model
        self.tokenizer = tokenizer
        if not hasattr(model, "config"):
            raise TypeError(
                "generate needs a model and a tokenizer of transformers, in this order, "
                f"not {type(model).__name__} and {type(tokenizer).__name__}"
            )
        config = model.config.get_text_config()
        self.context: int | None = getattr(config, "max_position_embeddings", None)
        if compiler is None:
            settings = getattr(model, "generation_config", None)
            stops = {*_ids(getattr(settings, "eos_token_id", None)), *_ids(tokenizer.eos_token_id)}
            compiler = Compiler(model_vocabulary(tokenizer, config.vocab_size, sorted(stops) or None))
        self.compiler = compiler
        self._decider: Decider | None = None

    def compile(self, **constraint: Unpack[ConstraintOptions]) -> CompiledGrammar | None:
        """Compile a constraint; return its grammar, or None if there is no constraint."""
        check_names(constraint)
        kind = check_constraint(constraint)
        if kind is None or kind == "grammar":
            return constraint.get("grammar")
        values: Mapping[str, Any] = constraint
        options = {name: value for name, value in values.items() if name not in KINDS}
        value = read_type(values[kind])[0] if kind == "json_schema" else values[kind]
        compiled: CompiledGrammar = getattr(self.compiler, kind)(*(() if kind == "json" else (value,)), **options)
        return compiled

    @overload
    def generate(
        self,
        prompt: Prompt,
        *,
        json_schema: TypeForm[T],
        on_text: Callable[[str], None] | None = None,
        **options: Unpack[JsonOptions],
    ) -> Generation[T]: ...

    @overload
    def generate(
        self,
        prompt: Prompt,
        *,
        json_schema: TypeAdapter[T],
        on_text: Callable[[str], None] | None = None,
        **options: Unpack[JsonOptions],
    ) -> Generation[T]: ...

    @overload
    def generate(
        self, prompt: Prompt, *, on_text: Callable[[str], None] | None = None, **options: Unpack[TextOptions]
    ) -> Generation[str]: ...

    @overload
    def generate(
        self, prompt: Prompt, *, on_text: Callable[[str], None] | None = None, **options: Unpack[GenerateOptions]
    ) -> Generation[Any]: ...

    def generate(
        self, prompt: Prompt, *, on_text: Callable[[str], None] | None = None, **options: Unpack[GenerateOptions]
    ) -> Generation[Any]:
        """Generate one answer; `on_text` gets each new piece of its text. If `n` asks for more answers, it gets only the first one's."""
        check_names(options, {"on_text"})
        (answer,) = self._run([prompt], options, on_text, threading.Event())
        return answer

    @overload
    def generate_batch(
        self, prompts: Sequence[Prompt], *, json_schema: TypeForm[T], **options: Unpack[JsonOptions]
    ) -> list[Generation[T]]: ...

    @overload
    def generate_batch(
        self, prompts: Sequence[Prompt], *, json_schema: TypeAdapter[T], **options: Unpack[JsonOptions]
    ) -> list[Generation[T]]: ...

    @overload
    def generate_batch(self, prompts: Sequence[Prompt], **options: Unpack[TextOptions]) -> list[Generation[str]]: ...

    @overload
    def generate_batch(self, prompts: Sequence[Prompt], **options: Unpack[GenerateOptions]) -> list[Generation[Any]]: ...

    def generate_batch(self, prompts: Sequence[Prompt], **options: Unpack[GenerateOptions]) -> list[Generation[Any]]:
        """Answer each prompt under the same constraint, all in one batch; each answer has its own random numbers."""
        check_names(options)
        return self._run(prompts, options, None, threading.Event())

    @overload
    async def generate_async(self, prompt: Prompt, *, json_schema: TypeForm[T], **options: Unpack[JsonOptions]) -> Generation[T]: ...

    @overload
    async def generate_async(self, prompt: Prompt, *, json_schema: TypeAdapter[T], **options: Unpack[JsonOptions]) -> Generation[T]: ...

    @overload
    async def generate_async(self, prompt: Prompt, **options: Unpack[TextOptions]) -> Generation[str]: ...

    @overload
    async def generate_async(self, prompt: Prompt, **options: Unpack[GenerateOptions]) -> Generation[Any]: ...

    async def generate_async(self, prompt: Prompt, **options: Unpack[GenerateOptions]) -> Generation[Any]:
        """Generate one answer in another thread; cancelling stops that thread after its current step."""
        check_names(options)
        cancelled = threading.Event()
        try:
            (answer,) = await asyncio.to_thread(self._run, [prompt], options, None, cancelled)
        finally:
            cancelled.set()
        return answer

    @overload
    def stream(
        self,
        prompt: Prompt,
        *,
        json_schema: TypeForm[T],
        **options: Unpack[JsonOptions],
    ) -> Stream[T]: ...

    @overload
    def stream(
        self,
        prompt: Prompt,
        *,
        json_schema: TypeAdapter[T],
        **options: Unpack[JsonOptions],
    ) -> Stream[T]: ...

    @overload
    def stream(self, prompt: Prompt, **options: Unpack[TextOptions]) -> Stream[str]: ...

    @overload
    def stream(self, prompt: Prompt, **options: Unpack[GenerateOptions]) -> Stream[Any]: ...

    def stream(self, prompt: Prompt, **options: Unpack[GenerateOptions]) -> Stream[Any]:
        """Yield the pieces of one answer as they are made; with several answers (`n`), the pieces of the first."""
        check_names(options)
        if options.get("faithful"):
            raise ValueError("faithful answers are complete when they come, so there is nothing to stream; use generate")
        reader = partial_reader(options)
        events: deque[Event] = deque()
        run = _Run(self, [prompt], options, lambda row, event: events.append(event) if row == 0 else None)

        def advance() -> Piece[Any]:
            while not events or (events[0].answer is not None and not run.is_over):
                run.engine.step()
            event = events.popleft()
            answer = None if event.answer is None else run.answers()[0]
            value = None if reader is None else reader(event.text, answer is not None)
            return Piece(event.text, event.token_ids, value, answer)

        return Stream(advance)

    def _run(
        self, prompts: Sequence[Prompt], options: GenerateOptions, on_text: Callable[[str], None] | None, cancelled: threading.Event
    ) -> list[Generation[Any]]:
        """Run the engine over the prompts, in this thread."""

        def listen(row: int, event: Event) -> None:
            if event.text and on_text is not None and row == 0:
                on_text(event.text)

        if options.get("faithful"):
            return [self._draw(prompt, options, on_text if place == 0 else None) for place, prompt in enumerate(prompts)]
        run = _Run(self, prompts, options, listen)
        while not run.is_over:
            run.engine.step()
            if cancelled.is_set():
                run.engine.close()
        return run.answers()

    def _draw(self, prompt: Prompt, options: GenerateOptions, on_text: Callable[[str], None] | None) -> Generation[Any]:
        """Answers drawn from the model's distribution among the texts of the constraint."""
        values: Mapping[str, Any] = options
        constraint: Any = {name: value for name, value in values.items() if name in CONSTRAINT_NAMES}
        if idle := sorted(values.keys() - {*constraint, "faithful", "temperature", "seed", "n"}):
            raise ValueError(f"{idle[0]} cannot be combined with faithful, whose answers are whole texts of the model's own distribution")
        sampling, n = sampling_of(options), options.get("n", 1)
        if not isinstance(n, int) or n < 1:
            raise ValueError(f"n is {n!r}, which is not a number of answers")
        start = time.perf_counter()
        grammar = self.compile(**constraint)
        if grammar is None:
            raise ValueError("faithful needs a constraint, because it looks at the texts one by one")
        compiled = time.perf_counter()
        if self._decider is None:
            self._decider = Decider(self.model, self.tokenizer, compiler=self.compiler)
        ids = encode_prompt(self.tokenizer, prompt)
        found = self._decider.distribution(ids, grammar, temperature=sampling.temperature or 1.0)
        stats = GenerationStats(compile=compiled - start, model=time.perf_counter() - compiled, steps=found.forwards)
        answers: list[Generation[Any]] = []
        for row in range(n):
            if sampling.temperature == 0:
                tokens = found.best_spelling(found.best).tokens
            else:
                tokens = found.sample(random.Random(None if sampling.seed is None else sampling.seed + row)).tokens
            text = b"".join(grammar.vocabulary.token_bytes(token) or b"" for token in tokens).decode("utf-8", "replace")
            made = Generation(text, tokens, "stop", True, False, len(ids), stats, parser=_parser(constraint, grammar), grammar=grammar)
            answers.append(replace(made, mass=found.mass))
        if on_text is not None:
            on_text(answers[0].text)
        return replace(answers[0], others=tuple(answers[1:]))


class _Run:
    """The engine over some prompts, `n` rows for each; its owner calls `engine.step` until it is over."""

    def __init__(
        self, generator: Generator, prompts: Sequence[Prompt], options: GenerateOptions, listen: Callable[[int, Event], None]
    ) -> None:
        from .engine import Engine, Request, RequestError
        from .engine.prefill import ALONE

        values: Mapping[str, Any] = options
        constraint: Any = {name: value for name, value in values.items() if name in CONSTRAINT_NAMES}
        encoded = [encode_prompt(generator.tokenizer, prompt) for prompt in prompts]
        sampling, stop, self.n = sampling_of(options), stop_texts(options.get("stop", ())), options.get("n", 1)
        if not isinstance(self.n, int) or self.n < 1:
            raise ValueError(f"n is {self.n!r}, which is not a number of answers")
        start = time.perf_counter()
        self.grammar = generator.compile(**constraint)
        self.stats = GenerationStats(compile=time.perf_counter() - start)
        self.parser = _parser(constraint, self.grammar)
        self.rows = len(encoded) * self.n
        self.engine = Engine(
            generator.model,
            generator.tokenizer,
            compiler=generator.compiler,
            max_running=max(1, self.rows),
            prefill_tokens=ALONE,  # nobody's tokens wait for those of others: all rows are of one call
        )
        self._answers: dict[int, Answer] = {}
        self._listen = listen
        for row in range(self.rows):
            request = Request(
                prompt=encoded[row // self.n],
                constraint=self.grammar,
                sampling=sampling if sampling.seed is None else replace(sampling, seed=sampling.seed + row),
                max_tokens=options.get("max_tokens", 1024),
                stop=stop,
                finish_within_budget=options.get("finish_within_budget", False),
                shown=None,
                logprobs=0 if options.get("logprobs") else None,
            )
            try:
                self.engine.submit(self.engine.prepare(request), partial(self._hear, row))
            except RequestError as error:
                raise PromptError(str(error)) if error.field == "prompt" else error from None

    def _hear(self, row: int, event: Event) -> None:
        if event.answer is not None:
            self._answers[row] = event.answer
        self._listen(row, event)

    @property
    def is_over(self) -> bool:
        """Whether every row has its answer."""
        return len(self._answers) == self.rows

    def answers(self) -> list[Generation[Any]]:
        """The answers, when it is over."""
        info, stats = self.engine.info, self.stats
        stats.model, stats.mask = info.model_seconds + info.prefill_seconds, info.mask_seconds
        stats.sample, stats.steps = info.sample_seconds, info.steps
        made = [_generation(self._answers[row], self.parser, stats, self.grammar) for row in range(self.rows)]
        return [replace(made[row], others=tuple(made[row + 1 : row + self.n])) for row in range(0, self.rows, self.n)]


@overload
def generate(
    model: Any,
    tokenizer: Any,
    prompt: Prompt,
    *,
    json_schema: TypeForm[T],
    compiler: Compiler | None = None,
    on_text: Callable[[str], None] | None = None,
    **options: Unpack[JsonOptions],
) -> Generation[T]: ...


@overload
def generate(
    model: Any,
    tokenizer: Any,
    prompt: Prompt,
    *,
    json_schema: TypeAdapter[T],
    compiler: Compiler | None = None,
    on_text: Callable[[str], None] | None = None,
    **options: Unpack[JsonOptions],
) -> Generation[T]: ...


@overload
def generate(
    model: Any,
    tokenizer: Any,
    prompt: Prompt,
    *,
    compiler: Compiler | None = None,
    on_text: Callable[[str], None] | None = None,
    **options: Unpack[TextOptions],
) -> Generation[str]: ...


@overload
def generate(
    model: Any,
    tokenizer: Any,
    prompt: Prompt,
    *,
    compiler: Compiler | None = None,
    on_text: Callable[[str], None] | None = None,
    **options: Unpack[GenerateOptions],
) -> Generation[Any]: ...


@overload
def generate(
    *,
    gguf: str | Path,
    prompt: Prompt,
    compiler: Compiler | None = None,
    on_text: Callable[[str], None] | None = None,
    **options: Unpack[GenerateOptions],
) -> Generation[Any]: ...


def generate(
    model: Any = None,
    tokenizer: Any = None,
    prompt: Prompt = "",
    *,
    gguf: str | Path | None = None,
    compiler: Compiler | None = None,
    on_text: Callable[[str], None] | None = None,
    **options: Unpack[GenerateOptions],
) -> Generation[Any]:
    """Generate text from `model` that matches a constraint: `generate(model, tokenizer, "Anna, 31", json_schema=Person).parsed`.

    `gguf` names a GGUF file instead of both: `generate(gguf="model.gguf", prompt="Anna, 31", json_schema=Person)`. Each call loads the
    file; for several calls, load it once (`stackmask.integration.llama_cpp.model.load_gguf`).

    `ConstraintOptions` and `SamplingOptions` of `stackmask.integration.answers.options` describe the options.
    To call it often, make a `Generator` once, or pass a `compiler`: both keep the vocabulary and the compiled grammars.
    """
    check_names(options, {"gguf", "on_text", "compiler"})
    if gguf is not None:
        if model is not None or tokenizer is not None:
            raise TypeError("generate takes a model and its tokenizer, or gguf, not both")
        from .llama_cpp.model import load_gguf

        model, tokenizer = load_gguf(gguf)
    elif model is None or tokenizer is None:
        raise TypeError("generate needs a model and its tokenizer, or gguf")
    return Generator(model, tokenizer, compiler=compiler).generate(prompt, on_text=on_text, **options)


@overload
def generate_batch(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Prompt],
    *,
    json_schema: TypeForm[T],
    compiler: Compiler | None = None,
    **options: Unpack[JsonOptions],
) -> list[Generation[T]]: ...


@overload
def generate_batch(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Prompt],
    *,
    json_schema: TypeAdapter[T],
    compiler: Compiler | None = None,
    **options: Unpack[JsonOptions],
) -> list[Generation[T]]: ...


@overload
def generate_batch(
    model: Any, tokenizer: Any, prompts: Sequence[Prompt], *, compiler: Compiler | None = None, **options: Unpack[TextOptions]
) -> list[Generation[str]]: ...


@overload
def generate_batch(
    model: Any, tokenizer: Any, prompts: Sequence[Prompt], *, compiler: Compiler | None = None, **options: Unpack[GenerateOptions]
) -> list[Generation[Any]]: ...


def generate_batch(
    model: Any, tokenizer: Any, prompts: Sequence[Prompt], *, compiler: Compiler | None = None, **options: Unpack[GenerateOptions]
) -> list[Generation[Any]]:
    """Like `generate`, for several prompts in one batch."""
    check_names(options, {"compiler"})
    return Generator(model, tokenizer, compiler=compiler).generate_batch(prompts, **options)


@overload
async def generate_async(
    model: Any,
    tokenizer: Any,
    prompt: Prompt,
    *,
    json_schema: TypeForm[T],
    compiler: Compiler | None = None,
    **options: Unpack[JsonOptions],
) -> Generation[T]: ...


@overload
async def generate_async(
    model: Any,
    tokenizer: Any,
    prompt: Prompt,
    *,
    json_schema: TypeAdapter[T],
    compiler: Compiler | None = None,
    **options: Unpack[JsonOptions],
) -> Generation[T]: ...


@overload
async def generate_async(
    model: Any, tokenizer: Any, prompt: Prompt, *, compiler: Compiler | None = None, **options: Unpack[TextOptions]
) -> Generation[str]: ...


@overload
async def generate_async(
    model: Any, tokenizer: Any, prompt: Prompt, *, compiler: Compiler | None = None, **options: Unpack[GenerateOptions]
) -> Generation[Any]: ...


async def generate_async(
    model: Any, tokenizer: Any, prompt: Prompt, *, compiler: Compiler | None = None, **options: Unpack[GenerateOptions]
) -> Generation[Any]:
    """Like `generate`, without blocking the event loop."""
    check_names(options, {"compiler"})
    return await Generator(model, tokenizer, compiler=compiler).generate_async(prompt, **options)


@overload
def stream(
    model: Any,
    tokenizer: Any,
    prompt: Prompt,
    *,
    json_schema: TypeForm[T],
    compiler: Compiler | None = None,
    **options: Unpack[JsonOptions],
) -> Stream[T]: ...


@overload
def stream(
    model: Any,
    tokenizer: Any,
    prompt: Prompt,
    *,
    json_schema: TypeAdapter[T],
    compiler: Compiler | None = None,
    **options: Unpack[JsonOptions],
) -> Stream[T]: ...


@overload
def stream(
    model: Any,
    tokenizer: Any,
    prompt: Prompt,
    *,
    compiler: Compiler | None = None,
    **options: Unpack[TextOptions],
) -> Stream[str]: ...


@overload
def stream(
    model: Any,
    tokenizer: Any,
    prompt: Prompt,
    *,
    compiler: Compiler | None = None,
    **options: Unpack[GenerateOptions],
) -> Stream[Any]: ...


def stream(
    model: Any, tokenizer: Any, prompt: Prompt, *, compiler: Compiler | None = None, **options: Unpack[GenerateOptions]
) -> Stream[Any]:
    """Yield the pieces of an answer as they are made: `piece.partial` is the value so far, `piece.generation` of the last the answer.

    It takes the options of `generate`; read it with `for` or `async for`.
    """
    check_names(options, {"compiler"})
    return Generator(model, tokenizer, compiler=compiler).stream(prompt, **options)


def _generation(
    answer: Answer, parser: Callable[[str], Any] | None, stats: GenerationStats, grammar: CompiledGrammar | None
) -> Generation[Any]:
    """The engine's answer as it is handed out; its error is raised."""
    if answer.error is not None:
        raise answer.error
    reason: Literal["stop", "length"] = "stop" if answer.finish_reason == "stop" else "length"
    ending = (reason, answer.complete, answer.closed)
    logprobs = tuple(token.logprob for token in answer.logprobs)
    return Generation(
        answer.text, answer.token_ids, *ending, answer.prompt_tokens, stats, parser=parser, grammar=grammar, logprobs=logprobs
    )


def _parser(constraint: ConstraintOptions, grammar: CompiledGrammar | None) -> Reader | None:
    """The function that parses the text into a value."""
    if grammar is None:
        return None
    if constraint.get("json_schema") is not None:
        return read_type(constraint["json_schema"])[1]
    return json_module.loads if grammar.stats.kind == "json_schema" else str


def _ids(value: int | Sequence[int] | None) -> list[int]:
    """Stop tokens as a configuration spells them: none, one or several."""
    return [] if value is None else [value] if isinstance(value, int) else list(value)
