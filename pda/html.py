"""Text in colours for notebooks: pieces of escaped HTML with their styles beside them, since a notebook has no style sheet of ours.

Everything that comes from a grammar, a token or a text passes `escape`; the functions below take plain text and give HTML.

>>> table([("a < b", 1)])
'<table style="font-size:13px"><tr><td style="text-align:left;opacity:.7">a &lt; b</td><td style="text-align:left">1</td></tr></table>'
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Final

COLOURS: Final = {
    "forced": "background:#7c5cff33;border-bottom:2px dotted #7c5cff",
    "chosen": "background:#16a37a2e",
    "refused": "background:#c9302c;color:#fff",
    "stop": "opacity:.6;border:1px solid currentColor;border-radius:3px;padding:0 3px",
}
"""Translucent, so that they can be read on light and dark paper."""
_MONO: Final = "font-family:ui-monospace,Menlo,Consolas,monospace;font-size:13px;white-space:pre-wrap;overflow-wrap:anywhere"


def escape(text: str) -> str:
    """Text as HTML, with control characters by their numbers."""
    return html.escape("".join(char if char.isprintable() or char == "\n" else f"\\x{ord(char):02x}" for char in text))


def span(text: str, kind: str, title: str = "", probability: float | None = None) -> str:
    """A piece of text in the colour of its kind; `title` is shown when it is pointed at.

    What was chosen by its probability is coloured by it, from red (0) over yellow to green (1), and the title says it.
    """
    style = COLOURS[kind]
    if probability is not None:
        title += f", probability {probability:.3g}"
        style = f"background:hsl({130 * probability:.0f} 80% 45% / .3)" if kind == "chosen" else style
    shown = f' title="{escape(title)}"' if title else ""
    return f'<span style="{style}"{shown}>{escape(text)}</span>'


def block(content: str) -> str:
    """HTML that is text of a fixed width."""
    return f'<div style="{_MONO}">{content}</div>'


def table(rows: Iterable[tuple[object, object]]) -> str:
    """Names and values."""
    cells = "".join(
        f'<tr><td style="text-align:left;opacity:.7">{escape(str(name))}</td><td style="text-align:left">{escape(str(value))}</td></tr>'
        for name, value in rows
    )
    return f'<table style="font-size:13px">{cells}</table>'


def details(summary: str, text: str) -> str:
    """A text that opens with a click."""
    return f'<details><summary>{escape(summary)}</summary><pre style="{_MONO}">{escape(text)}</pre></details>'
