"""Logs of a server: lines for people, or a JSON object a line for programs; one line of the access log for each request."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Final, Literal

from starlette.types import Scope

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("text", "json")
ACCESS: Final = logging.getLogger("stackmask.access")


class JsonFormatter(logging.Formatter):
    """A record as a JSON object: time (RFC 3339, UTC), level, logger, message, its fields, and an exception's traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False, default=str)


def configure_logs(level: str, format: Literal["text", "json"]) -> None:
    """Write the logs of the server and of uvicorn to standard error; requests are logged at the level info."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if format == "json" else logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for name in ("stackmask", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level.upper())
        logger.propagate = False


def log_request(scope: Scope, status: int, seconds: float, size: int, request_id: str) -> None:
    """A line of the access log; `size` is that of the request's body in bytes. No query, no header and nothing of a body is in it."""
    if not ACCESS.isEnabledFor(logging.INFO):
        return
    client = scope.get("client")
    fields = {
        "client": client[0] if client else None,
        "method": scope["method"],
        "path": scope["path"],
        "status": status,
        "seconds": round(seconds, 6),
        "request_bytes": size,
        "request_id": request_id,
    }
    path = json.dumps(fields["path"])[1:-1]  # it may hold line ends
    message = f"{fields['client']} {fields['method']} {path} {status} {seconds:.3f} s {size} bytes {request_id}"
    ACCESS.info("%s", message, extra={"fields": fields})
