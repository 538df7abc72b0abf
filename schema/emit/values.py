"""Constants as nodes, and the common parts of the writers of arrays and objects."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final, cast

from ...pda.exceptions import SchemaError
from ...pda.grammar import ALT, GRAPH, PERMUTE, SCOPE, SEQ, GrammarBuilder, NodeId
from ..sets.numbers import exact
from .json_parts import Fragments, all_quoted, quoted


def called(b: GrammarBuilder, node: NodeId) -> NodeId:
    """The node, behind a rule of its own where it is used more than once and is not small: an engine spells it out for each use."""
    operator = b.nodes[node][0]
    if operator not in (SEQ, ALT, GRAPH, PERMUTE, SCOPE) or (operator == SEQ and len(b.nodes[node]) <= 4):
        return node
    rule = b.rule("item")
    b.define(rule, node)
    return b.call(rule)


def separated(b: GrammarBuilder, f: Fragments, item: NodeId, low: int = 1, high: int = -1) -> NodeId:
    """One or more of `item` with commas between: `low` to `high` of them, -1 for no upper bound."""
    if low > 1 or high >= 0:
        return b.seq(item, b.repeat(b.seq(f.comma, item), max(low - 1, 0), high - 1 if high >= 0 else -1))
    return b.node((GRAPH, 3, (0, 2, item, 2, 0, f.comma, 2, 1, -1)))


def any_value(b: GrammarBuilder, f: Fragments, values: Sequence[object]) -> NodeId:
    """Any of the values; many of them share what they begin with.

    PERF: a state before 10,000 objects had an item for each of them until their first values differed, and so had each state in their
    first key: a first mask of 28 ms.
    """
    kinds = set(map(type, values))
    if kinds == _TEXT:
        texts = cast("Sequence[str]", values)
        return b.alt(*dict.fromkeys(b.literals(all_quoted(texts, f.closing))))
    if kinds <= _SCALARS or not any(isinstance(value, _NESTED) for value in values):
        return b.alt(*dict.fromkeys([scalar_node(b, f, value) for value in values]))
    rows = [list(row) for row in dict.fromkeys(tuple(value_parts(b, f, value)) for value in values)]
    if len(rows) < _FEW_VALUES:
        return b.alt(*(b.seq(*row) for row in rows))
    for row in rows:
        row.reverse()
    return _sharing(b, rows, _MOST_FORKS)


_FEW_VALUES, _MOST_FORKS = 16, 32
_TEXT: Final = {str}
_NESTED: Final = (list, dict)
_SCALARS: Final = {str, int, float, bool, type(None), Decimal}


def _sharing(b: GrammarBuilder, rows: list[list[NodeId]], forks: int) -> NodeId:
    """Any of the rows, each the nodes of a sequence, the last one first; values that fork more often share no more.

    Behind its first node an alternative is a sequence of its own, so that an engine spells it out where a text comes there.
    """
    shared: list[NodeId] = []
    while True:
        groups: dict[NodeId | None, list[list[NodeId]]] = {}
        for row in rows:
            groups.setdefault(row[-1] if row else None, []).append(row)
        if len(groups) > 1 or len(rows) == 1:
            break
        shared.append(rows[0][-1])
        for row in rows:
            row.pop()
    if not forks or len(groups) == len(rows):
        rest = [b.seq(*reversed(row)) if len(row) <= 2 else b.seq(row.pop(), b.seq(*reversed(row))) for row in rows]
    else:
        rest = [_sharing(b, group, forks - 1) for group in groups.values()]
    return b.seq(*shared, b.alt(*rest))


def value_parts(b: GrammarBuilder, f: Fragments, value: object) -> list[NodeId]:
    """The sequence that spells one JSON value as json.dumps does, with the blanks of the grammar between its tokens."""
    parts: list[NodeId] = []
    stack: list[_Node | object] = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, _Node):
            parts.append(item.node)
        elif isinstance(item, list | dict):
            stack.extend(reversed(_bracketed(b, f, item)))
        else:
            parts.append(scalar_node(b, f, item))
    return parts


class _Node:
    """A node among values."""

    __slots__ = ("node",)

    def __init__(self, node: NodeId) -> None:
        self.node = node


def _bracketed(b: GrammarBuilder, f: Fragments, value: list[Any] | dict[Any, object]) -> list[_Node | object]:
    """An array or object, with its values still to be spelt."""
    opening, closing = (f.open_array, f.close_array) if isinstance(value, list) else (f.open_object, f.close_object)
    blank, comma, colon = _Node(f.blank), _Node(f.comma), _Node(f.colon)
    parts: list[_Node | object] = [_Node(opening), blank]
    for place, item in enumerate(value):
        if place:
            parts.append(comma)
        if isinstance(value, dict):
            parts += (_Node(b.literal(quoted(item, f.closing))), colon, value[item])
        else:
            parts.append(item)
    if value:
        parts.append(blank)
    return [*parts, _Node(closing)]


def scalar_node(b: GrammarBuilder, f: Fragments, value: object) -> NodeId:
    """A string, number, boolean or null; a whole number that the schema writes with a fraction may also be written without."""
    if isinstance(value, str):
        return b.literal(quoted(value, f.closing))
    if value is None:
        return f.null
    if isinstance(value, bool):
        return f.true if value else f.false
    if not isinstance(value, int | float | Decimal):
        raise SchemaError(f"a {type(value).__name__} is not a JSON value")
    try:
        number = exact(value)
    except ValueError as error:
        raise SchemaError(str(error)) from None
    text = str(value)
    if isinstance(number, int) and text != str(number):
        return b.alt(b.literal(text.encode()), b.literal(str(number).encode()))
    return b.literal(text.encode())
