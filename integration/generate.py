"""Text from a Hugging Face model under a constraint, by a plain loop: logits, mask, temperature, sample.

    generate        one prompt              generate_batch   several prompts in one batch
    generate_async  one prompt, in a thread that the event loop waits for

    Generator       what they share for one model: its vocabulary and a compiler with its cache

It shows what a constraint takes, and serves scripts and the command line.
What it does not do is the engine's business: continuous batching, drafts, forced text without a forward pass.
"""

from __future__ import annotations

import asyncio
import codecs
import inspect
import json as json_module
import operator
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, Unpack

from ..pda.engine import fill_bitmasks
from ..pda.exceptions import StackmaskError, VocabularyError
from ..pda.matcher import Matcher, allocate_token_bitmask
from ..pda.vocabulary import Vocabulary as TokenVocabulary
from .compiler import CompiledGrammar, Compiler
from .tokenizers import Vocabulary

if TYPE_CHECKING:
    import torch

Prompt = str | Sequence[Mapping[str, Any]] | Sequence[int]
"""A text (the user's turn where the tokenizer has a chat template), the messages of a chat, or token ids as they are."""


class PromptError(StackmaskError, ValueError):
    """A prompt that the model cannot take."""


class Constraint(TypedDict, total=False):
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

    `finish_reason` is "stop" where a stop token ended it and "length" where `max_tokens` or the model's context did.
    `complete` says whether the constraint is satisfied by the text as it stands, which it always is after "stop".
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

    def compile(self, **constraint: Unpack[Constraint]) -> CompiledGrammar | None:
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
        **constraint: Unpack[Constraint],
    ) -> Generation:
        """One answer; `on_text` gets its text piece by piece."""
        pieces = None if on_text is None else [on_text]
        (answer,) = self._run([prompt], max_tokens, temperature, seed, constraint, pieces, threading.Event())
        return answer

    def generate_batch(
        self,
        prompts: Sequence[Prompt],
        *,
        max_tokens: int = 1024,
        temperature: float = 0.0,
        seed: int | None = None,
        **constraint: Unpack[Constraint],
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
        **constraint: Unpack[Constraint],
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
        constraint: Constraint,
        listeners: Sequence[Callable[[str], None]] | None,
        cancelled: threading.Event,
    ) -> list[Generation]:
        """The loop over tokens: each step samples one for every row that is not done."""
        if max_tokens < 1:
            raise ValueError(f"max_tokens is {max_tokens}, which leaves no token")
        if not temperature >= 0:
            raise ValueError(f"the temperature is {temperature}, which is not zero or more")
        if not prompts:
            return []
        stats = GenerationStats()
        start = time.perf_counter()
        grammar = self.compile(**constraint)
        stats.compile = time.perf_counter() - start
        parser = _parser(constraint)
        encoded = [encode_prompt(self.tokenizer, prompt) for prompt in prompts]
        rows = [
            _Row(self.compiler.vocabulary, grammar, len(ids), listeners[index] if listeners else None) for index, ids in enumerate(encoded)
        ]
        room = max_tokens if self.context is None else min(max_tokens, self.context - max(map(len, encoded)))
        if room < 1:
            raise PromptError(f"a prompt of {max(map(len, encoded))} tokens fills the model's context of {self.context}")
        sampler = _Sampler(temperature, seed, len(rows))
        with _inference():
            for logits in _forward(self.model, encoded, rows, stats):
                running = [index for index, row in enumerate(rows) if row.finish_reason is None]
                times = [time.perf_counter()]
                _mask(logits, rows, running)
                times.append(time.perf_counter())
                tokens = [sampler(logits[index], index, rows[index].temperature) for index in running]
                times.append(time.perf_counter())
                for index, token in zip(running, tokens, strict=True):
                    rows[index].accept(token)
                times.append(time.perf_counter())
                stats.mask += times[1] - times[0] + times[3] - times[2]
                stats.sample += times[2] - times[1]
                for index in running:
                    rows[index].say(room)
                if cancelled.is_set():
                    break
        return [row.generation(parser, stats) for row in rows]


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
    **constraint: Unpack[Constraint],
) -> Generation:
    """Text from `model` that matches a constraint: `generate(model, tokenizer, "Anna, 31", json_schema=Person).parsed`.

    Who calls it often makes a `Generator` once, or passes a `compiler`: they keep the vocabulary and the compiled grammars.
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
    **constraint: Unpack[Constraint],
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
    **constraint: Unpack[Constraint],
) -> Generation:
    """As `generate`, without blocking the event loop."""
    generator = Generator(model, tokenizer, compiler=compiler)
    return await generator.generate_async(prompt, max_tokens=max_tokens, temperature=temperature, seed=seed, **constraint)


def encode_prompt(tokenizer: Any, prompt: Prompt) -> list[int]:
    """The token ids of a prompt, through the chat template where the tokenizer has one."""
    if isinstance(prompt, str) and not getattr(tokenizer, "chat_template", None):
        ids: list[int] = tokenizer(prompt)["input_ids"]
    elif isinstance(prompt, str) or (prompt and isinstance(prompt[0], Mapping)):
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    else:
        ids = [operator.index(token) for token in prompt]  # type: ignore[arg-type]
    if not ids:
        raise PromptError("the prompt has no tokens")
    return ids


class _Row:
    """One answer in the making."""

    __slots__ = ("decoder", "finish_reason", "listener", "matcher", "prompt_tokens", "text", "tokens", "vocabulary")

    def __init__(
        self, vocabulary: TokenVocabulary, grammar: CompiledGrammar | None, prompt_tokens: int, listener: Callable[[str], None] | None
    ) -> None:
        self.vocabulary = vocabulary
        self.matcher: Matcher | None = None if grammar is None else grammar.matcher(vocabulary.stop_token_ids)
        self.prompt_tokens = prompt_tokens
        self.listener = listener
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.text: list[str] = []
        self.tokens: list[int] = []
        self.finish_reason: Literal["stop", "length"] | None = None

    @property
    def temperature(self) -> float | None:
        """What the grammar wants the next token to be sampled at, None where it does not say."""
        return None if self.matcher is None else self.matcher.temperature

    def accept(self, token: int) -> None:
        """Take the token that was sampled."""
        accepted = self.matcher is None or self.matcher.accept_token(token)
        assert accepted, f"the mask allowed token {token}, the matcher refuses it"
        if token in self.vocabulary.stop_token_ids:
            self.finish_reason = "stop"
        else:
            self.tokens.append(token)

    def say(self, room: int) -> None:
        """Tell the text of the last token, and end where there is no room for another."""
        if self.finish_reason is None:
            self._say(self.decoder.decode(self.vocabulary.token_bytes(self.tokens[-1]) or b""))
            if len(self.tokens) == room:
                self.finish_reason = "length"

    def generation(self, parser: Callable[[str], Any] | None, stats: GenerationStats) -> Generation:
        """The answer as it is handed out."""
        self._say(self.decoder.decode(b"", final=True))
        stop = self.finish_reason == "stop"
        complete = stop or self.matcher is None or self.matcher.is_completed()
        reason: Literal["stop", "length"] = "stop" if stop else "length"
        return Generation("".join(self.text), tuple(self.tokens), reason, complete, self.prompt_tokens, stats, parser)

    def _say(self, piece: str) -> None:
        if piece:
            self.text.append(piece)
            if self.listener is not None:
                self.listener(piece)


class _Sampler:
    """Draws tokens: the most likely one at temperature 0, else by chance, each row from its own seeded generator."""

    def __init__(self, temperature: float, seed: int | None, rows: int) -> None:
        import torch

        self.temperature = temperature
        self.generators = [torch.Generator() for _ in range(rows)]
        for index, generator in enumerate(self.generators):
            generator.seed() if seed is None else generator.manual_seed(seed + index)

    def __call__(self, logits: torch.Tensor, row: int, temperature: float | None) -> int:
        """A token for one row of logits, at the temperature that its grammar asks for, where it does."""
        if temperature is None:
            temperature = self.temperature
        if temperature == 0:
            return int(logits.argmax())
        scaled = (logits.double() - logits.max()) / temperature  # the largest is 0, so a tiny temperature cannot overflow it
        return int(scaled.softmax(-1).cpu().multinomial(1, generator=self.generators[row]))


def _inference() -> Any:
    """The context in which torch keeps no gradients."""
    import torch

    return torch.inference_mode()


def _forward(model: Any, prompts: list[list[int]], rows: list[_Row], stats: GenerationStats) -> Iterator[torch.Tensor]:
    """The logits after the prompts, then after each step's tokens, until every row is done; a done row is fed its last token again."""
    import torch

    width = max(map(len, prompts))
    device = model.device
    ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts], device=device)
    attention = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts], device=device)
    known = inspect.signature(model.forward).parameters
    last = {"logits_to_keep": 1} if "logits_to_keep" in known else {}
    cache = None
    while any(row.finish_reason is None for row in rows):
        start = time.perf_counter()
        positions = {"position_ids": (attention.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :]} if "position_ids" in known else {}
        output = model(input_ids=ids, attention_mask=attention, past_key_values=cache, use_cache=True, **positions, **last)
        cache = output.past_key_values
        logits = output.logits[:, -1].float()
        stats.model += time.perf_counter() - start
        stats.steps += 1
        yield logits
        ids = torch.tensor([[row.tokens[-1] if row.tokens else 0] for row in rows], device=device)
        attention = torch.cat([attention, attention.new_ones((len(rows), 1))], dim=1)


def _mask(logits: torch.Tensor, rows: list[_Row], running: list[int]) -> None:
    """Forbid what the grammars forbid: one call for all masks, one for all logits."""
    from .torch import apply_token_bitmask_inplace

    matchers = {index: matcher for index in running if (matcher := rows[index].matcher) is not None}
    if not matchers:
        return
    bitmask = allocate_token_bitmask(len(rows), rows[0].vocabulary.size)
    fill_bitmasks(list(matchers.values()), bitmask, list(matchers))
    for index, matcher in matchers.items():
        if not bitmask[index].any():
            raise VocabularyError(
                f"no token can follow {''.join(rows[index].text)[-40:]!r}, though the grammar goes on there: "
                f"the vocabulary has no token that begins with {matcher.next_bytes()[:8]!r}"
            )
    apply_token_bitmask_inplace(logits, bitmask, indices=None if len(matchers) == len(rows) else list(matchers))


def _parser(constraint: Constraint) -> Callable[[str], Any] | None:
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
