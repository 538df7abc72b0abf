"""What a family is, how it joins the others, and what their functions share."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Case = tuple[Any, str | None]
Make = Callable[[int, random.Random], Case]
LONGEST_TEXT: Final = 20_000


@dataclass(frozen=True, slots=True)
class Family:
    """A name, the kind of its specifications, the sizes it is swept over and the function that makes a case of a size."""

    name: str
    kind: str
    sizes: tuple[int, ...]
    make: Make
    options: dict[str, str] = field(default_factory=dict)
    """What the compiler of this kind takes beside the specification."""

    def case(self, size: int) -> Case:
        """The specification and the text, the same in every process."""
        return self.make(size, random.Random(f"{self.name} {size}"))


FAMILIES: Final[dict[str, Family]] = {}
"""All families by name, filled while their modules are imported."""


def row(first: int, last: int, count: int = 5) -> tuple[int, ...]:
    """Sizes from the first to the last, each as many times the one before.

    >>> row(1, 100, 3)
    (1, 10, 100)
    """
    ratio = (last / first) ** (1 / (count - 1))
    return tuple(dict.fromkeys(round(first * ratio**step) for step in range(count)))


def family(kind: str, *sizes: int) -> Callable[[Make], Make]:
    """Add a function to the families, under its own name; one of kind "any_order" is a schema whose keys come in any order."""

    def add(make: Make) -> Make:
        name = make.__name__.replace("_", " ")
        orders = {"json_schema": ["schema"], "any_order": ["any"], "both_orders": ["schema", "any"]}.get(kind)
        for order in orders or [""]:
            full = f"{name}, any order" if kind == "both_orders" and order == "any" else name
            options = {"property_order": order} if order else {}
            FAMILIES[full] = Family(full, "json_schema" if orders else kind, sizes, make, options)
        return make

    return add


def compact(value: Any) -> str:
    """JSON without blanks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def word(random: random.Random, length: int, letters: str = string.ascii_lowercase) -> str:
    """Random letters."""
    return "".join(random.choices(letters, k=length))


def words(random: random.Random, count: int, length: int = 6) -> list[str]:
    """Random words, all different."""
    found: dict[str, None] = {}
    while len(found) < count:
        found[word(random, length)] = None
    return [*found]


def shuffled(random: random.Random, members: dict[str, Any]) -> dict[str, Any]:
    """The members in another order."""
    return dict(random.sample([*members.items()], len(members)))


def closed(properties: dict[str, Any], required: Sequence[str] | None = None, **more: Any) -> dict[str, Any]:
    """An object schema with these properties and no others, all required unless it is said which are."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties] if required is None else [*required],
        "additionalProperties": False,
        **more,
    }
