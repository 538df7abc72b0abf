"""The fate of every keyword of a schema: enforced, an annotation, or approximated because the caller was lenient.

A schema that leaves keys or items free has an entry without a keyword, "allowed", where a key of an object may come twice.

The report is made when it is first looked at, from the schema itself, so that a compilation does not pay for it.
It covers the schema that was compiled, not the documents it refers to.
A keyword that no draft knows is an annotation by the specification; where it looks like a misspelt one, the report says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress, repeat
from typing import Any, Final, NamedTuple

from ...pda.exceptions import shown
from ..formats import is_known
from .dialects import Dialect
from .guidance import NAME
from .keyword_values import ATOMS, LISTS, pointer_token
from .references import MANY, NAMED, ONE, Registry, Scope
from .unknown_keywords import ANNOTATIONS, HOLDERS, KNOWN, note_on_unknown

ENFORCED: Final = "enforced"
ANNOTATION: Final = "annotation"
APPROXIMATED: Final = "approximated"
ALLOWED: Final = "allowed"
REPEATED_KEYS: Final = "a key that is not declared may come twice, as JSON allows; distinct_keys=True prevents it"
"""The note on a schema that leaves keys free."""

NEEDS: Final[Mapping[str, str]] = {"then": "if", "else": "if", "minContains": "contains", "maxContains": "contains"}
"""Keywords without effect where another one is absent."""
MOST_SHOWN: Final = 400
"""The most characters of a pointer in a message."""
DEEPEST: Final = 1_000
"""Subschemas nested deeper are not listed one by one: their pointers alone would take memory in the square of the depth."""
_OF_OBJECTS: Final = frozenset(
    {"properties", "additionalProperties", "patternProperties", "unevaluatedProperties", "propertyNames", "required"}
    | {"minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "dependencies"}
)
_ELSEWHERE: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "then", "else"})
"""Keywords whose subschemas say something about a value that the schema itself does not."""
_BESIDE_REFERENCES: Final = frozenset({"$ref", "$defs", "definitions", "$schema"})
"""Keywords that old drafts read beside $ref."""
_REFERENCE: Final = {"$ref"}
_NAMED: Final = 1
_ONE: Final = 2
_MANY: Final = 4
_HOLDING: Final = _NAMED | _ONE | _MANY
"""How a keyword may have subschemas."""
_DOUBTFUL: Final = 8
"""There may be a note on it."""
_UNKNOWN: Final = _DOUBTFUL
"""What tables have of a keyword that is in none."""
_Path = tuple["_Path | None", Any]
"""A place in a schema: the place above it, and a key or an index there."""
_Note = tuple[_Path, str, str, str]
"""The path of a keyword that has a note, the keyword, its status, and the note."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One occurrence of a keyword; `pointer` leads to the keyword, `note` says why it is not simply enforced.

    What a schema allows is an entry without a keyword, whose pointer leads to the schema.
    """

    pointer: str
    keyword: str
    status: str
    note: str = ""

    @property
    def is_warning(self) -> bool:
        """Whether the author of the schema probably meant something else."""
        return bool(self.note) and self.status not in (ENFORCED, ALLOWED)


class Noted(NamedTuple):
    """Where in a schema there may be notes on keywords, by the ids of its subschemas."""

    places: Set[int]
    """The only ones that may have notes of their own."""
    ways: Set[int]
    """The places, and the subschemas around one of them. PERF: if the way to a place is not among them, the whole schema is searched."""


NOTHING_NOTED: Final = Noted(frozenset(), frozenset())


class Report:
    """The entries for one schema; equal to another report with the same ones.

    >>> print(Report(Registry({"type": "object", "requried": ["a"]})))
    status      keyword   pointer    note
    enforced    type      /type
    annotation  requried  /requried  unknown keyword; did you mean "required"?
    """

    __slots__ = ("_approximated", "_entries", "_formats", "_make", "_messages", "_noted", "_registry", "_repeats", "_warnings")

    def __init__(
        self,
        registry: Registry,
        *,
        formats: bool = True,
        approximated: tuple[Entry, ...] = (),
        repeats: bool = False,
        noted: Noted | None = None,
    ) -> None:
        """`repeats`: whether keys that are left free may come twice, which is an entry then.

        `noted`: the only subschemas on whose keywords there may be notes, None for any.
        """
        self._registry: Registry | None = registry
        self._make: Callable[[], tuple[Entry, ...]] | None = None
        self._formats = formats
        self._approximated = approximated
        self._repeats = repeats
        self._entries: tuple[Entry, ...] | None = None
        is_silent = noted is not None and not noted.places and not registry.unknown_dialects
        self._noted = noted
        self._warnings: tuple[Entry, ...] | None = () if is_silent else None
        self._messages: tuple[str, ...] | None = () if is_silent else None

    @classmethod
    def of(cls, entries: tuple[Entry, ...]) -> Report:
        """A report out of its entries alone."""
        report = cls.__new__(cls)
        report._registry, report._make, report._formats, report._approximated, report._entries = None, None, True, (), entries
        report._warnings, report._messages, report._repeats, report._noted = None, None, False, None
        return report

    @classmethod
    def later(cls, make: Callable[[], tuple[Entry, ...]]) -> Report:
        """A report whose entries are made when it is first looked at."""
        report = cls.of(())
        report._make, report._entries = make, None
        return report

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every keyword occurrence, in the order of the schema."""
        if self._entries is None and self._make is not None:
            self._entries = self._make()
            self._make = None
        if self._entries is None:
            assert self._registry is not None
            replaced = {(entry.pointer, entry.keyword): entry for entry in self._approximated}
            listed = schema_entries(self._registry, self._formats, self._repeats)
            found = [replaced.pop((entry.pointer, entry.keyword), entry) for entry in listed]
            self._entries = (*found, *replaced.values())
            self._registry = None
        return self._entries

    @property
    def warnings(self) -> tuple[Entry, ...]:
        """The entries with a note: parts that are not enforced but were probably meant to be."""
        if self._warnings is None:
            if self._registry is None or self._approximated:
                self._warnings = tuple(entry for entry in self.entries if entry.is_warning)
            else:
                self._warnings = tuple(Entry(_pointer(path), *rest) for path, *rest in _notes(self._registry, self._formats, self._noted))
        return self._warnings

    @property
    def messages(self) -> tuple[str, ...]:
        """The warnings as text. Equal ones at several places are one message, which has the pointer of the first place.

        >>> Report(Registry({"properties": {"a": {"requried": []}, "b": {"requried": []}}})).messages
        ('/properties/a/requried and 1 other place: unknown keyword; did you mean "required"?',)
        """
        if self._messages is None:
            if self._registry is None or self._approximated:
                self._messages = _messages((entry.pointer, entry.keyword, entry.status, entry.note) for entry in self.warnings)
            else:
                notes = _notes(self._registry, self._formats, self._noted)
                self._messages = _messages(notes) if notes else ()
        return self._messages

    @property
    def approximated(self) -> tuple[Entry, ...]:
        """The entries that are not enforced exactly; only a lenient compilation has any."""
        return tuple(entry for entry in self.entries if entry.status == APPROXIMATED)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __eq__(self, other: object) -> bool:
        return self.entries == other.entries if isinstance(other, Report) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.entries)

    def __reduce__(self) -> tuple[object, ...]:
        return (Report.of, (self.entries,)) if self._make is None else (Report.later, (self._make,))

    def __repr__(self) -> str:
        return f"<Report of {sum(bool(entry.keyword) for entry in self)} keywords, {len(self.warnings)} warnings>"

    def __str__(self) -> str:
        rows = [("status", "keyword", "pointer", "note"), *((e.status, e.keyword, e.pointer or "/", e.note) for e in self.entries)]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        return "\n".join(
            "  ".join((*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3])).rstrip() for row in rows
        )


def _messages(notes: Iterable[tuple[str | _Path | None, str, str, str]]) -> tuple[str, ...]:
    """One message for all notes that are equal."""
    places: dict[tuple[str, str], list[str | _Path | None]] = {}
    for place, keyword, _, note in notes:
        places.setdefault((keyword, note), []).append(place)
    messages: list[str] = []
    for (_, note), found in places.items():
        others = "" if len(found) == 1 else f" and {len(found) - 1} other place{'s' if len(found) > 2 else ''}"
        messages.append(f"{_shown_pointer(found[0])}{others}: {note}")
    return tuple(messages)


def schema_entries(registry: Registry, formats: bool, repeats: bool = False) -> Iterator[Entry]:
    """The entries of the root document, depth first in the order of the schema."""
    yield from (Entry("/$schema", "$schema", ANNOTATION, note) for note in _unknown_dialects(registry))
    if repeats and registry.root.resource.root is True:
        yield Entry("", "", ALLOWED, REPEATED_KEYS)
    for place in _places(registry):
        if repeats and _leaves_keys_free(place, closes=bool(registry.root.closing)):
            yield Entry(_pointer(place[1]), "", ALLOWED, REPEATED_KEYS)
        yield from _entries(place, formats)


def _notes(registry: Registry, formats: bool, noted: Noted | None) -> list[_Note]:
    """The warnings, depth first in the order of the schema."""
    found: list[_Note] = []
    if registry.unknown_dialects:
        found += [((None, "$schema"), "$schema", ANNOTATION, note) for note in _unknown_dialects(registry)]
    if noted is not None and _follow(registry, formats, noted, following := found.copy()):
        return following
    _search(registry, formats, None if noted is None else noted.places, found)
    return found


def _follow(registry: Registry, formats: bool, noted: Noted, found: list[_Note]) -> bool:
    """Whether the notes of some subschemas are found on the ways to them.

    PERF: a quarter of all schemas have notes, most of them a few, and this takes 3 % of a small compilation then.
    """
    places, ways = noted
    root = registry.root
    stack: list[tuple[Any, _Path | None, Scope, int]] = [(root.resource.root, None, root, 0)]
    seen: set[int] = set()
    left = len(places)
    while stack:
        schema, path, scope, depth = stack.pop()
        place = id(schema)
        if place in seen:
            continue
        if depth >= DEEPEST:
            return False
        seen.add(place)
        depth += 1
        if "$id" in schema or "id" in schema:
            scope = registry.enter(scope, schema)
        if place in places:
            _own_notes((schema, path, scope.resource.dialect, 0), formats, found)
            left -= 1
            if not left:
                return True
        inner: list[tuple[Any, _Path | None, Scope, int]] = []
        for keyword in schema:
            if keyword not in HOLDERS:
                continue
            value = schema[keyword]
            if value.__class__ in ATOMS:
                continue
            if isinstance(value, LISTS):
                members: Iterable[tuple[Any, Any]] = enumerate(value)
                values: Iterable[Any] = value
            elif keyword in ONE:
                if id(value) in ways:
                    inner.append((value, (path, keyword), scope, depth))
                continue
            elif value.__class__ is dict or isinstance(value, Mapping):
                members, values = value.items(), value.values()
            else:
                continue
            chosen = compress(members, map(ways.__contains__, map(id, values)))
            holder = path, keyword
            inner += [(member, (holder, step), scope, depth) for step, member in chosen]
        inner.reverse()
        stack += inner
    return False


def _search(registry: Registry, formats: bool, places: Set[int] | None, found: list[_Note]) -> None:
    """Find all notes, or those of some subschemas, down to DEEPEST.

    PERF: one comparison of sets passes by most subschemas, since they have only keywords on which there is never a note and which hold no
    others.
    """
    current = registry.root
    quiet, sorts = _tables(current.resource.dialect)
    stack: list[tuple[Any, _Path | None, Scope, int]] = [(current.resource.root, None, current, 0)]
    seen: set[int] = set()
    left = -1 if places is None else len(places)
    while stack and left:
        schema, path, scope, depth = stack.pop()
        if (schema.__class__ is not dict and not isinstance(schema, Mapping)) or id(schema) in seen:
            continue
        seen.add(id(schema))
        if "$id" in schema or "id" in schema:
            scope = registry.enter(scope, dict(schema) if not isinstance(schema, dict) else schema)
        if scope is not current:
            current = scope
            quiet, sorts = _tables(scope.resource.dialect)
        is_deep, may_have = depth >= DEEPEST, places is None or id(schema) in places
        if may_have:
            left -= 1
        if may_have or is_deep:
            _own_notes((schema, path, scope.resource.dialect, depth), formats, found)
        if is_deep:
            continue
        inner: list[tuple[Any, _Path | None, Scope, int]] = []
        for keyword in [keyword for keyword in schema if keyword not in quiet]:
            value = schema[keyword]
            sort = sorts.get(keyword, _UNKNOWN)
            if not sort & _HOLDING or value.__class__ in ATOMS:
                continue
            holder = path, keyword
            members: Iterable[tuple[Any, Any]] = ()
            if value.__class__ is dict or isinstance(value, Mapping):
                if sort & _NAMED:
                    members = value.items()
                elif sort & _ONE:
                    inner.append((value, holder, scope, depth + 1))
            elif sort & _MANY and isinstance(value, LISTS):
                members = enumerate(value)
            inner += [
                (member, (holder, step), scope, depth + 1)
                for step, member in members
                if member.__class__ is not dict or not (quiet.issuperset(member) or member.keys() == _REFERENCE)
            ]
        inner.reverse()
        stack += inner


def _own_notes(place: _Place, formats: bool, found: list[_Note]) -> None:
    """Add the notes on the keywords of one subschema."""
    schema, path, dialect, depth = place
    quiet, sorts = _tables(dialect)
    all_doubtful = depth >= DEEPEST or (dialect.lone_reference and "$ref" in schema)
    for keyword in schema:
        if keyword in quiet and not all_doubtful:
            continue
        sort = sorts.get(keyword, _UNKNOWN)
        # PERF: most notes are on misspelt keywords
        if sort == _UNKNOWN and not all_doubtful and keyword not in KNOWN and keyword != NAME:
            if note := note_on_unknown(keyword, dialect.name):
                found.append(((path, keyword), keyword, ANNOTATION, note))
        elif all_doubtful or sort & _DOUBTFUL:
            status, note = _status(place, keyword, formats)
            if note and status != ENFORCED:
                found.append(((path, keyword), keyword, status, note))


def notable(schemas: Iterable[Any], scope: Scope, seen: set[int], noted: set[int], ways: set[int], *, formats: bool) -> bool:
    """Whether all notes on subschemas of one resource, and on those that stand in them, are found; else a search of the whole has to.

    Those whose ids are in `seen` are known; it gets the ids of the others, `noted` those of the ones with notes, and `ways` those of the
    subschemas around one of these.
    """
    stack: list[tuple[Any, _Around | None]] = [*zip(schemas, repeat(None))]
    climbed: set[int] = set()
    root = scope.resource.root
    dialect = scope.resource.dialect
    quiet, sorts = _tables(dialect)
    while stack:
        schema, around = stack.pop()
        if schema.__class__ in ATOMS or schema.__class__ is list:  # `dependencies` may name keys
            continue
        place = id(schema)
        if place in seen:
            has_notes = place in noted or place in ways
        else:
            if schema.__class__ is not dict or (schema is not root and ("$id" in schema or "id" in schema)):
                return False
            seen.add(place)
            has_notes = ignores_beside_references(schema, dialect)
            inner = place, around
            for keyword, value in schema.items():
                if keyword in quiet:
                    continue
                sort = sorts.get(keyword, _UNKNOWN)
                if sort & _DOUBTFUL:
                    has_notes |= bool(_status_alone((schema, _BELOW, dialect, 0), keyword, formats)[1])
                if not sort & _HOLDING or value.__class__ in ATOMS:
                    continue
                if keyword in ANNOTATIONS:  # of these alone the depth may be noted
                    return False
                members: Iterable[Any] = ()
                if value.__class__ is dict:
                    if sort & _NAMED:
                        members = value.values()
                    elif sort & _ONE:
                        stack.append((value, inner))
                elif value.__class__ is list:
                    if sort & _MANY:
                        members = value
                else:
                    return False
                stack += [(member, inner) for member in members if member.__class__ is not dict or not quiet.issuperset(member)]
            if has_notes:
                noted.add(place)
        while has_notes and around is not None and around[0] not in climbed:  # so that each is climbed once
            place, around = around
            ways.add(place)
            climbed.add(place)
    return True


_Around = tuple[int, "_Around | None"]
"""The id of the subschema around another, and what is around that."""
_BELOW: Final[_Path] = (None, "")
"""Any place but the root."""
_Place = tuple[Mapping[str, Any], "_Path | None", Dialect, int]
"""A subschema of the root document, its path, its dialect, and how many subschemas are around it. PERF: a class takes twice as long."""


def _places(registry: Registry) -> Iterator[_Place]:
    """Every subschema once, depth first in the order of the schema, down to DEEPEST."""
    root = registry.root
    stack: list[tuple[Any, _Path | None, Scope, int]] = [(root.resource.root, None, root, 0)]
    seen: set[int] = set()
    while stack:
        schema, path, scope, depth = stack.pop()
        if (schema.__class__ is not dict and not isinstance(schema, Mapping)) or id(schema) in seen:
            continue
        seen.add(id(schema))
        if "$id" in schema or "id" in schema:
            scope = registry.enter(scope, dict(schema) if not isinstance(schema, dict) else schema)
        yield schema, path, scope.resource.dialect, depth
        if depth >= DEEPEST:
            continue
        inner: list[tuple[Any, _Path | None, Scope, int]] = []
        for keyword, value in schema.items():
            if keyword not in HOLDERS or value.__class__ in ATOMS:
                continue
            holder = path, keyword
            members: Iterable[tuple[Any, Any]] = ()
            if value.__class__ is dict or isinstance(value, Mapping):
                if keyword in NAMED:
                    members = value.items()
                elif keyword in ONE:
                    inner.append((value, holder, scope, depth + 1))
            elif keyword in MANY and isinstance(value, LISTS):
                members = enumerate(value)
            inner += [(member, (holder, step), scope, depth + 1) for step, member in members]
        inner.reverse()
        stack += inner


def _may_hold(keyword: str, value: Any) -> bool:
    """Whether there may be subschemas in the value of a keyword."""
    return value.__class__ not in ATOMS and keyword in HOLDERS


def _entries(place: _Place, formats: bool) -> Iterator[Entry]:
    """The entries of the keywords of a subschema."""
    schema, path, _, _ = place
    pointer = _pointer(path)
    for keyword in schema:
        status, note = _status(place, keyword, formats)
        yield Entry(f"{pointer}/{pointer_token(keyword)}", keyword, status, note)


def _leaves_keys_free(place: _Place, *, closes: bool) -> bool:
    """Whether a subschema alone lets a value have an object with keys that it does not name, two of them alike.

    `closes`: whether an object that declares properties has no others where nothing is said of them.
    """
    schema, path, dialect, _ = place
    said = {keyword: value for keyword, value in schema.items() if keyword in dialect.keywords}
    if (dialect.lone_reference and "$ref" in said) or said.keys() & {"enum", "const"}:
        return False
    if path is not None and path[1] in ("not", "if") and (path[0] is None or path[0][1] not in NAMED):
        return False
    kinds = said.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    elsewhere = bool(said.keys() & _ELSEWHERE)
    if (kinds is None or "object" in kinds) and (said.keys() & _OF_OBJECTS or not elsewhere) and _has_free_keys(said, closes=closes):
        return True
    beyond = "additionalItems" if isinstance(said.get("items"), list) else "items"
    items = said.get(beyond, elsewhere or said.get("unevaluatedItems", True))
    return kinds is not None and "array" in kinds and items is True and not elsewhere and said.get("maxItems") != 0


def _has_free_keys(said: Mapping[str, Any], *, closes: bool) -> bool:
    """Whether an object may have two members of one key that these keywords do not name."""
    others = said.get("additionalProperties", said.get("unevaluatedProperties"))
    patterns = any(value is not False for value in said.get("patternProperties", {}).values())
    closed = others is False or (others is None and closes and "properties" in said)
    if (closed and not patterns) or said.get("propertyNames") is False:
        return False
    named = len(set(said.get("required", ())))
    # Where more than one key has to be found besides, keys are compared.
    return bool(said.get("minProperties", 0) <= named + 1 and said.get("maxProperties", named + 2) >= named + 2)


def _unknown_dialects(registry: Registry) -> Iterator[str]:
    """A note for each `$schema` that names no dialect."""
    for uri in dict.fromkeys(registry.unknown_dialects):
        yield f"unknown dialect {shown(uri)}; read as draft {registry.root.resource.dialect.name}"


def _shown_pointer(path: str | _Path | None) -> str:
    """The pointer for a message: of a very long one its beginning and its end."""
    pointer = _pointer(path)
    return pointer if len(pointer) <= MOST_SHOWN else f"{pointer[: MOST_SHOWN // 2]}...{pointer[-MOST_SHOWN // 2 :]}"


def _pointer(path: str | _Path | None) -> str:
    """The JSON pointer of a path, or a pointer itself."""
    if isinstance(path, str):
        return path
    steps: list[str] = []
    while path is not None:
        path, step = path
        steps.append(step if step.__class__ is str else str(step))
    steps.reverse()
    pointer = "".join(["/" + step for step in steps])
    if "~" in pointer or pointer.count("/") > len(steps):
        return "".join(["/" + pointer_token(step) for step in steps])
    return pointer


@lru_cache(maxsize=64)
def _tables(dialect: Dialect) -> tuple[frozenset[str], dict[str, int]]:
    """The quiet keywords of a dialect and, of the other ones, how subschemas are in their values and whether there may be a note on them.

    On a quiet keyword there is never a note, and it holds no subschemas and changes no dialect. PERF: most subschemas have no others.
    """
    known = ANNOTATIONS | dialect.keywords.keys()
    noted = {"format", NAME, *NEEDS} | ({"$schema"} - dialect.keywords.keys())
    quiet = known - noted - HOLDERS - {"$id", "id"} - ({"$ref"} if dialect.lone_reference else set())
    sorts = {
        keyword: (_NAMED if keyword in NAMED else 0)
        | (_ONE if keyword in ONE else 0)
        | (_MANY if keyword in MANY else 0)
        | (0 if keyword in known - noted else _DOUBTFUL)
        for keyword in (known | HOLDERS) - quiet
    }
    return frozenset(quiet), sorts


@lru_cache(maxsize=64)
def _ignored(dialect: Dialect) -> frozenset[str]:
    """The keywords that old drafts ignore beside $ref, though they would mean something elsewhere."""
    return frozenset(dialect.keywords) - ANNOTATIONS - _BESIDE_REFERENCES


def ignores_beside_references(schema: Mapping[str, Any], dialect: Dialect) -> bool:
    """Whether a subschema has keywords beside its `$ref` that its dialect ignores: on each there is a note."""
    return len(schema) > 1 and dialect.lone_reference and "$ref" in schema and not _ignored(dialect).isdisjoint(schema)


def _status(place: _Place, keyword: str, formats: bool) -> tuple[str, str]:
    """The fate of one keyword of a subschema, and a note on it."""
    schema, _, _, depth = place
    status, note = _status_alone(place, keyword, formats)
    if depth >= DEEPEST and _may_hold(keyword, schema[keyword]):
        note = "what is below is not listed"
    return status, note


def _status_alone(place: _Place, keyword: str, formats: bool) -> tuple[str, str]:
    """The same, but for what lies below the keyword."""
    schema, path, dialect, _ = place
    if dialect.lone_reference and "$ref" in schema and keyword not in _BESIDE_REFERENCES:
        return ANNOTATION, f"ignored beside $ref in {dialect.name}" if keyword in _ignored(dialect) else ""
    if keyword in ANNOTATIONS:
        return ANNOTATION, ""
    if keyword == NAME and path is None:
        return ENFORCED, ""
    if keyword not in dialect.keywords:
        return ANNOTATION, note_on_unknown(keyword, dialect.name)
    if keyword == "format":
        if not formats:
            return ANNOTATION, ""
        name = schema[keyword]
        return (ENFORCED, "") if is_known(name) else (ANNOTATION, f"unknown format {shown(name)}")
    if NEEDS.get(keyword, keyword) not in schema:
        return ANNOTATION, f"no effect without {NEEDS[keyword]}"
    return ENFORCED, ""
