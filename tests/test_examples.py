"""The examples of property tests: the same in every process, until the thorough profile asks for new ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

DRAW = """
import sys

from hypothesis import given, strategies as st

import conftest

if "other" in sys.argv:
    import other


@given(st.integers(), st.text(), st.frozensets(st.binary()))
def draw(number, text, names):
    print('drawn', number, ascii(text), sorted(names))


draw()
"""


def drawn(folder: Path, *arguments: str, seed: str) -> list[str]:
    """The examples that a fresh process draws."""
    path = os.pathsep.join(filter(None, [str(Path(__file__).parent), *sys.path]))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed, "STACKMASK_HYPOTHESIS": "stackmask"}
    command = [sys.executable, "draw.py", *arguments]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if line.startswith("drawn")]


def test_examples_are_the_same(tmp_path: Path) -> None:
    """Neither the hashes of strings nor the modules that are loaded change what is drawn."""
    (tmp_path / "draw.py").write_text(DRAW)
    (tmp_path / "other.py").write_text(f"NAMES = {[f'name {number}' for number in range(200)]}\nNUMBERS = {list(range(1000, 1200))}\n")
    examples = drawn(tmp_path, seed="1")
    assert len(examples) >= 50
    assert drawn(tmp_path, "other", seed="2") == examples


def test_the_thorough_profile_draws_anew() -> None:
    """The thorough profile differs in this and in its number of examples."""
    thorough, usual = settings.get_profile("thorough"), settings.get_profile("stackmask")
    assert usual.derandomize and not thorough.derandomize
    assert thorough.max_examples > usual.max_examples


def test_names_hold_no_addresses(request: pytest.FixtureRequest) -> None:
    """A test has one name in every process, or its processes could not share the tests."""
    assert [item.nodeid for item in request.session.items if " at 0x" in item.nodeid] == []
