"""Draws the picture of the README: a schema, and a text that the inspector followed in it, with the tokens that were allowed.

    python scripts/readme_picture.py            # writes docs/picture-light.svg and docs/picture-dark.svg
    python scripts/readme_picture.py --check    # exits with 1 where they differ from what is drawn now

All that it shows is the inspector's answer: colours, sentence, place in the schema, and numbers of tokens. The palettes are the page's.
"""

from __future__ import annotations

import argparse
import html
import re
import sys
from pathlib import Path
from typing import Any

from stackmask.integration.demo import demo_vocabulary
from stackmask.integration.inspector import Inspector, Tokenizer

ROOT = Path(__file__).resolve().parents[1]
STYLE = ROOT / "integration" / "inspector" / "static" / "style.css"
SCHEMA = """\
{"type": "object",
 "properties": {
   "name": {"type": "string"},
   "age": {"type": "integer", "minimum": 0, "maximum": 120}},
 "required": ["name", "age"],
 "additionalProperties": false}"""
TEXT = '{"name":"Ada","age":121}'
LOOKS = {  # of a span or a token: names of the palette for its paper and its ink
    "forced": ("forced-bg", "forced"),
    "fits": ("good-bg", "good"),
    "chosen": ("good-bg", "good"),
    "refused": ("bad", "card"),
    "rest": (None, "rest"),
    "after": (None, "rest"),
}
LEGEND = {"forced": "forced: nothing else could stand here", "chosen": "chosen: there was a choice", "refused": "refused"}
WIDTH, MARGIN, LARGE, SMALL = 860, 28, 13.2, 8.4  # pixels; LARGE and SMALL are the widths of a character
FONT = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def inspected() -> dict[str, Any]:
    """What the inspector says of the text."""
    specification = {"kind": "json_schema", "text": SCHEMA, "options": {"whitespace": "compact"}}
    inspector = Inspector([Tokenizer("demo", demo_vocabulary())])
    answer = inspector.inspect({"specification": specification, "text": TEXT, "views": ["trace", "tokens"]})
    if answer["late"]:
        raise TimeoutError(f"the inspector had no time for {', '.join(answer['late'])}")
    return answer


def palettes() -> dict[str, dict[str, str]]:
    """The colours of the inspector's page by their names, light and dark."""
    style = STYLE.read_text("utf-8")
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", style.partition(start)[2].partition("}")[0]))
        for start in (":root {", ':root[data-theme="dark"] {')
    )
    return {"light": light, "dark": dark}


def draw(answer: dict[str, Any], palette: dict[str, str]) -> str:
    """The picture, as SVG."""
    parts: list[str] = []

    def box(x: float, y: float, width: float, height: float, colour: str) -> None:
        parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="4" fill="{palette[colour]}"/>')

    def text(x: float, y: float, size: int, colour: str, content: str, width: float | None = None, more: str = "") -> None:
        stretch = f' textLength="{width:.1f}" lengthAdjust="spacingAndGlyphs"' if width else ""
        shown = html.escape(content, quote=False).replace(" ", "\u00a0")
        parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{palette[colour]}"{stretch}{more}>{shown}</text>')

    refusal = answer["trace"]["refusal"]
    start, end = refusal["place"]["range"]
    y, offset = 44.0, 0
    for line in SCHEMA.splitlines():
        first, last = max(start - offset, 0), min(end - offset, len(line))
        if first < last:
            box(MARGIN + first * SMALL - 2, y - 15, (last - first) * SMALL + 4, 21, "bad-bg")
            box(MARGIN + first * SMALL - 2, y + 5, (last - first) * SMALL + 4, 2, "bad")
        text(MARGIN, y, 14, "ink", line, len(line) * SMALL)
        y, offset = y + 23, offset + len(line) + 1

    y += 42
    for first, last, kind in answer["trace"]["spans"]:
        paper, ink = LOOKS[kind]
        x, width = MARGIN + first * LARGE, (last - first) * LARGE
        if paper:
            box(x, y - 22, width, 31, paper)
        text(x, y, 22, ink, TEXT[first:last], width, ' font-weight="700"' if kind == "refused" else "")
    y += 32
    text(MARGIN, y, 14, "bad", "; ".join(refusal["reasons"]))

    y += 46
    x = float(MARGIN)
    for _, first, last, kind, allowed, *_ in answer["tokens"]["tokens"]:
        paper, ink = LOOKS[kind]
        piece, count = TEXT[first:last], "" if allowed is None else f"{allowed:,}"
        width = max(len(piece) * SMALL, len(count) * 6.6) + 14
        if paper:
            box(x, y - 17, width, 25, paper)
        text(x + (width - len(piece) * SMALL) / 2, y, 14, ink, piece, len(piece) * SMALL)
        if count:
            text(x + (width - len(count) * 6.6) / 2, y + 25, 11, "soft", count, len(count) * 6.6)
        x += width + 4
    text(x + 8, y + 25, 11, "soft", f"tokens allowed, of {demo_vocabulary().size:,}")

    y += 62
    x = float(MARGIN)
    for kind, words in LEGEND.items():
        box(x, y - 11, 13, 13, LOOKS[kind][0] or "rest")
        text(x + 20, y, 12, "soft", words)
        x += 20 + len(words) * 7.3 + 26
    height = y + 24
    title = html.escape(f"A text coloured by the inspector: forced, chosen and refused. {'; '.join(refusal['reasons'])}", quote=False)
    frame = (
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:.0f}" rx="14" fill="{palette["card"]}" stroke="{palette["line"]}"/>'
    )
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" role="img" font-family="{FONT}">'
    return "\n".join([opening, f"<title>{title}</title>", frame, *parts, "</svg>", ""])


def main() -> int:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where a file differs")
    options = parser.parse_args()
    answer, changed = inspected(), []
    for name, palette in palettes().items():
        path, drawn = ROOT / "docs" / f"picture-{name}.svg", draw(answer, palette)
        if not path.is_file() or path.read_text("utf-8") != drawn:
            changed.append(path.name)
            if not options.check:
                path.write_text(drawn, "utf-8")
    print(f"{', '.join(changed) or 'nothing'} {'differs' if options.check else 'written'}")
    return int(options.check and bool(changed))


if __name__ == "__main__":
    sys.exit(main())
