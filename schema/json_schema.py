"""The way in: a JSON Schema, or any JSON at all, as a grammar.

What cannot be exact is found where the compiler meets it: the keyword is noted, taken out of the schema, and the rest is compiled again.
So one error lists every such keyword, and a lenient compilation is the one that went through in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from ..pda.analysis import productive
from ..pda.budget import Budget
from ..pda.exceptions import LimitError, RegexError, SchemaError, UnsatisfiableError, UnsupportedSchemaError, shown
from ..pda.grammar import Grammar, GrammarBuilder, NodeId, RuleId
from ..pda.limits import Limits
from .algebra.unsat_core import unsat_core
from .algebra.unsat_sentence import unsat_sentence
from .dialect.guidance import NAME as GUIDANCE
from .dialect.guidance import read_guidance
from .dialect.mistakes import check_is_schema
from .dialect.pointers import check_schema_size, find, locate, without
from .dialect.references import NAMED, Registry
from .dialect.report import APPROXIMATED, Entry, Report
from .dialect.serialiser import surely_fits
from .emit.direct import Compilation
from .emit.json_parts import DEFAULT_WHITESPACE, ROOT, Fragments, Separators, Whitespace, install, template
from .errors import Excess, Inexact, Malformed

DISTINCT_KEYS: Final = False
"""Whether undeclared keys never occur twice, by a guard at run time; else only where an instance could become invalid by it, since a key
that occurs again replaces a value by one that is as good. Declared keys never occur twice."""
MOST_PROBLEMS: Final = 100
"""The most inexact keywords that one error lists."""
_USUAL: Final = (str, "schema", "enforce", "needed", "schema")
"""The kind of the whitespace, and the options that are words, as most callers have them. PERF: one comparison, not five."""
_INVERTING: Final = frozenset({"not", "if", "oneOf"})
_NO_DOCUMENTS: Final[Mapping[str, Any]] = {}
Run = Callable[[Compilation, RuleId, Any], NodeId]
"""Defines a rule as the grammar of a schema: JSON is written by `Compilation.run`, other notations by functions of their own."""


class SchemaOptions(NamedTuple):
    """How a schema is compiled; `json_schema_grammar` says what each option means."""

    whitespace: Whitespace = DEFAULT_WHITESPACE
    property_order: str = "schema"
    lenient: bool = False
    format: str = "enforce"
    escapes: str = "needed"
    extra_properties: str = "schema"
    strict_keywords: bool = False
    distinct_keys: bool = DISTINCT_KEYS

    def checked(self) -> SchemaOptions:
        """The same; a SchemaError where an option has a value that it does not know. Other whitespace is read as a regex later."""
        words = self.whitespace.__class__, self.property_order, self.format, self.escapes, self.extra_properties
        if words != _USUAL or self.lenient:
            _check_options(self)
        return self


_OPTIONS: Final = SchemaOptions()


def json_schema_grammar(
    schema: dict[str, Any] | bool,
    *,
    whitespace: Whitespace = DEFAULT_WHITESPACE,
    property_order: str = "schema",
    documents: Mapping[str, Any] = _NO_DOCUMENTS,
    lenient: bool = False,
    format: str = "enforce",
    escapes: str = "needed",
    extra_properties: str = "schema",
    strict_keywords: bool = False,
    distinct_keys: bool = DISTINCT_KEYS,
    limits: Limits | None = None,
) -> tuple[Grammar, Report]:
    """The grammar of the instances of a JSON Schema, and the report on its keywords.

    `whitespace`: "printed" (what JSON printers write: a gap is one blank at most, or inside of brackets and behind `,` one line break with
    indentation), "single" (at most one blank behind `,` and `:`), "compact" (none), "flexible" (at most 40 in every gap), a regex for
    every gap, or fixed `Separators`.
    `property_order`: "schema" writes declared keys in their order and others after them, "any" takes every order.
    `documents`: schemas by URI for references; nothing is fetched.
    `lenient`: leaves out what cannot be exact and lists it in the report, instead of raising.
    `format`: "enforce", or "annotate" to leave formats unchecked.
    `escapes`: "needed" writes a character of a string as it is where JSON allows that, "any" takes every spelling.
    `extra_properties`: "schema" allows undeclared keys where the schema does, "closed" allows none where a schema declares `properties`
    and nothing that applies with it speaks of others.
    `distinct_keys`: undeclared keys of one object differ, at the cost of remembering them; otherwise only where an instance could become
    invalid by a key that is there twice.
    `strict_keywords`: warnings of the report become errors: misspelt keywords, unknown formats and the like.
    """
    options = SchemaOptions(whitespace, property_order, lenient, format, escapes, extra_properties, strict_keywords, distinct_keys)
    return checked_grammar(schema, options.checked(), documents, limits)


def checked_grammar(
    schema: dict[str, Any] | bool,
    options: SchemaOptions,
    documents: Mapping[str, Any],
    limits: Limits | None,
    serialised: int | None = None,
) -> tuple[Grammar, Report]:
    """Like `json_schema_grammar`, with options that were checked.

    `serialised`: how many bytes the schema takes where a caller has serialised it (`stackmask.schema.dialect.serialiser`) or has its text.
    """
    check_is_schema(schema)
    if schema.__class__ is not dict or GUIDANCE in schema:  # PERF: most have no such member
        options = _guided(schema, options)
    distinct = options.distinct_keys
    start = template(options.whitespace, options.escapes, distinct=distinct)
    builder = start.builder.copy()
    root, report = _define(
        builder, start.fragments, ROOT, schema, options, documents, Budget(limits), repeats=not distinct, serialised=serialised
    )
    if root == start.fragments.never:
        raise unsatisfiable(schema, options, documents, limits)
    if options.strict_keywords:
        _check_keywords(report)
    return builder.build(ROOT), report


def _guided(schema: dict[str, Any] | bool, options: SchemaOptions) -> SchemaOptions:
    """The options with those that the schema itself asks for in `x-guidance`."""
    asked = read_guidance(schema)
    options = options._replace(lenient=options.lenient or asked.lenient is True)
    if asked.whitespace is None or asked.whitespace == options.whitespace:
        return options
    if options.whitespace != DEFAULT_WHITESPACE:
        raise SchemaError(
            f"/x-guidance: its whitespace is {shown(asked.whitespace)}, but whitespace={shown(options.whitespace)} is given too"
        )
    return options._replace(whitespace=asked.whitespace)


def unsatisfiable(
    schema: dict[str, Any] | bool,
    options: SchemaOptions = _OPTIONS,
    documents: Mapping[str, Any] = _NO_DOCUMENTS,
    limits: Limits | None = None,
) -> UnsatisfiableError:
    """The error for a schema without instances, which names the constraints that contradict each other.

    Some schemas are empty only as a whole, which an engine finds; then this says why.
    """
    start = template(options.whitespace, options.escapes, distinct=options.distinct_keys)
    lenient = options._replace(lenient=True)

    def is_empty(part: Any) -> bool:
        builder = start.builder.copy()
        root, _ = _define(builder, start.fragments, ROOT, part, lenient, documents, Budget(limits))
        return root == start.fragments.never or not productive(builder.nodes, builder.rules)[1][ROOT]

    found = [] if isinstance(schema, bool) else unsat_core(schema, is_empty)
    return UnsatisfiableError(unsat_sentence(schema, found))


def json_grammar(*, whitespace: Whitespace = DEFAULT_WHITESPACE, escapes: str = "needed") -> Grammar:
    """The grammar of any JSON value, of any depth."""
    start = template(whitespace, escapes)
    builder = start.builder.copy()
    builder.define(ROOT, start.fragments.value)
    return builder.build(ROOT)


def json_schema_node(
    builder: GrammarBuilder,
    schema: dict[str, Any] | bool,
    *,
    fragments: Fragments | None = None,
    property_order: str = "schema",
    documents: Mapping[str, Any] = _NO_DOCUMENTS,
    lenient: bool = False,
    format: str = "enforce",
    limits: Limits | None = None,
    budget: Budget | None = None,
    run: Run = Compilation.run,
    extra_properties: str = "schema",
    distinct_keys: bool = DISTINCT_KEYS,
    whitespace: Whitespace = DEFAULT_WHITESPACE,
) -> tuple[NodeId, Report]:
    """A node of another grammar for the instances of a schema.

    `fragments` are those of `install`, with their whitespace and their `distinct`, where the builder has them already; otherwise the
    schema's `x-guidance` may ask for another whitespace than the one that is given, and for leniency.
    A budget bounds the rest of the enclosing compilation, and brings its own limits.
    """
    check_is_schema(schema)
    rule, made = builder.rule("schema"), fragments
    if made is None:
        asked = read_guidance(schema)
        lenient = lenient or asked.lenient is True
        whitespace = whitespace if asked.whitespace is None else asked.whitespace
        made = install(builder, whitespace, distinct=distinct_keys)
    options = SchemaOptions(
        whitespace,
        property_order,
        lenient,
        format,
        extra_properties=extra_properties,
        distinct_keys=distinct_keys,
    ).checked()
    root, report = _define(builder, made, rule, schema, options, documents, budget or Budget(limits), run)
    return (made.never if root == made.never else builder.call(rule)), report


def _define(
    builder: GrammarBuilder,
    fragments: Fragments,
    rule: RuleId,
    schema: dict[str, Any] | bool,
    options: SchemaOptions,
    documents: Mapping[str, Any],
    budget: Budget,
    run: Run = Compilation.run,
    *,
    repeats: bool = False,
    serialised: int | None = None,
) -> tuple[NodeId, Report]:
    """Define `rule` as the grammar of a schema; `repeats`: the report says where a key may come twice."""
    closed, formats, any_order = options.extra_properties == "closed", options.format == "enforce", options.property_order == "any"
    if serialised is None or not surely_fits(serialised, budget.limits):
        check_schema_size(schema, budget.limits, serialised)
    current: Any = schema
    problems: list[Entry] = []
    before = len(builder.rules)
    while True:
        registry = Registry(current, documents, closed=closed)
        compilation = Compilation(
            builder, fragments, registry, budget, any_order=any_order, formats=formats, distinct=options.distinct_keys
        )
        try:
            node = run(compilation, rule, current)
        except Malformed as error:
            raise SchemaError(f"{locate(error.schema, error.keyword, current, documents)}: {error.message}") from None
        except (Inexact, RegexError) as error:
            entry = _problem(error, compilation, current)
            if entry is None and isinstance(error, Inexact):
                raise _unsupported(problems, error.reason, locate(error.schema, error.keyword, current, documents)) from None
            if entry is None or len(problems) >= MOST_PROBLEMS:
                raise _unsupported(problems, str(error)) from None
            problems.append(entry)
            current = without(current, entry.pointer)
            # The rules that a failed attempt has left undefined are never called.
            for left in range(before, len(builder.rules)):
                if builder.rules[left] < 0:
                    builder.define(RuleId(left), fragments.never)
        except LimitError as error:
            if problems and not options.lenient:
                raise _unsupported(problems) from None
            if isinstance(error, Excess):
                place = locate(error.schema, "", current, documents)
                place = f"{place.removesuffix('/')}/{error.keyword}" if error.keyword else place
                raise LimitError(str(error), limit=error.limit, value=error.value).at(place) from None
            raise
        else:
            if problems and not options.lenient:
                raise _unsupported(problems)
            return node, Report(
                registry if not problems else Registry(schema, documents, closed=closed),
                formats=formats,
                approximated=tuple(problems),
                repeats=repeats,
                noted=None if problems or run is not Compilation.run else compilation.only_noted(),
            )
        finally:
            compilation.release()


def _check_options(options: SchemaOptions) -> None:
    """Raise where an option has a value that it does not know, or two contradict each other."""
    _check_option("property_order", options.property_order, ("schema", "any"))
    _check_option("format", options.format, ("enforce", "annotate"))
    _check_option("escapes", options.escapes, ("needed", "any"))
    _check_option("extra_properties", options.extra_properties, ("schema", "closed"))
    if not isinstance(options.whitespace, str | Separators):
        raise SchemaError(f"whitespace must be a string, not {shown(options.whitespace)}")
    if options.lenient and options.strict_keywords:
        raise SchemaError("lenient leaves keywords out and strict_keywords refuses that; ask for one of them")


def _check_keywords(report: Report) -> None:
    """Raise where keywords have no effect but were probably meant to."""
    if report.warnings:
        found = "".join(f"\n  {message}" for message in report.messages[:MOST_PROBLEMS])
        raise SchemaError(f"keywords without effect, which strict_keywords refuses:{found}")


def _check_option(option: str, value: str, allowed: tuple[str, str]) -> None:
    """Raise where an option has a value that it does not know."""
    if value not in allowed:
        raise SchemaError(f"{option} must be {' or '.join(map(repr, allowed))}, not {shown(value)}")


def _problem(error: Inexact | RegexError, compilation: Compilation, schema: object) -> Entry | None:
    """The keywords that cannot be exact, and their places; None if a place is not in the schema itself."""
    if isinstance(error, RegexError):
        source = compilation.source("pattern", error.text)
        reason = str(error)
        if source is None:
            return None
        subschema, keyword, inner = source
    else:
        subschema, keyword, inner, reason = error.schema, error.keyword, "", error.reason
    place = find(subschema, schema)
    if place is None or not keyword:
        return None
    return _widened(schema, Entry(f"{place}/{keyword}{inner}", keyword, APPROXIMATED, reason))


def _widened(schema: Any, entry: Entry) -> Entry:
    """The keyword to leave out so that no instance is lost: the outermost `not`, `if` or `oneOf` around one that cannot be exact.

    Below those, leaving out a constraint could take instances away.
    """
    value, place, named = schema, "", False
    for step in entry.pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        place += "/" + step
        if isinstance(value, Mapping):
            if key in _INVERTING and not named:
                return entry if place == entry.pointer else Entry(place, key, APPROXIMATED, f"{entry.pointer}: {entry.note}")
            value = value.get(key)
            named = not named and key in NAMED
        else:
            value = value[int(key)] if isinstance(value, list | tuple) else None
    return entry


def _unsupported(problems: list[Entry], more: str = "", place: str = "") -> UnsupportedSchemaError:
    """The error that lists them all."""
    found = [(entry.pointer, entry.note) for entry in problems]
    return UnsupportedSchemaError((*found, (place, more)) if more else tuple(found))
