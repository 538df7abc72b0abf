"""Keyword values read and checked: each function takes a subschema and returns the values of its keywords, or raises Malformed.

Forms that only an older draft allows, such as `items` as an array or `exclusiveMinimum: true`, are read in every dialect: they have
one meaning, and schemas that name no dialect mix them freely.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from math import inf
from typing import Any, Final, NamedTuple

from ...pda.exceptions import SchemaError, shown
from ..errors import Inexact, Malformed
from ..sets.numbers import INTEGERS, NUMBERS, NumberSet

Schema = dict[str, Any]
Numeral = int | float | Decimal
ATOMS: Final = frozenset({str, int, float, bool, type(None)})
"""The classes of values of JSON that hold no others."""
LISTS: Final = (list, tuple)
"""PERF: each evaluation of `list | tuple` makes a type."""
_LARGE: Final = 2**64
MOST_COUNTED: Final = 2_000_000_000
"""Counts of characters, items and members have 32 bits, and no text is as long as this. A larger upper bound counts as no bound."""
LARGEST_COUNT: Final = 10**400
"""Counts written as decimals above this are read as this."""
_NOTHING: Final[Mapping[str, object]] = {}
_STRING: Final = frozenset({str})


def count(schema: Schema, keyword: str, default: int) -> int:
    """A count, such as minItems."""
    value = schema.get(keyword, default)
    if value.__class__ is int:
        if value < 0 and keyword in schema:
            raise Malformed(schema, keyword, "must not be negative")
        return value
    # Whether a decimal is whole shows without its digits, of which 1e999999999 has very many.
    if isinstance(value, float | Decimal) and 0 <= value < inf and (value > LARGEST_COUNT or value == int(value)):
        return int(min(value, LARGEST_COUNT))
    raise Malformed(schema, keyword, "must be a whole number that is not negative")


def too_many(schema: Schema, keyword: str) -> Inexact:
    """The error for a count that no text reaches."""
    return Inexact(schema, keyword, f"{_brief(schema[keyword])} is more than any text can have; at most {MOST_COUNTED} is supported")


def _brief(value: object) -> str:
    """A count for a message; Python refuses to print integers of many digits."""
    return f"a number of {value.bit_length()} bits" if isinstance(value, int) and value.bit_length() > 100 else str(value)


def bounds(schema: Schema, lowest: str, highest: str) -> tuple[int, int]:
    """Two counts; 0 and -1 where they are absent, and -1 for an upper bound so large that nothing comes near it."""
    low, high = count(schema, lowest, 0), count(schema, highest, -1)
    if low > MOST_COUNTED:
        raise too_many(schema, lowest)
    return low, -1 if high > MOST_COUNTED else high


def numeral(schema: Schema, keyword: str) -> Numeral | None:
    """A number, None where the keyword is absent or a boolean as draft 4 allows."""
    value = schema.get(keyword)
    if (value is None and keyword not in schema) or value.__class__ is bool:
        return None
    if not isinstance(value, int | float | Decimal):
        raise Malformed(schema, keyword, "must be a number")
    return value


def number_set(schema: Schema) -> NumberSet:
    """The numbers that minimum, maximum, exclusiveMinimum, exclusiveMaximum and multipleOf allow."""
    low, high = numeral(schema, "minimum"), numeral(schema, "maximum")
    above, below = numeral(schema, "exclusiveMinimum"), numeral(schema, "exclusiveMaximum")
    numbers = NUMBERS
    try:
        if low is not None or high is not None:
            numbers = NumberSet.interval(
                low, high, low_open=schema.get("exclusiveMinimum") is True, high_open=schema.get("exclusiveMaximum") is True
            )
        if above is not None or below is not None:
            numbers &= NumberSet.interval(above, below, low_open=True, high_open=True)
        step = numeral(schema, "multipleOf")
        if step is not None:
            numbers &= NumberSet.multiples(step)
    except ValueError as error:
        raise Malformed(schema, "multipleOf" if "multipleOf" in schema else "minimum", str(error)) from None
    return numbers


def integer_set(schema: Schema) -> NumberSet:
    """The integers that the same keywords allow."""
    get = schema.get
    low, high = get("minimum"), get("maximum")
    # PERF: the algebra of number sets takes five times as long to say that an interval of integers is one
    if (
        ((low.__class__ is int and -_LARGE < low < _LARGE) or (low is None and "minimum" not in schema))
        and ((high.__class__ is int and -_LARGE < high < _LARGE) or (high is None and "maximum" not in schema))
        and "exclusiveMinimum" not in schema
        and "exclusiveMaximum" not in schema
        and "multipleOf" not in schema
    ):
        return NumberSet.whole(low, high)
    return INTEGERS & number_set(schema)


def flag(schema: Schema, keyword: str) -> bool:
    """A boolean, false where it is absent."""
    value = schema.get(keyword, False)
    if value.__class__ is not bool:
        raise Malformed(schema, keyword, "must be a boolean")
    return value


def names(schema: Schema, keyword: str, value: object) -> Sequence[str]:
    """An array of strings."""
    # PERF: a set of classes takes half the time of a generator
    if isinstance(value, LISTS) and ({*map(type, value)} <= _STRING or all(isinstance(name, str) for name in value)):
        return value
    raise Malformed(schema, keyword, "must be an array of strings")


def mapping(schema: Schema, keyword: str) -> Mapping[str, Any]:
    """An object, empty where it is absent."""
    value = schema.get(keyword, _NOTHING)
    if value.__class__ is not dict and not isinstance(value, Mapping):
        raise Malformed(schema, keyword, "must be an object")
    return value


def schemas(schema: Schema, keyword: str) -> Sequence[Any]:
    """An array of schemas that is not empty."""
    value = schema[keyword]
    if not isinstance(value, LISTS) or not value:
        raise Malformed(schema, keyword, "must be an array of schemas that is not empty")
    return value


def text(schema: Schema, keyword: str) -> str:
    """A string."""
    value = schema[keyword]
    if not isinstance(value, str):
        raise Malformed(schema, keyword, "must be a string")
    return value


def item_schemas(schema: Schema, keyword_groups: Mapping[str, int]) -> tuple[Sequence[Any], Any]:
    """The schemas of the first items, and that of all others; `keyword_groups` are the keywords in force."""
    items = schema.get("items", True)
    if items.__class__ is not dict and isinstance(items, LISTS):
        return items, schema.get("additionalItems", True)
    return (schemas(schema, "prefixItems") if "prefixItems" in schema and "prefixItems" in keyword_groups else ()), items


def types(schema: Schema) -> Sequence[str]:
    """The names that `type` lists."""
    kind = schema["type"]
    kinds = (kind,) if isinstance(kind, str) else kind
    if not isinstance(kinds, LISTS) or not kinds:
        raise Malformed(schema, "type", "must be a type or an array of types")
    for name in kinds:
        if name not in TYPES:
            raise Malformed(schema, "type", f"{shown(name)} is not a type")
    return kinds


TYPES: Final = ("null", "boolean", "integer", "number", "string", "array", "object")


def same_value(value: object) -> object:
    """A key that is equal for two JSON values exactly where JSON Schema calls them equal: 1 is 1.0, but not true.

    That of an array or object is a flat text, since comparing nested keys would recurse as deep as the value is.

    >>> same_value({"a": [1, True]}) == same_value({"a": [1.0, True]}), same_value(1) == same_value(True)
    (True, False)
    """
    if isinstance(value, list | tuple | Mapping):
        return _flat_key(value)
    if value is None or isinstance(value, bool | str):
        return value.__class__.__name__, value
    if isinstance(value, float):
        return "#", Decimal(repr(value))
    if isinstance(value, int | Decimal):
        return "#", value
    raise SchemaError(f"a {type(value).__name__} is not a JSON value")


def _flat_key(value: object) -> str:
    """The parts of a value in order, members by their names; a text begins with its length, so that no other reads the same."""
    parts: list[str] = []
    stack: list[object] = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, _Name):
            parts.append(f"{len(item.name)}:{item.name}")
        elif isinstance(item, LISTS):
            parts.append(f"[{len(item)}")
            stack.extend(reversed(item))
        elif isinstance(item, Mapping):
            parts.append(f"{{{len(item)}")
            for name in sorted(item, reverse=True):
                stack += (item[name], _Name(name))
        elif isinstance(item, str):
            parts.append(f'"{len(item)}:{item}')
        elif item is None or isinstance(item, bool):
            parts.append(str(item))
        elif isinstance(item, int | float | Decimal):
            parts.append(_number_key(item))
        else:
            raise SchemaError(f"a {type(item).__name__} is not a JSON value")
    return " ".join(parts)


class _Name(NamedTuple):
    """The name of the member that follows."""

    name: str


def _number_key(value: Numeral) -> str:
    """A text that is equal for equal numbers: the digits without zeros at the end, and the exponent."""
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        return str(number)
    text = "".join(map(str, digits)).lstrip("0")
    short = text.rstrip("0")
    return f"{'-' * sign}{short}e{exponent + len(text) - len(short)}" if short else "0"


def pointer_token(key: object) -> str:
    """A step of a JSON pointer."""
    return str(key).replace("~", "~0").replace("/", "~1")
