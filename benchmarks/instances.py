"""A file of MaskBench schemas, and their instances as the texts that a model would be asked to write.

A line is {"id", "schema", "tests": [{"valid", "data"}]}.
Engines write the members of an object in one order: declared keys as the schema lists them, then the others.
A branch of a union counts where the instance looks as if it were meant for it, by its types, constants and required keys.
What a schema lists first is a matter of taste where several subschemas apply to one object, so an instance has a few texts:
the order in which a reader meets the keys is the first, which is the one that is timed; a verdict takes all of them, and a valid instance
is refused only where `search` finds no order either.
Numbers are written by their value: 1.0 is written 1, which JSON Schema calls the same.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

DATA = Path(os.environ.get("STACKMASK_DATA", Path(__file__).resolve().parents[1].parent / "shared" / "data"))
"""Where the large files are: $STACKMASK_DATA, by default ../shared/data beside the checkout."""
APPLICATORS = ("$ref", "$recursiveRef", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas")


@dataclass(frozen=True, slots=True)
class Case:
    """A schema and its instances, each with whether it is valid and its texts, the likeliest first."""

    id: str
    schema: str
    instances: tuple[tuple[bool, tuple[str, ...]], ...]


def read_lines(path: Path) -> list[str]:
    """The lines of a MaskBench file, compressed or not."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
        return [line for line in file if line.strip()]


def read_case(line: str) -> Case:
    """A line of such a file."""
    record = json.loads(line, parse_float=Decimal)
    schema = record["schema"]
    instances = tuple((bool(test["valid"]), tuple(texts(test["data"], schema))) for test in record["tests"])
    return Case(record["id"], write(schema), instances)


def texts(instance: Any, schema: Any) -> Iterator[str]:
    """The instance as compact JSON, each text once."""
    orders = [Order(schema, own_first=False), Order(schema, own_first=True)]
    yield from dict.fromkeys([*(write(order.arranged(instance, [schema])) for order in orders), write(instance)])


def search(text: str, fits: Callable[[str], bool], tries: int = 2000) -> str | None:
    """The same value with its members in an order whose every prefix `fits`, None where none was found.

    Members are tried in the order of the text; after `tries` prefixes it gives up.
    """
    value = json.loads(text, parse_float=Decimal)
    left = tries

    def grown(before: str, added: str) -> Iterator[str]:
        nonlocal left
        left -= 1
        if left >= 0 and fits(before + added):
            yield before + added

    def spellings(value: Any, before: str) -> Iterator[str]:
        if isinstance(value, dict):
            return (done for start in grown(before, "{") for done in members(value, tuple(value), start))
        if isinstance(value, list):
            return (done for start in grown(before, "[") for done in items(value, 0, start))
        return grown(before, write(value))

    def members(value: dict[str, Any], names: tuple[str, ...], before: str) -> Iterator[str]:
        if not names:
            yield from grown(before, "}")
        for name in names:
            rest = tuple(other for other in names if other != name)
            for start in grown(before, "," * (len(names) < len(value)) + write(name) + ":"):
                for middle in spellings(value[name], start):
                    yield from members(value, rest, middle)

    def items(value: list[Any], place: int, before: str) -> Iterator[str]:
        if place == len(value):
            yield from grown(before, "]")
            return
        for start in grown(before, "," * (place > 0)):
            for middle in spellings(value[place], start):
                yield from items(value, place + 1, middle)

    return next(spellings(value, ""), None)


@dataclass(frozen=True, slots=True)
class Order:
    """A way to order keys; `own_first` puts those of a subschema before those of the subschemas in it."""

    root: Any
    own_first: bool

    def arranged(self, value: Any, schemas: list[Any]) -> Any:
        """The value with the members of its objects in the order that the schemas which apply to them declare."""
        if isinstance(value, dict):
            keys, applicable = self._declared(value, schemas)
            names = [*(name for name in keys if name in value), *(name for name in value if name not in keys)]
            return {name: self.arranged(value[name], children(applicable, name)) for name in names}
        if isinstance(value, list):
            _, applicable = self._declared(value, schemas)
            return [self.arranged(item, elements(applicable, place)) for place, item in enumerate(value)]
        return value

    def _declared(self, value: Any, schemas: list[Any]) -> tuple[dict[str, None], list[dict[str, Any]]]:
        """The keys that schemas declare, in order, and these schemas with all that apply in the same place."""
        keys: dict[str, None] = {}
        applicable: list[dict[str, Any]] = []
        seen: set[int] = set()
        stack: list[Any] = list(reversed(schemas))
        while stack:
            schema = stack.pop()
            if isinstance(schema, Keys):
                keys |= dict.fromkeys(schema)
            elif isinstance(schema, dict) and id(schema) not in seen:
                seen.add(id(schema))
                applicable.append(schema)
                parts = [part for keyword in schema for part in self._in_place(value, schema, keyword)]
                stack += reversed(sorted(parts, key=lambda part: not isinstance(part, Keys)) if self.own_first else parts)
        for schema in applicable:
            required = schema.get("required")
            keys |= dict.fromkeys(sorted(name for name in required if isinstance(name, str))) if isinstance(required, list) else {}
        return keys, applicable

    def _in_place(self, value: Any, schema: dict[str, Any], keyword: str) -> list[Any]:
        """What a keyword brings to the value it stands for: keys, or subschemas that apply to the same value."""
        argument = schema[keyword]
        if keyword == "properties" and isinstance(argument, dict):
            return [Keys(argument)]
        if keyword not in APPLICATORS:
            return []
        if keyword.endswith("ef"):
            return [resolved(self.root, argument)]
        if keyword in ("anyOf", "oneOf") and isinstance(argument, list):
            return [branch for branch in argument if fits(value, branch, self.root)] or argument
        if keyword == "dependentSchemas" and isinstance(argument, dict):
            return list(argument.values())
        return argument if isinstance(argument, list) else [argument]


TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "object": dict, "array": list, "string": str, "boolean": bool, "null": type(None), "number": (int, Decimal), "integer": (int, Decimal),
}  # fmt: skip


def fits(value: Any, schema: Any, root: Any, depth: int = 6) -> bool:
    """Whether a value looks as if it were meant for a schema: a validator of a few keywords, down to some depth."""
    if depth == 0 or not isinstance(schema, dict):
        return schema is not False
    types = schema.get("type", [*TYPES])
    if not any(isinstance(value, TYPES.get(kind, ())) for kind in ([types] if isinstance(types, str) else types)):
        return False
    if ("const" in schema and schema["const"] != value) or ("enum" in schema and value not in schema["enum"]):
        return False
    for keyword in ("$ref", "allOf", "anyOf", "oneOf"):
        parts = [resolved(root, schema[keyword])] if keyword == "$ref" and keyword in schema else schema.get(keyword, ())
        found = [fits(value, part, root, depth - 1) for part in parts]
        if not (any(found) if keyword.endswith("yOf") or keyword == "oneOf" else all(found)) and found:
            return False
    if isinstance(value, list):
        return all(fits(item, part, root, depth - 1) for place, item in enumerate(value) for part in elements([schema], place))
    if not isinstance(value, dict):
        return True
    properties = schema.get("properties", {})
    required = schema.get("required")
    if isinstance(required, list) and not all(name in value for name in required):
        return False
    return all(fits(value[name], part, root, depth - 1) for name in value for part in children([schema], name)) if properties else True


class Keys(tuple[str, ...]):
    """The keys of `properties`, among subschemas."""

    __slots__ = ()


def resolved(root: Any, reference: Any) -> Any:
    """The subschema at a reference inside the document; nothing for others."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return True
    found = root
    for part in reference[1:].split("/")[1:]:
        key = part.replace("%25", "%").replace("~1", "/").replace("~0", "~")
        try:
            found = found[int(key)] if isinstance(found, list) else found[key]
        except (KeyError, ValueError, IndexError, TypeError):
            return True
    return found


def children(schemas: list[dict[str, Any]], name: str) -> list[Any]:
    """The schemas of a member."""
    found = []
    for schema in schemas:
        properties, additional = schema.get("properties"), schema.get("additionalProperties")
        patterns = schema.get("patternProperties")
        matching = [patterns[pattern] for pattern in patterns if matches(pattern, name)] if isinstance(patterns, dict) else []
        declared = [properties[name]] if isinstance(properties, dict) and name in properties else []
        found += matching + declared or [additional]
    return found


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern is found in a name, as far as Python's dialect goes."""
    try:
        return bool(re.search(pattern, name))
    except re.error:
        return True


def elements(schemas: list[dict[str, Any]], place: int) -> list[Any]:
    """The schemas of an element."""
    found = []
    for schema in schemas:
        items = schema.get("items")
        prefix = items if isinstance(items, list) else schema.get("prefixItems", [])
        rest = schema.get("additionalItems") if isinstance(items, list) else items
        found.append(prefix[place] if isinstance(prefix, list) and place < len(prefix) else rest)
    return found


def write(value: Any) -> str:
    """A value as compact JSON; recursion is as deep as the file, which `json` has read by recursion too."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{write(name)}:{write(member)}" for name, member in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write, value)) + "]"
    if isinstance(value, Decimal):
        return str(int(value)) if value == value.to_integral_value() and abs(value) < 10**30 else str(value)
    if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
        return json.dumps(value)  # half a surrogate pair has no UTF-8
    return json.dumps(value, ensure_ascii=False)
