"""The benchmarks run, on a few schemas and the vocabulary of the demo model."""

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
DEMO = ROOT / "integration" / "demo" / "model"
RECORDS = [
    {
        "id": "person",
        "schema": {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name"]},
        "tests": [{"valid": True, "data": {"age": 3.0, "name": "Ann"}}, {"valid": False, "data": {"age": 3}}],
    },
    {"id": "nothing", "schema": {"allOf": [{"type": "string"}, {"type": "null"}]}, "tests": [{"valid": False, "data": "x"}]},
    {"id": "refused", "schema": {"type": "strange"}, "tests": []},
]


@pytest.fixture
def benchmark(monkeypatch):
    """Imports a module of the benchmarks."""
    monkeypatch.syspath_prepend(str(ROOT))
    return lambda name: importlib.import_module(f"benchmarks.{name}")


@pytest.fixture
def schemas(tmp_path):
    """A file of schemas in the format of MaskBench."""
    path = tmp_path / "schemas.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS), encoding="utf-8")
    return path


def test_maskbench(benchmark, schemas, tmp_path, capfd):
    """Every schema is measured and judged, and what was measured is written as a table and as JSON."""
    written = tmp_path / "out.json"
    arguments = [str(schemas), "--tokenizer", str(DEMO), "--engines", "stackmask", "--slowest", "2", "--cpu-time", "--json", str(written)]
    assert benchmark("maskbench").main(arguments) == 0
    assert "| step (mask + accept) |" in capfd.readouterr().out
    (result,) = json.loads(written.read_text(encoding="utf-8")).values()
    found = result["schemas"]
    assert {name: found[name]["status"] for name in found} == {"person": "compiled", "nothing": "empty", "refused": "refused"}
    assert not any(found[name]["over"] or found[name]["under"] or found[name]["torn"] for name in found)
    assert found["person"]["first_us"] > found["person"]["compile_us"] > 0
    assert min(found["person"]["steps_us"]) > 0


def test_crashes_and_hangs_cost_one_schema(benchmark):
    """A process that died is started again for the next schema, and one that takes too long is ended."""
    engine = benchmark("isolation").Isolated("stackmask", DEMO, cpu_time=False, seconds=60)
    job = '{"type":"integer"}', ((True, ("12",)), (False, ("1.5",)))
    try:
        engine.start()
        engine._process.kill()
        engine._process.join()
        assert engine.measure(*job).status == "crashed"
        outcome = engine.measure(*job)
        assert (outcome.status, outcome.over, outcome.under, outcome.torn) == ("compiled", [], [], 0)
        engine._seconds = 0
        assert engine.measure(json.dumps({"enum": [*range(3000)]}), ()).status == "timed out"
    finally:
        engine.stop()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("mask", ["--rounds", "1"]),
        ("nesting", ["--depth", "50"]),
        ("ambiguity", ["--rounds", "1"]),
        ("tools", ["--rounds", "1", "--tools", "5", "--peer-tools", "0"]),
        ("tools", ["--rounds", "1", "--tools", "5", "--peer-tools", "0", "--style", "qwen_xml"]),
        ("vocabulary", ["--rounds", "1"]),
        ("apply", ["--rounds", "1"]),
    ],
)
def test_single_questions(benchmark, capsys, name, arguments):
    """Each prints a table; without --check a broken promise is no failure."""
    if name in ("apply", "vocabulary"):
        pytest.importorskip("transformers")
    if name != "apply":
        arguments = [*arguments, "--tokenizer", str(DEMO)]
    assert benchmark(name).main(arguments) == 0
    assert "|---" in capsys.readouterr().out


def test_check(benchmark, capsys):
    """Under --check a broken promise is a failure."""
    verdict = benchmark("timing").verdict
    assert (verdict([], check=True), verdict(["slow"], check=False), verdict(["slow"], check=True)) == (0, 0, 1)
    assert "slow" in capsys.readouterr().out


def test_texts(benchmark):
    """Keys are written as the schema declares them, those of the branch that is meant first, and numbers by their value."""
    instances = benchmark("instances")
    schema = {
        "properties": {"kind": {"type": "string"}},
        "oneOf": [
            {"properties": {"kind": {"const": "a"}, "x": True, "y": True}},
            {"properties": {"kind": {"const": "b"}, "y": True, "x": {"$ref": "#/$defs/point"}}},
        ],
        "$defs": {"point": {"required": ["q", "p"], "properties": {"r": True}}},
    }
    data = {"z": 1, "x": {"p": 1, "s": "\ud800", "r": 1, "q": 2}, "y": 2.0, "kind": "b"}
    first, *others = instances.texts(json.loads(json.dumps(data), parse_float=instances.Decimal), schema)
    assert first == '{"kind":"b","y":2,"x":{"r":1,"p":1,"q":2,"s":"\\ud800"},"z":1}'
    assert others == ['{"z":1,"x":{"p":1,"s":"\\ud800","r":1,"q":2},"y":2,"kind":"b"}']


def test_search(benchmark):
    """An order is found that every prefix fits, and none where there is none."""
    search = benchmark("instances").search
    wanted = '{"c":[1,{"b":2,"a":3}],"a":4}'
    assert search('{"a":4,"c":[1,{"a":3,"b":2}]}', wanted.startswith) == wanted
    assert search('{"a":4,"c":[2]}', wanted.startswith) is None


def test_percentiles(benchmark, tmp_path):
    """Tables and plots of samples."""
    report = benchmark("report")
    samples = np.arange(1.0, 1002.0)
    assert report.summary(samples)["p99.9"] == pytest.approx(1000)
    assert report.summary(samples[:0]) == {}
    assert "| 251 | 501 | 751 | 901 | 951 | 991 | 1,000 |  501 | 1,001 |   1,001 |" in report.table(
        "us", {"a": samples, "none": samples[:0]}
    )
    assert [report.number(value) for value in (0.2849, 33.333, 1234567)] == ["0.28", "33.3", "1,234,567"]
    pytest.importorskip("matplotlib")
    report.plot(tmp_path / "plot.png", {"steps": {"a": samples, "none": samples[:0]}})
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
