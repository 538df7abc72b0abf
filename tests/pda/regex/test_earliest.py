"""Rows of loops whose parts are matched where they first can be, and alternatives that share their loops, against `re`."""

from __future__ import annotations

import re
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines import Engine, accepts, matcher, prepare

from stackmask.pda.automata import dfa
from stackmask.pda.automata.charset import from_ranges
from stackmask.pda.grammar import ALT, AUTOMATON, JSON_ANY, LITERAL, REPEAT, SEQ, GrammarBuilder
from stackmask.pda.regex import compiler, earliest, regex_dfa, regex_grammar, regex_node

TEXTS = ["".join(text) for length in range(6) for text in product("abc\n", repeat=length)]
LOOPS = [".*", "[ab]*", "[^c]*", ".+", r"[\s\S]*", "a*", "(?:ab)*", ".{2,}"]
PARTS = ["a", "b", "ab", "aba", "aa", "c", "\n", "[ab]", "a?", "(?:a|bb)", "(?:ab|b)c", "", "a{2}", "(?:a*b)?", "[^a]b", "bbb"]


@pytest.fixture
def every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of any length are taken, and become nodes instead of one small automaton."""
    monkeypatch.setattr(earliest, "MANY_LOOPS", 1)
    monkeypatch.setattr(compiler, "small_dfa", lambda *_: None)


def rows() -> st.SearchStrategy[str]:
    """Some loops with something or nothing between them."""
    pieces = st.tuples(st.sampled_from(LOOPS), st.sampled_from(PARTS)).map("".join)
    return st.tuples(st.sampled_from(PARTS), st.lists(pieces, min_size=1, max_size=4).map("".join)).map("".join)


@pytest.mark.usefixtures("every_row")
@given(pattern=rows())
def test_rows_against_re(kernel: Engine, pattern: str) -> None:
    """All texts of up to five characters."""
    start = matcher(kernel, regex_grammar(pattern))
    expected = [text for text in TEXTS if re.fullmatch(pattern, text)]
    assert [text for text in TEXTS if accepts(start, text.encode())] == expected


@pytest.mark.usefixtures("every_row")
@given(pattern=st.lists(rows(), min_size=2, max_size=4).map("|".join))
def test_alternatives_against_re(kernel: Engine, pattern: str) -> None:
    """Alternatives, whose loops are shared."""
    start = matcher(kernel, regex_grammar(f"c?(?:{pattern})"))
    expected = [text for text in TEXTS if re.fullmatch(f"c?(?:{pattern})", text)]
    assert [text for text in TEXTS if accepts(start, text.encode())] == expected


@pytest.mark.usefixtures("every_row")
@given(chars=st.sets(st.sampled_from("abcdé"), min_size=1), data=st.data())
def test_until_a_word(chars: set[str], data: st.DataObject) -> None:
    """The automaton up to the first time that a word was read, in its canonical form."""
    word = data.draw(st.text(sorted(chars), min_size=1, max_size=6))
    transitions, accepting = earliest.until_word(from_ranges([(ord(char), ord(char)) for char in chars]), word)
    letters = f"[{''.join(sorted(chars))}]*"
    again = dfa.difference(regex_dfa(f"{letters}{word}", search=False), regex_dfa(rf"{letters}{word}[\s\S]+", search=False))
    assert dfa.Dfa(transitions, accepting) == again


def operators(pattern: str) -> list[int]:
    """The operators of the parts of a pattern's sequence."""
    grammar = regex_grammar(pattern)
    root = grammar.nodes[grammar.rules[grammar.root]]
    assert root[0] == SEQ
    return [grammar.nodes[part][0] for part in root[1:]]


@pytest.mark.usefixtures("every_row")
def test_which_parts_are_matched_first() -> None:
    """Those between a loop and one that reads at least as much."""
    assert operators(".*ab.*c.*") == [AUTOMATON, AUTOMATON, REPEAT]
    assert operators(".*(?:a|bc).+d") == [AUTOMATON, REPEAT, LITERAL]
    for kept in (r".*a\n.*", "[ab]*c[ab]*", ".*a[^b]*", "a*b.{2,}", f".*{'[ab]' * 65}.*"):
        assert AUTOMATON not in operators(kept), kept
    assert operators(".*a?.*b") == [REPEAT, LITERAL], "what may be empty is read by the next loop"
    assert operators(".*ab.*ab.*c") == [REPEAT, REPEAT, LITERAL], "equal automata are a repetition"


def test_only_many_loops() -> None:
    """Other patterns are as they were written."""
    few = "".join(f".*{word:05}[a-z]{{0,300}}" for word in range(earliest.MANY_LOOPS - 1))
    assert AUTOMATON not in operators(few)
    many = "".join(f".*{word:05}" for word in range(1000)) + ".*"
    assert operators(many) == [*[AUTOMATON] * 1000, REPEAT]


def test_determinised_parts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts behind the first few stay as they are."""
    monkeypatch.setattr(earliest, "MOST_DETERMINISED", 3)
    monkeypatch.setattr(compiler, "small_dfa", lambda *_: None)
    found = operators("".join(f".*[{letter}0]1" for letter in "abcdefghijklmnopqrst") + ".*")
    assert found.count(AUTOMATON) == 3 and found.count(REPEAT) == 18


def test_rows_in_json(kernel: Engine) -> None:
    """The automata read JSON's escapes."""
    builder = GrammarBuilder()
    node = regex_node(builder, '.*a"' * 20 + ".*", search=False, encoding=JSON_ANY)
    rule = builder.rule("root")
    builder.define(rule, node)
    start = matcher(kernel, builder.build(rule))
    assert accepts(start, rb"x\u0022a\"" * 20) and not accepts(start, rb"a\"" * 19 + rb"a\u0023")


def test_states_of_rows_are_small(kernel: Engine) -> None:
    """Twice the words take about twice the work: no state holds the loops behind it."""
    work: list[int] = []
    for size in (150, 300):
        random = Random(size)
        words = ["".join(random.choices("abcdefgh", k=8)) for _ in range(size)]
        prepared = prepare(kernel, regex_grammar("".join(f".*{word}" for word in words)), [b"a", None])
        assert kernel.Matcher(prepared, [1]).accept_bytes(" ".join(words).encode())
        work.append(prepared.statistics["work"])
    assert work[1] < 3 * work[0]


def test_loops_of_alternatives_are_shared() -> None:
    """Both ends, one end, and alternatives that have none of them."""
    grammar = regex_grammar("c?(?:.*ab.*|.*ba.*|a.*|x|b.*|.*.*)[0-9]{0,999}")
    alternatives = next(node for node in grammar.nodes if node[0] == ALT and len(node) == 5)
    shapes = [[grammar.nodes[part][0] for part in grammar.nodes[at][1:]] for at in alternatives[1:] if grammar.nodes[at][0] == SEQ]
    assert shapes == [[REPEAT, ALT, REPEAT], [ALT, REPEAT]]


@pytest.mark.parametrize(
    ("pattern", "counts"),
    [
        ("x?(?:[ab]{3}|[ab]{4,6}|c)", [(3, 6)]),
        ("x?(?:[ab]{4,6}|[ab]{2,9}|[ab]{10})", [(2, 10)]),
        ("x?(?:[ab]{2}|[ab]{4}|[ab]{5,})", [(2, 2), (4, -1)]),
        ("x?(?:[ab]{7,}|[ab]{2,6}|[ab]{3}|c{3})", [(2, -1), (3, 3)]),
        ("x?(?:[ab]{2}|[bc]{3})", [(2, 2), (3, 3)]),
        ("x?(?:[ab]{2,3}|c|[ab]{5})", [(2, 3), (5, 5)]),
        ("x?(?:[ab]*|[ab]{5})", [(0, -1)]),
        ("x?(?:[ab]{2,3}|cc|[ab])", [(1, 3)]),
        ("x?(?:[ab]{3}|[ab])", [(3, 3)]),
    ],
)
@pytest.mark.usefixtures("every_row")
def test_counts_of_alternatives_are_united(kernel: Engine, pattern: str, counts: list[tuple[int, int]]) -> None:
    """Where they leave no gap."""
    grammar = regex_grammar(pattern)
    _, _, alternatives = grammar.nodes[grammar.rules[grammar.root]]
    parts = [alternatives] if grammar.nodes[alternatives][0] == REPEAT else grammar.nodes[alternatives][1:]
    assert [tuple(grammar.nodes[part][2:]) for part in parts if grammar.nodes[part][0] == REPEAT] == counts
    start = matcher(kernel, grammar)
    texts = ["".join(text) for length in range(12) for text in product("ab" if length < 4 else "a", repeat=length)] + [
        "c",
        "ccc",
        "bcb",
        "xaa",
    ]
    for text in texts:
        assert accepts(start, text.encode()) == (re.fullmatch(pattern, text) is not None), text
