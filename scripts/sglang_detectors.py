"""What SGLang's tool detectors read of the calls that its own structural tags let stackmask write.

    scripts/sglang_environment.sh DIR && DIR/bin/python scripts/sglang_detectors.py

For each detector whose constraint is a structural tag: random calls of strict tools, with strings that hold blanks, quotes, line breaks and
markup. Each answer is read at once and in pieces; every call must have a known tool and arguments that its schema allows.
A table says how many answers were read otherwise; `--show` prints the first of them. What remains are parsers' own limits, which
docs/sglang.md lists.
"""

from __future__ import annotations

import json
import logging
import random
import sys
from collections.abc import Callable
from typing import Any

from random_calls import SCHEMAS, SPECIAL, compiled, fits, pieces_of, token_names, walk

from stackmask.integration.sglang.answer_frames import completed_tag
from stackmask.pda.limits import Limits


def main() -> None:
    """Check the detectors named on the command line, or all."""
    import sglang_stage  # noqa: F401 (before the rest of SGLang)
    from sglang.srt.entrypoints.openai.protocol import Tool
    from sglang.srt.function_call.function_call_parser import FunctionCallParser

    logging.disable(logging.CRITICAL)
    tools = [Tool(type="function", function={"name": name, "parameters": schema, "strict": True}) for name, schema in SCHEMAS.items()]
    shows = "--show" in sys.argv
    for name in [name for name in sys.argv[1:] if name != "--show"] or sorted(FunctionCallParser.ToolCallParserEnum):
        try:
            kind, tag = FunctionCallParser(tools, name).get_structure_constraint("required") or ("none", None)
        except ValueError as error:
            print(f"{name:18} {error}")
            continue
        if kind != "structural_tag":
            print(f"{name:18} asks for {kind}")
            continue
        text = tag if isinstance(tag, str) else json.dumps(tag.model_dump(by_alias=True))
        print(f"{name:18} {check(lambda name=name: FunctionCallParser(tools, name), text, shows)}", flush=True)


def check(parser: Callable[[], Any], tag: str, shows: bool, answers: int = 60) -> str:
    """How many of some answers in a structural tag are read as calls that the schemas do not allow, at once and in pieces."""
    value = completed_tag(tag, None, Limits())
    grammar = compiled(value, set(token_names(value)))
    rng, written, wrong, first = random.Random(2), 0, {"at once": 0, "in pieces": 0}, ""
    for _ in range(answers):
        text = walk(grammar, rng)
        if text is None:
            continue
        written += 1
        for how, read in (("at once", read_whole), ("in pieces", read_pieces)):
            try:
                calls = read(parser(), text, rng)
            except Exception as error:
                calls = [(f"{type(error).__name__}: {error}", "")]
            is_right = fits(calls)
            wrong[how] += not is_right
            if not is_right and not first:
                first = f"\n    {how}: {text!r}\n    read as {calls}"
    return f"{written} answers, read otherwise: {wrong['at once']} at once, {wrong['in pieces']} in pieces{first if shows else ''}"


def read_whole(parser: Any, text: str, rng: random.Random) -> list[tuple[str, str]]:
    """The calls of a whole text."""
    _, calls = parser.parse_non_stream(text)
    return [(call.name, call.parameters) for call in calls]


def read_pieces(parser: Any, text: str, rng: random.Random) -> list[tuple[str, str]]:
    """The calls of a text that arrives in pieces."""
    found: dict[int, tuple[str, str]] = {}
    for piece in [*pieces_of(text, SPECIAL, rng), None]:
        _, calls = parser.parse_stream_end() if piece is None else parser.parse_stream_chunk(piece)
        for call in calls:
            name, arguments = found.get(call.tool_index, ("", ""))
            found[call.tool_index] = (call.name or name, arguments + (call.parameters or ""))
    return [found[index] for index in sorted(found)]


if __name__ == "__main__":
    main()
