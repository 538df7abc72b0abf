"""Classes of characters before and inside of everything that may follow them, enumerated: a mask says what trying every token says.

How a mask is made depends on the class, on how often it is read, and on what leads out of it: a character of the class or none of it,
ASCII or not, a blank above U+007F, several characters, the end of a rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise, product
from random import Random
from typing import Any, Final

import numpy as np
import pytest
from support.engines import load_engine, one_rule

from stackmask.pda.ebnf import ebnf_grammar
from stackmask.pda.exceptions import UnsatisfiableError
from stackmask.pda.grammar import JSON, UTF8, Grammar, GrammarBuilder, NodeId
from stackmask.pda.regex import regex_dfa, regex_grammar

CLASSES = (".", "[^,]", r"\S", r"\W", r"\w", r"[^\n]", "[a-z ]", "[^a-f]", "[à-ü]", "[^é]", r"[^\u2028]", r"[\s\S]", "[a-zà-ü,]")
COUNTS = ("", "?", "*", "+", "{2}", "{3}", "{0,3}", "{2,4}", "{2,}", "{40}", "{1,60}", "{30,}")
EXITS = ("é", "日本", "😀", "[à-ü]", r"\u2028", r"\u3000", "a", ",", '"', r"\n", "(é|,)", "(à+|x)", r"[^é]", "(.y)?", "š{2}", "")
WORDS = ("a", "b", "the", "x", "ly", "é", "à", "ét", "日", "日本", "😀", " ", "\n", ",", '"', ".", "-", "\u2028", "\u3000", "š", "1", "y")


def all_tokens() -> list[bytes]:
    """Single bytes, all pairs and some triples of words, long runs, and pieces of characters joined with ASCII and with characters."""
    joined = {"".join(words).encode() for words in product(WORDS, repeat=2)}
    joined |= {"".join(words).encode() for words in product(WORDS[:10], (" ", "é", "日", ","), ("é", "à", "x", '"', "\u3000"))}
    joined |= {
        (word * length + end).encode()
        for word in ("a", " ", "é", "-", "\n ")
        for length in (3, 4, 8, 31, 40, 62)
        for end in ("", "é", ",", '"', '"a', '",', "\u2028")
    }
    pieces = (b"\xc2", b"\xc3", b"\xe2\x80", b"\xe3\x80", b"\xe3", b"\xf0\x9f", b"\xf0\x9f\x98", b"\xc5", b"\xff")
    broken = {word.encode() + piece for word in WORDS for piece in pieces}
    broken |= {b"\xdf\x9a\xc3", b"\xa9", b"\xa9a", b"\xa8,", b"\xe6\x97\xa5\xc3", b"\xed\xa0", b"\xc3\xc3"}
    return sorted({bytes([byte]) for byte in range(256)} | joined | broken)


@pytest.fixture(scope="module", params=["all", "long"])
def tokens(request: pytest.FixtureRequest) -> list[bytes | None]:
    """A vocabulary that has the beginnings of its tokens, and one of long tokens alone, none of which another begins with."""
    tokens = all_tokens()
    if request.param == "long":
        tokens = [token for token, after in pairwise([*tokens, b""]) if len(token) > 2 and not after.startswith(token)]
    return [*tokens, None]


def assert_exact(at: Any, size: int, about: object) -> None:
    """The mask here is what trying every token says."""
    rows = np.zeros((2, (size + 31) // 32), np.int32)
    at.fill_next_token_bitmask(rows, 0)
    at.fill_by_trial(rows, 1)
    differing = np.flatnonzero(np.unpackbits((rows[0] ^ rows[1]).view(np.uint8), bitorder="little"))
    assert not differing.size, (about, differing[:8])


def assert_exact_behind(start: Any, size: int, prefixes: Iterable[str], about: tuple[object, ...]) -> int:
    """The masks behind the prefixes that the matcher takes are what trying says; how many there were."""
    compared = 0
    for prefix in prefixes:
        at = start.fork()
        if at.accept_bytes(prefix.encode()):
            compared += 1
            assert_exact(at, size, (*about, prefix))
    return compared


@pytest.mark.parametrize("characters", CLASSES)
def test_every_exit_of_every_class(tokens: list[bytes | None], characters: str) -> None:
    """At the beginning, behind a character or two, and inside one, for each count and each exit."""
    kernel = load_engine("kernel")
    trie = kernel.TokenTrie(tokens, len(tokens))
    loops = 0
    for count, follower in product(COUNTS, EXITS):
        grammar = regex_grammar(characters + count + follower)
        prepared = kernel.KernelGrammar(trie, grammar, states=1_000_000, stack_depth=1_000, memory=64 << 20, seconds=30)
        start = kernel.Matcher(prepared, [len(tokens) - 1])
        for before in ("", "a", "é", "x,", " ", "日本"):
            for data in (before.encode(), before.encode() + b"\xc3"):
                at = start.fork()
                if at.accept_bytes(data):
                    assert_exact(at, len(tokens), (characters + count + follower, data))
        loops += prepared.statistics["loops"]
    assert loops > len(COUNTS) or characters == "[à-ü]"  # so few bytes are no loop


BLANKS = (9, 10, 13, 13, 32, 32)
PATTERNS = (".*", "[^é]*", "a.*", ".*é?foo.*|x", r"(\S+ )*\S+", "[a-z]*|[à-ü]*")
BOUNDS = ((0, 1), (0, 5), (2, 3), (0, 80), (40, 60), (3, -1))
BODIES = {
    "a string": lambda b, counted: b.seq(b.literal(b'"'), counted, b.literal(b'"')),
    "text up to a character": lambda b, counted: b.seq(counted, b.literal("é".encode())),
    "nothing around it": lambda b, counted: b.seq(b.optional(b.literal(b"<")), counted),
    "a text on one side": lambda b, counted: b.alt(b.seq(b.literal("<é".encode()), counted), b.literal(b"x,")),
}


def found(builder: GrammarBuilder, pattern: str, minimum: int, maximum: int, encoding: int, *, search: bool) -> NodeId:
    """Texts of so many characters that match a pattern."""
    automaton = regex_dfa(pattern, search=search)
    return builder.automaton(automaton.transitions, automaton.accepting, encoding, minimum=minimum, maximum=maximum)


def nested(builder: GrammarBuilder, body: NodeId) -> NodeId:
    """The body in any number of brackets: a rule that is never made a part of its caller."""
    rule = builder.rule("nested")
    builder.define(rule, builder.alt(body, builder.seq(builder.literal(b"["), builder.call(rule), builder.literal(b"]"))))
    return builder.call(rule)


AROUND = {
    "alone": lambda b, body: b.seq(body, b.literal(b",")),
    "counted": lambda b, body: b.repeat(b.seq(body, b.literal(b",")), 2, 90),
    "behind blanks": lambda b, body: b.seq(b.repeat(b.bytes(BLANKS), 0, 40), body, b.literal(b"<")),
    "a rule behind blanks": lambda b, body: b.seq(b.repeat(b.bytes(BLANKS), 0, 40), nested(b, body), b.literal(b"<")),
}


@pytest.mark.parametrize(("body", "around"), list(product(BODIES, AROUND)))
@pytest.mark.parametrize("encoding", [UTF8, JSON])
def test_what_counts_inside_of_what_counts(tokens: list[bytes | None], body: str, around: str, encoding: int) -> None:
    """Bounded texts and patterns between delimiters, by themselves and inside of bodies that are counted or permuted."""
    kernel = load_engine("kernel")
    trie = kernel.TokenTrie(tokens, len(tokens))
    for minimum, maximum in BOUNDS:
        for pattern in (None, *PATTERNS):
            builder = GrammarBuilder()
            if pattern is None:
                counted = builder.repeat(builder.chars((0, 0x10FFFF), encoding), minimum, maximum)
            else:
                counted = found(builder, pattern, minimum, maximum, encoding, search=False)
            grammar = one_rule(builder, AROUND[around](builder, BODIES[body](builder, counted)))
            prepared = kernel.KernelGrammar(trie, grammar, states=1_000_000, stack_depth=1_000, memory=64 << 20, seconds=30)
            start = kernel.Matcher(prepared, [len(tokens) - 1])
            texts = ("", '"', '"a', '"foo b', '"ab é', "a", "ab", "foo é")
            prefixes = (outside + text for outside, text in product(("", "[", "a", "<", "<é"), texts))
            assert_exact_behind(start, len(tokens), prefixes, (pattern, minimum, maximum))


NEEDED = (r"\u00a0", r"\u2028", r"\u3000", "é", "[à-ü]", r"\s", r"a\u00a0", r"\u00a0é", r"\u2028|š", "😀", r"\S,", r"[^\u00a0]é")


@pytest.mark.parametrize("encoding", [UTF8, JSON])
def test_what_a_short_text_still_needs(tokens: list[bytes | None], encoding: int) -> None:
    """Texts in which a pattern is searched, so short that their last characters must match it: the first bytes of one may end a token."""
    kernel = load_engine("kernel")
    trie = kernel.TokenTrie(tokens, len(tokens))
    for pattern, (minimum, maximum) in product(NEEDED, ((0, 2), (0, 3), (0, 5), (2, 4), (0, 40))):
        builder = GrammarBuilder()
        grammar = one_rule(builder, BODIES["a string"](builder, found(builder, pattern, minimum, maximum, encoding, search=True)))
        prepared = kernel.KernelGrammar(trie, grammar, states=1_000_000, stack_depth=1_000, memory=64 << 20, seconds=30)
        start = kernel.Matcher(prepared, [len(tokens) - 1])
        prefixes = ("", '"', '"a', '",é', '"ab\u2028', '"日本b', '"é' + "a" * 36)
        assert_exact_behind(start, len(tokens), prefixes, (pattern, minimum, maximum))


ATOMS: Final = (
    "a", "x", "日", "é", "😀", ".", r"\s", r"\S", r"\w", r"\W", r"\d", "[a-f]", "[^a-f]", "[^,]", "[^é]", "[à-ü]", "[a-zé]", "(foo|b)",
    "(é|,)", r"\u00a0", r"[^\u00a0]", r"\u2028", r"\u3000", r"[\u2000-\u200a]",
)  # fmt: skip
BEHIND = {
    "any characters": lambda b: b.repeat(b.chars((0, 0x10FFFF)), 0),
    "all but a few texts": lambda b: b.except_words(("a/b", "abc", "é")),
    "some letters": lambda b: b.repeat(b.chars((97, 109)), 1, 5),
    "a character above U+007F": lambda b: b.chars((0x80, 0x2FFF)),
    "digits or a quote": lambda b: b.alt(b.literal(b'"'), b.repeat(b.chars((48, 57, 97, 100)), 0)),
    "a text with bounds too": lambda b: found(b, ".é?", 2, 9, UTF8, search=True),
}
"""What may follow a text with bounds, and reads some of its characters."""

LOW: Final = {"large_subtree": 60, "closed_states": 2, "wide_children": 4, "dense_bytes": 2}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("thresholds", [{}, LOW])
def test_any_pattern_between_bounds(tokens: list[bytes | None], seed: int, thresholds: dict[str, int]) -> None:
    """Patterns of a few classes, as a whole or searched, of bounded lengths, drawn at random: near its bounds each differs."""
    kernel = load_engine("kernel")
    trie = kernel.TokenTrie(tokens, len(tokens), thresholds=thresholds)
    chosen = Random(seed)
    compared = 0
    while compared < 500:
        atoms = chosen.choices(ATOMS, k=chosen.randint(1, 3))
        pattern = "".join(atom + chosen.choice(("", "", "", "?", "*", "+", "{2}")) for atom in atoms)
        minimum = chosen.choice((0, 0, 0, 1, 2, 3))
        maximum = chosen.choice((minimum + 1, minimum + 2, minimum + 3, minimum + 8, 40, -1))
        search = chosen.random() < 0.7
        builder = GrammarBuilder()
        encoding = chosen.choice((UTF8, JSON))
        text = found(builder, pattern, minimum, maximum, encoding, search=search)
        body, behind = chosen.choice((*BODIES.values(),)), chosen.choice((*BEHIND.values(),))
        try:
            node = body(builder, text) if chosen.random() < 0.5 else builder.seq(text, behind(builder))
            grammar = one_rule(builder, node)
            prepared = kernel.KernelGrammar(trie, grammar, states=1_000_000, stack_depth=1_000, memory=64 << 20, seconds=30)
        except UnsatisfiableError:
            continue
        start = kernel.Matcher(prepared, [len(tokens) - 1])
        prefixes = ("", '"', '"a', '",é', '"ab\u2028', '"日本b', '"é' + "a" * 36, "a", '"foo', "é", '"a\u00a0', "<", "<é")
        compared += assert_exact_behind(start, len(tokens), prefixes, (pattern, minimum, maximum, encoding))


RANGES: Final = ((32, 47), (48, 57), (97, 97), (98, 98), (99, 127), (128, 0x9F), (0xA0, 0xA0), (0xA1, 0x2FFF), (0x3000, 0x10FFFF))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("thresholds", [{}, LOW])
def test_any_automaton_between_bounds(tokens: list[bytes | None], seed: int, thresholds: dict[str, int]) -> None:
    """Automata drawn at random, of bounded lengths, before a text that reads the same characters: it must not begin too early."""
    kernel = load_engine("kernel")
    trie = kernel.TokenTrie(tokens, len(tokens), thresholds=thresholds)
    chosen = Random(seed)
    compared = 0
    while compared < 300:
        states = chosen.randint(2, 4)
        rows = tuple(tuple((*both, chosen.randrange(states)) for both in RANGES if chosen.random() < 0.6) for _ in range(states))
        accepting = tuple(chosen.random() < 0.7 for _ in range(states))
        minimum = chosen.choice((0, 2, 3, 60))
        maximum = chosen.choice((minimum + 2, minimum + 7, 90, -1))
        builder = GrammarBuilder()
        text = builder.automaton(rows, accepting, chosen.choice((UTF8, JSON)), minimum=minimum, maximum=maximum)
        try:
            grammar = one_rule(builder, builder.seq(text, chosen.choice((*BEHIND.values(),))(builder)))
            prepared = kernel.KernelGrammar(trie, grammar, states=1_000_000, stack_depth=1_000, memory=64 << 20, seconds=30)
        except UnsatisfiableError:
            continue
        start = kernel.Matcher(prepared, [len(tokens) - 1])
        compared += assert_exact_behind(start, len(tokens), ("", "a", "b", "1", ",", "é", "a" * 58), (rows, accepting, minimum, maximum))


@pytest.mark.parametrize("end", ['"("', '"((" ', '"(" | "l(("', '"(" "l"?', "[(l]"])
@pytest.mark.parametrize("text", [".", "[a-z(]"])
def test_counts_that_begin_anew(text: str, end: str) -> None:
    """A body whose exit is one of its characters, in a loop: behind it stand the count that continues and one from the start."""
    kernel = load_engine("kernel")
    tokens = [bytes(word) for length in range(1, 10) for word in product(b"l(", repeat=length)]
    trie = kernel.TokenTrie(tokens, len(tokens))
    for minimum, maximum in ((0, 3), (0, 5), (1, 4), (1, 6), (2, 5), (2, 6), (3, 3), (3, 7)):
        grammar = ebnf_grammar(f"root ::= ({text}{{{minimum},{maximum}}} ({end}))*", special={})
        prepared = kernel.KernelGrammar(trie, grammar, states=1_000_000, stack_depth=1_000, memory=64 << 20, seconds=30)
        start = kernel.Matcher(prepared, [])
        assert_exact_behind(start, len(tokens), ("", "l", "ll", "l(l", "ll(l"), (minimum, maximum))


RUNS: Final = [
    *(
        (unit * length + end).encode()
        for unit in ("a", "1", "a1", "ab ")
        for length in (1, 2, 3, 4, 5, 7, 9, 12, 31, 64)
        for end in ("", "z", ";", "é")
    ),
    *(bytes([byte]) for byte in range(256)),
    None,
]
COUNTED: Final = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (2, 5), (0, 26), (1, 30), (0, -1))
FORMS: Final = ("*", "+", "{0,2}", "{2,5}", "* *", "* {0,2}", "left recursion", "right recursion", "recursion before a letter")


def repeated(b: GrammarBuilder, node: NodeId, form: str, end: NodeId) -> Grammar:
    """A grammar that repeats a node in some form, before an end."""
    root, rule = b.rule("root"), b.rule("again")
    if "recursion" not in form:
        bounds = {"*": (0, -1), "+": (1, -1), "{0,2}": (0, 2), "{2,5}": (2, 5)}
        again = node
        for quantifier in form.split():
            again = b.repeat(again, *bounds[quantifier])
    elif form == "left recursion":
        again = b.alt(b.empty(), b.seq(b.call(rule), node))
    elif form == "right recursion":
        again = b.alt(b.empty(), b.seq(node, b.call(rule)))
    else:
        again = b.alt(node, b.seq(b.call(rule), b.literal(b"z"), node))
    b.define(rule, again)
    b.define(root, b.seq(b.call(rule), end))
    return b.build(root)


@pytest.mark.parametrize("thresholds", [{}, {"unrolled_states": 0, "unrolled_inside": 0}], ids=["as always", "nothing unrolled"])
@pytest.mark.parametrize("form", FORMS)
def test_repetitions_that_begin_again(form: str, thresholds: dict[str, int]) -> None:
    """A counted repetition in a repetition or a recursion: where it may end and begin again, a run is longer than its count."""
    kernel = load_engine("kernel")
    trie = kernel.TokenTrie(RUNS, len(RUNS), thresholds=thresholds)
    bodies: dict[str, Any] = {
        "bytes": lambda b: b.bytes((97, 122)),
        "digits": lambda b: b.bytes((48, 57)),
        "printable": lambda b: b.bytes((32, 126)),
        "characters": lambda b: b.chars((97, 122)),
        "above": lambda b: b.chars((97, 122, 233, 233)),
        "letter": lambda b: b.literal(b"a"),
        "two": lambda b: b.alt(b.literal(b"a"), b.literal(b"ab ")),
    }
    compared = 0
    for (name, body), bounds, end in product(bodies.items(), COUNTED, (None, b";", b"a")):
        b = GrammarBuilder()
        grammar = repeated(b, b.repeat(body(b), *bounds), form, b.empty() if end is None else b.literal(end))
        prepared = kernel.KernelGrammar(trie, grammar, states=100_000, stack_depth=100_000, memory=64 << 20, seconds=30)
        start = kernel.Matcher(prepared, [len(RUNS) - 1])
        compared += assert_exact_behind(
            start, len(RUNS), ("", "a", "aa", "aaaa", "1", "11", "ab ", "az", "a" * 40), (form, name, bounds, end)
        )
    assert compared > 500
