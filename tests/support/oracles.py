"""Independent oracles: what small grammars generate, found by brute force and by Python's `re`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from stackmask.pda.grammar import ALT, BYTES, CALL, CHARS, EMPTY, LITERAL, NEVER, REPEAT, SEQ, Grammar, GrammarBuilder, RuleId

Productions = tuple[tuple[str, ...], ...]  # of each nonterminal; capitals are nonterminals, other letters terminals


def cfg_grammar(rules: dict[str, Productions]) -> Grammar:
    """A context-free grammar in the textbook's form; the first nonterminal is the root."""
    builder = GrammarBuilder()
    numbers: dict[str, RuleId] = {name: builder.rule(name) for name in rules}
    for name, productions in rules.items():
        options = [
            builder.seq(
                *(builder.call(numbers[symbol]) if symbol in numbers else builder.literal(symbol.encode()) for symbol in production)
            )
            for production in productions
        ]
        builder.define(numbers[name], builder.alt(*options))
    return builder.build(next(iter(numbers.values())))


def cfg_prefixes(rules: dict[str, Productions], length: int) -> tuple[frozenset[str], frozenset[str]]:
    """The words of at most `length` letters that the first nonterminal generates, and those that begin a word of any length.

    Both are least fixed points of sets of short words: a word's parts are no longer than the word.
    """
    finite = _productive(rules)
    rules = {name: tuple(p for p in productions if finite.issuperset(filter(str.isupper, p))) for name, productions in rules.items()}
    words: dict[str, frozenset[str]] = {name: frozenset() for name in rules}
    starts = {name: frozenset({""}) if name in finite else frozenset() for name in rules}

    def concatenated(parts: Iterable[frozenset[str]]) -> frozenset[str]:
        result = frozenset({""})
        for part in parts:
            result = frozenset(a + b for a in result for b in part if len(a) + len(b) <= length)
        return result

    def of(table: dict[str, frozenset[str]], symbol: str) -> frozenset[str]:
        return table[symbol] if symbol in table else frozenset({symbol})

    changed = True
    while changed:
        changed = False
        for name, productions in rules.items():
            longer, further = words[name], starts[name]
            for production in productions:
                longer |= concatenated(of(words, symbol) for symbol in production)
                for i, symbol in enumerate(production):
                    begun = starts[symbol] if symbol in starts else frozenset({"", symbol})
                    further |= concatenated([*(of(words, before) for before in production[:i]), begun])
            if (longer, further) != (words[name], starts[name]):
                words[name], starts[name] = longer, further
                changed = True
    root = next(iter(rules))
    return words[root], starts[root]


def _productive(rules: dict[str, Productions]) -> set[str]:
    """The nonterminals that generate a finite word."""
    found: set[str] = set()
    while True:
        more = {name for name, productions in rules.items() if any(all(s in found or not s.isupper() for s in p) for p in productions)}
        if more == found:
            return found
        found = more


def is_quick_for_re(grammar: Grammar) -> bool:
    """Whether Python's `re`, which tries one way after the other, is sure to be done with `regex_of` in our lifetime."""

    def rounds(node: Any) -> int:
        operator, *arguments = grammar.nodes[node]
        if operator in (SEQ, ALT):
            return max(map(rounds, arguments), default=1)
        if operator == REPEAT:
            body, _, maximum = map(int, arguments)
            return rounds(body) * (8 if maximum < 0 else max(maximum, 1))
        return rounds(grammar.rules[int(arguments[0])]) if operator == CALL else 1

    return rounds(grammar.rules[grammar.root]) <= 100


def regex_of(grammar: Grammar) -> re.Pattern[bytes]:
    """The pattern of a grammar whose rules do not recur and whose characters are UTF-8."""

    def show(number: int) -> bytes:
        operator, *arguments = grammar.nodes[number]
        match operator:
            case _ if operator == EMPTY:
                return b""
            case _ if operator == NEVER:
                return b"(?!)"
            case _ if operator == LITERAL:
                assert isinstance(arguments[0], bytes)
                return re.escape(arguments[0])
            case _ if operator == BYTES:
                ranges = arguments[0]
                assert isinstance(ranges, tuple)
                return b"[" + b"".join(rb"\x%02x-\x%02x" % pair for pair in zip(ranges[::2], ranges[1::2], strict=True)) + b"]"
            case _ if operator == CHARS:
                ranges = arguments[0]
                assert isinstance(ranges, tuple)
                points = [p for lo, hi in zip(ranges[::2], ranges[1::2], strict=True) for p in range(lo, hi + 1)]
                assert len(points) < 5000, "an oracle for few characters"
                return b"(?:" + b"|".join(re.escape(chr(p).encode()) for p in points if not 0xD800 <= p < 0xE000) + b")"
            case _ if operator == SEQ:
                return b"".join(show(part) for part in arguments)  # type: ignore[arg-type]
            case _ if operator == ALT:
                return b"(?:" + b"|".join(show(part) for part in arguments) + b")"  # type: ignore[arg-type]
            case _ if operator == REPEAT:
                body, minimum, maximum = arguments
                assert isinstance(body, int)
                assert isinstance(minimum, int)
                assert isinstance(maximum, int)
                return b"(?:%s){%d,%s}" % (show(body), minimum, b"" if maximum < 0 else b"%d" % maximum)
            case _ if operator == CALL:
                rule = arguments[0]
                assert isinstance(rule, int)
                return b"(?:" + show(grammar.rules[rule]) + b")"
        raise ValueError(f"no pattern for operator {operator}")

    return re.compile(show(grammar.rules[grammar.root]), re.DOTALL)
