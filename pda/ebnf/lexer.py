r"""Tokens of an EBNF grammar text: one dialect that reads llama.cpp's GBNF, XGrammar's EBNF and the W3C's notation.

Where the three disagree on the same characters, the text itself decides:

    `a-b`, `a.b`   a name where a rule is defined under it; else `.` is any character and a `-` at the start takes away
    `"x"i`         a literal in any case; the literal and then the rule `i` where the text defines one
    `#x41`         a code point (W3C) where only hexadecimal digits follow `#x`; else `#` starts a comment
    `[#x20-#x7E]`  code points inside a class likewise; write `\#` for the character
    `'\'`          a backslash (W3C) where no quote follows; else `\` escapes in single quotes as in double ones
    `[12] a ::=`   at the start of a line the number of a production (W3C), not a class
    `Token(1)`     a macro (XGrammar) unless the text defines a rule of this name; between its parentheses there are values, not expressions

References: llama.cpp `grammars/README.md`; https://xgrammar.mlc.ai (EBNF grammar); https://www.w3.org/TR/xml/#sec-notation
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ..budget import Budget
from ..exceptions import EbnfError, LarkError, LimitError
from ..limits import Limits

# PERF: bounds the work of telling names from dots, which is quadratic in the length of a word.
MAX_NAME_LENGTH: Final = 500

_NAME: Final = r"[A-Za-z0-9_.\-]++"
_OPTIONS: Final = r"(?:[ \t]*\[[^\[\]\n]*\])?"
_DEFINITION: Final = re.compile(rf"(?<![A-Za-z0-9_.\-])({_NAME}){_OPTIONS}\s*::=")
_NUMBER: Final = re.compile(rf"\[[0-9]+[a-z]?\](?=[ \t]+{_NAME}[ \t]*::=)")

# The order is the priority: a comment before `#x41`, a definition before a name.
_TOKEN: Final = re.compile(
    rf"""
      (?P<BLANK>      [\s\ufeff]+ | \#(?!x[0-9A-Fa-f]+(?![0-9A-Za-z_]))[^\n\r]* | //[^\n\r]* | /\*(?s:.*?)\*/ )
    | (?P<RULE>       {_NAME}{_OPTIONS}\s*::= )
    | (?P<WORD>       {_NAME} )
    | (?P<STRING>     " [^"\\\n\r]* (?: \\[^\n\r] [^"\\\n\r]* )* " | '\\'(?!') | ' [^'\\\n\r]* (?: \\[^\n\r] [^'\\\n\r]* )* ' )
    | (?P<MARK>       [|();,=] )
    | (?P<CLASS>      \[ [^\]\\\n\r]* (?: \\[^\n\r] [^\]\\\n\r]* )* \] )
    | (?P<QUANTIFIER> [*+?] | \{{ \s* (?: [0-9]+ \s* (?: , \s* (?: [0-9]+ | -1 )? )? | , \s* [0-9]+ ) \s* \}} )
    | (?P<CODE>       \#x[0-9A-Fa-f]+ )
    | (?P<TOKEN>      !?<[^>\n\r]+> )
    """,
    re.VERBOSE,
)
_MARKS: Final = {"|": "_BAR", "(": "_LPAR", ")": "_RPAR", ";": "_SEMICOLON", ",": "_COMMA", "=": "_EQUAL"}
MACROS: Final = ("AnyToken", "ExcludeToken", "Permute", "Regex", "Substring", "TagDispatch", "Token", "TokenTagDispatch")
_CALL: Final = re.compile(r"[ \t]*\(")
_FLAG: Final = re.compile(r"i(?![A-Za-z0-9_])")
_TOKEN_WORK: Final = 5
"""Steps of work for a token, blanks included, in the lexer, the parser and the compiler together."""


def check_text(text: str, limits: Limits, error: type[EbnfError] | type[LarkError]) -> None:
    """Refuse a grammar text that is too long, or contains a NUL, where other readers stop, or half a surrogate pair."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError as reason:
        raise error("a lone surrogate is not a character of any text", text, reason.start) from None
    if size > limits.specification_bytes:
        message = f"the grammar text has {size} bytes, more than {limits.specification_bytes}"
        raise LimitError(message, limit="specification_bytes", value=limits.specification_bytes)
    if "\0" in text:
        raise error(r"the text contains a NUL character; write \x00", text, text.index("\0"))


class Token(str):
    """A token of the text, with its kind and its offset."""

    __slots__ = ("start", "type")
    type: str
    start: int

    def __new__(cls, kind: str, value: str, start: int) -> Token:
        """The text `value` at offset `start`."""
        token = str.__new__(cls, value)
        token.type = kind
        token.start = start
        return token


class Source:
    """A grammar text on its way through the parser, with the names of the rules that it defines."""

    def __init__(self, text: str, limits: Limits) -> None:
        self.text = text
        self.limits = limits
        self.defined = {match.group(1) for match in _DEFINITION.finditer(text)}
        self.dotted = any("." in name for name in self.defined)
        self.groups: list[int] = []
        # How many groups are open around the macro that is being read; -1 outside of macros.
        self.macro = -1
        self.budget = Budget(limits)

    def tokens(self) -> Iterator[Token]:
        """The tokens of the text, without blanks; positions are offsets into it."""
        text, match_at = self.text, _TOKEN.match
        position = 0
        self.spend_tokens()
        starts_line = True
        while position < len(text):
            match = match_at(text, position)
            if match is None:
                raise self.unreadable(position)
            kind, value = match.lastgroup, match.group()
            assert kind is not None
            start, position = position, match.end()
            if kind == "BLANK":
                starts_line = starts_line or "\n" in value
                continue
            if kind == "CLASS" and starts_line and _NUMBER.match(text, start):
                continue
            starts_line = False
            if kind == "MARK":
                if value in ",=" and self.macro < 0:
                    raise self.unreadable(start)
                self.count_group(value, start)
                if value == "(" and self.macro < 0 and text.startswith("=", position):
                    position += 1
                    yield Token("LOOKAHEAD", "(=", start)
                    continue
                yield Token(_MARKS[value], value, start)
            elif self.macro >= 0:
                yield Token(self.value(kind, value, start), value, start)
            elif kind == "WORD" and value in MACROS and value not in self.defined and _CALL.match(text, position):
                self.macro = len(self.groups)
                yield Token("MACRO", value, start)
            elif kind == "WORD":
                yield from self.words(value, start)
            elif kind == "STRING" and "i" not in self.defined and _FLAG.match(text, position):
                position += 1
                yield Token("STRING", value + "i", start)
            else:
                yield Token(kind, value, start)

    def spend_tokens(self) -> None:
        """Spend what all tokens of the text take, so that a text of too many is refused before any of them is read."""
        text, match_at = self.text, _TOKEN.match
        count = 0
        match = match_at(text, 0)
        while match is not None:
            count += 1
            if count & 0x3FF == 0:
                self.budget.spend(_TOKEN_WORK << 10)
            match = match_at(text, match.end())

    def count_group(self, mark: str, start: int) -> None:
        """Keep the places of the groups that are open; the parser reports the innermost if it is never closed."""
        if mark == "(":
            self.groups.append(start)
            if len(self.groups) > self.limits.nesting:
                deepest = self.limits.nesting
                raise LimitError(f"groups are nested more than {deepest} deep", limit="nesting", value=deepest)
        elif mark == ")" and self.groups:
            self.groups.pop()
            if len(self.groups) == self.macro:
                self.macro = -1

    def value(self, kind: str, value: str, start: int) -> str:
        """The kind of a value between the parentheses of a macro."""
        if kind == "WORD" and value.isdigit():
            return "INTEGER"
        if kind == "WORD":
            return "BOOLEAN" if value in ("true", "false") else "IDENTIFIER"
        if kind == "STRING":
            return "TEXT"
        raise EbnfError(
            f"`{value[:40]}` is not a macro value; available: texts, integers, true, false, rule names and tuples", self.text, start
        )

    def words(self, word: str, start: int) -> Iterator[Token]:
        """A run of name characters as names, `.` and `-`: at each place the longest name that the text defines."""
        at = 0
        while at < len(word):
            self.budget.spend()
            end = len(word)
            short = end - at <= MAX_NAME_LENGTH
            if not ((at == 0 or short) and word[at:] in self.defined):
                if word[at] in ".-":
                    yield Token("ANY" if word[at] == "." else "MINUS", word[at], start + at)
                    at += 1
                    continue
                first_dot = word.find(".", at)
                end = len(word) if first_dot < 0 else first_dot
                if self.dotted and short:
                    dots = [at + index for index, character in enumerate(word[at:]) if character == "."]
                    end = next((dot for dot in reversed(dots) if word[at:dot] in self.defined), end)
            yield Token("NAME", word[at:end], start + at)
            at = end

    def unreadable(self, position: int) -> EbnfError:
        """The error for text in which no token begins."""
        character = self.text[position]
        unclosed = {'"': "literal", "'": "literal", "[": "class", "<": "token"}
        if character in unclosed:
            what = unclosed[character]
            message = f"this {what} is not closed on its line" + ("" if what == "token" else "; write \\n for a line break")
        elif self.text.startswith("/*", position):
            message = "this comment is not closed"
        elif character == "{":
            message = "a repetition is written {n}, {n,}, {n,m} or {,m}"
        elif character in ":=":
            message = "a rule is defined by `name ::= expression`"
        elif character == "!":
            message = "`!` must be followed by a token, as in !<[5]> or !<name>"
        elif character in "%/":
            message = f"unexpected {character!r}: is this a Lark grammar?"
        else:
            message = f"unexpected character {character!r}"
        return EbnfError(message, self.text, position)
