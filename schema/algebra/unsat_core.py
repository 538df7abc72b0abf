"""The unsatisfiable core of a schema, by deletion: a smallest set of constraints that contradict each other.

Leave out one keyword after the other: what is still unsatisfiable without it stays without it.
This compiles the schema once for every keyword, so it is tried on small schemas only, and for a short time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from ...pda.exceptions import StackmaskError
from ..dialect.keyword_values import pointer_token
from ..dialect.pointers import without

MOST_KEYWORDS: Final = 400
SECONDS: Final = 0.5
_STRUCTURE: Final = frozenset({"$schema", "$id", "id", "$defs", "definitions", "$anchor", "$dynamicAnchor", "title", "description"})
_NAMED: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})


def unsat_core(schema: Any, is_unsatisfiable: Callable[[Any], bool]) -> list[str]:
    """Pointers to constraints that no instance can meet together; empty where the schema is too large to tell."""
    pointers = list(_constraints(schema))
    if len(pointers) > MOST_KEYWORDS:
        return []
    deadline = time.monotonic() + SECONDS
    current = schema
    needed: list[str] = []
    # Outermost first: a subschema that does not matter goes at once.
    for pointer in sorted(pointers, key=lambda p: p.count("/")):
        if time.monotonic() > deadline:
            return []
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
    inner = [p for p in needed if not any(other != p and other.startswith(f"{p}/") for other in needed)]
    return inner or needed


def _constraints(schema: Any) -> Iterator[str]:
    """Pointers to every keyword, outermost first, definitions left aside."""
    stack: list[tuple[Any, str, bool]] = [(schema, "", False)]
    while stack:
        value, place, named = stack.pop()
        if isinstance(value, dict):
            for key, member in value.items():
                at = f"{place}/{pointer_token(key)}"
                if named or key not in _STRUCTURE:
                    if not named:
                        yield at
                    stack.append((member, at, not named and key in _NAMED))
        elif isinstance(value, list) and all(isinstance(member, dict | bool) for member in value):
            stack.extend((member, f"{place}/{index}", False) for index, member in enumerate(value))
