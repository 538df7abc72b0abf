r"""The part of a grammar or a pattern that describes a position: the definition of a rule, or the parts of a pattern.

A pattern has no rules, so its parts are compiled one by one: the positions of the text that the parts up to one can lead to are a set, and
a part is live where one of them leads it to the end of the text. This goes into groups that are the only live part.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Final

from ...pda.automata.dfa import Dfa
from ...pda.exceptions import StackmaskError
from ...pda.limits import Limits
from ...pda.regex import regex_dfa
from ..compiler.rule_range import Range

MOST_PATTERN: Final = 2_000
"""The maximal length of a pattern whose parts are distinguished."""
MOST_TEXT: Final = 2_000
MOST_PARTS: Final = 100

_LIMITS: Final = Limits(compile_seconds=0.1, states=5_000)


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a pattern: an atom with its repetition; `inner` is the range of the alternatives of a group that is not repeated."""

    start: int
    end: int
    inner: Range | None = None


def live_parts(pattern: str, text: str, deadline: float) -> list[Range]:
    """The ranges of the pattern's parts that read the end of this text, or could continue there; none if that takes too long."""
    if len(pattern) > MOST_PATTERN or len(text) > MOST_TEXT:
        return []
    try:
        start, end = 0, len(pattern)
        if pattern.startswith("^"):
            start = 1
        if pattern.endswith("$") and not pattern.endswith("\\$"):
            end -= 1
        return _live(pattern, (start, end), text, {0}, deadline)
    except (StackmaskError, _NoPartsError):
        return []


class _NoPartsError(Exception):
    """A pattern that has no parts in a row, or takes too long."""


def _live(pattern: str, where: Range, text: str, begins: set[int], deadline: float) -> list[Range]:
    branches = _alternatives(pattern, where)
    if len(branches) > 1:
        ranges: list[Range] = []
        for branch in branches:
            ranges += _live(pattern, branch, text, begins, deadline)
        return ranges
    positions = begins
    live: list[tuple[_Part, set[int]]] = []
    for part in _parts(pattern, where):
        automaton = regex_dfa(f"(?:{pattern[part.start : part.end]})", search=False, limits=_LIMITS)
        ends: set[int] = set()
        reaches = False
        for begin in positions:
            if time.monotonic() > deadline:
                raise _NoPartsError
            found, alive = _run(automaton, text, begin)
            ends |= found
            reaches = reaches or alive
        if reaches:
            live.append((part, positions))
        positions = ends
        if not positions:
            break
    if len(live) == 1 and live[0][0].inner is not None:
        inner = _live(pattern, live[0][0].inner, text, live[0][1], deadline)
        return inner or [(live[0][0].start, live[0][0].end)]
    return [(part.start, part.end) for part, _ in live]


def _run(automaton: Dfa, text: str, begin: int) -> tuple[set[int], bool]:
    """The positions at which the automaton can end from `begin` on, and whether it can continue at the end of the text."""
    state = 0
    ends = {begin} if automaton.accepting[0] else set()
    for at in range(begin, len(text)):
        point = ord(text[at])
        target = next((target for low, high, target in automaton.transitions[state] if low <= point <= high), None)
        if target is None:
            return ends, False
        state = target
        if automaton.accepting[state]:
            ends.add(at + 1)
    return ends, bool(automaton.transitions[state])


def _alternatives(pattern: str, where: Range) -> list[Range]:
    start, end = where
    branches: list[Range] = []
    at = begin = start
    while at < end:
        if pattern[at] == "|":
            branches.append((begin, at))
            at = begin = at + 1
        else:
            at = _atom_end(pattern, at, end)
    return [*branches, (begin, end)]


def _parts(pattern: str, where: Range) -> list[_Part]:
    start, end = where
    parts: list[_Part] = []
    at = start
    while at < end:
        atom = _atom_end(pattern, at, end)
        found = re.compile(r"(?:[*+?]|\{\d+(?:,\d*)?\})[?+]?").match(pattern, atom, end)
        opened = re.compile(r"\((?:\?(?::|P?<[A-Za-z_]\w*>))?(?!\?)").match(pattern, at, end)
        inner = None
        if opened is not None and found is None:
            inner = (opened.end(), atom - 1)
        if pattern.startswith(("(?=", "(?!", "(?<=", "(?<!"), at) or pattern[at] in "^$" or pattern.startswith(("\\b", "\\B"), at):
            raise _NoPartsError
        parts.append(_Part(at, found.end() if found is not None else atom, inner))
        at = parts[-1].end
        if len(parts) > MOST_PARTS:
            raise _NoPartsError
    return parts


def _atom_end(pattern: str, at: int, end: int) -> int:
    """The end of the atom that begins here: a character, an escape, a class or a group."""
    depth = 0
    while at < end:
        char = pattern[at]
        if char == "\\":
            found = re.compile(r"\\(?:[pP]\{[^}]*\}|u\{[^}]*\}|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|.)", re.DOTALL).match(pattern, at)
            at = found.end() if found is not None else at + 1
        elif char == "[":
            at += 1
            at += pattern.startswith("^", at)
            at += pattern.startswith("]", at)
            while at < end and pattern[at] != "]":
                at += 2 if pattern[at] == "\\" else 1
            at += 1
        else:
            depth += (char == "(") - (char == ")")
            at += 1
        if depth <= 0:
            return min(at, end)
    return end
