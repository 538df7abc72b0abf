"""Protocols beside OpenAI's, each in a separate folder: their routes, and the form of errors by path."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse, Response

from . import anthropic, decisions, ollama
from .anthropic import CountTokensRequest, MessagesRequest
from .decisions import DecisionsRequest, SystemOneRequest
from .errors import ApiError
from .ollama import GenerateRequest, OllamaChatRequest, ShowRequest
from .serving import Serving

JSON_LINES = "application/x-ndjson"


class Generation(Protocol):
    """The common part of the generating routes."""

    async def prepare(self) -> None:
        """Check everything and compile the grammar."""

    async def answer(self, http: Request) -> dict[str, Any]:
        """The whole answer."""

    def stream(self) -> AsyncIterator[bytes]:
        """The answer as the bytes of a stream."""


Run = Callable[..., Awaitable[Response]]
"""Runs a Generation: (generation, http, stream, media_type) to the response."""


def error_body(path: str, error: ApiError) -> dict[str, Any]:
    """An error in the form of the protocol that a path belongs to."""
    if path.startswith("/v1/messages"):
        return anthropic.error_body(error)
    return ollama.error_body(error) if path.startswith("/api/") else error.body


def add_routes(app: FastAPI, serving: Callable[[], Serving], run: Run, errors: dict[int | str, dict[str, Any]]) -> None:
    """The routes of the protocols."""
    _add_anthropic(app, serving, run, errors)
    _add_ollama(app, serving, run, errors)
    _add_decisions(app, serving, errors)


def _add_anthropic(app: FastAPI, serving: Callable[[], Serving], run: Run, errors: dict[int | str, dict[str, Any]]) -> None:
    @app.post("/v1/messages", responses=errors, response_model=None)
    async def messages(body: MessagesRequest, http: Request) -> Response:
        """Answer a conversation with Anthropic's next message."""
        return await run(anthropic.Message(serving(), body), http, body.stream)

    @app.post("/v1/messages/count_tokens", responses=errors)
    async def count_tokens(body: CountTokensRequest) -> dict[str, Any]:
        """Count the tokens of a conversation."""
        return await anthropic.count_tokens(serving(), body)


def _add_ollama(app: FastAPI, serving: Callable[[], Serving], run: Run, errors: dict[int | str, dict[str, Any]]) -> None:
    started = time.time()

    @app.post("/api/chat", responses=errors, response_model=None)
    async def ollama_chat(body: OllamaChatRequest, http: Request) -> Response:
        """Answer a chat in Ollama's form."""
        return await run(ollama.Reply(serving(), body), http, body.streams, JSON_LINES)

    @app.post("/api/generate", responses=errors, response_model=None)
    async def ollama_generate(body: GenerateRequest, http: Request) -> Response:
        """Answer a prompt in Ollama's form."""
        return await run(ollama.Reply(serving(), body), http, body.streams, JSON_LINES)

    @app.get("/api/tags")
    @app.get("/api/ps")
    async def ollama_tags() -> dict[str, Any]:
        """List the served model in Ollama's form."""
        return ollama.list_models(serving(), started)

    @app.post("/api/show", responses=errors)
    async def ollama_show(body: ShowRequest) -> dict[str, Any]:
        """Describe a model in Ollama's form."""
        serving().planner.check_model(body.model.removesuffix(":latest"))
        return ollama.describe_model(serving(), started)

    @app.get("/api/version")
    async def ollama_version() -> dict[str, str]:
        """Report which version of Ollama's interface this is."""
        return {"version": ollama.VERSION}

    @app.head("/", response_class=PlainTextResponse)
    async def root() -> str:
        """Report that the server is up, as clients of Ollama ask; `pages` answers to GET."""
        return ""


def _add_decisions(app: FastAPI, serving: Callable[[], Serving], errors: dict[int | str, dict[str, Any]]) -> None:
    court = decisions.Court()

    @app.post("/v1/decisions", responses=errors)
    async def decide(body: DecisionsRequest, http: Request) -> dict[str, Any]:
        """Answer typed questions about an input by probabilities."""
        return decisions.decisions_body(serving(), body, await court.answer(serving(), body, http))

    @app.post("/v1/systemone", responses=errors)
    async def system_one(body: SystemOneRequest, http: Request) -> dict[str, Any]:
        """Answer typed questions about a state by probabilities."""
        return decisions.system_one_body(body, await court.answer(serving(), body, http))
