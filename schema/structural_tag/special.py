"""The special tokens that a structural tag can name, and the occurrences of their names in a text."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

_LEAD: Final = 2
"""The number of characters of a name that are searched first: names share few beginnings, such as `<|`."""


class SpecialTokens:
    """Tokens by name; `spelled` are the tokens that a tag means by spelling their names, those that have no text; None for all.

    `vocabulary_size`, where that is given, is above all ids, those of tokens without a name included.
    """

    __slots__ = ("_begin", "_by_lead", "_names", "ids", "vocabulary_size")

    def __init__(self, ids: Mapping[str, int], spelled: Collection[str] | None = None, vocabulary_size: int | None = None) -> None:
        self.ids = ids
        self.vocabulary_size = vocabulary_size
        self._names: dict[int, str] = {}
        self._by_lead: dict[str, list[str]] = {}
        for name in sorted(filter(None, ids if spelled is None else spelled), key=len, reverse=True):
            self._names[ids[name]] = name
            self._by_lead.setdefault(name[:_LEAD], []).append(name)
        leads = sorted(self._by_lead, key=len, reverse=True)
        self._begin = re.compile("|".join(map(re.escape, leads))) if leads else None

    def id(self, name: str) -> int | None:
        """The id of a token by its name."""
        return self.ids.get(name)

    def name(self, token: int) -> str:
        """The name of a token."""
        return self._names[token]

    def split(self, text: str) -> list[str | int]:
        """A text cut at the names of tokens in it, each the longest at its position.

        >>> SpecialTokens({"<|a|>": 7}).split("x<|a|>y")
        ['x', 7, 'y']
        """
        if self._begin is None:
            return [text]
        parts: list[str | int] = []
        start = position = 0
        while (found := self._begin.search(text, position)) is not None:
            at = found.start()
            name = next((name for name in self._by_lead[found[0]] if text.startswith(name, at)), None)
            if name is None:
                position = at + 1
                continue
            if at > start:
                parts.append(text[start:at])
            parts.append(self.ids[name])
            start = position = at + len(name)
        if start < len(text) or not parts:
            parts.append(text[start:])
        return parts
