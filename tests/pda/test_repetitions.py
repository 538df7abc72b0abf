"""Repetitions of repetitions and neighbours that repeat the same: one repetition where the counts allow it, and the same texts always."""

from __future__ import annotations

import re
from itertools import product

import pytest
from support.engines import STOP, Engine, accepts, mask_of, prepare

from stackmask.pda.ebnf import ebnf_grammar
from stackmask.pda.grammar import REPEAT, Grammar, GrammarBuilder, nested_counts
from stackmask.pda.regex import regex_grammar, regex_node

COUNTS = [(least, most) for least in range(4) for most in (-1, *range(max(least, 1), 5))]
LONGEST = 40


def lengths(counts: tuple[int, int], of: set[int]) -> set[int]:
    """The lengths of texts, up to LONGEST, that are made of so many parts of these lengths."""
    least, most = counts
    reached, sums, rounds = set[int](), {0}, 0
    while sums and rounds <= (LONGEST + least if most < 0 else most):
        if rounds >= least:
            reached |= sums
        sums = {total + part for total in sums for part in of if total + part <= LONGEST}
        rounds += 1
    return reached


@pytest.mark.parametrize("outer", COUNTS)
def test_nested_counts(outer: tuple[int, int]) -> None:
    """One repetition takes the lengths of both, and is found wherever there is one."""
    for inner in COUNTS:
        expected = lengths(outer, lengths(inner, {1}))
        one = nested_counts(*inner, *outer)
        if one is not None:
            assert lengths(one, {1}) == expected, (inner, outer)
        else:
            gaps = set(range(min(expected), max(expected) + 1)) - expected
            assert gaps, (inner, outer)


def test_large_counts_stay_apart() -> None:
    """What one repetition could not count is left as it is."""
    assert nested_counts(0, 2**16, 0, 2**15 - 1) == (0, 2**31 - 2**16)
    assert nested_counts(0, 2**16, 0, 2**15) is None
    b = GrammarBuilder()
    letter = b.literal(b"a")
    inner = b.repeat(letter, 0, 2**20)
    assert b.nodes[b.repeat(inner, 0, 2**20)] == (REPEAT, inner, 0, 2**20)


@pytest.mark.parametrize(
    ("pattern", "counts"),
    [
        ("(?:(?:a{0,99}){0,99}){0,99}", (0, 970299)),
        ("(?:a?){5000}a{5000}", (5000, 10000)),
        ("a?" * 5000, (0, 5000)),
        ("(?:(?:a{2,3}){1,9000})?", None),
        ("a?a{9000,}a", (9001, -1)),
        ("(?:a{5,125}){0,7}", None),
        ("(?:a{45,90})*", None),
    ],
)
def test_patterns_are_one_repetition(pattern: str, counts: tuple[int, int] | None) -> None:
    """Patterns that count one letter in several ways are one repetition, where no count is left out."""
    grammar = regex_grammar(pattern)
    node = grammar.nodes[grammar.rules[grammar.root]]
    assert node[2:] == (counts or (0, 1))
    assert (grammar.nodes[node[1]][0] == REPEAT) == (counts is None)


@pytest.mark.parametrize(
    "parts", list(product(["a", "a?", "a*", "a{2,3}", "(?:ab){1,2}", "b?"], repeat=3)), ids=lambda parts: "".join(parts)
)
def test_neighbours(kernel: Engine, parts: tuple[str, ...]) -> None:
    """A sequence takes the texts of its parts, one behind the other."""
    pattern = "".join(parts)
    start = kernel.Matcher(prepare(kernel, regex_grammar(pattern)), [STOP])
    for size in range(7):
        for letters in product("ab", repeat=size):
            text = "".join(letters)
            assert accepts(start, text.encode()) == (re.fullmatch(pattern, text) is not None), (pattern, text)


AMBIGUOUS = ["a+b?", "a|aa", "a|aaa", "aa|aaaaa", "ab?|b", "a?b?|ba", "a+|b", "(?:ab|a)b?", "a{2,3}|b"]
WIDE = [(2, 3), (3, 3), (2, 6), (5, 6), (0, 4), (3, -1), (1, 2)]


@pytest.mark.parametrize("body", AMBIGUOUS)
def test_counts_that_a_text_leaves_open(kernel: Engine, body: str) -> None:
    """Where a text can be cut in many ways, all counts are followed: each text, each mask and each length is that of the pattern."""
    texts = ["".join(letters) for size in range(8) for letters in product("ab", repeat=size)] + ["a" * size for size in range(8, 20)]
    tokens = [b"a", b"b", b"aa", b"aaa", b"ab", b"aba", b"baa", b"aaaa", b"c", b"aac", None]
    for least, most in WIDE:
        pattern = f"(?:{body}){{{least},{'' if most < 0 else most}}}c"
        grammar = regex_grammar(pattern)
        start = kernel.Matcher(prepare(kernel, grammar), [STOP])
        begin = kernel.Matcher(prepare(kernel, grammar, tokens), [len(tokens) - 1])
        for text in texts:
            assert accepts(start, text.encode() + b"c") == (re.fullmatch(pattern, text + "c") is not None), (pattern, text)
            at = begin.fork()
            if not at.accept_bytes(text.encode()):
                continue
            allowed = mask_of(at, len(tokens))
            assert allowed == [i for i, token in enumerate(tokens) if token and at.fork().accept_bytes(token)], (pattern, text)
            rest = at.shortest_completion().decode()
            assert re.fullmatch(pattern, text + rest), (pattern, text, rest)
            shorter = ("".join(letters) + "c" for size in range(min(len(rest) - 1, 6)) for letters in product("ab", repeat=size))
            assert not any(re.fullmatch(pattern, text + other) for other in shorter), (pattern, text, rest)


def counted_grammar(pattern: str) -> Grammar:
    """The grammar of a pattern, with its counts as they are: it does not become an automaton, although it is small."""
    builder = GrammarBuilder()
    root = builder.rule("root")
    builder.define(root, regex_node(builder, pattern, search=False))
    return builder.build(root)


NESTED = [
    "(?:a{1,3}b?){%s}",
    "(?:a{2,5}b?){%s}",
    "(?:[ab]{1,2}b?){%s}",
    "(?:a{2}|a{3}b?){%s}",
    "(?:(?:a{1,2}b?){2,3}a?){%s}",
    "(?:a{0,2}b{0,2}){%s}",
]


@pytest.mark.parametrize("thresholds", [{}, {"unrolled_states": 0, "unrolled_inside": 0}], ids=["as always", "nothing unrolled"])
@pytest.mark.parametrize("body", NESTED)
def test_counts_in_counts_that_a_text_leaves_open(kernel: Engine, body: str, thresholds: dict[str, int]) -> None:
    """Where two counts are open, stacks that others cover are dropped, and nothing that they allow is lost."""
    texts = ["".join(letters) for size in range(9) for letters in product("ab", repeat=size)]
    texts += ["a" * size + tail for size in range(9, 30, 4) for tail in ("", "b", "ab", "ba")]
    tokens = [b"a", b"b", b"aa", b"aaaaa", b"aba", b"abaab", b"c", b"aac", None]
    for counts in ("3", "1,4", "2,3", "0,9", "4,9", "2,"):
        pattern = f"{body % counts}c"
        grammar = counted_grammar(pattern) if thresholds else regex_grammar(pattern)
        start = kernel.Matcher(prepare(kernel, grammar, thresholds=thresholds), [STOP])
        begin = kernel.Matcher(prepare(kernel, grammar, tokens, thresholds=thresholds), [len(tokens) - 1])
        for text in texts:
            assert accepts(start, text.encode() + b"c") == (re.fullmatch(pattern, text + "c") is not None), (pattern, text)
            at = begin.fork()
            if at.accept_bytes(text.encode()):
                allowed = mask_of(at, len(tokens))
                assert allowed == [i for i, token in enumerate(tokens) if token and at.fork().accept_bytes(token)], (pattern, text)
                assert re.fullmatch(pattern, text + at.shortest_completion().decode()), (pattern, text)


@pytest.mark.parametrize(
    "pattern", ["(?:[ab]{1,50}c?){1,%d}", "(?:[ab]{3,50}c?){%d}", "(?:(?:[ab]{1,20}c?){2,20}d?){2,%d}", "(?:a{0,40}b{0,40}){0,%d}"]
)
def test_many_counts_in_counts_are_few_stacks(kernel: Engine, pattern: str) -> None:
    """A step behind n letters, which may have been cut in as many ways, takes no more work for a larger n."""
    trie = kernel.TokenTrie([*(bytes([byte]) for byte in range(256)), None], 257)
    limits = {"states": 100_000, "stack_depth": 100_000, "memory": 64 << 20, "seconds": 30.0, "step_work": 20_000}
    for count in (100, 2000):
        at = kernel.Matcher(kernel.KernelGrammar(trie, regex_grammar(pattern % count), **limits), [STOP])
        for _ in range(count // 2):
            at.allowed_tokens()
            assert at.accept_token(ord("a"))


def test_counts_of_rules_that_call_themselves_are_not_compared(kernel: Engine) -> None:
    """Nodes that hold fewer stacks share less of the nodes below them, so that a union of deep stacks would grow without bound."""
    grammar = ebnf_grammar('root ::= x "!"\nx ::= ([ab]{2,5} y?){1,9}\ny ::= [ab] x{1,5} [ab]?')
    trie = kernel.TokenTrie([*(bytes([byte]) for byte in range(256)), None], 257)
    limits = {"states": 100_000, "stack_depth": 100_000, "memory": 64 << 20, "seconds": 30.0, "step_work": 300_000}
    at = kernel.Matcher(kernel.KernelGrammar(trie, grammar, **limits), [STOP])
    for byte in b"ab" * 50:
        at.allowed_tokens()
        assert at.accept_token(byte)
    assert at.accept_bytes(b"!")
    assert at.is_completed()


@pytest.mark.parametrize("pattern", ["(?:a+b?){%d}", "(?:a|aa){1,%d}b", "(?:a?b?){%d}c", "(?:a+|aab){2,%d}"])
def test_many_counts_are_one_item(kernel: Engine, pattern: str) -> None:
    """A step behind n letters, which may have been cut in n ways, takes no more work for a larger n."""
    work = []
    for count in (100, 3000):
        trie = kernel.TokenTrie([*(bytes([byte]) for byte in range(256)), None], 257)
        limits = {"states": 100_000, "stack_depth": 100_000, "memory": 64 << 20, "seconds": 30.0, "step_work": 100_000}
        grammar = kernel.KernelGrammar(trie, regex_grammar(pattern % count), **limits)
        at = kernel.Matcher(grammar, [STOP])
        for _ in range(count - 10):
            assert at.accept_token(ord("a"))
            mask_of(at, 257)
        work.append(grammar.statistics["largest_work"])
    assert work[1] <= 2 * work[0] + 1000, work
