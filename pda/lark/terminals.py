"""Terminals of a Lark grammar: from their definitions to one pattern, and from that to a node or an automaton.

lark joins the parts of a terminal as texts of one regular expression, and so does this module, since definitions depend on it: the
lookbehind in `common.ESCAPED_STRING` looks at the part before.
So a part /a|b/ is not grouped: "x" /a|b/ is /xa|b/.
If a definition uses operators that no regular expression has (`&`, `~`, runs of chunks), its parts become automata first.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from lark import Token
from lark.visitors import Transformer_NonRecursive

from ..automata import dfa, nfa
from ..automata.charset import CharSet, union
from ..automata.dfa import Dfa
from ..automata.suffix_automaton import substring_dfa
from ..budget import Budget
from ..choice import choice_node, words_node
from ..exceptions import LarkError, LimitError, RegexError
from ..grammar import GrammarBuilder, NodeId
from ..regex.analysis import LONG, first_characters, widths
from ..regex.ast import Ast
from ..regex.first_match import MANY_WORDS, preferred_dfa, preferred_node, whole_dfa
from ..regex.parser import parse_python
from ..regex.python_class import any_case
from ..regex.words import are_disjoint, words_dfa
from .ignore import first_of
from .lexer import STRING, read_json

Literal: TypeAlias = tuple[str, str]
"""A text that is meant as it stands, and its flags: "i" in any case."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A literal, or a regular expression in Python's syntax, with the flags behind it and the lengths of its texts."""

    text: str
    flags: str = ""
    literal: bool = False
    shortest: int = 0
    longest: float = 0
    # Whether the text is alternatives without a group around them, which join with their neighbours.
    bare: bool = False
    # The literals, sorted, where these are many as alternatives; `text` is empty then.
    words: tuple[Literal, ...] = ()

    def rank(self) -> tuple[float, int, int]:
        """The key by which lark sorts alternatives, since `re` prefers the first that matches: long ones come first."""
        return -self.longest, -self.shortest, -len(self.text)

    def joined(self) -> str:
        """The text to join with others, as lark writes it."""
        if self.words:  # long ones come first, so none hides another
            return f"(?:{'|'.join([_escaped(*word) for word in sorted(self.words, key=lambda word: -len(word[0]))])})"
        if self.literal:
            return _escaped(self.text, self.flags)
        text = self.text
        for flag in self.flags:
            text = f"(?{flag}:{text})"
        return text


def _escaped(text: str, flags: str) -> str:
    """A literal as a regular expression."""
    return f"(?i:{re.escape(text)})" if flags else re.escape(text)


Terminal: TypeAlias = Pattern | Dfa
ErrorAt: TypeAlias = Callable[[str, Token], LarkError]

_OPERATIONS: Final = {"*": (0, -1), "+": (1, -1), "?": (0, 1)}
_ESCAPE: Final = re.compile(r"\\(?:U([0-9A-Fa-f]{8})|u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|([nftr])|(.)|$)", re.DOTALL)
_CONTROLS: Final = {"n": "\n", "f": "\f", "t": "\t", "r": "\r"}
_WORDS: Final = re.compile(r"\w+|[^\w\s]+|\s+")
_LITERAL: Final = re.compile(f"{STRING}i?")


def literal_pattern(text: str, flags: str) -> Pattern:
    """A literal as a pattern."""
    return Pattern(text, flags, literal=True, shortest=len(text), longest=len(text))


def is_plain(words: tuple[Literal, ...]) -> bool:
    """Whether no literal is in any case."""
    return not any(flags for _, flags in words)


def _letter(letter: str, flags: str) -> CharSet:
    """A character of a literal."""
    point = ord(letter)
    return any_case((point, point), 0) if flags else (point, point)


class Terminals:
    """The steps that make terminals, and their shared state: how to report an error, and the remaining budget."""

    def __init__(self, error: ErrorAt, budget: Budget) -> None:
        self.error = error
        self.budget = budget

    def string(self, token: Token) -> Pattern:
        """A literal "..." or "..."i; "" is the empty text."""
        folded = token[-1] == "i"
        text = self.unescape(token, token[1 : -2 if folded else -1]).replace("\\\\", "\\")
        return literal_pattern(text, "i" if folded and text else "")

    def literals(self, token: Token) -> list[Literal]:
        """The literals of a token of several as alternatives."""
        if "\\" not in token:
            parts = token.split('"')
            return [(text, "i" if behind[:1] == "i" and text else "") for text, behind in zip(parts[1::2], parts[2::2], strict=True)]
        found = []
        for match in _LITERAL.finditer(token):
            pattern = self.string(Token("STRING", match.group(), (token.start_pos or 0) + match.start()))
            found.append((pattern.text, pattern.flags))
        return found

    def words(self, token: Token) -> Pattern:
        """A token of several literals as alternatives."""
        return self.of_literals(self.literals(token))

    def of_literals(self, literals: list[Literal]) -> Pattern:
        """Many literals as alternatives."""
        self.budget.spend(len(literals))
        lengths = [len(text) for text, _ in literals]
        if sum(lengths) + len(lengths) > self.budget.limits.states:
            raise self.too_large("a terminal")
        return Pattern("", shortest=min(lengths), longest=max(lengths), words=tuple(sorted(set(literals))))

    def literals_of(self, patterns: list[Pattern]) -> list[Literal] | None:
        """The literals of alternatives that are nothing else; None where one is."""
        found: list[Literal] = []
        for pattern in patterns:
            if pattern.words:
                found += pattern.words
            elif pattern.literal:
                found.append((pattern.text, pattern.flags))
            else:
                return None
        return found

    def apart(self, pattern: Pattern) -> list[Pattern]:
        """The literals of a list of words, or a pattern as it is."""
        return [literal_pattern(*word) for word in pattern.words] or [pattern]

    def letters(self, terminal: Pattern) -> list[tuple[CharSet, ...]] | None:
        """A list of words as sets of characters; None where two sets overlap, as those of "k"i and "k" do."""
        sets: dict[str, dict[str, CharSet]] = {}
        for flags in ("", "i"):
            letters = set("".join([text for text, those in terminal.words if those == flags]))
            sets[flags] = {letter: _letter(letter, flags) for letter in letters}
        if not are_disjoint({*sets[""].values(), *sets["i"].values()}):
            return None
        return [tuple(map(sets[flags].__getitem__, text)) for text, flags in terminal.words]

    def listed(self, terminal: Pattern) -> Dfa | None:
        """The automaton of a list of words; None for a pattern that only a regular expression can say."""
        if is_plain(terminal.words):
            return dfa.from_strings([text for text, _ in terminal.words], budget=self.budget) if terminal.words else None
        letters = self.letters(terminal)
        return None if letters is None else words_dfa(letters, self.budget)

    def regexp(self, token: Token) -> Pattern:
        """A regular expression /.../ with its flags."""
        end = token.rindex("/")
        flags = token[end + 1 :]
        if "\n" in token and "x" not in flags:
            raise self.error("a regular expression breaks its line only with flag x; write \\n, or close it before", token)
        if "l" in flags:
            raise self.error("flag l (locale) is not supported", token)
        pattern = Pattern(self.unescape(token, token[1:end]), "".join(dict.fromkeys(flags.replace("u", ""))))
        return self.measured(pattern, token)

    def measured(self, pattern: Pattern, token: Token) -> Pattern:
        """A pattern with the lengths of its texts."""
        ast = self.parse(pattern, token)
        shortest, longest = widths(ast)
        return replace(pattern, shortest=shortest, longest=longest, bare=ast.branches > 1)

    def parse(self, pattern: Pattern, token: Token) -> Ast:
        """The syntax tree of a pattern."""
        try:
            return parse_python(pattern.joined(), self.budget)
        except RegexError as error:
            raise self.error(f"this terminal's pattern: {error.message}", token) from None

    def unescape(self, token: Token, raw: str) -> str:
        r"""The text between quotes or slashes as lark reads it: \n \f \t \r \x \u \U and \" are read, other escapes stay."""

        def read(match: re.Match[str]) -> str:
            digits = match.group(1) or match.group(2) or match.group(3)
            if digits:
                point = int(digits, 16)
                if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
                    raise self.error(f"{match.group()} is not a character of any text", token)
                return chr(point)
            if match.group(4):
                return _CONTROLS[match.group(4)]
            if match.group(5) in ("u", "U", "x"):
                raise self.error(f"\\{match.group(5)} takes more hexadecimal digits", token)
            return '"' if match.group(5) == '"' else match.group()

        return _ESCAPE.sub(read, raw)

    def range(self, token: Token) -> Pattern:
        """One character of a range "a".."z"."""
        first, last = (self.unescape(token, text[1:-1]).replace("\\\\", "\\") for text in re.findall(STRING, token))
        if len(first) != 1 or len(last) != 1 or first > last:
            raise self.error('a range is written "a".."z", from one character up to another', token)
        return Pattern(f"[\\U{ord(first):08x}-\\U{ord(last):08x}]", shortest=1, longest=1)

    def substring(self, token: Token) -> Dfa:
        """The runs of chunks that %regex {...} asks for."""
        value = read_json(token, len("%regex"))[0]
        kinds = ("substring_chunks", "substring_words", "substring_chars")
        if not isinstance(value, dict) or len(value) != 1 or next(iter(value)) not in kinds:
            raise self.error(f"%regex takes an object with one of {', '.join(kinds)}", token)
        ((kind, source),) = value.items()
        if kind == "substring_chunks":
            if not isinstance(source, list) or not all(isinstance(chunk, str) for chunk in source):
                raise self.error("substring_chunks takes a list of texts", token)
            return substring_dfa(source, self.budget)
        if not isinstance(source, str):
            raise self.error(f"{kind} takes a text", token)
        return substring_dfa(_WORDS.findall(source) if kind == "substring_words" else list(source), self.budget)

    def bounds(self, operation: Token, numbers: list[Token]) -> tuple[int, int]:
        """The least and the largest number of times that a repetition asks for; -1 is no bound."""
        if operation.type == "OP":
            return _OPERATIONS[operation]
        if operation.type == "TILDE":
            low, high = str(numbers[0]), str(numbers[-1])
        else:
            low, comma, high = (part.strip() for part in operation[1:-1].partition(","))
            high = high if comma else low
        if len(low) > 9 or len(high) > 9:
            raise self.too_large("a repetition")
        if not (low or "0").isdigit() or not (high or "0").isdigit():
            raise self.error("a repetition counts in whole numbers", operation)
        minimum, maximum = int(low or 0), int(high or -1)
        if max(minimum, maximum) > self.budget.limits.states:
            raise self.too_large("a repetition")
        if 0 <= maximum < minimum:
            raise self.error("the bounds of this repetition are in the wrong order", operation)
        return minimum, maximum

    def too_large(self, what: str) -> LimitError:
        """The error for something that no engine could honour."""
        most = self.budget.limits.states
        return LimitError(f"{what} asks for more than {most} states", limit="states", value=most)

    def node(self, builder: GrammarBuilder, terminal: Terminal, token: Token) -> NodeId:
        """The node of a terminal's texts."""
        if isinstance(terminal, Pattern) and terminal.literal and not terminal.flags:
            return builder.literal(terminal.text.encode())
        if isinstance(terminal, Pattern):
            if terminal.words and is_plain(terminal.words):
                return choice_node(builder, sorted([text.encode() for text, _ in terminal.words]), self.budget)
            if terminal.literal:
                return builder.seq(*[builder.chars(_letter(letter, terminal.flags)) for letter in terminal.text])
            letters = self.letters(terminal) if terminal.words else None
            if letters is not None:
                return words_node(builder, letters, self.budget)
            try:
                node = preferred_node(builder, self.parse(terminal, token), self.budget)
            except RegexError as error:
                raise self.error(f"this terminal's pattern: {error.message}", token) from None
        elif terminal == dfa.NOTHING:
            node = builder.never()
        else:
            node = builder.automaton(terminal.transitions, terminal.accepting)
        if node == builder.never():
            raise self.error("this terminal matches no text; its assertions see its own text alone, not what stands around it", token)
        return node

    def automaton(self, terminal: Terminal, token: Token) -> Dfa:
        """The automaton of all texts that match a terminal as a whole."""
        if isinstance(terminal, Dfa):
            return terminal
        listed = self.listed(terminal)
        if listed is not None:
            return listed
        try:
            return whole_dfa(self.parse(terminal, token), self.budget)
        except RegexError as error:
            raise self.error(f"this terminal's pattern: {error.message}", token) from None

    def preferred(self, terminal: Terminal, token: Token) -> Dfa:
        """The automaton of a terminal's texts."""
        if isinstance(terminal, Dfa):
            return terminal
        listed = self.listed(terminal)  # long ones come first, so none hides another
        if listed is not None:
            return listed
        try:
            return preferred_dfa(self.parse(terminal, token), self.budget)
        except RegexError as error:
            raise self.error(f"this terminal's pattern: {error.message}", token) from None

    def first(self, terminal: Terminal, token: Token) -> CharSet:
        """Characters that hold all with which a text of a terminal may begin."""
        if isinstance(terminal, Dfa):
            return first_of(terminal)
        if terminal.literal:
            if not terminal.text:
                return ()
            return _letter(terminal.text[0], terminal.flags)
        if terminal.words:
            return union(*[_letter(*first) for first in {(text[0], flags) for text, flags in terminal.words if text}])
        return first_characters(self.parse(terminal, token))


class TerminalBuilder(Transformer_NonRecursive[Token, Any]):
    """Makes one terminal of the tree of its definition, bottom-up; other terminals come from `lookup`."""

    def __init__(self, terminals: Terminals, lookup: Callable[[Token], Terminal], head: Token) -> None:
        super().__init__()
        self.terminals = terminals
        self.lookup = lookup
        self.head = head

    def TERMINAL(self, token: Token) -> Terminal:  # noqa: N802 - the syntax's names
        """Another terminal."""
        return self.lookup(token)

    def STRING(self, token: Token) -> Terminal:  # noqa: N802
        """A literal."""
        return self.terminals.string(token)

    def WORDS(self, token: Token) -> Terminal:  # noqa: N802
        """Literals that are alternatives."""
        return self.terminals.words(token)

    def REGEXP(self, token: Token) -> Terminal:  # noqa: N802
        """A regular expression."""
        return self.terminals.regexp(token)

    def SUBSTRING(self, token: Token) -> Terminal:  # noqa: N802
        """%regex {...}."""
        return self.terminals.substring(token)

    def misplaced(self, token: Token) -> Terminal:
        """An element that only a rule can contain."""
        raise self.terminals.error(f"`{token[:40]}` has no place in a terminal, only in a rule", token)

    RULE = TEMPLATE = PARAMETRIC = CONDITION = SPECIAL = JSON = LARK = REFERENCE = ALIAS = misplaced

    def RANGE(self, token: Token) -> Terminal:  # noqa: N802
        """One character from one to another."""
        return self.terminals.range(token)

    def expansions(self, children: list[Terminal]) -> Terminal:
        """A | B."""
        if len(children) == 1:
            return children[0]
        patterns = [child for child in children if isinstance(child, Pattern)]
        if len(patterns) < len(children):
            return dfa.union(*map(self.automaton, children), budget=self.terminals.budget)
        literals = self.terminals.literals_of(patterns)
        if literals is not None and len(literals) > MANY_WORDS:
            return self.terminals.of_literals(literals)
        patterns = sorted([part for pattern in patterns for part in self.terminals.apart(pattern)], key=Pattern.rank)
        lengths = (min(part.shortest for part in patterns), max(part.longest for part in patterns))
        return self.join("(?:", patterns, "|", ")", lengths)

    def expansion(self, children: list[Terminal]) -> Terminal:
        """A B."""
        if len(children) == 1:
            return children[0]
        patterns = [child for child in children if isinstance(child, Pattern)]
        if len(patterns) < len(children):
            return nfa.concatenation(*map(self.automaton, children), budget=self.terminals.budget)
        lengths = (sum(part.shortest for part in patterns), sum(part.longest for part in patterns))
        joined = self.join("", patterns, "", "", lengths)
        return self.terminals.measured(joined, self.head) if any(part.bare for part in patterns) else joined

    def repeat(self, children: list[Any]) -> Terminal:
        """A* and its like."""
        body, operation, *numbers = children
        minimum, maximum = self.terminals.bounds(operation, numbers)
        if isinstance(body, Dfa):
            return nfa.repeat(body, minimum, maximum, budget=self.terminals.budget)
        counts = f"{{{minimum},{maximum if maximum >= 0 else ''}}}"
        lengths = (body.shortest * minimum, body.longest * (float("inf") if maximum < 0 else maximum) if body.longest and maximum else 0)
        return self.join("(?:", [body], "", f"){operation if operation.type == 'OP' else counts}", lengths)

    def maybe(self, children: list[Terminal]) -> Terminal:
        """[A]."""
        return self.repeat([*children, Token("OP", "?")])

    def both(self, children: list[Any]) -> Terminal:
        """A & B."""
        return dfa.intersection(*map(self.automaton, children[::2]), budget=self.terminals.budget)

    def negation(self, children: list[Any]) -> Terminal:
        """~A."""
        return dfa.complement(self.automaton(children[1]), budget=self.terminals.budget)

    def automaton(self, terminal: Terminal) -> Dfa:
        """The automaton of a part."""
        return self.terminals.automaton(terminal, self.head)

    def join(self, before: str, parts: list[Pattern], between: str, after: str, lengths: tuple[int, float]) -> Pattern:
        """The parts as one pattern. Terminals that share others can double with each, so the length is checked first."""
        texts = [part.joined() for part in parts]
        if sum(map(len, texts)) > self.terminals.budget.limits.states:
            raise self.terminals.too_large("a terminal")
        shortest, longest = lengths
        text = before + between.join(texts) + after
        return Pattern(text, shortest=min(shortest, LONG), longest=longest if longest < LONG else float("inf"))
