"""The corpus of JSON Schemas on both engines, and the ways in: errors, options, limits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import tomllib
from typing import Any

import pytest
from support.corpus import CORPUS
from support.engines import Engine, accepts, matcher

from stackmask.pda.analysis import productive
from stackmask.pda.exceptions import LimitError, SchemaError, UnsatisfiableError, UnsupportedSchemaError
from stackmask.pda.grammar import GrammarBuilder
from stackmask.pda.limits import Limits
from stackmask.schema.json_schema import json_grammar, json_schema_grammar, json_schema_node, unsatisfiable

CASES = tomllib.loads((CORPUS / "json_schema.toml").read_text(encoding="utf-8"))["case"]


def compiled(schema: Any, **options: Any) -> Any:
    """The grammar alone."""
    return json_schema_grammar(schema, **options)[0]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_corpus(engine: Engine, case: dict[str, Any]) -> None:
    """Every text of a case is accepted or refused as it says."""
    start = matcher(engine, compiled(json.loads(case["schema"]), **case.get("options", {})))
    for text in case["accepts"]:
        assert accepts(start, text.encode()), text
    for text in case["rejects"]:
        assert not accepts(start, text.encode()), text


def nested(levels: int, schema: Any, around: Any) -> Any:
    """A schema inside `levels` copies of another."""
    for _ in range(levels):
        schema = around(schema)
    return schema


AROUND = {
    "properties": lambda s: {"type": "object", "properties": {"a": s}, "required": ["a"]},
    "items": lambda s: {"type": "array", "items": s, "minItems": 1, "maxItems": 3},
    "allOf": lambda s: {"allOf": [s, {"type": "string"}]},
    "anyOf": lambda s: {"anyOf": [s, {"type": "integer"}]},
    "not": lambda s: {"not": {"not": s}},
    "if": lambda s: {"if": s, "then": {"minLength": 1}},
    "additionalProperties": lambda s: {"additionalProperties": s},
}


@pytest.mark.parametrize("kind", AROUND)
def test_depth_costs_linear_time(kind: str) -> None:
    """2,000 levels of nesting compile in a moment; peers take cubic time, or end at a depth of 100."""
    start = time.thread_time()
    compiled(nested(2_000, {"type": "string"}, AROUND[kind]))
    assert time.thread_time() - start < 10


@pytest.mark.parametrize("levels", [100, 5_000])
def test_depth_of_a_constant(levels: int) -> None:
    """A nested constant is written without recursion."""
    assert compiled({"const": nested(levels, 1, lambda s: [s])}).nodes
    assert compiled({"enum": [nested(levels, 1, lambda s: {"a": s})], "minProperties": 1}).nodes


def test_many_values() -> None:
    """100,000 values compile at once."""
    assert len(compiled({"enum": [f"v{i}" for i in range(100_000)]}).nodes) > 100_000


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"properties": {"a/b": {"minLength": "x"}}}, "/properties/a~1b/minLength"),
        ({"type": "strin"}, "/type"),
        ({"type": 5}, "/type"),
        ({"type": []}, "/type"),
        ({"items": {"anyOf": []}}, "/items/anyOf"),
        ({"properties": []}, "/properties"),
        ({"required": True}, "/required"),
        ({"enum": 5}, "/enum"),
        ({"$ref": "#/$defs/x"}, "/$ref"),
        ({"$ref": 5}, "/$ref"),
        ({"multipleOf": 0, "type": "number"}, "/multipleOf"),
        ({"minimum": "5"}, "/minimum"),
        ({"minItems": -1}, "/minItems"),
        ({"uniqueItems": 1}, "/uniqueItems"),
        ({"pattern": 5}, "/pattern"),
        ({"additionalProperties": "x"}, "must be an object or a boolean, not 'x'"),
        ({"const": float("nan")}, "nan"),
        ({"const": "\ud800"}, "surrogate"),
        ({"properties": {1: {}}}, "is not a property name"),
        ({"$ref": "#", "anyOf": [{"type": "string"}]}, "refers to itself"),
        ([], "must be an object or a boolean"),
    ],
)
def test_malformed(schema: Any, place: str) -> None:
    """A malformed schema is an error that says where."""
    with pytest.raises(SchemaError) as caught:
        compiled(schema)
    assert place in str(caught.value)


UNSUPPORTED = {
    "type": "object",
    "properties": {
        "a": {"type": "string", "pattern": r"^(.)\1$"},
        "b": {"type": "array", "not": {"uniqueItems": True}},
        "c": {"type": "string"},
    },
    "patternProperties": {r"(x)\1": {"type": "integer"}},
}


def test_unsupported_lists_every_keyword() -> None:
    """All that cannot be exact is in one error, each with its pointer."""
    with pytest.raises(UnsupportedSchemaError) as caught:
        compiled(UNSUPPORTED)
    assert {pointer for pointer, _ in caught.value.problems} == {
        "/properties/a/pattern",
        "/properties/b/not",
        r"/patternProperties/(x)\1",
    }


def test_lenient_lists_what_it_leaves_out(engine: Engine) -> None:
    """A lenient compilation drops the same keywords, and only those."""
    grammar, report = json_schema_grammar(UNSUPPORTED, lenient=True)
    assert len(report.approximated) == 3
    start = matcher(engine, grammar)
    assert accepts(start, b'{"a":"xy","b":[1,2]}')
    assert not accepts(start, b'{"a":1}')
    assert not accepts(start, b'{"b":{}}')


@pytest.mark.parametrize(
    ("schema", "keywords"),
    [
        ({"type": "string", "minLength": 5, "maxLength": 3, "title": "x"}, ["/minLength", "/maxLength"]),
        ({"type": "object", "required": ["a"], "properties": {"a": False}}, ["/required", "/properties"]),
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, ["/allOf/0/type", "/allOf/1/type"]),
        (False, []),
    ],
)
def test_unsatisfiable_names_the_constraints(schema: Any, keywords: list[str]) -> None:
    """What no instance can satisfy is an error that names what contradicts each other."""
    with pytest.raises(UnsatisfiableError) as caught:
        compiled(schema)
    for keyword in keywords:
        assert keyword in str(caught.value)
    assert "title" not in str(caught.value)


@pytest.mark.parametrize("size", [1, 57, 58, 59])
def test_long_values_are_cut(size: int) -> None:
    """A pattern is shown whole with up to 60 characters of JSON, the quotes included, and cut to 60 beyond."""
    shown = f'"{"a" * size}"' if size <= 58 else f'"{"a" * 56}...'
    message = str(unsatisfiable({"type": "string", "pattern": "a" * size, "maxLength": 0}))
    assert f"match the pattern {shown} (/pattern)" in message


def test_what_only_an_engine_finds_empty() -> None:
    """An object that needs itself without end is empty, and the error for it says why."""
    schema = {"type": "object", "title": "t", "required": ["a"], "properties": {"a": {"$ref": "#"}, "b": {"type": "string"}}}
    grammar = compiled(schema)
    assert not productive(grammar.nodes, grammar.rules)[1][grammar.root]
    assert str(unsatisfiable(schema)) == (
        "no instance can satisfy the schema, which refers to itself without end: the value must be an object (/type) and "
        'have the member "a" (/required); `/a` must be an instance of # (/properties/a/$ref)'
    )
    grammar = compiled({**schema, "required": []})
    assert productive(grammar.nodes, grammar.rules)[1][grammar.root]


@pytest.mark.parametrize("nesting", [60, 1999, 2000, 2001, 100_000])
@pytest.mark.parametrize(
    "schema", [{"enum": ["x" * 1000]}, {"enum": [*range(200)]}, {f"x-key{i}": True for i in range(90)}, {"const": "é" * 400}]
)
def test_limits_whatever_the_other_is(schema: dict[str, Any], nesting: int) -> None:
    """A schema is too long by its compact JSON, give or take a byte for each list and object, however deep schemas may be."""
    length = len(json.dumps(schema, separators=(",", ":"), ensure_ascii=False))
    for limit in (10, length // 7, length // 2, length - 2):
        with pytest.raises(LimitError) as caught:
            json_schema_grammar(schema, limits=Limits(nesting=nesting, specification_bytes=limit))
        assert (caught.value.limit, caught.value.value) == ("specification_bytes", limit)
    for limit in (length + 2, 5 * length, 7 * length, 100 * length):
        json_schema_grammar(schema, limits=Limits(nesting=nesting, specification_bytes=limit))


def test_limits_on_the_schema() -> None:
    """A schema that is deeper or longer than the limits is refused before it is read."""
    schema: Any = {"enum": ["x" * 1000]}
    for _ in range(50):
        schema = {"items": schema}
    for limits, name in ((Limits(nesting=50), "nesting"), (Limits(specification_bytes=1000), "specification_bytes")):
        with pytest.raises(LimitError) as caught:
            json_schema_grammar(schema, limits=limits)
        assert caught.value.limit == name
    json_schema_grammar(schema, limits=Limits(nesting=52, specification_bytes=2000))
    round_and_round: dict[str, Any] = {}
    round_and_round["items"] = round_and_round
    with pytest.raises(LimitError, match="nested more than"):
        json_schema_grammar(round_and_round)


def test_required_keys_keep_the_place_where_they_are_declared(engine: Engine) -> None:
    """A key that one subschema requires and another declares comes where that one has it."""
    schema = {"type": "object", "required": ["c", "a"], "anyOf": [{"properties": {"a": {}, "b": {}, "c": {}}}, {"required": ["z"]}]}
    start = matcher(engine, compiled(schema))
    assert accepts(start, b'{"a":1,"b":2,"c":3}')
    assert accepts(start, b'{"a":1,"b":2,"c":3,"d":4}')
    assert not accepts(start, b'{"a":1,"b":2}')


def test_product_of_alternatives_ends_in_a_limit() -> None:
    """An exponential product of unions is a LimitError, and soon."""
    branches = [
        {"anyOf": [{"properties": {f"{a}{i}": {"const": 1}, b: {"type": "string"}}} for a, b in (("a", "x"), ("b", "y"))]}
        for i in range(40)
    ]
    with pytest.raises(LimitError):
        compiled({"type": "object", "allOf": branches})


def test_time_limit() -> None:
    """The wall-clock budget holds."""
    schema = {"type": "object", "patternProperties": {f"^.*{chr(97 + i)}{i}.*$": {"minLength": i} for i in range(26)}}
    with pytest.raises(LimitError):
        compiled(schema, limits=Limits(compile_seconds=0.2))


@pytest.mark.parametrize("option", [{"property_order": "none"}, {"format": "x"}, {"escapes": "all"}])
def test_wrong_option(option: dict[str, Any]) -> None:
    """An option with an unknown value is an error."""
    with pytest.raises(ValueError, match=next(iter(option))):
        compiled(True, **option)


def test_any_json(engine: Engine) -> None:
    """json_grammar takes every JSON value and nothing else."""
    start = matcher(engine, json_grammar())
    for text in ('{"a":[1,{"b":null}]}', "[]", "-1.5e3", '"x"', "true"):
        assert accepts(start, text.encode())
    for text in ("", "{", "[1,]", "01", '{"a"}', "nul", "[1]]"):
        assert not accepts(start, text.encode())


def test_whitespace_of_any_json_is_checked() -> None:
    """As that of a schema: only blanks, also where a schema asks for the same later."""
    for _ in range(2):
        with pytest.raises(SchemaError, match="whitespace must be"):
            json_grammar(whitespace="x?")
        with pytest.raises(SchemaError, match="whitespace must be"):
            json_schema_grammar(True, whitespace="x?")


def test_node_in_another_grammar(engine: Engine) -> None:
    """A schema is a node of a larger grammar."""
    b = GrammarBuilder()
    root = b.rule("root")
    node, report = json_schema_node(b, {"type": "array", "items": {"type": "integer"}})
    b.define(root, b.seq(b.literal(b"<"), node, b.literal(b">")))
    start = matcher(engine, b.build(root))
    assert accepts(start, b"<[1,2]>")
    assert not accepts(start, b"[1,2]")
    assert [entry.keyword for entry in report] == ["type", "items", "type"]


def test_documents(engine: Engine) -> None:
    """References lead to documents that the caller hands over, and nowhere else."""
    schema = {"type": "object", "properties": {"a": {"$ref": "https://e.x/s#/$defs/n"}}}
    grammar = compiled(schema, documents={"https://e.x/s": {"$defs": {"n": {"type": "integer"}}}})
    start = matcher(engine, grammar)
    assert accepts(start, b'{"a":1}')
    assert not accepts(start, b'{"a":"x"}')
    with pytest.raises(SchemaError, match="nothing is fetched"):
        compiled(schema)


def test_everyday_schema_is_small() -> None:
    """An everyday object is a chain without copies: its size is that of the schema."""
    schema = {"type": "object", "properties": {f"p{i}": {"type": "object", "properties": {"x": {"type": "string"}}} for i in range(50)}}
    grammar = compiled(schema)
    assert len(grammar.nodes) < 400
    assert str(grammar).startswith("root ::= ")


@pytest.mark.parametrize("branch", [True, {}, {"title": "anything"}])
def test_a_branch_of_any_value_stands_alone(branch: Any) -> None:
    """Beside a branch that takes any value the others say nothing; two ways to read a value would only make masks slower."""
    union = {"anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, branch, {"enum": [1, 2]}]}
    several = {"anyOf": [{"type": "string", "maxLength": 5}, {"anyOf": [{"const": 1}, branch]}]}
    expected = str(compiled({"type": "array", "items": {}}, whitespace="compact"))
    for items in (union, several):
        assert str(compiled({"type": "array", "items": items}, whitespace="compact")) == expected


@pytest.mark.parametrize("most", [2_000_000_001, 1 << 31, 1 << 32, 1 << 64, 10**30, 1e30])
def test_counts_that_no_text_can_have(engine: Engine, most: float) -> None:
    """A lower bound of 32 bits and more is an error with its place, and an upper one is none."""
    for kind, word, text in (("string", "Length", b'"ab"'), ("array", "Items", b"[1,2]"), ("object", "Properties", b'{"a":1}')):
        for order in ("schema", "any"):
            assert accepts(matcher(engine, json_schema_grammar({"type": kind, f"max{word}": most}, property_order=order)[0]), text)
            with pytest.raises(UnsupportedSchemaError, match=f"/anyOf/1/min{word}: .* is more than any text can have"):
                json_schema_grammar({"anyOf": [{"type": "null"}, {"type": kind, f"min{word}": most}]}, property_order=order)
            for schema in ({"not": {f"max{word}": most}}, {"type": kind, "allOf": [{f"min{word}": most}]}):
                with pytest.raises(UnsupportedSchemaError, match=f"{word}: .* is more than any text can have"):
                    json_schema_grammar(schema, property_order=order)
            # The complement of a lower bound says nothing; that of an upper one leaves what else there is.
            assert accepts(matcher(engine, compiled({"type": kind, "not": {f"min{word}": most}}, property_order=order)), text)
            start = matcher(engine, compiled({"type": [kind, "null"], "not": {"type": kind, f"max{word}": most}}, property_order=order))
            assert accepts(start, b"null")
            assert not accepts(start, text)
    assert accepts(matcher(engine, json_schema_grammar({"contains": {"type": "null"}, "maxContains": most})[0]), b"[null,null]")
    for text in ({"pattern": "^a"}, {"pattern": "^a", "minLength": 2}, {"format": "hostname"}):
        assert accepts(matcher(engine, compiled({"type": "string", **text, "maxLength": most})), b'"ab"')
        with pytest.raises(UnsupportedSchemaError, match=r"/minLength: .* is more than any text can have"):
            compiled({"type": "string", **text, "minLength": most})
    with pytest.raises(UnsupportedSchemaError, match=r"/propertyNames/minLength: .* is more than any text can have"):
        json_schema_grammar({"propertyNames": {"minLength": most}})
    with pytest.raises(UnsupportedSchemaError, match="/minContains"):
        json_schema_grammar({"contains": {"type": "null"}, "minContains": most})
    with pytest.raises(LimitError):
        json_schema_grammar({"contains": {"type": "null"}, "maxContains": 10**9})


def test_equal_grammars_in_every_process() -> None:
    """The order in which strings hash does not show in a grammar: of several patterns and formats, of their complements, of types."""
    code = (
        "from stackmask.schema.json_schema import json_schema_grammar as g; p = [{'pattern': x} for x in ('a1', 'b2', '^c', 'd$', 'ef')]; "
        "print([g(s)[0] for s in ({'type': 'string', 'allOf': p, 'maxLength': 20}, {'not': {'allOf': [*p, {'format': 'date'}]}}, "
        "{'type': 'object', 'patternProperties': {x['pattern']: {'type': 'null'} for x in p}, 'propertyNames': {'not': {'allOf': p}}})])"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in "123"
    }
    assert len(texts) == 1
