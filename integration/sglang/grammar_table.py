"""The grammars that SGLang keeps by (type, specification), in place of its dict, which is never emptied.

Every rank of a server keeps such a table, and SGLang counts on a specification being in all of them or in none: a request that one rank
finds here and another has to compile would shift the queue by which the ranks speak to each other.
So what is dropped depends on nothing but the order of requests and the sizes of specifications and grammars, which are the same everywhere.

The engine's tables grow with use, and differ between ranks. They are bounded apart: where they are too many, the grammars that were not
used for longest get new, empty ones, and stay in the table.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Final, Protocol

ENTRY_BYTES: Final = 4096  # of an entry beside its specification and its grammar


class Kept(Protocol):
    """A grammar that knows its sizes."""

    @property
    def static_size(self) -> int:
        """Bytes of the grammar itself, equal on every rank."""

    @property
    def table_size(self) -> int:
        """Bytes of the engine's tables now."""

    @property
    def has_grown(self) -> bool:
        """Whether the tables hold more than they began with."""

    def renew(self) -> None:
        """Begin with empty tables."""


class GrammarTable(OrderedDict[Hashable, Any]):
    """The part of a dict that SGLang uses, with at most `capacity` bytes of grammars and about as many of the engine's tables.

    Values are what SGLang puts in: grammars, wrappers with a `grammar`, and failures, which weigh what their message does.
    """

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity = capacity
        self._weights: dict[Hashable, int] = {}
        self.weight = 0

    def get(self, key: Hashable, default: Any = None) -> Any:
        """The value of a key, which becomes the youngest."""
        if key not in self:
            return default
        self.move_to_end(key)
        return self[key]

    def __setitem__(self, key: Hashable, value: Any) -> None:
        self.pop(key, None)
        super().__setitem__(key, value)
        self._weights[key] = _weight(key, value)
        self.weight += self._weights[key]
        while self.weight > self.capacity:
            self.pop(next(iter(self)))
        self._renew()

    def pop(self, key: Hashable, default: Any = None) -> Any:
        """Take a value out; unlike a dict's, it needs no default."""
        if key not in self:
            return default
        self.weight -= self._weights.pop(key)
        value = self[key]
        del self[key]
        return value

    def clear(self) -> None:
        """Forget everything."""
        super().clear()
        self._weights.clear()
        self.weight = 0

    def _renew(self) -> None:
        """Empty the engine's tables of the grammars that were not used for longest, while there is too much in all of them."""
        grammars = {id(grammar): grammar for grammar in map(_inner, self.values()) if grammar is not None}
        sizes = {place: grammar.table_size for place, grammar in grammars.items()}
        total = sum(sizes.values())
        for place, grammar in grammars.items():
            if total <= self.capacity:
                return
            if grammar.has_grown:
                grammar.renew()
                total += grammar.table_size - sizes[place]


def _inner(value: Any) -> Kept | None:
    """The grammar in a value: the value, or what it is wrapped around; None in a failure."""
    inner = getattr(value, "grammar", value)
    return inner if hasattr(inner, "renew") else None


def _weight(key: Hashable, value: Any) -> int:
    grammar = _inner(value)
    size = len(getattr(value, "error_message", "")) if grammar is None else grammar.static_size
    return ENTRY_BYTES + sum(len(part) for part in (key if isinstance(key, tuple) else (key,)) if isinstance(part, str)) + size
