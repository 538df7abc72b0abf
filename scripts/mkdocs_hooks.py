"""What the site of the documentation needs beside mkdocs.yml."""

from __future__ import annotations

import re
from typing import Any


def on_page_markdown(markdown: str, **_: Any) -> str:
    r"""Tables: GitHub wants `\|` for a bar inside of code; Python-Markdown, which makes the site, shows the backslash."""
    return re.sub(r"^\|.*", _row, markdown, flags=re.MULTILINE)


def _row(row: re.Match[str]) -> str:
    return re.sub(r"`[^`]*`", lambda code: code[0].replace("\\|", "|"), row[0])
