"""Random calls of strict tools in a structural tag, and whether a reader of an engine gives them back.

Shared by `sglang_detectors.py` and `vllm_parsers.py`: the strings hold blanks, quotes, line breaks and markup.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from jsonschema import Draft202012Validator

from stackmask import CompiledGrammar, Compiler, Vocabulary
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


def compiled(tag: Any, special: Collection[str]) -> CompiledGrammar:
    """The grammar of a structural tag for a vocabulary of bytes and of these special tokens."""
    names = sorted(special)
    tokens = [*(bytes((byte,)) for byte in range(256)), *[None] * len(names), None]
    ids = {name: 256 + place for place, name in enumerate(names)}
    return Compiler(Vocabulary.from_bytes(tokens, stop_token_ids=[len(tokens) - 1], special=ids)).structural_tag(tag)


def pieces_of(text: str, special: re.Pattern[str], rng: random.Random) -> list[str]:
    """A text in pieces of random length; what `special` finds, in a group of its own, is not cut."""
    size, pieces = rng.choice([1, 4, 12]), list[str]()
    for place, part in enumerate(special.split(text)):
        while part:
            end = len(part) if place % 2 else rng.randint(1, size)
            pieces.append(part[:end])
            part = part[end:]
    return pieces


def fits(calls: Iterable[tuple[str, str]]) -> bool:
    """Whether there are calls, all of known tools with arguments that their schemas allow."""
    try:
        read = [(name, json.loads(arguments)) for name, arguments in calls]
    except ValueError:
        return False
    return bool(read) and all(name in SCHEMAS and Draft202012Validator(SCHEMAS[name]).is_valid(value) for name, value in read)


def walk(grammar: CompiledGrammar, rng: random.Random, most: int = 400) -> str | None:
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
        tokens = [token for token in allowed if token in names and token != stop]
        plain = [token for token in allowed if 31 < token < 127] or [token for token in allowed if token != stop]
        if tokens and rng.random() < 0.3:
            plain = tokens  # as after a number, which could have more digits
        token = rng.choice([token for token in plain if token in LIKELY] or plain)
        assert matcher.accept_token(token)
        data += names[token].encode() if token in names else bytes((token,))
    return None


def token_names(value: Any) -> Iterator[str]:
    """The names of special tokens in a structural tag."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("token", "trigger_tokens", "exclude_tokens"):
                yield from (name for name in (inner if isinstance(inner, list) else [inner]) if isinstance(name, str))
            yield from token_names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from token_names(inner)
