"""Real answers of the server against its OpenAPI description: every body and every event is as `/openapi.json` says, and nothing else."""

import json

import pytest

httpx = pytest.importorskip("httpx")
jsonschema = pytest.importorskip("jsonschema")

ASK = [{"role": "user", "content": "Write a person as JSON with name, age."}]
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 9}, "tags": {"type": "array", "items": {"type": "integer"}, "maxItems": 2}},
    "required": ["name", "tags"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "p", "schema": SCHEMA}}
PARAMETERS = {"type": "object", "properties": {"city": {"enum": ["Rome", "Ulm"]}}, "required": ["city"], "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}
FLAT = {"type": "function", "name": "weather", "parameters": PARAMETERS}
CODE = {
    "type": "custom",
    "custom": {"name": "code", "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "[a-c]{3}"}}},
}
FLAT_CODE = {"type": "custom", "name": "code", "format": {"type": "grammar", "syntax": "regex", "definition": "[a-c]{3}"}}
CLOSING = {"type": "array", "items": {"type": "integer"}, "minItems": 2}
MISSPELT = {"type": "json_schema", "json_schema": {"name": "p", "schema": {**SCHEMA, "requierd": []}}}
QUESTIONS = [
    {"type": "predicate", "instructions": "Is it a name?", "name": "n"},
    {"type": "choice", "instructions": "Which?", "choices": [{"value": "a"}, {"value": True}]},
    {"type": "score", "instructions": "How much?", "levels": [{"label": "low"}, {"label": "high"}]},
]
ONE = {
    "whether": {"type": "noul", "instructions": "Is it?"},
    "which": {"type": "choice", "instructions": "Which?", "criteria": {"a": None, "b": "the second"}},
    "much": {"type": "score", "instructions": "How much?", "criteria": ["low", "high"]},
}

BODIES = [
    ("/v1/chat/completions", {"messages": ASK, "max_tokens": 9, "n": 2, "logprobs": True, "top_logprobs": 2}, True),
    ("/v1/chat/completions", {"messages": ASK, "response_format": MISSPELT, "stackmask": {"stats": True}}, True),
    ("/v1/chat/completions", {"messages": ASK, "response_format": FORMAT, "stackmask": {"partial": True}}, None),
    ("/v1/chat/completions", {"messages": ASK, "json_schema": CLOSING, "max_tokens": 9, "temperature": 1.5}, True),
    ("/v1/chat/completions", {"messages": ASK, "tools": [TOOL], "tool_choice": "required"}, True),
    ("/v1/chat/completions", {"messages": ASK, "tools": [TOOL], "tool_choice": "required", "stackmask": {"partial": True}}, None),
    ("/v1/chat/completions", {"messages": ASK, "tools": [CODE], "tool_choice": "required"}, True),
    ("/v1/chat/completions", {"messages": ASK, "max_tokens": 4, "stream_options": {"include_usage": True}}, None),
    ("/v1/completions", {"prompt": ["a", "b"], "max_tokens": 5, "logprobs": 2}, True),
    ("/v1/completions", {"prompt": "a", "max_tokens": 5, "echo": True, "stream_options": {"include_usage": True}}, None),
    ("/v1/completions", {"prompt": "a", "response_format": FORMAT, "stackmask": {"partial": True}}, None),
    ("/v1/completions", {"prompt": "a", "json_schema": CLOSING, "max_tokens": 9, "temperature": 1.5, "stackmask": {"partial": True}}, None),
    ("/v1/responses", {"input": "Hi", "max_output_tokens": 4, "instructions": "Be brief."}, True),
    ("/v1/responses", {"input": "Hi", "text": {"format": {"type": "json_schema", "name": "p", "schema": SCHEMA}}}, True),
    (
        "/v1/responses",
        {"input": "Hi", "text": {"format": {"type": "json_schema", "name": "p", "schema": SCHEMA}}, "stackmask": {"partial": True}},
        None,
    ),
    ("/v1/responses", {"input": "Hi", "tools": [FLAT], "tool_choice": "required", "stackmask": {"stats": True}}, True),
    ("/v1/responses", {"input": "Hi", "tools": [FLAT], "tool_choice": "required", "stackmask": {"partial": True}}, None),
    ("/v1/responses", {"input": "Hi", "tools": [FLAT_CODE], "tool_choice": "required"}, True),
    ("/v1/messages", {"model": "demo", "messages": ASK, "max_tokens": 9}, True),
    (
        "/v1/messages",
        {
            "model": "demo",
            "messages": ASK,
            "max_tokens": 90,
            "tools": [{"name": "weather", "input_schema": PARAMETERS}],
            "tool_choice": {"type": "any"},
        },
        True,
    ),
    ("/v1/messages/count_tokens", {"model": "demo", "messages": ASK}, False),
    ("/api/chat", {"model": "demo", "messages": ASK, "format": SCHEMA}, True),
    ("/api/chat", {"model": "demo", "messages": []}, False),
    ("/api/generate", {"model": "demo", "prompt": "Hi", "options": {"num_predict": 5}, "logprobs": True}, True),
    ("/api/show", {"model": "demo"}, False),
    ("/v1/decisions", {"model": "demo", "input": "Anna", "questions": QUESTIONS}, False),
    ("/v1/systemone", {"model": "demo", "state": "Anna", "questions": ONE}, False),
    ("/v1/grammar/check", {"json_schema": SCHEMA, "text": '{"name": 3'}, False),
    ("/v1/grammar/check", {"json_schema": SCHEMA, "text": '{"name": '}, False),
    ("/v1/grammar/check", {"regex": "a+", "text": "a"}, False),
    ("/v1/grammar/inspect", {"specification": {"kind": "regex", "text": "a+"}, "text": "a"}, False),
]
"""Requests; None as the last part for those that make sense in a stream alone, True for both."""


@pytest.fixture(scope="module")
def description(demo):
    return httpx.get(f"{demo.url}/openapi.json").json()


def check(description, method, path, status, media, value):
    """Hold a body or the data of an event to the description."""
    answer = description["paths"][path][method]["responses"][str(status)]
    schema = {**answer["content"][media]["schema"], "components": description["components"]}
    jsonschema.Draft202012Validator(schema).validate(value)


def data(text):
    """The data of the events of a stream, or its lines."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith(("data: ", "{"))]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def posted(demo, path, body):
    return httpx.post(f"{demo.url}{path}", json=body, timeout=60)


@pytest.mark.parametrize(("path", "body", "both"), BODIES)
def test_answers(demo, description, path, body, both):
    """Whole answers, and the events of the same answers in streams."""
    for stream in (False, True):
        if (stream and both is False) or (not stream and both is None):
            continue
        answer = posted(demo, path, {**body, "stream": stream} if both is not False or path.startswith("/api/c") else body)
        assert answer.status_code == 200, answer.text
        media = answer.headers["content-type"].partition(";")[0]
        if not stream:
            check(description, "post", path, 200, media, answer.json())
            continue
        events = data(answer.text)
        assert events and media != "application/json"
        for event in events:
            check(description, "post", path, 200, media, event)


@pytest.mark.parametrize(
    "path", ["/v1/models", "/v1/models/demo", "/health", "/v1/grammar/inspect", "/api/tags", "/api/ps", "/api/version"]
)
def test_what_is_asked_for_by_get(demo, description, path):
    """The answers to GET."""
    answer = httpx.get(f"{demo.url}{path}")
    check(description, "get", path.replace("models/demo", "models/{name}"), 200, "application/json", answer.json())


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/chat/completions", {"messages": ASK, "regex": "("}, 400),
        ("/v1/chat/completions", {}, 400),
        ("/v1/responses", {"input": "Hi", "model": "other"}, 404),
        ("/v1/messages", {"model": "other", "messages": ASK, "max_tokens": 1}, 404),
        ("/v1/messages", {"messages": ASK}, 400),
        ("/api/chat", {"model": "other", "messages": ASK}, 404),
    ],
)
def test_errors(demo, description, path, body, status):
    """Errors, in the form of their protocol."""
    answer = posted(demo, path, body)
    assert answer.status_code == status
    check(description, "post", path, status, "application/json", answer.json())


def test_the_description(description):
    """Every route has an answer that is described, no route promises FastAPI's status 422, and every reference leads somewhere."""
    text = json.dumps(description)
    assert "422" not in {status for methods in description["paths"].values() for route in methods.values() for status in route["responses"]}
    for path, methods in description["paths"].items():
        for method, route in methods.items():
            if path not in ("/", "/metrics"):
                schemas = [content["schema"] for content in route["responses"]["200"]["content"].values()]
                assert all(schema not in ({}, {"type": "object"}) for schema in schemas), (method, path)
    names = set(description["components"]["schemas"])
    used = {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert used <= names
    for schema in description["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def applied(value, changes):
    """A value after the changes of JSON Patch, where all of them add."""
    for change in changes:
        assert change["op"] == "add"
        if not change["path"]:
            value = change["value"]
            continue
        *around, last = [step.replace("~1", "/").replace("~0", "~") for step in change["path"].split("/")[1:]]
        inner = value
        for step in around:
            inner = inner[int(step)] if isinstance(inner, list) else inner[step]
        if isinstance(inner, list):
            inner.insert(int(last), change["value"])
        else:
            inner[last] = change["value"]
    return value


@pytest.mark.parametrize("seed", range(3))
def test_partial_values(demo, seed):
    """The changes of a stream come to the value of the answer, each after the text that it stands in, in chats, texts and responses."""
    extension = {"stackmask": {"partial": True}, "stream": True}
    chat = posted(demo, "/v1/chat/completions", {"messages": ASK, "response_format": FORMAT, "seed": seed, "n": 2, **extension})
    texts, values, seen = ["", ""], [None, None], 0
    for event in data(chat.text):
        for choice in event["choices"]:
            index = choice["index"]
            texts[index] += choice["delta"].get("content") or ""
            changes = choice.get("stackmask", {}).get("partial", [])
            seen += bool(changes)
            values[index] = applied(values[index], changes)
            if isinstance(values[index], dict) and "name" in values[index]:
                assert json.dumps(values[index]["name"], ensure_ascii=False) in texts[index] or "\\" in texts[index]
    assert values == [json.loads(text) for text in texts] and seen > 4
    text = data(posted(demo, "/v1/completions", {"prompt": "7 ", "json_schema": {"type": "integer"}, "seed": seed, **extension}).text)
    value = applied(None, [change for event in text for change in event["choices"][0].get("stackmask", {}).get("partial", [])])
    assert value == json.loads("".join(event["choices"][0]["text"] for event in text))
    events = data(posted(demo, "/v1/responses", {"input": "Hi", "tools": [FLAT], "tool_choice": "required", **extension}).text)
    value = applied(None, [change for event in events for change in event.get("stackmask", {}).get("partial", [])][:2])
    assert value == json.loads(events[-1]["response"]["output"][0]["arguments"])


def test_partial_values_that_cannot_be(demo):
    """Without a stream, or where nothing is JSON, the field is an error and not ignored."""
    for body, said in (({"response_format": FORMAT}, "stream"), ({"regex": "a", "stream": True}, "JSON"), ({"stream": True}, "JSON")):
        answer = posted(demo, "/v1/chat/completions", {"messages": ASK, "stackmask": {"partial": True}, **body})
        assert answer.status_code == 400 and said in answer.json()["error"]["message"]
        assert answer.json()["error"]["param"] == "stackmask"
