"""Which rules of a grammar generate no text, and which its root never calls: the useless symbols of the textbook.

Both are computed with a worklist in linear time and without recursion; productive.py has the first of the two fixed points.
"""

from __future__ import annotations

from collections.abc import Mapping

from .grammar import Grammar, NodeId, RuleId
from .operators import CALL, operands
from .productive import productive


def is_productive(grammar: Grammar) -> bool:
    """Whether the root generates a text; DISTINCT is taken to find new values.

    >>> from stackmask.pda.grammar import GrammarBuilder
    >>> b = GrammarBuilder()
    >>> loop = b.rule("loop")
    >>> b.define(loop, b.seq(b.literal(b"a"), b.call(loop)))
    >>> is_productive(b.build(loop))
    False
    """
    return productive(grammar.nodes, grammar.rules)[1][grammar.root]


def unproductive_rules(grammar: Grammar) -> list[RuleId]:
    """The rules that generate no text at all, not even the empty one."""
    return [RuleId(rule) for rule, found in enumerate(productive(grammar.nodes, grammar.rules)[1]) if not found]


def barren_rule(grammar: Grammar, rule: RuleId) -> tuple[RuleId, bool]:
    """The rule to blame for an unproductive one, and whether it leads back to itself; otherwise it has a part that has no text.

    >>> from stackmask.pda.grammar import GrammarBuilder
    >>> b = GrammarBuilder()
    >>> root, loop = b.rule("root"), b.rule("loop")
    >>> b.define(root, b.seq(b.literal(b"a"), b.call(loop)))
    >>> b.define(loop, b.seq(b.literal(b"("), b.call(loop)))
    >>> barren_rule(b.build(root), root) == (loop, True)
    True
    """
    found = productive(grammar.nodes, grammar.rules)[0]
    seen: set[RuleId] = set()
    node = grammar.rules[rule]
    while True:
        if grammar.nodes[node][0] == CALL:
            seen.add(rule)
            rule = RuleId(grammar.nodes[node][1])
            if rule in seen:
                return rule, True
            node = grammar.rules[rule]
            continue
        barren = [part for part in operands(grammar.nodes[node]) if not found[part]]
        if not barren:
            return rule, False
        node = NodeId(barren[0])


def unreachable_rules(grammar: Grammar, also: Mapping[RuleId, tuple[NodeId, ...]]) -> list[RuleId]:
    """The rules that the root never calls; `also` holds nodes that stand in a rule's text and no longer in its body."""
    size = len(grammar.nodes)  # a vertex is a node by its index, or a rule by its index after the last node
    reached = {size + grammar.root}
    new = [size + grammar.root]
    while new:
        vertex = new.pop()
        if vertex >= size:
            rule = RuleId(vertex - size)
            parts: list[int] = [grammar.rules[rule], *also.get(rule, ())]
        else:
            node = grammar.nodes[vertex]
            parts = [size + node[1]] if node[0] == CALL else [*operands(node)]
        for part in parts:
            if part not in reached:
                reached.add(part)
                new.append(part)
    return [RuleId(rule) for rule in range(len(grammar.rules)) if size + rule not in reached]
