"""Arrays: every short array over a few values against the definition, and large counts."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

import jsonschema
import pytest
from support.engines import STOP, Engine, accepts, matcher, prepare
from support.schemas import takes

from stackmask.pda.exceptions import UnsatisfiableError, UnsupportedSchemaError
from stackmask.schema.compile import json_schema_grammar

VALUES = (0, "x", None)
ARRAYS = [list(items) for size in range(5) for items in itertools.product(VALUES, repeat=size)]
PARTS: tuple[dict[str, Any], ...] = (
    {"items": {"type": ["integer", "string"]}},
    {"prefixItems": [{"type": "integer"}, {"type": "string"}]},
    {"prefixItems": [True, {"type": "null"}], "items": False},
    {"minItems": 2},
    {"maxItems": 2},
    {"contains": {"type": "integer"}},
    {"contains": {"type": "string"}, "minContains": 2},
    {"contains": {"type": "null"}, "minContains": 0, "maxContains": 1},
    {"not": {"contains": {"type": "integer"}}},
    {"not": {"items": {"type": "integer"}}},
    {"not": {"prefixItems": [{"type": "integer"}, {"type": "string"}]}},
    {"items": {"enum": [0, "x", None]}, "uniqueItems": True},
    {"not": {"items": {"enum": [0, "x"]}, "uniqueItems": True}},
    {"anyOf": [{"maxItems": 1}, {"prefixItems": [{"const": 0}]}]},
    {"prefixItems": [{"type": "integer"}], "unevaluatedItems": {"type": "null"}},
)


@pytest.mark.parametrize(("i", "j"), list(itertools.combinations_with_replacement(range(len(PARTS)), 2)))
def test_every_array(kernel: Engine, i: int, j: int) -> None:
    """Two groups of keywords together accept exactly the arrays that jsonschema finds valid."""
    schema = {"type": "array", "allOf": [PARTS[i], PARTS[j]]}
    validator = jsonschema.Draft202012Validator(schema)
    expected = [validator.is_valid(value) for value in ARRAYS]
    try:
        ready = prepare(kernel, json_schema_grammar(schema)[0])
    except UnsatisfiableError:
        assert not any(expected)
        return
    start = kernel.Matcher(ready, [STOP])
    assert [takes(start, value) for value in ARRAYS] == expected


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        ({"type": "array", "not": {"uniqueItems": True}}, True),
        ({"type": "array", "items": {"type": "string"}, "not": {"uniqueItems": True}}, True),
        ({"type": "array", "items": {"type": ["boolean", "null"]}, "not": {"uniqueItems": True}}, False),
        ({"type": "array", "prefixItems": [{"enum": [1, 2]}] * 2, "items": False, "not": {"uniqueItems": True}}, False),
    ],
)
def test_items_that_repeat(kernel: Engine, schema: dict[str, Any], named: bool) -> None:
    """That two items are equal is exact where items are drawn from few values, and refused by name elsewhere."""
    if named:
        with pytest.raises(UnsupportedSchemaError, match="/not/uniqueItems"):
            json_schema_grammar(schema)
        return
    start = kernel.Matcher(prepare(kernel, json_schema_grammar(schema)[0]), [STOP])
    validator = jsonschema.Draft202012Validator(schema)
    values = (1, 2, None, False, True)
    for value in (list(items) for size in range(4) for items in itertools.product(values, repeat=size)):
        assert takes(start, value) == validator.is_valid(value), value


def test_large_counts_stay_counters(engine: Engine) -> None:
    """MinItems and maxItems of 100,000 are one repetition."""
    start = time.thread_time()
    schema = {
        "type": "array",
        "items": {"type": "object", "properties": {"a": {"type": "integer"}}},
        "minItems": 50_000,
        "maxItems": 100_000,
    }
    grammar = json_schema_grammar(schema)[0]
    assert time.thread_time() - start < 1
    assert len(grammar.nodes) < 100


@pytest.mark.parametrize(("low", "high"), [(0, 0), (0, 1), (1, 1), (2, 3), (3, -1)])
@pytest.mark.parametrize("prefix", [0, 1, 2])
def test_bounds_and_prefix(engine: Engine, low: int, high: int, prefix: int) -> None:
    """Bounds hold wherever the prefix ends."""
    schema: dict[str, Any] = {"type": "array", "items": {"type": "string"}, "minItems": low}
    if prefix:
        schema["prefixItems"] = [{"type": "integer"}] * prefix
    if high >= 0:
        schema["maxItems"] = high
    start = matcher(engine, json_schema_grammar(schema)[0])
    for size in range(6):
        items = [0 if i < prefix else "x" for i in range(size)]
        expected = low <= size and (high < 0 or size <= high)
        assert accepts(start, json.dumps(items).encode()) is expected
        if size and expected:
            assert not accepts(start, json.dumps([None, *items[1:]]).encode())


def test_unique_values_end_without_a_dead_end(kernel: Engine) -> None:
    """Where few values are left, only those are offered, and then the end."""
    schema = {"type": "array", "items": {"enum": ["a", "ab", True]}, "uniqueItems": True}
    start = matcher(kernel, json_schema_grammar(schema, whitespace="compact")[0])
    assert start.accept_bytes(b'["ab","a"')
    assert start.next_bytes() == b",]"
    assert start.accept_bytes(b",")
    assert start.find_jump_forward_string() == "true]"


@pytest.mark.parametrize("zero", ["0", "-0e7"])
def test_zero_with_an_exponent_is_zero(engine: Engine, zero: str) -> None:
    """Where zero has been seen, a zero gets no exponent; where it has not, it may."""
    start = matcher(engine, json_schema_grammar({"type": "array", "items": {"type": "number"}, "uniqueItems": True})[0])
    for seen, after in ((zero, b""), ("1", b"Ee,]")):
        for text, more in (("0", b"."), ("-0", b"."), ("0.0", b"0123456789"), ("-0.00", b"0123456789")):
            at = start.fork()
            assert at.accept_bytes(f"[{seen},{text}".encode())
            assert set(at.next_bytes()) - set(b" \t\n\r") == set(after + more), text
        assert takes(start, [json.loads(seen), 0.01])
