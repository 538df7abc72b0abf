"""docs/json_schema.md says what the tables of the code and the stored runs of the suite say."""

from __future__ import annotations

from types import ModuleType

import pytest
from support.scripts import script


@pytest.fixture(scope="module")
def docs() -> ModuleType:
    """The script that writes the document."""
    return script("json_schema_docs")


def test_document_is_current(docs: ModuleType) -> None:
    """Every table between markers is what the script would write."""
    text = docs.DOCUMENT.read_text()
    assert docs.rendered(text) == text, "run scripts/json_schema_docs.py"


def test_stored_runs(docs: ModuleType) -> None:
    """All engines answered the same tests, and stackmask accepts no invalid instance."""
    counts = docs.counts()
    sizes = {name: {part: sum(docs.total(files)) for part, files in engine["parts"].items()} for name, engine in counts.items()}
    assert all(size == sizes["stackmask"] for size in sizes.values())
    for part, files in counts["stackmask"]["parts"].items():
        right, _, wrong, _ = docs.total(files)
        assert wrong == 0, part
        assert right >= 0.97 * sizes["stackmask"][part], part


def test_missing_markers(docs: ModuleType) -> None:
    """A document without its markers is an error, not an unchanged file."""
    with pytest.raises(SystemExit, match="no markers"):
        docs.rendered("# JSON Schema\n")
