"""Which keyword of a JSON Schema is responsible: found by asking the engine whether the text would fit without it.

`applying` walks the schema along the path of a position, through references and combinations, so it says which subschemas speak there.
`responsible` takes keywords out of them, the innermost first, and compiles what is left: the first one without which the refused character
fits is responsible. That is no guess from the keyword's name, so it is right for whatever the keyword means.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...pda.automata.language import accepts
from ...pda.exceptions import StackmaskError
from ...pda.limits import Limits
from ...pda.regex import regex_dfa
from .json_text import JsonPosition, escaped

MOST_PLACES: Final = 64
"""Subschemas that are looked at for one position."""
MOST_TRIALS: Final = 48
"""Schemas that are compiled to find one responsible keyword."""

IN_PLACE: Final = ("allOf", "anyOf", "oneOf")
BRANCHES: Final = ("if", "then", "else", "not")
KEYWORDS: Final = (
    "type", "const", "enum", "pattern", "format", "maxLength", "minLength", "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum",
    "multipleOf", "additionalProperties", "unevaluatedProperties", "required", "dependentRequired", "dependencies", "propertyNames",
    "maxProperties", "minProperties", "maxItems", "minItems", "uniqueItems", "additionalItems", "unevaluatedItems", "contains",
    "patternProperties", "items", "prefixItems", "properties", "dependentSchemas", "not", "oneOf", "anyOf", "allOf", "if", "$ref",
)  # fmt: skip
"""Keywords in the order in which they are tried: those that say one thing first."""

BOUNDS: Final = (
    ("string", "minLength", "maxLength", "characters"),
    ("array", "minItems", "maxItems", "items"),
    ("object", "minProperties", "maxProperties", "keys"),
)

_LIMITS: Final = Limits(compile_seconds=0.2, states=5_000)


@dataclass(frozen=True, slots=True)
class Subschema:
    """A part of a schema and its pointer; `certain` says that no branch was chosen on the way to it."""

    pointer: str
    schema: Any
    certain: bool


def applying(root: Any, path: Sequence[str | int]) -> list[Subschema]:
    """The subschemas that speak of the value at this path, the outermost first; at most MOST_PLACES."""
    here = list(_spread(root, [Subschema("", root, True)]))
    for part in path:
        here = list(_spread(root, [child for each in here for child in _children(each, part)]))[:MOST_PLACES]
    return here


def _spread(root: Any, places: list[Subschema]) -> Iterator[Subschema]:
    """These subschemas, and those that apply to the same value because of them."""
    seen: set[str] = set()
    todo = list(reversed(places))
    while todo and len(seen) < MOST_PLACES:
        place = todo.pop()
        if place.pointer in seen:
            continue
        seen.add(place.pointer)
        yield place
        schema = place.schema
        if not isinstance(schema, dict):
            continue
        found: list[Subschema] = []
        for keyword in ("$ref", "$dynamicRef"):
            target = resolve(root, schema.get(keyword))
            if target is not None:
                found.append(Subschema(target[0], target[1], place.certain))
        for keyword in IN_PLACE:
            branches = schema.get(keyword)
            if isinstance(branches, list):
                certain = place.certain and (keyword == "allOf" or len(branches) == 1)
                found += [Subschema(f"{place.pointer}/{keyword}/{index}", each, certain) for index, each in enumerate(branches)]
        found += [Subschema(f"{place.pointer}/{keyword}", schema[keyword], False) for keyword in BRANCHES if keyword in schema]
        todo += reversed(found)


def _children(place: Subschema, part: str | int) -> Iterator[Subschema]:
    """The result of a subschema for a member or an item."""
    schema = place.schema
    if not isinstance(schema, dict):
        return

    def child(*keys: str | int) -> Subschema:
        value = schema
        for key in keys:
            value = value[key]
        return Subschema(place.pointer + "".join(f"/{escaped(key)}" for key in keys), value, place.certain)

    if isinstance(part, str):
        declared = False
        if isinstance(schema.get("properties"), dict) and part in schema["properties"]:
            declared = True
            yield child("properties", part)
        for pattern in schema.get("patternProperties") or () if isinstance(schema.get("patternProperties"), dict) else ():
            if _matches(pattern, part):
                declared = True
                yield child("patternProperties", pattern)
        for keyword in ("additionalProperties", "unevaluatedProperties"):
            if keyword in schema and not declared:
                yield child(keyword)
        return
    listed = 0
    for keyword in ("prefixItems", "items"):
        if isinstance(schema.get(keyword), list):
            listed = len(schema[keyword])
            if part < listed:
                yield child(keyword, part)
    if part >= listed:
        for keyword in ("items", "additionalItems", "unevaluatedItems"):
            if isinstance(schema.get(keyword), dict | bool):
                yield child(keyword)
    if "contains" in schema:
        yield child("contains")


def _matches(pattern: str, key: str) -> bool:
    try:
        return accepts(regex_dfa(pattern, search=True, limits=_LIMITS), key)
    except StackmaskError:
        return False


def resolve(root: Any, reference: object) -> tuple[str, Any] | None:
    """The pointer and value that a reference inside of the document names; None for others."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    if reference in ("#", "#/"):
        return "", root
    if not reference.startswith("#/"):
        return _anchor(root, reference[1:])
    from urllib.parse import unquote

    value = root
    pointer = unquote(reference[1:])
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return pointer, value


def _anchor(root: Any, name: str) -> tuple[str, Any] | None:
    todo: list[tuple[str, Any]] = [("", root)]
    for pointer, value in todo:  # which grows
        if len(todo) > 10_000:
            return None
        if isinstance(value, dict):
            if name in (value.get("$anchor"), value.get("$dynamicAnchor")):
                return pointer, value
            todo += [(f"{pointer}/{escaped(key)}", part) for key, part in value.items() if isinstance(part, dict | list)]
        elif isinstance(value, list):
            todo += [(f"{pointer}/{index}", part) for index, part in enumerate(value) if isinstance(part, dict | list)]
    return None


@dataclass(frozen=True, slots=True)
class Responsible:
    """The part of a schema that refuses a text: a keyword, or a subschema as a whole (no keyword), or the order of keys."""

    pointer: str
    keyword: str | None
    reason: str


def responsible(
    root: Any, position: JsonPosition, fits: Callable[[Any, Mapping[str, Any]], bool], options: Mapping[str, Any], deadline: float
) -> Responsible | None:
    """The keyword without which the refused text would fit; None where it is no JSON whatever the schema says, or time runs out.

    `fits(schema, options)` says whether it would with this schema in the place of `root`. `deadline` is a time.monotonic().
    """
    left = MOST_TRIALS

    def would_fit(schema: Any, **more: object) -> bool:
        nonlocal left
        left -= 1
        return left > 0 and time.monotonic() < deadline and fits(schema, {**options, **more})

    if options.get("distinct_keys") and would_fit(root, distinct_keys=False):
        return Responsible("", None, "distinct_keys is true: no key of an object comes twice")
    if not would_fit(True):
        return None
    places = _candidates(root, position)
    if options.get("property_order", "schema") == "schema" and would_fit(root, property_order="any"):
        owner = next((place for place in places if isinstance(place.schema, dict) and "properties" in place.schema), None)
        pointer = f"{owner.pointer}/properties" if owner else ""
        return Responsible(pointer, "properties", 'keys come in the order of the schema here; property_order "any" takes them in any')
    if options.get("extra_properties") == "closed" and would_fit(root, extra_properties="schema"):
        return Responsible("", None, 'extra_properties is "closed": keys that are not declared are refused')
    for place in places:
        schema = place.schema
        if schema is False:
            if would_fit(_replaced(root, place.pointer, True)):
                return Responsible(place.pointer, None, f"{place.pointer} is false: no value fits")
            continue
        if not isinstance(schema, dict):
            continue
        for keyword in KEYWORDS:
            if keyword in schema:
                rest = {key: value for key, value in schema.items() if key != keyword}
                if would_fit(_replaced(root, place.pointer, rest)):
                    return Responsible(f"{place.pointer}/{escaped(keyword)}", keyword, keyword_reason(keyword, schema[keyword]))
    for place in places:
        if would_fit(_replaced(root, place.pointer, True)):
            return Responsible(place.pointer, None, "several keywords of this subschema refuse it together")
    return None


def _candidates(root: Any, position: JsonPosition) -> list[Subschema]:
    """The subschemas that may be responsible at a position, innermost values first, and of one value the most special first."""
    paths = [position.path[:length] for length in range(len(position.path), -1, -1)]
    top = position.containers[-1] if position.containers else None
    if top is not None and not top.is_object and not top.in_value:
        paths.insert(0, (*position.path, top.count))
    found: dict[str, Subschema] = {}
    for path in paths[:8]:
        for place in reversed(applying(root, path)):
            found.setdefault(place.pointer, place)
    return list(found.values())


def _replaced(root: Any, pointer: str, value: Any) -> Any:
    """A copy of the schema with another value at a pointer."""
    return replaced(root, [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]], value)


def replaced(root: Any, path: Sequence[str | int], value: Any) -> Any:
    """A copy of a JSON object with another value at a path; parts off that path are shared."""
    if not path:
        return value
    copy = here = dict(root)
    for index, part in enumerate(path):
        key: Any = int(part) if isinstance(here, list) else part
        if index == len(path) - 1:
            here[key] = value
        else:
            inner = here[key]
            here[key] = inner.copy()
            here = here[key]
    return copy


def keyword_reason(keyword: str, value: Any) -> str:
    """A short description of a keyword."""
    match keyword:
        case "additionalProperties" | "unevaluatedProperties" if value is False:
            return f"`{keyword}` is false: the schema does not declare this key here"
        case "required":
            return f"`required` asks for {_shown(value)}"
        case "properties":
            return "`properties` says what comes here"
    return f"`{keyword}` is {_shown(value)}"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False) if not isinstance(value, dict | list) or len(value) <= 12 else f"… ({len(value)} entries)"
    return text if len(text) <= 120 else f"{text[:117]}…"


@dataclass(frozen=True, slots=True)
class Bound:
    """The use of a bound at a position: `used` of at least `minimum` and at most `maximum` `unit`."""

    pointer: str
    unit: str
    used: int
    minimum: int | None
    maximum: int | None


def bounds_at(root: Any, position: JsonPosition) -> list[Bound]:
    """The bounds on lengths and counts that hold for sure at a position, innermost first."""
    found: list[Bound] = []
    depth = len(position.path)
    if position.in_string and not position.in_key and position.partial is not None:
        found += _bounds(root, position.path, BOUNDS[0], len(position.partial))
    for container in reversed(position.containers):
        inside = container.in_value or (container.is_object and container.awaits_value)
        if depth and (inside or container is not position.containers[-1]):
            depth -= 1
        kind = BOUNDS[2] if container.is_object else BOUNDS[1]
        found += _bounds(root, position.path[:depth], kind, container.count)
    return found[:16]


def _bounds(root: Any, path: Sequence[str | int], kind: tuple[str, str, str, str], used: int) -> Iterator[Bound]:
    _, low, high, unit = kind
    for place in applying(root, path):
        schema = place.schema
        if place.certain and isinstance(schema, dict) and (_is_count(schema.get(low)) or _is_count(schema.get(high))):
            minimum = schema[low] if _is_count(schema.get(low)) else None
            maximum = schema[high] if _is_count(schema.get(high)) else None
            yield Bound(place.pointer, unit, used, minimum, maximum)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
