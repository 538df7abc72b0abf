"""Branches of a oneOf that overlap: exactly one holds, and the work is not that of all pairs where it need not be."""

from __future__ import annotations

import random
from typing import Any

import pytest
from support.engines import STOP, Engine, matcher, prepare
from support.schemas import takes

from stackmask.pda import engine
from stackmask.pda.budget import Budget
from stackmask.pda.exceptions import LimitError, UnsatisfiableError
from stackmask.pda.limits import Limits
from stackmask.schema.algebra import boolean
from stackmask.schema.json_schema import json_schema_grammar

BRANCHES: tuple[Any, ...] = (
    *({"type": "number", "minimum": low, "maximum": low + 2} for low in range(3)),
    *({"type": "integer", "multipleOf": step} for step in (2, 3)),
    *({"enum": [None, 1, "a"]}, {"type": ["boolean", "string"]}, {"enum": [True, 4, {"a": 1}]}),
    *({"required": [name]} for name in "abc"),
    *({"type": "object", "required": [name]} for name in "abc"),
    *({"properties": {"a": {"const": value}}, "required": ["a"]} for value in (1, "x")),
    *({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"const": 1}}}, {"type": "object", "maxProperties": 1}),
    *({"type": "array", "minItems": 1}, {"type": "array", "items": {"type": "integer"}}, {"pattern": "^a"}, {"maxLength": 1}, {}),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, 1.5, 2, 3, 4, 6, "", "a", "ab", "b", [], [1], ["a"], [1, 2], {}),
    *({"a": 1}, {"a": "x"}, {"b": 1}, {"c": []}, {"a": 1, "b": 1}, {"a": "x", "c": 1}, {"b": "x", "c": 1}, {"a": 1, "b": 1, "c": 1}),
)


def language(kernel: Engine, schema: Any, order: str = "schema") -> list[bool]:
    """Which of the values a schema accepts."""
    try:
        ready = prepare(kernel, json_schema_grammar(schema, property_order=order)[0])
    except UnsatisfiableError:
        return [False] * len(VALUES)
    return [takes(kernel.Matcher(ready, [STOP]), value) for value in VALUES]


@pytest.mark.parametrize("many", [0, 2, 32])
@pytest.mark.parametrize("seed", range(20))
def test_language(kernel: Engine, monkeypatch: pytest.MonkeyPatch, seed: int, many: int) -> None:
    """A value is accepted just where one branch alone accepts it, however the branches are put outside of each other."""
    monkeypatch.setattr(boolean, "MANY_BRANCHES", many)
    monkeypatch.setattr(boolean, "MANY_OVERLAPS", min(many, 8))
    chance = random.Random(seed)
    branches = chance.sample(BRANCHES[:-1] if seed % 4 else BRANCHES, chance.randint(2, 7))
    alone = [language(kernel, branch) for branch in branches]
    expected = [sum(holds) == 1 for holds in zip(*alone, strict=True)]
    assert language(kernel, {"oneOf": branches}, chance.choice(["schema", "any"])) == expected
    beside = {"properties": {"a": True, "b": True}, "unevaluatedProperties": False}
    allowed = language(kernel, {"properties": {"a": True, "b": True}, "additionalProperties": False})
    looks = [branch for branch in branches if "properties" in branch]
    if not looks:
        both = [one and other for one, other in zip(expected, allowed, strict=True)]
        assert language(kernel, {**beside, "oneOf": branches}) == both


def test_ranges() -> None:
    """A thousand overlapping ranges are counted, not compared with each other."""
    ranges = [{"type": "number", "minimum": low, "maximum": low + 10} for low in range(1_000)]
    start = matcher(engine, json_schema_grammar({"oneOf": ranges}, limits=Limits(compile_work=100_000))[0])
    assert [value for value in (0, 0.5, 0.99, 1, 5, 999, 1008, 1008.5, 1009) if takes(start, value)] == [0, 0.5, 0.99, 1008.5, 1009]


@pytest.mark.parametrize("order", ["schema", "any"])
def test_required_keys(order: str) -> None:
    """Of 250 keys exactly one is there; values that are no objects meet all branches, so none of them is accepted."""
    schema = {"oneOf": [{"required": [f"k{n}"]} for n in range(250)]}
    start = matcher(engine, json_schema_grammar(schema, property_order=order)[0])
    assert [value for value in (1, "a", {}, {"k7": 1}, {"k7": 1, "k8": 1}, {"x": 1, "k9": 1}) if takes(start, value)] == [
        {"k7": 1},
        {"x": 1, "k9": 1},
    ]


@pytest.mark.parametrize(("count", "most"), [(1_000, 300_000), (500, 400_000), (350, 1_400_000)])
def test_refusals(monkeypatch: pytest.MonkeyPatch, count: int, most: int) -> None:
    """Where more objects overlap than there is work for, this is found while their pairs are counted."""
    budgets: list[Budget] = []
    made = Budget.__init__
    monkeypatch.setattr(Budget, "__init__", lambda self, limits=None: (made(self, limits), budgets.append(self))[0])
    with pytest.raises(LimitError) as caught:
        json_schema_grammar({"oneOf": [{"required": [f"k{n}"]} for n in range(count)]})
    assert caught.value.limit == "compile_work"
    assert budgets[-1].work < most
