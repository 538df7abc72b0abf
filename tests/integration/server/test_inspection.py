"""The inspector in the server: the page without a key, the route with one, and the model's probabilities."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("fastapi")
pytest.importorskip("prometheus_client")
pytest.importorskip("httpx")

from starlette.testclient import TestClient  # noqa: E402

from stackmask.integration.demo import load_model  # noqa: E402
from stackmask.integration.engine import Engine  # noqa: E402
from stackmask.integration.server import ServerOptions, create_app  # noqa: E402

SCHEMA = '{"type": "object", "properties": {"age": {"type": "integer", "maximum": 120}}, "required": ["age"]}'


@pytest.fixture(scope="module")
def client():
    torch.set_num_threads(1)
    model, tokenizer = load_model()
    with TestClient(create_app(Engine(model, tokenizer), ServerOptions(model_name="demo", api_key="secret"))) as client:
        yield client


def ask(client, **body):
    return client.post("/v1/grammar/inspect", json=body, headers={"Authorization": "Bearer secret"})


def test_the_page_needs_no_key_and_the_route_does(client):
    page = client.get("/inspect")
    assert page.status_code == 200
    assert "script-src 'self';" in page.headers["Content-Security-Policy"]
    assert client.get("/inspect/app.js").headers["Content-Type"].startswith("text/javascript")
    assert client.get("/inspect/nothing").status_code == 404
    body = {"specification": {"kind": "json_schema", "text": SCHEMA}}
    assert client.post("/v1/grammar/inspect", json=body).status_code == 401
    assert client.get("/v1/grammar/inspect").status_code == 401
    info = client.get("/v1/grammar/inspect", headers={"Authorization": "Bearer secret"}).json()
    assert (info["model"], info["tokenizers"][0]["size"]) == ("demo", 1280)


def test_the_route(client):
    answer = ask(client, specification={"kind": "json_schema", "text": SCHEMA}, text='{"age": 121').json()
    assert answer["trace"]["refusal"]["place"]["pointer"] == "/properties/age/maximum"
    assert answer["tokens"]["exact"]
    wrong = ask(client, specification={"kind": "x", "text": ""})
    assert wrong.status_code == 400
    assert wrong.json()["error"]["param"] == "specification.kind"


def test_probabilities(client):
    """Q is p among the allowed tokens: both are probabilities, q is no less, and their ratio is the feasible mass."""
    text = '{"age": 31}'
    specification = {"kind": "json_schema", "text": SCHEMA}
    answer = ask(client, specification=specification, text=text, views=["trace", "probabilities"], prompt="Write a person.").json()
    rows = answer["probabilities"]["tokens"]
    assert b"".join(text.encode()[start:end] for _, start, end, *_ in rows) == text.encode()
    for _, _, _, p, q, mass in rows:
        assert 0 <= p <= q <= 1
        assert 0 < mass <= 1.001
        assert q == pytest.approx(p / mass, rel=1e-3)
    long = ask(client, specification=specification, text="x" * 3000, views=["probabilities"]).json()
    assert "at most 512" in long["probabilities"]["error"]


def test_the_route_is_documented(client):
    described = client.get("/openapi.json").json()["paths"]["/v1/grammar/inspect"]["post"]
    schema = described["requestBody"]["content"]["application/json"]["schema"]
    assert schema["required"] == ["specification"]
    assert not schema["additionalProperties"]
