"""VLLM's tool parsers read what its structural tags, and the notations of the server, let stackmask write; runs where vLLM is installed."""

import runpy

import pytest
from support.scripts import SCRIPTS


@pytest.mark.parametrize("name", ["hermes", "kimi_k2", "deepseek_v31"])
def test_parsers(name, monkeypatch, capsys):
    """Every answer is read as the calls that were written, at once and in pieces."""
    pytest.importorskip("vllm.parser.parser_manager")
    monkeypatch.syspath_prepend(str(SCRIPTS))
    monkeypatch.setattr("sys.argv", ["vllm_parsers.py", name])
    runpy.run_path(str(SCRIPTS / "vllm_parsers.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= 2 and all(line.endswith("read otherwise: 0 at once, 0 in pieces") for line in lines)
