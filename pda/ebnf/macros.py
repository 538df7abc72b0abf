r"""The macros of XGrammar's EBNF, as nodes.

    Regex("[0-9]+")                              texts that match as a whole; without flags `.` is any character
    Regex("a.b", flags="is")                     i: in any case, s: `.` is any character, else any but a line's end, u: nothing
    Regex("\\S+", json_string=true)              without control characters, " and \, which JSON would have to escape
    Substring("abc", "de")                       some chunks in a row, as they follow each other here, or none
    Token(5, 6)   ExcludeToken(5, 6)             one token by id, or any that has text but these
    AnyToken()                                   any token that has text; this macro and the next are stackmask's
    AnyToken(textless=true)                      any token, and so does ExcludeToken take those without text
    Permute(a, (b, "?"), separator=c)            the rules once each in any order, `c` between two; "?" "*" "+" say how often instead,
                                                 min=2, max=3 how many there are in all
    TagDispatch(("<a>", rule), loop_after_dispatch=true, excludes=("</s>",))
                                                 free text; where a tag is complete its rule follows, then free text again
    TokenTagDispatch((5, rule), excludes=(6,))   the same for free tokens, and tags that are tokens

The syntax of patterns is that of regex/compiler.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias

from ..automata import dfa, nfa
from ..automata.charset import complement, from_chars, union
from ..automata.suffix_automaton import substring_dfa
from ..exceptions import RegexError
from ..free_text import DispatchError, text_dispatch, token_dispatch
from ..grammar import REPEATABLE, REQUIRED, GrammarBuilder, NodeId
from ..regex import regex_dfa, regex_node
from .lexer import Source, Token
from .parser import Named


class MacroError(Exception):
    """A macro has wrong arguments; `token` is the one that is wrong, None for the macro itself."""

    def __init__(self, message: str, token: Token | None = None) -> None:
        self.token = token
        super().__init__(message)


class Emitter(Protocol):
    """The part of the emitter that a macro uses."""

    builder: GrammarBuilder
    source: Source

    def NAME(self, token: Token) -> NodeId:  # noqa: N802 - the syntax's name
        """A call of a rule."""

    def text(self, token: Token) -> str:
        """The text of a literal in quotes."""


def expand(name: str, arguments: Sequence[Any], emitter: Emitter) -> NodeId:
    """The node that a macro stands for."""
    expansion, allowed = _EXPANSIONS[name]
    named: dict[str, Any] = {}
    for argument in arguments:
        if isinstance(argument, Named):
            if argument.name not in allowed:
                raise MacroError(f"{name} has no argument `{argument.name}`", argument.name)
            named[str(argument.name)] = argument.value
    return expansion([argument for argument in arguments if not isinstance(argument, Named)], named, emitter)


def _regex(values: Sequence[Any], named: dict[str, Any], emitter: Emitter) -> NodeId:
    """Regex(...)."""
    if len(values) != 1:
        raise MacroError("Regex takes one pattern")
    flags = emitter.text(_typed(named["flags"], "TEXT")) if "flags" in named else "s"
    if set(flags) - set("isu"):
        raise MacroError("Regex knows the flags i, s and u", named["flags"])
    pattern = emitter.text(_typed(values[0], "TEXT"))
    if flags:
        pattern = f"(?{''.join(sorted({*flags}))}:{pattern})"
    builder, limits = emitter.builder, emitter.source.limits
    try:
        if not _flag(named, "json_string", False):
            node = regex_node(builder, pattern, search=False, limits=limits)
        else:
            automaton = dfa.intersection(regex_dfa(pattern, search=False, limits=limits), _PLAIN, budget=emitter.source.budget)
            node = builder.never() if automaton == dfa.NOTHING else builder.automaton(automaton.transitions, automaton.accepting)
    except RegexError as error:
        raise MacroError(f"in this pattern: {error.message}", values[0]) from None
    if node == builder.never():
        raise MacroError("this pattern matches no text", values[0])
    return node


def _substring(values: Sequence[Any], named: dict[str, Any], emitter: Emitter) -> NodeId:
    """Substring(...)."""
    automaton = substring_dfa([emitter.text(_typed(value, "TEXT")) for value in values], emitter.source.budget)
    return emitter.builder.automaton(automaton.transitions, automaton.accepting)


def _token(values: Sequence[Any], named: dict[str, Any], emitter: Emitter) -> NodeId:
    """Token(...)."""
    return emitter.builder.tokens(_ids(values))


def _exclude_token(values: Sequence[Any], named: dict[str, Any], emitter: Emitter) -> NodeId:
    """ExcludeToken(...)."""
    return emitter.builder.tokens(_ids(values), negated=True, textless=_flag(named, "textless", False))


def _any_token(values: Sequence[Any], named: dict[str, Any], emitter: Emitter) -> NodeId:
    """AnyToken()."""
    if values:
        raise MacroError("AnyToken takes nothing between its parentheses")
    return emitter.builder.tokens((), negated=True, textless=_flag(named, "textless", False))


def _permute(values: Sequence[Any], named: dict[str, Any], emitter: Emitter) -> NodeId:
    """Permute(...)."""
    if not values:
        raise MacroError("Permute takes the names of rules")
    members: list[int] = []
    for value in values:
        rule, quantifier = _pair(value) if isinstance(value, tuple) else (value, None)
        flags = REQUIRED if quantifier is None else _OCCURRENCES.get(emitter.text(_typed(quantifier, "TEXT")))
        if flags is None:
            raise MacroError('a rule of Permute occurs "?", "*" or "+"', quantifier)
        members += (emitter.NAME(_typed(rule, "IDENTIFIER")), flags)
    separator = emitter.NAME(_typed(named["separator"], "IDENTIFIER")) if "separator" in named else emitter.builder.empty()
    least, most = (_id(named[name]) if name in named else otherwise for name, otherwise in (("min", 0), ("max", -1)))
    if 0 <= most < least:
        raise MacroError("the bounds of Permute are in the wrong order", named["max"])
    return emitter.builder.permute(tuple(members), separator, minimum=least, maximum=most)


def _tag_dispatch(values: Sequence[Any], named: dict[str, Any], emitter: Emitter) -> NodeId:
    """TagDispatch(...)."""
    tags = [(_text(tag, emitter), emitter.NAME(_typed(rule, "IDENTIFIER"))) for tag, rule in map(_pair, values)]
    excluded = [_text(text, emitter) for text in _tuple(named.get("excludes", ()))]
    loop = _flag(named, "loop_after_dispatch", True)
    try:
        return text_dispatch(emitter.builder, tags, excluded, loop=loop, budget=emitter.source.budget)
    except DispatchError as error:
        raise MacroError(str(error)) from None


def _token_tag_dispatch(values: Sequence[Any], named: dict[str, Any], emitter: Emitter) -> NodeId:
    """TokenTagDispatch(...)."""
    tags = [(_id(tag), emitter.NAME(_typed(rule, "IDENTIFIER"))) for tag, rule in map(_pair, values)]
    excluded = [_id(value) for value in _tuple(named.get("excludes", ()))]
    both = {tag for tag, _ in tags}.intersection(excluded)
    if both:
        raise MacroError(f"token {min(both)} is a tag and excluded")
    return token_dispatch(emitter.builder, tags, excluded, loop=_flag(named, "loop_after_dispatch", True))


def _typed(value: Any, kind: str) -> Token:
    """A value of one kind."""
    if not isinstance(value, Token) or value.type != kind:
        raise MacroError(f"expected {_KINDS[kind]}", value if isinstance(value, Token) else None)
    return value


def _text(value: Any, emitter: Emitter) -> str:
    """A text that is not empty."""
    text = emitter.text(_typed(value, "TEXT"))
    if not text:
        raise MacroError("expected a text that is not empty", value)
    return text


def _id(value: Any) -> int:
    """The id of a token."""
    token = _typed(value, "INTEGER")
    if len(token) > 9:
        raise MacroError("no vocabulary has a token of this id", token)
    return int(token)


def _ids(values: Sequence[Any]) -> tuple[int, ...]:
    """One id of a token or more."""
    if not values:
        raise MacroError("expected at least one id of a token")
    return tuple(sorted({_id(value) for value in values}))


def _pair(value: Any) -> tuple[Any, Any]:
    """A tag and the rule behind it, or a rule and how often it occurs."""
    if not isinstance(value, tuple) or len(value) != 2:
        raise MacroError("tags are given as pairs (tag, rule)", value if isinstance(value, Token) else None)
    return value[0], value[1]


def _tuple(value: Any) -> tuple[Any, ...]:
    """A tuple of values."""
    if not isinstance(value, tuple):
        raise MacroError("expected a tuple, as in (1, 2) or (1,)", value)
    return value


def _flag(named: dict[str, Any], name: str, otherwise: bool) -> bool:
    """An argument that is true or false."""
    return otherwise if name not in named else _typed(named[name], "BOOLEAN") == "true"


_OCCURRENCES: Final = {"?": 0, "*": REPEATABLE, "+": REQUIRED | REPEATABLE}
_KINDS: Final = {"TEXT": "a text in quotes", "INTEGER": "the id of a token", "BOOLEAN": "true or false", "IDENTIFIER": "the name of a rule"}
# Texts without what JSON has to escape.
_PLAIN: Final = nfa.repeat(dfa.from_set(complement(union((0, 0x1F), from_chars('"\\')))))

_Expansion: TypeAlias = Callable[[Sequence[Any], dict[str, Any], Emitter], NodeId]
_EXPANSIONS: Final[dict[str, tuple[_Expansion, tuple[str, ...]]]] = {
    "Regex": (_regex, ("flags", "json_string")),
    "Substring": (_substring, ()),
    "Token": (_token, ()),
    "AnyToken": (_any_token, ("textless",)),
    "ExcludeToken": (_exclude_token, ("textless",)),
    "Permute": (_permute, ("separator", "min", "max")),
    "TagDispatch": (_tag_dispatch, ("loop_after_dispatch", "excludes")),
    "TokenTagDispatch": (_token_tag_dispatch, ("loop_after_dispatch", "excludes")),
}
