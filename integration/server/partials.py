"""The parts of an answer in JSON as they end, for a stream that asks for them by `stackmask: {partial: true}`.

Beside its text each event has the changes that the text makes to the value so far, as JSON Patch (RFC 6902). So clients need no parser of
incomplete JSON, and a stream costs time linear in its text.
"""

from __future__ import annotations

from ..answers.patch import PartialPatch
from ..engine import Constraint
from ..tools import Call
from .errors import ApiError
from .protocol import Extension, Json
from .tools import ToolPlan


class Partials:
    """The pieces of one answer of a stream, by its parts."""

    def __init__(self, *, text: bool, calls: bool) -> None:
        self._text = PartialPatch() if text else None
        self._calls: dict[int, PartialPatch] | None = {} if calls else None

    def of_text(self, text: str, *, final: bool = False) -> Json:
        """The field beside a piece of the text; empty where nothing ended in it."""
        return {} if self._text is None else _field(self._text, text, final)

    def of_call(self, call: Call) -> Json:
        """The field beside a piece of a function's arguments."""
        if self._calls is None or call.custom:
            return {}
        return _field(self._calls.setdefault(call.index, PartialPatch()), call.arguments, False)


class PartialsPlan:
    """Whether the answers of a request tell their parts."""

    def __init__(self, extension: Extension, constraint: Constraint | None, tools: ToolPlan | None, *, stream: bool | None) -> None:
        self._text = extension.partial and constraint is not None and constraint.kind == "json_schema"
        self._calls = extension.partial and tools is not None
        if not extension.partial:
            return
        if not stream:
            raise ApiError("stackmask.partial is about the events of a stream; ask for stream: true", param="stackmask")
        if not (self._text or self._calls):
            raise ApiError("stackmask.partial needs JSON: a response_format of JSON, or tools", param="stackmask")

    def begin(self) -> Partials:
        """For one answer."""
        return Partials(text=self._text, calls=self._calls)


def _field(reader: PartialPatch, text: str, final: bool) -> Json:
    changes = reader.changes(text, final=final)
    return {"stackmask": {"partial": changes}} if changes else {}
