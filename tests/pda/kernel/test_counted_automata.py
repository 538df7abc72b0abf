"""Automata with bounds on the number of characters and texts without some words, against the automata that they stand for."""

from __future__ import annotations

import json
import struct
from itertools import pairwise, product
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from support.engines import load_engine, matcher, one_rule

from stackmask.pda.automata import dfa, language
from stackmask.pda.automata.dfa import Dfa
from stackmask.pda.grammar import JSON, JSON_ANY, UTF8, GrammarBuilder
from stackmask.pda.regex import regex_dfa

LETTERS = "abé"
ENGINES = ("kernel", "reference")
"""The engines that know these nodes."""


@st.composite
def automata(draw: st.DrawFn) -> Dfa:
    """A small automaton, trimmed."""
    states = draw(st.integers(1, 5))
    rows = []
    for _ in range(states):
        kept = [ord(letter) for letter in LETTERS if draw(st.booleans())]
        rows.append(tuple((code, code, draw(st.integers(0, states - 1))) for code in kept))
    return dfa.minimize(Dfa(tuple(rows), tuple(draw(st.booleans()) for _ in range(states))))


def lengths(automaton: Dfa, state: int, most: int) -> list[int]:
    """The lengths up to `most` of the texts accepted from a state."""
    found, current = [], {state}
    for length in range(most + 1):
        if any(automaton.accepting[s] for s in current):
            found.append(length)
        current = {target for s in current for _, _, target in automaton.transitions[s]}
    return found


@given(automata(), st.integers(1, 8))
def test_skipped_lengths(automaton: Dfa, width: int) -> None:
    """A gap is found exactly where the lengths of some state's texts leave out that many in a row."""
    expected = any(
        after - before > width
        for state in range(len(automaton.accepting))
        for found in [lengths(automaton, state, 80)]
        for before, after in pairwise(found)
    )
    assert language.skips_lengths(automaton, width) == expected


def test_skipped_lengths_are_not_sought_forever() -> None:
    """Cycles of coprime lengths come back after their product; past a number of steps the answer is the safe one."""
    automaton = regex_dfa("x(a{5})*|y(a{7})*", search=False)
    assert not language.skips_lengths(automaton, 7)
    assert language.skips_lengths(automaton, 6)
    assert language.skips_lengths(automaton, 7, steps=100)


@pytest.mark.parametrize("engine", ENGINES)
@given(data=st.data())
def test_bounds(engine: str, data: Any) -> None:
    """The texts are those of the automaton whose number of characters keeps the bounds, and every mask leads to one of them."""
    automaton = data.draw(automata())
    minimum = data.draw(st.integers(0, 5))
    maximum = data.draw(st.just(-1) | st.integers(minimum, 6))
    if minimum and maximum >= 0 and language.skips_lengths(automaton, maximum - minimum + 1):
        return
    builder = GrammarBuilder()
    counted = builder.automaton(automaton.transitions, automaton.accepting, UTF8, minimum=minimum, maximum=maximum)
    grammar = one_rule(builder, builder.seq(builder.literal(b"<"), counted, builder.literal(b">")))
    expected = dfa.restrict_length(automaton, minimum, maximum)
    words = {"".join(word) for n in range(8) for word in product(LETTERS, repeat=n) if language.accepts(expected, "".join(word))}
    if language.is_empty(expected):
        return
    tokens = (b"<", b">", b"a", b"b", "é".encode(), b"ab", "aé".encode()[:-1], b"bb>", b"a>", None)
    at = matcher(load_engine(engine), grammar, tokens, (9,))
    at.accept_token(0)
    pending = [("", at)]
    while pending:
        text, here = pending.pop()
        assert (text in words) == here.fork().accept_bytes(b">"), text
        assert here.allowed_tokens() == [token for token in range(len(tokens)) if here.fork().accept_token(token)], text
        for letter in LETTERS:
            following = here.fork()
            leads = following.accept_bytes(letter.encode())
            grown = text + letter
            assert leads == _leads(expected, grown), grown
            if leads and len(grown) < 4:
                pending.append((grown, following))


def _leads(automaton: Dfa, text: str) -> bool:
    """Whether a trimmed automaton accepts a text that begins so."""
    state = 0
    for character in text:
        targets = [target for lo, hi, target in automaton.transitions[state] if lo <= ord(character) <= hi]
        if not targets:
            return False
        (state,) = targets
    return True


@pytest.mark.parametrize(
    ("pattern", "minimum", "maximum"), [("^[a-z]+(-[a-z]+)*$", 0, 63), ("a.*b", 5, -1), ("^(ab)+$", 3, 4), ("^[0-9]+$", 3, 3)]
)
def test_long_bounds(pattern: str, minimum: int, maximum: int) -> None:
    """Patterns as schemas have them, on texts around the bounds."""
    automaton = regex_dfa(pattern, search=True)
    builder = GrammarBuilder()
    node = builder.automaton(automaton.transitions, automaton.accepting, UTF8, minimum=minimum, maximum=maximum)
    for engine in ENGINES:
        start = matcher(load_engine(engine), one_rule(builder, node))
        for length in (*range(8), 62, 63, 64, 65):
            for text in ("a" * length, "ab" * (length // 2), "a-" * (length // 2), "0" * length, "a" * (length - 1) + "b"):
                keeps = minimum <= len(text) and (maximum < 0 or len(text) <= maximum)
                fork = start.fork()
                taken = fork.accept_bytes(text.encode()) and fork.is_completed()
                assert taken == (keeps and language.accepts(automaton, text)), text


WORDS = st.text(alphabet='ab"é日\U0001f600\n', max_size=4)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("encoding", [UTF8, JSON, JSON_ANY])
@given(words=st.lists(WORDS, max_size=5), others=st.lists(WORDS, max_size=5))
def test_exceptions(engine: str, encoding: int, words: list[str], others: list[str]) -> None:
    """Every text but the words is read, and every beginning of a text leads on, since no word ends everything."""
    builder = GrammarBuilder()
    start = matcher(load_engine(engine), one_rule(builder, builder.except_words(words, encoding)))
    for text in (*words, *others, *(word[:-1] for word in words), *(word + "b" for word in words)):
        spelt = (text if encoding == UTF8 else json.dumps(text, ensure_ascii=False)[1:-1]).encode()
        fork = start.fork()
        assert fork.accept_bytes(spelt), text
        assert fork.is_completed() == (text not in words), text
    if encoding == JSON_ANY:
        for word in words:
            fork = start.fork()
            escaped = "".join(
                f"\\u{unit:04x}" for unit in struct.unpack(f"<{len(word.encode('utf-16-le')) // 2}H", word.encode("utf-16-le"))
            )
            assert fork.accept_bytes(escaped.encode())
            assert not fork.is_completed()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("maximum", [1, 2, 5])
def test_no_byte_leads_past_the_bound(engine: str, maximum: int) -> None:
    """With a token for every byte too, neither mask nor next bytes hold what leaves too few characters for the rest."""
    rows = (((97, 97, 0), (98, 98, 1)), ((97, 97, 0), (98, 98, 1)))  # texts that end in b
    builder = GrammarBuilder()
    counted = builder.automaton(rows, (False, True), UTF8, maximum=maximum)
    start = matcher(load_engine(engine), one_rule(builder, builder.seq(builder.literal(b"<"), counted, builder.literal(b">"))))
    start.accept_bytes(b"<")
    for text in map("".join, (word for size in range(maximum + 1) for word in product("ab", repeat=size))):
        here = start.fork()
        if here.accept_bytes(text.encode()):
            allowed = [token for token in range(256) if here.fork().accept_token(token)]
            assert here.allowed_tokens() == allowed, text
            assert list(here.next_bytes()) == allowed, text


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("minimum", "maximum"), [(0, 2), (3, -1), (3, 3), (40, 400), (90, -1)])
def test_shortest_completions(engine: str, minimum: int, maximum: int) -> None:
    """What completes a text takes the characters that are missing, and none where none are."""
    builder = GrammarBuilder()
    counted = builder.automaton((((97, 122, 0),),), (True,), UTF8, minimum=minimum, maximum=maximum)
    either = builder.alt(builder.seq(counted, builder.literal(b">")), builder.seq(counted, builder.literal(b"=longer")))
    at = matcher(load_engine(engine), one_rule(builder, builder.seq(builder.literal(b"<"), either)))
    assert at.accept_bytes(b"<")
    for count in range(min(maximum, 110) + 1 if maximum >= 0 else 110):
        assert at.shortest_completion() == b"a" * max(0, minimum - count) + b">"
        assert count == maximum or at.accept_bytes(b"k")


LARGE = {
    "letters and others": (r"(?:\p{L}{1,3}\P{L}){1,4}", 0, -1),
    "letters and others, counted": (r"(?:\p{L}{1,3}\P{L}){1,4}", 3, 7),
    "capitals in a row": (r".*\P{Lu}{4}.*", 5, 9),
    # A character that begins with C3 is a letter, behind which there are no characters or five.
    "a gap between lengths": (r"\p{Lu}|\p{Ll}[0-9]{5}|[0-9]{1,6}", 3, 3),
    "a gap between lengths, to its end": (r"\p{Lu}|\p{Ll}[0-9]{5}|[0-9]{1,6}", 6, 6),
}


@pytest.mark.parametrize("encoding", [UTF8, JSON, JSON_ANY])
@pytest.mark.parametrize("name", LARGE)
def test_large_classes(name: str, encoding: int) -> None:
    """Large classes of characters are spelled as texts come to them, and every byte leads where it does if they are spelled at once."""
    pattern, minimum, maximum = LARGE[name]
    automaton = regex_dfa(pattern, search=False)
    builder = GrammarBuilder()
    node = builder.automaton(automaton.transitions, automaton.accepting, encoding, minimum=minimum, maximum=maximum)
    grammar = one_rule(builder, builder.seq(node, builder.literal(b">")))
    kernel, bytes_ = load_engine("kernel"), [*(bytes([byte]) for byte in range(256)), None]
    options = {"states": 1_000_000, "stack_depth": 1_000_000, "memory": 64 << 20, "seconds": 30.0}
    made = [
        kernel.KernelGrammar(kernel.TokenTrie(bytes_, 257, thresholds={"spelled_ranges": least}), grammar, **options)
        for least in (0, 10**9)
    ]
    begun = 0
    for text in ("aé1б2Éx5>", "123456>", "é12345>", "É>", "\\u00e912345>", "aB1ДДДДД>", "\U0001d504\U0001f600a1>"):
        lazy, whole = (kernel.Matcher(each, [256]) for each in made)
        for byte in text.encode():
            assert lazy.allowed_tokens() == whole.allowed_tokens(), text
            if not whole.accept_token(byte):
                assert not lazy.accept_token(byte)
                break
            assert lazy.accept_token(byte)
            begun += 1
        assert lazy.shortest_completion() == whole.shortest_completion()
    assert begun > 2
    assert made[0].statistics["nfa_states"] < made[1].statistics["nfa_states"]
