"""Tools as a request gives them, and which of them the model may or must call."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from .spelling import NAME

_NAME: Final = re.compile(rf"(?=.{{1,64}}\Z){NAME}")
_NO_PARAMETERS: Final = {"type": "object", "properties": {}, "additionalProperties": False}


class ToolError(ValueError):
    """A request is wrong about its tools; `field` is the field of the request."""

    def __init__(self, message: str, field: str = "tools") -> None:
        self.field = field
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Tool:
    """A function with a schema for its arguments, or a custom tool, whose input is text in a grammar or any text.

    `is_strict`: an object of its parameters that declares properties and says nothing of others has no others (`extra_properties`).
    """

    name: str
    parameters: Any = None
    is_custom: bool = False
    syntax: Literal["text", "lark", "regex"] = "text"
    grammar: str = ""
    is_strict: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """The tools that may be called, and no others; with `is_required` at least one is called, with `is_single` at most one."""

    tools: tuple[Tool, ...]
    is_required: bool
    is_single: bool


def read_tools(definitions: Sequence[Mapping[str, Any]] | None) -> tuple[Tool, ...]:
    """The tools of a request, in the nested form of chat completions or the flat one of responses."""
    tools: list[Tool] = []
    for index, definition in enumerate(definitions or ()):
        where = f"tools[{index}]"
        kind = definition.get("type") if isinstance(definition, Mapping) else None
        if kind not in ("function", "custom"):
            raise ToolError(f"{where}.type is {str(kind)[:60]!r}; it must be function or custom")
        inner = definition.get(kind, definition)
        if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str) or not _NAME.fullmatch(inner["name"]):
            raise ToolError(f"{where} needs a name of at most 64 letters, digits, dots, dashes and underscores")
        name = inner["name"]
        tools.append(_custom(name, inner.get("format"), where) if kind == "custom" else _function(name, inner, where))
    seen: set[str] = set()
    for tool in tools:
        if tool.name in seen:
            raise ToolError(f"two tools are called {tool.name!r}")
        seen.add(tool.name)
    return tuple(tools)


def choose(tools: tuple[Tool, ...], choice: Any, *, parallel: bool = True) -> Choice | None:
    """The tools that `tool_choice` allows or requires; None if the answer is text only. The default is auto if there are tools."""
    if choice is None:
        choice = "auto" if tools else "none"
    if choice == "none":
        return None
    if not tools:
        if choice == "auto":
            return None
        raise ToolError("tool_choice requires a call, but the request has no tools", "tool_choice")
    if isinstance(choice, Mapping):
        kind = choice.get("type")
        if kind in ("function", "custom"):
            return Choice((_find(tools, choice, kind),), True, True)
        if kind != "allowed_tools":
            raise ToolError(f"tool_choice.type is {str(kind)[:60]!r}; it must be function, custom or allowed_tools", "tool_choice")
        tools, choice = _allowed(tools, choice)
    if choice not in ("auto", "required"):
        raise ToolError(f"tool_choice is {str(choice)[:60]!r}; it must be none, auto, required or a tool", "tool_choice")
    return Choice(tools, choice == "required", not parallel)


def _function(name: str, inner: Mapping[str, Any], where: str) -> Tool:
    parameters = inner.get("parameters")
    if parameters is None:
        parameters = _NO_PARAMETERS
    if not isinstance(parameters, Mapping | bool):
        raise ToolError(f"{where}.parameters must be a JSON Schema")
    if inner.get("strict") not in (True, False, None):
        raise ToolError(f"{where}.strict must be true, false or null")
    return Tool(name, parameters, is_strict=inner.get("strict") is True)


def _custom(name: str, format: Any, where: str) -> Tool:
    if format is None or (isinstance(format, Mapping) and format.get("type") == "text"):
        return Tool(name, is_custom=True)
    inner = format.get("grammar", format) if isinstance(format, Mapping) and format.get("type") == "grammar" else None
    definition = inner.get("definition") if isinstance(inner, Mapping) else None
    if not isinstance(inner, Mapping) or inner.get("syntax") not in ("lark", "regex") or not isinstance(definition, str):
        raise ToolError(f"{where}.format must be text, or a grammar with a definition and a syntax, lark or regex")
    return Tool(name, is_custom=True, syntax=inner["syntax"], grammar=definition)


def _allowed(tools: tuple[Tool, ...], choice: Mapping[str, Any]) -> tuple[tuple[Tool, ...], Any]:
    inner = choice.get("allowed_tools", choice)
    entries = inner.get("tools") if isinstance(inner, Mapping) else None
    mode = inner.get("mode", "auto") if isinstance(inner, Mapping) else None
    if not isinstance(entries, list) or not entries or mode not in ("auto", "required"):
        raise ToolError("tool_choice.allowed_tools needs a mode, auto or required, and a list of tools", "tool_choice")
    chosen = (_find(tools, entry, entry.get("type") if isinstance(entry, Mapping) else None) for entry in entries)
    return tuple({tool.name: tool for tool in chosen}.values()), mode


def _find(tools: tuple[Tool, ...], entry: Any, kind: Any) -> Tool:
    inner = entry.get(kind, entry) if isinstance(entry, Mapping) and isinstance(kind, str) else None
    name = inner.get("name") if isinstance(inner, Mapping) else None
    tool = next((tool for tool in tools if tool.name == name and tool.is_custom == (kind == "custom")), None)
    if tool is None:
        raise ToolError(f"tool_choice names {str(name)[:60]!r}, which is not one of the tools", "tool_choice")
    return tool
