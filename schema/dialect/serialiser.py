"""Plain values as bytes, which equal values share: the keys of caches, and a quick measure of size.

It is `pickle` in fast mode, which knows neither object identity nor hash order and sees cycles.
PERF: 4 us for a schema of 2 KB, where `json.dumps` takes 17 and `marshal.dumps` 5, without end if an object holds itself twice.
An object that stands in several places is written at each of them. So the bytes are counted while they are written: 40 objects, each of
which holds the next one twice, would never end.
"""

from __future__ import annotations

import pickle
from typing import Any, Final

from ...pda.exceptions import LimitError
from ...pda.limits import Limits

PROTOCOL: Final = 4
"""Protocol 4 writes in frames, so that bytes are counted on the way."""
TEXT_OF_A_BYTE: Final = 6
"""The most bytes of compact JSON text that a value takes for each of its serialised ones: a control character is one here, six there."""


class Serialiser(pickle.Pickler):
    """Serialises plain values only, within the limit on the size of a specification, which all that it serialises share."""

    def __init__(self, limits: Limits) -> None:
        self._sink = _Sink(limits)
        super().__init__(self._sink, PROTOCOL)
        self.fast = True

    def key(self, value: object) -> bytes:
        """The key of a plain value; after an error there are no others."""
        chunks = self._sink.chunks
        self.dump(value)
        key = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        return key

    def reducer_override(self, value: object) -> Any:
        """Refuse types that are not built in."""
        raise TypeError(f"{type(value).__name__} is not plain")


class _Sink:
    """A file for a pickler, which writes frames of 64 KiB into it."""

    __slots__ = ("_left", "_limits", "chunks")

    def __init__(self, limits: Limits) -> None:
        self._left = limits.specification_bytes
        self._limits = limits
        self.chunks: list[bytes] = []

    def write(self, chunk: bytes) -> None:
        """Keep a chunk, unless it is too much."""
        self._left -= len(chunk)
        if self._left < 0:
            raise too_large(self._limits)
        self.chunks.append(chunk)


def surely_fits(size: int, limits: Limits) -> bool:
    """Whether so few serialised bytes show that a value is within the limits on size and nesting: an array or object takes one at least."""
    return TEXT_OF_A_BYTE * size <= limits.specification_bytes and size <= limits.nesting


def too_large(limits: Limits, what: str = "specification") -> LimitError:
    """The error for a specification, or a schema, that takes too many bytes."""
    most = limits.specification_bytes
    return LimitError(f"the {what} takes more than {most} bytes", limit="specification_bytes", value=most)
