"""Tables that grow bit by bit: `pda/kernel/slots.h`, by a program in C++."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.programs import KERNEL


def test_tables_hold_their_items_while_they_grow(tmp_path: Path) -> None:
    """A map and an interner of up to 900,000 items hold what was added, at each size; one item copies few."""
    program = tmp_path / "tables"
    sources = [Path(__file__).with_name("growing_tables.cpp"), KERNEL / "blocks.cpp"]
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined"]
    subprocess.run(["c++", *flags, f"-I{KERNEL}", *sources, "-o", program], check=True)
    ended = subprocess.run([program], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
