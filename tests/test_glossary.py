"""The words of the code: those that docs/glossary.md replaced do not come back as identifiers."""

from __future__ import annotations

import re
from pathlib import Path

import stackmask

SOURCE = Path(stackmask.__file__).parent
REPLACED = {  # what a name of today replaced; a row is added with the commit that renames
    "Begun": "StackNode",
    "Chooser": "TokenSelector",
    "EDGE_REST": "EDGE_DEFAULT",
    "Frames": "RuleDfa",
    "KeptPart": "StateMask",
    "Share": "MaskClock",
    "Speller": "ShortestTokenization",
    "UNTOLD": "UNKNOWN_COUNT",
    "Workshop": "Worker",
    "bury": "refuted",
    "call_patiently": "run_low_priority",
    "contradiction": "unsat_core",
    "deny": "refuted",
    "first_place": "first_offset",
    "glance": "algebra.bounds, the upper bound",
    "grave": "refuted",
    "guarded_part_": "StateMaskBuilder::guarded",
    "lacks_value": "surely_not_universal",
    "lark_preferred": "first_match",
    "lean": "delta state",
    "let_go": "delete_without_gil",
    "looks_first": "greedy_first",
    "machinery": "algebra, arrays, objects",
    "making_": "StateMaskBuilder",
    "names_ids": "reads_ids",
    "parts_of": "operands",
    "regex_nodes": "regex/to_grammar",
    "risky": "scope_may_run_out",
    "side_by_side": "common_refinement",
    "suspects": "unverified",
    "twin": "fork",
    "twins": "copies",
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
