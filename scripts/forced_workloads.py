"""What the checks of vLLM and SGLang ask for, where they count the steps that forced text saves: tool calls, and answers of a schema."""

from __future__ import annotations

TOOLS = ("get_current_weather", "search_documents", "create_calendar_event")
ARGUMENTS = {
    "type": "object",
    "properties": {"location": {"enum": ["Oslo", "Bonn"]}, "temperature_unit": {"enum": ["celsius", "fahrenheit"]}},
    "required": ["location", "temperature_unit"],
    "additionalProperties": False,
}
CALLS = {
    "type": "structural_tag",
    "format": {
        "type": "or",
        "elements": [
            {
                "type": "tag",
                "begin": f'<tool_call>{{"name": "{name}", "arguments": ',
                "content": {"type": "json_schema", "json_schema": ARGUMENTS},
                "end": "}</tool_call>",
            }
            for name in TOOLS
        ],
    },
}
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Z][a-z]{1,8}$"},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": True, "maxItems": 3},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}
