r"""Lark grammar texts as context-free grammars, with llguidance's additions.

    start: pair ("," pair)*             rules in lower case, over terminals in upper case, "literals" and /regular expressions/
    pair: NAME "=" (INT | list{pair})   groups, [optional], * + ? ~ 2..3 {2,3}, templates, ranges "a".."z"
    list{x}: "[" x* "]"
    NAME: /[a-z]+/i                     terminals are regular, and may be made of others
    think: <think> TEXT <[7]>           special tokens by name or id: <[1,5-9]> <[^7]> <[*]>
    data: %json {"type": "object"}      JSON Schemas, where the caller can compile them
    part: %regex {"substring_chars": "some text"}
    inner: %lark { start: "a" }         a grammar with names of its own
    other: @name                        another grammar of those that the caller gives
    item::_: "a" item::set_bit(0) %if bit_clear(0)      rules with a number: see parametric.py
    line[lazy]: /.*;/                   options of a rule: see options.py
    %import common.INT                  from lark's common, python, lark and unicode; files are never read
    %ignore " "
    %llguidance {"allow_initial_skip": true}            or %grammar_options

The language. A terminal is the set of the texts that its expression matches as a whole. A rule generates sequences of terminals, and
texts of ignored terminals may stand between any two of them and after the last, in any number; before the first with `allow_initial_skip`
alone. With that it is what lark's Earley parser accepts, except that lark lets a terminal match at a position only in one way, the one that
Python's `re` prefers, and so refuses more: it cannot parse "ab" with `start: A "b"`, `A: /[ab]+/`. With lexer="dynamic_complete" it can,
and so does this module. What any of lark's lexers accepts is generated here, but for lazy rules and ignored text at the start.

A lazy rule ends where it first can, and with it the terminals that stand beside it: see lazy.py.

An assertion in a terminal (`^`, `$`, `\b`, lookaround) sees the text of this terminal alone. lark shows it the whole input.

Modifiers (`?rule`, `!rule`), aliases and priorities change lark's trees, not its language, and are read over.
A text that is captured or bounded by a rule's options includes ignored text before its first terminal.
A grammar inside another ignores text between its own terminals alone.
Refused by name: %declare, whose terminals have no text; bytes that are no text (`allow_invalid_utf8`).

A text that is a JSON object is llguidance's list of grammars, {"grammars": [{"lark_grammar": ...}, {"name": ..., "json_schema": ...}]}: the
first is meant, the others are known to it by their names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from lark import Token, Tree
from lark.exceptions import VisitError
from lark.visitors import Transformer_NonRecursive

from ..analysis import barren_rule, productive
from ..automata.charset import from_chars
from ..budget import Budget
from ..ebnf.lexer import check_text
from ..embed import splice
from ..exceptions import LarkError, LimitError, kind_of, outside_vocabulary
from ..grammar import Grammar, GrammarBuilder, NodeId, RuleId
from ..limits import Limits
from ..regex.first_match import MANY_WORDS
from .alternatives import Branch, parameter_of
from .definitions import Definition, Definitions
from .initial import without_initial
from .lazy_rules import in_order
from .lexemes import Lexemes
from .lexer import read_json
from .parametric import read_number
from .terminals import Literal, Pattern, Terminal, literal_pattern

JsonNode: TypeAlias = Callable[[GrammarBuilder, object], NodeId]
"""Compiles a JSON Schema to a node."""

Value: TypeAlias = NodeId | str
"""The meaning of a name: a node or, as an argument of a template, another template by its name."""

_LIMITS: Final = Limits()
# The first bytes of JSON texts.
_JSON_FIRST: Final = from_chars('"-0123456789[fnt{')
# Grammars in each other: compiling them costs Python's stack.
_MOST_NESTED: Final = 30
# Steps that a part of a template or of a rule with a number takes each time that it is emitted.
_PART_WORK: Final = 5


def lark_grammar(
    text: str,
    *,
    start: str = "start",
    special: Mapping[str, int] = MappingProxyType({}),
    vocabulary_size: int | None = None,
    json_node: JsonNode | None = None,
    grammars: Mapping[str, object] = MappingProxyType({}),
    limits: Limits = _LIMITS,
) -> Grammar:
    """The grammar that a Lark text describes.

    `special` gives the ids of tokens that the text names, as in <think>; ids of tokens in the text, as in <[5]>, are below
    `vocabulary_size`, where that is given. `json_node` compiles what stands behind %json; `grammars` are those that the text knows as
    @name, each a Lark text, a `Grammar` or a JSON Schema.
    Raises LarkError with line, column and caret.

    >>> print(lark_grammar('start: "(" start? ")"'))
    root ::= start
    start ::= "(" start? ")"
    """
    if not isinstance(text, str):
        raise LarkError(f"a Lark grammar must be text, not {kind_of(text)}")
    check_text(text, limits, LarkError)
    main: object = text
    if text.lstrip()[:1] == "{":
        main, listed = _read_list(text)
        grammars = {**grammars, **listed}
    session = _Session(GrammarBuilder(), Budget(limits), special, vocabulary_size, json_node, grammars)
    try:
        root = session.main(main, start)
    except VisitError as error:
        raise _reason(error) from None
    return session.builder.build(root)


def _reason(error: Exception) -> Exception:
    """The error that a visitor of a tree has wrapped."""
    while isinstance(error, VisitError):
        error = error.orig_exc
    return error


def _read_list(text: str) -> tuple[object, dict[str, object]]:
    """The first grammar of a list as llguidance takes it, and those with names; each a text or a JSON Schema."""
    begin = len(text) - len(text.lstrip())
    value, end = read_json(text, begin)
    if text[end:].strip():
        raise LarkError("a text that begins with { must be a list of grammars as JSON, with nothing after it", text, end)
    listed = value.get("grammars")
    if list(value) != ["grammars"] or not isinstance(listed, list) or not listed:
        raise LarkError('a list of grammars is written {"grammars": [{"lark_grammar": "..."}, ...]}', text, begin)
    found: list[object] = []
    names: dict[str, object] = {}
    for place, entry in enumerate(listed):
        kinds = {"lark_grammar", "json_schema"} & entry.keys() if isinstance(entry, dict) else set()
        if len(kinds) != 1 or entry.keys() - kinds - {"name"}:
            raise LarkError(f"/grammars/{place}: a grammar has a lark_grammar or a json_schema, and a name", text, begin)
        (kind,) = kinds
        if (kind == "lark_grammar") != isinstance(entry[kind], str):
            raise LarkError(f"/grammars/{place}: lark_grammar must be a text, and json_schema must not be one", text, begin)
        name = entry.get("name")
        if name is not None and (not isinstance(name, str) or name in names):
            raise LarkError(f"/grammars/{place}/name: a name is a text that no other grammar of the list has", text, begin)
        found.append(entry[kind])
        if name is not None:
            names[name] = entry[kind]
    return found[0], names


@dataclass(slots=True)
class _Session:
    """The state that the grammars of one compilation share."""

    builder: GrammarBuilder
    budget: Budget
    special: Mapping[str, int]
    vocabulary_size: int | None
    json_node: JsonNode | None
    grammars: Mapping[str, object]
    named: dict[str, NodeId] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)

    def main(self, text: object, start: str) -> RuleId:
        """The root of the grammar that is asked for."""
        if isinstance(text, str):
            return _Compiler(Definitions(text, self.budget), self).root(start)
        root = self.builder.rule("root")
        self.builder.define(root, self.schema(text))
        return root

    def schema(self, schema: object) -> NodeId:
        """A JSON Schema."""
        if self.json_node is None:
            raise LarkError("a grammar that is a JSON Schema needs a compiler of JSON Schemas, which was not given")
        return self.json_node(self.builder, schema)

    def nested(self, definitions: Definitions) -> NodeId:
        """A grammar inside another."""
        return self.builder.call(_Compiler(definitions, self).root("start", nested=True))

    def reference(self, name: str) -> NodeId:
        """The grammar of this name; raises LarkError without a place where it leads to itself."""
        if name in self.open:
            raise LarkError(f"the grammar leads to itself: {' -> '.join(f'@{part}' for part in [*self.open, name])}")
        if name not in self.named:
            given = self.grammars[name]
            self.open.append(name)
            if isinstance(given, str):
                check_text(given, self.budget.limits, LarkError)
                self.named[name] = self.nested(Definitions(given, self.budget))
            elif isinstance(given, Grammar):
                self.named[name] = splice(self.builder, given)
            else:
                self.named[name] = self.schema(given)
            self.open.pop()
        return self.named[name]


class _Order(NamedTuple):
    """A rule that was asked for: its definition, the values of its parameters, its number, its alternatives and the work to emit them."""

    rule: RuleId
    definition: Definition
    arguments: dict[str, Value]
    parameter: int | None
    branches: list[Branch]
    work: int


class _Compiler:
    """Emits the rules of one grammar, beginning with the start rule; a rule that another calls joins the queue."""

    def __init__(self, definitions: Definitions, session: _Session) -> None:
        self.definitions = definitions
        self.session = session
        self.budget = session.budget
        self.builder = session.builder
        self.lexemes = Lexemes(definitions, self.builder)
        self.rules: dict[tuple[object, ...], RuleId] = {}
        self.branches: dict[int, list[Branch]] = {}
        self.queue: list[_Order] = []
        self.ordered_work = 0

    def root(self, start: str, *, nested: bool = False) -> RuleId:
        """The rule of the texts of the start rule, with ignored text around them."""
        definitions, builder = self.definitions, self.builder
        self.check_names()
        if start not in definitions.by_name:
            is_empty = not definitions.by_name
            message = f"the grammar is empty: it needs a rule `{start}: ...`" if is_empty else f"no rule is named `{start}`, to start with"
            raise LarkError(message, definitions.text, definitions.begin)
        definition = definitions.by_name[start]
        if definition.parameters or definition.parametric:
            what = "template" if definition.parameters else "rule with a number"
            needed = "arguments" if definition.parameters else "one"
            raise definitions.error(f"the {what} `{start}` cannot be the start: it needs {needed}", definition.head)
        root = in_order(self, start)
        if root is None:
            root = self.rule(start, definition, ())
        self.empty_queue()
        ignored = self.lexemes.ignored
        if ignored is not None:
            if nested or definitions.options.get("allow_initial_skip") is not True:
                root = without_initial(builder, root, ignored.rules, self.budget)
            if not nested:
                call = builder.call(root)
                root = builder.rule("%start")
                builder.define(root, builder.seq(call, ignored.after()))
        grammar = builder.build(root)
        if not productive(grammar.nodes, grammar.rules)[1][root]:
            blamed, is_endless = barren_rule(grammar.nodes, grammar.rules, root)
            head = definitions.by_name.get(grammar.names[blamed], definition).head
            why = ": all its alternatives lead back to it, and none ends" if is_endless else ""
            raise definitions.error(f"`{head}` generates no text{why}", head)
        return root

    def empty_queue(self) -> None:
        """Emit the rules that were asked for, and those that they ask for."""
        for order in self.queue:
            try:
                self.budget.spend(10 + order.work)
                self.ordered_work -= order.work
                self.builder.define(order.rule, self.body(order))
            except (LimitError, VisitError) as error:
                reason, head = _reason(error), order.definition.head
                raise reason.at(f"line {self.definitions.line(head)}, `{head}`") if isinstance(reason, LimitError) else reason from None
        self.queue.clear()

    def check_names(self) -> None:
        """Refuse names without a definition, also where the start rule does not lead to them."""
        for definition in list(self.definitions.by_name.values()):
            for token in definition.symbols() if not definition.imported else ():
                self.definitions.find(token, definition)

    def rule(self, name: str, definition: Definition, arguments: tuple[Value, ...], parameter: int | None = None) -> RuleId:
        """The rule for a name and, for a template, its arguments, or a rule's number; new where it was not asked for before."""
        key = (name, parameter, *arguments)
        rule = self.rules.get(key)
        if rule is None:
            if len(self.rules) >= self.budget.limits.rules:
                most = self.budget.limits.rules
                raise LimitError(f"the grammar has more than {most} rules with its templates and numbers", limit="rules", value=most)
            rule = self.rules[key] = self.builder.rule(name)
            branches = self.chosen(definition, parameter)
            work = _PART_WORK * sum(branch.size for branch in branches)
            # What explodes is refused while the queue grows, not when it is empty.
            self.ordered_work += work
            self.budget.expect(self.ordered_work)
            order = _Order(rule, definition, dict(zip(definition.parameters, arguments, strict=True)), parameter, branches, work)
            self.queue.append(order)
        return rule

    def chosen(self, definition: Definition, parameter: int | None) -> list[Branch]:
        """The alternatives of a rule that is emitted many times: of a template, or of a rule with a number if their conditions hold."""
        if parameter is None and not definition.parameters:
            return []
        branches = self.branches.get(id(definition))
        if branches is None:
            children = [child for body in definition.bodies for child in body.children]
            branches = self.branches[id(definition)] = [Branch(self.definitions, definition, child, self.plain) for child in children]
        if parameter is None:
            return branches
        self.budget.spend(len(branches))
        return [branch for branch in branches if branch.condition is None or branch.condition(parameter)]

    def body(self, order: _Order) -> NodeId:
        """The node of the texts that a rule or a terminal generates."""
        definition, parameter = order.definition, order.parameter
        if definition.head.type == "TERMINAL":
            if definition.options:
                raise self.definitions.error("options follow the name of a rule, not of a terminal", definition.head)
            return self.lexemes.node(self.lexemes.build(definition), self.lexemes.plan(definition), definition.head)
        options = self.lexemes.options(definition)
        if options.is_lexeme:
            if definition.parametric:
                raise self.definitions.error("a rule with a number cannot be read as a terminal", definition.head)
            node = self.lexemes.rule(definition, options)
            assert node is not None
            return node
        bodies = definition.bodies
        if parameter is not None:
            bodies = [Tree("expansions", [branch.at(parameter) for branch in order.branches])]
        builder = _RuleBuilder(self, definition, order.arguments, parameter)
        alternatives = []
        for body in bodies:
            rest, literals = self.without_literals(body, definition)
            if literals:
                alternatives.append(builder.terminal(self.lexemes.plan(definition).of_literals(literals), definition.head))
            if rest.children:
                alternatives.append(builder.transform(rest))
        return options.around(self.builder, self.builder.alt(*alternatives), str(definition.head))

    def without_literals(self, body: Tree[Token], user: Definition) -> tuple[Tree[Token], list[Literal]]:
        """A body without the alternatives that are a terminal of one literal each, and these literals; as it is where they are few.

        PERF: many rules that begin alike cost the kernel a state for each set of them, where an automaton of the literals has one.
        """
        if len(body.children) <= MANY_WORDS:
            return body, []
        rest: list[Token | Tree[Token]] = []
        literals: list[Literal] = []
        for child in body.children:
            literal = self.literal(child, user)
            if literal is None:
                rest.append(child)
            else:
                literals.append(literal)
        return (Tree("expansions", rest), literals) if len(literals) > MANY_WORDS else (body, [])

    def literal(self, alternative: Token | Tree[Token], user: Definition) -> Literal | None:
        """The text of an alternative that is a terminal of one literal."""
        token = alternative.children[0] if isinstance(alternative, Tree) and len(alternative.children) == 1 else None
        if not isinstance(token, Token) or token.type != "TERMINAL":
            return None
        name, definition = self.definitions.find(token, user)
        if definition.options:
            return None
        terminal = self.lexemes.build(definition, name)
        return (terminal.text, terminal.flags) if isinstance(terminal, Pattern) and terminal.literal and terminal.text else None

    def plain(self, token: Token | Tree[Token], definition: Definition) -> NodeId:
        """The node of one token or tree in a rule."""
        builder = _RuleBuilder(self, definition, {}, None)
        return builder.node(builder.transform(Tree("expansion", [token])))

    def named(self, name: str) -> NodeId:
        """A call of the rule of this name."""
        return self.builder.call(self.rule(name, self.definitions.by_name[name], ()))


class _RuleBuilder(Transformer_NonRecursive[Token, Any]):
    """Makes the node of one rule of its tree, bottom-up: a method for each rule and terminal of the syntax."""

    def __init__(self, compiler: _Compiler, definition: Definition, arguments: dict[str, Value], parameter: int | None) -> None:
        super().__init__()
        self.compiler = compiler
        self.builder = compiler.builder
        self.definition = definition
        self.arguments = arguments
        self.parameter = parameter
        self.plan = compiler.lexemes.plan(definition)

    def RULE(self, token: Token) -> Value:  # noqa: N802 - the syntax's names
        """A rule, a template as an argument, or a parameter."""
        if token in self.arguments:
            return self.arguments[token]
        name, definition = self.compiler.definitions.find(token, self.definition)
        if definition.parametric:
            raise self.plan.error(f"`{token}` needs a number, as in `{token}::0`", token)
        return name if definition.parameters else self.builder.call(self.compiler.rule(name, definition, ()))

    def parametric(self, children: list[Token]) -> NodeId:
        """A rule with a number."""
        token, written = children
        name, definition = self.compiler.definitions.find(token, self.definition)
        if not definition.parametric:
            raise self.plan.error(f"`{token}` takes no number; a rule that does is defined as `{token}::_`", token)
        number, needed = parameter_of(self.compiler.definitions, written, len("::"), read_number)
        if needed and self.parameter is None:
            raise self.plan.error(f"the rule `{self.definition.head}` has no number, which this function needs", written)
        return self.builder.call(self.compiler.rule(name, definition, (), number(self.parameter or 0)))

    def CONDITION(self, token: Token) -> NodeId:  # noqa: N802
        """%if condition, which is left in rules that it has no meaning for."""
        raise self.plan.error(f"%if asks for the number of a rule, and `{self.definition.head}` has none", token)

    def never(self, children: list[Any]) -> NodeId:
        """An alternative whose condition does not hold."""
        return self.builder.never()

    def TERMINAL(self, token: Token) -> Value:  # noqa: N802
        """A terminal."""
        name, definition = self.compiler.definitions.find(token, self.definition)
        return self.builder.call(self.compiler.rule(name, definition, ()))

    def STRING(self, token: Token) -> NodeId:  # noqa: N802
        """A literal."""
        return self.terminal(self.plan.string(token), token)

    def WORDS(self, token: Token) -> NodeId:  # noqa: N802
        """Literals that are alternatives."""
        literals = self.plan.literals(token)
        if len(literals) > MANY_WORDS and all(text for text, _ in literals):
            return self.terminal(self.plan.of_literals(literals), token)
        return self.builder.alt(*(self.terminal(literal_pattern(*literal), token) for literal in literals))

    def REGEXP(self, token: Token) -> NodeId:  # noqa: N802
        """A regular expression."""
        return self.terminal(self.plan.regexp(token), token)

    def SUBSTRING(self, token: Token) -> NodeId:  # noqa: N802
        """%regex {...}."""
        return self.terminal(self.plan.substring(token), token)

    def terminal(self, terminal: Terminal, token: Token) -> NodeId:
        """A terminal without a name: a plain literal in its place, others as a rule that is named by its text."""
        if isinstance(terminal, Pattern) and terminal.literal and not terminal.flags:
            return self.compiler.lexemes.node(terminal, self.plan, token)
        rules = self.compiler.rules
        if (terminal,) not in rules:
            rule = rules[(terminal,)] = self.builder.rule(token[:60])
            self.builder.define(rule, self.compiler.lexemes.node(terminal, self.plan, token))
        return self.builder.call(rules[(terminal,)])

    def SPECIAL(self, token: Token) -> NodeId:  # noqa: N802
        """A special token."""
        ids, negated = self.token_ids(token)
        return self.compiler.lexemes.opaque(self.builder.tokens(ids, negated=negated, textless=negated), ())

    def token_ids(self, token: Token) -> tuple[tuple[int, ...], bool]:
        """The ids in <name>, <[1,5-9]>, <[^1]> or <[*]>, and whether they are those that are not meant."""
        if not token.startswith("<["):
            special = self.compiler.session.special
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
            if high < low:
                raise self.plan.error(f"the range {part.strip()} of tokens ends before it begins", token)
            if complaint := outside_vocabulary(high, self.compiler.session.vocabulary_size):
                raise self.plan.error(complaint, token)
            if high - low + len(ids) > self.compiler.budget.limits.states:
                line = self.compiler.definitions.line(token)
                raise self.plan.too_large("a list of tokens").at(f"line {line}, `{token[:40]}`")
            ids.update(range(low, high + 1))
        return tuple(sorted(ids)), inside.startswith("^")

    def JSON(self, token: Token) -> NodeId:  # noqa: N802
        """%json {...}."""
        if self.compiler.session.json_node is None:
            raise self.plan.error("%json needs a compiler of JSON Schemas, which was not given", token)
        value = read_json(token, len("%json"))[0]
        return self.compiler.lexemes.opaque(self.compiler.session.json_node(self.builder, value), _JSON_FIRST)

    def LARK(self, token: Token) -> NodeId:  # noqa: N802
        """%lark {...}."""
        session, definitions = self.compiler.session, self.compiler.definitions
        assert token.start_pos is not None
        begin, end = token.start_pos + token.index("{") + 1, token.start_pos + len(token) - 1
        if len(session.open) >= _MOST_NESTED:
            raise LimitError(f"grammars are nested more than {_MOST_NESTED} deep", limit="nesting", value=_MOST_NESTED)
        session.open.append("")
        node = session.nested(Definitions(definitions.text, self.compiler.budget, begin, end))
        session.open.pop()
        return self.compiler.lexemes.opaque(node, ())

    def REFERENCE(self, token: Token) -> NodeId:  # noqa: N802
        """@name."""
        session, name = self.compiler.session, str(token[1:])
        if name not in session.grammars:
            known = ", ".join(f"@{other}" for other in list(session.grammars)[:10]) or "none"
            raise self.plan.error(f"no grammar is named {token}; available: {known}", token)
        if len(session.open) >= _MOST_NESTED:
            raise LimitError(f"grammars are nested more than {_MOST_NESTED} deep", limit="nesting", value=_MOST_NESTED)
        try:
            return self.compiler.lexemes.opaque(session.reference(name), ())
        except (LarkError, VisitError) as error:
            reason = _reason(error)
            if not isinstance(reason, LarkError):
                raise reason from None
            if reason.position is None:
                raise self.plan.error(reason.message, token) from None
            raise LarkError(f"in the grammar {token}: {reason.message}", reason.text, reason.position) from None

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
        """The meaning of a name in an expression, which cannot be a template without its arguments."""
        if isinstance(value, str):
            raise self.plan.error(f"the template `{value}` needs its arguments", self.definition.head)
        return value
