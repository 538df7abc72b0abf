"""Corpus files of grammars: expressions of the intermediate representation written as TOML arrays.

    "text"                                 LITERAL             [65, 255]                       LITERAL of bytes
    []                                     EMPTY               ["never"]                       NEVER
    ["bytes", lo, hi, ...]                 BYTES               ["chars", "json", lo, hi, ...]  CHARS
    ["seq", e, ...]  ["alt", e, ...]       SEQ, ALT            ["repeat", e, minimum, maximum] REPEAT
    ["call", "rule"]                       CALL                ["graph", n, [[s, t, e], ...]]  GRAPH; without e the edge reads nothing
    ["automaton", "utf8", [[[lo, hi, t], ...], ...], [true, ...]]                              AUTOMATON
                                           or with [..., minimum, maximum]                         of counted texts
    ["but", "json", "word", ...]           EXCEPT
    ["tokens", id, ...]  ["except", id, ...]                   TOKENS, negated
    ["permute", [[e, flags], ...], separator, minimum, maximum]
    ["scope", e]  ["distinct", e]
    ["limit", e, tokens]  ["capture", e, "name"]  ["temperature", e, value]

A text is a string, or an array of bytes.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stackmask.pda.grammar import JSON, JSON_ANY, RAW, UTF8, Grammar, GrammarBuilder, NodeId, RuleId
from stackmask.pda.operators import SIGNATURES, Op, Operand

CORPUS = Path(__file__).parents[1] / "corpus"
ENCODINGS = {"raw": RAW, "utf8": UTF8, "json": JSON, "json_any": JSON_ANY}


def cases(file: str) -> list[dict[str, Any]]:
    """The cases of a corpus file."""
    return list(tomllib.loads((CORPUS / file).read_text(encoding="utf-8"))["case"])


def read_text(text: str | list[int]) -> bytes:
    """A text of a corpus file."""
    return text.encode() if isinstance(text, str) else bytes(text)


def read_grammar(rules: dict[str, Any]) -> Grammar:
    """The grammar of a case; the first rule is the root."""
    builder = GrammarBuilder()
    numbers = {name: builder.rule(name) for name in rules}
    for name, expression in rules.items():
        builder.define(numbers[name], _node(builder, numbers, expression))
    return builder.build(next(iter(numbers.values())))


def _node(builder: GrammarBuilder, rules: dict[str, RuleId], expression: Any) -> NodeId:
    def node(part: Any) -> NodeId:
        return _node(builder, rules, part)

    if isinstance(expression, str):
        return builder.literal(expression.encode())
    if not expression:
        return builder.empty()
    if isinstance(expression[0], int):
        return builder.literal(bytes(expression))
    operator, *rest = expression
    match operator:
        case "bytes":
            return builder.bytes(tuple(rest))
        case "chars":
            return builder.chars(tuple(rest[1:]), ENCODINGS[rest[0]])
        case "graph":
            edges = [(edge[0], edge[1], node(edge[2]) if len(edge) > 2 else -1) for edge in rest[1]]
            return builder.graph(rest[0], tuple(number for edge in edges for number in edge))
        case "automaton":
            encoding, transitions, accepting, *bounds = rest
            moves = tuple(tuple((lo, hi, target) for lo, hi, target in state) for state in transitions)
            minimum, maximum = bounds or (0, -1)
            return builder.automaton(moves, tuple(accepting), ENCODINGS[encoding], minimum=minimum, maximum=maximum)
        case "but":
            return builder.except_words(rest[1:], ENCODINGS[rest[0]])
        case "tokens" | "except":
            return builder.tokens(tuple(rest), negated=operator == "except")
        case "limit":
            return builder.limit(node(rest[0]), tokens=rest[1])
        case "permute":
            members, separator, minimum, maximum = rest
            flat = tuple(number for member, flags in members for number in (node(member), flags))
            return builder.permute(flat, node(separator), minimum=minimum, maximum=maximum)
    return _by_table(builder, operator, rest, node, rules)


def _by_table(builder: GrammarBuilder, operator: str, values: list[Any], node: Callable[[Any], NodeId], rules: dict[str, RuleId]) -> NodeId:
    """A node whose values are written in the order of the table of operators."""
    if operator.upper() not in Op.__members__:
        raise ValueError(f"unknown operator {operator!r}")
    kinds = SIGNATURES[Op[operator.upper()]].operands
    if kinds == (Operand.NODES,):
        kinds *= len(values)
    read = {Operand.NODE: node, Operand.NODES: node, Operand.RULE: rules.__getitem__}
    operands = [read[kind](value) if kind in read else value for kind, value in zip(kinds, values, strict=True)]
    built: NodeId = getattr(builder, operator)(*operands)
    return built
