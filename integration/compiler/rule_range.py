"""The place in the text of a grammar that defines a rule."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

Range = tuple[int, int]

_DEFINITION: Final = {
    "ebnf": r"^[ \t]*<?{name}>?[ \t]*(?:\[[^\]\n]*\][ \t]*)*(?:::=|:=|=)",
    "lark": r"^[?!]{{0,2}}{name}(?:\.-?\d+)?[ \t]*(?:\{{[^}}\n]*\}}[ \t]*)?(?:\[[^\]\n]*\][ \t]*)?:",
}
_ANY_DEFINITION: Final = {
    "ebnf": re.compile(r"^[ \t]*<?[A-Za-z_][\w.\-]*>?[ \t]*(?:\[[^\]\n]*\][ \t]*)*(?:::=|:=|=)", re.MULTILINE),
    "lark": re.compile(r"^(?:[?!]{0,2}[A-Za-z_]\w*(?:\.-?\d+)?[ \t]*(?:\{[^}\n]*\}[ \t]*)?(?:\[[^\]\n]*\][ \t]*)?:|%)", re.MULTILINE),
}


def rule_range(kind: str, text: str, names: Iterable[str]) -> tuple[str, Range] | None:
    r"""The first of these rules that the text defines, and the range of its definition.

    >>> rule_range("ebnf", 'root ::= a\na ::= "x"', ["repeat", "a"])
    ('a', (11, 20))
    """
    for name in names:
        found = re.search(_DEFINITION[kind].format(name=re.escape(name)), text, re.MULTILINE)
        if found is not None:
            following = _ANY_DEFINITION[kind].search(text, found.end())
            end = following.start() if following is not None else len(text)
            return name, (found.start(), len(text[:end].rstrip()))
    return None
