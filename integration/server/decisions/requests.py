"""Requests for decisions, read into an input and questions about it.

The fields are those of the packages `openai` 3.54 and `ollama` 0.6.3. How a question is put to the model is this server's own: the
instructions, the possible answers with their descriptions, and which of them to answer with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictStr

from ...decisions import NO, YES, Tokenizations
from ..errors import ApiError
from ..protocol import Json, Model
from ..responses import input_messages

Kind = Literal["choices", "predicate", "score"]


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the texts that the model may answer with, in the order of the request."""

    kind: Kind
    text: str
    answers: tuple[str, ...]


class DecisionOptions(Model):
    """Options of this server alone, under the name `stackmask`; `Decider.decide` describes them."""

    temperature: float = Field(default=1.0, gt=0, le=100)
    tokenizations: Tokenizations = "all"
    tolerance: float = Field(default=1e-4, ge=0, lt=1)


class _Named(Model):
    """The common fields of questions."""

    instructions: str | list[Json]
    name: str | None = None


class PredicateQuestion(_Named):
    """Asks for the probability that a statement about the input is true."""

    type: Literal["predicate"]


class ChoiceOption(Model):
    """A choice; a text and a boolean that are written alike are two."""

    value: StrictStr | StrictBool
    description: str | None = None


class ChoiceQuestion(_Named):
    """Which of the choices it is."""

    type: Literal["choice"]
    choices: list[ChoiceOption] = Field(min_length=2, max_length=255)


class ScoreLevel(Model):
    """A level of a score."""

    label: str
    description: str | None = None


class ScoreQuestion(_Named):
    """Which of the ordered levels it is, low to high."""

    type: Literal["score"]
    levels: list[ScoreLevel] = Field(min_length=2, max_length=255)


AnyQuestion = Annotated[PredicateQuestion | ChoiceQuestion | ScoreQuestion, Field(discriminator="type")]


class DecisionsRequest(Model):
    """The body of /v1/decisions."""

    model: str
    input: str | list[Json]
    questions: list[AnyQuestion] = Field(min_length=1, max_length=400)
    stackmask: DecisionOptions = Field(default_factory=DecisionOptions)
    # accepted, and without effect here
    prompt_cache_key: str | None = None
    prompt_cache_options: Any = None
    safety_identifier: str | None = None

    def messages(self) -> list[Json]:
        """The input as the messages of a chat."""
        items = self.input
        if isinstance(items, str):
            return input_messages(items)
        called: set[Any] = set()
        for index, item in enumerate(items):
            kind = item.get("type", "message")
            if kind in ("function_call", "custom_tool_call"):
                called.add(item.get("call_id"))
            if kind in ("function_call_output", "custom_tool_call_output") and item.get("call_id") not in called:
                message = f"input[{index}].call_id is {str(item.get('call_id'))[:60]!r}, which is no call before it"
                raise ApiError(message, param="input")
        return [
            {**message, "content": _content(message["content"])} if "content" in message else message for message in input_messages(items)
        ]

    def asked(self) -> list[Question]:
        """The questions."""
        return [_question(question, f"questions[{index}]") for index, question in enumerate(self.questions)]


class SystemOneChoice(Model):
    """Which of the named choices it is; a choice may have a description."""

    type: Literal["choice"] = "choice"
    instructions: Any
    criteria: dict[str, str | None] = Field(min_length=2, max_length=255)


class SystemOneNoul(Model):
    """Whether it is so."""

    type: Literal["noul"]
    instructions: Any
    criteria: dict[Literal["false", "true"], str] | None = None


class SystemOneScore(Model):
    """Which of the levels it is, low to high."""

    type: Literal["score"]
    instructions: Any
    criteria: list[str] = Field(min_length=2, max_length=255)


SystemOneQuestion = Annotated[SystemOneChoice | SystemOneNoul | SystemOneScore, Field(discriminator="type")]


class SystemOneRequest(Model):
    """The body of /v1/systemone."""

    model: str
    state: str | Json | list[Any]
    questions: dict[str, SystemOneQuestion] = Field(min_length=1, max_length=400)
    stackmask: DecisionOptions = Field(default_factory=DecisionOptions)
    keep_alive: Any = None  # accepted, and without effect: the model stays

    def messages(self) -> list[Json]:
        """The state as the messages of a chat."""
        return [{"role": "user", "content": _json_text(self.state)}]

    def asked(self) -> list[Question]:
        """The questions."""
        found = []
        for question in self.questions.values():
            instructions = _json_text(question.instructions)
            match question:
                case SystemOneNoul():
                    outcomes = {YES: "true", NO: "false"}
                    described = [(answer, (question.criteria or {}).get(name)) for answer, name in outcomes.items()]  # type: ignore[call-overload]
                    found.append(Question("predicate", _put(instructions, described, ""), (YES, NO)))
                case SystemOneScore():
                    levels = [(str(place), text) for place, text in enumerate(question.criteria)]
                    found.append(_listed("score", instructions, levels, "questions"))
                case SystemOneChoice():
                    found.append(_listed("choices", instructions, list(question.criteria.items()), "questions"))
        return found


def _question(question: AnyQuestion, where: str) -> Question:
    instructions = _instructions(question.instructions, where)
    match question:
        case PredicateQuestion():
            return Question("predicate", f"Is this true of it? {instructions}\nAnswer {YES} or {NO}.", (YES, NO))
        case ScoreQuestion():
            return _listed("score", instructions, [(level.label, level.description) for level in question.levels], where)
        case ChoiceQuestion():
            values = [choice.value for choice in question.choices]
            texts = [str(value).lower() if isinstance(value, bool) else value for value in values]
            if len(set(texts)) < len(texts) and len({(type(value), value) for value in values}) == len(values):
                texts = [json.dumps(value, ensure_ascii=False) for value in values]  # "true" and true
            described = [(text, choice.description) for text, choice in zip(texts, question.choices, strict=True)]
            return _listed("choices", instructions, described, where)


def _listed(kind: Kind, instructions: str, answers: Sequence[tuple[str, str | None]], where: str) -> Question:
    """A question with a list of its answers."""
    texts = tuple(text for text, _ in answers)
    if len(set(texts)) < len(texts) or not all(texts):
        raise ApiError(f"{where}: the answers are different, and none of them is empty", param="questions")
    order = ", from the lowest to the highest" if kind == "score" else ""
    return Question(kind, _put(instructions, answers, order), texts)


def _put(instructions: str, answers: Sequence[tuple[str, str | None]], order: str) -> str:
    """A question as the model reads it."""
    lines = [f"- {text}: {description}" if description else f"- {text}" for text, description in answers]
    return "\n".join([instructions, f"Answer with one of these{order}, and nothing else:", *lines])


def _instructions(instructions: str | Sequence[Json], where: str) -> str:
    """Instructions as a text; other parts are refused by name."""
    if isinstance(instructions, str):
        return instructions
    texts = []
    for part in _content(list(instructions)):
        if part.get("type") != "input_text" or not isinstance(part.get("text"), str):
            kind = str(part.get("type"))[:60]
            raise ApiError(f"{where}.instructions has a part of type {kind!r}; this model reads text alone", param="questions")
        texts.append(part["text"])
    return "\n".join(texts)


def _content(content: Any) -> Any:
    """A content with its JSON parts as texts."""
    if not isinstance(content, list):
        return content
    return [
        {"type": "input_text", "text": _json_text(part.get("data"))}
        if isinstance(part, Mapping) and part.get("type") == "input_json"
        else part
        for part in content
    ]


def _json_text(value: Any) -> str:
    """A text as it is, other JSON compactly."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
