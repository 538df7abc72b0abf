"""Specifications read: checked and normalised, each with its key in the cache and the front end that makes its grammar.

    Job          one specification
    JobReader    reads those of one vocabulary, a method for each kind

Nothing is compiled here, so the same schema as text, as a mapping or as a pydantic model is found in the cache before any work begins.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ...pda.choice import choice_grammar
from ...pda.exceptions import (
    EbnfError,
    LarkError,
    LimitError,
    SchemaError,
    StructuralTagError,
    UnsatisfiableError,
    caret,
    shown,
)
from ...pda.grammar import Grammar, GrammarBuilder, NodeId
from ...pda.limits import Limits
from ...pda.matcher import Tell
from ...pda.regex import regex_grammar
from ...pda.vocabulary import Vocabulary
from ...schema.dialect.report import Report
from ...schema.emit.json_parts import DEFAULT_WHITESPACE, Whitespace
from ...schema.json_schema import SchemaOptions, checked_grammar, json_schema_node, unsatisfiable
from ...schema.refusal import Refusals, choice_refusal
from ...schema.structural_tag import StructuralTags
from .cache_key import (
    SchemaKey,
    TextKeys,
    has_free_keys,
    is_plain,
    memory_of_schema,
    memory_of_texts,
    parse_json,
    read_schema,
    schema_key,
    schema_of_key,
)
from .rule_range import rule_range
from .structural_tag_key import TagKey, entries_of_key, tag_key, tag_of_key

_SCHEMAS: Final = (dict, bool, str, Mapping)  # a dict first: the check of an abstract class is slower
NO_DOCUMENTS: Final[Mapping[str, Any]] = MappingProxyType({})
FrontEnd = Callable[[], tuple[Grammar, Report | None]]
_Documents = tuple[tuple[str, bytes], ...]
"""The keys of documents by their URIs."""


class Job(NamedTuple):
    """A specification that was read: its key, its front end, and functions that explain an empty grammar or a refused text."""

    kind: str
    key: Hashable
    make: FrontEnd
    explain: Callable[[], UnsatisfiableError] | None = None
    tell: Tell | None = None

    @property
    def memory(self) -> int:
        """About how many bytes a cached grammar keeps of it: its key, and the schema of the report, whose entries are made on demand."""
        key: Any = self.key
        if self.kind != "json_schema":
            return memory_of_texts(key)
        _, schema, options, documents = key
        size = len(schema) + memory_of_schema(schema) + len(options.whitespace)
        return size + memory_of_texts(documents) + sum(memory_of_schema(document) for _, document in documents) if documents else size

    def front_end(self) -> tuple[Grammar, Report | None]:
        """Its grammar, and the report on it; it raises only stackmask's own errors."""
        try:
            return self.make()
        except PYTHONS_ERRORS as error:
            raise own_error(error) from error


class _Schema:
    """A JSON Schema that was read, with the options of its compilation: what its key in the cache consists of."""

    __slots__ = ("_key", "_limits", "_refusals")

    def __init__(self, key: tuple[str, SchemaKey, SchemaOptions, _Documents], limits: Limits) -> None:
        self._key = key
        self._limits = limits
        self._refusals: Refusals | None = None

    def grammar(self, held: Any) -> tuple[Grammar, Report]:
        """The front end: its grammar, and the report on it; `held` is the schema as a plain value where nobody else has that, else None."""
        _, schema, options, documents = self._key
        return checked_grammar(
            schema_of_key(schema) if held is None else held,
            options,
            _copies(documents) if documents else NO_DOCUMENTS,
            self._limits,
            len(schema) if is_plain(schema) else None,
        )

    def unsatisfiable(self) -> UnsatisfiableError:
        """Why it has no instances."""
        _, schema, options, documents = self._key
        return unsatisfiable(schema_of_key(schema), options, _copies(documents), self._limits)

    def tell(self, data: bytes, position: int, rules: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Why a text is refused, as `Tell` has it."""
        if self._refusals is None:  # made for the first refused text
            _, schema, options, documents = self._key
            self._refusals = Refusals(
                schema_of_key(schema),
                documents=_copies(documents),
                format=options.format,
                whitespace=options.whitespace,
                property_order=options.property_order,
                extra_properties=options.extra_properties,
            )
        return tuple(self._refusals(data, position)), ()


def _copies(documents: _Documents) -> Mapping[str, Any]:
    """The documents that references name."""
    return {uri: schema_of_key(key) for uri, key in documents}


class JobReader:
    """Reads specifications for one vocabulary, within limits; structural tags share the tags in them."""

    def __init__(self, vocabulary: Vocabulary, limits: Limits) -> None:
        self._vocabulary = vocabulary
        self._limits = limits
        self._texts = TextKeys()

    @cached_property
    def tags(self) -> StructuralTags:
        """Compiles structural tags. PERF: ordering the names of hundreds of special tokens takes half as long as a small schema."""
        vocabulary = self._vocabulary
        return StructuralTags(vocabulary.special, spelled=spelled_names(vocabulary), vocabulary_size=vocabulary.size, limits=self._limits)

    def read(self, kind: str, *arguments: Any, **options: Any) -> Job:
        """Check and normalise a specification of the kind named `kind`."""
        prepare = _KINDS.get(kind)
        if prepare is None:
            raise ValueError(f"no specification is called {kind!r}; available: {', '.join(_KINDS)}")
        try:
            return prepare(self, *arguments, **options)
        except PYTHONS_ERRORS as error:
            raise own_error(error) from error

    def json_schema(
        self,
        schema: object,
        *,
        whitespace: Whitespace = DEFAULT_WHITESPACE,
        property_order: str = "schema",
        documents: Mapping[str, object] = NO_DOCUMENTS,
        lenient: bool = False,
        format: str = "enforce",
        escapes: str = "needed",
        extra_properties: str | None = None,
        strict_keywords: bool = False,
        distinct_keys: bool | None = None,
    ) -> Job:
        """Read a JSON Schema; errors of Python may come through, which `read` turns into others."""
        is_type = not isinstance(schema, _SCHEMAS)
        if extra_properties is None:
            extra_properties = "closed" if is_type else "schema"
        options = SchemaOptions(
            whitespace, property_order, bool(lenient), format, escapes, extra_properties, bool(strict_keywords), bool(distinct_keys)
        ).checked()
        key, held = read_schema(schema, self._limits, self._texts)
        if is_type and distinct_keys is None and has_free_keys(schema_of_key(key)):
            # a Python dict keeps one of two equal keys; only types with free keys differ from their schema in this
            options = options._replace(distinct_keys=True)
        others = () if documents is NO_DOCUMENTS else self._document_keys(documents)
        identity = ("json_schema", key, options, others)
        read = _Schema(identity, self._limits)
        return Job("json_schema", identity, partial(read.grammar, held), read.unsatisfiable, read.tell)

    def _document_keys(self, documents: Mapping[str, object]) -> _Documents:
        """The keys of the documents that references name, by their URIs."""
        if not isinstance(documents, Mapping) or not all(isinstance(uri, str) for uri in documents):
            raise SchemaError(f"documents must map URIs to schemas, not {shown(documents)}")
        return tuple(sorted((uri, schema_key(document, self._limits)) for uri, document in documents.items()))

    def _json(self, *, whitespace: Whitespace = DEFAULT_WHITESPACE, escapes: str = "needed", distinct_keys: bool = False) -> Job:
        return self.json_schema(True, whitespace=whitespace, escapes=escapes, distinct_keys=distinct_keys)

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
            grammar = self.tags.grammar(value if held else tag_of_key(key), key.parts)
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


PYTHONS_ERRORS: Final = (MemoryError, RecursionError, OverflowError)
"""What Python and the kernel raise about memory, the stack or large numbers.

Front ends check before they build and do not recurse on a specification; this is for cases that they have missed.
"""


def own_error(error: BaseException) -> LimitError:
    """The error of stackmask's own for one of `PYTHONS_ERRORS`."""
    match error:
        case MemoryError():
            return LimitError("the specification takes more memory than there is", limit="memory")
        case RecursionError():
            return LimitError("the specification is nested too deep for Python's stack", limit="nesting")
        case _:
            return LimitError(f"a number of the specification is too large: {error}", limit="specification_bytes")


_KINDS: Final[Mapping[str, Callable[..., Job]]] = MappingProxyType(
    {
        "json_schema": JobReader.json_schema,
        "json": JobReader._json,
        "regex": JobReader._regex,
        "ebnf": JobReader._ebnf,
        "lark": JobReader._lark,
        "choice": JobReader._choice,
        "structural_tag": JobReader._structural_tag,
    }
)
