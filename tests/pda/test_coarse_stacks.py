"""Ambiguous grammars, in which very many stacks and ways lead to one place: masks say what trying every token says, and cost little."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from support.engines import Engine, check_mask, load_engine, prepare

from stackmask.pda.ebnf import ebnf_grammar
from stackmask.pda.grammar import GrammarBuilder
from stackmask.schema.json_schema import json_schema_grammar

LETTERS = "ab ,c"
WORDS = ["".join(word) for size in (1, 2, 3) for word in product(LETTERS, repeat=size)]
TOKENS: list[bytes | None] = [
    *map(str.encode, [*WORDS, *("a" * n for n in range(4, 20)), *("ab" * n for n in range(2, 12)), "abé", "é"]),
    None,
]

GRAMMARS = {
    "counts in counts": "root ::= x{1,12}\nx ::= y{1,12}\ny ::= z{2,5}\nz ::= [ab]{1,3} ' '? | ','",
    "counts that no token reaches": "root ::= x{0,300} 'c'\nx ::= y{1,200} ' '\ny ::= [ab] | 'ba' | '(' root ')'",
    "counts with gaps": "root ::= x{2,9} ','\nx ::= ('ab' | 'a'){3} | 'b'{4,5} ' '",
    "calls itself": "root ::= ([ab] | root | 'ba'){2,5} ([ab] | ',')",
    "sums": "root ::= root ',' root | root ' ' root | [ab]+ | 'c' root 'c'",
    "empty rules": "root ::= p q r p q r\np ::= '' | [ab] p\nq ::= '' | [ab ] q\nr ::= '' | [a,] r",
    "limits": "root ::= a+\na[max_tokens=9] ::= b+\nb[max_tokens=4] ::= c+ | b b\nc[max_tokens=2] ::= [ab]+ | c [ ]",
    "levels": (
        "root ::= p | 'a' p 'b'\np ::= q | 'a' q 'b'\nq ::= r (',' r)* | 'a' r 'b'\n"
        "r ::= s s? | 'a' (s (',' s)*)? 'b'\ns ::= [ab] | 'c' root 'c'"
    ),
    "limits in counts": "root ::= x{1,40} 'c'\nx[max_tokens=3] ::= y{1,30} ' '?\ny[max_tokens=2] ::= [ab] | 'ab'",
}
LOW = {
    "covered_nodes": 0,
    "many_places": 0,
    "listed_tokens": 0,
    "many_nodes": 1,
    "unrolled_states": 2,
    "shared_states": 2,
    "inlined_states": 2,
}


def walk(at: Any, *, tokens: list[int]) -> None:
    """Along these tokens, as far as they are allowed, each mask is that of trying."""
    for token in [*tokens, -1]:
        check_mask(at, TOKENS)
        if token < 0 or not at.accept_token(token):
            return


@pytest.mark.parametrize("thresholds", [{}, LOW, {"covered_nodes": 0}, {"many_places": 2}], ids=["as always", "low", "covered", "united"])
@pytest.mark.parametrize("name", GRAMMARS)
def test_masks_of_ambiguous_grammars(kernel: Engine, name: str, thresholds: dict[str, int]) -> None:
    """Behind random words."""
    trie = kernel.TokenTrie(TOKENS, len(TOKENS), thresholds=thresholds)
    prepared = kernel.KernelGrammar(trie, ebnf_grammar(GRAMMARS[name]), states=200_000, stack_depth=1000, memory=64 << 20, seconds=30)
    start = kernel.Matcher(prepared, [len(TOKENS) - 1])
    place = {token: number for number, token in enumerate(TOKENS)}
    random = Random(name)
    for _ in range(20):
        words = random.choices([b"a", b"ab", b"b ", b"aaaa", b"abab", b",", b"c"], k=4)
        walk(start.fork(), tokens=[place[word] for word in words])
    if name in ("counts in counts", "calls itself") and "covered_nodes" in thresholds:
        assert prepared.statistics["covered"] > 0
    if name in ("levels", "calls itself") and "many_places" in thresholds:
        assert prepared.statistics["united_calls"] > 0


LEVELS: dict[str, tuple[str, str, list[bytes | None], tuple[int, ...]]] = {
    "lists in brackets": (
        'l{0} ::= "(" (l{1} ("," l{1})*)? ")" | l{1}',
        '[0-9]+ | "[" root "]"',
        [b"(", b"((", b"(((", b"((((", b"1", b",", b")", b"(1,", None],
        (1, 0, 4, 5),
    ),
    "rules that skip levels": (
        'l{0} ::= l{1} | l{2} | "a" l{0} "b" | l{3} "c"',
        '"x" | "(" root ")"',
        [b"a", b"aa", b"aaaa", b"x", b"xcb", b"c", b"cbcb", b"b", b"bbb", b"(a", b"cc", None],
        (2, 0, 9, 1, 4, 5, 7),
    ),
}
"""The rule of a level by its number and those of the next three, that of the last level, tokens, and those of the text."""


@pytest.mark.parametrize("name", LEVELS)
def test_calls_of_levels_are_united(kernel: Engine, name: str) -> None:
    """Twice as many levels take three to four times the work: each rule has few places at a node, whatever called it."""
    rule, last, tokens, text = LEVELS[name]
    work: list[int] = []
    for levels in (60, 120):
        rules = [rule.format(*(min(n + further, levels) for further in range(4))) for n in range(levels)]
        grammar = ebnf_grammar("\n".join(["root ::= l0", *rules, f"l{levels} ::= {last}"]))
        prepared = prepare(kernel, grammar, tokens)
        at = kernel.Matcher(prepared, [len(tokens) - 1])
        rows = np.zeros((2, 1), np.int32)
        before = prepared.statistics["work"]
        for token in text:
            at.fill_next_token_bitmask(rows, 0)
            assert at.accept_token(token)
        work.append(prepared.statistics["work"] - before)
        assert prepared.statistics["united_calls"] > levels
        at.fill_next_token_bitmask(rows, 0)
        at.fill_by_trial(rows, 1)
        assert rows[0].tolist() == rows[1].tolist()
    assert work[1] < 5 * work[0]


def test_masks_of_words_of_an_automaton(kernel: Engine) -> None:
    """Nodes are skipped where no more tokens are allowed, and not where the letters of their tokens are those of an automaton alone."""
    b = GrammarBuilder()
    root, inner = b.rule("root"), b.rule("inner")
    word = b.automaton((((0x20, 0x7A, 0),),), (True,), minimum=1, maximum=2)
    b.define(inner, b.repeat(b.alt(word, b.literal(b",")), 2, 5))
    b.define(root, b.repeat(b.alt(b.call(inner), b.seq(b.call(inner), b.literal(b",")), b.call(root)), 1, 12))
    trie = kernel.TokenTrie(TOKENS, len(TOKENS), thresholds={"covered_nodes": 0})
    prepared = kernel.KernelGrammar(trie, b.build(root), states=200_000, stack_depth=1000, memory=64 << 20, seconds=30)
    start, random = kernel.Matcher(prepared, [len(TOKENS) - 1]), Random(1)
    for _ in range(5):
        walk(start.fork(), tokens=random.choices(range(len(TOKENS) - 1), k=4))
    assert prepared.statistics["covered"] > 0


def test_stacks_that_differ_in_counts_share_masks(kernel: Engine) -> None:
    """Far from their bounds counts of rules in rules make configurations, and no masks."""
    grammar = ebnf_grammar("root ::= (x ','){0,900}\nx ::= (y ' '){0,900}\ny ::= '(' root ')' | 'a'")
    prepared = prepare(kernel, grammar, TOKENS)
    at = kernel.Matcher(prepared, [len(TOKENS) - 1])
    row = np.zeros((1, (len(TOKENS) + 31) // 32), np.int32)
    for _ in range(100):
        assert at.accept_bytes(b"a a ,")
        at.fill_next_token_bitmask(row)
    counts = prepared.statistics
    assert counts["configurations"] > 300 and counts["masks"] < 20


def test_limits_make_no_masks(kernel: Engine) -> None:
    """Where a text with a limit began makes configurations, and no masks."""
    prepared = prepare(kernel, ebnf_grammar("root ::= x+\nx[max_tokens=500] ::= [ab]+ y?\ny[max_tokens=300] ::= [ab]+ ' '?"), TOKENS)
    at = kernel.Matcher(prepared, [len(TOKENS) - 1])
    row = np.zeros((1, (len(TOKENS) + 31) // 32), np.int32)
    for _ in range(60):
        assert at.accept_token(0)
        at.fill_next_token_bitmask(row)
    counts = prepared.statistics
    assert counts["configurations"] > 60 and counts["masks"] < 10


def test_values_of_one_token_are_not_covered() -> None:
    """A token that completes a value seen before is refused, also where another way to it was taken first."""
    grammar = json_schema_grammar({"uniqueItems": True})[0]
    kernel, tokens = load_engine("kernel"), [b",[]", b"[[", b"]"]
    for covered_nodes in (1, 1024):
        trie = kernel.TokenTrie(tokens, len(tokens), thresholds={"covered_nodes": covered_nodes})
        prepared = kernel.KernelGrammar(trie, grammar, states=1_000_000, stack_depth=1000, memory=64 << 20, seconds=30)
        here = kernel.Matcher(prepared, [])
        assert here.accept_token(1) and here.accept_token(2)
        assert here.allowed_tokens() == [2]
        assert not here.accept_token(0)
