"""What tells the branches of a union apart by upper bounds, and that they are then written without the algebra."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from stackmask.schema.algebra.bounds import surely_all_disjoint, surely_disjoint, unseparated, upper_bound
from stackmask.schema.dialect.references import Registry
from stackmask.schema.json_schema import json_schema_grammar

NO_DOCUMENTS: dict[str, Any] = {}


def tagged(**tags: list[Any]) -> dict[str, Any]:
    """Objects whose members of these names have one of these values."""
    return {"type": "object", "required": list(tags), "properties": {name: {"enum": values} for name, values in tags.items()}}


def closed(name: str) -> dict[str, Any]:
    """Objects of this one member."""
    return {"type": "object", "properties": {name: {}}, "required": [name], "additionalProperties": False}


@pytest.mark.parametrize(
    ("branches", "expected"),
    [
        ([{"type": "string"}, {"type": "null"}, {"enum": [1, True]}], True),
        ([{"type": "string"}, {"type": ["null", "string"]}], False),
        ([{"type": "integer"}, {"type": "number"}], False),
        ([{"type": "integer"}, {"enum": [1.5]}], True),
        ([{}, {"type": "string"}], False),
        ([False, {}], True),
        ([tagged(kind=["a"]), tagged(kind=["b", "c"]), tagged(kind=["d"])], True),
        ([tagged(kind=["a"]), tagged(kind=["b", "a"])], False),
        ([tagged(kind=[1]), tagged(kind=[1.0])], False),
        ([tagged(kind=[1]), tagged(kind=[True])], True),
        ([tagged(kind=[[1]]), tagged(kind=[[1.0]])], False),
        ([tagged(kind=["a"], of=["x"]), tagged(kind=["a"], of=["y"]), tagged(kind=["b"])], True),
        ([tagged(kind=["a"]), {**tagged(kind=["b"]), "required": []}], False),
        ([tagged(kind=["a"]), {k: v for k, v in tagged(kind=["b"]).items() if k != "type"}], True),
        ([{k: v for k, v in tagged(kind=[tag]).items() if k != "type"} for tag in "ab"], False),
        ([{"allOf": [tagged(kind=["a", "b"]), tagged(kind=["b", "c"])]}, tagged(kind=["a", "c"])], True),
        ([{"$ref": "#/$defs/tagged"}, tagged(kind=["b"])], True),
        ([{"enum": ["a", 1]}, {"const": "b"}, {"enum": [None]}], True),
        ([{"enum": ["a", 1]}, {"const": "b"}, {"type": "string"}], False),
        ([closed("a"), closed("b")], True),
        ([closed("a"), {**closed("b"), "required": []}], True),
        ([{**closed("a"), "required": []}, {**closed("b"), "required": []}], False),
        ([closed("a"), {"type": "object", "required": ["b"]}], True),
        ([closed("a"), {"required": ["a"]}], False),
        ([closed("a"), {**closed("b"), "patternProperties": {"a": {}}}], True),
        ([{**closed("a"), "patternProperties": {"b": {}}}, {"type": "object", "required": ["b"]}], False),
        ([{"$ref": "#/$defs/tagged"}, tagged(kind=["a"])], False),
    ],
)
def test_are_disjoint(branches: list[Any], expected: bool) -> None:
    """Types tell values apart, and so do values of required members, if both sides are objects."""
    root = {"$defs": {"tagged": tagged(kind=["a"])}, "oneOf": branches}
    registry = Registry(root, NO_DOCUMENTS)
    assert surely_all_disjoint([upper_bound(registry, branch, registry.root) for branch in branches]) == expected


def test_every_pair_that_is_left_out_is_disjoint() -> None:
    """Pairs are found by the values that they list; each that is not surely disjoint is among them, once."""
    random_ = random.Random(1)
    for _ in range(300):
        branches: list[Any] = []
        for _ in range(random_.randrange(2, 9)):
            values = random_.sample(["a", "b", "c", 1, None, {}], random_.randrange(1, 4))
            branches.append(
                random_.choice(
                    [
                        {"enum": values},
                        tagged(kind=values),
                        tagged(kind=values, of=random_.sample("xyz", 2)),
                        tagged(of=random_.sample("xyz", 2)),
                        {**tagged(kind=values), "type": ["object", "null"]},
                        {"type": random_.choice(["string", "object", "integer"])},
                        closed("kind"),
                    ]
                )
            )
        registry = Registry({"oneOf": branches}, NO_DOCUMENTS)
        bounds = [upper_bound(registry, branch, registry.root) for branch in branches]
        pairs = list(unseparated(bounds))
        assert len(set(pairs)) == len(pairs)
        assert all(i > j for i, j in pairs)
        apart = set(itertools.combinations(range(len(bounds)), 2)) - {(j, i) for i, j in pairs}
        assert all(surely_disjoint(bounds[i], bounds[j]) for i, j in apart)
        assert surely_all_disjoint(bounds) == all(surely_disjoint(a, b) for a, b in itertools.combinations(bounds, 2))


def test_many_branches_are_told_apart() -> None:
    """By one member, a thousand branches take a thousand looks; two that meet are found among them."""
    registry = Registry({}, NO_DOCUMENTS)
    bounds = [upper_bound(registry, tagged(kind=[f"k{n}"]), registry.root) for n in range(1000)]
    assert not list(unseparated(bounds))
    assert surely_all_disjoint(bounds)
    bounds.append(upper_bound(registry, tagged(kind=["k7"]), registry.root))
    assert list(unseparated(bounds)) == [(1000, 7)]
    assert not surely_all_disjoint(bounds)


def test_branches_without_the_algebra() -> None:
    """A discriminated union is a choice between its branches, and a `type` that they all keep adds nothing."""
    branches = [tagged(kind=["a"]), tagged(kind=["b"])]
    plain, _ = json_schema_grammar({"anyOf": branches})
    for schema in ({"oneOf": branches}, {"type": "object", "oneOf": branches}, {"type": ["object", "null"], "anyOf": branches}):
        assert json_schema_grammar(schema)[0] == plain


def test_a_type_beside_branches() -> None:
    """A type that branches leave open is theirs too."""
    closed_branches = [{k: v for k, v in closed(name).items() if k != "type"} for name in "ab"]
    plain, _ = json_schema_grammar({"anyOf": [closed("a"), closed("b")]})
    assert json_schema_grammar({"type": "object", "oneOf": closed_branches})[0] == plain
    assert json_schema_grammar({"type": "object", "anyOf": closed_branches})[0] == plain


def test_a_loop_of_references_ends() -> None:
    """References are followed a few steps."""
    root: dict[str, Any] = {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    registry = Registry(root, NO_DOCUMENTS)
    assert upper_bound(registry, {"$ref": "#/$defs/a"}, registry.root).types == 127
