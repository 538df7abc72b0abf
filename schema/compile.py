"""The way in: a JSON Schema, or any JSON at all, as a grammar."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stackmask.pda.budget import Budget
from stackmask.pda.exceptions import SchemaError, UnsatisfiableError
from stackmask.pda.grammar import Grammar, GrammarBuilder, NodeId
from stackmask.pda.limits import Limits
from stackmask.schema.compilation import Compilation
from stackmask.schema.fragments import ROOT, fresh, install
from stackmask.schema.readers import Malformed, pointer_token
from stackmask.schema.references import Registry
from stackmask.schema.report import Report

DISTINCT_KEYS: Final = False
"""Whether undeclared keys are kept from occurring twice, by a guard at run time; declared keys never do."""
_NO_DOCUMENTS: Final[Mapping[str, Any]] = {}


def json_schema_grammar(
    schema: Mapping[str, Any] | bool,
    *,
    whitespace: str = "flexible",
    property_order: str = "schema",
    documents: Mapping[str, Any] = _NO_DOCUMENTS,
    lenient: bool = False,
    format: str = "enforce",
    escapes: str = "needed",
    limits: Limits | None = None,
) -> tuple[Grammar, Report]:
    """The grammar of the instances of a JSON Schema, and the report on its keywords."""
    budget = Budget(limits)
    builder, fragments = fresh(whitespace, escapes)
    try:
        registry = Registry(schema, documents)
        compilation = Compilation(
            builder, fragments, registry, budget, any_order=property_order == "any", formats=format == "enforce", distinct=DISTINCT_KEYS
        )
        compilation.run(ROOT, schema)
    except Malformed as error:
        raise located(error, schema, documents) from None
    if builder.rules[ROOT] == fragments.never:
        raise UnsatisfiableError("no instance can satisfy the schema")
    return builder.build(ROOT), Report(registry, formats=format == "enforce")


def located(error: Malformed, schema: object, documents: Mapping[str, object]) -> SchemaError:
    """The error with the JSON pointer of its place."""
    place = pointer(error.schema, schema)
    where = "/" if place is None else f"{place}/{pointer_token(error.keyword)}" if error.keyword else place or "/"
    return SchemaError(f"{where}: {error.message}")


def pointer(wanted: object, schema: object) -> str | None:
    """The JSON pointer of a subschema, found by identity; None where it is not in the schema."""
    stack: list[tuple[object, str]] = [(schema, "")]
    while stack:
        value, place = stack.pop()
        if value is wanted:
            return place
        if isinstance(value, Mapping):
            stack.extend((member, f"{place}/{pointer_token(key)}") for key, member in value.items())
        elif isinstance(value, list | tuple):
            stack.extend((member, f"{place}/{index}") for index, member in enumerate(value))
    return None
