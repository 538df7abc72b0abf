"""Towers of if/then/else are the branches of a union: the same language as level by level, in work linear in the levels."""

from __future__ import annotations

import random
from typing import Any

import pytest
from support.engines import STOP, Engine, matcher, prepare
from support.schemas import takes

from stackmask.pda import engine
from stackmask.pda.exceptions import UnsatisfiableError
from stackmask.pda.limits import Limits
from stackmask.schema.json_schema import json_schema_grammar

TESTS: tuple[Any, ...] = (
    *({"properties": {"kind": {"const": kind}}, "required": ["kind"]} for kind in ("a", "b", "c")),
    {"properties": {"kind": {"const": "b"}}},
    {"properties": {"kind": {"enum": ["a", "d"]}}, "required": ["kind"]},
    {"type": "object", "properties": {"kind": {"const": "c"}, "v": {"const": 1}}, "required": ["kind", "v"]},
    *(
        {"required": ["v"]},
        {"maxProperties": 1},
        {"type": "string"},
        {"type": "array", "maxItems": 1},
        {"minimum": 2},
        {"enum": [1, "x", {}]},
    ),
)
OTHERWISE: tuple[Any, ...] = (
    *(True, False, {"required": ["w"]}, {"properties": {"v": {"type": "integer"}}}),
    *({"properties": {"w": {"type": "string"}}, "required": ["w"]}, {"type": ["object", "string"]}, {"maximum": 2, "maxLength": 1}),
)
VALUES: tuple[Any, ...] = (
    *(None, 0, 1, 2, 3, "", "x", "xy", [], [1], [1, 2], {}),
    *({"kind": kind} for kind in "abcde"),
    *({"kind": kind, name: value} for kind in "abcd" for name in "vw" for value in (1, "x")),
    *({"v": 1}, {"v": "x"}, {"w": "x"}, {"v": 1, "w": "x"}, {"kind": "c", "v": 1, "w": "x"}),
)


def tower(levels: list[tuple[Any, Any]], otherwise: Any, apart: bool = False) -> Any:
    """A tower of tests; apart, each level is in an allOf, so that it is compiled by itself."""
    schema = otherwise
    for number, (test, then) in enumerate(reversed(levels)):
        schema = {"if": test, **({} if then is None else {"then": then}), **({} if number == 0 and schema is True else {"else": schema})}
        schema = {"allOf": [schema]} if apart else schema
    return schema


def language(kernel: Engine, schema: Any, order: str, closed: str) -> list[bool]:
    """Which of the values a schema accepts."""
    try:
        ready = prepare(kernel, json_schema_grammar(schema, property_order=order, extra_properties=closed)[0])
    except UnsatisfiableError:
        return [False] * len(VALUES)
    return [takes(kernel.Matcher(ready, [STOP]), value) for value in VALUES]


@pytest.mark.parametrize("seed", range(60))
def test_language(kernel: Engine, seed: int) -> None:
    """A tower accepts what its levels accept one by one, beside unevaluated keywords and where undeclared keys are closed too."""
    chance = random.Random(seed)
    levels = [(chance.choice(TESTS), chance.choice([None, *OTHERWISE])) for _ in range(chance.randint(2, 6))]
    otherwise = chance.choice(OTHERWISE)
    beside = chance.choice([{}, {}, {"type": "object"}, {"properties": {"w": True}, "unevaluatedProperties": False}])
    order, closed = chance.choice(["schema", "any"]), chance.choice(["schema", "schema", "closed"])
    together = language(kernel, {**beside, **tower(levels, otherwise)}, order, closed)
    assert together == language(kernel, {**beside, **tower(levels, otherwise, apart=True)}, order, closed)


def of_kinds(count: int, required: bool) -> Any:
    """A tower of so many kinds, each of which asks for a key of its own."""
    levels = [
        (
            {"properties": {"kind": {"const": f"k{n}"}}, **({"required": ["kind"]} if required else {})},
            {"properties": {f"v{n}": {"type": "integer"}}, "required": [f"v{n}"]},
        )
        for n in range(count)
    ]
    return tower(levels, True)


KINDS: tuple[Any, ...] = (
    *({"properties": {"kind": {"const": kind}}} for kind in ("a", "b", "c")),
    *({"properties": {"kind": {"enum": kinds}}} for kinds in (["a", "b"], ["c", "d"], ["a", 1])),
)
AMONG: tuple[Any, ...] = (
    *({"type": "object", "properties": {"kind": {"const": kind}}} for kind in "ad"),
    *({"properties": {"kind": {"const": "b"}, "v": {"const": 1}}}, {"properties": {"kind": {"type": "string"}}}),
    *({"properties": {"v": {"enum": [1, "x"]}}}, {"properties": {"kind": {"const": "d"}}, "required": ["kind"]}),
)


@pytest.mark.parametrize("seed", range(40))
def test_kinds_that_may_be_absent(seed: int) -> None:
    """Tests that list the values of one member, and a few others among them, exclude each other as they do level by level."""
    chance = random.Random(seed)
    tests = chance.choices(KINDS, k=chance.randint(3, 6)) + chance.choices(AMONG, k=seed % 3)
    chance.shuffle(tests)
    levels = [(test, chance.choice([None, *OTHERWISE])) for test in tests]
    otherwise = chance.choice(OTHERWISE)
    beside = chance.choice([{}, {"type": "object"}, {"properties": {"w": True}, "unevaluatedProperties": False}])
    order, closed = chance.choice(["schema", "any"]), chance.choice(["schema", "closed"])
    together = language(engine, {**beside, **tower(levels, otherwise)}, order, closed)
    assert together == language(engine, {**beside, **tower(levels, otherwise, apart=True)}, order, closed)


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("beside", [{}, {"unevaluatedProperties": False}])
@pytest.mark.parametrize("required", [True, False])
def test_work(order: str, beside: Any, required: bool) -> None:
    """A thousand kinds compile in little work; a hundred took as long as all the work that there is."""
    schema = {**of_kinds(1_000, required=required), **beside}
    start = matcher(engine, json_schema_grammar(schema, property_order=order, limits=Limits(compile_work=200_000))[0])
    assert takes(start, {"kind": "k700", "v700": 1})
    for value in ({"kind": "k700", "v700": "x"}, {"kind": "k700", "v701": 1}):
        start.reset()
        assert not takes(start, value)


def test_tests_that_share_objects() -> None:
    """Kinds that may be absent hold of the same object without one: 300 of them compile in little work."""
    start = matcher(engine, json_schema_grammar(of_kinds(300, required=False), limits=Limits(compile_work=60_000))[0])
    assert takes(start, {"kind": "k200", "v200": 1})
    for value in ({"kind": "k200"}, {}):
        start.reset()
        assert not takes(start, value)
