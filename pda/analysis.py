"""Questions about a grammar that are answered on its expressions, without an engine: for messages, the printer and the front ends.

The vertices are the nodes of the grammar and its rules; a node leads to its operands, a CALL to its rule, and a rule to its body.
productive and nullable symbols and useless ones are the textbook's (Hopcroft and Ullman 1979, section 4.4):

    productive      generates a text            a least fixed point, from the leaves up: SEQ needs all its parts, ALT any of them,
    nullable        generates the empty text    REPEAT none if its minimum is 0, CALL its rule
    reachable       the root leads to it        a search from the root
    leading_to      leads to one of some rules  a search from these rules, against the edges
    barren_rule     the rule to blame where another generates no text

All use a list of vertices to look at and no recursion. They are linear in the grammar, but for GRAPH and PERMUTE: the fixed points look at
these again in every round.

The engines do not use this. The reference engine decides the same on its program, because a specification must not share its analysis with
the code that it checks; the kernel decides it in `kernel/grammar/facts`, since it also reads grammars that never were Python objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .automata import language
from .automata.dfa import Dfa
from .operators import (
    ALT,
    AUTOMATON,
    BYTES,
    CALL,
    CHARS,
    DISTINCT,
    EXCEPT,
    GRAPH,
    LITERAL,
    NEVER,
    PERMUTE,
    REPEAT,
    REPEATABLE,
    REQUIRED,
    TOKENS,
    Node,
    operands,
)


def productive(nodes: Sequence[Node], rules: Sequence[int]) -> tuple[list[bool], list[bool]]:
    """Per node and per rule whether it generates a text; DISTINCT is taken to find new values.

    >>> from stackmask.pda.grammar import GrammarBuilder
    >>> b = GrammarBuilder()
    >>> loop = b.rule("loop")
    >>> b.define(loop, b.alt(b.seq(b.literal(b"a"), b.call(loop)), b.literal(b"b")))
    >>> productive(b.nodes, b.rules)[1], nullable(b.nodes, b.rules)[1]
    ([True], [False])
    """
    return _generates(nodes, rules, empty=False)


def nullable(nodes: Sequence[Node], rules: Sequence[int]) -> tuple[list[bool], list[bool]]:
    """Per node and per rule whether it generates the empty text."""
    return _generates(nodes, rules, empty=True)


def reachable(
    nodes: Sequence[Node], rules: Sequence[int], root: int, also: Iterable[tuple[int, Sequence[int]]] = ()
) -> tuple[list[bool], list[bool]]:
    """Per node and per rule whether the root leads to it; `also` has more nodes of rules, which their bodies no longer hold."""
    size, parts = len(nodes), _edges(nodes, rules)
    for rule, others in also:
        parts[size + rule] = [*parts[size + rule], *others]
    found = _search(parts, [size + root])
    return found[:size], found[size:]


def leading_to(nodes: Sequence[Node], rules: Sequence[int], targets: Iterable[int]) -> list[bool]:
    """Per node whether it leads to one of some rules.

    >>> from stackmask.pda.grammar import GrammarBuilder
    >>> b = GrammarBuilder()
    >>> comma = b.rule("comma")
    >>> pair = b.seq(b.literal(b"x"), b.call(comma))
    >>> [b.nodes[node] for node, leads in enumerate(leading_to(b.nodes, b.rules, [comma])) if leads]
    [(8, 0), (5, 0, 1)]
    """
    size = len(nodes)
    return _search(_reversed(_edges(nodes, rules)), [size + rule for rule in targets])[:size]


def barren_rule(nodes: Sequence[Node], rules: Sequence[int], rule: int) -> tuple[int, bool]:
    """The rule to blame for an unproductive one, and whether it leads back to itself; otherwise it has a part that has no text.

    >>> from stackmask.pda.grammar import GrammarBuilder
    >>> b = GrammarBuilder()
    >>> root, loop = b.rule("root"), b.rule("loop")
    >>> b.define(root, b.seq(b.literal(b"a"), b.call(loop)))
    >>> b.define(loop, b.seq(b.literal(b"("), b.call(loop)))
    >>> barren_rule(b.nodes, b.rules, root) == (loop, True)
    True
    """
    found = productive(nodes, rules)[0]
    seen: set[int] = set()
    node = nodes[rules[rule]]
    while True:
        if node[0] == CALL:
            seen.add(rule)
            rule = node[1]
            if rule in seen:
                return rule, True
            node = nodes[rules[rule]]
            continue
        barren = next((part for part in operands(node) if not found[part]), None)
        if barren is None:
            return rule, False
        node = nodes[barren]


def _edges(nodes: Sequence[Node], rules: Sequence[int]) -> list[Sequence[int]]:
    """Per vertex those that it leads to. A vertex is a node by its index, or a rule by its index after the last node."""
    size = len(nodes)
    edges = [(size + node[1],) if node[0] == CALL else operands(node) for node in nodes]
    return [*edges, *((body,) if body >= 0 else () for body in rules)]


def _reversed(edges: Sequence[Sequence[int]]) -> list[list[int]]:
    """Per vertex those that lead to it, once for each edge."""
    users: list[list[int]] = [[] for _ in edges]
    for vertex, parts in enumerate(edges):
        for part in parts:
            users[part].append(vertex)
    return users


def _search(edges: Sequence[Sequence[int]], start: list[int]) -> list[bool]:
    """Per vertex whether one of `start` leads to it."""
    found = [False] * len(edges)
    while start:
        vertex = start.pop()
        if not found[vertex]:
            found[vertex] = True
            start += edges[vertex]
    return found


def _generates(nodes: Sequence[Node], rules: Sequence[int], *, empty: bool) -> tuple[list[bool], list[bool]]:
    """Per node and per rule whether it generates a text, or, with `empty`, the empty one."""
    size = len(nodes)
    edges = _edges(nodes, rules)
    dependents = _reversed(edges)
    missing = [1] * len(edges)  # how many parts are still to be found; a rule waits for its body
    found = [False] * len(edges)
    ready: list[int] = []
    changed: dict[int, None] = {}  # GRAPH and PERMUTE nodes to look at again
    for index, node in enumerate(nodes):
        operator, parts = node[0], edges[index]
        if operator in (GRAPH, PERMUTE):
            changed[index] = None
        elif _holds_alone(node, empty=empty):
            ready.append(index)
        elif not parts or (operator == DISTINCT and empty):
            missing[index] = size + 1  # never
        elif operator != ALT:
            missing[index] = len(parts)
    while ready or changed:
        while ready:
            vertex = ready.pop()
            if found[vertex]:
                continue
            found[vertex] = True
            for dependent in dependents[vertex]:
                if dependent < size and nodes[dependent][0] in (GRAPH, PERMUTE):
                    changed[dependent] = None
                    continue
                missing[dependent] -= 1
                if missing[dependent] == 0:
                    ready.append(dependent)
        ready = [index for index in changed if not found[index] and _combines(nodes[index], found)]
        changed.clear()
    return found[:size], found[size:]


def _holds_alone(node: Node, *, empty: bool) -> bool:
    """Whether a node generates a text, or the empty one, whatever its parts generate."""
    match node[0]:
        case operator if operator == REPEAT:
            return bool(node[2] <= 0)
        case operator if operator == LITERAL:
            return not (empty and node[1])
        case operator if operator in (BYTES, CHARS):
            return bool(node[1]) and not empty
        case operator if operator == TOKENS:
            return bool(node[1] or node[2]) and not empty
        case operator if operator == EXCEPT:
            return not (empty and "" in node[1])
        case operator if operator == AUTOMATON:
            low, high = node[4:] or (0, -1)
            if empty:
                return bool(node[2][0] and low <= 0)
            if low <= 0 and high < 0:
                return _accepts_some(node[1], node[2])
            lengths = language.length_bounds(Dfa(node[1], node[2]))
            return lengths is not None and (high < 0 or lengths[0] <= high) and (lengths[1] is None or lengths[1] >= low)
        case operator:
            return operator != NEVER and not operands(node) and operator != CALL


def _accepts_some(transitions: Sequence[Sequence[tuple[int, int, int]]], accepting: Sequence[bool]) -> bool:
    """Whether an automaton accepts a text, by a search in depth, which soon comes to the end of one."""
    pending = [0]
    seen = {0}
    while pending:
        state = pending.pop()
        if accepting[state]:
            return True
        for _, _, target in transitions[state]:
            if target not in seen:
                seen.add(target)
                pending.append(target)
    return False


def _combines(node: Node, found: Sequence[bool]) -> bool:
    """Whether the parts of a GRAPH or a PERMUTE that were found are enough for it."""
    return _leads_through(node[2], found) if node[0] == GRAPH else _permutes(*node[1:], found=found)


def _leads_through(edges: Sequence[int], found: Sequence[bool]) -> bool:
    """Whether state 1 of a GRAPH is in reach of state 0."""
    following: dict[int, list[int]] = {}
    for source, target, part in zip(edges[::3], edges[1::3], edges[2::3], strict=True):
        if part < 0 or found[part]:
            following.setdefault(source, []).append(target)
    seen = {0}
    pending = [0]
    for state in pending:
        for target in following.get(state, ()):
            if target not in seen:
                seen.add(target)
                pending.append(target)
    return 1 in seen


def _permutes(members: Sequence[int], separator: int, minimum: int, maximum: int, *, found: Sequence[bool]) -> bool:
    """Whether the members that have to occur can."""
    flagged = list(zip(members[::2], members[1::2], strict=True))
    required = sum(1 for _, flags in flagged if flags & REQUIRED)
    if any(flags & REQUIRED and not found[part] for part, flags in flagged) or 0 <= maximum < max(minimum, required):
        return False
    there = [flags for part, flags in flagged if found[part]]
    needed = max(minimum, required)
    return (needed <= 1 or found[separator]) and (len(there) >= needed or any(flags & REPEATABLE for flags in there))
