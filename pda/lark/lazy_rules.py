"""The rules of a grammar with lazy rules, each in the contexts that `lazy` finds, as nodes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Protocol

from lark import Token

from ..automata import dfa
from ..automata.dfa import ANYTHING, Dfa
from ..automata.nfa import concatenation
from ..budget import Budget
from ..ebnf.difference import shortest_texts
from ..exceptions import StackmaskWarning
from ..grammar import GrammarBuilder, NodeId, RuleId
from .definitions import Definition, Definitions
from .lazy import LAZY, OTHER, RULE, TERMINAL, Body, BodyReader, Context, Edge, Graph, Lazies, Order, Symbol
from .lexemes import Lexemes
from .terminals import Pattern, Terminal


class Emitter(Protocol):
    """The part of a grammar's compiler that lazy rules use."""

    definitions: Definitions
    lexemes: Lexemes
    builder: GrammarBuilder
    budget: Budget

    def plain(self, token: Token, definition: Definition) -> NodeId:
        """The node of one token in a rule of this definition."""

    def named(self, name: str) -> NodeId:
        """A call of the rule of this name."""


def in_order(emitter: Emitter, start: str) -> RuleId | None:
    """The start rule in its context; None where no lazy rule ends another terminal."""
    reachable = list(_reachable(emitter.definitions, start))
    if not any(_is_lazy(emitter, definition) for _, definition in reachable):
        return None
    if emitter.definitions.by_name[start].head.type != "RULE" or emitter.lexemes.options(emitter.definitions.by_name[start]).is_lexeme:
        return None
    for _, definition in reachable:
        if definition.parameters or definition.parametric:
            if not _is_lazy(emitter, definition):  # which is refused elsewhere
                what = f"the template or rule with a number `{definition.head}`"
                _warn(f"in a grammar with {what}, terminals beside a lazy rule may contain its text, which does not end them")
            return None
    rules = _LazyRules(emitter)
    root = rules.order(start)
    return rules.emit(root) if rules.matters() else None


def _reachable(definitions: Definitions, start: str) -> Iterator[tuple[str, Definition]]:
    """The definitions that a rule leads to."""
    seen = {start}
    pending = [(start, definitions.by_name[start])]
    for name, definition in pending:
        yield name, definition
        for token in definition.symbols():
            other, found = definitions.find(token, definition)
            if other not in seen:
                seen.add(other)
                pending.append((other, found))


def _is_lazy(emitter: Emitter, definition: Definition) -> bool:
    return bool(definition.options) and emitter.lexemes.options(definition).is_lazy


def _warn(message: str) -> None:
    warnings.warn(message, StackmaskWarning, stacklevel=2)


class _LazyRules:
    """Emits the graphs of an Order."""

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter
        self.builder = emitter.builder
        self.lexemes = emitter.lexemes
        self.budget = emitter.budget
        self.owners: dict[object, tuple[Token, Definition]] = {}
        self.definitions: dict[object, Definition] = {}
        self.graphs: dict[Context, Graph] = {}
        self.begun: dict[Lazies, Dfa] = {}
        self.shortest: dict[Lazies, Dfa] = {}
        self.without: dict[Lazies, Dfa] = {}
        self.all: dict[object, Dfa] = {}
        self.restricted: dict[tuple[object, Lazies], Dfa | None] = {}
        self.nodes: dict[tuple[object, Lazies], NodeId | None] = {}
        self.rules: dict[tuple[Context, Lazies], RuleId] = {}
        self.queue: list[tuple[Context, Lazies, RuleId]] = []

    def order(self, start: str) -> Context:
        """Find the contexts of all rules that the start rule leads to; gives its own."""
        reachable = _reachable(self.emitter.definitions, start)
        order = Order({name: self.body(definition) for name, definition in reachable if self.is_rule(definition)}, self.budget)
        root = order.run(start)
        self.graphs = order.graphs
        return root

    def is_rule(self, definition: Definition) -> bool:
        """Whether a definition is a rule of terminals and other rules."""
        return definition.head.type == "RULE" and not self.lexemes.options(definition).is_lexeme

    def body(self, definition: Definition) -> Body:
        """The body of a rule."""
        reader = BodyReader(lambda token: self.symbol(token, definition), self.lexemes.plan(definition).bounds, self.budget)
        return reader.body([reader.transform(body) for body in definition.bodies])

    def symbol(self, token: Token, user: Definition) -> Symbol:
        """The symbol of a token in the body of a rule."""
        if token.type in ("SPECIAL", "JSON", "LARK", "REFERENCE"):
            key: object = (token.type, str(token))
            self.owners.setdefault(key, (token, user))
            return Symbol(OTHER, key, token)
        if token.type not in ("RULE", "TERMINAL"):
            key = token.type, str(token)
            self.owners.setdefault(key, (token, user))
            return Symbol(TERMINAL, key, token, self.may_be_empty(key))
        name, definition = self.emitter.definitions.find(token, user)
        if self.is_rule(definition):
            return Symbol(RULE, name, token)
        self.owners.setdefault(name, (token, user))
        self.definitions[name] = definition
        lazy = definition.head.type == "RULE" and self.lexemes.options(definition).is_lazy
        return Symbol(LAZY if lazy else TERMINAL, name, token, self.may_be_empty(name))

    def terminal(self, key: object) -> Terminal:
        """A terminal that is no rule."""
        if key in self.definitions:
            return self.lexemes.build(self.definitions[key])
        token, user = self.owners[key]
        plan = self.lexemes.plan(user)
        if token.type == "SUBSTRING":
            return plan.substring(token)
        return {"STRING": plan.string, "WORDS": plan.words, "REGEXP": plan.regexp, "RANGE": plan.range}[token.type](token)

    def texts(self, key: object) -> Dfa:
        """All texts of a terminal or of a rule that is read as one."""
        if key not in self.all:
            token, user = self.owners[key]
            definition = self.definitions.get(key, user)
            if key in self.definitions and definition.head.type == "RULE":
                self.all[key] = self.lexemes.texts(definition, self.lexemes.options(definition))
            else:
                self.all[key] = self.lexemes.plan(definition).preferred(self.terminal(key), token)
        return self.all[key]

    def may_be_empty(self, key: object) -> bool:
        """Whether the empty text is one of a terminal's."""
        definition = self.definitions.get(key)
        if definition is None or definition.head.type == "TERMINAL":
            terminal = self.terminal(key)
            if isinstance(terminal, Pattern) and terminal.shortest:
                return False
        return self.texts(key).accepting[0]

    def restrict(self, symbol: Symbol, before: Lazies) -> Dfa | None:
        """The texts of a symbol that no lazy rule ends; None for all of them."""
        key = (symbol.key, before)
        if key not in self.restricted:
            if symbol.kind == OTHER or not before - {symbol.key}:
                self.restricted[key] = None
            else:
                texts = self.texts(symbol.key)
                within = self.first_of(before) if symbol.kind == LAZY else self.free_of(before)
                kept = dfa.intersection(texts, within, budget=self.budget)
                self.restricted[key] = None if kept == texts else kept
        return self.restricted[key]

    def first_of(self, lazies: Lazies) -> Dfa:
        """The shortest texts of some lazy rules together."""
        if lazies not in self.shortest:
            self.shortest[lazies] = shortest_texts(self.begun_by(lazies), self.budget)
        return self.shortest[lazies]

    def free_of(self, lazies: Lazies) -> Dfa:
        """The texts that begin with none of some lazy rules."""
        if lazies not in self.without:
            self.without[lazies] = dfa.complement(self.begun_by(lazies), budget=self.budget)
        return self.without[lazies]

    def begun_by(self, lazies: Lazies) -> Dfa:
        """The texts that begin with one of some lazy rules.

        PERF: the texts of the rules alone, of which one goes on where another has ended, would have a state for each set of rules.
        """
        if lazies not in self.begun:
            if len(lazies) == 1:
                found = concatenation(*map(self.texts, lazies), ANYTHING, budget=self.budget)
            else:
                found = dfa.union(*[self.begun_by(frozenset((name,))) for name in sorted(lazies)], budget=self.budget)
            self.begun[lazies] = found
        return self.begun[lazies]

    def matters(self) -> bool:
        """Whether a lazy rule ends anything; warns of terminals that it cannot end."""
        found = False
        others: dict[object, Lazies] = {}
        for graph in self.graphs.values():
            for edge in graph.edges:
                if edge.symbol is not None and edge.symbol.kind != RULE and edge.before:
                    found = self.restrict(edge.symbol, edge.before) is not None or found
                    if edge.symbol.kind == OTHER and edge.symbol.token.type != "SPECIAL":
                        others[edge.symbol.key] = edge.before
        for key, lazies in others.items():
            token, _ = self.owners[key]
            line = self.emitter.definitions.line(token)
            beside = f"`{token[:40]}` stands beside the lazy rule `{min(lazies)}`"
            _warn(f"line {line}: {beside} and may contain its text, which does not end it")
        return found

    def emit(self, root: Context) -> RuleId:
        """The rules of all contexts; gives the start rule."""
        builder = self.builder
        ends = [self.variant(root, end) for end in self.graphs[root].ends]
        for context, end, rule in self.queue:
            definition = self.emitter.definitions.by_name[context.rule]
            node = self.graph(self.graphs[context], end)
            builder.define(rule, self.lexemes.options(definition).around(builder, node, str(definition.head)))
        if len(ends) == 1:
            return ends[0]
        start = builder.rule(root.rule)
        builder.define(start, builder.alt(*map(builder.call, ends)))
        return start

    def variant(self, context: Context, end: Lazies) -> RuleId:
        """The rule of a context with an end."""
        key = (context, end)
        if key not in self.rules:
            self.rules[key] = self.builder.rule(context.rule)
            self.queue.append((context, end, self.rules[key]))
        return self.rules[key]

    def graph(self, graph: Graph, end: Lazies) -> NodeId:
        """The node of a graph, of its texts those with one end."""
        edges: list[int] = []
        for edge in graph.edges:
            node = self.edge(edge)
            if node is not None:
                edges += (edge.source, edge.target, node)
        for state in graph.ends.get(end, ()):
            edges += (state, 1, -1)
        return self.builder.graph(graph.states, tuple(edges))

    def edge(self, edge: Edge) -> int | None:
        """The node that an edge reads, -1 for nothing; None where it reads no text."""
        if edge.symbol is None:
            return -1
        if edge.context is not None:
            return self.builder.call(self.variant(edge.context, edge.end))
        if edge.symbol.kind == RULE:
            return self.plain(edge.symbol)
        key = (edge.symbol.key, edge.before)
        if key not in self.nodes:
            self.nodes[key] = self.node(edge.symbol, edge.before)
        return self.nodes[key]

    def plain(self, symbol: Symbol) -> NodeId:
        """A symbol that no lazy rule has anything to do with."""
        if symbol.kind == RULE:
            return self.emitter.named(str(symbol.key))
        return self.emitter.plain(*self.owners[symbol.key])

    def node(self, symbol: Symbol, before: Lazies) -> NodeId | None:
        """A terminal, as a rule of its name; its empty text is an edge of its own."""
        texts = self.restrict(symbol, before)
        if texts is None and not symbol.empty:
            return self.plain(symbol)
        texts = self.texts(symbol.key) if texts is None else texts
        if symbol.empty:
            texts = dfa.difference(texts, dfa.from_string(""), budget=self.budget)
        if texts == dfa.NOTHING:
            return None
        token, user = self.owners[symbol.key]
        definition = self.definitions.get(symbol.key, user)
        if symbol.key in self.definitions and definition.head.type == "RULE":
            body = self.lexemes.rule(definition, self.lexemes.options(definition), texts)
        else:
            body = self.lexemes.node(texts, self.lexemes.plan(definition), token)
        if body is None:
            return None
        rule = self.builder.rule(str(token)[:60])
        self.builder.define(rule, body)
        return self.builder.call(rule)
