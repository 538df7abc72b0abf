"""Constants as nodes, and the common parts of the writers of arrays and objects."""

from __future__ import annotations

from decimal import Decimal

from ...pda.exceptions import SchemaError
from ...pda.grammar import ALT, GRAPH, PERMUTE, SCOPE, SEQ, GrammarBuilder, NodeId
from ..sets.numbers import exact
from .json_parts import Fragments, quoted


def called(b: GrammarBuilder, node: NodeId) -> NodeId:
    """The node, behind a rule of its own where it is used more than once and is not small: an engine spells it out for each use."""
    operator = b.nodes[node][0]
    if operator not in (SEQ, ALT, GRAPH, PERMUTE, SCOPE) or (operator == SEQ and len(b.nodes[node]) <= 4):
        return node
    rule = b.rule("item")
    b.define(rule, node)
    return b.call(rule)


def separated(b: GrammarBuilder, f: Fragments, item: NodeId) -> NodeId:
    """One or more of `item` with commas between."""
    return b.node((GRAPH, 3, (0, 2, item, 2, 0, f.comma, 2, 1, -1)))


def value_node(b: GrammarBuilder, f: Fragments, value: object) -> NodeId:
    """One JSON value, spelt as json.dumps spells it, with the blanks of the grammar between its tokens."""
    if not isinstance(value, list | dict):
        return scalar_node(b, f, value)
    stack: list[object] = [value]
    done: list[NodeId] = []
    while stack:  # Post-order with marks: a bool mark (True for objects) and a count say what to assemble.
        item = stack.pop()
        if isinstance(item, _Assemble):
            parts = done[len(done) - item.count :] if item.count else []
            del done[len(done) - len(parts) :]
            done.append(_bracketed(b, f, item, parts))
        elif isinstance(item, list):
            stack.append(_Assemble(len(item), None))
            stack.extend(reversed(item))
        elif isinstance(item, dict):
            stack.append(_Assemble(len(item), list(item)))
            stack.extend(reversed(item.values()))
        else:
            done.append(scalar_node(b, f, item))
    return done[0]


class _Assemble:
    """A mark on the stack of value_node: the last `count` nodes make one array, or one object with these keys."""

    __slots__ = ("count", "keys")

    def __init__(self, count: int, keys: list[str] | None) -> None:
        self.count = count
        self.keys = keys


def _bracketed(b: GrammarBuilder, f: Fragments, mark: _Assemble, parts: list[NodeId]) -> NodeId:
    """The array or object of `parts`."""
    opening, closing = (f.open_array, f.close_array) if mark.keys is None else (f.open_object, f.close_object)
    if not parts:
        return b.seq(opening, f.blank, closing)
    if mark.keys is not None:
        parts = [b.seq(b.literal(quoted(key, f.closing)), f.colon, part) for key, part in zip(mark.keys, parts, strict=True)]
    nodes = [opening, f.blank, parts[0]]
    for part in parts[1:]:
        nodes += (f.comma, part)
    return b.seq(*nodes, f.blank, closing)


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
