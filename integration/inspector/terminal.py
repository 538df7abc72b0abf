"""An inspection as text in the colours of a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, Final, TextIO

_CODES: Final = {
    "fits": "32",
    "forced": "35;4",
    "refused": "97;41",
    "rest": "2;9",
    "unknown": "2",
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
}
"""SGR parameters (ECMA-48) of each flag of a trace."""
SHOWN: Final = 12
"""Tokens, bounds and characters that are listed."""


def write_trace(answer: Mapping[str, Any], text: str, stream: TextIO | None = None, *, colours: bool | None = None) -> None:
    """Print an answer with the views trace, tokens and cursor. `colours` None: where the stream is a terminal and NO_COLOR is not set."""
    stream = stream or sys.stdout
    if colours is None:
        colours = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    for line in trace_lines(answer, text, colours=colours):
        print(line, file=stream)


def trace_lines(answer: Mapping[str, Any], text: str, *, colours: bool) -> list[str]:
    """The lines of `write_trace`."""

    def paint(piece: str, name: str) -> str:
        return f"\x1b[{_CODES[name]}m{piece}\x1b[0m" if colours and piece else piece

    given = answer["specification"]
    if given["error"] is not None:
        lines = [paint("no grammar: ", "red") + _plain(given["error"]["message"])]
        problems = [problem for problem in given["error"]["problems"] if problem["message"] != given["error"]["message"]]
        return lines + [f"  {problem.get('pointer') or ''} {_plain(problem['message'])}" for problem in problems[:SHOWN]]
    lines = [
        paint(f"{given['kind']}: {given['rules']} rules, {given['nodes']} nodes, compiled in {given['compile_milliseconds']:.2f} ms", "dim")
    ]
    trace, refusal = answer["trace"], answer["trace"]["refusal"]
    if text:
        lines.append("".join(paint(_plain(text[start:end]), flag) for start, end, flag in trace["spans"]))
    if refusal is not None:
        lines.append(paint("refused", "red") + f" at line {refusal['line']}, column {refusal['column']}: {_plain(refusal['sentence'])}")
        lines += [f"  {_plain(reason)}" for reason in refusal["reasons"]]
        place = refusal["place"]
        if place is not None:
            names = [place["pointer"] or "/"] if "pointer" in place else []
            names += [f"rule {place['rule']}"] if "rule" in place else []
            name = ", ".join(names) or "the pattern"
            line = f" (line {place['line']}, column {place['column']})" if place.get("line") else ""
            lines.append(f"  because of {_plain(name)}{line}" + (f": {_plain(place['reason'])}" if place.get("reason") else ""))
        found = refusal["nearest"]
        if found["completion"] is not None:
            lines.append("  nearest accepted text: " + paint(_plain(found["kept"]), "dim") + paint(_plain(found["completion"]), "bold"))
    else:
        lines.append(paint("complete", "green") if trace["complete"] else "fits so far")
    lines += _cursor_lines(answer["cursor"], paint)
    lines += _token_lines(answer["tokens"], paint, text)
    return lines


def _cursor_lines(cursor: Mapping[str, Any], paint: Any) -> list[str]:
    lines = []
    if cursor.get("path") is not None:
        lines.append(
            "  path      " + " > ".join(["root", *(f"[{part}]" if isinstance(part, int) else _plain(part) for part in cursor["path"])])
        )
    lines.append("  rules     " + " > ".join(_plain(rule) for rule in cursor["rules"]))
    if cursor["forced"]:
        lines.append("  forced    " + paint(_plain(cursor["forced"][:200]), "forced"))
    if cursor["completion"]:
        lines.append("  shortest  " + _plain(cursor["completion"][:200]))
    for bound in cursor.get("bounds", ())[:SHOWN]:
        sides = [f"at least {bound['minimum']}"] * (bound["minimum"] is not None) + [f"at most {bound['maximum']}"] * (
            bound["maximum"] is not None
        )
        lines.append(f"  bound     {bound['used']} {bound['unit']} of {', '.join(sides)} ({bound['pointer'] or '/'})")
    allowed = cursor["allowed"]
    shown = " ".join(repr(text) for _, text, _ in allowed["rows"][:SHOWN])
    lines.append(f"  allowed   {allowed['total']} of {allowed['size']} tokens: {shown}{' ...' if allowed['total'] > SHOWN else ''}")
    return lines


def _token_lines(strip: Mapping[str, Any], paint: Any, text: str) -> list[str]:
    """A row for each token: its text, the number of allowed tokens, and the times of mask and step."""
    data = text.encode("utf-8", "surrogatepass")
    lines = [paint(f"  {'token':>24}  {'':8} {'allowed':>8} {'mask us':>8} {'step us':>8}", "dim")] if strip["tokens"] else []
    flags = {"forced": "forced", "chosen": "fits", "refused": "refused", "after": "rest", "unknown": "unknown"}
    for _, start, end, status, allowed, mask, step in strip["tokens"][:200]:
        piece = repr(data[start:end].decode("utf-8", "backslashreplace"))[:24]
        numbers = f"{allowed:8} {mask:8.1f} {step:8.1f}" if allowed is not None else ""
        lines.append(f"  {' ' * (24 - len(piece))}{paint(piece, flags[status])}  {status:8} {numbers}".rstrip())
    return lines


def _plain(text: str) -> str:
    """Text that moves no cursor and sets no colour: control characters are shown as their names."""
    return "".join(char if char.isprintable() or char == "\n" else f"\\x{ord(char):02x}" for char in text)
