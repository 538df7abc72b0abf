"""Floods of distinct specifications leave nothing: what is remembered between compilations has a bound in bytes, not in entries alone."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from stackmask import Compiler, Vocabulary
from stackmask.pda.budget import Budget
from stackmask.schema.sets import strings

LONG = "x" * 100_000
SCHEMAS: dict[str, Callable[[int], Any]] = {
    "an unknown keyword": lambda n: {"properties": {"a": {"type": "string", f"{LONG}{n}": 1}}},
    "an unknown keyword in a subschema that is searched": lambda n: {"requried": [], "properties": {"a": {f"{LONG}{n}": 1, "not": {}}}},
    "a required key": lambda n: {"allOf": [{"required": [f"{LONG}{n}"]}, {"not": {"required": ["z"]}}]},
    "an unknown format": lambda n: {"type": "string", "format": f"{LONG}{n}"},
    "a reference": lambda n: {"$ref": f"#/$defs/{LONG}{n}", "$defs": {f"{LONG}{n}": {"type": "null"}}},
    "an identifier": lambda n: {"$id": f"http://example.com/{LONG}{n}", "type": "null"},
    "a dialect": lambda n: {"$schema": f"http://example.com/{LONG}{n}", "type": "null"},
    "an upper bound": lambda n: {"type": "integer", "minimum": 0, "maximum": 10**2_000 + n},
    "two bounds": lambda n: {"type": "integer", "minimum": 10**1_000 + n, "maximum": 10**1_200 + n},
    "bounds of any number": lambda n: {"type": "number", "minimum": 10**200 + n, "maximum": 10**220 + n},
    "bounds of multiples": lambda n: {"type": "integer", "multipleOf": 7, "minimum": 10**300 + n, "maximum": 10**320 + n},
    "a pattern": lambda n: {"type": "string", "pattern": f"^{LONG[:20_000]}{n}$"},
    "a class of characters": lambda n: {"type": "string", "pattern": f"^[{''.join(map(chr, range(0x4E00, 0x9000, 2)))}{chr(0x3000 + n)}]$"},
}


@pytest.mark.parametrize("what", SCHEMAS)
@pytest.mark.filterwarnings("ignore")
def test_schemas(what: str) -> None:
    """Twelve that differ in something long leave less behind than one of them is long."""
    vocabulary = Vocabulary.from_bytes([bytes([byte]) for byte in range(256)] + [None], stop_token_ids=[256])
    compiler = Compiler(vocabulary, cache_bytes=0)

    def flood(numbers: range) -> None:
        for number in numbers:
            compiler.json_schema(json.dumps(SCHEMAS[what](number)))
        gc.collect()

    flood(range(3))
    tracemalloc.start()
    try:
        flood(range(3, 6))
        before = tracemalloc.get_traced_memory()[0]
        flood(range(6, 18))
        assert tracemalloc.get_traced_memory()[0] - before < 90_000
    finally:
        tracemalloc.stop()


def test_automata_of_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The automata of patterns are kept up to a number, of transitions too, and large ones or those of long patterns never."""
    kept = strings._Patterns()
    monkeypatch.setattr(strings, "_PATTERNS", kept)
    wide = "".join(map(chr, range(0x4E00, 0x4E00 + 7 * 60, 7)))
    for number in range(100):
        assert strings.pattern_dfa(f"^(?:[{wide}]x{number}){{3,30}}$", Budget()).accepting
        assert sum(len(row) for found, _ in kept.found.values() for row in found.transitions) == kept.transitions <= 1 << 17
    assert 20 < len(kept.found) < 100
    first = strings.pattern_dfa("^first$", Budget())
    assert strings.pattern_dfa("^first$", Budget()) is first
    for pattern in (f"^(?:[{wide}]y){{3,90}}$", "a" * 4_097):
        strings.pattern_dfa(pattern, Budget())
        assert pattern not in kept.found
    monkeypatch.setattr(strings, "_MOST_PATTERNS", len(kept.found))
    strings.pattern_dfa("^last$", Budget())
    assert list(kept.found) == ["^last$"]
