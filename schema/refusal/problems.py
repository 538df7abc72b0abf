"""One problem of one value."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from ..dialect.keyword_values import pointer_token

Path = tuple[str | int, ...]
"""The path of a part of a value: names of members and indices of items, outermost first."""
LONGEST: Final = 60
"""The most characters of a value that a sentence shows."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A value that a keyword refuses.

    `path` leads to the value in the instance, `pointer` to the keyword in the schema; `said` continues after the name of the value.
    `wanted` are the types or values that the keyword would take, where it lists some.
    """

    path: Path
    pointer: str
    said: str
    wanted: tuple[Any, ...] = field(default=(), compare=False)

    @property
    def keyword(self) -> str:
        """The last step of the pointer."""
        return self.pointer.rpartition("/")[2]

    def __str__(self) -> str:
        name = f"`{''.join('/' + pointer_token(step) for step in self.path)}`" if self.path else "the value"
        # The pointer of a keyword in the root could be read as one into the instance.
        place = f"schema {self.pointer or '/'}" if self.pointer.count("/") < 2 and "#" not in self.pointer else self.pointer
        return f"{name}{self.said} ({place})"


def written(value: Any) -> str:
    """A value as JSON, cut where it is long.

    >>> written({"a": [Decimal("1.50"), None]}), written("x" * 99)[-5:]
    ('{"a": [1.50, null]}', 'xx...')
    """
    pieces: list[str] = []
    length = 0
    waiting: list[Any] = [value]
    while waiting and length <= LONGEST:
        item = waiting.pop()
        if isinstance(item, _Raw):
            text = item.text
        elif isinstance(item, Decimal):
            text = str(item)
        elif isinstance(item, Mapping):
            members = list(item.items())[: LONGEST // 4]
            waiting.append(_Raw("}"))
            for index, (key, member) in reversed(list(enumerate(members))):
                waiting += (member, _Raw(f"{', ' if index else ''}{json.dumps(key, ensure_ascii=False)}: "))
            text = "{"
        elif isinstance(item, list | tuple):
            waiting.append(_Raw("]"))
            for index, member in reversed(list(enumerate(item[: LONGEST // 2]))):
                waiting += (member, _Raw(", " if index else ""))
            text = "["
        else:
            text = json.dumps(item[: LONGEST + 9] if isinstance(item, str) else item, ensure_ascii=False)
        pieces.append(text)
        length += len(text)
    shown = "".join(pieces)
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 3] + "..."


class _Raw:
    """Punctuation on its way into a text."""

    def __init__(self, text: str) -> None:
        self.text = text


def kind_of(value: Any) -> str:
    """The type of a value with its article.

    >>> kind_of(True), kind_of(3), kind_of([])
    ('a boolean', 'an integer', 'an array')
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int):
        return "an integer"
    if isinstance(value, float | Decimal):
        return "a number"
    return "a string" if isinstance(value, str) else "an object" if isinstance(value, Mapping) else "an array"


def listed(values: Sequence[Any], most: int = 8) -> str:
    """Values as JSON, one after the other, the first of them where there are many."""
    shown = ", ".join(written(value) for value in values[:most])
    return f"{shown}, ..." if len(values) > most else shown


def not_of_type(value: Any, kinds: Sequence[str]) -> str:
    """The sentence about a value that has none of these types.

    >>> not_of_type(3, ("string", "null")), not_of_type(None, ("integer",))
    (': 3 is an integer, not a string or null', ' is null, not an integer')
    """
    names = " or ".join("null" if kind == "null" else f"{'an' if kind[0] in 'aio' else 'a'} {kind}" for kind in kinds)
    return f" is null, not {names}" if value is None else f": {written(value)} is {kind_of(value)}, not {names}"


def not_one_of(value: Any, values: Sequence[Any]) -> str:
    """The sentence about a value that equals none of these, with the longest beginning that it shares with one of them.

    >>> not_one_of("opened", ["open", "closed"]), not_one_of(4, [3])
    (': expected one of "open", "closed"; "opened" shares "open"', ': expected 3, not 4')
    """
    best = ""
    if isinstance(value, str):
        best = max((_beginning(value, other) for other in values if isinstance(other, str)), key=len, default="")
    end = f"; {written(value)} shares {written(best)}" if best else f", not {written(value)}"
    return f": expected {'one of ' if len(values) > 1 else ''}{listed(values)}{end}"


def _beginning(one: str, other: str) -> str:
    """The longest beginning of both."""
    length = next((index for index, (left, right) in enumerate(zip(one, other, strict=False)) if left != right), min(len(one), len(other)))
    return one[:length]
