"""The kernel without Python: example programs in C and Rust give the masks that Python gives, and damaged grammars are errors."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest
from support.programs import NAMES, TOKENS, grammars, random_walk, run, write_vocabulary

ROOT = Path(__file__).resolve().parents[3]
KERNEL = ROOT / "pda" / "kernel"
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g1"]
HEADER = len(b"stackmask grammar\n") + 2 + 8 + 32


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The kernel and its C interface under the sanitizers, and the example in C."""
    compiler, c_compiler = shutil.which("c++") or shutil.which("g++"), shutil.which("cc") or shutil.which("gcc")
    if not compiler or not c_compiler:
        pytest.skip("needs a C and a C++ compiler")
    folder = tmp_path_factory.mktemp("objects")
    cached = [ccache] if (ccache := shutil.which("ccache")) else []
    sources = [path for path in sorted(KERNEL.rglob("*.cpp")) if path.parent.name != "bindings"]

    def compiled(source: Path) -> Path:
        made = folder / f"{source.parent.name}_{source.stem}.o"
        language = [c_compiler, "-std=c99", "-Wpedantic"] if source.suffix == ".c" else [compiler, "-std=c++20"]
        common = ["-Wall", "-Wextra", "-Werror", f"-I{KERNEL}", f"-I{KERNEL / 'c'}", *SANITIZE, "-c", str(source), "-o", str(made)]
        subprocess.run([*cached, *language, *common], check=True)
        return made

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(compiled, [ROOT / "examples" / "masks.c", *sources]))


@pytest.fixture(scope="session")
def program(objects: list[Path]) -> list[str | Path]:
    """The command that runs the example in C."""
    made = objects[0].with_name("masks")
    subprocess.run(["c++", *SANITIZE, *map(str, objects), "-pthread", "-o", str(made)], check=True)
    return [made]


@pytest.fixture(scope="session")
def rust_program(objects: list[Path]) -> list[str | Path]:
    """The command that runs the example in Rust, with the same kernel."""
    if not (compiler := shutil.which("rustc")):
        pytest.skip("needs rustc")
    made = objects[0].with_name("masks_rs")
    linked = [f"-Clink-arg={item}" for item in ("-lasan", "-lubsan", *objects[1:], "-pthread", "-lstdc++")]
    source = ROOT / "examples" / "masks.rs"
    subprocess.run([compiler, "--edition=2021", "-Dwarnings", "-Clinker=c++", *linked, str(source), "-o", str(made)], check=True)
    runtime = subprocess.run(["c++", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout.strip()
    return ["env", f"LD_PRELOAD={runtime}", made]  # a Rust program links the sanitizer's runtime too late


@pytest.fixture(scope="session")
def vocabulary_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The vocabulary as the examples read it."""
    return write_vocabulary(tmp_path_factory.mktemp("vocabulary") / "vocabulary")


@pytest.mark.parametrize("language", ["program", "rust_program"])
@pytest.mark.parametrize("name", NAMES)
def test_masks_are_those_of_python(request: pytest.FixtureRequest, language: str, vocabulary_file: Path, name: str) -> None:
    """After every command the program's mask and state are those of Python's matcher."""
    program, grammar = request.getfixturevalue(language), grammars()[name]
    for seed in range(3):
        commands, said = random_walk(grammar, seed)
        done = run(program, vocabulary_file, grammar.to_bytes(), commands)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines() == said


def with_payload(payload: bytes) -> bytes:
    """A grammar's envelope around these bytes."""
    return b"stackmask grammar\n" + struct.pack("<HQ32s", 1, len(payload), hashlib.sha256(payload).digest()) + payload


def test_damaged_grammars(program: list[str | Path], vocabulary_file: Path) -> None:
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


def test_errors_have_a_text(program: list[str | Path], vocabulary_file: Path) -> None:
    """A token outside of the vocabulary and a rollback behind the beginning are errors that say so."""
    grammar = grammars()["choice"].to_bytes()
    outside, behind = "the token is not in the vocabulary", "there are fewer steps to take back"
    for command, text in ((f"t {len(TOKENS)}", outside), ("t 100000", outside), ("r 1", behind)):
        done = run(program, vocabulary_file, grammar, [command])
        assert done.returncode == 2
        assert done.stderr.strip() == text
