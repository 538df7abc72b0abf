"""Arguments in a style that structural tags do not have, made of what they have.

The schema is a plain object: properties in their order, each required or not, and nothing else. A value stands between two texts, a string
as it is, anything else as JSON. What such a spelling cannot hold exactly, a string with a pattern say, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from stackmask.integration.tools.fits import NOTES
from stackmask.integration.tools.formats import Style
from stackmask.integration.tools.kinds import kinds
from stackmask.integration.tools.tool import ToolError

Json = dict[str, Any]

_SHARED: Final = ("$defs", "definitions")
_OBJECT: Final = NOTES | {"type", "properties", "required", "additionalProperties", *_SHARED}
_WORDS: Final = {"null": ("null",), "boolean": ("true", "false")}


def compose_arguments(schema: Any, style: Style, compact: bool) -> Json:
    """The arguments that a schema describes, as a format of structural tags."""
    if not isinstance(schema, Mapping) or schema.get("type", "object") != "object":
        raise ToolError("its parameters are no object")
    if odd := sorted(schema.keys() - _OBJECT):
        raise ToolError(f"its parameters have {odd[0]!r}; this format holds plain objects")
    properties, required = schema.get("properties") or {}, schema.get("required") or ()
    if not isinstance(properties, Mapping) or not isinstance(required, list | tuple):
        raise ToolError("its parameters are no JSON Schema")
    if odd := [key for key in properties if re.search(r'["<>]', key)]:
        raise ToolError(f"its argument {odd[0]!r} has a name that this format cannot spell")
    if missing := [name for name in required if name not in properties]:
        raise ToolError(f"it requires {missing[0]!r}, which is none of its properties")
    elements = []
    for key, value in properties.items():
        begin, end = style.pair.replace("$key", key).split("$value")
        pair = {"type": "tag", "begin": begin, "content": _value(key, value, schema, end, compact), "end": end}
        elements.append(pair if key in required else {"type": "optional", "content": pair})
    if not elements:
        return {"type": "const_string", "value": ""}
    return {"type": "sequence", "elements": elements}


def _value(key: str, schema: Any, root: Mapping[str, Any], end: str, compact: bool) -> Json:
    """One value."""
    found = kinds(schema, root)
    if "string" not in found:
        shared = {name: root[name] for name in _SHARED if name in root}
        whole = {**schema, **shared} if isinstance(schema, Mapping) else schema
        return {"type": "json_schema", "json_schema": whole, **({"max_whitespace_cnt": 0} if compact else {})}
    assert not isinstance(schema, bool) or schema
    plain = schema if isinstance(schema, Mapping) else {}
    values = plain.get("enum", [plain["const"]] if "const" in plain else None)
    if values is not None and isinstance(values, list) and values and all(isinstance(value, str) and end not in value for value in values):
        return {"type": "or", "elements": [{"type": "const_string", "value": value} for value in values]}
    if found - {"string", *_WORDS}:
        raise ToolError(f"its argument {key!r} may be a string and {' and '.join(sorted(found - {'string'}))}, which read the same")
    parts = [plain, *(plain.get("anyOf") or ()), *(plain.get("oneOf") or ())]
    for part in parts:
        if odd := sorted(part.keys() - NOTES - {"type", "anyOf", "oneOf"}):
            raise ToolError(f"its argument {key!r} has {odd[0]!r}, which this format cannot hold a string to")
    return {"type": "any_text"}
