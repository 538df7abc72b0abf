"""The reference is what the code says of itself."""

import runpy
from pathlib import Path

import pytest

import stackmask

ROOT = Path(__file__).parents[2]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "reference_pages.py"))


@pytest.fixture(scope="module")
def made():
    """The pages as they are made now."""
    return SCRIPT["pages"]()


def test_it_is_current(made):
    """`python scripts/documentation.py reference` would change nothing."""
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, path


def test_every_public_name_is_there():
    """Each name of `stackmask.__all__` is on the page of Python or on that of errors, and none besides."""
    named = {name for names in SCRIPT["GROUPS"].values() for name in names}
    errors = {name for name in stackmask.__all__ if name.endswith(("Error", "Warning"))}
    assert named | errors == set(stackmask.__all__)
    assert errors - set(SCRIPT["EXAMPLES"]) == {"GrammarError", "StackmaskError", "StackmaskWarning"}


def test_every_option_is_there(made):
    """Each option of each command is in the tables."""
    from stackmask.integration.cli.entry import build_parser

    text = next(text for path, text in made.items() if path.name == "cli.md")
    (commands,) = [action for action in build_parser()._actions if action.choices and action.option_strings == []]
    for name, parser in commands.choices.items():
        section = text.partition(f"## `stackmask {name}`")[2].partition("\n## ")[0]
        assert section
        for action in parser._actions:
            assert all(f"`{option}" in section for option in action.option_strings if option not in ("-h", "--help")), (name, action)
