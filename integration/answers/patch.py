"""The changes of a JSON value that is still being written, as JSON Patch (RFC 6902), for remote clients.

Every part is sent once, when it is final: a string, number or literal when it has ended; an object or array as an empty value at its
opening bracket, then its parts one by one. Parts at great depth or below long names come with the part around them, so that the total
length of the changes is at most a constant factor times the length of the text, however it is nested.
"""

from __future__ import annotations

from math import isfinite
from typing import Any, Final

from ...schema.dialect.keyword_values import pointer_token
from .partial import Frame, PartialJson

LONGEST_PATH: Final = 200
"""Characters of the path of an object or array whose parts are sent one by one."""


class PartialPatch(PartialJson):
    """Reads JSON that is correct as far as it goes.

    >>> reader = PartialPatch()
    >>> reader.changes('{"name": "Anna", "tags": ["a", "b')
    [{'op': 'add', 'path': '', 'value': {}}, {'op': 'add', 'path': '/name', 'value': 'Anna'}, {'op': 'add', 'path': '/tags', 'value': []}, \
{'op': 'add', 'path': '/tags/0', 'value': 'a'}]
    >>> reader.changes('c"]}')
    [{'op': 'add', 'path': '/tags/1', 'value': 'bc'}]
    """

    def __init__(self) -> None:
        super().__init__()
        self._changes: list[dict[str, Any]] = []
        self._paths: list[str] = []  # of the open objects and arrays
        self._path = ""
        self._held: tuple[int, str, Any] | None = None  # the part that is sent as a whole: how deep it stands, its path and value

    def changes(self, text: str, *, final: bool = False) -> list[dict[str, Any]]:
        """Read on; the changes that the text makes. `final` says that no text follows."""
        self.feed(text)
        if final:
            self.finish()
        made, self._changes = self._changes, []
        return made

    def _put(self, around: Frame | None, value: Any) -> None:
        super()._put(around, value)
        if self._held is not None:
            return
        if around is None:
            path = ""
        else:
            step = str(around.key) if isinstance(around.value, dict) else len(around.value) - 1
            path = f"{self._paths[-1]}/{pointer_token(step)}"
        self._path = path
        if not isinstance(value, dict | list):
            self._add(path, value)
        elif len(path) > LONGEST_PATH:
            self._held = (len(self._paths), path, value)
        else:
            self._add(path, type(value)())

    def _opened(self, around: Frame | None, frame: Frame) -> None:
        self._paths.append(self._path)

    def _close(self, end: int) -> None:
        self._paths.pop()
        super()._close(end)
        if self._held is not None and self._held[0] == len(self._paths):
            _, path, value = self._held
            self._held = None
            self._add(path, value)

    def _add(self, path: str, value: Any) -> None:
        # A float beyond its range is no number of JSON.
        is_beyond = isinstance(value, float) and not isfinite(value)
        self._changes.append({"op": "add", "path": path, "value": None if is_beyond else value})
