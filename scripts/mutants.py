"""Mutation testing: small changes of the kernel, or of the Python of pda and schema, and whether the tests notice them.

    python scripts/mutants.py kernel --seed 1 --count 150
    python scripts/mutants.py python --seed 1 --count 150
    python scripts/mutants.py kernel --only 'new_values.cpp.*spells_only_zero' --count 20 tests/pda

Each mutant has one operator, constant or word changed in one place, drawn at random by the seed.
`mutants_kernel.py` and `mutants_python.py` make them, `mutants_judge.py` runs the tests on each until one fails, all in a copy of the
checkout, which may change meanwhile.
mutants_equal.toml lists those known to be equal in effect, or to change the speed alone, each by its line with the change in it and with
the reason; whoever changes the line has to think again.
Needs the package installed with its extra `mutants`, and nanobind, CMake and Ninja for the kernel.
Exits with 1 where a mutant survives that is not listed, or where an entry of the list fits no line.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shutil
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
    parser.add_argument("--seconds", type=float, default=600, help="of the processor that the tests of one mutant may take")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "stackmask-mutants", help="for the copy")
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
        entries = tomllib.loads(EQUAL.read_text("utf-8")).get("mutant", [])
        self._known = {(entry["file"], entry["change"]): entry["reason"] for entry in entries}
        self._stale = [entry for entry in entries if not fits(entry, ROOT)]
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
        for entry in self._stale:
            print(f"\n{EQUAL.name} lists a change of a line that is not in {entry['file']}: {entry['change']}")
        return bool(self.survivors or self._stale)


def fits(entry: dict[str, str], root: Path) -> bool:
    """Whether the line that an entry of the list changes is in its file."""
    path = root / entry["file"]
    before, was, after = re.fullmatch(r"(.*)⟦(.*) → .*⟧(.*)", entry["change"], re.S).groups()  # type: ignore[union-attr]
    return path.exists() and any(line.strip() == (before + was + after).strip() for line in path.read_text("utf-8").splitlines())


def copy(folder: Path, *without: str) -> None:
    """Make a folder hold the checkout as it is, but for what begins with one of these; files that are as they were keep their time."""
    listed = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    names = {name for name in listed.split("\0") if name and (ROOT / name).exists() and not name.startswith(without)}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and "stackmask/" not in name and not name.startswith(("build/", *without)) and name not in names:
            path.unlink()
    for name in names:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            if not target.is_symlink():
                target.symlink_to(source.readlink())
        elif not target.exists() or source.read_bytes() != target.read_bytes():
            shutil.copy(source, target)


def kernel(arguments: argparse.Namespace) -> int:
    """Mutants of the kernel."""
    import mutants_kernel

    drawn = mutants_kernel.draw(arguments.seed, arguments.only)
    copy(arguments.work, "pda/kernel/")
    chosen = mutants_kernel.build(arguments.work, drawn, arguments.count)
    report = Report(len(chosen))
    use(arguments.work)

    def switches() -> Any:
        return mutants_kernel.Switches(importlib.import_module("stackmask.pda._kernel"), chosen)

    os.chdir(arguments.work)
    return judge(arguments, switches, chosen, report) or report.summary()


def python(arguments: argparse.Namespace) -> int:
    """Mutants of pda and schema."""
    import mutants_python

    if arguments.outside is None:
        copy(arguments.work)
        program = "import stackmask.pda._kernel as kernel; print(kernel.__file__)"  # in another process: here the copy is to be imported
        built = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.strip()
        shutil.copy(built, arguments.work / "pda")
    use(arguments.work)
    os.chdir(arguments.work)
    drawn = mutants_python.draw(arguments.work, arguments.seed, arguments.count, arguments.only)
    if arguments.outside is not None:
        return outside(arguments, drawn[arguments.outside])
    report = Report(len(drawn))

    def switches() -> Any:
        for mutant in drawn:
            importlib.import_module("stackmask." + mutant.path.removesuffix(".py").replace("/", "."))
        return mutants_python.Switches(arguments.work, drawn)

    inside = [mutant for mutant in drawn if mutant.function]
    if code := judge(arguments, switches, inside, report):
        return code
    options = [f"--seed={arguments.seed}", f"--count={arguments.count}", f"--only={arguments.only}", f"--work={arguments.work}"]
    for mutant in drawn:
        if not mutant.function:
            mutant.tests = 1
            command = [sys.executable, __file__, "python", *options, f"--outside={mutant.id}", *arguments.tests]
            done = subprocess.run(command, capture_output=True, text=True)
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


def judge(arguments: argparse.Namespace, switches: Any, mutants: list[Any], report: Report) -> int:
    """Let the tests judge; the exit code where they cannot."""
    import mutants_judge

    plugin = mutants_judge.Judge(switches, mutants, report, arguments.seconds, without="reference")
    code = pytest.main(mutants_judge.arguments(arguments.tests), plugins=[plugin])
    return 0 if code == pytest.ExitCode.NO_TESTS_COLLECTED else int(code)


if __name__ == "__main__":
    sys.exit(main())
