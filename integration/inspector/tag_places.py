"""Which part of a structural tag is responsible: the format that reads at the end of a text, and the place inside its content.

A grammar whose rules are named by the paths of the formats (`stackmask.schema.structural_tag.places`) reads the text byte by byte; the
names say which formats have begun. A byte belongs to the innermost format before it, or after it where it begins one. The refused character
stands where one of the expected bytes would, so its place is that of the format to which these belong. Inside a content the place is found
as for a specification of its own kind: a keyword of its schema, a rule of its grammar, the live parts of its pattern.

Bounds of formats (`max_chars`, `excludes`, `stop_after_first`) act on what follows them, so they are tried first, like the keywords of
schemas: one without which the refused character fits is responsible.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final, TypeAlias

from ...pda.matcher import Matcher
from ...schema.structural_tag.places import paths_of
from ...schema.structural_tag.structures import newer_form
from ..compiler.rule_range import Range, rule_range
from .json_text import JsonPosition, escaped, read_position
from .rule_places import live_parts
from .schema_places import applying, keyword_reason, replaced, responsible

Path: TypeAlias = "tuple[str | int, ...]"

MOST_TRIALS: Final = 12
"""Bounds that are tried, each by compiling the tag without it."""
MOST_EXPECTED: Final = 64
"""Expected bytes whose formats are looked at."""
FEW_EXPECTED: Final = 8
"""Expected bytes up to which alternatives are followed further, for at most MOST_AHEAD bytes."""
MOST_AHEAD: Final = 64
MOST_BEGINS: Final = 16
"""Places at which a format may have begun that are tried."""
MOST_FORMATS: Final = 2_000
"""Formats among which bounds are looked for."""

CONTENT: Final = {
    "const_string": "value",
    "json_schema": "json_schema",
    "qwen_xml_parameter": "json_schema",
    "grammar": "grammar",
    "regex": "pattern",
    "token": "token",
    "tags_with_separator": "separator",
}
"""The field with the content that a format reads by itself."""
BOUNDS: Final[Mapping[str, Any]] = {
    "max_chars": None,
    "max_tokens": None,
    "excludes": None,
    "stop_after_first": None,
    "at_least_one": None,
    "loop": None,
    "max": -1,
}
"""Fields that bound the text of a format, and their value without a bound; null is as if the field were absent."""


@dataclass(frozen=True, slots=True)
class TagPlace:
    """A part of a structural tag by its JSON pointer; `parts` are ranges of the text that stands there, in code points."""

    pointer: str
    reason: str | None = None
    rule: str | None = None
    parts: tuple[Range, ...] = ()


class TagReader:
    """Finds the places of one structural tag: `matcher` is at the start of its placed grammar, `tag` is its value.

    `fits(tag, data)` says whether a text can begin one of another structural tag.
    """

    def __init__(self, tag: Mapping[str, Any], matcher: Matcher, fits: Callable[[Mapping[str, Any], bytes], bool]) -> None:
        self._is_older = "structures" in tag
        self._tag: Any = newer_form(tag) if self._is_older else tag
        self._matcher = matcher
        self._fits = fits

    def place(self, before: str, refused: str, deadline: float) -> TagPlace | None:
        """The part that reads after `before`, which fits; `refused` is the character that does not, empty if there is none.

        `deadline` is a time.monotonic(); None where the text takes longer than that to read.
        """
        data = before.encode("utf-8", "surrogatepass")
        read = self._read(data, deadline)
        if read is None:
            return None
        readers, here = read
        if refused:
            found = self._bound(here, data + refused.encode("utf-8", "surrogatepass"), deadline)
            if found is not None:
                return found
        path = common([self._reader(here, after) for after in self._expected()] or [here])
        value = self._at(path)
        if not isinstance(value, Mapping):
            return TagPlace(self._pointer(path))
        if "tags" in value and (begun := _begun(value["tags"], before)):
            # Only its last character is expected, and what follows it belongs to no tag until the content begins.
            return TagPlace(self._pointer((*path, "tags", *((begun[0], "begin") if len(begun) == 1 else ()))))
        field = CONTENT.get(value.get("type", ""))
        if field is None or field not in value:
            return TagPlace(self._pointer(path))
        rules = self._inner_rules(path, here)
        return self._inside(path, field, self._inner(path, value, readers, data), refused, rules, deadline)

    def _expected(self) -> list[Path]:
        """The innermost formats after each of the expected bytes, with alternatives that begin with the same texts."""
        following = self._matcher.next_bytes()
        found = [self._after(bytes([byte])) for byte in following[:MOST_EXPECTED]]
        if len(following) <= FEW_EXPECTED:
            for byte, first in zip(following, found[:], strict=True):
                found += self._alternatives(bytes([byte]), first)
        return found

    def _alternatives(self, ahead: bytes, first: Path) -> Iterator[Path]:
        """The formats beside `first`, which begins with `ahead`, that begin with it as well."""
        following = self._matcher.next_bytes(ahead)
        while len(following) == 1 and len(ahead) < MOST_AHEAD:
            ahead += following
            following = self._matcher.next_bytes(ahead)
        for byte in following[:MOST_EXPECTED]:
            other = self._after(ahead + bytes([byte]))
            if common([first, other]) not in (first, other) and self._reader(first, other) == other:
                yield other

    def _inner(self, path: Path, value: Mapping[str, Any], readers: Sequence[Path], data: bytes) -> str:
        """The part of a text that the format at a path has read, from the first byte with which it may have begun."""
        is_inside = [reader[: len(path)] == path for reader in readers]
        # A byte that the format shares with one beside it may be known as one of that, so it may seem to begin again.
        begins = [at for at, inside in enumerate(is_inside) if inside and not (at and is_inside[at - 1])]
        for start in begins[-MOST_BEGINS:]:
            if self._fits(value, data[start:]):
                return data[start:].decode("utf-8", "replace")
        return ""

    def _read(self, data: bytes, deadline: float) -> tuple[list[Path], Path] | None:
        """The format that reads each byte, and the innermost one in the end, where the matcher then stands."""
        here = self._after(b"")
        readers: list[Path] = []
        for byte in data:
            if time.monotonic() > deadline or not self._matcher.accept_bytes(bytes([byte])):
                return None
            after = self._after(b"")
            readers.append(self._reader(here, after))
            here = after
        return readers, here

    def _after(self, data: bytes) -> Path:
        """The innermost format after some more bytes."""
        paths = paths_of(self._matcher.rule_names(data))
        return components(paths[0]) if paths else self._root

    @property
    def _root(self) -> Path:
        return ("format",) if "format" in self._tag else ()

    def _reader(self, before: Path, after: Path) -> Path:
        """Which format reads a byte that leads from one innermost format to another."""
        shared = common([before, after])
        if shared in (before, after):
            return max(before, after, key=len)
        # One follows the other in a sequence, and reads its first byte later; or both are alternatives that begin alike.
        owner = self._at(shared[:-1]) if shared and shared[-1] in ("elements", "tags", "rules") else None
        is_sequence = owner is None or owner.get("type") == "sequence"
        return before if is_sequence or before[-1] == "end" else after

    def _at(self, path: Path) -> Any:
        """The value at a path."""
        value = self._tag
        for part in path:
            value = value[part]
        return value

    def _pointer(self, path: Path) -> str:
        if self._is_older and path[:1] == ("tags",):
            tail = ("schema", *path[4:]) if path[2:3] == ("content",) else path[2:]
            path = ("structures", *path[1:2], *tail)
        return "".join(f"/{escaped(part)}" for part in path)

    def _inner_rules(self, path: Path, here: Path) -> list[str]:
        """The rules inside a format that have begun, or that begin with one of the expected bytes; innermost first."""
        steps = [b""] if here == path else [bytes([byte]) for byte in self._matcher.next_bytes()[:MOST_EXPECTED]]
        for step in steps:
            names = self._matcher.rule_names(step)
            if self._after(step) == path:
                return list(takewhile(lambda name: not paths_of([name]), names))
        return []

    def _bound(self, here: Path, data: bytes, deadline: float) -> TagPlace | None:
        """A bound of a format without which the text fits: of those inside the innermost tag or format, then of those around."""
        trials = 0
        for length in range(len(here), -1, -1):
            for path, value in _formats(here[:length], self._at(here[:length]), below=length == len(here)):
                for field, unbounded in BOUNDS.items():
                    if value.get(field) in (None, unbounded, False):
                        continue
                    trials += 1
                    if trials > MOST_TRIALS or time.monotonic() > deadline:
                        return None
                    if self._fits(replaced(self._tag, (*path, field), unbounded), data):
                        return TagPlace(self._pointer((*path, field)), keyword_reason(field, value[field]))
        return None

    def _inside(self, path: Path, field: str, inner: str, refused: str, rules: Sequence[str], deadline: float) -> TagPlace:
        """The place inside the content of a format; `inner` is what of the text it has read."""
        value, pointer = self._at(path), self._pointer((*path, field))
        content = value[field]
        match value["type"]:
            case "regex" if value.get("escape") is None:
                return TagPlace(pointer, parts=tuple(live_parts(content, inner, deadline)[:32]))
            case "grammar":
                syntax = value.get("syntax") or "ebnf"
                found = rule_range(syntax, content, [*rules, "root" if syntax == "ebnf" else "start"])
                return TagPlace(pointer) if found is None else TagPlace(pointer, rule=found[0], parts=(found[1],))
            case "json_schema" | "qwen_xml_parameter" if isinstance(content, Mapping):
                return self._in_schema(pointer, value, inner, refused, deadline)
        return TagPlace(pointer)

    def _in_schema(self, pointer: str, value: Mapping[str, Any], inner: str, refused: str, deadline: float) -> TagPlace:
        schema = value["json_schema"]
        style = "qwen_xml" if value["type"] == "qwen_xml_parameter" else value.get("style", "json")
        position = read_position(inner) if style == "json" else _argument(schema, inner)
        if not refused:
            speaking = applying(schema, position.path)
            return TagPlace(pointer + (speaking[-1].pointer if speaking else ""))
        data = (inner + refused).encode("utf-8", "surrogatepass")
        content = {**value, "type": "json_schema", "style": style}

        def fits(other: Any, options: Mapping[str, Any]) -> bool:
            is_any = options["property_order"] == "any"
            more = {name: options[name] for name in ("extra_properties", "distinct_keys")}
            return self._fits({**content, "json_schema": other, "any_order": is_any, **more}, data)

        options = {
            "property_order": "any" if value.get("any_order") else "schema",
            "extra_properties": value.get("extra_properties") or "schema",
            "distinct_keys": bool(value.get("distinct_keys")),
        }
        found = responsible(schema, position, fits, options, deadline)
        return TagPlace(pointer) if found is None else TagPlace(pointer + found.pointer, found.reason)


def _begun(tags: Sequence[Mapping[str, Any]], before: str) -> list[int]:
    """The tags of which a text ends with a part of the beginning."""
    begins = [(index, tag["begin"]) for index, tag in enumerate(tags) if isinstance(tag["begin"], str)]
    return [index for index, begin in begins if any(before.endswith(begin[:length]) for length in range(1, len(begin)))]


def components(path: str) -> Path:
    """The parts of a path as messages about structural tags write it.

    >>> components("format.tags[0].content")
    ('format', 'tags', 0, 'content')
    """
    parts = path.replace("[", ".").replace("]", "").split(".") if path else []
    return tuple(int(part) if part.isdigit() else part for part in parts)


def common(paths: Sequence[Path]) -> Path:
    """The longest path that all of these begin with.

    >>> common([("tags", 0, "begin"), ("tags", 1, "begin")])
    ('tags',)
    """
    return tuple(parts[0] for parts in takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False)))


def _formats(path: Path, value: Any, *, below: bool) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The object at a path and, `below`, those inside it but for schemas, the outer ones first."""
    todo: list[tuple[Path, Any]] = [(path, value)]
    for here, found in todo:  # which grows
        inner: list[tuple[str | int, Any]] = []
        if isinstance(found, Mapping):
            yield here, found
            inner += [(name, found[name]) for name in ("content", "tags", "elements", "rules") if name in found]
        elif isinstance(found, list):
            inner += enumerate(found)
        if below and len(todo) < MOST_FORMATS:
            todo += [((*here, part), each) for part, each in inner]


def _argument(schema: Any, inner: str) -> JsonPosition:
    """A position in the argument of a tool call whose name was written last; if there is none, in the whole."""
    names = [
        name
        for place in applying(schema, ())
        if isinstance(place.schema, Mapping) and isinstance(place.schema.get("properties"), Mapping)
        for name in place.schema["properties"]
    ]
    last = max(names, key=inner.rfind, default="")
    path = (last,) if last and last in inner else ()
    return JsonPosition(path, (), None, in_key=False, in_string=False)
