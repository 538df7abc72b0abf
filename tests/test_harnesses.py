"""The harnesses by which others compare implementations: MaskBench's runner and Bowtie, by their protocols."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import suite

from stackmask.integration.demo import demo_model_path

ROOT = Path(__file__).parents[1]
BOWTIE = ROOT / "benchmarks" / "bowtie" / "bowtie_stackmask.py"
FILES = (
    "additionalProperties", "anyOf", "const", "dependentRequired", "dependencies", "enum", "format", "items", "not", "oneOf", "pattern",
    "properties", "ref", "refRemote", "required", "uniqueItems",
)  # fmt: skip
needs_suite = pytest.mark.skipif(
    not suite.ARCHIVE.exists() and os.environ.get("CI") != "true", reason=f"{suite.ARCHIVE} is missing; STACKMASK_DATA names another folder"
)


def conversation(*commands: dict[str, Any]) -> list[dict[str, Any]]:
    """What the script answers to commands, as a process with pipes."""
    lines = "".join(json.dumps(command) + "\n" for command in commands)
    done = subprocess.run([sys.executable, str(BOWTIE)], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def runs(draft: str) -> Iterator[tuple[dict[str, Any], list[bool]]]:
    """The groups of the suite as Bowtie sends them, and the right verdicts."""
    chosen = (case for case in suite.cases(draft) if case.file in FILES)
    for number, (_, group) in enumerate(itertools.groupby(chosen, key=lambda case: id(case.schema))):
        tests = list(group)
        case = {
            "description": tests[0].group,
            "schema": tests[0].schema,
            "tests": [{"description": test.description, "instance": test.instance} for test in tests],
        }
        if tests[0].file == "refRemote":
            case["registry"] = suite.remotes()
        yield {"cmd": "run", "seq": number, "case": case}, [test.valid for test in tests]


@needs_suite
@pytest.mark.parametrize("draft", suite.DRAFTS)
def test_bowtie_on_the_suite(draft: str) -> None:
    """Every verdict on the suite's cases is right, and few schemas are skipped: a refusal is never a verdict."""
    sent = list(runs(draft))
    dialect = suite.METASCHEMAS[draft]
    started, spoken, *answers = conversation(
        {"cmd": "start", "version": 1}, {"cmd": "dialect", "dialect": dialect}, *(run for run, _ in sent), {"cmd": "stop"}
    )
    assert started["version"] == 1
    assert dialect in started["implementation"]["dialects"]
    assert spoken == {"ok": True}
    assert [answer["seq"] for answer in answers] == [run["seq"] for run, _ in sent]
    skipped = [answer for answer in answers if answer.get("skipped")]
    assert len(skipped) <= len(sent) // 50, [answer["message"] for answer in skipped]
    for (run, valid), answer in zip(sent, answers, strict=True):
        if not answer.get("skipped"):
            assert [result["valid"] for result in answer["results"]] == valid, (run["case"]["description"], answer)


def test_bowtie_protocol() -> None:
    """A schema that is refused is skipped with its message, one without instances takes nothing, and keys come in any order."""
    cases = [
        {"schema": {"type": "strange"}, "tests": [{"instance": 1}]},
        {"schema": {"allOf": [{"type": "string"}, {"type": "null"}]}, "tests": [{"instance": "x"}, {"instance": None}]},
        {
            "schema": {"properties": {"a": {"type": "integer"}, "b": {}}},
            "tests": [{"instance": {"b": 1, "a": 2.0}}, {"instance": {"a": 0.5}}],
        },
        {"schema": False, "tests": [{"instance": []}]},
    ]
    commands = [{"cmd": "run", "seq": str(number), "case": case} for number, case in enumerate(cases)]
    start = {"cmd": "start", "version": 1}
    _, unknown, refused, *verdicts = conversation(start, {"cmd": "dialect", "dialect": "urn:x"}, *commands, {"cmd": "stop"}, start)
    assert unknown == {"ok": False}
    assert (refused["seq"], refused["skipped"]) == ("0", True)
    assert "strange" in refused["message"]
    assert verdicts == [
        {"seq": "1", "results": [{"valid": False}, {"valid": False}]},
        {"seq": "2", "results": [{"valid": True}, {"valid": False}]},
        {"seq": "3", "results": [{"valid": False}]},
    ]
    for wrong in ([{"cmd": "stop"}], [{"cmd": "start", "version": 2}], [start, {"cmd": "strange"}]):
        with pytest.raises(subprocess.CalledProcessError):
            conversation(*wrong)


def test_maskbench_runner(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The engine answers what MaskBench's runner asks, in its order, and `main` puts it in the place of the runner's own engines."""
    transformers = pytest.importorskip("transformers")
    monkeypatch.syspath_prepend(str(ROOT))
    module = importlib.import_module("benchmarks.maskbench_engine")
    found: dict[str, Any] = {}

    def run() -> None:
        engine = runner.get_engine(types.SimpleNamespace(multi=False, debug=True, tokenizer="demo"))
        engine.tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(demo_model_path())
        engine.init()
        found["names"] = engine.get_id(), engine.get_name(), engine.get_module(), engine.get_version()
        engine.compile_grammar({"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]})
        for value in ({"age": 12}, {"age": "x"}, {}):
            engine.reset()
            taken = []
            for token in engine.tokenizer.encode(json.dumps(value, ensure_ascii=False), add_special_tokens=False):
                engine.compute_mask()
                allowed = bool(engine._bitmask[0, token // 32] >> (token % 32) & 1)
                taken.append(engine.commit_token(token))
                assert taken[-1] == allowed
                if not taken[-1]:
                    break
            found[json.dumps(value)] = all(taken)
        with pytest.raises(ValueError, match="strange"):
            engine.compile_grammar({"type": "strange"})
        engine.log_single("said")

    runner = types.SimpleNamespace(get_engine=None, main=run)
    monkeypatch.setitem(sys.modules, "maskbench", types.SimpleNamespace(runner=runner))
    assert module.main() == 0
    names = found.pop("names")
    assert names[:3] == ("stackmask",) * 3
    assert names[3]
    assert found == {'{"age": 12}': True, '{"age": "x"}': False, "{}": False}
    assert "said" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "maskbench", None)
    assert module.main() == 2
    assert "PYTHONPATH" in capsys.readouterr().err
