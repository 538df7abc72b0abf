"""The line that is shown while a model loads."""

import io
import time

import pytest

from stackmask.integration.cli.loading import shown_loading


class Terminal(io.StringIO):
    """A standard error that is a terminal, or a file."""

    def __init__(self, is_terminal):
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self):
        """What the test says."""
        return self.is_terminal


@pytest.fixture
def show(monkeypatch):
    def run(name, *, terminal, loading, patience=0.0):
        stream = Terminal(terminal)
        monkeypatch.setattr("sys.stderr", stream)
        with shown_loading(name, patience=patience, interval=0.01):
            time.sleep(loading)
        return stream.getvalue()

    return run


def test_a_terminal_counts_seconds(show, tmp_path):
    """The line has the size of the weights, is written anew, and is gone at the end."""
    (tmp_path / "model-1.safetensors").write_bytes(b"\0" * 60_000_000)
    (tmp_path / "model-2.safetensors").write_bytes(b"\0" * 60_000_000)
    lines = show(str(tmp_path), terminal=True, loading=0.2).split("\r")
    assert lines[:2] == ["", f"loading {tmp_path} (0.1 GB), 0 s"]
    assert len(lines) > 3
    assert lines[-1] == "\x1b[K"


def test_a_log_has_one_line(show):
    """A file gets one line, whatever the time."""
    assert show("gpt2", terminal=False, loading=0.1) == "loading gpt2\n"


def test_nothing_is_said_of_quick_models(show):
    """Neither of one that is there before anyone waits, nor of the demo model."""
    assert show("gpt2", terminal=True, loading=0.0, patience=60) == ""
    assert show(None, terminal=True, loading=0.05) == ""


def test_an_error_ends_the_line(show, monkeypatch):
    """Where a model cannot be loaded, the line is erased before the error."""
    stream = Terminal(True)
    monkeypatch.setattr("sys.stderr", stream)

    def load():
        with shown_loading("gpt2", patience=0.0, interval=0.01):
            time.sleep(0.05)
            raise OSError("no weights")

    with pytest.raises(OSError, match="no weights"):
        load()
    assert stream.getvalue().endswith("\r\x1b[K")
