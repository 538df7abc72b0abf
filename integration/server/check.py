"""/v1/grammar/check: what became of a constraint, and where a text leaves it."""

from __future__ import annotations

import asyncio
from typing import Any

from ...pda.matcher import Matcher
from ..compiler import CompiledGrammar
from .constraints import find_constraint
from .errors import ApiError
from .plan import Planner
from .protocol import CheckRequest

SHOWN = 1000  # entries of a report


async def check(planner: Planner, body: CheckRequest) -> dict[str, Any]:
    """The report on a constraint; one that is wrong is an error of status 400 like in any request."""
    constraint, field = find_constraint(body, planner.options.json_whitespace)
    if constraint is None:
        raise ApiError("there is no constraint to check", code="missing_constraint")
    grammar, hit = await planner.compile(constraint, field)
    return await asyncio.to_thread(_report, grammar, body.text, field, hit=hit)  # a completion may be sought for long


def _report(grammar: CompiledGrammar, text: str | None, field: str | None, *, hit: bool) -> dict[str, Any]:
    """What there is to say of a grammar, and of a text in it."""
    stats = grammar.stats
    result: dict[str, Any] = {
        "object": "grammar.check",
        "kind": stats.kind,
        "field": field,
        "cache_hit": hit,
        "compile_seconds": stats.seconds,
        "rules": stats.rules,
        "nodes": stats.nodes,
        "bytes": grammar.size,
        "shortest": _completion(grammar.matcher()),
    }
    if grammar.report is not None:
        entries = grammar.report.entries
        result["report"] = [
            {"pointer": entry.pointer, "keyword": entry.keyword, "status": entry.status, "note": entry.note} for entry in entries[:SHOWN]
        ]
        result["report_cut"] = len(entries) > SHOWN
        result["warnings"] = [f"{entry.pointer}: {entry.note}" for entry in grammar.report.warnings[:SHOWN]]
    if text is not None:
        result["text"] = _try(grammar, text)
    return result


def _try(grammar: CompiledGrammar, text: str) -> dict[str, Any]:
    """Where a text leaves a grammar, or what it lacks."""
    matcher = grammar.matcher()
    data = text.encode("utf-8", "surrogatepass")
    explanation = matcher.explain(data)
    result: dict[str, Any] = {"accepted": explanation.accepted, "position": explanation.position}
    if not explanation.accepted:
        return {**result, "complete": False, "explanation": str(explanation)}
    matcher.accept_bytes(data)
    complete = matcher.is_completed()
    return {**result, "complete": complete, "completion": _completion(matcher)}


def _completion(matcher: Matcher) -> str | None:
    """A shortest completion; None where it needs tokens that have no text."""
    try:
        return matcher.shortest_completion().decode("utf-8", "replace")
    except ValueError:
        return None
