"""/v1/completions."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Final

from starlette.requests import Request as HttpRequest

from ..engine import Answer
from ..engine.request import TokenLogprob
from .constraints import find_constraint
from .errors import ApiError, api_error
from .partials import PartialsPlan
from .plan import PreparedRequest, RequestPlan
from .protocol import CompletionRequest
from .serving import Serving, sse

DEFAULT_MAX_TOKENS = 16  # OpenAI's
NOTHING: Final[Mapping[str, Any]] = {}


class Completion:
    """One request for text completions."""

    def __init__(self, serving: Serving, body: CompletionRequest) -> None:
        self.serving = serving
        self.body = body
        self.id = f"cmpl-{uuid.uuid4().hex}"
        self.created = int(time.time())
        self.n = body.n or 1
        self.partials: PartialsPlan
        self.prepared: PreparedRequest

    async def prepare(self) -> None:
        """Check everything and compile the grammar, before the first byte of an answer."""
        planner, body = self.serving.planner, self.body
        planner.check_model(body.model)
        constraint, field = find_constraint(body, planner.options.json_whitespace)
        self.partials = PartialsPlan(body.stackmask, constraint, None, stream=body.stream)
        best_of = body.best_of or self.n
        if best_of < self.n:
            raise ApiError(f"best_of is {best_of}, less than n", param="best_of")
        if best_of > self.n and body.stream:
            raise ApiError("best_of answers are compared when they are complete; they cannot be streamed", param="best_of")
        if body.echo and body.logprobs is not None:
            raise ApiError("the log-probabilities of prompts are not computed: echo and logprobs cannot be combined", param="echo")
        limit = body.max_tokens
        if limit is None and constraint is None:
            limit = DEFAULT_MAX_TOKENS  # a constrained answer ends by itself
        plan = RequestPlan(
            prompts=await planner.run(partial(self._prompts, best_of)),
            constraint=constraint,
            field=field,
            fields=body,
            extension=body.stackmask,
            n=best_of,
            max_tokens=limit,
            logprobs=body.logprobs if best_of == self.n else body.logprobs or 0,
            reasoning=False,
        )
        self.prepared = await planner.prepare(plan)

    async def answer(self, http: HttpRequest) -> dict[str, Any]:
        """The whole answer."""
        answers = await self.serving.answers(self.prepared, http)
        count = self.body.best_of or self.n
        groups = [_best(answers[start : start + count], self.n) for start in range(0, len(answers), count)]
        choices = []
        for index, answer in enumerate(answer for group in groups for answer in group):
            logprobs = self._logprobs(answer.logprobs, 0) if self.body.logprobs is not None else None
            text = self._echo(index) + answer.text
            choices.append(self._choice(index, text, "stop" if answer.finish_reason == "stop" else "length", logprobs, answer))
        return {
            **self._head(),
            "choices": choices,
            "usage": self.serving.usage(self.prepared, answers, count),
            **self.serving.warnings(self.prepared),
        }

    async def stream(self) -> AsyncIterator[bytes]:
        """The answer as server-sent events."""
        answers: dict[int, Answer] = {}
        offsets = [0] * len(self.prepared.sequences)
        partials = [self.partials.begin() for _ in offsets]
        warnings = self.serving.warnings(self.prepared)
        try:
            for index in range(len(offsets) if self.body.echo else 0):
                text = self._echo(index)
                offsets[index] = len(text)
                yield sse({**self._head(), "choices": [self._choice(index, text, None, None, None)]})
            async with aclosing(self.serving.events(self.prepared)) as events:
                async for index, event in events:
                    if event.answer is not None and event.answer.error is not None:
                        raise event.answer.error
                    reason = None
                    if event.answer is not None:
                        answers[index] = event.answer
                        reason = "stop" if event.answer.finish_reason == "stop" else "length"
                    ended = partials[index].of_text(event.text, final=event.answer is not None)
                    if event.text or reason or event.logprobs:
                        logprobs = self._logprobs(event.logprobs, offsets[index]) if event.logprobs else None
                        offsets[index] += len(event.text)
                        choice = self._choice(index, event.text, reason, logprobs, event.answer, ended)
                        yield sse({**self._head(), "choices": [choice], **warnings})
                        warnings = {}
            if self.body.stream_options is not None and self.body.stream_options.include_usage:
                usage = self.serving.usage(self.prepared, [answers[index] for index in sorted(answers)], self.n)
                yield sse({**self._head(), "choices": [], "usage": usage})
        except Exception as error:  # the status is sent, so that the error can only be an event
            yield sse(api_error(error).body)
        yield sse("[DONE]")

    def _echo(self, index: int) -> str:
        """The prompt of a choice where it is asked for."""
        if not self.body.echo:
            return ""
        prompt = self.body.prompt
        if isinstance(prompt, str):
            return prompt
        item = prompt if isinstance(prompt[0], int) else prompt[index // self.n]
        if isinstance(item, str):
            return item
        vocabulary = self.serving.engine.vocabulary
        return b"".join(vocabulary.token_bytes(token) or b"" for token in item if isinstance(token, int)).decode("utf-8", "replace")

    def _prompts(self, choices: int) -> list[list[int]]:
        prompt, planner = self.body.prompt, self.serving.planner
        if isinstance(prompt, str):
            return [planner.encoder.encode(prompt, special=True)]
        if not prompt:
            raise ApiError("the prompt is empty", param="prompt")
        if isinstance(prompt[0], int):
            return [prompt]
        planner.check_choices(len(prompt) * choices, "prompt")
        return [planner.encoder.encode(item, special=True) if isinstance(item, str) else list(item) for item in prompt]

    def _head(self) -> dict[str, Any]:
        return {"id": self.id, "object": "text_completion", "created": self.created, "model": self.serving.options.model_name}

    def _choice(
        self, index: int, text: str, reason: str | None, logprobs: Any, answer: Answer | None, ended: Mapping[str, Any] = NOTHING
    ) -> dict[str, Any]:
        closed = {"closed": True, "complete": answer.complete} if answer is not None and answer.closed else {}
        said = {**ended.get("stackmask", {}), **closed}
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason, **({"stackmask": said} if said else {})}

    def _logprobs(self, logprobs: Sequence[TokenLogprob], offset: int) -> dict[str, Any]:
        """The older form: four lists side by side."""
        texts = [self.serving.token_text(logprob.token)[0] for logprob in logprobs]
        offsets = []
        for text in texts:
            offsets.append(offset)
            offset += len(text)
        return {
            "tokens": texts,
            "token_logprobs": [logprob.logprob for logprob in logprobs],
            "top_logprobs": [{self.serving.token_text(token)[0]: value for token, value in logprob.top} for logprob in logprobs],
            "text_offset": offsets,
        }


def _best(answers: list[Answer], count: int) -> list[Answer]:
    """The answers whose tokens are the most likely on average, the best first; all of them as they come where none is left out."""
    if len(answers) == count:
        return answers

    def likelihood(answer: Answer) -> float:
        return sum(token.logprob for token in answer.logprobs) / max(1, len(answer.logprobs))

    return sorted(answers, key=likelihood, reverse=True)[:count]
