"""The unsatisfiable core of a schema, by deletion: a smallest set of constraints that contradict each other.

Leave out one keyword after the other: if the schema is still unsatisfiable without it, it stays out. Definitions are looked at where a
reference into them is needed.
This compiles the schema once for every keyword, so it is tried on small schemas only, and for a short time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import unquote

from ...pda.exceptions import StackmaskError
from ..dialect.keyword_values import pointer_token
from ..dialect.pointers import without

MOST_KEYWORDS: Final = 400
SECONDS: Final = 0.5
_STRUCTURE: Final = frozenset({"$schema", "$id", "id", "$defs", "definitions", "$anchor", "$dynamicAnchor", "title", "description"})
_VALUES: Final = frozenset({"const", "enum", "default", "examples"})
_NAMED: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})


def unsat_core(schema: Any, is_unsatisfiable: Callable[[Any], bool]) -> list[str]:
    """Pointers to constraints that no instance can meet together; empty where the schema is too large to tell."""
    if len(list(_constraints(schema, ""))) > MOST_KEYWORDS:
        return []
    deadline = time.monotonic() + SECONDS
    current = schema
    needed: list[str] = []
    tried: set[str] = set()
    places = [""]
    for place in places:
        part = value_at(current, place)
        # Outermost first: a subschema that does not matter goes at once.
        for pointer in sorted(_constraints(part, place), key=lambda p: p.count("/")):
            if pointer in tried:
                continue
            if time.monotonic() > deadline:
                return _innermost(needed) if place else []
            tried.add(pointer)
            try:
                reduced = without(current, pointer)
                if is_unsatisfiable(reduced):
                    current = reduced
                else:
                    needed.append(pointer)
            except (KeyError, IndexError):
                continue
            except StackmaskError:
                needed.append(pointer)
        for pointer in needed:
            target = local_target(current, pointer)
            if target is not None and target not in places and isinstance(value_at(current, target), dict):
                places.append(target)
    return _innermost(needed)


def local_target(schema: Any, pointer: str) -> str | None:
    """The pointer that a `$ref` inside of the schema names, given the pointer to the `$ref` itself; None for all else.

    >>> local_target({"items": {"$ref": "#/$defs/a"}}, "/items/$ref")
    '/$defs/a'
    """
    reference = value_at(schema, pointer) if pointer.endswith("/$ref") else None
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    return unquote(reference[1:])


def value_at(schema: Any, pointer: str) -> Any:
    """The value at a pointer; None if there is none."""
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(schema, dict):
            schema = schema.get(key)
        elif isinstance(schema, list) and key.isdigit() and int(key) < len(schema):
            schema = schema[int(key)]
        else:
            return None
    return schema


def _innermost(needed: list[str]) -> list[str]:
    """The pointers that no other one continues from."""
    return [p for p in needed if not any(other != p and other.startswith(f"{p}/") for other in needed)]


def _constraints(schema: Any, place: str) -> Iterator[str]:
    """Pointers to every keyword and every member that must not be there, outermost first, definitions left aside."""
    stack: list[tuple[Any, str, bool]] = [(schema, place, False)]
    while stack:
        value, place, named = stack.pop()
        if isinstance(value, dict):
            for key, member in value.items():
                at = f"{place}/{pointer_token(key)}"
                if named or key not in _STRUCTURE:
                    if not named or member is False:
                        yield at
                    if named or key not in _VALUES:
                        stack.append((member, at, not named and key in _NAMED))
        elif isinstance(value, list) and all(isinstance(member, dict | bool) for member in value):
            stack.extend((member, f"{place}/{index}", False) for index, member in enumerate(value))
