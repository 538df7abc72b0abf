"""Lengths and first characters of the texts of a pattern, from the syntax tree alone. Assertions are assumed to hold anywhere."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from ..automata.charset import CharSet, union
from .ast import Alt, Ast, AstNode, Atomic, Chars, Repeat, Seq, Text

# Longer texts than this count as endless.
LONG: Final = 1 << 62


def widths(ast: Ast) -> tuple[int, float]:
    """The lengths of the shortest and the longest text.

    >>> from stackmask.pda.regex.parser import parse
    >>> widths(parse("a|bc{2,}"))
    (1, inf)
    """
    return all_widths(ast)[ast.root]


def all_widths(ast: Ast) -> list[tuple[int, float]]:
    """The same for every node."""
    found: list[tuple[int, float]] = []
    for node in ast.nodes:
        match node:
            case Chars():
                found.append((1, 1))
            case Text(text):
                found.append((len(text), len(text)))
            case Seq(parts):
                found.append((sum(found[part][0] for part in parts), sum(found[part][1] for part in parts)))
            case Alt(parts):
                found.append((min(found[part][0] for part in parts), max(found[part][1] for part in parts)))
            case Atomic(body):
                found.append(found[body])
            case Repeat(body, minimum, maximum):
                low, high = found[body]
                most = float("inf") if maximum < 0 else maximum
                # Capped, since nested bounds multiply to numbers of any size; no text is that long.
                longest = high * most if high and most else 0
                found.append((min(low * minimum, LONG), longest if longest < LONG else float("inf")))
            case _:
                found.append((0, 0))
    return found


def first_characters(ast: Ast) -> CharSet:
    """A set that holds every character with which a text may begin.

    >>> from stackmask.pda.regex.parser import parse
    >>> first_characters(parse("a?b|c"))
    (97, 99)
    """
    found: list[tuple[bool, CharSet]] = []
    for node in ast.nodes:
        match node:
            case Chars(chars):
                found.append((False, chars))
            case Text(text):
                found.append((False, (ord(text[0]), ord(text[0]))))
            case Seq(parts):
                leading = list(parts[:1])
                for part, following in pairwise(parts):
                    if not found[part][0]:
                        break
                    leading.append(following)
                found.append((all(found[part][0] for part in parts), union(*(found[part][1] for part in leading)) if leading else ()))
            case Alt(parts):
                found.append((any(found[part][0] for part in parts), union(*(found[part][1] for part in parts))))
            case Repeat(body, minimum, maximum):
                found.append((minimum == 0 or found[body][0], found[body][1] if maximum else ()))
            case _:
                found.append((True, ()))
    return found[ast.root][1]


def one_character(node: AstNode) -> CharSet | None:
    """The set of a node that reads exactly one character; None for other nodes."""
    if isinstance(node, Text) and len(node.text) == 1:
        return (ord(node.text), ord(node.text))
    return node.chars if isinstance(node, Chars) else None
