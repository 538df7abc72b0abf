"""What a vocabulary remembers for class loops is bounded, and masks do not depend on what it has forgotten."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from random import Random
from string import punctuation

import numpy as np
import pytest
from support.engines import load_engine, one_rule

from stackmask.pda.automata.charset import complement, from_ranges, union
from stackmask.pda.grammar import Grammar, GrammarBuilder
from stackmask.pda.regex import regex_grammar

KERNEL = load_engine("kernel")
CLASSES = [*(f"\\{mark}" for mark in punctuation), "0-9", "a-z", "A-Z", " ", "é-ÿ"]
LIMITS = {"states": 1_000_000, "stack_depth": 1_000_000, "memory": 64 << 20, "seconds": 30}


def vocabulary() -> list[bytes | None]:
    """Every byte, and words between punctuation."""
    random = Random(2)
    marks = (*punctuation, " ", "é", "0")
    words = {f"{random.choice(marks)}{random.choice('abcXYZ') * random.randint(1, 9)}{random.choice(marks)}".encode() for _ in range(2000)}
    return [*(bytes((byte,)) for byte in range(256)), *sorted(words), None]


TOKENS = vocabulary()


def pattern(random: Random) -> Grammar:
    """A repeated class of characters out of many, and what ends it."""
    inside = "".join(random.sample(CLASSES, random.randint(5, 25)))
    kind = random.choice(("[{}]*", "[{}]{{2,40}}", "[{}]*x", "([{}]*,)*", ".*a[{}]+b"))
    return regex_grammar(kind.format(inside))


def rows(trie: object, grammar: Grammar, *, trial: bool = False) -> list[bytes]:
    """The masks at the beginning and behind a character or two, where they may stand."""
    prepared = KERNEL.KernelGrammar(trie, grammar, **LIMITS)
    found = []
    for text in (b"", b"a", b"a,"):
        matcher = KERNEL.Matcher(prepared, [len(TOKENS) - 1])
        if matcher.accept_bytes(text):
            row = np.zeros(-(-len(TOKENS) // 32), np.int32)
            (matcher.fill_by_trial if trial else matcher.fill_next_token_bitmask)(row)
            found.append(row.tobytes())
    return found


def test_memory_of_hostile_patterns() -> None:
    """10,000 patterns with classes of their own leave no more behind than the bound, and their masks are right to the last."""
    most = 2 << 20
    trie = KERNEL.TokenTrie(TOKENS, len(TOKENS), set_bytes=100_000, class_bytes=most)
    before, random = trie.memory, Random(3)
    for i in range(10_000):
        grammar = pattern(random)
        prepared = KERNEL.KernelGrammar(trie, grammar, **LIMITS)
        KERNEL.Matcher(prepared, [len(TOKENS) - 1]).fill_next_token_bitmask(np.zeros(-(-len(TOKENS) // 32), np.int32))
        if i % 500 == 499:
            assert trie.memory - before < most + 500_000  # sets of nodes are counted, too
            assert rows(trie, grammar) == rows(trie, grammar, trial=True)
    assert trie.memory - before > most // 4, "the bound was never reached, so nothing was tried"


@pytest.mark.parametrize("most", [0, 20_000])
def test_masks_without_memory(most: int) -> None:
    """Where next to nothing is remembered masks are the same, also those of grammars that are older than what was forgotten."""
    trie = KERNEL.TokenTrie(TOKENS, len(TOKENS), class_bytes=most)
    roomy = KERNEL.TokenTrie(TOKENS, len(TOKENS))
    random = Random(4)
    held = []
    for _ in range(60):
        grammar = pattern(random)
        prepared = KERNEL.KernelGrammar(trie, grammar, **LIMITS)
        row = np.zeros(-(-len(TOKENS) // 32), np.int32)
        KERNEL.Matcher(prepared, [len(TOKENS) - 1]).fill_next_token_bitmask(row)
        held.append((prepared, row))
        assert rows(trie, grammar) == rows(roomy, grammar)
    for prepared, before in held:
        row = np.zeros_like(before)
        KERNEL.Matcher(prepared, [len(TOKENS) - 1]).fill_next_token_bitmask(row)
        assert (row == before).all()


def test_counts_share_masks() -> None:
    """Counts that no token tells apart have the same mask, made once; every count near the length of some token has the right one."""
    tokens = [*TOKENS[:256], *(b"ab" * pairs for pairs in range(1, 40, 3)), b'abab"', b'ababab"x', *TOKENS[256:]]
    trie = KERNEL.TokenTrie(tokens, len(tokens))
    size = -(-len(tokens) // 32) * 4
    taken = {}
    for most in (200, 190, 90, 75, 74, 73, 70, 68, 67, 12, 9, 8, 7, 6, 5, 4, 3, 2, 1):
        before = trie.memory
        matcher = KERNEL.Matcher(KERNEL.KernelGrammar(trie, regex_grammar(f'"[^"]{{0,{most}}}"'), **LIMITS), [len(tokens) - 1])
        assert matcher.accept_bytes(b'"')
        mask, tried = (np.zeros(size // 4, np.int32) for _ in range(2))
        matcher.fill_next_token_bitmask(mask)
        matcher.fill_by_trial(tried)
        assert (mask == tried).all()
        taken[most] = trie.memory - before
    assert min(taken[most] for most in (200, 73, 67)) > size > max(taken[most] for most in (190, 90, 74, 70, 68))


def test_forgotten_masks_count_for_who_holds_them() -> None:
    """A mask that the vocabulary has forgotten counts as memory of the grammars that still use it."""
    trie = KERNEL.TokenTrie(TOKENS, len(TOKENS), class_bytes=20_000)
    random = Random(5)
    prepared = KERNEL.KernelGrammar(trie, regex_grammar("[a-z ]*"), **LIMITS)
    KERNEL.Matcher(prepared, [len(TOKENS) - 1]).allowed_tokens()
    before = prepared.memory
    for _ in range(30):
        rows(trie, pattern(random))
    assert prepared.memory >= before + len(TOKENS) // 8


def test_threads_share_class_tables() -> None:
    """Threads that make masks of many patterns at once, on a vocabulary that forgets all the time, get those of one with room."""
    forgetful, roomy = (KERNEL.TokenTrie(TOKENS, len(TOKENS), class_bytes=most) for most in (5_000, 1 << 30))

    def masks(seed: int) -> bool:
        random = Random(seed % 4)
        return all(rows(forgetful, grammar) == rows(roomy, grammar) for grammar in (pattern(random) for _ in range(20)))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(masks, range(16)))


SPACES = (0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0xFEFF)
"""What \\s has outside of ASCII: the kernel has marks for classes that hold all of them, or nothing else, or all but them."""


@pytest.mark.parametrize("first", [*range(0x1FFE, 0x200D), 0x9F, 0xA0, 0x2027, 0x2028, 0xFEFE, 0xFEFF])
def test_ranges_among_spaces(first: int) -> None:
    """Masks are what trial finds where a class loops and another, a range that begins and ends anywhere among spaces, leads out of it."""
    others = (*range(0x1FFD, 0x2010), 0x9E, 0x9F, 0xA1, 0xE9, 0x2026, 0x2027, 0x202A, 0xFEFD, 0xFEFE)
    texts = [text for c in map(chr, (*SPACES, *others)) for text in (c, f"a{c}", f"{c}a", f"{c} ", f"{c}{c} !", f"a{c} !")]
    tokens = [*(bytes((byte,)) for byte in range(256)), *dict.fromkeys(text.encode() for text in texts)]
    trie = KERNEL.TokenTrie([*tokens, None], len(tokens) + 1)
    spaces = from_ranges([(space, space) for space in (0x20, *SPACES)])
    for last in range(first, first + 5):
        for inside in (complement(spaces), complement(()), complement((0xE9, 0xE9)), union(spaces, (0x61, 0x61)), (0x61, 0x61)):
            b = GrammarBuilder()
            beyond = b.seq(b.chars((first, last)), b.literal(b" !"))
            for node in (b.seq(b.repeat(b.chars(inside)), beyond), b.repeat(b.alt(b.chars(inside), beyond))):
                matcher = KERNEL.Matcher(KERNEL.KernelGrammar(trie, one_rule(b, node), **LIMITS), [len(tokens)])
                rows = np.zeros((2, -(-(len(tokens) + 1) // 32)), np.int32)
                matcher.fill_next_token_bitmask(rows[:1])
                matcher.fill_by_trial(rows[1:])
                assert (rows[0] == rows[1]).all(), (inside, first, last)
