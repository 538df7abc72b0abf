"""Which expressions and rules of a grammar generate a text, and which the empty one, decided on the expressions.

The engines find out for themselves, on their automata; this is for messages and for the printer, where no engine is at hand.
Both are least fixed points over the graph of nodes and rules (productive and nullable symbols; Hopcroft and Ullman 1979, section 4.4),
computed with a worklist, without recursion: linear in the grammar, but for GRAPH and PERMUTE, which are looked at again in every round.

    productive(SEQ)  = all parts are        productive(REPEAT) = minimum is 0, or the body is
    productive(ALT)  = any part is          productive(CALL)   = the rule is
"""

from __future__ import annotations

from collections.abc import Sequence

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


def productive(nodes: Sequence[Node], rules: Sequence[int], *, empty: bool = False) -> tuple[list[bool], list[bool]]:
    """Per node and per rule whether it generates a text, or, with `empty`, the empty text; DISTINCT is taken to find new values.

    >>> from stackmask.pda.grammar import GrammarBuilder
    >>> b = GrammarBuilder()
    >>> loop = b.rule("loop")
    >>> b.define(loop, b.alt(b.seq(b.literal(b"a"), b.call(loop)), b.literal(b"b")))
    >>> productive(b.nodes, b.rules)[1], productive(b.nodes, b.rules, empty=True)[1]
    ([True], [False])
    """
    size = len(nodes)
    # A vertex is a node by its index, or a rule by its index after the last node.
    missing = [0] * (size + len(rules))
    dependents: list[list[int]] = [[] for _ in missing]
    found = [False] * len(missing)
    ready: list[int] = []
    changed: dict[int, None] = {}  # GRAPH and PERMUTE nodes to look at again
    for index, node in enumerate(nodes):
        operator = node[0]
        parts = [size + node[1]] if operator == CALL else operands(node)
        for part in parts:
            dependents[part].append(index)
        if operator in (GRAPH, PERMUTE):
            changed[index] = None
        elif operator == ALT:
            missing[index] = 1
        elif not _holds_alone(node, empty=empty):
            missing[index] = max(1, len(parts))
            if not parts or (operator == DISTINCT and empty):
                missing[index] = size + 1  # never
        if not missing[index] and index not in changed:
            ready.append(index)
    for rule, body in enumerate(rules, size):
        missing[rule] = 1
        if body >= 0:
            dependents[body].append(rule)
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
