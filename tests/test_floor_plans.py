"""The docstring of a package is its floor plan: it names every room, and its example runs."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
from pathlib import Path

import pytest

import stackmask

SOURCE = Path(stackmask.__file__).parent
LAYERS = ("pda", "schema", "integration")
PACKAGES = sorted(path.parent for layer in LAYERS for path in (SOURCE / layer).glob("**/__init__.py"))


def name_of(package: Path) -> str:
    """The name that a package is imported by."""
    return ".".join(["stackmask", *package.relative_to(SOURCE).parts])


@pytest.mark.parametrize("package", PACKAGES, ids=name_of)
def test_every_room_is_named(package: Path) -> None:
    """A package's docstring names its modules and the packages in it."""
    plan = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    rooms = {path.stem for path in package.glob("*.py")} | {path.parent.name for path in package.glob("*/__init__.py")}
    named = set(re.findall(r"\w+", plan))
    assert {room for room in rooms if not room.startswith("__")} <= named


@pytest.mark.parametrize("package", PACKAGES, ids=name_of)
def test_the_example_runs(package: Path) -> None:
    """The example in a package's docstring gives what it says; those of engines are replayed by tests of their own."""
    try:
        module = importlib.import_module(name_of(package))
    except ModuleNotFoundError as error:
        pytest.skip(f"{error.name} is not installed")
    tests = doctest.DocTestFinder(recurse=False).find(module, module.__name__)
    runner = doctest.DocTestRunner()
    assert all(runner.run(test).failed == 0 for test in tests)
