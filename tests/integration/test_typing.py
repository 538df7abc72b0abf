"""What type checkers see of `generate`: the type that was asked for."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
PROGRAM = """
import enum
from dataclasses import dataclass
from typing import Any, Literal, Optional, Union

import stackmask
from pydantic import BaseModel, TypeAdapter


class Person(BaseModel):
    name: str
    age: int


@dataclass
class Point:
    x: int


class Colour(enum.Enum):
    RED = "red"


def book(city: str, nights: int = 1) -> None: ...


model: Any = None
tokenizer: Any = None
generator = stackmask.Generator(model, tokenizer)
schema: dict[str, Any] = {}


async def main() -> None:
    reveal_type((await stackmask.generate_async(model, tokenizer, "", json_schema=Person)).parsed)  # Person | None
    reveal_type((await generator.generate_async("", choice=["a"])).parsed)  # str | None


reveal_type(stackmask.generate(model, tokenizer, "", json_schema=Person, temperature=1.0))  # Generation[Person]
reveal_type(stackmask.generate(model, tokenizer, "", json_schema=Point).parsed)  # Point | None
reveal_type(stackmask.generate(model, tokenizer, "", json_schema=Colour).parsed)  # Colour | None
reveal_type(generator.generate("", json_schema=Literal["a", "b"]).parsed)  # Literal['a'] | Literal['b'] | None
reveal_type(generator.generate("", json_schema=Person | int).parsed)  # Person | int | None
reveal_type(generator.generate("", json_schema=Optional[int]).parsed)  # int | None
reveal_type(generator.generate("", json_schema=Union[Person, str]).parsed)  # Person | str | None
reveal_type(generator.generate("", json_schema=set[int]).parsed)  # set[int] | None
reveal_type(generator.generate("", json_schema=TypeAdapter(list[Person])).parsed)  # list[Person] | None
reveal_type(generator.generate("", json_schema=schema))  # Generation[Any]
reveal_type(generator.generate("", json_schema={"type": "integer"}))  # Generation[Any]
reveal_type(generator.generate("", json_schema=book))  # Generation[Any]
reveal_type(generator.generate("", json=True))  # Generation[Any]
reveal_type(stackmask.generate(model, tokenizer, "", regex="a+"))  # Generation[str]
reveal_type(stackmask.generate_batch(model, tokenizer, [""], json_schema=Person))  # list[Generation[Person]]
reveal_type(generator.generate_batch([""], lark="start: X"))  # list[Generation[str]]
reveal_type(generator.stream("", json_schema=Person))  # Stream[Person]
reveal_type(next(stackmask.stream(model, tokenizer, "", json_schema=TypeAdapter(int))).generation)  # Generation[int] | None
reveal_type(stackmask.stream(model, tokenizer, "", choice=["a"]))  # Stream[str]
generator.generate("", json_schema=Person, property_order="anny")  # error
generator.generate("", json_schema=Person, max_new_tokens=3)  # error
generator.generate("", regex="a", top_k="3")  # error
"""
SKIPPED = ("torch", "transformers", "numpy", "lark", "tokenizers")  # PERF: large, and nothing here depends on their types


def plain(text: str) -> str:
    """A type as checkers write it, without the names of modules."""
    return re.sub(r"\b\w+\.(?=\w)", "", text).replace('"', "'")


def expectations() -> dict[int, str]:
    """What each line of the program is to show."""
    return {number: line.split("  # ")[1] for number, line in enumerate(PROGRAM.splitlines(), 1) if "  # " in line}


def check(shown: dict[int, str]) -> None:
    """Compare what a checker says of each line with what the line says itself."""
    expected = expectations()
    assert set(shown) == set(expected)
    for number, text in expected.items():
        assert sorted(shown[number].split(" | ")) == sorted(text.split(" | ")), PROGRAM.splitlines()[number - 1]


def test_mypy_sees_the_type(tmp_path):
    """`mypy --strict` reveals the type that was asked for, and refuses wrong options."""
    pytest.importorskip("mypy")
    pytest.importorskip("pydantic")
    (tmp_path / "program.py").write_text(PROGRAM)
    lines = ["[mypy]", f"mypy_path = {SOURCE}", *(f"[mypy-{name}.*]\nfollow_imports = skip" for name in SKIPPED)]
    (tmp_path / "mypy.ini").write_text("\n".join(lines))
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "program.py"]
    output = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout
    shown: dict[int, str] = {}
    for number, kind, text in re.findall(r"^program\.py:(\d+): (note|error): (.*)$", output, re.MULTILINE):
        found = re.fullmatch(r'Revealed type is "(.*)"', text)
        if kind == "error" or found:
            shown.setdefault(int(number), plain(found[1]) if found else kind)
    assert shown, output
    check(shown)


def test_pyright_sees_the_type(tmp_path):
    """Pyright, where it is installed, sees the same."""
    if shutil.which("pyright") is None:
        pytest.skip("pyright is not installed")
    started = subprocess.run(["pyright", "--version"], capture_output=True, text=True)  # the first time it comes from npm's registry
    if started.returncode:
        pytest.skip(f"pyright does not run here: {(started.stderr.strip() or 'no reason given').splitlines()[-1]}")
    (tmp_path / "program.py").write_text(PROGRAM)
    settings = f'{{"extraPaths": ["{SOURCE}"], "enableExperimentalFeatures": true, "include": ["program.py"]}}'
    (tmp_path / "pyrightconfig.json").write_text(settings)
    output = subprocess.run(["pyright", "--pythonpath", sys.executable], cwd=tmp_path, capture_output=True, text=True).stdout
    shown: dict[int, str] = {}
    for number, kind, text in re.findall(r"program\.py:(\d+):\d+ - (information|error)[^:]*: (.*)$", output, re.MULTILINE):
        found = re.search(r' is "(.*)"$', text)
        revealed = plain(found[1]).replace("Literal['a', 'b']", "Literal['a'] | Literal['b']") if found else ""
        shown.setdefault(int(number), kind if kind == "error" else revealed)
    assert shown, output
    check(shown)
