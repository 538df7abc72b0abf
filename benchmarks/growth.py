"""How the cost of a step and of a first mask grows: with the text, its nesting, the schema, the vocabulary, the batch and the threads.

The promise: a step does not grow with the length of the text or with the levels around it: from the smallest size to the largest by at most
three times (tables grow out of the caches of the processor). A row of the largest batch costs at most twice as much as a single row.

The engines take the same texts over the same vocabulary one after the other, each size several times, with the least of the times.
A time is the lesser of wall-clock time and the CPU time of the process, so that other work on the machine is left out; of several threads
it is wall-clock time, which wants a quiet machine.
A step fills the mask and accepts a token. Its time is the mean over the last steps of the text; before them masks are filled for as many
steps as it takes to make the tables of the grammar.
An engine that takes more than `--seconds` of CPU time for a size is not asked for a larger one.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.engines import MAIN, Tokenizer, label
from benchmarks.report import machine, markdown, number
from benchmarks.timing import command_line, once, verdict

LENGTHS = (300, 3_000, 30_000)  # tokens
LEVELS = (100, 1_000, 10_000, 100_000)
PROPERTIES = (10, 30, 100, 300, 1_000)
VOCABULARIES = (2_000, 8_000, 32_000, 128_000)  # tokens
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
MOST_GROWTH, MOST_ROW = 3.0, 2.0
WINDOW, BEFORE = 64, 600  # steps at the end of a text whose mean is taken, and those before them that fill masks too
RECORD = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 0},
        "name": {"type": "string", "maxLength": 40},
        "tags": {"type": "array", "items": {"enum": ["new", "used", "sold"]}},
        "price": {"type": "number"},
    },
    "required": ["id", "name", "price"],
    "additionalProperties": False,
}
RECORDS = json.dumps({"type": "array", "items": RECORD})
Batch = tuple[Callable[[], object], Callable[[list[int]], object]]
"""Fills the masks of all rows, and takes a token for each; no token is -1."""
Make = Callable[[int, int], Batch]
"""Makes a batch of a number of rows, which a number of threads fill."""
Compile = Callable[[str], Make]
"""The batches of a schema; an engine raises ValueError or RuntimeError where it refuses it, here or when a batch is made."""


def main(arguments: list[str] | None = None) -> int:
    """Measure and print a table for each kind of growth."""
    parser = command_line("growth", __doc__, rounds=3)
    parser.add_argument("--most", type=int, default=10**9, metavar="N", help="no size above N (default: all)")
    parser.add_argument("--seconds", type=float, default=5.0, metavar="S", help="no larger size after one that took so long (default: 5)")
    options = parser.parse_args(arguments)
    tokenizer = Tokenizer(options.tokenizer)
    names = [name for name in MAIN if label(name)]
    compilers = {name: COMPILERS[name](tokenizer) for name in names}
    broken: list[str] = []

    def grown(title: str, sizes: tuple[int, ...], cases: Callable[[int], tuple[str, list[int]]], *, first: bool) -> None:
        taken = [size for size in sizes if size <= options.most]
        found = {name: list(curve(compilers[name], taken, cases, options)) for name in names}
        columns = {name: {size: times[not first] for size, *times in rows} for name, rows in found.items()}
        ours = columns["stackmask"]
        if not first and ours and (growth := ours[max(ours)] / ours[min(ours)]) > MOST_GROWTH:
            broken.append(f"{title}: {growth:.1f} times from the smallest size to the largest, promised {MOST_GROWTH}")
        show(title, taken, columns)

    print(f"{tokenizer.backend.get_vocab_size():,} tokens, the least of {options.rounds}; {machine()}\n")
    grown("us a step, by tokens before it", LENGTHS, lambda size: (RECORDS, tokenizer.encode(records(size))[:size]), first=False)
    grown("us a step, by levels around it", LEVELS, lambda size: ("{}", tokenizer.encode("[" * size)), first=False)
    grown("us to the first mask, by properties", PROPERTIES, lambda size: (json.dumps(wide(size)), tokenizer.encode("{")), first=True)
    by_vocabulary(names, options)
    rows = by_rows(compilers, tokenizer, options)
    if rows and (growth := rows[max(rows)] / max(rows) / rows[min(rows)]) > MOST_ROW:
        broken.append(f"a row of {max(rows)}: {growth:.1f} times a single one, promised {MOST_ROW}")
    return verdict(broken, check=options.check)


def show(title: str, sizes: list[int], columns: dict[str, dict[int, float]]) -> None:
    """Print a table: a line for each size, a column for each engine, empty where it was not asked or refused."""
    lines = [[title, *(str(label(name)) for name in columns)]]
    lines += [[f"{size:,}", *(number(column[size]) if size in column else "" for column in columns.values())] for size in sizes]
    print(markdown(lines), end="\n\n")


def curve(
    compile: Compile, sizes: list[int], cases: Callable[[int], tuple[str, list[int]]], options: Any
) -> Iterator[tuple[int, float, float]]:
    """For each size that the engine takes in time: microseconds of the first mask, and of a step at the end of the text."""
    for size in sizes:
        schema, tokens = cases(size)
        begin = time.process_time()
        found = []
        for _ in range(options.rounds):
            try:
                found.append(measure(compile, schema, tokens))
            except (ValueError, RuntimeError):
                return
            if time.process_time() - begin > options.seconds:
                break
        yield size, min(first for first, _ in found), min(step for _, step in found)
        if time.process_time() - begin > options.seconds:
            return


def measure(compile: Compile, schema: str, tokens: list[int]) -> tuple[float, float]:
    """Microseconds of the first mask, and of a step at the end of the text; at the beginning where it has one token."""
    batch: list[Batch] = []

    def begin() -> None:
        batch.append(compile(schema)(1, 1))
        batch[0][0]()

    def walk(tokens: list[int]) -> None:
        for token in tokens:
            fill()
            take([token])

    gc.collect()
    first = once(begin)
    fill, take = batch[0]
    early, late = tokens[:-WINDOW], tokens[-WINDOW:]
    for token in early[:-BEFORE]:
        take([token])
    gc.disable()
    walk(early[-BEFORE:])
    step = once(lambda: walk(late)) / len(late)
    gc.enable()
    return first, step


def records(tokens: int) -> str:
    """A list of records, of more tokens than asked for."""
    names = ("Ada Lovelace", "Grace Hopper", "Alan Turing", "Edsger Dijkstra", "Barbara Liskov")
    items = [
        {"id": number, "name": names[number % len(names)], "tags": ["new", "sold"][: number % 3], "price": number / 4}
        for number in range(tokens // 16 + 2)
    ]
    return json.dumps(items, separators=(",", ":"))


def wide(properties: int) -> dict[str, Any]:
    """A schema of an object with this many properties, every third required."""
    kinds: list[dict[str, Any]] = [{"type": "string", "maxLength": 80}, {"type": "integer"}, {"enum": ["low", "middle", "high"]}, RECORD]
    members = {f"field_{number}": kinds[number % len(kinds)] for number in range(properties)}
    return {"type": "object", "properties": members, "required": [*members][::3], "additionalProperties": False}


def by_vocabulary(names: list[str], options: Any) -> None:
    """The list of records over the first tokens of the vocabulary."""
    whole = json.loads((options.tokenizer / "tokenizer.json").read_text(encoding="utf-8"))
    sizes = [size for size in VOCABULARIES if size <= min(len(whole["model"]["vocab"]), options.most)]
    firsts: dict[str, dict[int, float]] = {name: {} for name in names}
    steps: dict[str, dict[int, float]] = {name: {} for name in names}
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            tokenizer = shortened(whole, size, Path(folder))
        case = RECORDS, tokenizer.encode(records(1_000))
        for name in names:
            for _, first, step in curve(COMPILERS[name](tokenizer), [size], lambda _, case=case: case, options):  # type: ignore[misc]
                firsts[name][size], steps[name][size] = first, step
    show("us to the first mask, by tokens of the vocabulary", sizes, firsts)
    show("us a step, by tokens of the vocabulary", sizes, steps)


def shortened(whole: Any, size: int, folder: Path) -> Tokenizer:
    """A tokenizer with the first tokens of one that merges pairs: each token is made of earlier ones, so that they are a tokenizer too."""
    model = whole["model"]
    vocabulary = {token: number for token, number in model["vocab"].items() if number < size}
    pairs = (pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"])
    merges = [pair for pair in pairs if all(part in vocabulary for part in (*pair, "".join(pair)))]
    end = {"id": len(vocabulary), "content": "<end>", "special": True}
    end |= dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    short = {**whole, "model": {**model, "vocab": vocabulary, "merges": merges}, "added_tokens": [end], "post_processor": None}
    (folder / "tokenizer.json").write_text(json.dumps(short), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<end>"}), encoding="utf-8")
    tokenizer = Tokenizer(folder)
    assert tokenizer.transformers is not None  # which reads the folder
    return tokenizer


def by_rows(compilers: dict[str, Compile], tokenizer: Tokenizer, options: Any) -> dict[int, float]:
    """The masks of a batch, its rows at different places of the text; the times of stackmask by rows."""
    text = tokenizer.encode(records(4_000))
    sizes = [size for size in ROWS if size <= options.most]
    counts = [2**power for power in range((os.cpu_count() or 1).bit_length())]
    alone: dict[str, dict[int, float]] = {name: {} for name in compilers}
    parallel: dict[str, dict[int, float]] = {name: {} for name in compilers}
    for name, compile in compilers.items():
        make = compile(RECORDS)
        for size in sizes:
            alone[name][size] = batch_time(make(size, 1), text, size, options.rounds, once)
        for threads in counts:
            parallel[name][threads] = batch_time(make(sizes[-1], threads), text, sizes[-1], options.rounds, wall_clock)
    show("us for the masks of a batch, by rows", sizes, alone)
    show(f"us for the masks of {sizes[-1]} rows, by threads", counts, parallel)
    return alone["stackmask"]


def wall_clock(function: Callable[[], object]) -> float:
    """Microseconds of one call, whoever else the processor worked for."""
    begin = time.perf_counter_ns()
    function()
    return (time.perf_counter_ns() - begin) / 1e3


def batch_time(batch: Batch, text: list[int], rows: int, rounds: int, clock: Callable[[Callable[[], object]], float]) -> float:
    """Microseconds to fill the masks of a batch: the median of some steps."""
    fill, take = batch
    for step in range(max(0, rows - 1)):  # row i is i tokens behind
        take([text[step - row] if step >= row else -1 for row in range(rows)])
    spent = []
    gc.disable()
    for place in range(rows - 1, rows + 31 * rounds):
        spent.append(clock(fill))
        take([text[place - row] for row in range(rows)])
    gc.enable()
    return median(spent)


def stackmask_compiler(tokenizer: Tokenizer) -> Compile:
    """`fill_bitmasks`, which leaves the interpreter to others while it works: each thread fills its share of the rows."""
    import stackmask

    vocabulary = stackmask.Vocabulary.from_transformers(tokenizer.backend, stop_token_ids=tokenizer.stop)

    def compile(schema: str) -> Make:
        grammar = stackmask.Compiler(vocabulary).json_schema(schema)

        def make(rows: int, threads: int) -> Batch:
            matchers = [grammar.matcher() for _ in range(rows)]
            bitmask = stackmask.allocate_token_bitmask(rows, vocabulary.size)
            take = taker([matcher.accept_token for matcher in matchers])
            if rows == 1:
                return lambda: matchers[0].fill_next_token_bitmask(bitmask), take
            if threads == 1:
                return lambda: stackmask.fill_bitmasks(matchers, bitmask), take
            shares = [list(range(start, rows, threads)) for start in range(threads)]
            groups = [[matchers[row] for row in share] for share in shares]
            pool = ThreadPoolExecutor(threads)
            return lambda: list(pool.map(stackmask.fill_bitmasks, groups, [bitmask] * threads, shares)), take

        return make

    return compile


def llguidance_compiler(tokenizer: Tokenizer) -> Compile:
    """One matcher after the other, or its executor with a pool of threads."""
    import llguidance.hf

    vocabulary = llguidance.hf.from_tokenizer(tokenizer.transformers)

    def compile(schema: str) -> Make:
        grammar = llguidance.LLMatcher.grammar_from_json_schema(schema)

        def make(rows: int, threads: int) -> Batch:
            matchers = [llguidance.LLMatcher(vocabulary, grammar, log_level=0) for _ in range(rows)]
            if error := matchers[0].get_error():
                raise ValueError(error)
            bitmask = np.zeros((rows, (vocabulary.vocab_size + 31) // 32), np.int32)
            width = bitmask.shape[1] * 4
            take = taker([matcher.consume_token for matcher in matchers])
            if threads == 1:
                calls = [(matcher.unsafe_compute_mask_ptr, bitmask.ctypes.data + row * width) for row, matcher in enumerate(matchers)]

                def fill(kept: Any = bitmask) -> None:  # addresses keep no memory alive
                    for compute, address in calls:
                        compute(address, width)

                return fill, take
            pairs = [(matcher, row) for row, matcher in enumerate(matchers)]
            together = llguidance.LLExecutor(threads).unsafe_compute_mask_ptr
            return lambda: together(pairs, bitmask.ctypes.data, width, rows), take

        return make

    return compile


def xgrammar_compiler(tokenizer: Tokenizer) -> Compile:
    """Its matcher, and its matcher of batches."""
    import xgrammar

    info = xgrammar.TokenizerInfo.from_huggingface(tokenizer.transformers, stop_token_ids=tokenizer.stop)

    def compile(schema: str) -> Make:
        grammar = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False).compile_json_schema(schema, strict_mode=False)

        def make(rows: int, threads: int) -> Batch:
            matchers = [xgrammar.GrammarMatcher(grammar) for _ in range(rows)]
            bitmask = xgrammar.allocate_token_bitmask(rows, info.vocab_size)
            take = taker([matcher.accept_token for matcher in matchers])
            if rows == 1:
                return lambda: matchers[0].fill_next_token_bitmask(bitmask), take
            batch = xgrammar.BatchGrammarMatcher(threads)
            return lambda: batch.batch_fill_next_token_bitmask(matchers, bitmask), take

        return make

    return compile


def taker(accepts: list[Callable[[int], bool]]) -> Callable[[list[int]], None]:
    """What takes a token for each matcher; ValueError where one is refused."""

    def take(tokens: list[int]) -> None:
        for accept, token in zip(accepts, tokens, strict=True):
            if token >= 0 and not accept(token):
                raise ValueError(f"token {token} of the text is refused")

    return take


COMPILERS: dict[str, Callable[[Tokenizer], Compile]] = {
    "stackmask": stackmask_compiler,
    "llguidance": llguidance_compiler,
    "xgrammar": xgrammar_compiler,
}


if __name__ == "__main__":
    sys.exit(main())
