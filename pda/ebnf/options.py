"""The options of an EBNF rule, in brackets behind its name; as XGrammar writes them.

    lazy                the shortest texts: those that do not begin with a shorter one; the rule must be regular
    max_chars=20        texts of at most 20 characters; the rule must be regular
    encoding=json       characters written as bytes in this way; the rule must be regular, where it may call itself at its end:
                        utf8; json, as inside a JSON string; json_any, likewise, or by any other escape; bytes, U+0000 to U+00FF as a byte
    min_chars=2         beside an encoding: texts of at least two characters
    distinct            a JSON value unlike all that `distinct` rules read before in the innermost `scope` around
    scope               `distinct` begins anew in it
    max_tokens=20       the text ends after 20 tokens, or where the rule may first end at the end of a later token
    temperature=0.5     the temperature at which its tokens are sampled: `matcher.temperature`
    capture             its texts can be asked for by the rule's name, or by another one with capture="name": `matcher.get_captures()`

They apply in this order. `encoding`, `min_chars`, `distinct` and `scope` are for grammars that `Grammar.to_ebnf` wrote.
A bound on the characters is exact: XGrammar reads on where the rule cannot end in time, and this module generates no such text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

from ..grammar import GrammarBuilder, NodeId
from ..operators import ENCODINGS

_OPTION: Final = re.compile(r'\s*([A-Za-z_]+)\s*(?:=\s*("(?:[^"\\]|\\.)*"|[^\s",]+)\s*)?(?:,|$)')
_ESCAPE: Final = r'\\([\\"nrt]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U00(?:0[0-9A-Fa-f]|10)[0-9A-Fa-f]{4})'
_ESCAPED: Final = rf"(?:[^\\]|{_ESCAPE})*"
_CONTROL: Final = {"\\": "\\", '"': '"', "n": "\n", "r": "\r", "t": "\t"}
_MOST: Final = (1 << 31) - 1


class OptionError(Exception):
    """An option is unknown, or its value is wrong."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options in the brackets; -1 is no bound, and `capture` is empty for the rule's own name."""

    lazy: bool = False
    max_chars: int = -1
    max_tokens: int = -1
    temperature: float | None = None
    capture: str | None = None
    encoding: int | None = None
    min_chars: int = 0
    distinct: bool = False
    scope: bool = False

    def around(self, builder: GrammarBuilder, body: NodeId, name: str) -> NodeId:
        """The body of a rule of this name, within those options that its language does not have already."""
        node = builder.distinct(body) if self.distinct else body
        node = builder.scope(node) if self.scope else node
        node = builder.limit(node, tokens=self.max_tokens)
        if self.temperature is not None:
            node = builder.temperature(node, self.temperature)
        return node if self.capture is None else builder.capture(node, self.capture or name)

    def of_tokens(self) -> str:
        """One of the options that no automaton of characters can carry, empty for none."""
        if self.encoding is not None:
            return "encoding"
        if self.distinct or self.scope:
            return "distinct" if self.distinct else "scope"
        if self.max_tokens >= 0:
            return "max_tokens"
        if self.temperature is not None:
            return "temperature"
        return "" if self.capture is None else "capture"


def read_options(text: str) -> Options:
    """The options between two brackets.

    >>> read_options('max_tokens=5, capture="x"')  # doctest: +ELLIPSIS
    Options(lazy=False, max_chars=-1, max_tokens=5, temperature=None, capture='x', ...)
    """
    found: dict[str, str | None] = {}
    position = 0
    while text[position:].strip():
        match = _OPTION.match(text, position)
        if match is None:
            raise OptionError("options are written name or name=value, with commas between them")
        key, value = match.groups()
        if key not in _READERS:
            raise OptionError(f"there is no rule option `{key}`; available: {', '.join(_READERS)}")
        if key in found:
            raise OptionError(f"the option `{key}` is given twice")
        found[key] = value
        position = match.end()
    values: dict[str, Any] = {key: _READERS[key](key, value) for key, value in found.items()}
    if "min_chars" in values and "encoding" not in values:
        raise OptionError("the option min_chars needs the option encoding")
    if "lazy" in values and "encoding" in values:
        raise OptionError("the options lazy and encoding cannot be combined")
    return Options(**values)


def _flag(key: str, value: str | None) -> bool:
    if value is not None:
        raise OptionError(f"the option {key} takes no value")
    return True


def _count(key: str, value: str | None) -> int:
    if value is None or not re.fullmatch("[0-9]{1,10}", value) or not 1 <= int(value) <= _MOST:
        raise OptionError(f"the option {key} takes a number from 1 to {_MOST}, as in {key}=20")
    return int(value)


def _temperature(key: str, value: str | None) -> float:
    if value is None or not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,9})?", value) or not isfinite(float(value)):
        raise OptionError(f"the option {key} takes a number from 0, as in {key}=0.7")
    return float(value)


def _encoding(key: str, value: str | None) -> int:
    if value not in ENCODINGS:
        raise OptionError(f"the option {key} takes one of {', '.join(ENCODINGS)}")
    return ENCODINGS.index(value)


def _name(key: str, value: str | None) -> str:
    if value is None:
        return ""
    if len(value) < 3 or value[0] != '"':
        raise OptionError(f'the option {key} takes a name in quotes, as in {key}="name"')
    if not re.fullmatch(_ESCAPED, value[1:-1]):
        raise OptionError(f'the option {key} takes a name with the escapes \\\\, \\", \\n, \\r, \\t, \\xHH, \\uHHHH and \\UHHHHHHHH only')
    return re.sub(_ESCAPE, lambda match: _CONTROL.get(match[1]) or chr(int(match[1][1:] or "0", 16)), value[1:-1])


_READERS: Final[dict[str, Callable[[str, str | None], object]]] = {
    "lazy": _flag,
    "max_chars": _count,
    "max_tokens": _count,
    "temperature": _temperature,
    "capture": _name,
    "encoding": _encoding,
    "min_chars": _count,
    "distinct": _flag,
    "scope": _flag,
}
