"""Letters whose case is ignored: every cased character there is, in every form that a pattern has for it, against Python's `re`.

Python takes I, i, İ (U+0130) and ı (U+0131) for one letter. ECMA-262 folds by CaseFolding.txt without its Turkic lines, where the last
two have no other case. That is the only difference between the two, and each reader of patterns keeps to its own language.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache

import pytest
from support.engines import accepts, load_engine, matcher

from stackmask.pda.automata import charset
from stackmask.pda.automata.charset import CharSet
from stackmask.pda.automata.dfa import Dfa
from stackmask.pda.budget import Budget
from stackmask.pda.ebnf import ebnf_grammar
from stackmask.pda.lark import lark_grammar
from stackmask.pda.regex import regex_dfa
from stackmask.pda.regex.first_match import preferred_dfa
from stackmask.pda.regex.parser import parse_python
from stackmask.schema.json_schema import json_schema_grammar

SCALARS = (chr(point) for point in range(0x110000) if not 0xD800 <= point <= 0xDFFF)
CASED = "".join(c for c in SCALARS if not c == c.lower() == c.upper() == c.title() == c.casefold())
ALL_CASED = charset.from_chars(CASED)
TURKIC = "İı"
WIDTH = 3
CHAIN = 12
FORMS: dict[str, Callable[[str], str]] = {
    "literal": re.escape,
    "class": "[{}]".format,
    "range": lambda c: f"[{c}-{re.escape(chr(ord(c) + WIDTH))}]",
    "negated class": "[^{}]".format,
}


@cache
def matched(form: str, flags: str) -> list[CharSet]:
    """For every cased character, which of them all its form matches in Python."""
    # Flag a keeps cases to ASCII; in ranges beyond U+FFFF, and there alone, `re` forgets it.
    chosen = [flags.replace("i", "") if "a" in flags and c > "\uffff" else flags for c in CASED]
    return [charset.from_chars(re.findall(f"(?{its}){FORMS[form](c)}", CASED)) for c, its in zip(CASED, chosen, strict=True)]


def taken(form: str, flags: str, dfa: Callable[[str], Dfa]) -> list[CharSet]:
    """For every cased character, which of them all its form matches by the automaton: those of many forms stand one behind the other."""
    found = []
    for start in range(0, len(CASED), CHAIN):
        forms = [FORMS[form](c) for c in CASED[start : start + CHAIN]]
        automaton = dfa(f"(?{flags})" + "".join(forms))
        assert automaton.accepting == (*(False,) * len(forms), True)
        for row in automaton.transitions[:-1]:
            found.append(charset.intersection(charset.from_ranges((lo, hi) for lo, hi, _ in row), ALL_CASED))
    return found


def differing(found: list[CharSet], expected: list[CharSet]) -> list[str]:
    return [c for c, one, other in zip(CASED, found, expected, strict=True) if one != other]


@pytest.mark.parametrize(("form", "flags"), [*((form, "i") for form in FORMS), ("literal", "ai"), ("class", "ai"), ("range", "ai")])
def test_lark(form: str, flags: str) -> None:
    """A pattern of Lark matches the cased characters that it matches in Python."""
    budget = Budget()
    found = taken(form, flags, lambda pattern: preferred_dfa(parse_python(pattern, budget), budget))
    assert differing(found, matched(form, flags)) == []


@pytest.mark.untraced
@pytest.mark.parametrize("form", FORMS)
def test_ecma(form: str) -> None:
    """A pattern of ECMA-262 does so too, but that the Turkic letters stand for themselves alone."""
    expected = []
    turkic = charset.from_chars(TURKIC)
    for c, found in zip(CASED, matched(form, "i"), strict=True):
        named = charset.from_ranges([(ord(c), ord(c) + (WIDTH if form == "range" else 0))])
        if form == "negated class":
            found = charset.difference(charset.union(found, turkic) if c in "Ii" + TURKIC else found, charset.intersection(named, turkic))
            found = charset.union(found, charset.from_chars("Ii")) if c in TURKIC else found
        elif charset.intersection(found, turkic):
            found = charset.difference(found, charset.difference(turkic, named))
            found = found if charset.intersection(named, charset.from_chars("Ii")) else charset.difference(found, charset.from_chars("Ii"))
        expected.append(found)
    assert differing(taken(form, "i", lambda pattern: regex_dfa(pattern, search=False)), expected) == []


def test_where_the_two_differ() -> None:
    """The Turkic letters are the only ones that the two languages fold differently."""
    closures = [charset.intersection(charset.case_closure((ord(c), ord(c))), ALL_CASED) for c in CASED]
    assert differing(closures, matched("literal", "i")) == ["I", "i", "İ", "ı"]


def test_words() -> None:
    """Words of letters whose two cases are neighbours match in every case, in each language that ignores case."""
    kernel = load_engine("kernel")
    for word in ("škoda", "čáp", "đường", "ĳs", "ǆ", "kůň", "st"):
        forms = {word, word.upper(), word.title()}
        escaped = re.escape(word)
        grammars = [
            json_schema_grammar({"pattern": f"(?i)^{escaped}$", "type": "string"})[0],
            json_schema_grammar({"not": {"not": {"pattern": f"(?i)^{escaped}$"}}, "type": "string"})[0],
            ebnf_grammar(f'root ::= "\\"" "{word}"i "\\""'),
            lark_grammar(f'start: "\\"" "{word}"i "\\""'),
            lark_grammar(f'start: "\\"" /{escaped}/i "\\""'),
        ]
        excluded = json_schema_grammar({"not": {"pattern": f"(?i)^{escaped}$"}, "type": "string"})[0]
        for form in forms:
            text = json.dumps(form, ensure_ascii=False).encode()
            assert [accepts(matcher(kernel, grammar), text) for grammar in grammars] == [True] * len(grammars), form
            assert not accepts(matcher(kernel, excluded), text)


def test_ebnf() -> None:
    """A text in EBNF whose case does not matter takes what ECMA-262 takes, for every cased character."""
    automata = {c: ebnf_grammar(f'root ::= "\\U{ord(c):08X}"i').nodes for c in CASED}
    for c, nodes in automata.items():
        assert charset.case_closure((ord(c), ord(c))) in [node[1] for node in nodes] or len(nodes) == 1, c
