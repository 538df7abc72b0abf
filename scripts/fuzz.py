"""Fuzz the engines: random grammars of every front end, random vocabularies, random programs of calls, kernel against reference engine.

    python scripts/fuzz.py [--seconds 600 | --count 100] [--seed 1] [--kinds regex,lark] [--processes 2]

What goes wrong is made smaller and printed as a script of its own; the exit code is 1 then.
At the end it says how often the kernel took each way to a mask. `tests/fuzz` is where it lives, `docs/testing.md` says what it tries.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from fuzz.campaign import Plan, Result, only, run
from fuzz.specifications import KINDS


def main() -> int:
    """Run the campaign that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--seconds", type=float, help="for how long (default: 60)")
    length.add_argument("--count", type=int, help="how many cases of each kind, the same everywhere")
    length.add_argument("--only", nargs="+", metavar="KIND:SEED:NUMBER", help="these cases again")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case of each kind (default: 0)")
    parser.add_argument("--kinds", default=",".join(KINDS), help="front ends, with commas between them (default: all)")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--skip", default="", help="checks that are left out, with commas between them")
    parser.add_argument("--shrink-seconds", type=float, default=60, help="how long each finding is made smaller for (default: 60)")
    parser.add_argument("--every-strategy", action="store_true", help="fail, too, where some way to a mask was never taken")
    parser.add_argument("--most-findings", type=int, default=20, help="end after this many (default: 20)")
    arguments = parser.parse_args()
    kinds = tuple(arguments.kinds.split(","))
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"there is no kind {', '.join(sorted(unknown))}; available: {', '.join(KINDS)}")
    plan = Plan(
        kinds=kinds,
        seed=arguments.seed,
        first=arguments.first,
        count=arguments.count,
        seconds=(arguments.seconds or 60) if arguments.count is None else None,
        skipped=frozenset(filter(None, arguments.skip.split(","))),
        shrink_seconds=arguments.shrink_seconds,
        most_findings=arguments.most_findings,
    )
    begun = time.monotonic()
    if arguments.only:
        result = only(arguments.only, plan)
        print(*result.findings, sep="\n")
    else:
        result = run(plan, arguments.processes, lambda finding: print(finding, flush=True))
    summary(result, time.monotonic() - begun)
    untried = sorted(name for name, count in result.strategies.items() if not count)
    if arguments.every_strategy and untried:
        print(f"never taken: {', '.join(untried)}")
    return 1 if result.findings or (arguments.every_strategy and untried) else 0


def summary(result: Result, seconds: float) -> None:
    """Print the tried cases, and how often each strategy ran."""
    print(
        f"{result.tried.total()} cases in {seconds:.0f} s: {', '.join(f'{count} {name}' for name, count in sorted(result.tried.items()))}"
    )
    print(f"strategies: {', '.join(f'{name} {count}' for name, count in sorted(result.strategies.items()))}")
    print(f"{len(result.findings)} findings")


if __name__ == "__main__":
    sys.exit(main())
