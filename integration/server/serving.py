"""From a request to the engine and back: what the three routes that generate have in common."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from ..compiler import CompiledGrammar
from ..compiler.cache import Awaited
from ..engine import Answer, Constraint, Engine, Event, Request, Sampling
from ..engine.aio import AsyncEngine
from ..engine.request import TokenLogprob
from .errors import ApiError, api_error
from .metrics import Metrics
from .options import ServerOptions
from .protocol import Extension, SamplingFields
from .tools import Dialect, ToolPlan


class ClientGoneError(Exception):
    """Nobody waits for the answer any more."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that nothing is wrong with: what the engine gets, and what the answer needs to know."""

    requests: tuple[Request, ...]
    cache_hit: bool
    compile_seconds: float
    stats: bool


class Serving:
    """The engine behind a server, and what it may take on."""

    def __init__(self, engine: Engine, options: ServerOptions, metrics: Metrics) -> None:
        self.engine = engine
        self.tokenizer = engine.tokenizer
        self.options = options
        self.metrics = metrics
        self.aio = AsyncEngine(engine)
        self.in_flight = 0
        end = options.reasoning_end
        self.dialect = Dialect(self.tokenizer, engine.vocabulary, options.tool_format, has_reasoning_end=end is not None)
        self.reasoning_end: list[int] = [] if end is None else self.tokenizer(end, add_special_tokens=False)["input_ids"]

    def check_model(self, name: str | None) -> None:
        """Refuse a model that is not here."""
        if name is not None and name != self.options.model_name:
            raise ApiError(
                f"there is no model {name[:80]!r}; this server has {self.options.model_name!r}", status=404, code="model_not_found"
            )

    def admit(self, count: int) -> None:
        """Refuse what the queue has no place for."""
        if self.in_flight + count > self.engine.max_running + self.options.max_queue:
            raise ApiError(f"{self.in_flight} requests run or wait already; try again later", status=429, code="rate_limit_exceeded")

    async def compile(self, constraint: Constraint, field: str | None) -> tuple[CompiledGrammar, bool]:
        """The grammar of a constraint and whether it was there already; what is wrong with it is an answer of status 400.

        Where others' grammars leave it no turn, the server is busy, which is no fault of the grammar's.
        """
        self._check_size(constraint, field)
        future, hit = await asyncio.to_thread(self._submit, constraint)  # the key of a large schema takes time too
        begun, done = asyncio.wrap_future(future.begun), asyncio.wrap_future(future)
        limit = self.options.grammar_timeout
        try:
            if not (await asyncio.wait((begun, done), timeout=limit, return_when=asyncio.FIRST_COMPLETED))[0]:
                message = f"other grammars have been compiling for {limit:g} s; try again later"
                raise ApiError(message, status=429, param=field, code="rate_limit_exceeded")
            grammar = await asyncio.wait_for(done, limit)
        except TimeoutError:
            self.metrics.refused.labels(constraint.kind).inc()
            raise ApiError(f"the grammar took more than {limit:g} s to compile", param=field, code="grammar_timeout") from None
        except Exception as error:
            self.metrics.refused.labels(constraint.kind).inc()
            raise api_error(error, field) from error
        finally:
            done.cancel()
        self.metrics.hits.labels("hit" if hit else "miss").inc()
        if not hit:
            self.metrics.compile.labels(grammar.stats.kind).observe(grammar.stats.seconds)
        return grammar, hit

    async def prepare(
        self,
        prompts: list[list[int]],
        constraint: Constraint | None,
        field: str | None,
        *,
        fields: SamplingFields,
        extension: Extension,
        n: int = 1,
        max_tokens: int | None = None,
        logprobs: int | None = None,
        plan: ToolPlan | None = None,
        reasoning: bool = True,
    ) -> Prepared:
        """The engine's requests, `n` for each prompt, with their grammar compiled."""
        if n * len(prompts) > self.options.max_choices:
            raise ApiError(f"{n * len(prompts)} choices are more than this server gives, {self.options.max_choices}", param="n")
        self.admit(n * len(prompts))
        sampling = self._sampling(fields)
        grammar, hit = (None, False) if constraint is None else await self.compile(constraint, field)
        stops = [fields.stop] if isinstance(fields.stop, str) else fields.stop or []
        if len(stops) > 16 or any(not stop or len(stop) > 1000 for stop in stops):
            raise ApiError("stop is at most 16 texts of 1 to 1000 characters", param="stop")
        thinks = extension.reasoning if extension.reasoning is not None else True
        options = self.options
        requests = []
        try:
            for prompt in prompts:
                first = Request(
                    prompt=prompt,
                    constraint=grammar,
                    sampling=sampling,
                    max_tokens=max_tokens if max_tokens is not None else options.default_max_tokens,
                    stop=stops,
                    stop_token_ids=fields.stop_token_ids or (),
                    finish_within_budget=extension.finish_within_budget is not False,
                    speculation=options.speculation if extension.speculation is None else extension.speculation,
                    draft_tree=extension.draft_tree or 1,
                    jump_forward=options.jump_forward if extension.jump_forward is None else extension.jump_forward,
                    reasoning_end=self.reasoning_end if thinks and reasoning else (),
                    shown=None if plan is None else self.dialect.shown,
                    logprobs=logprobs,
                )
                self.engine.check(first)
                for index in range(n):
                    seed = None if sampling.seed is None else sampling.seed + index
                    requests.append(replace(first, sampling=replace(sampling, seed=seed)))
        except Exception as error:
            raise api_error(error) from error
        return Prepared(tuple(requests), hit, 0.0 if grammar is None or hit else grammar.stats.seconds, extension.stats)

    async def events(self, prepared: Prepared) -> AsyncGenerator[tuple[int, Event], None]:
        """The events of all the requests, each with the number of its request, as they come; leaving cancels what is not over."""
        queue: asyncio.Queue[tuple[int, Event | None]] = asyncio.Queue()
        async with AsyncExitStack() as stack:
            streams = [await stack.enter_async_context(self.aio.stream(request)) for request in prepared.requests]
            self.in_flight += len(streams)
            stack.callback(self._leave, len(streams))
            if len(streams) == 1:
                async for event in streams[0]:
                    yield 0, event
                return

            async def pump(index: int) -> None:
                async for event in streams[index]:
                    await queue.put((index, event))
                await queue.put((index, None))

            tasks = [asyncio.create_task(pump(index)) for index in range(len(streams))]
            stack.callback(lambda: [task.cancel() for task in tasks])
            left = len(tasks)
            while left:
                index, item = await queue.get()
                if item is None:
                    left -= 1
                else:
                    yield index, item

    async def answers(self, prepared: Prepared, http: HttpRequest | None) -> list[Answer]:
        """The whole answers; ClientGoneError where the client hangs up before."""
        answers: dict[int, Answer] = {}

        async def collect() -> None:
            async for index, event in self.events(prepared):
                if event.answer is not None:
                    answers[index] = event.answer

        work = asyncio.create_task(collect())
        gone = asyncio.create_task(_disconnected(http))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise ClientGoneError
            await work
        except ClientGoneError:
            raise
        except Exception as error:
            raise api_error(error) from error
        finally:
            for task in (work, gone):
                task.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)
        for answer in answers.values():
            if answer.finish_reason == "cancelled":
                raise ApiError("the server is shutting down", status=503, code="shutting_down")
            if answer.error is not None:
                raise api_error(answer.error) from answer.error
        return [answers[index] for index in range(len(prepared.requests))]

    def token_text(self, token: int) -> tuple[str, list[int] | None]:
        """A token as a text and as bytes."""
        data = self.engine.vocabulary.token_bytes(token)
        if data is None:
            return next((name for name, other in self.engine.vocabulary.special.items() if other == token), f"<{token}>"), None
        return data.decode("utf-8", "replace"), list(data)

    def logprob(self, logprob: TokenLogprob) -> dict[str, Any]:
        """A token's log-probability in the form of chat completions."""
        return {
            **self._one_logprob(logprob.token, logprob.logprob),
            "top_logprobs": [self._one_logprob(token, value) for token, value in logprob.top],
        }

    def _one_logprob(self, token: int, value: float) -> dict[str, Any]:
        text, data = self.token_text(token)
        return {"token": text, "logprob": value, "bytes": data}

    def usage(self, prepared: Prepared, answers: list[Answer], n: int = 1) -> dict[str, Any]:
        """Tokens counted, and what they took where that is asked for; `n` answers share a prompt."""
        prompt = sum(answer.prompt_tokens for answer in answers[::n])
        completion = sum(len(answer.token_ids) for answer in answers)
        usage: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
        if prepared.stats:
            usage["stackmask"] = [self._stats(prepared, answer) for answer in answers]
        return usage

    def _stats(self, prepared: Prepared, answer: Answer) -> dict[str, Any]:
        """One answer's statistics."""
        return {**asdict(answer.stats), "cache_hit": prepared.cache_hit, "compile_seconds": prepared.compile_seconds}

    def _submit(self, constraint: Constraint) -> tuple[Awaited[CompiledGrammar], bool]:
        """The future of a grammar, and whether it was there already."""
        future = self.engine.compile(constraint)
        return future, future.done()

    def _leave(self, count: int) -> None:
        self.in_flight -= count

    def _sampling(self, fields: SamplingFields) -> Sampling:
        given: dict[str, Any] = {
            name: value
            for name in ("temperature", "top_p", "min_p", "seed", "presence_penalty", "frequency_penalty")
            if (value := getattr(fields, name)) is not None
        }
        if fields.top_k is not None:
            given["top_k"] = max(0, fields.top_k)
        if fields.logit_bias:
            try:
                given["logit_bias"] = {int(token): bias for token, bias in fields.logit_bias.items()}
            except ValueError:
                raise ApiError("the keys of logit_bias are token ids", param="logit_bias") from None
        try:
            return Sampling(**given)
        except Exception as error:
            raise api_error(error) from error

    def _check_size(self, constraint: Constraint, field: str | None) -> None:
        """Refuse what is longer than a grammar may be; JSON is measured as it would be written."""
        value = constraint.value
        try:
            text = value if isinstance(value, str) else json.dumps(value, default=str, allow_nan=False)
        except RecursionError:
            raise ApiError("the grammar is nested deeper than this server reads", param=field, code="grammar_limit_exceeded") from None
        except ValueError:
            raise ApiError(f"{field or 'the grammar'}: a number is no JSON number", param=field, code="invalid_grammar") from None
        size = len(text.encode("utf-8", "surrogatepass"))
        if size > self.options.max_grammar_bytes:
            raise ApiError(
                f"the grammar takes {size} bytes, more than {self.options.max_grammar_bytes}", param=field, code="grammar_limit_exceeded"
            )


def sse(data: Mapping[str, Any] | str, event: str | None = None) -> bytes:
    """One server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {text}\n\n".encode("utf-8", "replace")


class JsonResponse(Response):
    """JSON that is always valid, whatever it quotes: half of a surrogate pair is escaped, a number that is none is null."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The body."""
        try:
            text = json.dumps(content, separators=(",", ":"), allow_nan=False)
        except ValueError:
            text = json.dumps(json.loads(json.dumps(content), parse_constant=lambda name: None), separators=(",", ":"))
        return text.encode()


async def _disconnected(http: HttpRequest | None) -> None:
    """Return when the client hangs up; the body has been read before. Without a client that never happens."""
    if http is None:
        await asyncio.Event().wait()
    while http is not None:
        message = await http.receive()
        if message["type"] == "http.disconnect":
            return
