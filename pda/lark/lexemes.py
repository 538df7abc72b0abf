"""Terminals, and rules that are read as terminals, with optional ignored text before them, as nodes of a grammar.

A rule with `lazy`, `suffix` or `stop` is a terminal that ends as soon as it can, and one with `max_chars` a terminal of bounded length.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lark import Token, Tree

from ..automata import dfa, language, nfa
from ..automata.charset import CharSet
from ..automata.dfa import Dfa
from ..ebnf.difference import shortest_texts
from ..grammar import GrammarBuilder, NodeId
from .definitions import Definition, Definitions
from .ignore import Ignored, first_of, restrict
from .options import Options, part_ending, read_options
from .terminals import Pattern, Terminal, TerminalBuilder, Terminals

_OF_TERMINALS: Final = (
    "TERMINAL",
    "STRING",
    "WORDS",
    "REGEXP",
    "RANGE",
    "SUBSTRING",
    "SPECIAL",
    "OP",
    "COUNTS",
    "TILDE",
    "NUMBER",
    "AND",
    "NOT",
)


class Lexemes:
    """The terminals of one grammar text, each made once."""

    def __init__(self, definitions: Definitions, builder: GrammarBuilder) -> None:
        self.definitions = definitions
        self.builder = builder
        self.budget = definitions.budget
        self.terminals: dict[str, Terminal] = {}
        self.shortest: dict[int, Dfa] = {}
        self.ignored: Ignored | None = None
        self.ignored = self.ignored_texts()

    def ignored_texts(self) -> Ignored | None:
        """The ignored text before terminals, or None where nothing is ignored."""
        automata = []
        for statement in self.definitions.ignored:
            (body,) = statement.children
            assert isinstance(body, Tree)
            definition = Definition(Token("TERMINAL", "%ignore", first_offset(body)), str, [body])
            automata.append(self.plan(definition).preferred(self.build(definition), definition.head))
        options = self.definitions.options
        once = options.get("skip_repetition") == "once" or options.get("ignore_once") is True
        return Ignored(self.builder, automata, self.budget, once=once) if automata else None

    def plan(self, definition: Definition) -> Terminals:
        """The steps that make terminals, reporting errors in an imported definition at its import."""
        error = self.definitions.error
        if definition.imported:
            return Terminals(lambda message, _: error(f"{message} (in the imported `{definition.head}`)", definition.head), self.budget)
        return Terminals(error, self.budget)

    def options(self, definition: Definition) -> Options:
        """The options of a rule; a lazy one that ends in a token is an ordinary rule, since no text contains a token."""
        options = read_options(definition.options, definition.head, self.definitions.error)
        return replace(options, lazy=False) if options.lazy and options.ending is None and _ends_in_a_token(definition) else options

    def node(self, terminal: Terminal, plan: Terminals, token: Token) -> NodeId:
        """A terminal, with optional ignored text before it."""
        node = plan.node(self.builder, terminal, token)
        if self.ignored is None or node == self.builder.empty():
            return node
        return self.ignored.before(
            node, plan.first(terminal, token), lambda chars: self.automaton(restrict(plan.preferred(terminal, token), chars, self.budget))
        )

    def opaque(self, node: NodeId, first: CharSet) -> NodeId:
        """A node that is used like a terminal, with optional ignored text before it."""
        return node if self.ignored is None else self.ignored.before(node, first, lambda chars: None)

    def automaton(self, automaton: Dfa, most: int = -1) -> NodeId | None:
        """The node of an automaton's texts, of at most a given number of characters; None where it has none."""
        bounds = language.length_bounds(automaton)
        if bounds is None or 0 <= most < bounds[0]:
            return None
        most = -1 if bounds[1] is not None and bounds[1] <= most else most
        return self.builder.automaton(automaton.transitions, automaton.accepting, maximum=most)

    def rule(self, definition: Definition, options: Options, within: Dfa | None = None) -> NodeId | None:
        """A rule that is read as a terminal, limited to its texts `within` an automaton; None if there are none."""
        automaton = self.texts(definition, options)
        plan, head = self.plan(definition), definition.head
        if automaton == dfa.NOTHING:
            return plan.node(self.builder, automaton, head)  # which says so
        if within is not None:
            automaton = dfa.intersection(automaton, within, budget=self.budget)
        ending = self.ending(definition, options)

        def dressed(texts: Dfa) -> NodeId | None:
            if texts == dfa.NOTHING:
                return None
            if ending is None or not options.parts_ending:
                text, end = self.automaton(texts, options.max_chars), None
            else:
                parts = part_ending(texts, ending, self.budget)
                if parts is None:
                    message = "which text is before the ending depends on the ending here, so it can neither be captured nor bounded"
                    raise self.definitions.error(message, head)
                text, end = self.automaton(parts[0], options.max_chars), self.automaton(parts[1])
            return None if text is None else options.around(self.builder, text, str(head), end)

        node = dressed(automaton)
        if node is None and within is None:
            raise self.definitions.error(f"this rule generates no text of at most {options.max_chars} characters", head)
        if node is None or self.ignored is None:
            return node
        return self.ignored.before(node, first_of(automaton), lambda chars: dressed(restrict(automaton, chars, self.budget)))

    def texts(self, definition: Definition, options: Options) -> Dfa:
        """The texts of a rule that is read as a terminal, with its ending if it has one."""
        found = self.shortest.get(id(definition))
        if found is None:
            plan = self.plan(definition)
            terminal = self.build(definition)
            if options.is_lazy:
                found = plan.automaton(terminal, definition.head)
                ending = self.ending(definition, options)
                if ending is not None:
                    found = nfa.concatenation(found, ending, budget=self.budget)
                found = shortest_texts(found, self.budget)
            else:
                found = plan.preferred(terminal, definition.head)
            self.shortest[id(definition)] = found
        return found

    def ending(self, definition: Definition, options: Options) -> Dfa | None:
        """The automaton of a rule's ending, if it has one."""
        if options.ending is None:
            return None
        ending = Definition(definition.head, definition.rename, [Tree("expansions", [options.ending])])
        return self.plan(definition).automaton(self.build(ending), options.ending)

    def build(self, definition: Definition, name: str = "") -> Terminal:
        """The terminal of a definition: first those it is made of, by depth and with a stack, since chains may be long."""
        stack = [(name, definition)]
        unfinished: set[int] = set()
        while True:
            name, top = stack[-1]
            if name not in self.terminals:
                parts = [self.definitions.find(token, top) for token in top.symbols() if token.type == "TERMINAL"]
                missing = [(part, part_definition) for part, part_definition in parts if part not in self.terminals]
                if missing and id(top) in unfinished:
                    raise self.definitions.error(f"terminal `{top.head}` contains itself; only rules can", top.head)
                if missing:
                    unfinished.add(id(top))
                    stack += missing
                    continue
                terminal = self.combine(top)
                if len(stack) == 1:
                    return terminal
                self.terminals[name] = terminal
            stack.pop()

    def combine(self, definition: Definition) -> Terminal:
        """The terminal of a definition whose parts are known."""
        head = definition.head
        if not definition.bodies:
            raise self.definitions.error(f"terminal `{head}` is declared without text, for a lexer written in Python", head)

        def lookup(token: Token) -> Terminal:
            return self.terminals[self.definitions.find(token, definition)[0]]

        builder = TerminalBuilder(self.plan(definition), lookup, head)
        terminal: Terminal = builder.expansions([builder.transform(body) for body in definition.bodies])
        if terminal == Pattern("") and not any(_written(body) for body in definition.bodies):
            raise self.definitions.error(f'terminal `{head}` is empty; write "" for the empty text', head)
        return terminal


def first_offset(tree: Tree[Token]) -> int | None:
    """Where a statement's text begins."""
    offsets = (child.start_pos for part in tree.iter_subtrees() for child in part.children if isinstance(child, Token))
    return min((offset for offset in offsets if offset is not None), default=None)


def _ends_in_a_token(definition: Definition) -> bool:
    """Whether a rule is terminals and one token behind them."""
    tokens = [token for body in definition.bodies for token in body.scan_values(lambda value: isinstance(value, Token))]
    alternatives = [tree for body in definition.bodies for tree in body.children if isinstance(tree, Tree) and tree.children]
    if len(alternatives) != 1 or sum(token.type == "SPECIAL" for token in tokens) != 1:
        return False
    last = alternatives[0].children[-1]
    return isinstance(last, Token) and last.type == "SPECIAL" and all(token.type in _OF_TERMINALS for token in tokens)


def _written(tree: Tree[Token]) -> bool:
    """Whether anything stands in a tree."""
    return any(isinstance(child, Token) for part in tree.iter_subtrees() for child in part.children)
