"""One turn of a chat for the protocols beside OpenAI's: the request in OpenAI's form, the answer in pieces.

Each protocol reads its requests into a `ChatRequest`, the most expressive form, and writes its answers from `Text` and `Call`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, NamedTuple

from pydantic import ValidationError
from starlette.requests import Request as HttpRequest

from ..engine import Answer
from ..engine.request import TokenLogprob
from ..tools import Piece, Text
from .chat import Chat
from .constraints import find_constraint
from .plan import PreparedRequest, RequestPlan
from .protocol import ChatRequest, describe
from .serving import Serving


class Step(NamedTuple):
    """A piece of an answer; the last one includes the whole answer."""

    pieces: list[Piece]
    logprobs: tuple[TokenLogprob, ...]
    answer: Answer | None


class Turn:
    """One answer to a chat."""

    def __init__(self, serving: Serving, body: ChatRequest) -> None:
        self.serving = serving
        self._chat = Chat(serving, body)

    @property
    def prepared(self) -> PreparedRequest:
        """The request for the engine."""
        return self._chat.prepared

    @property
    def prompt_tokens(self) -> int:
        """The length of the prompt."""
        return len(self.prepared.sequences[0].request.prompt)

    async def prepare(self) -> None:
        """Check everything and compile the grammar, before the first byte of an answer."""
        await self._chat.prepare()

    async def answer(self, http: HttpRequest | None) -> tuple[list[Piece], Answer]:
        """The pieces of the whole answer."""
        (answer,) = await self.serving.answers(self.prepared, http)
        tools = self.prepared.tools
        pieces = _plain(answer.text) if tools is None else tools.parser().feed(answer.text, final=True)
        return [*_thought(answer.reasoning), *pieces], answer

    async def steps(self) -> AsyncGenerator[Step, None]:
        """The pieces as they come; an error of the answer is raised."""
        parser = None if self.prepared.tools is None else self.prepared.tools.parser()
        async with aclosing(self.serving.events(self.prepared)) as events:
            async for _, event in events:
                answer = event.answer
                if answer is not None and answer.error is not None:
                    raise answer.error
                pieces = _plain(event.text) if parser is None else parser.feed(event.text, final=answer is not None)
                yield Step([*_thought(event.reasoning), *pieces], event.logprobs, answer)


class RawTurn(Turn):
    """The continuation of a text that no chat template is put around."""

    def __init__(self, serving: Serving, body: ChatRequest, prompt: str) -> None:
        super().__init__(serving, body)
        self._body = body
        self._prompt = prompt

    async def prepare(self) -> None:
        """Check everything and compile the grammar."""
        planner, body = self.serving.planner, self._body
        planner.check_model(body.model)
        constraint, field = find_constraint(body, planner.options.json_whitespace)
        self._chat.prepared = await planner.prepare(
            RequestPlan(
                prompts=[await planner.run(partial(planner.encoder.encode, self._prompt, special=True))],
                constraint=constraint,
                field=field,
                fields=body,
                extension=body.stackmask,
                max_tokens=body.max_tokens,
                logprobs=(body.top_logprobs or 0) if body.logprobs else None,
                reasoning=False,
            )
        )


def read_chat(fields: Mapping[str, Any]) -> ChatRequest:
    """A chat request of these fields; wrong fields are an answer of status 400."""
    try:
        return ChatRequest(**fields)
    except ValidationError as error:
        raise describe(list(error.errors())) from None


def _plain(text: str) -> list[Piece]:
    return [Text(text)] if text else []


def _thought(text: str) -> list[Piece]:
    return [Text(text, True)] if text else []
