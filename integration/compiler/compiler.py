"""Specifications compiled to grammars for one vocabulary: the facade over front ends, limits, threads and the cache that they share."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cache, partial
from types import FrameType, MappingProxyType
from typing import Any, Final
from weakref import WeakSet

from ...pda.exceptions import (
    GrammarError,
    LimitError,
    StackmaskWarning,
    UnsatisfiableError,
)
from ...pda.grammar import Grammar
from ...pda.limits import Limits
from ...pda.vocabulary import Vocabulary
from ...schema.emit.json_parts import DEFAULT_WHITESPACE, Whitespace
from .cache import Cache, CacheInfo, SharedFuture
from .checking import check_text
from .compiled_grammar import CompiledGrammar
from .jobs import NO_DOCUMENTS, PYTHONS_ERRORS, Job, JobReader, own_error

_PACKAGE: Final = __name__.partition(".")[0]
LARGE_SECONDS: Final = 0.02
"""A compilation that takes longer than a step may makes the first mask, too: for thousands of rules or keys this takes more than a step."""
MOST_WARNINGS: Final = 100
"""The most warnings that one schema issues."""
_PRINTED: Final[dict[str, dict[Any, Any]]] = {}
"""The registries of `warnings.warn_explicit`, by the file of the caller."""
_MOST_PRINTED: Final = 1_000
"""The most texts in all of them together."""


class Compiler:
    """Compiles specifications for one vocabulary, each once: all threads share a cache of at most `cache_bytes`.

    `submit` compiles on up to `threads` threads; every other method compiles in the caller's.
    """

    def __init__(
        self, vocabulary: Vocabulary, *, limits: Limits | None = None, cache_bytes: int = 512 << 20, threads: int | None = None
    ) -> None:
        if not isinstance(vocabulary, Vocabulary):
            raise TypeError(f"a Compiler takes a stackmask.Vocabulary, not {type(vocabulary).__name__}")
        self._vocabulary = vocabulary
        self._limits = limits or Limits()
        self._threads = threads or _default_threads()
        self._executor: Executor
        self._begin(cache_bytes)
        _COMPILERS.add(self)

    def _begin(self, cache_bytes: int) -> None:
        """Start with an empty cache, and with threads of this process."""
        self._cache: Cache[CompiledGrammar] = Cache(cache_bytes)
        self._jobs = JobReader(self._vocabulary, self._limits)
        self._executor = ThreadPoolExecutor(self._threads, "stackmask-compile")

    def _begin_in_child(self) -> None:
        """Start again in a forked process: the parent's threads are gone, and may have left locks that are never released."""
        self._begin(self._cache.capacity)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle its vocabulary and its options, but not its cache."""
        options: dict[str, Any] = {"limits": self._limits, "cache_bytes": self._cache.capacity, "threads": self._threads}
        return partial(type(self), self._vocabulary, **options), ()

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of its grammars."""
        return self._vocabulary

    @property
    def limits(self) -> Limits:
        """The limits of each compilation."""
        return self._limits

    @property
    def cache_info(self) -> CacheInfo:
        """The contents of the cache, and its hits."""
        return self._cache.info

    def clear_cache(self) -> None:
        """Forget every grammar; those in use stay valid."""
        self._cache.clear()

    def json_schema(
        self,
        schema: Mapping[str, Any] | bool | str | type,
        *,
        whitespace: Whitespace = DEFAULT_WHITESPACE,
        property_order: str = "schema",
        documents: Mapping[str, Mapping[str, Any] | bool] = NO_DOCUMENTS,
        lenient: bool = False,
        format: str = "enforce",
        escapes: str = "needed",
        extra_properties: str | None = None,
        strict_keywords: bool = False,
        distinct_keys: bool | None = None,
    ) -> CompiledGrammar:
        """The instances of a JSON Schema: a mapping, a boolean, JSON text, or a type such as a pydantic model or a dataclass.

        `whitespace` between the parts is "printed" (as JSON printers write: one blank or one line break with indentation), "single" (one
        blank after `,` and `:`), "compact" (none), "flexible" (at most 40 blanks in every gap), a regex, or fixed `Separators`.
        `property_order` is "schema" or "any". `documents` maps URIs that references name to other schemas; nothing is ever fetched.
        `lenient` turns keywords that cannot be enforced into entries of the report, instead of an error.
        `extra_properties` is "schema", which allows undeclared keys as the schema does, or "closed", which allows none unless
        the schema mentions them. The default is "closed" for types, and "schema" otherwise.
        `distinct_keys`: no key of an object comes twice, at the cost of remembering keys. The default is true for types, since a Python
        dict keeps only one of the two, and false otherwise: then an undeclared key may come twice, and the report says where.
        A keyword that has no effect but was probably meant to, such as a misspelt one, is a `StackmaskWarning`; `strict_keywords` makes
        it an error.
        """
        try:
            job = self._jobs.json_schema(
                schema,
                whitespace=whitespace,
                property_order=property_order,
                documents=documents,
                lenient=lenient,
                format=format,
                escapes=escapes,
                extra_properties=extra_properties,
                strict_keywords=strict_keywords,
                distinct_keys=distinct_keys,
            )
        except PYTHONS_ERRORS as error:
            raise own_error(error) from error
        grammar = self._get(job)
        messages = grammar.warnings
        if messages:
            warn_of(messages)
        return grammar

    def json(self, *, whitespace: Whitespace = DEFAULT_WHITESPACE, escapes: str = "needed", distinct_keys: bool = False) -> CompiledGrammar:
        """Any JSON value of any depth; with `distinct_keys` no key of an object comes twice."""
        return self.json_schema(True, whitespace=whitespace, escapes=escapes, distinct_keys=distinct_keys)

    def regex(self, pattern: str) -> CompiledGrammar:
        """The texts that match a regular expression as a whole."""
        return self._get(self._jobs.read("regex", pattern))

    def ebnf(self, text: str, root: str = "root") -> CompiledGrammar:
        """The texts of a grammar in EBNF (GBNF and similar notations); it can name special tokens of the vocabulary."""
        return self._get(self._jobs.read("ebnf", text, root))

    def lark(
        self,
        text: str,
        start: str = "start",
        *,
        grammars: Mapping[str, str | Mapping[str, Any] | bool | type | Grammar] = MappingProxyType({}),
        whitespace: str = DEFAULT_WHITESPACE,
    ) -> CompiledGrammar:
        """The texts of a grammar in Lark's language; it can name special tokens of the vocabulary.

        `grammars` defines the names that the text uses as `@name`: Lark texts, JSON Schemas as mappings, booleans or types, or grammars.
        If one of them is a grammar, the result is not cached.
        `whitespace` applies to JSON inside the text.
        """
        return self._get(self._jobs.read("lark", text, start, grammars=grammars, whitespace=whitespace))

    def choice(self, options: Sequence[str]) -> CompiledGrammar:
        """Exactly one of the given texts."""
        return self._get(self._jobs.read("choice", options))

    def structural_tag(self, tag: Mapping[str, Any] | str) -> CompiledGrammar:
        """Free text with constrained tags, given as a mapping or JSON text; it can name special tokens of the vocabulary.

        Inner tags that were compiled before, such as an agent's tools in every request, are not compiled again.
        """
        return self._get(self._jobs.read("structural_tag", tag, held=True))

    def submit(self, kind: str, *arguments: Any, **options: Any) -> SharedFuture[CompiledGrammar]:
        """Call the method named `kind` in a thread and return a future; one compilation serves all callers with the same specification.

        A wrong specification is an exception of the future, never of this call. Its `begun` is done when the compilation starts.
        """
        try:
            job = self.read(kind, *arguments, **options)
        except (GrammarError, LimitError) as error:
            return SharedFuture.failed(error)
        return self._cache.submit(job.key, partial(self.compile, job), self._executor)

    def check(self, text: str | None, kind: str, *arguments: Any, **options: Any) -> SharedFuture[dict[str, Any]]:
        """Facts about a specification and a text in it (`checking.py`), as a future; nothing is cached."""
        future: SharedFuture[dict[str, Any]] = SharedFuture()

        def work() -> None:
            future.begin()
            try:
                future.set_result(check_text(self.compile(self.read(kind, *arguments, **options)), text))
            except Exception as error:
                future.set_exception(error)

        self._executor.submit(work)
        return future

    def start(self, job: Job, make: Callable[[], CompiledGrammar]) -> SharedFuture[CompiledGrammar]:
        """The grammar of a specification, made by `make` on one of the compiler's threads unless it exists or is being made."""
        return self._cache.submit(job.key, lambda: make().described(job.tell, job.memory), self._executor)

    def run(self, call: Callable[[], object]) -> None:
        """Make a call on one of the compiler's threads when one is free, but not after the compiler is closed."""
        with contextlib.suppress(RuntimeError):
            self._executor.submit(call)

    def close(self) -> None:
        """Start nothing more in other threads, and give up the calls that wait for one."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def read(self, kind: str, *arguments: Any, **options: Any) -> Job:
        """Only check and normalise the specification of the method named `kind`; for callers that compile elsewhere.

        `job.front_end()` returns its grammar, without the engine's tables and uncached, and the report on it.
        """
        return self._jobs.read(kind, *arguments, **options)

    def _get(self, job: Job) -> CompiledGrammar:
        return self._cache.get(job.key, partial(self.compile, job))

    def compile(self, job: Job) -> CompiledGrammar:
        """Compile a specification that was read, without caching it; if it generates nothing, the front end says why."""
        start = time.monotonic()
        try:
            grammar, report = job.make()
            try:
                compiled = CompiledGrammar.build(self._vocabulary, job.kind, grammar, report, start, self._limits)
            except UnsatisfiableError as error:
                raise error if job.explain is None else job.explain() from None
            if time.monotonic() - start > LARGE_SECONDS:
                compiled.make_first_mask()
            return compiled.described(job.tell, job.memory)
        except PYTHONS_ERRORS as error:
            raise own_error(error) from error


@cache
def _default_threads() -> int:
    """The number of threads of a compiler by default. PERF: the system reads the count of processors from a file."""
    return min(8, os.cpu_count() or 1)


def warn_of(messages: Sequence[str]) -> None:
    """Issue each message as a `StackmaskWarning` at the line that called the package, of very many the first ones.

    Python keeps every text that it has printed in the module that it warned, for ever. A server's clients write these texts, so they are
    kept here, and dropped when they are many: then one may be printed again.
    """
    caller = _caller()
    file, line, module = caller.f_code.co_filename, caller.f_lineno, caller.f_globals.get("__name__") or "<string>"
    printed = _PRINTED.setdefault(file, {})
    for message in messages[:MOST_WARNINGS]:
        warnings.warn_explicit(message, StackmaskWarning, file, line, module, printed)
    if len(messages) > MOST_WARNINGS:
        more = f"and {len(messages) - MOST_WARNINGS} other warnings, which `grammar.warnings` lists"
        warnings.warn_explicit(more, StackmaskWarning, file, line, module, printed)
    if sum(map(len, _PRINTED.values())) > _MOST_PRINTED:
        _PRINTED.clear()


def _caller() -> FrameType:
    """The innermost frame outside of the package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        frame = frame.f_back
    return frame


_COMPILERS: Final[WeakSet[Compiler]] = WeakSet()


def _begin_in_child() -> None:
    """Reset compilers after a fork."""
    for compiler in list(_COMPILERS):
        compiler._begin_in_child()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_begin_in_child)
