"""JSON Schemas of Python types: pydantic's, narrowed where pydantic itself reads less than its schema allows.

A Decimal is a number with at most as many digits after the point as its type allows. The numbers of a duration have at most six digits,
since Python's timedelta ends at a thousand million days. Keys that stand for an integer or a boolean have one spelling, so that no two
become the same key.
"""

from __future__ import annotations

from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema

_INTEGER: Final = "(0|-?[1-9][0-9]{0,17})"
_NATURAL: Final = "(0|[1-9][0-9]{0,17})"
_KEYS: Final[dict[str, dict[str, Any]]] = {
    "int": {"pattern": f"^{_INTEGER}$"},
    "float": {"pattern": f"^{_INTEGER}$"},
    "decimal": {"pattern": f"^{_INTEGER}$"},
    "bool": {"enum": ["true", "false"]},
    "uuid": {"pattern": "^[0-9a-f-]*$", "format": "uuid"},
}
MOST_KEYS: Final = 1_000
"""Keys between two bounds are listed where they are not more than this."""


class TypeSchema(GenerateJsonSchema):
    """The generator that pydantic's methods call for a JSON Schema."""

    def decimal_schema(self, schema: Any) -> Any:
        """A number in place of a number or any text."""
        result: dict[str, Any] = {"type": "number"}
        for bound, keyword in (("ge", "minimum"), ("gt", "exclusiveMinimum"), ("le", "maximum"), ("lt", "exclusiveMaximum")):
            if schema.get(bound) is not None:
                result[keyword] = float(schema[bound])
        if schema.get("multiple_of") is not None:
            result["multipleOf"] = float(schema["multiple_of"])
        places, digits = schema.get("decimal_places"), schema.get("max_digits")
        if places is None and digits is not None:
            places = 0
        if places is not None and "multipleOf" not in result:
            result["multipleOf"] = 10.0**-places if places else 1
        if digits is not None:
            limit = float(10 ** (digits - places))
            result["exclusiveMaximum"] = min(limit, result.get("exclusiveMaximum", limit))
            result["exclusiveMinimum"] = max(-limit, result.get("exclusiveMinimum", -limit))
        return result

    def timedelta_schema(self, schema: Any) -> Any:
        """A duration whose numbers are not too large."""
        result: dict[str, Any] = super().timedelta_schema(schema)
        if result.get("format") == "duration":
            result["pattern"] = "^[^0-9]*([0-9]{1,6}[^0-9]+)*$"
        return result

    def dict_schema(self, schema: Any) -> Any:
        """An object whose keys are what Python reads as its keys."""
        result: dict[str, Any] = super().dict_schema(schema)
        keys = schema.get("keys_schema") or {}
        names = _KEYS.get(keys.get("type", ""))
        if names is not None:
            low = keys["ge"] if keys.get("ge") is not None else keys["gt"] + 1 if isinstance(keys.get("gt"), int) else None
            high = keys["le"] if keys.get("le") is not None else keys["lt"] - 1 if isinstance(keys.get("lt"), int) else None
            if isinstance(low, int) and isinstance(high, int) and 0 <= high - low < MOST_KEYS:
                names = {"enum": [str(key) for key in range(low, high + 1)]}
            elif isinstance(low, int) and low >= 0 and keys["type"] != "uuid":
                names = {"pattern": f"^{_NATURAL}$"}
            result["propertyNames"] = names
        return result
