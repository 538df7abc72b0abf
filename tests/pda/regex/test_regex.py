"""Regular expressions: the corpus on automata and grammars, all small patterns and random ones against `re` and against the definition."""

from __future__ import annotations

import gzip
import itertools
import json
import random
import re
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.corpus import cases
from support.engines import Engine, matcher, one_rule
from support.engines import accepts as generates
from support.regex_oracle import Oracle

from stackmask.pda.automata import dfa, language
from stackmask.pda.budget import Budget
from stackmask.pda.exceptions import LimitError, RegexError, UnsatisfiableError
from stackmask.pda.grammar import JSON, JSON_ANY, NEVER, REPEAT, UTF8, GrammarBuilder
from stackmask.pda.limits import Limits
from stackmask.pda.regex import parse, regex_dfa, regex_grammar, regex_node
from stackmask.pda.regex.assertions import AlternatingAutomaton
from stackmask.pda.regex.ast import Repeat
from stackmask.pda.regex.branches import outer_branches
from stackmask.pda.regex.lookaround import lookaround_dfa
from stackmask.pda.regex.to_nfa import branches_dfa

CASES = cases("regex.toml")
GOOD = [case for case in CASES if "error" not in case]
BAD = [case for case in CASES if "error" in case]
TEXTS = ["".join(text) for length in range(5) for text in itertools.product("ab", repeat=length)]


def names(case: dict[str, Any]) -> str:
    return str(case["name"])


# The corpus.


@pytest.mark.parametrize("case", GOOD, ids=names)
def test_corpus(case: dict[str, Any]) -> None:
    """The automaton accepts what matches and nothing else, and so says the definition."""
    search = case.get("search", False)
    automaton = regex_dfa(case["pattern"], search=search)
    ast = parse(case["pattern"])
    for expected in (True, False):
        for text in case.get("accepts" if expected else "rejects", []):
            assert language.accepts(automaton, text) == expected, text
            oracle = Oracle(ast, text)
            assert (oracle.search() if search else oracle.whole()) == expected, text
    if search:
        assert dfa.minimize(automaton) == automaton


@pytest.mark.parametrize("case", BAD, ids=names)
def test_errors(case: dict[str, Any]) -> None:
    """What is no regular expression or no regular language is refused with its reason, and a caret below its place."""
    with pytest.raises(RegexError) as caught:
        regex_dfa(case["pattern"], search=False)
    assert case["error"] in str(caught.value)
    assert caught.value.position is not None
    assert str(caught.value).endswith("^")
    assert 0 <= caught.value.position <= len(case["pattern"])
    with pytest.raises(RegexError):
        regex_node(GrammarBuilder(), case["pattern"], search=True)
    with pytest.raises(RegexError):
        regex_grammar(case["pattern"])


def spellings(text: str, encoding: int) -> list[bytes]:
    """Some ways a text is written in an encoding."""
    if encoding == UTF8:
        return [text.encode()]
    plain = json.dumps(text, ensure_ascii=False)[1:-1].replace("\x7f", "\x7f")
    found = [plain.encode(), plain.replace("/", r"\/").encode()]
    if encoding == JSON_ANY:
        found.append(json.dumps(text)[1:-1].encode())
        units = text.encode("utf-16-be").hex()
        found.append("".join(rf"\u{units[i : i + 4]}" for i in range(0, len(units), 4)).encode())
        found.append(found[-1].replace(b"a", b"A").replace(b"d", b"D"))
    return found


@pytest.mark.parametrize("encoding", [UTF8, JSON, JSON_ANY], ids=["utf8", "json", "json_any"])
@pytest.mark.parametrize("case", GOOD, ids=names)
def test_corpus_as_grammar(engine: Engine, case: dict[str, Any], encoding: int) -> None:
    """Both engines generate what matches, in every spelling of the encoding, and nothing else; masks have no dead end there."""
    builder = GrammarBuilder()
    node = regex_node(builder, case["pattern"], search=case.get("search", False), encoding=encoding)
    if builder.nodes[node] == (NEVER,):
        assert not case.get("accepts")
        return
    start = matcher(engine, one_rule(builder, node))
    for text in case.get("accepts", []):
        for data in spellings(text, encoding):
            assert generates(start, data), data
    for text in case.get("rejects", []):
        for data in spellings(text, encoding):
            assert not generates(start, data), data


@pytest.mark.parametrize("case", [case for case in GOOD if not case.get("search")], ids=names)
def test_corpus_as_regex_grammar(kernel: Engine, case: dict[str, Any]) -> None:
    """The grammar of a pattern alone generates the texts that match as a whole."""
    try:
        start = matcher(kernel, regex_grammar(case["pattern"]))
    except UnsatisfiableError:
        assert not case.get("accepts")
        return
    for expected in (True, False):
        for text in case.get("accepts" if expected else "rejects", []):
            assert generates(start, text.encode()) == expected, text


# Against `re`, which agrees with ECMA-262 on these patterns once `$` is written `\Z`.


def small_patterns(size: int) -> list[str]:
    """All patterns of a number of symbols: atoms, quantifiers, concatenation, alternation, lookarounds."""
    if size == 1:
        return ["a", "b", "[^a]", "^", r"\Z", r"\b", ""]
    found = [f"(?:{inner})*" for inner in small_patterns(size - 1)]
    found += [f"(?{kind}{inner})" for kind in ("=", "!", "<=", "<!") for inner in small_patterns(size - 1)]
    for left in range(1, size - 1):
        for one in small_patterns(left):
            for other in small_patterns(size - 1 - left):
                found += [f"{one}{other}", f"(?:{one}|{other})"]
    return found


def compiled(pattern: str) -> re.Pattern[str] | None:
    """The pattern of `re`; None where it refuses it, as it does lookbehinds of more than one length, or may read it differently one day."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)
            return re.compile(pattern, re.ASCII)
    except (re.error, FutureWarning):
        return None


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_all_small_patterns(size: int) -> None:
    """Every small pattern on every short text; about 1,500 patterns, each in both semantics."""
    texts = TEXTS if size < 4 else TEXTS[:15]
    patterns = small_patterns(size)
    for pattern in patterns if size < 4 else patterns[::3]:
        theirs = compiled(pattern)
        if theirs is None:
            continue
        whole, search = regex_dfa(pattern, search=False), regex_dfa(pattern, search=True)
        for text in texts:
            assert language.accepts(whole, text) == (theirs.fullmatch(text) is not None), (pattern, text)
            assert language.accepts(search, text) == (theirs.search(text) is not None), (pattern, text)


atoms = st.sampled_from(["a", "b", "ab", ".", "[^a]", "[ab]", r"\w", r"\W", r"\s", "^", "$", r"\b", r"\B", "", r"\n", "(?:)"])


def compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    quantifiers = st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{2}", "{1,}", "{0,2}", "{1,3}?"])
    kinds = st.sampled_from(["(?:", "(", "(?=", "(?!", "(?<=", "(?<!", "(?i:", "(?s:", "(?m:"])
    return (
        st.builds("(?:{}){}".format, inner, quantifiers)
        | st.builds("{}{}".format, inner, inner)
        | st.builds("(?:{}|{})".format, inner, inner)
        | st.builds("{}|{}".format, inner, inner)
        | st.builds("{}{})".format, kinds, inner)
    )


patterns = st.recursive(atoms, compound, max_leaves=7)
short_texts = st.lists(st.text("abA \n", max_size=6), min_size=5, max_size=20)


@given(patterns, short_texts)
@example("(?!(?:a?(?=b))*)", ["", "a", "ab"])
def test_random_patterns(pattern: str, texts: list[str]) -> None:
    """The automaton says what the definition says, as a whole match and as a search."""
    ast = parse(pattern)
    whole, search = regex_dfa(pattern, search=False), regex_dfa(pattern, search=True)
    for text in texts:
        oracle = Oracle(ast, text)
        assert language.accepts(whole, text) == oracle.whole()
        assert language.accepts(search, text) == oracle.search()


@given(patterns, short_texts)
def test_random_patterns_against_re(pattern: str, texts: list[str]) -> None:
    """The automaton says what `re` says."""
    # Flag m would give `$` a third meaning, and to `re` before Python 3.14 nothing in "" is no boundary: left to the definition.
    pattern = pattern.replace("(?m:", "(?:").replace(r"\B", r"(?!\b)")
    theirs = compiled(pattern.replace("$", r"\Z"))
    if theirs is None:
        return
    whole, search = regex_dfa(pattern, search=False), regex_dfa(pattern, search=True)
    for text in texts:
        assert language.accepts(whole, text) == (theirs.fullmatch(text) is not None)
        assert language.accepts(search, text) == (theirs.search(text) is not None)


@given(patterns, st.booleans())
def test_all_ways_agree(pattern: str, search: bool) -> None:
    """Where several constructions apply to a pattern, they give the same automaton."""
    ast = parse(pattern)
    found = regex_dfa(pattern, search=search)
    assert AlternatingAutomaton(ast, search=search, budget=Budget()).dfa() == found
    branches = outer_branches(ast, search=search)
    if branches is not None:
        assert branches_dfa(ast, branches, search=search, budget=Budget()) == found
    other = lookaround_dfa(ast, search=search, budget=Budget())
    assert other is None or other == found


@pytest.mark.parametrize(
    ("pattern", "is_plain"),
    [
        (r"(?m)^(?:[ab]{1,2}\n){1,2}$", True), (r"(?m)^a|b$", True), (r"(?m:^a|(?:^b$))", True), (r"(?m)a\n^b$", False),
        (r"(?m)(?:^a$\n?)+", False),
        (r"(?m)^$|a$\n", False),
    ],
)  # fmt: skip
def test_anchors_of_lines_at_the_ends(pattern: str, is_plain: bool) -> None:
    """At the ends of a pattern that has to match as a whole they say nothing; in search they are found at every line."""
    ast = parse(pattern)
    assert (outer_branches(ast, search=False) is not None) == is_plain
    assert outer_branches(ast, search=True) is None
    for search in (False, True):
        found = regex_dfa(pattern, search=search)
        assert found == AlternatingAutomaton(ast, search=search, budget=Budget()).dfa()
        for text in map("".join, itertools.chain.from_iterable(itertools.product("ab\n", repeat=size) for size in range(6))):
            theirs = re.search(pattern, text) if search else re.fullmatch(pattern, text)
            assert language.accepts(found, text) == (theirs is not None), text


edges = ["(?=a)", "(?!b)", "(?=.*b)", "(?!a$)", "(?<=a)", "(?<!b)", "(?<=^a)", "(?<!ab)", "^", "$", "(?=ab|b$)", r"(?!a\b)", ""]


@pytest.mark.parametrize("left", edges)
def test_common_lookarounds(left: str) -> None:
    """Lookarounds at the ends of a branch: intersections give what the general construction gives."""
    for inner, right, core, search in itertools.product(edges, edges, ["a", "[ab]*"], [True, False]):
        ast = parse(left + inner + core + right + ("|b$" if len(inner) % 2 else ""))
        found = lookaround_dfa(ast, search=search, budget=Budget())
        assert found is None or found == AlternatingAutomaton(ast, search=search, budget=Budget()).dfa(), ast.pattern


@pytest.mark.parametrize(
    ("look", "is_common"),
    [
        (r"(?!(?:if|a-)\b)", True), (r"(?=a*[-b]\b)", True), (r"(?=(?:ab|a-)\B)", True), (r"(?!if\b|b\B|a$|-a)", True),
        (r"(?=(?:a|-){2}\b)", True), (r"(?i:(?!if\b))", True), (r"(?!a\b-)", True), (r"(?=.\b.\B.\b)", True),
        (r"(?!a\b-b$|-\Ba?b\b$)", True),
        (r"(?=a?\b)", None), (r"(?=\b)", None), (r"(?=\ba)", None), (r"(?!.*\b(?:a|if)\b)", None),
        (r"(?!.*\Bb)", None), (r"(?=\B-\b)", None), (r"(?=(?:ab){0,2}\b)", None), (r"(?=(?:a|)\b)", None), (r"(?=\b$|a)", None),
        (r"(?!a\b\b)", False), (r"(?=(?:a\b|b)-)", False), (r"(?<=a\b)", False), (r"(?=(?:a\b)+)", False),
        (r"(?=a\b-?)", False), (r"(?=a\b-?\bb)", False), (r"(?!^a\b)", False),
    ],
)  # fmt: skip
def test_lookaheads_with_boundaries(look: str, is_common: bool | None) -> None:
    """They are intersections, too, with the same result; some only at the start of the text, and not where a part may be empty."""
    for core, search in itertools.product([r"[ab-]*", r"^[a-z]+$", r"\w?.", r"if|-"], [True, False]):
        ast = parse(look + core)
        found = lookaround_dfa(ast, search=search, budget=Budget())
        assert (found is not None) == ((not search or "^" in core) if is_common is None else is_common), ast.pattern
        assert found is None or found == AlternatingAutomaton(ast, search=search, budget=Budget()).dfa(), ast.pattern


@given(patterns, short_texts, st.booleans())
def test_random_patterns_as_nodes(kernel: Engine, pattern: str, texts: list[str], search: bool) -> None:
    """The grammar nodes of a pattern, inside a JSON string, generate what the automaton accepts."""
    builder = GrammarBuilder()
    node = regex_node(builder, pattern, search=search, encoding=JSON)
    automaton = regex_dfa(pattern, search=search)
    if automaton == dfa.NOTHING:
        # Nodes are only as certain of that as their empty classes are; the kernel decides.
        if builder.nodes[node] != (NEVER,):
            with pytest.raises(UnsatisfiableError):
                matcher(kernel, one_rule(builder, node))
        return
    start = matcher(kernel, one_rule(builder, node))
    for text in texts:
        assert generates(start, spellings(text, JSON)[0]) == language.accepts(automaton, text)


# Real patterns.


def test_real_patterns(data: Path) -> None:
    """Samples of what the patterns of real schemas accept and refuse: `re` agrees on every one."""
    found: set[str] = set()
    with gzip.open(data / "maskbench-dev.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            found.update(re.findall(r'"pattern":"((?:[^"\\]|\\.)*)"', line))
    rng = random.Random(3)
    printable = dfa.minimize(dfa.Dfa((((0x20, 0x7E, 0),),), (True,)))
    checked = 0
    for source in sorted(found)[::5]:
        pattern = json.loads(f'"{source}"')
        # `\Z` is what `$` means here; inside a class or behind a backslash it is a character.
        theirs = compiled(re.sub(r"(?<!\\)\$(?![^\[]*\])", r"\\Z", pattern))
        if theirs is None:
            continue
        try:
            automaton = dfa.intersection(regex_dfa(pattern, search=True), printable)
        except (RegexError, LimitError):
            continue
        others = dfa.difference(printable, automaton)
        for _ in range(5):
            inside, outside = language.sample(automaton, rng), language.sample(others, rng)
            assert inside is None or theirs.search(inside), (pattern, inside)
            assert outside is None or not theirs.search(outside), (pattern, outside)
        checked += 1
    assert checked > 150


# Hostile input.


@pytest.mark.parametrize(
    "pattern",
    [
        "(a*)*",
        "(a|a)*b",
        "((a*)*)*" * 20,
        "(x+x+)+y",
        "(a{1000}){1000}",
        "x{0,100000}",
        "(?:(?:(?:a?){20}){20}){20}",
        "(a|b)*a(a|b){20}",
        "(?=(a|b)*a(a|b){20}).*",
        "(" * 100_000 + ")" * 100_000,
        "(a" * 10_000 + ")" * 10_000,
        "(?:" * 15_000 + "a" + ")*" * 15_000,
        "[" * 50_000,
        "[a&&" * 20_000,
        "(?=" * 60 + ")" * 60,
        "(?<!a(?!b" * 20 + "))" * 20,
        "a|" * 20_000,
        r"\b" * 3_000,
        "x{2147483648}",
        "x{1" + "0" * 5_000 + "}",
        r"\u{" + "1" * 10_000 + "}",
        "[[x]" * 20_000,
        r"\." * 100_000,
        r"\b" + "".join(map(chr, range(0x4E00, 0x5400))),
        "|".join(map(chr, range(0x4E00, 0x8E00))) + "|xx",
        "x{30000}" + "[a-z]{30000}",
        "(?:" * 3_000 + "a" + "){2147483647}" * 3_000,
    ],
    ids=lambda pattern: pattern[:20],
)
def test_hostile(pattern: str) -> None:
    """A pattern made to explode ends soon, in a result or in an error with its reason."""
    for compile_ in (
        regex_grammar,
        lambda pattern: regex_dfa(pattern, search=True),
        lambda pattern: regex_dfa(pattern, search=False),
        lambda pattern: regex_node(GrammarBuilder(), pattern, search=True, encoding=JSON),
    ):
        begin = time.process_time()
        try:
            compile_(pattern)
        except LimitError as error:
            assert error.limit in ("states", "nesting", "compile_work")
            assert error.value is not None
        except RegexError as error:
            assert error.position is not None
        except UnsatisfiableError as error:
            assert "line 1, column 1" in str(error)
        # The slowest takes 3 s; without its bound it would take minutes, or all memory.
        assert time.process_time() - begin < 15


def test_counts_stay_counts() -> None:
    """A pattern with large counts becomes a grammar of a few nodes."""
    grammar = regex_grammar("(a{1000}){1000}")
    assert [node[0] for node in grammar.nodes].count(REPEAT) == 2
    assert len(grammar.nodes) == 3


@pytest.mark.parametrize(
    "limits", [Limits(states=100), Limits(compile_work=100), Limits(compile_seconds=0), Limits(specification_bytes=3), Limits(nesting=1)]
)
def test_limits(limits: Limits) -> None:
    """Each limit ends a compilation with an error of its name."""
    with pytest.raises(LimitError) as caught:
        regex_dfa("((a|b))*a(?!(?<=b)c)(a|b){12}", search=True, limits=limits)
    assert getattr(limits, caught.value.limit) == caught.value.value


@pytest.mark.parametrize("pattern", [None, 3, b"a", ["a"]])
def test_no_text(pattern: Any) -> None:
    """A pattern that is no text is refused."""
    with pytest.raises(RegexError, match="a regular expression must be a str"):
        parse(pattern)


def test_lone_surrogate() -> None:
    """A pattern with a lone surrogate is refused by its place."""
    with pytest.raises(RegexError, match="lone surrogate") as caught:
        parse("ab\ud800")
    assert caught.value.position == 2


@pytest.mark.parametrize(
    ("pattern", "other"), [("a?a?a?", "a{0,3}"), ("a?a{2,3}", "a{2,4}"), ("[ab]*[ab]+", "[ab]+"), ("xa+a?y", "xa+y"), ("b{2}b{0}", "b{2}")]
)
def test_repetitions_of_one_character_are_one(pattern: str, other: str) -> None:
    """Neighbours that repeat the same character are counted together while they are read."""
    assert parse(pattern).nodes == parse(other).nodes


@pytest.mark.parametrize("first", ["a", "a?", "a*", "a+", "a{2}", "a{1,2}", "a{2,}", "(?:ab)?", "(?:ab)*"])
def test_neighbours_that_repeat(kernel: Engine, first: str) -> None:
    """Three repetitions in a row, also of the same body in groups of their own, generate as a node what `re` matches."""
    texts = ["".join(text) for length in range(7) for text in itertools.product("ab", repeat=length)]
    for second, third in itertools.product(["a", "a?", "a*", "(?:a){2}", "(?:a){1,2}", "(?:ab)?", "(?:ab)+", "(?:ab){0,2}"], repeat=2):
        pattern = f"(?:{first})(?:{second})(?:{third})"
        builder = GrammarBuilder()
        start = matcher(kernel, one_rule(builder, regex_node(builder, pattern, search=False)))
        match = re.compile(pattern).fullmatch
        assert [text for text in texts if generates(start, text.encode())] == [text for text in texts if match(text)], pattern


@pytest.mark.parametrize("pattern", ["a?b?", "a??a?", "a?a??", "a?(?:a?)", "(?:ab)?(?:ab)?", "[ab]?a?"])
def test_other_repetitions_are_not_one(pattern: str) -> None:
    """Repetitions of other characters, of groups and lazy ones stay as they are written."""
    assert sum(isinstance(node, Repeat) for node in parse(pattern).nodes) == 2


def test_nul() -> None:
    """A NUL character is a mistake in a request, and an ordinary character in a schema."""
    with pytest.raises(RegexError, match="NUL") as caught:
        regex_grammar("a\0")
    assert caught.value.position == 1
    assert language.accepts(regex_dfa("^[^\0]+$", search=True), "ab")
    assert not language.accepts(regex_dfa("^[^\0]+$", search=True), "a\0")


def test_error_has_a_caret() -> None:
    """The message shows the line and points at the place."""
    with pytest.raises(RegexError) as caught:
        parse("ab(c\nd[e")
    assert str(caught.value) == "this class has no closing ]\nline 2, column 2\n  d[e\n   ^"
    assert (caught.value.line, caught.value.column) == (2, 2)
