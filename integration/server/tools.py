"""Tools: what a model may call, as a constraint on its text, and the calls in that text.

    none       no constraint
    named      the answer is made to begin with the call of that tool; the constraint is its arguments' schema
    required   one call of any tool: an object with name and arguments; an array of them where `parallel_tool_calls` is true
    auto       text with calls in it: a structural tag, where the compiler has them

The frame is the one that Hermes, Qwen and the demo model were trained with: `<tool_call>{"name": ..., "arguments": ...}</tool_call>`.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from stackmask.integration.engine import Constraint
from stackmask.integration.server.errors import ApiError

OPEN: Final = "<tool_call>"
CLOSE: Final = "</tool_call>"
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_HEAD: Final = re.compile(r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"arguments"\s*:\s*')

Mode = Literal["named", "custom", "one", "many", "auto"]


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: a function with a schema, or a custom one whose input is text, perhaps in a grammar."""

    name: str
    parameters: Any
    definition: Mapping[str, Any]
    grammar: Constraint | None = None
    custom: bool = False


@dataclass(frozen=True, slots=True)
class ToolPlan:
    """How the calls of a request are to be had."""

    mode: Mode
    tools: tuple[Tool, ...]
    constraint: Constraint | None
    prefix: str = ""


@dataclass(slots=True)
class Call:
    """A call, or a piece of one: `arguments` is what has come since the last piece."""

    index: int
    name: str
    arguments: str = ""
    id: str = field(default_factory=lambda: f"call_{uuid.uuid4().hex[:24]}")
    custom: bool = False
    begins: bool = True


def read_tools(definitions: Sequence[Mapping[str, Any]] | None) -> tuple[Tool, ...]:
    """The tools of a request, in the nested form of chat completions or the flat one of responses."""
    tools = []
    for index, definition in enumerate(definitions or ()):
        where = f"tools[{index}]"
        kind = definition.get("type") if isinstance(definition, Mapping) else None
        if kind not in ("function", "custom"):
            raise ApiError(f"{where}.type is {str(kind)[:60]!r}; there are function and custom", param="tools")
        inner = definition.get(kind, definition)
        if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str) or not _NAME.fullmatch(inner["name"]):
            raise ApiError(f"{where} needs a name of at most 64 letters, digits, dots, dashes and underscores", param="tools")
        if kind == "custom":
            tools.append(Tool(inner["name"], None, definition, _custom_grammar(inner.get("format"), where), custom=True))
            continue
        parameters = inner.get("parameters")
        if parameters is None:
            parameters = {"type": "object", "properties": {}, "additionalProperties": False}
        if not isinstance(parameters, Mapping | bool):
            raise ApiError(f"{where}.parameters is a JSON Schema", param="tools")
        tools.append(Tool(inner["name"], parameters, definition))
    names = [tool.name for tool in tools]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ApiError(f"two tools are called {twice!r}", param="tools")
    return tuple(tools)


def plan_tools(tools: tuple[Tool, ...], choice: Any, parallel: bool | None, options: Mapping[str, Any]) -> ToolPlan | None:
    """What `tool_choice` asks for; None where the answer is text."""
    if choice is None:
        choice = "auto" if tools else "none"
    if choice == "none" and isinstance(choice, str):
        return None
    if not tools:
        if choice == "auto":
            return None
        raise ApiError("tool_choice asks for a call, but there are no tools", param="tool_choice")
    if isinstance(choice, Mapping):
        kind = choice.get("type")
        if kind == "allowed_tools":
            tools, choice = _allowed(tools, choice)
        elif kind in ("function", "custom"):
            inner = choice.get(kind, choice)
            name = inner.get("name") if isinstance(inner, Mapping) else None
            return _named(_find(tools, name), options)
        else:
            raise ApiError(f"tool_choice.type is {str(kind)[:60]!r}; there are function, custom and allowed_tools", param="tool_choice")
    match choice:
        case "auto":
            return _auto(tools)
        case "required":
            return _required(tools, bool(parallel), options)
        case _:
            raise ApiError(f"tool_choice is {str(choice)[:60]!r}; there are none, auto and required, or a tool", param="tool_choice")


class CallReader:
    """Calls and text out of an answer as it comes."""

    def __init__(self, plan: ToolPlan) -> None:
        self._plan = plan
        self._buffer = ""
        self._count = 0
        self._open: Call | None = None
        if plan.mode in ("named", "custom"):
            self._open = Call(0, plan.tools[0].name, custom=plan.mode == "custom")

    def feed(self, text: str, *, final: bool = False) -> tuple[str, list[Call]]:
        """The text outside of calls and the pieces of calls that these characters bring."""
        self._buffer += text
        match self._plan.mode:
            case "named" | "custom":
                return "", self._pass_on()
            case "one":
                return "", self._one(final)
            case "many":
                return "", self._many()
            case _:
                return self._auto(final)

    def _pass_on(self) -> list[Call]:
        """Everything is the call's arguments."""
        assert self._open is not None
        piece, self._buffer = self._buffer, ""
        if not piece and not self._open.begins:
            return []
        call = Call(0, self._open.name, piece, self._open.id, self._open.custom, self._open.begins)
        self._open.begins = False
        return [call]

    def _one(self, final: bool) -> list[Call]:
        """An object with name and arguments, of which the last brace is not part of the arguments."""
        if self._open is None:
            head = _HEAD.match(self._buffer)
            if head is None or (head.end() == len(self._buffer) and not final):
                return []  # blanks before the arguments may still come
            self._open = Call(0, json.loads(head[1]))
            self._buffer = self._buffer[head.end() :]
        held = len(self._buffer) - len(self._buffer.rstrip("} \t\r\n"))
        if final:
            whole = self._buffer.rstrip()
            self._buffer = whole[:-1].rstrip() if whole.endswith("}") else whole
            held = 0
        piece, self._buffer = self._buffer[: len(self._buffer) - held], self._buffer[len(self._buffer) - held :]
        if not piece and not self._open.begins:
            return []
        call = Call(0, self._open.name, piece, self._open.id, begins=self._open.begins)
        self._open.begins = False
        return [call]

    def _many(self) -> list[Call]:
        """The items of an array, each when it is whole."""
        calls: list[Call] = []
        decoder = json.JSONDecoder()
        while True:
            rest = self._buffer.lstrip("[, \t\r\n")
            try:
                value, end = decoder.raw_decode(rest)
            except ValueError:
                return calls
            self._buffer = rest[end:]
            calls.append(self._whole(rest[:end], value))

    def _auto(self, final: bool) -> tuple[str, list[Call]]:
        """Text, and framed calls each when it is whole."""
        texts: list[str] = []
        calls: list[Call] = []
        while True:
            start = self._buffer.find(OPEN)
            if start < 0:
                held = 0 if final else next((n for n in range(len(OPEN) - 1, 0, -1) if self._buffer.endswith(OPEN[:n])), 0)
                texts.append(self._buffer[: len(self._buffer) - held])
                self._buffer = self._buffer[len(self._buffer) - held :]
                return "".join(texts), calls
            end = self._buffer.find(CLOSE, start)
            if end < 0:
                if final:
                    texts.append(self._buffer)  # cut by the budget: no call
                    self._buffer = ""
                else:
                    texts.append(self._buffer[:start])
                    self._buffer = self._buffer[start:]
                return "".join(texts), calls
            texts.append(self._buffer[:start])
            inside = self._buffer[start + len(OPEN) : end]
            self._buffer = self._buffer[end + len(CLOSE) :]
            calls.append(self._whole(inside, json.loads(inside)))

    def _whole(self, text: str, value: Mapping[str, Any]) -> Call:
        """A call that is complete; its arguments are spelt as the model spelt them."""
        head = _HEAD.match(text)
        body = text[head.end() :].rstrip()[:-1].rstrip() if head else json.dumps(value.get("arguments"))
        self._count += 1
        return Call(self._count - 1, value["name"], body)


def _named(tool: Tool, options: Mapping[str, Any]) -> ToolPlan:
    if tool.custom:
        return ToolPlan("custom", (tool,), tool.grammar)
    constraint = Constraint("json_schema", tool.parameters, options)
    return ToolPlan("named", (tool,), constraint, f'{OPEN}{{"name": {json.dumps(tool.name)}, "arguments": ')


def _required(tools: tuple[Tool, ...], parallel: bool, options: Mapping[str, Any]) -> ToolPlan:
    if custom := next((tool for tool in tools if tool.custom), None):
        if len(tools) == 1:
            return _named(custom, options)
        raise ApiError(
            f"tool_choice required with the custom tool {custom.name!r} among others is not supported; name one", param="tool_choice"
        )
    if len(tools) == 1 and not parallel:
        return _named(tools[0], options)
    # each schema is a document of its own, so that references inside it begin at its own root
    documents = {f"stackmask:tool/{tool.name}": tool.parameters for tool in tools}
    call = {
        "anyOf": [
            {
                "type": "object",
                "properties": {"name": {"const": tool.name}, "arguments": {"$ref": f"stackmask:tool/{tool.name}"}},
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
            for tool in tools
        ]
    }
    schema = {"type": "array", "items": call, "minItems": 1} if parallel else call
    whole = {key: value for key, value in options.items() if key != "property_order"}  # the name comes before the arguments
    return ToolPlan(
        "many" if parallel else "one", tools, Constraint("json_schema", schema, {**whole, "documents": documents}), "" if parallel else OPEN
    )


def _auto(tools: tuple[Tool, ...]) -> ToolPlan:
    if custom := next((tool for tool in tools if tool.custom), None):
        raise ApiError(
            f"tool_choice auto with the custom tool {custom.name!r} is not supported yet; name it in tool_choice", param="tool_choice"
        )
    tags = [
        {
            "type": "tag",
            "begin": f'{OPEN}{{"name": {json.dumps(tool.name)}, "arguments": ',
            "content": {"type": "json_schema", "json_schema": tool.parameters},
            "end": f"}}{CLOSE}",
        }
        for tool in tools
    ]
    tag = {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": [OPEN], "tags": tags}}
    return ToolPlan("auto", tools, Constraint("structural_tag", tag))


def _allowed(tools: tuple[Tool, ...], choice: Mapping[str, Any]) -> tuple[tuple[Tool, ...], Any]:
    inner = choice.get("allowed_tools", choice)
    entries = inner.get("tools") if isinstance(inner, Mapping) else None
    mode = inner.get("mode", "auto") if isinstance(inner, Mapping) else None
    if not isinstance(entries, list) or not entries or mode not in ("auto", "required"):
        raise ApiError("tool_choice.allowed_tools has a mode, auto or required, and tools", param="tool_choice")
    chosen = []
    for entry in entries:
        part = entry.get(entry.get("type"), entry) if isinstance(entry, Mapping) else {}
        chosen.append(_find(tools, part.get("name") if isinstance(part, Mapping) else None))
    return tuple(chosen), mode


def _find(tools: tuple[Tool, ...], name: Any) -> Tool:
    tool = next((tool for tool in tools if tool.name == name), None)
    if tool is None:
        raise ApiError(f"tool_choice names {str(name)[:60]!r}, which is none of the tools", param="tool_choice")
    return tool


def _custom_grammar(format: Any, where: str) -> Constraint | None:
    """The grammar of a custom tool's input, None for any text."""
    if format is None or (isinstance(format, Mapping) and format.get("type") == "text"):
        return None
    inner = format.get("grammar", format) if isinstance(format, Mapping) and format.get("type") == "grammar" else None
    definition = inner.get("definition") if isinstance(inner, Mapping) else None
    if not isinstance(inner, Mapping) or inner.get("syntax") not in ("lark", "regex") or not isinstance(definition, str):
        raise ApiError(f"{where}.format is text, or a grammar with a syntax, lark or regex, and a definition", param="tools")
    return Constraint(inner["syntax"], definition)
