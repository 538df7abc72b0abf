"""What SGLang's tool detectors read of the calls that its own structural tags let stackmask write.

    scripts/sglang_environment.sh DIR && DIR/bin/python scripts/sglang_detectors.py

For each detector whose constraint is a structural tag: random calls of strict tools, with strings that hold blanks, quotes, line breaks and
markup. Each answer is read at once and in pieces; every call must have a known tool and arguments that its schema allows.
A table says how many answers were read otherwise. What remains are parsers' own limits, which docs/sglang.md lists.
"""

from __future__ import annotations

import json
import logging
import random
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from jsonschema import Draft202012Validator

from stackmask import Compiler, Vocabulary
from stackmask.integration.sglang.answer_frames import completed_tag
from stackmask.pda.limits import Limits
from stackmask.schema.structural_tag.notations import NOTATIONS

STRING = {"type": "string"}
CODE = {**STRING, "pattern": "^[A-Z]{2}[0-9]$"}
WORD = {**STRING, "minLength": 2, "maxLength": 4}
LISTS = {"tags": {"type": "array", "items": STRING}, "n": {"type": "array", "items": {"type": "integer"}}}
TOOLS: dict[str, dict[str, Any]] = {
    "note": {"properties": {"text": STRING, "kind": {"enum": ["Ulm", "a b", "x"]}}, "required": ["text", "kind"]},
    "pick": {"properties": {"code": CODE, "word": WORD, "on": {"type": "boolean"}}, "required": ["code", "word", "on"]},
    "now": {"properties": {}},
    "deep": {"properties": LISTS, "required": ["tags", "n"]},
}
SCHEMAS = {name: {"type": "object", "additionalProperties": False, **parts} for name, parts in TOOLS.items()}
WORDS = [
    "    Ulm    ",
    "Ulm\n",
    "\nUlm",
    " ",
    'say "hi"',
    "a < b",
    "x<y>z",
    "Tom & Jerry",
    "&amp;",
    "\\n",
    "é 你好",
    "{}",
    "[1]",
    "12",
    "true",
]
ENDS = sorted({notation.close for notation in NOTATIONS.values() if notation.close} | {'"', "]", "}", "\n"})
SPECIAL = re.compile(r"(<[|｜][^<>\s]*?[|｜]>)")  # tokens, which arrive whole
LIKELY = frozenset(b'"<}]>/ \n\tUabx012')


def main() -> None:
    """Check the detectors named on the command line, or all."""
    from sglang.srt.entrypoints.openai.protocol import Tool
    from sglang.srt.function_call.function_call_parser import FunctionCallParser

    logging.disable(logging.CRITICAL)
    tools = [Tool(type="function", function={"name": name, "parameters": schema, "strict": True}) for name, schema in SCHEMAS.items()]
    for name in sys.argv[1:] or sorted(FunctionCallParser.ToolCallParserEnum):
        try:
            kind, tag = FunctionCallParser(tools, name).get_structure_constraint("required") or ("none", None)
        except ValueError as error:
            print(f"{name:18} {error}")
            continue
        if kind != "structural_tag":
            print(f"{name:18} asks for {kind}")
            continue
        text = tag if isinstance(tag, str) else json.dumps(tag.model_dump(by_alias=True))
        print(f"{name:18} {check(lambda name=name: FunctionCallParser(tools, name), text)}", flush=True)


def check(parser: Callable[[], Any], tag: str, answers: int = 60) -> str:
    """How many of some answers in a structural tag are read as calls that the schemas do not allow, at once and in pieces."""
    value = completed_tag(tag, None, Limits())
    names = sorted(set(_names(value)))
    special = {name: 256 + place for place, name in enumerate(names)}
    tokens = [*(bytes((byte,)) for byte in range(256)), *[None] * len(names), None]
    grammar = Compiler(Vocabulary.from_bytes(tokens, stop_token_ids=[len(tokens) - 1], special=special)).structural_tag(value)
    rng, written, wrong = random.Random(2), 0, {"at once": 0, "in pieces": 0}
    for _ in range(answers):
        text = walk(grammar, rng)
        if text is None:
            continue
        written += 1
        _, calls = parser().parse_non_stream(text)
        wrong["at once"] += not fits((call.name, call.parameters) for call in calls)
        wrong["in pieces"] += not fits(read_pieces(parser(), text, rng))
    return f"{written} answers, read otherwise: {wrong['at once']} at once, {wrong['in pieces']} in pieces"


def read_pieces(parser: Any, text: str, rng: random.Random) -> Iterator[tuple[str, str]]:
    """The calls of a text that arrives in pieces."""
    found: dict[int, tuple[str, str]] = {}
    size, pieces = rng.choice([1, 4, 12]), list[str]()
    for place, part in enumerate(SPECIAL.split(text)):
        while part:
            end = len(part) if place % 2 else rng.randint(1, size)
            pieces.append(part[:end])
            part = part[end:]
    for piece in [*pieces, None]:
        _, calls = parser.parse_stream_end() if piece is None else parser.parse_stream_chunk(piece)
        for call in calls:
            name, arguments = found.get(call.tool_index, ("", ""))
            found[call.tool_index] = (call.name or name, arguments + (call.parameters or ""))
    yield from (found[index] for index in sorted(found))


def fits(calls: Iterator[tuple[str, str]] | Any) -> bool:
    """Whether there are calls, all of known tools with arguments that their schemas allow."""
    try:
        read = [(name, json.loads(arguments)) for name, arguments in calls]
    except ValueError:
        return False
    return bool(read) and all(name in SCHEMAS and Draft202012Validator(SCHEMAS[name]).is_valid(value) for name, value in read)


def walk(grammar: Any, rng: random.Random, most: int = 400) -> str | None:
    """A random text of a grammar; None where it does not end."""
    matcher, names = grammar.matcher(), {token: name for name, token in grammar.vocabulary.special.items()}
    stop, data = grammar.vocabulary.stop_token_ids[0], b""
    for _ in range(most):
        allowed = matcher.allowed_tokens()
        if data and stop in allowed and (len(allowed) == 1 or rng.random() < 0.3):
            return data.decode("utf-8", "replace")
        word = rng.choice(ENDS if rng.random() < 0.6 else WORDS).encode()
        if len(allowed) > 20 and matcher.accept_bytes(word):
            data += word
            continue
        plain = [token for token in allowed if 31 < token < 127] or [token for token in allowed if token != stop]
        token = rng.choice([token for token in plain if token in LIKELY] or plain)
        assert matcher.accept_token(token)
        data += names[token].encode() if token in names else bytes((token,))
    return None


def _names(value: Any) -> Iterator[str]:
    """The names of special tokens in a structural tag."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("token", "trigger_tokens", "exclude_tokens"):
                yield from (name for name in (inner if isinstance(inner, list) else [inner]) if isinstance(name, str))
            yield from _names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _names(inner)


if __name__ == "__main__":
    main()
