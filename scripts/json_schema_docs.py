"""Keeps docs/json_schema.md current: the tables between its markers come from the keyword tables and from runs of the official suite.

    python scripts/json_schema_docs.py                    writes the tables into the document
    python scripts/json_schema_docs.py --check            says what is out of date, and fails if anything is
    python scripts/json_schema_docs.py --run stackmask    runs the suite for an engine (or xgrammar, llguidance, outlines-core), keeps the
                                                          counts in docs/json_schema_suite.json, and writes the tables

Each schema of a run has a separate process, so that an engine that crashes or hangs loses that schema alone.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support import peers, suite  # noqa: E402  (tests/ is no installed package)

from stackmask.schema.dialect.dialects import DIALECTS  # noqa: E402
from stackmask.schema.dialect.unknown_keywords import ANNOTATIONS  # noqa: E402
from stackmask.schema.formats import NAMES  # noqa: E402

DOCUMENT = ROOT / "docs" / "json_schema.md"
COUNTS = ROOT / "docs" / "json_schema_suite.json"
SECONDS = 20
VERDICTS = (suite.RIGHT, suite.OVER, suite.UNDER, suite.REFUSED)
STRUCTURE = frozenset({"$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary", "$defs", "definitions"})
Verdicts = dict[str, Counter[str]]


def keyword_table() -> str:
    """Every keyword by draft."""
    names = sorted({name for dialect in DIALECTS.values() for name in dialect.keywords}, key=lambda name: (name.lower().lstrip("$"), name))
    lines = ["| keyword | " + " | ".join(DIALECTS) + " |", "|---" * (len(DIALECTS) + 1) + "|"]
    for name in names:
        what = "annotation" if name in ANNOTATIONS else "structure" if name in STRUCTURE else "exact"
        lines.append(f"| `{name}` | " + " | ".join(what if name in dialect.keywords else "" for dialect in DIALECTS.values()) + " |")
    return "\n".join(lines)


def format_list() -> str:
    """Every format that is enforced."""
    return ", ".join(f"`{name}`" for name in sorted(NAMES)) + "."


def counts() -> dict[str, Any]:
    """The stored counts of all engines: name, then what was run, then file, then verdicts in the order of VERDICTS."""
    found: dict[str, Any] = json.loads(COUNTS.read_text())
    return found


def total(files: dict[str, list[int]]) -> list[int]:
    """The sum over all files."""
    return [sum(column) for column in zip(*files.values(), strict=True)]


def draft_table() -> str:
    """Right answers and wrong ones of every engine by draft."""
    found = counts()
    lines = ["| tests | " + " | ".join(engine["name"] for engine in found.values()) + " |", "|---" * (len(found) + 1) + "|"]
    for part in next(iter(found.values()))["parts"]:
        cells = []
        for engine in found.values():
            numbers = total(engine["parts"][part])
            cells.append(f"{100 * numbers[0] / sum(numbers):.1f} %: {'/'.join(map(str, numbers))}")
        lines.append(f"| {part} ({sum(total(found['stackmask']['parts'][part]))}) | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def file_table() -> str:
    """The required tests of the current draft by file."""
    found = counts()
    files = found["stackmask"]["parts"]["2020-12"]
    lines = ["| file | " + " | ".join(engine["name"] for engine in found.values()) + " |", "|---" * (len(found) + 1) + "|"]
    for file in files:
        cells = ["/".join(map(str, engine["parts"]["2020-12"][file])) for engine in found.values()]
        lines.append(f"| {file} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


BLOCKS: dict[str, Callable[[], str]] = {"keywords": keyword_table, "formats": format_list, "drafts": draft_table, "files": file_table}


def rendered(text: str) -> str:
    """The document with fresh tables between its markers."""
    for name, block in BLOCKS.items():
        before, opening, rest = text.partition(f"<!-- begin {name} -->\n")
        _, closing, after = rest.partition(f"<!-- end {name} -->")
        if not closing:
            raise SystemExit(f"{DOCUMENT} has no markers for {name}")
        text = f"{before}{opening}{block()}\n{closing}{after}"
    return text


def run(name: str) -> None:
    """Run the suite for one engine and store the counts."""
    candidate = peers.CANDIDATES[name]()
    parts: dict[str, dict[str, list[int]]] = {}
    for draft in suite.DRAFTS:
        parts[draft] = judged(candidate, suite.cases(draft))
    asserting = peers.stackmask("enforce") if name == "stackmask" else candidate
    parts["2020-12 formats"] = judged(asserting, suite.cases("2020-12", "optional/format"))
    stored = counts() if COUNTS.exists() else {}
    stored[name] = {"name": candidate.name, "parts": parts}
    ordered = {engine: stored[engine] for engine in peers.CANDIDATES if engine in stored}
    COUNTS.write_text(json.dumps(ordered, indent=1) + "\n")


def judged(candidate: suite.Candidate, chosen: Any) -> dict[str, list[int]]:
    """The verdicts by file, each schema in a separate process."""
    context = multiprocessing.get_context("fork")
    found: Verdicts = {}
    for _, group in itertools.groupby(chosen, key=lambda case: id(case.schema)):
        cases = list(group)
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(
            target=lambda cases, sender: sender.send([o.verdict for o in suite.run(candidate, cases)]), args=(cases, sender)
        )
        child.start()
        sender.close()
        verdicts = [suite.REFUSED] * len(cases)
        try:
            if receiver.poll(SECONDS):
                verdicts = receiver.recv()
        except EOFError:
            pass
        child.kill()
        child.join()
        for case, verdict in zip(cases, verdicts, strict=True):
            # A mask that accept_token contradicts is no better than a wrong answer of either kind.
            found.setdefault(case.file.rpartition("/")[2], Counter())[suite.UNDER if verdict == suite.TORN else verdict] += 1
    return {file: [counter[verdict] for verdict in VERDICTS] for file, counter in found.items()}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--run", choices=peers.CANDIDATES)
    options = parser.parse_args()
    if options.run:
        run(options.run)
    old = DOCUMENT.read_text()
    new = rendered(old)
    if options.check:
        if old != new:
            raise SystemExit(f"{DOCUMENT.name} is out of date: run scripts/json_schema_docs.py")
    else:
        DOCUMENT.write_text(new)


if __name__ == "__main__":
    main()
