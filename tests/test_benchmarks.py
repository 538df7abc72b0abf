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


def test_pages_show_the_results(benchmark):
    """README.md and benchmarks/README.md show the tables of the file of results."""
    assert benchmark("figures").main(["check"]) == 0


def test_figures_fill_pages(benchmark):
    """A block of a page is replaced by the table that it names, cell by cell, and a table that is not there is an error."""
    figures = benchmark("figures")
    step = [["step (mask + accept)", "p50", "mean", "p99", "p99.9"], ["ours", "1", "2", "3", "4"], ["theirs", "5", "6", "7", "8"]]
    first = [["time to first mask", "p25", "p50"], ["theirs", "9", "10"], ["ours", "11", "12"]]
    verdicts = [["schemas", "all right"], ["ours", "20"], ["theirs", "19"]]
    runs = {"a": {"command": "run a", "date": "2026-01-02", "machine": "M", "tables": [step, first, verdicts]}}
    page = "x\n<!-- figures: a / first mask -->\nold\n<!-- end -->\n"
    page += "<!-- figures: a / command -->\n<!-- end -->\n<!-- figures: a / overview -->\n<!-- end -->\ny"
    filled = figures.fill(page, runs)
    assert filled.startswith("x\n<!-- figures: a / first mask -->\n| time to first mask")
    assert "old" not in filled
    assert "`run a`, 2026-01-02, M\n" in filled
    assert figures.tables(filled) == [
        first,
        [
            ["", "right", "first mask p50", "step p50", "step mean", "step p99", "step p99.9"],
            ["ours", "20", "12", "1", "2", "3", "4"],
            ["theirs", "19", "10", "5", "6", "7", "8"],
        ],
    ]
    assert figures.fill(filled, runs) == filled
    for name in ("a / nothing", "b / table", "a / table", "a / s"):
        with pytest.raises(KeyError):
            figures.fill(f"<!-- figures: {name} -->\n<!-- end -->", runs)


def test_figures_of_a_run_are_kept(benchmark, monkeypatch, tmp_path, capfd):
    """A run's printed tables are kept with its command, its date and its machine, beside those of other runs."""
    figures = benchmark("figures")
    monkeypatch.setattr(figures, "RESULTS", tmp_path / "results.json")
    for _ in range(2):
        figures.keep("apply", "apply --rounds 1")
    figures.keep("vocabulary", f"vocabulary --rounds 1 --tokenizer {DEMO}")
    found = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert [*found] == ["vocabulary", "apply"]
    assert found["apply"]["command"] == "python -m benchmarks.apply --rounds 1"
    assert found["apply"]["tables"][0][0][1:] == ["bitmask", "masked_fill_", "ratio"]
    assert len(found["apply"]["tables"][0]) > 3
