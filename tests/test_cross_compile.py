"""The kernel compiled for other systems; in WebAssembly it gives the masks that Python gives."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.programs import grammars, random_walk, run, write_vocabulary

ROOT = Path(__file__).resolve().parents[1]
pytest.importorskip("ziglang", reason="needs the extra `cross`")


def cross_compile(target: str, output: Path, *options: str) -> Path:
    """The library, its objects, or the object of the bindings, made by the script."""
    command = [sys.executable, str(ROOT / "scripts" / "cross_compile.py"), target, "--output", str(output), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return output


def test_webassembly(tmp_path: Path) -> None:
    """After every command the mask and the state in Node are those of Python's matcher; errors of the kernel come out with their text.

    One test, so that one process builds the library.
    """
    if not (node := shutil.which("node")):
        pytest.skip("needs Node")
    program = [
        node,
        "--no-warnings",
        ROOT / "examples" / "wasm" / "masks.mjs",
        cross_compile("wasm32-wasi", tmp_path / "stackmask.wasm", "--level", "1"),
    ]
    vocabulary, states = write_vocabulary(tmp_path / "vocabulary"), 0
    for name, grammar in grammars().items():
        for seed in range(3):
            commands, said = random_walk(grammar, seed)
            done = run(program, vocabulary, grammar.to_bytes(), commands)
            assert (done.returncode, done.stderr, done.stdout.splitlines()) == (0, "", said), name
            states += len(said)
    assert states > 1000
    choice = grammars()["choice"].to_bytes()
    for command, text in (("t 100000", "the token is not in the vocabulary"), ("r 1", "there are fewer steps to take back")):
        done = run(program, vocabulary, choice, [command])
        assert (done.returncode, done.stderr.strip()) == (2, text)
    done = run(program, vocabulary, choice[:-1], [])
    assert done.returncode == 2 and done.stderr.strip()


OBJECTS = [("aarch64-macos", b"\xcf\xfa\xed\xfe"), ("x86_64-windows", b"\x64\x86")]


@pytest.mark.parametrize(("target", "start"), OBJECTS)
def test_other_systems(tmp_path: Path, target: str, start: bytes) -> None:
    """The library compiles without a warning for macOS and Windows.

    It is not linked: ziglang would first compile its libraries for each system, eight minutes of one core. The wheels for both systems are
    linked on machines of their own (.github/workflows/wheels.yml).
    """
    made = [path.read_bytes() for path in cross_compile(target, tmp_path / "objects", "--objects", "--level", "0").glob("*.o")]
    assert len(made) > 1 and all(data.startswith(start) for data in made)


@pytest.mark.parametrize(("target", "start"), OBJECTS)
def test_bindings_of_other_systems(tmp_path: Path, target: str, start: bytes) -> None:
    """The bindings compile without a warning for macOS and Windows."""
    pytest.importorskip("nanobind", reason="needs the extra `cross`")
    found = cross_compile(target, tmp_path / "bindings.o", "--bindings").read_bytes()
    assert found.startswith(start)
    assert b"PyInit__kernel" in found
