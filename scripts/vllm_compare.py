"""What each structured-output backend of vLLM takes and enforces, measured inside vLLM with the same requests.

    DIRECTORY/bin/python scripts/vllm_compare.py [--schemas 300] [--json FILE] [--docs docs/vllm.md]

Two tables in Markdown, as in docs/vllm.md.
The first is time per request: MaskBench schemas, each with one valid instance that is replayed as the output (see `vllm_cpu_executor`),
one request at a time, over the vocabulary of Llama 3: first with a cold grammar, then with the same schema once more.
Times are CPU time: of the calling thread, and for the compilation of all threads but vLLM's own loop, since XGrammar compiles on several.
The second is what is enforced: for each constraint, a text that satisfies it and one that does not.
Both go through vLLM's own validation, compilation and scheduler. vLLM picks the version of each backend but ours.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("STACKMASK_DATA", ROOT.parent / "shared" / "data"))
BACKENDS = {"stackmask": "stackmask", "xgrammar": "xgrammar", "guidance": "llguidance"}
LONGEST = 900
PARTS = ["validate", "compile", "fill", "accept"]

Constraint = tuple[str, dict[str, Any], str, str]


def schema(name: str, value: Any, good: str, bad: str) -> Constraint:
    """A constraint of JSON Schema."""
    return name, {"json": json.dumps(value)}, good, bad


STRING, INTEGER = {"type": "string"}, {"type": "integer"}
CONSTRAINTS: list[Constraint] = [
    schema("type", INTEGER, "12", '"12"'),
    schema("enum", {"enum": ["a", 1, None]}, "null", '"b"'),
    schema("const, of an object", {"const": {"a": [1]}}, '{"a":[1]}', '{"a":[2]}'),
    schema("required", {"type": "object", "properties": {"a": INTEGER}, "required": ["a"]}, '{"a": 1}', "{}"),
    schema("additionalProperties: a schema", {"type": "object", "additionalProperties": INTEGER}, '{"x": 1}', '{"x": "1"}'),
    schema("properties are open by default", {"type": "object", "properties": {"a": INTEGER}}, '{"a": 1, "b": 2}', '{"a": "1"}'),
    schema("minimum, maximum", {"type": "integer", "minimum": 5, "maximum": 120}, "77", "121"),
    schema("exclusiveMinimum, of a number", {"type": "number", "exclusiveMinimum": 0.5}, "0.51", "0.5"),
    schema("multipleOf", {"type": "integer", "multipleOf": 7}, "49", "50"),
    schema("minLength, maxLength", {"type": "string", "minLength": 2, "maxLength": 3}, '"abc"', '"abcd"'),
    schema("pattern", {"type": "string", "pattern": "^[a-c]+$"}, '"abc"', '"abd"'),
    schema("pattern, unanchored", {"type": "string", "pattern": "b"}, '"abc"', '"ac"'),
    schema("pattern and maxLength", {"type": "string", "pattern": "^[a-c]+$", "maxLength": 3}, '"abc"', '"abca"'),
    schema("format: date", {"type": "string", "format": "date"}, '"2024-02-29"', '"2023-02-29"'),
    schema("format: email", {"type": "string", "format": "email"}, '"a@b.org"', '"a.b.org"'),
    schema("format: idn-hostname", {"type": "string", "format": "idn-hostname"}, '"\u00fcber.org"', '"-a.org"'),
    schema("minItems, maxItems", {"type": "array", "items": INTEGER, "minItems": 1, "maxItems": 2}, "[1, 2]", "[1, 2, 3]"),
    schema("prefixItems", {"type": "array", "prefixItems": [INTEGER, STRING], "items": False}, '[1, "a"]', '["a", 1]'),
    schema("uniqueItems", {"type": "array", "items": INTEGER, "uniqueItems": True}, "[1, 2]", "[1, 1]"),
    schema("contains", {"type": "array", "items": {"enum": [1, 2]}, "contains": {"const": 2}}, "[1, 2]", "[1, 1]"),
    schema("maxContains", {"type": "array", "items": {"enum": [1, 2]}, "contains": {"const": 2}, "maxContains": 1}, "[1, 2]", "[2, 2]"),
    schema("minProperties", {"type": "object", "additionalProperties": INTEGER, "minProperties": 2}, '{"a": 1, "b": 2}', '{"a": 1}'),
    schema(
        "maxProperties",
        {"type": "object", "additionalProperties": INTEGER, "maxProperties": 3},
        '{"a": 1, "b": 2}',
        '{"a":1,"b":2,"c":3,"d":4}',
    ),
    schema(
        "minProperties, a key twice",
        {"type": "object", "additionalProperties": INTEGER, "minProperties": 2},
        '{"a": 1, "b": 2}',
        '{"a": 1, "a": 2}',
    ),
    schema(
        "patternProperties",
        {"type": "object", "patternProperties": {"^i_": INTEGER}, "additionalProperties": STRING},
        '{"i_a": 1}',
        '{"i_a": "x"}',
    ),
    schema(
        "properties and patternProperties",
        {"type": "object", "properties": {"a": STRING}, "patternProperties": {"^i": INTEGER}, "additionalProperties": False},
        '{"a": "x", "i1": 1}',
        '{"a": "x", "i1": "1"}',
    ),
    schema(
        "propertyNames",
        {"type": "object", "propertyNames": {"pattern": "^[a-z]{2}$"}, "additionalProperties": INTEGER},
        '{"ab": 1}',
        '{"abc": 1}',
    ),
    schema(
        "dependentRequired",
        {"type": "object", "properties": {"a": INTEGER, "b": INTEGER}, "dependentRequired": {"a": ["b"]}, "additionalProperties": False},
        '{"a": 1, "b": 2}',
        '{"a": 1}',
    ),
    schema("allOf of two", {"allOf": [{"type": "integer", "minimum": 5}, {"maximum": 7}]}, "6", "8"),
    schema("anyOf", {"anyOf": [INTEGER, {"const": "x"}]}, '"x"', '"y"'),
    schema("oneOf that overlaps", {"oneOf": [{"type": "integer", "minimum": 0}, {"type": "integer", "maximum": 5}]}, "6", "3"),
    schema("not", {"type": "string", "not": {"const": "a"}}, '"b"', '"a"'),
    schema(
        "if, then, else",
        {
            "type": "object",
            "properties": {"k": {"enum": ["n", "s"]}, "v": {"type": ["integer", "string"]}},
            "required": ["k", "v"],
            "additionalProperties": False,
            "if": {"properties": {"k": {"const": "n"}}},
            "then": {"properties": {"v": INTEGER}},
            "else": {"properties": {"v": STRING}},
        },
        '{"k": "n", "v": 1}',
        '{"k": "n", "v": "1"}',
    ),
    schema(
        "$ref, recursive",
        {
            "$ref": "#/$defs/n",
            "$defs": {
                "n": {
                    "type": "object",
                    "properties": {"c": {"type": "array", "items": {"$ref": "#/$defs/n"}}},
                    "required": ["c"],
                    "additionalProperties": False,
                }
            },
        },
        '{"c": [{"c": []}]}',
        '{"c": [{}]}',
    ),
    schema(
        "unevaluatedProperties",
        {"type": "object", "allOf": [{"properties": {"a": INTEGER}}], "properties": {"b": INTEGER}, "unevaluatedProperties": False},
        '{"b": 1}',
        '{"c": 1}',
    ),
    ("json_object", {"json_object": True}, '{"a": [1]}', "[1]"),
    ("regex: classes and counts", {"regex": r"[\w-]{2,4}\d"}, "a-b7", "a-b-c7"),
    ("regex: lookahead", {"regex": "(?!ab)[a-c]{2}"}, "ac", "ab"),
    ("regex: \\b", {"regex": r"[a-c ]*\bab\b[a-c ]*"}, "c ab c", "cab"),
    ("EBNF", {"grammar": 'root ::= "(" root ")" | [0-9]+'}, "((1))", "((1)"),
    ("EBNF: left recursion", {"grammar": 'root ::= root "+" root | [0-9]'}, "1+2+3", "1+"),
    ("Lark", {"grammar": 'start: "a" WORD\nWORD: /[b-d]+/'}, "abcd", "ae"),
    ("Lark: %ignore", {"grammar": 'start: "a" "b"\n%ignore " "'}, "a b", "a c"),
    ("choice", {"choice": ["yes", "no"]}, "no", "nope"),
    (
        "structural_tag",
        {
            "structural_tag": json.dumps(
                {
                    "type": "structural_tag",
                    "format": {"type": "tag", "begin": "CALL(", "content": {"type": "json_schema", "json_schema": INTEGER}, "end": ")"},
                }
            )
        },
        "CALL(12)",
        "CALL(x)",
    ),
    (
        "structural_tag, older form",
        {
            "structural_tag": json.dumps(
                {"type": "structural_tag", "structures": [{"begin": "CALL(", "schema": INTEGER, "end": ")"}], "triggers": ["CALL("]}
            )
        },
        "so CALL(12)",
        "so CALL(x)",
    ),
]


class Clock:
    """CPU time by part, for the request under way."""

    def __init__(self) -> None:
        self.main = time.pthread_getcpuclockid(threading.main_thread().ident or 0)
        self.parts: dict[str, list[float]] = {}

    def wrap(self, owner: type, name: str, part: str, *, threads: bool = False) -> None:
        """Count the time of a method; with `threads`, of all threads but the main one."""
        original: Callable[..., Any] = getattr(owner, name)

        def now() -> int:
            return time.process_time_ns() - time.clock_gettime_ns(self.main) if threads else time.thread_time_ns()

        def timed(*arguments: Any, **options: Any) -> Any:
            start = now()
            try:
                return original(*arguments, **options)
            finally:
                self.parts.setdefault(part, []).append((now() - start) / 1e3)

        setattr(owner, name, timed)

    def take(self) -> dict[str, list[float]]:
        """What was counted since the last call, in microseconds."""
        taken, self.parts = self.parts, {}
        return taken


def engine(backend: str) -> Any:
    """An `LLM` that replays, over the vocabulary of Llama 3."""
    os.environ.update(
        VLLM_TARGET_DEVICE="cpu",
        VLLM_CPU_KVCACHE_SPACE="1",
        VLLM_LOGGING_LEVEL="CRITICAL",
        VLLM_NO_USAGE_STATS="1",
        HF_HUB_OFFLINE="1",
        VLLM_ENABLE_V1_MULTIPROCESSING="0",
        STACKMASK_REPLAY="1",
    )
    sys.path[:0] = [str(ROOT / "scripts"), str(ROOT)]
    from stackmask.integration.vllm import register

    register()
    from vllm import LLM
    from vllm_cpu_executor import CpuExecutor

    folder = Path(tempfile.mkdtemp())
    for file in (DATA / "tokenizers" / "llama3").iterdir():
        (folder / file.name).symlink_to(file)
    shape = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 64}
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 128_256, "max_position_embeddings": 4096, **shape}
    (folder / "config.json").write_text(json.dumps({**config, "bos_token_id": 128_000, "eos_token_id": 128_009}))
    return LLM(
        model=str(folder),
        max_model_len=2048,
        max_num_seqs=4,
        enforce_eager=True,
        dtype="float32",
        distributed_executor_backend=CpuExecutor,
        structured_outputs_config={"backend": backend},
        async_scheduling=False,
    )


def replay(llm: Any, constraint: dict[str, Any], tokens: list[int]) -> str:
    """What becomes of a request whose output is a text: "allowed", "forbidden", or the reason why it was refused."""
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    executor = llm.llm_engine.engine_core.engine_core.model_executor
    executor.forbidden.clear()
    params = SamplingParams(temperature=0, max_tokens=len(tokens) + 1, structured_outputs=StructuredOutputsParams(**constraint))
    try:
        answer = llm.generate([{"prompt_token_ids": [128_000, *tokens]}], params, use_tqdm=False)[0].outputs[0]
    except Exception as error:
        if "Validation" not in type(error).__name__ and not isinstance(error, ValueError):
            raise
        return f"refused: {str(error).splitlines()[0][:100]}"
    if executor.forbidden:
        return "forbidden"
    return "allowed" if answer.finish_reason == "stop" else f"refused: {answer.finish_reason}"


def measure(backend: str, count: int) -> dict[str, Any]:
    """One backend, in this process."""
    llm = engine(backend)
    tokenizer = llm.get_tokenizer()

    def encode(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False))

    results: dict[str, Any] = {"versions": {BACKENDS[backend]: version(BACKENDS[backend])}}
    results["constraints"] = {
        name: [replay(llm, constraint, encode(text)) for text in (good, bad)] for name, constraint, good, bad in CONSTRAINTS
    }
    manager = llm.llm_engine.engine_core.engine_core.scheduler.structured_output_manager
    clock = Clock()
    from vllm.sampling_params import SamplingParams

    clock.wrap(SamplingParams, "_validate_structured_outputs", "validate")
    clock.wrap(type(manager.backend), "compile_grammar", "compile", threads=True)
    kinds = sys.modules["vllm.v1.structured_output.backend_types"].StructuredOutputOptions
    grammar = type(manager.backend.compile_grammar(kinds.REGEX, "a", {128_009}))
    for method, part in (("fill_bitmask", "fill"), ("accept_tokens", "accept")):
        clock.wrap(grammar, method, part)
    from benchmarks.instances import read_case, read_lines

    results["requests"] = {}
    lines = read_lines(DATA / "maskbench-dev.jsonl.gz")
    random.Random(0).shuffle(lines)
    for line in lines:
        if len(results["requests"]) == count:
            break
        case = read_case(line)
        texts = [texts[0] for valid, texts in case.instances if valid]
        tokens = encode(texts[0]) if texts else []
        if not 0 < len(tokens) <= LONGEST:
            continue
        clock.take()
        outcome = replay(llm, {"json": case.schema}, tokens)
        first = clock.take()
        replay(llm, {"json": case.schema}, tokens)
        results["requests"][case.id] = {"outcome": outcome, **first, "again": clock.take()}
    return results


def mean(values: list[float]) -> float:
    """The mean."""
    return sum(values) / len(values) if values else float("nan")


def quantile(values: list[float], part: float) -> float:
    """The value that this part of the others lies below."""
    return sorted(values)[min(len(values) - 1, int(part * len(values)))] if values else float("nan")


def times(results: dict[str, Any]) -> str:
    """The table of times."""
    common = [
        request
        for request in results["stackmask"]["requests"]
        if all(results[backend]["requests"][request]["outcome"] == "allowed" for backend in BACKENDS)
    ]
    lines = [
        "| | "
        + " | ".join(f"{backend} ({library} {results[backend]['versions'][library]})" for backend, library in BACKENDS.items())
        + " |"
    ]
    lines.append("|---|" + "---:|" * len(BACKENDS))

    def row(name: str, cell: Callable[[dict[str, Any]], str]) -> None:
        lines.append(f"| {name} | " + " | ".join(cell(results[backend]["requests"]) for backend in BACKENDS) + " |")

    def outcomes(requests: dict[str, Any], start: str) -> int:
        return sum(request["outcome"].startswith(start) for request in requests.values())

    def spread(requests: dict[str, Any], parts: list[str], scale: float, unit: str, *, each: bool) -> str:
        sums = [sum(sum(requests[request].get(part, [])) for part in parts) for request in common]
        values = [value for request in common for part in parts for value in requests[request][part]] if each else sums
        return f"{mean(values) / scale:.2f} / {quantile(values, 0.5) / scale:.2f} / {quantile(values, 0.99) / scale:.2f} {unit}"

    row("schemas", lambda requests: str(len(requests)))
    row("refused with an error", lambda requests: str(outcomes(requests, "refused")))
    row("the instance as written is forbidden", lambda requests: str(outcomes(requests, "forbidden")))
    row("validation, per request", lambda requests: spread(requests, ["validate"], 1e3, "ms", each=False))
    row("compilation, per request", lambda requests: spread(requests, ["compile"], 1e3, "ms", each=False))
    row("fill, per token", lambda requests: spread(requests, ["fill"], 1, "us", each=True))
    row("accept, per token", lambda requests: spread(requests, ["accept"], 1, "us", each=True))
    row("fill, per request", lambda requests: spread(requests, ["fill"], 1e3, "ms", each=False))
    row("accept, per request", lambda requests: spread(requests, ["accept"], 1e3, "ms", each=False))
    row("all of it, per request", lambda requests: spread(requests, PARTS, 1e3, "ms", each=False))

    def again(requests: dict[str, Any]) -> dict[str, Any]:
        return {request: values.get("again", {}) for request, values in requests.items()}

    row("fill, per token, second request", lambda requests: spread(again(requests), ["fill"], 1, "us", each=True))
    row("all of it, second request", lambda requests: spread(again(requests), PARTS, 1e3, "ms", each=False))
    tokens = sum(len(results["stackmask"]["requests"][request]["fill"]) for request in common)
    return f"{len(common)} requests that all three take, {tokens:,} tokens; mean / median / 99th percentile.\n\n" + "\n".join(lines)


def constraints(results: dict[str, Any]) -> str:
    """The table of enforced constraints."""

    def verdict(good: str, bad: str) -> str:
        if good.startswith("refused") or bad.startswith("refused"):
            return "refused"
        if bad == "allowed":
            return "**not enforced**" if good == "allowed" else "**wrong**"
        return "enforced" if good == "allowed" else "**too strict**"

    lines = ["| constraint | " + " | ".join(BACKENDS) + " |", "|---|" + "---|" * len(BACKENDS)]
    for name, *_ in CONSTRAINTS:
        lines.append(f"| {name} | " + " | ".join(verdict(*results[backend]["constraints"][name]) for backend in BACKENDS) + " |")
    return "\n".join(lines)


def insert(document: Path, name: str, table: str) -> None:
    """Put a table between its marks in a document."""
    first, last = f"<!-- {name}: made by scripts/vllm_compare.py -->\n", f"<!-- end of {name} -->"
    before, _, rest = document.read_text(encoding="utf-8").partition(first)
    _, mark, after = rest.partition(last)
    if not mark:
        raise SystemExit(f"{document} has no place for the {name}")
    document.write_text(f"{before}{first}{table}\n{mark}{after}", encoding="utf-8")


def main() -> int:
    """Measure each backend in a separate process, and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--schemas", type=int, default=300, help="how many schemas of MaskBench; 0 for the table of constraints alone")
    parser.add_argument("--docs", type=Path, help="write the tables into this document")
    parser.add_argument("--json", type=Path, help="write everything that was measured")
    parser.add_argument("--backend", choices=BACKENDS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.backend:
        options.json.write_text(json.dumps(measure(options.backend, options.schemas)))
        return 0
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for backend in BACKENDS:
            file = Path(folder, backend)
            command = [sys.executable, __file__, "--backend", backend, "--json", str(file), "--schemas", str(options.schemas)]
            subprocess.run(command, check=True)
            results[backend] = json.loads(file.read_text())
    if options.json:
        options.json.write_text(json.dumps(results))
    made = {"constraints": constraints(results), **({"times": times(results)} if options.schemas else {})}
    for name, table in made.items():
        print(f"{table}\n")
        if options.docs:
            insert(options.docs, name, table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
