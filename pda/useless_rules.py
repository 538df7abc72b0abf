"""Which rules of a grammar generate no text, and which its root never calls.

Both are fixed points over the graph of nodes and rules, computed with a worklist in linear time and without recursion.
A vertex is a node by its index, or a rule by its index after the last node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .grammar import (
    ALT,
    CALL,
    CAPTURE,
    DISTINCT,
    GRAPH,
    LIMIT,
    NEVER,
    PERMUTE,
    REPEAT,
    SCOPE,
    SEQ,
    TEMPERATURE,
    Grammar,
    Node,
    NodeId,
    RuleId,
)


def unproductive_rules(grammar: Grammar) -> list[RuleId]:
    """The rules that generate no text at all, not even the empty one.

        productive(SEQ)  = all parts are        productive(REPEAT) = minimum is 0, or the body is
        productive(ALT)  = any part is          productive(CALL)   = the rule is

    GRAPH and PERMUTE count as productive: the front ends emit none that has no way to its end.
    """
    size = len(grammar.nodes)
    needed = [0] * (size + len(grammar.rules))
    dependents: list[list[int]] = [[] for _ in needed]
    ready = []
    for index, node in enumerate(grammar.nodes):
        parts = () if node[0] in (GRAPH, PERMUTE) or (node[0] == REPEAT and node[2] == 0) else _parts(node, size)
        needed[index] = 1 if node[0] in (ALT, NEVER) else len(parts)
        for part in parts:
            dependents[part].append(index)
        if not needed[index]:
            ready.append(index)
    for rule, body in enumerate(grammar.rules, size):
        needed[rule] = 1
        dependents[body].append(rule)
    while ready:
        for dependent in dependents[ready.pop()]:
            needed[dependent] -= 1
            if needed[dependent] == 0:
                ready.append(dependent)
    return [RuleId(rule) for rule in range(len(grammar.rules)) if needed[size + rule] > 0]


def unreachable_rules(grammar: Grammar, also: Mapping[RuleId, tuple[NodeId, ...]]) -> list[RuleId]:
    """The rules that the root never calls; `also` holds nodes that stand in a rule's text and no longer in its body."""
    size = len(grammar.nodes)
    reached = {size + grammar.root}
    new = [size + grammar.root]
    while new:
        vertex = new.pop()
        if vertex < size:
            parts = _parts(grammar.nodes[vertex], size)
        else:
            rule = RuleId(vertex - size)
            parts = [grammar.rules[rule], *also.get(rule, ())]
        for part in parts:
            if part not in reached:
                reached.add(part)
                new.append(part)
    return [RuleId(rule) for rule in range(len(grammar.rules)) if size + rule not in reached]


def _parts(node: Node, size: int) -> Sequence[int]:
    """The vertices that a node is made of."""
    return [size + node[1]] if node[0] == CALL else parts_of(node)  # type: ignore[operator]


def parts_of(node: Node) -> Sequence[int]:
    """The nodes that a node is made of; what it calls is none."""
    operator = node[0]
    if operator in (SEQ, ALT):
        return list(node[1:])  # type: ignore[arg-type]
    if operator in (REPEAT, SCOPE, DISTINCT, LIMIT, CAPTURE, TEMPERATURE):
        return [node[1]]  # type: ignore[list-item]
    if operator == GRAPH:
        return [part for part in node[2][2::3] if part >= 0]  # type: ignore[index]
    if operator == PERMUTE:
        return [*node[1][::2], node[2]]  # type: ignore[index,list-item]
    return []
