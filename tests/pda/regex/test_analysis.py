"""Lengths and first characters of a pattern's texts, against the texts that `re` finds, for all small patterns."""

from __future__ import annotations

import re
from itertools import product

import pytest

from stackmask.pda.automata.charset import contains
from stackmask.pda.regex.analysis import first_characters, widths
from stackmask.pda.regex.parser import parse

TEXTS = ["".join(letters) for length in range(6) for letters in product("abc", repeat=length)]
ATOMS = ("a", "b", "[bc]", "(?:)")
COUNTS = ("?", "*", "+", "{0}", "{2}", "{0,2}", "{1,2}")
PARTS = [*ATOMS, *(f"(?:{atom}){count}" for atom in ATOMS for count in COUNTS)]
FORMS = ("{}{}", "{}|{}", "(?:{}{})+", "(?:{}|{})*", "(?:{}{})?a", "(?:{}|{}){{0}}b")
PATTERNS = [form.format(*pair) for form in FORMS for pair in product(PARTS, PARTS)]


@pytest.mark.parametrize("slice_", range(8))
def test_small_patterns(slice_: int) -> None:
    """The first characters and the shortest length are exact; up to three characters, the longest is exact too."""
    for pattern in PATTERNS[slice_::8]:
        match = re.compile(pattern).fullmatch
        found = [text for text in TEXTS if match(text)]
        tree = parse(pattern)
        characters = first_characters(tree)
        assert {character for character in "abc" if contains(characters, ord(character))} == {text[0] for text in found if text}, pattern
        shortest, longest = widths(tree)
        assert shortest == min(map(len, found)), pattern
        assert min(longest, 3) == min(max(map(len, found)), 3), pattern
