"""The list of mutants that no test needs to notice: what its entries say, and how one that fits no line any more is found."""

from __future__ import annotations

import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from support.scripts import SCRIPTS, script


@pytest.fixture(scope="module")
def mutants() -> ModuleType:
    """scripts/mutants.py."""
    return script("mutants")


@pytest.fixture(scope="module")
def entries(mutants: ModuleType) -> list[dict[str, str]]:
    """Those of mutants_equal.toml."""
    listed: list[dict[str, str]] = tomllib.loads(mutants.EQUAL.read_text("utf-8"))["mutant"]
    return listed


def test_entries_say_what_and_why(entries: list[dict[str, str]]) -> None:
    """Each is one change in a line of a file that exists, equal in effect or a matter of speed."""
    for entry in entries:
        assert set(entry) == {"file", "change", "reason"}
        assert entry["change"].count("⟦") == entry["change"].count(" → ") == entry["change"].count("⟧") == 1
        assert entry["reason"].startswith(("equal: ", "speed: "))
    assert len({(entry["file"], entry["change"]) for entry in entries}) == len(entries)


def test_every_entry_fits_a_line(mutants: ModuleType, entries: list[dict[str, str]]) -> None:
    """Whoever changes such a line has to think again."""
    assert not [entry for entry in entries if not mutants.fits(entry, mutants.ROOT)]


@pytest.mark.parametrize(
    ("change", "is_there"),
    [
        ("if (a ⟦< → >=⟧ b) return;", True),
        ("if (a ⟦<= → >⟧ b) return;", False),
        ("⟦x → y⟧ += 1", True),
        ("if (a ⟦< → >=⟧ b)", False),
        ("first ⟦+ → -⟧", True),
    ],
)
def test_entries_that_fit_no_line(mutants: ModuleType, tmp_path: Path, change: str, *, is_there: bool) -> None:
    """An entry fits where its line without the change is one of the file, whatever the indentation."""
    (tmp_path / "code.cpp").write_text("  if (a < b) return;\n    x += 1\nfirst +\n  second\n", "utf-8")
    assert mutants.fits({"file": "code.cpp", "change": change}, tmp_path) == is_there
    assert not mutants.fits({"file": "gone.cpp", "change": change}, tmp_path)


def test_what_is_copied(mutants: ModuleType, tmp_path: Path) -> None:
    """The copy holds the checkout as it is, without what it no longer has, and files that are as they were keep their time."""
    if not (SCRIPTS.parent / ".git").exists():
        pytest.skip("git lists the files of a checkout, and this is none")
    mutants.copy(tmp_path, "docs/", "tests/", "benchmarks/", "examples/", "integration/")
    kept, changed, gone = tmp_path / "scripts" / "mutants.py", tmp_path / "pyproject.toml", tmp_path / "scripts" / "gone.py"
    assert not (tmp_path / "docs").exists()
    assert (tmp_path / "src" / "stackmask" / "pda").is_symlink()
    changed.write_text("")
    gone.write_text("")
    time = kept.stat().st_mtime_ns
    mutants.copy(tmp_path, "docs/", "tests/", "benchmarks/", "examples/", "integration/")
    assert kept.stat().st_mtime_ns == time
    assert changed.read_bytes() == (SCRIPTS.parent / "pyproject.toml").read_bytes()
    assert not gone.exists()
