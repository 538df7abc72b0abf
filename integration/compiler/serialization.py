r"""Grammars as bytes, to be kept in a file or sent to another process, and back again.

    "stackmask grammar\n"  version  length of the rest  SHA-256 of the rest  JSON: vocabulary, kind, report, root, rules, names, nodes

The hash finds damage, it is no signature.
So what comes back is data from anywhere: every node is checked for its shape, its numbers for their range, and its parts for lying
before it in the table, which excludes cycles.
What passes is a grammar that any front end could have made, and the engine is bounded by its limits.
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
    built = tuple(_check_node(node, _Place(index, len(rules), size, limits.states)) for index, node in enumerate(nodes))
    return Grammar(built, tuple(map(NodeId, rules)), tuple(names), RuleId(content["root"])), _report(content["report"]), kind


def _report(entries: Any) -> Report | None:
    """A report out of its entries."""
    if entries is None:
        return None
    _require(isinstance(entries, list) and all(isinstance(entry, list) and len(entry) == 4 for entry in entries), "its report")
    _require(all(isinstance(field, str) for entry in entries for field in entry), "its report")
    return Report.of(tuple(Entry(*entry) for entry in entries))


def _content(data: bytes, limits: Limits) -> dict[str, Any]:
    """The JSON object inside the envelope."""
    start = len(_MAGIC) + _HEADER.size
    if not isinstance(data, bytes) or not data.startswith(_MAGIC) or len(data) < start:
        raise GrammarError("these bytes are no compiled grammar")
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
    raise GrammarError(f"the bytes are no grammar: {what} cannot be")


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


def _are_bounds(minimum: Any, maximum: Any) -> bool:
    """Whether these are a minimum and a maximum, -1 for none."""
    return _is_index(minimum, _LARGEST) and type(maximum) is int and (maximum == -1 or minimum <= maximum < _LARGEST)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a node stands: its parts lie before `index`; rules, token ids and states are below these numbers."""

    index: int
    rules: int
    tokens: int
    states: int

    def holds(self, nodes: object) -> bool:
        """Whether these are nodes that lie before this one."""
        return isinstance(nodes, list) and all(_is_index(node, self.index) for node in nodes)


def _literal(place: _Place, text: Any) -> Node | None:
    return (ir.LITERAL, text.encode("latin-1")) if isinstance(text, str) and text and max(text) < "\u0100" else None


def _bytes(place: _Place, ranges: Any) -> Node | None:
    return (ir.BYTES, tuple(ranges)) if _are_ranges(ranges, 0xFF) else None


def _chars(place: _Place, ranges: Any, encoding: object) -> Node | None:
    fits = _are_ranges(ranges, 0x10FFFF) and _is_index(encoding, ir.JSON_ANY + 1) and encoding != ir.RAW
    return (ir.CHARS, tuple(ranges), encoding) if fits else None


def _repeat(place: _Place, node: object, minimum: Any, maximum: Any) -> Node | None:
    return (ir.REPEAT, node, minimum, maximum) if place.holds([node]) and _are_bounds(minimum, maximum) else None


def _call(place: _Place, rule: object) -> Node | None:
    return (ir.CALL, rule) if _is_index(rule, place.rules) else None


def _graph(place: _Place, states: Any, edges: Any) -> Node | None:
    if not _is_index(states, place.states + 1) or states < 2 or not isinstance(edges, list) or len(edges) % 3:
        return None
    ends = all(_is_index(state, states) for end in (0, 1) for state in edges[end::3])
    reads = place.holds([node for node in edges[2::3] if node != -1])
    return (ir.GRAPH, states, tuple(edges)) if ends and reads else None


def _automaton(place: _Place, transitions: Any, accepting: Any, encoding: Any, *bounds: Any) -> Node | None:
    lists = isinstance(transitions, list) and isinstance(accepting, list) and 0 < len(transitions) == len(accepting)
    if not lists or not _is_index(encoding, ir.JSON_ANY + 1) or not all(type(state) is bool for state in accepting):
        return None
    highest = 0xFF if encoding == ir.RAW else 0x10FFFF
    for row in transitions:
        if not isinstance(row, list) or not all(isinstance(edge, list) and len(edge) == 3 for edge in row):
            return None
        if row and not _are_ranges([bound for edge in row for bound in edge[:2]], highest):
            return None
        if not all(_is_index(edge[2], len(transitions)) for edge in row):
            return None
    moves, ends = tuple(tuple(map(tuple, row)) for row in transitions), tuple(accepting)
    if bounds and not (_are_bounds(*bounds) and _is_counted(Dfa(moves, ends), *bounds)):
        return None
    return (ir.AUTOMATON, moves, ends, encoding, *bounds)


def _is_counted(automaton: Dfa, minimum: int, maximum: int) -> bool:
    """Whether the bounds of a counted automaton keep the invariant of the IR."""
    return minimum <= 0 or maximum < 0 or not skips_lengths(automaton, maximum - minimum + 1)


def _except(place: _Place, words: Any, encoding: Any) -> Node | None:
    fits = isinstance(words, list) and all(isinstance(word, str) and not _has_surrogate(word) for word in words)
    fits = fits and all(word < following for word, following in pairwise(words))
    return (ir.EXCEPT, tuple(words), encoding) if fits and _is_index(encoding, ir.JSON_ANY + 1) and encoding != ir.RAW else None


def _has_surrogate(word: str) -> bool:
    """Whether a string is no text."""
    return not word.isascii() and any("\ud800" <= character <= "\udfff" for character in word)


def _tokens(place: _Place, ids: Any, negated: Any) -> Node | None:
    fits = isinstance(ids, list) and all(_is_index(token, place.tokens) for token in ids) and _is_index(negated, 2)
    return (ir.TOKENS, tuple(ids), negated) if fits else None


def _permute(place: _Place, members: Any, separator: object, minimum: Any, maximum: Any) -> Node | None:
    fits = isinstance(members, list) and not len(members) % 2 and place.holds([*members[::2], separator]) and _are_bounds(minimum, maximum)
    return (
        (ir.PERMUTE, tuple(members), separator, minimum, maximum) if fits and all(_is_index(flags, 4) for flags in members[1::2]) else None
    )


def _limit(place: _Place, node: object, tokens: object) -> Node | None:
    return (ir.LIMIT, node, tokens) if place.holds([node]) and _is_index(tokens, _LARGEST) else None


def _capture(place: _Place, node: object, name: object) -> Node | None:
    return (ir.CAPTURE, node, name) if place.holds([node]) and isinstance(name, str) else None


def _temperature(place: _Place, node: object, value: Any) -> Node | None:
    return (ir.TEMPERATURE, node, value) if place.holds([node]) and type(value) is float and 0 <= value < inf else None


def _check_node(node: Any, place: _Place) -> Node:
    """A node as the IR has it."""
    operator = node[0] if isinstance(node, list) and node else None
    checked: Node | None = None
    if _is_index(operator, ir.EXCEPT + 1):
        arguments = node[1:]
        if operator in _ARGUMENTS:
            counts, check = _ARGUMENTS[operator]
            checked = check(place, *arguments) if len(arguments) in counts else None
        elif operator in (ir.SEQ, ir.ALT):
            checked = (operator, *arguments) if arguments and place.holds(arguments) else None
        else:  # EMPTY and NEVER hold nothing, SCOPE and DISTINCT one node
            checked = (operator, *arguments) if len(arguments) == (operator in (ir.SCOPE, ir.DISTINCT)) and place.holds(arguments) else None
    if checked is None:
        _malformed(f"node {place.index}")
    return checked


_ARGUMENTS: Final[dict[int, tuple[tuple[int, ...], Callable[..., Node | None]]]] = {
    ir.LITERAL: ((1,), _literal),
    ir.BYTES: ((1,), _bytes),
    ir.CHARS: ((2,), _chars),
    ir.REPEAT: ((3,), _repeat),
    ir.CALL: ((1,), _call),
    ir.GRAPH: ((2,), _graph),
    ir.AUTOMATON: ((3, 5), _automaton),
    ir.LIMIT: ((2,), _limit),
    ir.CAPTURE: ((2,), _capture),
    ir.TEMPERATURE: ((2,), _temperature),
    ir.EXCEPT: ((2,), _except),
    ir.TOKENS: ((2,), _tokens),
    ir.PERMUTE: ((4,), _permute),
}
