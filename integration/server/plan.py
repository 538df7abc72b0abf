"""From a request's body to the engine's requests: its prompts, its one compiled constraint, and its checked sequences.

RequestPlan       the plan of a route
PreparedRequest   a request that can be served
Planner           from one to the other
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar

from ..compiler import CompiledGrammar
from ..compiler.cache import SharedFuture
from ..engine import Constraint, Engine, Request, RequestError, Sampling
from ..engine.sequence import Sequence as EngineSequence
from ..processes.turns import Turns
from .constraints import Found, find_constraint
from .errors import ApiError, api_error
from .metrics import Metrics
from .options import ServerOptions
from .prompts import Encoder, plain_messages, render_messages
from .protocol import ChatRequest, Extension, ResponsesRequest, SamplingFields
from .tools import Dialect, ToolPlan, checked_tools, shown_tools

R = TypeVar("R")
SIZE: Final[ContextVar[int]] = ContextVar("SIZE", default=0)
"""Bytes of the body of the request that is answered."""
SHORT: Final = 1 << 13  # bytes of a body whose texts take the event loop less than a millisecond or two
TEXTS: Final = 2  # long texts that are worked on at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPlan:
    """The plan of a route: `n` answers to each prompt.

    `field` is the request's field that the constraint comes from. `tools` reads the calls in the answers.
    `reasoning`: the answers may begin with reasoning.
    """

    prompts: Sequence[Sequence[int]]
    constraint: Constraint | None
    field: str | None
    fields: SamplingFields
    extension: Extension
    n: int = 1
    max_tokens: int | None = None
    logprobs: int | None = None
    tools: ToolPlan | None = None
    reasoning: bool = True


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A request that can be served: the engine's requests, and the data for the answer."""

    sequences: tuple[EngineSequence, ...]
    tools: ToolPlan | None
    cache_hit: bool
    compile_seconds: float
    stats: bool
    warnings: tuple[str, ...] = ()


class Planner:
    """A server's knowledge of its model and its limits before anything is generated.

    `in_flight` counts the answers that run or wait.
    """

    def __init__(self, engine: Engine, options: ServerOptions, metrics: Metrics) -> None:
        self.engine = engine
        self.tokenizer = engine.tokenizer
        self.options = options
        self.metrics = metrics
        self.in_flight = 0
        self.encoder = Encoder(self.tokenizer, engine.vocabulary, engine.slots.context)
        self._turns = Turns(TEXTS, most_waiting=options.max_queue, patience=options.grammar_timeout)
        end = options.reasoning_end
        self.dialect = Dialect(self.tokenizer, engine.vocabulary, options.tool_format, has_reasoning_end=end is not None)
        self.reasoning_end: list[int] = [] if end is None else self.tokenizer(end, add_special_tokens=False)["input_ids"]

    def check_model(self, name: str | None) -> None:
        """Refuse a model that this server does not have."""
        if name is not None and name != self.options.model_name:
            raise ApiError(
                f"there is no model {name[:80]!r}; this server has {self.options.model_name!r}", status=404, code="model_not_found"
            )

    def check_choices(self, count: int, param: str) -> None:
        """Refuse more choices than a request may have."""
        if count > self.options.max_choices:
            raise ApiError(f"the request asks for {count} choices; this server gives at most {self.options.max_choices}", param=param)

    def check_kind(self, kind: str, field: str | None) -> None:
        """Refuse a constraint of a kind that the operator does not allow."""
        allowed = self.options.constraints
        if allowed is not None and kind not in allowed:
            raise ApiError(
                f"this server takes no constraint of kind {kind}; it takes {', '.join(sorted(allowed)) or 'none'}",
                status=403,
                param=field,
                code="constraint_not_allowed",
            )

    async def run(self, call: Callable[[], R]) -> R:
        """The result of a call that works on a client's texts. A call on long texts leaves the event loop and waits for its turn."""
        if SIZE.get() <= SHORT:
            return call()
        try:
            return await asyncio.wrap_future(self._turns.submit(call))
        except Exception as error:
            raise api_error(error) from error

    def close(self) -> None:
        """Take on no more texts."""
        self._turns.shutdown(wait=False, cancel_futures=True)

    async def plan_turn(
        self,
        body: ChatRequest | ResponsesRequest,
        messages: list[dict[str, Any]],
        fields: SamplingFields,
        *,
        others: Found | None = None,
        template: Mapping[str, Any] | None = None,
    ) -> RequestPlan:
        """The model's next turn in a chat; `others` are constraints from fields of the route's own, `template` options of the template."""
        return await self.run(partial(self._plan_turn, body, messages, fields, others, template))

    def _plan_turn(
        self,
        body: ChatRequest | ResponsesRequest,
        messages: list[dict[str, Any]],
        fields: SamplingFields,
        others: Found | None,
        template: Mapping[str, Any] | None,
    ) -> RequestPlan:
        whitespace = self.options.json_whitespace
        if len(messages) > self.options.max_messages:
            raise ApiError(f"there are {len(messages)} messages; this server reads at most {self.options.max_messages}", param="messages")
        asked = find_constraint(body, whitespace, others)
        if asked[0] is not None:
            self.check_kind(asked[0].kind, asked[1])
        tools = checked_tools(body.tools)
        for tool in tools:
            if tool.syntax != "text":
                self.check_kind(tool.syntax, "tools")
        plain = plain_messages(messages)
        self.encoder.check_size(sum(len(message["content"]) for message in plain))
        prompt = render_messages(self.tokenizer, plain, tools=shown_tools(body.tools), options=dict(template or {}))
        plan, constraint, field = self.dialect.plan(
            tools, body.tool_choice, body.parallel_tool_calls, *asked, whitespace=whitespace, prompt=prompt
        )
        prompts = [self.encoder.encode(prompt, special=False)]
        return RequestPlan(prompts=prompts, constraint=constraint, field=field, fields=fields, extension=body.stackmask, tools=plan)

    async def prepare(self, plan: RequestPlan) -> PreparedRequest:
        """Compile the grammar and check every sequence."""
        count = plan.n * len(plan.prompts)
        self.check_choices(count, "n")
        if self.in_flight + count > self.engine.max_running + self.options.max_queue:
            raise ApiError(f"{self.in_flight} requests run or wait already; try again later", status=429, code="rate_limit_exceeded")
        if plan.constraint is not None and plan.tools is None:
            self.check_kind(plan.constraint.kind, plan.field)
        sampling, stops = _sampling(plan.fields), _stops(plan.fields)
        grammar, hit = (None, False) if plan.constraint is None else await self.compile(plan.constraint, plan.field)

        def check() -> tuple[EngineSequence, ...]:
            first = self._request(plan, grammar, stops)
            return tuple(
                self._sequence(plan, replace(first, prompt=prompt, sampling=replace(sampling, seed=seed)))
                for prompt in plan.prompts
                for seed in _seeds(sampling.seed, plan.n)
            )

        try:
            # the shortest answer under a grammar may be long in coming
            sequences = check() if grammar is None else await asyncio.to_thread(check)
        except Exception as error:
            raise api_error(error) from error
        seconds = 0.0 if grammar is None or hit else grammar.stats.seconds
        warnings = () if grammar is None else grammar.warnings
        return PreparedRequest(sequences, plan.tools, hit, seconds, plan.extension.stats, warnings)

    async def compile(self, constraint: Constraint, field: str | None) -> tuple[CompiledGrammar, bool]:
        """The grammar of a constraint and whether it was there already; an error in it is an answer of status 400.

        If the grammars of other clients leave it no turn, the server is busy: status 429.
        """
        # the key of a large schema takes time too
        future, hit = await asyncio.to_thread(self._submit, constraint, field)
        grammar = await self._wait(future, constraint, field)
        self.metrics.hits.labels("hit" if hit else "miss").inc()
        if not hit:
            self.metrics.compile.labels(grammar.stats.kind).observe(grammar.stats.seconds)
        return grammar, hit

    async def check(self, constraint: Constraint, field: str | None, text: str | None) -> dict[str, Any]:
        """A description of a constraint and of a text in it; errors are those of `compile`."""
        self.check_kind(constraint.kind, field)

        def submit() -> SharedFuture[dict[str, Any]]:
            self._check_size(constraint, field)
            return self.engine.compiler.check(text, constraint.kind, *constraint.arguments, **constraint.options)

        future = await asyncio.to_thread(submit)
        return await self._wait(future, constraint, field)

    async def _wait(self, future: SharedFuture[R], constraint: Constraint, field: str | None) -> R:
        """The result of a constraint."""
        begun, done = asyncio.wrap_future(future.begun), asyncio.wrap_future(future)
        limit = self.options.grammar_timeout
        try:
            if not (await asyncio.wait((begun, done), timeout=limit, return_when=asyncio.FIRST_COMPLETED))[0]:
                message = f"other grammars have been compiling for {limit:g} s; try again later"
                raise ApiError(message, status=429, param=field, code="rate_limit_exceeded")
            # it may have to wait for others once more, and then begins again
            return await asyncio.wait_for(done, 3 * limit)
        except TimeoutError:
            self.metrics.refused.labels(constraint.kind).inc()
            raise ApiError(f"the grammar took more than {limit:g} s to compile", param=field, code="grammar_timeout") from None
        except Exception as error:
            self.metrics.refused.labels(constraint.kind).inc()
            raise api_error(error, field) from error
        finally:
            done.cancel()

    def _sequence(self, plan: RequestPlan, request: Request) -> EngineSequence:
        """A request checked. One whose budget cannot hold an answer is cut at the budget, unless the client asks for complete answers."""
        try:
            return self.engine.prepare(request)
        except RequestError as error:
            if error.field != "max_tokens" or plan.extension.finish_within_budget is not None:
                raise
        return self.engine.prepare(replace(request, finish_within_budget=False))

    def _request(self, plan: RequestPlan, grammar: CompiledGrammar | None, stops: Sequence[str]) -> Request:
        """The engine's request for the first prompt."""
        options, extension = self.options, plan.extension
        thinks = plan.reasoning and extension.reasoning is not False
        return Request(
            prompt=plan.prompts[0],
            constraint=grammar,
            max_tokens=plan.max_tokens if plan.max_tokens is not None else options.default_max_tokens,
            stop=stops,
            stop_token_ids=plan.fields.stop_token_ids or (),
            finish_within_budget=extension.finish_within_budget is not False,
            speculation=options.speculation if extension.speculation is None else extension.speculation,
            draft_tree=extension.draft_tree or 1,
            jump_forward=options.jump_forward if extension.jump_forward is None else extension.jump_forward,
            reasoning_end=self.reasoning_end if thinks else (),
            shown=self._shown(plan),
            logprobs=plan.logprobs,
            min_tokens=plan.fields.min_tokens or 0,
            ignore_stop_tokens=bool(plan.fields.ignore_eos),
        )

    def _shown(self, plan: RequestPlan) -> dict[int, str] | None:
        """The tokens without text that the answer shows, and how."""
        if plan.fields.skip_special_tokens is not False:
            return None if plan.tools is None else self.dialect.shown
        if plan.tools is not None:
            raise ApiError("skip_special_tokens is true where there are tools: calls are read by their tokens", param="skip_special_tokens")
        vocabulary = self.engine.vocabulary
        return {token: name for name, token in vocabulary.special.items() if vocabulary.token_bytes(token) is None}

    def _submit(self, constraint: Constraint, field: str | None) -> tuple[SharedFuture[CompiledGrammar], bool]:
        """The future of a grammar, and whether it was there already."""
        self._check_size(constraint, field)
        future = self.engine.compile(constraint)
        return future, future.done()

    def _check_size(self, constraint: Constraint, field: str | None) -> None:
        """Refuse a constraint that is longer than the operator allows; JSON is measured as it would be written."""
        value = constraint.value
        try:
            text = value if isinstance(value, str) else json.dumps(value, default=str, allow_nan=False)
        except RecursionError:
            raise ApiError("the grammar is nested deeper than this server reads", param=field, code="grammar_limit_exceeded") from None
        except ValueError:
            message = f"{field or 'the grammar'} holds infinity or NaN, which JSON does not have"
            raise ApiError(message, param=field, code="invalid_grammar") from None
        size = len(text.encode("utf-8", "surrogatepass"))
        limit = self.options.max_grammar_bytes
        if size > limit:
            raise ApiError(f"the grammar has {size} bytes; this server reads at most {limit}", param=field, code="grammar_limit_exceeded")


def _seeds(seed: int | None, n: int) -> list[int | None]:
    """The seeds of `n` answers to a prompt."""
    return [None] * n if seed is None else [seed + index for index in range(n)]


def _stops(fields: SamplingFields) -> list[str]:
    """The texts that end an answer."""
    stops = [fields.stop] if isinstance(fields.stop, str) else fields.stop or []
    if len(stops) > 16 or any(not stop or len(stop) > 1000 for stop in stops):
        raise ApiError("stop must be at most 16 texts of 1 to 1000 characters", param="stop")
    return stops


def _sampling(fields: SamplingFields) -> Sampling:
    """The options of sampling."""
    given: dict[str, Any] = {
        name: value
        for name in ("temperature", "top_p", "min_p", "seed", "presence_penalty", "frequency_penalty", "repetition_penalty")
        if (value := getattr(fields, name)) is not None
    }
    if fields.top_k is not None:
        given["top_k"] = max(0, fields.top_k)
    if fields.logit_bias:
        try:
            given["logit_bias"] = {int(token): bias for token, bias in fields.logit_bias.items()}
        except ValueError:
            raise ApiError("the keys of logit_bias must be token ids", param="logit_bias") from None
    try:
        return Sampling(**given)
    except Exception as error:
        raise api_error(error) from error
