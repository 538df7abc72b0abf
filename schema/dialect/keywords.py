"""The keywords of every draft, each with its groups: bits that say which part of the compiler it concerns.

A subschema's groups are the union of its keywords' groups, so that one pass over its keys decides how it is compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

STRING: Final = 1
NUMBER: Final = 2
ARRAY: Final = 4
OBJECT: Final = 8
TYPE: Final = 16
VALUES: Final = 32
"""`enum` or `const`."""
REFERENCE: Final = 64
ANY_OF: Final = 128
ONE_OF: Final = 256
ALGEBRA: Final = 512
"""Needs the algebra of schemas."""
RESOURCE: Final = 1024
"""Changes the base against which references resolve."""
UNKNOWN: Final = 2048
ASIDE: Final = 4096
"""Holds subschemas that may not be compiled, or has no effect without another keyword."""
DEFINITIONS: Final = 8192
"""Holds subschemas that are compiled where others refer to them."""
LOCAL: Final = STRING | NUMBER | ARRAY | OBJECT
"""Speaks of values of one type."""
BEYOND_LOCAL: Final = VALUES | REFERENCE | ANY_OF | ONE_OF | ALGEBRA | RESOURCE

_DRAFT4: Final[Mapping[str, int]] = {
    "type": TYPE,
    "enum": VALUES,
    "multipleOf": NUMBER,
    "minimum": NUMBER,
    "maximum": NUMBER,
    "exclusiveMinimum": NUMBER,
    "exclusiveMaximum": NUMBER,
    "minLength": STRING,
    "maxLength": STRING,
    "pattern": STRING,
    "format": STRING,
    "items": ARRAY,
    "additionalItems": ARRAY | ASIDE,
    "minItems": ARRAY,
    "maxItems": ARRAY,
    "uniqueItems": ARRAY,
    "properties": OBJECT,
    "required": OBJECT,
    "additionalProperties": OBJECT,
    "patternProperties": OBJECT | ALGEBRA,
    "minProperties": OBJECT | ALGEBRA,
    "maxProperties": OBJECT | ALGEBRA,
    "dependencies": OBJECT | ALGEBRA,
    "allOf": ALGEBRA,
    "anyOf": ANY_OF,
    "oneOf": ONE_OF,
    "not": ALGEBRA,
    "$ref": REFERENCE,
    "id": RESOURCE,
    "title": 0,
    "description": 0,
    "default": 0,
    "definitions": DEFINITIONS,
    "$schema": 0,
    "$comment": 0,
}
_DRAFT6: Final[dict[str, int]] = {k: v for k, v in _DRAFT4.items() if k != "id"} | {
    "const": VALUES,
    "contains": ARRAY | ALGEBRA,
    "propertyNames": OBJECT | ALGEBRA,
    "examples": 0,
    "$id": RESOURCE,
}
_DRAFT7: Final[dict[str, int]] = _DRAFT6 | {
    "if": ALGEBRA,
    "then": ASIDE,
    "else": ASIDE,
    "readOnly": 0,
    "writeOnly": 0,
    "contentMediaType": 0,
    "contentEncoding": 0,
}
_DRAFT2019: Final[Mapping[str, int]] = {k: v for k, v in _DRAFT7.items() if k != "dependencies"} | {
    "minContains": ASIDE,
    "maxContains": ASIDE,
    "dependentRequired": OBJECT | ALGEBRA,
    "dependentSchemas": OBJECT | ALGEBRA,
    "unevaluatedItems": ARRAY | ALGEBRA,
    "unevaluatedProperties": OBJECT | ALGEBRA,
    "$defs": DEFINITIONS,
    "$anchor": 0,
    "$recursiveAnchor": 0,
    "$recursiveRef": REFERENCE,
    "$vocabulary": 0,
    "deprecated": 0,
    "contentSchema": ASIDE,
}
_DRAFT2020: Final[Mapping[str, int]] = {
    k: v for k, v in _DRAFT2019.items() if k not in ("additionalItems", "$recursiveRef", "$recursiveAnchor")
} | {
    "prefixItems": ARRAY,
    "$dynamicRef": REFERENCE,
    "$dynamicAnchor": 0,
}

KEYWORDS: Final[Mapping[str, Mapping[str, int]]] = {
    "draft4": _DRAFT4,
    "draft6": _DRAFT6,
    "draft7": _DRAFT7,
    "2019-09": _DRAFT2019,
    "2020-12": _DRAFT2020,
}
"""For each dialect the bits of its keywords; 0 is an annotation, or a keyword that another one reads."""


def groups_of(schema: Mapping[str, object], keyword_groups: Mapping[str, int]) -> int:
    """The groups of all keywords of a subschema together.

    >>> groups_of({"type": "string", "minLength": 1}, _DRAFT4) == TYPE | STRING
    True
    """
    groups = 0
    for keyword in schema:
        groups |= keyword_groups.get(keyword, UNKNOWN)
    return groups
