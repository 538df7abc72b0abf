"""From a regular expression to nodes of a grammar: the syntax tree node by node, without an automaton.

It takes patterns whose only assertions are anchors at the ends of the whole pattern or of its outermost branches. There an anchor only says
whether other text may stand beside the match.
Bounded repetition stays REPEAT, so a count costs nothing however large it is.
Patterns with other assertions become automata: to_nfa.py and assertions.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from ..automata.charset import ANY
from ..grammar import EMPTY, JSON, NEVER, REPEAT, UTF8, GrammarBuilder, NodeId
from .ast import Alt, Anchor, Ast, AstId, AstNode, Atomic, Chars, Place, Repeat, Seq, Text

_START: Final = Anchor(Place.START)
_END: Final = Anchor(Place.END)

# Characters that have more than one spelling, or an escaped one, inside a JSON string.
_ESCAPED: Final = re.compile(r'[\x00-\x1f"\\/]')


class Branch(NamedTuple):
    """An outermost branch without its anchors: its parts, and whether it must begin and end with the text."""

    parts: tuple[AstId, ...]
    starts: bool
    ends: bool


def outer_branches(ast: Ast) -> list[Branch] | None:
    """The outermost branches of a pattern; None where it holds other assertions than the anchors at their ends.

    >>> from stackmask.pda.regex.parser import parse
    >>> outer_branches(parse("^(?:ab|c$)|d"))
    [Branch(parts=(4,), starts=True, ends=False), Branch(parts=(2,), starts=True, ends=True), Branch(parts=(7,), starts=False, ends=False)]
    >>> outer_branches(parse("a(?:^|b)")) is None
    True
    """
    if not ast.assertions:
        return [Branch((ast.root,), False, False)]
    found, taken = trim_branches(ast.nodes, ast.root)
    return found if taken == ast.assertions else None


def trim_branches(nodes: tuple[AstNode, ...], root: AstId) -> tuple[list[Branch], int]:
    """The outermost branches of a part of a pattern, and how many anchors were taken from their ends; other assertions may be left."""
    found: list[Branch] = []
    taken = 0
    todo = [(root, False, False)]
    while todo:
        part, starts, ends = todo.pop()
        node = nodes[part]
        if isinstance(node, Alt):
            todo.extend((branch, starts, ends) for branch in reversed(node.parts))
            continue
        parts = node.parts if isinstance(node, Seq) else (part,)
        begin, end = 0, len(parts)
        while begin < end and nodes[parts[begin]] == _START:
            begin += 1
        while end > begin and nodes[parts[end - 1]] == _END:
            end -= 1
        taken += begin + len(parts) - end
        starts, ends = starts or begin > 0, ends or end < len(parts)
        parts = parts[begin:end]
        if len(parts) == 1 and isinstance(nodes[parts[0]], Alt | Seq):
            todo.append((parts[0], starts, ends))
        else:
            found.append(Branch(parts, starts, ends))
    return found, taken


def emit(builder: GrammarBuilder, ast: Ast, branches: list[Branch], *, search: bool, encoding: int) -> NodeId:
    """The node of a pattern given by its outermost branches; with `search` other text may stand beside the match."""
    nodes = _emit_parts(builder, ast, [part for branch in branches for part in branch.parts], encoding)
    groups: dict[tuple[bool, bool], list[NodeId]] = {}
    for parts, starts, ends in branches:
        key = (starts, ends) if search else (True, True)
        groups.setdefault(key, []).append(_sequence(builder, [nodes[part] for part in parts]))
    whole: list[NodeId] = []
    for (starts, ends), members in groups.items():
        middle = _alternatives(builder, members)
        if search and not (starts and ends):
            beside = builder.repeat(builder.chars(ANY, encoding))
            middle = _sequence(builder, [*([] if starts else [beside]), middle, *([] if ends else [beside])])
        whole.append(middle)
    return _alternatives(builder, whole)


def _emit_parts(builder: GrammarBuilder, ast: Ast, roots: list[AstId], encoding: int) -> list[NodeId]:
    """The nodes of parts and of all that they hold; -1 for nodes of the tree that no part holds."""
    # PERF: isinstance instead of class patterns, which cost 0.5 us a node more; this is on the way to the first mask.
    nodes = ast.nodes
    emitted = [NodeId(-1)] * len(nodes)
    for index in _held(nodes, roots):
        node = nodes[index]
        if isinstance(node, Chars):
            chars = node.chars
            if len(chars) == 2 and chars[0] == chars[1]:
                emitted[index] = literal(builder, chr(chars[0]), encoding)
            else:
                emitted[index] = builder.chars(chars, encoding)
        elif isinstance(node, Text):
            emitted[index] = literal(builder, node.text, encoding)
        elif isinstance(node, Repeat):
            emitted[index] = _repetition(builder, emitted[node.body], node.minimum, node.maximum)
        elif isinstance(node, Seq):
            emitted[index] = _sequence(builder, [emitted[part] for part in node.parts])
        elif isinstance(node, Alt):
            emitted[index] = _alternatives(builder, [emitted[part] for part in node.parts])
        else:
            assert isinstance(node, Atomic), "outer_branches lets no assertion through"
            emitted[index] = emitted[node.body]
    return emitted


def _held(nodes: tuple[AstNode, ...], roots: list[AstId]) -> Iterable[int]:
    """The nodes that the roots hold, parts before what holds them."""
    if len(roots) == 1 and roots[0] == len(nodes) - 1:
        return range(len(nodes))
    needed = bytearray(len(nodes))
    for root in roots:
        needed[root] = 1
    for index in range(len(nodes) - 1, -1, -1):
        if needed[index]:
            node = nodes[index]
            if isinstance(node, Repeat | Atomic):
                needed[node.body] = 1
            elif isinstance(node, Seq | Alt):
                for part in node.parts:
                    needed[part] = 1
    return [index for index, need in enumerate(needed) if need]


def literal(builder: GrammarBuilder, text: str, encoding: int) -> NodeId:
    """A text in an encoding."""
    if encoding == UTF8 or (encoding == JSON and _ESCAPED.search(text) is None):
        return builder.literal(text.encode())
    if encoding != JSON:
        return builder.seq(*[builder.chars((ord(character),) * 2, encoding) for character in text])
    nodes: list[NodeId] = []
    end = 0
    for match in _ESCAPED.finditer(text):
        if match.start() > end:
            nodes.append(builder.literal(text[end : match.start()].encode()))
        nodes.append(builder.chars((ord(match[0]),) * 2, encoding))
        end = match.end()
    if end < len(text):
        nodes.append(builder.literal(text[end:].encode()))
    return builder.seq(*nodes)


def _sequence(builder: GrammarBuilder, parts: list[NodeId]) -> NodeId:
    if len(parts) == 1:
        return parts[0]
    nodes = builder.nodes
    kept: list[NodeId] = []
    for part in parts:
        operator = nodes[part][0]
        if operator == NEVER:
            return part
        if operator != EMPTY:
            kept.append(part)
    return builder.seq(*_united_repetitions(builder, kept))


def _united_repetitions(builder: GrammarBuilder, parts: list[NodeId]) -> list[NodeId]:
    """The parts of a sequence, where neighbours that repeat the same become one: `a?a?a?` is `a{0,3}`, and `a?aa{2,}` is `a{3,}`."""
    nodes = builder.nodes
    united: list[NodeId] = []
    body, least, most = NodeId(-1), 0, 0
    for part in parts:
        node = nodes[part]
        repeated, minimum, maximum = node[1:] if node[0] == REPEAT else (part, 1, 1)
        if repeated == body:
            least, most = least + minimum, -1 if most < 0 or maximum < 0 else most + maximum
            united[-1] = NodeId(-1)
        else:
            if united and united[-1] == -1:
                united[-1] = builder.repeat(body, least, most)
            body, least, most = repeated, minimum, maximum
            united.append(part)
    if united and united[-1] == -1:
        united[-1] = builder.repeat(body, least, most)
    return united


def _alternatives(builder: GrammarBuilder, parts: list[NodeId]) -> NodeId:
    if len(parts) == 1:
        return parts[0]
    kept = [part for part in dict.fromkeys(parts) if builder.nodes[part][0] != NEVER]
    return builder.alt(*kept)


def _repetition(builder: GrammarBuilder, body: NodeId, minimum: int, maximum: int) -> NodeId:
    node = builder.nodes[body]
    operator = node[0]
    if operator == EMPTY or (operator == NEVER and minimum):
        return body
    if operator == NEVER:
        return builder.empty()
    return builder.repeat(body, minimum, maximum)
