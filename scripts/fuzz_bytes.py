"""Grammars as bytes, changed at random under a checksum that fits: each is refused, or is a grammar that can be used and written again.

    python scripts/fuzz_bytes.py [--seconds 60] [--seed 1]

The grammars are those of every front end. A change replaces, removes, doubles or moves a piece of the JSON, or sets a number to another
one, a small or a huge one. Reading the bytes, a matcher, its first mask and a few tokens take at most a second of processor time and 64 MB
more than the process had. The first line that is wrong is printed with the seed of its case, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import re
import resource
import struct
import sys
import time
from collections import Counter

import stackmask
from stackmask import CompiledGrammar, Compiler, StackmaskError, Vocabulary

MAGIC, HEADER = b"stackmask grammar\n", struct.Struct("<HQ32s")
SECONDS, MEGABYTES = 1.0, 64
NUMBERS = ("0", "1", "-1", "2", "127", "255", "256", "65536", "1114111", "2147483646", "2147483648", "9" * 30, "1e9", "null", "[]", '""')
TOKEN, JSON = {"type": "token", "token": "<end>"}, {"type": "json_schema", "json_schema": {}}
TAG = {"type": "structural_tag", "format": {"type": "sequence", "elements": [TOKEN, JSON]}}
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "pattern": "^[a-c]{2,9}x?$"}, "n": {"type": "number", "multipleOf": 0.5}},
    "required": ["n"],
    "additionalProperties": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
}


def contents(vocabulary: Vocabulary) -> list[bytes]:
    """The JSON of grammars that together have every operator."""
    compiler = Compiler(vocabulary)
    made = [
        compiler.json_schema(SCHEMA),
        compiler.json_schema(SCHEMA, property_order="any"),
        compiler.json(),
        compiler.regex(r"(?=.{4,})[^\d\s]+é(foo|日本)*\.{2,90}"),
        compiler.ebnf('root ::= (sum ("=" [0-9]{2,5})?) | "é" [^a]* \nsum ::= sum "+" num | num \nnum ::= [0-9]+ | "(" sum ")"'),
        compiler.lark('start: "x" word <end>\nword[max_tokens=3, temperature=0.5, capture="w"]: /[a-zé]+ ?/'),
        compiler.choice(["true", "é", "日本語", "🦊"]),
        compiler.structural_tag(TAG),
    ]
    return [grammar.to_bytes()[len(MAGIC) + HEADER.size :] for grammar in made]


def sealed(payload: bytes) -> bytes:
    """A right envelope around any content."""
    return MAGIC + HEADER.pack(1, len(payload), hashlib.sha256(payload).digest()) + payload


def changed(payload: bytes, rng: random.Random) -> bytes:
    """The content with one to four changes, mostly behind the fingerprint of its vocabulary."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        start = rng.randrange(payload.index(b'"report"') if b'"report"' in payload and rng.random() < 0.95 else 1, len(payload))
        end = min(len(payload), start + rng.choice((1, 1, 2, 5, 40)))
        match rng.choices(range(5), (1, 1, 1, 1, 9))[0]:
            case 0:
                payload = payload[:start] + bytes([rng.choice(b'0123456789,[]{}-"\\.e tn\xff\x00')]) + payload[start + 1 :]
            case 1:
                payload = payload[:start] + payload[end:]
            case 2:
                payload = payload[:end] + payload[start:end] * rng.choice((1, 1, 50)) + payload[end:]
            case 3:
                to = rng.randrange(len(payload))
                payload = payload[:to] + payload[start:end] + payload[to:]
            case _:
                if numbers := list(re.finditer(rb"-?\d+", payload[start : start + 200])):
                    at = rng.choice(numbers)
                    payload = payload[: start + at.start()] + rng.choice(NUMBERS).encode() + payload[start + at.end() :]
    return payload


def use(data: bytes, vocabulary: Vocabulary) -> str:
    """Read the bytes and use the grammar; "refused", "used", or "limited" where a limit ended its use."""
    try:
        grammar = CompiledGrammar.from_bytes(data, vocabulary)
    except StackmaskError:
        return "refused"
    assert CompiledGrammar.from_bytes(grammar.to_bytes(), vocabulary).grammar == grammar.grammar, (
        "it is another when it is written and read"
    )
    try:
        matcher, mask = grammar.matcher(), stackmask.allocate_token_bitmask(1, vocabulary.size)
        for _ in range(4):
            matcher.fill_next_token_bitmask(mask)
            allowed = [token for token in range(vocabulary.size) if mask[0, token // 32] >> token % 32 & 1]
            if not allowed:
                break
            assert matcher.accept_token(allowed[len(allowed) // 2]), "the mask allows a token that the matcher refuses"
    except StackmaskError:
        return "limited"
    return "used"


def main() -> int:
    """Change and use, until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="processor time")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    tokens = [*(bytes([byte]) for byte in range(256)), *(text.encode() for text in ("true", '{"', '": ', "ab", "日本", "12")), None, None]
    vocabulary = Vocabulary.from_bytes(tokens, stop_token_ids=[len(tokens) - 1], special={"<end>": len(tokens) - 2})
    bases, ends = contents(vocabulary), Counter[str]()
    slowest = largest = 0.0
    number = 0
    while time.process_time() < arguments.seconds:
        rng = random.Random(f"{arguments.seed}:{number}")
        data = sealed(changed(rng.choice(bases), rng))
        memory, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        try:
            end = use(data, vocabulary)
        except Exception as error:
            print(f"case {arguments.seed}:{number}: {error!r}")
            return 1
        seconds = time.process_time() - start
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024
        if seconds > SECONDS or grown > MEGABYTES:
            print(f"case {arguments.seed}:{number}: {end} after {seconds:.2f} s and {grown:.0f} MB")
            return 1
        ends[end] += 1
        slowest, largest = max(slowest, seconds), max(largest, grown)
        number += 1
    counts = ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))
    print(f"{number} cases: {counts}; at most {slowest:.2f} s, {largest:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
