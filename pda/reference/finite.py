"""From which states infinitely many texts can be read, for the reference engine's DISTINCT.

The graph of all states has an edge where a state reads or skips something and one where it calls a rule.
An edge is growing where it can read text other than blanks, of which any number may stand between the parts of one value, or, for a
call, where something can be read between the end of the called rule and the caller's.
A state is endless if it leads to a cycle with a growing edge: a loop inside a rule, or a recursion with text around it.
A rule is endless if its start is.
"""

from __future__ import annotations

from math import inf

from ..grammar import REPEATABLE
from .program import COUNT, PLAIN, Program, Register

BLANKS = frozenset(b" \t\n\r")
Edge = tuple[int, bool]


class Endless:
    """Knows from which states and registers infinitely many texts lead to the end of their rule."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.can_read = _can_read(program)
        self.states = _endless_states(_edges(program, self.can_read))

    def of(self, number: int, register: Register) -> bool:
        """Whether infinitely many texts lead from here to the end of the rule."""
        state = self.program.states[number]
        if state.kind == PLAIN or not self.states[number]:
            return self.states[number]
        rule = self.program.rules[state.rule]
        count, used = register
        if count == rule.maximum:
            return False
        parts = [member for i, (member, flags) in enumerate(rule.members) if flags & REPEATABLE or not used >> i & 1]
        if state.kind != COUNT and parts:
            parts.append(rule.separator)
        starts = [self.program.rules[part].start for part in parts if self.program.costs.rules[part] < inf]
        is_loop = rule.maximum < 0 and any(flags & REPEATABLE for _, flags in rule.members)
        return any(self.states[start] or (is_loop and self.can_read[start]) for start in starts)


def _endless_states(edges: list[list[Edge]]) -> list[bool]:
    """Per state, whether infinitely many texts can be read from it to the end of its rule."""
    component = _components([[target for target, _ in out] for out in edges])
    endless = [False] * len(edges)
    before: list[list[int]] = [[] for _ in edges]
    for source, out in enumerate(edges):
        for target, grows in out:
            before[target].append(source)
            if grows and component[source] == component[target]:
                endless[source] = True
    pending = [state for state, is_endless in enumerate(endless) if is_endless]
    while pending:
        for source in before[pending.pop()]:
            if not endless[source]:
                endless[source] = True
                pending.append(source)
    return endless


def _edges(program: Program, can_read: list[bool]) -> list[list[Edge]]:
    """The edges out of every state, each with whether it grows."""
    rules, states = program.rules, program.states
    edges: list[list[Edge]] = []
    for state in states:
        out: list[Edge] = [(target, False) for target in state.empty]
        out += [(target, not BLANKS.issuperset(range(lo, hi + 1))) for lo, hi, target in state.bytes]
        out += [(target, True) for _, target in state.tokens]
        for rule, target in state.called:
            out += [(target, can_read[rules[rule].start]), (rules[rule].start, can_read[target])]
        if state.kind != PLAIN:
            owner = rules[state.rule]
            parts = [rule for rule, _ in owner.members if program.costs.rules[rule] < inf]
            parts += [owner.separator] if state.kind != COUNT and program.costs.rules[owner.separator] < inf else []
            if owner.maximum != 0:
                grows = owner.maximum != 1 and any(can_read[rules[part].start] for part in parts)
                out += [(rules[part].start, grows) for part in parts]
                if owner.maximum < 0 and grows and any(flags & REPEATABLE for _, flags in owner.members):
                    out.append((owner.start, True))
        edges.append(out)
    return edges


def _can_read(program: Program) -> list[bool]:
    """Per state, whether at least one byte or token can be read from it to the end of its rule."""
    rules = program.rules
    found = [bool(state.bytes or state.tokens) for state in program.states]
    changed = True
    while changed:
        changed = False
        for number, state in enumerate(program.states):
            if found[number]:
                continue
            parts = [rules[rule].start for rule, _ in state.called] + [target for _, target in state.called] + state.empty
            if state.kind != PLAIN and rules[state.rule].maximum != 0:
                parts = [rules[rule].start for rule, _ in rules[state.rule].members if program.costs.rules[rule] < inf]
            if any(found[part] for part in parts):
                found[number] = changed = True
    return found


def _components(graph: list[list[int]]) -> list[int]:
    """The strongly connected component of every vertex: Tarjan's algorithm (SIAM J. Computing 1, 1972) with its recursion on a list."""
    order = [-1] * len(graph)
    low = [0] * len(graph)
    component = [-1] * len(graph)
    stack: list[int] = []
    count = 0
    for root in range(len(graph)):
        if order[root] >= 0:
            continue
        calls = [(root, 0)]
        while calls:
            vertex, edge = calls.pop()
            if edge == 0:
                order[vertex] = low[vertex] = count
                count += 1
                stack.append(vertex)
            elif component[graph[vertex][edge - 1]] < 0:
                low[vertex] = min(low[vertex], low[graph[vertex][edge - 1]])
            for following in range(edge, len(graph[vertex])):
                target = graph[vertex][following]
                if order[target] < 0:
                    calls += [(vertex, following + 1), (target, 0)]
                    break
                if component[target] < 0:
                    low[vertex] = min(low[vertex], order[target])
            else:
                if low[vertex] == order[vertex]:
                    while True:
                        member = stack.pop()
                        component[member] = vertex
                        if member == vertex:
                            break
    return component
