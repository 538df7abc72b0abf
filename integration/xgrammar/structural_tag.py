"""Structural tags.

XGrammar's models are mappings here: each name makes one with its type, and what is in it is checked when it is compiled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from .exception import InvalidJSONError, InvalidStructuralTagError

Format = partial[dict[str, Any]]

AnyTextFormat: Format = partial(dict, type="any_text")
AnyTokensFormat: Format = partial(dict, type="any_tokens")
ConstStringFormat: Format = partial(dict, type="const_string")
DispatchFormat: Format = partial(dict, type="dispatch")
ExcludeTokenFormat: Format = partial(dict, type="exclude_token")
GrammarFormat: Format = partial(dict, type="grammar")
JSONSchemaFormat: Format = partial(dict, type="json_schema")
OptionalFormat: Format = partial(dict, type="optional")
OrFormat: Format = partial(dict, type="or")
PlusFormat: Format = partial(dict, type="plus")
QwenXMLParameterFormat: Format = partial(dict, type="qwen_xml_parameter")
RegexFormat: Format = partial(dict, type="regex")
RepeatFormat: Format = partial(dict, type="repeat")
SequenceFormat: Format = partial(dict, type="sequence")
StarFormat: Format = partial(dict, type="star")
TagFormat: Format = partial(dict, type="tag")
TagsWithSeparatorFormat: Format = partial(dict, type="tags_with_separator")
TokenDispatchFormat: Format = partial(dict, type="token_dispatch")
TokenFormat: Format = partial(dict, type="token")
TokenTriggeredTagsFormat: Format = partial(dict, type="token_triggered_tags")
TriggeredTagsFormat: Format = partial(dict, type="triggered_tags")


@dataclass(frozen=True, slots=True, kw_only=True)
class StructuralTagItem:
    """A tag of the older form."""

    begin: str
    schema: Any
    end: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StructuralTag:
    """A structural tag; `format` is a mapping or a model with `model_dump`."""

    format: Any
    type: str = "structural_tag"

    @staticmethod
    def from_json(json_str: str | Mapping[str, Any]) -> StructuralTag:
        """The tag in a JSON text or a mapping."""
        values = _parsed(json_str) if isinstance(json_str, str) else json_str
        if not isinstance(values, Mapping) or "format" not in values or values.keys() - {"type", "format"}:
            raise InvalidStructuralTagError("a structural tag has the fields format and type")
        return StructuralTag(**values)

    @staticmethod
    def from_legacy_structural_tag(tags: Sequence[Any], triggers: Sequence[str]) -> StructuralTag:
        """The tag of the older form."""
        written = [
            {"type": "tag", "begin": tag.begin, "content": {"type": "json_schema", "json_schema": _schema(tag.schema)}, "end": tag.end}
            for tag in tags
        ]
        return StructuralTag(format={"type": "triggered_tags", "triggers": list(triggers), "tags": written})

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """The tag as a mapping."""
        return {"type": self.type, "format": self.format.model_dump(by_alias=True) if hasattr(self.format, "model_dump") else self.format}

    def model_dump_json(self, **_: Any) -> str:
        """The tag as JSON."""
        return json.dumps(self.model_dump())


def tag_of(*arguments: Any) -> Any:
    """The arguments of a function that takes a tag, or tags and triggers, in the form that stackmask takes."""
    if len(arguments) == 2:
        return StructuralTag.from_legacy_structural_tag(*arguments).model_dump()
    (tag,) = arguments
    if isinstance(tag, str):
        return _parsed(tag)
    return tag.model_dump(by_alias=True) if hasattr(tag, "model_dump") else tag


def _parsed(text: str) -> Any:
    """The value of a JSON text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidJSONError(f"not JSON: {error}") from error


def _schema(schema: Any) -> Any:
    """A schema as a mapping."""
    if isinstance(schema, str):
        return json.loads(schema)
    return schema.model_json_schema() if hasattr(schema, "model_json_schema") else schema
