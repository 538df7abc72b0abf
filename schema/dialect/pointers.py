"""The place of a subschema in a schema, found by identity; schemas without one of their parts; the size of a schema.

Only errors ask for places, so the compiler carries no pointers along.
"""

from __future__ import annotations

import json
import marshal
from collections.abc import Mapping
from typing import Any, Final

from ...pda.exceptions import LimitError
from ...pda.limits import Limits
from .keyword_values import pointer_token
from .serialiser import TEXT_OF_A_BYTE, Serialiser, surely_fits, too_large


def find(wanted: object, schema: object) -> str | None:
    """The JSON pointer of a subschema, None where it is not in the schema."""
    stack: list[tuple[object, str]] = [(schema, "")]
    while stack:
        value, place = stack.pop()
        if value is wanted:
            return place
        if isinstance(value, Mapping):
            stack.extend((member, f"{place}/{pointer_token(key)}") for key, member in value.items())
        elif isinstance(value, list | tuple):
            stack.extend((member, f"{place}/{index}") for index, member in enumerate(value))
    return None


def locate(wanted: object, keyword: str, schema: object, documents: Mapping[str, object]) -> str:
    """The place of a keyword, in the schema or in one of the documents, for a message."""
    ending = f"/{pointer_token(keyword)}" if keyword else ""
    if isinstance(wanted, dict | list):
        for name, document in (("", schema), *documents.items()):
            place = find(wanted, document)
            if place is not None:
                where = place + ending or "/"
                return f"{name}#{where}" if name else where
    return ending or "/"


def without(schema: Any, pointer: str) -> Any:
    """A copy of the schema without the part that a pointer names; parts off that path are shared."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
    root = dict(schema)
    current: Any = root
    for step in steps[:-1]:
        key: Any = int(step) if isinstance(current, list) else step
        inner = current[key]
        inner = dict(inner) if isinstance(inner, Mapping) else list(inner)
        current[key] = inner
        current = inner
    if isinstance(current, list):
        current[int(steps[-1])] = True
    else:
        del current[steps[-1]]
    return root


_MARSHALLED: Final = 2000
"""The deepest nesting of values that `marshal` writes."""


def _text_fits(schema: Any, limits: Limits) -> bool:
    """Whether the JSON text of a plain value shows that `check_schema_size` accepts it, which counts at most half as much again."""
    return 3 * len(json.dumps(schema, ensure_ascii=False, separators=(",", ":"))) <= 2 * limits.specification_bytes


def check_schema_size(schema: Any, limits: Limits, serialised: int | None = None) -> None:
    """Raise where a schema is nested deeper than `limits` has it, or longer as compact JSON; `serialised`: its bytes, if they are known."""
    # PERF: to serialise a schema takes a tenth of the time of a walk.
    try:
        size = len(Serialiser(limits).key(schema)) if serialised is None else serialised
        if surely_fits(size, limits):
            return
        if limits.nesting >= _MARSHALLED and (TEXT_OF_A_BYTE * size <= limits.specification_bytes or _text_fits(schema, limits)):
            marshal.dumps(schema, 2)  # ValueError where it is nested deeper; without the size known it might have no end
            return
    except (TypeError, ValueError, RecursionError, LimitError):
        pass  # it is not plain, or too large or too deep for that
    size = 0
    level: list[object] = [schema]
    for _ in range(limits.nesting + 1):
        following: list[object] = []
        for value in level:
            if isinstance(value, Mapping):
                size += 2 + sum(len(str(key)) + 4 for key in value)
                following.extend(value.values())
            elif isinstance(value, list | tuple):
                size += 2 + len(value)
                following.extend(value)
            else:
                size += len(value) + 2 if isinstance(value, str) else len(repr(value))
        if size > limits.specification_bytes:
            raise too_large(limits, "schema")
        if not following:
            return
        level = following
    raise LimitError(f"the schema is nested more than {limits.nesting} deep", limit="nesting", value=limits.nesting)
