"""What takes automata in EBNF: the difference `A - B` of W3C grammars, and the lazy rules of XGrammar.

A - B is what A generates and B does not; a lazy rule generates the texts of its body none of whose beginnings is one.
Neither can be had of all context-free languages, so the parts must be regular: rules that do not call themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from stackmask.pda import dfa, nfa
from stackmask.pda.budget import Budget
from stackmask.pda.dfa import Dfa
from stackmask.pda.grammar import (
    ALT,
    AUTOMATON,
    CALL,
    CHARS,
    EMPTY,
    GRAPH,
    LITERAL,
    REPEAT,
    SEQ,
    TOKENS,
    GrammarBuilder,
    NodeId,
    RuleId,
)

Difference: TypeAlias = tuple[RuleId, NodeId, tuple[NodeId, ...]]
"""A rule, the left side of the difference that is its body, and what is taken away from it."""


class DifferenceError(Exception):
    """A difference has no automaton, or leaves nothing; `rule` is the rule that stands for it."""

    def __init__(self, message: str, rule: RuleId) -> None:
        self.rule = rule
        super().__init__(message)


def define_regular(builder: GrammarBuilder, differences: Sequence[Difference], lazy: Sequence[RuleId], budget: Budget) -> None:
    """Give each rule of a difference, and each lazy rule, its body."""
    automata = _Automata(builder, differences, lazy, budget)
    rules = [rule for rule, *_ in differences] + list(lazy)
    found = [automata.of_rule(rule) for rule in rules]
    for rule, automaton in zip(rules, found, strict=True):
        if automaton == dfa.NOTHING:
            raise DifferenceError("this difference leaves nothing over" if rule not in lazy else "this rule generates no text", rule)
        builder.define(rule, builder.automaton(automaton.transitions, automaton.accepting))


class _Automata:
    """The automata of nodes, each found once; a vertex is a node, or a rule by its index from below: -1 - rule."""

    def __init__(self, builder: GrammarBuilder, differences: Sequence[Difference], lazy: Sequence[RuleId], budget: Budget) -> None:
        self.builder = builder
        self.lazy = frozenset(lazy)
        self.differences = {rule: (left, *taken) for rule, left, taken in differences}
        self.budget = budget
        self.found: dict[int, Dfa] = {}

    def of_rule(self, rule: RuleId) -> Dfa:
        """The automaton of a rule: the parts of a vertex first, by depth, then the vertex."""
        open_vertices: set[int] = set()
        stack = [-1 - rule]
        while stack:
            vertex = stack[-1]
            missing = [part for part in self.parts(vertex) if part not in self.found]
            if vertex in self.found or not missing:
                stack.pop()
                open_vertices.discard(vertex)
                if vertex not in self.found:
                    if vertex >= 0 and self.builder.nodes[vertex][0] in (TOKENS, GRAPH):
                        raise DifferenceError("what stands here must be text, but there are tokens or tags in it", rule)
                    self.found[vertex] = self.combine(vertex)
                continue
            if vertex in open_vertices:
                raise DifferenceError("what stands here must be regular, but a rule in it calls itself", rule)
            open_vertices.add(vertex)
            stack += missing
        return self.found[-1 - rule]

    def parts(self, vertex: int) -> Sequence[int]:
        """The vertices that a vertex is made of."""
        if vertex < 0:
            rule = RuleId(-1 - vertex)
            return self.differences.get(rule) or (self.builder.rules[rule],)
        node: tuple[Any, ...] = self.builder.nodes[vertex]
        if node[0] in (SEQ, ALT):
            return node[1:]
        if node[0] == REPEAT:
            return (node[1],)
        return (-1 - node[1],) if node[0] == CALL else ()

    def combine(self, vertex: int) -> Dfa:
        """The automaton of a vertex whose parts have theirs."""
        parts = [self.found[part] for part in self.parts(vertex)]
        if vertex < 0:
            result = parts[0]
            for taken in parts[1:]:
                result = dfa.difference(result, taken, budget=self.budget)
            return shortest_texts(result, self.budget) if RuleId(-1 - vertex) in self.lazy else result
        node: tuple[Any, ...] = self.builder.nodes[vertex]
        operator, budget = node[0], self.budget
        if operator in _LEAVES:
            return _LEAVES[operator](node)
        if operator == CALL:
            return parts[0]
        if operator == SEQ:
            return nfa.concatenation(*parts, budget=budget)
        if operator == ALT:
            return dfa.union(*parts, budget=budget)
        assert operator == REPEAT
        return nfa.repeat(parts[0], node[2], node[3], budget=budget)


def shortest_texts(automaton: Dfa, budget: Budget) -> Dfa:
    """The texts none of whose beginnings is one of them: where one ends, nothing goes on.

    >>> from stackmask.pda.dfa import from_strings
    >>> shortest_texts(from_strings(["a", "ab", "ba"]), Budget()) == from_strings(["a", "ba"])
    True
    """
    rows = tuple(() if end else row for row, end in zip(automaton.transitions, automaton.accepting, strict=True))
    return dfa.minimize(Dfa(rows, automaton.accepting), budget=budget)


_LEAVES: Final[dict[object, Callable[[tuple[Any, ...]], Dfa]]] = {
    EMPTY: lambda node: dfa.EPSILON,
    LITERAL: lambda node: dfa.from_string(node[1].decode()),
    CHARS: lambda node: dfa.from_set(node[1]),
    AUTOMATON: lambda node: Dfa(node[1], node[2]),
}
