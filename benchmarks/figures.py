"""The figures in README.md, benchmarks/README.md and docs/figures.md, written from one file of results.

    python -m benchmarks.figures run maskbench-600       # run a benchmark and keep its tables
    python -m benchmarks.figures run all                 # all of them, one after the other: about half an hour on a quiet machine
    python -m benchmarks.figures publish                 # the runs of docs/figures.md and that page: about half an hour on a busy machine
    python -m benchmarks.figures write                   # write the tables into the pages, and the charts
    python -m benchmarks.figures check                   # exit with 1 where a page differs from the results

`benchmarks/results.json` holds, for each run, the command, the date, the machine and the printed tables, cell by cell.
A page holds a table between `<!-- figures: RUN / TABLE -->` and `<!-- end -->`. TABLE is the table's first cell or part of it, or `table`
where a run prints one. `RUN / overview` is the short form of a run of MaskBench, and `RUN / command` says what was run, when and where.
The charts of docs/images are drawn from the same tables.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib
import io
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.charts import Panel, Points, draw
from benchmarks.report import machine, markdown

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results.json"
PAGES = ("README.md", "benchmarks/README.md", "docs/figures.md")
RUNS = {
    "maskbench-600": "maskbench --count 600 --timeout 20 --only-accepted-by stackmask --engines stackmask llguidance",
    "maskbench-all": "maskbench --count 4000 --timeout 20 --engines stackmask llguidance --plot benchmarks/maskbench.png",
    "maskbench-80": "maskbench --count 80 --timeout 20 --only-accepted-by stackmask --engines stackmask llguidance xgrammar",
    "mask": "mask",
    "nesting": "nesting",
    "ambiguity": "ambiguity",
    "vocabulary": "vocabulary",
    "apply": "apply",
    "tools": "tools",
    "keywords": "keywords",
    "sample-400": "maskbench --count 400 --timeout 60 --engines stackmask llguidance",
    "sample-60": "maskbench --count 60 --timeout 60 --engines stackmask llguidance xgrammar xgrammar-strict",
    "sample-12": "maskbench --count 12 --timeout 60 --engines stackmask outlines-core",
    "growth": "growth --rounds 2 --seconds 15",
}
PUBLISHED = ("sample-400", "sample-60", "sample-12", "growth")
"""The runs of docs/figures.md."""
CHARTS: Mapping[str, tuple[tuple[str, str, str, str], ...]] = {  # the panels of each: run, table, title, name of the x axis
    "percentiles-400": (
        ("sample-400", "step (mask + accept)", "A step: a mask and the accepted token", "percentile of steps"),
        ("sample-400", "time to first mask", "Compilation and the first mask", "percentile of schemas"),
    ),
    "percentiles-60": (
        ("sample-60", "step (mask + accept)", "A step: a mask and the accepted token", "percentile of steps"),
        ("sample-60", "time to first mask", "Compilation and the first mask", "percentile of schemas"),
    ),
    "worst-steps": (
        ("sample-400", "worst step of each schema", "The worst step of a schema, 400 schemas", "percentile of schemas"),
        ("sample-60", "worst step of each schema", "The worst step of a schema, 60 schemas", "percentile of schemas"),
    ),
    "growth-of-texts": (
        ("growth", "us a step, by tokens before it", "A step, by the length of the text", "tokens before it"),
        ("growth", "us a step, by levels around it", "A step, by nesting", "levels around it"),
    ),
    "growth-of-schemas": (
        ("growth", "us to the first mask, by properties", "The first mask, by the size of the schema", "properties"),
        ("growth", "us to the first mask, by tokens of the vocabulary", "The first mask, by the vocabulary", "tokens of the vocabulary"),
    ),
    "batches": (
        ("growth", "us for the masks of a batch, by rows", "The masks of a batch, in one thread", "rows"),
        ("growth", "us for the masks of 256 rows, by threads", "The masks of 256 rows, by threads", "threads"),
    ),
}
BLOCK = re.compile(r"<!-- figures: (?P<run>[\w-]+) / (?P<table>[^>]+?) -->\n.*?<!-- end -->", re.DOTALL)
Results = Mapping[str, Mapping[str, Any]]
Table = list[list[str]]


def main(arguments: list[str] | None = None) -> int:
    """Run benchmarks, write pages, or compare them."""
    parser = argparse.ArgumentParser("python -m benchmarks.figures", description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run benchmarks and keep their tables")
    run.add_argument("names", nargs="+", choices=[*RUNS, "all"], metavar="RUN", help=f"all, or some of {', '.join(RUNS)}")
    commands.add_parser("publish", help=f"run {', '.join(PUBLISHED)}, and write")
    commands.add_parser("write", help="write the tables into the pages, and the charts")
    commands.add_parser("check", help="exit with 1 where a page or a chart differs from the results")
    options = parser.parse_args(arguments)
    if options.command in ("run", "publish"):
        names = PUBLISHED if options.command == "publish" else options.names
        for name in RUNS if "all" in names else names:
            keep(name, RUNS[name])
        if options.command == "run":
            return 0
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    files = {name: fill((ROOT / name).read_text(encoding="utf-8"), results) for name in PAGES}
    files |= {f"docs/images/{name}.svg": chart(panels, results) for name, panels in CHARTS.items()}
    changed = []
    for name, written in files.items():
        path = ROOT / name
        if not path.is_file() or path.read_text(encoding="utf-8") != written:
            changed.append(name)
            if options.command != "check":
                path.write_text(written, encoding="utf-8")
    if options.command != "check":
        print("\n".join(f"wrote {name}" for name in changed) or "nothing to write")
        return 0
    for name in changed:
        print(f"{name} differs from {RESULTS.relative_to(ROOT)}: run python -m benchmarks.figures write", file=sys.stderr)
    return bool(changed)


def keep(name: str, command: str) -> None:
    """Run a benchmark and put its tables into the file of results, in the place of those from an earlier run."""
    module, *arguments = command.split()
    echo = _Echo()
    with contextlib.redirect_stdout(echo):
        importlib.import_module(f"benchmarks.{module}").main(arguments)
    found = {
        "command": f"python -m benchmarks.{command}",
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "tables": tables(echo.getvalue()),
    }
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    ordered = {run: {**results, name: found}[run] for run in RUNS if run in {*results, name}}
    RESULTS.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


class _Echo(io.StringIO):
    """Keeps what is printed, and prints it."""

    def write(self, text: str) -> int:
        assert sys.__stdout__ is not None
        sys.__stdout__.write(text)
        return super().write(text)


def tables(text: str) -> list[Table]:
    r"""The Markdown tables of a text, as rows of cells without the rule below the header.

    >>> tables("| a | b |\n|---|--:|\n| 1 | 2 |")
    [[['a', 'b'], ['1', '2']]]
    """
    found: list[Table] = []
    inside = False
    for line in text.splitlines():
        if not line.startswith("|"):
            inside = False
        elif not inside:
            found.append([_cells(line)])
            inside = True
        elif not re.fullmatch(r"[|:\- ]+", line):
            found[-1].append(_cells(line))
    return found


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def fill(page: str, results: Results) -> str:
    """A page with the tables of the results in its blocks. KeyError names a run or a table that the results do not have."""
    return BLOCK.sub(lambda block: "\n".join(_block(block["run"], block["table"], results)), page)


def _block(run: str, name: str, results: Results) -> Iterator[str]:
    yield f"<!-- figures: {run} / {name} -->"
    if run not in results:
        raise KeyError(f"no run {run!r} among the results: {', '.join(results)}")
    found = results[run]
    if name == "command":
        yield f"`{found['command']}`, {found['date']}, {found['machine']}"
    else:
        yield markdown(overview(found["tables"]) if name == "overview" else _named(found["tables"], name, run))
    yield "<!-- end -->"


def _named(tables: list[Table], name: str, run: str) -> Table:
    titles = [table[0][0] for table in tables]
    chosen = [title for title in titles if title == name or (name == "table" and len(titles) == 1)] or [
        title for title in titles if name in title
    ]
    if len(chosen) == 1:
        return tables[titles.index(chosen[0])]
    raise KeyError(f"{len(chosen)} tables {name!r} in {run}: it has {', '.join(map(repr, titles))}")


def overview(tables: list[Table]) -> Table:
    """A run of MaskBench in one table: verdicts, time to the first mask, and steps."""
    step, first, verdicts = (_named(tables, name, "MaskBench") for name in ("step (mask + accept)", "time to first mask", "schemas"))
    columns = [("right", verdicts, "all right"), ("first mask p50", first, "p50"), ("step p50", step, "p50")]
    columns += [(f"step {name}", step, name) for name in ("mean", "p99", "p99.9")]
    lines = [["", *(title for title, _, _ in columns)]]
    for row in verdicts[1:]:
        lines.append([row[0]])
        for _, table, column in columns:
            (cells,) = [cells for cells in table if cells[0] == row[0]]
            lines[-1].append(cells[table[0].index(column)])
    return lines


def chart(panels: Iterable[tuple[str, str, str, str]], results: Results) -> str:
    """A chart of tables; its note says when and where the runs were made."""
    drawn, notes = [], []
    for run, name, title, x in panels:
        if run not in results:
            raise KeyError(f"no run {run!r} among the results: {', '.join(results)}")
        table = _named(results[run]["tables"], name, run)
        curves, ticks = percentile_curves(table) if "p50" in table[0] else (size_curves(table), ())
        drawn.append(Panel(title, x, "microseconds", curves, ticks))
        notes.append(f"{results[run]['date']}, {results[run]['machine']}")
    return draw(drawn, "; ".join(dict.fromkeys(notes)))


def percentile_curves(table: Table) -> tuple[dict[str, Points], tuple[tuple[float, str], ...]]:
    """A curve for each line of a table of percentiles: to the right the rare, slow samples, of which one comes among so many."""
    names = [name for name in table[0] if re.fullmatch(r"p[\d.]+", name)]
    rarity = {name: 100 / (100 - float(name[1:])) for name in names}
    curves: dict[str, Points] = {}
    for line in table[1:]:
        cells = dict(zip(table[0], line, strict=True))
        curves[line[0]] = [(rarity[name], _value(cells[name])) for name in names if cells[name]]
    return curves, tuple((rarity[name], name[1:]) for name in names if name != "p95")


def size_curves(table: Table) -> dict[str, Points]:
    """A curve for each column of a table with a line for each size; a cell is empty where there was no measurement."""
    lines = table[1:]
    return {
        engine: [(_value(line[0]), _value(line[column])) for line in lines if line[column]]
        for column, engine in enumerate(table[0])
        if column
    }


def _value(cell: str) -> float:
    return float(cell.replace(",", ""))


if __name__ == "__main__":
    sys.exit(main())
