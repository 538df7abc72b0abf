"""Lists of words, and other patterns whose preferred texts are found without lists of threads, against `re` and the general way."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmask.pda.automata import dfa
from stackmask.pda.automata.language import accepts, enumerate_texts
from stackmask.pda.budget import Budget
from stackmask.pda.exceptions import LimitError
from stackmask.pda.grammar import AUTOMATON, EMPTY, LITERAL, GrammarBuilder
from stackmask.pda.lark import lark_grammar
from stackmask.pda.limits import Limits
from stackmask.pda.regex import first_match, regex_dfa, regex_grammar
from stackmask.pda.regex.parser import parse_python
from stackmask.pda.regex.words import word_list

WORDS = st.lists(st.text("abcK", max_size=4), min_size=1, max_size=8)


def general(pattern: str, *, preferring: bool) -> dfa.Dfa:
    """The automaton by lists of threads."""
    budget = Budget()
    return first_match._Threads(first_match._Nfa(parse_python(pattern, budget), budget), budget, preferring=preferring).dfa()


@given(words=st.lists(st.text("abcK", max_size=4), min_size=33, max_size=60), flag=st.sampled_from(["", "i"]))
def test_many_words_are_a_choice(words: list[str], flag: str) -> None:
    """The node of many words generates those that `re.match` finds whole, in any case too."""
    pattern = f"(?{flag}:{'|'.join(words)})"
    builder = GrammarBuilder()
    node = first_match.preferred_node(builder, parse_python(pattern, Budget()), Budget())
    operator, *payload = builder.nodes[node]
    assert operator in (AUTOMATON, EMPTY, LITERAL)
    whole = dfa.Dfa(payload[0], payload[1]) if operator == AUTOMATON else dfa.from_string(payload[0].decode() if payload else "")
    for text in {*words, *(word.swapcase() for word in words), *(word[:-1] for word in words), *(word + "a" for word in words)}:
        found = re.match(pattern, text)
        assert accepts(whole, text) == (found is not None and found.end() == len(text)), text


@given(words=WORDS, flag=st.sampled_from(["", "(?i)"]))
def test_words_match_as_in_python(words: list[str], flag: str) -> None:
    """Of a list of words, those are preferred that `re.match` finds whole, and all match as a whole."""
    pattern = flag + "|".join(words)
    tree = parse_python(pattern, Budget())
    assert word_list(tree, tree.root) is not None
    preferred, whole = first_match.preferred_dfa(tree, Budget()), first_match.whole_dfa(tree, Budget())
    for text in {*words, *(word.swapcase() for word in words), *(word[:-1] for word in words), *(word + "a" for word in words)}:
        found = re.match(pattern, text)
        assert accepts(preferred, text) == (found is not None and found.end() == len(text)), text
        assert accepts(whole, text) == (re.fullmatch(pattern, text) is not None), text
    assert preferred == general(pattern, preferring=True)
    assert whole == general(pattern, preferring=False)


@pytest.mark.parametrize("pattern", ["[ab]c|bd", "a|b*", "ab|c[^\\s\\S]", "ab|c$"])
def test_what_is_no_list_of_words(pattern: str) -> None:
    """Sets that overlap or are empty, repetitions and assertions are left to the general way."""
    tree = parse_python(pattern, Budget())
    assert word_list(tree, tree.root) is None


@pytest.mark.parametrize(
    ("pattern", "is_ruled_out"),
    [
        (r"(?!(?:if|in)\b)[a-z_][a-z0-9_]{0,5}", True), (r"(?!ab)(?!b\B)[ab-]{0,3}c?", True), (r"(?!a\Z)(?:a|bc)*", True),
        (r"(?i:(?!if\b)[a-z-]+)", True), (r"(?!(?:a|ab)c)[a-c]*", True), (r"(?!a)", False), (r"(?!a)(?:b|bc)", False),
        (r"(?!a)[ab]*?", False), (r"[ab]*(?!a)", False), (r"(?<!a)[ab]*", False), (r"(?!a)a*+", True),
    ],
)  # fmt: skip
def test_texts_that_lookaheads_rule_out(pattern: str, is_ruled_out: bool) -> None:
    """Of what is read in one way, negative lookaheads leave the texts that lists of threads leave."""
    tree = parse_python(pattern, Budget())
    assert first_match._is_ruled_out_ahead(tree, Budget()) == is_ruled_out
    assert first_match.preferred_dfa(tree, Budget()) == general(pattern, preferring=True)


def test_a_thousand_keywords_that_no_name_is() -> None:
    """They cost about as much as the trie of the keywords, in a terminal as in a regex."""
    words = [f"k{number}" for number in range(1000)]
    pattern = rf"(?!(?:{'|'.join(words)})\b)[a-z_][a-z0-9_]{{0,30}}"
    found = first_match.preferred_dfa(parse_python(pattern, Budget()), Budget(Limits(compile_work=300_000)))
    assert found == regex_dfa(pattern, search=False, budget=Budget(Limits(compile_work=300_000)))
    accepted = [word for word in ("k1", "k999", "k", "k1000", "k1x", "k_9", "7k", "k" * 31, "k" * 32) if accepts(found, word)]
    assert accepted == ["k", "k1000", "k1x", "k_9", "k" * 31]


@pytest.mark.parametrize(
    "pattern",
    ["(a?){2,6}b", "(?:a|ab)(?:c|bcd)", "(?:a|ab)(?:c|bcd)d*", "a*?b", "(a??b?){0,3}c", "(?:a|b)*?c|ac", "x(?:a?b?){3}", "(?:ab?)+?"],
)
def test_shortcuts_agree_with_the_general_way(pattern: str) -> None:
    """The automaton of preferred texts is the same where all texts happen to be preferred, and that of all texts is."""
    tree = parse_python(pattern, Budget())
    assert first_match.preferred_dfa(tree, Budget()) == general(pattern, preferring=True)
    assert first_match.whole_dfa(tree, Budget()) == general(pattern, preferring=False)


def test_nested_optional_counts() -> None:
    """Hundreds of nested optional parts are as quick as a terminal of Lark as they are as a regex, and mean the same."""
    tree = parse_python("(a?){2,300}b", Budget())
    assert first_match.preferred_dfa(tree, Budget()) == regex_dfa("a{0,300}b", search=False)
    start = time.process_time()
    lark_grammar("start: /(a?){2,300}b/", limits=Limits(compile_seconds=10))
    assert time.process_time() - start < 5


def test_threads_are_followed_once() -> None:
    """Where many threads come to one state, the first goes on from it: this took a time cubic in the count."""
    start = time.process_time()
    automaton = general("(a?){2,100}", preferring=True)
    assert automaton == regex_dfa("a{0,100}", search=False)
    assert time.process_time() - start < 10


def test_many_words() -> None:
    """Thousands of words make one small terminal, whose texts are the words that lark's order prefers."""
    words = sorted({f"{number * 7919 % 10_007:04d}x"[: 3 + number % 3] for number in range(3_000)})
    tree = parse_python("|".join(words), Budget())
    found = set(enumerate_texts(first_match.preferred_dfa(tree, Budget(Limits(compile_seconds=10)))))
    assert found == {word for word in words if not any(word[:size] in words for size in range(1, len(word)))}


def test_large_sets_in_a_long_row() -> None:
    """Thousands of sets of hundreds of ranges end at the limit of time, and as a grammar they are not spelt out."""
    pattern = r"\p{L}" * 2_000
    start = time.process_time()
    with pytest.raises(LimitError) as caught:
        regex_dfa(pattern, search=False, limits=Limits(compile_seconds=0.01))
    assert caught.value.limit == "compile_seconds"
    assert len(regex_grammar(pattern).nodes) <= 2_002
    assert time.process_time() - start < 5


def test_many_ambiguous_parts() -> None:
    """The automaton of all texts is tried first, and given up after an eighth of the work; that of preferred texts takes half."""
    parts = [f"(?:[a-{chr(98 + number % 24)}]{{1,5}}|(?:ab{number}c)+)" for number in range(30)]
    budget = Budget()
    with pytest.raises(LimitError, match="one automaton takes more than 1,000,000 steps"):
        first_match.preferred_dfa(parse_python("".join(parts), budget), budget)
    assert budget.work < 1_270_000
