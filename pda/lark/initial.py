"""The texts of a rule that do not begin with ignored text.

lark ignores text before the first terminal. llguidance and XGrammar do not, unless the text says `allow_initial_skip`: a model could
otherwise write blanks for ever before it begins.

Terminals have their ignored text before them, so the first terminal of a text is found in the expressions, on their way from left to right.
With N(x) for the texts of x that are not empty, without what is ignored before their first terminal:

    N(x y)    = N(x) y, and N(y) where x may be empty         N(ignored text) = nothing
    N(x | y)  = N(x) | N(y)                                   N(a terminal)   = the terminal
    N(x{2,5}) = N(x) x{1,4}                                   N(a rule)       = a rule whose body is N of its body
"""

from __future__ import annotations

from collections.abc import Collection

from ..analysis import leading_to, nullable
from ..automata import dfa
from ..automata.dfa import Dfa
from ..budget import Budget
from ..grammar import GrammarBuilder, NodeId, RuleId
from ..operators import ALT, AUTOMATON, CALL, CAPTURE, EMPTY, GRAPH, LIMIT, NEVER, REPEAT, SEQ, TEMPERATURE, operands

_AROUND = (CAPTURE, LIMIT, TEMPERATURE)


def without_initial(builder: GrammarBuilder, root: RuleId, ignored: Collection[RuleId], budget: Budget) -> RuleId:
    """A rule with the texts of `root` that do not begin with a text of the rules `ignored`."""
    first = _First(builder, ignored, budget)
    start = first.rule(root)
    for rule, body in first.queue:
        builder.define(rule, first.of(body))
    if not first.empty_rules[root]:
        return start
    rule = builder.rule(builder.names[root])
    builder.define(rule, builder.optional(builder.call(start)))
    return rule


class _First:
    """N of nodes, each found once."""

    def __init__(self, builder: GrammarBuilder, ignored: Collection[RuleId], budget: Budget) -> None:
        budget.spend(len(builder.nodes))
        self.builder = builder
        self.budget = budget
        self.ignored = ignored
        self.empty, self.empty_rules = nullable(builder.nodes, builder.rules)
        self.touched = leading_to(builder.nodes, builder.rules, ignored)
        self.found: dict[NodeId, NodeId] = {}
        self.rules: dict[RuleId, RuleId] = {}
        self.queue: list[tuple[RuleId, NodeId]] = []

    def rule(self, rule: RuleId) -> RuleId:
        """The rule for N of a rule's body."""
        if rule not in self.rules:
            self.rules[rule] = self.builder.rule(self.builder.names[rule])
            self.queue.append((self.rules[rule], self.builder.rules[rule]))
        return self.rules[rule]

    def of(self, node: NodeId) -> NodeId:
        """N of a node: first that of its parts, which have smaller indices."""
        needed = {node}
        pending = [node]
        for index in pending:
            for part in self.parts(index):
                if part not in needed and part not in self.found:
                    needed.add(part)
                    pending.append(part)
        for index in sorted([index for index in needed if index not in self.found]):
            self.found[index] = self.without(index)
        return self.found[node]

    def as_it_is(self, index: NodeId) -> bool:
        """Whether a node is not empty and leads to no ignored text, so that N leaves it alone."""
        return not self.touched[index] and not self.empty[index]

    def parts(self, index: NodeId) -> list[NodeId]:
        """The parts of a node that N needs N of."""
        node = self.builder.nodes[index]
        if self.as_it_is(index):
            return []
        if node[0] == SEQ:
            leading = []
            for part in node[1:]:
                leading.append(part)
                if not self.empty[part]:
                    break
            return leading
        return [NodeId(part) for part in operands(node)] if node[0] in (ALT, REPEAT, GRAPH, *_AROUND) else []

    def without(self, index: NodeId) -> NodeId:
        """N of a node, with that of its parts known."""
        builder, found = self.builder, self.found
        node = builder.nodes[index]
        if self.as_it_is(index):
            return index
        match node:
            case (op,) if op in (EMPTY, NEVER):
                return builder.never()
            case (op, rule) if op == CALL:
                return builder.never() if rule in self.ignored else builder.call(self.rule(rule))
            case (op, *parts) if op == SEQ:
                leading = len(self.parts(index))
                return builder.alt(*(builder.seq(found[part], *parts[place + 1 :]) for place, part in enumerate(parts[:leading])))
            case (op, *parts) if op == ALT:
                return builder.alt(*(found[part] for part in parts))
            case (op, part, minimum, maximum) if op == REPEAT:
                least = 0 if self.empty[part] else max(minimum - 1, 0)
                return builder.seq(found[part], builder.repeat(part, least, maximum - 1 if maximum > 0 else -1))
            case (op, states, edges) if op == GRAPH:
                return self.graph(states, edges)
            case (op, part, *rest) if op in _AROUND:
                return builder.node((op, found[part], *rest))
            case (op, transitions, accepting, encoding) if op == AUTOMATON:
                texts = dfa.difference(Dfa(transitions, accepting), dfa.from_string(""), budget=self.budget)
                return builder.never() if texts == dfa.NOTHING else builder.automaton(texts.transitions, texts.accepting, encoding)
        return index

    def graph(self, states: int, edges: tuple[int, ...]) -> NodeId:
        """N of a GRAPH: its states twice, before and after something was read; state 0 is before and state 1 after."""
        builder = self.builder
        before = [0, 2 * states, *range(2, states)]
        after = [2 * states + 1, 1, *range(states, 2 * states - 2)]
        found: list[int] = []
        for source, target, part in zip(edges[::3], edges[1::3], edges[2::3], strict=True):
            found += (after[source], after[target], part)
            if part < 0 or self.empty[part]:
                found += (before[source], before[target], -1)
            if part >= 0:
                found += (before[source], after[target], self.found[NodeId(part)])
        return builder.graph(2 * states + 2, tuple(found))
