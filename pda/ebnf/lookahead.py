"""Lookahead in EBNF: a rule `a ::= body (= ahead)` is followed by a text that begins with one of `ahead`.

XGrammar reads it as a promise about what follows, which it does not check, and which makes it faster. Here it is part of the language, so
that a grammar that keeps its promise loses nothing, and one that does not loses the texts that break it.

A context-free grammar has no such conditions, so they are worked into it where the rule is called:

    a word is a node and what is still asked of the text behind it, None for nothing
    a call of `a` is (body, ahead); a sequence of (A, ahead) and B is (A B1, None) and (A B2, rest) ..., where B1 are the texts of B that
    begin with a text of `ahead`, and B2 those that are the beginning of one, by what is left of it

So B must be regular as far as it decides, which is asked of the parts of a sequence one after the other. At the end of the whole text
nothing follows, so what asks for more is left out.
A loop becomes a graph with a state for everything that may be asked where an iteration ends.

Refused is what this cannot say: a rule that calls itself and ends with an open lookahead, and a lookahead that meets what is not regular,
or a token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from ..automata import dfa, nfa
from ..automata.dfa import ANYTHING, EPSILON, NOTHING, Dfa
from ..budget import Budget
from ..exceptions import LimitError
from ..grammar import ALT, CALL, EMPTY, GRAPH, REPEAT, SEQ, GrammarBuilder, NodeId, RuleId, operands
from .difference import Automata, DifferenceError

Ways: TypeAlias = dict[Dfa | None, NodeId]
"""The texts of a node by the remaining demand on the text after them: an automaton that the text after must stay in."""

State: TypeAlias = tuple[int, Dfa | None]
"""A state of a graph, and the texts asked for there."""

DEPTH: Final = 100  # nested rules and groups that are opened to find the following text
UNROLLED: Final = 16  # iterations of a loop with bounds


class LookaheadError(Exception):
    """A lookahead cannot be worked into the grammar; `rule` is the one that has it."""

    def __init__(self, message: str, rule: RuleId) -> None:
        self.rule = rule
        super().__init__(message)


def work_in(
    builder: GrammarBuilder,
    root: RuleId,
    lookaheads: Mapping[RuleId, NodeId],
    with_options: Mapping[RuleId, str],
    automata: Automata,
    budget: Budget,
) -> None:
    """Rewrite the rules that lead to lookaheads so that nothing is asked any more; rules with options can only stay whole."""
    _Lookaheads(builder, lookaheads, with_options, automata, budget).run(root)


class _Lookaheads:
    """The ways through every vertex that leads to a lookahead; a vertex is a node, or a rule by its index from below: -1 - rule."""

    def __init__(
        self,
        builder: GrammarBuilder,
        lookaheads: Mapping[RuleId, NodeId],
        with_options: Mapping[RuleId, str],
        automata: Automata,
        budget: Budget,
    ) -> None:
        self.builder = builder
        self.lookaheads = lookaheads
        self.with_options = with_options
        self.automata = automata
        self.budget = budget
        self.concerned = self.leading_there()
        self.found: dict[int, Ways] = {}
        self.assumed: set[RuleId] = set()
        self.rule = next(iter(lookaheads))  # the one to complain about

    def run(self, root: RuleId) -> None:
        """All ways, from the root."""
        if -1 - root not in self.concerned:
            return
        open_vertices: set[int] = set()
        stack = [-1 - int(root)]
        while stack:
            self.budget.spend(4)
            vertex = stack[-1]
            missing = [part for part in self.parts(vertex) if part in self.concerned and part not in self.found]
            rules = [part for part in missing if part < 0 and part in open_vertices]
            if rules:
                self.assumed |= {RuleId(-1 - part) for part in rules}
                missing = [part for part in missing if part not in rules]
            if vertex in self.found or not missing:
                stack.pop()
                if vertex not in self.found:
                    self.found[vertex] = self.of_rule(RuleId(-1 - vertex), root) if vertex < 0 else self.of_node(vertex)
                continue
            open_vertices.add(vertex)
            stack += missing

    def leading_there(self) -> set[int]:
        """The vertices from which a rule with a lookahead is called, and these rules."""
        above: dict[int, list[int]] = {}
        for vertex in [*range(len(self.builder.nodes)), *(-1 - rule for rule in range(len(self.builder.rules)))]:
            for part in self.parts(vertex):
                above.setdefault(part, []).append(vertex)
        reached = {-1 - int(rule) for rule in self.lookaheads}
        todo = list(reached)
        while todo:
            for vertex in above.get(todo.pop(), ()):
                if vertex not in reached:
                    reached.add(vertex)
                    todo.append(vertex)
        return reached

    def parts(self, vertex: int) -> Sequence[int]:
        """The vertices that a vertex is made of."""
        if vertex < 0:
            return (self.builder.rules[-1 - vertex],)
        node: tuple[Any, ...] = self.builder.nodes[vertex]
        return (-1 - node[1],) if node[0] == CALL else operands(node)

    def ways(self, node: int) -> Ways:
        """The ways through a node that is done, or that no lookahead concerns."""
        return self.found.get(node, {None: NodeId(node)})

    def of_rule(self, rule: RuleId, root: RuleId) -> Ways:
        """The ways through a call of a rule; one whose ways ask for nothing stays a rule."""
        ways = self.ways(self.builder.rules[rule])
        ahead = self.lookaheads.get(rule)
        if ahead is not None:
            self.rule = rule
            try:
                asked = self.beginnings(ahead)
                ways = self.merged([(self.both(before, asked), node) for before, node in ways.items()])
            except LimitError as error:
                raise error.at(f"the lookahead of rule `{self.builder.names[rule]}`") from None
        if rule == root:
            ways = {asked: node for asked, node in ways.items() if asked is None}
            if not ways:
                raise self.error("nothing that follows this rule begins with its lookahead")
        if set(ways) == {None}:
            self.builder.define(rule, ways[None])
            return {None: self.builder.call(rule)}
        if rule in self.assumed:
            raise self.error(f"its lookahead is not decided at the end of rule `{self.builder.names[rule]}`, which calls itself")
        if rule in self.with_options:
            name = self.builder.names[rule]
            raise self.error(f"its lookahead is not decided at the end of rule `{name}`, which has {self.with_options[rule]}")
        return ways

    def of_node(self, vertex: int) -> Ways:
        """The ways through a node whose parts are done."""
        node: tuple[Any, ...] = self.builder.nodes[vertex]
        operator = node[0]
        if operator == CALL:
            return self.found.get(-1 - node[1], {None: NodeId(vertex)})
        if operator == ALT:
            return self.merged([way for part in node[1:] for way in self.ways(part).items()])
        if operator == SEQ:
            ways: Ways = {None: self.builder.empty()}
            for part in node[1:]:
                ways = self.then(ways, part)
            return ways
        if operator == REPEAT and set(self.ways(node[1])) == {None}:
            return {None: self.builder.repeat(self.ways(node[1])[None], *node[2:])}
        if operator == REPEAT:
            return self.repeated(*node[1:])
        if any(self.ways(part) != {None: part} for part in self.parts(vertex)):
            raise self.error("its lookahead cannot be worked into the rules at this position")
        return {None: NodeId(vertex)}

    def repeated(self, body: int, minimum: int, maximum: int) -> Ways:
        """The ways through a loop whose body may end with something asked."""
        ways: Ways = {None: self.builder.empty()}
        if max(minimum, maximum) > UNROLLED:
            raise self.error(f"its lookahead is not decided at the end of a part that is repeated more than {UNROLLED} times")
        for _ in range(minimum):
            ways = self.then(ways, body)
        ends = list(ways.items())
        for _ in range(maximum - minimum):
            ways = self.then(ways, body)
            ends += ways.items()
        if maximum < 0:
            after = [(asked, before, self.looped(asked, body)) for asked, before in ways.items()]
            ends += [(left, self.sequence(before, node)) for _, before, loop in after for left, node in loop.items()]
        return self.merged(ends)

    def looped(self, asked: Dfa | None, body: int) -> Ways:
        """The ways through a loop without bounds, where something may be asked from the beginning."""

        def moves(_: int, left: Dfa | None) -> Iterator[tuple[int, Dfa | None, NodeId]]:
            for more, node in self.ways(body).items():
                for rest, restricted in self.beginning_with(node, left, 0).items():
                    yield 1, self.both(rest, more), restricted

        return self.graphs((1, asked), moves)

    def graphs(self, start: State, moves: Callable[[int, Dfa | None], Iterable[tuple[int, Dfa | None, int]]]) -> Ways:
        """The ways through a graph from a state to any with number 1; a state is a number and the texts asked for there."""
        numbers: dict[State, int] = {start: 0}
        edges: list[int] = []
        for state in (todo := [start]):
            for target, asked, node in moves(*state):
                if asked == NOTHING:
                    continue
                following = (target, asked)
                if following not in numbers:
                    numbers[following] = len(numbers) + 1  # 1 is the end
                    todo.append(following)
                    self.budget.check_states(len(todo))
                    self.budget.spend(8)
                edges += (numbers[state], numbers[following], node)
        ends: dict[Dfa | None, list[int]] = {}
        for (target, asked), number in numbers.items():
            if target == 1:
                ends.setdefault(asked, []).append(number)
        size = len(numbers) + 1
        return {
            asked: self.builder.graph(size, (*edges, *(part for number in ended for part in (number, 1, -1))))
            for asked, ended in ends.items()
        }

    def then(self, ways: Ways, part: int) -> Ways:
        """The ways, and then those through another node."""
        found: list[tuple[Dfa | None, NodeId]] = []
        for asked, before in ways.items():
            for more, node in self.ways(part).items():
                for left, restricted in self.beginning_with(node, asked, 0).items():
                    found.append((self.both(left, more), self.sequence(before, restricted)))
        return self.merged(found)

    def beginning_with(self, node: NodeId, asked: Dfa | None, depth: int) -> Ways:
        """The texts of a node that begin with the demanded text, or are a prefix of it, by the rest of the demand."""
        if asked is None or self.builder.nodes[node][0] == EMPTY:
            return {asked: node}
        try:
            automaton = self.automata.of_vertex(node, self.rule)
        except DifferenceError as error:
            return self.opened(node, asked, depth, str(error))
        if dfa.contains(asked, automaton, budget=self.budget):
            return {None: node}
        found: list[tuple[Dfa | None, Dfa]] = [(None, dfa.intersection(automaton, asked, budget=self.budget))]
        for state, beginning in dfa.by_right_state(automaton, asked, budget=self.budget).items():
            if not asked.accepting[state]:
                found.append((_from_state(asked, state, self.budget), beginning))
        return self.merged([(left, self.node(texts)) for left, texts in found if texts != NOTHING])

    def opened(self, node: NodeId, asked: Dfa, depth: int, reason: str) -> Ways:
        """The same for a node that is not regular: by its parts, as far as they are needed."""
        if depth > DEPTH:
            raise self.error(f"more than {DEPTH} rules inside one another follow before its lookahead is decided")
        operator, *parts = self.builder.nodes[node]
        if operator == CALL:
            body = self.builder.rules[parts[0]]
            ways = self.beginning_with(body, asked, depth + 1)
            return {None: node} if ways == {None: body} else ways
        if operator == ALT:
            return self.merged([way for part in parts for way in self.beginning_with(part, asked, depth + 1).items()])
        if operator == SEQ:
            ways = {asked: self.builder.empty()}
            for part in parts:
                following: list[tuple[Dfa | None, NodeId]] = []
                for left, before in ways.items():
                    for rest, restricted in self.beginning_with(part, left, depth + 1).items():
                        following.append((rest, self.sequence(before, restricted)))
                ways = self.merged(following)
            return ways
        if operator == GRAPH:
            edges = list(zip(parts[1][::3], parts[1][1::3], parts[1][2::3], strict=True))

            def moves(number: int, left: Dfa | None) -> Iterator[tuple[int, Dfa | None, int]]:
                for source, target, part in edges:
                    if source == number and part < 0:
                        yield target, left, part
                    elif source == number:
                        for rest, restricted in self.beginning_with(part, left, depth + 1).items():
                            yield target, rest, restricted

            return self.graphs((0, asked), moves)
        raise self.error(f"what follows cannot be compared with its lookahead: {reason}")

    def beginnings(self, ahead: NodeId) -> Dfa | None:
        """The condition of a lookahead: the texts that begin with one of its texts."""
        try:
            automaton = nfa.concatenation(self.automata.of_vertex(ahead, self.rule), ANYTHING, budget=self.budget)
        except DifferenceError as error:
            raise self.error(f"its lookahead: {error}") from None
        return None if automaton.accepting[0] else automaton

    def both(self, left: Dfa | None, right: Dfa | None) -> Dfa | None:
        """The conjunction of two conditions."""
        if left is None or right is None:
            return left if right is None else right
        return dfa.intersection(left, right, budget=self.budget)

    def merged(self, ways: Sequence[tuple[Dfa | None, NodeId]]) -> Ways:
        """Ways with the same demand merged into one, without those whose demand cannot be met."""
        nodes: dict[Dfa | None, dict[NodeId, None]] = {}
        for asked, node in ways:
            if asked != NOTHING:
                nodes.setdefault(asked, {})[node] = None
        return {asked: self.builder.alt(*found) for asked, found in nodes.items()}

    def node(self, texts: Dfa) -> NodeId:
        """The node of an automaton."""
        return self.builder.empty() if texts == EPSILON else self.builder.automaton(texts.transitions, texts.accepting)

    def sequence(self, left: NodeId, right: NodeId) -> NodeId:
        """One node after another."""
        parts = [node for node in (left, right) if self.builder.nodes[node][0] != EMPTY]
        return self.builder.seq(*parts)

    def error(self, message: str) -> LookaheadError:
        """An error about the lookahead at hand."""
        return LookaheadError(message, self.rule)


def _from_state(automaton: Dfa, state: int, budget: Budget) -> Dfa:
    """The texts that an automaton accepts from another state."""
    shift = [state]
    number = {state: 0}
    for other in shift:  # all that it leads to
        for _, _, target in automaton.transitions[other]:
            if target not in number:
                number[target] = len(shift)
                shift.append(target)
    budget.spend(2 * len(shift))
    rows = tuple(tuple((lo, hi, number[target]) for lo, hi, target in automaton.transitions[other]) for other in shift)
    return dfa.minimize(Dfa(rows, tuple(automaton.accepting[other] for other in shift)), budget=budget)
