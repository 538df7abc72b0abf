"""Random schemas and instances over a small domain, and acceptance of an instance whatever the order of its keys."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

NAMES = ("a", "b", "c", "ab", "d1")
SCALARS: tuple[Any, ...] = (None, True, False, 0, 1, 2, 3, -1, 1.5, 10, "", "a", "b", "ab", "abc", 'q"', "é", "2020-01-01")
PATTERNS = ("^a", "b$", "^[ab]*$", "^.{2,}$", "c", "^a|d")
KINDS = ("null", "boolean", "integer", "number", "string", "array", "object")
STEPS = 2_000


class Schemas:
    """A source of random schemas."""

    def __init__(self, seed: int, *, unique: bool = True) -> None:
        self.random = random.Random(seed)
        self.unique = unique
        self.definitions: dict[str, Any] = {}

    def root(self, depth: int = 3) -> Any:
        """A schema with definitions that may refer to each other."""
        r = self.random
        schema = self.schema(depth)
        if isinstance(schema, dict) and (r.random() < 0.3 or "#/$defs" in json.dumps(schema)):
            schema["$defs"] = {name: self.schema(2) for name in ("x", "y")}
        return schema

    def schema(self, depth: int) -> Any:
        """A schema nested at most `depth` levels."""
        r = self.random
        if depth <= 0:
            return r.choice(
                [True, {"type": r.choice(KINDS)}, {"const": self.value(1)}, {"enum": [self.value(1), self.value(1), self.value(0)]}]
            )
        if r.random() < 0.05:
            return r.random() < 0.6
        schema: dict[str, Any] = {}
        if r.random() < 0.6:
            schema["type"] = r.choice(KINDS) if r.random() < 0.8 else r.sample(KINDS, 2)
        chosen = r.sample(list(self.keywords()), r.choice((0, 1, 1, 2, 2, 3)))
        for keyword in chosen:
            getattr(self, "add_" + keyword)(schema, depth - 1)
        return schema

    @staticmethod
    def keywords() -> Iterator[str]:
        """The names of the methods that add keywords."""
        return (name[4:] for name in dir(Schemas) if name.startswith("add_"))

    def value(self, depth: int) -> Any:
        """A JSON value."""
        r = self.random
        roll = r.random()
        if depth <= 0 or roll < 0.6:
            return r.choice(SCALARS)
        if roll < 0.8:
            return [self.value(depth - 1) for _ in range(r.randrange(4))]
        return {name: self.value(depth - 1) for name in r.sample(NAMES, r.randrange(4))}

    def add_values(self, schema: dict[str, Any], depth: int) -> None:
        """Add keywords of the group `values`."""
        if self.random.random() < 0.4:
            schema["const"] = self.value(2)
        else:
            schema["enum"] = [self.value(1) for _ in range(3)]

    def add_numbers(self, schema: dict[str, Any], depth: int) -> None:
        """Add keywords of the group `numbers`."""
        for keyword in self.random.sample(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), 2):
            schema[keyword] = self.random.choice((1, 2, 3)) if keyword == "multipleOf" else self.random.randrange(-1, 4)

    def add_strings(self, schema: dict[str, Any], depth: int) -> None:
        """Add keywords of the group `strings`."""
        r = self.random
        if r.random() < 0.5:
            schema["minLength"] = r.randrange(3)
        if r.random() < 0.5:
            schema["maxLength"] = r.randrange(4)
        if r.random() < 0.5:
            schema["pattern"] = r.choice(PATTERNS)

    def add_items(self, schema: dict[str, Any], depth: int) -> None:
        """Add keywords of the group `items`."""
        r = self.random
        if r.random() < 0.6:
            schema["items"] = self.schema(depth)
        if r.random() < 0.4:
            schema["prefixItems"] = [self.schema(depth) for _ in range(r.randrange(1, 3))]

    def add_counts(self, schema: dict[str, Any], depth: int) -> None:
        """Add keywords of the group `counts`."""
        r = self.random
        if r.random() < 0.6:
            schema["minItems"] = r.randrange(3)
        if r.random() < 0.6:
            schema["maxItems"] = r.randrange(4)

    def add_contains(self, schema: dict[str, Any], depth: int) -> None:
        """Add keywords of the group `contains`."""
        r = self.random
        schema["contains"] = self.schema(depth)
        if r.random() < 0.4:
            schema["minContains"] = r.randrange(3)
        if r.random() < 0.4:
            schema["maxContains"] = r.randrange(3)

    def add_unique(self, schema: dict[str, Any], depth: int) -> None:
        """Add keywords of the group `unique`."""
        if self.unique:
            schema["uniqueItems"] = True

    def add_properties(self, schema: dict[str, Any], depth: int) -> None:
        """Add keywords of the group `properties`."""
        r = self.random
        schema["properties"] = {name: self.schema(depth) for name in r.sample(NAMES, r.randrange(1, 4))}
        if r.random() < 0.4:
            schema["additionalProperties"] = self.schema(depth)

    def add_required(self, schema: dict[str, Any], depth: int) -> None:
        """Add keywords of the group `required`."""
        schema["required"] = self.random.sample(NAMES, self.random.randrange(1, 3))

    def add_patternProperties(self, schema: dict[str, Any], depth: int) -> None:  # noqa: N802 - the keyword's own name
        """Add keywords of the group `patternProperties`."""
        r = self.random
        schema["patternProperties"] = {pattern: self.schema(depth) for pattern in r.sample(PATTERNS, r.randrange(1, 3))}
        if r.random() < 0.3:
            schema["additionalProperties"] = self.schema(depth)

    def add_propertyNames(self, schema: dict[str, Any], depth: int) -> None:  # noqa: N802
        """Add keywords of the group `propertyNames`."""
        schema["propertyNames"] = self.random.choice(
            ({"maxLength": 1}, {"pattern": "^a"}, {"enum": ["a", "b", "z"]}, {"not": {"const": "a"}}, {"minLength": 2})
        )

    def add_members(self, schema: dict[str, Any], depth: int) -> None:
        """Add keywords of the group `members`."""
        r = self.random
        if r.random() < 0.7:
            schema["minProperties"] = r.randrange(3)
        if r.random() < 0.7:
            schema["maxProperties"] = r.randrange(4)

    def add_dependents(self, schema: dict[str, Any], depth: int) -> None:
        """Add keywords of the group `dependents`."""
        r = self.random
        if r.random() < 0.6:
            schema["dependentRequired"] = {r.choice(NAMES): r.sample(NAMES, 2)}
        else:
            schema["dependentSchemas"] = {r.choice(NAMES): self.schema(depth)}

    def add_allOf(self, schema: dict[str, Any], depth: int) -> None:  # noqa: N802
        """Add keywords of the group `allOf`."""
        schema["allOf"] = [self.schema(depth) for _ in range(self.random.randrange(1, 3))]

    def add_anyOf(self, schema: dict[str, Any], depth: int) -> None:  # noqa: N802
        """Add keywords of the group `anyOf`."""
        schema["anyOf"] = [self.schema(depth) for _ in range(self.random.randrange(1, 4))]

    def add_oneOf(self, schema: dict[str, Any], depth: int) -> None:  # noqa: N802
        """Add keywords of the group `oneOf`."""
        schema["oneOf"] = [self.schema(depth) for _ in range(self.random.randrange(1, 4))]

    def add_not(self, schema: dict[str, Any], depth: int) -> None:
        """Add keywords of the group `not`."""
        schema["not"] = self.schema(depth)

    def add_if(self, schema: dict[str, Any], depth: int) -> None:
        """Add keywords of the group `if`."""
        r = self.random
        schema["if"] = self.schema(depth)
        if r.random() < 0.8:
            schema["then"] = self.schema(depth)
        if r.random() < 0.5:
            schema["else"] = self.schema(depth)

    def add_unevaluated(self, schema: dict[str, Any], depth: int) -> None:
        """Add keywords of the group `unevaluated`."""
        schema[self.random.choice(("unevaluatedProperties", "unevaluatedItems"))] = self.schema(min(depth, 1))

    def add_reference(self, schema: dict[str, Any], depth: int) -> None:
        """Add keywords of the group `reference`."""
        schema["$ref"] = self.random.choice(("#/$defs/x", "#/$defs/y"))


def near(schema: Any, r: random.Random) -> Iterator[Any]:
    """Values that stand in a schema, and small changes of them: more telling instances than random ones."""
    stack = [schema]
    while stack:
        part = stack.pop()
        if isinstance(part, dict):
            if "const" in part:
                yield part["const"]
            if isinstance(part.get("enum"), list):
                yield from part["enum"]
            stack.extend(part.values())
        elif isinstance(part, list):
            stack.extend(part)
            if r.random() < 0.5:
                yield part if all(not isinstance(p, dict) for p in part) else []


def takes(matcher: Any, value: Any) -> bool:
    """Whether a matcher, at its start, takes the compact text of an instance with the keys of its objects in some order.

    Depth first over the orders, with rollback, at most STEPS steps.
    """
    steps = 0
    # A task is bytes to accept, a value to write, or an object of which some keys are left: ("keys", object, keys left, first).
    choices: list[tuple[int, list[tuple[Any, ...]]]] = [(matcher.num_accepted, [("value", value)])]
    start = matcher.num_accepted
    while choices:
        accepted, tasks = choices.pop()
        matcher.rollback(matcher.num_accepted - accepted)
        tasks = list(tasks)
        while tasks:
            steps += 1
            if steps > STEPS:
                raise TimeoutError("too many orders of keys to try")
            task = tasks.pop()
            if task[0] == "bytes":
                if not matcher.accept_bytes(task[1]):
                    break
            elif task[0] == "value":
                item = task[1]
                if isinstance(item, dict):
                    tasks.append(("keys", item, tuple(item), True))
                    if not matcher.accept_bytes(b"{"):
                        break
                elif isinstance(item, list):
                    tasks.append(("bytes", b"]"))
                    for index in range(len(item) - 1, -1, -1):
                        tasks.append(("value", item[index]))
                        if index:
                            tasks.append(("bytes", b","))
                    if not matcher.accept_bytes(b"["):
                        break
                else:
                    tasks.append(("bytes", json.dumps(item, ensure_ascii=False).encode()))
            else:
                _, item, left, first = task
                if not left:
                    tasks.append(("bytes", b"}"))
                    continue
                options = []
                for name in left:
                    key = (b"" if first else b",") + json.dumps(name, ensure_ascii=False).encode() + b":"
                    if matcher.matching_prefix(key) == len(key):
                        rest = tuple(other for other in left if other != name)
                        options.append([*tasks, ("keys", item, rest, False), ("value", item[name]), ("bytes", key)])
                if not options:
                    break
                tasks = options[0]
                choices.extend((matcher.num_accepted, option) for option in reversed(options[1:]))
        else:
            if matcher.is_completed():
                matcher.rollback(matcher.num_accepted - start)
                return True
    matcher.rollback(matcher.num_accepted - start)
    return False
