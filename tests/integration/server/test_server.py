"""The server as a process of its own, and the official client against it."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")
openai = pytest.importorskip("openai")
pydantic = pytest.importorskip("pydantic")

import httpx  # noqa: E402  # the client's own dependency
from jsonschema import Draft202012Validator  # noqa: E402
from support.server import Server  # noqa: E402

import stackmask  # noqa: E402
from stackmask.integration.cli.serve import KINDS  # noqa: E402
from stackmask.integration.engine.request import KINDS as ENGINE_KINDS  # noqa: E402
from stackmask.integration.server.tools import Dialect, checked_tools  # noqa: E402
from stackmask.integration.tools import FORMATS, choose, read_tools, structural_tag  # noqa: E402

ASK = [{"role": "user", "content": "Write a person as JSON with name, age."}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"city": {"$ref": "#/$defs/City"}},
            "required": ["city"],
            "additionalProperties": False,
            "$defs": {"City": {"type": "string", "maxLength": 20}},
        },
    },
}
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer", "maximum": 99}},
            "required": ["a"],
            "additionalProperties": False,
        },
    },
}


class Person(pydantic.BaseModel):
    """A type with bounds."""

    name: str = pydantic.Field(max_length=20)
    age: int = pydantic.Field(ge=0, le=120)


@pytest.fixture(scope="module")
def server():
    server = Server("--max-body-bytes", "200000", "--max-grammar-bytes", "100000", "--grammar-timeout", "60")
    yield server
    server.stop()
    assert all(line.startswith(("serving", "  ")) for line in server.lines), f"something went wrong: {''.join(server.lines)}"


@pytest.fixture(scope="module")
def large():
    """A server with the default limits."""
    server = Server()
    yield server
    server.stop()
    assert not any("Traceback" in line for line in server.lines), "".join(server.lines)


@pytest.fixture(scope="module")
def client(server):
    with server.client() as client:
        yield client


def test_chat_with_a_json_schema(client):
    """A schema in response_format, strict or not, gives JSON that validates."""
    for strict in (True, False):
        format = {"type": "json_schema", "json_schema": {"name": "person", "schema": Person.model_json_schema(), "strict": strict}}
        answer = client.chat.completions.create(model="demo", messages=ASK, response_format=format, seed=1)
        assert Person.model_validate_json(answer.choices[0].message.content)
        assert answer.choices[0].finish_reason == "stop"
        assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_parse_and_stream_pydantic(client):
    """The client's own parsing, whole and streamed; the same seed gives the same text either way."""
    whole = client.chat.completions.parse(model="demo", messages=ASK, response_format=Person, seed=3)
    assert isinstance(whole.choices[0].message.parsed, Person)
    with client.chat.completions.stream(
        model="demo", messages=ASK, response_format=Person, seed=3, stream_options={"include_usage": True}
    ) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    assert "content.delta" in kinds
    assert final.choices[0].message.parsed == whole.choices[0].message.parsed
    assert final.usage.completion_tokens == whole.usage.completion_tokens


def test_the_limit_of_tokens(client):
    """At the limit the client raises; what it holds parses nevertheless, and the answer says that it was closed."""
    with pytest.raises(openai.LengthFinishReasonError) as caught:
        client.chat.completions.parse(model="demo", messages=ASK, response_format=Person, max_tokens=9, seed=1)
    choice = caught.value.completion.choices[0]
    assert Person.model_validate_json(choice.message.content)
    assert choice.model_extra["stackmask"] == {"closed": True, "complete": True}
    schema = {"json_schema": Person.model_json_schema()}
    with pytest.raises(openai.BadRequestError, match="cannot hold even the shortest answer"):
        client.chat.completions.create(
            model="demo", messages=ASK, max_tokens=3, extra_body={**schema, "stackmask": {"finish_within_budget": True}}
        )
    for extension in ({}, {"stackmask": {"finish_within_budget": False}}):
        cut = client.chat.completions.create(model="demo", messages=ASK, max_tokens=3, extra_body={**schema, **extension})
        assert cut.choices[0].finish_reason == "length" and cut.usage.completion_tokens == 3
    with pytest.raises(openai.LengthFinishReasonError):
        client.chat.completions.parse(model="demo", messages=ASK, response_format=Person, max_tokens=2)


@pytest.mark.parametrize(
    ("body", "pattern"),
    [
        ({"structured_outputs": {"json": {"const": 5}}}, "5"),
        ({"structured_outputs": {"regex": "[ab]{3}"}}, "[ab]{3}"),
        ({"structured_outputs": {"choice": ["yes", "no"]}}, "yes|no"),
        ({"structured_outputs": {"grammar": 'root ::= "x" [0-9]'}}, "x[0-9]"),
        ({"structured_outputs": {"grammar": 'start: "x" /[0-9]/'}}, "x[0-9]"),
        ({"structured_outputs": {"json_object": True, "disable_any_whitespace": True}}, r"\{.*\}"),
        ({"regex": "[ab]{3}"}, "[ab]{3}"),
        ({"ebnf": 'root ::= "x" [0-9]'}, "x[0-9]"),
        ({"json_schema": '{"const": 5}'}, "5"),
        ({"response_format": {"type": "regex", "regex": "[ab]{3}"}}, "[ab]{3}"),
        ({"response_format": {"type": "ebnf", "ebnf": 'root ::= "x" [0-9]'}}, "x[0-9]"),
        ({"response_format": {"type": "json_schema", "schema": {"const": 5}}}, "5"),
        ({"response_format": {"type": "lark", "grammar": 'start: "x" /[0-9]/'}}, "x[0-9]"),
        ({"response_format": {"type": "choice", "choice": ["yes", "no"]}}, "yes|no"),
        ({"response_format": {"type": "json_object"}}, r"\{(.|\n)*\}"),
    ],
    ids=lambda value: json.dumps(value)[:50] if isinstance(value, dict) else None,
)
def test_every_spelling_of_a_constraint(client, body, pattern):
    """OpenAI's, vLLM's and SGLang's fields, by chat and by completion."""
    chat = client.chat.completions.create(model="demo", messages=ASK, extra_body=body, max_tokens=60, seed=2)
    assert re.fullmatch(pattern, chat.choices[0].message.content)
    text = client.completions.create(model="demo", prompt="Text: ", extra_body=body, max_tokens=60, seed=2)
    assert re.fullmatch(pattern, text.choices[0].text)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"guided_json": {}}, "structured_outputs"),
        ({"guided_regex": "a"}, "structured_outputs"),
        ({"regex": "a", "ebnf": "b"}, "regex and ebnf"),
        (
            {"response_format": {"type": "json_object"}, "structured_outputs": {"regex": "a"}},
            "response_format and structured_outputs.regex",
        ),
        ({"regex": "a", "tools": [ADD], "tool_choice": "required"}, "tool_choice and regex"),
        ({"response_format": {"type": "choice", "choice": "yes"}}, "list of texts"),
        ({"use_beam_search": True}, "does not have use_beam_search"),
        ({"tools": [{"type": "function", "function": {"name": "a", "strict": "yes"}}]}, "strict"),
        ({"tools": [ADD], "skip_special_tokens": False}, "skip_special_tokens"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}}, "schema is missing"),
        ({"response_format": {"type": "yaml"}}, "yaml"),
        ({"response_format": {"type": "json_object", "schema": {}}}, "response_format.schema"),
        ({"structured_outputs": {}}, "no constraint"),
        ({"structured_outputs": {"regexp": "a"}}, "regexp"),
        ({"regex": "("}, "closing"),
        ({"regex": "(a{1000}){1000}{1000}"}, "regex"),
        ({"json_schema": "{"}, "not JSON"),
        ({"json_schema": {"type": "objekt"}}, "type"),
        ({"ebnf": "root ::= missing"}, "missing"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"temperature": "hot"}, "temperature"),
        ({"n": 1000}, "n:"),
        ({"nonsense": 1}, "unknown field 'nonsense': no field is ignored here"),
        ({"temprature": 1}, "unknown field 'temprature': no field is ignored here; did you mean temperature?"),
        (
            {"stackmask": {"distinct_key": True}},
            "unknown field 'stackmask.distinct_key': no field is ignored here; did you mean distinct_keys?",
        ),
        ({"tool_choice": "required"}, "no tools"),
        ({"tools": [{"type": "custom", "custom": {"name": "a", "format": {"type": "json"}}}]}, "lark or regex"),
        (
            {
                "tools": [
                    {
                        "type": "custom",
                        "custom": {"name": "a", "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "("}}},
                    }
                ]
            },
            "closing",
        ),
        ({"tools": [{**ADD, "function": {"name": "add", "parameters": {"type": "objekt"}}}]}, "objekt"),
        ({"tools": [ADD, ADD]}, "two tools"),
        ({"tools": [{"type": "function", "function": 5}]}, "needs a name"),
        ({"tools": [{"type": ["function"]}]}, "function or custom"),
        ({"tools": [ADD], "tool_choice": {"type": "allowed_tools", "tools": [{"type": ["x"]}]}}, "not one of the tools"),
        ({"tools": [ADD], "tool_choice": {"type": "allowed_tools", "mode": [], "tools": [5]}}, "mode"),
        ({"tools": [{"type": "custom", "name": "a", "format": {"type": "grammar", "grammar": 5}}]}, "lark or regex"),
        ({"tools": [ADD], "messages": [{"role": "assistant", "tool_calls": [{"custom": {"name": 5}, "type": "custom"}]}]}, "custom's name"),
        ({"tools": [ADD], "tool_choice": {"type": "function", "function": {"name": "sub"}}}, "sub"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "image_url"),
        ({"messages": []}, "messages"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"logit_bias": {"99999": 1}}, "outside"),
        ({"regex": "a" * 150_000}, "at most 100000"),
    ],
    ids=lambda value: json.dumps(value)[:50] if isinstance(value, dict) else None,
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_wrong_is_answered_with_400(server, body, message, stream):
    """Wrong and conflicting requests get OpenAI's error body before the first byte of an answer, streamed or not."""
    answer = httpx.post(f"{server.url}/v1/chat/completions", json={"model": "demo", "messages": ASK, "stream": stream, **body})
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert message in error["message"]
    assert error["type"] == "invalid_request_error" and error.keys() == {"message", "type", "param", "code"}


def test_a_body_that_is_no_json(server):
    """The error says where it stops to be JSON."""
    answer = httpx.post(f"{server.url}/v1/chat/completions", content='{"a": 1,}', headers={"Content-Type": "application/json"})
    message = "the body is not JSON: Expecting property name enclosed in double quotes at character 8"
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": "invalid_request"}
    assert (answer.status_code, answer.json()) == (400, {"error": error})


def test_hostile_bodies(server):
    """What is no request at all is refused with a reason, and the server lives on."""
    url = f"{server.url}/v1/chat/completions"
    head = b'{"model":"demo","messages":[{"role":"user","content":"x"}],'
    bodies = {
        "empty": b"",
        "not JSON": b"{",
        "not UTF-8": head + b'"regex":"\xff\xfe"}',
        "half a character": head + rb'"regex":"\ud800"}',
        "deep": head + b'"json_schema":' + b'{"not":' * 10_000 + b"{}" + b"}" * 10_000 + b"}",
        "deeper": b"[" * 90_000,
        "array": b"[]",
        "a number": head + b'"json_schema":1e999}',
    }
    for name, body in bodies.items():
        answer = httpx.post(url, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 400, (name, answer.status_code, answer.text[:300])
        assert answer.json()["error"]["message"], name
    long = httpx.post(url, content=head + b'"regex":"' + b"a" * 300_000 + b'"}')
    assert long.status_code == 413 and "longer" in long.json()["error"]["message"]
    assert httpx.get(f"{server.url}/health").json()["status"] == "ok"


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
def test_tools(client, choice, parallel):
    """A required and a named tool give calls whose arguments validate, whole and streamed."""
    options = {"tools": [WEATHER, ADD], "tool_choice": choice, "parallel_tool_calls": parallel, "max_tokens": 80, "seed": 4}
    ask = [{"role": "user", "content": "What is the weather in Oslo?"}]
    answer = client.chat.completions.create(model="demo", messages=ask, **options).choices[0]
    assert answer.finish_reason in (("stop",) if isinstance(choice, dict) else ("tool_calls", "length"))
    calls = answer.message.tool_calls
    assert calls and answer.message.content is None
    for call in calls:
        schema = {"get_weather": WEATHER, "add": ADD}[call.function.name]["function"]["parameters"]
        assert Draft202012Validator(schema).is_valid(json.loads(call.function.arguments))
    with client.chat.completions.stream(model="demo", messages=ask, **options) as stream:
        for _ in stream:
            pass
        streamed = stream.get_final_completion().choices[0].message.tool_calls
    assert [(call.function.name, call.function.arguments) for call in streamed] == [
        (call.function.name, call.function.arguments) for call in calls
    ]


WEATHER_ASK = [{"role": "user", "content": "What is the weather in Oslo?"}]
CODE = {
    "type": "custom",
    "custom": {"name": "code", "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": '[ab"]{4}'}}},
}
LIST = {
    "type": "custom",
    "custom": {"name": "list", "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": 'start: "[" /[a-c\\n]/+ "]"'}}},
}
SCHEMAS = {"get_weather": WEATHER["function"]["parameters"], "add": ADD["function"]["parameters"]}
INPUTS = {"code": '[ab"]{4}', "list": r"\[[a-c\n]+\]"}


def check_call(name, text):
    """A call's arguments or input are what its tool takes."""
    if name in INPUTS:
        assert re.fullmatch(INPUTS[name], text), text
    else:
        assert Draft202012Validator(SCHEMAS[name]).is_valid(json.loads(text)), text


def streamed(stream):
    """The content and the calls of a streamed chat, put together by hand: the client's own helper knows functions only."""
    content, calls, reasons = "", {}, []
    for chunk in stream:
        for choice in chunk.choices:
            content += choice.delta.content or ""
            for piece in choice.delta.tool_calls or ():
                call = calls.setdefault(piece.index, {"id": piece.id, "name": "", "text": "", "pieces": 0})
                assert piece.id in (None, call["id"])
                inner = piece.function.model_dump() if piece.function else piece.model_dump()["custom"]
                call["name"] += inner.get("name") or ""
                call["text"] += inner.get("arguments", inner.get("input")) or ""
                call["pieces"] += 1
            reasons += [choice.finish_reason] if choice.finish_reason else []
    return content, [calls[index] for index in sorted(calls)], reasons


def test_tools_chosen_freely(client):
    """With auto the model writes text, calls, or both; the same whole and streamed, and arguments come in pieces."""
    called = 0
    for seed in range(4):
        for ask in (WEATHER_ASK, ASK):
            options = {"tools": [WEATHER, ADD, CODE], "max_tokens": 60, "seed": seed}
            choice = client.chat.completions.create(model="demo", messages=ask, **options).choices[0]
            calls = choice.message.tool_calls or []
            for call in calls:
                check_call(call.function.name, call.function.arguments)
            assert choice.finish_reason in (("tool_calls", "length") if calls else ("stop", "length"))
            assert "<tool_call>" not in (choice.message.content or "")
            content, pieces, reasons = streamed(client.chat.completions.create(model="demo", messages=ask, stream=True, **options))
            assert (content or None, reasons) == (choice.message.content, [choice.finish_reason])
            assert [(call["name"], call["text"]) for call in pieces] == [(call.function.name, call.function.arguments) for call in calls]
            assert all(call["pieces"] > 2 for call in pieces)
            called += len(calls)
    assert called > 2


def test_one_call_or_several(client):
    """Without parallel calls there is at most one, and after it nothing."""
    options = {"tools": [ADD], "tool_choice": "required", "max_tokens": 150, "temperature": 1.5}
    counts = []
    for seed in range(6):
        for parallel in (True, False):
            choice = client.chat.completions.create(
                model="demo", messages=ASK, parallel_tool_calls=parallel, seed=seed, logit_bias={"1278": 20}, **options
            ).choices[0]
            assert choice.message.content is None
            for call in choice.message.tool_calls:
                check_call("add", call.function.arguments)
            counts.append((parallel, len(choice.message.tool_calls)))
            assert len({call.id for call in choice.message.tool_calls}) == len(choice.message.tool_calls)
    assert all(count == 1 for parallel, count in counts if not parallel)
    assert any(count > 1 for parallel, count in counts if parallel)


@pytest.mark.parametrize("choice", ["required", {"type": "custom", "custom": {"name": "list"}}, "allowed"])
def test_custom_tools_with_grammars(client, choice):
    """Custom tools get input in their grammars, beside functions and by name, whole and streamed."""
    allowed = [{"type": "custom", "custom": {"name": "code"}}, {"type": "function", "function": {"name": "add"}}]
    if choice == "allowed":
        choice = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": allowed}}
    names = {"required": {"add", "code", "list"}}.get(choice if isinstance(choice, str) else "", {"list", "code", "add"})
    seen = set()
    for seed in range(5):
        options = {"tools": [CODE, ADD, LIST], "tool_choice": choice, "max_tokens": 60, "seed": seed, "temperature": 1.5}
        answer = client.chat.completions.create(model="demo", messages=ASK, parallel_tool_calls=False, **options).choices[0]
        (call,) = answer.message.tool_calls
        name, text = (call.custom.name, call.custom.input) if call.type == "custom" else (call.function.name, call.function.arguments)
        check_call(name, text)
        seen.add(name)
        stream = client.chat.completions.create(model="demo", messages=ASK, parallel_tool_calls=False, stream=True, **options)
        _, (piece,), _ = streamed(stream)
        assert (piece["name"], piece["text"]) == (name, text)
    assert seen <= (names if choice == "required" else {"list"} if choice["type"] == "custom" else {"code", "add"})


def test_tools_and_a_response_format(client):
    """Where tools may be called, the answer is a call or in its format; where they must, a format is refused."""
    format = {"type": "json_schema", "json_schema": {"name": "person", "schema": Person.model_json_schema()}}
    kinds = set()
    for ask in (ASK, WEATHER_ASK):
        message = (
            client.chat.completions.create(model="demo", messages=ask, tools=[WEATHER], response_format=format, seed=1).choices[0].message
        )
        kinds.add(bool(message.tool_calls))
        if message.tool_calls:
            check_call("get_weather", message.tool_calls[0].function.arguments)
            assert message.content is None
        else:
            assert Person.model_validate_json(message.content)
    assert kinds == {True, False}
    with pytest.raises(openai.BadRequestError, match="cannot be combined"):
        client.chat.completions.create(model="demo", messages=ASK, tools=[ADD], extra_body={"structured_outputs": {"choice": ["a"]}})


def test_tools_behind_reasoning(client):
    """Where the prompt begins the reasoning, the answer goes on in it, and calls come behind it."""
    options = {
        "tools": [WEATHER],
        "tool_choice": "required",
        "max_tokens": 120,
        "extra_body": {"chat_template_kwargs": {"enable_thinking": True}},
    }
    for seed in range(3):
        message = client.chat.completions.create(model="demo", messages=WEATHER_ASK, seed=seed, **options).choices[0].message
        check_call("get_weather", message.tool_calls[0].function.arguments)
        assert message.model_extra["reasoning_content"] and message.content is None
        stream = client.chat.completions.create(model="demo", messages=WEATHER_ASK, seed=seed, stream=True, **options)
        deltas = [choice.delta for chunk in stream for choice in chunk.choices]
        assert "".join(delta.model_extra.get("reasoning_content") or "" for delta in deltas) == message.model_extra["reasoning_content"]


def test_a_conversation_with_tools(client):
    """Calls and their results are read back from the history, custom ones too."""
    calls = [
        {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}},
        {"id": "call_2", "type": "custom", "custom": {"name": "code", "input": "abab"}},
    ]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "sunny"} for call in calls]
    messages = [*WEATHER_ASK, {"role": "assistant", "content": None, "tool_calls": calls}, *results]
    answer = client.chat.completions.create(model="demo", messages=messages, tools=[WEATHER, CODE], max_tokens=40, seed=1)
    assert answer.choices[0].finish_reason in ("stop", "tool_calls", "length")
    with pytest.raises(openai.BadRequestError, match="function's name"):
        client.chat.completions.create(model="demo", messages=[{"role": "assistant", "tool_calls": [{"id": "x"}]}])


def test_responses_with_tools(client):
    """Calls of functions and of custom tools as items of a response, streamed with the events of their kind."""
    code = {"type": "custom", "name": "code", "format": {"type": "grammar", **CODE["custom"]["format"]["grammar"]}}
    weather = {"type": "function", "name": "get_weather", "parameters": SCHEMAS["get_weather"], "strict": True}
    options = {"model": "demo", "tools": [weather, code], "max_output_tokens": 80}
    free = client.responses.create(input=WEATHER_ASK[0]["content"], **options, temperature=0)
    assert [item.type for item in free.output] == ["function_call"] and free.status == "completed"
    check_call("get_weather", free.output[0].arguments)
    named = {"type": "custom", "name": "code"}
    called = client.responses.create(input="Code!", **options, tool_choice=named)
    assert [(item.type, item.name) for item in called.output] == [("custom_tool_call", "code")]
    check_call("code", called.output[0].input)
    for choice, kind, done in (
        (named, "custom_tool_call", "response.custom_tool_call_input.done"),
        ({"type": "function", "name": "get_weather"}, "function_call", "response.function_call_arguments.done"),
    ):
        with client.responses.stream(input="Go!", **options, tool_choice=choice) as stream:
            events = list(stream)
            final = stream.get_final_response()
        kinds = [event.type for event in events]
        assert done in kinds and kinds.count("response.output_item.added") == kinds.count("response.output_item.done") == 1
        delta = done.replace(".done", ".delta")
        joined = "".join(event.delta for event in events if event.type == delta)
        (item,) = final.output
        assert item.type == kind and joined == (item.input if kind == "custom_tool_call" else item.arguments)
        check_call(item.name, joined)
    history = [
        {"role": "user", "content": "Code!"},
        {"type": "custom_tool_call", "call_id": "c1", "name": "code", "input": "abab"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "ok"},
    ]
    assert client.responses.create(input=history, **options).status in ("completed", "incomplete")
    parallel = client.responses.create(input="Go!", **options, tool_choice="required", parallel_tool_calls=False)
    assert len(parallel.output) == 1


@pytest.fixture(scope="module")
def coder():
    """A server that spells calls as another family does."""
    # a busy machine needs longer than the default to end a process
    server = Server("--tool-format", "qwen3_coder", "--reasoning-end", "</think>", "--grace", "25")
    with server.client() as client:
        yield client
    assert server.stop() == 0


def test_another_format(coder):
    """With --tool-format calls are spelled and read as that family does; the constraint begins behind the reasoning."""
    no = {"stackmask": {"reasoning": False}}
    for seed in range(3):
        options = {"tools": [WEATHER, ADD, LIST], "tool_choice": "required", "max_tokens": 120, "seed": seed, "extra_body": no}
        whole = coder.chat.completions.create(model="demo", messages=ASK, **options).choices[0]
        text = coder.chat.completions.create(model="demo", messages=ASK, stream=True, **options)
        _, pieces, _ = streamed(text)
        read = [
            (call.function.name, call.function.arguments) if call.type == "function" else (call.custom.name, call.custom.input)
            for call in whole.message.tool_calls
        ]
        assert read and read == [(call["name"], call["text"]) for call in pieces]
        for name, arguments in read:
            check_call(name, arguments)


def test_the_dialect_of_a_tokenizer():
    """The format is told by the chat template and the tokens; of the tokens that it spells those are shown that do not end an answer."""
    tokens = ["<|channel|>", "<|message|>", "<|constrain|>", "<|start|>", "<|end|>", "<|call|>", "<|return|>", "<|other|>"]
    special = {name: 256 + place for place, name in enumerate(tokens)}
    pieces = [*(bytes((byte,)) for byte in range(256)), *[None] * len(tokens)]
    vocabulary = stackmask.Vocabulary.from_bytes(pieces, stop_token_ids=[261, 262], special=special)
    dialect = Dialect(SimpleNamespace(chat_template=None), vocabulary, None, has_reasoning_end=False)
    assert dialect.format.name == "harmony" and dialect.stops == {"<|call|>", "<|return|>"}
    assert dialect.special == set(tokens) - {"<|call|>", "<|return|>", "<|other|>"} and set(dialect.shown) == {256, 257, 258, 259, 260}
    plan, constraint, field = dialect.plan(
        checked_tools([WEATHER]), "auto", None, None, None, whitespace="compact", prompt="<|start|>assistant"
    )
    assert (field, constraint.kind) == ("tools", "structural_tag")
    assert stackmask.Compiler(vocabulary).structural_tag(constraint.value)
    text = " to=functions.get_weather<|channel|>commentary <|constrain|>json<|message|>{}"
    text = re.sub("|".join(map(re.escape, tokens)), lambda name: dialect.shown[special[name[0]]], text)
    assert [(call.name, call.arguments) for call in plan.parser().feed(text, final=True)] == [("get_weather", "{}")]
    templates = SimpleNamespace(chat_template={"default": "", "tool_use": "<tool_call> <function=x> <parameter=y>"})
    plain = stackmask.Vocabulary.from_bytes([b"a", None], stop_token_ids=[1])
    assert Dialect(templates, plain, None, has_reasoning_end=True).format.name == "qwen3_coder"
    assert Dialect(SimpleNamespace(), plain, None, has_reasoning_end=True).format.name == "hermes_compact"
    assert Dialect(templates, plain, "glm45", has_reasoning_end=True).format.name == "glm45"


def test_a_format_that_is_none():
    """An unknown format ends the command with a list of those there are."""
    arguments = [sys.executable, "-m", "stackmask", "serve", "--demo", "--tool-format", "morse"]
    path = os.pathsep.join([str(Path(stackmask.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(arguments, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}, timeout=60)
    assert done.returncode and "hermes, " in done.stderr and "Traceback" not in done.stderr


def test_responses(client):
    """The responses API: text by schema, streamed and not; functions; the limit."""
    parsed = client.responses.parse(model="demo", input="Write a person as JSON with name, age.", text_format=Person)
    assert isinstance(parsed.output_parsed, Person) and parsed.status == "completed"
    with client.responses.stream(model="demo", input=ASK, text_format=Person, instructions="Be brief.") as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert isinstance(final.output_parsed, Person)
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed"
    tool = {"type": "function", "name": "add", "parameters": ADD["function"]["parameters"], "strict": True}
    for choice in ("required", {"type": "function", "name": "add"}):
        called = client.responses.create(model="demo", input="Add!", tools=[tool], tool_choice=choice)
        assert json.loads(called.output[0].arguments)["a"] <= 99
        with client.responses.stream(model="demo", input="Add!", tools=[tool], tool_choice=choice) as stream:
            kinds = [event.type for event in stream]
        assert "response.function_call_arguments.done" in kinds
    cut = client.responses.create(model="demo", input="Write a person as JSON.", max_output_tokens=5)
    assert (cut.status, cut.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    with pytest.raises(openai.BadRequestError, match="previous_response_id"):
        client.responses.create(model="demo", input="x", previous_response_id="resp_1")


def test_choices_stop_and_logprobs(client):
    """`n`, `seed`, `stop`, `logprobs` and `logit_bias`."""
    many = client.chat.completions.create(model="demo", messages=ASK, n=3, seed=7, max_tokens=20)
    assert [choice.index for choice in many.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in many.choices}) > 1
    again = client.chat.completions.create(model="demo", messages=ASK, n=3, seed=7, max_tokens=20, stream=True)
    texts = ["", "", ""]
    for chunk in again:
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == [choice.message.content for choice in many.choices]
    stopped = client.chat.completions.create(model="demo", messages=ASK, temperature=0, stop='"age"').choices[0]
    assert stopped.finish_reason == "stop" and '"age"' not in stopped.message.content
    logged = client.chat.completions.create(
        model="demo", messages=ASK, extra_body={"regex": "[yn]{2}"}, logprobs=True, top_logprobs=2, temperature=0
    ).choices[0]
    assert "".join(item.token for item in logged.logprobs.content) == logged.message.content
    assert all(len(item.top_logprobs) == 2 and item.logprob <= 0 for item in logged.logprobs.content)
    older = client.completions.create(model="demo", prompt=["a", "b"], max_tokens=4, logprobs=1, seed=1)
    assert len(older.choices) == 2 and 1 <= len(older.choices[0].logprobs.tokens) <= 4


def test_models_and_unknown_urls(server, client):
    """One model is here; another, and what is not ours, are 404 in OpenAI's form."""
    assert [model.id for model in client.models.list()] == ["demo"]
    assert client.models.retrieve("demo").id == "demo"
    with pytest.raises(openai.NotFoundError, match="gpt"):
        client.chat.completions.create(model="gpt", messages=ASK)
    with pytest.raises(openai.NotFoundError, match="embeddings"):
        client.embeddings.create(model="demo", input="x")


def test_grammar_check(server):
    """What became of a schema, and where a text leaves it."""

    def check(**body):
        return httpx.post(f"{server.url}/v1/grammar/check", json=body)

    report = check(json_schema={"type": "object", "requird": ["a"]}, text='{"a": 1').json()
    assert report["kind"] == "json_schema" and "requird" in report["warnings"][0]
    assert report["text"]["accepted"] and not report["text"]["complete"] and report["text"]["completion"] == "}"
    refused = check(regex="[ab]+c", text="abx").json()["text"]
    assert (refused["accepted"], refused["position"]) == (False, 2) and "'x'" in refused["explanation"]
    loose = {"properties": {"a": True}}
    format = {"type": "json_schema", "json_schema": {"name": "x", "schema": loose}}
    strict = {**format, "json_schema": {**format["json_schema"], "strict": True}}
    closed, as_written = {"extra_properties": "closed"}, {"extra_properties": "schema"}
    for body, allowed in (
        ({"json_schema": loose}, True),
        ({"json_schema": loose, "stackmask": closed}, False),
        ({"response_format": format}, True),
        ({"response_format": format, "stackmask": closed}, False),
        ({"response_format": strict}, False),
        ({"response_format": strict, "stackmask": as_written}, True),
    ):
        assert check(**body, text='{"b":').json()["text"]["accepted"] == allowed, body
    assert check(json_schema=loose, stackmask={"extra_properties": "open"}).status_code == 400
    for body in ({"json_schema": loose}, {"response_format": format}, {"response_format": {"type": "json_object"}}):
        for distinct, allowed in ((None, True), (False, True), (True, False)):
            answer = check(**body, stackmask={"distinct_keys": distinct}, text='{"b": 1, "c": 2, "b"').json()
            assert answer["text"]["accepted"] == allowed, (body, distinct)
    assert check().status_code == 400
    assert check(regex="(").json()["error"]["code"] == "invalid_grammar"


def test_answers_carry_warnings(server):
    """What has no effect in a constraint is in the answer of each route, in a stream in its first event; strict_keywords refuses it."""
    odd = {"type": "null", "requird": ["a"]}
    said = ['/requird: unknown keyword; did you mean "required"?']
    format = {"type": "json_schema", "json_schema": {"name": "x", "schema": odd}}

    def post(route, **body):
        return httpx.post(f"{server.url}/v1/{route}", json=body, timeout=60)

    requests = (
        ("chat/completions", {"messages": ASK, "response_format": format}),
        ("completions", {"prompt": "x", "json_schema": odd}),
        ("responses", {"input": "x", "text": {"format": {"type": "json_schema", "name": "x", "schema": odd}}}),
    )
    for route, body in requests:
        assert post(route, **body).json()["warnings"] == said, route
        events = [json.loads(line[6:]) for line in post(route, **body, stream=True).text.splitlines() if line.startswith("data: {")]
        first = events[0].get("response", events[0])
        assert first["warnings"] == said, route
        refused = post(route, **body, stackmask={"strict_keywords": True})
        assert refused.status_code == 400 and said[0] in refused.json()["error"]["message"], route
    assert "warnings" not in post("completions", prompt="x", json_schema={"type": "null"}).json()


def test_metrics_and_stats(server, client):
    """Statistics come with the usage when asked for, and as metrics always."""
    schema = {"type": "object", "properties": {"very_long_key": {"const": 1}}, "required": ["very_long_key"], "additionalProperties": False}
    body = {"json_schema": schema, "stackmask": {"stats": True, "jump_forward": True, "whitespace": "compact", "speculation": 4}}
    usage = client.chat.completions.create(model="demo", messages=ASK, extra_body=body).usage
    (stats,) = usage.model_extra["stackmask"]
    assert stats["kind"] == "json_schema" and not stats["cache_hit"] and stats["compile_seconds"] > 0
    assert stats["forwards"] < stats["tokens"]
    again = client.chat.completions.create(model="demo", messages=ASK, extra_body=body).usage
    assert again.model_extra["stackmask"][0]["cache_hit"]
    text = httpx.get(f"{server.url}/metrics").text
    for name in ("stackmask_compile_seconds_bucket", "stackmask_mask_seconds_bucket", 'stackmask_answers_total{finish_reason="stop"}'):
        assert name in text


def test_many_clients_at_once(server):
    """Streams under sixteen schemas at once: each answer is valid under its own."""

    class Kind(pydantic.BaseModel):
        kind: Literal["a", "b"]
        value: int

    def one(number):
        schema = {"type": "object", "properties": {f"k{number}": Person.model_json_schema()}, "required": [f"k{number}"]}
        format = {"type": "json_schema", "json_schema": {"name": "x", "schema": {**schema, "additionalProperties": False}}}
        with server.client() as client:
            stream = client.chat.completions.create(model="demo", messages=ASK, response_format=format, stream=True, max_tokens=200)
            text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
        return Draft202012Validator(schema).is_valid(json.loads(text))

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(one, range(16)))


def test_a_client_that_hangs_up_frees_its_place(server):
    """After a disconnect nothing is left running, whether the answer was streamed or not."""
    for stream in (True, False):
        body = {"model": "demo", "messages": ASK, "regex": "[a-z]{1500}", "stream": stream}
        with httpx.Client() as client:
            if stream:
                with client.stream("POST", f"{server.url}/v1/chat/completions", json=body) as answer:
                    next(answer.iter_bytes())
            else:
                with pytest.raises(httpx.ReadTimeout):
                    client.post(f"{server.url}/v1/chat/completions", json=body, timeout=0.3)
        end = time.monotonic() + 5
        while httpx.get(f"{server.url}/health").json()["running"]:
            assert time.monotonic() < end
            time.sleep(0.05)


def test_keys_back_pressure_and_shutdown(tmp_path):
    """A key is asked for; a full server says 429; told to stop, it finishes what runs and ends with code 0."""
    file = tmp_path / "key"
    file.write_text("secret\n")
    server = Server("--api-key-file", str(file), "--max-concurrent", "1", "--max-queue", "0", "--grace", "30")
    with server.client("wrong") as client, pytest.raises(openai.AuthenticationError):
        client.models.list()
    with server.client("secret") as client:
        stream = client.chat.completions.create(model="demo", messages=ASK, extra_body={"regex": "[a-z]{600}"}, stream=True)
        text = next(iter(stream)).choices[0].delta.content or ""
        first = next(iter(stream)).choices[0].delta.content or ""
        with pytest.raises(openai.RateLimitError):
            client.chat.completions.create(model="demo", messages=ASK)
        server.process.send_signal(signal.SIGTERM)
        text += first + "".join(chunk.choices[0].delta.content or "" for chunk in stream)
        assert re.fullmatch("[a-z]{600}", text)
    assert server.stop() == 0


def test_shutdown_whatever_runs():
    """Told to stop while a text is checked and another takes long to complete, the process ends within seconds."""
    server = Server()
    url, text = f"{server.url}/v1/grammar/check", "a" * 100_000

    def ask(body):
        with contextlib.suppress(httpx.HTTPError):
            httpx.post(url, json=body, timeout=60)

    bodies = ({"regex": "(?:(?:[ab]{1,90}){1,100}){1,91}c", "text": text}, {"regex": "(?:a+b?){60000}", "text": text})
    threads = [threading.Thread(target=ask, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    time.sleep(1.5)
    assert httpx.get(f"{server.url}/health", timeout=5).status_code == 200
    server.process.send_signal(signal.SIGTERM)
    start = time.monotonic()
    server.process.wait(30)
    assert time.monotonic() - start < 8  # 5 where nothing else runs
    server.stop()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"messages": [{"role": "user", "content": "[" * 100_000}]}, 400, "context_length_exceeded"),
        ({"messages": [{"role": "user", "content": "[" * 30_000}]}, 400, "context_length_exceeded"),
        ({"messages": [{"role": "user", "content": "[ " * 5_000}]}, 400, "context_length_exceeded"),
        ({"messages": [{"role": "user", "content": "a"}] * 10_001}, 400, None),
        ({"messages": ASK, "metadata": {"a": [[]] * 110_000}}, 413, "body_too_long"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, 400, None),
    ],
    ids=lambda value: json.dumps(value)[:40] if isinstance(value, dict) else str(value),
)
def test_what_cannot_fit(body, status, code, large):
    """Prompts that cannot fit, and bodies of too many values, are refused; none is an error of the server's."""
    headers = {"Content-Type": "application/json"}
    answer = httpx.post(f"{large.url}/v1/chat/completions", content=json.dumps(body), headers=headers, timeout=60)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text[:300]


def test_a_tool_by_name_beside_a_format(client):
    """A tool that is named is called, whatever the format of texts, as OpenAI's clients send both."""
    named = {"type": "function", "function": {"name": "add"}}
    chat = client.chat.completions.create(
        model="demo", messages=ASK, tools=[ADD, WEATHER], tool_choice=named, response_format={"type": "json_object"}
    )
    assert json.loads(chat.choices[0].message.tool_calls[0].function.arguments).keys() == {"a"}
    tools = [{"type": "function", **ADD["function"]}]
    response = client.responses.parse(
        model="demo", input="Add.", text_format=Person, tool_choice={"type": "function", "name": "add"}, tools=tools
    )
    assert response.output[0].type == "function_call" and response.output_parsed is None


def test_strict_tools_have_no_other_arguments():
    """A strict tool takes the arguments that it declares, in JSON and in other formats; one that is not what its schema does."""
    open_schema = {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "integer"}}}}}
    for format, strict, inner in (("hermes", True, True), ("hermes", False, False), ("qwen3_coder", True, False)):
        function = {"name": "f", "parameters": open_schema, "strict": strict}
        tag = structural_tag(FORMATS[format], choose(read_tools([{"type": "function", "function": function}]), "required"))
        text = json.dumps(tag)
        assert ('"extra_properties": "closed"' in text) == inner
        assert ('"additionalProperties": false' in text) == (strict and not inner)


def test_fields_of_vllm(client):
    """A least number of tokens, no end, a penalty on repetitions, special tokens, the prompt in the answer, the best of several."""
    plain = {"model": "demo", "prompt": "Anna, ", "temperature": 0}
    least = client.completions.create(**plain, max_tokens=60, extra_body={"min_tokens": 50})
    assert least.usage.completion_tokens >= 50
    endless = client.completions.create(**plain, max_tokens=120, extra_body={"ignore_eos": True})
    assert endless.usage.completion_tokens == 120 and endless.choices[0].finish_reason == "length"
    bounded = client.completions.create(**plain, max_tokens=20, extra_body={"ignore_eos": True, "regex": "[ab]{3}"})
    assert re.fullmatch("[ab]{3}", bounded.choices[0].text) and bounded.choices[0].finish_reason == "stop"
    free, varied = (
        client.completions.create(**plain, max_tokens=60, extra_body={"ignore_eos": True, "repetition_penalty": penalty}).choices[0].text
        for penalty in (1.0, 5.0)
    )
    assert free != varied
    named = {"ebnf": 'root ::= "a" <|tool|> "b"'}
    shown = client.completions.create(**plain, max_tokens=20, extra_body={**named, "skip_special_tokens": False})
    assert shown.choices[0].text == "a<|tool|>b"
    assert client.completions.create(**plain, max_tokens=20, extra_body=named).choices[0].text == "ab"
    echo = {"model": "demo", "prompt": ["Anna, ", "Bob, "], "echo": True, "max_tokens": 5, "n": 2, "seed": 1}
    texts = [choice.text for choice in client.completions.create(**echo).choices]
    assert [text.partition(" ")[0] for text in texts] == ["Anna,", "Anna,", "Bob,", "Bob,"]
    streamed = [""] * 4
    for chunk in client.completions.create(**echo, stream=True):
        for choice in chunk.choices:
            streamed[choice.index] += choice.text
    assert streamed == texts
    best = client.completions.create(model="demo", prompt="Anna, ", best_of=4, n=1, max_tokens=8, seed=1, logprobs=0)
    all_four = client.completions.create(model="demo", prompt="Anna, ", n=4, max_tokens=8, seed=1, logprobs=0)

    def mean(choice):
        return sum(choice.logprobs.token_logprobs) / len(choice.logprobs.token_logprobs)

    assert best.choices[0].text == max(all_four.choices, key=mean).text
    assert len(best.choices) == 1 and best.usage.completion_tokens == all_four.usage.completion_tokens
    with pytest.raises(openai.BadRequestError, match="best_of"):
        client.completions.create(model="demo", prompt="a", best_of=2, n=1, stream=True)


def test_kinds_of_constraints():
    """An operator says which kinds of constraints clients may send."""
    assert {*KINDS, "json"} == {*ENGINE_KINDS}
    server = Server("--constraints", "json_schema,choice")
    try:
        for body, status in (
            ({"json_schema": {"const": 1}}, 200),
            ({"response_format": {"type": "choice", "choice": ["a"]}}, 200),
            ({"regex": "a"}, 403),
            ({"ebnf": 'root ::= "a"'}, 403),
            ({"tools": [ADD], "tool_choice": "required"}, 200),
            (
                {
                    "tools": [
                        {
                            "type": "custom",
                            "custom": {"name": "a", "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "a"}}},
                        }
                    ]
                },
                403,
            ),
        ):
            answer = httpx.post(f"{server.url}/v1/chat/completions", json={"messages": ASK, "max_tokens": 80, **body}, timeout=60)
            assert answer.status_code == status, answer.text
            if status == 403:
                assert answer.json()["error"]["code"] == "constraint_not_allowed"
        assert httpx.post(f"{server.url}/v1/grammar/check", json={"regex": "a"}).status_code == 403
    finally:
        server.stop()


def test_slow_grammars_leave_a_place_to_others():
    """While slow grammars wait for each other, a quick one of the same client is compiled; what gets no turn in time gets status 429."""
    server = Server("--grammar-threads", "2", "--grammar-timeout", "6")

    def slow(number):
        patterns = [{"pattern": f"{number}.{{{gap}}}b"} for gap in range(1, 16)]
        return httpx.post(f"{server.url}/v1/grammar/check", json={"json_schema": {"type": "string", "allOf": patterns}}, timeout=120)

    try:
        assert httpx.post(f"{server.url}/v1/grammar/check", json={"regex": "a"}, timeout=60).status_code == 200
        with ThreadPoolExecutor(4) as pool:
            many = [pool.submit(slow, number) for number in range(4)]
            time.sleep(2)
            answer = httpx.post(f"{server.url}/v1/grammar/check", json={"regex": "b"}, timeout=60)
            assert answer.status_code == 200
            assert not all(one.done() for one in many)
            for one in many:
                answer = one.result()
                code = answer.json()["error"]["code"]
                assert (answer.status_code, code) in {(400, "grammar_limit_exceeded"), (429, "rate_limit_exceeded")}
                assert answer.status_code == 400 or answer.headers["retry-after"]
    finally:
        server.stop()
