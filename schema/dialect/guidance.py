"""`x-guidance`: the member of a schema by which llguidance's callers set options; each is honoured here or refused by its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ...pda.exceptions import SchemaError, shown

NAME: Final = "x-guidance"
_SEPARATORS: Final[Mapping[str, str]] = {"item_separator": ",", "key_separator": ":"}


class Guidance(NamedTuple):
    """The value of the member; None if it leaves the choice to the caller."""

    whitespace: str | None = None
    lenient: bool | None = None


_NO_GUIDANCE: Final = Guidance()


def read_guidance(schema: Any) -> Guidance:
    """The options that a schema carries in its root.

    `coerce_one_of` reads `oneOf` as `anyOf` where llguidance has no exact way; here it is exact, so there is nothing to coerce.

    >>> read_guidance({"type": "object", "x-guidance": {"whitespace_flexible": False}})
    Guidance(whitespace='compact', lenient=None)
    """
    if (schema.__class__ is not dict and not isinstance(schema, Mapping)) or NAME not in schema:
        return _NO_GUIDANCE
    options = schema[NAME]
    if not isinstance(options, Mapping):
        raise SchemaError(f"/{NAME}: must be an object, not {shown(options)}")
    flexible, pattern, lenient = None, None, None
    for name, value in options.items():
        match name:
            case "whitespace_flexible" | "coerce_one_of" | "lenient":
                if not isinstance(value, bool):
                    raise SchemaError(f"/{NAME}/{name}: must be true or false, not {shown(value)}")
                flexible = value if name == "whitespace_flexible" else flexible
                lenient = value if name == "lenient" else lenient
            case "whitespace_pattern":
                if value is not None and not isinstance(value, str):
                    raise SchemaError(f"/{NAME}/{name}: must be a regex, not {shown(value)}")
                pattern = value
            case "item_separator" | "key_separator":
                if value != _SEPARATORS[name]:
                    raise SchemaError(f"/{NAME}/{name}: {shown(value)} is not supported, only {_SEPARATORS[name]!r} with blanks around it")
            case _:
                names = "whitespace_flexible, whitespace_pattern, item_separator, key_separator, coerce_one_of, lenient"
                raise SchemaError(f"/{NAME}/{name}: unknown option; available: {names}")
    whitespace = None if flexible is None else "flexible" if flexible else "compact"
    return Guidance(whitespace if pattern is None else pattern, lenient)
