"""Hostile specifications: whatever comes in, a grammar or an error of stackmask's own comes out.

The guard at the facade, which turns what Python raises where memory or the stack end into a LimitError, is switched off here but for its
own test, so that front ends have to check before they build.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest

from stackmask import Compiler, LimitError, SchemaError, StackmaskError, Vocabulary
from stackmask.integration.compiler import compiled_grammar, jobs
from stackmask.integration.compiler import compiler as facade
from stackmask.pda.limits import Limits

KINDS = ("json_schema", "regex", "ebnf", "lark", "choice", "structural_tag")
SECONDS = 2.0

cyclic: dict[str, Any] = {}
cyclic["properties"] = {"a": cyclic}
endless: list[Any] = []
endless.append(endless)


class Odd(str):
    """A string of somebody else's class."""

    __slots__ = ()

    def __repr__(self) -> str:
        raise RuntimeError("no text")


VALUES: dict[str, Any] = {
    "none": None, "one": 1, "half": 1.5, "nan": float("nan"), "inf": float("inf"), "huge": 10**5000, "least": -(10**5000), "long": 1 << 64,
    "1e308": 1e308, "5e-324": 5e-324, "2^31": 1 << 31, "decimal": Decimal("1e999999"), "decimal nan": Decimal("sNaN"), "true": True,
    "empty": "", "a": "a", "surrogate": "\ud800", "pair": "\udfff\ud800", "nul": "\0", "bytes": b"a", "bytearray": bytearray(b"a"),
    "list": [], "object": {}, "nested": [[]], "cyclic": cyclic, "endless": endless, "any": object(), "type": int, "integer keys": {1: 2},
    "surrogate keys": {"\ud800": 1}, "set": {1}, "tuple": (1, 2), "function": len, "iterator": iter(()), "complex": 1j, "odd": Odd("a"),
    "open": "(", "class": "[a", "backslash": "\\", "flag": "(?i)", "reference": "#/$defs/x", "bad uri": "http://[", "percent": "#%zz",
    "metaschema": "https://json-schema.org/draft/2020-12/schema",
}  # fmt: skip
KEYWORDS = [
    "type",
    "enum",
    "const",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "items",
    "prefixItems",
    "additionalItems",
    "contains",
    "minContains",
    "maxContains",
    "minItems",
    "maxItems",
    "uniqueItems",
    "properties",
    "patternProperties",
    "additionalProperties",
    "propertyNames",
    "required",
    "minProperties",
    "maxProperties",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "$id",
    "id",
    "$anchor",
    "$dynamicAnchor",
    "$defs",
    "definitions",
    "$schema",
    "$vocabulary",
    "unevaluatedProperties",
    "unevaluatedItems",
    "title",
    "default",
]
WRAPS: dict[str, Callable[[Any], Any]] = {
    "properties": lambda x: {"properties": {"a": x}},
    "items": lambda x: {"items": x},
    "not": lambda x: {"not": x},
    "anyOf": lambda x: {"anyOf": [x, {"type": "null"}]},
    "allOf": lambda x: {"allOf": [x]},
    "if": lambda x: {"if": x, "then": True, "else": {"type": "string"}},
    "propertyNames": lambda x: {"propertyNames": x},
    "unevaluatedProperties": lambda x: {"propertyNames": x, "unevaluatedProperties": False},
    "contains": lambda x: {"contains": x},
    "const": lambda x: [x],
    "title": lambda x: {"title": [x]},
}


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Compiler]:
    """A compiler without the guard."""
    for module in (facade, jobs):
        monkeypatch.setattr(module, "PYTHONS_ERRORS", ())
    tokens = [bytes((byte,)) for byte in range(256)]
    made = Compiler(Vocabulary.from_bytes([*tokens, None], stop_token_ids=[256]), limits=Limits(compile_seconds=SECONDS))
    yield made
    made.close()


def tried(compiler: Compiler, kind: str, *arguments: Any, **options: Any) -> None:
    """Compile, or fail by an error of stackmask's own; within the time that is allowed, more or less."""
    start = time.monotonic()
    with contextlib.suppress(StackmaskError):
        getattr(compiler, kind)(*arguments, **options).matcher().accept_bytes(b'"a')
    assert time.monotonic() - start < 20 * SECONDS


@pytest.mark.parametrize("name", VALUES)
def test_values(compiler: Compiler, name: str) -> None:
    """Any Python value, for a specification and for an option of one."""
    value = VALUES[name]
    for kind in KINDS:
        tried(compiler, kind, value)
    for options in ([value], ["a", value], (value,)):
        tried(compiler, "choice", options)
    tried(compiler, "ebnf", 'root ::= "a"', value)
    tried(compiler, "lark", 'start: "a"', value)
    for option in ("whitespace", "property_order", "documents", "lenient", "format", "escapes"):
        tried(compiler, "json_schema", {"type": "string"}, **{option: value})
    tried(compiler, "json_schema", {"$ref": "http://x/"}, documents={"http://x/": value})
    tried(compiler, "structural_tag", {"type": "structural_tag", "format": value})


@pytest.mark.filterwarnings("ignore::stackmask.pda.exceptions.StackmaskWarning")
@pytest.mark.parametrize("keyword", KEYWORDS)
def test_keywords(compiler: Compiler, keyword: str) -> None:
    """Any value of any keyword, alone and below others."""
    source = random.Random(keyword)
    for value in VALUES.values():
        schema = {keyword: source.choice([value, value, [value], {"a": value}])}
        for _ in range(source.randrange(3)):
            schema = source.choice([wrap for name, wrap in WRAPS.items() if name != "const"])(schema)
        if source.random() < 0.2:
            schema["$schema"] = f"http://json-schema.org/draft-0{source.choice('467')}/schema#"
        tried(compiler, "json_schema", schema, property_order=source.choice(["schema", "any"]))


@pytest.mark.parametrize("depth", [1_000, 100_000])
@pytest.mark.parametrize("name", WRAPS)
def test_deep_values(compiler: Compiler, name: str, depth: int) -> None:
    """Schemas, constants and tags that are nested as deep as they may be, and deeper."""
    value: Any = {"type": "integer"}
    for _ in range(depth):
        value = WRAPS[name](value)
    if name == "const":
        tried(compiler, "json_schema", {"oneOf": [{"const": value}, {"enum": [value, 1]}, {"enum": [[value], 2]}]})
        tried(compiler, "choice", [value])
        tried(compiler, "structural_tag", {"type": "structural_tag", "format": value})
    else:
        tried(compiler, "json_schema", value)
        tried(compiler, "json_schema", value, property_order="any", lenient=True)


@pytest.mark.parametrize("depth", [1_000, 100_000])
@pytest.mark.parametrize(
    ("before", "inside", "behind"),
    [
        ("(", "a", ")"), ("(?:", "a", ")*"), ("(a|", "b", ")"), ("(a", "", ")?"), ("(?i:", "s", ")"), ("[", "", ""), ("[^", "a", "]"),
        ("\\", "", ""), ("^", "", ""), ("a{2}", "", ""), ("(?#", "", ""), ("{", "", ""),
    ],
)  # fmt: skip
def test_deep_texts(compiler: Compiler, before: str, inside: str, behind: str, depth: int) -> None:
    """Patterns and grammars of many brackets."""
    text = before * depth + inside + behind * depth
    tried(compiler, "regex", text)
    tried(compiler, "json_schema", {"pattern": text})
    tried(compiler, "json_schema", text)
    tried(compiler, "ebnf", "root ::= " + text)
    tried(compiler, "lark", "start: " + text.replace("a", '"a"'))


def test_the_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Python raises where memory, the stack or its numbers end leaves as a LimitError, whoever raises it."""
    compiler = Compiler(Vocabulary.from_bytes([b"a", None], stop_token_ids=[1]))
    for error, message in (
        (MemoryError(), "takes more memory than there is"),
        (RecursionError("deep"), "nested too deep"),
        (OverflowError("large"), "too large"),
    ):

        def fails(*_arguments: object, error: BaseException = error, **_options: object) -> None:
            raise error

        for module, name in ((jobs, "checked_grammar"), (jobs, "read_schema"), (compiled_grammar, "KernelGrammar")):
            with monkeypatch.context() as patch:
                patch.setattr(module, name, fails)
                with pytest.raises(LimitError, match=message):
                    compiler.json_schema({"minLength": 1})
                with pytest.raises(LimitError, match=message):
                    compiler.submit("json_schema", {"minLength": 1}).result()
    compiler.close()


@pytest.mark.parametrize("option", ["whitespace", "property_order", "format", "escapes", "documents"])
def test_options_of_other_types(compiler: Compiler, option: str) -> None:
    """An option that is of another type is named in the error, however it prints."""
    with pytest.raises(SchemaError, match=option):
        compiler.json_schema(True, **{option: 10**5000})
