r"""Grammars as bytes, for a file or another process, and back.

    "stackmask grammar\n"  version  length of the rest  SHA-256 of the rest  JSON: vocabulary, kind, report, root, rules, names, nodes

The hash detects damage; it is not a signature.
So the bytes may come from anywhere: every operand of a node is checked by its kind in the table of operators, and the nodes that a node
refers to must lie before it, which excludes cycles.
A front end could have made any grammar that passes, and the limits of the engine bound it.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Any, Final, NoReturn

from ...pda import grammar as ir
from ...pda.automata.dfa import Dfa
from ...pda.automata.language import skips_lengths
from ...pda.exceptions import GrammarError, LimitError
from ...pda.grammar import Grammar, Node, NodeId, RuleId
from ...pda.limits import Limits
from ...pda.operators import ENCODINGS, SIGNATURES, Operand
from ...schema.dialect.report import Entry, Report

VERSION: Final = 1
_MAGIC: Final = b"stackmask grammar\n"
_HEADER: Final = struct.Struct("<HQ32s")
_LARGEST: Final = (1 << 31) - 1


def to_bytes(grammar: Grammar, report: Report | None, *, vocabulary: str, kind: str) -> bytes:
    """A grammar and its report, with the fingerprint of its vocabulary and the kind of its specification."""
    entries = None if report is None else [[entry.pointer, entry.keyword, entry.status, entry.note] for entry in report]
    nodes = [[node[0], node[1].decode("latin-1")] if node[0] == ir.LITERAL else node for node in grammar.nodes]
    tables = {"root": grammar.root, "rules": grammar.rules, "names": grammar.names, "nodes": nodes}
    content = {"vocabulary": vocabulary, "kind": kind, "report": entries, **tables}
    payload = json.dumps(content, separators=(",", ":")).encode()
    return _MAGIC + _HEADER.pack(VERSION, len(payload), hashlib.sha256(payload).digest()) + payload


def from_bytes(data: bytes, *, vocabulary: str, size: int, limits: Limits) -> tuple[Grammar, Report | None, str]:
    """The grammar, report and kind that `to_bytes` wrote, for the same vocabulary, whose ids lie below `size`."""
    content = _content(data, limits)
    if content["vocabulary"] != vocabulary:
        raise GrammarError("the grammar was compiled for another vocabulary")
    rules, names, nodes, kind = content["rules"], content["names"], content["nodes"], content["kind"]
    _require(all(isinstance(part, list) for part in (rules, names, nodes)) and isinstance(kind, str), "its parts")
    if len(rules) > limits.rules:
        raise LimitError(f"the grammar has {len(rules)} rules, more than {limits.rules}", limit="rules", value=limits.rules)
    _require(len(rules) == len(names) and all(isinstance(name, str) for name in names), "its names")
    _require(all(_is_index(rule, len(nodes)) for rule in rules), "its rules")
    _require(_is_index(content["root"], len(rules)), "its root")
    built = tuple(_check_node(node, _Context(index, len(rules), size, limits.states)) for index, node in enumerate(nodes))
    return Grammar(built, tuple(map(NodeId, rules)), tuple(names), RuleId(content["root"])), _report(content["report"]), kind


def _report(entries: Any) -> Report | None:
    """A report from its entries."""
    if entries is None:
        return None
    _require(isinstance(entries, list) and all(isinstance(entry, list) and len(entry) == 4 for entry in entries), "its report")
    _require(all(isinstance(field, str) for entry in entries for field in entry), "its report")
    return Report.of(tuple(Entry(*entry) for entry in entries))


def _content(data: bytes, limits: Limits) -> dict[str, Any]:
    """The JSON object inside the envelope."""
    start = len(_MAGIC) + _HEADER.size
    if not isinstance(data, bytes) or not data.startswith(_MAGIC) or len(data) < start:
        raise GrammarError("these bytes are not a compiled grammar")
    if len(data) > limits.grammar_bytes:
        raise LimitError(f"the grammar takes {len(data)} bytes", limit="grammar_bytes", value=limits.grammar_bytes)
    version, length, digest = _HEADER.unpack_from(data, len(_MAGIC))
    if version != VERSION:
        raise GrammarError(f"the grammar is of version {version}; this stackmask reads version {VERSION}")
    payload = data[start:]
    if len(payload) != length or hashlib.sha256(payload).digest() != digest:
        raise GrammarError("the bytes of the grammar are damaged")
    try:
        content = json.loads(payload, parse_constant=_malformed)
    except (ValueError, RecursionError):
        _malformed("its JSON")
    fields = {"vocabulary", "kind", "report", "root", "rules", "names", "nodes"}
    if not isinstance(content, dict) or content.keys() != fields:
        _malformed("its fields")
    return content


def _malformed(what: object) -> NoReturn:
    raise GrammarError(f"the bytes are not a grammar: {what} cannot be read")


def _require(condition: bool, what: str) -> None:
    if not condition:
        _malformed(what)


def _is_index(value: object, end: int) -> bool:
    return type(value) is int and 0 <= value < end


def _are_ranges(value: object, highest: int) -> bool:
    """Whether these are inclusive ranges (lo, hi, lo, hi, ...), sorted and disjoint."""
    if not isinstance(value, list) or not value or len(value) % 2 or not all(_is_index(bound, highest + 1) for bound in value):
        return False
    pairs = list(zip(value[::2], value[1::2], strict=True))
    return all(low <= high for low, high in pairs) and all(before[1] < after[0] for before, after in pairwise(pairs))


@dataclass(frozen=True, slots=True)
class _Context:
    """The node being read: it refers to nodes before `index`; rules, token ids and states are below these numbers."""

    index: int
    rules: int
    tokens: int
    states: int

    def require(self, condition: bool, operand: Operand) -> None:
        """Refuse the node unless the operand fits."""
        if not condition:
            _malformed(f"node {self.index} ({operand.value})")

    def holds(self, nodes: object) -> bool:
        """Whether these are nodes that lie before this one."""
        return isinstance(nodes, list) and all(_is_index(node, self.index) for node in nodes)


def _edges(context: _Context, edges: Any, states: int) -> bool:
    if not isinstance(edges, list) or len(edges) % 3:
        return False
    ends = all(_is_index(state, states) for end in (0, 1) for state in edges[end::3])
    return ends and context.holds([node for node in edges[2::3] if node != -1])


def _transitions(context: _Context, transitions: Any) -> bool:
    if not isinstance(transitions, list) or not transitions:
        return False
    for row in transitions:
        if not isinstance(row, list) or not all(isinstance(edge, list) and len(edge) == 3 for edge in row):
            return False
        if row and not _are_ranges([bound for edge in row for bound in edge[:2]], 0x10FFFF):
            return False
        if not all(_is_index(edge[2], len(transitions)) for edge in row):
            return False
    return True


def _accepting(context: _Context, accepting: Any, transitions: Any) -> bool:
    return isinstance(accepting, list) and len(accepting) == len(transitions) and all(type(state) is bool for state in accepting)


def _words(context: _Context, words: Any) -> bool:
    texts = isinstance(words, list) and all(isinstance(word, str) and not _has_surrogate(word) for word in words)
    return texts and all(word < following for word, following in pairwise(words))


def _has_surrogate(word: str) -> bool:
    """Whether a string contains a surrogate, and so is not text."""
    return not word.isascii() and any("\ud800" <= character <= "\udfff" for character in word)


def _members(context: _Context, members: Any) -> bool:
    pairs = isinstance(members, list) and not len(members) % 2
    return pairs and context.holds(members[::2]) and all(_is_index(flags, (ir.REQUIRED | ir.REPEATABLE) + 1) for flags in members[1::2])


def _maximum(context: _Context, maximum: Any, minimum: int) -> bool:
    return type(maximum) is int and (maximum == -1 or minimum <= maximum < _LARGEST)


_FITS: Final[dict[Operand, Callable[..., bool]]] = {
    Operand.NODE: lambda context, node: _is_index(node, context.index),
    Operand.RULE: lambda context, rule: _is_index(rule, context.rules),
    Operand.DATA: lambda context, text: isinstance(text, str) and bool(text) and max(text) < "\u0100",
    Operand.BYTE_RANGES: lambda context, ranges: _are_ranges(ranges, 0xFF),
    Operand.CHAR_RANGES: lambda context, ranges: _are_ranges(ranges, 0x10FFFF),
    Operand.ENCODING: lambda context, encoding: _is_index(encoding, len(ENCODINGS)),
    Operand.MINIMUM: lambda context, minimum: _is_index(minimum, _LARGEST),
    Operand.MAXIMUM: _maximum,
    Operand.STATES: lambda context, states: _is_index(states, context.states + 1) and states >= 2,
    Operand.EDGES: _edges,
    Operand.TRANSITIONS: _transitions,
    Operand.ACCEPTING: _accepting,
    Operand.WORDS: _words,
    Operand.TOKEN_IDS: lambda context, ids: isinstance(ids, list) and all(_is_index(token, context.tokens) for token in ids),
    Operand.NEGATION: lambda context, negation: _is_index(negation, 3),
    Operand.MEMBERS: _members,
    Operand.TOKENS: lambda context, tokens: _is_index(tokens, _LARGEST),
    Operand.NAME: lambda context, name: isinstance(name, str),
    Operand.TEMPERATURE: lambda context, value: type(value) is float and 0 <= value < inf,
}
"""Whether a value is an operand of a kind; one of `_WITH_PREVIOUS` is checked against the operand before it."""
_WITH_PREVIOUS: Final = frozenset({Operand.MAXIMUM, Operand.EDGES, Operand.ACCEPTING})


def _check_node(node: Any, context: _Context) -> Node:
    """A node as the IR has it."""
    if not isinstance(node, list) or not node or not _is_index(node[0], len(SIGNATURES)):
        _malformed(f"node {context.index}")
    operator, *values = node
    kinds, optional = SIGNATURES[operator]
    if kinds == (Operand.NODES,):
        context.require(bool(values) and context.holds(values), Operand.NODES)
        return (operator, *values)
    if len(values) not in (len(kinds), len(kinds) - optional):
        _malformed(f"node {context.index}")
    for i, (kind, value) in enumerate(zip(kinds, values, strict=False)):
        previous = values[i - 1 : i] if kind in _WITH_PREVIOUS else ()
        context.require(_FITS[kind](context, value, *previous), kind)
    context.require(operator not in (ir.CHARS, ir.EXCEPT) or values[-1] != ir.RAW, Operand.ENCODING)
    if operator == ir.LITERAL:
        return (operator, values[0].encode("latin-1"))
    if operator == ir.AUTOMATON:
        return _automaton(context, *values)
    return (operator, *(tuple(value) if isinstance(value, list) else value for value in values))


def _automaton(context: _Context, transitions: Any, accepting: Any, encoding: int, *bounds: int) -> Node:
    """An automaton, whose ranges fit its encoding; a counted one keeps the invariant of the IR."""
    moves, ends = tuple(tuple(map(tuple, row)) for row in transitions), tuple(accepting)
    context.require(encoding != ir.RAW or all(high <= 0xFF for row in moves for _, high, _ in row), Operand.TRANSITIONS)
    if bounds:
        minimum, maximum = bounds
        is_counted = minimum <= 0 or maximum < 0 or not skips_lengths(Dfa(moves, ends), maximum - minimum + 1)
        context.require(is_counted, Operand.MAXIMUM)
    return (ir.AUTOMATON, moves, ends, encoding, *bounds)
