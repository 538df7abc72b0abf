"""Floods of distinct specifications leave nothing: what is remembered between compilations has a bound in bytes, not in entries alone."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from stackmask import Compiler, Vocabulary
from stackmask.integration.compiler import compiler as compilers
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
    "a pattern of blanks": lambda n: {
        "x-guidance": {"whitespace_pattern": "|".join(" " * m + "\t" * n for m in range(900))},
        "type": "null",
    },
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


SPECIFICATIONS: dict[str, Callable[[int], tuple[str, Any]]] = {
    "a long description": lambda n: ("json_schema", {"description": f"{LONG}{n}", "type": "null"}),
    "many descriptions": lambda n: ("json_schema", {"examples": [{"a": f"{m}", "b": [[], {}]} for m in range(n, n + 900)], "type": "null"}),
    "many keys": lambda n: ("json_schema", {"properties": {f"key {m}": {"type": "integer"} for m in range(n, n + 300)}}),
    "a comment": lambda n: ("ebnf", f"# {LONG}{n}\nroot ::= 'a'"),
    "a part of a tag": lambda n: (
        "structural_tag",
        {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": {"title": f"{LONG}{n}", "type": "null"}}},
    ),
}


@pytest.mark.parametrize("what", SPECIFICATIONS)
@pytest.mark.parametrize("as_text", [False, True])
def test_a_cache_counts_what_specifications_take(what: str, monkeypatch: pytest.MonkeyPatch, *, as_text: bool) -> None:
    """The size of a cache is that of what it keeps, within a factor of two, also where a specification is much larger than its grammar."""
    monkeypatch.setattr(compilers, "LARGE_SECONDS", 60)  # no tables of first masks, which Python does not see, on slow machines
    vocabulary = Vocabulary.from_bytes([bytes([byte]) for byte in range(256)] + [None], stop_token_ids=[256])
    compiler = Compiler(vocabulary)

    def fill(numbers: range) -> None:
        for number in numbers:
            kind, specification = SPECIFICATIONS[what](number)
            getattr(compiler, kind)(json.dumps(specification) if as_text and isinstance(specification, dict) else specification)
        gc.collect()

    fill(range(3))
    tracemalloc.start()
    try:
        before, counted = tracemalloc.get_traced_memory()[0], compiler.cache_info.size
        fill(range(3, 13))
        taken, counted = tracemalloc.get_traced_memory()[0] - before, compiler.cache_info.size - counted
    finally:
        tracemalloc.stop()
    tables = 10 * compiler.json_schema({"type": "null"}).size  # of the engine, which Python does not see
    assert taken / 2 < counted < 2 * taken + tables


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
