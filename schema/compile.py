"""JSON Schema compiled to a grammar.

Most subschemas say one type and keywords local to it; they are written straight to grammar nodes here.
Combinators and keywords that act across others go through the algebra of `stackmask.schema.algebra` first.
A subschema that a reference names, or that lies deep, becomes a rule of its own, compiled from a worklist, so that neither recursive
schemas nor deep ones recurse in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from stackmask.pda.exceptions import UnsupportedSchemaError
from stackmask.pda.grammar import ALT, LITERAL, SEQ, Grammar, GrammarBuilder, NodeId, RuleId
from stackmask.pda.limits import Limits
from stackmask.schema.emit import array_node, extra_key, object_node, permuted_array, value_node
from stackmask.schema.fragments import ROOT, Fragments, fresh, quoted
from stackmask.schema.keywords import (
    ALGEBRA, ANY_OF, ARRAY, KEYWORDS, NUMBER, OBJECT, ONE_OF, REFERENCE, RESOURCE, STRING, TYPE, UNKNOWN, VALUES,
)  # fmt: skip
from stackmask.schema.numbers import INTEGERS, NUMBERS, NumberSet, number_node
from stackmask.schema.readers import Malformed, Schema, bounds, flag, item_schemas, mapping, names, number_set, schemas, types

DEEPEST_INLINE: Final = 30
"""Subschemas nested deeper than this become rules; every level takes a few Python frames."""
FEW_VALUES: Final = 256
"""An array of unique items drawn from at most this many values is an automaton, from more it is checked as it is generated."""
BEYOND_LOCAL: Final = VALUES | REFERENCE | ANY_OF | ONE_OF | ALGEBRA | RESOURCE
LOCAL: Final = STRING | NUMBER | ARRAY | OBJECT
TYPES: Final = ("null", "boolean", "number", "string", "array", "object")
_NO_PROPERTIES: Final[Mapping[str, Any]] = {}


class Compilation:
    """One schema on its way into a builder."""

    def __init__(self, builder: GrammarBuilder, fragments: Fragments, *, dialect: str, root: object, limits: Limits) -> None:
        self.builder = builder
        self.fragments = fragments
        self.limits = limits
        self.root = root
        self.codes = KEYWORDS[dialect]
        self.depth = 0
        self.pending: list[tuple[RuleId, object]] = []
        self.targets: dict[int, NodeId] = {}

    def run(self, rule: RuleId, schema: object) -> None:
        """Define `rule` as the grammar of `schema`, and every rule that this needs."""
        self.pending.append((rule, schema))
        while self.pending:
            rule, schema = self.pending.pop()
            self.depth = 0
            self.builder.define(rule, self.node(schema))

    def node(self, schema: object) -> NodeId:
        """The node of one subschema."""
        if schema.__class__ is not dict:
            if schema is True:
                return self.fragments.value
            if schema is False:
                return self.fragments.never
            raise Malformed(schema, "", "a schema must be an object or a boolean")
        assert isinstance(schema, dict)
        get = self.codes.get
        code = 0
        for keyword in schema:
            code |= get(keyword, UNKNOWN)
        if code & BEYOND_LOCAL:
            return self.combined(schema, code)
        return self.local(schema, code)

    def local(self, schema: Schema, code: int) -> NodeId:
        """A subschema whose keywords each concern one type only."""
        if not code & (LOCAL | TYPE):
            return self.fragments.value
        kind = schema.get("type", TYPES)
        if kind.__class__ is str:
            handler = HANDLERS.get(kind)
            if handler is None:
                raise Malformed(schema, "type", f"{kind!r} is not a type")
            return handler(self, schema, code)
        if kind is not TYPES:
            kind = types(schema)
            if "number" in kind and "integer" in kind:
                kind = [k for k in kind if k != "integer"]
        if not code & LOCAL and len(kind) == len(TYPES):
            return self.fragments.value
        return self.alternatives([HANDLERS[k](self, schema, code) for k in kind])

    def alternatives(self, nodes: list[NodeId]) -> NodeId:
        """Any of the nodes, those that are never left out."""
        never = self.fragments.never
        kept = [node for node in dict.fromkeys(nodes) if node != never]
        return kept[0] if len(kept) == 1 else self.builder.node((ALT, *kept)) if kept else never

    def null(self, _schema: Schema, _code: int) -> NodeId:
        """`type: null`."""
        return self.fragments.null

    def boolean(self, _schema: Schema, _code: int) -> NodeId:
        """`type: boolean`."""
        return self.fragments.boolean

    def integer(self, schema: Schema, code: int) -> NodeId:
        """`type: integer`."""
        return self.numeric(schema, INTEGERS) if code & NUMBER else self.fragments.integer

    def number(self, schema: Schema, code: int) -> NodeId:
        """`type: number`."""
        return self.numeric(schema, NUMBERS) if code & NUMBER else self.fragments.number

    def numeric(self, schema: Schema, numbers: NumberSet) -> NodeId:
        """A number with bounds."""
        return number_node(self.builder, numbers & number_set(schema), limits=self.limits)

    def string(self, schema: Schema, code: int) -> NodeId:
        """`type: string`."""
        f = self.fragments
        if not code & STRING:
            return f.string
        if "pattern" in schema or "format" in schema:
            raise UnsupportedSchemaError((("", "pattern, format"),))
        low, high = bounds(schema, "minLength", "maxLength")
        if 0 <= high < low:
            return f.never
        return self.builder.seq(f.quote, self.builder.repeat(f.character, low, high), f.quote)

    def array(self, schema: Schema, code: int) -> NodeId:
        """`type: array`."""
        f = self.fragments
        if not code & ARRAY:
            return f.array
        if self.depth >= DEEPEST_INLINE:
            return self.deferred(schema)
        low, high = bounds(schema, "minItems", "maxItems")
        distinct = flag(schema, "uniqueItems") and high != 1
        first, others = item_schemas(schema)
        self.depth += 1
        prefix = [self.node(item) for item in first]
        rest = self.node(others) if others is not True else f.value
        self.depth -= 1
        if distinct and not prefix:
            values = self.few_values(others)
            if values is not None:
                return permuted_array(self.builder, f, values, low, high)
        return array_node(self.builder, f, prefix, rest, low, high, distinct=distinct)

    def object(self, schema: Schema, code: int) -> NodeId:
        """`type: object`."""
        b, f = self.builder, self.fragments
        if not code & OBJECT:
            return f.object
        if self.depth >= DEEPEST_INLINE:
            return self.deferred(schema)
        properties = mapping(schema, "properties")
        required = names(schema, "required", schema["required"]) if "required" in schema else ()
        colon, node, needed = f.colon, self.node, frozenset(required)
        self.depth += 1
        members = [
            (b.node((SEQ, b.node((LITERAL, quoted(name))), colon, node(value))), name in needed) for name, value in properties.items()
        ]
        beyond = schema.get("additionalProperties", True)
        others = f.value if beyond is True else node(beyond)
        self.depth -= 1
        if len(needed) > len(properties) or not needed <= properties.keys():
            missing = [name for name in dict.fromkeys(required) if name not in properties]
            members += [(b.seq(b.literal(quoted(name)), colon, others) if others != f.never else others, True) for name in missing]
        else:
            missing = []
        extra = f.never if others == f.never else b.seq(extra_key(b, f, (*properties, *missing)), colon, others)
        return object_node(b, f, members, extra)

    def combined(self, schema: Schema, code: int) -> NodeId:
        """A subschema with references, values or combinators."""
        b = self.builder
        if self.depth >= DEEPEST_INLINE:
            return self.deferred(schema)
        beyond = code & (BEYOND_LOCAL | LOCAL)
        if beyond == VALUES:
            return self.values(schema)
        if beyond == REFERENCE:
            return self.deferred(self.resolve(schema["$ref"]))
        if beyond not in (ANY_OF, ONE_OF):
            raise UnsupportedSchemaError(tuple(("", keyword) for keyword in schema if self.codes.get(keyword, 0) & BEYOND_LOCAL))
        self.depth += 1
        keyword = "anyOf" if code & ANY_OF else "oneOf"
        node = self.alternatives([self.node(branch) for branch in schemas(schema, keyword)])
        self.depth -= 1
        return node

    def values(self, schema: Schema) -> NodeId:
        """`enum` or `const`, perhaps with `type`."""
        b, f = self.builder, self.fragments
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        return self.alternatives([value_node(b, f, value) for value in values])

    def few_values(self, schema: object) -> list[NodeId] | None:
        """The nodes of the values that a schema allows, where they are few and easily seen."""
        return None

    def resolve(self, reference: str) -> object:
        target: Any = self.root
        for token in reference[1:].split("/")[1:]:
            token = token.replace("~1", "/").replace("~0", "~")
            target = target[int(token)] if isinstance(target, list) else target[token]
        return target

    def deferred(self, schema: object) -> NodeId:
        """A rule for a subschema, to be compiled later."""
        found = self.targets.get(id(schema))
        if found is None:
            rule = self.builder.rule("nested")
            found = self.targets[id(schema)] = self.builder.call(rule)
            self.pending.append((rule, schema))
        return found


HANDLERS: Final[Mapping[str, Callable[[Compilation, Schema, int], NodeId]]] = {
    "null": Compilation.null,
    "boolean": Compilation.boolean,
    "integer": Compilation.integer,
    "number": Compilation.number,
    "string": Compilation.string,
    "array": Compilation.array,
    "object": Compilation.object,
}


def json_schema_grammar(
    schema: Mapping[str, Any] | bool,
    *,
    whitespace: str = "flexible",
    property_order: str = "schema",
    documents: Mapping[str, Any] = _NO_PROPERTIES,
    lenient: bool = False,
    format: str = "enforce",
    escapes: str = "needed",
    limits: Limits | None = None,
) -> tuple[Grammar, None]:
    """The grammar of the instances of a JSON Schema, and the report on its keywords."""
    builder, fragments = fresh(whitespace, escapes)
    compilation = Compilation(builder, fragments, dialect="2020-12", root=schema, limits=limits or Limits())
    compilation.run(ROOT, schema)
    return builder.build(ROOT), None
