"""From a regular expression to nodes of a grammar: the syntax tree node by node, without an automaton.

It takes patterns whose only assertions are anchors at the ends of the outermost branches, see branches.py.
Bounded repetition stays REPEAT, so a count costs nothing however large it is.
Patterns with other assertions become automata: to_nfa.py and assertions.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import inf
from typing import Final

from ..automata.charset import ANY
from ..budget import Budget
from ..grammar import EMPTY, JSON, NEVER, REPEAT, SEQ, UTF8, GrammarBuilder, Node, NodeId
from .ast import Alt, Ast, AstId, AstNode, Atomic, Chars, Repeat, Seq, Text
from .branches import Branch
from .earliest import match_earliest

# Characters that have more than one spelling, or an escaped one, inside a JSON string.
_ESCAPED: Final = re.compile(r'[\x00-\x1f"\\/]')


def emit(builder: GrammarBuilder, ast: Ast, branches: list[Branch], *, search: bool, encoding: int, budget: Budget) -> NodeId:
    """The node of a pattern given by its outermost branches; with `search` other text may stand beside the match."""
    nodes = _emit_parts(builder, ast, [part for branch in branches for part in branch.parts], encoding, budget)
    groups: dict[tuple[bool, bool], list[NodeId]] = {}
    for parts, starts, ends in branches:
        key = (starts, ends) if search else (True, True)
        groups.setdefault(key, []).append(_sequence(builder, match_earliest(builder, ast, parts, nodes, encoding, budget)))
    whole: list[NodeId] = []
    for (starts, ends), members in groups.items():
        middle = _alternatives(builder, members)
        if search and not (starts and ends):
            beside = builder.repeat(builder.chars(ANY, encoding))
            middle = _sequence(builder, [*([] if starts else [beside]), middle, *([] if ends else [beside])])
        whole.append(middle)
    return _alternatives(builder, whole)


def _emit_parts(builder: GrammarBuilder, ast: Ast, roots: list[AstId], encoding: int, budget: Budget) -> list[NodeId]:
    """The nodes of parts and of all that they hold; -1 for nodes of the tree that no part holds."""
    # PERF: isinstance instead of class patterns, which cost 0.5 us a node more; this is on the way to the first mask.
    nodes = ast.nodes
    emitted = [NodeId(-1)] * len(nodes)
    for index in held(nodes, roots):
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
            emitted[index] = _sequence(builder, match_earliest(builder, ast, node.parts, emitted, encoding, budget))
        elif isinstance(node, Alt):
            emitted[index] = _alternatives(builder, [emitted[part] for part in node.parts])
        else:
            assert isinstance(node, Atomic), "outer_branches lets no assertion through"
            emitted[index] = emitted[node.body]
    return emitted


def held(nodes: tuple[AstNode, ...], roots: list[AstId]) -> Iterable[int]:
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
    return builder.alt(*_with_shared_loops(builder, _with_united_counts(builder, kept)))


def _with_united_counts(builder: GrammarBuilder, parts: list[NodeId]) -> list[NodeId]:
    """Alternatives where counts of the same that leave no gap became one: `a{3}|a{4,6}|a` is `a{3,6}|a`.

    PERF: `(a{1}|a{2}|...|a{95}){95}` had steps of 300 ms, since a state held every way to have counted.
    """
    nodes = builder.nodes
    counts: dict[NodeId, list[tuple[int, float]]] = {}
    for part in parts:
        node = nodes[part]
        if node[0] == REPEAT:
            counts.setdefault(node[1], []).append((node[2], inf if node[3] < 0 else node[3]))
    if not counts or len(parts) < 2:
        return parts
    for part in parts:
        if part in counts:
            counts[part].append((1, 1))
    united: list[NodeId] = []
    done: set[NodeId] = set()
    for part in parts:
        node = nodes[part]
        body = node[1] if node[0] == REPEAT else part
        if body not in counts:
            united.append(part)
        elif body not in done:
            done.add(body)
            united += [builder.repeat(body, least, -1 if most == inf else int(most)) for least, most in _joined(counts[body])]
    return united


def _joined(counts: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Ranges of counts, of which those that leave no gap between them became one."""
    joined: list[tuple[int, float]] = []
    for least, most in sorted(counts):
        if joined and least <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], most))
        else:
            joined.append((least, most))
    return joined


def _with_shared_loops(builder: GrammarBuilder, parts: list[NodeId]) -> list[NodeId]:
    """Alternatives where those that begin and end with the same loops became one: `.*a.*|.*b.*` is `.*(a|b).*`.

    PERF: otherwise a state holds each of these loops: two times any of 71 words in any text had steps of 70 ms.
    """
    nodes = builder.nodes
    groups: dict[tuple[NodeId, NodeId], list[NodeId]] = {}
    for part in parts:
        node = nodes[part]
        first = node[1] if node[0] == SEQ and _is_loop(nodes[node[1]]) else _NO_LOOP
        last = node[-1] if node[0] == SEQ and _is_loop(nodes[node[-1]]) else _NO_LOOP
        groups.setdefault((first, last), []).append(part)
    if len(groups) == len(parts):
        return parts
    shared: list[NodeId] = []
    for (first, last), its in groups.items():
        if len(its) == 1 or first == last == _NO_LOOP:
            shared += its
            continue
        begin, end = int(first >= 0), -1 if last >= 0 else None
        inner = dict.fromkeys([builder.seq(*nodes[part][1 + begin : end]) for part in its])
        shared.append(builder.seq(*([first] if begin else []), builder.alt(*inner), *([last] if end else [])))
    return shared


_NO_LOOP: Final = NodeId(-1)


def _is_loop(node: Node) -> bool:
    return bool(node[0] == REPEAT and node[3] < 0)


def _repetition(builder: GrammarBuilder, body: NodeId, minimum: int, maximum: int) -> NodeId:
    node = builder.nodes[body]
    operator = node[0]
    if operator == EMPTY or (operator == NEVER and minimum):
        return body
    if operator == NEVER:
        return builder.empty()
    return builder.repeat(body, minimum, maximum)
