"""Whether a grammar generates any text, decided on its expressions.

The engines find out for themselves, on their automata; this is for messages, where no engine is at hand.
It is the least fixpoint of "generates a text", by rounds over all nodes, which stand behind their operands: quadratic in deep grammars.
"""

from __future__ import annotations

from typing import Any

from . import grammar as ir
from .automata import language
from .automata.dfa import Dfa
from .grammar import Grammar


def is_productive(grammar: Grammar) -> bool:
    """Whether the root generates a text; DISTINCT is taken to find new values.

    >>> from stackmask.pda.grammar import GrammarBuilder
    >>> b = GrammarBuilder()
    >>> loop = b.rule("loop")
    >>> b.define(loop, b.seq(b.literal(b"a"), b.call(loop)))
    >>> is_productive(b.build(loop))
    False
    """
    rules = [False] * len(grammar.rules)
    changed = True
    while changed and not rules[grammar.root]:
        changed = False
        nodes: list[bool] = []
        for node in grammar.nodes:
            nodes.append(_generates(node, nodes, rules))
        for rule, body in enumerate(grammar.rules):
            if not rules[rule] and body >= 0 and nodes[body]:
                rules[rule] = changed = True
    return rules[grammar.root]


def _generates(node: tuple[Any, ...], nodes: list[bool], rules: list[bool]) -> bool:
    """Whether an expression generates a text, by what its operands and the rules are known to."""
    match node[0]:
        case ir.NEVER:
            return False
        case ir.BYTES | ir.CHARS:
            return bool(node[1])
        case ir.SEQ:
            return all(nodes[part] for part in node[1:])
        case ir.ALT:
            return any(nodes[part] for part in node[1:])
        case ir.REPEAT:
            return bool(node[2] <= 0 or nodes[node[1]])
        case ir.CALL:
            return bool(rules[node[1]])
        case ir.GRAPH:
            return _leads_through(node[2], nodes)
        case ir.AUTOMATON:
            low, high = node[4:] or (0, -1)
            lengths = language.length_bounds(Dfa(node[1], node[2]))
            return lengths is not None and (high < 0 or lengths[0] <= high) and (lengths[1] is None or lengths[1] >= low)
        case ir.PERMUTE:
            return _permutes(*node[1:], nodes=nodes)
        case ir.SCOPE | ir.DISTINCT | ir.LIMIT | ir.CAPTURE | ir.TEMPERATURE:
            return bool(nodes[node[1]])
        case _:
            return True


def _leads_through(edges: tuple[int, ...], nodes: list[bool]) -> bool:
    """Whether state 1 of a GRAPH is in reach of state 0."""
    following: dict[int, list[int]] = {}
    for source, target, part in zip(edges[::3], edges[1::3], edges[2::3], strict=True):
        if part < 0 or nodes[part]:
            following.setdefault(source, []).append(target)
    seen = {0}
    pending = [0]
    for state in pending:
        for target in following.get(state, ()):
            if target not in seen:
                seen.add(target)
                pending.append(target)
    return 1 in seen


def _permutes(members: tuple[int, ...], separator: int, minimum: int, maximum: int, *, nodes: list[bool]) -> bool:
    """Whether the members that have to occur can."""
    flagged = list(zip(members[::2], members[1::2], strict=True))
    required = sum(1 for _, flags in flagged if flags & ir.REQUIRED)
    if any(flags & ir.REQUIRED and not nodes[part] for part, flags in flagged) or 0 <= maximum < max(minimum, required):
        return False
    there = [flags for part, flags in flagged if nodes[part]]
    needed = max(minimum, required)
    return (needed <= 1 or nodes[separator]) and (len(there) >= needed or any(flags & ir.REPEATABLE for flags in there))
