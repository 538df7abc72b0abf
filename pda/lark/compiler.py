r"""Lark grammar texts as context-free grammars, with llguidance's additions.

    start: pair ("," pair)*             rules in lower case, over terminals in upper case, "literals" and /regular expressions/
    pair: NAME "=" (INT | list{pair})   groups, [optional], * + ? ~ 2..3 {2,3}, templates, ranges "a".."z"
    list{x}: "[" x* "]"
    NAME: /[a-z]+/i                     terminals are regular, and may be made of others
    think: <think> TEXT <[7]>           special tokens by name or id: <[1,5-9]> <[^7]> <[*]>
    data: %json {"type": "object"}      JSON Schemas, where the caller can compile them
    part: %regex {"substring_chars": "some text"}
    line[lazy]: /.*;/                   options of a rule: see options.py
    %import common.INT                  from lark's common, python, lark and unicode; files are never read
    %ignore " "

The language. A terminal is the set of the texts that its expression matches as a whole. A rule generates sequences of terminals, and
texts of ignored terminals may stand between any two of them, before the first and after the last, in any number.
That is what lark's Earley parser accepts, except that lark lets a terminal match at a position only in one way, the one that Python's `re`
prefers, and so refuses more: it cannot parse "ab" with `start: A "b"`, `A: /[ab]+/`. With lexer="dynamic_complete" it can, and so does
this module. What any of lark's lexers accepts is generated here.

An assertion in a terminal (`^`, `$`, `\b`, lookaround) sees the text of this terminal alone. lark shows it the whole input.

Modifiers (`?rule`, `!rule`), aliases and priorities change lark's trees, not its language, and are read over.
A text that is captured or bounded by a rule's options begins with what is ignored before its first terminal.
Refused by name: %declare, whose terminals have no text; references to other grammars (`@name`), since a text is one grammar; parametric
rules, whose parameters are numbers that count; `stop=""`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from lark import Token, Tree
from lark.exceptions import VisitError
from lark.visitors import Transformer_NonRecursive

from ..automata import dfa, nfa
from ..automata.charset import CharSet, from_chars
from ..automata.dfa import Dfa
from ..budget import Budget
from ..ebnf.difference import shortest_texts
from ..ebnf.lexer import check_text
from ..exceptions import LarkError, LimitError
from ..grammar import Grammar, GrammarBuilder, NodeId, RuleId
from ..limits import Limits
from ..useless_rules import unproductive_rules
from .definitions import Definition, Definitions
from .ignore import Ignored, first_of, restrict
from .lexer import read_json
from .options import Options, part_ending, read_options
from .terminals import Pattern, Terminal, TerminalBuilder, Terminals

JsonNode: TypeAlias = Callable[[GrammarBuilder, object], NodeId]
"""Compiles a JSON Schema to a node."""

Value: TypeAlias = NodeId | str
"""What a name stands for: a node or, as an argument of a template, another template by its name."""

_LIMITS: Final = Limits()
# What a JSON text may begin with.
_JSON_FIRST: Final = from_chars('"-0123456789[fnt{')


def lark_grammar(
    text: str,
    *,
    start: str = "start",
    special: Mapping[str, int] = MappingProxyType({}),
    json_node: JsonNode | None = None,
    limits: Limits = _LIMITS,
) -> Grammar:
    """The grammar that a Lark text describes.

    `special` gives the ids of tokens that the text names, as in <think>; `json_node` compiles what stands behind %json.
    Raises LarkError with line, column and caret.

    >>> print(lark_grammar('start: "(" start? ")"'))
    root ::= start
    start ::= "(" start? ")"
    """
    if not isinstance(text, str):
        raise LarkError(f"a Lark grammar is text, not {type(text).__name__}")
    check_text(text, limits, LarkError)
    definitions = Definitions(text, Budget(limits))
    try:
        return _Compiler(definitions, special, json_node).grammar(start)
    except VisitError as error:
        reason: Exception = error
        while isinstance(reason, VisitError):
            reason = reason.orig_exc
        raise reason from None


class _Compiler:
    """Emits rule after rule, beginning with the start rule; a rule that another calls joins the queue."""

    def __init__(self, definitions: Definitions, special: Mapping[str, int], json_node: JsonNode | None) -> None:
        self.definitions = definitions
        self.special = special
        self.json_node = json_node
        self.budget = definitions.budget
        self.builder = GrammarBuilder()
        self.terminals: dict[str, Terminal] = {}
        self.rules: dict[tuple[object, ...], RuleId] = {}
        self.queue: list[tuple[RuleId, Definition, dict[str, Value]]] = []
        self.ignored: Ignored | None = None

    def grammar(self, start: str) -> Grammar:
        """The finished grammar."""
        definitions = self.definitions
        self.check_names()
        if start not in definitions.by_name:
            message = f"no rule is named `{start}`, to start with" if definitions.by_name else "the grammar is empty"
            raise LarkError(message, definitions.text, 0)
        head = definitions.by_name[start].head
        if definitions.by_name[start].parameters:
            raise definitions.error(f"the template `{start}` cannot be the start: it needs arguments", head)
        self.ignored = self.ignored_texts()
        root = self.rule(start, definitions.by_name[start], ())
        for rule, definition, arguments in self.queue:
            try:
                self.budget.spend(10)
                self.builder.define(rule, self.body(definition, arguments))
            except LimitError as error:
                raise error.at(f"line {definitions.line(definition.head)}, `{definition.head}`") from None
        if self.ignored is not None:
            call = self.builder.call(root)
            root = self.builder.rule("%start")
            self.builder.define(root, self.builder.seq(call, self.ignored.after()))
        grammar = self.builder.build(root)
        if root in unproductive_rules(grammar):
            raise definitions.error(f"`{start}` generates no text: all its alternatives lead back to it", head)
        return grammar

    def check_names(self) -> None:
        """Refuse names without a definition, also where the start rule does not lead to them."""
        for definition in list(self.definitions.by_name.values()):
            for token in definition.symbols() if not definition.imported else ():
                self.definitions.find(token, definition)

    def ignored_texts(self) -> Ignored | None:
        """What stands before terminals, or None where nothing is ignored."""
        automata = []
        for statement in self.definitions.ignored:
            (body,) = statement.children
            assert isinstance(body, Tree)
            definition = Definition(Token("TERMINAL", "%ignore", first_offset(body)), str, [body])
            automata.append(self.plan(definition).preferred(self.build_terminal(definition), definition.head))
        once = self.definitions.options.get("skip_repetition") == "once"
        return Ignored(self.builder, automata, self.budget, once=once) if automata else None

    def rule(self, name: str, definition: Definition, arguments: tuple[Value, ...]) -> RuleId:
        """The rule for a name and, for a template, its arguments; new where it was not asked for before."""
        key = (name, *arguments)
        rule = self.rules.get(key)
        if rule is None:
            if len(self.rules) >= self.budget.limits.rules:
                most = self.budget.limits.rules
                raise LimitError(f"the grammar has more than {most} rules with its templates", limit="rules", value=most)
            rule = self.rules[key] = self.builder.rule(name)
            self.queue.append((rule, definition, dict(zip(definition.parameters, arguments, strict=True))))
        return rule

    def body(self, definition: Definition, arguments: dict[str, Value]) -> NodeId:
        """What a rule or a terminal generates."""
        if definition.head.type == "TERMINAL":
            if definition.options:
                raise self.definitions.error("options stand behind the name of a rule, not of a terminal", definition.head)
            return self.terminal(self.build_terminal(definition), self.plan(definition), definition.head)
        options = read_options(definition.options, definition.head, self.definitions.error)
        if options.is_lexeme:
            return self.lexeme(definition, options)
        builder = _RuleBuilder(self, definition, arguments)
        body = self.builder.alt(*(builder.transform(body) for body in definition.bodies))
        return options.around(self.builder, body, str(definition.head))

    def terminal(self, terminal: Terminal, plan: Terminals, token: Token) -> NodeId:
        """A terminal, with what may be ignored before it."""
        node = plan.node(self.builder, terminal, token)
        if self.ignored is None:
            return node
        return self.ignored.before(
            node, plan.first(terminal, token), lambda chars: self.automaton(restrict(plan.preferred(terminal, token), chars, self.budget))
        )

    def automaton(self, automaton: Dfa) -> NodeId | None:
        """The node of an automaton, None where it has no text."""
        return None if automaton == dfa.NOTHING else self.builder.automaton(automaton.transitions, automaton.accepting)

    def opaque(self, node: NodeId, first: CharSet) -> NodeId:
        """A node that is no terminal's but stands like one, with what may be ignored before it."""
        return node if self.ignored is None else self.ignored.before(node, first, lambda chars: None)

    def plan(self, definition: Definition) -> Terminals:
        """The steps that make terminals, reporting errors in an imported definition at its import."""
        error = self.definitions.error
        if definition.imported:
            return Terminals(lambda message, _: error(f"{message} (in the imported `{definition.head}`)", definition.head), self.budget)
        return Terminals(error, self.budget)

    def lexeme(self, definition: Definition, options: Options) -> NodeId:
        """A rule that ends as soon as it can, after its ending if it has one; its body is read as a terminal's."""
        ending = None if options.ending is None else self.ending(definition, options.ending)
        shortest = self.shortest(definition, ending)
        first = first_of(shortest)
        plan = self.plan(definition)
        if shortest == dfa.NOTHING:
            return plan.node(self.builder, shortest, definition.head)  # which says so
        if ending is None or not options.parts_ending:
            ending = None
        elif part_ending(shortest, ending, self.budget) is None:
            raise self.definitions.error(
                "which text is before the ending depends on the ending here, so it can neither be captured nor bounded", definition.head
            )

        def dressed(automaton: Dfa) -> NodeId | None:
            parts = (automaton, None) if ending is None else part_ending(automaton, ending, self.budget)
            if automaton == dfa.NOTHING or parts is None:
                return None
            text, end = self.automaton(parts[0]), None if parts[1] is None else self.automaton(parts[1])
            assert text is not None
            return options.around(self.builder, text, str(definition.head), end)

        node = dressed(shortest)
        assert node is not None
        return (
            node
            if self.ignored is None
            else self.ignored.before(node, first, lambda chars: dressed(restrict(shortest, chars, self.budget)))
        )

    def ending(self, definition: Definition, token: Token) -> Dfa:
        """The automaton of a rule's suffix."""
        ending = Definition(definition.head, definition.rename, [Tree("expansions", [token])])
        return self.plan(definition).automaton(self.build_terminal(ending), token)

    def shortest(self, definition: Definition, ending: Dfa | None) -> Dfa:
        """The shortest texts of a rule's body as a terminal, and its ending if it has one."""
        plan = self.plan(definition)
        automaton = plan.automaton(self.build_terminal(definition), definition.head)
        if ending is not None:
            automaton = nfa.concatenation(automaton, ending, budget=self.budget)
        return shortest_texts(automaton, self.budget)

    def build_terminal(self, definition: Definition, name: str = "") -> Terminal:
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
        if not definition.bodies:
            raise self.definitions.error(
                f"terminal `{definition.head}` is declared without text, for a lexer written in Python", definition.head
            )

        def lookup(token: Token) -> Terminal:
            return self.terminals[self.definitions.find(token, definition)[0]]

        builder = TerminalBuilder(self.plan(definition), lookup, definition.head)
        terminal = builder.expansions([builder.transform(body) for body in definition.bodies])
        if terminal == Pattern(""):
            raise self.definitions.error(f"terminal `{definition.head}` is empty", definition.head)
        return terminal


class _RuleBuilder(Transformer_NonRecursive[Token, Any]):
    """Makes the node of one rule of its tree, bottom-up: a method for each rule and terminal of the syntax."""

    def __init__(self, compiler: _Compiler, definition: Definition, arguments: dict[str, Value]) -> None:
        super().__init__()
        self.compiler = compiler
        self.builder = compiler.builder
        self.definition = definition
        self.arguments = arguments
        self.plan = compiler.plan(definition)

    def RULE(self, token: Token) -> Value:  # noqa: N802 - the syntax's names
        """A rule, a template as an argument, or a parameter."""
        if token in self.arguments:
            return self.arguments[token]
        name, definition = self.compiler.definitions.find(token, self.definition)
        return name if definition.parameters else self.builder.call(self.compiler.rule(name, definition, ()))

    def TERMINAL(self, token: Token) -> Value:  # noqa: N802
        """A terminal."""
        name, definition = self.compiler.definitions.find(token, self.definition)
        return self.builder.call(self.compiler.rule(name, definition, ()))

    def STRING(self, token: Token) -> NodeId:  # noqa: N802
        """A literal."""
        return self.terminal(self.plan.string(token), token)

    def REGEXP(self, token: Token) -> NodeId:  # noqa: N802
        """A regular expression."""
        return self.terminal(self.plan.regexp(token), token)

    def SUBSTRING(self, token: Token) -> NodeId:  # noqa: N802
        """%regex {...}."""
        return self.terminal(self.plan.substring(token), token)

    def terminal(self, terminal: Terminal, token: Token) -> NodeId:
        """A terminal without a name: a plain literal in its place, others as a rule that is named by its text."""
        if isinstance(terminal, Pattern) and terminal.literal and not terminal.flags:
            return self.compiler.terminal(terminal, self.plan, token)
        rules = self.compiler.rules
        if (terminal,) not in rules:
            rule = rules[(terminal,)] = self.builder.rule(token[:60])
            self.builder.define(rule, self.compiler.terminal(terminal, self.plan, token))
        return self.builder.call(rules[(terminal,)])

    def SPECIAL(self, token: Token) -> NodeId:  # noqa: N802
        """A special token."""
        ids, negated = self.token_ids(token)
        return self.compiler.opaque(self.builder.tokens(ids, negated=negated), ())

    def token_ids(self, token: Token) -> tuple[tuple[int, ...], bool]:
        """The ids in <name>, <[1,5-9]>, <[^1]> or <[*]>, and whether they are those that are not meant."""
        if not token.startswith("<["):
            special = self.compiler.special
            found = special.get(token, special.get(token[1:-1]))
            if found is None:
                raise self.plan.error(f"the vocabulary has no special token {token[:60]}", token)
            return (found,), False
        inside = token[2:-2].strip()
        if inside == "*":
            return (), True
        ids: set[int] = set()
        for part in inside.removeprefix("^").split(","):
            match = re.fullmatch(r"\s*([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?\s*", part)
            if match is None:
                raise self.plan.error("ids of tokens are written <[5]>, <[1,5-9]>, <[^5]> or <[*]>", token)
            low, high = int(match.group(1)), int(match.group(2) or match.group(1))
            if high - low + len(ids) > self.compiler.budget.limits.states:
                raise self.plan.too_large("a list of tokens")
            ids.update(range(low, high + 1))
        return tuple(sorted(ids)), inside.startswith("^")

    def JSON(self, token: Token) -> NodeId:  # noqa: N802
        """%json {...}."""
        if self.compiler.json_node is None:
            raise self.plan.error("%json needs a compiler of JSON Schemas, which was not given", token)
        value = read_json(token, len("%json"))[0]
        return self.compiler.opaque(self.compiler.json_node(self.builder, value), _JSON_FIRST)

    def RANGE(self, token: Token) -> NodeId:  # noqa: N802
        """One character from one to another."""
        return self.terminal(self.plan.range(token), token)

    def template(self, children: list[Any]) -> NodeId:
        """A template with its arguments, or a parameter that stands for one."""
        token, *arguments = children
        given = self.arguments.get(token)
        if given is None:
            name, definition = self.compiler.definitions.find(token, self.definition)
        elif isinstance(given, str):
            name, definition = given, self.compiler.definitions.by_name[given]
        else:
            raise self.plan.error(f"the parameter `{token}` stands for no template here", token)
        if len(arguments) != len(definition.parameters):
            raise self.plan.error(f"`{token}` takes {len(definition.parameters)} arguments, not {len(arguments)}", token)
        return self.builder.call(self.compiler.rule(name, definition, tuple(arguments)))

    def alias(self, children: list[Any]) -> NodeId:
        """A -> name: A."""
        return self.node(children[0])

    def expansions(self, children: list[Any]) -> NodeId:
        """A | B."""
        return self.builder.alt(*map(self.node, children))

    def expansion(self, children: list[Any]) -> NodeId:
        """A B."""
        return self.builder.seq(*map(self.node, children))

    def repeat(self, children: list[Any]) -> NodeId:
        """A* and its like."""
        body, operation, *numbers = children
        return self.builder.repeat(self.node(body), *self.plan.bounds(operation, numbers))

    def maybe(self, children: list[Any]) -> NodeId:
        """[A]."""
        return self.builder.optional(self.node(children[0]))

    def both(self, children: list[Any]) -> NodeId:
        """A & B, which is for terminals."""
        raise self.plan.error("`&` joins parts of terminals, not of rules; name the whole in upper case", children[1])

    def negation(self, children: list[Any]) -> NodeId:
        """~A, likewise."""
        raise self.plan.error("`~` negates parts of terminals, not of rules; name the whole in upper case", children[0])

    def node(self, value: Value) -> NodeId:
        """What a name in an expression stands for, which cannot be a template without its arguments."""
        if isinstance(value, str):
            raise self.plan.error(f"the template `{value}` needs its arguments", self.definition.head)
        return value


def first_offset(tree: Tree[Token]) -> int | None:
    """Where a statement's text begins."""
    offsets = (child.start_pos for part in tree.iter_subtrees() for child in part.children if isinstance(child, Token))
    return min((offset for offset in offsets if offset is not None), default=None)
