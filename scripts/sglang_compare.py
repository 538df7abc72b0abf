"""stackmask beside SGLang's own grammar backends, inside SGLang, on a CPU: what it costs, and what is enforced.

    scripts/sglang_environment.sh DIR
    DIR/bin/python scripts/sglang_compare.py --tokenizer FOLDER --schemas FILE
    DIR/bin/python scripts/sglang_compare.py --constraints

Each backend runs in a separate process, made by SGLang's `create_grammar_backend` from SGLang's command line.
Compiling is SGLang's `_init_value_dispatch` on an empty cache, filling `fill_vocab_mask`, accepting `accept_token`; all is wall-clock time,
and of several rounds the least is taken, since machines have other things to do.

The table of constraints is made by walking texts that fit and texts that do not: "enforced" takes all of the first and none of the second.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import random
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median
from types import SimpleNamespace
from typing import Any

warnings.filterwarnings("ignore")
DEMO = Path(__file__).parent.parent / "integration" / "demo" / "model"
BACKENDS = ("stackmask", "xgrammar", "llguidance")
OTHERS: list[tuple[str, str, str]] = [
    ("regex", r"[A-Z][a-z]+ [A-Z][a-z]+, (0|[1-9][0-9]{0,2}) years", "Ada Lovelace, 36 years"),
    ("regex", r"(\d{3}-)?\d{3}-\d{4}", "555-123-4567"),
    ("ebnf", 'root ::= "(" root ")" root | ""', "(()((())))()"),
    ("ebnf", 'root ::= term (("+" | "-") term)*\nterm ::= [0-9]+ | "(" root ")"', "12+(3-(4+5))-6"),
]


def schema(**keywords: Any) -> tuple[str, str]:
    """A constraint that is a JSON Schema."""
    return "json", json.dumps({key.removeprefix("_"): value for key, value in keywords.items()})


def strings(**keywords: Any) -> tuple[str, str]:
    """A constraint on strings."""
    return schema(type="string", **keywords)


def objects(**keywords: Any) -> tuple[str, str]:
    """A constraint on objects."""
    return schema(type="object", **keywords)


def arrays(**keywords: Any) -> tuple[str, str]:
    """A constraint on arrays of small integers."""
    return schema(type="array", **({"items": {"type": "integer"}} | keywords))


def tag(**form: Any) -> tuple[str, str]:
    """A constraint that is a structural tag."""
    return "structural_tag", json.dumps({"type": "structural_tag", "format": form})


_INTEGER = {"type": "integer"}
_CALL = {"type": "tag", "begin": "<f>", "content": {"type": "json_schema", "json_schema": _INTEGER}, "end": "</f>"}
_TREE = {"type": "object", "properties": {"v": {"type": "integer"}, "n": {"$ref": "#"}}, "required": ["v"], "additionalProperties": False}
CONSTRAINTS: dict[str, tuple[tuple[str, str], list[str], list[str]]] = {
    "`enum`, `const`": (schema(enum=["a", 1, None]), ['"a"', "1", "null"], ['"b"', "2", "[]"]),
    "`required`": (objects(properties={"a": {"type": "integer"}}, required=["a"]), ['{"a":1}'], ["{}"]),
    "`additionalProperties: false`": (objects(properties={"a": {"type": "integer"}}, additionalProperties=False), ["{}"], ['{"b":1}']),
    "`additionalProperties: {...}`": (objects(additionalProperties={"type": "integer"}), ['{"b":1}'], ['{"b":"x"}']),
    "`patternProperties`": (
        objects(patternProperties={"^x": {"type": "integer"}}, additionalProperties=False),
        ['{"xa":1}'],
        ['{"xa":"s"}', '{"y":1}'],
    ),
    "`propertyNames`": (objects(propertyNames={"pattern": "^[a-c]+$"}), ['{"ab":1}'], ['{"z":1}']),
    "`minProperties`, `maxProperties`": (
        objects(additionalProperties={"type": "integer"}, minProperties=1, maxProperties=2),
        ['{"a":1}', '{"a":1,"b":2}'],
        ["{}", '{"a":1,"b":2,"c":3}'],
    ),
    "no key twice": (objects(additionalProperties={"type": "integer"}), ['{"a":1,"b":2}'], ['{"a":1,"a":2}']),
    "`dependentRequired`": (
        objects(
            properties={"a": {"type": "integer"}, "b": {"type": "integer"}}, dependentRequired={"a": ["b"]}, additionalProperties=False
        ),
        ['{"a":1,"b":2}', '{"b":2}'],
        ['{"a":1}'],
    ),
    "`unevaluatedProperties`": (
        objects(allOf=[{"properties": {"a": {"type": "integer"}}}], unevaluatedProperties=False),
        ['{"a":1}'],
        ['{"b":1}'],
    ),
    "`minItems`, `maxItems`": (arrays(minItems=2, maxItems=3), ["[1,2]", "[1,2,3]"], ["[1]", "[1,2,3,4]"]),
    "`prefixItems`": (
        schema(type="array", prefixItems=[{"type": "integer"}, {"type": "string"}], items=False),
        ['[1,"a"]'],
        ['["a",1]', '[1,"a",2]'],
    ),
    "`uniqueItems`": (arrays(uniqueItems=True), ["[1,2,3]"], ["[1,2,1]"]),
    "`contains`, `maxContains`": (arrays(contains={"const": 7}, maxContains=1), ["[1,7]"], ["[1,2]", "[7,7]"]),
    "`minLength`, `maxLength`": (strings(minLength=2, maxLength=3), ['"ab"', '"äöü"'], ['"a"', '"abcd"']),
    "`pattern`": (strings(pattern="^[a-c]+x$"), ['"abx"'], ['"ab"', '"zx"']),
    "`pattern` unanchored": (strings(pattern="b+c"), ['"abbcd"'], ['"acd"']),
    "`pattern` with `maxLength`": (strings(pattern="^[ab]+$", maxLength=3), ['"aba"'], ['"abab"', '"c"']),
    "`format: date-time`": (strings(format="date-time"), ['"2024-02-29T12:00:00Z"'], ['"2024-13-01T00:00:00Z"', '"2023-02-29T12:00:00Z"']),
    "`format: email`": (strings(format="email"), ['"ada@example.com"'], ['"ada"']),
    "`format: ipv6`": (strings(format="ipv6"), ['"::1"', '"fe80::1"'], ['"1::2::3"']),
    "`format: uuid`": (strings(format="uuid"), ['"123e4567-e89b-12d3-a456-426614174000"'], ['"123e4567"']),
    "`format: idn-email`": (strings(format="idn-email"), ['"ä@example.com"'], ['"ada"']),
    "`minimum`, `maximum` of integers": (schema(type="integer", minimum=-3, maximum=120), ["-3", "0", "120"], ["-4", "121"]),
    "`minimum`, `maximum` of numbers": (schema(type="number", minimum=-0.5, exclusiveMaximum=1), ["-0.5", "0.25"], ["-0.51", "1", "1.0"]),
    "`multipleOf`": (schema(type="integer", multipleOf=15), ["0", "45", "-30"], ["7", "46"]),
    "`allOf`": (schema(allOf=[{"type": "integer", "minimum": 3}, {"maximum": 5}]), ["3", "5"], ["2", "6"]),
    "`anyOf`": (schema(anyOf=[{"type": "integer"}, {"type": "boolean"}]), ["1", "true"], ['"a"']),
    "`oneOf` that overlaps": (schema(type="integer", oneOf=[{"minimum": 3}, {"maximum": 5}]), ["2", "6"], ["3", "4"]),
    "`not`": (schema(type="integer", _not={"enum": [3, 5]}), ["4", "30"], ["3", "5"]),
    "`if`, `then`, `else`": (
        objects(
            properties={"k": {"enum": ["a", "b"]}, "v": True},
            required=["k", "v"],
            additionalProperties=False,
            _if={"properties": {"k": {"const": "a"}}},
            then={"properties": {"v": {"type": "integer"}}},
            _else={"properties": {"v": {"type": "null"}}},
        ),
        ['{"k":"a","v":1}', '{"k":"b","v":null}'],
        ['{"k":"a","v":null}', '{"k":"b","v":1}'],
    ),
    "recursive `$ref`": (("json", json.dumps(_TREE)), ['{"v":1,"n":{"v":2}}'], ['{"v":1,"n":{}}']),
    "any JSON": (("json", "$$ANY$$"), ['{"a":[1,null]}', '"x"', "3"], ["[1", "{1}"]),
    "regex: alternation, counts": (("regex", "(ab|c){2,3}x?"), ["abcx", "ccc"], ["ab", "cccc"]),
    "regex: `\\p{Lu}`, `\\d`": (("regex", r"\p{Lu}\d"), ["Ä1"], ["ä1"]),
    "regex: lookahead": (("regex", "(?!ab)[abc]{2}"), ["ac", "ba"], ["ab"]),
    "regex: word boundary": (("regex", r"a\b.c"), ["a c"], ["abc"]),
    "regex: anchors inside": (("regex", "^abc$"), ["abc"], ["xabc"]),
    "ebnf: recursion": (("ebnf", 'root ::= "(" root ")" | "x"'), ["x", "((x))"], ["((x)", "()"]),
    "ebnf: left recursion": (("ebnf", 'root ::= root "+" "x" | "x"'), ["x", "x+x+x"], ["x+", "+x"]),
    "ebnf: ambiguity": (("ebnf", 'root ::= root root | "a" | "aa"'), ["aaa"], ["", "ab"]),
    "tag: `structures` (older form)": (
        (
            "structural_tag",
            json.dumps({"structures": [{"begin": "<f>", "schema": {"type": "integer"}, "end": "</f>"}], "triggers": ["<f"]}),
        ),
        ["hi <f>1</f> ho", "hi"],
        ["hi <f>x</f>"],
    ),
    "tag: `triggered_tags`": (
        tag(type="triggered_tags", triggers=["<f"], tags=[_CALL], stop_after_first=True),
        ["hi <f>1</f>"],
        ["hi <f>x</f>", "hi <f>1</f> ho"],
    ),
    "tag: `tags_with_separator`": (
        tag(type="tags_with_separator", tags=[_CALL], separator=",", at_least_one=True),
        ["<f>1</f>,<f>2</f>"],
        ["", "<f>1</f><f>2</f>"],
    ),
    "tag: `sequence`, `or`, `regex`": (
        tag(
            type="sequence",
            elements=[
                {"type": "or", "elements": [{"type": "const_string", "value": "a"}, {"type": "const_string", "value": "b"}]},
                {"type": "regex", "pattern": "[0-9]{2}"},
            ],
        ),
        ["a12", "b34"],
        ["c12", "a1"],
    ),
    "tag: `any_text` with `excludes`": (tag(type="any_text", excludes=["<bad>"]), ["good"], ["so <bad> it"]),
    "tag: JSON in `qwen_xml`": (
        tag(
            type="json_schema",
            style="qwen_xml",
            json_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False},
        ),
        ["<parameter=n>1</parameter>"],
        ["<parameter=n>x</parameter>", '{"n":1}'],
    ),
}


def make_stage(backend: str, folder: Path, *options: str) -> Any:
    """A stage with a tokenizer, whose model needs to be no more than a configuration."""
    import sglang_stage
    from sglang.srt.plugins import load_plugins

    logging.disable(logging.CRITICAL)
    load_plugins()
    if (folder / "config.json").is_file():
        return sglang_stage.Stage(folder, "--grammar-backend", backend, *options)
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    place = Path(tempfile.mkdtemp())
    for file in folder.glob("*.json"):
        shutil.copy(file, place)
    config = json.loads((DEMO / "config.json").read_text(encoding="utf-8"))
    config |= {"vocab_size": len(tokenizer), "eos_token_id": tokenizer.eos_token_id}
    (place / "config.json").write_text(json.dumps(config), encoding="utf-8")
    try:
        return sglang_stage.Stage(place, "--grammar-backend", backend, *options)
    finally:
        shutil.rmtree(place)


def least(rounds: int, function: Callable[[], Any]) -> tuple[float, Any]:
    """The least microseconds of some rounds, and what the last gave."""
    best, given = float("inf"), None
    for _ in range(rounds):
        begin = time.perf_counter_ns()
        given = function()
        best = min(best, (time.perf_counter_ns() - begin) / 1e3)
    return best, given


def compile_anew(at: Any, key: tuple[str, str]) -> Any:
    """A grammar that was in no cache."""
    at.manager.grammar_backend.reset()
    return at.manager.grammar_backend._init_value_dispatch(key, False)


def fits(at: Any, grammar: Any, text: str) -> bool:
    """Whether the mask allows each token of a text and its end."""
    fork = grammar.copy()
    mask = fork.allocate_vocab_mask(at.vocab_size, 1, "cpu")
    for token in [*at.tokenizer.encode(text, add_special_tokens=False), at.stop]:
        if fork.is_terminated():
            return False
        fork.fill_vocab_mask(mask, 0)
        if not int(mask[0, token // 32]) >> token % 32 & 1:
            return False
        fork.accept_token(token)
    return True


def measure(at: Any, requests: list[tuple[str, str, str]], rounds: int) -> dict[str, Any]:
    """What each request takes to compile, fill and accept, by its number, and a batch of them to fill."""
    backend = at.manager.grammar_backend
    for kind, specification, _ in OTHERS:
        compile_anew(at, (kind, specification))  # what is imported or started at the first request is no cost of a request
    served: dict[int, dict[str, Any]] = {}
    for number, (kind, specification, text) in enumerate(requests):
        key = (kind, specification)
        spent, grammar = least(rounds, lambda key=key: compile_anew(at, key))
        if hasattr(grammar, "error_message") or not fits(at, grammar, text):
            continue
        backend.set_cache(key, grammar.copy())
        hit, fork = least(rounds, lambda key=key: backend.get_cached_or_future_value(key, False)[0])
        tokens = [*at.tokenizer.encode(text, add_special_tokens=False), at.stop]
        mask = fork.allocate_vocab_mask(at.vocab_size, 1, "cpu")
        filled, accepted = [float("inf")] * len(tokens), [float("inf")] * len(tokens)
        for _ in range(rounds):
            grammar = compile_anew(at, key)  # tables that grow with use are part of what a request pays
            for place, token in enumerate(tokens):
                begin = time.perf_counter_ns()
                grammar.fill_vocab_mask(mask, 0)
                middle = time.perf_counter_ns()
                grammar.accept_token(token)
                end = time.perf_counter_ns()
                filled[place] = min(filled[place], (middle - begin) / 1e3)
                accepted[place] = min(accepted[place], (end - middle) / 1e3)
        served[number] = {"compile": spent, "hit": hit, "fill": filled, "accept": accepted}
    return {"served": served, "batch": batch_time(at, [requests[number] for number in served][:64])}


def batch_time(at: Any, requests: list[tuple[str, str, str]]) -> tuple[int, float]:
    """How long SamplingBatchInfo takes for the masks of requests that have three tokens already, and how many they are."""
    rows = []
    for kind, specification, text in requests:
        grammar = compile_anew(at, (kind, specification))
        for token in at.tokenizer.encode(text, add_special_tokens=False)[:3]:
            grammar.accept_token(token)
        rows.append(SimpleNamespace(grammar=grammar))
    return len(rows), least(20, lambda: at.mask(rows))[0]


def judge(at: Any) -> dict[str, str]:
    """What becomes of each constraint."""
    verdicts = {}
    for name, (key, right, wrong) in CONSTRAINTS.items():
        try:
            grammar = compile_anew(at, key)
        except Exception as error:
            grammar = error
        if grammar is None or isinstance(grammar, Exception) or hasattr(grammar, "error_message"):
            verdicts[name] = "refused"
            continue
        try:
            lost = [text for text in right if not fits(at, grammar, text)]
            passed = [text for text in wrong if fits(at, grammar, text)]
        except Exception as error:
            verdicts[name] = f"fails: {type(error).__name__}"
            continue
        found = [f"takes `{text}`" for text in passed[:1]] + [f"loses `{text}`" for text in lost[:1]]
        verdicts[name] = ", ".join(found) or "enforced"
    return verdicts


def read_requests(path: Path, count: int) -> list[tuple[str, str, str]]:
    """JSON Schemas with a valid instance each, chosen at random, and a few requests of other kinds."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        records = [json.loads(line) for line in file if line.strip()]
    random.Random(0).shuffle(records)
    chosen = []
    for record in records:
        instance = next((test["data"] for test in record["tests"] if test["valid"]), None)
        if instance is not None:
            text = json.dumps(instance, ensure_ascii=False, separators=(",", ":"))
            chosen.append(("json", json.dumps(record["schema"]), text))
    return OTHERS + chosen[:count]


def percentile(values: list[float], part: float) -> float:
    """The value below which a part of them lies."""
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def table(rows: list[list[str]]) -> str:
    """A table in Markdown."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def costs(found: dict[str, Any], asked: int) -> str:
    """What was measured, for the requests that all backends serve."""
    common = set.intersection(*(set(item["served"]) for item in found.values()))
    kept = {name: [item["served"][number] for number in sorted(common, key=int)] for name, item in found.items()}
    rows = [["microseconds", *found]]

    def line(name: str, value: Callable[[list[dict[str, Any]]], float]) -> None:
        rows.append([name, *(format(value(requests), ",.1f") for requests in kept.values())])

    def all_of(part: str) -> Callable[[list[dict[str, Any]]], list[float]]:
        return lambda requests: [value for request in requests for value in request[part]]

    rows.append([f"served, of {asked} requests", *(str(len(item["served"])) for item in found.values())])
    line("compile, median", lambda requests: median(request["compile"] for request in requests))
    line("compile, mean", lambda requests: mean(request["compile"] for request in requests))
    line("compile, most", lambda requests: max(request["compile"] for request in requests))
    line("copied from the cache, median", lambda requests: median(request["hit"] for request in requests))
    line("fill the first mask, median", lambda requests: median(request["fill"][0] for request in requests))
    for part in ("fill", "accept"):
        line(f"{part}, median", lambda requests, part=part: median(all_of(part)(requests)))
        line(f"{part}, mean", lambda requests, part=part: mean(all_of(part)(requests)))
        line(f"{part}, p99", lambda requests, part=part: percentile(all_of(part)(requests), 0.99))
        line(f"{part}, a request's sum, mean", lambda requests, part=part: mean(sum(request[part]) for request in requests))
    line(
        "all three of a request, mean",
        lambda requests: mean(item["compile"] + sum(item["fill"]) + sum(item["accept"]) for item in requests),
    )
    rows.append(["all masks of a batch", *(f"{item['batch'][1]:,.1f} for {item['batch'][0]}" for item in found.values())])
    steps = sum(len(request["fill"]) for request in next(iter(kept.values())))
    return f"{len(common)} requests that all serve, {steps} steps\n\n{table(rows)}"


def main() -> int:
    """Compare, or run one backend and print what was found as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tokenizer", type=Path, default=DEMO, help="a folder with tokenizer.json (default: the demo model)")
    parser.add_argument("--schemas", type=Path, help="a MaskBench file")
    parser.add_argument("--count", type=int, default=40, help="how many of its schemas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--constraints", action="store_true", help="the table of constraints instead of times")
    parser.add_argument("--backend", help="run this one alone, and print JSON")
    options = parser.parse_args()
    if options.backend:
        sys.stdout, printed = sys.stderr, sys.stdout
        at = make_stage(options.backend, options.tokenizer)
        found = judge(at) if options.constraints else measure(at, read_requests(options.schemas, options.count), options.rounds)
        print(json.dumps(found), file=printed)
        return 0
    results = {}
    for backend in BACKENDS:
        command = [sys.executable, __file__, "--backend", backend, *sys.argv[1:]]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(done.stderr[-4000:], file=sys.stderr)
            return 1
        results[backend] = json.loads(done.stdout.splitlines()[-1])
    if options.constraints:
        print(table([["constraint", *BACKENDS], *([name, *(results[backend][name] for backend in BACKENDS)] for name in CONSTRAINTS)]))
    else:
        print(costs(results, len(OTHERS) + options.count))
    return 0


if __name__ == "__main__":
    sys.exit(main())
