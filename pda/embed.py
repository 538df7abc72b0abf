"""One grammar copied into another that is being built, so that front ends can stand inside each other.

Nodes are renumbered in one pass; since they are hash-consed, what both grammars have is there once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from .grammar import Grammar, GrammarBuilder, NodeId, RuleId
from .operators import CALL, SIGNATURES, Node, Operand, operands

Places: TypeAlias = "list[NodeId] | dict[int, NodeId]"
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
    places: list[NodeId] = []
    extend(builder, grammar.nodes, places, first)
    for rule, body in enumerate(grammar.rules):
        builder.define(RuleId(first + rule), places[body])
    return builder.call(RuleId(first + grammar.root))


def extend(builder: GrammarBuilder, nodes: Iterable[Node], places: list[NodeId], first: int) -> None:
    """Add nodes to a builder, and their places in it to `places`, which has those of the nodes before; rules move up by `first`."""
    index, found = builder.index, builder.nodes
    add = places.append
    # INVARIANT: a node is built after those that it refers to, so their new places are known.
    for node in nodes:
        operator = node[0]
        if operator in _PLAIN:  # PERF: half of all nodes are one of these
            moved: Node = (operator, *[places[inner] for inner in node[1:]])
        else:
            renumber = _RENUMBER[operator]
            moved = node if renumber is None else renumber(node, places, first)
        place = index.get(moved)
        if place is None:
            place = index[moved] = NodeId(len(found))
            found.append(moved)
        add(place)


def compact(grammar: Grammar) -> Grammar:
    """The same grammar without what its root does not reach, numbered by how it is reached: equal for equal grammars.

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
    places: dict[int, NodeId] = {}
    nodes: list[Node] = []
    for rule in rules:
        stack: list[int] = [grammar.rules[rule]]
        while stack:
            number = stack[-1]
            if number in places:
                stack.pop()
                continue
            node: Node = grammar.nodes[number]
            operator = node[0]
            missing = [inner for inner in operands(node) if inner not in places]
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
                moved = (operator, *[places[inner] for inner in node[1:]])
            else:
                renumber = _RENUMBER[operator]
                moved = node if renumber is None else renumber(node, places, 0)
            places[number] = NodeId(len(nodes))
            nodes.append(moved)
    bodies = tuple(places[grammar.rules[rule]] for rule in rules)
    return Grammar(tuple(nodes), bodies, tuple(grammar.names[rule] for rule in rules), RuleId(0))


def _one(node: Node, places: Places, _first: int) -> Node:
    """The first argument is a node."""
    return (node[0], places[node[1]], *node[2:])


def _call(node: Node, _places: Places, first: int) -> Node:
    return (node[0], first + node[1])


def _graph(node: Node, places: Places, _first: int) -> Node:
    edges = list(node[2])
    edges[2::3] = [places[inner] if inner >= 0 else inner for inner in edges[2::3]]
    return (node[0], node[1], tuple(edges))


def _permute(node: Node, places: Places, _first: int) -> Node:
    members = list(node[1])
    members[::2] = [places[inner] for inner in members[::2]]
    return (node[0], tuple(members), places[node[2]], *node[3:])


def _renumber(kinds: Sequence[Operand]) -> Callable[[Node, Places, int], Node] | None:
    """How a node with operands of these kinds is renumbered; None where none of them refers to anything."""
    return next((change for kind, change in _CHANGES.items() if kind in kinds), None)


_CHANGES: Final[dict[Operand, Callable[[Node, Places, int], Node]]] = {
    Operand.MEMBERS: _permute,
    Operand.EDGES: _graph,
    Operand.RULE: _call,
    Operand.NODE: _one,
}
_PLAIN: Final = frozenset(int(operator) for operator, signature in SIGNATURES.items() if signature.operands == (Operand.NODES,))
_RENUMBER: Final = {int(operator): _renumber(signature.operands) for operator, signature in SIGNATURES.items()}
