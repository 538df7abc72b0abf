"""Run the stackmask backend inside the real vLLM, on a CPU, and check every answer with something that is not stackmask.

    scripts/vllm_environment.sh DIRECTORY
    DIRECTORY/bin/python scripts/vllm_check.py              all of it: offline, drafts, forced, serve (about four minutes on two cores)
    DIRECTORY/bin/python scripts/vllm_check.py offline      one of them

offline: `LLM` with all six types of request, stop tokens, refused requests, beam search, 150 requests at once
drafts:  the same types of request with n-gram speculation
forced:  steps of tool calls and schemas with forced text as drafts and without, whose texts must be the same; 200 answers of each,
         or STACKMASK_FORCED_ANSWERS
serve:   `vllm serve` as a process, over HTTP: all six types, response_format, tools by name and required, refused requests, 150 at once

Each line of the output is one check; the exit code is 0 if all of them hold.
The model is the demo model of stackmask, run by `vllm_cpu_executor`.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
from forced_workloads import CALLS as FORCED_CALLS
from forced_workloads import PERSON

SCRIPTS = Path(__file__).resolve().parent
ENVIRONMENT = {
    "VLLM_TARGET_DEVICE": "cpu",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),  # the model is too small for more to help, and they wait for each other
    "PYTHONPATH": os.pathsep.join(filter(None, [str(SCRIPTS), os.environ.get("PYTHONPATH")])),
}
TAG = {
    "type": "structural_tag",
    "format": {
        "type": "sequence",
        "elements": [
            {"type": "const_string", "value": "answer: "},
            {
                "type": "tag",
                "begin": "<v>",
                "content": {"type": "json_schema", "json_schema": PERSON, "max_whitespace_cnt": 1},
                "end": "</v>",
            },
        ],
    },
}
CALLS = {
    "type": "structural_tag",
    "format": {
        "type": "triggered_tags",
        "triggers": ["<f="],
        "tags": [
            {"type": "tag", "begin": f"<f={name}>", "content": {"type": "json_schema", "json_schema": {"enum": [1, 2]}}, "end": "</f>"}
            for name in "ab"
        ],
        "at_least_one": True,
        "stop_after_first": True,
    },
}
LEGACY = {
    "type": "structural_tag",
    "structures": [{"begin": "<f=1>", "schema": {"enum": [1, 2]}, "end": "</f>"}],
    "triggers": ["<f="],
}
FORCED_ANSWERS = int(os.environ.get("STACKMASK_FORCED_ANSWERS", "200"))
COPY = 'Copy: {"name": "Anna", "age": 63, "tags": ["a", "b"]} {"name": "Anna", "age": 63, "tags": ["a", "b"]} '


def is_person(text: str) -> bool:
    """Whether a text is a valid instance, by another implementation."""
    return jsonschema.Draft202012Validator(PERSON).is_valid(json.loads(text))


def is_object(text: str) -> bool:
    """Whether a text is a JSON object."""
    return isinstance(json.loads(text), dict)


def fits(pattern: str) -> Callable[[str], bool]:
    """Whether a text matches a regular expression, by Python's `re`."""
    return lambda text: re.fullmatch(pattern, text, re.DOTALL) is not None


Case = tuple[str, dict[str, Any], Callable[[str], bool]]
CASES: list[Case] = [
    ("json", {"json": PERSON}, is_person),
    ("json as text", {"json": json.dumps(PERSON)}, is_person),
    ("json_object", {"json_object": True}, is_object),
    ("regex", {"regex": "[a-c]{2,30}x(yz)?"}, fits("[a-c]{2,30}x(yz)?")),
    ("choice", {"choice": ["positive", "negative", 'a "b" \\ \u4e2d']}, lambda text: text in ("positive", "negative", 'a "b" \\ \u4e2d')),
    (
        "grammar, EBNF",
        {"grammar": 'root ::= "SELECT " name ("," name){0,3}\nname ::= [a-z]{1,5}'},
        fits("SELECT [a-z]{1,5}(,[a-z]{1,5}){0,3}"),
    ),
    ("grammar, Lark", {"grammar": 'start: pair~2\npair: WORD "=" WORD ";"\nWORD: /[a-z]{1,6}/'}, fits("([a-z]{1,6}=[a-z]{1,6};){2}")),
    ("structural_tag", {"structural_tag": json.dumps(TAG)}, lambda text: fits("answer: <v>.*</v>")(text) and is_person(text[11:-4])),
    (
        "structural_tag, triggered",
        {"structural_tag": json.dumps(CALLS)},
        lambda text: text.count("<f=") == len(re.findall("<f=[ab]>[12]</f>", text)) > 0,
    ),
    (
        "structural_tag, older form",
        {"structural_tag": json.dumps(LEGACY)},
        lambda text: text.count("<f=") == len(re.findall("<f=1>[12]</f>", text)),
    ),
]
WRONG: list[tuple[str, dict[str, Any]]] = [
    ("json: a type that is none", {"json": {"type": "strin"}}),
    ("json: nothing satisfies it", {"json": {"type": "string", "minLength": 3, "maxLength": 2}}),
    ("json: no JSON", {"json": "{"}),
    ("json: a keyword that cannot be enforced", {"json": {"type": "object", "$dynamicRef": "http://example.org/other"}}),
    ("regex: unbalanced", {"regex": "(a"}),
    ("choice: empty", {"choice": []}),
    ("grammar: an unknown rule", {"grammar": 'root ::= "a" other'}),
    ("grammar: Lark that is none", {"grammar": "start: ("}),
    ("structural_tag: an unknown format", {"structural_tag": '{"type": "structural_tag", "format": {"type": "regexp"}}'}),
    ("option: whitespace_pattern", {"json": PERSON, "whitespace_pattern": " ?"}),
    ("option: disable_any_whitespace", {"json": PERSON, "disable_any_whitespace": True}),
    ("option: disable_additional_properties", {"json": PERSON, "disable_additional_properties": True}),
]
TOOLS = [
    {"type": "function", "function": {"name": "weather", "strict": True, "parameters": PERSON}},
    {
        "type": "function",
        "function": {
            "name": "clock",
            "strict": True,
            "parameters": {
                "type": "object",
                "properties": {"zone": {"enum": ["utc", "cet"]}},
                "required": ["zone"],
                "additionalProperties": False,
            },
        },
    },
]
PARAMETERS = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}


MANY = [CASES[index % len(CASES)] for index in range(150)]
UNBOUNDED = ("json_object", "structural_tag, older form")  # the model may go on until it has had enough tokens


class Checks:
    """Counts and prints."""

    def __init__(self) -> None:
        self.failed = 0
        self.passed = 0

    def check(self, name: str, holds: object, shown: object = "") -> None:
        """One line."""
        self.passed += bool(holds)
        self.failed += not holds
        print(f"{'ok  ' if holds else 'FAIL'} {name}{f': {shown}' if shown != '' else ''}", flush=True)

    def answer(self, where: str, case: Case, text: str, reason: str | None) -> None:
        """An answer to a request."""
        self.check(f"{where} {case[0]}", ended(case, text, reason), f"{text[:70]!r} ({reason})")


def most(name: str) -> int:
    """How many tokens a request may take: what need not end is cut soon."""
    return 40 if name in UNBOUNDED else 300


def ended(case: Case, text: str, reason: str | None) -> bool:
    """Whether an answer is valid, by somebody else's opinion; one without an end may be cut."""
    name, _, valid = case
    try:
        return (reason == "length" and name in UNBOUNDED) or (reason in ("stop", "tool_calls") and valid(text))
    except ValueError:
        return False


def engine(**options: Any) -> Any:
    """An `LLM` around the demo model."""
    os.environ.update(ENVIRONMENT, VLLM_ENABLE_V1_MULTIPROCESSING="0")
    sys.path.insert(0, str(SCRIPTS))
    from stackmask.integration.demo import demo_model_path
    from stackmask.integration.vllm import register

    register()  # `LLM` builds its configuration before it loads plug-ins
    from vllm import LLM
    from vllm_cpu_executor import CpuExecutor

    return LLM(
        model=str(demo_model_path()),
        max_model_len=512,
        enforce_eager=True,
        dtype="float32",
        distributed_executor_backend=CpuExecutor,
        structured_outputs_config={"backend": "stackmask"},
        async_scheduling=False,
        **options,
    )


def sampling(constraint: dict[str, Any], **options: Any) -> Any:
    """The parameters of a request."""
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    params = {"temperature": 1.0, "max_tokens": 300, **options}
    return SamplingParams(structured_outputs=StructuredOutputsParams(**constraint), **params)


def offline(check: Checks) -> None:
    """The library, without speculation."""
    llm = engine(max_num_seqs=256)
    manager = llm.llm_engine.engine_core.engine_core.scheduler.structured_output_manager
    for case in CASES:
        for seed in range(3):
            answer = llm.generate([COPY], sampling(case[1], seed=seed), use_tqdm=False)[0].outputs[0]
            check.answer("offline", case, answer.text, answer.finish_reason)
    check.check("the engine's backend", manager.backend_name == "stackmask", type(manager.backend).__module__)
    from vllm.exceptions import VLLMValidationError

    for name, constraint in WRONG:
        try:
            llm.generate([COPY], sampling(constraint), use_tqdm=False)
            check.check(f"refused {name}", False)
        except VLLMValidationError as error:
            check.check(f"refused {name}", True, str(error).split("\n")[0][:90])
    stop = llm.get_tokenizer().convert_tokens_to_ids("<|user|>")
    both = [
        llm.generate([COPY], sampling({"regex": "a{3}"}, stop_token_ids=[stop], seed=seed, temperature=2), use_tqdm=False)[0]
        for seed in range(40)
    ]
    check.check("stop tokens end only what is complete", all(answer.outputs[0].text == "aaa" for answer in both))
    check.check("each stop token may end it", {answer.outputs[0].stop_reason for answer in both} == {None, stop})
    params = [sampling(constraint, seed=index, max_tokens=most(name)) for index, (name, constraint, _) in enumerate(MANY)]
    start, submit, chunks = time.monotonic(), manager._async_submit_fill_bitmask, []
    manager._async_submit_fill_bitmask = lambda batch: chunks.append(len(batch)) or submit(batch)
    answers = [answer.outputs[0] for answer in llm.generate(["Say: "] * len(MANY), params, use_tqdm=False)]
    bad = [case[0] for case, answer in zip(MANY, answers, strict=True) if not ended(case, answer.text, answer.finish_reason)]
    check.check(f"{len(MANY)} requests at once", not bad, f"{time.monotonic() - start:.1f} s, not valid: {bad}")
    check.check("rows were filled by a pool of threads", len(chunks) > 10, f"{len(chunks)} chunks of up to {max(chunks, default=0)}")
    beams(check, llm)


def beams(check: Checks, llm: Any) -> None:
    """Offline beam search, where beams are forks."""
    from vllm.sampling_params import BeamSearchParams, StructuredOutputsParams

    from stackmask.integration.vllm.beam import BeamBackend

    forks: list[int] = []
    destroy = BeamBackend.destroy

    def count(self: Any) -> None:
        forks.append(self.forks)
        destroy(self)

    BeamBackend.destroy = count  # type: ignore[method-assign]
    params = BeamSearchParams(beam_width=4, max_tokens=120, structured_outputs=StructuredOutputsParams(json=PERSON))
    found = llm.beam_search([{"prompt": COPY}], params, use_tqdm=False)[0].sequences
    decode = llm.get_tokenizer().decode
    texts = [decode(beam.tokens[len(beam.orig_prompt["prompt_token_ids"]) :], skip_special_tokens=True) for beam in found]
    check.check("beam search", len(texts) == 4 and all(is_person(text) for text in texts), texts[0][:70])
    check.check("beams are forks", forks and forks[0] > 50, f"{forks} forks")
    BeamBackend.destroy = destroy  # type: ignore[method-assign]


def drafts(check: Checks) -> None:
    """The library, with n-gram speculation."""
    llm = engine(max_num_seqs=16, speculative_config={"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 2})
    executor = llm.llm_engine.engine_core.engine_core.model_executor
    for case in CASES:
        for answer in llm.generate([COPY] * 4, [sampling(case[1], seed=seed) for seed in range(4)], use_tqdm=False):
            check.answer("drafts", case, answer.outputs[0].text, answer.outputs[0].finish_reason)
    greedy = llm.generate([COPY], sampling({"json": PERSON}, temperature=0), use_tqdm=False)[0].outputs[0].text
    check.check("drafts were accepted", executor.accepted_drafts > 20, executor.accepted_drafts)
    check.check("a greedy answer with drafts", is_person(greedy), greedy[:70])


def forced(check: Checks) -> None:
    """Forced text as drafts: as many answers with it and without, seed by seed."""
    llm = engine(max_num_seqs=1, speculative_config={"method": "ngram", "num_speculative_tokens": 8, "prompt_lookup_max": 2})
    core = llm.llm_engine.engine_core.engine_core
    backend_of = core.scheduler.structured_output_manager
    llm.generate([COPY], sampling({"choice": ["a"]}), use_tqdm=False)  # makes the backend
    most = backend_of.backend.most_forced
    check.check("forced text becomes drafts", most == 8, most)
    for what, constraint in (("tool calls", {"structural_tag": json.dumps(FORCED_CALLS)}), ("schemas", {"json": PERSON})):
        texts, steps = {}, {}
        for on in (0, most):
            backend_of.backend.most_forced, before = on, core.model_executor.steps
            seeds = [sampling(constraint, seed=seed) for seed in range(FORCED_ANSWERS)]
            texts[on] = [llm.generate(["Say: "], params, use_tqdm=False)[0].outputs[0].text for params in seeds]
            steps[on] = core.model_executor.steps - before
        check.check(f"{what}: the same texts", texts[0] == texts[most], texts[0][0][:70])
        check.check(
            f"{what}: fewer steps", steps[most] < steps[0], f"{steps[0]} to {steps[most]}, {steps[0] / steps[most]:.2f} times fewer"
        )


@contextmanager
def server() -> Iterator[str]:
    """`vllm serve` on a free port."""
    from stackmask.integration.demo import demo_model_path

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = (
        f"--port {port} --host 127.0.0.1 --served-model-name demo --max-model-len 512 --max-num-seqs 256 --dtype float32 --enforce-eager "
        "--no-async-scheduling --disable-uvicorn-access-log --distributed-executor-backend vllm_cpu_executor.CpuExecutor "
        "--structured-outputs-config.backend stackmask --enable-auto-tool-choice --tool-call-parser hermes"
    )
    command = [str(Path(sys.executable).parent / "vllm"), "serve", str(demo_model_path()), *options.split()]
    process = subprocess.Popen(command, env={**os.environ, **ENVIRONMENT}, start_new_session=True)
    try:
        for _ in range(240):
            time.sleep(0.5)
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                    break
            except OSError:
                if process.poll() is not None:
                    raise RuntimeError("vllm serve ended") from None
        yield f"http://127.0.0.1:{port}/v1/"
    finally:
        process.terminate()
        process.wait(30)


def post(url: str, **body: Any) -> tuple[int, Any]:
    """A request, as the status and the JSON of its answer."""
    data = json.dumps({"model": "demo", "max_tokens": 300, "temperature": 1.0, **body}).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def serve(check: Checks) -> None:
    """The server, over HTTP."""
    messages = [{"role": "user", "content": COPY}]
    with server() as url:

        def chat(case: Case, **body: Any) -> None:
            status, answer = post(url + "chat/completions", messages=messages, **body)
            choice = answer["choices"][0] if status == 200 else {"message": {"content": json.dumps(answer)}, "finish_reason": str(status)}
            check.answer("serve", case, choice["message"]["content"], choice["finish_reason"])

        for seed in range(2):
            for case in CASES:
                chat(case, structured_outputs=case[1], seed=seed)
        schema = {"name": "person", "strict": True, "schema": PERSON}
        chat(("response_format json_schema", {}, is_person), response_format={"type": "json_schema", "json_schema": schema})
        chat(("json_object", {}, is_object), response_format={"type": "json_object"})
        chat(("response_format structural_tag", {}, CASES[7][2]), response_format=TAG)
        tools(check, url)
        for name, constraint in WRONG:
            status, answer = post(url + "chat/completions", messages=messages, structured_outputs=constraint)
            check.check(f"serve refused {name}", status == 400, f"HTTP {status} {json.dumps(answer)[:110]}")
        status, answer = post(
            url + "chat/completions",
            messages=messages,
            response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "strin"}}},
        )
        check.check("serve refused response_format", status == 400, f"HTTP {status} {json.dumps(answer)[:110]}")
        start = time.monotonic()

        def complete(index: int) -> tuple[int, Any]:
            return post(url + "completions", prompt="Say: ", structured_outputs=MANY[index][1], seed=index, max_tokens=most(MANY[index][0]))

        with ThreadPoolExecutor(len(MANY)) as pool:
            choices = [answer["choices"][0] for status, answer in pool.map(complete, range(len(MANY))) if status == 200]
        bad = [case[0] for case, choice in zip(MANY, choices, strict=True) if not ended(case, choice["text"], choice["finish_reason"])]
        check.check(f"serve {len(MANY)} requests at once", not bad, f"{time.monotonic() - start:.1f} s, not valid: {bad}")


def tools(check: Checks, url: str) -> None:
    """A tool by its name, any tool, and a tool or none, with vLLM's parser for them."""
    messages = [{"role": "user", "content": COPY}]
    for seed in range(3):
        for name, choice in [("named", {"type": "function", "function": {"name": "clock"}}), ("required", "required"), ("auto", "auto")]:
            status, answer = post(url + "chat/completions", messages=messages, tools=TOOLS, tool_choice=choice, seed=seed)
            if status != 200:
                check.check(f"serve tool_choice {name}", False, f"HTTP {status} {json.dumps(answer)[:110]}")
                continue
            calls = answer["choices"][0]["message"].get("tool_calls") or []
            functions = [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]
            holds = all(jsonschema.Draft202012Validator(PARAMETERS[function]).is_valid(arguments) for function, arguments in functions)
            if name != "auto":
                holds = holds and bool(functions) and (name == "required" or all(function == "clock" for function, _ in functions))
            check.check(f"serve tool_choice {name}", holds, json.dumps(functions)[:90])


def main() -> int:
    """Run what is asked for; each in a separate process, since one process has one engine."""
    parts = {"offline": offline, "drafts": drafts, "forced": forced, "serve": serve}
    if len(sys.argv) == 1:
        codes = [subprocess.run([sys.executable, __file__, part], check=False).returncode for part in parts]
        return max(codes)
    check = Checks()
    parts[sys.argv[1]](check)
    print(f"{sys.argv[1]}: {check.passed} checks hold, {check.failed} do not", flush=True)
    return int(check.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
