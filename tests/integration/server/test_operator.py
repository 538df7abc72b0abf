"""What operators see and set: pages, logs, origins, the summary at the start, chat templates, numbers and devices."""

import json
import re
import shutil
import time

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")
httpx = pytest.importorskip("httpx")

from support.server import Server  # noqa: E402

from stackmask.integration.cli.entry import main  # noqa: E402
from stackmask.integration.demo import demo_model_path  # noqa: E402

ASK = [{"role": "user", "content": "Write a person as JSON with name, age."}]
ORIGIN = "https://pages.example"


@pytest.fixture(scope="module")
def base_model(tmp_path_factory):
    """The demo model as a base model: without a chat template."""
    directory = tmp_path_factory.mktemp("models") / "plain"
    shutil.copytree(demo_model_path(), directory)
    (directory / "chat_template.jinja").unlink()
    return directory


@pytest.fixture(scope="module")
def server():
    server = Server("--log-level", "info", "--log-format", "json", "--api-key", "secret", "--cors-origin", ORIGIN)
    yield server
    server.stop()


def lines_until(server, pattern):
    """The lines of a server's log, once one of them fits."""
    end = time.monotonic() + 20
    while not any(re.search(pattern, line) for line in server.lines):
        assert time.monotonic() < end, "".join(server.lines)
        time.sleep(0.02)
    return server.lines


def test_pages(server):
    """The landing page and the routes need no key and nothing of another server; every route and its fields are there."""
    landing, docs = httpx.get(f"{server.url}/", headers={"Accept": "text/html"}), httpx.get(f"{server.url}/docs")
    for page in (landing, docs):
        assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert not re.search(r"<script|(?:src|href)=.?(?:https?:)?//", page.text)
    paths = httpx.get(f"{server.url}/openapi.json").json()["paths"]
    assert "/v1/chat/completions" in paths
    for path in paths:
        assert path in docs.text
    for field in ("response_format", "min_tokens", "skip_special_tokens"):
        assert f"<code>{field}</code>" in docs.text
    for link in re.findall('href="([^"]+)"', landing.text):
        assert httpx.get(f"{server.url}/{link}", headers={"Authorization": "Bearer secret"}).status_code == 200, link


def test_origins(server):
    """A page of the named origin may ask, without a key first, and reads refusals; others may not."""
    url = f"{server.url}/v1/chat/completions"
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    allowed = httpx.options(url, headers={"Origin": ORIGIN, **asked})
    assert allowed.status_code == 200 and allowed.headers["access-control-allow-origin"] == ORIGIN
    assert httpx.options(url, headers={"Origin": "https://other.example", **asked}).status_code == 400
    refused = httpx.post(url, json={"messages": ASK}, headers={"Origin": ORIGIN})
    assert refused.status_code == 401 and refused.headers["access-control-allow-origin"] == ORIGIN


def test_structured_logs(server):
    """Each request is a JSON object with its id; nothing of its body or its headers is in it."""
    answer = httpx.post(
        f"{server.url}/v1/chat/completions?q=1",
        json={"messages": [{"role": "user", "content": "confidential"}], "max_tokens": 3},
        headers={"Authorization": "Bearer secret"},
        timeout=60,
    )
    lines = lines_until(server, answer.headers["x-request-id"])
    entries = [json.loads(line) for line in lines if line.startswith("{")]
    (entry,) = (entry for entry in entries if entry.get("request_id") == answer.headers["x-request-id"])
    assert (entry["method"], entry["path"], entry["status"], entry["client"]) == ("POST", "/v1/chat/completions", 200, "127.0.0.1")
    assert entry["level"] == "info" and entry["seconds"] > 0 and entry["request_bytes"] > 0
    assert not any(word in line for line in lines for word in ("confidential", "secret", "q=1"))


def test_the_summary(server):
    """The first lines say what is served and how."""
    text = "".join(lines_until(server, "API key"))
    for name, value in (
        ("model", r"demo \(LlamaForCausalLM, 0\.\d million weights, float32\)"),
        ("device", "cpu"),
        ("context", "2048 tokens"),
        ("chat", "the model's own template"),
        ("tools", r"hermes_compact \(found in the chat template\)"),
        ("grammars", "all kinds; 1 MiB and 10 s each"),
        ("API key", "asked for"),
    ):
        assert re.search(rf"^  {name} +{value}", text, re.MULTILINE), text


def test_a_model_without_a_chat_template(base_model):
    """It gets a plain one, with a warning; numbers and the device are chosen."""
    server = Server("--model", str(base_model), "--dtype", "bfloat16", "--device", "cpu")
    try:
        text = "".join(lines_until(server, "API key"))
        assert "warning: the model has no chat template" in text and "a plain template, as the model has none" in text
        assert "bfloat16" in text
        answer = httpx.post(f"{server.url}/v1/chat/completions", json={"messages": ASK, "regex": "[ab]{3}"}, timeout=60)
        assert re.fullmatch("[ab]{3}", answer.json()["choices"][0]["message"]["content"])
    finally:
        server.stop()


def test_a_chat_template_of_the_operator(base_model, tmp_path):
    """A template in a file takes the place of the model's."""
    template = tmp_path / "chat.jinja"
    template.write_text("{{ messages[0].content }}: ")
    server = Server("--model", str(base_model), "--chat-template", str(template), "--log-level", "info")
    try:
        text = "".join(lines_until(server, "API key"))
        assert f"the template in {template}" in text and "warning" not in text
        body = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 2}
        assert httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=60).json()["usage"]["prompt_tokens"] <= 3
        assert any(re.search(r"127\.0\.0\.1 POST /v1/chat/completions 200 \d\.\d{3} s", line) for line in lines_until(server, "POST"))
    finally:
        server.stop()


@pytest.mark.parametrize(
    "arguments",
    [("--chat-template", "/nowhere"), ("--device", "nonsense"), ("--api-key-file", "/nowhere")],
    ids=lambda arguments: arguments[0],
)
def test_what_cannot_be_served(arguments, capsys):
    """What the operator got wrong is one line."""
    assert main(["serve", "--demo", *arguments]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
