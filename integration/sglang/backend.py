"""Grammars for SGLang out of what requests ask for: JSON, regular expressions, EBNF and structural tags.

Front ends run in separate processes: in a thread they would hold the interpreter, and the scheduler would wait for it at every step.
What cannot be enforced is refused: the request gets the reason, and nothing is generated.

A server's ranks have to agree on which request fails. SGLang makes them agree on a grammar that is not ready in time, and takes for granted
that all other failures are the same on every rank. One that ran out of time or memory need not be, so with several ranks it is held back:
for SGLang the grammar is never ready, and its own time limit fails the request on all of them.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, Self

import torch
from sglang.srt.constrained.base_grammar_backend import (
    BaseGrammarBackend,
    BaseGrammarObject,
    GrammarStats,
    InvalidGrammarObject,
    register_vocab_mask_buffer,
)
from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarBackend
from sglang.srt.environ import envs
from sglang.srt.parser.reasoning_parser import ReasoningParser
from sglang.srt.runtime_context import get_parallel, get_serving, get_spec

from ...pda.exceptions import GrammarError, LimitError
from ...pda.limits import Limits
from ...pda.regex import regex_grammar
from ...schema.emit.json_parts import DEFAULT_WHITESPACE
from ..compiler import CompiledGrammar, Compiler
from ..environment import read_flag
from ..processes.pool import WorkerCompiler
from ..tokenizers import Vocabulary
from . import drafts
from . import grammar as masks
from .answer_frames import ANY_JSON, completed_tag, content_of
from .grammar import Grammar
from .grammar_table import GrammarTable

_LOGGER: Final = logging.getLogger(__name__)

LOCAL_LIMITS: Final = frozenset({"compile_seconds", "memory"})
"""The limits that one machine may exceed and another not."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The backend's settings from SGLang's options, and from its own: environment variables that begin with `STACKMASK_SGLANG_`.

    `whitespace` in JSON follows SGLang's `--constrained-json-...` options; `blanks` is the same as a number, where it is one.
    `extra_properties` (EXTRA_PROPERTIES) is "schema", or "closed" for no undeclared keys where a schema declares some.
    `distinct_keys` (DISTINCT_KEYS): 1 allows no key of an object twice, undeclared ones included.
    `compile_seconds` (COMPILE_SECONDS) bounds a compilation, and is never more than half of SGLang's own time limit.
    `cache_bytes` (CACHE_MB, in MiB) bounds the grammars that are kept, and the engine's tables of these.
    `forced_drafts` (FORCED_DRAFTS): 0 makes no drafts of forced text where the server speculates by n-grams.
    `workers` (WORKERS) is the number of processes that compile, started when they are needed; 0 compiles in a thread of the scheduler.
    `ranks_agree` says that failures for want of time are held back.
    """

    whitespace: str = DEFAULT_WHITESPACE
    blanks: int | None = None
    extra_properties: str = "schema"
    distinct_keys: bool = False
    compile_seconds: float = 10.0
    cache_bytes: int = 512 << 20
    forced_drafts: bool = True
    workers: int = 4
    ranks_agree: bool = False

    @property
    def json_options(self) -> dict[str, Any]:
        """The options of JSON, which the compiler's method and the format inside a structural tag call by the same names."""
        return {"whitespace": self.whitespace, "extra_properties": self.extra_properties, "distinct_keys": self.distinct_keys}

    @classmethod
    def from_server(cls, server_args: Any, environment: Mapping[str, str] | None = None) -> Self:
        """The settings of this process."""
        environment = os.environ if environment is None else environment
        get = environment.get
        patience = envs.SGLANG_GRAMMAR_MAX_POLL_ITERATIONS.get() * envs.SGLANG_GRAMMAR_POLL_INTERVAL.get()
        seconds = min(float(get("STACKMASK_SGLANG_COMPILE_SECONDS") or cls.compile_seconds), patience / 2)
        first = get_parallel().pp_rank == 0
        whitespace, blanks = _whitespace(get_serving())
        return cls(
            whitespace=whitespace,
            blanks=blanks,
            extra_properties=get("STACKMASK_SGLANG_EXTRA_PROPERTIES") or cls.extra_properties,
            distinct_keys=read_flag(environment, "STACKMASK_SGLANG_DISTINCT_KEYS", cls.distinct_keys),
            # INVARIANT: later pipeline stages do what the first decided, so they must not fail where it did not
            compile_seconds=seconds if first else 10 * seconds,
            cache_bytes=int(get("STACKMASK_SGLANG_CACHE_MB") or cls.cache_bytes >> 20) << 20,
            forced_drafts=read_flag(environment, "STACKMASK_SGLANG_FORCED_DRAFTS", cls.forced_drafts),
            workers=int(get("STACKMASK_SGLANG_WORKERS") or cls.workers),
            ranks_agree=server_args.tp_size > 1 and first,
        )


def create(server_args: Any, tokenizer: Any, vocab_size: int, eos_token_ids: Collection[int] | None) -> BaseGrammarBackend:
    """The backend of a scheduler; where the server has a reasoning parser, in SGLang's wrapper, as SGLang does for its own."""
    settings = Settings.from_server(server_args)
    if settings.forced_drafts and get_spec().speculative_algorithm == "NGRAM":
        drafts.install()
    backend = Backend(tokenizer, vocab_size, eos_token_ids, settings)
    serving = get_serving()
    if not serving.reasoning_parser:
        return backend
    parser = ReasoningParser(model_type=serving.reasoning_parser, stream_reasoning=False, tokenizer=tokenizer)
    if not parser.detector.get_think_end_token_ids(tokenizer):
        return backend  # of which the scheduler has warned
    return ReasonerBackend(backend, parser, tokenizer, enable_strict_thinking=serving.enable_strict_thinking)


class Overrun(InvalidGrammarObject):  # type: ignore[misc]
    """A grammar that took too much time or memory to compile here; another rank may have it."""


class _Ranked(BaseGrammarBackend):  # type: ignore[misc]
    """The common part of the backend and its wrapper: the table, and agreement between ranks."""

    _settings: Settings

    def get_cached_or_future_value(self, key: tuple[str, str], require_reasoning: bool) -> tuple[Any, bool]:
        """A grammar for a request, and whether it was in the table; if not, a future of it."""
        value, is_hit = super().get_cached_or_future_value(key, require_reasoning)
        return (value if is_hit or not self._settings.ranks_agree else _held_back(value)), is_hit


class Backend(_Ranked):
    """A grammar backend of SGLang."""

    allocate_vocab_mask = staticmethod(masks.allocate_vocab_mask)
    move_vocab_mask = staticmethod(masks.move_vocab_mask)
    apply_vocab_mask = staticmethod(masks.apply_vocab_mask)
    set_token_filter = staticmethod(masks.set_token_filter)

    def __init__(self, tokenizer: Any, vocab_size: int, eos_token_ids: Collection[int] | None, settings: Settings) -> None:
        super().__init__()
        self._settings = settings
        self.cache = GrammarTable(settings.cache_bytes)
        self._limits = Limits(compile_seconds=settings.compile_seconds)
        self.vocabulary = _vocabulary(tokenizer, vocab_size, eos_token_ids)
        self.compiler = self._compiler(self.vocabulary)
        self._framing = self.compiler

    def dispatch_json(self, key_string: str) -> BaseGrammarObject:
        """The instances of a JSON Schema, or any JSON."""
        schema = True if key_string == ANY_JSON else key_string
        return self._grammar("json", key_string, "json_schema", schema, **self._settings.json_options)

    def dispatch_regex(self, key_string: str) -> BaseGrammarObject:
        """The texts that a regular expression matches as a whole."""
        return self._grammar("regex", key_string, "regex", key_string)

    def dispatch_ebnf(self, key_string: str) -> BaseGrammarObject:
        """The texts of the rule `root` of a grammar in EBNF."""
        return self._grammar("ebnf", key_string, "ebnf", key_string)

    def dispatch_structural_tag(self, key_string: str) -> BaseGrammarObject:
        """Free text with tags whose content is constrained, in either of the forms that SGLang sends."""
        try:
            tag = completed_tag(key_string, self._settings.blanks, self._limits)
        except (GrammarError, LimitError) as error:
            return _invalid("structural_tag", error)
        return self._grammar("structural_tag", key_string, "structural_tag", tag)

    def reserve_framing_tokens(self, token_ids: Sequence[int]) -> None:
        """From now on, these tokens have no text inside answer frames: only the frame can ask for them."""
        reserved = set(token_ids)
        tokens = [None if token in reserved else data for token, data in enumerate(self.vocabulary.tokens)]
        old = self.vocabulary
        names = {name: token for name, token in old.special.items() if token in reserved or old.token_bytes(token) is None}
        self._framing = self._compiler(Vocabulary.from_bytes(tokens, stop_token_ids=old.stop_token_ids, special=names, size=old.size))

    def compile_framed_grammar(self, grammar: Grammar, frame: Callable[[dict[str, Any]], dict[str, Any]]) -> BaseGrammarObject:
        """A request's grammar in an answer frame, which may also hold the thinking before it."""
        try:
            content = content_of(grammar.kind, grammar.specification)
            if grammar.kind == "json":
                content |= self._settings.json_options
            tag = json.dumps(frame(content))
            value = completed_tag(tag, self._settings.blanks, self._limits)
        except (GrammarError, LimitError) as error:
            return _invalid("structural_tag", error)
        return self._grammar("structural_tag", tag, "structural_tag", value, framed=True)

    @property
    def is_support_token_filter(self) -> bool:
        """Whether `set_token_filter` does anything, which strict thinking asks for."""
        return True

    def initialize_vocab_mask_buffer(self, name: str, vocab_size: int, max_rows: int, device: object) -> torch.Tensor:
        """A mask that is used again for every batch."""
        buffer: torch.Tensor = register_vocab_mask_buffer(name, masks.allocate_vocab_mask(vocab_size, max_rows, device), max_rows)
        return buffer

    def reset(self) -> None:
        """Forget every grammar."""
        super().reset()
        self.compiler.clear_cache()
        self._framing.clear_cache()

    def _compiler(self, vocabulary: Vocabulary) -> Compiler:
        """A compiler with a small cache of its own: the table keeps grammars, this one is for requests that come at the same time."""
        cache = self._settings.cache_bytes // 8
        if not self._settings.workers:
            return Compiler(vocabulary, limits=self._limits, cache_bytes=cache)
        compiler = WorkerCompiler(vocabulary, limits=self._limits, cache_bytes=cache, workers=self._settings.workers)
        compiler.run(compiler.start_workers)  # while the server starts, when nobody needs the processor more
        return compiler

    def _grammar(
        self, kind: str, key_string: str, method: str, specification: Any, *, framed: bool = False, **options: Any
    ) -> BaseGrammarObject:
        compiler = self._framing if framed else self.compiler
        try:
            compiled: CompiledGrammar = compiler.submit(method, specification, **options).result()
        except (GrammarError, LimitError) as error:
            return _invalid(kind, error)
        size = len(key_string) if kind == "ebnf" else None
        return Grammar(compiled, kind, key_string, GrammarStats(dispatch_type=kind, ebnf_size=size))


class ReasonerBackend(_Ranked, ReasonerGrammarBackend):  # type: ignore[misc]
    """SGLang's wrapper, by which a grammar begins after the end of the thinking, with the table of our own."""

    def __init__(self, backend: Backend, parser: Any, tokenizer: Any, enable_strict_thinking: bool = False) -> None:
        super().__init__(backend, parser, tokenizer, enable_strict_thinking)
        self._settings = backend._settings
        self.cache = GrammarTable(self._settings.cache_bytes)

    def reset(self) -> None:
        """Forget every grammar."""
        super().reset()
        self.grammar_backend.reset()


def _invalid(kind: str, error: Exception) -> InvalidGrammarObject:
    """The failure that SGLang tells the request of."""
    local = isinstance(error, LimitError) and error.limit in LOCAL_LIMITS
    _LOGGER.warning("refused a grammar of type %s: %s", kind, error)
    invalid = (Overrun if local else InvalidGrammarObject)(str(error))
    invalid.grammar_stats = GrammarStats(dispatch_type=kind, is_grammar_aborted=True, num_timeout=int(local))
    return invalid


def _held_back(future: Future[Any]) -> Future[Any]:
    """A future that ends as another does, and never where that ends in an Overrun."""
    seen: Future[Any] = Future()

    def pass_on(done: Future[Any]) -> None:
        if done.cancelled():
            seen.cancel()
        elif done.exception() is None and isinstance(done.result(), Overrun):
            return
        elif seen.set_running_or_notify_cancel():
            if done.exception() is not None:
                seen.set_exception(done.exception())
            else:
                seen.set_result(done.result())

    seen.add_done_callback(lambda done: done.cancelled() and future.cancel())
    future.add_done_callback(pass_on)
    return seen


def _vocabulary(tokenizer: Any, vocab_size: int, eos_token_ids: Collection[int] | None) -> Vocabulary:
    """The vocabulary of a tokenizer of SGLang's, as wide as the model's logits."""
    stops = sorted(eos_token_ids) if eos_token_ids else None
    encoding = getattr(tokenizer, "tokenizer", None)
    if hasattr(encoding, "_mergeable_ranks"):  # SGLang's own wrapper around tiktoken
        return Vocabulary.from_tiktoken(encoding, vocab_size, [tokenizer.eos_token_id] if stops is None else stops)
    return Vocabulary.from_transformers(tokenizer, vocab_size, stops)


def _whitespace(serving: Any) -> tuple[str, int | None]:
    """Whitespace in JSON as SGLang's options have it; two of them are an error, where SGLang would use the one that its backend knows."""
    pattern = serving.constrained_json_whitespace_pattern
    blanks = serving.constrained_json_max_whitespace_cnt
    compact = serving.constrained_json_disable_any_whitespace
    if (pattern is not None) + bool(compact) + (blanks is not None) > 1:
        raise ValueError("of the options --constrained-json-..., stackmask takes one: a pattern, no whitespace, or a count")
    if pattern is not None:
        regex_grammar(pattern)  # a wrong one is an error when the server starts
        return str(pattern), None
    if blanks is not None:
        return rf"[ \t\n\r]{{0,{int(blanks)}}}", int(blanks)
    return ("compact", 0) if compact else (DEFAULT_WHITESPACE, None)
