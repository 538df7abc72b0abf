"""Lists of types: every one there is, wherever types are read, on values of each kind against python-jsonschema."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from support.engines import accepts, load_engine, matcher

from stackmask.pda.exceptions import UnsatisfiableError
from stackmask.schema.json_schema import json_schema_grammar

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
LISTS = [list(chosen) for size in range(1, 8) for chosen in combinations(TYPES, size)]
TEXTS = (
    "null", "true", "false", "0", "1", "-7", "100", "1.5", "-0.25", '""', '"a"', "[]", "[1]", "[1.5,[null]]", "{}",
    '{"a":1.5}', '{"b":{"a":[]}}',
)  # fmt: skip
SPELLINGS = ("1.0", "1e2", "-0")
"""Whole numbers as only sets with other numbers too have them, the last aside."""
VALUES = [json.loads(text) for text in TEXTS]
Place = Callable[[list[str]], Any]
IN_PLACE: dict[str, Place] = {
    "alone": lambda types: {"type": types},
    "reversed, each twice": lambda types: {"type": [*reversed(types), *types]},
    "with local keywords": lambda types: {"type": types, "minimum": -1000, "minLength": 0, "maxItems": 9, "properties": {"c": True}},
    "without values outside": lambda types: {"type": types, "enum": VALUES},
    "by reference": lambda types: {"$ref": "#/$defs/a", "$defs": {"a": {"type": types}}},
    "beside a reference": lambda types: {"$ref": "#/$defs/a", "type": types, "$defs": {"a": {"type": list(TYPES)}}},
    "allOf": lambda types: {"allOf": [{"type": types}, {"type": ["integer", "number", "string", "null", "array", "object", "boolean"]}]},
    "anyOf": lambda types: {"anyOf": [{"type": [name]} for name in types]},
    "beside anyOf": lambda types: {"type": types, "anyOf": [{"type": "integer"}, {"type": ["string", "number"]}, {"maxItems": 1}]},
    "oneOf": lambda types: {"oneOf": [{"type": types}, {"type": ["integer", "string"]}]},
    "beside oneOf": lambda types: {"type": types, "oneOf": [{"type": "integer"}, {"type": ["string", "array"]}, {"const": 1.5}]},
    "oneOf of whole types": lambda types: {"oneOf": [{"type": name} for name in types]},
    "not": lambda types: {"not": {"type": types}},
    "not not": lambda types: {"not": {"not": {"type": types}}},
    "not, beside all others": lambda types: {"not": {"type": types}, "type": [name for name in TYPES if name != "number"]},
    "if": lambda types: {"if": {"type": types}, "then": {"enum": [1, 1.5, "a", None]}, "else": {"type": ["number", "object", "array"]}},
    "dependent": lambda types: {"allOf": [{"dependentSchemas": {"a": {"type": types}}}, {"unevaluatedItems": {"type": types}}]},
}  # fmt: skip
INSIDE: dict[str, Place] = {
    "items": lambda types: {"items": {"type": types}},
    "distinct items": lambda types: {"items": {"type": types}, "uniqueItems": True, "type": "array"},
    "no items": lambda types: {"not": {"items": {"type": types}}},
    "contains": lambda types: {"contains": {"type": types}},
    "contains one": lambda types: {"contains": {"type": types}, "maxContains": 1},
    "prefix": lambda types: {"prefixItems": [{"type": types}], "items": {"type": types}},
    "members": lambda types: {"properties": {"a": {"type": types}}, "additionalProperties": {"type": types}},
    "required members": lambda types: {"required": ["a"], "properties": {"a": {"type": types}}, "type": "object"},
    "no members": lambda types: {"not": {"additionalProperties": {"type": types}}},
    "patterns": lambda types: {"patternProperties": {"^a": {"type": types}}, "propertyNames": {"type": ["string", "null"]}},
    "unevaluated": lambda types: {"allOf": [{"properties": {"a": True}}], "unevaluatedProperties": {"type": types}},
}


def differing(places: dict[str, Place], name: str, texts: list[str]) -> list[str]:
    """The schemas and texts on which the kernel and python-jsonschema disagree."""
    kernel = load_engine("kernel")
    found = []
    for types in LISTS:
        schema = places[name](types)
        validator = Draft202012Validator(schema)
        expected = [text for text in texts if validator.is_valid(json.loads(text))]
        try:
            grammar = json_schema_grammar(schema)[0]
            start = matcher(kernel, grammar)
        except UnsatisfiableError:
            taken: list[str] = []
        else:
            taken = [text for text in texts if accepts(start, text.encode())]
        if taken != expected:
            found.append(f"{json.dumps(schema)}: {set(taken) ^ set(expected)}")
    return found


@pytest.mark.parametrize("place", IN_PLACE)
def test_in_place(place: str) -> None:
    """A list of types allows the values that it allows in JSON Schema, whatever it is combined with."""
    assert differing(IN_PLACE, place, list(TEXTS)) == []


@pytest.mark.parametrize("place", INSIDE)
def test_inside(place: str) -> None:
    """So it does for items and members."""
    arrays = ["[]", *(f"[{text}]" for text in TEXTS), "[1,1.5]", "[1,null]"]
    objects = ["{}", *(f'{{"a":{text}}}' for text in TEXTS), '{"b":1.5}', '{"a":1,"b":null}', '{"b":1.5,"c":2}']
    assert differing(INSIDE, place, ["1.5", *arrays, *objects]) == []


@pytest.mark.parametrize("place", [*IN_PLACE][:-1])
def test_spellings(place: str) -> None:
    """No list takes a number by a spelling where it does not take its value; -0 is taken where 0 is, the others among all numbers."""
    kernel = load_engine("kernel")
    for types in LISTS:
        schema = IN_PLACE[place](types)
        validator = Draft202012Validator(schema)
        try:
            start = matcher(kernel, json_schema_grammar(schema)[0])
        except UnsatisfiableError:
            continue
        for text in SPELLINGS:
            taken = accepts(start, text.encode())
            valid = validator.is_valid(json.loads(text))
            if not taken and valid and place not in ("without values outside", "if"):
                assert text != "-0" and not validator.is_valid(2.25), (schema, text)
            assert valid or not taken, (schema, text)
