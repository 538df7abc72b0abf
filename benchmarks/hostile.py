"""What inputs cost that are made to be expensive: families of them, each swept over its size.

The promise, with the vocabulary of Llama 3: whatever comes, no step takes more than 20 ms (the first mask and every accept with the mask
after it), no compilation more than 2 s, and no grammar more than 256 MB; at most 10 % of the inputs are refused, each within 0.5 s.
No text that a family knows to be right is rejected, and nothing crashes or hangs.

    python -m benchmarks.hostile --json hostile.jsonl --check --plot hostile.png

The families are in `benchmarks.families`; each input runs in a separate process (see `benchmarks.confined`).
`--json` names a file to which each result is added as a line; what is in it already is not measured again, so that a run that was
interrupted continues where it stopped.
llguidance reads EBNF through its own conversion to Lark; an engine skips the kinds of specifications that it does not have ("not taken").
"wrong" is a text that the family knows to be right and whose tokens the engine does not allow; llguidance may ask for other tokens of the
same text where the text is forced.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from benchmarks.confined import Bounds, Confined, Outcome
from benchmarks.engines import ENGINES, MAIN, label
from benchmarks.families import FAMILIES, Family
from benchmarks.report import machine, markdown, number
from benchmarks.timing import command_line, verdict

STEP_MS, COMPILE_MS, MEGABYTES = 20.0, 2000.0, 256.0
REFUSED_SHARE, REFUSAL_MS = 0.1, 500.0
VERDICTS: Final = ("right", "refused", "wrong", "failed", "timed out", "out of memory", "crashed", "not taken")


class Result(NamedTuple):
    """What an engine did with an input."""

    engine: str
    family: str
    size: int
    outcome: Outcome

    @property
    def input(self) -> str:
        """The input's name."""
        return f"{self.family}, {self.size:,}"

    @property
    def step(self) -> float:
        """The worst step in milliseconds, the first mask among them."""
        return max(self.outcome.first, self.outcome.worst)


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark and print its tables."""
    options = parse(arguments)
    inputs = chosen(options)
    known = {(result.engine, result.family, result.size): result for result in read(options.json)}
    wanted = [(engine, family.name, size) for family, size in inputs for engine in options.engines]
    try:
        for result in run([key for key in wanted if key not in known], options):
            known[result.engine, result.family, result.size] = result
    except KeyboardInterrupt:
        print("interrupted; what follows is the part that was measured", file=sys.stderr)
    results = [known[key] for key in wanted if key in known]
    print(f"{len(inputs)} inputs in {len({f.name for f, _ in inputs})} families; milliseconds, megabytes; {machine()}\n")
    print(*tables(results), totals(results), sep="\n\n")
    if options.plot:
        plot(options.plot, results)
    own = [result for result in results if result.engine == "stackmask"]
    if own:
        print("", ranking(own), sep="\n")
    return verdict(broken(own), check=options.check) if own else 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = command_line("hostile", __doc__)
    add = parser.add_argument
    bounds = Bounds()
    add("--engines", nargs="+", choices=ENGINES, default=[*filter(label, MAIN)], help=f"default: of {', '.join(MAIN)} the installed ones")
    add("--families", nargs="+", metavar="WORD", help="only families whose names hold one of these words")
    add("--kinds", nargs="+", metavar="KIND", help="only these kinds of specifications")
    add("--sizes", type=int, metavar="N", help="only the N smallest sizes of each family")
    add("--count", type=int, metavar="N", help="only N inputs, picked by the seed")
    add("--seed", type=int, default=0, metavar="S", help="default: 0")
    add("--timeout", type=float, default=bounds.seconds, metavar="SECONDS", help=f"per input and engine (default: {bounds.seconds:g})")
    add("--memory", type=int, default=bounds.megabytes, metavar="MB", help=f"limit of each process (default: {bounds.megabytes})")
    add("--steps", type=int, default=bounds.steps, metavar="N", help=f"most steps of a text (default: {bounds.steps})")
    add("--walk-seconds", type=float, default=bounds.walk_seconds, metavar="S", help=f"when a text ends (default: {bounds.walk_seconds:g})")
    add("--json", type=Path, metavar="FILE", help="add each result as a line, and do not measure again what the file has")
    add("--plot", type=Path, metavar="PNG", help="draw cost against size for each family")
    add("--list", action="store_true", help="list the families and end")
    options = parser.parse_args(arguments)
    if options.list:
        print(markdown([["family", "kind", "sizes"], *([f.name, f.kind, ", ".join(map(str, f.sizes))] for f in FAMILIES.values())]))
        parser.exit()
    if missing := [name for name in options.engines if not label(name)]:
        parser.error(f"not installed: {', '.join(missing)} (pip install '.[bench]')")
    if not chosen(options):
        parser.error("no such families")
    return options


def chosen(options: argparse.Namespace) -> list[tuple[Family, int]]:
    """The inputs that the options leave, small ones first, so that a run that was interrupted has some of each family."""
    families = [
        family
        for family in FAMILIES.values()
        if (not options.families or any(word in family.name for word in options.families))
        and (not options.kinds or family.kind in options.kinds)
    ]
    most = max((len(family.sizes) for family in families), default=0) if options.sizes is None else options.sizes
    inputs = [(family, family.sizes[place]) for place in range(most) for family in families if place < len(family.sizes)]
    if options.count is None or options.count >= len(inputs):
        return inputs
    picked = sorted(random.Random(options.seed).sample(range(len(inputs)), options.count))
    return [inputs[place] for place in picked]


def run(keys: Sequence[tuple[str, str, int]], options: argparse.Namespace) -> Iterator[Result]:
    """Measure each; the engines are started where there is something for them to do."""
    bounds = Bounds(options.timeout, options.memory, options.steps, options.walk_seconds)
    engines: dict[str, Confined] = {}
    try:
        for place, (name, family, size) in enumerate(keys, 1):
            if name not in engines:
                engines[name] = Confined(name, options.tokenizer, bounds)
            result = Result(name, family, size, engines[name].measure(family, size))
            if options.json:
                with options.json.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"engine": name, "family": family, "size": size, **result.outcome.record()}) + "\n")
            if place % max(1, len(keys) // 10) == 0:
                print(f"{place:,} of {len(keys):,}", file=sys.stderr, flush=True)
            yield result
    finally:
        for engine in engines.values():
            engine.stop()


def read(file: Path | None) -> Iterator[Result]:
    """The results in a file; a last line that was cut off is left out."""
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True) if file and file.exists() else []
    for line in lines:
        if line.endswith("\n"):
            members: dict[str, Any] = json.loads(line)
            yield Result(members.pop("engine"), members.pop("family"), members.pop("size"), Outcome(**members))


def tables(results: Sequence[Result]) -> Iterator[str]:
    """A table for each family."""
    head = ["size", "engine", "verdict", "compile", "first mask", "step p99", "step max", "at", "steps", "MB"]
    for name in dict.fromkeys(result.family for result in results):
        family = FAMILIES[name]
        lines = [head]
        for _, engine, size, outcome in ((r.family, r.engine, r.size, r.outcome) for r in results if r.family == name):
            times = [number(value) if value else "" for value in (outcome.compile, outcome.first, outcome.p99, outcome.worst)]
            at = f"{outcome.worst_at:,}" if outcome.steps else ""
            said = outcome.verdict if outcome.stage == "end" else f"{outcome.verdict} ({outcome.stage}, {number(outcome.last)})"
            lines.append([f"{size:,}", engine, said, *times, at, f"{outcome.steps:,}", number(outcome.memory)])
        about = (family.make.__doc__ or "").splitlines()[0]
        yield f"### {name} ({family.kind})\n\n{about}\n\n{markdown(lines)}"


def totals(results: Sequence[Result]) -> str:
    """How many inputs ended how, and how many cost more than is promised."""
    lines = [["inputs", *VERDICTS, f"step > {STEP_MS:g} ms", f"compile > {COMPILE_MS / 1000:g} s", f"> {MEGABYTES:g} MB"]]
    for engine in dict.fromkeys(result.engine for result in results):
        own = [result for result in results if result.engine == engine]
        counts = [sum(result.outcome.verdict == name for result in own) for name in VERDICTS]
        over = [
            sum(result.step > STEP_MS or stuck(result, ("first", "walk")) for result in own),
            sum(result.outcome.compile > COMPILE_MS or stuck(result, ("compile",)) for result in own),
            sum(result.outcome.memory > MEGABYTES or result.outcome.verdict == "out of memory" for result in own),
        ]
        lines.append([label(engine) or engine, *map(str, [*counts, *over])])
    return markdown(lines)


def stuck(result: Result, stages: Collection[str]) -> bool:
    """Whether the input was ended in one of these stages."""
    return result.outcome.verdict == "timed out" and result.outcome.stage in stages


def ranking(results: Sequence[Result]) -> str:
    """The families by stackmask's worst step; `growth` is the exponent of the power of the size that fits the worst steps best."""
    lines = [["family, stackmask", "worst step", "at size", "growth", "worst compile", "MB", "refused", "ended early", "inputs"]]
    groups = [[r for r in results if r.family == name] for name in dict.fromkeys(r.family for r in results)]

    def worst(group: list[Result]) -> float:
        return max(float("inf") if stuck(r, ("first", "walk")) else r.step for r in group)

    for group in sorted(groups, key=worst, reverse=True):
        slowest = max(group, key=lambda r: (stuck(r, ("first", "walk")), r.step))
        compiles = max(group, key=lambda r: (stuck(r, ("compile",)), r.outcome.compile))
        early = [r for r in group if r.outcome.verdict not in ("right", "refused")]
        lines.append(
            [
                group[0].family,
                "without end" if stuck(slowest, ("first", "walk")) else number(slowest.step),
                f"{slowest.size:,}",
                growth(group),
                "without end" if stuck(compiles, ("compile",)) else number(compiles.outcome.compile),
                number(max(r.outcome.memory for r in group)),
                str(sum(r.outcome.verdict == "refused" for r in group)),
                ", ".join(sorted({r.outcome.verdict for r in early})),
                str(len(group)),
            ]
        )
    return markdown(lines)


def growth(results: Sequence[Result]) -> str:
    """The slope of the worst step against the size, both as logarithms; nothing of fewer than three sizes."""
    points = [(result.size, result.step) for result in results if result.step and result.outcome.stage == "end"]
    if len(points) < 3:
        return ""
    sizes, costs = np.log(np.array(points)).T
    return f"{np.polyfit(sizes, costs, 1)[0]:.1f}"


def broken(results: Sequence[Result]) -> list[str]:
    """What breaks the promise."""
    lines = []
    for result in results:
        outcome = result.outcome
        lines += [f"{result.input}: a step of {number(result.step)} ms, promised {STEP_MS:g}"] * (result.step > STEP_MS)
        lines += [f"{result.input}: compiled in {number(outcome.compile)} ms, promised {COMPILE_MS:g}"] * (outcome.compile > COMPILE_MS)
        lines += [f"{result.input}: {number(outcome.memory)} MB, promised {MEGABYTES:g}"] * (outcome.memory > MEGABYTES)
        if outcome.verdict == "refused":
            lines += [f"{result.input}: refused after {number(outcome.last)} ms, promised {REFUSAL_MS:g}"] * (outcome.last > REFUSAL_MS)
        elif outcome.verdict != "right":
            lines.append(f"{result.input}: {outcome.verdict} in stage {outcome.stage}, {outcome.detail[:200]}")
    refused = sum(result.outcome.verdict == "refused" for result in results)
    lines += [f"{refused} of {len(results)} inputs are refused, promised {REFUSED_SHARE:.0%}"] * (refused > REFUSED_SHARE * len(results))
    return lines


def plot(path: Path, results: Sequence[Result]) -> None:
    """A panel for each family, both axes logarithmic: worst step (solid) and compilation (dashed) against size.

    A cross is a refusal, at the time it took; a triangle is an input that was ended, crashed or failed.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.lines import Line2D

    names = [*dict.fromkeys(result.family for result in results)]
    engines = [*dict.fromkeys(result.engine for result in results)]
    columns = min(6, len(names))
    rows = -(-len(names) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(3.2 * columns, 2.4 * rows), squeeze=False, layout="constrained")
    for axis, name in zip(axes.flat, names, strict=False):
        for color, engine in enumerate(engines):
            own = [r for r in results if r.family == name and r.engine == engine]
            for style, points in (
                ("-o", [(r.size, r.step) for r in own if r.step]),
                ("--", [(r.size, r.outcome.compile) for r in own if r.outcome.compile]),
                ("x", [(r.size, max(r.outcome.last, 0.01)) for r in own if r.outcome.verdict == "refused"]),
                ("^", [(r.size, 20_000.0) for r in own if r.outcome.verdict not in ("right", "refused", "not taken")]),
            ):
                axis.plot(*zip(*points, strict=True), style, color=f"C{color}", markersize=4) if points else None
        axis.axhline(STEP_MS, color="grey", linewidth=0.6)
        axis.set(xscale="log", yscale="log", ylim=(0.001, 40_000))
        axis.set_title(name, fontsize=8)
        axis.tick_params(labelsize=6)
        axis.grid(visible=True, alpha=0.3)
    for axis in axes.flat[len(names) :]:
        axis.axis("off")
    handles = [Line2D([], [], color=f"C{color}", marker="o", label=label(engine)) for color, engine in enumerate(engines)]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    figure.supylabel("ms: worst step solid, compile dashed, x refused, triangle ended early", fontsize=8)
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


if __name__ == "__main__":
    sys.exit(main())
