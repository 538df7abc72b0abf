"""Masks over a large vocabulary: what the kernel composes of whole classes of tokens is what it accepts token by token.

Class loops, chains of counters and runs of blanks need tokens that are long and many; the vocabularies of the other tests are too small
to reach them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from random import Random
from string import ascii_letters

import pytest
from support.engines import Engine, load_engine, matcher, one_rule, prepare

from stackmask.pda.grammar import JSON, JSON_ANY, UTF8, GrammarBuilder, NodeId
from stackmask.pda.regex import regex_dfa

ANY = (0, 0x10FFFF)
SAMPLE = b"and the 12 lazy-dogs ran/over foo.bar \xc3\xa9t\xc3\xa9, "


def vocabulary() -> list[bytes | None]:
    """Every byte, words with what stands before and behind them in real vocabularies, long runs, and pieces of UTF-8."""
    random = Random(1)
    tokens = {bytes([byte]) for byte in range(256)}
    ends = [
        b"",
        b'"',
        b'",',
        b'":',
        b'","',
        b"\\",
        b"\\n",
        b"\\u00",
        b" ",
        b"-",
        b"/",
        b".",
        b"\n",
        b"\xc3",
        b"\xe2\x80",
        "é".encode(),
        b"1",
        b"}",
    ]
    for _ in range(2500):
        word = "".join(random.choice(f"{ascii_letters}_") for _ in range(random.randint(1, 9))).encode()
        tokens |= {
            word,
            b" " + word,
            word + random.choice(ends),
            b" " + word + random.choice(ends),
            word + b" " + word[:3] + random.choice(ends),
        }
    for run in (b" ", b"-", b"=", b"a", b"\n", b"\t", b"0", "é".encode(), b"\\n"):
        tokens |= {run * length + end for length in (2, 3, 5, 8, 15, 16, 31, 40, 64) for end in (b"", b'"', b",")}
    tokens |= {b"%d%s" % (number, end) for number in range(300) for end in (b"", b",", b' "', b"  ,")}
    return [*sorted(tokens), None]


def string(builder: GrammarBuilder, minimum: int, maximum: int, ranges: tuple[int, ...] = ANY, encoding: int = JSON) -> NodeId:
    """Characters of a string, counted."""
    return builder.repeat(builder.chars(ranges, encoding), minimum, maximum)


def pattern(builder: GrammarBuilder, text: str, minimum: int, maximum: int, encoding: int = JSON) -> NodeId:
    """A pattern, its characters counted."""
    automaton = regex_dfa(text, search=False)
    return builder.automaton(automaton.transitions, automaton.accepting, encoding, minimum=minimum, maximum=maximum)


def apart(builder: GrammarBuilder, encoding: int) -> NodeId:
    """Letters some characters apart, anywhere in a text without slashes."""
    ranges = (0, 46, 48, 0x10FFFF) if encoding != UTF8 else (32, 33, 35, 46, 48, 0x10FFFF)
    any_text, far, near = (string(builder, *bounds, ranges, encoding) for bounds in ((0, -1), (9, 9), (0, 9)))
    return builder.seq(any_text, builder.literal(b"n"), far, builder.literal(b"o"), near, builder.literal(b"."), any_text)


def gap(builder: GrammarBuilder, node: NodeId) -> NodeId:
    """What is read, up to 40 blanks, and a comma or a brace with their own."""
    blanks = builder.repeat(builder.bytes((9, 10, 13, 13, 32, 32)), 0, 40)
    return builder.seq(node, builder.alt(builder.seq(blanks, builder.literal(b",")), builder.seq(blanks, builder.literal(b"}"))))


def ending_anywhere(builder: GrammarBuilder, most: dict[str, int]) -> NodeId:
    """Words that begin with two letters and have some more, one directly behind the other or with blanks between them."""
    words = [builder.seq(builder.literal(begin.encode()), string(builder, 1, n, (97, 122), UTF8)) for begin, n in most.items()]
    return builder.repeat(builder.seq(builder.alt(*words), string(builder, 0, -1, (32, 32), UTF8)), 1, -1)


def shrinking(builder: GrammarBuilder) -> NodeId:
    """Twenty counted classes, each but the first a part of the one before."""
    return builder.seq(*(string(builder, 0, 300, (32, 32, 97, ord("z") - place), UTF8) for place in range(20)))


CASES: dict[str, Callable[[GrammarBuilder], NodeId]] = {
    "any string": lambda b: string(b, 0, -1),
    "to 20": lambda b: string(b, 0, 20),
    "3 to 45": lambda b: string(b, 3, 45),
    "70 exactly": lambda b: string(b, 70, 70),
    "1 to 200": lambda b: string(b, 1, 200),
    "escapes to 30": lambda b: string(b, 2, 30, encoding=JSON_ANY),
    "letters to 40": lambda b: string(b, 0, 40, (97, 122)),
    "part of the letters": lambda b: string(b, 0, 40, (32, 32, 97, 119, 0xE9, 0xE9)),
    "counted and then free": lambda b: b.seq(string(b, 0, 30, (32, 32, 97, 122)), string(b, 0, -1, (97, 122))),
    "foo in it": lambda b: pattern(b, ".*foo.*", 0, -1),
    "foo in it, to 60": lambda b: pattern(b, ".*foo.*", 0, 60),
    "foo in it, from 20": lambda b: pattern(b, ".*foo.*", 20, -1),
    "words to 50": lambda b: pattern(b, r"(\S+\s+){2,}\S+", 5, 50),
    "three words": lambda b: pattern(b, r"(\S+\s+){0,2}\S+", 0, 90),
    "no slash to 40": lambda b: pattern(b, "[^/]*", 0, 40),
    "two lengths": lambda b: pattern(b, "a{3,50}|[b-z ,]{4,200}", 4, 45),
    "text to 35": lambda b: pattern(b, "[^x]*", 0, 35, UTF8),
    "letters apart": lambda b: apart(b, JSON),
    "letters apart, with escapes": lambda b: apart(b, JSON_ANY),
    "letters apart, as text": lambda b: apart(b, UTF8),
    "words counted": lambda b: b.repeat(
        b.seq(b.alt(*(string(b, 1, n, (48, 48 + n % 10, 97, 122)) for n in range(1, 40))), b.literal(b" ")), 1, -1
    ),
    "letters that end anywhere": lambda b: ending_anywhere(b, {"ab": 30, "cd": 12, "gh": 7, "ij": 40}),
    "letters that end anywhere, near the end": lambda b: ending_anywhere(b, {"ab": 5, "cd": 3, "gh": 6}),
    "a letter in it": lambda b: pattern(b, ".*[a-z][a-z._]*", 0, -1),
    "classes that shrink": shrinking,
    "anything but words": lambda b: b.except_words(["and", "an", "the", "foo.bar", "été"], JSON),
}


@pytest.fixture(scope="module")
def tokens() -> list[bytes | None]:
    return vocabulary()


@pytest.mark.parametrize("name", CASES)
def test_masks_are_what_is_accepted(tokens: list[bytes | None], name: str) -> None:
    """At every few characters, near the bounds at each, the mask holds the tokens that can be read to their end."""
    builder = GrammarBuilder()
    root = builder.rule("root")
    builder.define(root, builder.seq(builder.literal(b'"'), CASES[name](builder), gap(builder, builder.literal(b'"'))))
    start = matcher(load_engine("kernel"), builder.build(root), tokens, (len(tokens) - 1,))
    assert start.accept_bytes(b'"')
    text = SAMPLE * 6 if "letters" not in name and "counted" not in name else b"abcdef ghij" * 20
    if name == "letters to 40":
        text = text.replace(b" ", b"")
    near = 0
    for length in range(len(text)):
        here = start.fork()
        if not here.accept_bytes(text[:length]):
            break
        near = 0 if length % 9 == 0 or length < 4 else near + 1
        if near and start.matching_prefix(text[: length + 12]) == length + 12:
            continue
        allowed = set(here.allowed_tokens())
        for token, data in enumerate(tokens):
            if data is not None:
                assert (here.matching_prefix(data) == len(data)) == (token in allowed), (length, data)


@pytest.mark.parametrize(("most", "text"), [(30, b"abcabcabx"), (30, b"abx"), (9, b"abxy")])
def test_letters_that_a_repetition_has_left(tokens: list[bytes | None], most: int, text: bytes) -> None:
    """What the word that can go on for longest has left is taken as a whole, whether its letters are counted or states in a row."""
    builder = GrammarBuilder()
    prepared = prepare(load_engine("kernel"), one_rule(builder, ending_anywhere(builder, {"ab": most, "cd": 3})), tokens)
    at = load_engine("kernel").Matcher(prepared, [len(tokens) - 1])
    assert at.accept_bytes(text)
    allowed = set(at.allowed_tokens())
    assert prepared.statistics["bounded_lasting"] == 1
    assert {token for token, data in enumerate(tokens) if data is not None and at.matching_prefix(data) == len(data)} == allowed - {
        len(tokens) - 1
    }


@pytest.mark.parametrize(
    ("case", "text", "way"),
    [("a letter in it", b"!", "closed"), ("a letter in it", b"!a", "closed"), ("classes that shrink", b"abc" * 99, "lasting")],
)
def test_an_item_that_letters_leave(tokens: list[bytes | None], case: str, text: bytes, way: str) -> None:
    """Where letters leave an item, a few closed states take whole classes; the item does where they are many, and these are not made."""
    prepared = prepare(load_engine("kernel"), one_rule(builder := GrammarBuilder(), CASES[case](builder)), tokens)
    at = load_engine("kernel").Matcher(prepared, [len(tokens) - 1])
    assert at.accept_bytes(text)
    before = prepared.statistics
    allowed = set(at.allowed_tokens())
    taken = {name: count - before[name] for name, count in prepared.statistics.items()}
    assert taken[way] == taken["closed"] + taken["lasting"] == 1
    assert taken["dfa_states"] < 2000
    assert {token for token, data in enumerate(tokens) if data is not None and at.matching_prefix(data) == len(data)} == allowed - {
        len(tokens) - 1
    }


@pytest.mark.parametrize("set_bytes", [0, 20_000, 1 << 30])
@pytest.mark.parametrize("value", [b"12", b"true", b'"x"'])
def test_gaps_behind_values(tokens: list[bytes | None], value: bytes, set_bytes: int) -> None:
    """Behind a value, and at every blank of the gap, whatever memory there is for sets of nodes."""
    builder = GrammarBuilder()
    root = builder.rule("root")
    digits = builder.repeat(builder.bytes((48, 57)), 1, -1)
    values = builder.alt(digits, builder.literal(b"true"), builder.literal(b'"x"'))
    builder.define(root, builder.seq(gap(builder, values), string(builder, 0, -1)))
    kernel = load_engine("kernel")
    trie = kernel.TokenTrie(tokens, len(tokens), set_bytes=set_bytes)
    prepared = kernel.KernelGrammar(trie, builder.build(root), states=1_000_000, stack_depth=1_000_000, memory=64 << 20, seconds=30)
    start = kernel.Matcher(prepared, [len(tokens) - 1])
    for blanks in range(42):
        here = start.fork()
        if not here.accept_bytes(value + b" " * blanks):
            assert blanks == 41
            return
        allowed = set(here.allowed_tokens())
        for token, data in enumerate(tokens):
            if data is not None:
                assert (here.matching_prefix(data) == len(data)) == (token in allowed), (blanks, data)


def test_gaps_of_rules(tokens: list[bytes | None]) -> None:
    """A gap inside of a counted list is a rule of its own, which may end after its first blank though not before."""
    builder = GrammarBuilder()
    blanks = builder.repeat(builder.bytes((9, 10, 13, 13, 32, 32)), 0, 40)
    item = builder.seq(builder.literal(b","), blanks, builder.literal(b'"'), string(builder, 0, -1), builder.literal(b'"'))
    root = builder.rule("root")
    builder.define(root, builder.seq(builder.literal(b"["), builder.repeat(item, 0, 100), builder.literal(b"]")))
    start = matcher(load_engine("kernel"), builder.build(root), tokens, (len(tokens) - 1,))
    for text in (b'[,"x",', b'[,"x", ', b'[,"x",' + b" " * 39, b'[,"x",' + b" " * 40, b'[,"x"'):
        here = start.fork()
        assert here.accept_bytes(text)
        allowed = set(here.allowed_tokens())
        for token, data in enumerate(tokens):
            if data is not None:
                assert (here.matching_prefix(data) == len(data)) == (token in allowed), (text, data)


SPACES = "\u00a0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
"""Spaces above ASCII of two and of three bytes, which patterns tell from other characters."""


@pytest.mark.parametrize("pattern", [r"^\S*$", r"^\S*\sb$", r"^[^\s,]*,\s*b$", r"^\w*\s\S*$"])
@pytest.mark.parametrize("most", [None, 4])
def test_spaces_end_words(pattern: str, most: int | None) -> None:
    """Tokens that hold a space above ASCII are allowed exactly where it may stand."""
    texts = [
        before + space + after for space in (*SPACES, " ", "é") for before in ("", "a", ",", "a,") for after in ("", "b", "ab", space + "b")
    ]
    tokens: list[bytes | None] = [*(bytes((byte,)) for byte in range(256)), *sorted({text.encode() for text in texts} - {b" "}), None]
    automaton = regex_dfa(pattern, search=True)
    b = GrammarBuilder()
    node = b.automaton(automaton.transitions, automaton.accepting, UTF8, maximum=-1 if most is None else most)
    for engine in ("kernel", "reference"):
        at = matcher(load_engine(engine), one_rule(b, b.seq(b.literal(b"<"), node, b.literal(b">"))), tokens, (len(tokens) - 1,))
        for text in ("", "a", "a,", "a\u00a0", "a\u2003"):
            here = at.fork()
            if here.accept_bytes(b"<" + text.encode()):
                assert here.allowed_tokens() == [token for token in range(len(tokens)) if here.fork().accept_token(token)], (engine, text)


@pytest.mark.parametrize("most", [3, 40])
@pytest.mark.parametrize("thin", [False, True])
def test_runs_of_blanks_before_a_call(most: int, *, thin: bool) -> None:
    """Tokens that end in a bounded run of blanks go on with it, whatever follows the run: a byte or another rule.

    In a `thin` vocabulary no token begins like another but by its blanks, so one thing alone follows each run.
    """
    b = GrammarBuilder()
    blanks = b.repeat(b.bytes((10, 10, 13, 13, 32, 32)), 0, most)
    item, root = b.rule("item"), b.rule("root")
    b.define(item, b.alt(b.literal(b"x"), b.seq(b.literal(b"("), blanks, b.call(item), blanks, b.literal(b")"))))
    b.define(root, b.seq(b.call(item), blanks, b.optional(b.literal(b";"))))
    parts = [b" " * count for count in range(6)] + [b"\n", b" \n", b"x", b"(", b")", b";"]
    made = {one + two + three for one in parts for two in parts for three in (b"", b"x", b"(", b" ")} - {b""}
    if thin:
        made = {bytes(run) + b"x();"[sum(run) % 4 :][:1] for run in product(b" \n\r", repeat=3)} | {b" " * 50}
    tokens: list[bytes | None] = [*sorted(made), None]
    at = matcher(load_engine("kernel"), b.build(root), tokens, (len(tokens) - 1,))
    for text in (b"", b"(", b"( ", b"((", b"((x", b"(x ", b"x", b"x ", b"((x) "):
        here = at.fork()
        assert here.accept_bytes(text) == (text.count(b" ") <= most), text
        assert here.allowed_tokens() == [token for token in range(len(tokens)) if here.fork().accept_token(token)], text


@pytest.mark.parametrize("least", [0, 1, 2, 4, 9])
@pytest.mark.parametrize("extra", [1, 3, 40])
def test_runs_of_bytes_with_a_least_length(least: int, extra: int) -> None:
    """Tokens that begin in a run and leave it, where the run is still too short, long enough or full."""
    b = GrammarBuilder()
    run = b.repeat(b.bytes((10, 10, 13, 13, 32, 32)), least, least + extra)
    made = {b" " * count + end for count in range(52) for end in (b"", b",", b",.", b"\n,")} | {b",", b"."}
    tokens: list[bytes | None] = [*sorted(made), None]
    at = matcher(load_engine("kernel"), one_rule(b, b.seq(run, b.literal(b",."))), tokens, (len(tokens) - 1,))
    for count in range(least + extra + 1):
        assert at.allowed_tokens() == [token for token in range(len(tokens)) if at.fork().accept_token(token)], count
        assert at.accept_bytes(b" ") == (count < least + extra)


@pytest.mark.parametrize(("minimum", "maximum"), [(0, 2), (1, 3), (4, 4)])
def test_a_counted_automaton_that_is_entered_again(engine: Engine, minimum: int, maximum: int) -> None:
    """A token may be longer than a counted automaton counts, where the automaton follows itself."""
    b = GrammarBuilder()
    others = ((0, 97, 0), (98, 98, 1), (99, 0x10FFFF, 0))
    without = (others, ((0, 45, 0), (47, 97, 0), *others[1:]))  # texts without "b."
    counted = b.automaton(without, (True, True), UTF8, minimum=minimum, maximum=maximum)
    tokens = [b"acdefghi"[:length] for length in range(1, 9)] + [b"ab.", None]
    start = matcher(engine, one_rule(b, b.repeat(counted)), tokens, ())
    for text in (b"", b"a", b"aaa"):
        at = start.fork()
        assert at.accept_bytes(text)
        assert at.allowed_tokens() == [token for token in range(len(tokens)) if at.fork().accept_token(token)], text
        assert set(range(8)) <= set(at.allowed_tokens())


@pytest.mark.parametrize("dense", [2, 24])
def test_escapes_in_a_counted_automaton(engine: Engine, dense: int) -> None:
    """An escape of JSON counts as one character, even where its few bytes pass for a class of characters."""
    b = GrammarBuilder()
    counted = b.automaton((((92, 92, 0), (97, 97, 0)),), (True,), JSON, minimum=2, maximum=3)
    tokens = [b"a", b"a\\", *(b"\\" * count for count in range(1, 9)), b"\\a", None]
    trie = engine.TokenTrie(tokens, len(tokens), thresholds={"dense_bytes": dense})
    limits = {"states": 1000, "stack_depth": 100, "memory": 1 << 24, "seconds": 30}
    start = engine.Matcher(engine.KernelGrammar(trie, one_rule(b, counted), **limits), [])
    for text in (b"", b"a", b"\\", b"aa", b"a\\"):
        at = start.fork()
        assert at.accept_bytes(text)
        assert at.allowed_tokens() == [token for token in range(len(tokens)) if at.fork().accept_token(token)], text
    assert start.allowed_tokens() == list(range(8)), "three characters are six backslashes at most"
