"""Request bodies: every meaningful field is named here, and every other field is refused.

A server that ignores unknown fields ignores a constraint as soon as a client spells it differently.
OpenAI's fields without effect here (such as `user`) are named and accepted.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from .errors import ApiError

Json = dict[str, Any]
Probability = Annotated[float, Field(ge=0, le=1)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
TokenIds = Annotated[list[Annotated[int, Field(ge=0, le=1 << 31)]], Field(max_length=1024), Field(fail_fast=True)]
Objects = Annotated[list[Json], Field(fail_fast=True)]
"""PERF: the first that is wrong is enough; to list tens of thousands took the event loop most of a second."""

HINTS: Final = {
    "guided_json": "structured_outputs: {json: ...} or response_format",
    "guided_regex": "structured_outputs: {regex: ...}",
    "guided_choice": "structured_outputs: {choice: [...]}",
    "guided_grammar": "structured_outputs: {grammar: ...}",
    "guided_json_object": "response_format: {type: json_object}",
    "guided_decoding_backend": "nothing: there is one backend",
    "guided_whitespace_pattern": "structured_outputs: {..., whitespace_pattern: ...}",
    "grammar": "structured_outputs: {grammar: ...}",
    "choice": "structured_outputs: {choice: [...]}",
    "structural_tag": "response_format: {type: structural_tag, ...}",
    "format": "response_format",
    "functions": "tools",
    "function_call": "tool_choice",
    "bad_words": "a constraint, or logit_bias",
    "allowed_token_ids": "logit_bias, or a constraint",
    "chat_template": "the server's --chat-template",
    "documents": "messages, or chat_template_kwargs",
}
"""Fields of other servers and of other times, and what to say instead."""

REFUSED: Final = {
    "use_beam_search": "answers are sampled, not searched for",
    "length_penalty": "it belongs to beam search, and answers are sampled",
    "early_stopping": "it belongs to beam search, and answers are sampled",
    "include_stop_str_in_output": "stop texts are never part of an answer",
    "spaces_between_special_tokens": "texts are joined as the tokens have them",
    "prompt_logprobs": "the log-probabilities of prompts are not computed",
    "truncate_prompt_tokens": "a prompt that does not fit is refused, not cut",
    "add_generation_prompt": "an answer is always the next message",
    "continue_final_message": "an answer is always the next message",
    "add_special_tokens": "prompts get the special tokens that the tokenizer or the chat template gives them",
    "mm_processor_kwargs": "this model reads text alone",
    "logits_processors": "clients send no code",
    "priority": "requests are served in the order of their arrival",
    "request_id": "the server makes its own, in x-request-id",
    "return_token_ids": "answers have texts and log-probabilities",
    "return_tokens_as_token_ids": "answers have texts and log-probabilities",
    "kv_transfer_params": "caches are not shared between servers",
    "cache_salt": "prompts are not cached",
    "thinking_token_budget": "reasoning has no budget of its own; max_tokens bounds all of the answer",
    "repetition_detection": "there is none; repetition_penalty makes repetitions less likely",
}
"""Fields of vLLM that this server does not honour, and why."""


class Model(BaseModel):
    """A part of a request."""

    model_config = ConfigDict(extra="forbid")


class StreamOptions(Model):
    """The options of a stream."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None
    continuous_usage_stats: Literal[False] | None = None


class StructuredOutputs(Model):
    """vLLM's field."""

    json_: Json | str | bool | None = Field(default=None, alias="json")
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    structural_tag: str | Json | None = None
    whitespace_pattern: str | None = None
    disable_any_whitespace: bool = False
    disable_additional_properties: Literal[False] = False


class Extension(Model):
    """The extensions of this server, under the name `stackmask`."""

    finish_within_budget: bool | None = None
    speculation: int | None = Field(default=None, ge=0, le=64)
    draft_tree: int | None = Field(default=None, ge=1, le=8)
    jump_forward: bool | None = None
    stats: bool = False
    whitespace: str | None = None
    property_order: Literal["schema", "any"] | None = None
    lenient: bool | None = None
    extra_properties: Literal["schema", "closed"] | None = None
    strict_keywords: bool | None = None
    distinct_keys: bool | None = None
    reasoning: bool | None = None
    partial: bool = False


class Constrained(Model):
    """The spellings of a constraint: OpenAI's, vLLM's and SGLang's."""

    response_format: Json | None = None
    structured_outputs: StructuredOutputs | None = None
    regex: str | None = None
    ebnf: str | None = None
    json_schema: Json | str | None = None
    stackmask: Extension = Field(default_factory=Extension)


class SamplingFields(Model):
    """Sampling options."""

    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1, le=1 << 31)] | None = None
    min_p: Probability | None = None
    seed: Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: dict[str, Annotated[float, Field(ge=-100, le=100)]] | None = Field(default=None, max_length=1024)
    repetition_penalty: Annotated[float, Field(gt=0, le=10)] | None = None
    min_tokens: int | None = Field(default=None, ge=0)
    ignore_eos: bool | None = None
    skip_special_tokens: bool | None = None
    stop: str | list[str] | None = None
    stop_token_ids: TokenIds | None = None


class Common(Constrained, SamplingFields):
    """The common fields of chat and text completions."""

    model: str | None = None
    n: int | None = Field(default=None, ge=1, le=128)
    max_tokens: int | None = Field(default=None, ge=1)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: str | None = None


class ChatRequest(Common):
    """The body of /v1/chat/completions."""

    messages: Objects = Field(min_length=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    tools: Objects | None = None
    tool_choice: str | Json | None = None
    parallel_tool_calls: bool | None = None
    chat_template_kwargs: Json | None = None
    # accepted, and without effect here
    metadata: Any = None
    store: Literal[False] | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    prompt_cache_options: Any = None
    reasoning_effort: str | None = None
    verbosity: str | None = None
    modalities: list[Literal["text"]] | None = None


class CompletionRequest(Common):
    """The body of /v1/completions."""

    prompt: (
        str
        | Annotated[list[str], Field(fail_fast=True)]
        | Annotated[list[int], Field(fail_fast=True)]
        | Annotated[list[Annotated[list[int], Field(fail_fast=True)]], Field(fail_fast=True)]
    )
    logprobs: int | None = Field(default=None, ge=0, le=20)
    echo: bool | None = None
    best_of: int | None = Field(default=None, ge=1, le=128)
    suffix: None = None


class TextOptions(Model):
    """The form of the text of a response."""

    format: Json | None = None
    verbosity: str | None = None


class ResponsesRequest(Constrained):
    """The body of /v1/responses."""

    input: str | Objects
    model: str | None = None
    instructions: str | None = None
    text: TextOptions | None = None
    max_output_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    stream: bool | None = None
    tools: Objects | None = None
    tool_choice: str | Json | None = None
    parallel_tool_calls: bool | None = None
    # accepted, and without effect here: nothing is stored, so nothing can be continued
    store: bool | None = None
    metadata: dict[str, str] | None = None
    user: str | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    prompt_cache_options: Any = None
    truncation: Literal["disabled"] | None = None
    reasoning: Any = None
    background: Literal[False] | None = None
    include: list[str] | None = Field(default=None, max_length=0)
    stream_options: StreamOptions | None = None


class CheckRequest(Constrained):
    """The body of /v1/grammar/check: a constraint in any spelling, and perhaps a text to try."""

    model: str | None = None
    text: str | None = None


@cache
def _names_of(kind: type[Model]) -> frozenset[str]:
    """The names of the fields of all kinds of request."""
    own = frozenset(field.alias or name for name, field in kind.model_fields.items())
    return own.union(*map(_names_of, kind.__subclasses__()))


def describe(errors: list[Any]) -> ApiError:
    """The errors that pydantic found, as one message that names the first field."""
    lines = []
    for error in errors[:5]:
        place = [str(part) for part in error["loc"] if part != "body"]
        name = place[0] if place else ""
        if error["type"] == "extra_forbidden":
            if name in REFUSED and len(place) == 1:
                lines.append(f"this server does not have {name}: {REFUSED[name]}")
                continue
            close = get_close_matches(place[-1], _names_of(Model), 1, 0.8)
            hint = f"; use {HINTS[name]}" if name in HINTS else f"; did you mean {close[0]}?" if close else ""
            lines.append(f"unknown field {'.'.join(place)!r}: no field is ignored here{hint}")
        elif error["type"] == "json_invalid":
            return ApiError(f"the body is not JSON: {error['ctx']['error']} at character {name}", code="invalid_request")
        else:
            lines.append(f"{'.'.join(place) or 'body'}: {error['msg']}")
    first = [str(part) for part in errors[0]["loc"] if part != "body"] if errors else []
    return ApiError("; ".join(lines)[:2000], param=first[0] if first else None, code="invalid_request")
