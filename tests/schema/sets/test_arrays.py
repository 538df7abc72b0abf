"""Arrays: every short array over a few values against the definition, and large counts."""

from __future__ import annotations

import itertools
import json
import random
import time
from typing import Any

import jsonschema
import pytest
from support.engines import STOP, Engine, accepts, matcher, prepare
from support.schemas import takes

from stackmask.pda import engine
from stackmask.pda.budget import Budget
from stackmask.pda.exceptions import LimitError, UnsatisfiableError, UnsupportedSchemaError
from stackmask.pda.grammar import GrammarBuilder
from stackmask.schema.emit import arrays as emit_arrays
from stackmask.schema.json_schema import json_schema_grammar, json_schema_node
from stackmask.schema.sets import objects

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


SUBSCHEMAS: tuple[Any, ...] = (
    *({"const": value} for value in (0, 1, 2, "x", "y", None)),
    *({"enum": [0, 1]}, {"enum": ["x", 2]}, {"enum": [1, "y", True]}, {"not": {"const": 1}}, {"type": "integer"}, {"minimum": 1}, True),
    *({"type": "integer", "minimum": 0, "maximum": 2}, {"not": {"enum": [0, "x"]}}, {"type": ["string", "null"], "maxLength": 1}),
)


@pytest.mark.parametrize("few", [1, 2, 8])
@pytest.mark.parametrize("seed", range(24))
def test_many_counts(kernel: Engine, monkeypatch: pytest.MonkeyPatch, seed: int, few: int) -> None:
    """Arrays that contain several things each accept what jsonschema finds valid, also where lists of values are cut off at once."""
    monkeypatch.setattr(emit_arrays, "JOINT_ITEM_LISTS", few)
    monkeypatch.setattr(objects, "FILTERED_LISTS", few)
    chance = random.Random(seed)
    parts: list[dict[str, Any]] = []
    for _ in range(chance.randint(1, 4)):
        part: dict[str, Any] = {"contains": chance.choice(SUBSCHEMAS)}
        if chance.random() < 0.4:
            part["minContains"] = chance.randint(0, 2)
        if chance.random() < 0.3:
            part["maxContains"] = chance.randint(max(1, part.get("minContains", 1)), 3)
        parts.append(part)
    schema: dict[str, Any] = {"type": "array", "allOf": parts}
    if chance.random() < 0.5:
        schema["prefixItems"] = [chance.choice(SUBSCHEMAS) for _ in range(chance.randint(1, 2))]
    if chance.random() < 0.4:
        schema["items"] = chance.choice(SUBSCHEMAS)
    if chance.random() < 0.3:
        schema["maxItems"] = chance.randint(1, 4)
    validator = jsonschema.Draft202012Validator(schema)
    arrays = [[chance.choice((0, 1, 2, 3, "x", "y", "zz", None, True)) for _ in range(chance.randint(0, 5))] for _ in range(60)]
    try:
        ready = prepare(kernel, json_schema_grammar(schema)[0])
    except UnsatisfiableError:
        assert not any(map(validator.is_valid, arrays))
        return
    start = kernel.Matcher(ready, [STOP])
    assert [takes(start, value) for value in arrays] == [validator.is_valid(value) for value in arrays]


def containing(count: int, subschema: Any, **beside: Any) -> Any:
    """Arrays that contain so many things."""
    return {"type": "array", "allOf": [{"contains": subschema(n)} for n in range(count)], **beside}


PREFIX: list[Any] = [{"type": "integer"}, {"type": "string"}]
CONTAINED = [
    (30, lambda n: {"const": n}, {}, "compile_work", 20_000),
    (300, lambda n: {"const": n}, {"prefixItems": PREFIX}, "compile_work", 60_000),
    (10, lambda n: {"required": [f"k{n}"], "type": "object"}, {"prefixItems": PREFIX}, "compile_work", 60_000),
    (300, lambda n: {"required": [f"k{n}"], "type": "object"}, {}, "compile_work", 100_000),
]


@pytest.mark.parametrize(("count", "subschema", "beside", "limit", "most"), CONTAINED)
def test_too_many_counts(count: int, subschema: Any, beside: Any, limit: str, most: int) -> None:
    """Where each set of things that were met is a state, an array is refused before its graph is made."""
    budget = Budget()
    with pytest.raises(LimitError) as caught:
        json_schema_node(GrammarBuilder(), containing(count, subschema, **beside), budget=budget)
    assert caught.value.limit == limit
    assert budget.work < most


def test_a_first_item_for_each_count() -> None:
    """Nothing is refused that the first items count already."""
    first = [{"const": n} for n in range(40)]
    start = matcher(engine, json_schema_grammar(containing(40, lambda n: {"const": n}, prefixItems=first))[0])
    assert takes(start, list(range(40)))
    assert not takes(start, list(range(39)))
