"""The benchmarks run, on a few schemas and the vocabulary of the demo model."""

import importlib
import json
import re
from pathlib import Path
from xml.etree import ElementTree

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
        ("sampling", ["--rounds", "1"]),
        ("growth", ["--rounds", "1", "--most", "300", "--seconds", "1"]),
    ],
)
def test_single_questions(benchmark, capsys, name, arguments):
    """Each prints a table; without --check a broken promise is no failure."""
    if name in ("apply", "sampling", "vocabulary"):
        pytest.importorskip("transformers")
    if name not in ("apply", "sampling"):
        arguments = [*arguments, "--tokenizer", str(DEMO)]
    assert benchmark(name).main(arguments) == 0
    assert "|---" in capsys.readouterr().out


def test_keywords(benchmark, monkeypatch, capsys):
    """A verdict is right, refused or wrong by jsonschema's, for every keyword and every engine that is there."""
    keywords = benchmark("keywords")
    cases = keywords.CASES
    assert [keywords.verdict(keywords.stackmask_accepts, schema, text) for _, schema, text in cases] == ["right"] * len(cases)
    schema, text = {"type": "integer"}, "1"
    assert keywords.verdict(lambda schema, text: True, schema, text) == "right"
    assert keywords.verdict(lambda schema, text: False, schema, text) == "**wrong**: refuses `1`"
    assert keywords.verdict(lambda schema, text: True, schema, '"x"') == '**wrong**: accepts `"x"`'
    assert keywords.verdict(keywords.stackmask_accepts, {"pattern": r"(.)\1"}, '"aa"') == "refused"
    monkeypatch.setattr(keywords, "ENGINES", {"stackmask": keywords.stackmask_accepts})
    monkeypatch.setattr(keywords, "CASES", cases[:2])
    assert keywords.main() == 0
    assert capsys.readouterr().out.splitlines()[2:] == ["| `not`         |     right |", "| `uniqueItems` |     right |"]


def test_hostile(benchmark, tmp_path, capsys):
    """The two smallest inputs of each family are right or refused, and what was measured is not measured again."""
    hostile, families = benchmark("hostile"), benchmark("families").FAMILIES
    file = tmp_path / "results.jsonl"
    arguments = ["--tokenizer", str(DEMO), "--engines", "stackmask", "--sizes", "2", "--walk-seconds", "0.05", "--json", str(file)]
    assert hostile.main(arguments) == 0
    assert f"{2 * len(families)} inputs in {len(families)} families" in capsys.readouterr().out
    results = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert {(result["family"], result["size"]) for result in results} == {
        (name, size) for name, family in families.items() for size in family.sizes[:2]
    }
    assert {result["family"]: result["detail"] for result in results if result["verdict"] not in ("right", "refused")} == {}
    assert hostile.main(arguments) == 0
    assert len(file.read_text(encoding="utf-8").splitlines()) == len(results)


def test_families(benchmark):
    """There are enough of them, each is the same whenever it is asked for, and sizes are a geometric row."""
    families = benchmark("families").FAMILIES
    assert len(families) >= 30
    assert sum(len(family.sizes) for family in families.values()) >= 300
    for family in families.values():
        assert family.case(family.sizes[1]) == family.case(family.sizes[1])
        assert list(family.sizes) == sorted(set(family.sizes))
        assert family.kind in benchmark("engines").KINDS


def test_an_input_that_hangs_is_ended(benchmark):
    """One that takes too long, too much memory or its process down costs itself and no other."""
    confined = benchmark("confined")
    # Large allocations fail first in a long literal. Where small ones fail too, CPython 3.11 may raise a MemoryError for ever (it cannot
    # make the number that an exception's handler needs, and unwinds to the same handler again), and only the time ends the process.
    cases = (
        (confined.Bounds(seconds=0.02), "rules in a chain", 3000, "timed out"),
        (confined.Bounds(megabytes=1), "long literal", 1_000_000, "memory"),
    )
    for bounds, family, size, verdict in cases:
        engine = confined.Confined("stackmask", DEMO, bounds)
        try:
            outcome = engine.measure(family, size)
            assert verdict in f"{outcome.verdict} {outcome.detail}".lower()
            assert outcome.stage == "compile"
            assert outcome.memory > 0
            engine.bounds = confined.Bounds()
            assert engine.measure("counts in counts", 3).verdict == "right"
        finally:
            engine.stop()


def test_broken_promises_of_hostile_inputs(benchmark):
    """Each bound is held: steps, the first mask among them, compilation, memory, refusals and their time, and verdicts."""
    hostile = benchmark("hostile")

    def said(**members):
        results = [hostile.Result("stackmask", "multiples", number, hostile.Outcome("right", "end")) for number in range(9)]
        return hostile.broken([*results, hostile.Result("stackmask", "multiples", 9, hostile.Outcome(**{"verdict": "right", **members}))])

    most = {"first": 20.0, "worst": 20.0, "compile": 2000.0, "memory": 256.0}
    assert said(**most) == said(verdict="refused", last=500.0) == []
    for name, limit in most.items():
        assert len(said(**{name: limit + 1})) == 1
    assert said(verdict="refused", last=501.0) == ["multiples, 9: refused after 501 ms, promised 500"]
    for verdict in ("wrong", "failed", "timed out", "out of memory", "crashed"):
        assert len(said(verdict=verdict)) == 1
    refused = [hostile.Result("stackmask", "multiples", number, hostile.Outcome("refused")) for number in range(2)]
    assert hostile.broken(refused) == ["2 of 2 inputs are refused, promised 10%"]


def test_growth(benchmark):
    """The exponent of a power is found again."""
    hostile = benchmark("hostile")
    results = [hostile.Result("stackmask", "x", size, hostile.Outcome("right", "end", worst=size**2.0)) for size in (2, 8, 32)]
    assert hostile.growth(results) == "2.0"
    assert hostile.growth(results[1:]) == ""


def test_plot_of_hostile_inputs(benchmark, tmp_path):
    """A panel for each family, whatever became of its inputs."""
    pytest.importorskip("matplotlib")
    hostile = benchmark("hostile")
    ends = [("right", 1.0), ("refused", 0.0), ("timed out", 0.0), ("not taken", 0.0)]
    results = [
        hostile.Result("stackmask", name, size + 1, hostile.Outcome(end, worst=worst, last=worst))
        for name in ("multiples", "lengths")
        for size, (end, worst) in enumerate(ends)
    ]
    hostile.plot(tmp_path / "plot.png", results)
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


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
    """README.md, benchmarks/README.md and docs/figures.md show the tables of the file of results, and charts are drawn from them."""
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


def test_charts(benchmark):
    """A point stands where the logarithms of its values say, in the colour of its engine; text is escaped; no point is no chart."""
    charts = benchmark("charts")
    curves = {"stackmask": [(1, 1.0), (100, 100.0)], "llguidance 1.9.1": [(10, 10.0)]}
    drawn = charts.draw([charts.Panel("a < b", "x", "y", curves)] * 2, "note & machine")
    root = ElementTree.fromstring(drawn)
    assert root.findtext("{*}title") == "a < b; a < b"
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[:2] == ["stackmask", "llguidance 1.9.1"]
    assert texts.count("100") == 4  # on both axes of both panels
    assert texts[-1] == "note & machine"
    paths = re.findall(r'class="curve" d="M([\d. ]+)L([\d. ]+)"', drawn)
    left, low, right, high = (float(value) for pair in paths[0] for value in pair.split())
    (middle,) = set(re.findall(r'<g class="b"><path class="curve" d="M([\d. ]+)"', drawn)[:1])
    assert [float(value) for value in middle.split()] == pytest.approx([(left + right) / 2, (low + high) / 2], abs=0.1)
    assert left < right
    assert low > high
    assert "prefers-color-scheme:dark" in drawn
    for wrong in ({}, {"stackmask": []}, {"stackmask": [(1, 0.0)]}):
        with pytest.raises(ValueError, match="a: no points"):
            charts.draw([charts.Panel("a", "x", "y", wrong)], "")


def test_charts_of_tables(benchmark):
    """Percentiles are placed by how rare they are, sizes by themselves, and an empty cell has no point."""
    figures = benchmark("figures")
    percentiles = [["step", "p50", "p90", "p99.9", "max"], ["ours", "1.5", "1,000", "", "7"]]
    curves, ticks = figures.percentile_curves(percentiles)
    assert curves == {"ours": [(2.0, 1.5), (pytest.approx(10.0), 1000.0)]}
    assert [label for _, label in ticks] == ["50", "90", "99.9"]
    assert figures.size_curves([["rows", "ours", "theirs"], ["1", "2", ""], ["1,024", "3", "4.5"]]) == {
        "ours": [(1.0, 2.0), (1024.0, 3.0)],
        "theirs": [(1024.0, 4.5)],
    }
    runs = {"a": {"command": "run a", "date": "2026-01-02", "machine": "M", "tables": [[["rows", "stackmask"], ["1", "2"], ["2", "3"]]]}}
    assert "2026-01-02, M</text>" in figures.chart([("a", "rows", "title", "rows")], runs)
    with pytest.raises(KeyError, match="no run 'b'"):
        figures.chart([("b", "rows", "title", "rows")], runs)


def test_engines(benchmark):
    """Each peer that is there compiles a schema, its masks take an instance, and what it has no grammars for is said."""
    engines, isolation = benchmark("engines"), benchmark("isolation")
    pytest.importorskip("transformers")
    tokenizer = engines.Tokenizer(DEMO)
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
    for name in filter(engines.label, engines.ENGINES):
        engine = engines.ENGINES[name].load(tokenizer)
        outcome = isolation.measure(engine, json.dumps(schema), ((True, ('{"a":12}',)), (False, ('{"a":"x"}',))), cpu_time=False)
        assert (name, outcome.status, outcome.over, outcome.under, outcome.torn) == (name, "compiled", [], [], 0)
        if name != "stackmask":
            with pytest.raises(engines.NotTakenError):
                engine.compile_kind("json_schema", schema, property_order="any")


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


def test_ablations(benchmark):
    """The changes that switch devices off fit the sources, their thresholds and options exist, and methods are put back."""
    ablations = benchmark("ablations")
    kernel = importlib.import_module("stackmask.pda._kernel")
    for place, device in enumerate(ablations.DEVICES):
        for path, old, new in device.changes:
            assert f"without({place})" in ablations.switched(path, (ablations.KERNEL / path).read_text("utf-8"), [(place, old, new)])
        kernel.TokenTrie([b"a"], 1, thresholds=dict(device.thresholds), **device.options)
        if device.method is not None:
            owner = getattr(importlib.import_module(device.method[0]), device.method[1])
            before = getattr(owner, device.method[2])
            with ablations.replaced(device):
                assert getattr(owner, device.method[2]) is not before
            assert getattr(owner, device.method[2]) is before
    with pytest.raises(RuntimeError, match="0 times"):
        ablations.switched("a.cpp", "text", [(0, "old", "new")])


def test_ablations_compare_the_least_of_all_rounds(benchmark):
    """Of each call the least time counts, and a figure that moved in every half of the rounds is bold."""
    ablations = benchmark("ablations")
    before = [{"steps, us": np.array([1.0, 3.0]), "work": np.array([5.0])}, {"steps, us": np.array([2.0, 2.0]), "work": np.array([5.0])}]
    assert ablations.figures(before) == {
        "steps, us, p50": 1.5,
        "steps, us, p90": 1.9,
        "steps, us, p99": 1.99,
        "steps, us, mean": 1.5,
        "work": 5.0,
    }
    assert [len(rounds) for rounds in ablations.halves(before)] == [2, 1, 1]
    assert ablations.cell([2.0, 2.0, 2.0], [3.0, 3.0, 2.5]) == "**3.00 x1.50**"
    assert ablations.cell([2.0, 2.0, 2.0], [3.0, 3.0, 2.0]) == "3.00 x1.50"
