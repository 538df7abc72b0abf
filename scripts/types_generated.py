"""Generate objects of 60 Python types with the demo model, several of each, and check that every text parses into its type.

    python scripts/types_generated.py            20 of each
    python scripts/types_generated.py --num 2 --seed 5

A text that a parser reads with a key less than it has is counted as one that loses a key.
"""

from __future__ import annotations

import argparse
import dataclasses
import enum
import json
import sys
import time
import uuid
from datetime import date, datetime, timedelta
from datetime import time as time_of_day
from decimal import Decimal
from ipaddress import IPv4Address
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, Optional, TypeVar, Union

from pydantic import AnyUrl, BaseModel, ConfigDict, Field, RootModel, TypeAdapter
from typing_extensions import TypeAliasType, TypedDict

import stackmask
from stackmask.integration.demo import load_model

T = TypeVar("T")


class Person(BaseModel):
    """A flat model with bounds."""

    name: str = Field(max_length=20)
    age: int = Field(ge=0, le=120)


class Address(BaseModel):
    """A part of others."""

    street: str = Field(max_length=30)
    city: str = Field(max_length=20)
    zip: str = Field(pattern=r"^\d{5}$")


class Customer(BaseModel):
    """Nested, optional and listed parts."""

    person: Person
    address: Address | None
    tags: list[Annotated[str, Field(max_length=10)]] = Field(max_length=3)


class Tree(BaseModel):
    """Recursive."""

    value: int = Field(ge=0, le=99)
    children: list[Tree] = Field(max_length=2)


class Chain(BaseModel):
    """Recursive through an option."""

    value: int = Field(ge=0, le=99)
    next: Chain | None = None


class Colour(enum.Enum):
    """Texts."""

    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    """Numbers."""

    LOW = 1
    HIGH = 9


class Cat(BaseModel):
    """One of the pets."""

    kind: Literal["cat"]
    lives: int = Field(ge=1, le=9)


class Dog(BaseModel):
    """The other."""

    kind: Literal["dog"]
    tricks: list[Literal["sit", "roll", "bark"]] = Field(max_length=3)


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


class Owner(BaseModel):
    """A discriminated union inside of a model."""

    pets: list[Pet] = Field(min_length=1, max_length=2)


class Box(BaseModel, Generic[T]):
    """Generic."""

    content: T
    count: int = Field(ge=1, le=5)


class Pair(BaseModel, Generic[T]):
    """Generic, with a part of the same parameter."""

    left: T
    right: Box[T]


class Aliased(BaseModel):
    """Names in JSON that are others in Python."""

    first_name: str = Field(alias="firstName", max_length=12)
    last_name: str = Field(validation_alias="lastName", max_length=12)


class Camel(BaseModel):
    """An alias generator."""

    model_config = ConfigDict(alias_generator=lambda name: "".join(part.title() for part in name.split("_")))
    given_name: str = Field(max_length=12)
    home_town: str = Field(max_length=12)


class Open(BaseModel):
    """Allows other members."""

    model_config = ConfigDict(extra="allow")
    name: str = Field(max_length=12)


class Forbidding(BaseModel):
    """Refuses other members."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(max_length=12)


class Defaults(BaseModel):
    """Every member may be left out."""

    name: str = "Anna"
    size: int = Field(default=3, ge=0, le=9)
    colour: Colour = Colour.RED


class Moments(BaseModel):
    """Formats."""

    day: date
    at: datetime
    clock: time_of_day
    id: uuid.UUID


class Strict(BaseModel):
    """Strict mode."""

    model_config = ConfigDict(strict=True)
    name: str = Field(max_length=9)
    age: int = Field(ge=0, le=99)
    ok: bool


class Names(RootModel[list[Annotated[str, Field(max_length=9)]]]):
    """A model that is a list."""


@dataclasses.dataclass
class Point:
    """A dataclass."""

    x: int
    y: int = 0


@dataclasses.dataclass
class Line:
    """Dataclasses in a dataclass."""

    start: Point
    end: Point
    label: str | None = None


class Film(TypedDict):
    """A TypedDict with an optional key."""

    title: str
    year: NotRequired[Annotated[int, Field(ge=1900, le=2030)]]


class Pixel(NamedTuple):
    """A named tuple."""

    x: int
    y: int


Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | int | None")
Short = Annotated[str, Field(max_length=8)]
Percent = Annotated[int, Field(ge=0, le=100)]


def book(city: Short, nights: Percent = 1) -> None:
    """A function, which stands for its arguments."""


TYPES: dict[str, Any] = {
    "model": Person,
    "nested model": Customer,
    "recursive model": Tree,
    "recursive option": Chain,
    "union with a discriminator": TypeAdapter(Pet),
    "discriminated in a list": Owner,
    "union of models": Person | Address,
    "generic of int": Box[int],
    "generic of a model": Box[Person],
    "generic in a generic": Pair[Short],
    "aliases": Aliased,
    "alias generator": Camel,
    "extra allowed": Open,
    "extra forbidden": Forbidding,
    "defaults": Defaults,
    "dates": Moments,
    "strict": Strict,
    "root model": Names,
    "dataclass": Point,
    "nested dataclass": Line,
    "typed dict": Film,
    "named tuple": Pixel,
    "function": book,
    "enum": Colour,
    "int enum": Level,
    "literal": Literal["a", "b", 3, None],
    "optional": Optional[Percent],  # noqa: UP045 - one of the ways to write it
    "union": Union[Percent, Short, None],  # noqa: UP007 - as above
    "bool": bool,
    "int": int,
    "bounded int": Annotated[int, Field(gt=-10, lt=10, multiple_of=3)],
    "float": float,
    "bounded float": Annotated[float, Field(ge=0, le=1)],
    "decimal": Decimal,
    "bounded decimal": Annotated[Decimal, Field(ge=0, lt=100, decimal_places=2)],
    "string": str,
    "bounded string": Annotated[str, Field(min_length=3, max_length=9)],
    "pattern": Annotated[str, Field(pattern=r"^[A-Z]{2}-\d{3}$")],
    "date": date,
    "datetime": datetime,
    "time": time_of_day,
    "timedelta": timedelta,
    "uuid": uuid.UUID,
    "open model with keys": Box[dict[str, Percent]],
    "url": AnyUrl,
    "ip address": IPv4Address,
    "bytes": Annotated[bytes, Field(max_length=9)],
    "none": None.__class__,
    "list": list[Percent],
    "bounded list": Annotated[list[Percent], Field(min_length=2, max_length=4)],
    "tuple": tuple[Percent, Short, bool],
    "set": Annotated[set[Percent], Field(max_length=4)],
    "frozen set of literals": frozenset[Literal["a", "b", "c"]],
    "dict": Annotated[dict[str, Percent], Field(max_length=4)],
    "dict by int": Annotated[dict[int, Short], Field(max_length=4)],
    "dict by uuid": Annotated[dict[uuid.UUID, bool], Field(max_length=2)],
    "dict by enum": dict[Colour, Percent],
    "dict by date": Annotated[dict[date, Percent], Field(max_length=2)],
    "dict of models": Annotated[dict[Short, Person], Field(max_length=2)],
    "dict of lists": Annotated[dict[Short, list[bool]], Field(max_length=2)],
    "list of lists": Annotated[list[Annotated[list[Percent], Field(max_length=2)]], Field(max_length=3)],
    "list of models": Annotated[list[Person], Field(max_length=2)],
    "alias of a type": Json,
    "any": Any,
}


def check(generator: stackmask.Generator, name: str, seed: int, num: int = 1, *, max_tokens: int = 300) -> list[str]:
    """Generate objects of a type in one batch; return the problems of the wrong ones."""
    first = generator.generate(
        f"Write {name} as JSON.",
        json_schema=TYPES[name],
        temperature=1.0,
        seed=seed,
        n=num,
        max_tokens=max_tokens,
        finish_within_budget=True,
    )
    return [problem for answer in (first, *first.others) if (problem := _problem(name, answer))]


def _problem(name: str, answer: stackmask.Generation[Any]) -> str:
    """What is wrong with an answer, "" where nothing is."""
    if not answer.complete:
        return f"cut: {answer.text[-60:]!r}"
    lost: list[str] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        lost.extend(key for key in set(keys) if keys.count(key) > 1)
        return dict(pairs)

    value = json.loads(answer.text, object_pairs_hook=members)
    if lost:
        return f"the keys {lost} are there twice: {answer.text[:200]!r}"
    try:
        parsed = answer.parsed
    except ValueError as error:
        return f"{answer.text[:200]!r} does not parse: {error}"
    if name.startswith("dict") and isinstance(parsed, dict) and len(parsed) < len(value):
        return f"{len(value)} keys are {len(parsed)} in Python: {answer.text[:200]!r}"
    return ""


def main() -> int:
    """Check every type and print the problems."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num", type=int, default=20, help="objects of each type (default: 20)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    generator = stackmask.Generator(*load_model())
    wrong = 0
    for name in TYPES:
        start = time.perf_counter()
        found = check(generator, name, arguments.seed, arguments.num)
        wrong += len(found)
        seconds = time.perf_counter() - start
        print(
            f"{name:28} {arguments.num - len(found)} of {arguments.num} in {seconds:4.1f} s{'  ' + found[0] if found else ''}", flush=True
        )
    print(f"{len(TYPES)} types, {arguments.num} each: {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
