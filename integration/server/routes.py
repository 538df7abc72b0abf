"""The application: its routes, and errors in the form of their protocol."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from ..engine import Engine
from .chat import Chat
from .check import check
from .completions import Completion
from .described import describe_answers
from .errors import ApiError, api_error
from .gate import Gate
from .inspection import Inspection, add_inspector
from .metrics import Metrics
from .options import ServerOptions
from .pages import add_pages
from .protocol import ChatRequest, CheckRequest, CompletionRequest, ResponsesRequest, describe
from .protocols import Generation, add_routes, error_body
from .responses import Response as ModelResponse
from .serving import ClientGoneError, JsonResponse, Serving

_log = logging.getLogger("stackmask.server")


def create_app(engine: Engine, options: ServerOptions | None = None) -> FastAPI:
    """The application; it starts the engine when it starts, and closes it when it ends."""
    options = options or ServerOptions()
    metrics = Metrics(engine)
    engine.on_finish = lambda request, answer: metrics.answer(answer)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine.start()
        app.state.serving = Serving(engine, options, metrics)
        app.state.inspection = Inspection(app.state.serving, options.model_name)
        try:
            yield
        finally:
            app.state.inspection.close()
            await asyncio.to_thread(engine.close)
            app.state.serving.aio.close()
            app.state.serving.planner.close()

    app = FastAPI(default_response_class=JsonResponse, title="stackmask", version="1", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.metrics = metrics
    _add_routes(app, options)
    describe_answers(app)
    add_pages(app)
    _add_errors(app)
    app.add_middleware(Gate, options=options, metrics=metrics, context=engine.slots.context)
    if options.cors_origins:  # before the gate: a browser asks without a key whether it may ask, and reads refusals too
        app.add_middleware(
            CORSMiddleware,
            allow_origins=options.cors_origins,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=["x-request-id"],
        )
    return app


def _add_routes(app: FastAPI, options: ServerOptions) -> None:
    started = int(time.time())
    errors: dict[int | str, dict[str, Any]] = {
        status: {"description": what}
        for status, what in (
            (400, "The request or its grammar is wrong."),
            (401, "The API key is missing or wrong."),
            (403, "The operator allows no such constraint."),
            (404, "The server does not have this model."),
            (413, "The body is too long."),
            (429, "The server is busy; try again later."),
            (500, "The server failed."),
            (503, "The server is shutting down."),
        )
    }

    def serving() -> Serving:
        found: Serving = app.state.serving
        return found

    async def run(generation: Generation, http: Request, stream: bool | None, media_type: str = "text/event-stream") -> Response:
        await generation.prepare()
        if stream:
            return StreamingResponse(generation.stream(), media_type=media_type, headers={"Cache-Control": "no-cache"})
        return JsonResponse(await generation.answer(http))

    @app.post("/v1/chat/completions", responses=errors, response_model=None)
    async def chat_completions(body: ChatRequest, http: Request) -> Response:
        """Answer a chat with its next message."""
        return await run(Chat(serving(), body), http, body.stream)

    @app.post("/v1/completions", responses=errors, response_model=None)
    async def completions(body: CompletionRequest, http: Request) -> Response:
        """Continue a text."""
        return await run(Completion(serving(), body), http, body.stream)

    @app.post("/v1/responses", responses=errors, response_model=None)
    async def responses(body: ResponsesRequest, http: Request) -> Response:
        """Answer an input with a response, which is not stored."""
        return await run(ModelResponse(serving(), body), http, body.stream)

    @app.post("/v1/grammar/check", responses=errors)
    async def grammar_check(body: CheckRequest) -> dict[str, Any]:
        """Compile a constraint, report how each part is enforced, and test a text against it."""
        serving().planner.check_model(body.model)
        return await check(serving().planner, body)

    add_routes(app, serving, run, errors)
    add_inspector(app, errors)

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        """List the served model, for clients of OpenAI and Anthropic."""
        name = options.model_name
        return {
            "object": "list",
            "data": [_model(options, started, serving())],
            "has_more": False,
            "first_id": name,
            "last_id": name,
        }

    @app.get("/v1/models/{name:path}", responses=errors)
    async def model(name: str) -> dict[str, Any]:
        """Describe a model."""
        serving().planner.check_model(name)
        return _model(options, started, serving())

    @app.get("/health")
    async def health() -> dict[str, Any]:
        """Report that the server is up, and its load."""
        info = serving().engine.info
        return {"status": "ok", "running": info.running, "waiting": info.waiting, "compiling": info.compiling}

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Report counters and histograms for Prometheus."""
        return Response(app.state.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _model(options: ServerOptions, started: int, serving: Serving) -> dict[str, Any]:
    context = serving.engine.slots.context
    return {
        "id": options.model_name,
        "object": "model",
        "created": started,
        "owned_by": "stackmask",
        "max_model_len": context,
        # what Anthropic's clients read
        "type": "model",
        "display_name": options.model_name,
        "created_at": datetime.fromtimestamp(started, UTC).isoformat().replace("+00:00", "Z"),
    }


def _add_errors(app: FastAPI) -> None:
    def answer(request: Request, error: ApiError) -> Response:
        headers = {"Retry-After": "1"} if error.status == 429 else None
        return JsonResponse(error_body(request.url.path, error), error.status, headers=headers)

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, ApiError)
        return answer(request, error)

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return answer(request, describe(list(error.errors())))

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 404:
            return answer(request, ApiError(f"there is no {request.method} {request.url.path} here", status=404, code="unknown_url"))
        return answer(request, ApiError(str(error.detail), status=error.status_code))

    async def gone(request: Request, error: Exception) -> Response:
        return Response(status_code=499)  # nobody reads it

    async def unexpected(request: Request, error: Exception) -> Response:
        _log.exception("error in %s", request.url.path, exc_info=error)
        return answer(request, api_error(error))

    app.add_exception_handler(ApiError, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(ClientGoneError, gone)
    app.add_exception_handler(Exception, unexpected)
