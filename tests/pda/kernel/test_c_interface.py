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

import numpy as np
import pytest
from support.programs import KERNEL, NAMES, STOP, TOKENS, VOCABULARY, grammars, random_walk, run, write_vocabulary
from support.scripts import script

from stackmask import Compiler

ROOT = Path(__file__).resolve().parents[3]
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
    sources = script("cross_compile").joined_sources(folder)

    def compiled(source: Path) -> Path:
        made = folder / f"{source.stem}.o"
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


def test_names_beyond_ascii(program: list[str | Path], vocabulary_file: Path) -> None:
    """Keys of two, three and four bytes a character, before letters and digits of escapes, are those that Python wrote."""
    keys = ["éa", "ß", "日0", "🦊f"]
    schema = {"type": "object", "properties": {key: {"type": "integer"} for key in keys}, "additionalProperties": {"type": "string"}}
    grammar = Compiler(VOCABULARY).json_schema(schema, whitespace="compact").to_bytes()
    for key in (*keys, "é", "日", "🦊", "ßf"):
        for value in ("1", '"x"'):
            done = run(program, vocabulary_file, grammar, ["b " + f'{{"{key}":{value}}}'.encode().hex()])
            assert (done.returncode, done.stderr) == (0, "")
            assert done.stdout.splitlines()[1].split()[1] == str(int((key in keys) == (value == "1"))), (key, value)


FORCED = """
#include <stdio.h>
#include <string.h>
#include "stackmask.h"
int main(int argc, char** argv) {
  static char data[65536];
  FILE* file = fopen(argv[argc - 1], "rb");
  size_t size = fread(data, 1, sizeof data, file), needed = 0;
  const stackmask_bytes tokens[] = {{"a", 1}, {"b", 1}, {"", 0}};
  const uint32_t stop = 2;
  stackmask_vocabulary* vocabulary;
  stackmask_grammar* grammar;
  stackmask_matcher* matcher;
  fclose(file);
  if (stackmask_vocabulary_new(tokens, 3, 3, &stop, 1, NULL, 0, NULL, &vocabulary) ||
      stackmask_grammar_new(vocabulary, data, size, NULL, &grammar) || stackmask_matcher_new(grammar, &matcher)) return 1;
  for (size_t capacity = 0; capacity < 6; capacity++) {
    char text[8] = "......";
    const stackmask_status status = stackmask_matcher_forced_bytes(matcher, capacity ? text : NULL, capacity, &needed);
    printf("%d %zu %s\\n", status == STACKMASK_OK, needed, text);
  }
  for (size_t capacity = 1; capacity < 3; capacity++)
    printf("%d\\n", stackmask_matcher_forced_bytes(matcher, NULL, capacity, &needed) == STACKMASK_OK);
  printf("%d\\n", stackmask_matcher_forced_bytes(matcher, data, 1, NULL) == STACKMASK_OK);
  stackmask_matcher_free(matcher);
  stackmask_grammar_free(grammar);
  stackmask_vocabulary_free(vocabulary);
  return 0;
}
"""


def test_forced_bytes_go_as_far_as_the_buffer(objects: list[Path]) -> None:
    """The size is that of all forced bytes, without a buffer too; a NULL that is said to have room is refused."""
    source, grammar = objects[0].with_name("forced.c"), objects[0].with_name("forced.grammar")
    source.write_text(FORCED)
    grammar.write_bytes(Compiler(VOCABULARY).regex("abab[cd]").to_bytes())
    made = objects[0].with_name("forced")
    compiled = made.with_suffix(".o")
    subprocess.run(
        ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{KERNEL / 'c'}", *SANITIZE, "-c", source, "-o", compiled], check=True
    )
    subprocess.run(["c++", *SANITIZE, compiled, *objects[1:], "-pthread", "-o", made], check=True)
    done = subprocess.run([made, grammar], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    filled = [f"1 4 {'abab'[:capacity].ljust(6, '.')}" for capacity in range(6)]
    assert done.stdout.splitlines() == [*filled, "0", "0", "0"]


@pytest.fixture(scope="session")
def allocations(objects: list[Path]) -> Path:
    """The program that lets allocations fail, with the kernel under the sanitizers."""
    made, compiled = objects[0].with_name("allocations"), objects[0].with_name("allocations.o")
    source = Path(__file__).with_name("allocations.cpp")
    subprocess.run(
        ["c++", "-std=c++20", "-Wall", "-Wextra", "-Werror", f"-I{KERNEL / 'c'}", *SANITIZE, "-c", source, "-o", compiled], check=True
    )
    subprocess.run(["c++", *SANITIZE, compiled, *objects[1:], "-Wl,--wrap=realloc,--wrap=calloc", "-pthread", "-o", made], check=True)
    return made


def with_refusals(allocations: Path, vocabulary_file: Path, name: str, *ways: str) -> dict[str, int]:
    """The calls that failed, by function, while allocations were refused; the matcher and its grammar are checked behind each."""
    grammar = grammars()[name]
    matcher = grammar.matcher()
    random, mask, text = Random(3), np.zeros((1, -(-VOCABULARY.size // 32)), np.int32), []
    while len(text) < 2:
        matcher.fill_next_token_bitmask(mask)
        allowed = [token for token in range(STOP) if mask[0][token // 32] >> token % 32 & 1]
        if not allowed:
            break
        text.append(random.choice([token for token in allowed if len(TOKENS[token] or b"") > 1] or allowed))
        assert matcher.accept_token(text[-1])
    path = vocabulary_file.with_name(f"grammar of {name}")
    path.write_bytes(grammar.to_bytes())
    commands = "".join(f"{token}\n" for token in text)
    done = subprocess.run([allocations, vocabulary_file, path, *ways], input=commands, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    return {function: int(count) for function, count, _ in map(str.split, done.stdout.splitlines())} | {"steps": len(text)}


@pytest.mark.parametrize("name", NAMES)
def test_every_allocation_may_fail(allocations: Path, vocabulary_file: Path, name: str) -> None:
    """Each allocation of each call fails in turn, alone or with all after it: the call says so, matchers are as before, nothing leaks."""
    failed = with_refusals(allocations, vocabulary_file, name, "0", "1")
    assert failed["fill"] > 10 and failed["grammar_new"] > 50 and failed["accept_token"] >= failed["steps"] and failed["matcher_fork"] > 0
    assert not failed["lost"]


@pytest.mark.parametrize(("name", "ways"), [("choice", ("0", "0", "1")), ("choice", ("5", "6"))])
def test_tables_may_be_lost(allocations: Path, vocabulary_file: Path, name: str, ways: tuple[str, ...]) -> None:
    """An allocation fails while tables are copied, to stay within their bound or behind another one that failed: all later calls say so."""
    assert with_refusals(allocations, vocabulary_file, name, *ways)["lost"] > 10
