"""EBNF front end: the corpus, the checks on whole grammars, and what hostile texts cost."""

from __future__ import annotations

import contextlib
import re
import time
import tomllib
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lark import Lark
from lark.exceptions import LarkError

from stackmask.pda.ebnf import UnusedRuleWarning, ebnf_grammar
from stackmask.pda.engine import KernelGrammar, Matcher, TokenTrie
from stackmask.pda.exceptions import EbnfError, LimitError
from stackmask.pda.grammar import Grammar
from stackmask.pda.limits import Limits

CASES = tomllib.loads((Path(__file__).parents[2] / "corpus" / "ebnf.toml").read_text(encoding="utf-8"))["case"]
TRIE = TokenTrie([*(bytes([byte]) for byte in range(256)), *[None] * 54], 310)


def generates(grammar: Grammar, text: str | list[str | int]) -> bool:
    """Whether the text, a string or a list of strings and token ids, is one that the grammar generates."""
    matcher = Matcher(KernelGrammar(TRIE, grammar, states=100_000, stack_depth=100_000, memory=1 << 26, seconds=10.0), [309])
    pieces = [text] if isinstance(text, str) else text
    return all(
        matcher.accept_token(piece) if isinstance(piece, int) else matcher.accept_bytes(piece.encode()) for piece in pieces if piece != ""
    ) and bool(matcher.is_completed())


def parse(case: dict) -> Grammar:
    return ebnf_grammar(case["grammar"], root=case.get("root", "root"), special=case.get("special", {}))


@pytest.mark.parametrize("case", [case for case in CASES if "error" not in case], ids=lambda case: case["name"])
def test_corpus(case: dict) -> None:
    """A grammar generates the texts listed as accepted, and none of those listed as rejected."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        grammar = parse(case)
    assert [str(warning.message).partition(": ")[2] for warning in caught] == [case[key] for key in case if key == "warns"]
    assert [text for text in case["accepts"] if not generates(grammar, text)] == []
    assert [text for text in case["rejects"] if generates(grammar, text)] == []


@pytest.mark.parametrize("case", [case for case in CASES if "error" in case], ids=lambda case: case["name"])
def test_errors(case: dict) -> None:
    """A mistake in a grammar raises an error that says what is wrong and, with a caret, where."""
    with pytest.raises((EbnfError, LimitError)) as caught:
        parse(case)
    assert case["error"] in str(caught.value)


def test_error_has_line_and_column() -> None:
    """An error carries its place, and shows it with a caret."""
    with pytest.raises(EbnfError) as caught:
        ebnf_grammar('root ::= "a"\n\tb')
    assert (caught.value.line, caught.value.column) == (2, 2)
    assert str(caught.value).endswith("line 2, column 2\n   b\n   ^")


def test_unused_rule_warning() -> None:
    """A rule that the root never calls is reported at the caller's line, once for all of them."""
    with pytest.warns(
        UnusedRuleWarning, match="rules that `root` never calls: r0, r1, r2, r3, r4, r5, r6, r7, r8, r9 and 2 more"
    ) as caught:
        ebnf_grammar("root ::= 'a'\n" + "\n".join(f"r{index} ::= 'b'" for index in range(12)))
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_not_text() -> None:
    """Bytes, None and other things that are no text are refused."""
    with pytest.raises(EbnfError, match="an EBNF grammar must be text, not bytes"):
        ebnf_grammar(b"root ::= 'a'")  # type: ignore[arg-type]


def test_case_closure_shortcut_is_exact() -> None:
    """A literal in any case has a class of several characters for every character that has case."""
    grammar = ebnf_grammar('root ::= "1k\u1c80日ß"i')
    assert str(grammar) == 'root ::= "1" [Kk\u212a] [\u0412\u0432\u1c80] "日" [ßẞ]'
    assert generates(grammar, "1\u212a\u0412日\u1e9e")


@pytest.mark.parametrize(
    ("text", "limits", "limit"),
    [
        ("root ::= 'a'", Limits(specification_bytes=5), "specification_bytes"),
        ("root ::= " + "(" * 30 + "'a'" + ")" * 30, Limits(nesting=20), "nesting"),
        ("root ::= a\na ::= b\nb ::= 'b'", Limits(rules=2), "rules"),
        ("root ::= 'a'{30}", Limits(states=20), "states"),
        ("root ::= " + "'a' " * 10_000, Limits(compile_seconds=-1), "compile_seconds"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
def test_limits(text: str, limits: Limits, limit: str) -> None:
    """A text that exceeds a limit raises an error that names the limit and its value."""
    with pytest.raises(LimitError) as caught:
        ebnf_grammar(text, limits=limits)
    assert caught.value.limit == limit
    assert caught.value.value == getattr(limits, limit)


def test_groups_as_deep_as_the_limit() -> None:
    """The limit itself is allowed, one group more is not; closed groups beside each other do not count."""
    group = "(" * 20 + "'a'" + ")" * 20
    assert generates(ebnf_grammar(f"root ::= {group} {group}", limits=Limits(nesting=20)), "aa")
    with pytest.raises(LimitError, match="groups are nested more than 20 deep"):
        ebnf_grammar(f"root ::= ({group})", limits=Limits(nesting=20))


EXPRESSION = st.recursive(
    st.sampled_from(['"a"', '"b"', '"ab"', "x", "y", "start", "[ab]"]),
    lambda parts: st.one_of(
        st.builds("{} {}".format, parts, parts),
        st.builds("({} | {})".format, parts, parts),
        st.builds("( | {})".format, parts),
        st.builds("({}){}".format, parts, st.sampled_from(["*", "+", "?", "{2}", "{1,2}"])),
    ),
    max_leaves=6,
)


@settings(max_examples=80, deadline=None)
@given(EXPRESSION, EXPRESSION, EXPRESSION, st.lists(st.text("ab", max_size=7), min_size=20, max_size=20))
def test_random_grammars_against_lark(start: str, x: str, y: str, samples: list[str]) -> None:
    """A random context-free grammar, left-recursive and ambiguous ones included, generates what lark's Earley parser accepts."""
    rules = {"start": start, "x": x, "y": f'{y} | "b"'}
    theirs = "\n".join(f"{name}: {body}" for name, body in rules.items())
    theirs = re.sub(r"\{(\d)(?:,(\d))?\}", lambda match: f"~{match[1]}..{match[2] or match[1]}", theirs).replace("[ab]", '("a" | "b")')
    try:
        judge = Lark(theirs, parser="earley", lexer="dynamic", ambiguity="forest")
    except LarkError:  # lark refuses some grammars whose expansions collide
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnusedRuleWarning)
            grammar = ebnf_grammar("\n".join(f"{name} ::= {body}" for name, body in rules.items()), root="start")
    except EbnfError as error:
        assert "generates no text" in str(error)
        return
    for text in samples:
        try:
            judge.parse(text)
            accepted = True
        except LarkError:
            accepted = False
        except RuntimeError:  # lark's own complaint about some ambiguous start rules
            continue
        assert generates(grammar, text) == accepted, text


HOSTILE = {
    "nested-groups": "root ::= " + "(" * 19_000 + "'a'" + ")*" * 19_000,
    "nested-beyond-the-limit": "root ::= " + "(" * 200_000,
    "rule-chain": "root ::= r0\n" + "\n".join(f"r{i} ::= 'a' r{i + 1}?" for i in range(3_000)) + "\nr3000 ::= 'b'",
    "dots": "root ::= " + "." * 20_000,
    "dotted-names": "root ::= " + "a.a" * 10_000 + "\na ::= 'x'\na.b ::= 'y'",
    "one-long-name": "root ::= " + "a" * 300_000,
    "half-definitions": "a[ " * 100_000,
    "blanks-before-a-definition": "root" + " \n" * 300_000,
    "comment-starts": "root ::= 'a'" + "/*" * 100_000,
    "quotes": "root ::= " + '"' * 30_000,
    "quantifiers": "root ::= 'a'" + "*" * 20_000,
    "large-class": "root ::= [" + "".join(map(chr, range(0x4E00, 0x9E00))) + "]",
    "literal-in-any-case": 'root ::= "' + "".join(map(chr, range(0x4E00, 0x9E00))) + '"i',
    "nested-repetition": "root ::= (('a'{1000}){1000}){1000}",
    "nested-differences": "root ::= " + "(" * 300 + "[a-z]" + " - 'b')" * 300,
    "tags": "root ::= TagDispatch(" + ", ".join(f'("<t{i}>", x)' for i in range(1_000)) + ")\nx ::= 'x'",
    "chunks": "root ::= Substring(" + ", ".join(f'"c{i % 7}"' for i in range(3_000)) + ")",
    "tuples": "root ::= Token(" + "(" * 15_000 + ")" * 15_000 + ")",
    "large-pattern": 'root ::= Regex("' + "(a|b){1000}" * 30 + '")',
    "alternatives": "root ::= " + " | ".join(f"'w{i}'" for i in range(5_000)),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_texts(text: str) -> None:
    """Reading a hostile text ends soon, in a grammar or in an ordinary error; the bound is some 20 times what it takes."""
    start = time.perf_counter()
    with contextlib.suppress(EbnfError, LimitError):
        ebnf_grammar(text)
    assert time.perf_counter() - start < 10
