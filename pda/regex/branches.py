"""The outermost branches of a pattern, and the anchors at their ends.

There an anchor only says whether other text may stand beside the match; patterns with other assertions need an automaton.
"""

from __future__ import annotations

from typing import NamedTuple

from .ast import END, LINE_END, LINE_START, START, Alt, Ast, AstId, AstNode, Seq


class Branch(NamedTuple):
    """An outermost branch without its anchors: its parts, and whether it must begin and end with the text."""

    parts: tuple[AstId, ...]
    starts: bool
    ends: bool


def outer_branches(ast: Ast, *, search: bool) -> list[Branch] | None:
    """The outermost branches of a pattern; None where it holds other assertions than the anchors at their ends.

    Where the whole text has to match, these may be anchors of lines.

    >>> from stackmask.pda.regex.parser import parse
    >>> outer_branches(parse("^(?:ab|c$)|d"), search=True)
    [Branch(parts=(4,), starts=True, ends=False), Branch(parts=(2,), starts=True, ends=True), Branch(parts=(7,), starts=False, ends=False)]
    >>> outer_branches(parse("a(?:^|b)"), search=True) is None
    True
    """
    if not ast.assertions:
        return [Branch((ast.root,), False, False)]
    found, taken = trim_branches(ast.nodes, ast.root, lines=not search)
    return found if taken == ast.assertions else None


def trim_branches(nodes: tuple[AstNode, ...], root: AstId, *, lines: bool = False) -> tuple[list[Branch], int]:
    """The outermost branches of a part of a pattern, and how many anchors were taken from their ends; other assertions may be left.

    With `lines` anchors of lines are taken, too.
    """
    begins, endings = ((START, LINE_START), (END, LINE_END)) if lines else ((START,), (END,))
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
        while begin < end and nodes[parts[begin]] in begins:
            begin += 1
        while end > begin and nodes[parts[end - 1]] in endings:
            end -= 1
        taken += begin + len(parts) - end
        starts, ends = starts or begin > 0, ends or end < len(parts)
        parts = parts[begin:end]
        if len(parts) == 1 and isinstance(nodes[parts[0]], Alt | Seq):
            todo.append((parts[0], starts, ends))
        else:
            found.append(Branch(parts, starts, ends))
    return found, taken
