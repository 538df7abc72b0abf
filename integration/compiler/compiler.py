"""Specifications compiled to grammars, for one vocabulary.

    Compiler           front ends, limits, a cache that all threads share
    CompiledGrammar    immutable; makes one matcher per request

A specification is normalised first, so that the same schema as text, as a mapping or as a pydantic model is compiled once.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property, partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self
from weakref import WeakSet

from ...pda import html
from ...pda.captures import CaptureReader
from ...pda.choice import choice_grammar
from ...pda.embed import compact
from ...pda.engine import KernelGrammar
from ...pda.exceptions import (
    EbnfError,
    GrammarError,
    LarkError,
    LimitError,
    SchemaError,
    StackmaskWarning,
    StructuralTagError,
    UnsatisfiableError,
    caret,
    shown,
)
from ...pda.gbnf import Gbnf, to_gbnf
from ...pda.grammar import TOKENS, Grammar, GrammarBuilder, NodeId, memory_of
from ...pda.limits import Limits
from ...pda.matcher import Matcher, Tell
from ...pda.packed import PackedGrammar
from ...pda.regex import regex_grammar
from ...pda.vocabulary import Vocabulary
from ...schema.dialect.report import Report
from ...schema.emit.json_parts import DEFAULT_WHITESPACE, Separators, Whitespace
from ...schema.json_schema import json_schema_grammar, json_schema_node, unsatisfiable
from ...schema.refusal import Refusals, choice_refusal
from ...schema.structural_tag import StructuralTags
from .cache import Cache, CacheInfo, SharedFuture
from .cache_key import has_free_keys, parse_json, read_schema, schema_key, schema_of_key
from .checking import check_text
from .rule_range import rule_range
from .serialization import from_bytes, to_bytes
from .structural_tag_key import TagKey, entries_of_key, tag_key, tag_of_key

_PACKAGE: Final = __name__.partition(".")[0]
_SCHEMAS: Final = (dict, bool, str, Mapping)  # a dict first: the check of an abstract class is slower
SHOWN_ENTRIES: Final = 500
SHOWN_NODES: Final = 20_000
SHOWN_TEXT: Final = 20_000
"""The most that a notebook shows of a grammar: entries of its report, nodes of a grammar whose rules are shown, and their characters."""

FrontEnd = Callable[[], tuple[Grammar, Report | None]]


@dataclass(frozen=True, slots=True)
class CompileStats:
    """The cost of a compilation: wall-clock seconds in the front end and in the engine, and the size of the grammar between the two."""

    kind: str
    front_end_seconds: float
    engine_seconds: float
    rules: int
    nodes: int

    @property
    def seconds(self) -> float:
        """The whole compilation."""
        return self.front_end_seconds + self.engine_seconds


class CompiledGrammar:
    """A grammar ready for one vocabulary, shared by all requests that use it; `report` lists how keywords of JSON Schemas are treated."""

    __slots__ = (
        "__weakref__",
        "_captures",
        "_fingerprint",
        "_grammar",
        "_is_shared",
        "_kernel",
        "_limits",
        "_report",
        "_static_size",
        "_stats",
        "_tell",
        "_vocabulary",
    )

    def __init__(
        self,
        vocabulary: Vocabulary,
        grammar: Grammar | PackedGrammar,
        kernel: KernelGrammar,
        stats: CompileStats,
        report: Report | None = None,
        *,
        limits: Limits | None = None,
    ) -> None:
        self._vocabulary = vocabulary
        self._grammar = grammar
        self._is_shared = stats.kind == "structural_tag"  # with parts of other tags, which StructuralTags keeps in one builder
        self._kernel = kernel
        self._stats = stats
        self._report = report
        self._limits = limits or Limits()
        self._fingerprint: str | None = None
        self._tell: Tell | None = None
        if isinstance(grammar, PackedGrammar):
            self._static_size = grammar.size
        else:
            self._static_size = memory_of(grammar.nodes, len(grammar.rules)) if grammar.memory < 0 else grammar.memory
        self._captures = CaptureReader(grammar, vocabulary.size, vocabulary.token_bytes, self._limits)

    def matcher(self, stop_token_ids: Iterable[int] | None = None) -> Matcher:
        """A matcher at the start of a text; `stop_token_ids` replaces the vocabulary's."""
        return Matcher(self._kernel, self._vocabulary, stop_token_ids, captures=self._captures, tell=self._tell)

    def described(self, tell: Tell | None) -> Self:
        """Return itself; from now on its matchers explain refusals with `tell`, in terms of the specification."""
        self._tell = tell
        return self

    def warm_up(self) -> None:
        """Build the tables that the first request needs, without holding the interpreter and at a priority that yields to other threads."""
        self._kernel.warm_up()

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the masks."""
        return self._vocabulary

    @property
    def grammar(self) -> Grammar:
        """The front end's grammar; `str` and `to_ebnf` show it."""
        if isinstance(self._grammar, PackedGrammar):
            self._grammar = self._grammar.unpack()
        if self._is_shared:  # PERF: only people and files ask, and an engine reads what is not reached in no time
            self._grammar, self._is_shared = compact(self._grammar), False
        return self._grammar

    def to_gbnf(self) -> Gbnf:
        """The grammar in llama.cpp's notation GBNF, with a report of the parts that GBNF cannot express."""
        return to_gbnf(self.grammar)

    @property
    def asks_for_tokens(self) -> bool:
        """Whether any part of the grammar asks for tokens by their ids."""
        if isinstance(self._grammar, PackedGrammar) and not self._grammar.asks_for_tokens:
            return False
        return any(node[0] == TOKENS for node in self.grammar.nodes)

    @property
    def has_temperature(self) -> bool:
        """Whether any part of the grammar sets a temperature; if not, `matcher.temperature` is always None."""
        return self._kernel.has_temperature

    @property
    def stats(self) -> CompileStats:
        """The cost of the compilation."""
        return self._stats

    @property
    def report(self) -> Report | None:
        """The fate of the keywords of a JSON Schema, or of those in a structural tag; None for other specifications."""
        return self._report

    @property
    def warnings(self) -> tuple[str, ...]:
        """Parts of the schema that have no effect but were probably meant to, each with its JSON pointer and the reason.

        Equal ones at several places are one message, with the first pointer and their number.
        """
        return () if self._report is None else self._report.messages

    @property
    def fingerprint(self) -> str:
        """A hash of the grammar and the vocabulary, equal in every process."""
        if self._fingerprint is None:
            self._fingerprint = hashlib.sha256(self.to_bytes()).hexdigest()
        return self._fingerprint

    @property
    def size(self) -> int:
        """Its approximate memory in bytes: the nodes of the grammar, the engine's automata, and its tables, which grow with use."""
        return self._static_size + self._kernel.memory

    def to_bytes(self) -> bytes:
        """The grammar and its report as bytes, which `from_bytes` reads for the same vocabulary."""
        return to_bytes(self.grammar, self._report, vocabulary=self._vocabulary.fingerprint, kind=self._stats.kind)

    @classmethod
    def from_bytes(cls, data: bytes, vocabulary: Vocabulary, *, limits: Limits | None = None) -> Self:
        """Read a grammar that `to_bytes` wrote. Safe for untrusted data: it is checked, and bounded by `limits`."""
        limits = limits or Limits()
        start = time.monotonic()
        grammar, report, kind = from_bytes(data, vocabulary=vocabulary.fingerprint, size=vocabulary.size, limits=limits)
        return cls.build(vocabulary, kind, grammar, report, start, limits)

    @classmethod
    def build(
        cls, vocabulary: Vocabulary, kind: str, grammar: Grammar | PackedGrammar, report: Report | None, start: float, limits: Limits
    ) -> Self:
        """Build the grammar in the engine, within the rest of the time that began at `start`."""
        middle = time.monotonic()
        left = limits.compile_seconds - (middle - start)
        if left <= 0:
            raise LimitError(
                f"compilation took more than {limits.compile_seconds:g} s", limit="compile_seconds", value=limits.compile_seconds
            )
        if isinstance(grammar, PackedGrammar):
            form: Grammar | bytes = grammar.for_engine
            rules, nodes = grammar.rules, grammar.nodes
        else:
            form, rules, nodes = grammar, len(grammar.rules), len(grammar.nodes)
        kernel = KernelGrammar(
            vocabulary.trie,
            form,
            states=limits.states,
            stack_depth=limits.stack_depth,
            memory=limits.grammar_bytes,
            seconds=left,
            step_work=limits.step_work,
        )
        stats = CompileStats(kind, middle - start, time.monotonic() - middle, rules, nodes)
        return cls(vocabulary, grammar, kernel, stats, report, limits=limits)

    def __copy__(self) -> Self:
        return self  # immutable, so it is its own copy

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the bytes of `to_bytes` and the vocabulary; the process that reads them rebuilds the engine's tables."""
        return _restored, (type(self), self.to_bytes(), self._vocabulary, self._limits)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._stats.kind} rules={self._stats.rules} nodes={self._stats.nodes}>"

    def _repr_html_(self) -> str:
        """For notebooks: its size, the report, and its rules as EBNF; see `stackmask.pda.html`."""
        stats = self._stats
        rows = [("kind", stats.kind), ("rules", stats.rules), ("nodes", stats.nodes), ("compiled in", f"{stats.seconds * 1e3:.2f} ms")]
        entries = [] if self._report is None else self._report.entries[:SHOWN_ENTRIES]
        report = "\n".join(f"{entry.status:12} {entry.pointer or '/'} {entry.note}".rstrip() for entry in entries)
        text = str(self.grammar) if stats.nodes <= SHOWN_NODES else f"{stats.nodes} nodes are too many to show"
        return html.table(rows) + (html.details("report", report) if report else "") + html.details("rules", text[:SHOWN_TEXT])


class Job(NamedTuple):
    """A specification that was read: its key, its front end, and functions that explain an empty grammar or a refused text."""

    kind: str
    key: Hashable
    front_end: FrontEnd
    explain: Callable[[], UnsatisfiableError] | None = None
    tell: Tell | None = None


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
        self.__dict__.pop("_tags", None)
        self._executor = ThreadPoolExecutor(self._threads, "stackmask-compile")

    @cached_property
    def _tags(self) -> StructuralTags:
        """Compiles structural tags. PERF: ordering the names of hundreds of special tokens takes half as long as a small schema."""
        vocabulary = self._vocabulary
        return StructuralTags(vocabulary.special, spelled=spelled_names(vocabulary), vocabulary_size=vocabulary.size, limits=self._limits)

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
        documents: Mapping[str, Mapping[str, Any] | bool] = MappingProxyType({}),
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
        grammar = self._get(
            self.read(
                "json_schema",
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
        )
        warn_of(grammar.warnings)
        return grammar

    def json(self, *, whitespace: Whitespace = DEFAULT_WHITESPACE, escapes: str = "needed", distinct_keys: bool = False) -> CompiledGrammar:
        """Any JSON value of any depth; with `distinct_keys` no key of an object comes twice."""
        return self.json_schema(True, whitespace=whitespace, escapes=escapes, distinct_keys=distinct_keys)

    def regex(self, pattern: str) -> CompiledGrammar:
        """The texts that match a regular expression as a whole."""
        return self._get(self.read("regex", pattern))

    def ebnf(self, text: str, root: str = "root") -> CompiledGrammar:
        """The texts of a grammar in EBNF (GBNF and similar notations); it can name special tokens of the vocabulary."""
        return self._get(self.read("ebnf", text, root))

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
        return self._get(self.read("lark", text, start, grammars=grammars, whitespace=whitespace))

    def choice(self, options: Sequence[str]) -> CompiledGrammar:
        """Exactly one of the given texts."""
        return self._get(self.read("choice", options))

    def structural_tag(self, tag: Mapping[str, Any] | str) -> CompiledGrammar:
        """Free text with constrained tags, given as a mapping or JSON text; it can name special tokens of the vocabulary.

        Inner tags that were compiled before, such as an agent's tools in every request, are not compiled again.
        """
        return self._get(self.read("structural_tag", tag, held=True))

    def submit(self, kind: str, *arguments: Any, **options: Any) -> SharedFuture[CompiledGrammar]:
        """Call the method named `kind` in a thread and return a future; one compilation serves all callers with the same specification.

        A wrong specification is an exception of the future, never of this call. Its `begun` is done when the compilation starts.
        """
        try:
            job = self.read(kind, *arguments, **options)
        except (GrammarError, LimitError) as error:
            return SharedFuture.failed(error)
        return self.start(job, partial(self.compile, job))

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
        return self._cache.submit(job.key, lambda: make().described(job.tell), self._executor)

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
        prepare = _KINDS.get(kind)
        if prepare is None:
            raise ValueError(f"no specification is called {kind!r}; available: {', '.join(_KINDS)}")
        with _own_errors():
            job = prepare(self, *arguments, **options)
        return job._replace(front_end=partial(_guarded, job.front_end))

    def _json_schema(
        self,
        schema: object,
        *,
        whitespace: Whitespace = DEFAULT_WHITESPACE,
        property_order: str = "schema",
        documents: Mapping[str, object] = MappingProxyType({}),
        lenient: bool = False,
        format: str = "enforce",
        escapes: str = "needed",
        extra_properties: str | None = None,
        strict_keywords: bool = False,
        distinct_keys: bool | None = None,
    ) -> Job:
        is_type = not isinstance(schema, _SCHEMAS)
        if extra_properties is None:
            extra_properties = "closed" if is_type else "schema"
        for option, value in (
            ("whitespace", whitespace),
            ("property_order", property_order),
            ("format", format),
            ("escapes", escapes),
            ("extra_properties", extra_properties),
        ):
            if not isinstance(value, str) and not (option == "whitespace" and isinstance(value, Separators)):
                raise SchemaError(f"{option} must be a string, not {shown(value)}")
        if not isinstance(documents, Mapping) or not all(isinstance(uri, str) for uri in documents):
            raise SchemaError(f"documents must map URIs to schemas, not {shown(documents)}")
        lenient, strict_keywords = bool(lenient), bool(strict_keywords)
        key, held = read_schema(schema, self._limits)
        if distinct_keys is None:
            # a Python dict keeps one of two equal keys; only types with free keys differ from their schema in this
            distinct_keys = is_type and has_free_keys(schema_of_key(key))
        distinct_keys = bool(distinct_keys)
        others = tuple(sorted((uri, schema_key(document, self._limits)) for uri, document in documents.items())) if documents else ()

        def read(compile: Callable[..., Any], **more: Any) -> Any:
            return compile(
                schema_of_key(key) if held is None else held,
                whitespace=whitespace,
                property_order=property_order,
                documents={uri: schema_of_key(other) for uri, other in others} if others else {},
                format=format,
                escapes=escapes,
                extra_properties=extra_properties,
                distinct_keys=distinct_keys,
                limits=self._limits,
                **more,
            )

        identity = (
            "json_schema",
            key,
            whitespace,
            property_order,
            others,
            lenient,
            format,
            escapes,
            extra_properties,
            strict_keywords,
            distinct_keys,
        )
        front_end = partial(read, json_schema_grammar, lenient=lenient, strict_keywords=strict_keywords)

        refusals: list[Refusals] = []  # made for the first refused text

        def tell(data: bytes, position: int, rules: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
            if not refusals:
                asked = {"property_order": property_order, "format": format, "extra_properties": extra_properties}
                known = {uri: schema_of_key(other) for uri, other in others}
                refusals.append(Refusals(schema_of_key(key), documents=known, whitespace=whitespace, **asked))
            return tuple(refusals[0](data, position)), ()

        return Job("json_schema", identity, front_end, partial(read, unsatisfiable), tell)

    def _json(self, *, whitespace: Whitespace = DEFAULT_WHITESPACE, escapes: str = "needed", distinct_keys: bool = False) -> Job:
        return self._json_schema(True, whitespace=whitespace, escapes=escapes, distinct_keys=distinct_keys)

    def _regex(self, pattern: str) -> Job:
        return self._text("regex", regex_grammar, pattern)

    def _ebnf(self, text: str, root: str = "root") -> Job:
        from ...pda.ebnf import ebnf_grammar  # PERF: lark takes a third of the time that `import stackmask` would take with it

        if not isinstance(root, str):
            raise EbnfError(f"the root must be the name of a rule, not {shown(root)}")
        vocabulary = self._vocabulary
        front_end = partial(ebnf_grammar, root=root, special=vocabulary.special, vocabulary_size=vocabulary.size)
        return self._text("ebnf", front_end, text, root)

    def _lark(
        self,
        text: str,
        start: str = "start",
        *,
        grammars: Mapping[str, object] = MappingProxyType({}),
        whitespace: str = DEFAULT_WHITESPACE,
    ) -> Job:
        from ...pda.lark import lark_grammar

        if not isinstance(start, str):
            raise LarkError(f"the start must be the name of a rule, not {shown(start)}")
        if not isinstance(whitespace, str):
            raise SchemaError(f"whitespace must be a string, not {shown(whitespace)}")
        if not isinstance(grammars, Mapping) or not all(isinstance(name, str) for name in grammars):
            raise LarkError(f"grammars must map names to Lark texts, JSON Schemas or grammars, not {shown(grammars)}")
        texts = {name: part for name, part in grammars.items() if isinstance(part, str)}
        ready = {name: part for name, part in grammars.items() if isinstance(part, Grammar)}
        keys = {name: schema_key(part, self._limits) for name, part in grammars.items() if name not in texts and name not in ready}
        named = {**texts, **ready, **{name: schema_of_key(key) for name, key in keys.items()}}
        others = object() if ready else (tuple(sorted(texts.items())), tuple(sorted(keys.items())))

        def json_node(builder: GrammarBuilder, schema: Any) -> NodeId:
            return json_schema_node(builder, schema, whitespace=whitespace, limits=self._limits)[0]

        vocabulary = self._vocabulary
        front_end = partial(
            lark_grammar,
            start=start,
            special=vocabulary.special,
            vocabulary_size=vocabulary.size,
            json_node=json_node,
            grammars=named,
        )
        return self._text("lark", front_end, text, start, whitespace, others)

    def _choice(self, options: Sequence[str]) -> Job:
        texts = options if isinstance(options, str | bytes) or not isinstance(options, Sequence) else tuple(options)
        return self._text("choice", choice_grammar, texts)

    def _structural_tag(self, tag: Mapping[str, Any] | str | TagKey, *, held: bool = False) -> Job:
        value: Any = None
        if isinstance(tag, TagKey):
            key = tag
        else:
            try:
                value = tag.model_dump(by_alias=True) if hasattr(tag, "model_dump") else tag
                if isinstance(value, str):
                    value = parse_json(value, self._limits)
                held = held or value is not tag  # no other code has a value that was made here
                key, value = tag_key(value, self._limits)
            except SchemaError as error:
                raise StructuralTagError(str(error)) from None

        def front_end() -> tuple[Grammar, Report]:
            # PERF: if most tags are known, a copy out of the key takes longer than everything else
            grammar = self._tags.grammar(value if held else tag_of_key(key), key.parts)
            return grammar, Report.later(partial(entries_of_key, key))

        return Job("structural_tag", ("structural_tag", key), front_end)

    def _text(self, kind: str, front_end: Callable[..., Grammar], specification: Any, *options: Hashable) -> Job:
        """The key of a specification that consists of texts, and how to compile it."""
        texts = specification if isinstance(specification, tuple) else (specification,)
        # the front end refuses values that are not text with a better error than that they cannot be hashed
        key = (kind, specification, *options) if all(isinstance(text, str) for text in texts) else object()
        tell: Tell | None = partial(_tell_rule, kind, specification) if kind in ("ebnf", "lark") else None
        if kind == "choice":
            tell = partial(_tell_choice, texts)
        return Job(kind, key, lambda: (front_end(specification, limits=self._limits), None), tell=tell)

    def _get(self, job: Job) -> CompiledGrammar:
        return self._cache.get(job.key, partial(self.compile, job))

    def compile(self, job: Job) -> CompiledGrammar:
        """Compile a specification that was read, without caching it; if it generates nothing, the front end says why."""
        start = time.monotonic()
        grammar, report = job.front_end()
        try:
            with _own_errors():
                return CompiledGrammar.build(self._vocabulary, job.kind, grammar, report, start, self._limits).described(job.tell)
        except UnsatisfiableError as error:
            raise error if job.explain is None else job.explain() from None


@cache
def _default_threads() -> int:
    """The number of threads of a compiler that is not told one. PERF: the system reads the count of processors from a file."""
    return min(8, os.cpu_count() or 1)


def spelled_names(vocabulary: Vocabulary) -> list[str]:
    """The names of special tokens that have no text: a structural tag that spells one means the token too."""
    tokens = vocabulary.tokens
    return [name for name, token in vocabulary.special.items() if tokens[token] is None]


def _tell_rule(kind: str, text: str, data: bytes, position: int, rules: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The definition of the innermost rule that a refused text is in."""
    found = rule_range(kind, text, rules)
    return (), () if found is None else (f"rule {found[0]}: {caret(text, found[1][0])}",)


def _tell_choice(options: Sequence[str], data: bytes, position: int, rules: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The options that a refused text resembles."""
    return (choice_refusal(options, data),), ()


def warn_of(messages: Iterable[str]) -> None:
    """Issue each message as a `StackmaskWarning` at the line that called the package."""
    for message in messages:
        level, frame = 1, sys._getframe(0)
        while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
            level, frame = level + 1, frame.f_back
        warnings.warn(message, StackmaskWarning, stacklevel=level)


@contextlib.contextmanager
def _own_errors() -> Iterator[None]:
    """Turn the errors of Python and the kernel about memory, the stack or large numbers into a LimitError.

    Front ends check before they build and do not recurse on a specification; this is for cases that they have missed.
    """
    try:
        yield
    except MemoryError as error:
        raise LimitError("the specification takes more memory than there is", limit="memory") from error
    except RecursionError as error:
        raise LimitError("the specification is nested too deep for Python's stack", limit="nesting") from error
    except OverflowError as error:
        raise LimitError(f"a number of the specification is too large: {error}", limit="specification_bytes") from error


_COMPILERS: Final[WeakSet[Compiler]] = WeakSet()


def _begin_in_child() -> None:
    """Reset compilers after a fork."""
    for compiler in list(_COMPILERS):
        compiler._begin_in_child()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_begin_in_child)


def _restored(kind: type[CompiledGrammar], data: bytes, vocabulary: Vocabulary, limits: Limits) -> CompiledGrammar:
    """A grammar from a pickle."""
    return kind.from_bytes(data, vocabulary, limits=limits)


def _guarded(front_end: FrontEnd) -> tuple[Grammar, Report | None]:
    """The result of a front end, with only stackmask's own errors."""
    with _own_errors():
        return front_end()


_KINDS: Final[Mapping[str, Callable[..., Job]]] = MappingProxyType(
    {
        "json_schema": Compiler._json_schema,
        "json": Compiler._json,
        "regex": Compiler._regex,
        "ebnf": Compiler._ebnf,
        "lark": Compiler._lark,
        "choice": Compiler._choice,
        "structural_tag": Compiler._structural_tag,
    }
)
