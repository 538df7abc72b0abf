"""Code point sets against sets of integers, and Unicode properties against the `unicodedata` and `regex` of the test environment."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmask.pda.automata import charset
from stackmask.pda.automata.char_classes import Labels
from stackmask.pda.automata.charset import ANY, CharSet
from stackmask.pda.automata.unicode import property_set

SMALL = 40
ranges = st.lists(st.tuples(st.integers(0, SMALL), st.integers(0, 6)).map(lambda pair: (pair[0], pair[0] + pair[1])), max_size=6)


def members(chars: CharSet) -> set[int]:
    return {point for lo, hi in charset.pairs(chars) for point in range(lo, hi + 1)}


def is_canonical(chars: CharSet) -> bool:
    return all(hi >= lo for lo, hi in charset.pairs(chars)) and all(lo > hi + 1 for hi, lo in zip(chars[1::2], chars[2::2], strict=False))


@given(ranges, ranges)
def test_algebra(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    """Each operation does what it does to sets of integers, and its result is canonical."""
    one, other = charset.from_ranges(left), charset.from_ranges(right)
    a, b = members(one), members(other)
    assert a == {point for lo, hi in left for point in range(lo, hi + 1)}
    for found, expected in (
        (charset.union(one, other), a | b),
        (charset.intersection(one, other), a & b),
        (charset.difference(one, other), a - b),
    ):
        assert members(found) == expected
        assert is_canonical(found)
    assert charset.size(one) == len(a)
    assert [point for point in range(SMALL + 10) if charset.contains(one, point)] == sorted(a)
    assert charset.complement(charset.complement(one)) == one
    assert charset.intersection(charset.complement(one), one) == ()
    assert charset.union(charset.complement(one), one) == ANY


@given(st.lists(ranges.map(charset.from_ranges), max_size=4))
def test_partition(sets: list[CharSet]) -> None:
    """The classes are disjoint, cover all sets, and no set cuts one; two characters in the same sets are in the same class."""
    labels = Labels()
    numbers = tuple(dict.fromkeys(labels.intern(one) for one in sets if one))
    classes = labels.partition(numbers)
    found = [members(labels.sets[part]) for part, _ in classes]
    assert sum(map(len, found)) == len(set().union(*found)) == len(set().union(*map(members, sets)))
    for part, holders in classes:
        assert is_canonical(labels.sets[part])
        assert sorted(number for number in numbers if members(labels.sets[number]) & members(labels.sets[part])) == sorted(holders)
        assert all(members(labels.sets[part]) <= members(labels.sets[number]) for number in holders)
    assert len({holders for _, holders in classes}) == len(classes)


def test_no_surrogates() -> None:
    """A surrogate is in no set."""
    assert charset.from_ranges([(0xD000, 0xE001)]) == (0xD000, 0xD7FF, 0xE000, 0xE001)
    assert charset.from_ranges([(0xD800, 0xDFFF)]) == ()
    assert charset.complement(()) == ANY
    assert charset.size(ANY) == 0x110000 - 0x800


def test_case_closure_is_complete() -> None:
    """Two characters are one in the closure exactly when their case foldings are equal."""
    folded: dict[str, list[int]] = {}
    for point in (*range(0xD800), *range(0xE000, 0x20000)):
        folded.setdefault(chr(point).casefold(), []).append(point)
    beyond = "".join(map(chr, range(0x20000, 0x110000)))
    assert beyond.casefold() == beyond
    groups = {tuple(points) for points in folded.values() if len(points) > 1}
    assert groups == {tuple(group) for group in charset._case_groups()[0]}
    for points in sorted(groups)[::40]:
        for point in points:
            assert members(charset.case_closure((point, point))) == set(points)
    assert charset.case_closure((0x30, 0x39)) == (0x30, 0x39)


@pytest.mark.parametrize(
    "category", ["Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Nd", "Nl", "No", "Pc", "Pd", "Po", "Sc", "Sm", "Zs", "Cc", "Cf"]
)
def test_categories(category: str) -> None:
    """Every character that the older tables of the standard library put into a category is in it."""
    chars = property_set(category)
    assert chars is not None
    older = {point for point in range(0x110000) if unicodedata.category(chr(point)) == category}
    # A handful of characters changed their category between Unicode 14 and 17.
    assert len(older - members(chars)) <= 3
    assert len(members(chars) - older) <= 30_000


@pytest.mark.parametrize(
    "name",
    [
        "L",
        "Letter",
        "M",
        "N",
        "P",
        "S",
        "Z",
        "C",
        "LC",
        "sc=Latn",
        "Script=Han",
        "scx=Deva",
        "Emoji",
        "ID_Start",
        "XID_Continue",
        "Uppercase",
    ],
)
def test_properties_against_regex(name: str) -> None:
    """A property holds the characters that the package `regex` says it holds."""
    regex = pytest.importorskip("regex")
    chars = property_set(name)
    assert chars is not None
    text = "".join(map(chr, (*range(0, 0xD800), *range(0xE000, 0x20000), *range(0xE0000, 0xE0200), 0x10FFFF)))
    expected = {ord(character) for character in regex.findall(f"\\p{{{name}}}", text)}
    assert members(chars) & set(map(ord, text)) == expected


def test_property_names() -> None:
    """Names are compared without case, blanks, hyphens and underscores; an unknown one is None."""
    assert property_set("general_category = uppercase-letter") == property_set("Lu")
    assert property_set("Any") == ANY
    assert property_set("ASCII") == (0, 0x7F)
    assert charset.union(property_set("Assigned") or (), property_set("Cn") or ()) == ANY
    assert property_set("sc=Nope") is None
    assert property_set("nope=Latin") is None
    assert property_set("") is None
