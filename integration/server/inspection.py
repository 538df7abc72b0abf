"""/v1/grammar/inspect and the page before it; `integration.inspector` makes the answers, in a separate process.

What needs the model is added here: how likely it takes the tokens of a text, before and after the mask.
"""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from fastapi import FastAPI, Request
from fastapi.responses import Response

from ...pda.matcher import allocate_token_bitmask
from ..compiler import CompiledGrammar
from ..engine import Constraint
from ..inspector.page import asset
from ..inspector.request import RequestError, Specification, read_request, request_schema
from ..inspector.service import InspectorService, tokenizer_data
from ..inspector.specification import value_of
from .errors import ApiError
from .prompts import render_messages
from .serving import JsonResponse, Serving

MOST_TOKENS: Final = 512
"""Tokens of a text, prompt included, whose probabilities are computed."""


class Inspection:
    """The inspector of one server; its process starts with the first request."""

    def __init__(self, serving: Serving, model_name: str) -> None:
        engine = serving.engine
        self._serving = serving
        self._name = model_name
        self._service = InspectorService([tokenizer_data(model_name, engine.tokenizer, engine.vocabulary)])
        self._model_turn = asyncio.Lock()  # one pass of the model beside the engine's at a time

    def close(self) -> None:
        """End the process."""
        self._service.close()

    def info(self) -> dict[str, Any]:
        """The tokenizers at hand, and the model's name."""
        return {"object": "grammar.inspector", "tokenizers": self._service.tokenizers, "model": self._name}

    async def answer(self, http: Request) -> Response:
        """The answer to a request."""
        body = await http.body()
        status, content = await asyncio.wrap_future(self._service.submit(body))
        if status != 200 or b'"probabilities"' not in body:
            return Response(content, status, media_type="application/json")
        answer = json.loads(content)
        try:
            request = read_request(json.loads(body))
        except RequestError as error:
            raise ApiError(str(error), param=error.field, code="invalid_request") from None
        if "probabilities" in request.views and answer["specification"]["error"] is None:
            async with self._model_turn:
                answer["probabilities"] = await self._probabilities(request.specification, request.text, request.prompt)
        return JsonResponse(answer)

    async def _probabilities(self, given: Specification, text: str, prompt: str) -> dict[str, Any]:
        if not isinstance(self._serving.engine.model, torch.nn.Module):
            return {"tokens": [], "error": "probabilities are computed for models of transformers; this one runs in another library"}
        constraint = Constraint(given.kind, None if given.kind == "json" else value_of(given), dict(given.options))
        tokenizer, planner = self._serving.engine.tokenizer, self._serving.planner
        grammar, _ = await planner.compile(constraint, "specification")
        if getattr(tokenizer, "chat_template", None):
            prompt = render_messages(tokenizer, [{"role": "user", "content": prompt}], tools=None, options={})
        try:
            before = await planner.run(partial(planner.encoder.encode, prompt or "\n", special=False))
            ids = await planner.run(partial(planner.encoder.encode, text, special=False)) if text else []
        except ApiError:
            return {"tokens": [], "error": f"prompt and text are too long; probabilities are computed for at most {MOST_TOKENS} tokens"}
        if len(before) + len(ids) > MOST_TOKENS:
            return {"error": f"prompt and text have {len(before) + len(ids)} tokens; probabilities are computed for at most {MOST_TOKENS}"}
        return await asyncio.to_thread(self._measure, grammar, before, ids)

    def _measure(self, grammar: CompiledGrammar, before: list[int], ids: list[int]) -> dict[str, Any]:
        """Rows [id, start, end, p, q, feasible mass], offsets in bytes, as far as the text fits: q is p among the allowed tokens."""
        engine = self._serving.engine
        model = engine.model
        with torch.inference_mode():
            logits = model(torch.tensor([before + ids], device=model.device)).logits[0, len(before) - 1 :]
            likely = torch.softmax(logits.float(), dim=-1).cpu().numpy()
        matcher = grammar.matcher()
        size = matcher.vocabulary.size
        bitmask = allocate_token_bitmask(1, size)
        rows: list[list[Any]] = []
        at = 0
        for index, token in enumerate(ids):
            matcher.fill_next_token_bitmask(bitmask)
            bits = np.unpackbits(bitmask.view(np.uint8), bitorder="little")[:size].astype(bool)
            mass = float(likely[index][:size][bits].sum())
            end = at + len(matcher.vocabulary.token_bytes(token) or b"")
            p = float(likely[index][token])
            if not matcher.accept_token(token):
                rows.append([token, at, end, p, 0.0, mass])
                break
            rows.append([token, at, end, p, min(1.0, p / mass) if mass > 0 else 0.0, mass])
            at = end
        return {"tokens": rows, "error": None}


def add_inspector(app: FastAPI, errors: dict[int | str, dict[str, Any]]) -> None:
    """Add the page, its files and its route; `app.state.inspection` answers."""

    @app.post(
        "/v1/grammar/inspect",
        responses=errors,
        openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": request_schema()}}}},
    )
    async def grammar_inspect(http: Request) -> Response:
        """Explain a specification and a text: what fits, what is refused and why, and what may come next."""
        inspection: Inspection = app.state.inspection
        return await inspection.answer(http)

    @app.get("/v1/grammar/inspect")
    async def inspector() -> dict[str, Any]:
        """List the tokenizers that inspections may name."""
        inspection: Inspection = app.state.inspection
        return inspection.info()

    @app.get("/inspect", include_in_schema=False)
    @app.get("/inspect/{name}", include_in_schema=False)
    async def page(name: str = "") -> Response:
        """The inspector's page and its files."""
        found = asset(name)
        if found is None:
            raise ApiError(f"there is no GET /inspect/{name} here", status=404, code="unknown_url")
        return Response(found.content, headers=found.headers)
