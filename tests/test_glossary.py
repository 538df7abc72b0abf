"""The words of the code: those that docs/glossary.md replaced do not come back as identifiers, and each term stands there once."""

from __future__ import annotations

import re
from pathlib import Path

import stackmask

SOURCE = Path(stackmask.__file__).parent
REPLACED = {  # what a name of today replaced; a row is added with the commit that renames
    "Awaited": "SharedFuture",
    "Begun": "StackNode",
    "Chooser": "TokenSelector",
    "EDGE_REST": "EDGE_DEFAULT",
    "ENDURANCE": "IDLE_AFTER",
    "Finder": "the passes of grammar/facts",
    "Frames": "RuleDfa",
    "KeptPart": "StateMask",
    "Share": "MaskClock",
    "Speller": "ShortestTokenization",
    "Stretch": "Interval",
    "UNTOLD": "UNKNOWN_COUNT",
    "Workshop": "Worker",
    "bury": "refuted",
    "by_parts": "rule_for_conjunction",
    "call_patiently": "run_low_priority",
    "contradiction": "unsat_core",
    "cut_": "drop_expired",
    "deny": "refuted",
    "few_contents": "finite_values",
    "finishes": "scope_can_finish",
    "first_place": "first_offset",
    "glance": "algebra.bounds, the upper bound",
    "grave": "refuted",
    "guarded_part_": "StateMaskBuilder::guarded",
    "has_value": "surely_inhabited",
    "heavy_": "large subtree",
    "holes": "excluded",
    "lacks_value": "surely_not_universal",
    "lark_preferred": "first_match",
    "lean": "delta state",
    "let_go": "delete_without_gil",
    "looks_first": "greedy_first",
    "machinery": "algebra, arrays, objects",
    "making_": "StateMaskBuilder",
    "names_ids": "reads_ids",
    "parts_of": "operands",
    "passed_": "crossed regions",
    "regex_nodes": "regex/to_grammar",
    "risky": "scope_may_run_out",
    "side_by_side": "common_refinement",
    "suspects": "unverified",
    "transfers": "moves",
    "twin": "fork",
    "twins": "copies",
    "variety": "text_count",
    "widened": "project",
    "witness": "algebra.bounds, the lower bound",
    "zero_forever": "spells_only_zero",
}


def test_no_replaced_word_is_an_identifier() -> None:
    """No word of the Python and C++ sources is one that was replaced."""
    found = [
        f"{path.relative_to(SOURCE)}: {word}, now {REPLACED[word]}"
        for suffix in ("py", "pyi", "h", "cpp")
        for path in sorted(SOURCE.glob(f"*/**/*.{suffix}"))
        for word in sorted(REPLACED.keys() & set(re.findall(r"\w+", path.read_text(encoding="utf-8"))))
    ]
    assert found == []


def test_each_term_is_explained_once() -> None:
    """The glossary has one line for a term, with its meaning."""
    text = (Path(__file__).resolve().parents[1] / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 30
    terms = [term for row in rows for term in re.sub(r"^bounds: ", "", row[0]).split(", ")]
    assert sorted(terms) == sorted(set(terms))
    assert all(len(row) == 3 and len(row[1].split()) > 2 for row in rows)
