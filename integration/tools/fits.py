"""Whether a schema allows a value, for notations in which a text can be read in more than one way."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from ...pda.engine import KernelGrammar, Matcher, TokenTrie
from ...pda.exceptions import GrammarError, LimitError
from ...pda.limits import Limits
from ...schema.json_schema import json_schema_grammar
from .kinds import resolve

NOTES: Final = frozenset(
    ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "$schema", "$id")
)
_SHARED: Final = ("$defs", "definitions")
_REFERENCES: Final = 32
_SECONDS: Final = 1.0  # for all members; an answer waits for this, and the tag that the schema is part of was compiled elsewhere


class Checker:
    """Checks values of the members of one schema; each member's schema is compiled on first use."""

    def __init__(self, root: Any) -> None:
        self._shared = {name: root[name] for name in _SHARED if isinstance(root, Mapping) and name in root}
        self._root = root
        self._trie: TokenTrie | None = None
        self._seconds = _SECONDS
        self._compiled: dict[int, KernelGrammar | None] = {}

    def allows_any_text(self, schema: Any) -> bool:
        """Whether a schema surely allows every string."""
        for _ in range(_REFERENCES):
            if not isinstance(schema, Mapping) or not schema.keys() <= NOTES | {"$ref"} or not isinstance(schema.get("$ref"), str):
                break
            schema = resolve(schema["$ref"], self._root)
        return schema is True or (isinstance(schema, Mapping) and schema.keys() <= NOTES | {"type"})

    def __call__(self, schema: Any, text: str) -> bool:
        """Whether JSON text is an instance of a schema; true if that schema cannot be compiled by itself, or not in time."""
        if id(schema) not in self._compiled:
            self._compiled[id(schema)] = self._compile(schema)
        grammar = self._compiled[id(schema)]
        if grammar is None:
            return True
        matcher = Matcher(grammar, [256])
        return matcher.accept_bytes(text.encode("utf-8", "replace")) and matcher.is_completed()

    def _compile(self, schema: Any) -> KernelGrammar | None:
        whole = {**self._shared, **schema} if isinstance(schema, Mapping) else schema
        if self._seconds <= 0:
            return None
        start, limits = time.monotonic(), Limits(compile_seconds=self._seconds)
        if self._trie is None:
            self._trie = TokenTrie([*(bytes((byte,)) for byte in range(256)), None], 257)
        try:
            grammar, _ = json_schema_grammar(whole, whitespace="flexible", property_order="any", escapes="any", limits=limits)
            return KernelGrammar(
                self._trie,
                grammar,
                states=limits.states,
                stack_depth=limits.stack_depth,
                memory=limits.grammar_bytes,
                seconds=limits.compile_seconds,
            )
        except (GrammarError, LimitError):
            return None
        finally:
            self._seconds -= time.monotonic() - start
