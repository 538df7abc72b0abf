"""Typed parts written as grammar nodes: sequences for arrays, chains of members for objects, spellings for values.

Nothing here knows of keywords; the callers say which nodes stand for the items and members.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from decimal import Decimal

from ...pda.exceptions import SchemaError
from ...pda.grammar import ALT, GRAPH, PERMUTE, SCOPE, SEQ, GrammarBuilder, NodeId
from ..sets.numbers import exact
from .json_parts import Fragments, quoted


def array_node(
    b: GrammarBuilder, f: Fragments, prefix: Sequence[NodeId], rest: NodeId, minimum: int, maximum: int, *, distinct: bool = False
) -> NodeId:
    """An array whose first items are `prefix` and whose others are `rest`, of `minimum` to `maximum` items (-1 is no bound)."""
    never = f.never
    for position, item in enumerate(prefix):
        if item == never and (maximum < 0 or maximum > position):
            maximum = position
    if rest == never and (maximum < 0 or maximum > len(prefix)):
        maximum = len(prefix)
    if 0 <= maximum < minimum:
        return never
    if maximum == 0:
        return b.seq(f.open_array, f.blank, f.close_array)
    if distinct and maximum != 1:
        prefix, rest = [b.distinct(item) for item in prefix], rest if rest == never else b.distinct(rest)
    known = len(prefix) if maximum < 0 else min(len(prefix), maximum)
    if known == 0:
        if minimum <= 1 and maximum < 0:
            items = _separated(b, f, rest)
        else:
            rest = called(b, rest)
            items = b.seq(rest, b.repeat(b.seq(f.comma, rest), max(minimum - 1, 0), maximum - 1 if maximum > 0 else -1))
        optional = minimum == 0
    else:
        # States 2, 3, ... stand after one, two, ... items of the prefix; 1 is the end.
        edges: list[int] = []
        state = 0
        for position in range(known):
            if position and position >= minimum:
                edges += (state, 1, -1)
            edges += (state, position + 2, prefix[position] if not position else b.seq(f.comma, prefix[position]))
            state = position + 2
        if known < len(prefix) or rest == never:
            tail = f.empty
        else:
            tail = b.repeat(b.seq(f.comma, rest), max(minimum - known, 0), maximum - known if maximum >= 0 else -1)
        edges += (state, 1, tail)
        if known == 1:
            items = b.seq(prefix[0], tail)
        elif minimum >= known:
            items = b.seq(prefix[0], *(b.seq(f.comma, item) for item in prefix[1:known]), tail)
        else:
            items = b.graph(known + 2, tuple(edges))
        optional = minimum == 0
    body = b.seq(items, f.blank)
    node = b.seq(f.open_array, f.blank, b.optional(body) if optional else body, f.close_array)
    return b.scope(node) if distinct and maximum != 1 else node


def called(b: GrammarBuilder, node: NodeId) -> NodeId:
    """The node, behind a rule of its own where it is used more than once and is not small: an engine spells it out for each use."""
    operator = b.nodes[node][0]
    if operator not in (SEQ, ALT, GRAPH, PERMUTE, SCOPE) or (operator == SEQ and len(b.nodes[node]) <= 4):
        return node
    rule = b.rule("item")
    b.define(rule, node)
    return b.call(rule)


def object_node(b: GrammarBuilder, f: Fragments, members: Sequence[tuple[NodeId, bool]], extra: NodeId) -> NodeId:
    """An object with these members (node, required) in this order, then any number of `extra` ones.

    A graph of two states a member: before(i), about to read member i or a later one, and after(i), where a comma or the end follows.
    A comma is read once, from after(i) to before(i + 1): were it read before each member that may come next, a state after a member would
    stand before as many commas as there are optional members left, and an engine would follow them all.
    """
    never, comma = f.never, f.comma
    last = count = -1
    for node, required in members:
        if node != never:
            count += 1
            if required:
                last = count
        elif required:
            return never
    count += 1
    if count < len(members):
        members = [(node, required) for node, required in members if node != never]
    if not count:
        if extra == never:
            return b.seq(f.open_object, f.blank, f.close_object)
        return b.seq(f.open_object, f.blank, b.optional(b.seq(_separated(b, f, extra), f.blank)), f.close_object)
    edges: list[int] = []
    before = 0
    for i, (node, required) in enumerate(members):
        after, following = 2 * i + 2, 2 * i + 3
        more = i + 1 < count or extra != never
        if not more:
            edges += (before, after, node)
        elif required:
            edges += (before, after, node, after, following, comma)
        else:
            edges += (before, after, node, after, following, comma, before, following, -1)
        if i >= last:
            edges += (after, 1, -1)
        before = following
    if extra != never:
        edges += (before, before + 1, extra, before + 1, before, comma, before + 1, 1, -1)
    body = b.seq(b.node((GRAPH, before + 2, tuple(edges))), f.blank)
    return b.seq(f.open_object, f.blank, b.optional(body) if last < 0 else body, f.close_object)


def _separated(b: GrammarBuilder, f: Fragments, item: NodeId) -> NodeId:
    """One or more of `item` with commas between."""
    return b.node((GRAPH, 3, (0, 2, item, 2, 0, f.comma, 2, 1, -1)))


def permuted_array(b: GrammarBuilder, f: Fragments, values: Sequence[NodeId], minimum: int, maximum: int) -> NodeId:
    """An array of `minimum` to `maximum` of these values, each at most once."""
    maximum = len(values) if maximum < 0 else min(maximum, len(values))
    if maximum < minimum:
        return f.never
    if not maximum:
        return b.seq(f.open_array, f.blank, f.close_array)
    members = tuple(x for value in values for x in (value, 0))
    body = b.seq(b.permute(members, f.comma, minimum=max(minimum, 1), maximum=maximum), f.blank)
    return b.seq(f.open_array, f.blank, b.optional(body) if not minimum else body, f.close_array)


def extra_key(b: GrammarBuilder, f: Fragments, declared: Collection[str]) -> NodeId:
    """Any key but the declared ones, in quotes."""
    return b.seq(f.quote, b.except_words(declared, f.encoding), f.quote) if declared else f.string


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
        parts = [b.seq(b.literal(quoted(key)), f.colon, part) for key, part in zip(mark.keys, parts, strict=True)]
    nodes = [opening, f.blank, parts[0]]
    for part in parts[1:]:
        nodes += (f.comma, part)
    return b.seq(*nodes, f.blank, closing)


def scalar_node(b: GrammarBuilder, f: Fragments, value: object) -> NodeId:
    """A string, number, boolean or null; a whole number that the schema writes with a fraction may also be written without."""
    if isinstance(value, str):
        return b.literal(quoted(value))
    if value is None:
        return f.null
    if isinstance(value, bool):
        return f.true if value else f.false
    if not isinstance(value, int | float | Decimal):
        raise SchemaError(f"a {type(value).__name__} is no JSON value")
    try:
        number = exact(value)
    except ValueError as error:
        raise SchemaError(str(error)) from None
    text = str(value)
    if isinstance(number, int) and text != str(number):
        return b.alt(b.literal(text.encode()), b.literal(str(number).encode()))
    return b.literal(text.encode())
