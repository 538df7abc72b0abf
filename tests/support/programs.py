"""Programs in other languages that use the kernel through its C interface: what they read, and what Python says to the same commands."""

from __future__ import annotations

import hashlib
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np

from stackmask import CompiledGrammar, Compiler, Vocabulary

KERNEL = Path(__file__).resolve().parents[2] / "pda" / "kernel"

WORDS = ("true", "false", "null", '{"', '":', '", "', '"}', '": "', "[[", "]]", "ab", "é", "\\u00", "12", "12.5", "  ", "日本", "é\xa0")
TOKENS: list[bytes | None] = [*(bytes((byte,)) for byte in range(256)), *(word.encode() for word in WORDS), b"\xc3", b"a\xc3", None, None]
STOP, SPECIAL = len(TOKENS) - 1, len(TOKENS) - 2
VOCABULARY = Vocabulary.from_bytes(TOKENS, stop_token_ids=[STOP], special={"<end>": SPECIAL})

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 9}, "é": {"enum": ["ü", 1, None]}, "n": {"type": "number"}},
    "required": ["é"],
    "additionalProperties": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
}


def write_vocabulary(path: Path) -> Path:
    """The vocabulary as the programs read it."""
    tokens = [token or b"" for token in TOKENS]
    data = struct.pack("<III", len(tokens), 1, STOP) + b"".join(struct.pack("<I", len(token)) + token for token in tokens)
    path.write_bytes(data)
    return path


def run(program: Sequence[str | Path], vocabulary: Path, grammar: bytes, commands: list[str]) -> subprocess.CompletedProcess[str]:
    """What the program says to these commands."""
    path = vocabulary.with_name(f"grammar-{hashlib.sha256(grammar).hexdigest()[:16]}")
    path.write_bytes(grammar)
    text = "".join(f"{command}\n" for command in commands)
    return subprocess.run([*program, vocabulary, path], input=text, capture_output=True, text=True, timeout=300)


def random_walk(grammar: CompiledGrammar, seed: int) -> tuple[list[str], list[str]]:
    """Commands, and what the program says to each: tokens that are allowed and that are not, texts, rollbacks, forks."""
    random, matcher = Random(seed), grammar.matcher()
    mask = np.zeros((1, -(-VOCABULARY.size // 32)), np.int32)

    def state() -> str:
        matcher.fill_next_token_bitmask(mask)
        words = "".join(f"{word & 0xFFFFFFFF:08x}" for word in mask[0].tolist())
        forced = matcher.find_jump_forward_bytes()
        return f"{words} {matcher.is_completed():d} {matcher.is_terminated():d} {matcher.num_accepted} {forced.hex()}"

    commands, said = [], [state()]
    for _ in range(120):
        allowed = [token for token in range(VOCABULARY.size) if mask[0][token // 32] >> token % 32 & 1]
        choice = random.random()
        if choice < 0.7:
            token = random.choice(allowed if allowed and random.random() < 0.8 else range(VOCABULARY.size))
            commands.append(f"t {token}")
            assert matcher.accept_token(token) == (token in allowed)
        elif choice < 0.85:
            text = b"".join(TOKENS[random.choice(allowed or [0])] or b"" for _ in range(2))
            commands.append(f"b {text.hex()}")
            matcher.accept_bytes(text)
        elif choice < 0.95:
            steps = random.randint(0, min(matcher.num_accepted, 5))
            commands.append(f"r {steps}")
            matcher.rollback(steps)
        else:
            commands.append("f")
            matcher = matcher.fork()
        said.append(state())
    return commands, said


def grammars() -> dict[str, CompiledGrammar]:
    """Grammars that together have every operator."""
    compiler = Compiler(VOCABULARY)
    ebnf = 'root ::= (sum ("=" [0-9]{2,5})?) | "é" [^a]* "\\"" \nsum ::= sum "+" num | num \nnum ::= [0-9]+ | "(" sum ")"'
    lark = 'start: "x" word <end>\nword[max_tokens=3, temperature=0.5, capture="w"]: /[a-zé]+ ?/'
    return {
        "schema": compiler.json_schema(SCHEMA),
        "any order": compiler.json_schema(SCHEMA, property_order="any"),
        "json": compiler.json(),
        "regex": compiler.regex(r"(?=.{4,})[^\d\s]+é(foo|日本)*\."),
        "ebnf": compiler.ebnf(ebnf),
        "lark": compiler.lark(lark),
        "choice": compiler.choice(["true", "é", "日本語", "🦊"]),
    }


NAMES = ("schema", "any order", "json", "regex", "ebnf", "lark", "choice")
