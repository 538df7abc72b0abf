"""Text from a Hugging Face model under a constraint, for scripts and the command line.

    generate        one prompt              generate_batch   several prompts in one batch
    generate_async  one prompt, in a thread that the event loop waits for

    Generator       what they share for one model: its vocabulary and a compiler with its cache

Each call runs an engine (`stackmask.integration.engine`) of its own in the caller's thread, so that calls in several threads do not
wait for each other. Servers submit their requests to one engine instead, which batches requests that come at different times.
This module imports neither torch nor the engine until a call needs them, because `import stackmask` imports it.
"""

from __future__ import annotations

import asyncio
import json as json_module
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, Unpack, overload

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
from .answers.types import Reader, read_type
from .compiler import CompiledGrammar, Compiler
from .tokenizers import Vocabulary
from .tokenizers.prompts import Prompt, PromptError, encode_prompt

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from typing_extensions import TypeForm

    from .engine import Answer, Event

T = TypeVar("T")


@dataclass(slots=True)
class GenerationStats:
    """Where the time went, in seconds; the rows of a batch share it. `mask` is filling and applying masks and accepting tokens."""

    compile: float = 0.0
    model: float = 0.0
    mask: float = 0.0
    sample: float = 0.0
    steps: int = 0


@dataclass(frozen=True, slots=True)
class Generation(Generic[T]):
    """One answer; T is the type of the value that `parsed` gives.

    `finish_reason` is "stop" where a stop token, a stop text or the end of the grammar ended it, "length" where `max_tokens` or the
    model's context did. `complete`: the text satisfies the constraint, which it always does after "stop" unless a stop text cut it.
    `closed`: `finish_within_budget` made it end early. `others` are the rest of the `n` answers to the same prompt.
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

    @property
    def captures(self) -> list[tuple[str, str]]:
        """The names and texts of what the grammar captures, in the order of their ends: a fresh matcher reads the tokens again."""
        if self.grammar is None:
            return []
        matcher = self.grammar.matcher()
        for token in self.token_ids:
            matcher.accept_token(token)
        return [(name, data.decode("utf-8", "replace")) for name, data in matcher.get_captures()]

    @property
    def parsed(self) -> T | None:
        """The value of the text, None where the text is cut or nothing constrained it.

        For a type that is an object of it, for a function its arguments by name, for other schemas and any JSON the JSON value; for a
        regex, choices and grammars the text itself.
        A type can ask for more than its schema says (a validator in Python); then this raises the type's own error.
        """
        return self.parser(self.text) if self.parser is not None and self.complete else None


class Generator:
    """A model with its tokenizer, its vocabulary and a compiler whose grammars stay compiled between calls."""

    def __init__(self, model: Any, tokenizer: Any, *, compiler: Compiler | None = None) -> None:
        self.model = model
        self.tokenizer = tokenizer
        config = model.config.get_text_config()
        self.context: int | None = getattr(config, "max_position_embeddings", None)
        if compiler is None:
            settings = getattr(model, "generation_config", None)
            stops = {*_ids(getattr(settings, "eos_token_id", None)), *_ids(tokenizer.eos_token_id)}
            compiler = Compiler(Vocabulary.from_transformers(tokenizer, size=config.vocab_size, stop_token_ids=sorted(stops) or None))
        self.compiler = compiler

    def compile(self, **constraint: Unpack[ConstraintOptions]) -> CompiledGrammar | None:
        """The grammar of a constraint; None where there is none."""
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
        """One answer; `on_text` is called with each new piece of its text, and of no other answer's where `n` asks for more."""
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
        """An answer to each prompt under the same constraint, all in one batch; each has its own random numbers."""
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
        """One answer, made in another thread; cancelling stops that thread after its current step."""
        check_names(options)
        cancelled = threading.Event()
        try:
            (answer,) = await asyncio.to_thread(self._run, [prompt], options, None, cancelled)
        finally:
            cancelled.set()
        return answer

    def _run(
        self, prompts: Sequence[Prompt], options: GenerateOptions, on_text: Callable[[str], None] | None, cancelled: threading.Event
    ) -> list[Generation[Any]]:
        """Run the engine over the prompts, `n` rows for each, in this thread."""
        from .engine import Engine, Request, RequestError

        values: Mapping[str, Any] = options
        constraint: Any = {name: value for name, value in values.items() if name in CONSTRAINT_NAMES}
        encoded = [encode_prompt(self.tokenizer, prompt) for prompt in prompts]
        sampling, stop, n = sampling_of(options), stop_texts(options.get("stop", ())), options.get("n", 1)
        if not isinstance(n, int) or n < 1:
            raise ValueError(f"n is {n!r}, which is no number of answers")
        start = time.perf_counter()
        grammar = self.compile(**constraint)
        stats = GenerationStats(compile=time.perf_counter() - start)
        rows = len(encoded) * n
        if not rows:
            return []
        engine = Engine(self.model, self.tokenizer, compiler=self.compiler, max_running=rows)
        answers: dict[int, Answer] = {}

        def listen(row: int, event: Event) -> None:
            if event.text and on_text is not None and row == 0:
                on_text(event.text)
            if event.answer is not None:
                answers[row] = event.answer

        for row in range(rows):
            request = Request(
                prompt=encoded[row // n],
                constraint=grammar,
                sampling=sampling if sampling.seed is None else replace(sampling, seed=sampling.seed + row),
                max_tokens=options.get("max_tokens", 1024),
                stop=stop,
                finish_within_budget=options.get("finish_within_budget", False),
                shown=None,
            )
            try:
                engine.submit(engine.prepare(request), partial(listen, row))
            except RequestError as error:
                raise PromptError(str(error)) if error.field == "prompt" else error from None
        while len(answers) < rows:
            engine.step()
            if cancelled.is_set():
                engine.close()
        info = engine.info
        stats.model, stats.mask = info.model_seconds + info.prefill_seconds, info.mask_seconds
        stats.sample, stats.steps = info.sample_seconds, info.steps
        parser = _parser(constraint, grammar)
        made = [_generation(answers[row], parser, stats, grammar) for row in range(rows)]
        return [replace(made[row], others=tuple(made[row + 1 : row + n])) for row in range(0, rows, n)]


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


def generate(
    model: Any,
    tokenizer: Any,
    prompt: Prompt,
    *,
    compiler: Compiler | None = None,
    on_text: Callable[[str], None] | None = None,
    **options: Unpack[GenerateOptions],
) -> Generation[Any]:
    """Text from `model` that matches a constraint: `generate(model, tokenizer, "Anna, 31", json_schema=Person).parsed`.

    `ConstraintOptions` and `SamplingOptions` of `stackmask.integration.answers.options` describe the options.
    To call it often, make a `Generator` once, or pass a `compiler`: both keep the vocabulary and the compiled grammars.
    """
    check_names(options, {"on_text", "compiler"})
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
    """As `generate`, for several prompts in one batch."""
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
    """As `generate`, without blocking the event loop."""
    check_names(options, {"compiler"})
    return await Generator(model, tokenizer, compiler=compiler).generate_async(prompt, **options)


def _generation(
    answer: Answer, parser: Callable[[str], Any] | None, stats: GenerationStats, grammar: CompiledGrammar | None
) -> Generation[Any]:
    """The engine's answer as it is handed out; its error is raised."""
    if answer.error is not None:
        raise answer.error
    reason: Literal["stop", "length"] = "stop" if answer.finish_reason == "stop" else "length"
    ending = (reason, answer.complete, answer.closed)
    return Generation(answer.text, answer.token_ids, *ending, answer.prompt_tokens, stats, parser=parser, grammar=grammar)


def _parser(constraint: ConstraintOptions, grammar: CompiledGrammar | None) -> Reader | None:
    """What makes a value of the text."""
    if grammar is None:
        return None
    if constraint.get("json_schema") is not None:
        return read_type(constraint["json_schema"])[1]
    return json_module.loads if grammar.stats.kind == "json_schema" else str


def _ids(value: int | Sequence[int] | None) -> list[int]:
    """Stop tokens as a configuration spells them: none, one or several."""
    return [] if value is None else [value] if isinstance(value, int) else list(value)
