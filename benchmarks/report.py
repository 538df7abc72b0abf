"""Samples as percentiles: tables for people, plots, and the promises that are made about them."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
import numpy.typing as npt

PERCENTILES = (25, 50, 75, 90, 95, 99, 99.9)
Samples = npt.NDArray[np.float64]


def summary(samples: Samples) -> dict[str, float]:
    """Percentiles, mean and maximum by name; nothing of no samples.

    >>> summary(np.array([1.0, 2.0, 3.0]))["p50"]
    2.0
    """
    if not len(samples):
        return {}
    found = {f"p{p:g}": float(np.percentile(samples, p)) for p in PERCENTILES}
    return {**found, "mean": float(samples.mean()), "max": float(samples.max())}


def table(title: str, rows: Mapping[str, Samples]) -> str:
    """A Markdown table of microseconds, a row for each set of samples."""
    columns = [*(f"p{p:g}" for p in PERCENTILES), "mean", "max"]
    lines = [[title, *columns, "samples"]]
    for name, samples in rows.items():
        values = summary(samples)
        lines.append([name, *(number(values[column]) if values else "" for column in columns), f"{len(samples):,}"])
    return markdown(lines)


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells as a Markdown table with its columns aligned; the first line is the header, the first column text."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]

    def show(line: Sequence[str]) -> str:
        cells = [cell.rjust(width) if place else cell.ljust(width) for place, (cell, width) in enumerate(zip(line, widths, strict=True))]
        return "| " + " | ".join(cells) + " |"

    rule = "|" + "|".join("-" * (width + 1) + (":" if place else "-") for place, width in enumerate(widths)) + "|"
    return "\n".join([show(lines[0]), rule, *map(show, lines[1:])])


def number(value: float) -> str:
    """A number of microseconds with the digits that mean something.

    >>> number(0.2849), number(33.333), number(1234567)
    ('0.28', '33.3', '1,234,567')
    """
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def machine() -> str:
    """The machine and the versions that a table was made with."""
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        names = [line.partition(":")[2].strip() for line in information.read_text().splitlines() if line.startswith("model name")]
        model = f"{names[0]}, {len(names)} logical CPUs" if names else model
    return f"{model}; Python {platform.python_version()}, NumPy {version('numpy')}"


def plot(path: Path, panels: Mapping[str, Mapping[str, Samples]]) -> None:
    """Each panel's samples by percentile, both axes logarithmic: to the right the rare, slow ones."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(panels), figsize=(6 * len(panels), 4.5), squeeze=False, layout="constrained")
    ticks = [50, 75, 90, 95, 99, 99.9, 99.99]
    for axis, (title, rows) in zip(axes[0], panels.items(), strict=True):
        for name, samples in rows.items():
            if len(samples):
                ordered = np.sort(samples)
                rarity = len(ordered) / np.arange(len(ordered), 0, -1)  # one sample in so many is at least as slow
                axis.plot(rarity, ordered, label=name, linewidth=1.6)
        axis.set(title=title, xscale="log", yscale="log", xlabel="percentile", ylabel="µs")
        axis.set_xticks([1 / (1 - tick / 100) for tick in ticks], [f"{tick:g}" for tick in ticks])
        axis.minorticks_off()
        axis.grid(visible=True, alpha=0.3)
        axis.legend()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
