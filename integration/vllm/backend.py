"""The interface that vLLM calls: a backend for an engine and a grammar for a request.

Both have the methods of vLLM's abstract classes, and `register` makes them virtual subclasses of these.
vLLM compiles in one pool of threads and fills masks in another, on one backend.
The compiler is safe for both, and the engine lets go of the interpreter while it works.

An exception out of a fill or an acceptance would end vLLM's engine, and with it every request.
So a grammar that runs into a limit at run time leaves its request unmasked for a step, but never unchecked: `accept_tokens` refuses
what does not fit, and vLLM ends that one request with an error.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Self
from weakref import WeakKeyDictionary

import torch

from ...pda.exceptions import LimitError
from ...pda.limits import Limits
from ...pda.matcher import Matcher
from ...schema.emit.json_parts import DEFAULT_WHITESPACE
from ..compiler import CompiledGrammar, Compiler
from ..compiler.cache_key import parse_json
from ..environment import read_flag
from ..forced_drafts import Encode, forced_tokens
from ..tokenizers import Vocabulary
from .drafts import most_forced

_LOGGER: Final = logging.getLogger("vllm.plugins.stackmask")


@dataclass(frozen=True)
class Settings:
    """Options that vLLM lacks, read from the environment of its processes.

    `STACKMASK_VLLM_WHITESPACE`: whitespace in JSON, "printed" (what JSON printers write), "single", "compact", "flexible" or a regex.
    `STACKMASK_VLLM_EXTRA_PROPERTIES`: "schema" allows undeclared keys where a schema does, "closed" allows none where it declares some.
    `STACKMASK_VLLM_DISTINCT_KEYS`: 1 allows no key of an object twice, undeclared ones included.
    `STACKMASK_VLLM_COMPILE_SECONDS`: the budget of one compilation.
    `STACKMASK_VLLM_CACHE_MB`: the size of each process's cache of compiled grammars.
    `STACKMASK_VLLM_FORCED_DRAFTS`: 0 adds no forced text to the drafts of n-gram speculation.
    """

    whitespace: str = DEFAULT_WHITESPACE
    extra_properties: str = "schema"
    distinct_keys: bool = False
    compile_seconds: float = 10.0
    cache_megabytes: int = 512
    forced_drafts: bool = True

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self:
        """The settings, with defaults for those that are not set."""
        environment = os.environ if environment is None else environment
        get = environment.get
        return cls(
            whitespace=get("STACKMASK_VLLM_WHITESPACE") or cls.whitespace,
            extra_properties=get("STACKMASK_VLLM_EXTRA_PROPERTIES") or cls.extra_properties,
            distinct_keys=read_flag(environment, "STACKMASK_VLLM_DISTINCT_KEYS", cls.distinct_keys),
            compile_seconds=float(get("STACKMASK_VLLM_COMPILE_SECONDS") or cls.compile_seconds),
            cache_megabytes=int(get("STACKMASK_VLLM_CACHE_MB") or cls.cache_megabytes),
            forced_drafts=read_flag(environment, "STACKMASK_VLLM_FORCED_DRAFTS", cls.forced_drafts),
        )


class Front:
    """Compiles vLLM's six types of request for one tokenizer and one width of the logits."""

    def __init__(self, tokenizer: Any, vocab_size: int, settings: Settings) -> None:
        self._settings = settings
        limits = Limits(compile_seconds=settings.compile_seconds)
        self._compiler = Compiler(_vocabulary(tokenizer, vocab_size), limits=limits, cache_bytes=settings.cache_megabytes << 20)

    @property
    def compiler(self) -> Compiler:
        """The compiler, with its cache."""
        return self._compiler

    @property
    def settings(self) -> Settings:
        """The options of the environment."""
        return self._settings

    def compile(self, request_type: str, specification: str) -> CompiledGrammar:
        """The grammar of a request: the name of vLLM's type and the text that vLLM makes of the request."""
        return _COMPILE[request_type](self, specification)

    def _json(self, specification: str | bool) -> CompiledGrammar:
        given = self._settings
        return self._compiler.json_schema(
            specification, whitespace=given.whitespace, extra_properties=given.extra_properties, distinct_keys=given.distinct_keys
        )

    def _json_object(self, _: str) -> CompiledGrammar:
        given = self._settings
        return self._compiler.json_schema({"type": "object"}, whitespace=given.whitespace, distinct_keys=given.distinct_keys)

    def _regex(self, specification: str) -> CompiledGrammar:
        return self._compiler.regex(specification)

    def _grammar(self, specification: str) -> CompiledGrammar:
        return self._compiler.ebnf(specification) if is_ebnf(specification) else self._compiler.lark(specification)

    def _choice(self, specification: str) -> CompiledGrammar:
        return self._compiler.choice(parse_json(specification, self._compiler.limits))

    def _structural_tag(self, specification: str) -> CompiledGrammar:
        return self._compiler.structural_tag(specification)


_COMPILE: Final[Mapping[str, Callable[[Front, str], CompiledGrammar]]] = MappingProxyType(
    {
        "JSON": Front._json,
        "JSON_OBJECT": Front._json_object,
        "REGEX": Front._regex,
        "GRAMMAR": Front._grammar,
        "CHOICE": Front._choice,
        "STRUCTURAL_TAG": Front._structural_tag,
    }
)
REQUEST_TYPES: Final = frozenset(_COMPILE)


class Fronts:
    """The fronts of a process, which validation and the engine share where both run in it; a tokenizer that is gone takes its own along."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._fronts: WeakKeyDictionary[Any, dict[int, Front]] = WeakKeyDictionary()

    def of(self, tokenizer: Any, vocab_size: int) -> Front:
        """The front for a tokenizer and a width, made at its first use."""
        with self._lock:
            sizes = self._fronts.setdefault(tokenizer, {})
            if vocab_size not in sizes:
                sizes[vocab_size] = Front(tokenizer, vocab_size, self._settings)
            return sizes[vocab_size]


class Grammar:
    """The state of one request. Rejected tokens leave it as it was."""

    __slots__ = ("__weakref__", "_matcher", "_reported", "_stops")

    def __init__(self, grammar: CompiledGrammar, stop_token_ids: Collection[int] | None) -> None:
        self._stops = frozenset(stop_token_ids or grammar.vocabulary.stop_token_ids)
        self._matcher = grammar.matcher(sorted(self._stops))
        self._reported = False

    @property
    def matcher(self) -> Matcher:
        """The matcher behind it."""
        return self._matcher

    def accept_tokens(self, request_id: str, tokens: Sequence[int]) -> bool:
        """Go on by tokens, up to the end of the text; what vLLM hands over after it is ignored."""
        matcher = self._matcher
        for count, token in enumerate(tokens):
            if matcher.is_terminated():
                break
            try:
                accepted = matcher.accept_token(token)
            except (LimitError, ValueError) as error:  # ValueError: the id is outside the vocabulary
                self._report(error, request_id)
                accepted = False
            if not accepted:
                matcher.rollback(count)
                return False
        return True

    def validate_tokens(self, tokens: Sequence[int]) -> list[int]:
        """The tokens that could be accepted one after the other, up to the end of the text and with the stop token."""
        matcher = self._matcher
        if matcher.is_terminated():
            return []
        try:
            accepted = list(tokens[: matcher.validate_tokens(tokens)])
            if self._stops.isdisjoint(accepted):
                return accepted
            fork = matcher.fork()  # the engine lets stop tokens follow a stop token
            for count, token in enumerate(accepted, 1):
                if fork.accept_token(token) and fork.is_terminated():
                    return accepted[:count]
        except (LimitError, ValueError) as error:
            self._report(error)
            return []
        return accepted

    def forced_tokens(self, before: Sequence[int], drafts: Sequence[int], most: int, encode: Encode) -> list[int]:
        """At most `most` tokens of the text that must follow drafts that fit, cut as the tokenizer does behind the tokens `before` them."""
        try:
            fork = self._matcher.fork()
            if most <= 0 or not all(fork.accept_token(token) for token in drafts) or fork.is_terminated():
                return []
            return forced_tokens(fork, [*before, *drafts], most, encode)
        except (LimitError, ValueError) as error:
            self._report(error)
            return []

    def rollback(self, num_tokens: int) -> None:
        """Undo the last tokens, the end of the text included."""
        self._matcher.rollback(num_tokens)

    def fill_bitmask(self, bitmask: torch.Tensor, batch_index: int) -> None:
        """Write a whole row."""
        try:
            self._matcher.fill_next_token_bitmask(bitmask, batch_index)
        except LimitError as error:
            self._report(error)
            bitmask[batch_index].fill_(-1)

    def is_terminated(self) -> bool:
        """Whether a stop token was accepted."""
        return self._matcher.is_terminated()

    def reset(self) -> None:
        """Back to the beginning."""
        self._matcher.reset()

    def _report(self, error: Exception, request_id: str = "") -> None:
        """Say once why a request is about to end."""
        if not self._reported:
            self._reported = True
            _LOGGER.error("a grammar cannot continue%s: %s", f" (request {request_id})" if request_id else "", error)


class Backend:
    """The backend of an engine: vLLM makes one at its first structured request."""

    def __init__(self, vllm_config: Any, tokenizer: Any, vocab_size: int, *, fronts: Fronts | None = None) -> None:
        self.vllm_config = vllm_config
        self.tokenizer = tokenizer
        self.vocab_size = vocab_size
        self._front = (fronts or Fronts(Settings.from_environment())).of(tokenizer, vocab_size)
        self.most_forced = most_forced(vllm_config) if self._front.settings.forced_drafts else 0

    def encode(self, text: str) -> list[int]:
        """The tokens of a text by itself."""
        mistral = getattr(self.tokenizer, "mistral", None)
        if mistral is not None:
            ids: list[int] = mistral.instruct_tokenizer.tokenizer.encode(text, bos=False, eos=False)
        else:
            ids = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    @property
    def front(self) -> Front:
        """The compiler of its requests."""
        return self._front

    def compile_grammar(self, request_type: Any, grammar_spec: str, stop_token_ids: Collection[int] | None = None) -> Grammar:
        """The grammar of a request, at its beginning; safe to call from any number of threads.

        Stop tokens that are wider than the logits, which some models' configurations name, cannot be generated and are left out.
        """
        stops = {token for token in stop_token_ids or () if token < self.vocab_size}
        return Grammar(self._front.compile(request_type.name, grammar_spec), stops)

    def allocate_token_bitmask(self, max_num_seqs: int) -> torch.Tensor:
        """A bitmask of as many rows, as wide as the model's logits, with every token allowed."""
        return torch.full((max_num_seqs, (self.vocab_size + 31) // 32), -1, dtype=torch.int32)

    def destroy(self) -> None:
        """Forget the compiled grammars that no request uses."""
        self._front.compiler.clear_cache()


def is_ebnf(text: str) -> bool:
    """Whether vLLM takes a grammar for EBNF, and not for Lark: outside comments, a line defines a rule by `::=`.

    >>> is_ebnf('root ::= "a"'), is_ebnf('start: "a" // ::=')
    (True, False)
    """
    return any("::=" in re.split("#|//", line, maxsplit=1)[0] for line in text.split("\n"))


def _vocabulary(tokenizer: Any, vocab_size: int) -> Vocabulary:
    """The vocabulary of one of vLLM's tokenizers: its wrapper around mistral-common, or a Hugging Face tokenizer."""
    mistral = getattr(tokenizer, "mistral", None)
    return Vocabulary.from_transformers(tokenizer, vocab_size) if mistral is None else Vocabulary.from_mistral(mistral, vocab_size)
