"""The probability of each answer, and the bodies that report it.

Decisions run beside the batch, in a separate cache and one request at a time; the questions of a request share what the model made of
its input. A question is put in the user's last message, and models that can think are asked not to.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from starlette.requests import Request as HttpRequest

from ...decisions import Decider, Decision, conclude
from ...decisions.decide import ask
from ...engine import Constraint
from ..errors import ApiError, api_error
from ..plan import Planner
from ..prompts import plain_messages, render_messages
from ..protocol import Json
from ..serving import ClientGoneError, Serving
from .requests import DecisionsRequest, Question, ScoreQuestion, SystemOneNoul, SystemOneRequest, SystemOneScore

MAX_PLACES: Final = 4096


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decisions of a request, in the order of its questions, with their answers, and the tokens of all prompts."""

    decisions: list[Decision]
    answers: list[tuple[str, ...]]
    prompt_tokens: int


class Court:
    """Takes requests one after the other."""

    def __init__(self) -> None:
        self._decider: Decider | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def answer(self, serving: Serving, body: DecisionsRequest | SystemOneRequest, http: HttpRequest) -> Verdict:
        """The decisions on all questions of a request."""
        planner = serving.planner
        planner.check_model(body.model.removesuffix(":latest") if isinstance(body, SystemOneRequest) else body.model)
        if self._waiting > planner.options.max_queue:
            raise ApiError(f"{self._waiting} decisions wait already; try again later", status=429, code="rate_limit_exceeded")
        messages, questions = plain_messages(body.messages()), body.asked()
        self._waiting += 1
        try:
            async with self._turn:
                decisions, counted = [], 0
                for question in questions:
                    if await http.is_disconnected():
                        raise ClientGoneError
                    decision, size = await self._decide(planner, messages, question, body)
                    decisions.append(decision)
                    counted += size
        finally:
            self._waiting -= 1
        return Verdict(decisions, [question.answers for question in questions], counted)

    async def _decide(
        self, planner: Planner, messages: list[Json], question: Question, body: DecisionsRequest | SystemOneRequest
    ) -> tuple[Decision, int]:
        """The decision on one question, and the length of its prompt."""
        prompt = await planner.run(partial(_prompt, planner, messages, question))
        grammar, _ = await planner.compile(Constraint("choice", list(question.answers)), "questions")
        options = body.stackmask
        if self._decider is None:
            self._decider = Decider(planner.engine.model, planner.tokenizer, compiler=planner.engine.compiler)
        try:
            found = await asyncio.to_thread(
                self._decider.distribution,
                prompt,
                grammar,
                temperature=options.temperature,
                tokenizations=options.tokenizations,
                tolerance=options.tolerance,
                max_places=MAX_PLACES,
            )
        except Exception as error:
            raise api_error(error, "questions") from error
        return conclude(found, question.answers, question.kind), len(prompt)


def decisions_body(serving: Serving, body: DecisionsRequest, verdict: Verdict) -> Json:
    """The answer of /v1/decisions."""
    answers: list[Json] = []
    for question, decision, texts in zip(body.questions, verdict.decisions, verdict.answers, strict=True):
        probabilities = [decision.probabilities[text] for text in texts]
        answer: Json = {"type": question.type, "name": question.name}
        if question.type == "predicate":
            answer["probability"] = decision.probability
        elif isinstance(question, ScoreQuestion):
            levels = zip(question.levels, probabilities, strict=True)
            answer |= {"score": decision.score, "confidence": decision.confidence}
            answer["probabilities"] = [
                {"label": level.label, "value": place, "probability": probability} for place, (level, probability) in enumerate(levels)
            ]
        else:
            chosen = question.choices[texts.index(decision.best)].value
            choices = zip(question.choices, probabilities, strict=True)
            answer |= {"choice": chosen, "confidence": decision.confidence}
            answer["probabilities"] = [{"value": choice.value, "probability": probability} for choice, probability in choices]
        answers.append({**answer, "stackmask": {"mass": decision.mass, "unexplored": decision.unexplored}})
    usage = {
        "input_tokens": verdict.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 0,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": verdict.prompt_tokens,
    }
    return {"answers": answers, "model": serving.options.model_name, "usage": usage}


def system_one_body(body: SystemOneRequest, verdict: Verdict) -> Json:
    """The answer of /v1/systemone."""
    answers: dict[str, Json] = {}
    for (name, question), decision in zip(body.questions.items(), verdict.decisions, strict=True):
        said: dict[str, Any] = {"probabilities": decision.probabilities, "confidence": decision.confidence}
        if isinstance(question, SystemOneNoul):
            answers[name] = {"type": "noul", "noul": decision.probability}
        elif isinstance(question, SystemOneScore):
            legend = {str(place): text for place, text in enumerate(question.criteria)}
            answers[name] = {"type": "score", "score": decision.score, "legend": legend, **said}
        else:
            answers[name] = {"type": "choice", "choice": decision.best, **said}
    return {"model": body.model, "answers": answers, "usage": {"input_tokens": verdict.prompt_tokens, "output_tokens": 0}}


def _prompt(planner: Planner, messages: list[Json], question: Question) -> list[int]:
    """The token ids of the chat with a question at its end."""
    asked: Any = ask(messages, question.text)
    text = render_messages(planner.tokenizer, asked, tools=None, options={"enable_thinking": False})
    return planner.encoder.encode(text, special=False)
