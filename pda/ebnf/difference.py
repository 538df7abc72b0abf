"""The parts of EBNF that take automata: the difference `A - B` of W3C grammars, and XGrammar's lazy rules and those with max_chars.

A - B is what A generates and B does not. A lazy rule generates the texts of its body that do not begin with a shorter one, and a rule with
max_chars those that are no longer than that.
Context-free languages are not closed under these operations, so the parts must be regular: rules that do not call themselves.
A rule with an encoding is regular too, and may call itself at its end: right-linear grammars are finite automata (Chomsky and Miller 1958).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from ..automata import dfa, language, nfa
from ..automata.dfa import Dfa
from ..automata.nfa import Fragment, Nfa
from ..budget import Budget
from ..exceptions import LimitError
from ..grammar import (
    ALT,
    AUTOMATON,
    CALL,
    CHARS,
    EMPTY,
    GRAPH,
    LITERAL,
    RAW,
    REPEAT,
    SEQ,
    TOKENS,
    GrammarBuilder,
    NodeId,
    RuleId,
)

Difference: TypeAlias = tuple[RuleId, NodeId, tuple[NodeId, ...]]
"""A rule, the left side of the difference that is its body, and the subtracted part."""


class DifferenceError(Exception):
    """A difference has no automaton, or leaves nothing; `rule` is the rule that stands for it."""

    def __init__(self, message: str, rule: RuleId) -> None:
        self.rule = rule
        super().__init__(message)


class Regular(NamedTuple):
    """The parts that become automata, and in `others` the rules with options that no automaton can carry."""

    differences: Sequence[Difference]
    lazy: Collection[RuleId]
    characters: Mapping[RuleId, int]
    others: Mapping[RuleId, str]
    encodings: Mapping[RuleId, tuple[int, int, int]] = MappingProxyType({})
    """The rules with an encoding: that, and the bounds of their length."""

    def options(self) -> Collection[RuleId]:
        """The rules with options."""
        return {*self.lazy, *self.characters, *self.others}


def define_regular(builder: GrammarBuilder, regular: Regular, budget: Budget) -> None:
    """Give each rule of a difference, each lazy rule, and each rule with a bound on its characters its body."""
    automata = Automata(builder, regular, budget)
    rules = list(dict.fromkeys([*(rule for rule, *_ in regular.differences), *regular.lazy, *regular.characters]))
    found = []
    for rule in rules:
        try:
            found.append(automata.of_rule(rule))
        except LimitError as error:
            raise error.at(f"rule `{builder.names[rule].removesuffix('-difference')}`") from None
    for rule, automaton in zip(rules, found, strict=True):
        if automaton == dfa.NOTHING:
            raise DifferenceError(
                "this difference leaves nothing over" if rule not in regular.lazy else "this rule generates no text", rule
            )
        bounds = language.length_bounds(automaton)
        assert bounds is not None
        most = regular.characters.get(rule, -1)
        if 0 <= most < bounds[0]:
            raise DifferenceError(f"this rule generates no text of at most {most} characters: the shortest has {bounds[0]}", rule)
        if bounds[1] is not None and bounds[1] <= most:
            most = -1
        builder.define(rule, builder.automaton(automaton.transitions, automaton.accepting, maximum=most))
    for rule, (encoding, least, most) in regular.encodings.items():
        automaton = automata.of_right_linear(rule)
        if least > 0 and most >= 0 and language.skips_lengths(automaton, most - least + 1):
            automaton, least, most = dfa.restrict_length(automaton, least, most, budget=budget), 0, -1
        bounds = language.length_bounds(automaton)
        if bounds is None or (0 <= most < bounds[0]) or (bounds[1] is not None and bounds[1] < least):
            raise DifferenceError("this rule generates no text" + (" of this length" if least > 0 or most >= 0 else ""), rule)
        if encoding == RAW and any(high > 0xFF for row in automaton.transitions for _, high, _ in row):
            raise DifferenceError("this rule generates characters above U+00FF, which are not bytes", rule)
        builder.define(rule, builder.automaton(automaton.transitions, automaton.accepting, encoding, minimum=least, maximum=most))


class Automata:
    """The automata of nodes, each found once; a vertex is a node, or a rule by its index from below: -1 - rule."""

    def __init__(self, builder: GrammarBuilder, regular: Regular, budget: Budget) -> None:
        self.builder = builder
        self.regular = regular
        self.differences = {rule: (left, *taken) for rule, left, taken in regular.differences}
        self.options = regular.options()
        self.budget = budget
        self.found: dict[int, Dfa] = {}
        self.short: dict[int, Dfa] = {}

    def of_rule(self, rule: RuleId) -> Dfa:
        """The automaton of a rule: the parts of a vertex first, by depth, then the vertex."""
        return self.of_vertex(-1 - rule, rule)

    def of_vertex(self, first: int, rule: RuleId) -> Dfa:
        """The automaton of a vertex; `rule` is where it stands, for messages."""
        open_vertices: set[int] = set()
        stack = [first]
        while stack:
            vertex = stack[-1]
            missing = [part for part in self.parts(vertex) if part not in self.found]
            if vertex in self.found or not missing:
                stack.pop()
                open_vertices.discard(vertex)
                if vertex not in self.found:
                    if vertex >= 0 and self.builder.nodes[vertex][0] in (TOKENS, GRAPH):
                        raise DifferenceError("this must be text, but it contains tokens or tags", rule)
                    self.found[vertex] = self.combine(vertex)
                continue
            if vertex < 0 and vertex != first and RuleId(-1 - vertex) in self.regular.others:
                part = RuleId(-1 - vertex)
                option = self.regular.others[part]
                raise DifferenceError(f"this must be text, but rule `{self.builder.names[part]}` has {option}", rule)
            if vertex in open_vertices:
                raise DifferenceError("this must be regular, but a rule in it calls itself", rule)
            open_vertices.add(vertex)
            stack += missing
        return self.found[first]

    def of_right_linear(self, rule: RuleId) -> Dfa:
        """The automaton of a rule that may call others, and itself, at its end: each of them is a state."""
        states = {rule: 0}
        rules = [rule]
        nfa_ = Nfa(self.budget)
        ways: list[tuple[int, Fragment, int]] = []  # what is read from a state on, and the state after it, -1 for the end
        for source, called in enumerate(rules):  # which grows
            for texts, following in self.right_linear_ways(called, rule):
                if following is not None and following not in states:
                    states[following] = len(rules)
                    rules.append(following)
                ways.append((source, nfa_.automaton(texts), -1 if following is None else states[following]))
        first, nullable = [0] * len(rules), [False] * len(rules)
        changed = True
        while changed:
            changed = False
            for source, read, target in reversed(ways):
                begins = read.first | (first[target] if read.nullable and target >= 0 else 0)
                ends = read.nullable and (target < 0 or nullable[target])
                if begins & ~first[source] or ends > nullable[source]:
                    first[source] |= begins
                    nullable[source] = nullable[source] or ends
                    changed = True
        last = 0
        for _, read, target in ways:
            if target < 0 or nullable[target]:
                last |= read.last
            if target >= 0:
                nfa_.concatenate(Fragment(0, read.last, False), Fragment(first[target], 0, False))
        return nfa_.determinize(Fragment(first[0], last, nullable[0]))

    def right_linear_ways(self, rule: RuleId, asking: RuleId) -> Iterator[tuple[Dfa, RuleId | None]]:
        """The alternatives of a rule: the texts before the rule that each calls at its end, and that rule, if there is one."""
        nodes = self.builder.nodes
        pending: list[tuple[NodeId, tuple[NodeId, ...]]] = [(self.builder.rules[rule], ())]
        while pending:
            last, before = pending.pop()
            operator = nodes[last][0]
            if operator == ALT:
                pending += [(part, before) for part in nodes[last][1:]]
            elif operator == SEQ:
                pending.append((nodes[last][-1], (*before, *nodes[last][1:-1])))
            elif operator == REPEAT and nodes[last][2:] == (0, 1):
                pending += [(nodes[last][1], before), (self.builder.empty(), before)]
            else:
                called = nodes[last][1] if operator == CALL else None
                if called is not None and called != asking and (called in self.differences or called in self.options):
                    called = None
                parts = before if called is not None else (*before, last)
                yield nfa.concatenation(*[self.of_vertex(part, asking) for part in parts], budget=self.budget), called

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

    def bounded(self, vertex: int) -> Dfa:
        """The automaton of a part, whose characters are counted in its states where it is a rule with a bound."""
        most = self.regular.characters.get(RuleId(-1 - vertex), -1)
        if most >= 0 and vertex not in self.short:
            self.short[vertex] = dfa.restrict_length(self.found[vertex], 0, most, budget=self.budget)
        return self.short.get(vertex, self.found[vertex])

    def combine(self, vertex: int) -> Dfa:
        """The automaton of a vertex whose parts have theirs."""
        parts = [self.bounded(part) for part in self.parts(vertex)]
        if vertex < 0:
            result = parts[0]
            for taken in parts[1:]:
                result = dfa.difference(result, taken, budget=self.budget)
            return shortest_texts(result, self.budget) if RuleId(-1 - vertex) in self.regular.lazy else result
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
    """The texts that do not begin with a shorter one: nothing follows where one ends.

    >>> from stackmask.pda.automata.dfa import from_strings
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
