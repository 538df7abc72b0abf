"""Tool calls as a structural tag: the answers that a model with tools may give.

    auto        free text with calls in it
    required    calls only; a tool choice that names a tool requires one call of it
    single      no second call, and nothing after the first

Special tokens that delimit calls are tokens in the tag, and everything else is text.
A format passes the schema on if structural tags write its notation by themselves. Arguments in other notations are composed here, for
schemas that are plain objects; other schemas are refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from ...schema.emit.json_parts import DEFAULT_WHITESPACE
from ...schema.structural_tag.notations import NOTATIONS, STYLES
from .compose import compose_arguments
from .compose_literals import compose_literals
from .formats import Format
from .spelling import MARK, Spelling, bind, cut, spellings, triggers
from .tool import Choice, Tool, ToolError

Json = dict[str, Any]

_SPEAK_OF_OTHERS: Final = {"additionalProperties", "unevaluatedProperties", "patternProperties", "allOf", "anyOf", "oneOf", "$ref"}
_PATTERNS: Final = {"index": "[0-9]+", "gap": "\\n? {0,4}"}
_BLANKS: Final = {"line": "\n", "space": " "}


def structural_tag(
    format: Format,
    choice: Choice,
    *,
    special: Collection[str] = (),
    stops: Collection[str] = (),
    reasoning: bool | None = False,
    whitespace: str = DEFAULT_WHITESPACE,
    answer: Json | None = None,
) -> Json:
    """The structural tag of an answer.

    `special` are the names of the tokenizer's special tokens, `stops` those that end an answer: the tag leaves them out at its end.
    `reasoning`: the answer begins inside the model's reasoning, which is free text; None where it may begin with reasoning.
    `whitespace`: that of JSON, as the compiler takes it; in the styles of structural tags only "compact" has an effect.
    `answer`: the format of a text without calls, if it is not free.
    """
    return {"type": "structural_tag", "format": _Templates(format, choice, special, stops, whitespace, answer).answer(reasoning)}


class _Templates:
    """One format for one choice of tools."""

    def __init__(
        self, format: Format, choice: Choice, special: Collection[str], stops: Collection[str], whitespace: str, answer: Json | None
    ) -> None:
        self.special = {*special, *stops}
        self.format = bind(format, self.special)
        self.notation = NOTATIONS[format.style]
        self.stops = stops
        self.choice = choice
        self.is_single = choice.is_single or format.is_single
        self.whitespace = whitespace
        self.excludes = [
            text.replace("$name", tool.name) for text in format.excludes for tool in (choice.tools if "$name" in text else choice.tools[:1])
        ]
        self.text_format = answer
        self.names = re.compile(f"({'|'.join(MARK + re.escape(name) for name in sorted(self.special, key=len, reverse=True)) or '(?!)'})")

    def answer(self, reasoning: bool | None) -> Json:
        """The whole answer."""
        begin, end = self.format.reasoning
        preambles = [self.text(*frame, {"type": "any_text"}) for frame in self.format.preambles]
        thoughts: list[Json] = []
        if reasoning is not False and self.format.layout == "either":
            preambles.append(self.frame(begin, {"type": "any_text"}, end))
        elif reasoning:
            thoughts.append(self.frame("", {"type": "any_text"}, end))
        elif reasoning is None and begin:
            thoughts.append({"type": "optional", "content": self.frame(begin, {"type": "any_text"}, end)})
        return _sequence([*thoughts, *([{"type": "star", "content": _or(preambles)}] if preambles else []), *self.body()])

    def body(self) -> list[Json]:
        """The answer after the reasoning."""
        is_required = self.choice.is_required
        match self.format.layout:
            case "free":
                if is_required:
                    return [self.block()]
                return [_or([self.block(), self.text_format])] if self.text_format is not None else [self.triggered()]
            case "before":
                block = self.block()
                return [
                    self.text(*self.format.text),
                    block if is_required else {"type": "optional", "content": block},
                    *self.elements(self.format.tail),
                ]
            case "either":
                return [self.block() if is_required else _or([self.text(*self.format.text), self.block()])]

    def triggered(self) -> Json:
        """Free text with calls in it."""
        tags = [self.section()] if self.format.open else self.calls()
        found = [self.elements(trigger)[0] for trigger in triggers(self.format)]
        names = [element["token"] for element in found if element["type"] == "token"]
        once: Json = {"stop_after_first": True} if self.is_single else {}
        if not names:
            excludes = {"excludes": self.excludes} if self.excludes else {}
            return {"type": "triggered_tags", "triggers": list(triggers(self.format)), "tags": tags, **excludes, **once}
        assert len(names) == len(found), "some triggers are special tokens and some are not"
        return {"type": "token_triggered_tags", "trigger_tokens": names, "tags": tags, **once}

    def block(self) -> Json:
        """Calls only."""
        return _sequence([*self.elements(self.format.lead), self.section() if self.format.open else self.calls_in_a_row()])

    def section(self) -> Json:
        """Calls with the opening and the close of all calls around them."""
        return self.frame(self.format.open, self.calls_in_a_row(), self.format.close)

    def calls_in_a_row(self) -> Json:
        """One call or more."""
        once: Json = {"stop_after_first": True} if self.is_single else {}
        separator = self.format.separator
        return {"type": "tags_with_separator", "tags": self.calls(), "separator": separator, "at_least_one": True, **once}

    def calls(self) -> Sequence[Json]:
        """Each tool in each spelling."""
        found = spellings(self.format)
        return [self.call(tool, spelling) for tool in self.choice.tools for spelling in found if spelling.is_custom == tool.is_custom]

    def call(self, tool: Tool, spelling: Spelling) -> Json:
        """A call of a tool."""
        return self.frame(self.elements(spelling.head, tool.name), self.content(tool, spelling), spelling.tail)

    def content(self, tool: Tool, spelling: Spelling) -> Json:
        """The arguments of a function or the input of a custom tool."""
        if not tool.is_custom:
            if self.notation.name != "json" and self.notation.name not in STYLES:
                try:
                    compose = compose_arguments if self.notation.literals is None else compose_literals
                    return compose(tool.parameters, self.notation, self.whitespace)
                except ToolError as error:
                    raise ToolError(f"tool {tool.name!r} in the format {self.format.name}: {error}") from None
            if self.notation.name == "json":
                closed = {"extra_properties": "closed"} if tool.is_strict else {}
                return {"type": "json_schema", "json_schema": tool.parameters, "whitespace": self.whitespace, **closed}
            blanks = {"max_whitespace_cnt": 0} if self.whitespace == "compact" else {}
            parameters = _closed(tool.parameters) if tool.is_strict else tool.parameters
            return {"type": "json_schema", "json_schema": parameters, "style": self.notation.name, **blanks}
        escape = {"escape": "json"} if spelling.slot == "string" else {}
        match tool.syntax:
            case "text":
                return {"type": "json_schema", "json_schema": {"type": "string"}} if escape else {"type": "any_text"}
            case "regex":
                content: Json = {"type": "regex", "pattern": tool.grammar, **escape}
            case "lark":
                content = {"type": "grammar", "grammar": tool.grammar, "syntax": "lark", **escape}
        quote: Json = {"type": "const_string", "value": '"'}
        return _sequence([quote, content, quote]) if escape else content

    def text(self, begin: str, end: str, content: Json | None = None) -> Json:
        """The answer's text in a frame."""
        excludes = {"excludes": self.excludes} if self.excludes else {}
        return self.frame(begin, content or self.text_format or {"type": "any_text", **excludes}, end)

    def frame(self, begin: str | Sequence[Json], content: Json, end: str) -> Json:
        """A tag; its beginning and its end may each be several texts and tokens, or empty."""
        first = self.elements(begin) if isinstance(begin, str) else list(begin)
        last = self.elements(end)
        for index, element in enumerate(last):
            if element.get("token") in self.stops:
                last = last[:index]
                break
        if len(last) > 1 and last[0]["type"] != "regex":  # free text goes up to the first of them
            content = {"type": "tag", "begin": "", "content": content, "end": _end(last[0])}
        elif len(last) > 1:
            content = _sequence([content, last[0]])
        inside = [*first[1:], content, *last[1:-1]]
        return {
            "type": "tag",
            "begin": _end(first[0]) if first else "",
            "content": _sequence(inside),
            "end": _end(last[-1]) if last else "",
        }

    def elements(self, template: str, name: str = "") -> list[Json]:
        """A template as texts, tokens and patterns, for the tool of this name."""
        found: list[Json] = []
        for index, piece in enumerate(cut(template)):
            if index % 2 == 0 or piece == "name":
                found += self.texts(piece if index % 2 == 0 else name)
            elif piece in _BLANKS:
                found += self.texts(_BLANKS[piece])
            else:
                found.append({"type": "regex", "pattern": _PATTERNS[piece]})
        return _joined(found)

    def texts(self, text: str) -> list[Json]:
        """A text as texts and tokens."""
        parts = self.names.split(text)
        return [
            {"type": "token", "token": part.removeprefix(MARK)} if index % 2 else {"type": "const_string", "value": part}
            for index, part in enumerate(parts)
            if part
        ]


def _closed(parameters: Any) -> Any:
    """Parameters without undeclared ones, for styles that are not JSON, which have no `extra_properties`; values inside stay as is."""
    if not isinstance(parameters, Mapping) or "properties" not in parameters or parameters.keys() & _SPEAK_OF_OTHERS:
        return parameters
    return {**parameters, "additionalProperties": False}


def _joined(elements: Iterable[Json]) -> list[Json]:
    """The elements, with neighbouring texts merged."""
    joined: list[Json] = []
    for element in elements:
        if joined and element["type"] == joined[-1]["type"] == "const_string":
            joined[-1] = {"type": "const_string", "value": joined[-1]["value"] + element["value"]}
        else:
            joined.append(element)
    return joined


def _end(element: Json) -> Any:
    """An element as the beginning or the end of a tag."""
    return element["value"] if element["type"] == "const_string" else element


def _sequence(elements: list[Json]) -> Json:
    return elements[0] if len(elements) == 1 else {"type": "sequence", "elements": elements}


def _or(elements: list[Json]) -> Json:
    return elements[0] if len(elements) == 1 else {"type": "or", "elements": elements}
