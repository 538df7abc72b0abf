"""A quick benchmark that ships with the package: masks for a few schemas, over any vocabulary.

Each case is compiled anew several times, and a document that fits it is walked token by token: the time to compile, to the first mask,
and of each further step (fill the mask, accept a token), every mask computed for the first time in its grammar.
Other engines run beside it in the same process where they are installed.
It says whether an installation works as fast as it should; the benchmarks that compare engines in earnest, on real schemas and a
vocabulary of 128,000 tokens, are in the repository.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ...pda.matcher import allocate_token_bitmask
from ...pda.vocabulary import Vocabulary
from ..compiler import Compiler

Walk = Callable[[str, list[int]], tuple[int, list[int]]]
"""Compiles a schema (JSON text) and takes the tokens one by one: nanoseconds of the compilation, and of each step."""

_TEXT: Final = {"type": "string"}
_PERSON: Final = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 60},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": _TEXT},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
_WORDS: Final = ["north", "north-east", "east", "south-east", "south", "south-west", "west", "north-west"]

CASES: Final[Mapping[str, tuple[Any, Any]]] = {
    "any JSON": ({}, {"a": [1, 2.5e-3, True, None, {"b": 'text with "quotes" and 日本'}], "c": {"d": [[], {}]}}),
    "person": (_PERSON, {"name": "Anna Keller", "age": 41, "tags": ["chess", "hiking in the mountains"]}),
    "list of people": ({"type": "array", "items": _PERSON}, [{"name": f"Person {i}", "age": 20 + i} for i in range(8)]),
    "enumeration": (
        {"type": "object", "properties": {"wind": {"enum": _WORDS}, "from": {"enum": _WORDS}}, "required": ["wind", "from"]},
        {"wind": "north-west", "from": "south-east"},
    ),
    "patterns": (
        {
            "type": "object",
            "properties": {
                "date": {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"},
                "id": {"type": "string", "pattern": "^[a-f0-9]{32}$"},
            },
            "required": ["date", "id"],
        },
        {"date": "2026-02-28", "id": "0123456789abcdef" * 2},
    ),
    "recursive tree": (
        {
            "$ref": "#/$defs/tree",
            "$defs": {
                "tree": {
                    "type": "object",
                    "properties": {"value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
                    "required": ["value", "children"],
                }
            },
        },
        {"value": 1, "children": [{"value": 2, "children": [{"value": 3, "children": []}]}, {"value": 4, "children": []}]},
    ),
    "long text": (
        {"type": "object", "properties": {"text": {"type": "string", "maxLength": 2000}}, "required": ["text"]},
        {"text": "One rainy day a friend came with a yellow umbrella, and they talked until the evening. " * 6},
    ),
}


@dataclass(frozen=True, slots=True)
class Timing:
    """The times of one engine for one case, in microseconds; `error` if it refused the schema or the document."""

    engine: str
    case: str
    compile: float = 0.0
    first: float = 0.0
    mean: float = 0.0
    p50: float = 0.0
    p99: float = 0.0
    steps: int = 0
    error: str = ""


def measure(vocabulary: Vocabulary, engine: str, *, rounds: int = 10) -> list[Timing]:
    """An engine on every case; ImportError where it is not installed."""
    walk = ENGINES[engine](vocabulary)
    return [_measure_case(vocabulary, engine, walk, case, rounds) for case in CASES]


def _measure_case(vocabulary: Vocabulary, engine: str, walk: Walk, case: str, rounds: int) -> Timing:
    schema, document = CASES[case]
    tokens = _cutter(vocabulary)(json.dumps(document, ensure_ascii=False).encode())
    compiles, firsts, steps = [], [], []
    for _ in range(rounds):
        try:
            compiled, (first, *rest) = walk(json.dumps(schema), tokens)
        except Exception as error:  # engines have exceptions of their own, and a refusal is a result
            return Timing(engine, case, error=(str(error) or type(error).__name__).splitlines()[0])
        compiles.append(compiled)
        firsts.append(first)
        steps += rest
    p50, p99 = np.percentile(steps, [50, 99])
    return Timing(
        engine,
        case,
        compile=float(np.median(compiles)) / 1e3,
        first=float(np.median(firsts)) / 1e3,
        mean=float(np.mean(steps)) / 1e3,
        p50=float(p50) / 1e3,
        p99=float(p99) / 1e3,
        steps=len(steps),
    )


def _cutter(vocabulary: Vocabulary) -> Callable[[bytes], list[int]]:
    """Cuts texts into the longest tokens; llguidance calls it for each text that is forced, so that its table is made once."""
    ids = {token: index for index, token in enumerate(vocabulary.tokens) if token}
    longest = max(map(len, ids))

    def cut(text: bytes) -> list[int]:
        tokens, start = [], 0
        while start < len(text):
            piece = next(text[start:end] for end in range(min(start + longest, len(text)), start, -1) if text[start:end] in ids)
            tokens.append(ids[piece])
            start += len(piece)
        return tokens

    return cut


def _stackmask(vocabulary: Vocabulary) -> Walk:
    def walk(schema: str, tokens: list[int]) -> tuple[int, list[int]]:
        compiler = Compiler(vocabulary)
        start = time.perf_counter_ns()
        matcher = compiler.json_schema(schema, whitespace="flexible").matcher()
        compiled = time.perf_counter_ns() - start
        bitmask = allocate_token_bitmask(1, vocabulary.size)
        return compiled, _steps(lambda: matcher.fill_next_token_bitmask(bitmask), matcher.accept_token, tokens)

    return walk


def _xgrammar(vocabulary: Vocabulary) -> Walk:
    import xgrammar

    stops = list(vocabulary.stop_token_ids)
    tokens_of = [token or b"" for token in vocabulary.tokens]
    info = xgrammar.TokenizerInfo(tokens_of, vocab_type=xgrammar.VocabType.RAW, vocab_size=vocabulary.size, stop_token_ids=stops)

    def walk(schema: str, tokens: list[int]) -> tuple[int, list[int]]:
        compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        start = time.perf_counter_ns()
        matcher = xgrammar.GrammarMatcher(compiler.compile_json_schema(schema, strict_mode=False))
        compiled = time.perf_counter_ns() - start
        bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)
        return compiled, _steps(lambda: matcher.fill_next_token_bitmask(bitmask), matcher.accept_token, tokens)

    return walk


def _llguidance(vocabulary: Vocabulary) -> Walk:
    import llguidance
    import llguidance.numpy

    cut = _cutter(vocabulary)

    class Tokens:
        """The vocabulary as llguidance wants a tokenizer."""

        def __init__(self) -> None:
            self.eos_token_id = vocabulary.stop_token_ids[0]
            self.bos_token_id = None
            self.special_token_ids = [i for i, token in enumerate(vocabulary.tokens) if token is None]
            self.tokens = [token if token is not None else f"\xff<{i}>".encode("latin-1") for i, token in enumerate(vocabulary.tokens)]

        def __call__(self, text: str | bytes) -> list[int]:
            return cut(text.encode() if isinstance(text, str) else text)

    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Tokens()), n_vocab=vocabulary.size)

    def walk(schema: str, tokens: list[int]) -> tuple[int, list[int]]:
        start = time.perf_counter_ns()
        matcher = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_json_schema(schema))
        if error := matcher.get_error():
            raise ValueError(error)
        compiled = time.perf_counter_ns() - start
        bitmask = llguidance.numpy.allocate_token_bitmask(1, vocabulary.size)
        return compiled, _steps(lambda: llguidance.numpy.fill_next_token_bitmask(matcher, bitmask), matcher.consume_token, tokens)

    return walk


def _steps(fill: Callable[[], object], accept: Callable[[int], bool], tokens: list[int]) -> list[int]:
    """Nanoseconds of each step."""
    times = []
    clock = time.perf_counter_ns
    for token in tokens:
        start = clock()
        fill()
        accepted = accept(token)
        times.append(clock() - start)
        if not accepted:
            raise ValueError(f"refuses token {len(times) - 1} of the document")
    return times


ENGINES: Final[Mapping[str, Callable[[Vocabulary], Walk]]] = {"stackmask": _stackmask, "llguidance": _llguidance, "xgrammar": _xgrammar}
