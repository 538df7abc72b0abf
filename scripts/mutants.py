"""Mutation testing: small changes of the kernel, or of the Python of pda and schema, and whether the tests notice them.

    python scripts/mutants.py kernel --seed 1 --count 150
    python scripts/mutants.py python --seed 1 --count 150
    python scripts/mutants.py kernel --only 'mask.cpp.*zero_forever' --count 20 tests/pda

Each mutant has one operator, constant or word changed in one place, drawn at random by the seed.
`mutants_kernel.py` and `mutants_python.py` make them, `mutants_judge.py` runs the tests on each until one fails.
mutants_equal.toml lists those known to be equal in effect, or to change the speed alone, each by its line with the change in it and with
the reason; whoever changes the line has to think again.
Needs what the tests need; cosmic-ray for Python, and nanobind, CMake and Ninja for the kernel.
Exits with 1 where a mutant survives that is not listed.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
EQUAL = Path(__file__).with_name("mutants_equal.toml")


def main() -> int:
    """Draw, build, judge and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["kernel", "python"])
    parser.add_argument("tests", nargs="*", default=["tests/pda", "tests/schema"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--only", default="", help="a regular expression that 'file:line change' has to match")
    parser.add_argument("--seconds", type=float, default=600, help="that the tests of one mutant may take")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "stackmask-mutants", help="where the kernel is built")
    parser.add_argument("--outside", type=int, default=None, help=argparse.SUPPRESS)  # the id of a mutant outside of functions to judge
    arguments = parser.parse_intermixed_args()
    os.environ["STACKMASK_HYPOTHESIS"] = "mutants"
    os.environ.setdefault("STACKMASK_DATA", str(ROOT.parent / "shared" / "data"))
    sys.path.insert(0, str(Path(__file__).parent))
    return kernel(arguments) if arguments.what == "kernel" else python(arguments)


class Report:
    """Prints what becomes of each mutant, and sums up."""

    def __init__(self, count: int) -> None:
        self._count, self._done = count, 0
        self._known = {
            (entry["file"], entry["change"]): entry["reason"] for entry in tomllib.loads(EQUAL.read_text("utf-8")).get("mutant", [])
        }
        self._of: dict[str, Counter[str]] = {}
        self.survivors: list[str] = []

    def known(self, mutant: Any) -> str | None:
        """The reason why a mutant need not be noticed."""
        return self._known.get((mutant.path, mutant.change))

    def __call__(self, mutant: Any, by: str | None, seconds: float) -> None:
        """A line of the table."""
        self._done += 1
        reason = self.known(mutant)
        kind = "noticed" if by else "equal" if reason else "survived"
        said = by or reason or ("SURVIVED" if mutant.tests else "SURVIVED: no test comes here") + (" so far" if mutant.unfinished else "")
        self._of.setdefault(mutant.path, Counter())[kind] += 1
        line = f"{mutant.path}:{mutant.line}  {mutant.change}\n      {said}"
        print(f"{self._done:4}/{self._count} {line}  ({seconds:.1f} s, {mutant.tests} tests come by)", flush=True)
        if kind == "survived":
            self.survivors.append(line)

    def summary(self) -> int:
        """The table by file, and the exit code."""
        total = sum(self._of.values(), Counter())
        print("\n| file | mutants | noticed | equal or speed | survived |\n|---|--:|--:|--:|--:|")
        for path, of in [*sorted(self._of.items()), ("all", total)]:
            print(f"| {path} | {of.total()} | {of['noticed']} | {of['equal']} | {of['survived']} |")
        share = 100 * (total["noticed"] + total["equal"]) / max(1, total.total())
        print(f"\n{share:.1f} % are noticed or known to be equal in effect or to change the speed alone; these survive:\n")
        print(*self.survivors, sep="\n")
        return bool(self.survivors)


def kernel(arguments: argparse.Namespace) -> int:
    """Mutants of the kernel."""
    import mutants_kernel

    drawn = mutants_kernel.draw(arguments.seed, arguments.only)
    chosen = mutants_kernel.build(arguments.work, drawn, arguments.count)
    report = Report(len(chosen))
    use(arguments.work)

    def switches() -> Any:
        return mutants_kernel.Switches(importlib.import_module("stackmask.pda._kernel"), chosen)

    os.chdir(arguments.work)
    return judge(arguments, switches, chosen, report)


def python(arguments: argparse.Namespace) -> int:
    """Mutants of pda and schema."""
    import mutants_python

    drawn = mutants_python.draw(arguments.seed, arguments.count, arguments.only)
    os.chdir(ROOT)
    if arguments.outside is not None:
        return outside(arguments, drawn[arguments.outside])
    report = Report(len(drawn))

    def switches() -> Any:
        for mutant in drawn:
            importlib.import_module("stackmask." + mutant.path.removesuffix(".py").replace("/", "."))
        return mutants_python.Switches(drawn)

    inside = [mutant for mutant in drawn if mutant.function]
    judge(arguments, switches, inside, report, summary=False)
    command = [sys.executable, __file__, "python", f"--seed={arguments.seed}", f"--count={arguments.count}", f"--only={arguments.only}"]
    for mutant in drawn:
        if not mutant.function:
            mutant.tests = 1
            options = [f"--seconds={arguments.seconds}", f"--outside={mutant.id}"]
            done = subprocess.run([*command, *options, *arguments.tests], capture_output=True, text=True)
            names = [line.split()[1] for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
            report(mutant, names[0] if names else None if done.returncode == 0 else f"exit code {done.returncode}", 0)
    return report.summary()


def outside(arguments: argparse.Namespace, mutant: Any) -> int:
    """All tests on a mutant of what is run when a module is imported, until one fails."""
    import mutants_python

    sys.meta_path.insert(0, mutants_python.Instead(mutant))
    return int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", *arguments.tests]))


def use(folder: Path) -> None:
    """Import the package from a folder, also where another is installed."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__name__ != "ScikitBuildRedirectingFinder"]
    sys.path.insert(0, str(folder / "src"))
    os.environ["PYTHONPATH"] = str(folder / "src")


def judge(arguments: argparse.Namespace, switches: Any, mutants: list[Any], report: Report, *, summary: bool = True) -> int:
    """Let the tests judge."""
    import mutants_judge

    plugin = mutants_judge.Judge(switches, mutants, report, arguments.seconds, without="reference")
    code = pytest.main(mutants_judge.arguments(arguments.tests), plugins=[plugin])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return int(code)
    return report.summary() if summary else 0


if __name__ == "__main__":
    sys.exit(main())
