"""Curves on logarithmic axes as SVG, from tables of results: the same tables give the same bytes, on any machine.

A chart is a row of panels with one legend. Each engine has its colour and its mark in all charts, so that they can be distinguished without
colours too. The style follows the reader's light or dark scheme.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

Points = Sequence[tuple[float, float]]

LOOKS: Final = {  # of an engine: its class in the style, and its mark around the origin
    "stackmask": ("a", '<circle r="3.6"/>'),
    "llguidance": ("b", '<path d="M-3.4-3.4h6.8v6.8h-6.8z"/>'),
    "xgrammar": ("c", '<path d="M0-4.4L4 3H-4z"/>'),
    "xgrammar-strict": ("d", '<path d="M0-4.6L4.6 0L0 4.6L-4.6 0z"/>'),
    "outlines-core": ("e", '<path d="M0 4.4L4-3H-4z"/>'),
}
LIGHT: Final = "--ink:#1f2430;--soft:#5d667a;--line:#dfe3eb;--paper:#fff;--a:#0b7a5c;--b:#2a63d4;--c:#c2570c;--d:#8a3ffc;--e:#6b7280"
DARK: Final = "--ink:#e7eaf1;--soft:#a4adc0;--line:#2c3342;--paper:#14171e;--a:#4fd6ab;--b:#7fb0ff;--c:#ff9f5a;--d:#c9a2ff;--e:#b3bac8"
STYLE: Final = f"""\
svg{{color-scheme:light dark;{LIGHT}}}
@media(prefers-color-scheme:dark){{svg{{{DARK}}}}}
.paper{{fill:var(--paper)}}
text{{font:12px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:var(--soft)}}
.title{{font-size:14px;font-weight:600;fill:var(--ink)}}.key{{fill:var(--ink)}}.end{{text-anchor:end}}.middle{{text-anchor:middle}}
.grid{{stroke:var(--line);stroke-width:1}}
path.curve{{fill:none;stroke-width:1.8;stroke-linejoin:round}}.a path.curve{{stroke-width:2.8}}
""" + "".join(f".{name}{{stroke:var(--{name});fill:var(--{name})}}\n" for name in "abcde")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM, GAP = 420.0, 270.0, 62.0, 16.0, 70.0, 66.0, 14.0  # pixels; the first two are a panel's


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves by engine; `ticks` are the places of the x axis that have a label, all places of points if it is empty."""

    title: str
    x: str
    y: str
    curves: Mapping[str, Points]
    ticks: Sequence[tuple[float, str]] = ()


def draw(panels: Sequence[Panel], note: str) -> str:
    """The chart; ValueError where it has no points or one is not above zero, which a logarithm needs."""
    width = len(panels) * (WIDTH + GAP) - GAP
    height = TOP + HEIGHT + BOTTOM
    title = "; ".join(panel.title for panel in panels)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" role="img">',
        f"<title>{_text(title)}</title><style>\n{STYLE}</style>",
        '<rect class="paper" width="100%" height="100%"/>',
    ]
    names = list(dict.fromkeys(name for panel in panels for name in panel.curves))
    x = LEFT
    for name in names:
        look, mark = LOOKS[_engine(name)]
        parts.append(f'<g class="{look}"><path class="curve" d="M{x:.0f} 18h22"/><g transform="translate({x + 11:.0f} 18)">{mark}</g></g>')
        parts.append(f'<text class="key" x="{x + 28:.0f}" y="22">{_text(name)}</text>')
        x += 28 + 6.6 * len(name) + 18
    for number, panel in enumerate(panels):
        parts += _panel(panel, number * (WIDTH + GAP))
    parts.append(f'<text x="{LEFT:.0f}" y="{height - 12:.0f}">{_text(note)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, offset: float) -> list[str]:
    points = [point for curve in panel.curves.values() for point in curve]
    if not points or min(min(point) for point in points) <= 0:
        raise ValueError(f"{panel.title}: no points, or one that is not above zero")
    places = panel.ticks or [(x, _number(x)) for x in sorted({x for x, _ in points})]
    low, high = math.log(min(x for x, _ in points)), math.log(max(x for x, _ in points))
    bottom, top = math.floor(math.log10(min(y for _, y in points))), math.ceil(math.log10(max(y for _, y in points)))
    top = max(top, bottom + 1)
    left, right, up, down = offset + LEFT, offset + WIDTH - RIGHT, TOP, TOP + HEIGHT

    def across(x: float) -> float:
        return left + 8 + (right - left - 16) * ((math.log(x) - low) / (high - low) if high > low else 0.5)

    def along(y: float) -> float:
        return down - (down - up) * (math.log10(y) - bottom) / (top - bottom)

    parts = [f'<text class="title" x="{left:.0f}" y="{up - 14:.0f}">{_text(panel.title)}</text>']
    for power in range(bottom, top + 1):
        y = along(10.0**power)
        parts.append(f'<path class="grid" d="M{left:.1f} {y:.1f}H{right:.1f}"/>')
        parts.append(f'<text class="end" x="{left - 6:.1f}" y="{y + 4:.1f}">{_number(10.0**power)}</text>')
    for x, label in places:
        parts.append(f'<path class="grid" d="M{across(x):.1f} {up:.1f}V{down:.1f}"/>')
        parts.append(f'<text class="middle" x="{across(x):.1f}" y="{down + 17:.1f}">{_text(label)}</text>')
    parts.append(f'<text class="middle" x="{(left + right) / 2:.1f}" y="{down + 35:.1f}">{_text(panel.x)}</text>')
    middle = (up + down) / 2
    parts.append(f'<text class="middle" transform="translate({offset + 14:.1f} {middle:.1f})rotate(-90)">{_text(panel.y)}</text>')
    for name, curve in reversed(list(panel.curves.items())):  # the first is drawn last, above the others
        look, mark = LOOKS[_engine(name)]
        path = "M" + "L".join(f"{across(x):.1f} {along(y):.1f}" for x, y in curve)
        marks = "".join(f'<g transform="translate({across(x):.1f} {along(y):.1f})">{mark}</g>' for x, y in curve)
        parts.append(f'<g class="{look}"><path class="curve" d="{path}"/>{marks}</g>')
    return parts


def _engine(name: str) -> str:
    """The engine of a label such as "llguidance 1.9.1"."""
    return name.partition(" ")[0]


def _number(value: float) -> str:
    """A number for an axis.

    >>> _number(0.1), _number(1000), _number(128256), _number(2000000)
    ('0.1', '1,000', '128k', '2M')
    """
    if value >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:.0f}k" if value >= 1e4 else f"{value:,g}"


def _text(text: str) -> str:
    return html.escape(text, quote=False)
