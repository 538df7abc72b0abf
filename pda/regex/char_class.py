r"""Character classes and escapes of ECMA-262: `[...]`, class escapes and character escapes.

Where ECMA-262 and Python disagree about a class, ECMA-262 with flag `v` decides, or the class is refused:

    []  [^]            nothing, anything (ECMA-262); so `]` as the first member has to be written `\]`
    \d  \w             ASCII (ECMA-262); under flag `i` also what folds to a member (`ſ` and the Kelvin sign for \w)
    \s                 ECMA-262 WhiteSpace and LineTerminator
    [a&&b]             intersection, wherever `&&` stands between two operands
    [a--[b]]  [a--\d]  difference, where a class follows; else `--` is a hyphen and a range, as in `[+--]`
    [[...]...]         a nested class where `&&` or `--` is applied in the class, else `[` is a plain member, as in `[[({]`
    [[:alpha:]]        a POSIX class, ASCII
    [\w-.]             a hyphen beside a class escape is a member
    [^x] under `i`     everything but x in either case (flag `v`)

In a class without operators `[` is a member, so `[a[b]]` would be a class followed by a plain `]`; the parser refuses such a `]`.
python_class.py is the same for Python.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from ..automata.charset import CharSet, case_closure, complement, difference, from_ranges, intersection, union
from ..automata.unicode import property_set
from .flags import IGNORE_CASE

DIGITS: Final[CharSet] = (0x30, 0x39)
WORD: Final[CharSet] = (0x30, 0x39, 0x41, 0x5A, 0x5F, 0x5F, 0x61, 0x7A)
SPACE: Final[CharSet] = (
    *(0x09, 0x0D, 0x20, 0x20, 0xA0, 0xA0, 0x1680, 0x1680, 0x2000, 0x200A),
    *(0x2028, 0x2029, 0x202F, 0x202F, 0x205F, 0x205F, 0x3000, 0x3000, 0xFEFF, 0xFEFF),
)
LINE_TERMINATORS: Final[CharSet] = (0x0A, 0x0A, 0x0D, 0x0D, 0x2028, 0x2029)

_ESCAPED_SETS: Final = {"d": DIGITS, "w": WORD, "s": SPACE}
_CONTROLS: Final = {"t": 0x09, "n": 0x0A, "v": 0x0B, "f": 0x0C, "r": 0x0D}
_POSIX: Final[dict[str, CharSet]] = {
    "alnum": (0x30, 0x39, 0x41, 0x5A, 0x61, 0x7A),
    "alpha": (0x41, 0x5A, 0x61, 0x7A),
    "ascii": (0x00, 0x7F),
    "blank": (0x09, 0x09, 0x20, 0x20),
    "cntrl": (0x00, 0x1F, 0x7F, 0x7F),
    "digit": DIGITS,
    "graph": (0x21, 0x7E),
    "lower": (0x61, 0x7A),
    "print": (0x20, 0x7E),
    "punct": (0x21, 0x2F, 0x3A, 0x40, 0x5B, 0x60, 0x7B, 0x7E),
    "space": (0x09, 0x0D, 0x20, 0x20),
    "upper": (0x41, 0x5A),
    "word": WORD,
    "xdigit": (0x30, 0x39, 0x41, 0x46, 0x61, 0x66),
}
_UNKNOWN: Final = {
    "A": "\\A is an anchor and stands outside of classes",
    "B": "\\B stands outside of classes; for a hyphenless class write its members",
    "a": r"\a is a bell to some engines and a letter to others; write \x07",
    "e": r"\e is not a portable escape; write \x1b",
    "h": r"\h is not a portable escape; write [\t \xa0] or \p{Zs}",
    "H": r"\H is not a portable escape; write [^\t \xa0] or \P{Zs}",
    "V": r"\V is not a portable escape; write [^\n\v\f\r\x85\u2028\u2029]",
    "R": r"\R is not a portable escape; write (?:\r\n|[\n\v\f\r\x85\u2028\u2029])",
    "N": r"\N is not a portable escape; write . or the character itself",
    "X": r"\X (a grapheme) is not supported",
    "K": r"\K (start of the match) is not supported; write a lookbehind (?<=...)",
    "G": r"\G (end of the last match) is not supported",
    "Q": r"\Q...\E is not supported; escape the characters one by one",
    "E": r"\Q...\E is not supported; escape the characters one by one",
    "q": r"\q{...} (strings in a class) is not supported; write an alternation (?:...|...)",
    "u": r"\u takes four hexadecimal digits, or braces as in \u{1F600}",
    "x": r"\x takes two hexadecimal digits, or braces as in \x{1F600}",
    "c": r"\c takes a letter A to Z",
    "p": r"\p takes a property in braces, as in \p{Letter} or \p{Script=Greek}",
    "P": r"\P takes a property in braces, as in \P{Letter} or \P{Script=Greek}",
}

_HEX: Final = re.compile(r"u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|[ux]\{([0-9A-Fa-f]+)\}")
_PROPERTY: Final = re.compile(r"[pP](?:\{([^{}\\]*)\}|([LMNPSZC]))")
_SIMPLE: Final = re.compile(r"\[(\^?)((?:[^\\\[\]]|\\.)*+)\]", re.DOTALL)
_POSIX_CLASS: Final = re.compile(r"\[:(\^?)([a-z]+):\]")
_DIFFERENCE: Final = re.compile(r"--(?=\[|\\[dDwWsSpP])")


class Fault(Exception):  # noqa: N818 - it never leaves the parser, which turns it into a RegexError
    """A mistake at a place of the pattern."""

    def __init__(self, message: str, position: int) -> None:
        self.message = message
        self.position = position
        super().__init__(message)


class ClassMatch(NamedTuple):
    """A class that was read.

    `doubtful` says that `[` was taken as a plain member, or that `]` could have been one; `tried` counts the characters that were read
    in search of the other reading.
    """

    chars: CharSet
    end: int
    doubtful: bool
    tried: int


def escaped_set(pattern: str, at: int, flags: int) -> tuple[CharSet, int] | None:
    r"""The set of a class escape (`\d`, `\P{...}`) whose letter stands at `at`, and the index after it; None for another escape."""
    letter = pattern[at : at + 1]
    if letter in ("p", "P"):
        match = _PROPERTY.match(pattern, at)
        if match is None:
            raise Fault(_UNKNOWN[letter], at - 1)
        name = match[1] or match[2] or ""
        chars = property_set(name)
        if chars is None:
            raise Fault(
                f"no Unicode property {name!r}; available: general categories (Lu, Letter), scripts (Script=Greek, scx=Grek) "
                "and binary properties (Alphabetic, Emoji)",
                at - 1,
            )
        end = match.end()
    elif letter and letter in "dDwWsS":
        chars, end = _ESCAPED_SETS[letter.lower()], at + 1
    else:
        return None
    if flags & IGNORE_CASE:
        chars = case_closure(chars)
    return (complement(chars) if letter.isupper() else chars), end


def escaped_character(pattern: str, at: int) -> tuple[int, int]:
    """The code point of a character escape whose letter stands at `at`, and the index after it."""
    letter = pattern[at : at + 1]
    if not letter:
        raise Fault(r"the pattern ends in a lone \; for the character write \\", at - 1)
    if letter in _CONTROLS:
        return _CONTROLS[letter], at + 1
    match = _HEX.match(pattern, at)
    if match is not None:
        return _code_point(pattern, at, match)
    if letter == "c" and pattern[at + 1 : at + 2].isascii() and pattern[at + 1 : at + 2].isalpha():
        return ord(pattern[at + 1]) & 0x1F, at + 2
    if letter == "0":
        if pattern[at + 1 : at + 2] in tuple("0123456789"):
            raise Fault(r"octal escapes are not supported; write \xhh", at - 1)
        return 0, at + 1
    if letter in _UNKNOWN:
        raise Fault(_UNKNOWN[letter], at - 1)
    if letter.isascii() and letter.isalnum():
        raise Fault(f"unknown escape \\{letter}" + (r"; octal escapes are written \xhh" if letter.isdigit() else ""), at - 1)
    return ord(letter), at + 1


def _code_point(pattern: str, at: int, match: re.Match[str]) -> tuple[int, int]:
    """A hexadecimal escape; two of them that are a surrogate pair are one character."""
    digits = (match[1] or match[2] or match[3]).lstrip("0")
    point = int(digits or "0", 16) if len(digits) <= 6 else 0x110000
    end = match.end()
    if match[1] and 0xD800 <= point <= 0xDBFF and pattern[end : end + 1] == "\\":
        low = _HEX.match(pattern, end + 1)
        if low is not None and low[1] and 0xDC00 <= int(low[1], 16) <= 0xDFFF:
            return 0x10000 + ((point - 0xD800) << 10) + (int(low[1], 16) - 0xDC00), low.end()
    if point > 0x10FFFF:
        raise Fault("the last code point is 10FFFF", at - 1)
    if 0xD800 <= point <= 0xDFFF:
        raise Fault(r"a lone surrogate is not a character of any text; write a pair such as \uD83D\uDE00, or \u{1F600}", at - 1)
    return point, end


def read_class(pattern: str, at: int, flags: int) -> ClassMatch:
    """The class whose `[` stands at `at`."""
    match = _SIMPLE.match(pattern, at)
    if match is not None and "&&" not in match[2] and _DIFFERENCE.search(match[2]) is None:
        try:
            chars = _members(match[2], flags)
        except Fault as fault:
            raise Fault(fault.message, at + len(match[1]) + 1 + fault.position) from None
        return ClassMatch(complement(chars) if match[1] else chars, match.end(), not match[2], 0)
    nested = _read_nested(pattern, at, flags)
    return _read_plain(pattern, at, flags, nested - at) if isinstance(nested, int) else nested


def _members(body: str, flags: int) -> CharSet:
    """The union of the members of a class without operators and nested classes.

    >>> _members("a-f0-9_", 0)
    (48, 57, 95, 95, 97, 102)
    """
    return _read_members(body, flags & IGNORE_CASE) if len(body) < 200 else _read_members.__wrapped__(body, flags)


# PERF: few classes make up most patterns.
@lru_cache(maxsize=1024)
def _read_members(body: str, flags: int) -> CharSet:
    ranges: list[tuple[int, int]] = []
    sets: list[CharSet] = []
    at = 0
    while at < len(body):
        lo, following = _member(body, at, flags)
        if body[following : following + 1] == "-" and following + 1 < len(body):
            hi, after = _member(body, following + 1, flags)
            if isinstance(lo, int) and isinstance(hi, int):
                if hi < lo:
                    raise Fault(f"the range {body[at:after]} is out of order", at)
                ranges.append((lo, hi))
                at = after
                continue
        if isinstance(lo, int):
            ranges.append((lo, lo))
        else:
            sets.append(lo)
        at = following
    chars = from_ranges(ranges)
    if flags & IGNORE_CASE:
        chars = case_closure(chars)
    return union(chars, *sets) if sets else chars


def _member(text: str, at: int, flags: int) -> tuple[int | CharSet, int]:
    """One member of a class, a code point or a set, and the index after it."""
    if text[at] != "\\":
        return ord(text[at]), at + 1
    if text[at + 1 : at + 2] == "b":
        return 0x08, at + 2
    found = escaped_set(text, at + 1, flags)
    return escaped_character(text, at + 1) if found is None else found


def _read_plain(pattern: str, at: int, flags: int, tried: int) -> ClassMatch:
    """A class in which `[` is a member."""
    end = at + 1
    while end < len(pattern) and pattern[end] != "]":
        end += 2 if pattern[end] == "\\" else 1
    if end >= len(pattern):
        raise Fault("this class has no closing ]", at)
    start = at + 1 + (pattern[at + 1] == "^")
    try:
        chars = _members(pattern[start:end], flags)
    except Fault as fault:
        raise Fault(fault.message, start + fault.position) from None
    return ClassMatch(complement(chars) if start > at + 1 else chars, end + 1, True, tried)


class _Level:
    """A class being read: the part before the last operator, that operator, and the union being collected after it."""

    __slots__ = ("left", "negated", "operator", "sets")

    def __init__(self, negated: bool) -> None:
        self.negated = negated
        self.left: CharSet = ()
        self.operator = ""
        self.sets: list[CharSet] = []

    def close_operand(self, operator: str) -> None:
        """Apply the last operator to the collected set, and begin the operand of the next one."""
        right = union(*self.sets) if self.sets else ()
        match self.operator:
            case "&&":
                self.left = intersection(self.left, right)
            case "--":
                self.left = difference(self.left, right)
            case _:
                self.left = right
        self.operator = operator
        self.sets = []


def _read_nested(pattern: str, at: int, flags: int) -> ClassMatch | int:
    """A class with operators, nested or POSIX classes.

    Where it has no operator or does not close, so that `[` is a plain member, the index where that became clear.
    """
    levels: list[_Level] = []
    operators = 0
    index = at
    while index < len(pattern):
        character = pattern[index]
        posix = _POSIX_CLASS.match(pattern, index) if character == "[" and levels else None
        if posix is not None:
            if posix[2] not in _POSIX:
                raise Fault(f"no POSIX class {posix[2]!r}; available: {', '.join(_POSIX)}", index)
            chars = case_closure(_POSIX[posix[2]]) if flags & IGNORE_CASE else _POSIX[posix[2]]
            levels[-1].sets.append(complement(chars) if posix[1] else chars)
            operators += 1
            index = posix.end()
        elif character == "[":
            negated = pattern[index + 1 : index + 2] == "^"
            levels.append(_Level(negated))
            index += 1 + negated
        elif character == "]":
            level = levels.pop()
            level.close_operand("")
            chars = complement(level.left) if level.negated else level.left
            index += 1
            if not levels:
                return ClassMatch(chars, index, False, 0) if operators else index
            levels[-1].sets.append(chars)
        elif levels[-1].sets and (
            (pattern.startswith("&&", index) and pattern[index + 2 : index + 3] != "]") or _DIFFERENCE.match(pattern, index)
        ):
            levels[-1].close_operand(pattern[index : index + 2])
            operators += 1
            index += 2
        else:
            index = _read_run(pattern, index, flags, levels[-1])
    return index


_RUN_END: Final = re.compile(r"\[|\]|&&|--(?=\[|\\[dDwWsSpP])")


def _read_run(pattern: str, index: int, flags: int, level: _Level) -> int:
    """Members up to the next bracket or operator."""
    end = index
    while end < len(pattern) and (end == index or _RUN_END.match(pattern, end) is None):
        end += 2 if pattern[end] == "\\" else 1
    try:
        level.sets.append(_members(pattern[index:end], flags))
    except Fault as fault:
        raise Fault(fault.message, index + fault.position) from None
    return end
