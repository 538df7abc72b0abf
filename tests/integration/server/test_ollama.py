"""Ollama's client against the server."""

import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")
ollama = pytest.importorskip("ollama")
pydantic = pytest.importorskip("pydantic")

import httpx  # noqa: E402  # the client's own dependency
from jsonschema import Draft202012Validator  # noqa: E402

ASK = [{"role": "user", "content": "Write a person as JSON with name, age."}]
WEATHER_ASK = [{"role": "user", "content": "Weather in Oslo?"}]
CITY = {"type": "object", "properties": {"city": {"type": "string", "enum": ["Oslo", "Bonn"]}}, "required": ["city"]}
WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "The weather.", "parameters": CITY}}
CALL = {"function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0, "maximum": 120}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
GREEDY = {"temperature": 0, "num_predict": 100}


@pytest.fixture(scope="module")
def client(demo):
    with ollama.Client(host=demo.url) as client:
        yield client


def joined(chunks, name):
    """The text of a stream: all of a field of its messages, or of its lines."""
    return "".join(getattr(chunk.message if hasattr(chunk, "message") else chunk, name) or "" for chunk in chunks)


def test_a_chat(client):
    """A message with its counts and times; a stream says the same, and its last line has them."""
    answer = client.chat("demo", ASK, options={**GREEDY, "num_predict": 8})
    assert (answer.model, answer.message.role, answer.done, answer.done_reason) == ("demo", "assistant", True, "length")
    assert answer.eval_count == 8 and answer.prompt_eval_count > 8
    assert answer.total_duration >= answer.eval_duration > 0 and answer.prompt_eval_duration > 0
    chunks = list(client.chat("demo", ASK, options={**GREEDY, "num_predict": 8}, stream=True))
    assert joined(chunks, "content") == answer.message.content
    assert [chunk.done for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert (chunks[-1].done_reason, chunks[-1].eval_count, chunks[-1].message.content) == ("length", 8, "")


@pytest.mark.parametrize("format", [PERSON, json.dumps(PERSON), "json"], ids=["schema", "text", "json"])
def test_a_format(client, format):
    """A schema, as an object or as its text, and "json", for chats and for texts, whole and streamed."""
    schema = {"type": "object"} if format == "json" else PERSON
    body = {"model": "demo", "format": format, "options": {**GREEDY, "temperature": 0.5, "seed": 7}, "stream": False}
    if isinstance(format, str) and format != "json":  # the client's types have no text of a schema
        answer = raw(client, ASK, **body)
    else:
        answer = client.chat(messages=ASK, **body)
        texts = [client.generate(prompt=ASK[0]["content"], **body).response, client.generate(prompt="Anna,", raw=True, **body).response]
        texts.append(joined(client.generate(prompt="Anna,", raw=True, **{**body, "stream": True}), "response"))
        assert texts[1] == texts[2]
        for text in texts:
            Draft202012Validator(schema).validate(json.loads(text))
        assert joined(client.chat(messages=ASK, **{**body, "stream": True}), "content") == answer.message.content
    Draft202012Validator(schema).validate(json.loads(answer.message.content))


def test_a_model_of_pydantic(client):
    """The way of Ollama's documentation: the schema of a class, and the class for the answer."""

    class Person(pydantic.BaseModel):
        name: str
        age: int

    answer = client.chat("demo", ASK, format=Person.model_json_schema(), options={"num_predict": 60})
    assert Person.model_validate_json(answer.message.content)


def test_options(client):
    """A seed repeats an answer, temperature and cuts change it, a stop text ends it, options of loading do nothing."""

    def text(**options):
        return client.generate("demo", "Hello", options={"num_predict": 12, **options}).response

    assert text(seed=3) == text(seed=3, num_ctx=2048, num_thread=2, repeat_penalty=1.0)
    assert len({text(seed=seed, temperature=1.5) for seed in range(4)}) > 1
    greedy = text(temperature=0)
    assert greedy == text(top_k=1) == text(top_p=1e-6) == text(min_p=1.0)
    stop = greedy[2:4]
    assert text(temperature=0, stop=[stop]) == greedy[: greedy.index(stop)] == text(temperature=0, stop=stop)
    assert text(temperature=0, presence_penalty=2.0, frequency_penalty=2.0) != ""
    unlimited = client.chat("demo", ASK, format=PERSON, options={"num_predict": -1})
    assert unlimited.done_reason == "stop"


def test_tools(client):
    """Calls have their arguments as objects; a stream sends each when it is whole."""
    options = {"temperature": 0, "num_predict": 100}
    answer = client.chat("demo", WEATHER_ASK, tools=[WEATHER], options=options)
    (call,) = answer.message.tool_calls
    assert call.function.name == "get_weather"
    Draft202012Validator(CITY).validate(call.function.arguments)
    chunks = list(client.chat("demo", WEATHER_ASK, tools=[WEATHER], options=options, stream=True))
    assert [call for chunk in chunks for call in chunk.message.tool_calls or ()] == [call]

    def get_weather(city: str) -> str:
        """The weather of a city."""
        return city

    assert client.chat("demo", WEATHER_ASK, tools=[get_weather], options=options).message.tool_calls
    history = [*WEATHER_ASK, {"role": "assistant", "content": "", "tool_calls": [CALL, CALL], "thinking": "Oslo it is."}]
    results = [{"role": "tool", "tool_name": "get_weather", "content": "sunny"}, {"role": "tool", "content": "cold"}]
    assert client.chat("demo", [*history, *results], format=PERSON, options=options).done_reason == "stop"


def test_thinking(thinker):
    """Thinking comes apart from the answer, or not at all."""
    options = {"num_predict": 200, "seed": 2}
    with ollama.Client(host=thinker.url) as client:
        answer = client.chat("demo", ASK, think=True, format=PERSON, options=options)
        assert answer.message.thinking
        Draft202012Validator(PERSON).validate(json.loads(answer.message.content))
        chunks = list(client.chat("demo", ASK, think="high", format=PERSON, options=options, stream=True))
        assert (joined(chunks, "thinking"), joined(chunks, "content")) == (answer.message.thinking, answer.message.content)
        none = client.generate("demo", "Write a person", think=False, format=PERSON, options=GREEDY)
        assert none.thinking is None and json.loads(none.response)
        assert "thinking" in client.show("demo").capabilities


def test_logprobs(client):
    """Log-probabilities of the tokens, with alternatives."""
    answer = client.generate("demo", "Hello", logprobs=True, top_logprobs=3, options={"num_predict": 4, "temperature": 0})
    assert len(answer.logprobs) == answer.eval_count and all(len(entry.top_logprobs) == 3 for entry in answer.logprobs)
    chunks = list(client.chat("demo", ASK, logprobs=True, options={"num_predict": 4}, stream=True))
    assert sum(len(chunk.logprobs or ()) for chunk in chunks) == chunks[-1].eval_count


def test_the_model(demo, client):
    """The model is listed and described; its name may have Ollama's tag; the version is that of the interface."""
    for listed in (client.list(), client.ps()):
        assert [model.model for model in listed.models] == ["demo"]
    assert client.list().models[0].size > 100_000
    shown = client.show("demo:latest")
    assert shown.capabilities == ["completion", "tools"] and shown.template
    kind = shown.modelinfo["general.architecture"]
    assert shown.modelinfo[f"{kind}.context_length"] > 0 and shown.details.family == kind
    assert client.chat("demo:latest", ASK, options={"num_predict": 1}).eval_count == 1
    assert httpx.get(f"{demo.url}/api/version").json()["version"].count(".") == 2
    assert httpx.get(demo.url).text == "stackmask is running" and httpx.head(demo.url).status_code == 200


def test_loading(client):
    """A request without a prompt asks for the model, which is there."""
    assert client.generate("demo").done_reason == "load"
    (line,) = client.chat("demo", stream=True)
    assert line.done and line.done_reason == "load"


def test_a_stream_is_the_default(demo):
    """Without `stream` the answer is a stream of JSON lines."""
    body = {"model": "demo", "prompt": "Hello", "options": {"num_predict": 3}}
    answer = httpx.post(f"{demo.url}/api/generate", json=body)
    assert answer.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]


def raw(client, messages, **fields):
    """A chat that the client's types would not send."""
    body = {"model": "demo", "messages": messages, "stream": False, **fields}
    return client._request(ollama.ChatResponse, "POST", "/api/chat", json=body)


def test_refusals(client):
    """What cannot be served is refused by name, in the protocol's form."""
    for call, error in (
        (lambda: client.chat("demo", [{"role": "user", "content": "hi", "images": ["aGk="]}]), r"messages\[0\].images is not supported"),
        (lambda: client.generate("demo", "hi", suffix="end"), "suffix is not supported"),
        (lambda: client.generate("demo", "hi", context=[1]), "context is not supported: send the messages"),
        (lambda: client.generate("demo", "hi", system="x", raw=True), "no place for system"),
        (lambda: client.chat("demo", ASK, options={"mirostat": 2}), "options.mirostat is 2"),
        (lambda: client.chat("demo", ASK, options={"repeat_penalty": 1.1}), "options.repeat_penalty is 1.1"),
        (lambda: client.chat("demo", ASK, options={"grammar": "a"}), "unknown field options.grammar"),
        (lambda: client.chat("demo", ASK, options={"num_predict": 0}), "max_tokens"),
        (lambda: client.chat("demo", ASK, format={"type": "strin"}), "strin"),
        (lambda: raw(client, [{"role": "user", "content": "hi", "name": "y"}]), r"unknown field messages\[0\].name"),
        (lambda: raw(client, [{"role": "assistant", "tool_calls": [{"function": {"name": "x"}}]}]), "name and arguments"),
        (lambda: raw(client, ASK, format="yaml"), 'available: "json" and a JSON Schema'),
    ):
        with pytest.raises(ollama.ResponseError, match=error) as caught:
            call()
        assert caught.value.status_code == 400
    with pytest.raises(ollama.ResponseError, match="gpt") as caught:
        list(client.chat("gpt", ASK, stream=True))
    assert caught.value.status_code == 404
    with pytest.raises(ollama.ResponseError) as caught:
        client.embed("demo", "hi")
    assert caught.value.status_code == 404 and "/api/embed" in caught.value.error
