"""What tells the branches of a union apart by upper bounds, and that they are then written without the algebra."""

from __future__ import annotations

import itertools
import random
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmask.schema.algebra.bounds import beginning_of, surely_all_disjoint, surely_disjoint, unseparated, upper_bound
from stackmask.schema.dialect.references import Registry
from stackmask.schema.json_schema import json_schema_grammar

NO_DOCUMENTS: dict[str, Any] = {}


def tagged(**tags: list[Any]) -> dict[str, Any]:
    """Objects whose members of these names have one of these values."""
    return {"type": "object", "required": list(tags), "properties": {name: {"enum": values} for name, values in tags.items()}}


def closed(name: str) -> dict[str, Any]:
    """Objects of this one member."""
    return {"type": "object", "properties": {name: {}}, "required": [name], "additionalProperties": False}


def like(pattern: str, **more: Any) -> dict[str, Any]:
    """Strings of a pattern."""
    return {"type": "string", "pattern": pattern, **more}


def with_member(schema: Any, **more: Any) -> dict[str, Any]:
    """Objects that have a member of a schema."""
    return {"type": "object", "properties": {"id": schema}, "required": ["id"], **more}


def tuples(*tags: Any, least: int = 9) -> dict[str, Any]:
    """Arrays whose first items have one of these values each, None for any."""
    items = [{} if values is None else {"enum": values} for values in tags]
    return {"type": "array", "prefixItems": items, "minItems": min(least, len(items))}


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
        ([tuples(["a"]), tuples(["b", "c"]), tuples(["d"])], True),
        ([tuples(["a"]), tuples(["b", "a"])], False),
        ([tuples(["a"]), tuples(["b"], least=0)], False),
        ([tuples(["a"]), {**tuples(["b"]), "minItems": "1"}], False),
        ([tuples(["a"], ["x"]), tuples(["a"], ["y"]), tuples(["b"])], True),
        ([tuples(["a"], ["x"]), tuples(["a"], ["y"], least=1)], False),
        ([tuples(None, ["x"]), tuples(["a"], ["y"])], True),
        ([tuples(["a"]), tuples(None)], False),
        ([tuples(["a"]), {k: v for k, v in tuples(["b"]).items() if k != "type"}], True),
        ([{k: v for k, v in tuples([tag]).items() if k != "type"} for tag in "ab"], False),
        ([{"allOf": [tuples(["a", "b"]), tuples(["b", "c"])]}, tuples(["a", "c"])], True),
        ([{"allOf": [tuples(["a"], least=0), {"minItems": 1}], "type": "array"}, tuples(["b"])], True),
        ([tuples(["a"]), tagged(kind=["a"])], True),
        ([tuples(["a"]), {"const": ["b"]}], False),
        ([tuples(["a"]), {"enum": ["a", {}]}], True),
        ([{**tuples([tag]), **tagged(kind=[tag]), "type": ["array", "object"]} for tag in ("ab", "cd")], True),
        ([{**tuples(["a"]), **tagged(kind=[tag]), "type": ["array", "object"]} for tag in ("ab", "cd")], False),
        ([{**tuples([tag]), **tagged(kind=["a"]), "type": ["array", "object"]} for tag in ("ab", "cd")], False),
        ([{"type": "array", "items": [{"const": 1}], "minItems": 1}, {"type": "array", "items": [{"const": 2}], "minItems": 1}], True),
        ([{"type": "array", "items": {"const": 1}, "minItems": 1}, {"type": "array", "items": {"const": 2}, "minItems": 1}], False),
        ([{**tuples(["a"]), "prefixItems": 1}, tuples(["b"])], False),
        ([like("^ab"), like("^ac"), like("^b")], True),
        ([like("^ab"), like("^a")], False),
        ([like("^a"), like("^ab")], False),
        ([like("^ab*"), like("^ac")], False),
        ([like("^ab?"), like("^ac")], False),
        ([like("^ab{2}"), like("^ac")], False),
        ([like("^ab+"), like("^ac")], True),
        ([like("^ab*"), like("^bb*")], True),
        ([like("ab"), like("^ac")], False),
        ([like("^ab|d"), like("^ac")], False),
        ([like("^ab(c|d)"), like("^ac")], True),
        ([like("^ab(c)|d"), like("^ac")], False),
        ([like("^ab[|(]"), like(r"^ac\|\(")], True),
        ([like(r"^ab[\]|]"), like("^ac")], True),
        ([like(r"^ab\(|d"), like("^ac")], False),
        ([like("^ab[(]|d"), like("^ac")], False),
        ([like(r"^a\.b"), like(r"^a\.c"), like(r"^a\b")], False),
        ([like(r"^a\.b"), like(r"^a\.c")], True),
        ([like(r"^a\.b"), like("^a.b")], False),
        ([like(r"^a\$"), like(r"^a\+")], True),
        ([like("^a"), like("^b", type=["string", "null"])], True),
        ([like("^a", type=["string", "null"]), like("^b", type=["string", "null"])], False),
        ([{"pattern": "^a"}, like("^b")], True),
        ([like("^a"), {"pattern": 1, "type": "string"}], False),
        ([{"allOf": [like("^a"), {"maxLength": 3}]}, like("^b")], True),
        ([with_member(like("^ab")), with_member(like("^ac"))], True),
        ([with_member(like("^ab")), with_member(like("^a"))], False),
        ([with_member(like("^ab")), with_member(like("^ac"), required=[])], False),
        ([with_member(like("^ab")), with_member({"pattern": "^ac"})], False),
        ([with_member(like("^ab")), with_member({"$ref": "#/$defs/tagged", **like("^ac")})], False),
        ([with_member(like("^ab")), like("^ab")], True),
        ([like(pattern, type=["string", "object"]) for pattern in ("^a", "^b")], False),
        ([with_member(like("^a"), type=["string", "object"], pattern=pattern) for pattern in ("^a", "^b")], False),
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
                        tuples(values),
                        tuples(None, values),
                        tuples(random_.sample("xyz", 2), values, least=random_.randrange(3)),
                        {**tuples(values), **tagged(kind=values), "type": ["array", "object"]},
                        {"const": ["x", *values]},
                        {"type": ["array", "string"]},
                        like(random_.choice(["^a", "^b", "^ab", "b"])),
                        with_member(like(random_.choice(["^a", "^b", "^ab", "b"]))),
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
    """By one member or item, a thousand branches take a thousand looks; two that meet are found among them."""
    registry = Registry({}, NO_DOCUMENTS)
    bounds = [upper_bound(registry, tagged(kind=[f"k{n}"]), registry.root) for n in range(1000)]
    assert not list(unseparated(bounds))
    assert surely_all_disjoint(bounds)
    bounds.append(upper_bound(registry, tagged(kind=["k7"]), registry.root))
    assert list(unseparated(bounds)) == [(1000, 7)]
    assert not surely_all_disjoint(bounds)
    bounds = [upper_bound(registry, tuples([f"k{n // 2}"], [n % 2]), registry.root) for n in range(1000)]
    assert list(unseparated(bounds)) == [(n + 1, n) for n in range(0, 1000, 2)]
    assert surely_all_disjoint(bounds)


BEGINNINGS = st.from_regex(r"\A\^?(?:[ab]|\\[.$]|\.|[ab][?*+]|a\{1,2\}|\[ab\]|\((?:a|b\|a)\)|a\|){0,4}\$?\Z")


@given(BEGINNINGS, st.text("ab.$", max_size=5))
def test_beginnings_of_patterns(pattern: str, text: str) -> None:
    """What a pattern matches begins as is said of it."""
    if re.search(pattern, text):
        assert text.startswith(beginning_of(pattern))


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
