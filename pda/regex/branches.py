"""The outermost branches of a pattern, and the anchors at their ends.

There an anchor only says whether other text may stand beside the match; patterns with other assertions need an automaton.
"""

from __future__ import annotations

from typing import NamedTuple

from .ast import END, START, Alt, Ast, AstId, AstNode, Seq


class Branch(NamedTuple):
    """An outermost branch without its anchors: its parts, and whether it must begin and end with the text."""

    parts: tuple[AstId, ...]
    starts: bool
    ends: bool


def outer_branches(ast: Ast) -> list[Branch] | None:
    """The outermost branches of a pattern; None where it holds other assertions than the anchors at their ends.

    >>> from stackmask.pda.regex.parser import parse
    >>> outer_branches(parse("^(?:ab|c$)|d"))
    [Branch(parts=(4,), starts=True, ends=False), Branch(parts=(2,), starts=True, ends=True), Branch(parts=(7,), starts=False, ends=False)]
    >>> outer_branches(parse("a(?:^|b)")) is None
    True
    """
    if not ast.assertions:
        return [Branch((ast.root,), False, False)]
    found, taken = trim_branches(ast.nodes, ast.root)
    return found if taken == ast.assertions else None


def trim_branches(nodes: tuple[AstNode, ...], root: AstId) -> tuple[list[Branch], int]:
    """The outermost branches of a part of a pattern, and how many anchors were taken from their ends; other assertions may be left."""
    found: list[Branch] = []
    taken = 0
    todo = [(root, False, False)]
    while todo:
        part, starts, ends = todo.pop()
        node = nodes[part]
        if isinstance(node, Alt):
            todo.extend((branch, starts, ends) for branch in reversed(node.parts))
            continue
        parts = node.parts if isinstance(node, Seq) else (part,)
        begin, end = 0, len(parts)
        while begin < end and nodes[parts[begin]] == START:
            begin += 1
        while end > begin and nodes[parts[end - 1]] == END:
            end -= 1
        taken += begin + len(parts) - end
        starts, ends = starts or begin > 0, ends or end < len(parts)
        parts = parts[begin:end]
        if len(parts) == 1 and isinstance(nodes[parts[0]], Alt | Seq):
            todo.append((parts[0], starts, ends))
        else:
            found.append(Branch(parts, starts, ends))
    return found, taken
