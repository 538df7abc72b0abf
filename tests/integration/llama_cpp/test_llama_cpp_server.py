"""`stackmask serve --gguf` and `stackmask generate --gguf`, as processes of their own."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import jsonschema
import pytest

pytest.importorskip("torch")
pytest.importorskip("fastapi")

from stackmask.integration.cli import main
from stackmask.integration.llama_cpp import model as llama_model

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "pattern": "^(?!x)[a-z ]{1,9}$"}, "age": {"type": "integer", "minimum": 0, "maximum": 120}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def server(library, files):
    """A server of the demo model as a GGUF file, with drafts and jumps, on one thread."""
    pytest.importorskip("openai")
    from support.server import Server

    options = ("--context", "400", "--max-concurrent", "3", "--torch-threads", "1", "--speculation", "3", "--jump-forward")
    with pytest.MonkeyPatch.context() as context:
        context.setenv("STACKMASK_LIBLLAMA", str(library.path))
        server = Server("--gguf", str(files["demo"]), *options)
    yield server
    assert server.stop() == 0


def test_chats_and_tools(server):
    """More clients than rows get valid answers; tools and streams are as with other models; the context is the one that was asked for."""
    client = server.client()
    (model,) = client.models.list()
    assert (model.id, model.max_model_len) == ("demo", 400)

    def ask(number):
        format = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA, "strict": True}}
        messages = [{"role": "user", "content": f"Write a person as JSON. {number}"}]
        answer = client.chat.completions.create(model="demo", messages=messages, response_format=format, seed=number, max_tokens=80)
        jsonschema.validate(json.loads(answer.choices[0].message.content), SCHEMA)
        return answer.choices[0].finish_reason

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(ask, range(9))) <= {"stop", "length"}
    tools = [{"type": "function", "function": {"name": "save", "parameters": SCHEMA}}]
    answer = client.chat.completions.create(
        model="demo", messages=[{"role": "user", "content": "Save Anna."}], tools=tools, tool_choice="required", max_tokens=120
    )
    (call,) = answer.choices[0].message.tool_calls[:1]
    jsonschema.validate(json.loads(call.function.arguments), SCHEMA)
    pieces = client.completions.create(model="demo", prompt="1", max_tokens=20, stream=True, extra_body={"regex": "[0-9]{3}(,[0-9]{3}){2}"})
    assert len("".join(piece.choices[0].text for piece in pieces if piece.choices)) == 11


def test_generate_on_the_command_line(library, files, monkeypatch, capsys):
    """The answer goes to standard output; a file that is no model is a message."""
    monkeypatch.setattr(llama_model, "_cores", lambda: 1)
    monkeypatch.setenv("STACKMASK_LIBLLAMA", str(library.path))
    command = ["generate", "--regex", "[ab]{3}", "--prompt", "abc", "--gguf"]
    assert main([*command, str(files["spm"])]) == 0
    assert re.fullmatch("[ab]{3}\n", capsys.readouterr().out)
    assert main([*command, __file__]) == 2
    assert "not a GGUF file" in capsys.readouterr().err
