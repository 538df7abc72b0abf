"""Facts about a grammar and a text in it, as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...pda.engine import completion_lengths
from ...pda.exceptions import LimitError
from ...pda.matcher import Matcher

if TYPE_CHECKING:
    from .compiled_grammar import CompiledGrammar

SHOWN: Final = 1000  # entries of a report
LONGEST: Final = 4096  # bytes of a completion that is shown


def check_text(grammar: CompiledGrammar, text: str | None) -> dict[str, Any]:
    """Describe how a specification was compiled, and where a text violates it."""
    stats = grammar.stats
    result: dict[str, Any] = {
        "kind": stats.kind,
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
        result["warnings"] = list(grammar.warnings[:SHOWN])
    if text is not None:
        result["text"] = _try(grammar, text)
    return result


def _try(grammar: CompiledGrammar, text: str) -> dict[str, Any]:
    """The place at which a text violates a grammar, or the part that it lacks."""
    matcher = grammar.matcher()
    data = text.encode("utf-8", "surrogatepass")
    explanation = matcher.explain(data)
    result: dict[str, Any] = {"accepted": explanation.accepted, "position": explanation.position}
    if not explanation.accepted:
        nearest = None if explanation.nearest is None else explanation.nearest.decode("utf-8", "replace")
        said = {"reasons": list(explanation.reasons), "places": list(explanation.places), "nearest": nearest}
        return {**result, "complete": False, "explanation": str(explanation), **said}
    missing = matcher.missing(data)
    matcher.accept_bytes(data)
    complete = matcher.is_completed()
    return {**result, "complete": complete, "completion": _completion(matcher), **({} if complete else {"missing": list(missing)})}


def _completion(matcher: Matcher) -> str | None:
    """A shortest completion; None if it needs tokens without text, is too long, or is not found within the limits."""
    if completion_lengths((matcher,))[0] > LONGEST:
        return None
    try:
        return matcher.shortest_completion().decode("utf-8", "replace")
    except (ValueError, LimitError):
        return None
