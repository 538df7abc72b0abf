"""A small HTTP server for the page alone, out of the standard library: the inspector without a model."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import urlsplit

from .page import asset
from .service import InspectorService, failure

MOST_BODY: Final = 10 << 20
"""Bytes of a request."""


class LocalServer(ThreadingHTTPServer):
    """The page at `/inspect` and the route behind it, for this machine alone."""

    daemon_threads = True

    def __init__(self, service: InspectorService, host: str = "127.0.0.1", port: int = 0) -> None:
        self.service = service
        super().__init__((host, port), _Handler)
        name = f"[{host}]" if ":" in host else host
        self.hosts = {f"{each}:{self.server_port}" for each in (name, "localhost", "127.0.0.1", "[::1]")}

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that hangs up, as it does when the page closes, is nothing to speak of."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # of whatever kind the socket is

    @property
    def url(self) -> str:
        """The address of the page."""
        host = str(self.server_address[0])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server_port}/inspect"


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: LocalServer
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:  # the base class names it
        """Serve the page, its files, and the inspector's data."""
        if not self._is_for_us():
            return
        path = urlsplit(self.path).path
        if path == "/":
            self._send(302, b"", {"Location": "/inspect"})
        elif path == "/v1/grammar/inspect":
            body = json.dumps({"object": "grammar.inspector", "tokenizers": self.server.service.tokenizers, "model": None})
            self._send(200, body.encode(), {"Content-Type": "application/json"})
        else:
            found = asset(path.removeprefix("/inspect").removeprefix("/")) if path.startswith("/inspect") else None
            if found is None:
                self._send(*_json(failure(404, f"there is no GET {path[:200]} here", "unknown_url")))
            else:
                self._send(200, found.content, found.headers)

    do_HEAD = do_GET  # noqa: N815

    def do_POST(self) -> None:
        """An inspection."""
        if not self._is_for_us():
            return
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MOST_BODY:
            self.close_connection = True
            self._send(*_json(failure(413, f"the body is longer than {MOST_BODY} bytes", "body_too_long")))
            return
        body = self.rfile.read(int(length))
        if urlsplit(self.path).path != "/v1/grammar/inspect":
            self._send(*_json(failure(404, "there is no such route here", "unknown_url")))
        elif self.headers.get_content_type() != "application/json":  # pages of other sites cannot send it unasked
            self._send(*_json(failure(415, "the body is application/json", "invalid_request")))
        else:
            self._send(*_json(self.server.service.ask(body)))

    def _is_for_us(self) -> bool:
        """Whether the request names this server: a name of another's that leads here is refused (DNS rebinding)."""
        if self.headers.get("Host") in self.server.hosts:
            return True
        self.close_connection = True
        self._send(*_json(failure(403, "the Host header names another server", "wrong_host")))
        return False

    def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the terminal belongs to its user."""


def _json(answer: tuple[int, bytes]) -> tuple[int, bytes, dict[str, str]]:
    return *answer, {"Content-Type": "application/json"}
