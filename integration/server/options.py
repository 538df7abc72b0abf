"""The operator's settings."""

from __future__ import annotations

from dataclasses import dataclass

from ...schema.emit.json_parts import DEFAULT_WHITESPACE


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Settings of a server.

    `json_whitespace` is the compiler's `whitespace`: "printed", "single", "compact", "flexible" or a regex; a request can
    set its own.
    `grammar_timeout` bounds how long a request waits for its grammar.
    `max_body_values` bounds the values in the JSON of a body, not counting token ids of a prompt that fit the model's context.
    `max_queue` requests wait while all places of the batch are taken; more are refused with 429.
    `cors_origins` are the origins whose browser pages may send requests; "*" for all.
    `constraints` are the kinds of constraints that clients may send, from `stackmask.integration.engine.request.KINDS`; None for all. A
    structural tag may contain any kind.
    `reasoning_end` is the text that ends a model's reasoning, which is then reported separately and unconstrained.
    `tool_format` is the model's tool-call notation, one of `stackmask.integration.tools.FORMATS`; None derives it from the tokenizer.
    `speculation` and `jump_forward` are the defaults of requests that leave them out.
    """

    model_name: str = "stackmask"
    api_key: str | None = None
    json_whitespace: str = DEFAULT_WHITESPACE
    grammar_timeout: float = 10.0
    max_queue: int = 256
    max_body_bytes: int = 4 << 20
    max_body_values: int = 100_000
    max_messages: int = 10_000
    max_grammar_bytes: int = 1 << 20
    max_choices: int = 16
    default_max_tokens: int | None = None
    reasoning_end: str | None = None
    tool_format: str | None = None
    cors_origins: tuple[str, ...] = ()
    constraints: frozenset[str] | None = None
    speculation: int = 0
    jump_forward: bool = False
