"""One grammar copied into another that is being built, so that front ends can stand inside each other.

Nodes are renumbered in one pass; since they are hash-consed, what both grammars have is there once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from .grammar import Grammar, GrammarBuilder, NodeId, RuleId
from .operators import CALL, SIGNATURES, Node, Operand, operands

Renumbered: TypeAlias = "list[NodeId] | dict[int, NodeId]"
"""Where the nodes of one grammar are in another."""


def splice(builder: GrammarBuilder, grammar: Grammar) -> NodeId:
    """A node of the builder for the texts of a grammar.

    >>> b = GrammarBuilder()
    >>> root = b.rule("root")
    >>> from stackmask.pda.choice import choice_grammar
    >>> b.define(root, b.seq(b.literal(b"<"), splice(b, choice_grammar(["a"])), b.literal(b">")))
    >>> [b.names[rule] for rule in range(len(b.rules))]
    ['root', 'choice']
    """
    first = len(builder.rules)
    for name in grammar.names:
        builder.rule(name)
    renumbered: list[NodeId] = []
    extend(builder, grammar.nodes, renumbered, first)
    for rule, body in enumerate(grammar.rules):
        builder.define(RuleId(first + rule), renumbered[body])
    return builder.call(RuleId(first + grammar.root))


def extend(builder: GrammarBuilder, nodes: Iterable[Node], renumbered: list[NodeId], first: int) -> None:
    """Add nodes to a builder, and their new numbers to `renumbered`, which has those of the nodes before; rules move up by `first`."""
    index, found = builder.index, builder.nodes
    add = renumbered.append
    # INVARIANT: a node is built after those that it refers to, so their new numbers are there.
    for node in nodes:
        operator = node[0]
        if operator in _PLAIN:  # PERF: half of all nodes are one of these
            moved: Node = (operator, *[renumbered[inner] for inner in node[1:]])
        else:
            renumber = _RENUMBER[operator]
            moved = node if renumber is None else renumber(node, renumbered, first)
        number = index.get(moved)
        if number is None:
            number = index[moved] = NodeId(len(found))
            found.append(moved)
        add(number)


def compact(grammar: Grammar) -> Grammar:
    """The same grammar without unreachable parts, numbered in the order in which they are reached: equal for equal grammars.

    >>> from stackmask.pda.choice import choice_grammar
    >>> b = GrammarBuilder()
    >>> unused = splice(b, choice_grammar(["a"]))
    >>> root = b.rule("root")
    >>> b.define(root, b.literal(b"x"))
    >>> compact(b.build(root))
    Grammar(nodes=((2, b'x'),), rules=(0,), names=('root',), root=0)
    """
    numbers: dict[int, int] = {grammar.root: 0}
    rules = [int(grammar.root)]
    renumbered: dict[int, NodeId] = {}
    nodes: list[Node] = []
    for rule in rules:
        stack: list[int] = [grammar.rules[rule]]
        while stack:
            number = stack[-1]
            if number in renumbered:
                stack.pop()
                continue
            node: Node = grammar.nodes[number]
            operator = node[0]
            missing = [inner for inner in operands(node) if inner not in renumbered]
            if missing:
                stack += reversed(missing)
                continue
            stack.pop()
            if operator == CALL:
                called = node[1]
                if called not in numbers:
                    numbers[called] = len(rules)
                    rules.append(called)
                moved: Node = (operator, numbers[called])
            elif operator in _PLAIN:
                moved = (operator, *[renumbered[inner] for inner in node[1:]])
            else:
                renumber = _RENUMBER[operator]
                moved = node if renumber is None else renumber(node, renumbered, 0)
            renumbered[number] = NodeId(len(nodes))
            nodes.append(moved)
    bodies = tuple(renumbered[grammar.rules[rule]] for rule in rules)
    return Grammar(tuple(nodes), bodies, tuple(grammar.names[rule] for rule in rules), RuleId(0))


def _one(node: Node, renumbered: Renumbered, _first: int) -> Node:
    """The first argument is a node."""
    return (node[0], renumbered[node[1]], *node[2:])


def _call(node: Node, _renumbered: Renumbered, first: int) -> Node:
    return (node[0], first + node[1])


def _graph(node: Node, renumbered: Renumbered, _first: int) -> Node:
    edges = list(node[2])
    edges[2::3] = [renumbered[inner] if inner >= 0 else inner for inner in edges[2::3]]
    return (node[0], node[1], tuple(edges))


def _permute(node: Node, renumbered: Renumbered, _first: int) -> Node:
    members = list(node[1])
    members[::2] = [renumbered[inner] for inner in members[::2]]
    return (node[0], tuple(members), renumbered[node[2]], *node[3:])


def _renumber(kinds: Sequence[Operand]) -> Callable[[Node, Renumbered, int], Node] | None:
    """A function that renumbers a node with operands of these kinds; None where no operand is a reference."""
    return next((change for kind, change in _CHANGES.items() if kind in kinds), None)


_CHANGES: Final[dict[Operand, Callable[[Node, Renumbered, int], Node]]] = {
    Operand.MEMBERS: _permute,
    Operand.EDGES: _graph,
    Operand.RULE: _call,
    Operand.NODE: _one,
}
_PLAIN: Final = frozenset(int(operator) for operator, signature in SIGNATURES.items() if signature.operands == (Operand.NODES,))
_RENUMBER: Final = {int(operator): _renumber(signature.operands) for operator, signature in SIGNATURES.items()}
