"""The older form of structural tags: `structures`, a list of {"begin", "schema", "end"}, and `triggers`; it means triggered_tags.

    {"structures": [{"begin": "<f>", "schema": S, "end": "</f>"}], "triggers": ["<f"]}
    {"type": "triggered_tags", "triggers": ["<f"], "tags": [{"type": "tag", "begin": "<f>", "content": C, "end": "</f>"}]}

Nothing is checked here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def newer_form(tag: Mapping[str, Any]) -> dict[str, Any]:
    """The newer form of a tag with `structures`."""
    return triggered_tags(tag.get("triggers"), [tag_of(structure) for structure in tag["structures"]])


def triggered_tags(triggers: object, tags: list[Any]) -> dict[str, Any]:
    """The newer form with these tags."""
    return {"type": "triggered_tags", "triggers": triggers, "tags": tags}


def tag_of(structure: Mapping[str, Any]) -> dict[str, Any]:
    """The tag for a structure; an absent field becomes None, and an unknown one stays.

    >>> tag_of({"begin": "<f>", "end": "</f>"})
    {'type': 'tag', 'begin': '<f>', 'content': {'type': 'json_schema', 'json_schema': None}, 'end': '</f>'}
    """
    fields = dict(structure)
    content = {"type": "json_schema", "json_schema": fields.pop("schema", None)}
    return {"type": "tag", "begin": fields.pop("begin", None), "content": content, "end": fields.pop("end", None), **fields}
