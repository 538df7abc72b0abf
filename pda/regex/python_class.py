r"""Character classes and escapes of Python's `re`, in which the terminals of Lark are written.

    \d \w \s    Unicode's digits, letters and blanks as `str` knows them; ASCII under flag a
    [a&&b]      a, & and b: classes have no operators          ]       plain as the first member of a class
    (?i)        as `re` does it: I, i, İ and ı are all one; with flag a only ASCII letters have cases

char_class.py is the same for ECMA-262.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

from ..automata.charset import ASCII, CharSet, case_closure, complement, from_chars, from_ranges, intersection, union
from ..automata.unicode import property_set
from .char_class import DIGITS, WORD, ClassMatch, Fault
from .flags import ASCII_ONLY, IGNORE_CASE

_BLANK: Final[CharSet] = (0x09, 0x0D, 0x20, 0x20)
# str.isspace
_SPACE: Final[CharSet] = (
    *(0x09, 0x0D, 0x1C, 0x20, 0x85, 0x85, 0xA0, 0xA0, 0x1680, 0x1680, 0x2000, 0x200A),
    *(0x2028, 0x2029, 0x202F, 0x202F, 0x205F, 0x205F, 0x3000, 0x3000),
)
_LETTERS_I: Final = from_chars("Iiİı")
_CONTROLS: Final = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_CODE: Final = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(0[0-7]{0,2}|[1-3][0-7]{2})|N\{([^}]*)\}")


def any_case(chars: CharSet, flags: int) -> CharSet:
    """The set with every character that `re` identifies with a member under flag i; with flag a, only letters of ASCII have cases.

    >>> any_case((0x69, 0x69), 0) == (0x49, 0x49, 0x69, 0x69, 0x130, 0x131)
    True
    """
    if flags & ASCII_ONLY:
        return union(chars, intersection(case_closure(intersection(chars, ASCII)), ASCII))
    chars = case_closure(chars)
    return union(chars, _LETTERS_I) if intersection(chars, _LETTERS_I) else chars


def word(flags: int) -> CharSet:
    r"""The characters of \w."""
    return _word(flags & ASCII_ONLY != 0)


@lru_cache(maxsize=2)
def _word(ascii_only: bool) -> CharSet:
    """Letters and numbers as str.isalnum knows them, and `_`."""
    return WORD if ascii_only else union(_category("L"), _category("N"), (0x5F, 0x5F))


def _category(name: str) -> CharSet:
    """The characters of a general category."""
    chars = property_set(name)
    assert chars is not None
    return chars


def escaped_set(pattern: str, at: int, flags: int) -> tuple[CharSet, int] | None:
    r"""The set of \d, \w, \s or a negation, whose letter stands at `at`, and the index after it; None for another escape."""
    letter = pattern[at : at + 1]
    match letter.lower():
        case "d":
            chars = DIGITS if flags & ASCII_ONLY else _category("Nd")
        case "w":
            chars = word(flags)
        case "s":
            chars = _BLANK if flags & ASCII_ONLY else _SPACE
        case _:
            return None
    return (complement(chars) if letter.isupper() else chars), at + 1


def escaped_character(pattern: str, at: int) -> tuple[int, int]:
    """The code point of a character escape whose letter stands at `at`, and the index after it."""
    match = _CODE.match(pattern, at)
    if match is None:
        letter = pattern[at : at + 1]
        if not letter:
            raise Fault("the pattern ends in a backslash", at - 1)
        if letter not in _CONTROLS and letter.isascii() and letter.isalnum():
            raise Fault(f"unknown escape \\{letter}", at - 1)
        return _CONTROLS.get(letter, ord(letter)), at + 1
    digits, octal, name = match[1] or match[2] or match[3], match[4], match[5]
    if name is None:
        point = int(digits, 16) if digits else int(octal, 8)
    else:
        try:
            point = ord(unicodedata.lookup(name))
        except (KeyError, TypeError):
            raise Fault(f"no character is named {name[:40]}", at - 1) from None
    if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
        raise Fault(f"\\{match[0]} is not a character of any text", at - 1)
    return point, match.end()


def read_class(pattern: str, at: int, flags: int) -> ClassMatch:
    """The class whose `[` stands at `at`.

    >>> read_class("[]a-c]", 0, 0)
    ClassMatch(chars=(93, 93, 97, 99), end=6, doubtful=False, tried=0)
    """
    negated = pattern.startswith("^", at + 1)
    index = first = at + 1 + negated
    ranges: list[tuple[int, int]] = []
    sets: list[CharSet] = []
    while index < len(pattern) and (pattern[index] != "]" or index == first):
        low, index = _member(pattern, index, flags)
        if isinstance(low, tuple):
            sets.append(low)
            continue
        high: int | CharSet = low
        if pattern.startswith("-", index) and not pattern.startswith("-]", index) and index + 1 < len(pattern):
            high, index = _member(pattern, index + 1, flags)
        if isinstance(high, tuple) or high < low:
            raise Fault("this range is in the wrong order, or ends in a set", index)
        ranges.append((low, high))
    if index >= len(pattern):
        raise Fault("this class is not closed", at)
    chars = from_ranges(ranges)
    if flags & IGNORE_CASE:
        chars = any_case(chars, flags)
    chars = union(chars, *sets)
    return ClassMatch(complement(chars) if negated else chars, index + 1, False, 0)


def _member(pattern: str, at: int, flags: int) -> tuple[int | CharSet, int]:
    """One member of a class, a code point or a set, and the index after it."""
    if pattern[at] != "\\":
        return ord(pattern[at]), at + 1
    if pattern.startswith("b", at + 1):
        return 8, at + 2
    found = escaped_set(pattern, at + 1, flags)
    return escaped_character(pattern, at + 1) if found is None else found
