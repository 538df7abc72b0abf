"""What is said to have a value has one, and what is said to lack one has not all; checked by jsonschema on a few values of every type."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from stackmask.schema.algebra.bounds import surely_inhabited, surely_many, surely_not_universal
from stackmask.schema.dialect.references import Registry

VALUES: list[Any] = [
    *(None, True, False, 0, 1, -5, 12, 0.5, 1e9, -1e9, "", "a", "2020-02-02"),
    *([], [None], ["a"], [0], [0, 0], [[], []]),
    *({}, {"a": 0}, {"a": "", "b": []}, {"a": {"a": 1}}),
]
DEFINITIONS: dict[str, Any] = {
    "text": {"type": "string", "maxLength": 3},
    "loop": {"$ref": "#/$defs/loop"},
    "tree": {"type": "object", "properties": {"a": {"$ref": "#/$defs/tree"}}, "required": ["a"]},
}
SURE: list[Any] = [
    *(True, {}, {"minimum": 3}, {"type": "number", "exclusiveMaximum": 0}, {"type": "integer", "minimum": -9, "maximum": 3}),
    *({"type": "string", "format": "date"}, {"enum": [[]]}, {"type": "string", "enum": [1, "a"]}, {"const": 1}),
    *({"$ref": "#/$defs/text"}, {"anyOf": [False, {"type": "null"}]}, {"type": "array", "minItems": 1, "items": {"const": "a"}}),
    *({"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}, {"type": ["array", "null"], "minItems": 3}),
]
UNSURE: list[Any] = [
    *(
        False,
        {"enum": []},
        {"type": "string", "enum": [1]},
        {"type": "string", "pattern": "x"},
        {"type": "integer", "minimum": 3, "maximum": 2},
    ),
    *({"type": "number", "multipleOf": 9, "minimum": 1}, {"type": "string", "format": "date", "maxLength": 1}, {"not": {}}),
    *({"anyOf": [False]}, {"oneOf": [{}, {}]}, {"$ref": "#/$defs/loop"}, {"$ref": "#/$defs/tree"}, {"const": 1, "enum": [2]}),
    *({"type": "array", "minItems": 2, "items": False}, {"type": "array", "minItems": 2, "uniqueItems": True, "items": {"const": 1}}),
    *({"type": "array", "minItems": 1, "prefixItems": [False]}, {"type": "object", "required": ["a"]}),
    *({"type": "object", "required": ["a"], "properties": {"a": False}}, {"type": "object", "minProperties": 1, "propertyNames": False}),
]
LACKING: list[Any] = [
    *({"type": "string"}, {"type": ["object", "array", "number"], "minItems": 3}, {"enum": [1]}, {"const": {}}, {"required": ["a"]}),
    *({"$ref": "#/$defs/text"}, {"$ref": "#/$defs/tree", "minLength": 2}),
]
FULL: list[Any] = [
    *(
        True,
        {},
        {"type": ["null", "boolean", "number", "string", "array", "object"]},
        {"required": []},
        {"minLength": 0},
        {"$ref": "#/$defs/loop"},
    ),
    {"title": "anything"},
]


MANY: list[Any] = [
    *(True, {}, {"title": "anything"}, {"type": "number"}, {"type": "string", "maxLength": 1}, {"type": "object", "required": ["a"]}),
    *({"type": "array", "enum": [[1], "a"]}, {"$ref": "#/$defs/text"}, {"$ref": "#/$defs/tree"}),
]
FEW: list[Any] = [
    *(False, {"type": "null"}, {"type": ["boolean", "null"]}, {"type": "string", "maxLength": 0}, {"type": "string", "pattern": "^a$"}),
    *({"enum": [{}]}, {"type": "string", "enum": ["a"]}, {"type": "integer", "minimum": 1, "maximum": 2}, {"$ref": "#/$defs/loop"}),
    *({"anyOf": [{}]}, {"type": "array", "$ref": "#/$defs/text"}, {"maxLength": 0}),
]


def placed(schema: Any) -> tuple[Registry, Any]:
    """A subschema beside the definitions."""
    document = {"$defs": DEFINITIONS, "not": schema}
    return Registry(document), document["not"]


def is_valid(schema: Any, value: Any) -> bool:
    """What another validator says."""
    document = {"$defs": DEFINITIONS, **(schema if isinstance(schema, dict) else {"allOf": [schema]})}
    return jsonschema.Draft202012Validator(document).is_valid(value)


@pytest.mark.parametrize("schema", SURE, ids=repr)
def test_has_value(schema: Any) -> None:
    """A value is seen where there is one of the values below."""
    registry, inner = placed(schema)
    assert surely_inhabited(registry, inner, registry.root)
    assert any(is_valid(schema, value) for value in VALUES)


@pytest.mark.parametrize("schema", UNSURE, ids=repr)
def test_has_no_value_to_be_seen(schema: Any) -> None:
    """Nothing is said of what is empty, or is not seen to be otherwise."""
    registry, inner = placed(schema)
    assert not surely_inhabited(registry, inner, registry.root)


@pytest.mark.parametrize("schema", LACKING, ids=repr)
def test_lacks_value(schema: Any) -> None:
    """What lists values, has not all types or requires a member leaves some value out."""
    registry, inner = placed(schema)
    assert surely_not_universal(registry, inner, registry.root)
    assert not all(is_valid(schema, value) for value in VALUES)


@pytest.mark.parametrize("schema", FULL, ids=repr)
def test_lacks_no_value(schema: Any) -> None:
    """Nothing is said of what leaves nothing out."""
    registry, inner = placed(schema)
    assert not surely_not_universal(registry, inner, registry.root)


@pytest.mark.parametrize(("schema", "many"), [*((schema, True) for schema in MANY), *((schema, False) for schema in FEW)], ids=repr)
def test_has_many(schema: Any, many: bool) -> None:
    """Only what surely cannot be listed is said to be many."""
    registry, inner = placed(schema)
    assert surely_many(registry, inner, registry.root) == many
