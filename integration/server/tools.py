"""Tools: the functions that a model may call, as a constraint on its text, and the calls in that text.

`stackmask.integration.tools` knows the notations of calls; this module applies them to the served model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...pda.vocabulary import Vocabulary
from ..engine import Constraint
from ..tools import (
    DEFAULT,
    FORMATS,
    CallParser,
    Choice,
    Format,
    Tool,
    ToolError,
    choose,
    detect_format,
    named_tokens,
    read_tools,
    structural_tag,
)
from .errors import ApiError

_ANY_INPUT: Final = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"], "additionalProperties": False}

FORMATS_OF_TEXT: Final = ("response_format", "text.format")
"""Fields that say how a text is to be, and nothing of an answer that is a call; OpenAI's clients send them beside a tool that is named."""


@dataclass(frozen=True, slots=True)
class ToolPlan:
    """The tools that may be called, and the reader of the calls."""

    dialect: Dialect
    choice: Choice
    reasoning: bool

    def parser(self) -> CallParser:
        """A reader of one answer."""
        dialect = self.dialect
        return CallParser(dialect.format, self.choice.tools, special=dialect.special, stops=dialect.stops, reasoning=self.reasoning)


class Dialect:
    """The notation of calls of the served model: a format, and its texts that are special tokens of the tokenizer."""

    def __init__(self, tokenizer: Any, vocabulary: Vocabulary, name: str | None, *, has_reasoning_end: bool) -> None:
        template = getattr(tokenizer, "chat_template", None)
        templates = template.values() if isinstance(template, Mapping) else [template or ""]
        found = FORMATS[name] if name is not None else detect_format("\n".join(map(str, templates)), vocabulary.special)
        self.format: Format = found or FORMATS[DEFAULT]
        self.source = "--tool-format" if name is not None else "found in the chat template" if found else "the default"
        ids, stops = vocabulary.special, set(vocabulary.stop_token_ids)
        spelled = named_tokens(self.format, (name for name, token in ids.items() if vocabulary.token_bytes(token) is None))
        self.stops = frozenset(name for name in spelled if ids[name] in stops)
        self.special = frozenset(spelled) - self.stops
        self.shown = {ids[name]: text for name, text in spelled.items() if name in self.special}
        self._has_reasoning_end = has_reasoning_end

    def plan(
        self,
        tools: tuple[Tool, ...],
        choice: Any,
        parallel: bool | None,
        constraint: Constraint | None,
        field: str | None,
        *,
        whitespace: str,
        prompt: str,
    ) -> tuple[ToolPlan | None, Constraint | None, str | None]:
        """The tools of a request and the constraint of its answer, given the constraint that the request asks for and its place.

        Where the server knows what ends the reasoning, the engine reads past it. Otherwise the answer begins in it where the prompt ends
        with its beginning, and may begin with it elsewhere.
        """
        begin = self.format.reasoning[0].strip()
        thinks = not self._has_reasoning_end and bool(begin) and prompt.rstrip().endswith(begin)
        try:
            chosen = choose(tools, choice, parallel=parallel is not False)
            if chosen is None:
                return None, constraint, field
            if chosen.is_required and field in FORMATS_OF_TEXT:
                constraint = None  # the answer is a call, so there is no text for it
            if chosen.is_required and constraint is not None:
                message = f"a request takes one constraint, this one has two: tool_choice and {field}"
                raise ApiError(message, param=field, code="conflicting_constraints")
            tag = structural_tag(
                self.format,
                chosen,
                special=self.special,
                stops=self.stops,
                reasoning=thinks or (False if self._has_reasoning_end else None),
                whitespace=whitespace,
                answer=None if constraint is None else answer_format(constraint, field),
            )
        except ToolError as error:
            raise ApiError(str(error), param=error.field, code="invalid_tools") from None
        name = "tools" if constraint is None else f"tools and {field}"
        return ToolPlan(self, chosen, thinks), Constraint("structural_tag", tag), name


def answer_format(constraint: Constraint, field: str | None) -> dict[str, Any]:
    """A constraint as a format inside a structural tag: that of an answer which is no call."""
    value, options = constraint.value, constraint.options
    match constraint.kind:
        case "json_schema" if not options.get("lenient"):
            blanks = {"whitespace": options["whitespace"]}
            order = {"any_order": True} if options.get("property_order") == "any" else {}
            try:
                schema = json.loads(value) if isinstance(value, str) else value
            except (ValueError, RecursionError) as error:
                raise ApiError(f"{field} is not JSON: {error}", param=field, code="invalid_grammar") from None
            closed = {"extra_properties": "closed"} if options.get("extra_properties") == "closed" else {}
            distinct = {"distinct_keys": True} if options.get("distinct_keys") else {}
            return {"type": "json_schema", "json_schema": schema, **blanks, **order, **closed, **distinct}
        case "regex":
            return {"type": "regex", "pattern": value}
        case "ebnf" | "lark":
            return {"type": "grammar", "grammar": value, "syntax": constraint.kind}
        case "structural_tag" if isinstance(value, Mapping) and "format" in value:
            return dict(value["format"])
        case _:
            raise ApiError(f"{field} and tools that may be called cannot be combined", param=field, code="conflicting_constraints")


def checked_tools(definitions: Sequence[Mapping[str, Any]] | None) -> tuple[Tool, ...]:
    """The tools of a request; wrong tools are an answer of status 400."""
    try:
        return read_tools(definitions)
    except ToolError as error:
        raise ApiError(str(error), param=error.field, code="invalid_tools") from None


def shown_tools(definitions: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
    """Tools that were checked in the form that chat templates know, functions: a custom tool is one with an argument that is its input."""
    shown = []
    for definition in definitions or ():
        kind = str(definition.get("type"))
        inner = definition.get(kind, {key: value for key, value in definition.items() if key != "type"})
        if kind == "custom":
            inner = {key: inner[key] for key in ("name", "description") if key in inner} | {"parameters": _ANY_INPUT}
        shown.append({"type": "function", "function": dict(inner)})
    return shown
