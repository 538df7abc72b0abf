"""A text in a grammar, character by character: fitting and forced characters, and the first refused one."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from ...pda.matcher import Explanation, Matcher
from .tokens import spans_of

SEEN: Final = 400
"""Bytes from a refused one on that are read to say why: the whole number, or the whole string."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The part of a text that fits. Offsets are in code points; `spans` are runs [start, end, flag] over the whole text.

    The flags: "fits", "forced" where nothing else could stand there, "refused" the first character that does not fit, "rest" what follows
    it, and "unknown" where time ran out.
    """

    spans: list[list[object]]
    fits: int
    accepted: bool
    complete: bool
    explanation: Explanation | None


def trace(matcher: Matcher, text: str, deadline: float) -> Trace:
    """Follow a text from where the matcher stands, which is left there."""
    data = text.encode("utf-8", "surrogatepass")
    fitting = matcher.matching_prefix(data)
    prefix = data[:fitting].decode("utf-8", "ignore")  # a character fits if all its bytes do
    if "\ufffd" not in text and not text.isascii():
        prefix = text[: len(prefix)]
    fork = matcher.fork()
    flags: list[tuple[int, str]] = []
    forced = b""
    for end, character in enumerate(prefix, 1):
        piece = character.encode("utf-8", "surrogatepass")
        if not forced:
            if time.monotonic() > deadline:
                flags.append((len(prefix), "unknown"))
                break
            forced = fork.find_jump_forward_bytes()
        is_forced = len(forced) >= len(piece)
        forced = forced[len(piece) :] if is_forced else b""
        flags.append((end, "forced" if is_forced else "fits"))
        fork.accept_bytes(piece)
    accepted = len(prefix) == len(text)
    complete = False
    explanation = None
    if accepted:
        whole = matcher.fork()
        complete = (not data or whole.accept_bytes(data)) and whole.is_completed()
    else:
        explanation = matcher.explain(data[: fitting + SEEN], nearest=False)
        flags += [(len(prefix) + 1, "refused"), (len(text), "rest")]
    return Trace(spans_of(flags), len(prefix), accepted, complete, explanation)
