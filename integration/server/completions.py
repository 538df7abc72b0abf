"""/v1/completions."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

from starlette.requests import Request as HttpRequest

from ..engine import Answer
from ..engine.request import TokenLogprob
from .constraints import find_constraint
from .errors import ApiError, api_error
from .plan import PreparedRequest, RequestPlan
from .protocol import CompletionRequest
from .serving import Serving, sse

DEFAULT_MAX_TOKENS = 16  # OpenAI's


class Completion:
    """One request for text completions."""

    def __init__(self, serving: Serving, body: CompletionRequest) -> None:
        self.serving = serving
        self.body = body
        self.id = f"cmpl-{uuid.uuid4().hex}"
        self.created = int(time.time())
        self.n = body.n or 1
        self.prepared: PreparedRequest

    async def prepare(self) -> None:
        """Check everything and compile the grammar, before the first byte of an answer."""
        planner, body = self.serving.planner, self.body
        planner.check_model(body.model)
        constraint, field = find_constraint(body, planner.options.json_whitespace)
        limit = body.max_tokens
        if limit is None and constraint is None:
            limit = DEFAULT_MAX_TOKENS  # a constrained answer ends by itself
        plan = RequestPlan(
            prompts=await planner.run(self._prompts),
            constraint=constraint,
            field=field,
            fields=body,
            extension=body.stackmask,
            n=self.n,
            max_tokens=limit,
            logprobs=body.logprobs,
            reasoning=False,
        )
        self.prepared = await planner.prepare(plan)

    async def answer(self, http: HttpRequest) -> dict[str, Any]:
        """The whole answer."""
        answers = await self.serving.answers(self.prepared, http)
        choices = []
        for index, answer in enumerate(answers):
            logprobs = self._logprobs(answer.logprobs, 0) if self.body.logprobs is not None else None
            choices.append(self._choice(index, answer.text, "stop" if answer.finish_reason == "stop" else "length", logprobs, answer))
        return {
            **self._head(),
            "choices": choices,
            "usage": self.serving.usage(self.prepared, answers, self.n),
            **self.serving.warnings(self.prepared),
        }

    async def stream(self) -> AsyncIterator[bytes]:
        """The answer as server-sent events."""
        answers: dict[int, Answer] = {}
        offsets = [0] * len(self.prepared.sequences)
        warnings = self.serving.warnings(self.prepared)
        try:
            async with aclosing(self.serving.events(self.prepared)) as events:
                async for index, event in events:
                    if event.answer is not None and event.answer.error is not None:
                        raise event.answer.error
                    reason = None
                    if event.answer is not None:
                        answers[index] = event.answer
                        reason = "stop" if event.answer.finish_reason == "stop" else "length"
                    if event.text or reason or event.logprobs:
                        logprobs = self._logprobs(event.logprobs, offsets[index]) if event.logprobs else None
                        offsets[index] += len(event.text)
                        yield sse(
                            {**self._head(), "choices": [self._choice(index, event.text, reason, logprobs, event.answer)], **warnings}
                        )
                        warnings = {}
            if self.body.stream_options is not None and self.body.stream_options.include_usage:
                usage = self.serving.usage(self.prepared, [answers[index] for index in sorted(answers)], self.n)
                yield sse({**self._head(), "choices": [], "usage": usage})
        except Exception as error:  # the status is sent, so that the error can only be an event
            yield sse(api_error(error).body)
        yield sse("[DONE]")

    def _prompts(self) -> list[list[int]]:
        prompt, planner = self.body.prompt, self.serving.planner
        if isinstance(prompt, str):
            return [planner.encoder.encode(prompt, special=True)]
        if not prompt:
            raise ApiError("the prompt is empty", param="prompt")
        if isinstance(prompt[0], int):
            return [prompt]
        planner.check_choices(len(prompt) * self.n, "prompt")
        return [planner.encoder.encode(item, special=True) if isinstance(item, str) else list(item) for item in prompt]

    def _head(self) -> dict[str, Any]:
        return {"id": self.id, "object": "text_completion", "created": self.created, "model": self.serving.options.model_name}

    def _choice(self, index: int, text: str, reason: str | None, logprobs: Any, answer: Answer | None) -> dict[str, Any]:
        closed = {"stackmask": {"closed": True, "complete": answer.complete}} if answer is not None and answer.closed else {}
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason, **closed}

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
