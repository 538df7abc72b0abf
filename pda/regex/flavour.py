r"""The differences between the two languages of regular expressions that the parser reads.

    ECMA      ECMA-262 with flag `u` or `v`, which JSON Schema names, and of Python's syntax what ECMA-262 gives no other meaning
    PYTHON    the syntax of Python's `re`, in which the terminals of Lark are written

                           ECMA                                     PYTHON
    .                      stops at \n \r \u2028 \u2029             stops at \n
    $                      the very end                             also before a last \n
    \A \Z \z               start, end, end                          start, end, refused
    \d \w \s \b            ASCII; \s holds Unicode's blanks         Unicode; ASCII under flag a
    (?i)                   the simple case folding of Unicode       that, and I i İ ı are one letter
    {,}                    refused                                  any number of times
    (?<n>...)              a named group                            refused; (?P<n>...) is one in both
    a|bc|d                 one set for a and d: any order will do   the order of the alternatives is kept

Classes and escapes are read by char_class.py and python_class.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ..automata.charset import CharSet, case_closure, complement
from . import char_class, python_class
from .ast import Place
from .char_class import LINE_TERMINATORS, WORD, ClassMatch
from .flags import ASCII_ONLY, DOT_ALL, IGNORE_CASE, MULTILINE, VERBOSE

_SWITCHES: Final = {"i": (IGNORE_CASE, 0), "s": (DOT_ALL, 0), "m": (MULTILINE, 0), "x": (VERBOSE, 0)}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Flavour:
    """One language of regular expressions, where it differs from the other; `flags` are those in force."""

    switches: Mapping[str, tuple[int, int]]
    """By the letter of a flag, the bits that it sets and those that it clears."""
    lasting: str
    """Flags that cannot be switched off."""
    flag_names: str
    dot: CharSet
    """The characters that `.` reads without flag s."""
    end: Place
    """Where `$` holds without flag m."""
    anchors: Mapping[str, Place]
    """By the letter of its escape."""
    groups: str
    """The kinds of groups that there are, for an error message."""
    short_names: bool
    """Whether (?<name>...) names a group."""
    open_count: bool
    """Whether {,} is a quantifier."""
    ordered: bool
    """Whether earlier alternatives are preferred, so that the order has to be kept."""
    back_reference: re.Pattern[str]
    """The texts behind a backslash that are a back-reference."""
    word: Callable[[int], CharSet]
    r"""flags -> the characters that \b takes for parts of words"""
    any_case: Callable[[CharSet, int], CharSet]
    """(chars, flags) -> the characters that differ from these by case only"""
    escaped_set: Callable[[str, int, int], tuple[CharSet, int] | None]
    """(pattern, index of the letter, flags) -> the set of a class escape and the index after it; None for another escape"""
    escaped_character: Callable[[str, int], tuple[int, int]]
    """(pattern, index of the letter) -> the code point of a character escape and the index after it"""
    read_class: Callable[[str, int, int], ClassMatch]
    """(pattern, index of `[`, flags) -> the class"""


ECMA: Final = Flavour(
    switches={**_SWITCHES, "u": (0, 0)},
    lasting="u",
    flag_names="i (any case), s (dot is any character), m (lines) and x (blanks)",
    dot=complement(LINE_TERMINATORS),
    end=Place.END,
    anchors={"A": Place.START, "z": Place.END, "Z": Place.END},
    groups="(?:...), (?=...), (?!...), (?<=...), (?<!...), (?<name>...) and (?ims-x:...)",
    short_names=True,
    open_count=False,
    ordered=False,
    back_reference=re.compile("[1-9kg]"),
    word=lambda flags: case_closure(WORD) if flags & IGNORE_CASE else WORD,
    any_case=lambda chars, _: case_closure(chars),
    escaped_set=char_class.escaped_set,
    escaped_character=char_class.escaped_character,
    read_class=char_class.read_class,
)
PYTHON: Final = Flavour(
    switches={**_SWITCHES, "a": (ASCII_ONLY, 0), "u": (0, ASCII_ONLY)},
    lasting="au",
    flag_names="a (ASCII), i (any case), m (lines), s (dot is any character), u (Unicode) and x (blanks)",
    dot=complement((10, 10)),
    end=Place.LAST_LINE_END,
    anchors={"A": Place.START, "Z": Place.END},
    groups="(?:...), (?=...), (?!...), (?<=...), (?<!...), (?P<name>...), (?>...) and (?aims-x:...)",
    short_names=False,
    open_count=True,
    ordered=True,
    back_reference=re.compile("(?![1-3][0-7]{2})[1-9]"),
    word=python_class.word,
    any_case=python_class.any_case,
    escaped_set=python_class.escaped_set,
    escaped_character=python_class.escaped_character,
    read_class=python_class.read_class,
)
