r"""EBNF grammar texts as context-free grammars: llama.cpp's GBNF, XGrammar's EBNF and the W3C's notation in one dialect.

    root   ::= pair ("," pair)*          rules in any order, over several lines, each once; the text generated is that of `root`
    pair   ::= key "=" [0-9]{1,3}        literals "..." '...' with escapes, "..."i in any case, classes [a-z] [^a-z] [^]
    key    ::= [a-z_] . | 'x' #x41       any character `.`, code points #x41, groups, alternatives, * + ? {n} {n,} {n,m} {,m}
    letter ::= [^-z] - [#x00-#x1F]       what the left generates and the right does not; both must be regular
    think  ::= <think> !</think>* <[7]>  one token by its name or id, or any token but this one
    part   ::= Substring("a", "b")       XGrammar's macros: see macros.py
    short[lazy] ::= [a-z]* ";"           the texts that do not begin with a shorter one; the body must be regular
    text[max_tokens=9, capture] ::= .*   options of a rule: see options.py
    name   ::= [a-z]+ (= "=")            what follows the rule must begin so: see lookahead.py
    /* comments */ // to the end of the line, # likewise; a rule may end in ;

No step recurses on the text, and the time is linear in its length, apart from differences.
Left recursion, ambiguity and empty rules pass as they are: the engines rewrite them.

A character is a Unicode code point, generated as UTF-8. U+0000 is one like any other, so `.` and negated classes generate it; a NUL
in the grammar text itself is an error, since other readers stop there: write `\x00`.
A surrogate (`\uD800`) has no UTF-8: it is refused in literals, and classes leave it out. `\xHH` takes two digits, `\uHHHH` four,
`\UHHHHHHHH` eight; XGrammar's longer `\x` is not read. `\` before punctuation is the character, before letters other than
those of C an error, so `\d` must be written `[0-9]`.

Where the dialects contradict each other, `lexer.py` says which one a text is read as.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final

from ..analysis import barren_rule, productive, reachable
from ..automata.charset import ANY, case_closure, complement, from_ranges
from ..exceptions import EbnfError, LimitError, kind_of, outside_vocabulary
from ..grammar import Grammar, GrammarBuilder, NodeId, RuleId
from ..limits import Limits
from .difference import Automata, Difference, DifferenceError, Regular, define_regular
from .lexer import Source, Token, check_text
from .lookahead import LookaheadError, work_in
from .macros import MacroError, expand
from .options import OptionError, Options, read_options
from .parser import parse
from .scopes import ScopeError, copy_into_scopes

_ESCAPE: Final = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_CLASS_ITEM: Final = re.compile(r"#x([0-9A-Fa-f]+)|\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)|.", re.DOTALL)
_CONTROL: Final = {"n": 10, "r": 13, "t": 9, "b": 8, "f": 12, "a": 7, "v": 11, "0": 0, "e": 27}
_LIMITS: Final = Limits()
_COUNTS: Final = {"*": (0, -1), "+": (1, -1), "?": (0, 1)}


class UnusedRuleWarning(UserWarning):
    """Rules of a grammar text that its root never calls: harmless, but seldom meant."""


def ebnf_grammar(
    text: str,
    *,
    root: str = "root",
    special: Mapping[str, int] = MappingProxyType({}),
    vocabulary_size: int | None = None,
    limits: Limits = _LIMITS,
) -> Grammar:
    """The grammar that an EBNF text describes; `special` gives the ids of tokens that the text names, as in <think>.

    Ids of tokens in the text, as in <[5]>, are below `vocabulary_size`, where that is given.
    Raises EbnfError with line, column and caret; warns with UnusedRuleWarning of rules that `root` never calls.

    >>> print(ebnf_grammar('root ::= "(" root ")" | ""'))
    root ::= ("(" root ")")?
    """
    if not isinstance(text, str):
        raise EbnfError(f"an EBNF grammar must be text, not {kind_of(text)}")
    check_text(text, limits, EbnfError)
    source = Source(text, limits)
    emitter = _Emitter(source, special, vocabulary_size)
    try:
        parse(source, emitter)
    except EbnfError as error:
        if not source.defined and "Lark" not in error.message and _LARK.search(text):
            raise EbnfError(f"{error.message}; this looks like a Lark grammar, where `:` defines a rule", text, error.position) from None
        raise
    return emitter.grammar(root)


# Where a text without `::=` defines a rule as Lark does.
_LARK: Final = re.compile(
    r"^[ \t]*[?!]{0,2}[A-Za-z_][A-Za-z0-9_-]*+(?:\[[^\]\n]*\]|\{[^}\n]*\})?(?:\.[0-9]+)?[ \t]*:(?![:=])", re.MULTILINE
)


class _Emitter:
    """Turns the syntax into nodes of a grammar, bottom-up: a method for each part of it, and for each kind of token that is an item."""

    def __init__(self, source: Source, special: Mapping[str, int], vocabulary_size: int | None) -> None:
        self.source = source
        self.special = special
        self.vocabulary_size = vocabulary_size
        self.builder = GrammarBuilder()
        self.rules: dict[str, RuleId] = {}
        self.first_use: dict[str, int] = {}
        self.definition: dict[RuleId, int] = {}
        self.differences: list[Difference] = []
        self.options: dict[RuleId, Options] = {}
        self.lookaheads: dict[RuleId, NodeId] = {}
        self.current = ""
        self.atoms: dict[str, Callable[[Token], NodeId]] = {
            "NAME": self.NAME,
            "STRING": self.STRING,
            "CLASS": self.CLASS,
            "CODE": self.CODE,
            "ANY": self.ANY,
            "TOKEN": self.TOKEN,
        }

    def grammar(self, root: str) -> Grammar:
        """The finished grammar, checked as a whole."""
        if not self.definition:
            raise self.error("the grammar is empty: it needs a rule `root ::= ...`", 0)
        undefined = [name for name, rule in self.rules.items() if rule not in self.definition]
        if undefined:
            name = min(undefined, key=self.first_use.__getitem__)
            raise self.error(f"rule `{name}` is not defined{self.suggestion(name)}", self.first_use[name])
        if root not in self.rules:
            raise self.error(f"no rule is named `{root}`{self.suggestion(root)}", min(self.definition.values()))
        written: dict[RuleId, tuple[NodeId, ...]] = {rule: (left, *taken) for rule, left, taken in self.differences}
        written |= {rule: (self.builder.rules[rule],) for rule in self.options}
        if self.lookaheads:
            bodies = {RuleId(rule): body for rule, body in enumerate(self.builder.rules)}
            written = {rule: (body, *written.get(rule, ())) for rule, body in bodies.items()}
            for rule, ahead in self.lookaheads.items():
                written[rule] += (ahead,)
        self.define_regular(self.rules[root])
        grammar = self.builder.build(self.rules[root])
        generates = productive(grammar.nodes, grammar.rules)[1]
        barren = [RuleId(rule) for rule, found in enumerate(generates) if not found]
        if barren:
            blamed, is_endless = barren_rule(grammar.nodes, grammar.rules, min(barren, key=self.definition.__getitem__))
            why = ": all its alternatives lead back to it, and none ends" if is_endless else ""
            raise self.error(f"rule `{grammar.names[blamed]}` generates no text{why}", self.definition[RuleId(blamed)])
        reached = reachable(grammar.nodes, grammar.rules, grammar.root, written.items())[1]
        unreached = {rule for rule in self.rules.values() if not reached[rule]}
        unused = [grammar.names[rule] for rule in sorted(unreached, key=self.definition.__getitem__)]
        if unused:
            shown = ", ".join(unused[:10]) + (f" and {len(unused) - 10} more" if len(unused) > 10 else "")
            warnings.warn(f"rules that `{root}` never calls: {shown}", UnusedRuleWarning, stacklevel=3)
        return grammar

    def define_regular(self, root: RuleId) -> None:
        """Give each difference and each rule with options its body, and work lookaheads in."""
        lazy = [rule for rule, options in self.options.items() if options.lazy]
        characters = {
            rule: options.max_chars for rule, options in self.options.items() if options.max_chars >= 0 and options.encoding is None
        }
        encodings = {
            rule: (options.encoding, options.min_chars, options.max_chars)
            for rule, options in self.options.items()
            if options.encoding is not None
        }
        others = {rule: f"the option {option}" for rule, options in self.options.items() if (option := options.of_tokens())}
        budget = self.source.budget
        try:
            looking = others | dict.fromkeys(self.lookaheads, "a lookahead")
            define_regular(self.builder, Regular(self.differences, lazy, characters, looking, encodings), budget)
            if self.lookaheads:
                automata = Automata(self.builder, Regular((), (), characters, others), budget)
                work_in(self.builder, root, self.lookaheads, others, automata, budget)
        except (DifferenceError, LookaheadError) as error:
            raise self.error(str(error), self.definition[error.rule]) from None
        for rule, options in self.options.items():
            self.builder.define(rule, options.around(self.builder, self.builder.rules[rule], self.builder.names[rule]))
        try:
            copy_into_scopes(self.builder)
        except ScopeError as error:
            raise self.error(str(error), self.definition[error.rule]) from None

    def error(self, message: str, position: int) -> EbnfError:
        """An error at a position of the text."""
        return EbnfError(message, self.source.text, position)

    def suggestion(self, name: str) -> str:
        """A suggestion for an unknown rule name; empty where no name is near or the grammar is large."""
        known = [other for other, rule in self.rules.items() if rule in self.definition]
        near = get_close_matches(name[:100], known, n=1) if len(known) <= 1000 else []
        return f"; did you mean `{near[0]}`?" if near else ""

    def rule_named(self, name: str) -> RuleId:
        """The rule of this name, new where it was not met before."""
        rule = self.rules.get(name)
        if rule is None:
            if len(self.rules) >= self.source.limits.rules:
                most = self.source.limits.rules
                raise LimitError(f"the grammar has more than {most} rules", limit="rules", value=most)
            rule = self.rules[name] = self.builder.rule(name)
        return rule

    def begin(self, head: Token) -> None:
        """The head of a rule, met before its body."""
        self.current = re.split(r"[\s\[:]", head, maxsplit=1)[0]

    def rule(self, head: Token, body: NodeId, ahead: NodeId | None) -> None:
        """A rule's definition."""
        name = self.current
        rule = self.rule_named(name)
        written = head[len(name) :].rstrip("=:").strip()
        if written:
            try:
                self.options[rule] = read_options(written[1:-1])
            except OptionError as error:
                raise self.error(str(error), head.start + head.index("[")) from None
        if rule in self.definition:
            line = self.source.text.count("\n", 0, self.definition[rule]) + 1
            raise self.error(f"rule `{name}` is defined already on line {line}", head.start)
        self.definition[rule] = head.start
        self.builder.define(rule, body)
        if ahead is not None:
            self.lookaheads[rule] = ahead

    def atom(self, token: Token) -> NodeId:
        """An item of one token."""
        return self.atoms[token.type](token)

    def alternatives(self, children: Sequence[NodeId]) -> NodeId:
        """A | B."""
        return self.builder.alt(*children)

    def sequence(self, children: Sequence[NodeId]) -> NodeId:
        """A B."""
        return self.builder.seq(*children)

    def repeat(self, body: NodeId, token: Token) -> NodeId:
        """A* and its like."""
        minimum, maximum = _COUNTS.get(token) or self.counts(token)
        return self.builder.repeat(body, minimum, maximum)

    def counts(self, token: Token) -> tuple[int, int]:
        """The bounds in {n,m}, -1 for none."""
        low, comma, high = (part.strip() for part in token[1:-1].partition(","))
        if max(len(low), len(high)) > 9 or max(int(low or 0), int(high or 0)) > self.source.limits.states:
            most = self.source.limits.states
            raise LimitError(f"the repetition {token[:40]} asks for more than {most}", limit="states", value=most)
        minimum = int(low or 0)
        maximum = int(high or -1) if comma else minimum
        if 0 <= maximum < minimum:
            raise self.error(f"the bounds of {token} are in the wrong order", token.start)
        return minimum, maximum

    def difference(self, left: NodeId, minus: Token, taken: Sequence[NodeId]) -> NodeId:
        """A - B: a rule of its own, whose body is found when all rules are known."""
        rule = self.builder.rule(f"{self.current}-difference")
        self.definition[rule] = minus.start
        self.differences.append((rule, left, tuple(taken)))
        return self.builder.call(rule)

    def macro(self, name: Token, arguments: Sequence[Any]) -> NodeId:
        """Name(value, name=value)."""
        try:
            return expand(name, arguments, self)
        except MacroError as error:
            raise self.error(str(error), (error.token or name).start) from None

    def NAME(self, token: Token) -> NodeId:  # noqa: N802
        """A call of a rule."""
        self.first_use.setdefault(str(token), token.start)
        return self.builder.call(self.rule_named(str(token)))

    def ANY(self, token: Token) -> NodeId:  # noqa: N802
        """Any character."""
        return self.builder.chars(ANY)

    def CODE(self, token: Token) -> NodeId:  # noqa: N802
        """#x41."""
        return self.literal([self.code_point(token[2:], token.start)], token.start)

    def STRING(self, token: Token) -> NodeId:  # noqa: N802
        """A literal in quotes, with the flag `i` in any case."""
        position = token.start
        folded = token[-1] == "i"
        points = self.quoted(token[:-1] if folded else token, position)
        plain = self.literal(points, position)
        return self.builder.seq(*map(self.any_case, points)) if folded and points else plain

    def quoted(self, literal: str, position: int) -> list[int]:
        """The code points of a literal in quotes."""
        return [ord("\\")] if literal[1:-1] == "\\" else self.unescape(literal[1:-1], position + 1)

    def text(self, token: Token) -> str:
        """The text of a literal in quotes."""
        points = self.quoted(token, token.start)
        self.literal(points, token.start)
        return "".join(map(chr, points))

    def any_case(self, point: int) -> NodeId:
        """A character or any that differs from it by case only."""
        character = chr(point)
        # PERF: this test is exact, and spares the closure's walk over all letters, 0.2 ms, for characters without case.
        if character == character.casefold() == character.lower() == character.upper():
            return self.builder.chars((point, point))
        return self.builder.chars(case_closure((point, point)))

    def literal(self, points: list[int], position: int) -> NodeId:
        """These characters."""
        try:
            return self.builder.literal("".join(map(chr, points)).encode())
        except UnicodeEncodeError as error:
            code = ord(error.object[error.start])
            message = f"U+{code:04X} is half of a surrogate pair, which has no UTF-8; write the character itself as \\UHHHHHHHH"
            raise self.error(message, position) from None

    def unescape(self, raw: str, position: int) -> list[int]:
        """The code points of the text between two quotes."""
        points: list[int] = []
        end = 0
        for match in _ESCAPE.finditer(raw):
            points += map(ord, raw[end : match.start()])
            points.append(self.escape(match, position))
            end = match.end()
        return points + list(map(ord, raw[end:]))

    def escape(self, match: re.Match[str], position: int) -> int:
        r"""The code point of one escape, such as \n or \u00e9."""
        digits = match.group(1) or match.group(2) or match.group(3)
        if digits:
            return self.code_point(digits, position + match.start())
        character = match.group(4)
        if character in _CONTROL:
            return _CONTROL[character]
        if not character.isascii() or character.isalnum() or character.isspace():
            hint = {"x": r"\xHH", "u": r"\uHHHH", "U": r"\UHHHHHHHH", "d": "[0-9]", "w": "[A-Za-z0-9_]", "s": r"[ \t\r\n]"}.get(character)
            message = f"unknown escape \\{character}" + (f"; write {hint}" if hint else "")
            raise self.error(message, position + match.start())
        return ord(character)

    def code_point(self, digits: str, position: int) -> int:
        """A code point in hexadecimal digits."""
        point = int(digits, 16) if len(digits) < 100 else 0x110000
        if point > 0x10FFFF:
            raise self.error(f"no character has the code {digits[:20]}: the last one is 10FFFF", position)
        return point

    def CLASS(self, token: Token) -> NodeId:  # noqa: N802
        """One character out of [a-z] or, with ^, any but these."""
        negated = token[1:2] == "^"
        position = token.start + 1 + negated
        chars = from_ranges(self.class_ranges(token[1 + negated : -1], position))
        if negated:
            chars = complement(chars)
        if not chars:
            raise self.error(f"the class {token[:40]} has no character", token.start)
        return self.builder.chars(chars)

    def class_ranges(self, raw: str, position: int) -> list[tuple[int, int]]:
        """The ranges between the brackets of a class, in their order."""
        items = [(match, self.class_point(match, position)) for match in _CLASS_ITEM.finditer(raw)]
        ranges = []
        index = 0
        while index < len(items):
            low = high = items[index][1]
            if index + 2 < len(items) and items[index + 1][0].group() == "-":
                high = items[index + 2][1]
                if high < low:
                    shown = raw[items[index][0].start() : items[index + 2][0].end()]
                    raise self.error(f"the range {shown} is in the wrong order", position + items[index][0].start())
                index += 2
            ranges.append((low, high))
            index += 1
        return ranges

    def class_point(self, match: re.Match[str], position: int) -> int:
        """The code point of one member of a class."""
        text = match.group()
        if match.group(1):
            return self.code_point(match.group(1), position + match.start())
        if text[0] != "\\":
            return ord(text)
        escape = _ESCAPE.match(text)
        assert escape is not None
        return self.escape(escape, position + match.start())

    def TOKEN(self, token: Token) -> NodeId:  # noqa: N802
        """<[5]>, <name> or, with !, any token but this one."""
        negated = token[0] == "!"
        name = token[negated:]
        by_id = re.fullmatch(r"<\[([0-9]{1,9})\]>", name)
        if by_id:
            token_id = int(by_id.group(1))
            if complaint := outside_vocabulary(token_id, self.vocabulary_size):
                raise self.error(complaint, token.start + negated)
            return self.builder.tokens((token_id,), negated=negated, textless=negated)
        found = self.special.get(name, self.special.get(name[1:-1]))
        if found is None:
            message = f"the vocabulary has no special token {name}" if name[1] != "[" else "a token's id is written <[5]>"
            raise self.error(message, token.start + negated)
        return self.builder.tokens((found,), negated=negated, textless=negated)
