"""SGLang's tool detectors read what its structural tags let stackmask write; runs where SGLang is installed."""

import runpy

import pytest
from support.scripts import SCRIPTS


@pytest.mark.parametrize("name", ["hermes", "qwen", "kimi_k2"])
def test_detectors(name, monkeypatch, capsys):
    """Every answer is read as calls with arguments that their schemas allow, at once and in pieces."""
    pytest.importorskip("sglang.srt.function_call.function_call_parser")
    monkeypatch.syspath_prepend(str(SCRIPTS))
    monkeypatch.setattr("sys.argv", ["sglang_detectors.py", name])
    runpy.run_path(str(SCRIPTS / "sglang_detectors.py"), run_name="__main__")
    assert "read otherwise: 0 at once, 0 in pieces" in capsys.readouterr().out
