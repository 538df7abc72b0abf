"""An answer as it is made, piece by piece, for `for` and `async for`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from .generation import Generation

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Piece(Generic[T]):
    """New text and its tokens.

    A token may add no text yet: it can be the first part of a character, or the possible beginning of a stop text.
    `partial`: for JSON the value so far, whose finished parts are final (`stackmask.integration.answers.partial`); None for other text.
    The same value grows from piece to piece: copy it to keep a state.
    `generation`: the whole answer; only the last piece has it.
    """

    text: str
    token_ids: tuple[int, ...]
    partial: Any = None
    generation: Generation[T] | None = None


class Stream(Generic[T]):
    """The pieces of an answer; `generation` is the whole answer after the last.

    The model runs only while you ask for a piece (under `async for` in another thread), so leaving early stops it. Read a stream only once.
    """

    def __init__(self, advance: Callable[[], Piece[T] | None]) -> None:
        self._advance = advance
        self.generation: Generation[T] | None = None

    def _next(self) -> Piece[T] | None:
        """The next piece, None after the last."""
        if self.generation is not None:
            return None
        piece = self._advance()
        if piece is not None:
            self.generation = piece.generation
        return piece

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Piece[T]:
        piece = self._next()
        if piece is None:
            raise StopIteration
        return piece

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Piece[T]:
        piece = await asyncio.to_thread(self._next)
        if piece is None:
            raise StopAsyncIteration
        return piece
