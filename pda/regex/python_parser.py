r"""Regular expressions of Lark grammars, which are Python's, as syntax trees that keep what `re` prefers.

compiler.py reads ECMA-262 and forgets which quantifiers are lazy, since a text either matches as a whole or not.
Here both matter: what `.` `\d` `\w` `\s` `\b` `$` and `[...]` mean in Python, and which of several matches `re.match` finds.

    .           any character but \n               \d \w \s    Unicode's digits, letters and blanks as `str` knows them
    ^ \A        the start; ^ with flag m also after \n          $ \Z    the end, $ also before a last \n, with flag m before any
    [a&&b]      a, & and b: classes have no operations          ]       plain as the first member of a class
    (?i)        as `re` does it: I, i, İ and ı are all one, where ECMA-262 has I and i alone; with flag a only ASCII letters have cases

The tree is an arena: nodes refer to earlier ones by index, the last is the root.
Not supported, since no regular language has them or lark's users do not: back-references, conditions, atomic and possessive groups.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from ..automata.charset import ASCII, CharSet, case_closure, complement, from_chars, from_ranges, intersection, union
from ..automata.unicode import property_set
from ..budget import Budget
from ..exceptions import LimitError, RegexError


class Chars(NamedTuple):
    """One character out of a set."""

    chars: CharSet


class Seq(NamedTuple):
    """One after the other."""

    parts: tuple[int, ...]


class Alt(NamedTuple):
    """Any of the parts, the first preferred."""

    parts: tuple[int, ...]


class Repeat(NamedTuple):
    """A part, `minimum` to `maximum` times, -1 for no bound; as often as possible or, lazy, as seldom."""

    body: int
    minimum: int
    maximum: int
    lazy: bool


class Place(IntEnum):
    """Where an anchor holds."""

    START = 0
    END = 1
    LINE_START = 2
    LINE_END = 3
    LAST_LINE_END = 4


class Anchor(NamedTuple):
    """Nothing, at some place."""

    place: Place


class Boundary(NamedTuple):
    """Nothing, where exactly one of the characters around is in a set; negated, where none or both are."""

    chars: CharSet
    negated: bool


class Look(NamedTuple):
    """Nothing, where a text of the body follows or, behind, ends; negated, where none does."""

    body: int
    behind: bool
    negated: bool


Node: TypeAlias = Chars | Seq | Alt | Repeat | Anchor | Boundary | Look

_FLAGS: Final = frozenset("aimsux")
_DIGITS: Final[CharSet] = (0x30, 0x39)
_WORD: Final[CharSet] = (0x30, 0x39, 0x41, 0x5A, 0x5F, 0x5F, 0x61, 0x7A)
_BLANK: Final[CharSet] = (0x09, 0x0D, 0x20, 0x20)
# str.isspace
_SPACE: Final[CharSet] = (
    *(0x09, 0x0D, 0x1C, 0x20, 0x85, 0x85, 0xA0, 0xA0, 0x1680, 0x1680, 0x2000, 0x200A),
    *(0x2028, 0x2029, 0x202F, 0x202F, 0x205F, 0x205F, 0x3000, 0x3000),
)
_NOT_NEWLINE: Final = complement((10, 10))
_LETTERS_I: Final = from_chars("Iiİı")
LONG: Final = 1 << 62
_CONTROLS: Final = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_CODE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(0[0-7]{0,2}|[1-3][0-7]{2})|N\{([^}]*)\})")
_SETTING: Final = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")
_OPENING: Final = re.compile(r"\((?:\?(?:P<[^\W\d]\w*>|(<?)([=!])|:))?")
_QUANTIFIER: Final = re.compile(r"(?:([*+?])|\{(?:([0-9]+)(,([0-9]*))?|,([0-9]*))\})([?+]?)")


class Flags(NamedTuple):
    """The flags in force at some place."""

    ascii: bool = False
    ignore_case: bool = False
    multiline: bool = False
    dot_all: bool = False
    verbose: bool = False


@dataclass(slots=True)
class _Group:
    """An open group: its finished branches, the branch being read, and what it becomes."""

    flags: Flags
    position: int
    look: tuple[bool, bool] | None = None
    branches: list[int] = field(default_factory=list)
    parts: list[int] = field(default_factory=list)
    repeatable: bool = False


def parse(pattern: str, budget: Budget) -> list[Node]:
    """The syntax tree of a pattern.

    >>> parse("a|b+?", Budget())[-1]
    Alt(parts=(1, 4))
    """
    return _Parser(pattern, budget).run()


class _Parser:
    """One pass over a pattern with a stack of open groups."""

    def __init__(self, pattern: str, budget: Budget) -> None:
        self.pattern = pattern
        self.budget = budget
        self.at = 0
        self.nodes: list[Node] = []
        self.groups = [_Group(Flags(), 0)]

    def run(self) -> list[Node]:
        """The tree."""
        pattern = self.pattern
        while self.at < len(pattern):
            group = self.groups[-1]
            character = pattern[self.at]
            if not len(self.nodes) & 0x3FF:
                self.budget.check_positions(len(self.nodes))
            if group.flags.verbose and (character.isspace() or character == "#"):
                end = pattern.find("\n", self.at) if character == "#" else self.at
                self.at = len(pattern) if end < 0 else end + 1
            elif character in "*+?{" and self.quantifier():
                continue
            elif character == "(":
                self.open()
            elif character == ")":
                self.close()
            elif character == "|":
                self.at += 1
                self.branch()
            else:
                group.parts.append(self.single(character))
                group.repeatable = True
        if len(self.groups) > 1:
            self.at = self.groups[-1].position
            raise self.error("this group has no closing )")
        self.finish()
        return self.nodes

    def error(self, message: str) -> RegexError:
        """An error at the current place."""
        return RegexError(message, self.pattern, self.at)

    def node(self, node: Node) -> int:
        """The index of a new node."""
        self.nodes.append(node)
        return len(self.nodes) - 1

    def branch(self) -> None:
        """End the branch being read."""
        group = self.groups[-1]
        group.branches.append(self.node(Seq(tuple(group.parts))))
        group.parts = []
        group.repeatable = False

    def finish(self) -> int:
        """The node of the innermost group, whose text has ended."""
        self.branch()
        branches = self.groups[-1].branches
        return branches[0] if len(branches) == 1 else self.node(Alt(tuple(branches)))

    def open(self) -> None:
        """The start of a group, a comment, or flags for the rest of a group."""
        pattern, at, flags = self.pattern, self.at, self.groups[-1].flags
        if pattern.startswith("(?#", at):
            end = pattern.find(")", at)
            if end < 0:
                raise self.error("this comment has no closing )")
            self.at = end + 1
            return
        setting = _SETTING.match(pattern, at)
        if setting:
            flags = self.changed(flags, setting.group(1), setting.group(2) or "")
            self.at = setting.end()
            if setting.group(3) == ")":
                self.groups[-1].flags = flags
                return
            self.groups.append(_Group(flags, at))
        else:
            opening = _OPENING.match(pattern, at)
            assert opening is not None
            if opening.group() == "(" and pattern.startswith("(?", at):
                raise self.error(f"a group that begins with {pattern[at : at + 4]} is not supported")
            look = (opening.group(1) == "<", opening.group(2) == "!") if opening.group(2) else None
            self.groups.append(_Group(flags, at, look))
            self.at = opening.end()
        deepest = self.budget.limits.nesting
        if len(self.groups) > deepest:
            raise LimitError(f"groups are nested more than {deepest} deep", limit="nesting", value=deepest)

    def close(self) -> None:
        """The end of a group."""
        if len(self.groups) == 1:
            raise self.error("this ) closes nothing")
        inner = self.finish()
        look = self.groups.pop().look
        group = self.groups[-1]
        group.parts.append(inner if look is None else self.node(Look(inner, *look)))
        group.repeatable = look is None
        self.at += 1

    def changed(self, flags: Flags, on: str, off: str) -> Flags:
        """The flags with some switched on and off."""
        unknown = set(on + off) - _FLAGS
        if unknown:
            raise self.error(f"flag {min(unknown)} is not supported; there are a, i, m, s, u and x")
        names = {"a": "ascii", "i": "ignore_case", "m": "multiline", "s": "dot_all", "x": "verbose"}
        changes = {name: letter in on for letter, name in names.items() if letter in on + off}
        if "u" in on:
            changes["ascii"] = False
        return flags._replace(**changes)

    def quantifier(self) -> bool:
        """Apply a quantifier to the last part; False where the character is a plain one, as in `{x`."""
        match = _QUANTIFIER.match(self.pattern, self.at)
        if match is None:
            return False
        group = self.groups[-1]
        if not group.repeatable:
            raise self.error("nothing stands before this quantifier that it could repeat")
        operator, low, comma, high, most, mode = match.groups()
        if mode == "+":
            raise self.error("possessive quantifiers are not supported")
        if max(map(len, (low or "", high or "", most or ""))) > 9:
            raise LimitError(f"the repetition {match.group()[:40]} is too large", limit="states", value=self.budget.limits.states)
        if operator:
            minimum, maximum = {"*": (0, -1), "+": (1, -1), "?": (0, 1)}[operator]
        elif most is not None:
            minimum, maximum = 0, int(most or -1)
        else:
            minimum = int(low)
            maximum = int(high or -1) if comma else minimum
        if 0 <= maximum < minimum:
            raise self.error("the bounds of this quantifier are in the wrong order")
        group.parts[-1] = self.node(Repeat(group.parts[-1], minimum, maximum, mode == "?"))
        group.repeatable = False
        self.at = match.end()
        return True

    def single(self, character: str) -> int:
        """One piece that is neither a group nor a quantifier."""
        flags = self.groups[-1].flags
        if character == "\\":
            return self.escape(flags)
        if character == "[":
            return self.node(Chars(self.char_class(flags)))
        self.at += 1
        match character:
            case ".":
                return self.node(Chars((0, 0xD7FF, 0xE000, 0x10FFFF) if flags.dot_all else _NOT_NEWLINE))
            case "^":
                return self.node(Anchor(Place.LINE_START if flags.multiline else Place.START))
            case "$":
                return self.node(Anchor(Place.LINE_END if flags.multiline else Place.LAST_LINE_END))
        return self.character(ord(character), flags)

    def character(self, point: int, flags: Flags) -> int:
        """A plain character."""
        chars = (point, point)
        return self.node(Chars(any_case(chars, flags.ascii) if flags.ignore_case else chars))

    def escape(self, flags: Flags) -> int:
        """An escape outside of a class."""
        letter = self.pattern[self.at + 1 : self.at + 2]
        chars = shorthand(letter, flags)
        if chars is not None:
            self.at += 2
            return self.node(Chars(chars))
        if letter in ("b", "B", "A", "Z"):
            self.at += 2
            if letter in "bB":
                return self.node(Boundary(_word(flags.ascii), letter == "B"))
            return self.node(Anchor(Place.START if letter == "A" else Place.END))
        if letter.isdigit() and not _CODE.match(self.pattern, self.at):
            raise self.error("a back-reference describes no regular language")
        return self.character(self.code_point(), flags)

    def code_point(self) -> int:
        """The character that an escape stands for; moves past it."""
        match = _CODE.match(self.pattern, self.at)
        if match is None:
            letter = self.pattern[self.at + 1 : self.at + 2]
            if not letter:
                raise self.error("the pattern ends in a backslash")
            if letter not in _CONTROLS and letter.isascii() and letter.isalnum():
                raise self.error(f"unknown escape \\{letter}")
            self.at += 2
            return _CONTROLS.get(letter, ord(letter))
        digits = match.group(1) or match.group(2) or match.group(3)
        name = match.group(5)
        if name is None:
            point = int(digits, 16) if digits else int(match.group(4), 8)
        else:
            try:
                point = ord(unicodedata.lookup(name))
            except (KeyError, TypeError):
                raise self.error(f"no character is named {name[:40]}") from None
        if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
            raise self.error(f"{match.group()} is no character of any text")
        self.at = match.end()
        return point

    def char_class(self, flags: Flags) -> CharSet:
        """The set of a class [...]; moves past it."""
        pattern, start = self.pattern, self.at
        negated = pattern.startswith("^", start + 1)
        self.at = first = start + 1 + negated
        ranges: list[tuple[int, int]] = []
        sets: list[CharSet] = []
        while self.at < len(pattern) and (pattern[self.at] != "]" or self.at == first):
            low = self.member(flags)
            if isinstance(low, tuple):
                sets.append(low)
                continue
            high: int | CharSet = low
            if pattern.startswith("-", self.at) and not pattern.startswith("-]", self.at) and self.at + 1 < len(pattern):
                self.at += 1
                high = self.member(flags)
            if isinstance(high, tuple) or high < low:
                raise self.error("this range is in the wrong order, or ends in a set")
            ranges.append((low, high))
        if self.at >= len(pattern):
            self.at = start
            raise self.error("this class is not closed")
        self.at += 1
        chars = from_ranges(ranges)
        if flags.ignore_case:
            chars = any_case(chars, flags.ascii)
        chars = union(chars, *sets)
        return complement(chars) if negated else chars

    def member(self, flags: Flags) -> int | CharSet:
        """One character or set inside a class; moves past it."""
        if self.pattern[self.at] != "\\":
            self.at += 1
            return ord(self.pattern[self.at - 1])
        letter = self.pattern[self.at + 1 : self.at + 2]
        chars = shorthand(letter, flags)
        if chars is None and letter != "b":
            return self.code_point()
        self.at += 2
        return 8 if chars is None else chars


def any_case(chars: CharSet, ascii_only: bool = False) -> CharSet:
    """The set with every character that `re` takes for one of its own under flag i; with flag a, only letters of ASCII have cases.

    >>> any_case((0x69, 0x69)) == (0x49, 0x49, 0x69, 0x69, 0x130, 0x131)
    True
    """
    if ascii_only:
        return union(chars, intersection(case_closure(intersection(chars, ASCII)), ASCII))
    chars = case_closure(chars)
    return union(chars, _LETTERS_I) if intersection(chars, _LETTERS_I) else chars


def shorthand(letter: str, flags: Flags) -> CharSet | None:
    r"""The set behind \d \w \s or their negations, by the letter."""
    match letter.lower():
        case "d":
            chars = _DIGITS if flags.ascii else _category("Nd")
        case "w":
            chars = _word(flags.ascii)
        case "s":
            chars = _BLANK if flags.ascii else _SPACE
        case _:
            return None
    return complement(chars) if letter.isupper() else chars


@lru_cache(maxsize=2)
def _word(ascii_only: bool) -> CharSet:
    r"""What \w stands for: letters and numbers as str.isalnum knows them, and `_`."""
    return _WORD if ascii_only else union(_category("L"), _category("N"), (0x5F, 0x5F))


def _category(name: str) -> CharSet:
    """The characters of a general category."""
    chars = property_set(name)
    assert chars is not None
    return chars


def widths(nodes: list[Node]) -> tuple[int, float]:
    """The lengths of the shortest and the longest text.

    >>> widths(parse("a|bc{2,}", Budget()))
    (1, inf)
    """
    found: list[tuple[int, float]] = []
    for node in nodes:
        match node:
            case Chars():
                found.append((1, 1))
            case Seq(parts):
                found.append((sum(found[part][0] for part in parts), sum(found[part][1] for part in parts)))
            case Alt(parts):
                found.append((min(found[part][0] for part in parts), max(found[part][1] for part in parts)))
            case Repeat(body, minimum, maximum):
                low, high = found[body]
                most = float("inf") if maximum < 0 else maximum
                # Capped, since nested bounds multiply to numbers of any size; no text is that long.
                longest = high * most if high and most else 0
                found.append((min(low * minimum, LONG), longest if longest < LONG else float("inf")))
            case _:
                found.append((0, 0))
    return found[-1]


def first_characters(nodes: list[Node]) -> CharSet:
    """Characters that hold all with which a text may begin.

    >>> first_characters(parse("a?b|c", Budget()))
    (97, 99)
    """
    found: list[tuple[bool, CharSet]] = []
    for node in nodes:
        match node:
            case Chars(chars):
                found.append((False, chars))
            case Seq(parts):
                leading = list(parts[:1])
                for part, following in pairwise(parts):
                    if not found[part][0]:
                        break
                    leading.append(following)
                found.append((all(found[part][0] for part in parts), union(*(found[part][1] for part in leading)) if leading else ()))
            case Alt(parts):
                found.append((any(found[part][0] for part in parts), union(*(found[part][1] for part in parts))))
            case Repeat(body, minimum, maximum):
                found.append((minimum == 0 or found[body][0], found[body][1] if maximum else ()))
            case _:
                found.append((True, ()))
    return found[-1][1]
