"""The routes, and what all of them share: keys, limits on bodies, request ids, errors in OpenAI's form, and metrics."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..engine import Engine
from .chat import Chat
from .check import check
from .completions import Completion
from .errors import ApiError, api_error
from .metrics import Metrics
from .options import ServerOptions
from .protocol import ChatRequest, CheckRequest, CompletionRequest, ResponsesRequest, describe
from .responses import Response as ModelResponse
from .serving import ClientGoneError, JsonResponse, Serving

_log = logging.getLogger("stackmask.server")
_OPEN = ("/health", "/metrics", "/openapi.json")  # no key is asked for here


class _Generation(Protocol):
    """What the three routes that generate have in common."""

    async def prepare(self) -> None:
        """Check everything and compile the grammar."""

    async def answer(self, http: Request) -> dict[str, Any]:
        """The whole answer."""

    def stream(self) -> AsyncIterator[bytes]:
        """The answer as server-sent events."""


def create_app(engine: Engine, options: ServerOptions | None = None) -> FastAPI:
    """The application; it starts the engine when it starts, and closes it when it ends."""
    options = options or ServerOptions()
    metrics = Metrics(engine)
    engine.on_finish = lambda request, answer: metrics.answer(answer)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine.start()
        app.state.serving = Serving(engine, options, metrics)
        try:
            yield
        finally:
            await asyncio.to_thread(engine.close)
            app.state.serving.aio.close()

    app = FastAPI(default_response_class=JsonResponse, title="stackmask", version="1", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.metrics = metrics
    _add_routes(app, options)
    _add_errors(app)
    app.add_middleware(_Gate, options=options, metrics=metrics)
    return app


def _add_routes(app: FastAPI, options: ServerOptions) -> None:
    started = int(time.time())
    errors: dict[int | str, dict[str, Any]] = {
        status: {"description": what}
        for status, what in ((400, "wrong request or grammar"), (401, "no key"), (404, "no such model"), (413, "too long"), (429, "busy"))
    }

    def serving() -> Serving:
        found: Serving = app.state.serving
        return found

    async def run(generation: _Generation, http: Request, stream: bool | None) -> Response:
        await generation.prepare()
        if stream:
            return StreamingResponse(generation.stream(), media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
        return JsonResponse(await generation.answer(http))

    @app.post("/v1/chat/completions", responses=errors, response_model=None)
    async def chat_completions(body: ChatRequest, http: Request) -> Response:
        """A chat's next message."""
        return await run(Chat(serving(), body), http, body.stream)

    @app.post("/v1/completions", responses=errors, response_model=None)
    async def completions(body: CompletionRequest, http: Request) -> Response:
        """A text that goes on from a prompt."""
        return await run(Completion(serving(), body), http, body.stream)

    @app.post("/v1/responses", responses=errors, response_model=None)
    async def responses(body: ResponsesRequest, http: Request) -> Response:
        """A response to an input; nothing is stored."""
        return await run(ModelResponse(serving(), body), http, body.stream)

    @app.post("/v1/grammar/check", responses=errors)
    async def grammar_check(body: CheckRequest) -> dict[str, Any]:
        """What became of a constraint, and where a text leaves it."""
        serving().check_model(body.model)
        return await check(serving(), body)

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        """The one model that is here."""
        return {"object": "list", "data": [_model(options, started, serving())]}

    @app.get("/v1/models/{name:path}", responses=errors)
    async def model(name: str) -> dict[str, Any]:
        """That model."""
        serving().check_model(name)
        return _model(options, started, serving())

    @app.get("/health")
    async def health() -> dict[str, Any]:
        """That the server lives, and how busy it is."""
        info = serving().engine.info
        return {"status": "ok", "running": info.running, "waiting": info.waiting, "compiling": info.compiling}

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Counters for Prometheus."""
        return Response(app.state.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _model(options: ServerOptions, started: int, serving: Serving) -> dict[str, Any]:
    context = serving.engine.slots.context
    return {"id": options.model_name, "object": "model", "created": started, "owned_by": "stackmask", "max_model_len": context}


def _add_errors(app: FastAPI) -> None:
    def answer(error: ApiError) -> Response:
        headers = {"Retry-After": "1"} if error.status == 429 else None
        return JsonResponse(error.body, error.status, headers=headers)

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, ApiError)
        return answer(error)

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return answer(describe(list(error.errors())))

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 404:
            return answer(ApiError(f"there is no {request.method} {request.url.path} here", status=404, code="unknown_url"))
        return answer(ApiError(str(error.detail), status=error.status_code))

    async def gone(request: Request, error: Exception) -> Response:
        return Response(status_code=499)  # nobody reads it

    async def unexpected(request: Request, error: Exception) -> Response:
        _log.exception("error in %s", request.url.path, exc_info=error)
        return answer(api_error(error))

    app.add_exception_handler(ApiError, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(ClientGoneError, gone)
    app.add_exception_handler(Exception, unexpected)


class _Gate:
    """Before the routes: the key, the size of the body, a request id; after them: the count."""

    def __init__(self, app: ASGIApp, options: ServerOptions, metrics: Metrics) -> None:
        self._app = app
        self._options = options
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500
        request_id = f"req_{uuid.uuid4().hex}".encode()

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), (b"x-request-id", request_id)]}
            await send(message)

        try:
            error = self._refuse(scope)
            if error is None:
                body, error = await self._read(receive, scope)
            if error is not None:
                await JsonResponse(error.body, error.status)(scope, receive, note_status)
            else:
                await self._app(scope, _replay(body, receive), note_status)
        finally:
            route = scope.get("route")
            self._metrics.requests.labels(getattr(route, "path", "other"), str(status)).inc()

    def _refuse(self, scope: Scope) -> ApiError | None:
        """What is wrong with a request before it is read."""
        key = self._options.api_key
        headers = dict(scope["headers"])
        if key is not None and scope["path"] not in _OPEN:
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, b"Bearer " + key.encode()):
                return ApiError("the API key is missing or wrong", status=401, code="invalid_api_key")
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > self._options.max_body_bytes:
            return self._too_long()
        return None

    async def _read(self, receive: Receive, scope: Scope) -> tuple[bytes, ApiError | None]:
        """The whole body, up to its limit."""
        if scope["method"] not in ("POST", "PUT", "PATCH"):
            return b"", None
        parts, size = [], 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return b"", ApiError("the client hung up", status=400)
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self._options.max_body_bytes:
                return b"", self._too_long()
            if not message.get("more_body", False):
                return b"".join(parts), None

    def _too_long(self) -> ApiError:
        return ApiError(f"the body is longer than {self._options.max_body_bytes} bytes", status=413, code="body_too_long")


def _replay(body: bytes, receive: Receive) -> Receive:
    """A channel that gives the body that was read, and then what else comes."""
    first = True

    async def replay() -> Message:
        nonlocal first
        if first:
            first = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return replay
