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
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, Unpack

from .compiler import CompiledGrammar, Compiler
from .tokenizers import Vocabulary
from .tokenizers.prompts import Prompt, PromptError, encode_prompt

if TYPE_CHECKING:
    from .engine import Answer, Event


class ConstraintOptions(TypedDict, total=False):
    """What the text must be: at most one of these, and options that the compiler's method of that name takes."""

    json_schema: Mapping[str, Any] | bool | str | type
    json: bool
    regex: str
    ebnf: str
    lark: str
    choice: Sequence[str]
    structural_tag: Mapping[str, Any] | str
    grammar: CompiledGrammar
    whitespace: str
    property_order: str
    documents: Mapping[str, Mapping[str, Any] | bool]
    lenient: bool
    format: str
    escapes: str
    root: str
    start: str


KINDS: Final = ("json_schema", "json", "regex", "ebnf", "lark", "choice", "structural_tag", "grammar")


@dataclass(slots=True)
class GenerationStats:
    """Where the time went, in seconds; the rows of a batch share it. `mask` is filling and applying masks and accepting tokens."""

    compile: float = 0.0
    model: float = 0.0
    mask: float = 0.0
    sample: float = 0.0
    steps: int = 0


@dataclass(frozen=True, slots=True)
class Generation:
    """One answer.

    `finish_reason` is "stop" where a stop token or the end of the grammar ended it, "length" where `max_tokens` or the model's context did.
    `complete`: the text satisfies the constraint, which it always does after "stop".
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: Literal["stop", "length"]
    complete: bool
    prompt_tokens: int
    stats: GenerationStats
    parser: Callable[[str], Any] | None = field(repr=False, default=None)

    @property
    def parsed(self) -> Any:
        """The value of the JSON text, as an object of the type that was given as schema, if one was; None for other text and for cut text.

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
        kinds = [kind for kind in KINDS if constraint.get(kind) is not None and (kind != "json" or constraint["json"])]
        options = {name: value for name, value in constraint.items() if name not in KINDS}
        if len(kinds) > 1:
            raise ValueError(f"one constraint at a time, not {' and '.join(kinds)}")
        if not kinds or kinds == ["grammar"]:
            if options:
                raise ValueError(f"{', '.join(options)}: options of a constraint that is not there")
            return constraint.get("grammar")
        (kind,) = kinds
        arguments = [] if kind == "json" else [constraint[kind]]  # type: ignore[literal-required]
        compiled: CompiledGrammar = getattr(self.compiler, kind)(*arguments, **options)
        return compiled

    def generate(
        self,
        prompt: Prompt,
        *,
        max_tokens: int = 1024,
        temperature: float = 0.0,
        seed: int | None = None,
        on_text: Callable[[str], None] | None = None,
        **constraint: Unpack[ConstraintOptions],
    ) -> Generation:
        """One answer; `on_text` is called with each new piece of its text."""
        (answer,) = self._run([prompt], max_tokens, temperature, seed, constraint, on_text, threading.Event())
        return answer

    def generate_batch(
        self,
        prompts: Sequence[Prompt],
        *,
        max_tokens: int = 1024,
        temperature: float = 0.0,
        seed: int | None = None,
        **constraint: Unpack[ConstraintOptions],
    ) -> list[Generation]:
        """An answer to each prompt under the same constraint, all in one batch; each row has its own random numbers."""
        return self._run(prompts, max_tokens, temperature, seed, constraint, None, threading.Event())

    async def generate_async(
        self,
        prompt: Prompt,
        *,
        max_tokens: int = 1024,
        temperature: float = 0.0,
        seed: int | None = None,
        **constraint: Unpack[ConstraintOptions],
    ) -> Generation:
        """One answer, made in another thread; cancelling stops that thread after its current step."""
        cancelled = threading.Event()
        work = partial(self._run, [prompt], max_tokens, temperature, seed, constraint, None, cancelled)
        try:
            (answer,) = await asyncio.to_thread(work)
        finally:
            cancelled.set()
        return answer

    def _run(
        self,
        prompts: Sequence[Prompt],
        max_tokens: int,
        temperature: float,
        seed: int | None,
        constraint: ConstraintOptions,
        on_text: Callable[[str], None] | None,
        cancelled: threading.Event,
    ) -> list[Generation]:
        """Run the engine over the prompts, a row for each, in this thread."""
        from .engine import Engine, Request, RequestError, Sampling

        encoded = [encode_prompt(self.tokenizer, prompt) for prompt in prompts]
        sampling = [Sampling(temperature=temperature, seed=None if seed is None else seed + row) for row in range(len(encoded))]
        if not encoded:
            return []
        start = time.perf_counter()
        grammar = self.compile(**constraint)
        stats = GenerationStats(compile=time.perf_counter() - start)
        engine = Engine(self.model, self.tokenizer, compiler=self.compiler, max_running=len(encoded))
        answers: dict[int, Answer] = {}

        def listen(row: int, event: Event) -> None:
            if event.text and on_text is not None:
                on_text(event.text)
            if event.answer is not None:
                answers[row] = event.answer

        for row, prompt in enumerate(encoded):
            request = Request(
                prompt=prompt, constraint=grammar, sampling=sampling[row], max_tokens=max_tokens, finish_within_budget=False, shown=None
            )
            try:
                engine.submit(request, partial(listen, row))
            except RequestError as error:
                raise PromptError(str(error)) if error.field == "prompt" else error from None
        while len(answers) < len(encoded):
            engine.step()
            if cancelled.is_set():
                engine.close()
        info = engine.info
        stats.model, stats.mask = info.model_seconds + info.prefill_seconds, info.mask_seconds
        stats.sample, stats.steps = info.sample_seconds, info.steps
        parser = _parser(constraint)
        return [_generation(answers[row], parser, stats) for row in range(len(encoded))]


def generate(
    model: Any,
    tokenizer: Any,
    prompt: Prompt,
    *,
    max_tokens: int = 1024,
    temperature: float = 0.0,
    seed: int | None = None,
    on_text: Callable[[str], None] | None = None,
    compiler: Compiler | None = None,
    **constraint: Unpack[ConstraintOptions],
) -> Generation:
    """Text from `model` that matches a constraint: `generate(model, tokenizer, "Anna, 31", json_schema=Person).parsed`.

    To call it often, make a `Generator` once, or pass a `compiler`: both keep the vocabulary and the compiled grammars.
    """
    generator = Generator(model, tokenizer, compiler=compiler)
    return generator.generate(prompt, max_tokens=max_tokens, temperature=temperature, seed=seed, on_text=on_text, **constraint)


def generate_batch(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Prompt],
    *,
    max_tokens: int = 1024,
    temperature: float = 0.0,
    seed: int | None = None,
    compiler: Compiler | None = None,
    **constraint: Unpack[ConstraintOptions],
) -> list[Generation]:
    """As `generate`, for several prompts in one batch."""
    generator = Generator(model, tokenizer, compiler=compiler)
    return generator.generate_batch(prompts, max_tokens=max_tokens, temperature=temperature, seed=seed, **constraint)


async def generate_async(
    model: Any,
    tokenizer: Any,
    prompt: Prompt,
    *,
    max_tokens: int = 1024,
    temperature: float = 0.0,
    seed: int | None = None,
    compiler: Compiler | None = None,
    **constraint: Unpack[ConstraintOptions],
) -> Generation:
    """As `generate`, without blocking the event loop."""
    generator = Generator(model, tokenizer, compiler=compiler)
    return await generator.generate_async(prompt, max_tokens=max_tokens, temperature=temperature, seed=seed, **constraint)


def _generation(answer: Answer, parser: Callable[[str], Any] | None, stats: GenerationStats) -> Generation:
    """The engine's answer as it is handed out; its error is raised."""
    if answer.error is not None:
        raise answer.error
    reason: Literal["stop", "length"] = "stop" if answer.finish_reason == "stop" else "length"
    return Generation(answer.text, answer.token_ids, reason, answer.complete, answer.prompt_tokens, stats, parser)


def _parser(constraint: ConstraintOptions) -> Callable[[str], Any] | None:
    """What makes an object of the text: JSON's parser, or the type that was given as schema."""
    schema = constraint.get("json_schema")
    if schema is None:
        return json_module.loads if constraint.get("json") else None
    if isinstance(schema, Mapping | bool | str):
        return json_module.loads
    if hasattr(schema, "model_validate_json"):
        validate: Callable[[str], Any] = schema.model_validate_json
        return validate
    from pydantic import TypeAdapter

    return TypeAdapter(schema).validate_json


def _ids(value: int | Sequence[int] | None) -> list[int]:
    """Stop tokens as a configuration spells them: none, one or several."""
    return [] if value is None else [value] if isinstance(value, int) else list(value)
