"""Two pages for people: an overview, and the fields and answers of every route. They need no script and load nothing from other servers."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse, Response

Json = Mapping[str, Any]

STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color-scheme: light dark; }
code, pre { font-family: ui-monospace, monospace; font-size: 0.9em; }
pre { overflow-x: auto; padding: 0.8rem; border: 1px solid #8884; border-radius: 4px; }
summary { cursor: pointer; padding: 0.3rem 0; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: 0.2rem 0.8rem 0.2rem 0; border-bottom: 1px solid #8883; }
"""
POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
LANDING: Final = """
<h1>stackmask</h1>
<p>A server for OpenAI's, Anthropic's and Ollama's clients, in which constraints on an answer hold.</p>
<ul>
<li><a href="docs">Routes</a>, with the fields of requests; <a href="openapi.json">as OpenAPI</a></li>
<li><a href="inspect">Inspector</a>: why a text is refused, and what may come next</li>
<li><a href="health">Health</a> and <a href="metrics">metrics</a></li>
</ul>
<pre>from openai import OpenAI

client = OpenAI(base_url="http://THIS-SERVER/v1", api_key="KEY")
model = client.models.list().data[0].id
answer = client.chat.completions.create(
    model=model,
    messages=[{"role": "user", "content": "Write a person as JSON."}],
    response_format={"type": "json_object"},
)
print(answer.choices[0].message.content)</pre>
"""


def add_pages(app: FastAPI) -> None:
    """Add the landing page and the page of the routes that were added before."""
    home, routes = _page("stackmask", LANDING), _page("Routes of this server", describe_routes(app.openapi()))

    @app.get("/", include_in_schema=False)
    async def landing(http: Request) -> Response:
        """Show an overview to a browser, and tell clients of Ollama that the server is up."""
        return home if "text/html" in http.headers.get("accept", "") else PlainTextResponse("stackmask is running")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        """Describe the routes."""
        return routes


def describe_routes(openapi: Json) -> str:
    """An OpenAPI description as HTML: for each route its purpose, its fields, and its statuses."""
    parts = ['<h1>Routes</h1><p><a href="./">Home</a> · <a href="openapi.json">openapi.json</a></p>']
    schemas: Json = openapi.get("components", {}).get("schemas", {})
    for path, methods in openapi["paths"].items():
        for method, route in methods.items():
            head = f"<code>{method.upper()} {escape(path)}</code> {escape(route.get('description') or route.get('summary', ''))}"
            body = "".join(_fields(route, schemas))
            statuses = "".join(
                f"<tr><td><code>{status}</code></td><td>{escape(answer.get('description', ''))}</td></tr>"
                for status, answer in route.get("responses", {}).items()
            )
            parts.append(f"<details><summary>{head}</summary>{body}<h4>Answers</h4><table>{statuses}</table></details>")
    return "\n".join(parts)


def _fields(route: Json, schemas: Json) -> Iterator[str]:
    """The fields of a request's body."""
    content = route.get("requestBody", {}).get("content", {}).get("application/json", {})
    schema = _resolved(content.get("schema", {}), schemas)
    if not schema.get("properties"):
        return
    required = schema.get("required", ())
    yield "<h4>Fields</h4><table>"
    for name, field in schema["properties"].items():
        must = " (required)" if name in required else ""
        yield f"<tr><td><code>{escape(name)}</code>{must}</td><td><code>{escape(_kind(field, schemas))}</code></td></tr>"
    yield "</table>"


def _kind(field: Json, schemas: Json) -> str:
    """The type of a field in a line."""
    if "$ref" in field:
        inner = _resolved(field, schemas)
        return "{" + ", ".join(inner.get("properties", ())) + "}"
    if "anyOf" in field:
        return " | ".join(_kind(option, schemas) for option in field["anyOf"])
    if "const" in field or "enum" in field:
        return " | ".join(json.dumps(value) for value in field.get("enum", [field.get("const")]))
    kind = str(field.get("type", "any"))
    if kind == "array":
        return f"[{_kind(field.get('items', {}), schemas)}]"
    low, high = (field.get(name, field.get(f"exclusive{name.capitalize()}")) for name in ("minimum", "maximum"))
    bounds = f" {'' if low is None else low} to {'' if high is None else high}" if low is not None or high is not None else ""
    return kind + bounds.rstrip()


def _resolved(schema: Json, schemas: Json) -> Json:
    """The schema that a reference names."""
    found: Json = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return found


def _page(title: str, body: str) -> Response:
    text = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{STYLE}</style>{body}</html>"
    )
    headers = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
    return Response(text, media_type="text/html; charset=utf-8", headers=headers)
