"""The sentences for a text that the grammar of a schema refuses at some byte.

Where the text is JSON, the evaluator says which keywords its value offends; the parts at the refused byte come first. Where it is not, or
not yet, only finished parts count. A value that offends nothing is written in another way than the grammar's: its keys in another
order, say, or with blanks where none may be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from ..dialect.references import Registry
from ..emit.json_parts import DEFAULT_WHITESPACE, Whitespace
from .evaluate import Evaluator, GivenUpError
from .problems import Path, Problem, not_one_of, written
from .reading import Part, Reading, TooDeepError, read

MOST: Final = 5
"""The most sentences."""
LONGEST_TEXT: Final = 1 << 18
_UNFINISHED: Final = frozenset(
    {"required", "minItems", "minProperties", "contains", "minContains", "dependentRequired", "dependencies", "anyOf", "oneOf", "not"}
)
"""Keywords that an object or array can still satisfy while it is open."""


class Refusals:
    """Explains why a schema refuses texts; the options are those of its compilation."""

    def __init__(
        self,
        schema: Any,
        *,
        documents: Mapping[str, Any] = MappingProxyType({}),
        format: str = "enforce",
        whitespace: Whitespace = DEFAULT_WHITESPACE,
        property_order: str = "schema",
        extra_properties: str = "schema",
    ) -> None:
        registry = Registry(schema, documents, closed=extra_properties == "closed")
        self._evaluator = Evaluator(registry, formats=format == "enforce")
        self._whitespace = whitespace
        self._ordered = property_order == "schema"

    def __call__(self, data: bytes, position: int) -> list[str]:
        """The sentences for a text that is refused at a byte, or ends too early where that is its length; none for a long text."""
        if len(data) > LONGEST_TEXT:
            return []
        text = data.decode("utf-8", "replace")
        place = len(data[:position].decode("utf-8", "replace"))
        try:
            reading = read(text)
        except TooDeepError:
            return []
        try:
            found = self._evaluator.problems(reading.value) if reading.parts else []
        except GivenUpError:
            found = []
        parts = reading.by_path()
        problems = [problem for problem in found if _counts(problem, reading, parts, place)]
        problems.sort(key=lambda problem: _distance(problem, parts, place))
        sentences = list(dict.fromkeys(str(problem) for problem in problems))[:MOST]
        if sentences:
            return sentences
        sentence = self._otherwise(text, place, reading)
        return [sentence] if sentence else []

    def _otherwise(self, text: str, place: int, reading: Reading) -> str:
        """The sentence about a text whose value violates no keyword."""
        if reading.stopped >= 0 and place >= min(reading.stopped, len(text)):
            found = "the end of the text" if reading.stopped >= len(text) else repr(text[reading.stopped])
            return f"{_name(reading.path)}: expected {reading.wanted}, not {found}"
        part = reading.part_at(place)
        if part is None:
            return "blanks before or after the value" if reading.is_whole else f"the text: expected {reading.wanted}"
        twice = next((other for other in reading.twice if other.start <= place <= other.end), None)
        if twice is not None:
            return f"{_name(twice.path)} is there twice"
        if part.is_key:
            order = '; property_order="any" takes every order' if self._ordered else ""
            if not part.is_whole:
                return f"{_name(part.path[:-1])}: no key that may stand here begins with {written(part.path[-1])}"
            return f"{_name(part.path)} is not at its place in the order of the schema{order}"
        inner = text[part.start]
        if inner in "{[":
            if text[place] in " \t\n\r":
                most = "" if self._whitespace == "flexible" else '; whitespace="flexible" allows 40 in a gap'
                asked = self._whitespace if isinstance(self._whitespace, tuple) else f'"{self._whitespace}"'
                return f"{_name(part.path)}: more blanks than whitespace={asked} allows{most}"
            return ""
        if inner == '"':
            return f'{_name(part.path)}: an escape of a character that is written as it is; escapes="any" takes every spelling'
        return f"{_name(part.path)}: {text[part.start : part.end]} is valid, but a number is not written so here"


def choice_refusal(options: Sequence[str], data: bytes) -> str:
    """The sentence for a text that is not one of the given texts."""
    return "the text" + not_one_of(data[:LONGEST_TEXT].decode("utf-8", "replace"), options)


def _counts(problem: Problem, reading: Reading, parts: Mapping[Path, Part], place: int) -> bool:
    """Whether the rest of the text cannot undo a problem: an unfinished part counts only if it contains the refused place."""
    if reading.is_whole:
        return True
    part = parts.get(problem.path)
    if part is not None and part.is_key:  # its value is still to come
        return problem.keyword in ("additionalProperties", "unevaluatedProperties", "properties") or "/propertyNames/" in problem.pointer
    if part is None:  # a member that is missing: its object is what counts
        part = parts.get(problem.path[:-1])
        return part is not None and part.is_whole
    if part.is_whole:
        return True
    return problem.keyword not in _UNFINISHED if isinstance(_value(problem.path, reading), dict | list) else part.has(place)


def _distance(problem: Problem, parts: Mapping[Path, Part], place: int) -> tuple[int, int]:
    """The distance of a problem from the refused place: in it, or the beginning of the part before or behind it."""
    part = parts.get(problem.path) or parts.get(problem.path[:-1])
    if part is None:
        return 2, 0
    is_inside = part.start <= place <= part.end
    return (0, -part.start) if is_inside else (1, abs(part.start - place))


def _value(path: Path, reading: Reading) -> Any:
    value = reading.value
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _name(path: Path) -> str:
    """A part of the instance as it is named at the beginning of a sentence."""
    return str(Problem(path, "", "")).partition(" (")[0] if path else "the text"
