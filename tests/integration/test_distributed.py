"""Ranks compile the same grammars, admit requests at the same time, and fail together."""

import json
import os
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path

import pytest

dist = pytest.importorskip("torch.distributed")
if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("this PyTorch has no gloo", allow_module_level=True)

from support import distributed_worker as worker  # noqa: E402

from stackmask import Compiler, Vocabulary  # noqa: E402
from stackmask.integration.distributed import RankError, broadcast, poll  # noqa: E402

WORLD = 4


def test_four_ranks(tmp_path):
    """Four processes with different hash seeds, one slow, one that fails some: the same requests run, on the same masks."""
    path = os.pathsep.join(path for path in sys.path if path)
    commands = [[sys.executable, worker.__file__, str(rank), str(WORLD), str(tmp_path / "store")] for rank in range(WORLD)]
    ranks = [
        subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": str(rank), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, command in enumerate(commands)
    ]
    try:
        outputs = [rank.communicate(timeout=120) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0] * WORLD, "\n".join(error for _, error in outputs)
    found = json.loads(outputs[0][0])
    refused = [index for index in range(worker.REQUESTS) if index % 4 == 3 and index % 20 == 3]
    assert list(found["refused"]) == [str(index) for index in refused]
    assert found["refused everywhere"]
    assert all(message.startswith("rank 3: LimitError") for message in found["refused"].values())
    assert found["agree"] == found["masks"] == worker.REQUESTS - len(refused)
    assert found["waits"] >= worker.REQUESTS // worker.ROUND, "the slow rank was waited for, without blocking"
    assert len(set(found["fingerprints"])) == 1
    vocabulary = Vocabulary.from_bytes(worker.TOKENS, stop_token_ids=[worker.STOP], size=288)
    here = Compiler(vocabulary).json_schema({"type": "array", "items": {"enum": ["ab", 12]}})
    assert here.fingerprint == found["fingerprints"][0]
    assert found["errors"][0].startswith("rank 3: this group has no closing )")
    assert "550" in found["errors"][1]
    assert found["errors"][2] == "rank 0: has [0]; rank 1: has [1]; rank 2: has [2]; rank 3: has [3]"


@pytest.fixture
def alone(tmp_path):
    """A group of one rank."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def compiler():
    return Compiler(Vocabulary.from_bytes(worker.TOKENS, stop_token_ids=[worker.STOP], size=288))


def test_polling(alone, compiler, monkeypatch):
    """Pending, ready, failed, cancelled; and grammars that differ between ranks."""
    cancelled, waiting = Future(), Future()
    cancelled.cancel()
    cancelled.set_running_or_notify_cancel()
    done = {name: compiler.submit("regex", name) for name in ("a", "b", "(")}
    for future in done.values():
        future.exception(30)
    ready, failed = poll({**done, "x": cancelled, "y": waiting})
    assert list(ready) == ["a", "b"]
    assert {name: str(error).split("\n")[0] for name, error in failed.items()} == {
        "(": "rank 0: RegexError: this group has no closing )",
        "x": "rank 0: cancelled",
    }
    reports = iter([[{"a": ("1", None)}, {"a": ("2", None)}]])
    monkeypatch.setattr("stackmask.integration.distributed._exchange", lambda *_: next(reports))
    ready, failed = poll({"a": done["a"]})
    assert (ready, failed["a"].ranks) == ({}, {0: "has the grammar 1", 1: "has the grammar 2"})


def test_broadcast_alone(alone, compiler):
    """One rank keeps what it compiled."""
    grammar = compiler.regex("ab")
    assert broadcast(lambda: grammar, compiler.vocabulary) is grammar
    with pytest.raises(RankError, match="rank 0: this group"):
        broadcast(lambda: compiler.regex("("), compiler.vocabulary)


def test_the_worker_is_a_script():
    """The ranks run the file that the constants come from."""
    assert Path(worker.__file__).name == "distributed_worker.py"
