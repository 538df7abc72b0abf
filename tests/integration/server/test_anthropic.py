"""Anthropic's client against the server."""

import asyncio
import base64
import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")
anthropic = pytest.importorskip("anthropic")
pydantic = pytest.importorskip("pydantic")

import httpx  # noqa: E402
from jsonschema import Draft202012Validator  # noqa: E402
from starlette.responses import PlainTextResponse  # noqa: E402

from stackmask.integration.engine import Engine  # noqa: E402
from stackmask.integration.server import ServerOptions  # noqa: E402
from stackmask.integration.server.anthropic import MessagesRequest, chat_request  # noqa: E402
from stackmask.integration.server.anthropic.requests import THINKING  # noqa: E402
from stackmask.integration.server.errors import ApiError  # noqa: E402
from stackmask.integration.server.gate import Gate  # noqa: E402
from stackmask.integration.server.metrics import Metrics  # noqa: E402

ASK = [{"role": "user", "content": "Write a person as JSON with name, age."}]
WEATHER_ASK = [{"role": "user", "content": "Weather in Oslo?"}]
CITY = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, "required": ["city"], "additionalProperties": False}
COUNT = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 99}}, "required": ["a"], "additionalProperties": False}
TOOLS = [
    {"name": "get_weather", "description": "The weather.", "input_schema": CITY, "strict": True},
    {"type": "custom", "name": "add", "input_schema": COUNT, "cache_control": {"type": "ephemeral"}},
]
SCHEMAS = {"get_weather": CITY, "add": COUNT}
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0, "maximum": 120}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
FORMAT = {"format": {"type": "json_schema", "schema": PERSON}}


@pytest.fixture(scope="module")
def client(demo):
    with anthropic.Anthropic(base_url=demo.url, api_key="none", max_retries=0) as client:
        yield client


def create(client, messages=ASK, **fields):
    """A message by the client; `extra` are fields that its types do not have."""
    extra = {"temperature": 0, **fields.pop("extra", {})}
    return client.messages.create(model="demo", messages=messages, **{"max_tokens": 80, "extra_body": extra, **fields})


def events_of(client, messages=ASK, **fields):
    """The events of a stream as they come, and the message that the client makes of them."""
    extra = {"temperature": 0, **fields.pop("extra", {})}
    with client.messages.stream(model="demo", messages=messages, **{"max_tokens": 80, "extra_body": extra, **fields}) as stream:
        events = list(stream)
        return events, stream.get_final_message()


def check_order(events):
    """Message, blocks, message: the order of the protocol; the indices count the blocks."""
    kinds = [event.type for event in events if event.type not in ("text", "input_json", "thinking", "signature")]
    assert kinds[0] == "message_start" and kinds[-2:] == ["message_delta", "message_stop"]
    index, is_open = 0, False
    for event in events:
        if event.type == "content_block_start":
            assert event.index == index and not is_open
            is_open = True
        elif event.type == "content_block_delta":
            assert event.index == index and is_open
        elif event.type == "content_block_stop":
            assert event.index == index and is_open
            index, is_open = index + 1, False
    assert not is_open


def test_a_text(client):
    """A message of text, its counts and why it ended; the system prompt counts, as a text and as blocks."""
    message = create(client, max_tokens=5)
    assert (message.type, message.role, message.model, message.stop_reason) == ("message", "assistant", "demo", "max_tokens")
    assert [block.type for block in message.content] == ["text"] and message.id.startswith("msg_")
    assert message.usage.output_tokens == 5
    plain = message.usage.input_tokens
    for system in ("Be short.", [{"type": "text", "text": "Be short.", "cache_control": {"type": "ephemeral"}}]):
        assert create(client, system=system, max_tokens=5).usage.input_tokens > plain
    assert message._request_id.startswith("req_")


def test_a_schema(client):
    """`output_config.format` holds the answer to a schema, in a stream too, and `parse` makes an object of it."""
    message = create(client, output_config=FORMAT)
    Draft202012Validator(PERSON).validate(json.loads(message.content[0].text))
    assert message.stop_reason == "end_turn"
    events, final = events_of(client, output_config=FORMAT)
    check_order(events)
    assert final.content[0].text == message.content[0].text and final.stop_reason == "end_turn"
    assert final.usage.output_tokens == message.usage.output_tokens and final.usage.input_tokens == message.usage.input_tokens

    class Person(pydantic.BaseModel):
        name: str
        age: int

    parsed = client.messages.parse(model="demo", max_tokens=100, messages=ASK, output_format=Person)
    assert isinstance(parsed.parsed_output, Person)
    assert create(client, extra={"output_format": FORMAT["format"]}).content[0].text == message.content[0].text


def test_a_closed_answer(client):
    """Near the limit the answer is closed: still valid, with the reason of the limit. A limit that holds none cuts it, or is refused."""
    message = create(client, output_config=FORMAT, max_tokens=24, extra={"temperature": 1})
    Draft202012Validator(PERSON).validate(json.loads(message.content[0].text))
    cut = create(client, output_config=FORMAT, max_tokens=3)
    assert cut.stop_reason == "max_tokens" and cut.usage.output_tokens == 3
    with pytest.raises(anthropic.BadRequestError, match="cannot hold even the shortest answer"):
        create(client, output_config=FORMAT, max_tokens=3, extra={"stackmask": {"finish_within_budget": True}})


def test_the_choice_of_tools(client):
    """auto, any, a tool and none; calls have ids, and inputs that validate."""
    for choice, fewest, most in (
        ({"type": "auto"}, 0, 9),
        ({"type": "auto", "disable_parallel_tool_use": True}, 0, 1),
        ({"type": "any"}, 1, 9),
        ({"type": "any", "disable_parallel_tool_use": True}, 1, 1),
        ({"type": "tool", "name": "add"}, 1, 1),
        ({"type": "none"}, 0, 0),
    ):
        message = create(client, WEATHER_ASK, tools=TOOLS, tool_choice=choice, max_tokens=120)
        calls = [block for block in message.content if block.type == "tool_use"]
        assert fewest <= len(calls) <= most, choice
        for call in calls:
            assert call.id.startswith("toolu_")
            Draft202012Validator(SCHEMAS[call.name]).validate(call.input)
        if choice["type"] in ("any", "tool"):
            assert message.stop_reason == "tool_use" and len(calls) == len(message.content)
        if choice["type"] == "tool":
            assert calls[0].name == "add"


def test_a_stream_of_calls(client):
    """A call is a block whose input comes in pieces; the stream says what the whole answer says."""
    options = {"tools": TOOLS, "tool_choice": {"type": "any"}, "max_tokens": 120}
    events, final = events_of(client, WEATHER_ASK, **options)
    check_order(events)
    whole = create(client, WEATHER_ASK, **options)
    assert [(block.name, block.input) for block in final.content] == [(block.name, block.input) for block in whole.content]
    assert final.stop_reason == "tool_use"
    first = next(event for event in events if event.type == "content_block_start")
    assert first.content_block.type == "tool_use" and first.content_block.name in SCHEMAS
    pieces = [event.delta.partial_json for event in events if event.type == "content_block_delta" and event.index == 0]
    assert len(pieces) > 1 and json.loads("".join(pieces)) == final.content[0].input


def test_a_call_that_is_cut(client):
    """A call that the limit cuts has the arguments that were finished."""
    budget = {"stackmask": {"finish_within_budget": False}}
    message = create(client, WEATHER_ASK, tools=TOOLS, tool_choice={"type": "tool", "name": "get_weather"}, max_tokens=15, extra=budget)
    assert message.stop_reason == "max_tokens" and isinstance(message.content[0].input, dict)


def test_a_conversation_with_tools(client):
    """Calls and results are read back, several in a turn, with an error among them."""
    used = [
        {"type": "tool_use", "id": f"toolu_{n}", "name": "get_weather", "input": {"city": city}} for n, city in enumerate(("Oslo", "Bonn"))
    ]
    results = [
        {"type": "tool_result", "tool_use_id": "toolu_0", "content": "sunny"},
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "no station"}], "is_error": True},
        {"type": "text", "text": "And now?"},
    ]
    thinking = {"type": "thinking", "thinking": "Two cities.", "signature": "of another server"}
    redacted = {"type": "redacted_thinking", "data": "xyz"}
    history = [
        *WEATHER_ASK,
        {"role": "user", "content": "And in Bonn?"},
        {"role": "assistant", "content": [thinking, redacted, {"type": "text", "text": "Let me see."}, *used]},
        {"role": "user", "content": results},
    ]
    message = create(client, history, tools=TOOLS, tool_choice={"type": "any"}, max_tokens=120)
    assert message.content[0].type == "tool_use"
    with pytest.raises(
        anthropic.BadRequestError, match=r"messages\[1\].content\[0\].tool_use_id is 'toolu_0', which is not an earlier tool_use"
    ):
        create(client, [*WEATHER_ASK, {"role": "user", "content": results[:1]}])


def test_stop_sequences(client):
    """A stop sequence ends the answer, which names it and does not have it."""
    whole = create(client, output_config=FORMAT).content[0].text
    stop = whole[10:13]
    message = create(client, output_config=FORMAT, stop_sequences=["never ", stop[:2], stop])
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", stop)
    assert message.content[0].text == whole[: whole.index(stop)]
    events, final = events_of(client, output_config=FORMAT, stop_sequences=[stop])
    check_order(events)
    assert (final.stop_reason, final.stop_sequence) == ("stop_sequence", stop)


def test_thinking(thinker):
    """Thinking comes in blocks of its own before the answer, with a signature, and can be left out or turned off."""
    fields = {"output_config": FORMAT, "max_tokens": 2000, "extra": {"temperature": 1}}
    with anthropic.Anthropic(base_url=thinker.url, api_key="none", max_retries=0) as client:
        events, final = events_of(client, **fields, thinking={"type": "enabled", "budget_tokens": 1024})
        check_order(events)
        assert [block.type for block in final.content] == ["thinking", "text"] and final.content[0].thinking
        Draft202012Validator(PERSON).validate(json.loads(final.content[1].text))
        signed = [event for event in events if event.type == "content_block_delta" and event.delta.type == "signature_delta"]
        assert [event.delta.signature for event in signed] == [final.content[0].signature]
        omitted = create(client, **fields, thinking={"type": "adaptive", "display": "omitted"})
        assert (omitted.content[0].type, omitted.content[0].thinking) == ("thinking", "")
        back = [*ASK, {"role": "assistant", "content": [omitted.content[0].to_dict(), {"type": "text", "text": "{}"}]}, *ASK]
        message = create(client, back, **fields, thinking={"type": "disabled"})
        assert [block.type for block in message.content] == ["text"]
        Draft202012Validator(PERSON).validate(json.loads(message.content[0].text))
        unseen = create(client, max_tokens=5)  # the model may think, and nobody asked to see it
        assert unseen.content == [] and unseen.usage.output_tokens == 5


def test_counting(client):
    """Tokens are counted as the message then counts them."""
    fields = {"system": "Be short.", "tools": TOOLS}
    counted = client.messages.count_tokens(model="demo", messages=ASK, **fields)
    assert counted.input_tokens == create(client, max_tokens=20, tool_choice={"type": "none"}, **fields).usage.input_tokens


def test_models(client):
    """The list of models is one that the client reads."""
    (model,) = client.models.list().data
    assert (model.id, model.type, model.display_name) == ("demo", "model", "demo")
    assert client.models.retrieve("demo").created_at == model.created_at


def test_refusals(client):
    """What cannot be served is refused by name, in the protocol's form."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    for fields, error in (
        ({"messages": [{"role": "user", "content": [image]}]}, r"messages\[0\].content\[0\] has a block of type 'image'"),
        ({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "{"}]}, "does not continue"),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, r"tools\[0\].type is 'bash_20250124'"),
        ({"tools": [{"name": "x", "input_schema": {"type": "string"}}]}, "input_schema must be a JSON Schema of type object"),
        ({"tools": [{"name": "x", "input_schema": CITY, "grammar": "a"}]}, r"unknown field tools\[0\].grammar"),
        ({"tools": TOOLS, "tool_choice": {"type": "some"}}, "tool_choice.type is 'some'"),
        ({"tools": TOOLS, "tool_choice": {"type": "tool", "name": "fly"}}, "tool_choice names 'fly'"),
        ({"thinking": {"type": "enabled", "budget_tokens": 10}}, "at least 1024"),
        ({"thinking": {"type": "between_tools"}}, "thinking.type is 'between_tools'"),
        ({"output_config": {"format": {"type": "regex"}}}, "output_config.format must be"),
        ({"output_config": {"format": {"type": "json_schema", "schema": {"type": "strin"}}}}, "strin"),
        ({"extra": {"logit_bias": {}}}, "unknown field 'logit_bias'"),
        ({"extra": {"temperature": 1.5}}, "temperature"),
        ({"container": "c"}, "container"),
        ({"max_tokens": 0}, "max_tokens"),
    ):
        with pytest.raises(anthropic.BadRequestError, match=error) as caught:
            create(client, **fields)
        assert caught.value.body["type"] == "error" and caught.value.body["error"]["type"] == "invalid_request_error"
    with pytest.raises(anthropic.NotFoundError, match="gpt") as missing:
        client.messages.create(model="gpt", max_tokens=5, messages=ASK)
    assert missing.value.body["error"]["type"] == "not_found_error"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"x-api-key": "secret"}, 200),
        ({"authorization": "Bearer secret"}, 200),
        ({"x-api-key": "wrong"}, 401),
        ({"authorization": "secret"}, 401),
        ({"x-api-key": "secret", "authorization": "Bearer wrong"}, 401),
        ({}, 401),
    ],
)
def test_the_key(headers, status):
    """The key comes in x-api-key or as a bearer token; without it the error has the form of the protocol."""
    gate = Gate(PlainTextResponse("in"), ServerOptions(api_key="secret"), Metrics(Engine.__new__(Engine)), 1024)

    async def ask():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=gate), base_url="http://test") as client:
            return await client.post("/v1/messages", headers=headers)

    answer = asyncio.run(ask())
    assert answer.status_code == status and answer.headers["request-id"] == answer.headers["x-request-id"]
    if status == 401:
        assert (answer.json()["type"], answer.json()["error"]["type"]) == ("error", "authentication_error")


def test_thinking_needs_an_end():
    """Where the server does not know the end of reasoning, thinking that was asked for is refused; where the model decides, it is off."""
    body = {"model": "demo", "messages": ASK, "max_tokens": 2000}
    asked = MessagesRequest(**body, thinking={"type": "enabled", "budget_tokens": 1024})
    with pytest.raises(ApiError, match="--reasoning-end"):
        chat_request(asked, can_think=False)
    assert chat_request(asked, can_think=True).chat_template_kwargs == {"enable_thinking": True}
    free = chat_request(MessagesRequest(**body, thinking={"type": "adaptive"}), can_think=False)
    assert free.chat_template_kwargs == {"enable_thinking": False} and free.stackmask.reasoning is False


def test_a_thought_without_text():
    """The text of a thinking block that was left out is read back from its signature; what is no signature of ours is refused."""
    block = {"type": "thinking", "thinking": "", "signature": THINKING + base64.b64encode(b"Hm.").decode()}
    said = {"role": "assistant", "content": [block, {"type": "text", "text": "Yes."}]}
    body = {"model": "demo", "max_tokens": 9, "messages": [*ASK, said, *ASK]}
    messages = chat_request(MessagesRequest(**body), can_think=True).messages
    assert messages[1] == {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."}
    block["signature"] += "!"
    with pytest.raises(ApiError, match="signature"):
        chat_request(MessagesRequest(**body), can_think=True)
