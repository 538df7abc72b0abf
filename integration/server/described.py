"""The form of the answers, for `/openapi.json`: a JSON Schema for every body and every event of a stream, maintained by hand.

Tests compare real answers with it, and every object is closed, so a field that is added to an answer but not here fails them.
An event of a stream is described by its data. Streams of OpenAI's protocol end with the data `[DONE]`, but for those of responses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
TEXT_OR_NULL: Final[Schema] = {"type": ["string", "null"]}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
NUMBER: Final[Schema] = {"type": "number"}
SECONDS: Final[Schema] = {"type": "number", "minimum": 0}
FLAG: Final[Schema] = {"type": "boolean"}
PROBABILITY: Final[Schema] = {"type": "number", "minimum": 0, "maximum": 1}
NULL: Final[Schema] = {"type": "null"}
OBJECT: Final[Schema] = {"type": "object"}
ANYTHING: Final[Schema] = {}
NOTHING: Final[Mapping[str, Schema]] = {}


def one_of(*values: Any) -> Schema:
    """One of some values."""
    return {"const": values[0]} if len(values) == 1 else {"enum": list(values)}


def many(item: Schema) -> Schema:
    """A list."""
    return {"type": "array", "items": item}


def named(name: str) -> Schema:
    """A schema of `COMPONENTS`."""
    return {"$ref": f"#/components/schemas/{name}"}


def either(*schemas: Schema) -> Schema:
    """Any of some schemas."""
    return {"anyOf": list(schemas)}


def all_of(schema: Schema, *names: str) -> dict[str, Schema]:
    """Members that are alike."""
    return dict.fromkeys(names, schema)


def record(required: Mapping[str, Schema], optional: Mapping[str, Schema] = NOTHING) -> Schema:
    """An object with these members and no others."""
    members = {**required, **optional}
    return {"type": "object", "properties": members, "required": list(required), "additionalProperties": False}


CLOSED: Final = {"stackmask": named("Closed")}
WARNINGS: Final = {"warnings": many(TEXT)}
PARTIAL: Final = {"stackmask": named("Partial")}
FINISH: Final = one_of("stop", "length", "tool_calls", None)


def _calls(*, delta: bool) -> Schema:
    """Calls of tools in a message, or the additions of an event to them."""
    kinds = []
    for kind, field in (("function", "arguments"), ("custom", "input")):
        if delta:
            inner = record({field: TEXT}, {"name": TEXT})
            kinds.append(
                record({"index": COUNT, kind: inner}, {"id": TEXT, "type": one_of(kind), **(PARTIAL if kind == "function" else {})})
            )
        else:
            kinds.append(record({"id": TEXT, "type": one_of(kind), kind: record({"name": TEXT, field: TEXT})}))
    return many(either(*kinds))


def _usage(answer: str, question: str, more: Mapping[str, Schema] = NOTHING) -> Schema:
    return record({question: COUNT, answer: COUNT, "total_tokens": COUNT, **more}, {"stackmask": many(named("AnswerStatistics"))})


_HEAD: Final = {"id": TEXT, "created": COUNT, "model": TEXT}
_ITEM: Final = {"item_id": TEXT, "output_index": COUNT}
_PLACE: Final = {**_ITEM, "content_index": COUNT}
_TOKEN: Final = {"token": TEXT, "logprob": NUMBER, "bytes": either(many(COUNT), NULL)}
_COMPLETION_LOGPROBS: Final = record(
    {"tokens": many(TEXT), "token_logprobs": many(NUMBER), "top_logprobs": many(OBJECT), "text_offset": many(COUNT)}
)
_CHOICE_SAID: Final = {"stackmask": either(named("Closed"), named("Partial"))}
_DETAILS: Final = {
    "input_tokens_details": record({"cached_tokens": COUNT, "cache_write_tokens": COUNT}),
    "output_tokens_details": record({"reasoning_tokens": COUNT}),
}
_MODEL_DETAILS: Final = record(
    all_of(TEXT, "parent_model", "format", "family", "parameter_size", "quantization_level") | {"families": many(TEXT)}
)
_LEVELS: Final = {"probabilities": {"type": "object", "additionalProperties": PROBABILITY}, "confidence": PROBABILITY}
_LEGEND: Final = {"type": "object", "additionalProperties": TEXT}
_MASS: Final = {"stackmask": record({"mass": PROBABILITY, "unexplored": PROBABILITY})}
_QUESTION: Final = {"name": TEXT_OR_NULL, **_MASS}

_BLOCKS: Final = either(
    record({"type": one_of("text"), "text": TEXT}),
    record({"type": one_of("thinking"), "thinking": TEXT, "signature": TEXT}),
    record({"type": one_of("tool_use"), "id": TEXT, "name": TEXT, "input": ANYTHING}),
)
_MESSAGE_USAGE: Final = record(all_of(COUNT, "input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"))
_STOP: Final = {
    "stop_reason": one_of("end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded", None),
    "stop_sequence": TEXT_OR_NULL,
}
_MESSAGE: Final = {
    "id": TEXT,
    "type": one_of("message"),
    "role": one_of("assistant"),
    "model": TEXT,
    "content": many(_BLOCKS),
    "usage": _MESSAGE_USAGE,
    **_STOP,
}
_LINE: Final = {"model": TEXT, "created_at": TEXT}
_OLLAMA_CALLS: Final = many(record({"function": record({"index": COUNT, "name": TEXT, "arguments": OBJECT})}))
_OLLAMA_SAID: Final = {"thinking": TEXT, "tool_calls": _OLLAMA_CALLS}
_LINE_END: Final = {
    "logprobs": many(named("TokenLogprob")),
    "done_reason": one_of("stop", "length", "load"),
    **all_of(COUNT, "total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration", "eval_count", "eval_duration"),
    **CLOSED,
}


def _event(kind: str, fields: Mapping[str, Schema], optional: Mapping[str, Schema] = NOTHING) -> Schema:
    """An event of a stream of responses."""
    return record({"type": one_of(kind), "sequence_number": COUNT, **fields}, optional)


COMPONENTS: Final[Mapping[str, Schema]] = {
    "Error": record({"error": record({"message": TEXT, "type": TEXT, "param": TEXT_OR_NULL, "code": TEXT_OR_NULL})}),
    "MessageError": record({"type": one_of("error"), "error": record({"type": TEXT, "message": TEXT})}),
    "OllamaError": record({"error": TEXT}),
    "Closed": record({"closed": one_of(True), "complete": FLAG})
    | {"description": "The budget made the answer end early; whether it is complete nevertheless."},
    "Partial": record({"partial": many(named("Change"))}, {"closed": one_of(True), "complete": FLAG})
    | {"description": "The changes of the JSON value so far, where the request has `stackmask: {partial: true}`."},
    "Change": record({"op": one_of("add"), "path": TEXT, "value": ANYTHING})
    | {"description": "An operation of JSON Patch (RFC 6902): a part that is final, or an object or array that begins, empty."},
    "AnswerStatistics": record(
        {
            "kind": TEXT_OR_NULL,
            "cache_hit": FLAG,
            **{f"{name}_seconds": SECONDS for name in ("compile", "waiting", "prefill", "mask", "model")},
            **all_of(COUNT, "tokens", "forwards", "jump_tokens", "draft_tokens", "draft_accepted", "rollbacks"),
        }
    ),
    "Usage": _usage("completion_tokens", "prompt_tokens"),
    "TokenLogprob": record({**_TOKEN, "top_logprobs": many(record(_TOKEN))}),
    "Logprobs": record({"content": many(named("TokenLogprob")), "refusal": NULL}),
    "ChatCompletion": record(
        {
            **_HEAD,
            "object": one_of("chat.completion"),
            "choices": many(
                record(
                    {
                        "index": COUNT,
                        "message": record(
                            {"role": one_of("assistant"), "content": TEXT_OR_NULL, "refusal": NULL},
                            {"tool_calls": _calls(delta=False), "reasoning_content": TEXT},
                        ),
                        "logprobs": either(named("Logprobs"), NULL),
                        "finish_reason": FINISH,
                    },
                    CLOSED,
                )
            ),
            "usage": named("Usage"),
            "system_fingerprint": NULL,
        },
        WARNINGS,
    ),
    "ChatCompletionChunk": record(
        {
            **_HEAD,
            "object": one_of("chat.completion.chunk"),
            "choices": many(
                record(
                    {
                        "index": COUNT,
                        "delta": record(
                            {},
                            {
                                "role": one_of("assistant"),
                                "content": TEXT_OR_NULL,
                                "tool_calls": _calls(delta=True),
                                "reasoning_content": TEXT,
                            },
                        ),
                        "logprobs": either(named("Logprobs"), NULL),
                        "finish_reason": FINISH,
                    },
                    _CHOICE_SAID,
                )
            ),
            "system_fingerprint": NULL,
        },
        {"usage": either(named("Usage"), NULL), **WARNINGS},
    ),
    "Completion": record(
        {
            **_HEAD,
            "object": one_of("text_completion"),
            "choices": many(
                record(
                    {
                        "index": COUNT,
                        "text": TEXT,
                        "logprobs": either(_COMPLETION_LOGPROBS, NULL),
                        "finish_reason": one_of("stop", "length", None),
                    },
                    _CHOICE_SAID,
                )
            ),
        },
        {"usage": named("Usage"), **WARNINGS},
    ),
    "OutputText": record({"type": one_of("output_text"), "text": TEXT, "annotations": many(ANYTHING), "logprobs": many(ANYTHING)}),
    "OutputItem": either(
        record(
            {
                "id": TEXT,
                "type": one_of("message"),
                "role": one_of("assistant"),
                "status": named("Status"),
                "content": many(named("OutputText")),
            }
        ),
        record(
            {"id": TEXT, "type": one_of("function_call"), "call_id": TEXT, "name": TEXT, "arguments": TEXT, "status": named("Status")},
        ),
        record({"id": TEXT, "type": one_of("custom_tool_call"), "call_id": TEXT, "name": TEXT, "input": TEXT}),
    ),
    "Status": one_of("in_progress", "completed", "incomplete"),
    "Response": record(
        {
            "id": TEXT,
            "object": one_of("response"),
            "created_at": COUNT,
            "status": named("Status"),
            "error": NULL,
            "incomplete_details": either(record({"reason": one_of("max_output_tokens")}), NULL),
            "instructions": TEXT_OR_NULL,
            "max_output_tokens": {"type": ["integer", "null"]},
            "model": TEXT,
            "output": many(named("OutputItem")),
            "parallel_tool_calls": FLAG,
            "previous_response_id": NULL,
            "store": one_of(False),
            "temperature": NUMBER,
            "text": record({"format": OBJECT}),
            "tool_choice": either(TEXT, OBJECT),
            "tools": many(OBJECT),
            "top_p": NUMBER,
            "truncation": one_of("disabled"),
            "usage": either(_usage("output_tokens", "input_tokens", _DETAILS), NULL),
            "metadata": OBJECT,
        },
        {**CLOSED, **WARNINGS},
    ),
    "ResponseEvent": either(
        *(_event(f"response.{kind}", {"response": named("Response")}) for kind in ("created", "in_progress", "completed", "incomplete")),
        *(_event(f"response.output_item.{kind}", {"output_index": COUNT, "item": named("OutputItem")}) for kind in ("added", "done")),
        *(_event(f"response.content_part.{kind}", {**_PLACE, "part": named("OutputText")}) for kind in ("added", "done")),
        _event("response.output_text.delta", {**_PLACE, "delta": TEXT, "logprobs": many(ANYTHING)}, PARTIAL),
        _event("response.output_text.done", {**_PLACE, "text": TEXT, "logprobs": many(ANYTHING)}, PARTIAL),
        _event("response.function_call_arguments.delta", {**_ITEM, "delta": TEXT}, PARTIAL),
        _event("response.function_call_arguments.done", {**_ITEM, "arguments": TEXT, "name": TEXT}),
        _event("response.custom_tool_call_input.delta", {**_ITEM, "delta": TEXT}),
        _event("response.custom_tool_call_input.done", {**_ITEM, "input": TEXT}),
        _event("error", {"code": TEXT_OR_NULL, "message": TEXT, "param": TEXT_OR_NULL}),
    ),
    "GrammarCheck": record(
        {
            "object": one_of("grammar.check"),
            "field": TEXT_OR_NULL,
            "kind": TEXT,
            "compile_seconds": SECONDS,
            "rules": COUNT,
            "nodes": COUNT,
            "bytes": COUNT,
            "shortest": TEXT_OR_NULL,
        },
        {
            "report": many(record({"pointer": TEXT, "keyword": TEXT, "status": TEXT, "note": TEXT})),
            "report_cut": FLAG,
            **WARNINGS,
            "text": record(
                {"accepted": FLAG, "position": COUNT, "complete": FLAG},
                {
                    "explanation": TEXT,
                    "reasons": many(TEXT),
                    "places": many(TEXT),
                    "nearest": TEXT_OR_NULL,
                    "completion": TEXT_OR_NULL,
                    "missing": many(TEXT),
                },
            ),
        },
    ),
    "InspectorTokenizers": record(
        {
            "object": one_of("grammar.inspector"),
            "tokenizers": many(record({"name": TEXT, "size": COUNT, "exact": FLAG})),
            "model": TEXT,
        }
    ),
    "Inspection": {"type": "object", "description": "docs/inspector.md describes its members, which depend on the views asked for."},
    "Model": record(
        {
            "id": TEXT,
            "object": one_of("model"),
            "created": COUNT,
            "owned_by": TEXT,
            "max_model_len": {"type": ["integer", "null"]},
            "type": one_of("model"),
            "display_name": TEXT,
            "created_at": TEXT,
        }
    ),
    "Models": record(
        {"object": one_of("list"), "data": many(named("Model")), "has_more": one_of(False), "first_id": TEXT, "last_id": TEXT}
    ),
    "Health": record({"status": one_of("ok"), "running": COUNT, "waiting": COUNT, "compiling": COUNT}),
    "Message": record(_MESSAGE, CLOSED),
    "MessageEvent": either(
        record({"type": one_of("message_start"), "message": record(_MESSAGE)}),
        record({"type": one_of("content_block_start"), "index": COUNT, "content_block": _BLOCKS}),
        record(
            {
                "type": one_of("content_block_delta"),
                "index": COUNT,
                "delta": either(
                    *(
                        record({"type": one_of(kind), field: TEXT})
                        for kind, field in (
                            ("text_delta", "text"),
                            ("thinking_delta", "thinking"),
                            ("signature_delta", "signature"),
                            ("input_json_delta", "partial_json"),
                        )
                    )
                ),
            }
        ),
        record({"type": one_of("content_block_stop"), "index": COUNT}),
        record({"type": one_of("message_delta"), "delta": record(_STOP), "usage": record({"output_tokens": COUNT})}, CLOSED),
        record({"type": one_of("message_stop")}),
        named("MessageError"),
    ),
    "TokenCount": record({"input_tokens": COUNT}),
    "OllamaMessage": record(
        {**_LINE, "message": record({"role": one_of("assistant"), "content": TEXT}, _OLLAMA_SAID), "done": FLAG}, _LINE_END
    ),
    "OllamaText": record({**_LINE, "response": TEXT, "done": FLAG}, {**_OLLAMA_SAID, **_LINE_END}),
    "OllamaModels": record(
        {
            "models": many(
                record({"name": TEXT, "model": TEXT, "modified_at": TEXT, "size": COUNT, "digest": TEXT, "details": _MODEL_DETAILS})
            )
        }
    ),
    "OllamaModel": record(
        {
            **all_of(TEXT, "modelfile", "parameters", "template", "modified_at"),
            "details": _MODEL_DETAILS,
            "model_info": OBJECT,
            "capabilities": many(TEXT),
        }
    ),
    "OllamaVersion": record({"version": TEXT}),
    "Decisions": record(
        {
            "answers": many(
                either(
                    record({"type": one_of("predicate"), "probability": PROBABILITY, **_QUESTION}),
                    record(
                        {
                            "type": one_of("score"),
                            "score": NUMBER,
                            "confidence": PROBABILITY,
                            "probabilities": many(record({"label": TEXT, "value": COUNT, "probability": PROBABILITY})),
                            **_QUESTION,
                        }
                    ),
                    record(
                        {
                            "type": one_of("choice"),
                            "choice": {"type": ["string", "boolean"]},
                            "confidence": PROBABILITY,
                            "probabilities": many(record({"value": {"type": ["string", "boolean"]}, "probability": PROBABILITY})),
                            **_QUESTION,
                        }
                    ),
                )
            ),
            "model": TEXT,
            "usage": record({"input_tokens": COUNT, "output_tokens": COUNT, "total_tokens": COUNT, **_DETAILS}),
        }
    ),
    "SystemOne": record(
        {
            "model": TEXT,
            "answers": {
                "type": "object",
                "additionalProperties": either(
                    record({"type": one_of("noul"), "noul": PROBABILITY}),
                    record({"type": one_of("score"), "score": NUMBER, "legend": _LEGEND, **_LEVELS}),
                    record({"type": one_of("choice"), "choice": TEXT, **_LEVELS}),
                ),
            },
            "usage": record({"input_tokens": COUNT, "output_tokens": COUNT}),
        }
    ),
}

EVENTS: Final = "text/event-stream"
LINES: Final = "application/x-ndjson"
ANSWERS: Final[Mapping[tuple[str, str], Mapping[str, Schema]]] = {
    ("post", "/v1/chat/completions"): {
        "application/json": named("ChatCompletion"),
        EVENTS: either(named("ChatCompletionChunk"), named("Error")),
    },
    ("post", "/v1/completions"): {"application/json": named("Completion"), EVENTS: either(named("Completion"), named("Error"))},
    ("post", "/v1/responses"): {"application/json": named("Response"), EVENTS: named("ResponseEvent")},
    ("post", "/v1/messages"): {"application/json": named("Message"), EVENTS: named("MessageEvent")},
    ("post", "/v1/messages/count_tokens"): {"application/json": named("TokenCount")},
    ("post", "/v1/grammar/check"): {"application/json": named("GrammarCheck")},
    ("post", "/v1/grammar/inspect"): {"application/json": named("Inspection")},
    ("get", "/v1/grammar/inspect"): {"application/json": named("InspectorTokenizers")},
    ("post", "/v1/decisions"): {"application/json": named("Decisions")},
    ("post", "/v1/systemone"): {"application/json": named("SystemOne")},
    ("get", "/v1/models"): {"application/json": named("Models")},
    ("get", "/v1/models/{name}"): {"application/json": named("Model")},
    ("get", "/health"): {"application/json": named("Health")},
    ("post", "/api/chat"): {"application/json": named("OllamaMessage"), LINES: either(named("OllamaMessage"), named("OllamaError"))},
    ("post", "/api/generate"): {"application/json": named("OllamaText"), LINES: either(named("OllamaText"), named("OllamaError"))},
    ("get", "/api/tags"): {"application/json": named("OllamaModels")},
    ("get", "/api/ps"): {"application/json": named("OllamaModels")},
    ("post", "/api/show"): {"application/json": named("OllamaModel")},
    ("get", "/api/version"): {"application/json": named("OllamaVersion")},
}
"""The answers of status 200 of each route, by media type."""


def describe_answers(app: FastAPI) -> None:
    """Put the answers into the application's description, whose routes are all there."""
    described = app.openapi()
    schemas = described["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):  # FastAPI's, which this server answers with status 400
        schemas.pop(name, None)
    schemas.update(COMPONENTS)
    for path, methods in described["paths"].items():
        error = "MessageError" if path.startswith("/v1/messages") else "OllamaError" if path.startswith("/api/") else "Error"
        for method, route in methods.items():
            route["responses"].pop("422", None)
            for status, answer in route["responses"].items():
                if status != "200":
                    answer["content"] = {"application/json": {"schema": named(error)}}
                elif found := ANSWERS.get((method, path)):
                    answer["description"] = "The answer, or the data of an event." if EVENTS in found else "The answer."
                    answer["content"] = {media: {"schema": schema} for media, schema in found.items()}
    app.openapi = lambda: described  # type: ignore[method-assign]  # FastAPI makes a new one for every route that is added
