"""The snippets of the documentation of clients, against a server."""

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")
pytest.importorskip("pydantic")

DOCS = Path(__file__).parents[3] / "docs"
SNIPPETS = [
    pytest.param(code, id=f"{name}-{place}")
    for name in ("clients", "anthropic", "ollama", "decisions")
    for place, code in enumerate(re.findall(r"```python\n(.*?)```", (DOCS / f"{name}.md").read_text(encoding="utf-8"), re.S))
    if "http://" in code
]


@pytest.mark.parametrize("code", SNIPPETS)
def test_the_snippet_runs(demo, code, capsys):
    """Each snippet runs as it stands, but for the address, and prints an answer."""
    pytest.importorskip(re.search(r"import (\w+)", code)[1])
    scope = {}
    exec(re.sub(r"http://127.0.0.1:\d+", demo.url, code), scope)
    assert capsys.readouterr().out.strip()
    if hasattr(scope["client"], "close"):
        scope["client"].close()
