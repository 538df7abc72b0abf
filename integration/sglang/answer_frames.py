"""The structural tags that SGLang makes: the parts that its tool-call detectors leave out, and grammars inside its answer frames.

A detector without a schema for a tool writes null in its place, which stands for any JSON value, `{}`.
The older form of a tag may ask for at least one call, which only the newer form has a field for; so it is written in the newer form.
An answer frame wraps a request's own grammar in the messages of a chat format; it does so by a function from a format to a tag.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from ...pda.exceptions import StructuralTagError
from ...pda.limits import Limits
from ...schema.structural_tag.structures import newer_form
from ..compiler.cache_key import parse_json

ANY_JSON: Final = "$$ANY$$"
"""The text that SGLang sends instead of a schema for any JSON."""

_CONTENT: Final[Mapping[str, Callable[[str], dict[str, Any]]]] = MappingProxyType(
    {
        "json": lambda text: {"type": "json_schema", "json_schema": True if text == ANY_JSON else json.loads(text)},
        "regex": lambda text: {"type": "regex", "pattern": text},
        "ebnf": lambda text: {"type": "grammar", "grammar": text},
    }
)
_SCHEMAS: Final = frozenset({"json_schema", "qwen_xml_parameter"})


def content_of(kind: str, specification: str) -> dict[str, Any]:
    """A request's grammar as a format inside a structural tag.

    >>> content_of("regex", "a+")
    {'type': 'regex', 'pattern': 'a+'}
    """
    make = _CONTENT.get(kind)
    if make is None:
        raise StructuralTagError(f"a grammar of type {kind} cannot stand in an answer frame; {', '.join(_CONTENT)} can")
    return make(specification)


def completed_tag(text: str, blanks: int | None, limits: Limits) -> Any:
    """A structural tag as SGLang sends it, in the newer form and with nothing left out.

    `blanks` is how many there may be between the parts of JSON, where the tag does not say.

    >>> completed_tag('{"structures": [{"begin": "<f>", "end": "</f>"}], "triggers": ["<f"]}', None, Limits())["tags"]
    [{'type': 'tag', 'begin': '<f>', 'content': {'type': 'json_schema', 'json_schema': {}}, 'end': '</f>'}]
    """
    tag = parse_json(text, limits)
    if isinstance(tag, dict) and tag.get("structures") is not None:
        tag = _newer(tag)
    places = [tag]
    while places:
        place = places.pop()
        if isinstance(place, list):
            places.extend(place)
        elif isinstance(place, dict):
            if isinstance(kind := place.get("type"), str) and kind in _SCHEMAS:
                if place.get("json_schema") is None:
                    place["json_schema"] = {}
                is_json = kind == "json_schema" and place.get("style") in (None, "json")
                if blanks is not None and is_json and place.get("whitespace") is None:
                    place.setdefault("max_whitespace_cnt", blanks)
            places.extend(value for key, value in place.items() if key != "json_schema")
    return tag


def _newer(tag: dict[str, Any]) -> dict[str, Any]:
    """A tag of the older form in the newer one."""
    unknown = tag.keys() - {"type", "structures", "triggers", "at_least_one"}
    if unknown:
        raise StructuralTagError(f"{sorted(unknown)[0]!r:.60} is not a field of a structural tag with structures")
    if not isinstance(tag["structures"], list) or not all(isinstance(item, dict) for item in tag["structures"]):
        raise StructuralTagError("structures: a list of objects is expected")
    return newer_form(tag) | ({"at_least_one": True} if tag.get("at_least_one") else {})
