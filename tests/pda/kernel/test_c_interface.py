"""The kernel without Python: the example program in C gives the masks that Python gives, and damaged grammars are errors."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import numpy as np
import pytest

from stackmask import CompiledGrammar, Compiler, Vocabulary

ROOT = Path(__file__).resolve().parents[3]
KERNEL = ROOT / "pda" / "kernel"
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g1"]
HEADER = len(b"stackmask grammar\n") + 2 + 8 + 32

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


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The example, with the kernel, under the sanitizers; built once for all workers."""
    compiler, c_compiler = shutil.which("c++") or shutil.which("g++"), shutil.which("cc") or shutil.which("gcc")
    if not compiler or not c_compiler:
        pytest.skip("needs a C and a C++ compiler")
    folder = tmp_path_factory.mktemp("c")
    cached = [ccache] if (ccache := shutil.which("ccache")) else []
    sources = [path for path in sorted(KERNEL.rglob("*.cpp")) if path.name != "bindings.cpp"]

    def compiled(source: Path) -> Path:
        made = folder / f"{source.parent.name}_{source.stem}.o"
        language = [c_compiler, "-std=c99", "-Wpedantic"] if source.suffix == ".c" else [compiler, "-std=c++20"]
        common = ["-Wall", "-Wextra", "-Werror", f"-I{KERNEL}", f"-I{KERNEL / 'c'}", *SANITIZE, "-c", str(source), "-o", str(made)]
        subprocess.run([*cached, *language, *common], check=True)
        return made

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compiled, [*sources, ROOT / "examples" / "masks.c"]))
    made = folder / "masks"
    subprocess.run([compiler, *SANITIZE, *map(str, objects), "-pthread", "-o", str(made)], check=True)
    return made


@pytest.fixture(scope="session")
def vocabulary_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The vocabulary as the example reads it."""
    path = tmp_path_factory.mktemp("vocabulary") / "vocabulary"
    tokens = [token or b"" for token in TOKENS]
    data = struct.pack("<III", len(tokens), 1, STOP) + b"".join(struct.pack("<I", len(token)) + token for token in tokens)
    path.write_bytes(data)
    return path


def run(program: Path, vocabulary: Path, grammar: bytes, commands: list[str]) -> subprocess.CompletedProcess[str]:
    """What the program says to these commands."""
    path = vocabulary.with_name(f"grammar-{hashlib.sha256(grammar).hexdigest()[:16]}")
    path.write_bytes(grammar)
    text = "".join(f"{command}\n" for command in commands)
    return subprocess.run([program, vocabulary, path], input=text, capture_output=True, text=True, timeout=300)


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


@pytest.mark.parametrize("name", ["schema", "any order", "json", "regex", "ebnf", "lark", "choice"])
def test_masks_are_those_of_python(program: Path, vocabulary_file: Path, name: str) -> None:
    """After every command the program's mask and state are those of Python's matcher."""
    grammar = grammars()[name]
    for seed in range(3):
        commands, said = random_walk(grammar, seed)
        done = run(program, vocabulary_file, grammar.to_bytes(), commands)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines() == said


def with_payload(payload: bytes) -> bytes:
    """A grammar's envelope around these bytes."""
    return b"stackmask grammar\n" + struct.pack("<HQ32s", 1, len(payload), hashlib.sha256(payload).digest()) + payload


def test_damaged_grammars(program: Path, vocabulary_file: Path) -> None:
    """Bytes that are cut off, of another version, or changed under a hash that fits are an error or a grammar, and never a crash."""
    whole = grammars()["lark"].to_bytes()
    for data in (b"", whole[:20], whole[:-1], whole + b" ", whole[:18] + b"\2" + whole[19:], whole[:HEADER] + b"[" + whole[HEADER + 1 :]):
        done = run(program, vocabulary_file, data, [])
        assert (done.returncode, done.stdout) == (2, "") and len(done.stderr.splitlines()) == 1, done.stderr
    random, payload = Random(7), whole[HEADER:]
    start = payload.index(b'"root"')
    results = set()
    for _ in range(40):
        at = random.randrange(start, len(payload))
        changed = (
            payload[:at] + bytes([random.choice(b'0123456789[],{}"-') if random.random() < 0.7 else payload[at] ^ 1]) + payload[at + 1 :]
        )
        done = run(program, vocabulary_file, with_payload(changed), ["b 7861", "t 97"])
        assert done.returncode in (0, 2) and (done.returncode == 0 or len(done.stderr.splitlines()) == 1), done.stderr
        results.add(done.returncode)
    assert results == {0, 2}


def test_errors_have_a_text(program: Path, vocabulary_file: Path) -> None:
    """A token outside of the vocabulary and a rollback behind the beginning are errors that say so."""
    grammar = grammars()["choice"].to_bytes()
    for command, text in (("t 100000", "the token is not in the vocabulary"), ("r 1", "there are fewer steps to take back")):
        done = run(program, vocabulary_file, grammar, [command])
        assert done.returncode == 2
        assert done.stderr.strip() == text
