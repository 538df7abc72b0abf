"""The model's next turn: what chats and responses make of messages, tools and a constraint before anything is generated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .constraints import Found, find_constraint
from .prompts import encode_text, plain_messages, render_messages
from .protocol import ChatRequest, ResponsesRequest, SamplingFields
from .serving import Prepared, Serving
from .tools import ToolPlan, checked_tools, shown_tools


async def prepare_turn(
    serving: Serving,
    body: ChatRequest | ResponsesRequest,
    messages: list[dict[str, Any]],
    *,
    fields: SamplingFields,
    others: Found | None = None,
    template: Mapping[str, Any] | None = None,
    n: int = 1,
    max_tokens: int | None = None,
    logprobs: int | None = None,
) -> tuple[ToolPlan | None, Prepared]:
    """What may be called, and the engine's requests.

    `others` are constraints that were found elsewhere, `template` are options of the chat template.
    """
    whitespace = serving.options.json_whitespace
    asked = find_constraint(body, whitespace, others)
    tools = checked_tools(body.tools)
    prompt = render_messages(serving.tokenizer, plain_messages(messages), tools=shown_tools(body.tools), options=dict(template or {}))
    plan, constraint, field = serving.dialect.plan(
        tools, body.tool_choice, body.parallel_tool_calls, *asked, whitespace=whitespace, prompt=prompt
    )
    prepared = await serving.prepare(
        [encode_text(serving.tokenizer, prompt, special=False)],
        constraint,
        field,
        fields=fields,
        extension=body.stackmask,
        n=n,
        max_tokens=max_tokens,
        logprobs=logprobs,
        plan=plan,
    )
    return plan, prepared
