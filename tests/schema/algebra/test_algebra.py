"""The laws of the algebra of schemas, checked on languages: what a combination accepts is the combination of what its parts accept."""

from __future__ import annotations

import itertools
import json
from decimal import Decimal
from typing import Any

import pytest
from support.engines import STOP, Engine, accepts, matcher, prepare
from support.schemas import Schemas, takes

from stackmask.pda.budget import Budget
from stackmask.pda.exceptions import StackmaskError, UnsatisfiableError
from stackmask.schema.algebra.algebra import Algebra
from stackmask.schema.dialect.references import Registry
from stackmask.schema.json_schema import json_schema_grammar
from stackmask.schema.sets.types import NEVER, TRUE, Text, conjunction

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, 2, 1.5, "", "a", "ab", "abc"),
    *([], [1], ["a"], [1, 1], [1, "a"], [[], {}]),
    *({}, {"a": 1}, {"b": 1}, {"a": "x"}, {"a": 1, "b": 2}, {"ab": 1}, {"a": {"a": 1}}, {"c": [1]}),
)
SCHEMAS: tuple[Any, ...] = (
    {"type": "integer"},
    {"minimum": 1},
    {"type": ["string", "null"], "maxLength": 1},
    {"pattern": "^a"},
    {"enum": ["a", 1, [1], {"a": 1}]},
    {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
    {"patternProperties": {"^a": {"type": "integer"}}, "maxProperties": 1},
    {"items": {"type": "integer"}, "minItems": 1},
    {"contains": {"const": 1}},
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {"properties": {"a": {"$ref": "#"}}, "type": "object"},
    {"dependentRequired": {"a": ["b"]}},
)


def language(kernel: Engine, schema: Any) -> list[bool]:
    """Which of the values a schema accepts."""
    try:
        ready = prepare(kernel, json_schema_grammar(schema)[0])
    except UnsatisfiableError:
        return [False] * len(VALUES)
    return [takes(kernel.Matcher(ready, [STOP]), value) for value in VALUES]


@pytest.fixture(scope="module")
def languages(kernel: Engine) -> list[list[bool]]:
    """What each schema accepts on its own."""
    return [language(kernel, schema) for schema in SCHEMAS]


def without_root(schema: Any) -> Any:
    """The schema for use below a combinator, where `#` would name something else."""
    return json.loads(json.dumps(schema).replace('"#"', '"#/$defs/r"'))


def combined(kernel: Engine, keyword: str, *schemas: Any) -> list[bool]:
    """What a combinator over schemas accepts."""
    parts = [without_root(schema) for schema in schemas]
    definitions = {"r": {"properties": {"a": {"$ref": "#/$defs/r"}}, "type": "object"}}
    return language(kernel, {keyword: parts[0] if keyword == "not" else parts, "$defs": definitions})


@pytest.mark.parametrize("index", range(len(SCHEMAS)))
def test_complement(kernel: Engine, languages: list[list[bool]], index: int) -> None:
    """Not accepts the rest."""
    assert combined(kernel, "not", SCHEMAS[index]) == [not taken for taken in languages[index]]


@pytest.mark.parametrize(("i", "j"), list(itertools.combinations(range(len(SCHEMAS)), 2)))
def test_pairs(kernel: Engine, languages: list[list[bool]], i: int, j: int) -> None:
    """AllOf is intersection, anyOf union, oneOf symmetric difference of two."""
    a, b = languages[i], languages[j]
    assert combined(kernel, "allOf", SCHEMAS[i], SCHEMAS[j]) == [x and y for x, y in zip(a, b, strict=True)]
    assert combined(kernel, "anyOf", SCHEMAS[i], SCHEMAS[j]) == [x or y for x, y in zip(a, b, strict=True)]
    assert combined(kernel, "oneOf", SCHEMAS[i], SCHEMAS[j]) == [x != y for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize("seed", range(60))
def test_double_negation(kernel: Engine, seed: int) -> None:
    """The complement of the complement is the schema."""
    schema = Schemas(seed, unique=False).schema(2)
    try:
        plain = language(kernel, schema)
        double = language(kernel, {"allOf": [{"not": {"allOf": [{"not": schema}, True]}}, True]})
    except StackmaskError as error:
        assert "$ref" in json.dumps(schema), error
        return
    assert plain == double


def algebra(schema: Any) -> Algebra:
    """The algebra of a schema."""
    return Algebra(Registry(schema), Budget())


def test_literals_are_shared() -> None:
    """A subschema has one number, true and {} have the number of `true`."""
    schema: dict[str, Any] = {"a": {"type": "null"}}
    it = algebra(schema)
    scope = it.registry.root
    assert it.numbering.literal(True, scope) == it.numbering.literal({}, scope) == TRUE
    assert it.numbering.literal(False, scope) == -TRUE
    assert it.numbering.literal(schema["a"], scope) == it.numbering.literal(schema["a"], scope) > TRUE
    assert it.numbering.constant([1, {"a": 2}]) == it.numbering.constant([1.0, {"a": 2}]) != it.numbering.constant([True, {"a": 2}])
    alike = [{"items": [number]} for number in (1, 1, 1.0, True, Decimal(1), Decimal(1))]
    first, second, *others = [it.numbering.literal(written, scope) for written in alike]
    assert first == second, "what is written alike in one scope is one"
    assert len({first, *others}) == 5, "and what is only equal is not, nor what may not be read twice"
    kept: list[Any] = []
    for spelled in (
        [{"const": value} for value in (1, 1.0, True, "1", None)],
        [{"not": {"const": value}} for value in ("a", 1, 1.0, True)],
        [{"enum": [value]} for value in ("a", 1, 1.0, True)],
        [{"not": value} for value in ({}, {"type": "null"}, {"$ref": "null"}, {"type": ["null"]})],
        [{"required": value} for value in ([], ["a"], ["b"], ["a", "b"], ["b", "a"], [f"{key}" for key in range(200)])],
        [{"required": [f"{key}" for key in range(length)], "maxLength": 1} for length in (100, 101, 102)],
    ):
        kept += (json.loads(json.dumps(spelled)), json.loads(json.dumps(spelled)))  # numbered by their addresses
        first, second = ([it.numbering.literal(written, scope) for written in copy] for copy in kept[-2:])
        assert first == second
        assert len(set(first)) == len(spelled), "whatever is left out of an outline, or equal in Python"
    nested = [{"items": [{"maxLength": number}]} for number in (1, 2, 2, 1, 3)]
    one, two, two_again, one_again, three = [it.numbering.literal(written, scope) for written in nested]
    assert (one, two) == (one_again, two_again), "the first of its outline and those behind it"
    assert len({one, two, three}) == 3
    assert conjunction(3, -3) == NEVER
    assert conjunction(TRUE) == frozenset()


def test_copies_in_branches_need_no_complement() -> None:
    """Branches of a oneOf that overlap are told apart by where they differ, however large the members are that they share."""

    def branch(kind: str) -> Any:
        items = {"type": "array", "maxItems": 100, "items": {"type": "string", "maxLength": 9}}
        return {"type": "object", "properties": {"kind": {"const": kind}, "a": items, "b": items}, "additionalProperties": False}

    schema = json.loads(json.dumps({"oneOf": [branch("x"), branch("y"), branch("z")]}))
    assert len(json_schema_grammar(schema)[0].nodes) < 100


def test_union_of_required_stays_one_part() -> None:
    """AnyOf over required keys multiplies nothing: it is one clause."""
    schema = {"type": "object", "anyOf": [{"required": [name]} for name in "abcdefgh"]}
    it = algebra(schema)
    parts = it.normal(conjunction(it.numbering.literal(schema, it.registry.root)))
    assert len(parts.objects) == 1
    assert [len(clause) for clause in parts.objects[0].clauses] == [8]


def test_excluded_words_stay_words() -> None:
    """Complements of many constants are one test, without an automaton."""
    schema = {"type": "string", "allOf": [{"not": {"const": word}} for word in ("a", "b", "c")]}
    it = algebra(schema)
    parts = it.normal(conjunction(it.numbering.literal(schema, it.registry.root)))
    assert parts.texts == (Text(tests=frozenset({("words", frozenset("abc"), False)})),)
    assert not it.strings.combined.keys() - {frozenset()}


def test_implications_over_one_key_stay_small(kernel: Engine) -> None:
    """30 conditions on the value of one key, each with requirements of its own, make a graph that is linear in them."""
    kinds = [f"k{i}" for i in range(30)]
    schema = {
        "type": "object",
        "properties": {"kind": {"enum": kinds}},
        "required": ["kind"],
        "allOf": [{"if": {"properties": {"kind": {"const": k}}}, "then": {"required": [f"{k}a", f"{k}b"]}} for k in kinds],
    }
    grammar = json_schema_grammar(schema)[0]
    assert len(grammar.nodes) < 2_000
    start = matcher(kernel, grammar)
    assert accepts(start, b'{"kind":"k3","k3a":1,"k3b":2}')
    assert not accepts(start, b'{"kind":"k3","k3a":1}')
    assert not accepts(start, b'{"kind":"k4","k3a":1,"k3b":2}')
