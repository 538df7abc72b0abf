"""Memory of large tables: `pda/kernel/blocks.h`, by a program in C++."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.programs import KERNEL


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere all blocks are the heap's")
def test_blocks_grow_and_pages_are_used_again(tmp_path: Path) -> None:
    """What a block holds stays when it grows; of what is freed, four pages are kept for later blocks, and no more."""
    program = tmp_path / "blocks"
    sources = [Path(__file__).with_name("spare_pages.cpp"), KERNEL / "blocks.cpp"]
    subprocess.run(["c++", "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{KERNEL}", *sources, "-o", program], check=True)
    ended = subprocess.run([program], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (0, "")
