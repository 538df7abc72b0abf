"""Random schemas with all keywords against python-jsonschema, in both directions, and random walks that must end in valid instances.

500 schemas by default. The nightly run is STACKMASK_RANDOM_SCHEMAS=20000 pytest tests/schema/test_random_schemas.py.
"""

from __future__ import annotations

import json
import os
import random
from decimal import Decimal
from typing import Any

import jsonschema
import pytest
from support.engines import STOP, Engine, prepare
from support.schemas import Schemas, near, takes

from stackmask.pda.exceptions import LimitError, SchemaError, UnsatisfiableError, UnsupportedSchemaError
from stackmask.schema.emit import objects
from stackmask.schema.json_schema import json_schema_grammar

SCHEMAS = int(os.environ.get("STACKMASK_RANDOM_SCHEMAS", "500"))
BLOCKS = 10
WALK = 300
ENDS = frozenset("\n\r\u2028\u2029")
"""Ends of lines, of which Python's `.` and `$` know the first alone."""
LIKELY = frozenset(b'",:{}[]ab01tfn')


def instances(source: Schemas, schema: Any) -> list[Any]:
    """Random values, and some that stand in the schema."""
    return [source.value(3) for _ in range(25)] + list(near(schema, source.random))[:20]


def walk(matcher: Any, choose: random.Random) -> bytes:
    """A text made by random allowed bytes, completed by the shortest completion where it grows long."""
    text = b""
    while len(text) < WALK:
        allowed = matcher.next_bytes()
        if matcher.is_completed() and (not allowed or choose.random() < 0.3):
            return text
        assert allowed, f"a dead end after {text!r}"
        byte = bytes((choose.choice([b for b in allowed if b in LIKELY] or list(allowed)),))
        assert matcher.accept_bytes(byte)
        text += byte
    rest = matcher.shortest_completion()
    assert matcher.accept_bytes(rest)
    assert matcher.is_completed()
    return text + bytes(rest)


def holds_ends(value: Any) -> bool:
    """Whether a string in a value holds the end of a line."""
    if isinstance(value, str):
        return bool(ENDS & set(value))
    return isinstance(value, list | dict) and any(map(holds_ends, value.values() if isinstance(value, dict) else value))


def parsed(text: bytes) -> Any:
    """The value of a text, None where a key is repeated, whose meaning JSON leaves open, or where Python's . and $ mislead jsonschema.

    None also where a float is whole and the number is not: jsonschema calls it an integer.
    """

    def inexact(text: str) -> float:
        number, value = Decimal(text), float(text)
        if value.is_integer() and number != number.to_integral_value():
            raise KeyError
        return value

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) != len(pairs) or any(ENDS & set(name) for name, _ in pairs):
            raise KeyError
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=unique, parse_float=inexact)
    except KeyError:
        return None


@pytest.mark.parametrize("order", ["schema", "any", "graphs"])
@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_schemas(kernel: Engine, block: int, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An instance is accepted exactly where jsonschema finds it valid, and every walk ends in a valid one.

    With "graphs" keys come in any order too, and every object that the algebra writes is a graph, as those of many alternatives are.
    """
    if order == "graphs":
        monkeypatch.setattr(objects, "MOST_OPTIONS", 0)
        order = "any"
    for seed in range(block, SCHEMAS if order == "schema" else SCHEMAS // 5, BLOCKS):
        source = Schemas(seed)
        schema = source.root()
        validator = jsonschema.Draft202012Validator(schema)
        values = instances(source, schema)
        try:
            valid = [validator.is_valid(value) for value in values]
        except BaseException as error:
            # A schema that refers to itself; what jsonschema looks references up with panics then, which is no Exception.
            if not isinstance(error, RecursionError) and type(error).__name__ != "PanicException":
                raise
            continue
        try:
            grammar = json_schema_grammar(schema, property_order=order)[0]
            ready = prepare(kernel, grammar)
        except UnsatisfiableError:
            assert not any(valid), (seed, schema)
            continue
        except (UnsupportedSchemaError, LimitError):
            continue
        except SchemaError as error:
            assert "refers to itself" in str(error), (seed, schema)
            continue
        matcher = kernel.Matcher(ready, [STOP])
        for value, expected in zip(values, valid, strict=True):
            try:
                assert takes(matcher, value) == expected, (seed, schema, value)
            except TimeoutError:  # too many orders of keys to try
                matcher.reset()
        for _ in range(3):
            matcher.reset()
            try:
                text = walk(matcher, source.random)
            except LimitError:
                continue
            value = parsed(text)
            assert value is None or holds_ends(value) or validator.is_valid(value), (seed, schema, text)
