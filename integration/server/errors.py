"""Errors in the form that OpenAI's clients read."""

from __future__ import annotations

from typing import Any

from ...pda.exceptions import GrammarError, LimitError, StackmaskError
from ..engine import EngineBusyError, EngineClosedError, RequestError
from ..processes.turns import BusyError

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
}


class ApiError(Exception):
    """An answer that is an error: its HTTP status and the body's fields."""

    def __init__(self, message: str, *, status: int = 400, param: str | None = None, code: str | None = None) -> None:
        self.message = message.encode("utf-8", "backslashreplace").decode()  # it may quote what is no text
        self.status = status
        self.param = param
        self.code = code
        super().__init__(message)

    @property
    def body(self) -> dict[str, Any]:
        """OpenAI's error body."""
        kind = _TYPES.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


def api_error(error: Exception, param: str | None = None) -> ApiError:
    """Any of our errors as an error for the client; our own faults have status 500."""
    match error:
        case ApiError():
            return error
        case EngineBusyError() | BusyError():
            return ApiError(f"{error}; try again later", status=429, code="rate_limit_exceeded")
        case EngineClosedError():
            return ApiError(str(error), status=503, code="shutting_down")
        case RequestError():
            return ApiError(str(error), param=error.field, code="invalid_value")
        case GrammarError():
            return ApiError(_named(error, param), param=param, code="invalid_grammar")
        case LimitError():
            return ApiError(_named(error, param), param=param, code="grammar_limit_exceeded")
        case StackmaskError():
            return ApiError(_named(error, param), param=param)
        case UnicodeError():
            return ApiError(_named(ValueError("a text has half of a surrogate pair, which is not a character"), param), param=param)
        case _:
            return ApiError("internal error", status=500)


def _named(error: Exception, param: str | None) -> str:
    """The message, with the field that it is about."""
    return f"{param}: {error}" if param else str(error)
