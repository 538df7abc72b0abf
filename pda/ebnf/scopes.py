"""Rules with the options `scope` and `distinct`: the engines want a DISTINCT in the same rule as its SCOPE, the notation need not care.

A rule that holds a DISTINCT for a scope around it is copied into the rule with the scope, where it is called.
Where it calls such rules at its end, and thereby perhaps itself, those calls are edges of a GRAPH with a state for each rule.
"""

from __future__ import annotations

from ..grammar import ALT, CALL, DISTINCT, GRAPH, PERMUTE, REPEAT, SCOPE, SEQ, GrammarBuilder, NodeId, RuleId, operands


class ScopeError(Exception):
    """A rule cannot be copied into its scope; `rule` is that rule."""

    def __init__(self, message: str, rule: RuleId) -> None:
        self.rule = rule
        super().__init__(message)


def copy_into_scopes(builder: GrammarBuilder) -> None:
    """Rewrite the rules of a grammar that have a scope and call rules that hold a DISTINCT for it."""
    if any(node[0] == DISTINCT for node in builder.nodes):
        copier = _Copier(builder)
        for rule, body in enumerate(tuple(builder.rules)):
            builder.define(RuleId(rule), copier.around_scopes(body))


class _Copier:
    """Copies rules, each once."""

    def __init__(self, builder: GrammarBuilder) -> None:
        self.builder = builder
        self.open_nodes, self.open_rules = self.find_open()
        self.graphs: dict[RuleId, NodeId | None] = {}

    def find_open(self) -> tuple[set[int], set[int]]:
        """The nodes and the rules that hold a DISTINCT for a scope around them: the closure of DISTINCT under "is a part of"."""
        size = len(self.builder.nodes)
        holders: list[list[int]] = [[] for _ in range(size + len(self.builder.rules))]
        found: list[int] = []
        for index, node in enumerate(self.builder.nodes):
            if node[0] == DISTINCT:
                found.append(index)
            elif node[0] != SCOPE:
                for part in [size + node[1]] if node[0] == CALL else operands(node):
                    holders[part].append(index)
        for rule, body in enumerate(self.builder.rules, size):
            holders[body].append(rule)
        seen = set(found)
        for vertex in found:  # which grows
            for holder in holders[vertex]:
                if holder not in seen:
                    seen.add(holder)
                    found.append(holder)
        return {vertex for vertex in seen if vertex < size}, {vertex - size for vertex in seen if vertex >= size}

    def around_scopes(self, body: NodeId) -> NodeId:
        """The body of a rule, whose scopes hold their DISTINCTs themselves."""
        return self.replaced(body, inside=False)

    def replaced(self, node: NodeId, *, inside: bool) -> NodeId:
        """A node, in a scope or not, with the calls in it copied where they must be."""
        operator, *rest = self.builder.nodes[node]
        if operator == CALL:
            return self.graph(RuleId(rest[0])) if inside and rest[0] in self.open_rules else node
        parts = operands(self.builder.nodes[node])
        if not parts or (inside and operator != SCOPE and node not in self.open_nodes and not self.has_scope(node)):
            return node
        within = inside or operator == SCOPE
        new = [self.replaced(NodeId(part), inside=within) for part in parts]
        if new == list(parts):
            return node
        if operator in (SEQ, ALT):
            return self.builder.node((operator, *new))
        if operator == PERMUTE:
            members = list(rest[0])
            members[::2] = new[:-1]
            return self.builder.node((operator, tuple(members), new[-1], *rest[2:]))
        if operator == GRAPH:
            pending = iter(new)
            edges = [next(pending) if i % 3 == 2 and part >= 0 else part for i, part in enumerate(rest[1])]
            return self.builder.node((operator, rest[0], tuple(edges)))
        return self.builder.node((operator, new[0], *rest[1:]))

    def has_scope(self, node: NodeId) -> bool:
        """Whether a scope stands in a node that need not be copied: its own calls may have to be."""
        pending = [int(node)]
        for part in pending:
            if self.builder.nodes[part][0] == SCOPE:
                return True
            pending += operands(self.builder.nodes[part])
        return False

    def graph(self, rule: RuleId) -> NodeId:
        """The texts of a rule, as one node."""
        if rule in self.graphs:
            found = self.graphs[rule]
            if found is None:
                raise ScopeError("a rule that reads `distinct` values for a scope around it may call itself at its end only", rule)
            return found
        self.graphs[rule] = None
        states = {rule: 0}
        rules = [rule]
        edges: list[int] = []
        for called in rules:  # which grows
            for parts, following in self.ways(called):
                if following is not None and following not in states:
                    states[following] = len(rules) + 1  # 1 is the end
                    rules.append(following)
                node = self.builder.seq(*[self.replaced(part, inside=True) for part in parts]) if parts else -1
                edges += (states[called], 1 if following is None else states[following], node)
        self.graphs[rule] = found = self.builder.graph(len(rules) + 1, tuple(edges))
        return found

    def ways(self, rule: RuleId) -> list[tuple[tuple[NodeId, ...], RuleId | None]]:
        """The alternatives of a rule: what each reads, and the rule that it calls at its end for the same scope."""
        found: list[tuple[tuple[NodeId, ...], RuleId | None]] = []
        pending: list[tuple[NodeId, tuple[NodeId, ...]]] = [(self.builder.rules[rule], ())]
        while pending:
            last, before = pending.pop()
            operator, *rest = self.builder.nodes[last]
            if operator == ALT:
                pending += [(part, before) for part in rest]
            elif operator == SEQ:
                pending.append((rest[-1], (*before, *rest[:-1])))
            elif operator == REPEAT and rest[1:] == [0, 1] and last in self.open_nodes:
                pending.append((rest[0], before))
                found.append((before, None))
            elif operator == CALL and rest[0] in self.open_rules:
                found.append((before, RuleId(rest[0])))
            else:
                found.append(((*before, last), None))
        return found
