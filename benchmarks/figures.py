"""The figures in README.md and benchmarks/README.md, written from one file of results.

    python -m benchmarks.figures run maskbench-600       # run a benchmark and keep its tables
    python -m benchmarks.figures run all                 # all of them, one after the other: about half an hour on a quiet machine
    python -m benchmarks.figures write                   # write the tables into the pages
    python -m benchmarks.figures check                   # exit with 1 where a page differs from the results

`benchmarks/results.json` holds, for each run, the command, the date, the machine and the printed tables, cell by cell.
A page holds a table between `<!-- figures: RUN / TABLE -->` and `<!-- end -->`. TABLE is the table's first cell or part of it, or `table`
where a run prints one. `RUN / overview` is the short form of a run of MaskBench, and `RUN / command` says what was run, when and where.
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
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.report import machine, markdown

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results.json"
PAGES = ("README.md", "benchmarks/README.md")
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
    commands.add_parser("write", help="write the tables into the pages")
    commands.add_parser("check", help="exit with 1 where a page differs from the results")
    options = parser.parse_args(arguments)
    if options.command == "run":
        for name in RUNS if "all" in options.names else options.names:
            keep(name, RUNS[name])
        return 0
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    changed = []
    for name in PAGES:
        page = ROOT / name
        text = page.read_text(encoding="utf-8")
        if (written := fill(text, results)) != text:
            changed.append(name)
            if options.command == "write":
                page.write_text(written, encoding="utf-8")
    if options.command == "write":
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


if __name__ == "__main__":
    sys.exit(main())
