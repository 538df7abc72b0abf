"""`stackmask batch`: every line gets one answer, whatever happens in between."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("fastapi")
pytest.importorskip("prometheus_client")

import stackmask
from stackmask.integration.cli import main
from stackmask.integration.cli.batch import finished, read_jobs
from stackmask.integration.cli.command import CommandError

ASK = [{"role": "user", "content": "Write."}]
PATH = os.pathsep.join([str(Path(stackmask.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])


def write(path, lines):
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines), "utf-8")


def answers(path):
    return {line["custom_id"]: line["response"] for line in map(json.loads, path.read_text("utf-8").splitlines())}


def body(**fields):
    return {"messages": ASK, "max_tokens": 30, "seed": 1, **fields}


def test_each_line_has_its_constraint_and_its_error(tmp_path, capsys):
    """Answers fit each line's constraint; wrong lines have errors in their place; a second run does nothing."""
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    write(
        source,
        [
            {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": body(regex="[ab]{4}")},
            {"custom_id": "b", "body": body(structured_outputs={"choice": ["yes", "no"]}, n=2)},
            body(regex="("),
            "not JSON\n",
            {"custom_id": "e", "url": "/v1/embeddings", "body": {}},
            {"custom_id": "f", "body": body(guided_json={})},
            {"custom_id": "g", "body": body(stream=True)},
        ],
    )
    assert main(["batch", str(source), str(target)]) == 1
    found = answers(target)
    assert found.keys() == {"a", "b", "line-3", "line-4", "e", "f", "g"}
    assert re.fullmatch("[ab]{4}", found["a"]["body"]["choices"][0]["message"]["content"])
    assert len(found["b"]["body"]["choices"]) == 2
    for name in ("line-3", "line-4", "e", "f", "g"):
        assert found[name]["status_code"] == 400 and found[name]["body"]["error"]["message"]
    before = target.read_bytes()
    assert main(["batch", str(source), str(target)]) == 0
    assert target.read_bytes() == before
    assert "7 of 7 are done already" in capsys.readouterr().err


def test_killed_and_taken_up_again(tmp_path):
    """A run that is killed in the midst and started again completes the file: no line lost, none twice."""
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    names = [f"n{i}" for i in range(60)]
    write(source, [{"custom_id": name, "body": body(regex="[ab]{60}", max_tokens=60)} for name in names])
    command = [sys.executable, "-m", "stackmask", "batch", str(source), str(target), "--max-concurrent", "4"]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": PATH}, stderr=subprocess.DEVNULL)
    while not target.exists() or target.read_bytes().count(b"\n") < 5:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    count = target.read_bytes().count(b"\n")
    assert 5 <= count < 60
    with target.open("ab") as file:
        file.write(b'{"id": "batch_req_1", "custom_')  # as a kill in the midst of a line leaves it
    assert main(["batch", str(source), str(target), "--quiet"]) == 0
    lines = [json.loads(line) for line in target.read_text("utf-8").splitlines()]
    assert Counter(line["custom_id"] for line in lines) == Counter(names)
    assert all(re.fullmatch("[ab]{60}", line["response"]["body"]["choices"][0]["message"]["content"]) for line in lines)


def test_the_server_is_killed(tmp_path):
    """A server killed in the midst of a run ends it with an error; the next run, wherever it runs, does what is left."""
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    names = [f"n{i}" for i in range(40)]
    write(source, [{"custom_id": name, "body": body(regex="[ab]{60}", max_tokens=60)} for name in names])
    environment = {**os.environ, "PYTHONPATH": PATH}
    command = [sys.executable, "-m", "stackmask"]
    with subprocess.Popen([*command, "serve", "--port", "0"], env=environment, stderr=subprocess.PIPE, text=True) as server:
        url = re.search(r"at (\S+)", server.stderr.readline())[1]
        arguments = ["batch", str(source), str(target), "--url", url, "--max-concurrent", "3"]
        with subprocess.Popen([*command, *arguments], env=environment, stderr=subprocess.PIPE, text=True) as batch:
            while not target.exists() or target.read_bytes().count(b"\n") < 3:
                assert batch.poll() is None
                time.sleep(0.01)
            server.kill()
            message = batch.stderr.read()
        assert batch.returncode == 2 and "run the same command again" in message
    assert 3 <= target.read_bytes().count(b"\n") < 40
    assert main(["batch", str(source), str(target), "--quiet"]) == 0
    assert Counter(json.loads(line)["custom_id"] for line in target.read_text("utf-8").splitlines()) == Counter(names)


def test_a_server_that_goes_away(tmp_path, capsys):
    """With `--url` a server answers; where none does, the run ends with an error and nothing is written."""
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    write(source, [body(regex="a")])
    assert main(["batch", str(source), str(target), "--url", "http://127.0.0.1:9/v1"]) == 2
    assert "run the same command again" in capsys.readouterr().err
    assert target.read_bytes() == b""


def test_files_that_are_no_batches(tmp_path):
    """Two lines of one name, and an output that is something else, are refused before anything is done."""
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    write(source, [{"custom_id": "a", "body": {}}, {"custom_id": "a", "body": {}}])
    with pytest.raises(CommandError, match="line 2"):
        list(read_jobs(source))
    target.write_text("important\n")
    with pytest.raises(CommandError, match="not an answer of a batch"):
        finished(target)
    assert main(["batch", str(source), str(source)]) == 2
    assert target.read_text() == "important\n"
