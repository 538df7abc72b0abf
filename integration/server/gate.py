"""Before and after every route: the API key, the limit on bodies, a request id, and the count of answers by status."""

from __future__ import annotations

import asyncio
import hmac
import re
import uuid
from time import perf_counter
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..processes.turns import CLIENT
from .errors import ApiError
from .logs import log_request
from .metrics import Metrics
from .options import ServerOptions
from .plan import SIZE
from .protocols import error_body
from .serving import JsonResponse

OPEN: Final = ("/", "/docs", "/health", "/metrics", "/openapi.json")
"""Paths that need no key; the inspector's page needs none either, but its requests do."""
ID_HEADERS: Final = (b"x-request-id", b"request-id")
"""The headers in which clients of OpenAI and of Anthropic look for the id of a request."""
SEPARATORS: Final = (b",", b"[", b"{")
CHUNK: Final = 1 << 15  # bytes that are looked at before others have a turn
_STRING_PART: Final = re.compile(rb'(?:[^"\\]++|\\.)*+("|\Z)', re.DOTALL)


class Gate:
    """Before the routes: the key, the size of the body, a request id; after them: the count."""

    def __init__(self, app: ASGIApp, options: ServerOptions, metrics: Metrics, context: int) -> None:
        self._app = app
        self._options = options
        self._metrics = metrics
        self._most_values = options.max_body_values + context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, size, start, has_begun = 500, 0, perf_counter(), False
        request_id = f"req_{uuid.uuid4().hex}".encode()

        async def note_status(message: Message) -> None:
            nonlocal status, has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), *((name, request_id) for name in ID_HEADERS)]}
            await send(message)

        try:
            error = self._refuse(scope)
            client = scope.get("client")
            CLIENT.set(client[0] if client else "")
            if error is None:
                body, error = await self._read(receive, scope)
                size = len(body)
                SIZE.set(size)
            if error is None and await has_more_values(body, self._most_values):
                message = f"the body has more than {self._most_values} values; this server reads no more"
                error = ApiError(message, status=413, code="body_too_long")
            if error is not None:
                await JsonResponse(error_body(scope["path"], error), error.status)(scope, receive, note_status)
            else:
                await self._app(scope, _replay(body, receive), note_status)
        except asyncio.CancelledError:  # uvicorn gives up what still runs when the grace is over
            if not has_begun:
                error = ApiError("the server is shutting down", status=503, code="shutting_down")
                await JsonResponse(error_body(scope["path"], error), error.status)(scope, receive, note_status)
        finally:
            route = scope.get("route")
            self._metrics.requests.labels(getattr(route, "path", "other"), str(status)).inc()
            log_request(scope, status, perf_counter() - start, size, request_id.decode())

    def _refuse(self, scope: Scope) -> ApiError | None:
        """The error of a request that is refused before it is read."""
        key = self._options.api_key
        headers = dict(scope["headers"])
        if key is not None and scope["path"] not in OPEN and not is_page(scope["path"]):
            given = headers.get(b"authorization") or b"Bearer " + headers.get(b"x-api-key", b"")  # the latter is Anthropic's
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


def is_page(path: str) -> bool:
    """Whether a path is the inspector's page or one of its files."""
    return path == "/inspect" or path.startswith("/inspect/")


async def has_more_values(body: bytes, most: int) -> bool:
    """Whether JSON text has more than `most` values, about: what stands before commas and in brackets.

    To read JSON takes the interpreter, and everybody's time with it, so long for each value; a string takes next to none.
    """
    if sum(map(body.count, SEPARATORS)) <= most:
        return False  # even with those that stand in strings
    count = place = turn = 0
    while place < len(body):
        quote = body.find(b'"', place)
        end = quote if quote >= 0 else len(body)
        count += sum(body.count(separator, place, end) for separator in SEPARATORS)
        if count > most:
            return True
        place = end + 1
        while quote >= 0:  # to the end of the string
            found = _STRING_PART.match(body, place, place + CHUNK)
            place = found.end() if found else place + CHUNK + 1  # a backslash is the last of the chunk
            if place >= len(body) or (found and found[1]):
                break
        if place >= turn + CHUNK:
            turn = place
            await asyncio.sleep(0)
    return False


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
