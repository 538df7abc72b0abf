r"""The length of a text beside lookaheads, which becomes bounds: a counter takes them where states would count.

    ^(?=.{4,253}$)([a-z]+\.)+$         a text of 4 to 253 characters in which ^.*$ and ^([a-z]+\.)+$ find a match
    ^(?=.*[0-9])(?=.*[a-z]).{8,128}$   a text of 8 to 128 characters in which ^(?=.*[0-9])(?=.*[a-z]).*$ finds a match

Host names and passwords are often written so. A length counted by states multiplies those of the rest, 250 by 60 for a host name.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ..automata import language
from ..automata.dfa import Dfa
from ..grammar import GrammarBuilder, NodeId
from ..limits import Limits
from .ast import END, START, Ast, Chars, Look, Repeat, Seq
from .parser import parse

# The lookahead as it is written; what it means is asked of the syntax tree.
_WRITTEN: Final = re.compile(r"\(\?=(\^?)(\.|\\.|\[(?:[^\]\\]|\\.)*\])(?:[*+?]|\{\d+(?:,\d*)?\})\$\)", re.DOTALL)
# A class that is repeated to the end of the pattern.
_REPEATED: Final = re.compile(r"(\.|\\.|\[(?:[^\]\\]|\\.)*\])\{\d+(?:,\d*)?\}(\$?)\Z", re.DOTALL)
_FLAGS: Final = re.compile(r"\(\?[a-zA-Z-]")  # also (?P<name>
_VERBOSE: Final = re.compile(r"\(\?[a-z]*x")
_ANY: Final = frozenset((r"[\s\S]", r"[\S\s]", r"[\d\D]", r"[\D\d]", r"[\w\W]", r"[\W\w]", "[^]"))

# Shorter lengths are counted by states, which need no counter at run time.
_MANY: Final = 16


class LengthAhead(NamedTuple):
    """A pattern without its length: all `patterns` find a match in a text of `minimum` to `maximum` characters."""

    patterns: tuple[str, ...]
    minimum: int
    maximum: int
    """-1 for no bound."""


def split_length(pattern: str, *, search: bool, limits: Limits | None = None) -> LengthAhead | None:
    r"""A pattern as patterns and bounds of the length, None where neither a lookahead nor the class behind lookaheads gives any.

    The patterns are to be matched as the pattern was: as a whole, or with `search` somewhere in the text.

    >>> split_length(r"^(?=.{1,9}$)a+(\.a+)*$", search=True)
    LengthAhead(patterns=('^a+(\\.a+)*$', '^.*$'), minimum=1, maximum=9)
    """
    if "(?=" not in pattern and "(?!" not in pattern:
        return None
    ast = parse(pattern, limits=limits)
    root = ast.nodes[ast.root]
    if not isinstance(root, Seq):
        return None
    places = dict(ast.places)
    anchored = not search
    found: tuple[Repeat, re.Match[str]] | None = None
    for part in root.parts:
        node = ast.nodes[part]
        if node == START:
            anchored = True
        elif isinstance(node, Look):
            written = _WRITTEN.match(pattern, places[part])
            length = _length(ast, node)
            if found is None and length is not None and written is not None and not _FLAGS.search(pattern):
                found = length, written
        else:
            break
    if found is None:
        return _repeated_class(ast, root, anchored=anchored, search=search)
    if not (anchored or found[1][1]):
        return None
    length, written = found
    rest = pattern[: written.start()] + written[1] + pattern[written.end() :]
    characters = () if written[2] in _ANY else (f"^{written[2]}*$",)
    return LengthAhead((rest, *characters), length.minimum, length.maximum)


def _repeated_class(ast: Ast, root: Seq, *, anchored: bool, search: bool) -> LengthAhead | None:
    """The length of a pattern that is lookaheads and one repeated class behind them."""
    parts = [ast.nodes[part] for part in root.parts]
    ends = parts[-1] == END
    if ends:
        del parts[-1]
    *ahead, repeat = parts
    if not anchored or (search and not ends) or not isinstance(repeat, Repeat) or not isinstance(ast.nodes[repeat.body], Chars):
        return None
    looks = [node for node in ahead if node != START]
    if not looks or not all(isinstance(node, Look) for node in looks) or max(repeat.minimum, repeat.maximum) < _MANY:
        return None
    written = None if _VERBOSE.search(ast.pattern) else _REPEATED.search(ast.pattern)
    if written is None or bool(written[2]) != ends:
        return None
    return LengthAhead((f"{ast.pattern[: written.start()]}{written[1]}*{written[2]}",), repeat.minimum, repeat.maximum)


def _length(ast: Ast, look: Look) -> Repeat | None:
    """The repetition of one class, to the end of the text, that a lookahead consists of."""
    body = ast.nodes[look.body]
    if not look.ahead or look.negated or not isinstance(body, Seq):
        return None
    parts = [ast.nodes[part] for part in body.parts]
    if parts[0] == START:
        del parts[0]
    if len(parts) != 2 or parts[1] != END:
        return None
    repeat = parts[0]
    return repeat if isinstance(repeat, Repeat) and isinstance(ast.nodes[repeat.body], Chars) else None


def counted_node(
    builder: GrammarBuilder, automaton: Dfa, lengths: tuple[int, int | None] | None, low: int, high: int, encoding: int
) -> NodeId | None:
    """The accepted texts of bounded length as an automaton that counts, None where its states do not tell which counts lead to an end.

    `lengths` are those of the shortest and the longest accepted text, as `language.length_bounds` gives them; `high` is -1 for no bound.
    """
    if lengths is None or 0 <= high < lengths[0] or (lengths[1] is not None and lengths[1] < low):
        return builder.never()
    if low <= lengths[0]:
        low = 0
    if lengths[1] is not None and lengths[1] <= high:
        high = -1
    if low > 0 and high >= 0 and language.skips_lengths(automaton, high - low + 1):
        return None
    return builder.automaton(automaton.transitions, automaton.accepting, encoding, minimum=low, maximum=high)
