"""The syntax of Lark grammar texts: tokens, and the parser that lark makes for them.

The language is that of lark 1.3 (https://lark-parser.readthedocs.io/en/stable/grammar.html) with llguidance's additions
(https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md): `x{2,3}`, dashes in names, special tokens <name> and <[1,5-9]>,
%json {...}, %regex {...} and %lark {...}, other grammars as @name, options such as name[lazy], rules with a number such as name::0 and
conditions %if, and `&` and `~` in terminals. Inside brackets a line may break anywhere.

lark's own loader is not used: texts come from requests, and it is cubic on a chain of terminals (300 of them take 6 s), exponential where
terminals share others, exceeds Python's stack on 1,000, and reads files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from lark import Lark, Token, Transformer, Tree, UnexpectedToken
from lark.lexer import Lexer

from ..budget import Budget
from ..exceptions import LarkError, LimitError

_SYNTAX: Final = """
    start: (_statement _NL)*
    _statement: definition | DEFINED | override | extend | ignore | import_ | declare | options
    definition: MODIFIERS? (_name | TEMPLATE parameters | PARAMETRIC PARAMETER) attributes? priority? _COLON expansions
    _name: RULE | TERMINAL
    parameters: _LBRACE RULE (_COMMA RULE)* _RBRACE
    attributes: _LBRA attribute (_COMMA attribute)* _RBRA
    attribute: RULE (_EQUAL (STRING | REGEXP | TERMINAL | NUMBER))?
    priority: _DOT NUMBER
    override: _OVERRIDE definition
    extend: _EXTEND definition
    ignore: _IGNORE expansions
    import_: _IMPORT path (names | _TO (ALIAS | TERMINAL))?
    path: RELATIVE? _name (_DOT _name)*
    names: _LPAR _name (_COMMA _name)* _RPAR
    declare: DECLARE _name+
    options: OPTIONS

    expansions: _alias (_OR _alias)*
    _alias: _conjunction | alias
    alias: _conjunction _TO ALIAS
    _conjunction: expansion | both
    both: expansion (AND expansion)+
    expansion: _expr* CONDITION?
    _expr: _atom | repeat
    repeat: _atom (OP | COUNTS | TILDE NUMBER (_DOTDOT NUMBER)?)
    _atom: _LPAR expansions _RPAR | maybe | negation | _value
    maybe: _LBRA expansions _RBRA
    negation: NOT _atom
    _value: TERMINAL | NAMES | STRING | WORDS | REGEXP | RANGE | SUBSTRING | RULE | template | parametric | SPECIAL | JSON | LARK
          | REFERENCE
    template: TEMPLATE _LBRACE _value (_COMMA _value)* _RBRACE
    parametric: PARAMETRIC PARAMETER
    %declare MODIFIERS RULE ALIAS TEMPLATE PARAMETRIC PARAMETER CONDITION TERMINAL NAMES STRING WORDS REGEXP RANGE SPECIAL JSON
    %declare SUBSTRING LARK REFERENCE DEFINED
    %declare OP COUNTS TILDE NOT AND NUMBER RELATIVE DECLARE OPTIONS
    %declare _NL _COLON _COMMA _EQUAL _DOT _DOTDOT _OR _TO _LPAR _RPAR _LBRA _RBRA _LBRACE _RBRACE
    %declare _OVERRIDE _EXTEND _IGNORE _IMPORT
"""

STRING: Final = r'"[^"\\\n]*(?:\\[^\n][^"\\\n]*)*"'
_COUNTS: Final = re.compile(r"\{\s*(?:[0-9]+\s*(?:,\s*[0-9]*)?|,\s*[0-9]+)\s*\}")
_TOKEN: Final = re.compile(
    r"""
      (?P<BLANK>     [ \t\f\r\ufeff]+ | //[^\n]* | \#[^\n]* | \\[ \t]*\r?\n )
    | (?P<LINE>      \n )
    | (?P<WORD>      [A-Za-z_] [A-Za-z0-9_]*+ (?: -(?!>) [A-Za-z0-9_]*+ )* )
    | (?P<RANGE>     {string} [ \t]* \.\. [ \t]* {string} )
    | (?P<STRING>    {string} i? )
    | (?P<REGEXP>    / [^/\\]* (?: \\(?s:.) [^/\\]* )* / [imslux]* )
    | (?P<COUNTS>    {counts} )
    | (?P<NUMBER>    -?[0-9]+ (?: \.[0-9]+ )? (?: [eE][+-]?[0-9]++ (?![A-Za-z0-9_]) )? )
    | (?P<SPECIAL>   <\[ [^\]\n]* \]> | <[^<>\s"\[=!-] [^<>\n"]* > )
    | (?P<DIRECTIVE> %[a-z_]+ )
    | (?P<REFERENCE> @[A-Za-z0-9_] [A-Za-z0-9_-]*+ )
    | (?P<PARAMETER> ::[ \t]* (?: [A-Za-z_]+[ \t]*\([^()\n]*\) | _(?![A-Za-z0-9_]) | 0[xX][0-9A-Fa-f]++ | [0-9]++ ) )
    | (?P<MARK>      -> | \.\. | [.:,=|&~*+?()\[\]{}] )
    """.replace("{counts}", _COUNTS.pattern).replace("{string}", STRING),
    re.VERBOSE,
)
# No group here repeats possessively: CPython before 3.11.5 goes on behind what a last round read that failed (gh-106052).
# PERF: literals or names that are alternatives one after the other are one token, where lark's parser would take a step for each. So is
# the definition of a terminal by one literal, which ends where the next line begins with something else than a blank, a comment or `|`.
_LISTED: Final = r"{one}(?:\s*+\|\s*+{one}(?=\s*+\|)){{7,}}"
_NAME: Final = r"_*[A-Z][A-Z0-9_]*+(?:-(?!>)[A-Z0-9_]*+)*(?![A-Za-z0-9_]|-(?!>))"
_WORDS: Final = re.compile(_LISTED.format(one=f"{STRING}i?"))
_NAMES: Final = re.compile(_LISTED.format(one=_NAME))
_ONE_NAME: Final = re.compile(_NAME)
_DEFINED: Final = re.compile(rf"{_NAME}[ \t]*+:[ \t]*+{STRING}i?(?=[ \t]*+\r?\n[^\s|/#\\])")
_BEFORE_LISTS: Final = ("_COLON", "_OR", "_LPAR", "_LBRA")
_MARKS: Final = {
    "->": "_TO",
    "..": "_DOTDOT",
    ".": "_DOT",
    ":": "_COLON",
    ",": "_COMMA",
    "=": "_EQUAL",
    "|": "_OR",
    "&": "AND",
    "*": "OP",
    "+": "OP",
    "?": "OP",
    "(": "_LPAR",
    ")": "_RPAR",
    "[": "_LBRA",
    "]": "_RBRA",
    "{": "_LBRACE",
    "}": "_RBRACE",
}
_CLOSING: Final = {")": "(", "]": "[", "}": "{"}
_DIRECTIVES: Final = {
    "%ignore": "_IGNORE",
    "%import": "_IMPORT",
    "%override": "_OVERRIDE",
    "%extend": "_EXTEND",
    "%declare": "DECLARE",
}
_WITH_JSON: Final = {"%json": "JSON", "%regex": "SUBSTRING", "%llguidance": "OPTIONS", "%grammar_options": "OPTIONS"}
_RULE_NAME: Final = re.compile(r"_*[a-z][a-z0-9_-]*")
_TERMINAL_NAME: Final = re.compile(r"_*[A-Z][A-Z0-9_-]*")
_CONDITION: Final = re.compile(r"[ \t]*[A-Za-z_]++([ \t]*\()?")
_MODIFIERS: Final = re.compile(r"(?:![?]?|[?]!?)(?=[_a-z])")
_COUNT_FOLLOWS: Final = re.compile(r"~[ \t]*-?[0-9]")
_DEFINITION: Final = re.compile(
    r"[!?]{0,2}[A-Za-z_][A-Za-z0-9_-]*+(?:\{[^{}\n]*\}|::[ \t]*_)?(?:\[[^\[\]\n]*\])?(?:\.-?[0-9]+)?[ \t]*:(?!:)"
)


def parse(text: str, budget: Budget, begin: int = 0, end: int | None = None) -> Tree[Token]:
    """The syntax tree of a grammar text, or of one inside another from `begin` to `end`; tokens know their offset in the text."""
    source = _Source(text, budget, begin, len(text) if end is None else end)
    try:
        return _parser().parse(source)  # type: ignore[arg-type, unused-ignore]
    except UnexpectedToken as error:
        raise _syntax_error(source, error) from None


@cache
def _parser() -> Lark:
    """The parser that lark makes of the syntax: without state, and made on first use since that takes some 20 ms."""
    return Lark(_SYNTAX, parser="lalr", lexer=_LarkLexer, maybe_placeholders=False, transformer=_Unfolding())


class _Unfolding(Transformer[Token, Tree[Token]]):
    """Makes the trees of tokens that stand for several steps of the syntax."""

    def start(self, children: list[Any]) -> Tree[Token]:
        """All statements."""
        return Tree("start", [_defined(child) if isinstance(child, Token) else child for child in children])

    def expansions(self, children: list[Any]) -> Tree[Token]:
        """A | B."""
        alternatives: list[Any] = []
        for child in children:
            names = child.children[0] if child.data == "expansion" and child.children else None
            if isinstance(names, Token) and names.type == "NAMES":
                for match in _ONE_NAME.finditer(names):
                    name = Token("TERMINAL", match.group(), (names.start_pos or 0) + match.start())
                    alternatives.append(Tree("expansion", [name]))
            else:
                alternatives.append(child)
        return Tree("expansions", alternatives)


def _defined(token: Token) -> Tree[Token]:
    """The definition NAME: "literal"."""
    begin = token.start_pos or 0
    at = token.index('"')
    name = Token("TERMINAL", token[:at].rstrip(" \t:"), begin)
    return Tree("definition", [name, Tree("expansions", [Tree("expansion", [Token("STRING", token[at:], begin + at)])])])


def _syntax_error(source: _Source, error: UnexpectedToken) -> LarkError:
    """The parser's complaint in words, at the most likely position of the mistake."""
    token = error.token
    position = token.start_pos if token.type != "$END" and token.start_pos is not None else source.end
    if source.groups and token.type == "_NL":
        return LarkError("this bracket is never closed", source.text, source.groups[-1][1])
    if "_IGNORE" in error.expected:
        message = "expected a definition, `name: expression`"
    elif token.type == "_NL":
        message = "the line ends in the middle of a definition" if "_COLON" not in error.expected else "expected `:` after the name"
    elif token.type == "_COLON":
        message = "unexpected `:`: a definition begins on a line of its own"
    elif token.type in ("OP", "COUNTS", "TILDE"):
        message = f"nothing to repeat before `{token}`; after another repetition put parentheses"
    else:
        message = f"unexpected `{token[:40]}`"
    return LarkError(message, source.text, position)


class _LarkLexer(Lexer):
    """Hands lark's parser the tokens of a source."""

    def __init__(self, lexer_conf: object) -> None:
        """Takes lark's configuration, of which nothing is of use here."""

    def lex(self, data: _Source) -> Iterator[Token]:  # type: ignore[override]
        """The tokens of one text."""
        return data.tokens()


class _Source:
    """A grammar text on its way through the parser."""

    def __init__(self, text: str, budget: Budget, begin: int, end: int) -> None:
        self.text = text
        self.budget = budget
        self.groups: list[tuple[str, int]] = []
        self.position = begin
        self.end = end
        # The last token, and whether a line ended since.
        self.last = "_NL"
        self.line_ended = False

    def tokens(self) -> Iterator[Token]:
        """The tokens, with _NL where a statement ends."""
        text, match_at = self.text, _TOKEN.match
        count = 0
        while self.position < self.end:
            match = match_at(text, self.position, self.end)
            start = self.position
            count += 1
            if not count & 0x3FF:
                self.budget.spend(4 << 10)
            if match is not None and match.lastgroup in ("BLANK", "LINE"):
                self.line_ended = self.line_ended or match.lastgroup == "LINE"
                self.position = match.end()
                continue
            if self.line_ended:
                self.line_ended = False
                if self.groups:
                    self.check_group(start)
                elif self.last != "_NL" and text[start] != "|":
                    self.last = "_NL"
                    yield Token("_NL", "\n", start)
            kind, end = self.token(match, start)
            self.position = end
            self.last = kind
            yield Token(kind, text[start:end], start)
        if self.last != "_NL":
            yield Token("_NL", "", self.end)

    def token(self, match: re.Match[str] | None, start: int) -> tuple[str, int]:
        """The kind of the token that begins here, and where it ends."""
        modifiers = _MODIFIERS.match(self.text, start) if self.last in ("_NL", "_OVERRIDE", "_EXTEND") else None
        if modifiers:
            return "MODIFIERS", modifiers.end()
        if match is None:
            raise self.unreadable(start)
        kind, value, end = match.lastgroup, match.group(), match.end()
        assert kind is not None
        if kind == "WORD":
            if self.last == "_NL" and (defined := _DEFINED.match(self.text, start, self.end)):
                return "DEFINED", defined.end()
            return self.listed(_NAMES, start) or (self.word(value, start, end), end)
        if kind == "DIRECTIVE":
            return self.directive(value, start, end)
        if kind == "MARK":
            return self.mark(value, start), end
        if kind == "STRING":
            return self.listed(_WORDS, start) or (kind, end)
        return kind, end

    def listed(self, pattern: re.Pattern[str], start: int) -> tuple[str, int] | None:
        """The list of alternatives that begins here, if one may and does."""
        match = pattern.match(self.text, start, self.end) if self.last in _BEFORE_LISTS else None
        if match is None:
            return None
        self.budget.spend((match.end() - start) // 8)
        return "WORDS" if pattern is _WORDS else "NAMES", match.end()

    def word(self, word: str, start: int, end: int) -> str:
        """Rule, template or terminal, by the case of the name and by the next token."""
        if _RULE_NAME.fullmatch(word):
            if self.last == "_TO":
                return "ALIAS"
            if self.text.startswith("::", end):
                return "PARAMETRIC"
            return "TEMPLATE" if self.text.startswith("{", end) and not _COUNTS.match(self.text, end) else "RULE"
        if _TERMINAL_NAME.fullmatch(word):
            return "TERMINAL"
        raise LarkError(f"`{word[:60]}` is neither a rule in lower case nor a terminal in upper case", self.text, start)

    def directive(self, name: str, start: int, end: int) -> tuple[str, int]:
        """A word that begins with %, with its JSON where it takes some."""
        if name in _DIRECTIVES:
            return _DIRECTIVES[name], end
        if name == "%lark":
            return "LARK", self.nested(end)
        if name == "%if":
            return "CONDITION", self.condition(end)
        if name not in _WITH_JSON:
            raise LarkError(f"unknown directive {name}", self.text, start)
        return _WITH_JSON[name], read_json(self.text, end)[1]

    def nested(self, start: int) -> int:
        """Where the grammar in braces behind %lark ends."""
        text, depth, at = self.text, 0, start
        while at < self.end:
            match = _TOKEN.match(text, at, self.end)
            self.budget.spend()
            if match is None:
                raise self.unreadable(at)
            kind, value, at = match.lastgroup, match.group(), match.end()
            if kind == "DIRECTIVE" and value in _WITH_JSON:
                at = read_json(text, at)[1]
            elif value == "{":
                depth += 1
            elif value == "}":
                depth -= 1
            if depth == 0 and kind not in ("BLANK", "LINE"):
                if value != "}":
                    raise LarkError("%lark takes a grammar in braces, %lark { start: ... }", text, start)
                return at
        raise LarkError("this grammar in braces is never closed", text, start)

    def condition(self, start: int) -> int:
        """Where a condition behind %if ends: a name, and what stands in parentheses behind it."""
        match = _CONDITION.match(self.text, start, self.end)
        if match is None:
            raise LarkError("%if takes a condition, as in %if bit_clear(0)", self.text, start)
        if not match.group(1):
            return match.end()
        depth = 0
        for at in range(match.end() - 1, self.end):
            depth += {"(": 1, ")": -1}.get(self.text[at], 0)
            if depth == 0:
                self.budget.spend(at - start)
                return at + 1
        raise LarkError("the parentheses of this condition are never closed", self.text, start)

    def mark(self, mark: str, start: int) -> str:
        """A mark; keeps count of brackets."""
        if mark == "~":
            return "TILDE" if _COUNT_FOLLOWS.match(self.text, start) else "NOT"
        if mark in "([{":
            self.groups.append((mark, start))
            deepest = self.budget.limits.nesting
            if len(self.groups) > deepest:
                raise LimitError(f"groups are nested more than {deepest} deep", limit="nesting", value=deepest)
        elif mark in _CLOSING:
            if not self.groups or self.groups[-1][0] != _CLOSING[mark]:
                raise LarkError(f"this `{mark}` closes nothing", self.text, start)
            self.groups.pop()
        elif mark == ":" and self.text.startswith("::=", start):
            message = "`::=` defines rules of an EBNF grammar, and this is read as a Lark grammar, which writes `name: expression`"
            raise LarkError(message, self.text, start)
        elif mark == ":" and self.text.startswith("::", start):
            raise LarkError("expected a number, `_` or a function of it after `::`, as in name::0 or name::set_bit(0)", self.text, start)
        elif mark == "." and self.last == "_IMPORT":
            return "RELATIVE"
        return _MARKS[mark]

    def check_group(self, start: int) -> None:
        """Where a line begins with a definition, an open bracket was forgotten."""
        if _DEFINITION.match(self.text, start) or self.text.startswith(tuple(_DIRECTIVES), start):
            raise LarkError("this bracket is never closed", self.text, self.groups[-1][1])

    def unreadable(self, start: int) -> LarkError:
        """The error for text in which no token begins."""
        character = self.text[start]
        if character == '"':
            message = r"this string is not closed on its line; write \n for a line break"
        elif character == "'":
            message = "strings stand in double quotes"
        elif character == "/":
            message = "this regular expression is not closed"
        elif character == "<":
            message = "a special token is written <name> or <[5]>"
        else:
            message = "a reference to another grammar is written @name" if character == "@" else f"unexpected character {character!r}"
        return LarkError(message, self.text, start)


def read_json(text: str, at: int) -> tuple[Any, int]:
    """The JSON value after a directive that ends at `at`, and where it ends."""
    while at < len(text) and text[at].isspace():
        at += 1
    try:
        return json.JSONDecoder().raw_decode(text, at)
    except json.JSONDecodeError as error:
        raise LarkError(f"expected a JSON value: {error.msg}", text, min(error.pos, len(text))) from None
    except RecursionError:
        raise LimitError("the JSON value is nested too deeply to be read", limit="nesting") from None
