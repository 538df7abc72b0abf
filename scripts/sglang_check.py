"""stackmask inside a real SGLang, on a CPU: `scripts/sglang_environment.sh DIR && DIR/bin/python scripts/sglang_check.py`.

Each check drives SGLang's own code and compares what comes out with an oracle: the grammar walked token by token, `re` or `jsonschema`.
There is no forward pass but in `forced_drafts`; elsewhere tokens are drawn at random from what the mask allows.
"""

from __future__ import annotations

import importlib
import io
import json
import logging
import multiprocessing
import os
import random
import re
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from importlib import metadata
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore")
DEMO = Path(__file__).parent.parent / "integration" / "demo" / "model"
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Z][a-z]{1,9}$"},
        "age": {"type": "integer", "minimum": 0, "maximum": 130, "multipleOf": 5},
        "tags": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": True, "minItems": 1, "maxItems": 3},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}
TOOL = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, "required": ["city"], "additionalProperties": False}
EBNF = 'root ::= "(" root ")" | [0-9]{1,3}'
REGEX = r"[a-f]{3}-(0|[1-9][0-9]{0,2})"
TAG = {
    "type": "structural_tag",
    "format": {
        "type": "tags_with_separator",
        "tags": [{"type": "tag", "begin": "<f>", "content": {"type": "json_schema", "json_schema": TOOL}, "end": "</f>"}],
        "separator": "\n",
        "at_least_one": True,
        "stop_after_first": True,
    },
}
OLDER = {
    "type": "structural_tag",
    "structures": [{"begin": "<f>", "schema": TOOL, "end": "</f>"}],
    "triggers": ["<f>"],
    "at_least_one": True,
}

CHECKS: list[Callable[[], str]] = []


def check(function: Callable[[], str]) -> Callable[[], str]:
    """Have `main` run a function, which says what it found or raises."""
    CHECKS.append(function)
    return function


def stage(*options: str, backend: str = "stackmask") -> Any:
    """The grammar stage of a server with these options."""
    from sglang_stage import Stage

    return Stage(DEMO, "--grammar-backend", backend, *options)


def write(at: Any, request: Any, seed: int, most: int = 400) -> list[int]:
    """Tokens drawn at random from what SGLang's masked logits leave, until the grammar is terminated."""
    generator = random.Random(seed)
    tokens: list[int] = []
    while not request.grammar.is_terminated():
        allowed = sorted(at.allowed(request))
        assert allowed, f"nothing is allowed after {at.tokenizer.decode(tokens)!r}"
        short = at.stop in allowed and (len(allowed) == 1 or generator.random() < 0.3)
        tokens.append(at.stop if short else generator.choice(allowed))
        request.grammar.accept_token(tokens[-1])
        assert len(tokens) < most, f"no end: {at.tokenizer.decode(tokens)!r}"
    return tokens


def text_of(at: Any, tokens: list[int]) -> str:
    """What SGLang's detokenizer makes of an answer: without the token that ended it."""
    assert tokens[-1] == at.stop
    return str(at.tokenizer.decode(tokens[:-1], skip_special_tokens=False))


@check
def command_line() -> str:
    """The name is refused without the plug-in and taken with it, by SGLang's own parser and loader."""
    from sglang.srt.plugins import load_plugins
    from sglang.srt.server_args import prepare_server_args

    from stackmask.integration.sglang import register

    arguments = ["--model-path", str(DEMO), "--device", "cpu", "--grammar-backend", "stackmask"]
    errors = sys.stderr
    try:
        sys.stderr = io.StringIO()
        prepare_server_args(arguments)
        raise AssertionError("SGLang knew the name before the plug-in was loaded")
    except SystemExit:
        pass
    finally:
        sys.stderr = errors
    load_plugins()
    assert prepare_server_args(arguments).grammar_backend == "stackmask", "the entry point was not found; is stackmask installed?"
    from sglang.srt.arg_groups.choices import GRAMMAR_BACKEND_CHOICES
    from sglang.srt.constrained.base_grammar_backend import GRAMMAR_BACKEND_REGISTRY

    before = dict(GRAMMAR_BACKEND_REGISTRY)
    register()
    register()
    assert before == GRAMMAR_BACKEND_REGISTRY
    assert GRAMMAR_BACKEND_CHOICES.count("stackmask") == 1
    return "found by its entry point; registering again changes nothing"


@check
def help_command() -> str:
    """A new process of `python -m sglang.launch_server --help` lists the backend."""
    code = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); import sglang_stage, runpy; sys.argv[1:] = ['--help'];"
        "runpy.run_module('sglang.launch_server', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code, str(Path(__file__).parent)], capture_output=True, text=True, check=False)
    line = next((line for line in done.stdout.splitlines() if "llguidance" in line and "stackmask" in line), "")
    assert line, done.stderr[-2000:]
    return line.strip()[:90]


@check
def every_kind() -> str:
    """Json, any json, regex, ebnf and structural tags of both forms: what is written fits, whatever is drawn."""
    from jsonschema import Draft202012Validator

    at = stage()
    kinds: dict[str, tuple[dict[str, str], Callable[[str], Any]]] = {
        "json": ({"json_schema": json.dumps(PERSON)}, lambda text: Draft202012Validator(PERSON).validate(json.loads(text))),
        "any json": ({"json_schema": "$$ANY$$"}, json.loads),
        "regex": ({"regex": REGEX}, lambda text: re.fullmatch(REGEX, text) or sys.exit(text)),
        "ebnf": ({"ebnf": EBNF}, lambda text: re.fullmatch(r"\(*\d{1,3}\)*", text) or sys.exit(text)),
        "structural_tag": ({"structural_tag": json.dumps(TAG)}, lambda text: json.loads(re.fullmatch(r"<f>(.*)</f>", text, re.S)[1])),  # type: ignore[index]
    }
    written = 0
    for name, (constraint, validate) in kinds.items():
        for seed in range(10):
            request = at.new(**constraint)
            assert request.grammar is not None, name
            validate(text_of(at, write(at, request, seed, 3000)))
            written += 1
    request = at.new(structural_tag=json.dumps(OLDER))
    for token in at.tokenizer.encode('<f>{"city": "Ulm"}</f>', add_special_tokens=False):
        assert at.stop not in at.allowed(request), "an answer without the one call that was asked for"
        request.grammar.accept_token(token)
    for token in at.tokenizer.encode(" and some words", add_special_tokens=False):
        assert at.stop in at.allowed(request)
        request.grammar.accept_token(token)
    return f"{written} answers fit; the older form of a tag waits for its call"


@check
def openai_requests() -> str:
    """What SGLang's OpenAI protocol makes of response formats and of its own fields is served, each as its kind."""
    from sglang.srt.entrypoints.openai.protocol import ChatCompletionRequest
    from sglang_stage import failure

    at = stage()
    message = [{"role": "user", "content": "hello"}]
    schema_format = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
    fields: list[tuple[dict[str, Any], str]] = [
        ({"response_format": {"type": "json_object"}}, "json"),
        ({"response_format": schema_format}, "json"),
        ({"response_format": TAG}, "structural_tag"),
        ({"response_format": OLDER}, "structural_tag"),
        ({"regex": REGEX}, "regex"),
        ({"ebnf": EBNF}, "ebnf"),
    ]
    for field, kind in fields:
        given = ChatCompletionRequest(model="demo", messages=message, **field).to_sampling_params([], {})
        constraint = {name: given[name] for name in ("json_schema", "regex", "ebnf", "structural_tag") if given.get(name)}
        request = at.new(**constraint)
        assert not failure(request), failure(request)
        assert request.grammar.kind == kind
    return f"{len(fields)} requests"


@check
def asynchronous_compile() -> str:
    """The first request waits in the queue, the next is served by a copy at once, and the two go their own ways."""
    at = stage()
    first = at.request(json_schema=json.dumps(PERSON))
    assert at.manager.process_req_with_grammar(first), "it should wait"
    assert isinstance(first.grammar, Future)
    at.admit()
    second = at.request(json_schema=json.dumps(PERSON))
    begin = time.perf_counter()
    assert not at.manager.process_req_with_grammar(second), "it should be served from the cache"
    spent = time.perf_counter() - begin
    assert not first.grammar.grammar_stats.is_cache_hit
    assert second.grammar.grammar_stats.is_cache_hit
    assert first.grammar.grammar_stats.compilation_time > 0
    assert first.grammar.grammar_stats.dispatch_type == "json"
    write(at, first, 1)
    assert first.grammar.is_terminated()
    assert not second.grammar.is_terminated()
    assert second.grammar.current_token is None
    many = [at.request(json_schema=json.dumps(PERSON | {"title": f"{index % 8}"})) for index in range(64)]
    at.admit(*many)
    assert all(request.grammar is not None for request in many)
    at.manager.clear()
    assert len(at.manager.grammar_backend.cache) == 0
    return f"a copy takes {spent * 1e6:.0f} us; 64 requests for 8 schemas at once"


@check
def batch_mask() -> str:
    """A batch of constrained, free, finished and terminated rows: every bit is what acceptance says."""
    import torch

    at = stage()
    kinds: list[dict[str, str]] = [{"json_schema": json.dumps(PERSON)}, {"regex": REGEX}, {"ebnf": EBNF}, {"json_schema": "$$ANY$$"}]
    batch = [at.new(**kinds[index % len(kinds)]) for index in range(12)]
    generator = random.Random(5)
    for request in batch:
        for _ in range(generator.randrange(8)):
            if not request.grammar.is_terminated():
                request.grammar.accept_token(generator.choice(sorted(at.allowed(request) - {at.stop}) or [at.stop]))
    free = at.request()
    done = at.new(regex="a")
    for token in [*at.tokenizer.encode("a", add_special_tokens=False), at.stop]:
        done.grammar.accept_token(token)
    finished = at.new(regex="a")
    finished.grammar.finished = True
    batch[3:3] = [free, done, finished]
    logits = torch.zeros(len(batch), at.vocab_size)
    at.mask(batch).apply_logits_bias(logits)
    bits = torch.isfinite(logits)
    tested = 0
    for row, request in enumerate(batch):
        if request in (free, done, finished):
            assert bits[row].all()
            continue
        for token in range(at.vocab_size):
            fork = request.grammar.copy()
            try:
                fork.accept_token(token)
                accepted = True
            except ValueError:
                accepted = False
            assert accepted == bool(bits[row, token]), (row, token)
            tested += 1
    return f"{tested:,} bits of {len(batch)} rows agree with acceptance"


def tree(
    generator: random.Random, size: int, candidates: Callable[[list[int]], list[int]]
) -> tuple[list[int], list[int], list[int], list[int]]:
    """A tree of drafts as SGLang lays it out (tokens, next child, next sibling), and its parents."""
    tokens, child, sibling, parents = [0], [-1], [-1], [-1]
    for node in range(1, size):
        parent = generator.randrange(max(0, node - 4), node)
        path, place = [], parent
        while place > 0:
            path.append(tokens[place])
            place = parents[place]
        tokens.append(generator.choice(candidates(path[::-1])))
        child.append(-1)
        sibling.append(-1)
        parents.append(parent)
        if child[parent] < 0:
            child[parent] = node
        else:
            last = child[parent]
            while sibling[last] >= 0:
                last = sibling[last]
            sibling[last] = node
    return tokens, child, sibling, parents


@check
def draft_tree() -> str:
    """SGLang's walk over trees of drafts, right and wrong ones and stop tokens among them, gives the masks of the plain walk."""
    import torch
    from sglang.srt.speculative.spec_utils import generate_token_bitmask

    at = stage()
    generator = random.Random(11)
    requests = [at.new(regex=r"(ab|ac|b){2,90}"), at.new(json_schema=json.dumps(PERSON)), at.new(ebnf=EBNF), at.request()]
    size, compared, rejected = 32, 0, 0
    for _ in range(30):
        trees = []
        for request in requests:

            def candidates(path: list[int], request: Any = request) -> list[int]:
                wrong = [generator.randrange(at.vocab_size), at.stop]
                if request.grammar is None:
                    return wrong
                right = sorted(after(request.grammar, path, at.vocab_size) or ())
                return right if right and generator.random() < 0.9 else wrong

            trees.append(tree(generator, size, candidates))
        columns = [torch.tensor([item[place] for item in trees], dtype=torch.int64) for place in (1, 2, 0)]
        before = [request.grammar and request.grammar.matcher.num_accepted for request in requests]
        mask, grammar = generate_token_bitmask(requests, *columns, at.vocab_size)
        assert before == [request.grammar and request.grammar.matcher.num_accepted for request in requests]
        assert grammar is not None
        for index, (tokens, _, _, parents) in enumerate(trees):
            for node in range(size):
                path, place = [], node
                while place > 0:
                    path.append(tokens[place])
                    place = parents[place]
                row = mask[index * size + node]
                expected = None if requests[index].grammar is None else after(requests[index].grammar, path[::-1], at.vocab_size)
                if expected is None:  # free, refused, or past the end: SGLang leaves such a row as it was
                    assert bool((row == -1).all())
                    rejected += 1
                else:
                    assert bits_of(row) == expected
                    compared += 1
        for request in requests[:3]:  # one token further
            if not request.grammar.is_terminated():
                request.grammar.accept_token(generator.choice(sorted(after(request.grammar, [], at.vocab_size) or ())))
    return f"{compared} rows of drafts are exact, {rejected} were refused or free"


def bits_of(row: Any) -> set[int]:
    """The tokens whose bit is set."""
    return {32 * place + bit for place, word in enumerate(row.tolist()) for bit in range(32) if word >> bit & 1}


def after(grammar: Any, path: list[int], vocab_size: int) -> set[int] | None:
    """What may come after some tokens, by a copy that takes them one by one; None where it cannot or is at the end."""
    import torch

    fork = grammar.copy()
    try:
        for token in path:
            if fork.is_terminated():
                return None
            fork.accept_token(token)
    except ValueError:
        return None
    if fork.is_terminated():
        return None
    mask = fork.allocate_vocab_mask(vocab_size, 1, "cpu")
    fork.fill_vocab_mask(mask, 0)
    assert mask.dtype == torch.int32
    return bits_of(mask[0])


@check
def commit() -> str:
    """SGLang's acceptance of verified tokens stops at the stop token, ends the request by it, and aborts a request with a wrong one."""
    from sglang.srt.managers.scheduler_components.batch_result_processor import SchedulerBatchResultProcessor as Processor

    at = stage()
    request = at.new(regex="ab")
    tokens = [*at.tokenizer.encode("ab", add_special_tokens=False), at.stop]
    retained = Processor._accept_grammar_tokens(None, request, [*tokens, 17, 18])
    assert retained == tokens
    assert request.grammar.is_terminated()
    request.output_ids.extend(retained)
    request.update_finish_state(len(retained))
    assert request.finished_reason.to_json() == {"type": "stop", "matched": at.stop}
    wrong = at.new(regex="ab")
    retained = Processor._accept_grammar_tokens(None, wrong, at.tokenizer.encode("b", add_special_tokens=False))
    assert retained == []
    return f"matched the stop token; a wrong token says: {wrong.to_finish.message[:90]!r}"


@check
def reasoning() -> str:
    """The grammar begins after the end of the thinking; rolling back and drafting across it, in a batch with others."""
    import torch
    from sglang.srt.speculative.spec_utils import generate_token_bitmask

    at = stage("--reasoning-parser", "qwen3")
    end = at.tokenizer.encode("</think>", add_special_tokens=False)
    assert len(end) == 1
    words = at.tokenizer.encode("first, some thoughts", add_special_tokens=False)
    thinking = at.new(reasoning=True, regex="[ab]{4}")
    direct = at.new(reasoning=False, regex="[ab]{4}")
    a = at.tokenizer.encode("a", add_special_tokens=False)
    everything = set(range(at.vocab_size))
    inside = at.allowed(direct)
    assert inside != everything
    assert at.allowed(thinking) == everything
    for token in words:
        thinking.grammar.accept_token(token)
    assert at.allowed(thinking) == everything
    thinking.grammar.accept_token(end[0])
    assert at.allowed(thinking) == inside
    thinking.grammar.accept_token(a[0])
    deeper = at.allowed(thinking)
    for back in range(1, len(words) + 2):  # ever further back, into the thinking, and forward again
        thinking.grammar.rollback(back)
        history = [*words, end[0], a[0]]
        assert at.allowed(thinking) == (inside if back == 1 else everything)
        for token in history[len(history) - back :]:
            thinking.grammar.accept_token(token)
        assert at.allowed(thinking) == deeper
    thinking.grammar.rollback(2)
    chain = [0, end[0], a[0], at.stop, a[0]]  # the draft thinks to its end, answers, and stops too early
    links = [1, 2, 3, 4, -1]
    columns = [torch.tensor([values], dtype=torch.int64) for values in (links, [-1] * 5, chain)]
    mask, _ = generate_token_bitmask([thinking], *columns, at.vocab_size)
    assert bool((mask[0] == -1).all())
    assert bits_of(mask[1]) == inside
    assert bits_of(mask[2]) == deeper
    assert bool((mask[3] == -1).all())
    for token in [end[0], *a * 4, at.stop]:
        assert not thinking.grammar.is_terminated()
        thinking.grammar.accept_token(token)
    assert thinking.grammar.is_terminated()
    thinking.grammar.rollback(2)
    assert not thinking.grammar.is_terminated()
    hit = at.request(reasoning=True, regex="[ab]{4}")
    assert not at.manager.process_req_with_grammar(hit)
    assert at.allowed(hit) == everything
    batch = [hit, direct, at.request()]
    logits = torch.zeros(3, at.vocab_size)
    at.mask(batch).apply_logits_bias(logits)
    assert [set(torch.isfinite(row).nonzero().flatten().tolist()) for row in logits] == [everything, inside, everything]
    return f"rolled back up to {len(words) + 1} tokens across the end; a draft that crosses it is masked from there"


@check
def strict_thinking() -> str:
    """Strict thinking bounds the thoughts by the token filter, with a grammar behind them and without."""
    os.environ["SGLANG_MAX_THINK_TOKENS"] = "3"
    try:
        at = stage("--reasoning-parser", "qwen3", "--enable-strict-thinking")
        end = at.tokenizer.encode("</think>", add_special_tokens=False)[0]
        word = at.tokenizer.encode("so", add_special_tokens=False)[0]
        for request in (at.new(reasoning=True, regex="[ab]{2}"), at.new(reasoning=True)):
            for _ in range(3):
                assert len(at.allowed(request)) > 1000
                request.grammar.accept_token(word)
            assert at.allowed(request) == {end}
            request.grammar.rollback(1)
            assert len(at.allowed(request)) > 1000
            request.grammar.accept_token(word)
            request.grammar.accept_token(end)
            assert (len(at.allowed(request)) > 1000) == (request.grammar.grammar is None)
    finally:
        del os.environ["SGLANG_MAX_THINK_TOKENS"]
    return "after three tokens nothing but the end of the thinking is allowed"


@check
def invalid_grammars() -> str:
    """What is wrong, and what cannot be enforced, is refused with its reason, at once when it is asked for again."""
    from sglang_stage import failure

    at = stage()
    wrong: list[tuple[dict[str, str], str]] = [
        ({"json_schema": '{"type": "objekt"}'}, "objekt"),
        ({"json_schema": "{"}, "not JSON"),
        ({"json_schema": '{"type": "string", "pattern": "("}'}, "pattern"),
        ({"json_schema": '{"type": "integer", "minimum": 3, "maximum": 2}'}, "no instance"),
        ({"regex": "(a"}, "line 1"),
        ({"regex": r"(a)\1"}, "back"),
        ({"ebnf": "root ::= missing"}, "missing"),
        ({"structural_tag": '{"type": "structural_tag", "format": {"type": "poem"}}'}, "poem"),
        ({"structural_tag": '{"structures": [{"begin": "<f>", "end": "x", "speed": 3}], "triggers": ["<f"]}'}, "speed"),
        ({"structural_tag": '{"type": "structural_tag"}'}, "format"),
    ]
    for constraint, word in wrong:
        first = at.new(**constraint)
        assert word in failure(first), (constraint, failure(first))
        again = at.request(**constraint)
        assert not at.manager.process_req_with_grammar(again), "a cached failure"
        assert failure(again) == failure(first)
    deep = '{"items": ' * 5000 + "true" + "}" * 5000
    assert failure(at.new(json_schema=deep))
    assert at.new(regex="still (alive|here)").grammar is not None
    return f"{len(wrong)} refusals, each with its reason; nested 5,000 deep is refused too"


SLOW = json.dumps({"enum": [f"word{index * 7919 % 1_000_003}" for index in range(100_000)]})


@check
def timeouts() -> str:
    """A slow grammar ends by our budget, or by SGLang's own clock; the server goes on."""
    from sglang_stage import failure

    os.environ["STACKMASK_SGLANG_COMPILE_SECONDS"] = "0.1"
    try:
        at = stage()
        slow = at.new(json_schema=SLOW)
        assert "more than 0.1 s" in failure(slow), failure(slow)
        assert at.new(regex="a+").grammar is not None
    finally:
        del os.environ["STACKMASK_SGLANG_COMPILE_SECONDS"]
    assert stage().new(json_schema=SLOW).grammar is not None
    os.environ["SGLANG_GRAMMAR_MAX_POLL_ITERATIONS"] = "20"
    try:
        at = stage()  # whose process for compiling takes longer to start than 20 polls of 5 ms
        slow = at.new(regex="a+")
        assert "timed out" in failure(slow), failure(slow)
        again = at.request(regex="a+")
        assert not at.manager.process_req_with_grammar(again)
        assert "timed out" in failure(again)
        for number in range(1, 61):  # until the process has started, which a busy machine takes longer for
            if at.new(regex=f"b{{{number}}}").grammar is not None:
                break
            time.sleep(1)
        else:
            raise AssertionError("no grammar compiled after one that timed out")
    finally:
        del os.environ["SGLANG_GRAMMAR_MAX_POLL_ITERATIONS"]
    return "by our budget, and by SGLang's polls"


@check
def jump_forward() -> str:
    """The text that must come, and retokenizing by it, through the wrapper for reasoning too."""
    at = stage("--reasoning-parser", "qwen3")
    request = at.new(reasoning=False, regex="the answer is (yes|no)")
    helper = request.grammar.try_jump_forward(at.tokenizer)
    text, state = request.grammar.jump_forward_str_state(helper)
    assert text == "the answer is "
    old = at.tokenizer.encode("the", add_special_tokens=False)
    for token in old:
        request.grammar.accept_token(token)
    new = at.tokenizer.encode("the answer is yes", add_special_tokens=False)
    request.grammar.jump_and_retokenize(old, new, state)
    assert at.allowed(request) == {at.stop}
    return f"{text!r} is forced"


@check
def answer_frame() -> str:
    """A grammar in the answer frame of a chat format: thoughts, then the answer, each in its message."""
    from sglang.srt.parser import answer_frame as frames

    at = stage()
    backend, names = at.manager.grammar_backend, ["message_model", "content_text", "content_thinking", "end_message"]
    spare = at.tokenizer.convert_tokens_to_ids(["<|system|>", "<|user|>", "<|assistant|>", "<|tool|>"])
    real = frames.INKLING_SPECIAL_TOKEN_IDS
    constants = [frames.MESSAGE_MODEL, frames.CONTENT_TEXT, frames.CONTENT_THINKING, frames.END_MESSAGE]
    frames.INKLING_SPECIAL_TOKEN_IDS = dict(zip(constants, spare, strict=True))  # the ids of that model are beyond this vocabulary
    try:
        frame = frames.InklingAnswerFrame()
        backend.reserve_framing_tokens(frame.framing_token_ids())
        ids = dict(zip(names, spare, strict=True))
        thoughts = at.tokenizer.encode("hm", add_special_tokens=False)[:1]
        for kind, text, answer in (("regex", "yes|no", "yes"), ("json", '{"const": "yes"}', '"yes"'), ("ebnf", 'root ::= "yes"', "yes")):
            inner = backend._init_value_dispatch((kind, text), False)
            framed = backend.compile_framed_grammar(
                inner, lambda content: frame.structural_tag(content, in_answer_block=False, max_think_tokens=5)
            )
            assert not hasattr(framed, "error_message"), framed
            written = at.tokenizer.encode(answer, add_special_tokens=False)
            answers = [ids["message_model"], ids["content_text"], *written, ids["end_message"]]
            for path in (answers, [ids["message_model"], ids["content_thinking"], *thoughts, ids["end_message"], *answers]):
                fork = framed.copy()
                for token in [*path, at.stop]:
                    fork.accept_token(token)
                assert fork.is_terminated()
            fork = framed.copy()
            for token in [ids["message_model"], ids["content_thinking"], *thoughts * 5]:
                fork.accept_token(token)
            assert after(fork, [], at.vocab_size) == {ids["end_message"]}, "five thoughts were the budget"
    finally:
        frames.INKLING_SPECIAL_TOKEN_IDS = real
    return "regex, json and ebnf stand in the frame, after thoughts or without"


@check
def tool_detectors() -> str:
    """What SGLang's detectors of tool calls send for required, named and automatic calls; what is refused is named."""
    from sglang.srt.entrypoints.openai.protocol import Function, Tool, ToolChoice, ToolChoiceFuncName
    from sglang.srt.function_call.function_call_parser import FunctionCallParser
    from sglang_stage import failure

    at = stage()
    tools = [
        Tool(type="function", function=Function(name=name, description="", parameters=TOOL, strict=True)) for name in ("weather", "time")
    ]
    named = ToolChoice(type="function", function=ToolChoiceFuncName(name="time"))
    served, refused, without = [], {}, set()
    for name in sorted(FunctionCallParser.ToolCallParserEnum):
        try:
            parser = FunctionCallParser(tools, name)
        except Exception:  # a detector that needs its model's tokenizer
            without.add(name)
            continue
        for choice in ("required", "auto", named):
            try:
                constraint = parser.get_structure_constraint(choice)
            except Exception:
                constraint = None
            if constraint is None:
                without.add(name)
                continue
            kind, value = constraint
            text = (
                value if isinstance(value, str) else json.dumps(value.model_dump(by_alias=True) if hasattr(value, "model_dump") else value)
            )
            request = at.new(**{"ebnf" if kind == "full_assistant_ebnf" else kind: text})
            if failure(request):
                refused.setdefault(failure(request).split("\n")[0][:150], []).append(name)
            else:
                served.append(name)
    for reason, names in refused.items():
        print(f"      refused for {', '.join(sorted(set(names)))}: {reason}")
    count = sum(map(len, refused.values()))
    return f"{len(served)} constraints of {len(set(served))} detectors are served, {count} refused; none from {len(without)}"


@check
def tool_answers() -> str:
    """Calls drawn at random under the constraints of required tools are found again by SGLang's own parsers, with valid arguments."""
    from jsonschema import Draft202012Validator
    from sglang.srt.entrypoints.openai.protocol import Function, Tool
    from sglang.srt.function_call.function_call_parser import FunctionCallParser

    at = stage()
    form = {
        "type": "object",
        "properties": {"city": {"enum": ["Ulm", "Bonn", "New York"]}, "days": {"type": "integer", "minimum": 0, "maximum": 30}},
        "required": ["city", "days"],
        "additionalProperties": False,
    }
    names = ("weather", "time")
    tools = [Tool(type="function", function=Function(name=name, description="", parameters=form, strict=True)) for name in names]
    found, lost = 0, {}
    for name in sorted(FunctionCallParser.ToolCallParserEnum):
        try:
            kind, value = FunctionCallParser(tools, name).get_structure_constraint("required", parallel_tool_calls=False)
        except Exception:  # a detector that needs its model's tokenizer, or has no constraint
            continue
        text = value if isinstance(value, str) else json.dumps(value.model_dump(by_alias=True) if hasattr(value, "model_dump") else value)
        for seed in range(3):
            request = at.new(**{"ebnf" if kind == "full_assistant_ebnf" else kind: text})
            if request.grammar is None:
                continue
            answer = ""
            try:
                answer = text_of(at, write(at, request, seed, 2000))
                if kind == "json_schema":
                    calls = [(call["name"], call["parameters"]) for call in json.loads(answer)]
                else:
                    parsed = FunctionCallParser(tools, name).parse_non_stream(answer)[1]
                    calls = [(call.name, json.loads(call.parameters)) for call in parsed]
                assert calls, "no call"
                for called, arguments in calls:
                    assert called in names
                    Draft202012Validator(form).validate(arguments)
                found += 1
            except Exception as error:
                lost[name] = (f"{type(error).__name__}: {error}".split("\n")[0][:90], answer[-160:])
    for name, (reason, answer) in lost.items():
        print(f"      {name}: {reason}; {answer!r}")
    return f"{found} answers are parsed into valid calls; {len(lost)} detectors lose one"


def _rank(rank: int, port: int, results: Any) -> None:
    """One of two ranks; the second has no time to compile what is slow."""
    os.environ["STACKMASK_SGLANG_COMPILE_SECONDS"] = "60" if rank == 0 else "0.4"
    os.environ["SGLANG_GRAMMAR_MAX_POLL_ITERATIONS"] = "2000"
    import sglang_stage
    import torch.distributed as dist
    from sglang.srt.plugins import load_plugins

    logging.disable(logging.CRITICAL)
    load_plugins()
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    at = sglang_stage.Stage(DEMO, "--grammar-backend", "stackmask", "--tp-size", "2")
    at.manager.grammar_sync_group, at.manager.grammar_sync_size = dist.group.WORLD, 2
    at.manager.is_grammar_sync_entry = rank == 0
    slow = json.dumps({"enum": [f"word{index * 7919 % 1_000_003}" for index in range(400_000)]})
    found: list[Any] = []
    batches: list[list[dict[str, str]]] = [
        [{"regex": "a{3}"}],
        [{"json_schema": slow}, {"regex": "b+"}],
        [{"regex": "("}, {"json_schema": slow}],
    ]
    for batch in batches:
        requests = [at.request(**constraint) for constraint in batch]
        waits = [at.manager.process_req_with_grammar(request) for request in requests]
        end = time.monotonic() + 90
        while True:
            pending: list[Any] = [None, None]
            dist.all_gather_object(pending, at.manager.has_waiting_grammars())
            if not any(pending):
                break
            at.manager.get_ready_grammar_requests()
            assert time.monotonic() < end
        found.append((waits, [sglang_stage.failure(request)[:90] for request in requests]))
        found.append([sorted(after(request.grammar, [], at.vocab_size) or ()) if request.grammar else None for request in requests])
    results.put((rank, found))
    dist.destroy_process_group()


@check
def ranks_agree() -> str:
    """Two ranks, one too slow for a grammar: it fails on both, what is compiled is masked alike, and the queues stay in step."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    ranks = [context.Process(target=_rank, args=(rank, port, results)) for rank in range(2)]
    for process in ranks:
        process.start()
    found = dict(results.get(timeout=240) for _ in ranks)
    for process in ranks:
        process.join(30)
    assert found[0] == found[1], found
    failures = [failure for entry in found[0][::2] for failure in entry[1]]
    assert failures[0] == failures[2] == ""
    assert "timed out" in failures[1]
    assert "timed out" in failures[4]
    return f"failures on both: {[failure for failure in failures if failure]}"


def run_engine(mode: str) -> Any:
    """The answers of SGLang's engine in a mode of `sglang_engine.py`, a process of its own."""
    script = Path(__file__).with_name("sglang_engine.py")
    done = subprocess.run([sys.executable, str(script), mode], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@check
def forced_drafts() -> str:
    """Forced text as drafts in SGLang's engine: the same answers as token by token, and as by n-grams alone, in fewer steps.

    All are those of greedy decoding: in batches, with log-probabilities, cut by a limit of tokens, ended by a text, streamed, with a
    request that has no grammar in the batch, and alone with an empty corpus of n-grams. `STACKMASK_FORCED_ANSWERS` is how many there are of
    each kind, 200, and `STACKMASK_ALONE_ANSWERS` how many of these are alone, 40.
    """
    plain, ngram, forced = map(run_engine, ("plain", "ngram", "forced"))
    found = []
    for name in ("tool calls", "schemas"):
        for other in (ngram, forced):
            for what in ("texts", "finish", "tokens", "short", "stopped", "streamed"):
                assert plain[name][what] == other[name][what], f"{name}: other {what}"
            for old, new in zip(plain[name]["logprobs"], other[name]["logprobs"], strict=True):
                assert [token for _, token in old] == [token for _, token in new]
                assert all(abs(a - b) < 1e-3 for (a, _), (b, _) in zip(old, new, strict=True)), f"{name}: other log-probabilities"
        assert plain[name]["streamed"] == plain[name]["texts"][0]
        counts = [mode[name]["steps"] for mode in (plain, ngram, forced)]
        alone = [mode[name]["alone"]["steps"] for mode in (plain, ngram, forced)]
        assert plain[name]["alone"]["texts"] == ngram[name]["alone"]["texts"] == forced[name]["alone"]["texts"]
        found.append(f"{len(plain[name]['texts'])} {name} in {counts} steps, {len(plain[name]['alone']['texts'])} of them alone in {alone}")
        assert counts[2] < counts[1] < counts[0]
        if name == "tool calls":
            assert counts[0] >= 1.5 * counts[2]
            assert alone[1] >= 1.5 * alone[2], "against n-grams alone too"
    assert plain["mixed"] == ngram["mixed"] == forced["mixed"]
    return "; ".join(found) + " (token by token, by n-grams, with forced text)"


def main() -> int:
    """Run the checks named on the command line, or all."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    chosen = [function for function in CHECKS if not sys.argv[1:] or function.__name__ in ("command_line", *sys.argv[1:])]
    failed = 0
    importlib.import_module("sglang_stage")  # before the rest of SGLang
    print(f"SGLang {metadata.version('sglang')}, Python {sys.version.split()[0]}")
    for function in chosen:
        begin = time.perf_counter()
        logging.disable(logging.CRITICAL)
        try:
            found = function()
            print(f"ok    {function.__name__} ({time.perf_counter() - begin:.1f} s): {found}", flush=True)
        except Exception as error:
            failed += 1
            import traceback

            traceback.print_exc()
            print(f"FAIL  {function.__name__}: {type(error).__name__}: {error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
