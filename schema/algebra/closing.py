"""Which subschema closes the objects at its place, where undeclared keys are closed.

The outermost object schema of a value closes it, as `unevaluatedProperties: false` would: `allOf` of two that declare members allows the
members of both. A reference, a union or an `allOf` of one subschema with nothing beside it that speaks of objects is no object schema:
those inside it are the outermost ones, so that each branch of a union of models is closed by itself.
"""

from __future__ import annotations

from typing import Any

from ..dialect.dialects import Dialect
from ..dialect.keyword_values import Schema, schemas
from ..dialect.keywords import OBJECT, REFERENCE, groups_of
from ..dialect.references import Registry, Scope, referred
from .from_keywords import dependents

_COMBINATORS = ("allOf", "anyOf", "oneOf", "if")


def passes_on(schema: Schema, dialect: Dialect) -> bool:
    """Whether a subschema leaves it to those it combines to close the object.

    >>> from stackmask.schema.dialect.dialects import DEFAULT
    >>> [passes_on(s, DEFAULT) for s in ({"anyOf": [{}, {}], "type": "object"}, {"anyOf": [{}], "properties": {}}, {"allOf": [{}, {}]})]
    [True, False, False]
    """
    groups = groups_of(schema, dialect.keywords)
    if groups & REFERENCE and dialect.lone_reference:
        return True
    if groups & OBJECT:
        return False
    found = [keyword for keyword in schema if dialect.keywords.get(keyword, 0) & REFERENCE]
    found += [keyword for keyword in _COMBINATORS if keyword in schema and keyword in dialect.keywords]
    return len(found) == 1 and found[0] != "if" and (found[0] != "allOf" or len(schemas(schema, "allOf")) == 1)


def declares(registry: Registry, schema: Any, scope: Scope) -> bool:
    """Whether a subschema, or one that it combines, has `properties`; those that only test declare nothing."""
    todo = [(schema, scope)]
    seen: set[tuple[int, Scope]] = set()
    while todo:
        schema, scope = todo.pop()
        if not isinstance(schema, dict) or (id(schema), scope) in seen:
            continue
        seen.add((id(schema), scope))
        scope = registry.enter(scope, schema)
        dialect = scope.resource.dialect
        keyword_groups = dialect.keywords
        todo += referred(registry, schema, scope)
        if "$ref" in schema and dialect.lone_reference:
            continue
        if "properties" in schema and "properties" in keyword_groups:
            return True
        for keyword in ("allOf", "anyOf", "oneOf"):
            if keyword in schema and keyword in keyword_groups:
                todo += [(branch, scope) for branch in schemas(schema, keyword)]
        if "if" in schema and "if" in keyword_groups:
            todo += [(schema[keyword], scope) for keyword in ("then", "else") if keyword in schema]
        todo += [(branch, scope) for _, branch in dependents(schema, keyword_groups)]
    return False
