"""Lark front end: the corpus, lark's own parser as the judge, and what hostile texts cost."""

from __future__ import annotations

import contextlib
import itertools
import random
import re
import time
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lark import Lark, Token
from lark.exceptions import LarkError as LarksOwnError
from support.pace import as_quick_as

from stackmask.pda.automata.language import accepts
from stackmask.pda.budget import Budget
from stackmask.pda.engine import KernelGrammar, Matcher, TokenTrie
from stackmask.pda.exceptions import LarkError, LimitError, RegexError
from stackmask.pda.grammar import Grammar, GrammarBuilder, NodeId
from stackmask.pda.lark import lark_grammar, lexer
from stackmask.pda.limits import Limits
from stackmask.pda.regex.first_match import is_deterministic, preferred_dfa, whole_dfa
from stackmask.pda.regex.parser import parse_python

CASES = tomllib.loads((Path(__file__).parents[2] / "corpus" / "lark.toml").read_text(encoding="utf-8"))["case"]
AS_IN_LARK = '%llguidance {"allow_initial_skip": true}\n'
TRIE = TokenTrie([*(bytes([byte]) for byte in range(256)), *[None] * 54], 310)


def matcher_of(grammar: Grammar) -> Matcher:
    return Matcher(KernelGrammar(TRIE, grammar, states=500_000, stack_depth=100_000, memory=1 << 26, seconds=10.0), [309])


def generates(grammar: Grammar, text: str | list[str | int]) -> bool:
    """Whether the text, a string or a list of strings and token ids, is one that the grammar generates."""
    matcher = matcher_of(grammar)
    pieces = [text] if isinstance(text, str) else text
    return all(
        matcher.accept_token(piece) if isinstance(piece, int) else matcher.accept_bytes(piece.encode()) for piece in pieces if piece != ""
    ) and bool(matcher.is_completed())


def compiled(case: dict[str, Any]) -> Grammar:
    limits = Limits(**case.get("limits", {}))
    text = case["grammar"]
    if case.get("surrogate"):  # which TOML cannot write
        text = text.replace('a"', '\ud800"')
    text = f"{case['options']}\n{text}" if "options" in case else text
    start, special, grammars = case.get("start", "start"), case.get("special", {}), case.get("grammars", {})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        grammar = lark_grammar(text, start=start, special=special, grammars=grammars, limits=limits)
    assert [case["warning"] in str(warning.message) for warning in caught] == [True] * ("warning" in case)
    return grammar


@pytest.mark.parametrize("case", [case for case in CASES if "error" not in case], ids=lambda case: case["name"])
def test_corpus(case: dict[str, Any]) -> None:
    """A grammar generates the texts listed as accepted, and none of those listed as rejected."""
    grammar = compiled(case)
    assert [text for text in case["accepts"] if not generates(grammar, text)] == []
    assert [text for text in case["rejects"] if generates(grammar, text)] == []


@pytest.mark.parametrize("case", [case for case in CASES if "error" in case], ids=lambda case: case["name"])
def test_errors(case: dict[str, Any]) -> None:
    """A mistake in a grammar raises an error that says what is wrong and, with a caret, where."""
    with pytest.raises((LarkError, LimitError)) as caught:
        compiled(case)
    assert case["error"] in str(caught.value)


class Judge:
    """lark's Earley parser; with lexer="dynamic_complete" it tries all lengths of a terminal, and says exactly what this front end says."""

    def __init__(self, grammar: str, start: str = "start", lexer: str = "dynamic_complete") -> None:
        self.parser = Lark(grammar, parser="earley", lexer=lexer, start=start, ambiguity="forest")

    def accepts(self, text: str) -> bool:
        """Whether lark parses the text."""
        try:
            self.parser.parse(text)
        except LarksOwnError:
            return False
        return True


@pytest.mark.parametrize("case", [case for case in CASES if "error" not in case and "extension" not in case], ids=lambda case: case["name"])
def test_corpus_is_what_lark_accepts(case: dict[str, Any]) -> None:
    """The corpus says of a grammar what lark's own parser says."""
    judge = Judge(case["grammar"], case.get("start", "start"))
    assert [text for text in case["accepts"] if not judge.accepts(text)] == []
    assert [text for text in case["rejects"] if judge.accepts(text)] == []


# The grammars of lark's examples that are meant for texts as models write them, in their essence.
EXAMPLES = {
    "json": r"""
        ?start: value
        ?value: object | array | string | SIGNED_NUMBER -> number | "true" -> true | "false" -> false | "null" -> null
        array: "[" [value ("," value)*] "]"
        object: "{" [pair ("," pair)*] "}"
        pair: string ":" value
        string: ESCAPED_STRING
        %import common (ESCAPED_STRING, SIGNED_NUMBER, WS)
        %ignore WS
    """,
    "calculator": r"""
        ?start: sum | NAME "=" sum -> assign_var
        ?sum: product | sum "+" product -> add | sum "-" product -> sub
        ?product: atom | product "*" atom -> mul | product "/" atom -> div
        ?atom: NUMBER -> number | "-" atom -> neg | NAME -> var | "(" sum ")"
        %import common.CNAME -> NAME
        %import common.NUMBER
        %import common.WS_INLINE
        %ignore WS_INLINE
    """,
    "python": r"""
        start: simple_stmt
        %import python.simple_stmt
        %ignore /[\t \f]+/
    """,
    "sql": r"""
        start: select ("UNION"i "ALL"i? select)* ";"?
        select: "SELECT"i ["DISTINCT"i] ("*" | column ("," column)*) "FROM"i table ("," table)* ["WHERE"i condition]
                ["ORDER"i "BY"i NAME ["ASC"i | "DESC"i]]
        column: expression ["AS"i NAME]
        table: NAME ["AS"i NAME] | "(" select ")"
        ?condition: condition "OR"i conjunction | conjunction
        ?conjunction: conjunction "AND"i test | test
        ?test: expression /<=|>=|<>|=|<|>/ expression | "NOT"i test | "(" condition ")" | expression "IS"i ["NOT"i] "NULL"i
        ?expression: expression /[+-]/ term | term
        ?term: term /[*\/]/ factor | factor
        ?factor: NAME ["." NAME] | NUMBER | STRING | "(" expression ")" | NAME "(" [expression ("," expression)*] ")"
        STRING: /'(?:[^']|'')*'/
        NAME: /(?!(?:select|from|where|and|or|not|is|null|as|order|by|asc|desc|union|all|distinct)\b)[a-z_]\w*/i
        %import common (NUMBER, WS, SQL_COMMENT)
        %ignore WS
        %ignore SQL_COMMENT
    """.replace("\n                [", " ["),
}


def walk(kernel: KernelGrammar, rng: random.Random) -> str:
    """A text that the grammar generates: some random steps, then the shortest way to an end."""
    matcher = Matcher(kernel, [309])
    text = b""
    for _ in range(rng.randint(3, 25)):
        choices = [byte for byte in matcher.next_bytes() if 0x20 <= byte < 0x7F or byte == 0x0A]
        if not choices:
            break
        byte = bytes([rng.choice(choices)])
        if byte.isspace() and rng.random() < 0.7:
            continue
        assert matcher.accept_bytes(byte)
        text += byte
    return (text + matcher.shortest_completion()).decode()


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_against_lark(name: str) -> None:
    """On random texts that the grammar generates, and on those with a character more or less, lark's parser agrees."""
    rng = random.Random(7)
    grammar = EXAMPLES[name]
    kernel = KernelGrammar(TRIE, lark_grammar(AS_IN_LARK + grammar), states=2_000_000, stack_depth=100_000, memory=1 << 28, seconds=10.0)
    judge, greedy = Judge(grammar), Judge(grammar, lexer="dynamic")
    for _ in range(12):
        text = walk(kernel, rng)
        assert judge.accepts(text), text
        for _ in range(3):
            place = rng.randrange(len(text) + 1)
            inserted = rng.choice(["", *"()[]{},:'\"+-*1a .="])
            changed = text[:place] + inserted + text[place + (not inserted) :]
            matcher = Matcher(kernel, [309])
            accepted = matcher.accept_bytes(changed.encode()) and matcher.is_completed()
            assert accepted == judge.accepts(changed), changed
            assert accepted or not greedy.accepts(changed), changed


TERMINALS = ['"a"', '"b"', '"ab"', '"#"', "/a+/", "/[ab]+/", "/a|ab/", "/a*?b/", '"a"i', r"/#[^\n]*/", "/b{1,2}/", '"a".."b"', '" "']
IGNORED = ['" "', r"/[ \n]+/", r"/#[^\n]*/", "/ab/", "/ *#/", '"a"']


def compounds(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("{} {}".format, parts, parts),
        st.builds("({} | {})".format, parts, parts),
        st.builds("({}){}".format, parts, st.sampled_from(["*", "+", "?", "~2", "~1..2"])),
    )


TERMINAL = st.recursive(st.sampled_from(TERMINALS), compounds, max_leaves=3)
RULE = st.recursive(st.sampled_from([*TERMINALS, "A", "B", "C", "x", "y", "start", "t{x}", 't{"a"}', "t{A}"]), compounds, max_leaves=5)


@st.composite
def grammars(draw: st.DrawFn) -> str:
    """Small grammars over a, b, #, blank and newline, with recursion, templates, terminals of terminals and ignored texts."""
    lines = [f"start: {draw(RULE)}", f"x: {draw(RULE)}", f'y: {draw(RULE)} | "b"', f"t{{p}}: p {draw(RULE)} p | p"]
    lines += [f"A: {draw(TERMINAL)}", f"B.2: {draw(TERMINAL)}", 'C: A | B "a"']
    return "\n".join(lines + [f"%ignore {text}" for text in draw(st.lists(st.sampled_from(IGNORED), max_size=2))])


@settings(max_examples=60, deadline=None)
@given(grammars(), st.lists(st.text("aab# \n", max_size=6), min_size=15, max_size=15))
def test_random_grammars_against_lark(text: str, samples: list[str]) -> None:
    """Of random grammars, lark's parser accepts the texts that are generated and no other."""
    try:
        judge = Judge(text)
    except LarksOwnError:
        return
    try:
        grammar = lark_grammar(AS_IN_LARK + text)
    except LarkError as error:
        assert "generates no text" in str(error)
        return
    for sample in samples:
        try:
            wanted = judge.accepts(sample)
        except RuntimeError:  # lark's own complaint about some ambiguous start rules
            continue
        assert generates(grammar, sample) == wanted, sample


ATOMIC = (
    "a possessive quantifier or an atomic group is supported only where it makes no difference, and here it may; "
    "write a greedy quantifier and say what must not follow, as in a*(?!a)"
)
PATTERN = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\w", r"\b", "$", "(?=ab)", "(?!ab)", "(?<!ab)", "(?!b)", "(?<=a)"]),
    lambda parts: st.one_of(
        st.builds("{}{}".format, parts, parts),
        st.builds("(?:{}|{})".format, parts, parts),
        st.builds("(?:{}){}".format, parts, st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{1,2}", "{2}?", "{0,2}?"])),
    ),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(PATTERN, st.lists(st.text("aab_ \n", max_size=6), min_size=20, max_size=20))
def test_patterns_match_as_in_python(pattern: str, samples: list[str]) -> None:
    """A text is generated when `re.match` on it finds all of it; whether any way of reading it matches is what `re.fullmatch` says."""
    tree = parse_python(pattern, Budget())
    try:
        preferred, whole = preferred_dfa(tree, Budget()), whole_dfa(tree, Budget())
    except RegexError as error:
        assert error.message.startswith(("an assertion asks for text outside", "a lookaround inside another", "`$` inside a lookaround"))
        return
    python = re.compile(pattern)
    deterministic = is_deterministic(tree, Budget())
    for text in samples:
        found = python.match(text)
        assert accepts(preferred, text) == (found is not None and found.end() == len(text)), text
        assert accepts(whole, text) == (python.fullmatch(text) is not None), text
        assert not deterministic or accepts(preferred, text) == accepts(whole, text)


@pytest.mark.filterwarnings("ignore:Possible set intersection:FutureWarning")
@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        (r"(?x) a \  b # comment", "a b", True),
        (r"[]a-]+", "]-a", True),
        (r"[ab&&]", "&", True),
        (r"\N{LATIN SMALL LETTER E WITH ACUTE}\103\0", "éC\0", True),
        (r"(?a:\w)|\W", "é", False),
        (r"(?i)[^a]", "A", False),
        (r"(?P<name>a)(?#note)b{,2}{", "abb{", True),
        (r"a{,}", "aaa", True),
        (r"a$\n?", "a\n", True),
        (r"(?m)a$\nb^", "a\nb", False),
        (r"(?m)(?:^a$\n?)+", "a\na", True),
        (r"(?s).(?-s:.)", "\na", True),
        (r"\Aa\Z", "a", True),
        (r"[\d\-.]+", "1-.", True),
        (r"a\Bb\b", "ab", True),
        (r"a*+b(?>cd)\w++", "aabcde", True),
        (r"(?:a{2,}+-)*", "aaa-aa-", True),
        (r"a{1,2}+b", "aaab", False),
        (r"(?u:\w)(?=a|b).(?<=ba)", "éba", False),
        (r"\w(?=a|b)(?:.a)(?<=ba)", "éba", True),
        ("(?x)a\u00a0b", "a\u00a0b", True),
        ("(?x)a\u00a0b", "ab", False),
        (r"(?:(?=a)*a)\301", "aÁ", True),
        (r"\²", "²", True),
        (r"(?:(?!a$)[ab])+", "bba", False),
    ],
)
def test_python_syntax(pattern: str, text: str, matches: bool) -> None:
    """Python's spellings are read as Python reads them."""
    assert accepts(preferred_dfa(parse_python(pattern, Budget()), Budget()), text) is matches
    assert (re.fullmatch(pattern, text) is not None) is matches


@pytest.mark.parametrize("pattern", ["(a?){2,3}b", "(?:(?:ab){0,2}){1,2}c", "(a*)*b", "(a?){0}b", "((a?)*){2}", "(a?){2,3}ab", "(a??){2}b"])
def test_repetitions_of_what_may_be_empty(pattern: str) -> None:
    """Counts in counts are told from the whole of them, as the automaton tells them from all texts of a few letters."""
    tree = parse_python(pattern, Budget())
    preferred = preferred_dfa(tree, Budget())
    for text in ("".join(letters) for size in range(7) for letters in itertools.product("abc", repeat=size)):
        found = re.match(pattern, text)
        assert accepts(preferred, text) == (found is not None and found.end() == len(text)), text
    assert is_deterministic(tree, Budget()) == (pattern not in ("(a?){2,3}ab", "(a??){2}b"))
    assert all(
        accepts(preferred, text) == generates(lark_grammar(f"start: /{pattern}/"), text) for text in ("b", "ab", "aaaab", "ababababc")
    )


@pytest.mark.parametrize("pattern", ["a(?!bc)|ab.", "(?:a(?!bc)|ab)*c?", "a(?!b.*d)|ab[cd]*", "(?:|a)b|c{0}d", "ab??(?<!ab)|abc"])
def test_lookaheads_that_later_characters_settle(pattern: str) -> None:
    """A match counts from the moment when what follows settles its lookahead: all texts of a few letters, as in Python."""
    preferred = preferred_dfa(parse_python(pattern, Budget()), Budget())
    for text in ("".join(letters) for size in range(6) for letters in itertools.product("abcd", repeat=size)):
        found = re.match(pattern, text)
        assert accepts(preferred, text) == (found is not None and found.end() == len(text)), text


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("a)", r"this ) closes no group; for the character write \)"),
        ("(a", "this group has no closing )"),
        ("[a", "this class is not closed"),
        ("[b-a]", "this range is in the wrong order, or ends in a set"),
        (r"[a-\d]", "this range is in the wrong order, or ends in a set"),
        ("*", r"nothing to repeat before *; for the character write \*"),
        ("a**", r"nothing to repeat before *; for the character write \*"),
        ("a{2,1}", "the bounds of {2,1} are out of order"),
        ("(?#a", "this comment has no closing )"),
        (
            "(?~a)",
            "unknown kind of group; available: (?:...), (?=...), (?!...), (?<=...), (?<!...), (?P<name>...), (?>...) and (?aims-x:...)",
        ),
        ("(?<n>a)", "a group name is written (?P<name>...)"),
        ("a*+a", ATOMIC),
        ("(?>a|ab)c", ATOMIC),
        (r"a\12", "a back-reference describes no regular language; write out the alternatives"),
        ("(?i-i:a)", "flag 'i' cannot be switched off here"),
        ("(?L)a", "unknown flag 'L'; available: a (ASCII), i (any case), m (lines), s (dot is any character), u (Unicode) and x (blanks)"),
        ("\\", "the pattern ends in a backslash"),
        (r"\q", r"unknown escape \q"),
        (r"\ud800", r"\ud800 is not a character of any text"),
        (r"\N{NO SUCH}", "no character is named NO SUCH"),
        (r"c(?<=abc)", "an assertion asks for text outside of this terminal; put that text into the terminal"),
        (r"(?=a(?=bc))", "a lookaround inside another is supported where it asks for one character"),
        (r"(?!(?:a$)b)a", r"`$` inside a lookaround is supported at its end; write \Z"),
    ],
)
def test_pattern_errors(pattern: str, message: str) -> None:
    """What is no pattern, or none that can be followed exactly, is refused with its reason."""
    with pytest.raises(RegexError) as caught:
        preferred_dfa(parse_python(pattern, Budget()), Budget())
    assert caught.value.message == message


LETTERS = "abkKsSiIßé\\K\u017f\u0131\u0130"


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.text(LETTERS, max_size=3), st.sampled_from(["", "i"])), min_size=8, max_size=60),
    st.lists(st.text(LETTERS, max_size=3), max_size=10),
    st.sampled_from(["start: T\nT: {}", "start: {}", "start: ({}) | T\nT: {}", "start: T\nT: {} | /9/", "start: T\nT: ({}) /9?/"]),
    st.booleans(),
)
def test_lists_of_words_are_what_re_matches(words: list[tuple[str, str]], samples: list[str], frame: str, ignoring: bool) -> None:
    """Many literals as alternatives, some of them in any case, are the texts that `re` matches, in terminals and in rules."""
    listed = " | ".join('"' + word.replace("\\", "\\\\") + '"' + flag for word, flag in words)
    grammar = lark_grammar(frame.replace("{}", listed) + ("\n%ignore / +/" if ignoring else ""))
    patterns = [re.compile(re.escape(word), re.IGNORECASE if flag else 0) for word, flag in words]
    nine = "9" if "9" in frame else ""
    alone = bool(nine) and "|" in frame.replace("{}", "")
    for text in [*samples, *(word.swapcase() for word, _ in words), *(word for word, _ in words)]:
        expected = any(pattern.fullmatch(text) for pattern in patterns)
        assert generates(grammar, text) == expected, (text, words)
        if nine and not alone:
            assert generates(grammar, text + nine) == expected, (text, words)
        if ignoring:
            assert generates(grammar, text + " ") == expected, (text, words)


def test_lists_of_words_of_many_letters() -> None:
    """More than 256 different letters, and letters whose cases share no set with another's."""
    words = [f"w{chr(0x4E00 + number)}z" for number in range(300)]
    grammar = lark_grammar("start: T\nT: " + " | ".join(f'"{word}"i' for word in words))
    assert all(generates(grammar, word.upper()) for word in words)
    assert not generates(grammar, "w\u4dffz")


NAMED = "".join(f'K{number}: "w{number}"i\n' for number in range(40))
NAMES = [f"K{number}" for number in range(40)]
LISTED = [
    "start: " + " | ".join(NAMES) + "\n" + NAMED,
    "start: x\nx: " + "\n  | ".join(NAMES) + " -> last\n" + NAMED,
    "start: (" + " | ".join(NAMES[:12]) + ")+ K13? | [" + "|".join(NAMES[14:]) + "]\n" + NAMED,
    "start: T\nT: ~" + " | ".join(NAMES) + " & K0\n" + NAMED,
    "start: " + " | ".join(NAMES) + " ~ 2\n" + NAMED.replace("\n", "\r\n"),
    "start: " + " | ".join(NAMES) + "\n" + NAMED.replace('7"i\n', '7"i // seven\n  | "o"\n').replace('8"i\n', '8"i\n// eight\n|"p"\n'),
    "start: " + " | ".join(NAMES) + "\n" + NAMED.replace('9"i\n', '9"i\n  | "o"\n').replace('6"i\n', '6"i\n| "p"\n'),
    '%override A: "a"\nstart: A\nA: "a"i\n%extend A: "c"\nB.2 : "x"\n_C-D  :  "y"\nE: "z" "i"\nF: "z"..."i"\nG: "z"',
]


@pytest.mark.parametrize("text", [*LISTED, *(case["grammar"] for case in CASES if "error" not in case and not case.get("surrogate"))])
def test_tokens_of_several_steps_make_the_trees_of_the_steps(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of names and a definition by one literal are read as if each name and mark were a token of its own."""
    try:
        whole: Any = lexer.parse(text, Budget())
    except LarkError as error:
        whole = error.position
    for pattern in ("_NAMES", "_DEFINED"):
        monkeypatch.setattr(lexer, pattern, re.compile("(?!)"))
    try:
        stepwise: Any = lexer.parse(text, Budget())
    except LarkError as error:
        stepwise = error.position
    assert whole == stepwise
    if not isinstance(whole, int):
        offsets = [
            [token.start_pos for token in tree.scan_values(lambda value: isinstance(value, Token)) if token.type != "DEFINED"]
            for tree in (whole, stepwise)
        ]
        assert offsets[0] == offsets[1]


@pytest.mark.parametrize("blank", ["", " "])
def test_lists_of_names_are_one_terminal(blank: str) -> None:
    """Alternatives that are terminals of a literal each are one automaton, beside alternatives that are more."""
    text = "start: (keyword | other)+\nkeyword: " + " | ".join(NAMES) + '\nother: "x" K1 | ' + " | ".join(NAMES) + "\n" + NAMED
    grammar = lark_grammar(text + "%ignore / +/" * bool(blank))
    accepted = [["w17"], ["W39"], ["w4", "W3"], ["x", "w1", "W3"], ["w17", "W18", "w0"]]
    assert all(generates(grammar, blank.join(words)) for words in accepted)
    assert not any(generates(grammar, blank.join(words)) for words in (["w40"], ["x", "w2"], ["w1", "x"], [], ["w1", "y"]))
    assert generates(grammar, "w1 w2") == bool(blank)
    assert len(grammar.nodes) < 40


def test_a_fault_in_a_list_of_names_has_its_place() -> None:
    """A name without a definition, or one that is defined twice, is shown where it stands."""
    with pytest.raises(LarkError, match="`K77` is not defined") as caught:
        lark_grammar("start: " + "\n  | ".join([*NAMES[:20], "K77", *NAMES[20:]]) + "\n" + NAMED)
    assert (caught.value.line, caught.value.column) == (21, 5)
    with pytest.raises(LarkError, match="`K3` is defined already on line 5") as caught:
        lark_grammar("start: " + " | ".join(NAMES) + "\n" + NAMED + 'K3: "x"\nK50: "y"\n')
    assert (caught.value.line, caught.value.column) == (42, 1)
    with pytest.raises(LarkError, match="options follow the name of a rule, not of a terminal"):
        lark_grammar("start: " + " | ".join(NAMES) + "\n" + NAMED.replace("K5:", "K5[lazy]:"))


def test_a_fault_in_a_list_of_words_has_its_place() -> None:
    """The caret stands under the literal that is wrong, not under the first of the list."""
    words = [f'"word{number}"i' for number in range(12)]
    words[7] = r'"ab\xZ"i'
    with pytest.raises(LarkError, match="takes more hexadecimal digits") as caught:
        lark_grammar("start: T\nT: " + "\n  | ".join(words))
    assert caught.value.line == 9
    assert caught.value.column == 5


def test_thousands_of_words_in_any_case_are_cheap() -> None:
    """3,000 words in any case are a list and no pattern: they become one automaton, in tenths of a second at most."""
    draw = random.Random(5)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(4, 10))) for _ in range(3000)]
    listed = " | ".join(f'"{word}"i' for word in words)
    for frame in ("start: T\nT: {}", "start: {}", "start: T\nT: /" + "|".join(words) + "/i"):
        with as_quick_as(200):
            grammar = lark_grammar(frame.replace("{}", listed))
        assert len(grammar.nodes) < 30
        assert generates(grammar, words[17].title())


def test_json_is_compiled_by_the_caller() -> None:
    """%json hands its value to the caller's compiler, and stands in a rule like a terminal."""
    seen = []

    def compile_schema(builder: GrammarBuilder, schema: object) -> NodeId:
        seen.append(schema)
        return builder.literal(b"{}")

    grammar = lark_grammar('start: "<" %json {"type": "object", "x": [1, "}"]} ">"\n%ignore " "', json_node=compile_schema)
    assert seen == [{"type": "object", "x": [1, "}"]}]
    assert generates(grammar, "< {} > ")
    assert not generates(grammar, "<{>")
    assert not generates(grammar, " <{}>")


def test_error_has_line_and_column() -> None:
    """An error carries its place, and shows it with a caret."""
    with pytest.raises(LarkError) as caught:
        lark_grammar('start: "a"\n  | nope')
    assert (caught.value.line, caught.value.column) == (2, 5)
    assert str(caught.value).endswith("line 2, column 5\n    | nope\n      ^")


def test_not_text() -> None:
    """Bytes, None and other things that are no text are refused."""
    with pytest.raises(LarkError, match="a Lark grammar must be text, not bytes"):
        lark_grammar(b'start: "a"')  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "limits", "limit"),
    [
        ('start: "a"', Limits(specification_bytes=5), "specification_bytes"),
        ("start: " + "(" * 30 + '"a"' + ")" * 30, Limits(nesting=20), "nesting"),
        ('start: a\na: b\nb: "b"', Limits(rules=2), "rules"),
        ('start: "a"~30', Limits(states=20), "states"),
        ("start: /" + "(" * 30 + "a" + ")" * 30 + "/", Limits(nesting=20), "nesting"),
        ("start: /(a|b)*a(a|b){12}c/", Limits(states=1_000), "states"),
        ("start: " + '"a" ' * 10_000, Limits(compile_seconds=-1), "compile_seconds"),
    ],
)
def test_limits(text: str, limits: Limits, limit: str) -> None:
    """A text that exceeds a limit raises an error that names the limit and its value."""
    with pytest.raises(LimitError) as caught:
        lark_grammar(text, limits=limits)
    assert caught.value.limit == limit
    assert caught.value.value == getattr(limits, limit)


def permutations(size: int) -> str:
    """Each of so many letters once, in any order."""
    once = "\n".join(f'| "{chr(97 + place)}" once::set_bit({place}) %if bit_clear({place})' for place in range(size))
    return f"start: once::0\nonce::_: %if is_ones([0:{size}])\n{once}"


@pytest.mark.parametrize("size", [16, 20, 26])
def test_numbers_that_explode_are_refused_as_soon_as_they_are_asked_for(size: int) -> None:
    """A rule with a number is emitted for each number, and those that wait for it count already."""
    with pytest.raises(LimitError, match="line 2, `once`: the compilation takes more than 2,000,000 steps") as caught:
        lark_grammar(permutations(size))
    assert caught.value.limit == "compile_work"


def test_each_rule_with_a_number_and_each_use_of_a_template_count() -> None:
    """Their work is counted each time, so it has the same bound as any other text."""
    limits = Limits(compile_work=10_000)
    lark_grammar(permutations(4), limits=limits)
    with pytest.raises(LimitError, match="10,000 steps"):
        lark_grammar(permutations(8), limits=limits)
    uses = [f't{{"{number}"}}' for number in range(100)]
    template = "\nt{x}: " + " ".join("x" * 30)
    lark_grammar(f"start: {' '.join(uses[:10])}{template}", limits=limits)
    with pytest.raises(LimitError, match="10,000 steps"):
        lark_grammar(f"start: {' '.join(uses)}{template}", limits=limits)


def lazy_calls(size: int) -> str:
    """So many calls, each of which ends a text lazily, and a text that holds none of them."""
    calls = "\n".join(f'f{number}: head{number} /[a-z]+/ ";"\nhead{number}[lazy]: TEXT "<call{number}>"' for number in range(size))
    return f"start: ({' | '.join(f'f{number}' for number in range(size))})* TEXT\n{calls}\nTEXT: /(.|\\n)*/"


def test_many_lazy_rules_cost_no_state_for_each_set_of_them() -> None:
    """The text before a call holds no other call; the work grows about as the square of their number, not as its exponential."""
    grammar = lark_grammar(lazy_calls(30), limits=Limits(compile_work=600_000))
    assert generates(grammar, "x <call<call3>abc;y<call29>d;z<cal")
    assert not generates(grammar, "x<call3>a;<call4>b")
    assert not generates(grammar, "x<call3>")


@pytest.mark.parametrize(("before", "inside", "after"), [("", '"a"', ""), ("/", "a", "/")], ids=["rules", "patterns"])
def test_groups_as_deep_as_the_limit(before: str, inside: str, after: str) -> None:
    """The limit itself is allowed, one group more is not."""
    group = "(" * 20 + inside + ")" * 20
    assert generates(lark_grammar(f"start: {before}{group}{after}", limits=Limits(nesting=20)), "a")
    with pytest.raises(LimitError, match="nested more than 20 deep"):
        lark_grammar(f"start: {before}({group}){after}", limits=Limits(nesting=20))


def test_conditions_as_deep_as_allowed() -> None:
    """A condition may stand in 50 others, not in 51; each `not` turns it round."""
    assert generates(lark_grammar(f'start: p::0\np::_: "a" %if {"not(" * 50}true{")" * 50}'), "a")
    with pytest.raises(LarkError, match="conditions are nested more than 50 deep"):
        lark_grammar(f'start: p::0\np::_: "a" %if {"not(" * 51}true{")" * 51}')


def hostile() -> Iterator[tuple[str, str]]:
    """Texts that cost lark's own loader minutes, its stack, or all memory."""
    yield "terminal-chain", "start: A0\n" + "\n".join(f'A{i}: "a" A{i + 1}' for i in range(3_000)) + '\nA3000: "b"'
    yield "terminal-doubling", "start: A0\n" + "\n".join(f"A{i}: A{i + 1} A{i + 1}" for i in range(60)) + '\nA60: "b"'
    yield "rule-chain", "start: r0\n" + "\n".join(f'r{i}: "a" r{i + 1}' for i in range(5_000)) + '\nr5000: "b"'
    yield "empty-lines", 'start: "a"' + "\n" * 100_000
    yield "nested-groups", "start: " + "(" * 15_000 + '"a"' + ")*" * 15_000
    yield "nested-groups-in-a-terminal", "start: A\nA: " + "(" * 3_000 + '"a"' + ")*" * 3_000
    yield "nested-groups-in-a-pattern", "start: /" + "(?:" * 15_000 + "a" + ")" * 15_000 + "/"
    yield "nested-stars-in-a-pattern", "start: /" + "(?:" * 3_000 + "a" + ")*" * 3_000 + "/"
    yield "repetition", 'start: (("a"~1000)~1000)~1000 | /((a{1000}){1000}){1000}/'
    yield "choice-in-a-repetition", "start: ((A | B)~30)~30\nA: /a/\nB: /b/"
    yield "templates-without-end", 'start: t{"a"}\nt{x}: "(" t{u{x}} ")" | x\nu{y}: y y'
    yield "large-class", "start: /[" + "a-c" * 50_000 + "]/"
    yield "many-ignored", 'start: "a"\n' + "\n".join(f"%ignore /x{i}*y/" for i in range(60))
    yield "token-range", "start: <[0-999999999]>"
    yield "deep-json", "start: %json " + "[" * 100_000
    yield "runs", 'start: %regex {"substring_chars": "' + "abcde fghij" * 300 + '"}'


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in hostile()])
def test_hostile_texts(text: str) -> None:
    """Reading a hostile text ends soon, in a grammar or in an ordinary error."""
    start = time.perf_counter()
    with contextlib.suppress(LarkError, LimitError):
        lark_grammar(text, limits=Limits(rules=20_000, compile_seconds=8))
    assert time.perf_counter() - start < 10
