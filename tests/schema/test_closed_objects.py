"""`extra_properties="closed"`, against schemas in which the closing keyword stands where it is meant, by jsonschema."""

from __future__ import annotations

import copy
import json
from itertools import combinations
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.engines import STOP, Engine, load_engine, prepare
from support.schemas import Schemas, takes

from stackmask.pda.exceptions import LimitError, SchemaError, UnsatisfiableError
from stackmask.schema.json_schema import json_schema_grammar

A, B, C = ({"properties": {name: {"type": "integer"}}} for name in "abc")
NEEDS_A, NEEDS_B = {**A, "required": ["a"]}, {**B, "required": ["b"]}
NONE = {"additionalProperties": False}
UNSEEN = {"unevaluatedProperties": False}
ONE, TWO = ({"type": "object", "properties": {"a": {"const": n}, name: True}, "required": ["a"]} for n, name in ((1, "b"), (2, "c")))
NOT_1 = {"not": {"properties": {"a": {"const": 1}}, "required": ["a"]}}
DRAFT7 = {"$schema": "http://json-schema.org/draft-07/schema#"}
OBJECTS = [dict.fromkeys(names, 1) for length in range(4) for names in combinations("abcd", length)]
INSTANCES = [
    *OBJECTS,
    *({"p": value} for value in OBJECTS),
    *([value] for value in OBJECTS),
    {"a": "x"},
    {"p": 1},
    [],
    1,
    "a",
    None,
    [[{}]],
]

CASES: dict[str, tuple[Any, Any]] = {
    "properties": (A, {**A, **NONE}),
    "no properties": ({"type": "object", "required": ["a"]}, {"type": "object", "required": ["a"]}),
    "empty properties": ({"properties": {}}, {"properties": {}, **NONE}),
    "members": ({"properties": {"p": A}}, {"properties": {"p": {**A, **NONE}}, **NONE}),
    "items": ({"items": A}, {"items": {**A, **NONE}}),
    "prefixItems": ({"prefixItems": [A]}, {"prefixItems": [{**A, **NONE}]}),
    "values of a map": ({"additionalProperties": A}, {"additionalProperties": {**A, **NONE}}),
    "additionalProperties": ({**A, "additionalProperties": {"type": "string"}}, {**A, "additionalProperties": {"type": "string"}}),
    "additionalProperties true": ({**A, "additionalProperties": True}, {**A, "additionalProperties": True}),
    "unevaluatedProperties": ({**A, "unevaluatedProperties": True}, A),
    "unevaluatedProperties of draft 7": ({**DRAFT7, **A, "unevaluatedProperties": True}, {**A, **NONE}),
    "patternProperties": ({**A, "patternProperties": {"^b": True}}, A),
    "allOf": ({"allOf": [A, B]}, {"allOf": [A, B], **UNSEEN}),
    "allOf beside": ({"type": "object", **A, "allOf": [B]}, {"type": "object", **A, "allOf": [B], **UNSEEN}),
    "allOf that speaks of others": ({"allOf": [A, {**B, "additionalProperties": True}]}, {"allOf": [A, B]}),
    "allOf with a pattern": ({"allOf": [A, {"patternProperties": {"^c": True}}]}, A),
    "allOf of one": ({"allOf": [A]}, {**A, **NONE}),
    "allOf of one in draft 7": ({**DRAFT7, "allOf": [A]}, {**A, **NONE}),
    "allOf in draft 7": ({**DRAFT7, "allOf": [A, B]}, {"allOf": [A, B], **UNSEEN}),
    "anyOf": ({"anyOf": [A, B]}, {"anyOf": [{**A, **NONE}, {**B, **NONE}]}),
    "anyOf and a type": ({"type": "object", "anyOf": [A, B]}, {"type": "object", "anyOf": [{**A, **NONE}, {**B, **NONE}]}),
    "anyOf beside": ({**C, "anyOf": [A, B]}, {**C, "anyOf": [A, B], **UNSEEN}),
    "anyOf, one open": ({"anyOf": [NEEDS_A, {**B, "additionalProperties": True}]}, {"anyOf": [{**NEEDS_A, **NONE}, B]}),
    "anyOf of what is required": ({**A, **B, "anyOf": [NEEDS_A, NEEDS_B]}, {**A, **B, "anyOf": [NEEDS_A, NEEDS_B], **UNSEEN}),
    "oneOf": ({"oneOf": [NEEDS_A, NEEDS_B]}, {"oneOf": [NEEDS_A, NEEDS_B], "anyOf": [{**NEEDS_A, **NONE}, {**NEEDS_B, **NONE}]}),
    "oneOf apart": ({"oneOf": [ONE, TWO]}, {"anyOf": [{**ONE, **NONE}, {**TWO, **NONE}]}),
    "oneOf beside": ({**C, "oneOf": [NEEDS_A, NEEDS_B]}, {**C, "oneOf": [NEEDS_A, NEEDS_B], **UNSEEN}),
    "oneOf of objects beside": (
        {"type": "object", **C, "oneOf": [{**NEEDS_A, "not": {"required": ["b"]}}, NEEDS_B]},
        {"type": "object", **C, "oneOf": [{**NEEDS_A, "not": {"required": ["b"]}}, NEEDS_B], **UNSEEN},
    ),
    "if": ({**A, "if": {"required": ["a"]}, "then": B, "else": C}, {**A, "if": {"required": ["a"]}, "then": B, "else": C, **UNSEEN}),
    "if alone": ({"if": NEEDS_A, "then": B}, {"if": NEEDS_A, "then": {**B, "properties": {**A["properties"], **B["properties"]}, **NONE}}),
    "dependentSchemas": ({**A, "dependentSchemas": {"a": B}}, {**A, "dependentSchemas": {"a": B}, **UNSEEN}),
    "not": ({**A, **NOT_1}, {**A, **NONE, **NOT_1}),
    "below not": ({"not": {"required": ["p"], "properties": {"p": A}}}, {"not": {"required": ["p"], "properties": {"p": A}}}),
    "below if": (
        {"if": {"required": ["p"], "properties": {"p": NEEDS_A}}, "then": False},
        {"if": {"required": ["p"], "properties": {"p": NEEDS_A}}, "then": False},
    ),
    "contains": ({"type": "array", "contains": NEEDS_A}, {"type": "array", "contains": NEEDS_A}),
    "contains and items": ({"items": B, "contains": {"required": ["b"]}}, {"items": {**B, **NONE}, "contains": {"required": ["b"]}}),
    "required": ({**A, "required": ["c"]}, {"properties": {**A["properties"], "c": True}, "required": ["c"], **NONE}),
    "required in allOf": ({"allOf": [A, {"required": ["c"]}]}, {"properties": {**A["properties"], "c": True}, "required": ["c"], **NONE}),
    "dependentRequired": (
        {**A, "dependentRequired": {"a": ["c"]}},
        {"properties": {**A["properties"], "c": True}, "dependentRequired": {"a": ["c"]}, **NONE},
    ),
    "reference": ({"$ref": "#/$defs/a", "$defs": {"a": A}}, {**A, **NONE}),
    "reference of draft 7": ({**DRAFT7, "$ref": "#/definitions/a", "definitions": {"a": A}}, {**A, **NONE}),
    "reference beside": ({"$ref": "#/$defs/a", **B, "$defs": {"a": A}}, {"$ref": "#/$defs/a", **B, **UNSEEN, "$defs": {"a": A}}),
    "in both roles": (
        {"allOf": [{"$ref": "#/$defs/a"}, {"properties": {"p": {"$ref": "#/$defs/a"}}}], "$defs": {"a": A}},
        {"properties": {**A["properties"], "p": {**A, **NONE}}, **NONE},
    ),
    "recursion": (
        {"properties": {"p": {"$ref": "#"}, "a": True}},
        {"properties": {"p": {"$ref": "#"}, "a": True}, **NONE},
    ),
    "a member in two": (
        {"allOf": [{"properties": {"p": A}}, {"properties": {"p": NEEDS_B}}]},
        {"properties": {"p": {"allOf": [A, NEEDS_B], **UNSEEN}}, **NONE},
    ),
    "a member in two unions": (
        {"allOf": [{"properties": {"p": {"anyOf": [A, C]}}}, {"properties": {"p": NEEDS_B}}]},
        {"properties": {"p": {"allOf": [{"anyOf": [A, C]}, NEEDS_B], **UNSEEN}}, **NONE},
    ),
    "a member of which one part is open": (
        {"allOf": [
            {"properties": {"p": A}},
            {"additionalProperties": {**B, "additionalProperties": True}},
            {"properties": {"p": NEEDS_B}},
        ]},
        {"properties": {"p": {"allOf": [A, NEEDS_B]}}, "additionalProperties": B},
    ),
    "another resource": ({"$id": "http://x/", "properties": {"p": {"$id": "q", **A}}}, {"properties": {"p": {**A, **NONE}}, **NONE}),
    "dynamic reference": ({"$dynamicRef": "#a", "$defs": {"a": {"$dynamicAnchor": "a", **A}}}, {**A, **NONE}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_as_written_by_hand(engine: Engine, name: str) -> None:
    """A closed schema has the instances of the one that says so itself; so it has where the algebra compiles all of it."""
    schema, by_hand = CASES[name]
    validator, raw = jsonschema.Draft202012Validator(by_hand), jsonschema.validators.validator_for(schema)(schema)
    through_algebra = {"allOf": [schema], "not": {"const": "no such value"}} if "#" not in json.dumps(schema) else schema
    if "$schema" in schema:
        through_algebra = {"$schema": schema["$schema"], **through_algebra}
    for asked in (schema, through_algebra):
        for order in ("schema", "any"):
            grammar = json_schema_grammar(asked, extra_properties="closed", property_order=order)[0]
            matcher = engine.Matcher(prepare(engine, grammar), [STOP])
            for value in INSTANCES:
                taken = takes(matcher, value)
                if name != "oneOf apart" or (isinstance(value, dict) and value.get("a") == 1):
                    assert taken == validator.is_valid(value), (asked, value)
                assert not taken or raw.is_valid(value), (asked, value)


def test_default_is_the_specification() -> None:
    """Without the option, and with "schema", a schema means what it says."""
    for schema, _ in CASES.values():
        said = json_schema_grammar(copy.deepcopy(schema), extra_properties="schema")[0]
        assert said == json_schema_grammar(schema)[0]


@pytest.mark.parametrize("value", ["open", "", "Closed"])
def test_other_values(value: str) -> None:
    """Another value is an error that names the two."""
    with pytest.raises(SchemaError, match="extra_properties must be 'schema' or 'closed'"):
        json_schema_grammar(True, extra_properties=value)


NAMES = "abcd"
SCALARS = st.sampled_from([{"type": "integer"}, {"type": "string"}, {"const": 1}, True, {"enum": [1, "x", None]}])


@st.composite
def objects(draw: st.DrawFn, depth: int, taken: frozenset[str]) -> tuple[dict[str, Any], dict[str, Any], bool]:
    """An object schema, the same with closed members, and whether it says which other keys there are; no member is called as in `taken`."""
    names = sorted(draw(st.sets(st.sampled_from(sorted(set(NAMES) - taken)), max_size=2))) if set(NAMES) - taken else []
    members = {name: draw(places(depth - 1)) for name in names}
    schema: dict[str, Any] = {"type": "object", "properties": {name: raw for name, (raw, _) in members.items()}}
    closed: dict[str, Any] = {"type": "object", "properties": {name: by_hand for name, (_, by_hand) in members.items()}}
    if draw(st.booleans()) and names:
        schema["required"] = closed["required"] = names[:1]
    says = draw(st.integers(0, 7)) == 0
    if says:
        schema["additionalProperties"] = closed["additionalProperties"] = draw(st.booleans())
    return schema, closed, says


@st.composite
def places(draw: st.DrawFn, depth: int) -> tuple[Any, Any]:
    """A schema for a value, and the same where closing is written out, built together from the same choices."""
    kind = draw(st.integers(0, 6)) if depth > 0 else 0
    if kind == 0:
        scalar = draw(SCALARS)
        return scalar, scalar
    if kind == 1:
        raw, by_hand = draw(places(depth - 1))
        return {"type": "array", "items": raw, "maxItems": 2}, {"type": "array", "items": by_hand, "maxItems": 2}
    if kind in (2, 3):
        raw, by_hand, says = draw(objects(depth, frozenset()))
        return raw, by_hand if says else {**by_hand, **NONE}
    if kind == 4:
        branches = draw(st.lists(places(depth - 1), min_size=1, max_size=3))
        return {"anyOf": [raw for raw, _ in branches]}, {"anyOf": [by_hand for _, by_hand in branches]}
    keyword = draw(st.sampled_from(["allOf", "anyOf", "oneOf"]))
    pieces = [draw(objects(depth, frozenset()))]
    for _ in range(draw(st.integers(1, 2))):
        known = frozenset(name for _, closed, _ in pieces for name in closed["properties"])
        pieces.append(draw(objects(depth, known)))
    (first, closed, _), *others = pieces
    # with a raw copy of the branches: only closed members change which of them a value meets
    raw = {**first, keyword: [raw for raw, _, _ in others]}
    by_hand = {**closed, "allOf": [{keyword: raw[keyword]}, {"allOf" if keyword == "allOf" else "anyOf": [b for _, b, _ in others]}]}
    return raw, {**by_hand, **UNSEEN}


VALUES = st.recursive(
    st.sampled_from([1, "x", None, 2]),
    lambda inner: st.dictionaries(st.sampled_from([*NAMES, "e"]), inner, max_size=4) | st.lists(inner, max_size=2),
    max_leaves=8,
)
KERNEL = load_engine("kernel")


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(places(3), st.lists(VALUES, min_size=10, max_size=30))
@example(({"anyOf": [A, B]}, {"anyOf": [{**A, **NONE}, {**B, **NONE}]}), [{"a": 1, "b": 1}])
def test_random_compositions(pair: tuple[Any, Any], values: list[Any]) -> None:
    """A random schema, closed, has the instances of the one built beside it."""
    raw, by_hand = pair
    validator = jsonschema.Draft202012Validator(by_hand)
    try:
        grammar = json_schema_grammar(raw, extra_properties="closed", property_order="any")[0]
        ready = prepare(KERNEL, grammar)
    except UnsatisfiableError:
        assert not any(map(validator.is_valid, [*values, *INSTANCES])), (raw, by_hand)
        return
    matcher = KERNEL.Matcher(ready, [STOP])
    for value in [*values, *INSTANCES]:
        assert takes(matcher, value) == validator.is_valid(value), (raw, by_hand, value)


@pytest.mark.parametrize("block", range(3))
def test_closed_is_narrower(block: int) -> None:
    """All that a closed schema allows is an instance of the schema, whatever its keywords."""
    for seed in range(block, 300, 3):
        source = Schemas(seed)
        schema = source.root()
        validator = jsonschema.Draft202012Validator(schema)
        try:
            values = [value for value in (source.value(3) for _ in range(30)) if not validator.is_valid(value)]
            grammar = json_schema_grammar(schema, extra_properties="closed", property_order="any")[0]
            matcher = KERNEL.Matcher(prepare(KERNEL, grammar), [STOP])
        except (SchemaError, LimitError, RecursionError):
            continue
        except BaseException as error:  # jsonschema panics where a schema refers to itself
            if type(error).__name__ != "PanicException":
                raise
            continue
        for value in values:
            try:
                assert not takes(matcher, value), (seed, schema, value)
            except TimeoutError:
                matcher.reset()
