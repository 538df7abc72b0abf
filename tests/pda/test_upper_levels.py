"""Masks that are found by the upper levels of a stack: they say what trying every token says, and deep structures share them."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from support.engines import Engine, check_mask, prepare

from stackmask.pda.ebnf import ebnf_grammar

BRACKETS: list[bytes | None] = [
    *("".join(each).encode() for size in (1, 2, 3, 4) for each in product(")]", repeat=size)),
    *(b"(", b"[", b"()", b"[]", b"x", b"xx", b"x(x", b"x[x])", b"x)", b"x]]", b"])])])", b"(x", b"[(]", b"[x]))", b"),", b"],(", b",x)"),
    None,
]
GRAMMARS = {
    "brackets of two kinds": "root ::= '(' root? ')' | '[' root? ']' | 'x'",
    "lists in brackets": "root ::= '(' (root (',' root)*)? ')' | '[' root ']' | 'x'",
    "rules called from several rules": (
        "root ::= '(' p ')' | '[' q ']' | 'x'\np ::= root ',' q | '[' q\nq ::= '(' root ')' | '[' p ']' | 'x'"
    ),
    "rules that end with a rule": "root ::= '(' p | '[' q | 'x'\np ::= root r\nq ::= r | root ']'\nr ::= ')' | ',' root ')'",
    "states that may end": "root ::= '(' root ')' | '(' root | '[' root (']' root?)? | 'x'",
    "stacks of several edges": "root ::= '(' root ')' | '(' root ']' | '[' root? ']' | '[' root ')' | 'x'",
    "rules that call one rule": "root ::= '(' p ')' | '(' q ']' | 'x'\np ::= root | '[' root ',' root\nq ::= root | '[' root ']' | '[' p",
    "two ways each": "root ::= '(' root ')' | '(' root | '[' root ']' | '[' root | 'x'",
    "two ways of one": "root ::= '(' root ')' | '(' root | '[' root ']' | 'x'",
    "two ends": "root ::= '(' root (')' | ']') | '(' root | '[' root ']'? | 'x'",
    "sequences of itself": "root ::= '(' root ')' | '[' root ']' | root root | 'x'",
    "ends of several rules": "root ::= '(' p ')' | '(' q | '[' root | 'x'\np ::= root | '[' root ']'?\nq ::= root | '[' p ')'?",
    "calls below an end": "root ::= '(' root root? | '[' root ']' | 'x'",
    "counts": "root ::= ('(' root{0,3} ')' | '[' root{1,40} ']' | 'x'){1,2}",
    "limits": "root ::= '(' root? ')' | '[' limited ']' | 'x'\nlimited[max_tokens=5] ::= root+",
}
CALLED_TOGETHER = ("rules that call one rule", "counts", "sequences of itself", "ends of several rules")
COUNTED = "counts"  # unions of states that count are not kept


@pytest.mark.parametrize("many_places", [0, 128], ids=["calls together", "as always"])
@pytest.mark.parametrize("name", GRAMMARS)
def test_masks_above_every_stack(kernel: Engine, name: str, many_places: int) -> None:
    """Behind every text of up to eight brackets, in one grammar, short ones first and last."""
    for texts in (range(9), range(8, -1, -1)):
        prepared = prepare(kernel, ebnf_grammar(GRAMMARS[name]), BRACKETS, thresholds={"many_places": many_places})
        start = kernel.Matcher(prepared, [len(BRACKETS) - 1])
        for size in texts:
            for brackets in product("([", repeat=size):
                for end in ("", "x"):
                    at = start.fork()
                    if at.accept_bytes("".join((*brackets, end)).encode()):
                        check_mask(at, BRACKETS)
        assert prepared.statistics["same_levels"] > 20 or name == COUNTED
        assert (prepared.statistics["united_calls"] > 0) == (many_places == 0 and name in CALLED_TOGETHER)


@pytest.mark.parametrize("name", GRAMMARS)
def test_masks_along_random_texts(kernel: Engine, name: str) -> None:
    prepared = prepare(kernel, ebnf_grammar(GRAMMARS[name]), BRACKETS)
    start, random = kernel.Matcher(prepared, [len(BRACKETS) - 1]), Random(name)
    for _ in range(40):  # deep ones of few shapes: most stacks differ far below their tops
        at = start.fork()
        for bracket in random.choices("([x", weights=(9, 2, 1), k=30):
            if at.accept_bytes(bracket.encode()):
                check_mask(at, BRACKETS)
    for _ in range(40):
        at = start.fork()
        for _ in range(30):
            check_mask(at, BRACKETS)
            allowed = [token for token in at.allowed_tokens() if token != len(BRACKETS) - 1]
            if not allowed:
                break
            assert at.accept_token(random.choice(allowed))


def test_levels_share_masks(kernel: Engine) -> None:
    """A structure of 300 levels has as many configurations, and few masks that are composed."""
    prepared = prepare(kernel, ebnf_grammar(GRAMMARS["lists in brackets"]), BRACKETS)
    at = kernel.Matcher(prepared, [len(BRACKETS) - 1])
    for _ in range(300):
        assert at.accept_bytes(b"(")
        check_mask(at, BRACKETS)
    assert prepared.statistics["masks"] < 12
    assert prepared.statistics["same_levels"] > 280


def test_wide_and_deep_tops_are_composed(kernel: Engine) -> None:
    """A token that pops more levels than are spelled, and a configuration with more edges: each is composed, and right."""
    tokens: list[bytes | None] = [b"(", b")", b")" * 24, b"x", b"x" + b")" * 20, None]
    prepared = prepare(kernel, ebnf_grammar("root ::= '(' root ')' | 'x'"), tokens)
    at = kernel.Matcher(prepared, [len(tokens) - 1])
    for _ in range(60):
        assert at.accept_bytes(b"(")
        check_mask(at, tokens)
    assert prepared.statistics["same_levels"] == 0
    rules = [f"r{n} ::= '(' root ')' '{n}'" for n in range(40)]
    prepared = prepare(kernel, ebnf_grammar("\n".join(("root ::= 'x' | " + " | ".join(f"r{n}" for n in range(40)), *rules))), tokens)
    at = kernel.Matcher(prepared, [len(tokens) - 1])
    for _ in range(12):
        assert at.accept_bytes(b"(")
        check_mask(at, tokens)


def test_united_nodes_are_read_unpopped(kernel: Engine) -> None:
    """A return to a state that may end has the edges of the node below: a token like "(x]" reads a level that no composition pops."""
    tokens: list[bytes | None] = [b"(", b"[", b"x", b"]", b")", b"(x]", b"(x)", b"((x]", b"([x])", None]
    for texts in (range(8), range(7, -1, -1)):
        prepared = prepare(kernel, ebnf_grammar("root ::= '(' root ')' | '(' root | '[' root ']' | 'x'"), tokens)
        start = kernel.Matcher(prepared, [len(tokens) - 1])
        for size in texts:
            for brackets in product("([", repeat=size):
                at = start.fork()
                assert at.accept_bytes("".join(brackets).encode())
                check_mask(at, tokens)
        assert prepared.statistics["same_levels"] > 20


def test_joined_calls_are_read_unpopped(kernel: Engine) -> None:
    """Three rules call q behind "z"; two of these calls are joined, and "zq)" reads a level that no composition pops."""
    ends = {"(": "1)]", "[": "1>}"}
    choices = [f"'{open}' {rule} '{end}'" for open, closing in ends.items() for rule, end in zip("prt", closing, strict=True)]
    rules = ["p ::= 'yz' q 'w' | '#' p '#'", "r ::= 'yz' q | '#' r '#'", "t ::= 'yz' q | '#' t '#'", "q ::= 'q' | '<' q '>'"]
    grammar = "\n".join((f"root ::= {' | '.join(choices)} | '{{' root '}}'", *rules))
    tokens: list[bytes | None] = [*(f"zq{end}".encode() for end in ["", *"1)]>}w"]), b"z", b"q", None]
    prepared = prepare(kernel, ebnf_grammar(grammar), tokens, thresholds={"many_places": 0})
    start = kernel.Matcher(prepared, [len(tokens) - 1])
    for text in (b"(y", b"[y", b"{(y", b"{[y", b"{{[y"):
        at = start.fork()
        assert at.accept_bytes(text)
        check_mask(at, tokens)
    assert prepared.statistics["united_calls"] > 0


def test_masks_outlive_reclaims(kernel: Engine) -> None:
    """Nodes and states have other numbers after their tables were emptied; masks are those of trying all the same."""
    prepared = prepare(kernel, ebnf_grammar(GRAMMARS["lists in brackets"]), BRACKETS, memory=1 << 19)
    start, random = kernel.Matcher(prepared, [len(BRACKETS) - 1]), Random(3)
    for _ in range(300):
        at = start.fork()
        assert at.accept_bytes("".join(random.choices("([", k=60)).encode())
        check_mask(at, BRACKETS)
    assert prepared.statistics["reclaims"] > 1
    assert prepared.statistics["same_levels"] > 100
