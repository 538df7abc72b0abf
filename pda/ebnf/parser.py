"""The syntax of an EBNF text, read token by token with a list of the groups that are open: nothing recurses, and no tree is built.

    rule          RULE alternatives lookahead? ";"?       lookahead   "(=" alternatives ")"
    alternatives  alternative ("|" alternative)*
    alternative   item*  or  item ("-" item)+
    item          NAME | STRING | CLASS | CODE | ANY | TOKEN | macro | "(" alternatives ")" | item QUANTIFIER
    macro         MACRO "(" (argument ("," argument)*)? ")"
    argument      (IDENTIFIER "=")? value
    value         IDENTIFIER | TEXT | INTEGER | BOOLEAN | "(" (value ("," value)* ","?)? ")"

What was read is handed to the actions bottom-up, from left to right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol

from ..exceptions import EbnfError
from ..grammar import NodeId
from .lexer import Source, Token


class Named(NamedTuple):
    """An argument of a macro given by its name."""

    name: Token
    value: Any


class Actions(Protocol):
    """The actions on the parts of the syntax."""

    def begin(self, head: Token) -> None:
        """A rule's head was read."""

    def rule(self, head: Token, body: NodeId, ahead: NodeId | None) -> None:
        """A rule, with its lookahead."""

    def atom(self, token: Token) -> NodeId:
        """One token that is an item."""

    def alternatives(self, children: Sequence[NodeId]) -> NodeId:
        """A | B."""

    def sequence(self, children: Sequence[NodeId]) -> NodeId:
        """A B."""

    def difference(self, left: NodeId, minus: Token, taken: Sequence[NodeId]) -> NodeId:
        """A - B - C."""

    def repeat(self, body: NodeId, token: Token) -> NodeId:
        """A* and its like."""

    def macro(self, name: Token, arguments: Sequence[Any]) -> NodeId:
        """Name(value, name=value)."""


class _Group:
    """A rule's body, a lookahead or a group: the alternatives so far, and the items of the last one."""

    __slots__ = ("alternatives", "awaits", "items", "mark", "minus")

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.alternatives: list[NodeId] = []
        self.items: list[NodeId] = []
        self.minus: Token | None = None
        """The first `-`, where the alternative is a difference."""
        self.awaits = False
        """A `-` was read, and not yet the item behind it."""


_ATOMS: Final = frozenset(("NAME", "STRING", "CLASS", "CODE", "ANY", "TOKEN"))
_VALUES: Final = frozenset(("IDENTIFIER", "TEXT", "INTEGER", "BOOLEAN"))
# The expected element where a token is in the wrong place, if naming it helps more than naming the token.
_A_RULE: Final = "a rule"
_NO_ITEM: Final = "no item"


def parse(source: Source, actions: Actions) -> None:
    """Read all rules of the text; raises EbnfError at the first token that is in the wrong place."""
    tokens = source.tokens()
    head: Token | None = None
    body: NodeId | None = None
    ahead: NodeId | None = None
    open_groups: list[_Group] = []
    group: _Group | None = None

    def end_rule() -> None:
        nonlocal head, body, ahead
        if head is not None:
            assert body is not None
            actions.rule(head, body, ahead)
        head = body = ahead = None

    for token in tokens:
        kind = token.type
        if kind in _ATOMS or kind == "_LPAR" or kind == "MACRO":
            if group is None:
                raise _misplaced(source, token, _A_RULE)
            if group.minus is not None and not group.awaits:
                raise _misplaced(source, token, _NO_ITEM)
            if kind == "_LPAR":
                group = _Group(kind)
                open_groups.append(group)
                continue
            group.items.append(_macro(source, tokens, token, actions) if kind == "MACRO" else actions.atom(token))
            group.awaits = False
        elif kind == "QUANTIFIER":
            if group is None or group.awaits or not group.items:
                raise _misplaced(source, token, "" if group else _A_RULE)
            group.items[-1] = actions.repeat(group.items[-1], token)
        elif kind == "_BAR":
            if group is None or group.awaits:
                raise _misplaced(source, token, "" if group else _A_RULE)
            _end_alternative(group, actions)
        elif kind == "_RPAR":
            if group is None or group.awaits or group.mark == "RULE":
                raise _misplaced(source, token)
            node = _end(group, actions)
            open_groups.pop()
            if group.mark == "LOOKAHEAD":
                ahead = node
                group = None
            else:
                group = open_groups[-1]
                group.items.append(node)
                group.awaits = False
        elif kind == "MINUS":
            if group is None or group.awaits or not group.items or (group.minus is None and len(group.items) > 1):
                raise _misplaced(source, token)
            group.minus = group.minus or token
            group.awaits = True
        elif kind in ("RULE", "_SEMICOLON", "LOOKAHEAD"):
            if group is not None:
                if group.awaits or group.mark != "RULE":
                    raise _misplaced(source, token, _NO_ITEM if group.minus is not None and not group.awaits else "")
                body = _end(group, actions)
                open_groups.pop()
                group = None
            elif kind != "RULE" and (head is None or kind == "LOOKAHEAD"):
                raise _misplaced(source, token, _A_RULE)
            if kind != "LOOKAHEAD":
                end_rule()
            if kind == "RULE":
                head = token
                actions.begin(token)
            if kind != "_SEMICOLON":
                group = _Group(kind)
                open_groups.append(group)
        else:
            raise _misplaced(source, token, "" if group else _A_RULE)
    if group is not None:
        if group.awaits or group.mark != "RULE":
            raise _misplaced(source, None)
        body = _end(group, actions)
    end_rule()


def _end_alternative(group: _Group, actions: Actions) -> None:
    """The last alternative as a node."""
    items = group.items
    node = actions.sequence(items) if group.minus is None else actions.difference(items[0], group.minus, items[1:])
    group.alternatives.append(node)
    group.items = []
    group.minus = None


def _end(group: _Group, actions: Actions) -> NodeId:
    """The whole group as a node."""
    _end_alternative(group, actions)
    return actions.alternatives(group.alternatives)


def _macro(source: Source, tokens: Iterator[Token], name: Token, actions: Actions) -> NodeId:
    """The arguments of a macro, up to its closing parenthesis; the lexer has seen the one that opens it."""
    next(tokens)
    lists: list[list[Any]] = [[]]
    argument: Token | None = None
    awaits = True
    for token in tokens:
        kind = token.type
        values = lists[-1]
        outermost = len(lists) == 1
        if awaits and kind == "_LPAR":
            lists.append([])
            continue
        value: Any = token
        if not awaits and kind == "_COMMA":
            awaits = True
            continue
        if not awaits and kind == "_EQUAL" and outermost and isinstance(values[-1], Token) and values[-1].type == "IDENTIFIER":
            argument = values.pop()
            awaits = True
            continue
        if kind == "_RPAR" and (not awaits or not outermost or (not values and argument is None)):
            if outermost:
                return actions.macro(name, values)
            value = tuple(lists.pop())
        elif not awaits or kind not in _VALUES:
            raise _misplaced(source, token)
        if len(lists) == 1 and argument is not None:
            value, argument = Named(argument, value), None
        lists[-1].append(value)
        awaits = False
    raise _misplaced(source, None)


def _misplaced(source: Source, token: Token | None, expected: str = "") -> EbnfError:
    """The error for a token that is in the wrong place, None for the end of the text."""
    kind = "END" if token is None else token.type
    if source.groups and kind in ("END", "RULE", "_SEMICOLON"):
        return EbnfError("this group is never closed", source.text, source.groups[-1])
    if kind == "_RPAR":
        message = "this `)` closes nothing"
    elif kind == "MINUS" or expected == _NO_ITEM:
        message = "a difference `A - B` must stand alone between `(`, `|` and `)`"
    elif expected == _A_RULE:
        message = "expected a rule, `name ::= expression`"
    elif kind == "QUANTIFIER":
        message = f"nothing to repeat before `{token}`"
    else:
        message = f"unexpected `{token}`" if token is not None else "the text ends in the middle of a rule"
    return EbnfError(message, source.text, len(source.text) if token is None else token.start)
