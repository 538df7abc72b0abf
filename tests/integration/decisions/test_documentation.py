"""The examples of docs/decisions.md."""

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

TEXT = (Path(__file__).parents[3] / "docs" / "decisions.md").read_text(encoding="utf-8")


def test_the_examples_run(capsys):
    """They run one after the other and print what they say, those without a server; `test_clients` runs the others."""
    exec("\n".join(code for code in re.findall(r"```python\n(.*?)```", TEXT, re.S) if "http://" not in code), {})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6 and lines[0].startswith("{'yes': ")
    assert 0 < float(lines[1]) < 1 and 0 < float(lines[2]) < 1 and 0 < float(lines[3]) < 2
