"""What masks for real schemas cost and whether they are right, compared with other engines.

The promise is about 600 schemas of MaskBench that stackmask accepts, with the vocabulary of Llama 3, in one thread, each schema compiled
anew, called from Python.
A step (mask and accept) takes at most 1.2 us at p50, 4 us on average, 30 us at p99 and 200 us at p99.9.
The first mask takes at most 500 us at p50, compilation included.
llguidance and XGrammar, measured in the same run, are slower at every percentile. No verdict is wrong.

    python -m benchmarks.maskbench --count 600 --only-accepted-by stackmask --check

All engines take each schema in turn, in an order that rotates, so that a busy machine hits all alike.
Each runs in a separate process (see `benchmarks.isolation`).
Percentiles of steps are over all steps of all schemas that the engine compiled.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engines import ENGINES, MAIN, Tokenizer, label
from benchmarks.instances import DATA, Case, read_case, read_lines
from benchmarks.isolation import Isolated, Outcome
from benchmarks.report import Samples, machine, markdown, plot, summary, table
from benchmarks.timing import command_line, verdict

STEP_LIMITS = {"p50": 1.2, "mean": 4.0, "p99": 30.0, "p99.9": 200.0}
FIRST_LIMITS = {"p50": 500.0}


@dataclass(slots=True)
class Results:
    """What an engine did, schema by schema."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)

    def times(self, kind: str) -> Samples:
        """The compile times or times to the first mask in microseconds, of the schemas that compiled."""
        times: Samples = np.array([getattr(outcome, kind) for outcome in self.outcomes.values() if outcome.first], np.float64)
        return times / 1e3

    def steps(self, ids: Collection[str] | None = None) -> Samples:
        """All steps in microseconds, of all schemas or of some."""
        chosen = self.outcomes if ids is None else ids
        times: Samples = np.concatenate([np.zeros(0), *(self.outcomes[id].steps for id in chosen)])
        return times / 1e3

    def worst(self) -> Samples:
        """The slowest step of each schema in microseconds."""
        times: Samples = np.array([outcome.steps.max() for outcome in self.outcomes.values() if len(outcome.steps)], np.float64)
        return times / 1e3

    def compiled(self) -> set[str]:
        """The schemas that the engine compiled and went through to the end."""
        return {id for id, outcome in self.outcomes.items() if outcome.status == "compiled"}

    def count(self, status: str) -> int:
        """How many schemas ended so."""
        return sum(outcome.status == status for outcome in self.outcomes.values())

    def wrong(self, kind: str) -> tuple[int, int]:
        """How many schemas have wrong verdicts of a kind, "over" or "under", and how many instances these are."""
        found = [len(getattr(outcome, kind)) for outcome in self.outcomes.values()]
        return sum(map(bool, found)), sum(found)

    def right(self) -> int:
        """How many schemas the engine takes and judges all their instances as it should."""
        return sum(o.status in ("compiled", "empty") and not (o.over or o.under or o.torn) for o in self.outcomes.values())


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark and print its tables."""
    options = parse(arguments)
    engines = {name: Isolated(name, options.tokenizer, cpu_time=options.cpu_time, seconds=options.timeout) for name in options.engines}
    lines = read_lines(options.file)
    random.Random(options.seed).shuffle(lines)
    if options.ids:
        lines = [line for line in lines if json.loads(line)["id"] in options.ids]
    results = {name: Results() for name in engines}
    cases: dict[str, Case] = {}
    try:
        for case in progress(run(engines, results, lines, options), options.count or len(lines)):
            cases[case.id] = case
    except KeyboardInterrupt:
        print("interrupted; what follows is the part that was measured", file=sys.stderr)
    finally:
        for engine in engines.values():
            engine.stop()
    show(results, options, cases)
    return check(results) if options.check else 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = command_line("maskbench", __doc__)
    add = parser.add_argument
    add("file", type=Path, nargs="?", default=DATA / "maskbench-dev.jsonl.gz", help="MaskBench schemas (default: maskbench-dev)")
    add("--count", type=int, metavar="N", help="as many schemas, picked by the seed (default: all)")
    add("--seed", type=int, default=0, metavar="S", help="what picks schemas and their order (default: 0)")
    add("--ids", nargs="+", metavar="ID", help="only these schemas")
    add("--engines", nargs="+", choices=ENGINES, default=[*filter(label, MAIN)], help=f"default: of {', '.join(MAIN)} the installed ones")
    add("--only-accepted-by", choices=ENGINES, metavar="ENGINE", help="skip the schemas that this engine does not compile")
    add("--cpu-time", action="store_true", help="leave out the time that other processes of a busy machine take")
    add("--timeout", type=float, default=60, metavar="SECONDS", help="per schema and engine (default: 60)")
    add("--slowest", type=int, default=0, metavar="N", help="list stackmask's N slowest steps and N slowest first masks")
    add("--plot", type=Path, metavar="PNG", help="draw the percentiles")
    add("--json", type=Path, metavar="FILE", help="write all results")
    options = parser.parse_args(arguments)
    if not options.file.is_file():
        parser.error(f"there is no {options.file} ($STACKMASK_DATA names the folder of the large data files)")
    if missing := [name for name in options.engines if not label(name)]:
        parser.error(f"not installed: {', '.join(missing)} (pip install '.[bench]')")
    if options.only_accepted_by and options.only_accepted_by not in options.engines:
        parser.error(f"--only-accepted-by {options.only_accepted_by} needs it among --engines")
    return options


def run(engines: dict[str, Isolated], results: dict[str, Results], lines: list[str], options: argparse.Namespace) -> Iterator[Case]:
    """Each schema through all engines; yields those that were taken."""
    names = [*engines]
    judge = options.only_accepted_by
    taken = 0
    for line in lines:
        case = read_case(line)
        order = names[taken % len(names) :] + names[: taken % len(names)]
        outcomes: dict[str, Outcome] = {}
        for name in sorted(order, key=lambda name: name != judge):
            outcomes[name] = engines[name].measure(case.schema, case.instances)
            if name == judge and outcomes[name].status in ("refused", "empty"):
                break
        else:
            for name, outcome in outcomes.items():
                results[name].outcomes[case.id] = outcome
            taken += 1
            yield case
        if taken == options.count:
            return


def progress(cases: Iterable[Case], total: int) -> Iterator[Case]:
    """The cases with a bar, where tqdm is installed and someone watches; otherwise with a line for each tenth."""
    if sys.stderr.isatty():
        with suppress(ImportError):
            from tqdm import tqdm  # type: ignore[import-untyped, unused-ignore]

            yield from tqdm(cases, total=total, unit="schema", file=sys.stderr)
            return
    for count, case in enumerate(cases, 1):
        if count % max(1, total // 10) == 0:
            print(f"{count:,} of {total:,} schemas", file=sys.stderr, flush=True)
        yield case


def show(results: dict[str, Results], options: argparse.Namespace, cases: dict[str, Case]) -> None:
    """The tables, and the files that were asked for."""
    names = {name: label(name) or name for name in results}
    times = {
        "step (mask + accept)": {names[name]: result.steps() for name, result in results.items()},
        "time to first mask": {names[name]: result.times("first") for name, result in results.items()},
        "compile": {names[name]: result.times("compile") for name, result in results.items()},
    }
    clock = "the lesser of wall-clock and CPU time" if options.cpu_time else "wall-clock time"
    print(f"\n{len(cases):,} schemas of {options.file.name}, seed {options.seed}; microseconds, {clock}; {machine()}\n")
    if len(results) > 1:
        common = set.intersection(*(result.compiled() for result in results.values()))
        times[f"step, {len(common):,} schemas that all compile"] = {names[name]: result.steps(common) for name, result in results.items()}
    for title, rows in times.items():
        print(table(title, rows), end="\n\n")
    print(table("worst step of each schema", {names[name]: result.worst() for name, result in results.items()}), end="\n\n")
    print(verdicts(results, names))
    if options.slowest and "stackmask" in results:
        print(slowest(results["stackmask"], cases, Tokenizer(options.tokenizer), options))
    if options.plot:
        plot(options.plot, {title: times[title] for title in ("time to first mask", "step (mask + accept)")})
    if options.json:
        options.json.write_text(json.dumps({names[name]: as_json(result) for name, result in results.items()}, indent=1), encoding="utf-8")


def verdicts(results: dict[str, Results], names: dict[str, str]) -> str:
    """How many schemas each engine has right, and what went wrong with the others."""
    lines = [["schemas", "all right", "refuses valid", "accepts invalid", "refused", "failed", "crashed", "timed out", "torn"]]
    for name, result in results.items():
        wrong = [f"{schemas} ({instances})" if schemas else "0" for schemas, instances in map(result.wrong, ("over", "under"))]
        ends = [str(result.count(status)) for status in ("refused", "failed", "crashed", "timed out")]
        torn = sum(outcome.torn for outcome in result.outcomes.values())
        lines.append([names[name], str(result.right()), *wrong, *ends, str(torn)])
    return markdown(lines) + "\n\nIn brackets: instances. Torn: tokens that the mask allows and that are refused then.\n"


def slowest(result: Results, cases: dict[str, Case], tokenizer: Tokenizer, options: argparse.Namespace) -> str:
    """The slowest steps with the text before them and the slowest compilations."""
    steps = [
        (float(spent) / 1e3, id, *position)
        for id, outcome in result.outcomes.items()
        for spent, position in zip(outcome.steps, outcome.positions, strict=True)
    ]
    lines = [f"{options.slowest} slowest steps of stackmask: microseconds, schema, instance, token, the text before >< the token"]
    for spent, id, instance, place in sorted(steps, reverse=True)[: options.slowest]:
        text = cases[id].instances[instance][1][0]
        before = tokenizer.start(text, place)
        lines.append(f"{spent:10.1f}  {id}  {instance}  {place}  {text[:before][-50:]!r} >< {text[before:][:15]!r}")
    lines.append(f"\n{options.slowest} slowest first masks of stackmask: microseconds, of them compiling, bytes of the schema, schema")
    for id, outcome in sorted(result.outcomes.items(), key=lambda item: -item[1].first)[: options.slowest]:
        lines.append(f"{outcome.first / 1e3:10.1f} {outcome.compile / 1e3:10.1f} {len(cases[id].schema):8}  {id}")
    return "\n".join(lines)


def as_json(result: Results) -> dict[str, Any]:
    """The results for other programs."""
    schemas = {
        id: {
            "status": outcome.status,
            "detail": outcome.detail,
            "compile_us": outcome.compile / 1e3,
            "first_us": outcome.first / 1e3,
            "steps_us": (outcome.steps / 1e3).round(2).tolist(),
            "over": outcome.over,
            "under": outcome.under,
            "torn": outcome.torn,
        }
        for id, outcome in result.outcomes.items()
    }
    return {
        "step": summary(result.steps()),
        "first": summary(result.times("first")),
        "compile": summary(result.times("compile")),
        "schemas": schemas,
    }


def check(results: dict[str, Results]) -> int:
    """Whether the promise holds; prints what does not."""
    ours = results["stackmask"]
    step, first = summary(ours.steps()), summary(ours.times("first"))
    broken = [f"step {name}: {step[name]:.2f} us, promised {limit}" for name, limit in STEP_LIMITS.items() if step[name] > limit]
    broken += [f"first mask {name}: {first[name]:.0f} us, promised {limit}" for name, limit in FIRST_LIMITS.items() if first[name] > limit]
    for name, result in results.items():
        if name != "stackmask":
            theirs = summary(result.steps())
            broken += [f"step {p}: {step[p]:.2f} us, {name} takes {theirs[p]:.2f}" for p in theirs if p != "max" and step[p] >= theirs[p]]
    if ours.right() != len(ours.outcomes):
        broken.append(f"{len(ours.outcomes) - ours.right()} schemas with wrong verdicts or none")
    return verdict(broken, check=True)


if __name__ == "__main__":
    sys.exit(main())
