"""The length of a text beside lookaheads means the same as bounds: compared with the automaton that reads the pattern itself."""

from __future__ import annotations

import json
from itertools import product

import pytest

from stackmask import CompiledGrammar, Compiler, Limits, Vocabulary
from stackmask.pda.automata.language import accepts
from stackmask.pda.grammar import AUTOMATON
from stackmask.pda.regex import length_ahead, regex_dfa, regex_grammar, split_length

TEXTS = ["".join(letters) for length in range(6) for letters in product("ab\n", repeat=length)]
LOOKS = (
    r"(?=.{1,3}$)", r"(?=^.{2,}$)", r"(?=.*$)", r"(?=.+$)", r"(?=[ab]{3}$)", r"(?=[\s\S]{0,2}$)", r"(?=\w{2,4}$)", r"(?=[^b]?$)",
    r"(?=[\]a]{1,4}$)", r"(?=.{2,4}$)(?=[^b]{0,3}$)",
)  # fmt: skip
RESTS = (r"a*b?$", r"(a|bb)*$", r"[\s\S]*$", r"a", r"(?!ab)\w+$", r"(?:ab?){2}", r"(?=b)b+\n?$", "")
OTHERS = (
    r"^(?=.{1,3}$)a|b", r"(?=.{1,3}$)a", r"^a(?=.{1,3}$)", r"^(?=a{1,3}$)a", r"^(?!.{1,3}$)a", r"^(?=.{1,3})a", r"^(?:(?=.{2}$)a)b",
    r"^(?=.{1,3}b$)a", r"^(?<=.{1,3}$)a", r"(?i)^(?=[a]{1,3}$)a",
)  # fmt: skip
"""No lookahead for the length alone, or not at the start of the text."""
AHEAD = (r"(?i:(?=.*A))", r"(?=.*a)", r"(?!.*bb)", r"(?!ab$)", r"(?=.*a)(?!b)", r"(?=a|.*b$)", r"(?<!a)(?=.*b)", r"(?!.*\n)(?=.*[^b].*b)")
REPEATED = (
    r".{1,3}",
    r"[ab]{2}",
    r"\w{2,}",
    r"[\s\S]{0,4}",
    r"[\]a\n]{1,4}",
    r"[^b]{3,4}",
    r"\w\w{1,3}",
    r"[ab]{0}",
)  # the last two give nothing
NOT_REPEATED = (
    r"^[ab]{2,3}$", r"^(?=a)[ab]{2,3}", r"(?=a)[ab]{2,3}$", r"^(?=a)b[ab]{2,3}$", r"^(?=a)(?:ab){2,3}$", r"^(?=a)[ab]{2,3}(?=$)$",
    r"^(?=a)([ab]{2,3})$", r"^(?=a)[ab]{2,3}|b$", r"^(?=a)\[b]{2,3}$", r"^a(?=b)[ab]{2,3}$", r"^(?=a)(?i:[ab]{2,3})$",
    r"(?m)^(?=a)[ab]{2,3}$",
)  # fmt: skip
"""No repeated class to the end of the text, or not lookaheads alone before it."""


@pytest.mark.parametrize("search", [True, False])
@pytest.mark.parametrize(("before", "look"), [*product(("^", "^(?!ba)", ""), LOOKS), ("(?=.*b)^", LOOKS[0])])
def test_bounds_and_patterns(before: str, look: str, search: bool) -> None:
    """The texts of the patterns, of the lengths that were found, are those of the pattern."""
    for rest in RESTS:
        pattern = before + look + rest
        split = split_length(pattern, search=search)
        if split is None:
            anchored = not search or "^" in before or "(?=^" in look
            assert not anchored or pattern == look, pattern
            continue
        whole = regex_dfa(pattern, search=search)
        parts = [regex_dfa(part, search=search) for part in split.patterns]
        for text in TEXTS:
            within = split.minimum <= len(text) and (split.maximum < 0 or len(text) <= split.maximum)
            assert accepts(whole, text) == (within and all(accepts(part, text) for part in parts)), (pattern, split, text)


@pytest.mark.parametrize("pattern", OTHERS)
def test_what_is_none(pattern: str) -> None:
    """Lookaheads that are read as any other."""
    assert split_length(pattern, search=True) is None


def taken(grammar: CompiledGrammar) -> set[str]:
    """The texts that a grammar takes, the strings of JSON without their quotes."""

    def takes(text: str) -> bool:
        matcher = grammar.matcher()
        return matcher.accept_bytes((text if grammar.stats.kind == "regex" else json.dumps(text)).encode()) and matcher.is_completed()

    return set(filter(takes, TEXTS))


@pytest.mark.parametrize("look", LOOKS)
def test_grammars(look: str) -> None:
    """Regular expressions, patterns of a JSON Schema and their negation take the texts that the automaton takes."""
    compiler = Compiler(Vocabulary.from_bytes([bytes([byte]) for byte in range(256)], stop_token_ids=[0]))
    for rest in RESTS:
        pattern = f"^{look}{rest}"
        whole, found = (regex_dfa(pattern, search=search) for search in (False, True))
        expected = {text for text in TEXTS if accepts(whole, text)}
        if expected:
            assert taken(compiler.regex(pattern)) == expected, pattern
        expected = {text for text in TEXTS if accepts(found, text)}
        if expected:
            assert taken(compiler.json_schema({"type": "string", "pattern": pattern})) == expected, pattern
        assert taken(compiler.json_schema({"type": "string", "not": {"pattern": pattern}})) == {*TEXTS} - expected, pattern


def test_host_names() -> None:
    """The length costs no states: 253 characters of labels of at most 63 take those of the labels."""
    labels = r"([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}$"
    nodes = regex_grammar(f"^(?=.{{4,253}}$){labels}").nodes
    assert [node[4:] for node in nodes if node[0] == AUTOMATON] == [(0, 253)]
    assert max(len(node[1]) for node in nodes if node[0] == AUTOMATON) == len(regex_dfa(f"^{labels}", search=False).accepting)


@pytest.fixture
def any_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short lengths are counted, too."""
    monkeypatch.setattr(length_ahead, "_MANY", 1)


@pytest.mark.usefixtures("any_count")
@pytest.mark.parametrize("ahead", AHEAD)
def test_a_repeated_class(ahead: str) -> None:
    """The pattern with any number, and the number as bounds, are the texts of the pattern, as a whole and in search."""
    compiler = Compiler(Vocabulary.from_bytes([bytes([byte]) for byte in range(256)], stop_token_ids=[0]))
    split_up = 0
    for repeated in REPEATED:
        pattern = f"^{ahead}{repeated}$"
        whole = regex_dfa(pattern, search=True)
        expected = {text for text in TEXTS if accepts(whole, text)}
        for search, form in ((True, pattern), (False, pattern), (False, f"{ahead}{repeated}")):
            split = split_length(form, search=search)
            if split is None:
                continue
            split_up += 1
            parts = [regex_dfa(part, search=search) for part in split.patterns]
            within = [text for text in TEXTS if split.minimum <= len(text) and (split.maximum < 0 or len(text) <= split.maximum)]
            assert {text for text in within if all(accepts(part, text) for part in parts)} == expected, (form, split)
        if expected:
            assert taken(compiler.regex(pattern)) == expected, pattern
            assert taken(compiler.json_schema({"type": "string", "pattern": pattern})) == expected, pattern
        assert taken(compiler.json_schema({"type": "string", "not": {"pattern": pattern}})) == {*TEXTS} - expected, pattern
    assert split_up == 3 * len(REPEATED[:-2])


@pytest.mark.usefixtures("any_count")
@pytest.mark.parametrize("pattern", NOT_REPEATED)
def test_what_is_no_repeated_class(pattern: str) -> None:
    """Patterns that are read as any other."""
    assert split_length(pattern, search=True) is None


def test_passwords() -> None:
    """The length costs no states from 16 characters on: passwords of 8 to 128 have those of any length."""
    ahead = r"(?=.*[a-z])(?=.*[A-Z])(?=.*\d)"
    assert split_length(f"^{ahead}.{{8,15}}$", search=True) is None
    for low, high, written in ((8, 16, "{8,16}"), (16, -1, "{16,}"), (128, 128, "{128}")):
        (node,) = (node for node in regex_grammar(f"{ahead}.{written}").nodes if node[0] == AUTOMATON)
        assert node[4:] == (low, high)
        assert len(node[1]) == len(regex_dfa(f"{ahead}.*", search=False).accepting)


def test_forbidden_words() -> None:
    """Hundreds of whole words that a text may not hold, in any case, cost about as much as their trie, whatever the length of the text."""
    words = [f"spam{number}" for number in range(300)]
    pattern = rf"(?i)^(?!.*\b(?:{'|'.join(words)})\b)[\w .,]{{1,280}}$"
    grammar = regex_grammar(pattern, limits=Limits(compile_work=150_000))
    texts = {
        "a spam17, b": False,
        "SPAM299": False,
        "spam300": True,
        "xspam1": True,
        "spam1x": True,
        "spam 1": True,
        "": False,
        "a" * 281: False,
    }
    compiler = Compiler(Vocabulary.from_bytes([bytes([byte]) for byte in range(256)], stop_token_ids=[0]))
    assert grammar == regex_grammar(pattern)
    for text, is_right in texts.items():
        matcher = compiler.regex(pattern).matcher()
        assert (matcher.accept_bytes(text.encode()) and matcher.is_completed()) == is_right, text
